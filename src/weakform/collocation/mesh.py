"""The weak equations on single intervals, as a constraint on the states on a mesh.

The finest test functions are boxes, one for each sampling interval. With φ = 1 on [t_m, t_{m+1}], integration by parts
leaves `-⟨φ', x⟩ = x(t_{m+1}) - x(t_m)`, and the weak equation reads

    c_m(p, x) = x_{m+1} - x_m - h/6 (f_m + 4 f_{m+½} + f_{m+1}) = 0
    x_{m+½} = (x_m + x_{m+1})/2 + h/8 (f_m - f_{m+1})

by Simpson's rule with the cubic Hermite midpoint (fourth order, A-stable). M such equations for M + 1 states use all
information in the data. They are a constraint on the noise-free states. Of all states that obey them, the most probable
are those nearest to the data,

    minimise ½ Σ (x^data - x)²/v   over p and x   subject to c(p, x) = 0,

which Gauss–Newton steps on the linearised constraint find (Gauss–Helmert). At (p, x̂), with e = x^data - x̂, A = ∂c/∂x,
G = ∂c/∂p, S = A diag(v) Aᵀ and ρ = c + A e:

    δp = -(Gᵀ S⁻¹ G)⁻¹ Gᵀ S⁻¹ ρ,     z = S⁻¹(ρ + G δp),     x̂ ← x^data - diag(v) Aᵀ z,     Cov p̂ = (Gᵀ S⁻¹ G)⁻¹.

S is banded with 2D - 1 sub-diagonals, so that a step costs O(M D²(D + J)). A value that was not measured has a large v
and is reset to its current estimate before each step, so that it has no weight. A finer mesh only adds rows of such
values to the data. Trajectories are concatenated, with no interval between the last node of one and the first of the
next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..linalg.interval_chain import BandFactor, Chain, ChainFactor
from ..model.system import System
from ..support.array_types import BoolArray, FloatArray, IntArray
from .simpson_rule import (
    ROW_TENSORS,
    RowPattern,
    compute_hermite_midpoints,
    compute_simpson_defects,
    extract_dense_f,
    improve_midpoints,
    insert_midpoints,
    linearise_rule,
)

TRUNCATION_SUBSTEPS = 16
"""Number of Runge–Kutta steps with which `Mesh.estimate_truncation` solves the equations over one interval.

More steps can follow stiffer equations, and cost proportionally more evaluations. By judgement.
"""
END_MARGIN = 1e-9
"""Share of a Runge–Kutta step by which its last stage lies before the end of the step.

An input may jump at the end of an interval; the last stage has to see its value before the jump.
"""
UNMEASURED_VARIANCE = 1e6
"""Variance of a value that was not measured, relative to that of a measured one.

