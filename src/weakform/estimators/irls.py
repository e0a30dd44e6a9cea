"""WENDy-IRLS: generalised least squares with the covariance of the last iterate,

    p⁽ⁱ⁺¹⁾ = argmin r(p)ᵀ S(p⁽ⁱ⁾)⁻¹ r(p),

from the weak least-squares estimate, until the iterates agree. Each sweep is in closed form where the model is linear
in the free parameters, and a nonlinear least-squares problem with the analytic Jacobian where it is not. The iteration
need not converge; the status says whether it did.
"""

from __future__ import annotations

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..results.status import Status
from . import wls
from .estimation_problem import StartPoint, Task
from .estimator import Estimator
from .outcome import Outcome
from .weak_least_squares import least_squares

MAX_SWEEPS = 1000
"""Sweeps, unless the option `max_iterations` is set. The default that `Options` documents."""
MAX_INNER_ITERATIONS = 200
"""Evaluations of the residual in one sweep of a nonlinear model. By judgement, as in `wls`."""


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Fit WENDy-IRLS from one start; a model that is linear in its parameters needs none.

    The status is `STUCK` if the covariance cannot be factorised, or if a sweep fails, and `START` if weak least squares
    has no finite residual.
    """
    limit = task.options.max_iterations or MAX_SWEEPS
    tolerance = task.options.tolerance
    first = wls.search(task, start)
    p, status, evaluations, sweeps = first.estimate, Status.ITERATIONS, first.evaluations, 0
    if not np.isfinite(first.objective):
        return Outcome(p, np.inf, Status.START, 0, evaluations)
    while sweeps < limit:
        sweeps += 1
        try:
            factors = task.weak.factorise_covariances(p)
        except NotPositiveDefinite:
            status = Status.STUCK
            break
        residual, jacobian = task.weak.build_whitened_functions(factors)
        new, inner, used = least_squares(task, residual, jacobian, p, MAX_INNER_ITERATIONS)
        evaluations += used
        if inner is Status.START or not np.isfinite(new).all():
            status = Status.STUCK
            break
        # Two measures of the step: in units of the noise of the whitened residual, and relative to the parameters.
        moved = float(np.linalg.norm(jacobian(new) @ (new - p)))
        step, size = np.abs(new - p), np.abs(new)
        p = new
        if moved <= tolerance or (step <= tolerance * size).all():
            status = Status.CONVERGED
            break
        if task.stop():
            status = Status.TIME
            break
    objective = task.weak.likelihood()(p).value
    return Outcome(p, objective, status, sweeps, evaluations)


ESTIMATOR = Estimator("irls", "WENDy-IRLS", search, likelihood=False, closed_form=True)
