"""Steady states: where the right-hand side is zero, and how they depend on parameters.

From a state the model is followed until it hardly changes, and Newton's method takes the rest. What is conserved,
`Nᵀ u`, is what it was in the beginning: `f(u, p) = 0` and `Nᵀ(u - u₀) = 0` together tell u, and their derivative

    [ F  ]        [ -f_p       ]
    [ Nᵀ ] du  =  [ Nᵀ du₀ ]

its sensitivities. The conserved quantities are the left null space of f at states all around.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..model.expression_map import Map
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from .jumps import jumps_of
from .solver import simulate

PROBES, NULL = 8, 1e-9
"""States at which f is looked at for each of its dimensions, and the singular value below which something is zero."""
FIRST, LONGEST, WORK = 10.0, 1e6, 30_000
"""How long the model is followed at first and at most, in units of its slowest time; and evaluations for each part."""
CLOSE, SETTLED, STEADY = 1e-4, 1e-2, 1e-9
"""Relative rate of change, and change while the model was followed, below which Newton's method takes over; and its
last step."""
NEWTON = 20


@dataclass(frozen=True)
class Steady:
    """A steady state.

    Attributes
    ----------
    state : ndarray, (D,)
    by_parameters : ndarray, (D, J)
    by_initial : ndarray, (D, D)
    time : float
        How long it took, after which it is steady.
    """

    state: FloatArray
    by_parameters: FloatArray
    by_initial: FloatArray
    time: float


@np.errstate(all="ignore")
def conserved(model: Model, p: FloatArray, u: FloatArray, driven: FloatArray) -> FloatArray:
    """Directions N `(D, c)` with `Nᵀ f = 0` for all states."""
    D = len(u)
    rng = np.random.default_rng(0)
    size = np.maximum(np.abs(u), np.abs(u).max(initial=0.0) * 1e-3)
    size = np.where(size > 0, size, 1.0)
    states = size * np.exp(rng.uniform(-2, 2, (PROBES * (D + 1), D)))
    signals = np.tile(driven, (len(states), 1)) if len(driven) else None
    f = model.map("f")(np.zeros(len(states)), states, p, signals)
    f = f[np.isfinite(f).all(axis=1)]
    if not len(f):
        return np.zeros((D, 0))
    # Slow and fast states count alike.
    pace = np.maximum(np.abs(f).max(axis=0), 1e-300)
    f = f / pace
    length = np.linalg.norm(f, axis=1, keepdims=True)
    f = f / np.where(length > 0, length, 1.0)
    _, s, V = np.linalg.svd(f, full_matrices=True)
    rank = int((s > NULL * max(s.max(initial=0.0), 1e-300)).sum())
    N = V[rank:].T / pace[:, None]
    return np.asarray(N / np.maximum(np.linalg.norm(N, axis=0), 1e-300))


def steady_state(
    model: Model,
    p: FloatArray,
    u0: FloatArray,
    begin: float = 0.0,
    *,
    happened: BoolArray | None = None,
) -> Steady | None:
    """The steady state that the model reaches from a state; None where it reaches none.

    Parameters
    ----------
    model : Model
        Without inputs.
    p : ndarray, (J,)
    u0 : ndarray, (D,)
    begin : float
        The time at which it is there.
    happened : ndarray of bool, optional
        Events that hold already, and have happened.
    """
    D, J, jumps, f_map = len(u0), len(p), jumps_of(model), model.map("f")

    def line(u: FloatArray, t: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        signals = jumps.switched(t, u, p)
        f, F, fp = f_map.linearised(np.array([t]), u[None], p, signals[None] if len(signals) else None)
        return f[0], F[0], fp[0]

    signals = jumps.switched(begin, u0, p)
    N = conserved(model, p, u0, signals)
    timely = jumps.any or any(se.Symbol("t") in e.free_symbols for e in model.expressions)
    before, u, t, span = u0, u0.copy(), begin, 0.0
    while True:
        size = np.maximum(np.abs(u), 1e-12 * max(np.abs(u).max(initial=0.0), 1e-12))
        f, F, _ = line(u, t)
        if not np.isfinite(f).all() or not np.isfinite(F).all():
            return None
        slowest, stable = _slowest(F, N.shape[1])
        relative = float(np.max(np.abs(f) / size, initial=0.0)) / slowest
        moved = float(np.max(np.abs(u - before) / size, initial=0.0))
        if (not f.any() and span == 0.0) or (stable and relative < CLOSE and moved < SETTLED):
            break
        span = max(FIRST / slowest, 10 * span)
        if span > LONGEST * max(FIRST / slowest, 1.0) or t - begin > LONGEST * FIRST / slowest:
            return None
        done = happened if t == begin else jumps.holding(t, u, p)
        clock = t if timely else 0.0  # far from zero a short step is lost in rounding
        solved = simulate(model, p, u, [clock, clock + span], held=done, max_evaluations=WORK)
        if not solved.success and stable and relative < CLOSE:
            break  # so near to rest that a solver finds no step
        if not solved.success:
            return None
        before, u, t = u, solved.states[-1], t + span
    reached = u
    for _ in range(NEWTON):
        f, F, fp = line(u, t)
        A = np.vstack([F, N.T])
        if not np.isfinite(A).all():
            return None
        step = np.linalg.lstsq(A, -np.concatenate([f, N.T @ (u - reached)]), rcond=None)[0]
        u = u + step
        if float(np.max(np.abs(step) / np.maximum(np.abs(u), 1e-300), initial=0.0)) < STEADY:
            break
    f, F, fp = line(u, t)
    A = np.vstack([F, N.T])
    size = np.maximum(np.abs(u), 1e-6 * max(np.abs(u).max(initial=0.0), 1e-300))
    if (np.abs(u - reached) > SETTLED * size).any():  # Newton's method went elsewhere
        u = reached
        f, F, fp = line(u, t)
        A = np.vstack([F, N.T])
    # Where the equations alone do not tell where it is, or what is conserved depends on parameters: as the way there.
    if np.linalg.matrix_rank(A) < D or _moves(model, p, u0, signals, N):
        solved = simulate(
            model,
            p,
            u0,
            [begin, max(t, begin + FIRST)],
            held=happened,
            sensitivities=True,
            max_evaluations=10 * WORK,
        )
        if not solved.success or solved.by_parameters is None or solved.by_initial is None:
            return None
        return Steady(solved.states[-1], solved.by_parameters[-1], solved.by_initial[-1], t - begin)
    right = np.zeros((len(A), J + D))
    right[:D, :J] = -fp
    right[D:, J:] = N.T
    du = np.linalg.lstsq(A, right, rcond=None)[0]
    return Steady(u, du[:, :J], du[:, J:], t - begin)


def _slowest(F: FloatArray, conserved: int) -> tuple[float, bool]:
    """The slowest rate at which a model changes, and whether it comes back to where it is."""
    values = np.linalg.eigvals(F)
    values = values[np.argsort(np.abs(values))][conserved:]
    rates = np.abs(values)
    rates = rates[rates > 1e-17 * max(float(rates.max(initial=0.0)), 1e-300)]
    return (float(rates.min()) if len(rates) else 1.0), bool((values.real <= 1e-9 * np.abs(values)).all())


def _moves(model: Model, p: FloatArray, u: FloatArray, driven: FloatArray, N: FloatArray) -> bool:
    """Whether what is conserved depends on parameters."""
    for j in range(len(p)) if N.size else ():
        other = conserved(model, np.where(np.arange(len(p)) == j, p * 1.01 + 1e-6, p), u, driven)
        if other.shape != N.shape or float(np.linalg.norm(other - N @ np.linalg.lstsq(N, other, rcond=None)[0])) > 1e-6:
            return True
    return False


class AtRest(Map):
    """Initial values that are a steady state, as a map of the parameters.

    Parameters
    ----------
    model : Model
        That begins at rest.
    begins : Map
        Where it comes to rest from.
    """

    def __init__(self, model: Model, begins: Map) -> None:
        super().__init__([se.Integer(0)] * len(model.states), model.states, model.driven, model.parameters)
        self.model, self.begins = model.resting, begins

    def linearised(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Steady states `(n, D)`, and their derivatives by the states, which are zero, and by the parameters."""
        first, _, by_p = self.begins.linearised(t, u, p, inputs)
        n, D, J = len(t), self.D, self.J
        values, slopes = np.full((n, D), np.nan), np.zeros((n, D, J))
        for k in range(n):
            own = p if p.ndim == 1 else p[k]
            if not (np.isfinite(first[k]).all() and np.isfinite(own).all()):
                continue
            found = steady_state(self.model, own, first[k], float(t[k]))
            if found is not None:
                values[k] = found.state
                slopes[k] = found.by_parameters + found.by_initial @ by_p[k]
        return values, np.zeros((n, D, D)), slopes

    def __call__(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """Steady states `(n, D)`."""
        return self.linearised(t, u, p, inputs)[0]
