"""The numbers of a fit for machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..support.errors import WeakformError
from ..support.versions import __version__

if TYPE_CHECKING:
    from ..inference.posterior import Posterior
    from ..results.fit_result import FitResult
    from ..results.records import Quantity


def as_json(result: FitResult) -> dict[str, Any]:
    """The numbers of a fit for machines; numbers that are not finite are null."""
    from ..report.verdict_text import verdict

    def plain(value: float) -> float | None:
        return float(value) if abs(value) < float("inf") else None

    said = verdict(result)
    return {
        "verdict": {"kind": said.kind, "headline": said.headline, "reasons": list(said.reasons)},
        "success": result.success,
        "converged": result.converged,
        "status": result.status.name,
        "method": result.method,
        "parameters": {
            name: {
                "estimate": plain(result[name].value),
                "error": plain(result[name].error),
                "interval": [plain(v) for v in result[name].interval],
                "unit": result.units.get(name, ""),
                "note": result[name].note,
                **({"profile": [plain(v) for v in result.profiles[name].interval]} if name in result.profiles else {}),
            }
            for name in result
        },
        "tied": {name: plain(result.derived(text).value) for name, text in result.tied.items()},
        "sigma": dict(zip(result.data.labels, map(plain, result.sigma), strict=True)),
        "initial": _beginnings(result, plain),
        "alternatives": [
            {"parameters": dict(zip(result, map(plain, other.estimate), strict=True)), "behind": plain(other.behind)}
            for other in result.alternatives
        ],
        "posterior": None if result.posterior is None else _posterior(result.posterior),
        "p_value": None if result.goodness is None else plain(result.goodness.p_value),
        "covariance": [[plain(v) for v in row] for row in result.covariance],
        "r_squared": {name: plain(value) for name, value in result.r_squared.items()},
        "warnings": list(result.warnings),
        "notes": [*result.data.notes, *result.notes],
        "seed": result.seed,
        "weakform": __version__,
    }


def _posterior(posterior: Posterior) -> dict[str, Any]:
    ends = posterior.intervals()
    return {
        "success": posterior.success,
        "trouble": posterior.trouble,
        "quantities": {
            name: {
                "mean": float(posterior[name].mean()),
                "sd": float(posterior[name].std()),
                "interval": list(ends[name]),
                "rhat": posterior.rhat[name],
                "effective": posterior.effective[name],
            }
            for name in posterior
        },
    }


def _beginnings(result: FitResult, plain: Callable[[float], float | None]) -> dict[str, Any]:
    """Initial values by state, or by state and trajectory; nothing where the model cannot be solved over the data."""

    def shown(quantity: Quantity) -> dict[str, Any]:
        return {
            "estimate": plain(quantity.value),
            "error": plain(quantity.error),
            "interval": [plain(value) for value in quantity.interval],
            "note": quantity.note,
        }

    found: dict[str, Any] = {}
    for state in result.model.states:
        try:
            value = result.initial[state]
        except WeakformError:
            return {}
        found[state] = {k: shown(q) for k, q in value.items()} if isinstance(value, dict) else shown(value)
    return found
