"""What the relaxed model begins with: states, and the sizes of parameters of which nothing is known."""

from __future__ import annotations

import numpy as np

from ..collocation.continuation import sizes as state_sizes
from ..collocation.hidden_state_problem import LatentProblem
from ..data.matching import inputs_of
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .estimation_problem import Task

GOLDEN = 0.618
FASTER = 5.0
"""How much faster than in the whole time a state moves."""
ROUNDS, FARTHEST, LEAST = 2, 1e9, 0.3
"""Newton steps, the factor by which one changes a size at most, and the elasticity that it needs."""


def first_states(problem: LatentProblem, meshes: tuple[FloatArray, ...], start: FloatArray) -> FloatArray:
    """States on the nodes `(N, D)`: smoothed data where a state is measured, else its initial value or a constant.

    Parameters
    ----------
    start : ndarray, (P + D,) or more
        Parameters, then a constant for each state.
    """
    names, states = problem.data.names or (), problem.shared.states
    P = len(problem.model.parameters)
    p, constants = start[:P], start[P : P + len(states)]
    parts = []
    for k, (mesh, q) in enumerate(zip(meshes, problem.data.trajectories, strict=True)):
        X = np.tile(constants, (len(mesh) + 1, 1))
        with np.errstate(all="ignore"):
            begin = problem.functions.g(mesh[:1], X[:1], problem.functions.own(p, k))[0]
        given = problem.functions.given & np.isfinite(begin)
        known = given & (begin != 0)
        X[:, known] = begin[known]
        for column, name in enumerate(names):
            there = np.isfinite(q.values[:, column])
            if name in states and there.any():
                X[1:, states.index(name)] = np.interp(mesh, q.times[there], _smoothed(q.values[there, column]))
        X[1, given] = begin[given]
        X[0] = X[1]
        parts.append(X)
    return np.concatenate(parts)


def _smoothed(values: FloatArray) -> FloatArray:
    padded = np.concatenate([values[:1], values, values[-1:]])
    return np.asarray(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])


def first_beginnings(problem: LatentProblem, start: FloatArray) -> tuple[FloatArray, ...]:
    """The initial values that are not given, for each trajectory, as those states begin."""
    meshes = problem.meshes()
    X = first_states(problem, meshes, start)
    return tuple(problem.states_at(meshes, X, k)[0, ~problem.functions.given] for k in range(len(meshes)))


def check_beginnings(problem: LatentProblem, starts: list[FloatArray]) -> None:
    """Refuse initial values at which the equations are not defined from any start."""
    functions, P = problem.functions, len(problem.model.parameters)
    if not functions.given.any():
        return
    for k, q in enumerate(problem.data.trajectories):
        t = np.array([problem.begin(k)])
        inputs = inputs_of(problem.shared, problem.data, k)
        driven = None if inputs is None else inputs(t)
        with np.errstate(all="ignore"):
            for start in starts:
                own, u0 = functions.own(start[:P], k), start[None, P : P + len(functions.given)]
                begin = np.where(functions.given, functions.g(t, u0, own), np.abs(u0))
                slopes = functions.f(t, begin, own, driven)[0]
                if np.isfinite(slopes).all():
                    return
        states = problem.shared.states
        wrong = states[int(np.flatnonzero(~np.isfinite(slopes))[0])]
        shown = ", ".join(f"{s}(0) = {v:g}" for s, v, g in zip(states, begin[0], functions.given, strict=True) if g)
        where = f" of {q.label}" if q.label else ""
        if problem.shared.steady is not None and not np.isfinite(begin).all():
            raise FitError(
                f"The model{where} reaches no steady state from its initial values, with any start of its parameters; "
                "see whether something grows without end, and give bounds that leave only what comes to rest."
            )
        raise FitError(
            f"The equations are not defined at the initial values{where}: {wrong}' is not a finite number at {shown}. "
            "Give other initial values, or bounds on the parameters in them."
        )


def velocities(problem: LatentProblem) -> FloatArray:
    """What a state is measured by, `(D,)`: one, or for the velocity of another state one over a part of the time."""
    span = max(float(q.times[-1] - q.times[0]) for q in problem.data.trajectories)
    model = problem.shared
    return np.array([FASTER / span if state in model.hidden else 1.0 for state in model.states])


def natural_sizes(task: Task, size: float) -> FloatArray:
    """The size of each parameter without bounds, `(P,)`: that at which what it stands for does what states do.

    A rate is as large as it must be to change a state by its size in a part of the time, a scale or an offset to change
    what is measured by its spread, an initial value as its state. With `e = p |∂/∂p|` relative to that, these are
    Newton steps for log e = 0 in log p, one parameter at a time, the slope by a difference.

    Parameters
    ----------
    task : Task
        Of a `LatentProblem`.
    size : float
        What states of which nothing is known are taken to be, about.
    """
    problem, J = task.problem, len(task.free)
    assert isinstance(problem, LatentProblem)
    # Not all the same, or exchange between two of them would come to nothing.
    constants = size * velocities(problem) * 2 ** (np.modf(GOLDEN * np.arange(len(problem.shared.states)))[0] - 0.5)
    unknown = task.free & ~(np.isfinite(task.lower) & np.isfinite(task.upper))
    sizes = np.ones(J)
    if not unknown.any():
        return sizes
    meshes = problem.meshes()
    relaxed = problem.relaxed(meshes, problem.spread, np.ones(J, dtype=bool))
    with np.errstate(invalid="ignore"):
        rest = np.where(task.free, 0.5 * (task.lower + task.upper), task.base)

    def effects(natural: FloatArray) -> FloatArray:
        """The logarithm of e, `(P,)`; NaN where nothing depends on a parameter."""
        p = np.where(unknown, task.scale.working(natural), rest)
        X, L, F = first_states(problem, meshes, np.concatenate([p, constants])), relaxed.layout, problem.functions
        own = F.own(p, L.trajectory)
        with np.errstate(all="ignore"):
            each_size = state_sizes(X)
            _, _, by_f = F.f.linearised(L.times, X, own, L.after)
            _, _, by_g = F.g.linearised(L.times, X, own)
            moves = by_f * L.span[:, None, None] / (FASTER * each_size[:, None])
            begins = np.where(L.ahead[:, None, None], by_g / each_size[:, None], 0.0)
            every = [F.spread(part, p, L.trajectory) for part in (moves, begins)]
            each = np.abs(np.concatenate([*every, relaxed.linearise(p, X).P], axis=None).reshape(-1, J))
            each *= np.where(task.scale.log, 1.0, natural)
            each = np.where(np.isfinite(each) & (each > 0), each, np.nan)
        # The mean, not the median: what has decayed long before the end says nothing of how fast it did.
        return np.array([np.log(np.nanmean(column)) if np.isfinite(column).any() else np.nan for column in each.T])

    for _ in range(ROUNDS):
        here = effects(sizes)
        for j in np.flatnonzero(unknown & np.isfinite(here)):
            other = sizes.copy()
            other[j] *= 2
            elasticity = (effects(other)[j] - here[j]) / np.log(2)
            if abs(elasticity) > LEAST:
                sizes[j] *= np.clip(np.exp(-here[j] / elasticity), 1 / FARTHEST, FARTHEST)
    return sizes
