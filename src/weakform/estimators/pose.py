"""A model and data as the problem that an estimator needs."""

from __future__ import annotations

from ..collocation.latent import LatentProblem
from ..data.matching import Matched
from ..parameters import Parameters
from ..support.errors import FitError
from ..weak.problem import Basis, WeakProblem
from . import ESTIMATORS
from .estimator import Estimator
from .task import Problem


def pose(parameters: Parameters, matched: Matched, estimator: Estimator, basis: Basis) -> tuple[Estimator, Problem]:
    """The problem as the estimator needs it; where only a part is measured, another one may take its place."""
    if estimator.partly or not matched.complete:
        if not estimator.partly and estimator.instead is None:
            what = f"{', '.join(matched.hidden)} not measured" if matched.hidden else "initial values given"
            able = [e.name for e in ESTIMATORS.values() if e.partly or e.instead is not None]
            raise FitError(
                f"Method {estimator.name!r} needs every state measured as it stands, but here are {what}; use "
                f"{' or '.join(able)}."
            )
        chosen = estimator if estimator.partly else ESTIMATORS[str(estimator.instead)]
        return chosen, LatentProblem.build(parameters, matched.data)
    problem = WeakProblem.build(parameters.scale.substituted(parameters.model), matched.data, basis)
    count = int(parameters.free.sum())
    if problem.size < count:
        raise FitError(
            f"{problem.size} weak residuals cannot determine {count} parameters; use more samples, a smaller radius, "
            "or fix some parameters."
        )
    return estimator, problem
