"""Gauss–Helmert iteration on the collocation constraint (see `collocation` for the equations).

σ, unless it is given, is that of the residuals, taken anew from step to step as soon as the states have settled. A step
is safeguarded by the exact penalty function

    ½ Σ (x^data - x)²/v + Σ log σ + μ ‖c(p, x)‖_{S⁻¹},     μ >= 2 ‖z‖_S.

Where it moves the states by less than their noise it is taken as it is, and only where a few of them bring no decrease
the iteration goes back to the best of them (a watchdog: along a curved constraint good steps may increase the penalty
for a while, the more so the longer the series); else it is put back onto the constraint, or halved, until it decreases.
Parameters stay inside their box by an active set. Along a direction that the data do not determine the iteration would
run away; where something has moved more than `RUNAWAY` of its first standard errors, and by more than itself, the
iteration begins again with the direction of least information held, which is then let go.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..linalg.blas_threads import single_thread
from ..linalg.symmetric_matrix import NotPositiveDefinite, symmetric_inverse
from ..optimize import Stop, never
from ..optimize.step_rules import TrustRegion
from ..support.array_types import FloatArray
from .mesh import Mesh
from .watchdog import SLACK, WATCHED, Step, Watch

RUNAWAY = 20.0
"""Standard errors; and more than a parameter was at the start, as in long series standard errors are very small."""
DRIFT = 0.5
"""Change of the states, in σ, below which a step is taken as it is."""
AGREED = 1e-3
"""Relative change of σ that does not matter."""
ROUNDING = 1e-11
"""Relative change of the parameters below which steps are rounding, however small the standard errors."""
RELATIVE_SLACK, FLAT, PATIENCE = 1e-8, 5e-3, 4
"""`RELATIVE_SLACK` is `SLACK` relative to the value of the penalty function, for very long series. A
decrease below `FLAT` in each of `PATIENCE` full steps in a row is the floor of a valley along which the data hardly
tell the parameters apart."""


@dataclass(frozen=True)
class Solution:
    """Where the iteration ended.

    Attributes
    ----------
    p : ndarray, (J,)
    states : ndarray, (nodes, D)
        States that obey the model.
    sigma : ndarray, (D,)
    information : ndarray, (F, F)
        `Gᵀ S⁻¹ G` of the free parameters; its inverse is their covariance.
    misfit : float
        `Σ (x^data - x)²/v` over measured values.
    stop : Stop
    iterations : int
    held : ndarray, (F,), or None
        Direction in the free parameters, in units of their standard errors, that was held.
    """

    p: FloatArray
    states: FloatArray
    sigma: FloatArray
    information: FloatArray
    misfit: float
    stop: Stop
    iterations: int
    held: FloatArray | None = None

    @classmethod
    def known(cls, p: FloatArray, states: FloatArray, sigma: FloatArray, misfit: float, stop: Stop) -> Solution:
        """One that another iteration has found, which keeps no information."""
        return cls(p, states, sigma, np.zeros((0, 0)), misfit, stop=stop, iterations=0)


class Prior(Protocol):
    """A sum of squares of functions of the parameters."""

    def value(self, p: FloatArray) -> float:
        """Half the sum."""

    def gradient(self, p: FloatArray) -> FloatArray:
        """Its gradient, `(J,)`."""

    def hessian(self, p: FloatArray, exact: bool = True) -> FloatArray:
        """Its Hessian, `(J, J)`."""


@dataclass(frozen=True)
class Settings:
    """Which parameters may move and where, and when to stop.

    Attributes
    ----------
    free : ndarray of bool, (J,)
    lower, upper : ndarray, (J,)
    tolerance : float
        On the step, in standard errors.
    max_iterations : int
    stop : callable
        Whether to stop now, asked after each step.
    runaway : float
        Standard errors beyond which a direction is held.
    prior : Prior, optional
        Of the parameters.
    noise : callable, optional
        σ `(D,)` from residuals `(nodes, D)`, where it is not given.
    """

    free: NDArray[np.bool_]
    lower: FloatArray
    upper: FloatArray
    tolerance: float = 1e-4
    max_iterations: int = 100
    stop: Callable[[float], bool] = never
    runaway: float = RUNAWAY
    prior: Prior | None = None
    noise: Callable[[FloatArray], FloatArray] | None = None


def solve(mesh: Mesh, sigma: FloatArray, p: FloatArray, states: FloatArray, settings: Settings) -> Solution:
    """Iterate from parameters `p` `(J,)` and states `(nodes, D)`; `sigma` is `(D,)`.

    Raises `NotPositiveDefinite` if the constraint is singular at the start.
    """
    with single_thread(), np.errstate(all="ignore"):
        first = _Iteration(mesh, sigma, settings, None).run(p, states)
        if isinstance(first, Solution):
            return first
        held = _Iteration(mesh, sigma, settings, first).run(p, states)
        assert isinstance(held, Solution)
        # From there it may find its way.
        free = _Iteration(mesh, held.sigma, settings, None).run(held.p, held.states)
        return free if isinstance(free, Solution) and free.stop.converged else held


class _Iteration:
    """One run, with a direction held or not."""

    def __init__(self, mesh: Mesh, sigma: FloatArray, settings: Settings, held: FloatArray | None) -> None:
        self.mesh, self.settings, self.held = mesh, settings, held
        self.counts = mesh.measured.sum(axis=0)
        self.penalty = 0.0
        self._set(sigma)
        self.first = self.v

    def _set(self, sigma: FloatArray) -> None:
        self.sigma, self.v = sigma, self.mesh.variances(sigma)

    def _renewed(self, x: FloatArray) -> bool:
        """Take σ from the residuals; whether it had been that before."""
        if self.settings.noise is None:
            return True
        before = self.sigma
        self._set(self.settings.noise(self.mesh.residuals(x)))
        return bool((np.abs(self.sigma / before - 1) < AGREED).all())

    def run(self, p: FloatArray, x: FloatArray) -> Solution | FloatArray:
        """The solution, or the direction that ran away."""
        settings, free = self.settings, self.settings.free
        p = np.clip(p, settings.lower, settings.upper)
        step = self._step(p, x)
        first, start = step.information, p[free]  # not the step: it is as long as the series
        errors = np.sqrt(np.abs(symmetric_inverse(step.information).diagonal()))
        watch = Watch(p, x, step)
        stop, iteration, flat, agreed = Stop.ITERATIONS, 0, 0, settings.noise is None
        while iteration < settings.max_iterations:
            iteration += 1
            small = step.size <= settings.tolerance * np.sqrt(free.sum()) and step.drift <= 10 * settings.tolerance
            small |= bool((np.abs(step.dp) <= ROUNDING * np.abs(p)).all())
            here = self._value(watch.now)
            if step.drift <= DRIFT and watch.patient:
                share = watch.share
                x = x + share * (step.states - x)
            else:
                if not watch.patient:
                    (p, x), step = watch.back(), step.bare
                    step = self._step(p, x)
                share, x = self._search(p, x, step)
                if share == 0.0:
                    stop = Stop.STUCK
                    break
            p = np.clip(p + share * step.dp, settings.lower, settings.upper)
            moved = np.abs(p[free] - start)
            # A σ that is too small makes all errors too small; then steps are long, and no direction is to blame; nor
            # where the states still have a long way to go.
            far = np.maximum(settings.runaway * errors * self._excess(x), np.abs(start))
            if self.held is None and step.drift <= DRIFT and (moved > far).any():
                return _weakest(first)
            if small and agreed and share >= 0.5 * watch.share:
                stop = Stop.STEP
                break
            if settings.stop(here):
                stop = Stop.TIME
                break
            if step.drift <= DRIFT:
                agreed = self._renewed(x)
            step = step.bare
            try:
                step = self._step(p, x)
            except NotPositiveDefinite:
                if watch.since < 0:
                    raise
                p, x, step = watch.best
                watch.since = WATCHED
                continue
            watch.see(p, x, step, share, self._value)
            flat = flat + 1 if share >= 0.5 and abs(here - self._value(watch.now)) < FLAT else 0
            if flat >= PATIENCE:
                stop = Stop.VALUE
                break
        return Solution(
            p, x, self.sigma, step.information, self._misfit(x), stop=stop, iterations=iteration, held=self.held
        )

    def _step(self, p: FloatArray, x: FloatArray) -> Step:
        free, mesh, v = self.settings.free, self.mesh, self.v
        F = int(free.sum())
        line = mesh.linearise(p, x)
        e = np.where(mesh.measured, mesh.data - x, 0.0)
        factor = line.covariance(v)
        rho = line.c + line.A.apply(e)
        columns = np.empty((rho.size, F + 2))
        columns[:, :F] = line.G[:, :, free].reshape(rho.size, F)
        columns[:, F], columns[:, F + 1] = rho.ravel(), line.c.ravel()
        white = factor.whiten(columns)
        gram = white.T @ white
        if not np.isfinite(gram).all():
            raise NotPositiveDefinite
        H, g = gram[:F, :F].copy(), gram[:F, F].copy()
        if self.settings.prior is not None:
            H += self.settings.prior.hessian(p, exact=False)[np.ix_(free, free)]
            g += self.settings.prior.gradient(p)[free]
        d = np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
        low, high = self.settings.lower[free] - p[free], self.settings.upper[free] - p[free]
        theta = self._parameters(g, H, d, low, high)
        dp = np.zeros(len(p))
        dp[free] = theta
        z = factor.back(white[:, F] + white[:, :F] @ theta).reshape(line.c.shape)
        w = line.A.transposed(z, len(x))
        states = x + e - v * w
        self.penalty = max(self.penalty, 2 * float(np.sqrt(np.sum(v * w**2))))
        return Step(
            dp=dp,
            states=states,
            information=H,
            scaled=d * theta,
            drift=float(np.sqrt(np.mean((states - x) ** 2 / v))),
            cost=self._cost(p, x),
            violation=float(gram[F + 1, F + 1]),
            A=line.A,
            factor=factor,
        )

    def _parameters(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The minimiser of the quadratic model in the box, without the part along the held direction."""
        if not len(g):
            return g
        rule = TrustRegion(radius=1e8)
        if self.held is None:
            return rule.step(g, H, d, low, high)
        # A stiff spring along the direction: no room for a special case in the active set.
        spring = 1e8 * np.outer(self.held * d, self.held * d)
        return rule.step(g, H + spring, d, low, high)

    def _excess(self, x: FloatArray) -> float:
        """How much larger the residuals are than σ was at first, at least 1."""
        off = ((self.mesh.data - x) ** 2 / self.first)[self.mesh.measured]
        return max(1.0, math.sqrt(float(np.sum(off)) / max(off.size, 1)))

    def _misfit(self, x: FloatArray) -> float:
        """`Σ (x^data - x)²/v` over measured values."""
        return float(np.sum(((self.mesh.data - x) ** 2 / self.v)[self.mesh.measured]))

    def _cost(self, p: FloatArray, x: FloatArray) -> float:
        """Minus the log-likelihood, and the prior."""
        known = 0.0 if self.settings.prior is None else self.settings.prior.value(p)
        with np.errstate(all="ignore"):
            noise = float(self.counts @ np.log(self.sigma)) if self.settings.noise is not None else 0.0
        return 0.5 * self._misfit(x) + known + noise

    def _value(self, step: Step) -> float:
        """The penalty function where a step begins."""
        return step.cost + self.penalty * math.sqrt(step.violation)

    def _merit(self, p: FloatArray, x: FloatArray, step: Step) -> float:
        """The same elsewhere, with the covariance of a step nearby."""
        c = self.mesh.defects(p, x)
        if not np.isfinite(c).all():
            return np.inf
        assert step.factor is not None
        white = step.factor.whiten(c.ravel())
        return self._cost(p, x) + self.penalty * math.sqrt(float(white @ white))

    def _search(self, p: FloatArray, x: FloatArray, step: Step) -> tuple[float, FloatArray]:
        """The share of the step that decreases the penalty function (0 if none does), and the states.

        A full step along a curved constraint leaves it to second order, which the penalty may refuse however good the
        step (Maratos); then the states are first put back onto the constraint.
        """
        here = self._merit(p, x, step)
        limit = here + max(SLACK, RELATIVE_SLACK * abs(here))
        share = 1.0
        while share > 1e-4:
            q = p + share * step.dp
            moved = x + share * (step.states - x)
            there = self._merit(q, moved, step)
            if there > limit and share == 1.0:
                moved = self._returned(q, moved, step)
                there = self._merit(q, moved, step)
            if there <= limit:
                return share, moved
            share /= 2
        return 0.0, x

    def _returned(self, p: FloatArray, x: FloatArray, step: Step) -> FloatArray:
        """The states moved by `-v Aᵀ S⁻¹ c`, which takes the violation of the constraint away to first order."""
        c = self.mesh.defects(p, x)
        assert step.factor is not None
        assert step.A is not None
        z = step.factor.back(step.factor.whiten(c.ravel())).reshape(c.shape)
        return np.asarray(x - self.v * step.A.transposed(z, len(x)))


def _weakest(information: FloatArray) -> FloatArray:
    """The direction of least information, in units of the standard errors, of length one."""
    d = np.sqrt(np.abs(information.diagonal()))
    if not (d > np.finfo(float).tiny).all():  # nothing is known of one parameter: that is the direction
        return np.asarray(np.eye(len(d))[int(np.argmin(d))])
    _, vectors = np.linalg.eigh(information / np.outer(d, d))
    return np.asarray(vectors[:, 0])
