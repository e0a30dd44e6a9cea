"""From a soft model to an exact one: Levenberg–Marquardt steps, level by level (see `relaxed`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import never
from ..optimize.box_quadratic import minimise_in_box
from ..support.array_types import FloatArray
from .bordered_system import Arrow
from .gauss_helmert import Prior
from .soft_constraint import Linear, Relaxed

LEVELS = tuple(3.0 * 10 ** (-k / 2) for k in range(10))
"""Relative size of the random walk that the model is allowed, level by level."""
EXACT = (1e-6, 1e-8)
"""Those of the model as it is: where a search ends, and where an estimate does."""
STEPS, FINAL_STEPS = 25, 60
"""Steps of a level at most."""
FLAT, ROUGH, FINE = 1e-3, 1e-3, 1e-5
"""Decrease of the objective below which a level is done: relative, and in units of the log-likelihood, at first and
at last."""
DAMPING, LESS, MORE, FASTER = 1e-3, 1 / 3, 5.0, 2.0
"""The least damping that a level begins with; how much is left of it at least after a good step, by how much it rises
after a bad one, and how much faster after each one more: with a tenth left every other step was refused."""
BACK = 6
"""How often a state that has left the domain of the equations is taken half the way back."""
RETURNS, STIFF, NOTHING, SLOW = 12, 1e-3, 1e-4, 0.1
"""How often states are put back onto the constraint in a step, where q is below the second; the part of the objective
that does not matter; and the decrease in a return above which the constraint is linearised again."""


@dataclass(frozen=True)
class Point:
    """Parameters and states, with the objective there.

    Attributes
    ----------
    p : ndarray, (P,)
    X : ndarray, (N, D)
    value : float
    done : bool
        Whether the last level has converged.
    steps : int
        Of all levels.
    damping : float
        After the last good step: with it the next level begins.
    """

    p: FloatArray
    X: FloatArray
    value: float = np.inf
    done: bool = False
    steps: int = 0
    damping: float = DAMPING


@dataclass(frozen=True)
class Search:
    """Where parameters may go, and when to stop.

    Attributes
    ----------
    lower, upper : ndarray, (P,)
    held : ndarray, (P,), or None
        How far a parameter may move in one level for half a unit of the objective. At large q the data tell little, and
        what they tell is that parameters are small: without this they run to their bounds, and stay there.
    prior : Prior, optional
    stop : callable
    """

    lower: FloatArray
    upper: FloatArray
    held: FloatArray | None = None
    prior: Prior | None = None
    stop: Callable[[float], bool] = never


def sizes(X: FloatArray) -> FloatArray:
    """The size of each state all along, `(D,)`."""
    return np.asarray(np.maximum(np.sqrt(np.mean(X**2, axis=0)), 1e-100))


class _Level:
    """Levenberg–Marquardt steps at one q."""

    def __init__(self, problem: Relaxed, point: Point, q: float, search: Search) -> None:
        self.problem, self.search = problem, search
        self.V = np.maximum(problem.variances(point.X, q), np.finfo(float).tiny)
        self.p, self.X, self.centre = point.p, point.X, point.p[problem.free]
        self.stiff = q < STIFF
        held = search.held
        self.spring = np.zeros(len(self.centre)) if held is None else 1.0 / held[problem.free] ** 2
        self.damping = max(point.damping, DAMPING)
        self.value = self.objective(self.p, self.X, problem.constraint(self.p, self.X))

    def objective(self, p: FloatArray, X: FloatArray, v: FloatArray) -> float:
        """Half the sum of squares, with the constraint v there; infinite where something is not finite."""
        r = self.problem.residual(p, X)
        value = 0.5 * (float(np.sum(r * r)) + float(np.sum(v * v / self.V))) + self._held(p)
        return value if np.isfinite(value) else np.inf

    def _held(self, p: FloatArray) -> float:
        """What springs and prior add to the objective."""
        value = 0.5 * float(self.spring @ (p[self.problem.free] - self.centre) ** 2)
        return value if self.search.prior is None else value + self.search.prior.value(p)

    def trial(self, line: Linear, mu: float) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Where a damped step leads, the constraint there, and the objective that the linearised problem promises.

        Raises `NotPositiveDefinite` or `LinAlgError`.
        """
        free, search = self.problem.free, self.search
        # Damping in units of the size of each state, and of the curvature of each parameter.
        size = sizes(self.X)
        arrow = Arrow(line, self.problem.layout, self.V, mu, size)
        g, H, alone, with_p = arrow.reduced(line.v)
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
        # A step along a curved constraint leaves it to second order: the states are put back to where it was to lead.
        target = line.v + (line.left @ dX[:, :, None])[:, :, 0] + line.G @ dp
        target[:-1] += (line.right[:-1] @ dX[1:, :, None])[:, :, 0]
        r = line.r + (line.R @ dX[self.problem.layout.sampled][:, :, None])[:, :, 0] + line.P @ dp
        promised = 0.5 * float(np.sum(r * r)) + 0.5 * float(np.sum(target * target / self.V)) + self._held(p)
        X, v = self._returned(p, *self._inside(p, self.X, self.X + dX), target=target, arrow=arrow, mu=mu)
        return p, X, v, promised

    def _inside(self, p: FloatArray, X: FloatArray, moved: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Where states may move to, part of the way where the equations end before; and the constraint there."""
        v = self.problem.constraint(p, moved)
        for _ in range(BACK):
            if np.isfinite(v).all():
                break
            good = self.problem.defined(p, moved)
            if good.all():
                break
            moved = np.where(good[:, None], moved, 0.5 * (X + moved))
            v = self.problem.constraint(p, moved)
        return moved, v

    def _returned(
        self, p: FloatArray, X: FloatArray, v: FloatArray, *, target: FloatArray, arrow: Arrow, mu: float
    ) -> tuple[FloatArray, FloatArray]:
        """States put back to where the linearised constraint was to lead; linearised again where that is slow."""
        last, fresh = np.inf, not self.stiff
        for _ in range(RETURNS if self.stiff else 1):
            off = v - target
            cost = float(np.sum(off * off / self.V))
            if cost < NOTHING or not np.isfinite(cost) or (fresh and cost > last):
                break
            if not fresh and cost > SLOW * last:
                arrow, fresh = Arrow(self.problem.linearise(p, X), self.problem.layout, self.V, mu, sizes(X)), True
            else:
                fresh = not self.stiff
            last = cost
            back = arrow.solve(np.stack([np.zeros_like(off), off], axis=1)[..., None])[:, 0, :, 0]
            X, v = self._inside(p, X, X - back)
        return X, v

    def run(self, steps: int, relative: float, absolute: float) -> tuple[bool, int]:
        """Whether it has converged, and the steps it took."""
        mu, line, more = self.damping, None, MORE
        for step in range(1, steps + 1):
            if self.search.stop(self.value):
                return False, step
            line = self.problem.linearise(self.p, self.X) if line is None else line
            try:
                p, X, v, promised = self.trial(line, mu)
                there = self.objective(p, X, v)
            except (NotPositiveDefinite, np.linalg.LinAlgError):
                there, promised = np.inf, -np.inf
            gain = self.value - there
            if gain >= 0:
                ratio = gain / max(self.value - promised, np.finfo(float).tiny)
                self.p, self.X, self.value, line = p, X, there, None
                # Damped less after a step that kept its promise, as much again after one that kept half of it.
                mu, more = max(mu * min(max(1 - (2 * ratio - 1) ** 3, LESS), 4.0), 1e-9), MORE
                self.damping = mu
            if abs(gain) <= relative * self.value + absolute:
                return True, step
            if gain < 0:
                mu, more = mu * more, more * FASTER
                if mu > 1e8:  # no step however short decreases it: rounding
                    return True, step
        return False, steps


def level(problem: Relaxed, point: Point, q: float, search: Search, tolerance: float = ROUGH) -> Point:
    """Levenberg–Marquardt steps at one q, until the objective is flat."""
    exact = q <= EXACT[0]
    with np.errstate(all="ignore"):
        work = _Level(problem, point, q, search)
        done, used = work.run(FINAL_STEPS if exact else STEPS, 0.0 if exact else FLAT, tolerance)
    return Point(work.p, work.X, work.value, done, point.steps + used, work.damping)


def relax(problem: Relaxed, p: FloatArray, X: FloatArray, search: Search, first: float = LEVELS[0]) -> Point:
    """From a start through all levels of q, from the first on, to the exact constraint."""
    point = Point(p, X)
    for q in LEVELS:
        if q <= first:
            point = level(problem, point, q, search)
    return level(problem, point, EXACT[0], replace(search, held=None))


def settle(problem: Relaxed, point: Point, search: Search, tolerance: float = FINE) -> Point:
    """The exact constraint, from a point nearby."""
    return level(problem, point, EXACT[-1], replace(search, held=None), tolerance)


def information(problem: Relaxed, p: FloatArray, X: FloatArray) -> tuple[Arrow, FloatArray, FloatArray]:
    """The information about the free parameters `(F, F)` and the gradient `(F,)`, with states that obey the model.

    Raises `NotPositiveDefinite`.
    """
    with np.errstate(all="ignore"):
        line = problem.linearise(p, X)
        V = np.maximum(problem.variances(X, EXACT[-1]), np.finfo(float).tiny)
        arrow = Arrow(line, problem.layout, V, 1e-12, sizes(X))
        gradient, H, _, _ = arrow.reduced(line.v)
    return arrow, H, gradient
