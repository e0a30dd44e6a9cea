"""The result of a fit as JSON, for `weakform fit --json`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..support.errors import WeakformError
from ..support.versions import __version__

if TYPE_CHECKING:
    from ..inference.posterior import Posterior
    from ..results.fit_result import FitResult
    from ..results.records import Quantity


def finite_or_none(value: float) -> float | None:
    """Return a number for JSON, or None if it is not finite: JSON has no NaN or infinity."""
    return float(value) if math.isfinite(value) else None


def build_json(result: FitResult) -> dict[str, Any]:
    """Return the result of a fit as a dictionary for JSON; a number that is not finite becomes None."""
    from ..report.verdict_text import judge_fit

    judgement = judge_fit(result)
    return {
        "verdict": {"kind": judgement.kind, "headline": judgement.headline, "reasons": list(judgement.reasons)},
        "success": result.success,
        "converged": result.converged,
        "status": result.status.name,
        "method": result.method,
        "parameters": {
            name: {
                "estimate": finite_or_none(result[name].value),
                "error": finite_or_none(result[name].error),
                "interval": [finite_or_none(v) for v in result[name].interval],
                "unit": result.units.get(name, ""),
                "note": result[name].note,
                **(
                    {"profile": [finite_or_none(v) for v in result.profiles[name].interval]}
                    if name in result.profiles
                    else {}
                ),
            }
            for name in result
        },
        "tied": {name: finite_or_none(result.derived(text).value) for name, text in result.tied.items()},
        "sigma": dict(zip(result.data.labels, map(finite_or_none, result.sigma), strict=True)),
        "initial": _describe_initial_values(result),
        "alternatives": [
            {
                "parameters": dict(zip(result, map(finite_or_none, alternative.estimate), strict=True)),
                "behind": finite_or_none(alternative.behind),
            }
            for alternative in result.alternatives
        ],
        "posterior": None if result.posterior is None else _describe_posterior(result.posterior),
        "p_value": None if result.goodness is None else finite_or_none(result.goodness.p_value),
        "covariance": [[finite_or_none(v) for v in row] for row in result.covariance],
        "r_squared": {name: finite_or_none(value) for name, value in result.r_squared.items()},
        "warnings": list(result.warnings),
        "notes": [*result.data.notes, *result.notes],
        "seed": result.seed,
        "weakform": __version__,
    }


def _describe_posterior(posterior: Posterior) -> dict[str, Any]:
    """Return the summary of the draws of each parameter, and whether the chains converged."""
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


def _describe_initial_values(result: FitResult) -> dict[str, Any]:
    """Return the initial values by state, or by state and trajectory; empty if the model cannot be solved."""

    def describe(quantity: Quantity) -> dict[str, Any]:
        """Return value, error, interval and note of an initial value."""
        return {
            "estimate": finite_or_none(quantity.value),
            "error": finite_or_none(quantity.error),
            "interval": [finite_or_none(value) for value in quantity.interval],
            "note": quantity.note,
        }

    initial: dict[str, Any] = {}
    for state in result.model.states:
        try:
            value = result.initial[state]
        except WeakformError:
            return {}
        initial[state] = {k: describe(q) for k, q in value.items()} if isinstance(value, dict) else describe(value)
    return initial
