"""Steady states, at which the right-hand side is zero, and their dependence on parameters.

The model is followed from an initial state until it hardly changes; Newton's method then refines the steady state.
Conserved quantities `Nᵀ u` keep their initial values: `f(u, p) = 0` and `Nᵀ(u - u₀) = 0` together determine u, and the
derivative of both,

    [ F  ]        [ -f_p dp ]
    [ Nᵀ ] du  =  [ Nᵀ du₀  ]

gives its sensitivities. N spans the left null space of f at random states around the initial one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..model.expression_map import ExpressionMap
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from .jumps import get_jumps
from .solver import simulate


@dataclass(frozen=True)
class _ConservationPolicy:
    """How conserved quantities are found, and when they count as dependent on parameters."""

    probes_per_state: int = 8
    """Number of random states at which f is evaluated, for each dimension plus one. By judgement."""
    probe_log_range: float = 2.0
    """Largest distance of a random state from the given one, in natural logarithms. By judgement."""
    min_size_share: float = 1e-3
    """Smallest size of a state around which random states are drawn, as a share of the largest state: a state at zero
    must vary too. By judgement."""
    max_singular_value: float = 1e-9
    """Singular value, relative to the largest, up to which a direction counts as conserved. By judgement."""
    parameter_factor: float = 1.01
    """Factor by which each parameter is changed to see whether the conserved quantities change. By judgement."""
    parameter_offset: float = 1e-6
    """What is added to the changed parameter, so that a parameter at zero changes too. By judgement."""
    max_subspace_change: float = 1e-6
    """Largest distance between the conserved directions at two parameter values at which they count as the same; beyond
    it the conserved quantities depend on parameters. By judgement."""


_CONSERVATION = _ConservationPolicy()


@dataclass(frozen=True)
class _FollowPolicy:
    """How long the model is followed towards a steady state, and when Newton's method takes over.

    Durations are in units of the slowest time constant of the linearised model.
    """

    first_duration: float = 10.0
    """Duration of the first part. By judgement."""
    growth: float = 10.0
    """Smallest ratio of the durations of a part and of the one before. By judgement."""
    max_duration: float = 1e6
    """Longest duration of a part, and of all parts together, in units of `first_duration`; a model that still moves
    then has no steady state. By judgement."""
    min_size_share: float = 1e-12
    """Smallest size of a state in relative changes, as a share of the largest state, and smallest size of the largest
    state in its units: a state at zero has no relative change. By judgement."""
    max_evaluations: int = 30_000
    """Budget of evaluations for one part. By judgement."""
    max_rate: float = 1e-4
    """Largest change of a state within the slowest time constant, relative to its size, at which Newton's method takes
    over. By judgement."""
    max_change: float = 1e-2
    """Largest relative change of a state during the last part at which Newton's method takes over, and largest relative
    distance that Newton's method may go; a farther steady state is another one. By judgement."""
    min_newton_size_share: float = 1e-6
    """Smallest size of a state, as a share of the largest one, in the distance that Newton's method may go. By
    judgement."""
    newton_tolerance: float = 1e-9
    """Relative size of a step at which Newton's method ends. By judgement."""
    newton_steps: int = 20
    """Largest number of steps of Newton's method. By judgement."""
    min_rate_share: float = 1e-17
    """Rate of the linearised model, as a share of the fastest one, up to which it counts as zero. By judgement."""
    max_growth_share: float = 1e-9
    """Largest real part of an eigenvalue, as a share of its size, at which the model counts as stable: rounding can
    make a real part of zero positive. By judgement."""


_FOLLOW = _FollowPolicy()


@dataclass(frozen=True)
class SteadyState:
    """A steady state.

    Attributes
    ----------
    state : ndarray, (D,)
    by_parameters : ndarray, (D, J)
        `∂u/∂p`.
    by_initial : ndarray, (D, D)
        `∂u/∂u₀`.
    time : float
        Duration from the initial state until Newton's method took over.
    """

    state: FloatArray
    by_parameters: FloatArray
    by_initial: FloatArray
    time: float


