"""Estimators, one for each file, all of the same shape (see `estimator`)."""

from . import hybrid, irls, mle, output_error, wendy, wls
from .estimator import Estimator
from .options import COMMON, Options
from .status import Status
from .task import Outcome, Refined, Task

ESTIMATORS: dict[str, Estimator] = {
    module.ESTIMATOR.name: module.ESTIMATOR for module in (wendy, mle, irls, wls, output_error, hybrid)
}

__all__ = ["COMMON", "ESTIMATORS", "Estimator", "Options", "Outcome", "Refined", "Status", "Task"]
