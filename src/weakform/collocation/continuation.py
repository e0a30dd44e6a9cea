"""Continuation from a soft model to an exact one: Levenberg–Marquardt steps, level by level (see `soft_constraint`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import never_stop
from ..optimize.box_quadratic import minimise_in_box
from ..support.array_types import FloatArray
from .bordered_system import BorderedSystem
from .gauss_helmert import Prior
from .soft_constraint import MIN_STATE_SIZE, LinearisedProblem, RelaxedModel

STIFFNESS_LEVELS = tuple(3.0 * 10 ** (-k / 2) for k in range(10))
"""Relative size q of the random walk that the model is allowed, level by level: from 3 down to about 1e-4.

At the first level the problem is nearly a smoothing problem. Each level is a factor of √10 below the previous one
(docs/method.md); larger factors save levels and make each of them harder. By judgement.
"""
EXACT_STIFFNESSES = (1e-6, 1e-8)
"""Values of q at which the model counts as exact: the first at the end of a search, the second for an estimate.

At 1e-6 a state that the model keeps at zero could still grow out of the random walk of the last level.
"""
ESTIMATE_TOLERANCE = 1e-5
"""Decrease of the objective, in units of log-likelihood, below which the level of an estimate has converged.

By judgement."""
INFORMATION_DAMPING = 1e-12
"""Damping of the system from which the information is computed: too small to change it.

By judgement."""


@dataclass(frozen=True)
class _StoppingPolicy:
    """Thresholds that end a level."""

    max_steps: int = 25
    """Largest number of steps of a level with a soft model, which need not converge: the next level continues from any
    point. By judgement."""
    max_exact_steps: int = 60
    """Largest number of steps of a level with the exact model, which has to converge. By judgement."""
    relative_decrease: float = 1e-3
    """Decrease, relative to the objective, below which a level with a soft model has converged. By judgement."""
    search_decrease: float = 1e-3
    """Decrease, in units of log-likelihood, below which a level of a search has converged. By judgement."""


@dataclass(frozen=True)
class _DampingPolicy:
    """Damping μ of the Levenberg–Marquardt steps, in units of the size of a state and of a parameter's curvature."""

    smallest_first: float = 1e-3
    """Smallest damping of the first step of a level. By judgement."""
    max_reduction: float = 1 / 3
    """Smallest factor by which a good step multiplies the damping. With 1/10 every other step was refused."""
    max_increase: float = 4.0
    """Largest factor by which an accepted step that gains less than promised multiplies the damping. By judgement."""
    smallest: float = 1e-9
    """Damping below which it is not reduced. By judgement."""
    rejection_factor: float = 5.0
    """Factor by which the damping rises after a refused step. By judgement."""
    rejection_growth: float = 2.0
    """Factor by which `rejection_factor` itself rises with each further refused step. By judgement."""
    largest: float = 1e8
    """Damping above which no step, however short, decreases the objective: only rounding is left. By judgement."""


@dataclass(frozen=True)
class _ReturnPolicy:
    """How states are moved back into the domain of the equations and onto the constraint within a step."""

    max_halvings: int = 6
    """Largest number of times that states outside the domain of the equations are moved halfway back. By judgement."""
    max_returns: int = 12
    """Largest number of Newton steps of the states back onto the constraint, if the model is stiff. By judgement."""
    stiff_below: float = 1e-3
    """Value of q below which the model counts as stiff.

    Below it the second-order violation of a straight step dominates the objective, and without Newton steps back onto
    the constraint only tiny steps would be accepted (docs/method.md). Above it one Newton step is enough.
    """
    negligible: float = 1e-4
    """Violation `Σ (v - target)²/V` below which no Newton step follows. By judgement."""
    slow_decrease: float = 0.1
    """Ratio of the violations after and before a Newton step above which v is linearised again. By judgement."""


_STOPPING, _DAMPING, _RETURNS = _StoppingPolicy(), _DampingPolicy(), _ReturnPolicy()


@dataclass(frozen=True)
class Point:
    """Parameters and states, with the objective at them.

    Attributes
    ----------
    p : ndarray, (P,)
    X : ndarray, (N, D)
    value : float
        The objective.
    done : bool
        Whether the last level has converged.
    steps : int
        Number of steps of all levels.
    damping : float
        Damping after the last accepted step, with which the next level begins.
    """

    p: FloatArray
    X: FloatArray
    value: float = np.inf
    done: bool = False
    steps: int = 0
    damping: float = _DAMPING.smallest_first