The value is reset to its current estimate before each step and thus has no residual. The variance has to be so large
that it carries no weight, and small enough for S to keep a Cholesky factor. By judgement.
"""


@dataclass(frozen=True)
class MeshPart:
    """One trajectory on the nodes of a mesh; `Mesh` describes the attributes."""

    system: System
    times: FloatArray
    data: FloatArray
    measured: BoolArray
    scale: FloatArray | None = None


@dataclass(frozen=True)
class _Group:
    """Consecutive trajectories with the same equations: their nodes and their intervals."""

    system: System
    nodes: slice
    intervals: slice


@dataclass(frozen=True)
class Mesh:
    """Trajectories on the nodes of a mesh, concatenated.

    Attributes
    ----------
    systems : tuple of System
        The equations of each trajectory.
    begins : ndarray of int, (trajectories + 1,)
        First node of each trajectory, and the number of all nodes.
    times : ndarray, (nodes,)
    data : ndarray, (nodes, D)
        Data in working coordinates; any finite value if not measured.
    measured : ndarray of bool, (nodes, D)
    scale : ndarray, (nodes, D), or None for ones
        Standard deviation of each value relative to the σ of its state.
    samples : ndarray of int, or slice
        Nodes of the samples: all, unless the mesh is finer than the data.
    offset : ndarray, (intervals, D), or None for zeros
        Error of the rule, estimated before and added to it (deferred correction).
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
    def from_parts(cls, parts: Sequence[MeshPart]) -> Mesh:
        """Concatenate trajectories."""
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

    def cut_into_pieces(self, length: int) -> Mesh:
        """Return the mesh with each trajectory cut into uncoupled pieces of at least `length` nodes.

        A trajectory with fewer nodes stays whole.
        """
        begins, systems = [0], []
        for system, first, last in zip(self.systems, self.begins[:-1], self.begins[1:], strict=True):
            count = max((last - first) // length, 1)
            systems += [system] * count
            begins += [first + (last - first) * (k + 1) // count for k in range(count)]
        return replace(self, systems=tuple(systems), begins=np.array(begins))

    def split_by_trajectory(self, values: FloatArray) -> tuple[FloatArray, ...]:
        """Split rows `(nodes, ...)` by trajectory."""
        return tuple(np.split(values, self.begins[1:-1]))

    @property
    def system(self) -> System:
        """Equations of the first trajectory; states and noise are the same in all trajectories."""
        return self.systems[0]

    @cached_property
    def interval_begins(self) -> IntArray:
        """Node at which each interval begins, `(intervals,)`."""
        inner = np.ones(len(self.times), dtype=bool)
        inner[self.begins[1:] - 1] = False
        return np.flatnonzero(inner)

    @cached_property
    def h(self) -> FloatArray:
        """Length of each interval, `(intervals,)`."""
        return np.asarray(self.times[self.interval_begins + 1] - self.times[self.interval_begins])

    @cached_property
    def _groups(self) -> tuple[_Group, ...]:
        """Maximal runs of trajectories that can be evaluated in one call."""
        groups: list[_Group] = []
        for k, system in enumerate(self.systems):
            first, last = int(self.begins[k]), int(self.begins[k + 1])
            # Trajectory k has one interval fewer than nodes, as each before it: its intervals begin at first - k.
            if groups and groups[-1].system.equations_id == system.equations_id:
                nodes, intervals = groups[-1].nodes, groups[-1].intervals
                groups[-1] = _Group(system, slice(nodes.start, last), slice(intervals.start, last - k - 1))
            else:
                groups.append(_Group(system, slice(first, last), slice(first - k, last - k - 1)))
        return tuple(groups)

    def _evaluate_inputs(self, times: FloatArray, begins: IntArray, before: bool = False) -> FloatArray | None:
        """Return the inputs `(times, I)` at times of all trajectories; None if there are no inputs.

        Parameters
        ----------
        times : ndarray, (times,)
        begins : ndarray of int, (trajectories + 1,)
            Index of the first time of each trajectory, and the number of all.
        before : bool
            Take the limits from the left.
        """
        parts = np.split(times, begins[1:-1])
        values = [s.inputs(t, before) for s, t in zip(self.systems, parts, strict=True) if s.inputs is not None]
        return np.concatenate(values) if values else None

    @cached_property
    def _inputs(self) -> tuple[FloatArray | None, FloatArray | None, FloatArray | None]:
        """Inputs at the nodes, just before the nodes (None if no input jumps), and in the middle of each interval."""
        jump = any(system.has_jumps for system in self.systems)
        intervals = self.begins - np.arange(len(self.begins))
        return (
            self._evaluate_inputs(self.times, self.begins),
            self._evaluate_inputs(self.times, self.begins, before=True) if jump else None,
            self._evaluate_inputs(self.times[self.interval_begins] + self.h / 2, intervals),
        )

    def compute_variances(self, sigma: FloatArray) -> FloatArray:
        """Compute the variance of each value, `(nodes, D)`, from the σ of each state, `(D,)`."""
        v = np.where(self.measured, 1.0, UNMEASURED_VARIANCE)
        if self.scale is not None:
            v = np.where(self.measured, self.scale**2, v)
        return np.asarray(v * sigma**2)

    def compute_residuals(self, x: FloatArray) -> FloatArray:
        """Compute `x^data - x` over the scale, `(nodes, D)`; zero for values that were not measured."""
        e = np.where(self.measured, self.data - x, 0.0)
        return e if self.scale is None else np.where(self.measured, e / self.scale, 0.0)

    def _evaluate_rows(
        self, x: FloatArray, p: FloatArray, names: tuple[str, ...]
    ) -> Iterator[tuple[_Group, FloatArray, FloatArray, FloatArray]]:
        """Yield, for each group, rows of tensors at the beginning, at the end and in the middle of its intervals.

        Parameters
        ----------
        x : ndarray, (nodes, D)
        p : ndarray, (J,)
        names : tuple of str
            Tensors of a row; the first is "f".
        """
        after, before, middle = self._inputs
        for group in self._groups:
            system, nodes, intervals = group.system, group.nodes, group.intervals
            begin, h, times = self.interval_begins[intervals], self.h[intervals], self.times[nodes]
            u = system.from_working(x[nodes])
            starts = system.evaluate_rows(times, u, p, names, None if after is None else after[nodes])
            ends = starts if before is None else system.evaluate_rows(times, u, p, names, before[nodes])
            inside = begin - nodes.start
            if len(inside) == len(times) - 1:  # one trajectory: slices need no copies
                left, right = starts[:-1], ends[1:]
            else:
                left, right = starts[inside], ends[inside + 1]
            f0, f1 = extract_dense_f(system, left), extract_dense_f(system, right)
            middle_x = compute_hermite_midpoints(x[begin], x[begin + 1], h, f0, f1)
            driven = None if middle is None else middle[intervals]
            rows = system.evaluate_rows(self.times[begin] + h / 2, system.from_working(middle_x), p, names, driven)
            yield group, left, right, rows

    def compute_defects(self, p: FloatArray, x: FloatArray) -> FloatArray:
        """Compute `c(p, x)`, `(intervals, D)`, from p `(J,)` and x `(nodes, D)`."""
        c = np.empty((len(self.interval_begins), x.shape[1]))
        for group, *rows in self._evaluate_rows(x, p, ("f",)):
            begin, h = self.interval_begins[group.intervals], self.h[group.intervals]
            f0, f1, fm = (extract_dense_f(group.system, part) for part in rows)
            c[group.intervals] = compute_simpson_defects((x[begin], x[begin + 1]), h, f0, fm, f1)
        return c if self.offset is None else c + self.offset

    def linearise(self, p: FloatArray, x: FloatArray) -> LinearisedConstraint:
        """Compute `c` and its derivatives at p `(J,)` and x `(nodes, D)`."""
        parts = []
        for group, *rows in self._evaluate_rows(x, p, ROW_TENSORS):
            begin, h = self.interval_begins[group.intervals], self.h[group.intervals]
            pattern = RowPattern.from_system(group.system)
            parts.append(linearise_rule(pattern, h, (x[begin], x[begin + 1]), (rows[0], rows[1], rows[2])))
        c, left, right, G = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        if self.offset is not None:
            c = c + self.offset
        return LinearisedConstraint(c, Chain(self.interval_begins, left, right), G)

    def halve_intervals(self, p: FloatArray, x: FloatArray) -> tuple[Mesh, FloatArray]:
        """Halve all intervals.

        The Hermite midpoint is of fourth order, like the rule itself. Two passes that carry both ends to the middle by
        the rule on each half make it more accurate than the rule.

        Parameters
        ----------
        p : ndarray, (J,)
        x : ndarray, (nodes, D)

        Returns
        -------
        mesh : Mesh
            Its new nodes are values that were not measured.
        states : ndarray, (finer nodes, D)
        """
        middles = np.empty((len(self.interval_begins), x.shape[1]))
        for group, left, right, _ in self._evaluate_rows(x, p, ("f",)):
            begin, h = self.interval_begins[group.intervals], self.h[group.intervals]
            f0, f1 = extract_dense_f(group.system, left), extract_dense_f(group.system, right)
            middles[group.intervals] = compute_hermite_midpoints(x[begin], x[begin + 1], h, f0, f1)
        times, _, _ = insert_midpoints(self.times, self.interval_begins, self.times[self.interval_begins] + self.h / 2)
        states, old, new = insert_midpoints(x, self.interval_begins, middles)
        measured = np.zeros(states.shape, dtype=bool)
        measured[old] = self.measured
        # The data of new nodes only have to be finite: they are not measured.
        data = states.copy()
        data[old] = np.where(self.measured, self.data, x)
        scale = None
        if self.scale is not None:
            scale = np.ones(states.shape)
            scale[old] = self.scale
        begins = np.append(old[self.begins[:-1]], len(states))
        # Without `offset`: it is the error of the rule on the coarse intervals.
        mesh = Mesh(self.systems, begins, times, data, measured, scale=scale, samples=old[self.samples])
        # Every interval was halved: first and second halves alternate.
        halves = slice(None, None, 2), slice(1, None, 2)
        return mesh, improve_midpoints(lambda fine: mesh.compute_defects(p, fine), states, new, halves)

    def correct_rule(self, p: FloatArray, x: FloatArray) -> Mesh:
        """Return the mesh with the error of its rule at p `(J,)` and x `(nodes, D)` subtracted (deferred correction).

        Near that point the rule is as accurate as on a much finer mesh (`tests/collocation/test_gauss_helmert.py`).
        """
        offset = self.estimate_truncation(p, x)
        return replace(self, offset=offset if self.offset is None else offset + self.offset)

    def estimate_truncation(self, p: FloatArray, x: FloatArray, substeps: int = TRUNCATION_SUBSTEPS) -> FloatArray:
        """Estimate the error of the rule: `(x_{m+1} - x(t_{m+1}; x_m)) - c_m` with the solution x(t; x_m) from x_m.

        The classical Runge–Kutta method solves the equations with small steps in each interval, for all intervals
        simultaneously. If the equations are too stiff even for these steps, the result is not finite.

        Parameters
        ----------
        p : ndarray, (J,)
        x : ndarray, (nodes, D)
        substeps : int
            Runge–Kutta steps for each interval.

        Returns
        -------
        ndarray, (intervals, D)
        """
        h, times = self.h / substeps, self.times[self.interval_begins]
        y, wide = x[self.interval_begins], h[:, None]
        f = self._build_right_side(p)
        for k in range(substeps):
            a = f(times + k * h, y)
            b = f(times + (k + 0.5) * h, y + wide / 2 * a)
            c = f(times + (k + 0.5) * h, y + wide / 2 * b)
            d = f(times + (k + 1 - END_MARGIN) * h, y + wide * c)
            y = y + wide / 6 * (a + 2 * b + 2 * c + d)
        # The defects contain `offset`, so that this is the error that a correction has left.
        return np.asarray(x[self.interval_begins + 1] - y - self.compute_defects(p, x))

    def _build_right_side(self, p: FloatArray) -> Callable[[FloatArray, FloatArray], FloatArray]:
        """Return the right-hand side as a function of a time in each interval and of states `(intervals, D)`."""
        intervals = self.begins - np.arange(len(self.begins))

        def f(times: FloatArray, y: FloatArray) -> FloatArray:
            driven, value = self._evaluate_inputs(times, intervals), np.empty(y.shape)
            for group in self._groups:
                part = group.intervals
                u, inputs = group.system.from_working(y[part]), None if driven is None else driven[part]
                value[part] = extract_dense_f(
                    group.system, group.system.evaluate_rows(times[part], u, p, ("f",), inputs)
                )
            return value

        return f


@dataclass(frozen=True)
class LinearisedConstraint:
    """The linearised constraint, `c(p + δp, x + δx) ≈ c + A δx + G δp`.

    Attributes
    ----------
    c : ndarray, (intervals, D)
    A : Chain
        ∂c/∂x.
    G : ndarray, (intervals, D, J)
        ∂c/∂p.
    """

    c: FloatArray
    A: Chain
    G: FloatArray

    def factorise_covariance(self, v: FloatArray) -> ChainFactor | BandFactor:
        """Factorise S = A diag(v) Aᵀ.

        Parameters
        ----------
        v : ndarray, (nodes, D)
            Variance of each value.

        Raises
        ------
        NotPositiveDefinite
            If S has no Cholesky factor.
        """
        return self.A.factorise_covariance(v)
