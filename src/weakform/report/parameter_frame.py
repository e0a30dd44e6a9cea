"""The parameters of a fit as a pandas data frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..support.optional_imports import import_pandas

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


def build_parameter_frame(fit: FitResult, level: float) -> Any:
    """Build the data frame that `FitResult.to_frame` returns."""
    pd = import_pandas()
    ends = fit.intervals(level)
    return pd.DataFrame(
        {
            "estimate": fit.estimate,
            "error": fit.errors,
            "lower": ends[:, 0],
            "upper": ends[:, 1],
            "lower_bound": fit.bounds[:, 0],
            "upper_bound": fit.bounds[:, 1],
            "unit": [fit.units.get(name, "") for name in fit.model.parameters],
            "note": [fit[name].note for name in fit.model.parameters],
        },
        index=pd.Index(fit.model.parameters, name="parameter"),
    )