@np.errstate(all="ignore")
def find_conserved_directions(model: Model, p: FloatArray, u: FloatArray, driven: FloatArray) -> FloatArray:
    """Find the conserved quantities of a model.

    Parameters
    ----------
    model : Model
    p : ndarray, (J,)
    u : ndarray, (D,)
        A state, around which f is evaluated.
    driven : ndarray, (switches,)
        Values of the switches.

    Returns
    -------
    ndarray, (D, c)
        Directions N with `Nᵀ f = 0` for all states; columns of length one.
    """
    D = len(u)
    rng = np.random.default_rng(0)
    size = np.maximum(np.abs(u), np.abs(u).max(initial=0.0) * _CONSERVATION.min_size_share)
    size = np.where(size > 0, size, 1.0)
    # Only positive states, so that a logarithm or a root in f is a number there.
    reach = _CONSERVATION.probe_log_range
    states = size * np.exp(rng.uniform(-reach, reach, (_CONSERVATION.probes_per_state * (D + 1), D)))
    signals = np.tile(driven, (len(states), 1)) if len(driven) else None
    f = model.build_map("f")(np.zeros(len(states)), states, p, signals)
    f = f[np.isfinite(f).all(axis=1)]
    if not len(f):
        return np.zeros((D, 0))
    # Rates differ by decades between slow and fast states: each is scaled to one, so that the slow ones count.
    pace = np.maximum(np.abs(f).max(axis=0), 1e-300)
    f = f / pace
    length = np.linalg.norm(f, axis=1, keepdims=True)
    f = f / np.where(length > 0, length, 1.0)
    _, s, V = np.linalg.svd(f, full_matrices=True)
    rank = int((s > _CONSERVATION.max_singular_value * max(s.max(initial=0.0), 1e-300)).sum())
    N = V[rank:].T / pace[:, None]
    return np.asarray(N / np.maximum(np.linalg.norm(N, axis=0), 1e-300))


