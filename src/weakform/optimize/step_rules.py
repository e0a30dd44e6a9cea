"""Ways to choose a step from a quadratic model `m(s) = gᵀs + ½ sᵀHs`.

All work in scaled variables `ŝ = d∘s`, in which the curvatures are about one, so that the units of a parameter do not
matter, and diagonalise `Ĥ = V diag(w) Vᵀ`; with `a = Vᵀĝ` the step is `ŝ = -V a/(w + λ)` for a shift λ that makes
`Ĥ + λ` positive definite:

- trust region: `λ = 0` if the Newton step fits, else `‖ŝ‖ = Δ`. Bounds are met by an active set: what would leave the
  box is put on its bound and the rest is solved again.
- trust region with a reach: a coordinate without curvature costs nothing in m, and with `d` nothing in ‖ŝ‖ either; so
  each also stays within `|s_j| <= reach · extent_j`, that of the box; the reach shrinks and grows as the radius does.
- cubic regularisation: `λ = c ‖ŝ‖`, the minimiser of `m(s) + c/3 ‖ŝ‖³`; without bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ..support.array_types import FloatArray


def quadratic(g: FloatArray, H: FloatArray, s: FloatArray) -> float:
    """`m(s)`."""
    return float(g @ s + 0.5 * s @ (H @ s))


def _shift(w: FloatArray, a: FloatArray, excess: Callable[[float, float], float]) -> tuple[float, FloatArray]:
    """The λ >= max(0, -w₀) at which `excess(λ, ‖ŝ(λ)‖)`, decreasing, is zero, and the coefficients of ŝ."""
    lowest = max(0.0, -float(w[0]))
    size = float(np.abs(w).max()) or 1.0

    def coefficients(shift: float) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            c = -a / (w + shift)
        return np.where(np.isfinite(c), c, 0.0)

    low, high = lowest, lowest + 1e-12 * size
    while excess(high, float(np.linalg.norm(coefficients(high)))) > 0:
        low, high = high, lowest + 4 * (high - lowest)
    for _ in range(100):
        middle = 0.5 * (low + high) if low == lowest else lowest + np.sqrt((low - lowest) * (high - lowest))
        if not low < middle < high or high - low < 1e-12 * high:
            break
        if excess(middle, float(np.linalg.norm(coefficients(middle)))) > 0:
            low = middle
        else:
            high = middle
    return high, coefficients(high)


def _on_sphere(w: FloatArray, a: FloatArray, radius: float) -> FloatArray:
    """The coefficients of ŝ with `‖ŝ(λ)‖ = radius`; shorter ones in the hard case.

    `1/‖ŝ‖` is nearly linear in λ and concave: Newton's method on it goes up to the solution from below, in a few steps.
    """
    shift = max(0.0, -float(w[0])) + 1e-12 * (float(np.abs(w).max()) or 1.0)
    for _ in range(100):
        c = -a / (w + shift)
        norm = float(np.linalg.norm(c))
        if not norm > radius * (1 + 1e-10):
            break
        shift += (norm / radius - 1) * norm**2 / float(np.sum(c * c / (w + shift)))
    return c


FIRST_SHARE = 0.1
"""With 0.5 three of 60 random starts ran into a corner of the box on SIR-TDI and on Goodwin; with 0.1 none."""


def _first_radius(g: FloatArray, d: FloatArray, extent: FloatArray, share: float = FIRST_SHARE) -> float:
    return share * float(np.linalg.norm(d * extent)) or float(np.linalg.norm(g / d))


@dataclass
class TrustRegion:
    """Steps within `‖d∘s‖ <= radius`, which begins as a share of the extent of the box."""

    bounded = True
    radius: float = 0.0
    share: float = FIRST_SHARE
    growth: float = 3.0

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Start with a share of the extent of the box, or of the start; else with a gradient step."""
        self.radius = _first_radius(g, d, extent, self.share)

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """A step between `low` and `high` that decreases the model."""
        plain = self._solve(g, H, d, self.radius)
        if ((plain >= low) & (plain <= high)).all():
            return plain
        candidates = [self._active_set(g, H, d, low, high), self._cauchy(g, H, d, low, high)]
        return min([*candidates, np.clip(plain, low, high)], key=lambda s: quadratic(g, H, s))

    def _solve(self, g: FloatArray, H: FloatArray, d: FloatArray, radius: float) -> FloatArray:
        w, V = np.linalg.eigh(H / np.outer(d, d))
        a = V.T @ (g / d)
        tiny = 1e-12 * max(abs(w[0]), abs(w[-1]), 1e-300)
        if w[0] >= -tiny:
            # The Newton step; along a direction without curvature there is nothing to go by, and it stays.
            newton = np.where(w > tiny, -a / np.where(w > tiny, w, 1.0), 0.0)
            if np.linalg.norm(newton) <= radius:
                return np.asarray(V @ newton / d)
        c = _on_sphere(w, a, radius)
        short = radius**2 - float(c @ c)
        if w[0] < -tiny and short > 1e-6 * radius**2:  # the hard case: fill up along the lowest eigenvector
            c = c.copy()
            c[0] += np.copysign(np.sqrt(short), -a[0] if a[0] else 1.0)
        return np.asarray(V @ c / d)

    def _active_set(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """One bound after the other: towards the minimum of what is free, as far as the first bound, which then holds.

        To put all that would leave the box onto their bounds at once is no step at all where two of them are known only
        together. A bound that the gradient leads away from is let go, once.
        """
        s = np.zeros_like(g)
        free = ~(((low == 0) & (g > 0)) | ((high == 0) & (g < 0)))
        released = np.zeros_like(free)
        while free.any():
            held = ~free
            left = self.radius**2 - float(np.sum((d[held] * s[held]) ** 2))
            reduced = g[free] + H[np.ix_(free, held)] @ s[held]
            target = s.copy()
            target[free] = self._solve(
                reduced, H[np.ix_(free, free)], d[free], np.sqrt(max(left, (0.1 * self.radius) ** 2))
            )
            way = target - s
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(way > 0, (high - s) / way, np.where(way < 0, (low - s) / way, np.inf))
            first = int(np.argmin(np.where(free, room, np.inf)))
            if room[first] < 1:
                s = np.clip(s + max(float(room[first]), 0.0) * way, low, high)
                s[first] = high[first] if way[first] > 0 else low[first]
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

    def _cauchy(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
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
        """Shrink after a poor step, grow after a good one that used the radius."""
        norm = float(np.linalg.norm(d * s))
        if not ratio > 0.25:
            self.radius = 0.25 * min(norm, self.radius)
        elif ratio > 0.75 and norm > 0.8 * self.radius:
            self.radius *= self.growth


@dataclass
class Reaching(TrustRegion):
    """A trust region in which no step is longer than a share of the extent of the box in any coordinate."""

    reach: float = FIRST_SHARE
    _extent: FloatArray = field(default_factory=lambda: np.zeros(0))

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """A step between `low` and `high`, and within reach; without a bound anything is."""
        self._extent = 0.5 * (high - low)
        far = self.reach * self._extent
        return super().step(g, H, d, np.maximum(low, -far), np.minimum(high, far))

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Shrink and grow the reach by what of it was used."""
        super().update(ratio, s, d)
        wide = self._extent > 0
        used = float(np.max(np.abs(s[wide]) / self._extent[wide], initial=0.0))
        if not ratio > 0.25:
            self.reach = 0.25 * min(used, self.reach) or self.reach
        elif ratio > 0.75 and used > 0.8 * self.reach:
            self.reach *= self.growth


@dataclass
class Cubic:
    """Steps that minimise the model with `weight/3 ‖d∘s‖³` added."""

    bounded = False
    weight: float = 1.0

    def begin(self, g: FloatArray, d: FloatArray, extent: FloatArray) -> None:
        """Start so that a gradient step of the trust region's first radius is about right."""
        self.weight = float(np.linalg.norm(g / d)) / max(_first_radius(g, d, extent), 1e-300) ** 2

    def step(self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
        """The step; `low` and `high` are infinite."""
        del low, high
        w, V = np.linalg.eigh(H / np.outer(d, d))
        a = V.T @ (g / d)
        _, c = _shift(w, a, lambda shift, norm: self.weight * norm - shift)
        return np.asarray(V @ c / d)

    def update(self, ratio: float, s: FloatArray, d: FloatArray) -> None:
        """Regularise more after a poor step, less after a good one."""
        del s, d
        if not ratio > 0.1:
            self.weight *= 4.0
        elif ratio > 0.75:
            self.weight *= 0.3
