"""What the data of a fit cannot determine: freedoms of the model, and noise that as many unknowns as values hide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.matching import match
from ..estimators.estimation_problem import Task
from ..estimators.outcome import Outcome, Refinement
from ..forward.structural_identifiability import ForwardExperiment, Freedom, FullyMeasuredExperiment, find_freedoms
from ..parameters import ResolvedParameters

POORLY_DETERMINED = 0.5
"""Standard error, relative to the estimate. Above, a parameter is called poorly determined, and a fit with only such
parameters is UNDETERMINED. By judgement: its 95% interval reaches from about zero to twice the estimate."""

MAX_RELATIVE_ERROR = 100.0
"""Standard error, relative to the estimate. Above, a parameter is not determined. By judgement."""


@dataclass(frozen=True)
class _FreedomPolicy:
    """When and at which parameter values freedoms of the model are looked for."""

    min_eigenvalue: float = 1e-6
    """Smallest eigenvalue of the information with unit diagonal. Below, freedoms are looked for; above, the data
    determine all parameters. By judgement: looking in vain costs only time."""

    runaway: float = 1e15
    """Size of a parameter. Above, the search has run away along something that the data cannot see. By judgement."""

    negligible: float = 1e-3
    """An estimate in standard errors; its square, relative to the median estimate. Below both, the parameter ended at
    next to zero, and is replaced by its standard error: `test_what_ended_at_zero_is_not_called_undetermined` in
    `tests/test_hidden.py`."""

    points: int = 3
    """Random points, near the estimate or anywhere. Several, because sensitivities may be singular at a special point:
    the largest rank counts. By judgement."""

    nearby: float = 0.1
    """Standard deviation of the logarithm of parameters at points near the estimate. By judgement."""

    anywhere: float = 3.0
    """Half the range of the logarithm of parameters at points anywhere: from 0.05 to 20. By judgement."""


FREEDOM_POLICY = _FreedomPolicy()
"""The thresholds in use."""


def is_noise_unknown(task: Task, refined: Refinement | None) -> bool:
    """Return True if σ is unknown because there are as many unknowns as values, and none was given."""
    return refined is not None and refined.freedom <= 0 and task.problem.data.sigma is None


def find_unidentifiable_directions(
    parameters: ResolvedParameters, task: Task, best: Outcome, is_rejected: bool
) -> tuple[Freedom, ...]:
    """Find directions in parameter space that no data of this kind can determine, if the information is near singular.

    If every state is measured, the equations alone are examined, at random parameters. Otherwise solutions are: they
    must be near those of the data, which they are not for a rejected fit.

    Parameters
    ----------
    parameters : Parameters
    task : Task
    best : Outcome
    is_rejected : bool
        Whether the model is rejected.

    Returns
    -------
    tuple of Freedom
        Empty if there are none, or if the data determine all parameters.
    """
    H = None if best.refined is None else best.refined.information
    if H is None or not np.isfinite(H).all():
        return ()
    has_information = H.diagonal() > 0
    d = np.sqrt(np.where(has_information, H.diagonal(), 1.0))
    # The initial values may absorb all information about a single parameter. Its scaled eigenvalue is one then, but the
    # estimate is next to nothing in standard errors.
    relative = d * np.maximum(np.abs(best.estimate[task.free]), np.finfo(float).tiny)
    # `eigvalsh`, not `scaled_eigendecomposition`: without vectors LAPACK takes another routine, which rounds otherwise.
    is_determined = (
        has_information.all()
        and np.linalg.eigvalsh(H / np.outer(d, d))[0] > FREEDOM_POLICY.min_eigenvalue
        and (relative > 1 / MAX_RELATIVE_ERROR).all()
    )
    largest = np.abs(best.estimate).max()
    if is_determined and largest <= FREEDOM_POLICY.runaway:
        return ()
    rng, p = np.random.default_rng(0), task.scale.to_natural(best.estimate)
    matched = match(task.problem.data, parameters.model)
    if matched.complete:
        # Equations alone need no solution: the fit may have ended at the only point where they cannot tell.
        signs, J = np.where(p < 0, -1.0, 1.0), len(p)
        candidates = [
            signs * np.exp(rng.uniform(-FREEDOM_POLICY.anywhere, FREEDOM_POLICY.anywhere, J))
            for _ in range(FREEDOM_POLICY.points)
        ]
        candidates += [p * np.exp(FREEDOM_POLICY.nearby * rng.standard_normal(J)) for _ in range(FREEDOM_POLICY.points)]
        complete = FullyMeasuredExperiment(parameters.model, matched.data, task.free)
        return tuple(find_freedoms(complete, [(np.where(task.free, near, p), ()) for near in candidates]))
    is_far_from_data = is_rejected or largest > FREEDOM_POLICY.runaway
    if is_far_from_data or best.latent is None or not has_information.any():
        return ()
    nodes = best.latent.nodes
    begins = tuple(float(t[0]) for t, _ in nodes)
    experiment = ForwardExperiment(parameters.model, task.problem.data, task.free, begins)
    # A parameter that ended at next to zero has no effect there; it is moved to where the data begin to notice it.
    size, free = p.copy(), p[task.free]
    small_estimate = np.abs(free) < FREEDOM_POLICY.negligible / d
    small_value = np.abs(free) <= FREEDOM_POLICY.negligible**2 * np.median(np.abs(free))
    size[task.free] = np.where(has_information & small_estimate & small_value, 1 / d, free)
    points = []
    for _ in range(FREEDOM_POLICY.points):
        near = np.where(task.free, size * np.exp(FREEDOM_POLICY.nearby * rng.standard_normal(len(p))), p)
        beginnings = [x[0] * np.exp(FREEDOM_POLICY.nearby * rng.standard_normal(x.shape[1])) for _, x in nodes]
        points.append((near, beginnings))
    return tuple(find_freedoms(experiment, points))
