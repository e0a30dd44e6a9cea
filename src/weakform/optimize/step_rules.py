"""Rules that choose a step from a quadratic model `m(s) = gᵀs + ½ sᵀHs`.

All rules work in scaled variables `ŝ = d∘s`, in which the curvatures are about one, so that the units of a parameter do
not matter. They diagonalise `Ĥ = V diag(w) Vᵀ`. With `a = Vᵀĝ` the step is `ŝ = -V a/(w + λ)` for a shift λ that makes
`Ĥ + λ` positive definite:

- Trust region: `λ = 0` if the Newton step is shorter than the radius Δ, else `‖ŝ‖ = Δ`. An active set respects bounds:
  a variable that would leave the box is put on its bound, and the others are solved for again.
- Trust region with a reach: a coordinate without curvature costs nothing in m and, with its small d, almost nothing in
  ‖ŝ‖. So each coordinate also stays within `|s_j| <= reach · extent_j`, with half the width of the box as extent. The
  reach shrinks and grows as the radius does.
- Cubic regularisation: `λ = c ‖ŝ‖`, which minimises `m(s) + c/3 ‖ŝ‖³`, without bounds.

If ĝ or Ĥ is not finite, its eigendecomposition fails, or a length overflows, there is no step, and a rule raises one of
`STEP_FAILURES`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..support.array_types import FloatArray

STEP_FAILURES = (np.linalg.LinAlgError, OverflowError, ZeroDivisionError)
"""Exceptions of a rule that cannot compute a step; its caller reports the step as failed."""
FIRST_RADIUS_SHARE = 0.1
"""First radius as a share of the extent of the box.

With 0.5 three of 60 random starts ran into a corner of the box on SIR-TDI and on Goodwin, with 0.1 none
(docs/solvers.md).
"""
RELATIVE_FLATNESS = 1e-12
"""Eigenvalue, relative to the largest absolute one, below which a direction counts as flat.

It is also the smallest shift above the singular one, and the relative accuracy of a shift. By judgement.
"""
DIVISION_GUARD = 1e-300
"""Stand-in for zero as a divisor or threshold, so that nothing is divided by zero."""
MAX_SHIFT_ITERATIONS = 100
"""Largest number of iterations for a shift λ; Newton's method takes a few. By judgement."""
RADIUS_TOLERANCE = 1e-10
"""Relative excess over the radius at which a step counts as within it. By judgement."""
MIN_SHARE_OF_RADIUS_LEFT = 0.1
"""Smallest radius for the free variables of an active set, as a share of the whole radius.

Variables at their bounds use up part of the radius; without a floor the others could not move. By judgement.
"""
HARD_CASE_SHARE = 1e-6
"""Part of the squared radius, left by the step of an indefinite model, above which this is the hard case.

By judgement."""


def evaluate_quadratic(g: FloatArray, H: FloatArray, s: FloatArray) -> float:
    """Compute the quadratic model `m(s) = gᵀs + ½ sᵀHs`."""
    return float(g @ s + 0.5 * s @ (H @ s))


