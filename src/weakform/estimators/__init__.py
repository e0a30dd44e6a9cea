"""Estimators, one a file, all with the same signature: `estimate(task, start) -> Outcome`."""

from collections.abc import Callable

from ..typing import FloatArray
from . import irls, mle, wls
from .base import Options, Outcome, Status, Task

ESTIMATORS: dict[str, Callable[[Task, FloatArray | None], Outcome]] = {
    "mle": mle.estimate,
    "irls": irls.estimate,
    "wls": wls.estimate,
}

__all__ = ["ESTIMATORS", "Options", "Outcome", "Status", "Task"]
