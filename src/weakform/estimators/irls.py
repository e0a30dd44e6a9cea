"""WENDy-IRLS: generalised least squares with the covariance of the last iterate,

    p⁽ⁱ⁺¹⁾ = argmin r(p)ᵀ S(p⁽ⁱ⁾)⁻¹ r(p),

from the weak least-squares estimate, until the iterates agree. Each sweep is in closed form where the model is linear
in the free parameters, and a nonlinear least-squares problem with the analytic Jacobian where it is not. It need not
converge; then the status says so.
"""

from __future__ import annotations

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..results.status import Status
from ..support.array_types import FloatArray
from . import wls
from .estimation_problem import Outcome, Task
from .estimator import Estimator
from .weak_least_squares import least_squares

MAX_ITERATIONS = 1000
INNER_ITERATIONS = 200


def search(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start; linear models need none."""
    limit = task.options.max_iterations or MAX_ITERATIONS
    tolerance = task.options.tolerance
    first = wls.search(task, start)
    p, status, evaluations, sweeps = first.estimate, Status.ITERATIONS, first.evaluations, 0
    if not np.isfinite(first.objective):
        return Outcome(p, np.inf, Status.START, 0, evaluations)
    while sweeps < limit:
        sweeps += 1
        try:
            factors = task.weak.factors(p)
        except NotPositiveDefinite:
            status = Status.STUCK
            break
        residual, jacobian = task.weak.whitened(factors)
        new, inner, used = least_squares(task, residual, jacobian, p, INNER_ITERATIONS)
        evaluations += used
        if inner is Status.START or not np.isfinite(new).all():
            status = Status.STUCK
            break
        # The step in units of the residual's noise, and relative to the parameters.
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


ESTIMATOR = Estimator("irls", "WENDy-IRLS", search, has_likelihood=False, closed_form=True)
