"""Initial guesses for problems with hidden states: states on the mesh, and natural sizes of unbounded parameters."""

from __future__ import annotations

import numpy as np

from ..collocation.continuation import compute_state_sizes
from ..collocation.hidden_state_problem import HiddenStateProblem
from ..data.matching import collect_inputs
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .estimation_problem import HiddenStateStart, Task

GOLDEN_FRACTION = 0.618
"""Step of a low-discrepancy sequence, by which the constants of the states differ: the golden ratio less one."""
SPEED_FACTOR = 5.0
"""Speed of a state, in its own size over the duration of the series: a rate is as large as it must be to move a state
by its size in a fifth of the time. By judgement; docs/method.md, Starts."""
SIZE_ROUNDS = 2
"""Newton steps for the natural sizes. By judgement: only the order of magnitude matters."""
MAX_SIZE_FACTOR = 1e9
"""Largest factor by which one Newton step changes a size, up or down. By judgement."""
MIN_ELASTICITY = 0.3
"""Slope of log e in log p below which no Newton step is taken, as it would be too long. By judgement."""


def guess_states(
    problem: HiddenStateProblem, meshes: tuple[FloatArray, ...], p: FloatArray, levels: FloatArray
) -> FloatArray:
    """Guess the states on the nodes of all trajectories, with the node ahead of each.

    A measured state is its smoothed data, any other its given initial value, if that is not zero, or a constant.

    Parameters
    ----------
    problem : HiddenStateProblem
    meshes : tuple of ndarray
        The nodes of each trajectory.
    p : ndarray, (P,)
    levels : ndarray, (D,)
        The constant of each state.

    Returns
    -------
    ndarray, (N, D)
    """
    names, states = problem.data.names or (), problem.shared.states
    parts = []
    for k, (mesh, q) in enumerate(zip(meshes, problem.data.trajectories, strict=True)):
        X = np.tile(levels, (len(mesh) + 1, 1))
        with np.errstate(all="ignore"):
            begin = problem.functions.g(mesh[:1], X[:1], problem.functions.select_parameters(p, k))[0]
        prescribed = problem.functions.given_initial & np.isfinite(begin)
        # A state that begins at zero need not stay there: only a nonzero initial value shows its size.
        nonzero = prescribed & (begin != 0)
        X[:, nonzero] = begin[nonzero]
        for column, name in enumerate(names):
            measured = np.isfinite(q.values[:, column])
            if name in states and measured.any():
                smoothed = _smooth_series(q.values[measured, column])
                X[1:, states.index(name)] = np.interp(mesh, q.times[measured], smoothed)
        X[1, prescribed] = begin[prescribed]
        X[0] = X[1]
        parts.append(X)
    return np.concatenate(parts)


def _smooth_series(values: FloatArray) -> FloatArray:
    """Smooth a series `(time,)` with the weights ¼, ½, ¼."""
    padded = np.concatenate([values[:1], values, values[-1:]])
    return np.asarray(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:])


def guess_initial_values(problem: HiddenStateProblem, start: HiddenStateStart) -> tuple[FloatArray, ...]:
    """Guess the initial values that are not given, for each trajectory, from the first states of a start."""
    meshes = problem.build_meshes()
    X = guess_states(problem, meshes, start.parameters, start.state_levels)
    return tuple(problem.extract_states(meshes, X, k)[0, ~problem.functions.given_initial] for k in range(len(meshes)))


def check_initial_values(problem: HiddenStateProblem, starts: list[HiddenStateStart]) -> None:
    """Raise `FitError` if the equations are not defined at the initial values of any start."""
    functions = problem.functions
    if not functions.given_initial.any():
        return
    for k, q in enumerate(problem.data.trajectories):
        t = np.array([problem.find_initial_time(k)])
        inputs = collect_inputs(problem.shared, problem.data, k)
        driven = None if inputs is None else inputs(t)
        begin = np.full((1, len(functions.given_initial)), np.nan)
        slopes = begin[0]
        with np.errstate(all="ignore"):
            for start in starts:
                own, u0 = functions.select_parameters(start.parameters, k), start.state_levels[None]
                begin = np.where(functions.given_initial, functions.g(t, u0, own), np.abs(u0))
                slopes = functions.f(t, begin, own, driven)[0]
                if np.isfinite(slopes).all():
                    return
        states = problem.shared.states
        undefined = states[int(np.flatnonzero(~np.isfinite(slopes))[0])]
        shown = ", ".join(
            f"{s}(0) = {v:g}" for s, v, g in zip(states, begin[0], functions.given_initial, strict=True) if g
        )
        where = f" of {q.label}" if q.label else ""
        if problem.shared.steady is not None and not np.isfinite(begin).all():
            raise FitError(
                f"The model{where} reaches no steady state from its initial values, with any start of its parameters. "
                "Check whether a state grows without limit, and give bounds under which all states come to rest."
            )
        raise FitError(
            f"The equations are not defined at the initial values{where}: {undefined}' is not a finite number at "
            f"{shown}. Give other initial values, or bounds on the parameters in them."
        )


