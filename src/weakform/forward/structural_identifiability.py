"""Structural identifiability: directions in the parameters along which no measurement of this kind changes.

With the sensitivities S_j = θ_j ∂h/∂θ_j of all measured columns at all samples, θ the free parameters and the initial
values that are fitted, a null vector n of S is a direction `θ_j → θ_j exp(n_j s)` that leaves the measurements
unchanged. A null vector that is the same at all points, with small whole numbers, is a scaling: only monomials such as
b·y(0) can be determined. A null vector that differs from point to point means that its parameters can change together
without a change of the measurements. A point at which S has a null vector by coincidence does not count: the largest
rank over all points decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..data import Dataset
from ..data.matching import collect_inputs
from ..model import Model
from ..model.naming import format_initial_name
from ..support.array_types import BoolArray, FloatArray
from .solver import simulate

MAX_TRAJECTORIES = 20
"""Largest number of trajectories that are analysed, to bound the work; further ones are left out. By judgement."""
MAX_SAMPLES = 200
"""Number of samples of a trajectory that are analysed if every state is measured; a longer trajectory is thinned to
between this number and twice as many. By judgement."""
SOLUTION_TOLERANCE = 1e-10
"""Relative tolerance of the forward solutions, well below `_NullSpacePolicy.max_singular_value`. By judgement."""
SOLUTION_EVALUATIONS = 2_000_000
"""Budget of evaluations of one forward solution; if it is spent the point is left out. By judgement."""


@dataclass(frozen=True)
class _NullSpacePolicy:
    """When a combination of parameters counts as without effect, and when as a scaling."""

    max_singular_value: float = 1e-7
    """Largest singular value of a null direction, relative to the largest one, with columns of length one; and largest
    relative length of a column that counts as zero. By judgement."""
    min_common_share: float = 1 - 1e-6
    """Smallest eigenvalue of the mean projector, over all points, of a direction that all null spaces share; 1 is
    exactly shared. By judgement."""
    min_pivot: float = 1e-6
    """Smallest pivot in the elimination to a basis with many zeros; a smaller one counts as zero. By judgement."""
    exponent_tolerance: float = 1e-3
    """Largest deviation of an exponent from a whole number, and largest share of the largest exponent that counts as
    zero. By judgement."""
    max_factor: int = 4
    """Largest factor by which a null vector is multiplied in search of whole numbers; exponents are at most its square.
    By judgement."""


_NULL_SPACE = _NullSpacePolicy()


@dataclass(frozen=True)
class Freedom:
    """Directions in the parameters along which the measurements do not change.

    Attributes
    ----------
    names : tuple of str
        Parameters and initial values that change along them.
    scalings : tuple of tuple of int
        Exponents n of scalings `θ_j → θ_j c^n_j`, one for each name; empty if the parameters change together in another
        way.
    """

    names: tuple[str, ...]
    scalings: tuple[tuple[int, ...], ...] = ()

    @property
    def determined_monomials(self) -> tuple[str, ...]:
        """Monomials that no scaling changes, such as `a·b^2/c`: the data can determine only these."""
        return (
            tuple(_format_monomial(self.names, m) for m in _find_orthogonal_vectors(self.scalings))
            if self.scalings
            else ()
        )

    def __str__(self) -> str:
        candidates = " or ".join(self.names) if len(self.names) < 4 else f"one of {', '.join(self.names)}"
        count = len(self.scalings)
        advice = f"fix {candidates}" if count < 2 else f"fix {count} of {', '.join(self.names)}"
        monomials = self.determined_monomials
        if not monomials:
            if len(self.names) == 1:
                return (
                    f"{self.names[0]} can change without any effect on the measurements: it cannot be determined, "
                    f"whatever the data; {advice}, or measure something else."
                )
            return (
                f"{', '.join(self.names)} can change together without any effect on the measurements: they cannot be "
                f"determined, whatever the data; {advice}, or measure something else."
            )
        single_pair = len(monomials) == 1 and len(self.names) == 2
        kind = ("the ratio " if "/" in monomials[0] else "the product ") if single_pair else ""
        words = f"Only {kind}{' and '.join(monomials)} can be determined, whatever the data"
        return f"{words}; {advice}, or measure something else."


def _format_monomial(names: Sequence[str], exponents: Sequence[int]) -> str:
    """Write a monomial, such as `a·b^2/c`."""
    above = [f"{n}^{e}" if e > 1 else n for n, e in zip(names, exponents, strict=True) if e > 0]
    below = [f"{n}^{-e}" if e < -1 else n for n, e in zip(names, exponents, strict=True) if e < 0]
    divisor = "·".join(below) if len(below) < 2 else f"({'·'.join(below)})"
    return "·".join(above) + (f"/{divisor}" if below else "")


def _find_orthogonal_vectors(rows: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Find a basis of whole-number vectors orthogonal to all rows, with many zeros, in exact arithmetic.

    Parameters
    ----------
    rows : tuple of tuple of int

    Returns
    -------
    list of tuple of int
    """
    A = [[Fraction(value) for value in row] for row in rows]
    n, pivots, row = len(rows[0]), [], 0
    for column in range(n - 1, -1, -1):  # from the end, so that the first names are free and get positive exponents
        pivot_row = next((k for k in range(row, len(A)) if A[k][column]), None)
        if pivot_row is None:
            continue
        A[row], A[pivot_row] = A[pivot_row], A[row]
        A[row] = [value / A[row][column] for value in A[row]]
        for k in range(len(A)):
            if k != row and A[k][column]:
                A[k] = [x - A[k][column] * y for x, y in zip(A[k], A[row], strict=True)]
        pivots.append(column)
        row += 1
    vectors = []
    for free in (column for column in range(n) if column not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for k, column in enumerate(pivots):
            vector[column] = -A[k][free]
        factor = np.lcm.reduce([value.denominator for value in vector])
        vectors.append(tuple(int(value * int(factor)) for value in vector))
    return vectors


@dataclass(frozen=True)
class ForwardExperiment:
    """A model and its measurements, analysed by forward solutions.

    Attributes
    ----------
    model : Model
    data : Dataset
        The columns that are measured.
    free : ndarray of bool, (J,)
        Parameters that are fitted.
    begins : tuple of float
        Time of the initial values of each trajectory.
    """

    model: Model
    data: Dataset
    free: BoolArray
    begins: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of θ: free parameters, then the initial values that are fitted."""
        names = [name for name, free in zip(self.model.parameters, self.free, strict=True) if free]
        several = len(self.data.trajectories) > 1
        for q in self.data.trajectories[:MAX_TRAJECTORIES]:
            where = f" of {q.label}" if several else ""
            names += [f"{format_initial_name(s)}{where}" for s in self.model.states if s not in self.model.initial]
        return tuple(names)

    def compute_sensitivities(self, p: FloatArray, initial: Sequence[FloatArray]) -> FloatArray | None:
        """Compute `θ ∂h/∂θ` of all measured values at one point.

        Parameters
        ----------
        p : ndarray, (J,)
        initial : sequence of ndarray, (D,)
            Initial state of each trajectory.

        Returns
        -------
        ndarray, (values, len(names)), or None
            None if the model cannot be solved.
        """
        from_model = np.array([s in self.model.initial for s in self.model.states])
        J, D = len(p), len(from_model)
        parts = []
        count = min(len(self.data.trajectories), MAX_TRAJECTORIES)
        for k, q in enumerate(self.data.trajectories[:MAX_TRAJECTORIES]):
            model, inputs = self.model.for_trajectory(k), collect_inputs(self.model, self.data, k)
            start, _, by_p = model.build_map("g").linearise(np.zeros(1), initial[k][None], p)
            u0 = np.where(from_model, start[0], initial[k])
            before = int(q.times[0] > self.begins[k])
            grid = np.concatenate([[self.begins[k]], q.times]) if before else q.times
            solved = simulate(
                model,
                p,
                u0,
                grid,
                inputs=inputs,
                sensitivities=True,
                rtol=SOLUTION_TOLERANCE,
                max_evaluations=SOLUTION_EVALUATIONS,
            )
            if not solved.success or solved.by_parameters is None or solved.by_initial is None:
                return None
            driven = None if inputs is None else inputs(q.times)
            states = solved.states[before:]
            _, hu, hp = model.build_map("h", self.data.names or self.model.states).linearise(q.times, states, p, driven)
            by_u0 = solved.by_initial[before:]
            # Parameters act through the states, through the model's initial values, and in the observables themselves.
            total = hu @ (solved.by_parameters[before:] + by_u0 @ np.where(from_model[:, None], by_p[0], 0.0)) + hp
            block = np.zeros((*total.shape[:2], J + D * count))
            block[:, :, :J] = total * p
            block[:, :, J + k * D : J + (k + 1) * D] = hu @ by_u0 * np.where(u0 != 0, u0, 1.0)
            parts.append(block[q.measured])
        rows = np.concatenate(parts)
        keep = np.concatenate([self.free, np.tile(~from_model, count)])
        return rows[:, keep] if np.isfinite(rows).all() else None


@dataclass(frozen=True)
class FullyMeasuredExperiment:
    """A model all of whose states are measured, analysed by its right-hand side along the data.

    No forward solution is needed: parameters without effect on the right-hand side cannot be determined.

    Attributes
    ----------
    model : Model
    data : Dataset
        With the columns of the states, in their order.
    free : ndarray of bool, (J,)
        Parameters that are fitted.
    """

    model: Model
    data: Dataset
    free: BoolArray

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the free parameters."""
        return tuple(name for name, free in zip(self.model.parameters, self.free, strict=True) if free)

    def compute_sensitivities(self, p: FloatArray, initial: Sequence[FloatArray]) -> FloatArray | None:
        """Compute `θ ∂f/∂θ`, relative to the size of each equation, at one point.

        Parameters
        ----------
        p : ndarray, (J,)
        initial : sequence of ndarray
            Unused; for the same interface as `ForwardExperiment`.

        Returns
        -------
        ndarray, (values, len(names)), or None
            None if no derivative is finite.
        """
        del initial
        parts = []
        for k, q in enumerate(self.data.trajectories[:MAX_TRAJECTORIES]):
            thinned = slice(None, None, max(1, len(q.times) // MAX_SAMPLES))
            inputs = collect_inputs(self.model, self.data, k)
            driven = None if inputs is None else inputs(q.times[thinned])
            by_p = (
                self.model.for_trajectory(k).build_map("f").linearise(q.times[thinned], q.values[thinned], p, driven)[2]
                * p
            )
            parts.append(by_p[np.isfinite(by_p).all(axis=(1, 2))])
        rows = np.concatenate(parts)
        size = np.sqrt(np.mean(np.sum(rows**2, axis=2), axis=0)) if len(rows) else np.ones(rows.shape[1])
        rows = rows / np.where(size > 0, size, 1.0)[:, None]
        return rows.reshape(-1, len(p))[:, self.free] if len(rows) else None


def find_freedoms(
    experiment: ForwardExperiment | FullyMeasuredExperiment, points: Sequence[tuple[FloatArray, Sequence[FloatArray]]]
) -> list[Freedom]:
    """Find directions in the parameters along which the measurements do not change.

    Parameters
    ----------
    experiment : ForwardExperiment or FullyMeasuredExperiment
    points : sequence of tuple
        Parameters `(J,)`, and the initial state `(D,)` of each trajectory. At least two points must be solvable.

    Returns
    -------
    list of Freedom
        Scalings with a common name in one entry; all other directions together in the last one.
    """
    with np.errstate(all="ignore"):
        sensitivities = [experiment.compute_sensitivities(p, initial) for p, initial in points]
    spaces = [_compute_null_space(S) for S in sensitivities if S is not None]
    # One point alone could have a null vector by coincidence.
    if len(spaces) < 2:
        return []
    # The smallest null space decides: at other points S has more null vectors by coincidence.
    size = min(space.shape[1] for space in spaces)
    spaces = [space for space in spaces if space.shape[1] == size]
    if not size:
        return []
    names = np.array(experiment.names)
    constant = _intersect_spaces(spaces)
    vectors = [_scale_to_integers(vector) for vector in _reduce_to_echelon(constant).T] if constant.shape[1] else []
    scalings = [vector for vector in vectors if vector is not None]
    result = _group_scalings(names, scalings)
    if size > len(scalings):
        tolerance = _NULL_SPACE.exponent_tolerance
        moving = set(names[np.abs(_remove_scalings(spaces[0], scalings)).max(axis=1) > tolerance])
        # A scaling that shares a name with these directions becomes part of them.
        separate = [freedom for freedom in result if not moving & set(freedom.names)]
        moving |= {name for freedom in result if freedom not in separate for name in freedom.names}
        result = [*separate, Freedom(tuple(str(name) for name in names if name in moving))]
    return result


def _remove_scalings(space: FloatArray, scalings: list[tuple[int, ...]]) -> FloatArray:
    """Return the part of a null space `(names, n)` orthogonal to all scalings, with columns of largest entry one."""
    if scalings:
        Q, _ = np.linalg.qr(np.array(scalings, dtype=float).T)
        U, _, _ = np.linalg.svd(space - Q @ (Q.T @ space), full_matrices=False)
        space = U[:, : space.shape[1] - Q.shape[1]]
    return np.asarray(space / np.maximum(np.abs(space).max(axis=0), np.finfo(float).tiny))


def _group_scalings(names: FloatArray, scalings: list[tuple[int, ...]]) -> list[Freedom]:
    """Group scalings that have a name in common, directly or through others; one `Freedom` for each group.

    Parameters
    ----------
    names : ndarray of str, (n,)
    scalings : list of tuple of int, (n,)
    """
    groups: list[tuple[set[int], list[tuple[int, ...]]]] = []
    for vector in scalings:
        moved = {j for j, exponent in enumerate(vector) if exponent}
        touching = [group for group in groups if group[0] & moved]
        groups = [group for group in groups if not group[0] & moved]
        merged = [v for _, vectors in touching for v in vectors]
        groups.append((moved.union(*(members for members, _ in touching)), [*merged, vector]))
    return [
        Freedom(
            tuple(str(names[j]) for j in sorted(members)), tuple(tuple(v[j] for j in sorted(members)) for v in vectors)
        )
        for members, vectors in groups
    ]


def _compute_null_space(S: FloatArray) -> FloatArray:
    """Return the null vectors of S `(values, n)` as columns `(n, c)` of largest entry one."""
    norms = np.linalg.norm(S, axis=0)
    nonzero = norms > _NULL_SPACE.max_singular_value * norms.max(initial=0.0)
    # Columns of length one, so that a weak parameter is not taken for one without effect.
    unit = S / np.where(nonzero, norms, 1.0)
    _, w, Vt = np.linalg.svd(np.where(nonzero, unit, 0.0), full_matrices=True)
    w = np.concatenate([w, np.zeros(len(Vt) - len(w))])
    is_null = w < _NULL_SPACE.max_singular_value * max(float(w.max(initial=0.0)), 1.0)
    # Back to the units of θ: S n = 0 for n = v/norm if the scaled matrix maps v to zero.
    null = Vt[is_null].T / np.where(nonzero, norms, 1.0)[:, None]
    return np.asarray(null / np.maximum(np.abs(null).max(axis=0), np.finfo(float).tiny))


def _intersect_spaces(spaces: list[FloatArray]) -> FloatArray:
    """Return the directions that all null spaces share, as columns `(n, c)`: eigenvectors 1 of the mean projector."""
    projectors = []
    for space in spaces:
        Q, _ = np.linalg.qr(space)
        projectors.append(Q @ Q.T)
    # The mean of projectors maps a direction to itself only if each of them does.
    w, V = np.linalg.eigh(np.mean(projectors, axis=0))
    return np.asarray(V[:, w > _NULL_SPACE.min_common_share])


def _reduce_to_echelon(vectors: FloatArray) -> FloatArray:
    """Return a basis of the same space with many zeros, `(n, c)`: the reduced column echelon form."""
    A = vectors.T.copy()
    row = 0
    for column in range(A.shape[1]):
        if row == len(A):
            break
        pivot = row + int(np.argmax(np.abs(A[row:, column])))
        if abs(A[pivot, column]) < _NULL_SPACE.min_pivot:
            continue
        A[[row, pivot]] = A[[pivot, row]]
        A[row] /= A[row, column]
        for k in range(len(A)):
            if k != row:
                A[k] -= A[k, column] * A[row]
        row += 1
    return A.T


def _scale_to_integers(vector: FloatArray) -> tuple[int, ...] | None:
    """Return a null vector `(n,)` scaled to small whole numbers, or None if that is impossible."""
    size = np.abs(vector)
    tolerance, largest = _NULL_SPACE.exponent_tolerance, _NULL_SPACE.max_factor
    moved = size > tolerance * size.max()
    values = np.where(moved, vector, 0.0) / size[moved].min()
    for factor in range(1, largest + 1):
        whole = np.round(values * factor)
        if (np.abs(values * factor - whole) < tolerance * factor).all() and np.abs(whole).max() <= largest**2:
            return tuple(int(n) for n in whole)
    return None