def _diagonalise(g: FloatArray, H: FloatArray, d: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Diagonalise the scaled Hessian.

    Parameters
    ----------
    g, d : ndarray, (J,)
        Gradient and scales.
    H : ndarray, (J, J)

    Returns
    -------
    w : ndarray, (J,)
        Eigenvalues of Ĥ, ascending.
    V : ndarray, (J, J)
        Eigenvectors of Ĥ.
    a : ndarray, (J,)
        Coefficients `Vᵀĝ` of the scaled gradient.

    Raises
    ------
    LinAlgError
        If the scaled gradient or Hessian is not finite, or if the eigenvalues do not converge.
    """
    with np.errstate(all="ignore"):
        scaled, slope = H / np.outer(d, d), g / d
    # LAPACK reports NaN as missing convergence for some sizes only, and returns NaN for others. Finite derivatives are
    # not enough: with a gradient of 1e-213 and no curvature, d² underflows, and Ĥ is 0/0.
    if not (np.isfinite(scaled).all() and np.isfinite(slope).all()):
        raise np.linalg.LinAlgError("The scaled gradient or Hessian is not finite.")
    w, V = np.linalg.eigh(scaled)
    return w, V, V.T @ slope


def _find_shift(w: FloatArray, a: FloatArray, excess: Callable[[float, float], float]) -> tuple[float, FloatArray]:
    """Find the shift at which a decreasing function is zero, by bisection.

    Parameters
    ----------
    w : ndarray, (J,)
        Eigenvalues of Ĥ, ascending.
    a : ndarray, (J,)
        Coefficients of ĝ.
    excess : callable
        Function of λ and `‖ŝ(λ)‖`, decreasing in λ.

    Returns
    -------
    shift : float
        λ >= max(0, -w₀).
    coefficients : ndarray, (J,)
        Coefficients of ŝ(λ).
    """
    lowest = max(0.0, -float(w[0]))
    size = float(np.abs(w).max()) or 1.0

    def coefficients(shift: float) -> FloatArray:
        """Return the coefficients of ŝ; zero along a singular direction."""
        with np.errstate(divide="ignore", invalid="ignore"):
            c = -a / (w + shift)
        return np.where(np.isfinite(c), c, 0.0)

    low, high = lowest, lowest + RELATIVE_FLATNESS * size
    while excess(high, float(np.linalg.norm(coefficients(high)))) > 0:
        low, high = high, lowest + 4 * (high - lowest)
    # The distance from `lowest` may span many decades: the geometric mean halves their number.
    for _ in range(MAX_SHIFT_ITERATIONS):
        middle = 0.5 * (low + high) if low == lowest else lowest + np.sqrt((low - lowest) * (high - lowest))
        if not low < middle < high or high - low < RELATIVE_FLATNESS * high:
            break
        if excess(middle, float(np.linalg.norm(coefficients(middle)))) > 0:
            low = middle
        else:
            high = middle
    return high, coefficients(high)


def _step_to_sphere(w: FloatArray, a: FloatArray, radius: float) -> FloatArray:
    """Find the step on the boundary of a trust region.

    `1/‖ŝ(λ)‖` is nearly linear in λ and concave, so that Newton's method on it rises to the solution in a few steps.

    Parameters
    ----------
    w : ndarray, (J,)
        Eigenvalues of Ĥ, ascending.
    a : ndarray, (J,)
        Coefficients of ĝ.
    radius : float

    Returns
    -------
    ndarray, (J,)
        Coefficients of ŝ with `‖ŝ(λ)‖ = radius`; of a shorter step in the hard case.
    """
    shift = max(0.0, -float(w[0])) + RELATIVE_FLATNESS * (float(np.abs(w).max()) or 1.0)
    c = np.zeros_like(a)
    for _ in range(MAX_SHIFT_ITERATIONS):
        c = -a / (w + shift)
        norm = float(np.linalg.norm(c))
        if not norm > radius * (1 + RADIUS_TOLERANCE):
            break
        # Newton's step for 1/‖ŝ‖ = 1/Δ, with d‖ŝ‖/dλ = -Σ c²/(w + λ)/‖ŝ‖.
        shift += (norm / radius - 1) * norm**2 / float(np.sum(c * c / (w + shift)))
    return c


def _compute_first_radius(g: FloatArray, d: FloatArray, extent: FloatArray, share: float = FIRST_RADIUS_SHARE) -> float:
    """Return a share of the scaled extent `(J,)` of the region; without one, a gradient step."""
    return share * float(np.linalg.norm(d * extent)) or float(np.linalg.norm(g / d))


@dataclass(frozen=True)
class _RadiusPolicy:
    """When and how the radius of a trust region changes."""

    poor_ratio: float = 0.25
    """Ratio of actual to predicted decrease up to which a step is poor, and the radius shrinks. By judgement."""
    good_ratio: float = 0.75
    """Ratio above which a step is good, and the radius may grow. By judgement."""
    shrinkage: float = 0.25
    """New radius after a poor step, as a share of the shorter of the step and the radius. By judgement."""
    used_share: float = 0.8
    """Share of the radius that a good step has to use for the radius to grow. By judgement."""


_RADIUS = _RadiusPolicy()


@dataclass
class TrustRegion:
    """Steps within `‖d∘s‖ <= radius`.

    Attributes
    ----------
    radius : float
    share : float
        First radius as a share of the extent of the box.
    growth : float
        Factor by which the radius grows after a good step.
    """

    bounded = True
    radius: float = 0.0
    share: float = FIRST_RADIUS_SHARE
    growth: float = 3.0

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Set the first radius to a share of the extent `(J,)` of the region; without one, to a gradient step."""
        self.radius = _compute_first_radius(g, d, extent, self.share)

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return a step `(J,)` between `low` and `high` that decreases the model."""
        plain = self._solve_in_sphere(g, H, d, self.radius)
        if ((plain >= low) & (plain <= high)).all():
            return plain
        # The active set releases a bound only once, so that another candidate may be better.
        candidates = [self._step_by_active_set(g, H, d, low, high), self._compute_cauchy_step(g, H, d, low, high)]
        return min([*candidates, np.clip(plain, low, high)], key=lambda s: evaluate_quadratic(g, H, s))

    def _solve_in_sphere(self, g: FloatArray, H: FloatArray, d: FloatArray, radius: float) -> FloatArray:
        """Return the minimiser `(J,)` of the model within a radius, without bounds."""
        w, V, a = _diagonalise(g, H, d)
        tiny = RELATIVE_FLATNESS * max(abs(w[0]), abs(w[-1]), DIVISION_GUARD)
        if w[0] >= -tiny:
            # The Newton step. Along a flat direction the model gives no length, and the step has no component.
            newton = np.where(w > tiny, -a / np.where(w > tiny, w, 1.0), 0.0)
            if np.linalg.norm(newton) <= radius:
                return np.asarray(V @ newton / d)
        c = _step_to_sphere(w, a, radius)
        short = radius**2 - float(c @ c)
        if w[0] < -tiny and short > HARD_CASE_SHARE * radius**2:
            # The hard case: ĝ has no component along the lowest eigenvector. Extend the step along it to the radius.
            c = c.copy()
            c[0] += np.copysign(np.sqrt(short), -a[0] if a[0] else 1.0)
        return np.asarray(V @ c / d)

    def _step_by_active_set(
        self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """Return a step `(J,)` in the box by an active set, one bound after the other.

        The step moves towards the minimum over the free variables as far as the first bound, at which that variable is
        then held. Putting all variables that would leave the box onto their bounds simultaneously gives a useless step
        if the data determine two of them only jointly. A bound from which the gradient leads away is released, once.
        """
        s = np.zeros_like(g)
        free = ~(((low == 0) & (g > 0)) | ((high == 0) & (g < 0)))
        released = np.zeros_like(free)
        while free.any():
            held = ~free
            remaining = self.radius**2 - float(np.sum((d[held] * s[held]) ** 2))
            radius = np.sqrt(max(remaining, (MIN_SHARE_OF_RADIUS_LEFT * self.radius) ** 2))
            reduced = g[free] + H[np.ix_(free, held)] @ s[held]
            target = s.copy()
            target[free] = self._solve_in_sphere(reduced, H[np.ix_(free, free)], d[free], radius)
            move = target - s
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.where(move > 0, (high - s) / move, np.where(move < 0, (low - s) / move, np.inf))
            first = int(np.argmin(np.where(free, share, np.inf)))
            if share[first] < 1:
                s = np.clip(s + max(float(share[first]), 0.0) * move, low, high)
                s[first] = high[first] if move[first] > 0 else low[first]
                free[first] = False
                continue
            s = np.clip(target, low, high)
            slope = g + H @ s
            wrong = held & ~released & (((s <= low) & (slope < 0)) | ((s >= high) & (slope > 0)))
            if not wrong.any():
                break
            free |= wrong
            released |= wrong
        return s

    def _compute_cauchy_step(
        self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """Return the Cauchy step `(J,)`: the best one along the scaled gradient, clipped to the box."""
        direction = -g / d**2
        direction = np.where((direction < 0) & (low == 0) | (direction > 0) & (high == 0), 0.0, direction)
        norm = float(np.linalg.norm(d * direction))
        if norm == 0:
            return np.zeros_like(g)
        curvature = float(direction @ H @ direction)
        length = self.radius / norm
        if curvature > 0:
            length = min(length, -float(g @ direction) / curvature)
        return np.clip(length * direction, low, high)

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Shrink the radius after a poor step; grow it after a good step that used it."""
        norm = float(np.linalg.norm(d * s))
        if not ratio > _RADIUS.poor_ratio:
            self.radius = _RADIUS.shrinkage * min(norm, self.radius)
        elif ratio > _RADIUS.good_ratio and norm > _RADIUS.used_share * self.radius:
            self.radius *= self.growth


@dataclass
class ReachLimitedTrustRegion(TrustRegion):
    """A trust region in which no step is longer than a share of the extent of the box in any coordinate.

    Attributes
    ----------
    reach : float
        The share.
    """

    reach: float = FIRST_RADIUS_SHARE
    _extent: FloatArray = field(default_factory=lambda: np.zeros(0))

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return a step `(J,)` between `low` and `high` and within reach; coordinates without bounds have no reach."""
        self._extent = 0.5 * (high - low)
        limit = self.reach * self._extent
        return super().step(g, H, d, np.maximum(low, -limit), np.minimum(high, limit))

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Shrink the reach after a poor step; grow it after a good step that used it."""
        super().update(ratio, s, d)
        wide = self._extent > 0
        used = float(np.max(np.abs(s[wide]) / self._extent[wide], initial=0.0))
        if not ratio > _RADIUS.poor_ratio:
            # A step that moves no coordinate with bounds must not set the reach to zero, from which it cannot grow.
            self.reach = _RADIUS.shrinkage * min(used, self.reach) or self.reach
        elif ratio > _RADIUS.good_ratio and used > _RADIUS.used_share * self.reach:
            self.reach *= self.growth


@dataclass(frozen=True)
class _CubicPolicy:
    """When and how the weight of cubic regularisation changes."""

    poor_ratio: float = 0.1
    """Ratio of actual to predicted decrease up to which a step is poor, and the weight grows. By judgement."""
    good_ratio: float = 0.75
    """Ratio above which a step is good, and the weight shrinks. By judgement."""
    growth: float = 4.0
    """Factor by which the weight is multiplied after a poor step. By judgement."""
    shrinkage: float = 0.3
    """Factor by which the weight is multiplied after a good step. By judgement."""


_CUBIC = _CubicPolicy()


@dataclass
class CubicRegularisation:
    """Steps that minimise the model with `weight/3 ‖d∘s‖³` added.

    Attributes
    ----------
    weight : float
        c.
    """

    bounded = False
    weight: float = 1.0

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Set the weight so that a gradient step has about the length of the first radius of a trust region."""
        # Without curvature the minimiser has c ‖ŝ‖² = ‖ĝ‖.
        self.weight = float(np.linalg.norm(g / d)) / max(_compute_first_radius(g, d, extent), DIVISION_GUARD) ** 2

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """Return the step `(J,)`; `low` and `high` are not used."""
        del low, high
        w, V, a = _diagonalise(g, H, d)
        _, c = _find_shift(w, a, lambda shift, norm: self.weight * norm - shift)
        return np.asarray(V @ c / d)

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Raise the weight after a poor step, lower it after a good one."""
        del s, d
        if not ratio > _CUBIC.poor_ratio:
            self.weight *= _CUBIC.growth
        elif ratio > _CUBIC.good_ratio:
            self.weight *= _CUBIC.shrinkage