def compute_velocity_factors(problem: HiddenStateProblem) -> FloatArray:
    """Return factors `(D,)` for the sizes of the states: 5/T for the velocity of another state, one otherwise.

    A state of size s that moves by its size in a fifth of the duration T has the velocity 5 s/T.
    """
    span = max(float(q.times[-1] - q.times[0]) for q in problem.data.trajectories)
    model = problem.shared
    return np.array([SPEED_FACTOR / span if state in model.hidden else 1.0 for state in model.states])


def compute_natural_sizes(task: Task, size: float) -> FloatArray:
    """Compute the natural size of each unbounded parameter, at which its term changes a state by the state's own size.

    A rate is as large as it must be to change a state by its size in a fifth of the time; a scale or an offset changes
    what is measured by its spread; an initial value is as large as its state. With `e = p |∂/∂p|` relative to that,
    these are Newton steps for log e = 0 in log p, one parameter at a time, the slope by a difference.

    Parameters
    ----------
    task : Task
        Of a `HiddenStateProblem`.
    size : float
        Typical size of a state whose size neither data nor an initial value show.

    Returns
    -------
    ndarray, (P,)
        One for the parameters that have both bounds or are fixed.
    """
    problem, J = task.problem, len(task.free)
    assert isinstance(problem, HiddenStateProblem)
    # The states get different constants: the effect of an exchange between two equal ones would be zero.
    sequence = np.modf(GOLDEN_FRACTION * np.arange(len(problem.shared.states)))[0]
    levels = size * compute_velocity_factors(problem) * 2 ** (sequence - 0.5)
    unknown = task.free & ~(np.isfinite(task.lower) & np.isfinite(task.upper))
    sizes = np.ones(J)
    if not unknown.any():
        return sizes
    meshes = problem.build_meshes()
    relaxed = problem.build_relaxed_model(meshes, problem.spread, np.ones(J, dtype=bool))
    with np.errstate(invalid="ignore"):
        rest = np.where(task.free, 0.5 * (task.lower + task.upper), task.base)

    def compute_log_effects(natural: FloatArray) -> FloatArray:
        """Return log e, `(P,)`; NaN where nothing depends on a parameter."""
        p = np.where(unknown, task.scale.to_working(natural), rest)
        X, L, F = guess_states(problem, meshes, p, levels), relaxed.layout, problem.functions
        own = F.select_parameters(p, L.trajectory)
        with np.errstate(all="ignore"):
            each_size = compute_state_sizes(X)
            _, _, by_f = F.f.linearise(L.times, X, own, L.after)
            _, _, by_g = F.g.linearise(L.times, X, own)
            moves = by_f * L.span[:, None, None] / (SPEED_FACTOR * each_size[:, None])
            begins = np.where(L.ahead[:, None, None], by_g / each_size[:, None], 0.0)
            derivatives = [F.expand_derivatives(part, p, L.trajectory) for part in (moves, begins)]
            effects = np.abs(np.concatenate([*derivatives, relaxed.linearise(p, X).P], axis=None).reshape(-1, J))
            effects *= np.where(task.scale.log, 1.0, natural)
            effects = np.where(np.isfinite(effects) & (effects > 0), effects, np.nan)
        # The mean, not the median: most nodes are after a fast decay and do not depend on its rate. With the median,
        # rates of a chain of compartments came out exchanged, 15 log-likelihoods below the best (CHANGELOG,
        # 1.1.0).
        return np.array([np.log(np.nanmean(column)) if np.isfinite(column).any() else np.nan for column in effects.T])

    for _ in range(SIZE_ROUNDS):
        log_effects = compute_log_effects(sizes)
        for j in np.flatnonzero(unknown & np.isfinite(log_effects)):
            doubled = sizes.copy()
            doubled[j] *= 2
            elasticity = (compute_log_effects(doubled)[j] - log_effects[j]) / np.log(2)
            if abs(elasticity) > MIN_ELASTICITY:
                sizes[j] *= np.clip(np.exp(-log_effects[j] / elasticity), 1 / MAX_SIZE_FACTOR, MAX_SIZE_FACTOR)
    return sizes
