"""Estimators, one for each file, all of the same shape (see `estimator`)."""

from collections.abc import Iterable, Mapping
from typing import Any

from ..results.options import COMMON, Options
from ..results.status import Status
from ..support.errors import FitError
from ..support.wording import suggestion
from . import hybrid, irls, mle, output_error, relaxed_model, wendy, wls
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator

ESTIMATORS: dict[str, Estimator] = {
    module.ESTIMATOR.name: module.ESTIMATOR for module in (wendy, mle, irls, wls, output_error, hybrid, relaxed_model)
}


def choose(method: Any, options: Options | Mapping[str, Any] | None) -> tuple[Estimator, Options]:
    """The estimator of a method, and its options; an option that it does not use is refused."""
    if not isinstance(method, str) or method not in ESTIMATORS:
        guess = suggestion(str(method), ESTIMATORS)
        raise FitError(f"Unknown method {method!r}.{guess} Known: {', '.join(ESTIMATORS)}.")
    estimator, chosen = ESTIMATORS[method], Options.of(options)
    takes(estimator, options if isinstance(options, Mapping) else chosen.non_default_names)
    return estimator, chosen


def takes(estimator: Estimator, names: Iterable[str]) -> None:
    """Refuse options that an estimator does not use."""
    for name in names:
        if name not in (*COMMON, *estimator.options):
            users = [other.name for other in ESTIMATORS.values() if name in other.options]
            raise FitError(
                f"Method {estimator.name!r} does not use the option {name!r}; it belongs to {', '.join(users)}."
            )


__all__ = ["COMMON", "ESTIMATORS", "Estimator", "Options", "Outcome", "Refined", "Status", "Task", "choose", "takes"]
