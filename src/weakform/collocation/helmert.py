"""Gauss–Helmert iteration on the collocation constraint (see `collocation` for the equations).

Several trajectories share p; each has states of its own. A step is safeguarded by the exact penalty function

    ½ Σ (x^data - x)²/v + μ ‖c(p, x)‖_{S⁻¹},     μ >= 2 ‖z‖_S,

and put back onto the constraint, or halved, until it decreases. Parameters stay inside their box by an active set.
Along a direction that the data do not determine the iteration would run away; what has moved more than `RUNAWAY` of its
first standard errors is such a direction, and the iteration begins again with it held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..linalg.banded import Banded
from ..linalg.symmetric import symmetric_inverse
from ..linalg.threads import single_thread
from ..optimize import Stop, never
from ..optimize.rules import TrustRegion
from ..support.typing import FloatArray
from .mesh import Linearised, Mesh

RUNAWAY = 20.0
SLACK, RELATIVE_SLACK, FLAT, PATIENCE = 1e-3, 1e-8, 2e-3, 4
"""Increase of the penalty function, in units of log-likelihood, that does not matter: near the solution its second term
is not smooth, and would refuse good steps; `RELATIVE_SLACK` is the same relative to its value, for very long series. A
decrease below `FLAT` in each of `PATIENCE` full steps in a row is the floor of a valley along which the data hardly
tell the parameters apart."""


@dataclass(frozen=True)
class Solution:
    """Where the iteration ended.

    Attributes
    ----------
    p : ndarray, (J,)
    states : tuple of ndarray, (nodes, D)
        States that obey the model.
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
    states: tuple[FloatArray, ...]
    information: FloatArray
    misfit: float
    stop: Stop
    iterations: int
    held: FloatArray | None = None


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
    """

    free: NDArray[np.bool_]
    lower: FloatArray
    upper: FloatArray
    tolerance: float = 1e-4
    max_iterations: int = 100
    stop: Callable[[], bool] = never
    runaway: float = RUNAWAY
    prior: Prior | None = None


def solve(
    meshes: tuple[Mesh, ...],
    sigma: FloatArray,
    p: FloatArray,
    states: tuple[FloatArray, ...],
    settings: Settings,
) -> Solution:
    """Iterate from parameters `p` `(J,)` and states `(nodes, D)`; `sigma` is `(D,)`.

    Raises `NotPositiveDefinite` if the constraint is singular at the start.
    """
    with single_thread(), np.errstate(all="ignore"):
        first = _Iteration(meshes, sigma, settings, None).run(p, states)
        if isinstance(first, Solution):
            return first
        again = _Iteration(meshes, sigma, settings, first).run(p, states)
        assert isinstance(again, Solution)
        return again


class _Iteration:
    """One run, with a direction held or not."""

    def __init__(
        self, meshes: tuple[Mesh, ...], sigma: FloatArray, settings: Settings, held: FloatArray | None
    ) -> None:
        self.meshes, self.settings, self.held = meshes, settings, held
        self.v = [mesh.variances(sigma) for mesh in meshes]
        self.penalty = 0.0

    def run(self, p: FloatArray, states: tuple[FloatArray, ...]) -> Solution | FloatArray:
        """The solution, or the direction that ran away."""
        settings, free = self.settings, self.settings.free
        p, x = np.clip(p, settings.lower, settings.upper), list(states)
        start, errors = p[free], None
        stop, iteration, flat = Stop.ITERATIONS, 0, 0
        while iteration < settings.max_iterations:
            iteration += 1
            step = self._step(p, x)
            if errors is None:
                errors, first = np.sqrt(np.abs(symmetric_inverse(step.information).diagonal())), step
            small = step.size <= settings.tolerance * np.sqrt(free.sum()) and step.drift <= 10 * settings.tolerance
            share, decrease, x = self._search(p, x, step)
            if share == 0.0:
                stop = Stop.STUCK
                break
            p = np.clip(p + share * step.dp, settings.lower, settings.upper)
            small &= share == 1.0
            flat = flat + 1 if share == 1.0 and decrease < FLAT else 0
            moved = np.abs(p[free] - start)
            # A σ that is too small makes all errors too small; then steps are long, and no direction is to blame.
            if self.held is None and (moved > settings.runaway * errors * self._excess(x)).any():
                return _weakest(first.information)
            if small:
                stop = Stop.STEP
                break
            if flat >= PATIENCE:
                stop = Stop.VALUE
                break
            if settings.stop():
                stop = Stop.TIME
                break
        return Solution(p, tuple(x), step.information, self._misfit(x), stop, iterations=iteration, held=self.held)

    def _step(self, p: FloatArray, x: list[FloatArray]) -> _Step:
        free = self.settings.free
        F = int(free.sum())
        H, g = np.zeros((F, F)), np.zeros(F)
        parts = []
        for mesh, a, v in zip(self.meshes, x, self.v, strict=True):
            line = mesh.linearise(p, a)
            e = np.where(mesh.measured, mesh.data - a, 0.0)
            factor = line.covariance(v)
            rho = line.c + line.apply(e)
            white = factor.whiten(np.column_stack([line.G[:, :, free].reshape(rho.size, F), rho.ravel()]))
            H += white[:, :F].T @ white[:, :F]
            g += white[:, :F].T @ white[:, F]
            parts.append((line, factor, white, e))
        if self.settings.prior is not None:
            H += self.settings.prior.hessian(p, exact=False)[np.ix_(free, free)]
            g += self.settings.prior.gradient(p)[free]
        d = np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
        low, high = self.settings.lower[free] - p[free], self.settings.upper[free] - p[free]
        theta = self._parameters(g, H, d, low, high)
        dp = np.zeros(len(p))
        dp[free] = theta
        states, drift, dual = [], 0.0, 0.0
        for (line, factor, white, e), a, v in zip(parts, x, self.v, strict=True):
            z = factor.back(white[:, F] + white[:, :F] @ theta).reshape(line.c.shape)
            w = line.transposed(z)
            new = a + e - v * w
            states.append(new)
            drift = max(drift, float(np.sqrt(np.mean((new - a) ** 2 / v))))
            dual += float(np.sum(v * w**2))
        self.penalty = max(self.penalty, 2 * np.sqrt(dual))
        return _Step(
            dp,
            tuple(states),
            H,
            float(np.linalg.norm(d * theta)),
            drift,
            [(line, factor) for line, factor, _, _ in parts],
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

    def _excess(self, x: list[FloatArray]) -> float:
        """How much larger the residuals are than σ says, at least 1."""
        values = sum(int(mesh.measured.sum()) for mesh in self.meshes)
        return max(1.0, math.sqrt(self._misfit(x) / max(values, 1)))

    def _misfit(self, x: list[FloatArray]) -> float:
        """`Σ (x^data - x)²/v` over measured values."""
        parts = zip(self.meshes, x, self.v, strict=True)
        return sum(float(np.sum(((mesh.data - a) ** 2 / v)[mesh.measured])) for mesh, a, v in parts)

    def _merit(self, p: FloatArray, x: list[FloatArray], step: _Step) -> float:
        violation = 0.0
        for mesh, a, (_, factor) in zip(self.meshes, x, step.parts, strict=True):
            c = mesh.defects(p, a)
            if not np.isfinite(c).all():
                return np.inf
            white = factor.whiten(c.ravel())
            violation += float(white @ white)
        known = 0.0 if self.settings.prior is None else self.settings.prior.value(p)
        return 0.5 * self._misfit(x) + known + self.penalty * math.sqrt(violation)

    def _search(self, p: FloatArray, x: list[FloatArray], step: _Step) -> tuple[float, float, list[FloatArray]]:
        """The share of the step that decreases the penalty function (0 if none does), the decrease, and the states.

        A full step along a curved constraint leaves it to second order, which the penalty may refuse however good the
        step (Maratos); then the states are first put back onto the constraint.
        """
        here = self._merit(p, x, step)
        limit = here + max(SLACK, RELATIVE_SLACK * abs(here))
        share = 1.0
        while share > 1e-4:
            q = p + share * step.dp
            moved = [a + share * (b - a) for a, b in zip(x, step.states, strict=True)]
            there = self._merit(q, moved, step)
            if there > limit and share == 1.0:
                moved = self._returned(q, moved, step)
                there = self._merit(q, moved, step)
            if there <= limit:
                return share, here - there, moved
            share /= 2
        return 0.0, 0.0, x

    def _returned(self, p: FloatArray, x: list[FloatArray], step: _Step) -> list[FloatArray]:
        """The states moved by `-v Aᵀ S⁻¹ c`, which takes the violation of the constraint away to first order."""
        returned = []
        for mesh, a, v, (line, factor) in zip(self.meshes, x, self.v, step.parts, strict=True):
            c = mesh.defects(p, a)
            z = factor.back(factor.whiten(c.ravel())).reshape(c.shape)
            returned.append(a - v * line.transposed(z))
        return returned


@dataclass(frozen=True)
class _Step:
    dp: FloatArray
    states: tuple[FloatArray, ...]
    information: FloatArray
    size: float
    drift: float
    parts: list[tuple[Linearised, Banded]]


def _weakest(information: FloatArray) -> FloatArray:
    """The direction of least information, in units of the standard errors, of length one."""
    d = np.sqrt(np.abs(information.diagonal()))
    if not (d > np.finfo(float).tiny).all():  # nothing is known of one parameter: that is the direction
        return np.asarray(np.eye(len(d))[int(np.argmin(d))])
    _, vectors = np.linalg.eigh(information / np.outer(d, d))
    return np.asarray(vectors[:, 0])
