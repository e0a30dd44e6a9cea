"""Estimators, one a file, all with the same signature.

`estimate(task, start) -> Outcome` is run for every start; `finish(task, outcome) -> Outcome`, where there is one, for
the best of them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ..typing import FloatArray
from . import hybrid, irls, mle, output_error, wendy, wls
from .base import Options, Outcome, Refined, Status, Task


@dataclass(frozen=True)
class Estimator:
    """A method of `fit`."""

    estimate: Callable[[Task, FloatArray | None], Outcome]
    finish: Callable[[Task, Outcome], Outcome] | None = None


ESTIMATORS: dict[str, Estimator] = {
    "wendy": Estimator(mle.estimate, wendy.finish),
    "mle": Estimator(mle.estimate),
    "irls": Estimator(irls.estimate),
    "wls": Estimator(wls.estimate),
    "output-error": Estimator(output_error.estimate, output_error.finish),
    "hybrid": Estimator(hybrid.estimate, hybrid.finish),
}

__all__ = ["ESTIMATORS", "Estimator", "Options", "Outcome", "Refined", "Status", "Task"]