def find_steady_state(
    model: Model,
    p: FloatArray,
    u0: FloatArray,
    begin: float = 0.0,
    *,
    happened: BoolArray | None = None,
) -> SteadyState | None:
    """Find the steady state that the model reaches from a state.

    Parameters
    ----------
    model : Model
        Without inputs.
    p : ndarray, (J,)
    u0 : ndarray, (D,)
    begin : float
        The time of the state `u0`.
    happened : ndarray of bool, (events,), optional
        Events whose condition holds at `begin`, and which have happened.

    Returns
    -------
    SteadyState, or None
        None if the model does not come to rest.
    """
    D, J, jumps, f_map = len(u0), len(p), get_jumps(model), model.build_map("f")

    def linearise(u: FloatArray, t: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return f `(D,)`, F `(D, D)` and f_p `(D, J)` at a state and time."""
        signals = jumps.evaluate_switches(t, u, p)
        f, F, fp = f_map.linearise(np.array([t]), u[None], p, signals[None] if len(signals) else None)
        return f[0], F[0], fp[0]

    signals = jumps.evaluate_switches(begin, u0, p)
    N = find_conserved_directions(model, p, u0, signals)
    depends_on_time = jumps.has_jumps or any(se.Symbol("t") in e.free_symbols for e in model.expressions)
    before, u, t, span = u0, u0.copy(), begin, 0.0
    while True:
        smallest = _FOLLOW.min_size_share
        size = np.maximum(np.abs(u), smallest * max(np.abs(u).max(initial=0.0), smallest))
        f, F, _ = linearise(u, t)
        if not np.isfinite(f).all() or not np.isfinite(F).all():
            return None
        slowest, stable = _find_slowest_rate(F, N.shape[1])
        relative = float(np.max(np.abs(f) / size, initial=0.0)) / slowest
        moved = float(np.max(np.abs(u - before) / size, initial=0.0))
        # An unstable steady state is kept only if the model begins exactly there.
        at_rest = not f.any() and span == 0.0
        if at_rest or (stable and relative < _FOLLOW.max_rate and moved < _FOLLOW.max_change):
            break
        span = max(_FOLLOW.first_duration / slowest, _FOLLOW.growth * span)
        longest = _FOLLOW.max_duration * max(_FOLLOW.first_duration / slowest, 1.0)
        if span > longest or t - begin > _FOLLOW.max_duration * _FOLLOW.first_duration / slowest:
            return None
        done = happened if t == begin else jumps.find_holding_events(t, u, p)
        clock = t if depends_on_time else 0.0  # far from zero a short step is lost in rounding
        solved = simulate(model, p, u, [clock, clock + span], held=done, max_evaluations=_FOLLOW.max_evaluations)
        if not solved.success and stable and relative < _FOLLOW.max_rate:
            break  # so close to rest that the solver finds no step
        if not solved.success:
            return None
        before, u, t = u, solved.states[-1], t + span
    reached = u
    for _ in range(_FOLLOW.newton_steps):
        f, F, fp = linearise(u, t)
        A = np.vstack([F, N.T])
        if not np.isfinite(A).all():
            return None
        # D + c equations for D unknowns, consistent at the solution: f already satisfies Nᵀ f = 0.
        step = np.linalg.lstsq(A, -np.concatenate([f, N.T @ (u - reached)]), rcond=None)[0]
        u = u + step
        if float(np.max(np.abs(step) / np.maximum(np.abs(u), 1e-300), initial=0.0)) < _FOLLOW.newton_tolerance:
            break
    f, F, fp = linearise(u, t)
    A = np.vstack([F, N.T])
    size = np.maximum(np.abs(u), _FOLLOW.min_newton_size_share * max(np.abs(u).max(initial=0.0), 1e-300))
    if (np.abs(u - reached) > _FOLLOW.max_change * size).any():  # Newton's method went to another steady state
        u = reached
        f, F, fp = linearise(u, t)
        A = np.vstack([F, N.T])
    # If the equations do not determine the state, or the conserved quantities depend on parameters, the linear system
    # above does not hold: take the sensitivities of the forward solution that leads to the steady state.
    if np.linalg.matrix_rank(A) < D or _has_parameter_dependent_conservation(model, p, u0, signals, N):
        solved = simulate(
            model,
            p,
            u0,
            [begin, max(t, begin + _FOLLOW.first_duration / slowest)],
            held=happened,
            sensitivities=True,
            max_evaluations=10 * _FOLLOW.max_evaluations,
        )
        if not solved.success or solved.by_parameters is None or solved.by_initial is None:
            return None
        return SteadyState(solved.states[-1], solved.by_parameters[-1], solved.by_initial[-1], t - begin)
    right = np.zeros((len(A), J + D))
    right[:D, :J] = -fp
    right[D:, J:] = N.T
    du = np.linalg.lstsq(A, right, rcond=None)[0]
    return SteadyState(u, du[:, :J], du[:, J:], t - begin)


def _find_slowest_rate(F: FloatArray, conserved_count: int) -> tuple[float, bool]:
    """Return the slowest rate of the linearised model, and True if it is stable.

    Parameters
    ----------
    F : ndarray, (D, D)
    conserved_count : int
        Number of conserved quantities, whose rates are zero and are left out.

    Returns
    -------
    float
        1 if all rates are zero.
    bool
    """
    values = np.linalg.eigvals(F)
    values = values[np.argsort(np.abs(values))][conserved_count:]
    rates = np.abs(values)
    rates = rates[rates > _FOLLOW.min_rate_share * max(float(rates.max(initial=0.0)), 1e-300)]
    stable = bool((values.real <= _FOLLOW.max_growth_share * np.abs(values)).all())
    return (float(rates.min()) if len(rates) else 1.0), stable


def _has_parameter_dependent_conservation(
    model: Model, p: FloatArray, u: FloatArray, driven: FloatArray, N: FloatArray
) -> bool:
    """Return True if the conserved quantities depend on parameters.

    Parameters
    ----------
    model : Model
    p : ndarray, (J,)
    u : ndarray, (D,)
    driven : ndarray, (switches,)
    N : ndarray, (D, c)
        The conserved directions at p; see `find_conserved_directions`.
    """
    changed = p * _CONSERVATION.parameter_factor + _CONSERVATION.parameter_offset
    for j in range(len(p)) if N.size else ():
        moved = find_conserved_directions(model, np.where(np.arange(len(p)) == j, changed, p), u, driven)
        if moved.shape != N.shape:
            return True
        # The bases differ; what counts is the part of the new one outside the span of N.
        outside = moved - N @ np.linalg.lstsq(N, moved, rcond=None)[0]
        if float(np.linalg.norm(outside)) > _CONSERVATION.max_subspace_change:
            return True
    return False


class SteadyInitialValues(ExpressionMap):
    """Initial values that are a steady state, as a function of the parameters.

    Parameters
    ----------
    model : Model
        A model that begins at rest.
    initial_map : ExpressionMap
        Initial values from which it comes to rest.
    """

    def __init__(self, model: Model, initial_map: ExpressionMap) -> None:
        super().__init__([se.Integer(0)] * len(model.states), model.states, model.driving_names, model.parameters)
        self.model, self.initial_map = model.resting_model, initial_map

    def linearise(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute steady states and their derivatives.

        Parameters
        ----------
        t : ndarray, (n,)
        u : ndarray, (n, D)
        p : ndarray, (J,) or (n, J)
        inputs : ndarray, (n, I), optional

        Returns
        -------
        values : ndarray, (n, D)
            NaN if the model does not come to rest.
        by_states : ndarray, (n, D, D)
            Zeros.
        by_parameters : ndarray, (n, D, J)
        """
        first, _, by_p = self.initial_map.linearise(t, u, p, inputs)
        n, D, J = len(t), self.D, self.J
        values, slopes = np.full((n, D), np.nan), np.zeros((n, D, J))
        for k in range(n):
            own = p if p.ndim == 1 else p[k]
            if not (np.isfinite(first[k]).all() and np.isfinite(own).all()):
                continue
            steady = find_steady_state(self.model, own, first[k], float(t[k]))
            if steady is not None:
                values[k] = steady.state
                slopes[k] = steady.by_parameters + steady.by_initial @ by_p[k]
        return values, np.zeros((n, D, D)), slopes

    def __call__(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """Compute steady states, `(n, D)`; see `linearise` for the arguments."""
        return self.linearise(t, u, p, inputs)[0]
