"""What the data cannot determine: freedoms of the model, and unknowns as many as values."""

from __future__ import annotations

import numpy as np

from ..data.matching import match
from ..estimators.estimation_problem import Outcome, Refined, Task
from ..forward.structural_identifiability import Complete, Experiment, Freedom, freedoms
from ..parameters import Parameters

POORLY_DETERMINED = 0.5
"""Standard error, relative to the estimate, above which a parameter is called poorly determined."""
UNKNOWN = 100.0
SUSPECT = 1e-6
"""Smallest eigenvalue of the information, with unit diagonal, below which freedoms of the model are looked for."""
RUNAWAY, NEXT = 1e15, 1e-3
POINTS, NEARBY, FAR = 3, 0.1, 3.0
"""Places at which freedoms are looked for, and how far apart in units of a logarithm: near an estimate, anywhere."""


def is_blind(task: Task, refined: Refined | None) -> bool:
    """Whether there are as many unknowns as values and no given sigma: then nothing is known of the noise."""
    return refined is not None and refined.freedom <= 0 and task.problem.data.sigma is None


def unseen(parameters: Parameters, task: Task, best: Outcome, rejected: bool) -> tuple[Freedom, ...]:
    """What no data of this kind can determine; looked for where the information is nearly singular.

    By solutions only where they are those of the data: a fit that was `rejected` is far from any.
    """
    H = None if best.refined is None else best.refined.information
    if H is None or not np.isfinite(H).all():
        return ()
    told = H.diagonal() > 0
    d = np.sqrt(np.where(told, H.diagonal(), 1.0))
    # With one of several parameters the initial values may take all of its information: then its own is nearly none.
    relative = d * np.maximum(np.abs(best.estimate[task.free]), np.finfo(float).tiny)
    known = told.all() and np.linalg.eigvalsh(H / np.outer(d, d))[0] > SUSPECT and (relative > 1 / UNKNOWN).all()
    if known and np.abs(best.estimate).max() <= RUNAWAY:
        return ()
    rng, p = np.random.default_rng(0), task.scale.natural(best.estimate)
    matched = match(task.problem.data, parameters.model)
    if matched.complete:
        # Equations alone need no solution: where the fit has ended may be the one place at which they cannot tell.
        signs, J = np.where(p < 0, -1.0, 1.0), len(p)
        wide = [signs * np.exp(rng.uniform(-FAR, FAR, J)) for _ in range(POINTS)]
        wide += [p * np.exp(NEARBY * rng.standard_normal(J)) for _ in range(POINTS)]
        complete = Complete(parameters.model, matched.data, task.free)
        return tuple(freedoms(complete, [(np.where(task.free, near, p), ()) for near in wide]))
    if (
        rejected or best.latent is None or np.abs(best.estimate).max() > RUNAWAY or not told.any()
    ):  # far from any solution
        return ()
    nodes = best.latent.nodes
    begins = tuple(float(t[0]) for t, _ in nodes)
    experiment = Experiment(parameters.model, task.problem.data, task.free, begins)
    # What ended at next to zero is looked at where the data begin to notice it.
    size, free = p.copy(), p[task.free]
    nothing = told & (np.abs(free) < NEXT / d) & (np.abs(free) <= NEXT**2 * np.median(np.abs(free)))
    size[task.free] = np.where(nothing, 1 / d, free)
    points = []
    for _ in range(POINTS):
        near = np.where(task.free, size * np.exp(NEARBY * rng.standard_normal(len(p))), p)
        points.append((near, [x[0] * np.exp(NEARBY * rng.standard_normal(x.shape[1])) for _, x in nodes]))
    return tuple(freedoms(experiment, points))
