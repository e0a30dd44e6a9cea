"""What the data of a fit cannot determine: freedoms of the model, and σ if there are as many unknowns as values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.matching import match
from ..estimators.estimation_problem import Task
from ..estimators.outcome import Outcome, Refinement
from ..forward.structural_identifiability import ForwardExperiment, Freedom, FullyMeasuredExperiment, find_freedoms
from ..parameters import ResolvedParameters

POORLY_DETERMINED = 0.5
"""Standard error, relative to the estimate, above which a parameter is called poorly determined, and a fit with only
such parameters is UNDETERMINED. By judgement: its 95% interval reaches from about zero to twice the estimate."""

MAX_RELATIVE_ERROR = 100.0
"""Standard error, relative to the estimate, above which a parameter is not determined. By judgement."""


@dataclass(frozen=True)
class _FreedomPolicy:
    """When freedoms of the model are searched for, and at which parameter values."""

    min_eigenvalue: float = 1e-6
    """Smallest eigenvalue of the information, scaled to a unit diagonal. Below it, freedoms are searched for; above it,
    the data determine all parameters. By judgement: a needless search only costs time."""

    runaway: float = 1e15
    """Size of a parameter above which the search has run away along a direction that the data do not determine. By
    judgement."""

    negligible: float = 1e-3
    """Estimate over its standard error. Below this ratio, and if the estimate is also below the square of this number
    times the median estimate, the parameter ended near zero and is replaced by its standard error:
    `test_parameter_that_ended_at_zero_is_not_reported_as_undetermined` in `tests/test_hidden.py`."""

    points: int = 3
    """Random points near the estimate, or anywhere. Several, because sensitivities may be singular at a special point,
    so that the largest rank counts. By judgement."""

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

    If every state is measured, only the equations are examined, at random parameters. Otherwise solutions are examined,
    which must be near the data; those of a rejected fit are not.

    Parameters
    ----------
    parameters : ResolvedParameters
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
    # The initial values may absorb all information about a single parameter. Its scaled eigenvalue is one then, but
    # its estimate is far below its standard error.
    relative = d * np.maximum(np.abs(best.estimate[task.free]), np.finfo(float).tiny)
    # `eigvalsh`, not `decompose_scaled_matrix`: without vectors LAPACK has another routine, which rounds differently.
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
        # The equations alone need no solution. Points anywhere are tried, too: the estimate may be the only point at
        # which the equations do not determine a direction.
        signs, J = np.where(p < 0, -1.0, 1.0), len(p)
        candidates = [
            signs * np.exp(rng.uniform(-FREEDOM_POLICY.anywhere, FREEDOM_POLICY.anywhere, J))
            for _ in range(FREEDOM_POLICY.points)
        ]
        candidates += [p * np.exp(FREEDOM_POLICY.nearby * rng.standard_normal(J)) for _ in range(FREEDOM_POLICY.points)]
        experiment_of_equations = FullyMeasuredExperiment(parameters.model, matched.data, task.free)
        return tuple(
            find_freedoms(experiment_of_equations, [(np.where(task.free, near, p), ()) for near in candidates])
        )
    is_far_from_data = is_rejected or largest > FREEDOM_POLICY.runaway
    if is_far_from_data or best.latent is None or not has_information.any():
        return ()
    nodes = best.latent.nodes
    begins = tuple(float(t[0]) for t, _ in nodes)
    experiment = ForwardExperiment(parameters.model, task.problem.data, task.free, begins)
    # A parameter that ended near zero has no effect there: it is moved to its standard error, where it begins to have
    # one.
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