@dataclass(frozen=True)
class SearchSettings:
    """Bounds, springs and prior of the parameters, and when to stop.

    Attributes
    ----------
    lower, upper : ndarray, (P,)
    spring_length : ndarray, (P,), or None
        Length of the spring of each parameter: a parameter that moves this far in one level adds half a unit to the
        objective. At large q the data say little about p except that less movement is cheaper. Without springs
        parameters run to their bounds and stay there.
    prior : Prior, optional
    stop : callable
        Called with the objective before each step; True ends the level.
    """

    lower: FloatArray
    upper: FloatArray
    spring_length: FloatArray | None = None
    prior: Prior | None = None
    stop: Callable[[float], bool] = never_stop


def compute_state_sizes(X: FloatArray) -> FloatArray:
    """Compute the root mean square of each state over all nodes, `(D,)`, from X `(N, D)`."""
    return np.asarray(np.maximum(np.sqrt(np.mean(X**2, axis=0)), MIN_STATE_SIZE))


class _Level:
    """Levenberg–Marquardt steps at one q.

    Parameters
    ----------
    problem : RelaxedModel
    point : Point
        Where the level begins.
    q : float
    search : SearchSettings
    """

    def __init__(self, problem: RelaxedModel, point: Point, q: float, search: SearchSettings) -> None:
        self.problem, self.search = problem, search
        self.V = np.maximum(problem.compute_variances(point.X, q), np.finfo(float).tiny)
        self.p, self.X, self.centre = point.p, point.X, point.p[problem.free]
        self.stiff = q < _RETURNS.stiff_below
        lengths = search.spring_length
        self.spring = np.zeros(len(self.centre)) if lengths is None else 1.0 / lengths[problem.free] ** 2
        self.damping = max(point.damping, _DAMPING.smallest_first)
        self.value = self.compute_objective(self.p, self.X, problem.compute_constraint(self.p, self.X))

    def compute_objective(self, p: FloatArray, X: FloatArray, v: FloatArray) -> float:
        """Compute half the sum of squares at p `(P,)` and X `(N, D)` with constraint v `(N, D)`; inf if not finite."""
        r = self.problem.compute_residual(p, X)
        value = 0.5 * (float(np.sum(r * r)) + float(np.sum(v * v / self.V))) + self._compute_penalty(p)
        return value if np.isfinite(value) else np.inf

    def _compute_penalty(self, p: FloatArray) -> float:
        """Compute the part of the objective that springs and prior add at p `(P,)`."""
        value = 0.5 * float(self.spring @ (p[self.problem.free] - self.centre) ** 2)
        return value if self.search.prior is None else value + self.search.prior.compute_penalty(p)

    def compute_trial_step(
        self, line: LinearisedProblem, mu: float
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Compute a damped step.

        Parameters
        ----------
        line : LinearisedProblem
            The problem, linearised at the current point.
        mu : float
            The damping.

        Returns
        -------
        p : ndarray, (P,)
        X, v : ndarray, (N, D)
            States after the step, and the constraint there.
        promised : float
            The objective after the step, as the linearised problem predicts it.

        Raises
        ------
        NotPositiveDefinite, LinAlgError
            If the linear system is singular or not finite.
        """
        free, search = self.problem.free, self.search
        # Damping in units of the size of each state, and of the curvature of each parameter.
        size = compute_state_sizes(self.X)
        bordered = BorderedSystem(line, self.problem.layout, self.V, mu, size)
        g, H, alone, with_p = bordered.eliminate_states(line.v)
        g, H = g + self.spring * (self.p[free] - self.centre), H + np.diag(self.spring)
        if search.prior is not None:
            g = g + search.prior.gradient(self.p)[free]
            H = H + search.prior.hessian(self.p, exact=False)[np.ix_(free, free)]
        if not (np.isfinite(H).all() and np.isfinite(g).all()):
            raise NotPositiveDefinite("the parameters")
        damped = H + np.diag(mu * np.maximum(np.abs(H.diagonal()), np.finfo(float).tiny))
        low, high = search.lower[free] - self.p[free], search.upper[free] - self.p[free]
        dp = minimise_in_box(g, damped, low, high)
        dX = -(alone + with_p @ dp)[:, 0]
        p = self.p.copy()
        p[free] = np.clip(p[free] + dp, search.lower[free], search.upper[free])
        # A straight step leaves a curved constraint to second order. The states are moved back to the value of v that
        # the linearised step aims at.
        target = line.v + (line.left @ dX[:, :, None])[:, :, 0] + line.G @ dp
        target[:-1] += (line.right[:-1] @ dX[1:, :, None])[:, :, 0]
        r = line.r + (line.R @ dX[self.problem.layout.sampled][:, :, None])[:, :, 0] + line.P @ dp
        promised = 0.5 * float(np.sum(r * r)) + 0.5 * float(np.sum(target * target / self.V)) + self._compute_penalty(p)
        X, v = self._return_to_constraint(
            p, *self._move_inside_domain(p, self.X, self.X + dX), target=target, bordered=bordered, mu=mu
        )
        return p, X, v, promised

    def _move_inside_domain(self, p: FloatArray, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Move states as far as the equations are defined.

        Parameters
        ----------
        p : ndarray, (P,)
        X, moved : ndarray, (N, D)
            States before and after a step.

        Returns
        -------
        X, v : ndarray, (N, D)
            States on the way from X to `moved`, and the constraint there.
        """
        v = self.problem.compute_constraint(p, moved)
        for _ in range(_RETURNS.max_halvings):
            if np.isfinite(v).all():
                break
            defined = self.problem.find_defined_nodes(p, moved)
            if defined.all():
                break
            moved = np.where(defined[:, None], moved, 0.5 * (X + moved))
            v = self.problem.compute_constraint(p, moved)
        return moved, v

    def _return_to_constraint(
        self, p: FloatArray, X: FloatArray, v: FloatArray, *, target: FloatArray, bordered: BorderedSystem, mu: float
    ) -> tuple[FloatArray, FloatArray]:
        """Move states by Newton steps until the constraint has a target value.

        The factors of the step are used as long as the violation falls fast, and new ones after that.

        Parameters
        ----------
        p : ndarray, (P,)
            Parameters after the step.
        X, v : ndarray, (N, D)
            States after the step, and the constraint there.
        target : ndarray, (N, D)
            The constraint after the step, as the linearised problem predicts it.
        bordered : BorderedSystem
            The factorised system of the step.
        mu : float
            The damping of the step.

        Returns
        -------
        X, v : ndarray, (N, D)
        """
        last, fresh = np.inf, not self.stiff
        for _ in range(_RETURNS.max_returns if self.stiff else 1):
            off = v - target
            cost = float(np.sum(off * off / self.V))
            if cost < _RETURNS.negligible or not np.isfinite(cost) or (fresh and cost > last):
                break
            if not fresh and cost > _RETURNS.slow_decrease * last:
                bordered, fresh = (
                    BorderedSystem(
                        self.problem.linearise(p, X), self.problem.layout, self.V, mu, compute_state_sizes(X)
                    ),
                    True,
                )
            else:
                fresh = not self.stiff
            last = cost
            back = bordered.solve(np.stack([np.zeros_like(off), off], axis=1)[..., None])[:, 0, :, 0]
            X, v = self._move_inside_domain(p, X, X - back)
        return X, v

    def iterate(self, steps: int, relative: float, absolute: float) -> tuple[bool, int]:
        """Iterate until the objective is flat.

        Parameters
        ----------
        steps : int
            Largest number of steps.
        relative, absolute : float
            Decrease of the objective below which the level has converged, relative to it and in units of
            log-likelihood.

        Returns
        -------
        converged : bool
        steps : int
            Number of steps taken.
        """
        mu, line, rejection = self.damping, None, _DAMPING.rejection_factor
        for step in range(1, steps + 1):
            if self.search.stop(self.value):
                return False, step
            line = self.problem.linearise(self.p, self.X) if line is None else line
            try:
                p, X, v, promised = self.compute_trial_step(line, mu)
                value = self.compute_objective(p, X, v)
            except (NotPositiveDefinite, np.linalg.LinAlgError):
                p, X, value, promised = self.p, self.X, np.inf, -np.inf
            gain = self.value - value
            if gain >= 0:
                ratio = gain / max(self.value - promised, np.finfo(float).tiny)
                self.p, self.X, self.value, line = p, X, value, None
                # Nielsen's rule: less damping after a step that kept its promise, the same after one that kept half.
                factor = min(max(1 - (2 * ratio - 1) ** 3, _DAMPING.max_reduction), _DAMPING.max_increase)
                mu, rejection = max(mu * factor, _DAMPING.smallest), _DAMPING.rejection_factor
                self.damping = mu
            # A refused step ends the level, too, if what it would have lost is within the tolerance.
            if abs(gain) <= relative * self.value + absolute:
                return True, step
            if gain < 0:
                mu, rejection = mu * rejection, rejection * _DAMPING.rejection_growth
                if mu > _DAMPING.largest:
                    return True, step
        return False, steps


def minimise_level(
    problem: RelaxedModel, point: Point, q: float, search: SearchSettings, tolerance: float = _STOPPING.search_decrease
) -> Point:
    """Minimise the objective at one q.

    Parameters
    ----------
    problem : RelaxedModel
    point : Point
        Where to begin.
    q : float
        Relative size of the random walk.
    search : SearchSettings
    tolerance : float
        Decrease of the objective, in units of log-likelihood, below which the level has converged.

    Returns
    -------
    Point
    """
    exact = q <= EXACT_STIFFNESSES[0]
    with np.errstate(all="ignore"):
        work = _Level(problem, point, q, search)
        steps = _STOPPING.max_exact_steps if exact else _STOPPING.max_steps
        done, used = work.iterate(steps, 0.0 if exact else _STOPPING.relative_decrease, tolerance)
    return Point(work.p, work.X, work.value, done, point.steps + used, work.damping)


def run_continuation(
    problem: RelaxedModel,
    p: FloatArray,
    X: FloatArray,
    search: SearchSettings,
    first_level: float = STIFFNESS_LEVELS[0],
) -> Point:
    """Minimise the objective at all levels of q in turn, and finally with the exact constraint of a search.

    Parameters
    ----------
    problem : RelaxedModel
    p : ndarray, (P,)
    X : ndarray, (N, D)
        Parameters and states of the start.
    search : SearchSettings
    first_level : float
        Largest q; levels above it are skipped.

    Returns
    -------
    Point
    """
    point = Point(p, X)
    for q in STIFFNESS_LEVELS:
        if q <= first_level:
            point = minimise_level(problem, point, q, search)
    return minimise_level(problem, point, EXACT_STIFFNESSES[0], replace(search, spring_length=None))


def settle_on_exact_model(
    problem: RelaxedModel, point: Point, search: SearchSettings, tolerance: float = ESTIMATE_TOLERANCE
) -> Point:
    """Minimise the objective with the exact constraint of an estimate, from a point nearby.

    Parameters
    ----------
    problem : RelaxedModel
    point : Point
    search : SearchSettings
        Its springs are left out.
    tolerance : float
        Decrease of the objective, in units of log-likelihood, below which it has converged.

    Returns
    -------
    Point
    """
    return minimise_level(problem, point, EXACT_STIFFNESSES[-1], replace(search, spring_length=None), tolerance)


def compute_information(
    problem: RelaxedModel, p: FloatArray, X: FloatArray
) -> tuple[BorderedSystem, FloatArray, FloatArray]:
    """Compute the information about the free parameters when states obey the model.

    Parameters
    ----------
    problem : RelaxedModel
    p : ndarray, (P,)
    X : ndarray, (N, D)

    Returns
    -------
    bordered : BorderedSystem
        The factorised linear system at (p, X).
    H : ndarray, (F, F)
        The information.
    gradient : ndarray, (F,)
        Gradient of the objective.

    Raises
    ------
    NotPositiveDefinite
        If the linear system is singular.
    """
    with np.errstate(all="ignore"):
        line = problem.linearise(p, X)
        V = np.maximum(problem.compute_variances(X, EXACT_STIFFNESSES[-1]), np.finfo(float).tiny)
        bordered = BorderedSystem(line, problem.layout, V, INFORMATION_DAMPING, compute_state_sizes(X))
        gradient, H, _, _ = bordered.eliminate_states(line.v)
    return bordered, H, gradient
