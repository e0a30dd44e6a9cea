"""The estimation methods, one module for each, all described by the same record (see `estimator`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..results.options import COMMON_OPTIONS, Options
from ..results.status import Status
from ..support.errors import FitError
from ..support.wording import suggest_name
from . import hybrid, irls, mle, output_error, relaxed_model, wendy, wls
from .estimation_problem import Task
from .estimator import Estimator
from .outcome import Outcome, Refinement

ESTIMATORS: dict[str, Estimator] = {
    module.ESTIMATOR.name: module.ESTIMATOR for module in (wendy, mle, irls, wls, output_error, hybrid, relaxed_model)
}
"""The registry of methods by the name that `fit(method=...)` takes. An entry added here is available everywhere."""


def select_estimator(method: Any, options: Options | Mapping[str, Any] | None) -> tuple[Estimator, Options]:
    """Look up the estimator of a method and validate its options.

    Parameters
    ----------
    method : str
        A key of `ESTIMATORS`.
    options : Options, mapping or None
        In a mapping every option counts as set by the user; in `Options` only those that differ from their default.

    Returns
    -------
    estimator : Estimator
    options : Options

    Raises
    ------
    FitError
        If the method is unknown, or if an option is set that it does not use.
    """
    if not isinstance(method, str) or method not in ESTIMATORS:
        guess = suggest_name(str(method), ESTIMATORS)
        raise FitError(f"Unknown method {method!r}.{guess} Known: {', '.join(ESTIMATORS)}.")
    estimator, chosen = ESTIMATORS[method], Options.of(options)
    reject_unused_options(estimator, options if isinstance(options, Mapping) else chosen.non_default_names)
    return estimator, chosen


def reject_unused_options(estimator: Estimator, names: Iterable[str]) -> None:
    """Raise `FitError` if any of the named options is not used by the estimator."""
    for name in names:
        if name not in (*COMMON_OPTIONS, *estimator.options):
            users = [candidate.name for candidate in ESTIMATORS.values() if name in candidate.options]
            raise FitError(
                f"Method {estimator.name!r} does not use the option {name!r}; it belongs to {', '.join(users)}."
            )


__all__ = [
    "COMMON_OPTIONS",
    "ESTIMATORS",
    "Estimator",
    "Options",
    "Outcome",
    "Refinement",
    "Status",
    "Task",
    "reject_unused_options",
    "select_estimator",
]
