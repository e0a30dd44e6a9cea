"""The finest test functions: one box for each sampling interval.

With φ = 1 on [t_m, t_{m+1}], integration by parts leaves `-⟨φ', x⟩ = x(t_{m+1}) - x(t_m)`: the weak equation reads

    c_m(p, x) = x_{m+1} - x_m - h/6 (f_m + 4 f_{m+½} + f_{m+1}) = 0
    x_{m+½} = (x_m + x_{m+1})/2 + h/8 (f_m - f_{m+1})

by Simpson's rule with the cubic Hermite midpoint (fourth order, A-stable). M such equations for M + 1 states leave no
information in the data unused. They are a constraint on the noise-free states: of all states that obey them the most
probable are those nearest to the data,

    minimise ½ Σ (x^data - x)²/v   over p and x   subject to c(p, x) = 0,

solved by Gauss–Newton steps on the linearised constraint (Gauss–Helmert). At (p, x̂), with e = x^data - x̂, A = ∂c/∂x,
G = ∂c/∂p, S = A diag(v) Aᵀ and ρ = c + A e:

    δp = -(Gᵀ S⁻¹ G)⁻¹ Gᵀ S⁻¹ ρ,     z = S⁻¹(ρ + G δp),     x̂ ← x^data - diag(v) Aᵀ z,     Cov p̂ = (Gᵀ S⁻¹ G)⁻¹.

S is banded with 2D - 1 sub-diagonals: a step costs O(M D²(D + J)). A value that was not measured has a large v and is
put back to its current estimate before each step, so that it carries no weight; a finer mesh is data with such rows.
Trajectories stand one behind the other, with no interval between the last node of one and the first of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..linalg.interval_chain import BandFactor, Chain, ChainFactor
from ..model.system import System
from ..support.array_types import BoolArray, FloatArray, IntArray
from .simpson_rule import NAMES, Pattern, dense_f, linearised

SUBSTEPS = 16
"""Steps of the solution by which the rule on an interval is checked."""
AFTER = 1e-9
"""How far before the end of a step it ends: an input may jump there."""
LATENT = 1e6
"""Variance of a value that was not measured, in units of that of one that was."""


@dataclass(frozen=True)
class Part:
    """One trajectory on the nodes of a mesh; see `Mesh`."""

    system: System
    times: FloatArray
    data: FloatArray
    measured: BoolArray
    scale: FloatArray | None = None


@dataclass(frozen=True)
class _Group:
    """Trajectories in a row that have the same equations: their nodes, and their intervals."""

    system: System
    nodes: slice
    intervals: slice


@dataclass(frozen=True)
class Mesh:
    """Trajectories on the nodes of a mesh, one behind the other.

    Attributes
    ----------
    systems : tuple of System
        Of each trajectory.
    begins : ndarray of int, (trajectories + 1,)
        The first node of each, and the number of all.
    times : ndarray, (nodes,)
    data : ndarray, (nodes, D)
        In working coordinates; anything finite where not measured.
    measured : ndarray of bool, (nodes, D)
    scale : ndarray, (nodes, D), or None for ones
        Standard deviation of each value relative to the σ of its state.
    samples : ndarray of int, or slice
        The nodes at which the data are; all, unless the mesh is a finer one.
    offset : ndarray, (intervals, D), or None for zeros
        What is added to the rule: its error as it was found before (deferred correction).
    """

    systems: tuple[System, ...]
    begins: IntArray
    times: FloatArray
    data: FloatArray
    measured: BoolArray
    scale: FloatArray | None = None
    samples: IntArray | slice = field(default_factory=lambda: slice(None))
    offset: FloatArray | None = None

    @classmethod
    def of(cls, parts: Sequence[Part]) -> Mesh:
        """Of trajectories."""
        begins = np.cumsum([0, *(len(part.times) for part in parts)])
        scale = None
        if any(part.scale is not None for part in parts):
            scale = np.concatenate([np.ones(p.data.shape) if p.scale is None else p.scale for p in parts])
        return cls(
            tuple(part.system for part in parts),
            begins,
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.measured for part in parts]),
            scale=scale,
        )

    def cut(self, length: int) -> Mesh:
        """The same with trajectories cut into pieces of that many nodes or somewhat more, each on its own."""
        begins, systems = [0], []
        for system, first, last in zip(self.systems, self.begins[:-1], self.begins[1:], strict=True):
            count = max((last - first) // length, 1)
            systems += [system] * count
            begins += [first + (last - first) * (k + 1) // count for k in range(count)]
        return replace(self, systems=tuple(systems), begins=np.array(begins))

    def split(self, values: FloatArray) -> tuple[FloatArray, ...]:
        """What belongs to each trajectory of `(nodes, ...)`."""
        return tuple(np.split(values, self.begins[1:-1]))

    @property
    def system(self) -> System:
        """That of the first trajectory; states and noise are the same in all."""
        return self.systems[0]

    @cached_property
    def begin(self) -> IntArray:
        """The node at which each interval begins, `(intervals,)`."""
        inner = np.ones(len(self.times), dtype=bool)
        inner[self.begins[1:] - 1] = False
        return np.flatnonzero(inner)

    @cached_property
    def h(self) -> FloatArray:
        """The length of each interval, `(intervals,)`."""
        return np.asarray(self.times[self.begin + 1] - self.times[self.begin])

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        found: list[_Group] = []
        for k, system in enumerate(self.systems):
            first, last = int(self.begins[k]), int(self.begins[k + 1])
            if found and found[-1].system.core == system.core:
                nodes, intervals = found[-1].nodes, found[-1].intervals
                found[-1] = _Group(system, slice(nodes.start, last), slice(intervals.start, last - k - 1))
            else:
                found.append(_Group(system, slice(first, last), slice(first - k, last - k - 1)))
        return tuple(found)

    def _driven(self, times: FloatArray, begins: IntArray, before: bool = False) -> FloatArray | None:
        """Inputs at the times of each trajectory, `(times, I)`."""
        parts = np.split(times, begins[1:-1])
        values = [s.inputs(t, before) for s, t in zip(self.systems, parts, strict=True) if s.inputs is not None]
        return np.concatenate(values) if values else None

    @cached_property
    def _inputs(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """At the nodes; at the nodes before they jump, if they do; in the middle of each interval."""
        jump = any(system.jumps for system in self.systems)
        intervals = self.begins - np.arange(len(self.begins))
        return (
            self._driven(self.times, self.begins),
            self._driven(self.times, self.begins, before=True) if jump else None,
            self._driven(self.times[self.begin] + self.h / 2, intervals),
        )

    def variances(self, sigma: FloatArray) -> FloatArray:
        """Of the noise, `(nodes, D)`, from that of the states `(D,)`."""
        v = np.where(self.measured, 1.0, LATENT)
        if self.scale is not None:
            v = np.where(self.measured, self.scale**2, v)
        return np.asarray(v * sigma**2)

    def residuals(self, x: FloatArray) -> FloatArray:
        """`x^data - x` over the scale, zero where not measured, `(nodes, D)`."""
        e = np.where(self.measured, self.data - x, 0.0)
        return e if self.scale is None else np.where(self.measured, e / self.scale, 0.0)

    def _evaluated(
        self, x: FloatArray, p: FloatArray, names: tuple[str, ...]
    ) -> Iterator[tuple[_Group, FloatArray, FloatArray, FloatArray]]:
        """For each group, rows of tensors at the beginning, at the end and in the middle of its intervals."""
        after, before, middle = self._inputs
        for group in self._groups:
            system, here, intervals = group.system, group.nodes, group.intervals
            begin, h, times = self.begin[intervals], self.h[intervals], self.times[here]
            u = system.from_working(x[here])
            every = system.rows(times, u, p, names, None if after is None else after[here])
            ends = every if before is None else system.rows(times, u, p, names, before[here])
            inside = begin - here.start
            if len(inside) == len(times) - 1:  # one trajectory: no copies
                left, right = every[:-1], ends[1:]
            else:
                left, right = every[inside], ends[inside + 1]
            middle_x = _middle(x[begin], x[begin + 1], h, dense_f(system, left), dense_f(system, right))
            driven = None if middle is None else middle[intervals]
            rows = system.rows(self.times[begin] + h / 2, system.from_working(middle_x), p, names, driven)
            yield group, left, right, rows

    def defects(self, p: FloatArray, x: FloatArray) -> FloatArray:
        """`c(p, x)`, `(intervals, D)`."""
        c = x[self.begin + 1] - x[self.begin]
        for group, *rows in self._evaluated(x, p, ("f",)):
            f0, f1, fm = (dense_f(group.system, part) for part in rows)
            c[group.intervals] -= self.h[group.intervals, None] / 6 * (f0 + 4 * fm + f1)
        return c if self.offset is None else c + self.offset

    def linearise(self, p: FloatArray, x: FloatArray) -> Linearised:
        """`c` and its derivatives at (p, x)."""
        parts = []
        for group, *rows in self._evaluated(x, p, NAMES):
            begin, h = self.begin[group.intervals], self.h[group.intervals]
            pattern = Pattern.of(group.system)
            parts.append(linearised(pattern, h, (x[begin], x[begin + 1]), (rows[0], rows[1], rows[2])))
        c, left, right, G = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if self.offset is not None:
            c = c + self.offset
        return Linearised(c, Chain(self.begin, left, right), G)

    def halved(self, p: FloatArray, x: FloatArray) -> tuple[Mesh, FloatArray]:
        """A mesh twice as fine, and the states on it.

        The Hermite midpoint is of fourth order, as the rule itself; two passes that carry the end points to the middle
        by the rule on each half make it better than the rule.
        """
        place = np.arange(len(x)) + np.searchsorted(self.begin, np.arange(len(x)))
        between = place[self.begin] + 1
        nodes = len(x) + len(self.begin)
        times, fine = np.empty(nodes), np.empty((nodes, x.shape[1]))
        times[place], times[between] = self.times, self.times[self.begin] + self.h / 2
        fine[place] = x
        for group, left, right, _ in self._evaluated(x, p, ("f",)):
            begin, h = self.begin[group.intervals], self.h[group.intervals]
            f0, f1 = dense_f(group.system, left), dense_f(group.system, right)
            fine[between[group.intervals]] = _middle(x[begin], x[begin + 1], h, f0, f1)
        measured = np.zeros(fine.shape, dtype=bool)
        measured[place] = self.measured
        data = fine.copy()
        data[place] = np.where(self.measured, self.data, x)
        scale = None
        if self.scale is not None:
            scale = np.ones(fine.shape)
            scale[place] = self.scale
        begins = np.append(place[self.begins[:-1]], nodes)
        mesh = Mesh(self.systems, begins, times, data, measured, scale=scale, samples=place[self.samples])
        for _ in range(2):
            c = mesh.defects(p, fine)
            fine[between] += 0.5 * (c[1::2] - c[::2])
        return mesh, fine

    def corrected(self, p: FloatArray, x: FloatArray) -> Mesh:
        """The same mesh with the error of its rule at (p, x) taken out: near there as good as a much finer one."""
        offset = self.truncation(p, x)
        return replace(self, offset=offset if self.offset is None else offset + self.offset)

    def truncation(self, p: FloatArray, x: FloatArray, substeps: int = SUBSTEPS) -> FloatArray:
        """What an exact solution over each interval would change in `c`, `(intervals, D)`: the error of the rule.

        By the classical Runge–Kutta method with many small steps in each interval, all intervals at once; not finite
        where the equations are too stiff even for these.
        """
        h, times = self.h / substeps, self.times[self.begin]
        y, wide = x[self.begin], h[:, None]
        f = self._right_side(p)
        for k in range(substeps):
            a = f(times + k * h, y)
            b = f(times + (k + 0.5) * h, y + wide / 2 * a)
            c = f(times + (k + 0.5) * h, y + wide / 2 * b)
            d = f(times + (k + 1 - AFTER) * h, y + wide * c)
            y = y + wide / 6 * (a + 2 * b + 2 * c + d)
        return np.asarray(x[self.begin + 1] - y - self.defects(p, x))

    def _right_side(self, p: FloatArray) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """The right-hand side of a time in each interval, and states `(intervals, D)` then."""
        intervals = self.begins - np.arange(len(self.begins))

        def f(times: FloatArray, y: FloatArray) -> FloatArray:
            driven, value = self._driven(times, intervals), np.empty(y.shape)
            for group in self._groups:
                part = group.intervals
                u, inputs = group.system.from_working(y[part]), None if driven is None else driven[part]
                value[part] = dense_f(group.system, group.system.rows(times[part], u, p, ("f",), inputs))
            return value

        return f


def _middle(x0: FloatArray, x1: FloatArray, h: FloatArray, f0: FloatArray, f1: FloatArray) -> FloatArray:
    return 0.5 * (x0 + x1) + h[:, None] / 8 * (f0 - f1)


@dataclass(frozen=True)
class Linearised:
    """`c(p + δp, x + δx) ≈ c + A δx + G δp`.

    Attributes
    ----------
    c : ndarray, (intervals, D)
    A : Chain
    G : ndarray, (intervals, D, J)
    """

    c: FloatArray
    A: Chain
    G: FloatArray

    def covariance(self, v: FloatArray) -> ChainFactor | BandFactor:
        """S = A diag(v) Aᵀ, factorised; `v` is `(nodes, D)`. Raises `NotPositiveDefinite`."""
        return self.A.covariance(v)
