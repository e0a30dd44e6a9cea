"""What no data of this kind can tell: directions in the parameters along which nothing that is measured changes.

With the sensitivities S_j = θ_j ∂h/∂θ_j of all measured columns at all samples, θ the free parameters and the initial
values that are fitted, a null vector n of S is a direction `θ_j → θ_j exp(n_j s)` that leaves the measurements as they
are. One that is the same everywhere, with small whole numbers, is a scaling: monomials such as b·y(0) are all that can
be determined. A null vector that differs from point to point is a set of parameters that move together. Where only the
points are special there is no null vector at most of them, so that the largest rank found counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..data import Dataset
from ..data.matching import inputs_of
from ..model import Model
from ..model.naming import initial_name
from ..support.array_types import BoolArray, FloatArray
from .solver import simulate

TRAJECTORIES = 20
"""Trajectories that are looked at, at most."""
SAMPLES = 200
"""Samples of a trajectory that are looked at, about, where every state is measured."""
RTOL, NULL = 1e-10, 1e-7
WHOLE, LARGEST = 1e-3, 4
"""How near to a whole number an exponent must be, and how large it may be."""


@dataclass(frozen=True)
class Freedom:
    """Directions that the data cannot see.

    Attributes
    ----------
    names : tuple of str
        Parameters and initial values that they move.
    scalings : tuple of tuple of int
        Exponents n of scalings `θ_j → θ_j c^n_j`; none where parameters move together in another way.
    """

    names: tuple[str, ...]
    scalings: tuple[tuple[int, ...], ...] = ()

    @property
    def determined(self) -> tuple[str, ...]:
        """Monomials that no scaling changes: what the data can determine."""
        return tuple(_monomial(self.names, m) for m in _orthogonal(self.scalings)) if self.scalings else ()

    def __str__(self) -> str:
        some = " or ".join(self.names) if len(self.names) < 4 else f"one of {', '.join(self.names)}"
        count = len(self.scalings)
        advice = f"fix {some}" if count < 2 else f"fix {count} of {', '.join(self.names)}"
        what = self.determined
        if not what:
            if len(self.names) == 1:
                return (
                    f"{self.names[0]} can be moved without any change in what is measured: it cannot be determined, "
                    f"whatever the data; {advice}, or measure something else."
                )
            return (
                f"{', '.join(self.names)} can be moved together without any change in what is measured: they cannot be "
                f"determined, whatever the data; {advice}, or measure something else."
            )
        kind = ("the ratio " if "/" in what[0] else "the product ") if len(what) == 1 and len(self.names) == 2 else ""
        words = f"Only {kind}{' and '.join(what)} can be determined, whatever the data"
        return f"{words}; {advice}, or measure something else."


def _monomial(names: Sequence[str], exponents: Sequence[int]) -> str:
    """Such as `a·b^2/c`."""
    above = [f"{n}^{e}" if e > 1 else n for n, e in zip(names, exponents, strict=True) if e > 0]
    below = [f"{n}^{-e}" if e < -1 else n for n, e in zip(names, exponents, strict=True) if e < 0]
    divisor = "·".join(below) if len(below) < 2 else f"({'·'.join(below)})"
    return "·".join(above) + (f"/{divisor}" if below else "")


def _orthogonal(rows: tuple[tuple[int, ...], ...]) -> list[tuple[int, ...]]:
    """Whole vectors orthogonal to all rows, a basis with many zeros; each begins with a positive number."""
    A = [[Fraction(value) for value in row] for row in rows]
    n, pivots, row = len(rows[0]), [], 0
    for column in range(n - 1, -1, -1):  # from the end, so that what comes first stays free
        best = next((k for k in range(row, len(A)) if A[k][column]), None)
        if best is None:
            continue
        A[row], A[best] = A[best], A[row]
        A[row] = [value / A[row][column] for value in A[row]]
        for k in range(len(A)):
            if k != row and A[k][column]:
                A[k] = [x - A[k][column] * y for x, y in zip(A[k], A[row], strict=True)]
        pivots.append(column)
        row += 1
    found = []
    for free in (column for column in range(n) if column not in pivots):
        vector = [Fraction(0)] * n
        vector[free] = Fraction(1)
        for k, column in enumerate(pivots):
            vector[column] = -A[k][free]
        factor = np.lcm.reduce([value.denominator for value in vector])
        found.append(tuple(int(value * int(factor)) for value in vector))
    return found


@dataclass(frozen=True)
class Experiment:
    """What is measured, as it is to be fitted.

    Attributes
    ----------
    model : Model
    data : Dataset
        The columns that are measured.
    free : ndarray of bool, (J,)
    begins : tuple of float
        When each trajectory begins.
    """

    model: Model
    data: Dataset
    free: BoolArray
    begins: tuple[float, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Of θ: free parameters, then the initial values that are fitted."""
        names = [name for name, free in zip(self.model.parameters, self.free, strict=True) if free]
        several = len(self.data.trajectories) > 1
        for q in self.data.trajectories[:TRAJECTORIES]:
            where = f" of {q.label}" if several else ""
            names += [f"{initial_name(s)}{where}" for s in self.model.states if s not in self.model.initial]
        return tuple(names)

    def sensitivities(self, p: FloatArray, initial: Sequence[FloatArray]) -> FloatArray | None:
        """`θ ∂h/∂θ`, `(values, len(names))`, at parameters and states at the beginning; None where it fails."""
        given = np.array([s in self.model.initial for s in self.model.states])
        J, D = len(p), len(given)
        parts = []
        count = min(len(self.data.trajectories), TRAJECTORIES)
        for k, q in enumerate(self.data.trajectories[:TRAJECTORIES]):
            model, inputs = self.model.of(k), inputs_of(self.model, self.data, k)
            start, _, by_p = model.map("g").linearised(np.zeros(1), initial[k][None], p)
            u0 = np.where(given, start[0], initial[k])
            before = int(q.times[0] > self.begins[k])
            grid = np.concatenate([[self.begins[k]], q.times]) if before else q.times
            solved = simulate(
                model, p, u0, grid, inputs=inputs, sensitivities=True, rtol=RTOL, max_evaluations=2_000_000
            )
            if not solved.success or solved.by_parameters is None or solved.by_initial is None:
                return None
            driven = None if inputs is None else inputs(q.times)
            states = solved.states[before:]
            _, hu, hp = model.map("h", self.data.names or self.model.states).linearised(q.times, states, p, driven)
            by_u0 = solved.by_initial[before:]
            total = hu @ (solved.by_parameters[before:] + by_u0 @ np.where(given[:, None], by_p[0], 0.0)) + hp
            block = np.zeros((*total.shape[:2], J + D * count))
            block[:, :, :J] = total * p
            block[:, :, J + k * D : J + (k + 1) * D] = hu @ by_u0 * np.where(u0 != 0, u0, 1.0)
            parts.append(block[q.measured])
        rows = np.concatenate(parts)
        keep = np.concatenate([self.free, np.tile(~given, count)])
        return rows[:, keep] if np.isfinite(rows).all() else None


@dataclass(frozen=True)
class Complete:
    """The same where every state is measured: what the right-hand side tells of its parameters along the data.

    Attributes
    ----------
    model : Model
    data : Dataset
        With the columns of the states, in their order.
    free : ndarray of bool, (J,)
    """

    model: Model
    data: Dataset
    free: BoolArray

    @property
    def names(self) -> tuple[str, ...]:
        """Of the free parameters."""
        return tuple(name for name, free in zip(self.model.parameters, self.free, strict=True) if free)

    def sensitivities(self, p: FloatArray, initial: Sequence[FloatArray]) -> FloatArray | None:
        """`θ ∂f/∂θ` over the size of each equation, `(values, len(names))`, at parameters; None where there is none."""
        del initial
        parts = []
        for k, q in enumerate(self.data.trajectories[:TRAJECTORIES]):
            some = slice(None, None, max(1, len(q.times) // SAMPLES))
            inputs = inputs_of(self.model, self.data, k)
            driven = None if inputs is None else inputs(q.times[some])
            by_p = self.model.of(k).map("f").linearised(q.times[some], q.values[some], p, driven)[2] * p
            parts.append(by_p[np.isfinite(by_p).all(axis=(1, 2))])
        rows = np.concatenate(parts)
        size = np.sqrt(np.mean(np.sum(rows**2, axis=2), axis=0)) if len(rows) else np.ones(rows.shape[1])
        rows = rows / np.where(size > 0, size, 1.0)[:, None]
        return rows.reshape(-1, len(p))[:, self.free] if len(rows) else None


def freedoms(
    experiment: Experiment | Complete, points: Sequence[tuple[FloatArray, Sequence[FloatArray]]]
) -> list[Freedom]:
    """Directions that the data cannot see at any of some points (parameters, and states at the beginning)."""
    with np.errstate(all="ignore"):
        found = [experiment.sensitivities(p, initial) for p, initial in points]
    spaces = [_null_space(S) for S in found if S is not None]
    if len(spaces) < 2:
        return []
    size = min(space.shape[1] for space in spaces)
    spaces = [space for space in spaces if space.shape[1] == size]
    if not size:
        return []
    names = np.array(experiment.names)
    constant = _common(spaces)
    vectors = [_whole(vector) for vector in _sparse(constant).T] if constant.shape[1] else []
    scalings = [vector for vector in vectors if vector is not None]
    made = _grouped(names, scalings)
    if size > len(scalings):
        moving = set(names[np.abs(_beyond(spaces[0], scalings)).max(axis=1) > WHOLE])
        # What moves together with the names of a scaling contains it.
        apart = [freedom for freedom in made if not moving & set(freedom.names)]
        moving |= {name for freedom in made if freedom not in apart for name in freedom.names}
        made = [*apart, Freedom(tuple(str(name) for name in names if name in moving))]
    return made


def _beyond(space: FloatArray, scalings: list[tuple[int, ...]]) -> FloatArray:
    """What of a space is no scaling, as columns of largest entry one."""
    if scalings:
        Q, _ = np.linalg.qr(np.array(scalings, dtype=float).T)
        U, _, _ = np.linalg.svd(space - Q @ (Q.T @ space), full_matrices=False)
        space = U[:, : space.shape[1] - Q.shape[1]]
    return np.asarray(space / np.maximum(np.abs(space).max(axis=0), np.finfo(float).tiny))


def _grouped(names: FloatArray, scalings: list[tuple[int, ...]]) -> list[Freedom]:
    """Scalings that move a name in common belong together."""
    groups: list[tuple[set[int], list[tuple[int, ...]]]] = []
    for vector in scalings:
        moved = {j for j, exponent in enumerate(vector) if exponent}
        same = [group for group in groups if group[0] & moved]
        groups = [group for group in groups if not group[0] & moved]
        merged = [v for _, vectors in same for v in vectors]
        groups.append((moved.union(*(where for where, _ in same)), [*merged, vector]))
    return [
        Freedom(tuple(str(names[j]) for j in sorted(where)), tuple(tuple(v[j] for j in sorted(where)) for v in vectors))
        for where, vectors in groups
    ]


def _null_space(S: FloatArray) -> FloatArray:
    """Null vectors of S as columns, in the coordinates of its columns."""
    norms = np.linalg.norm(S, axis=0)
    some = norms > NULL * norms.max(initial=0.0)
    unit = S / np.where(some, norms, 1.0)
    _, w, Vt = np.linalg.svd(np.where(some, unit, 0.0), full_matrices=True)
    w = np.concatenate([w, np.zeros(len(Vt) - len(w))])
    null = Vt[w < NULL * max(float(w.max(initial=0.0)), 1.0)].T / np.where(some, norms, 1.0)[:, None]
    return np.asarray(null / np.maximum(np.abs(null).max(axis=0), np.finfo(float).tiny))


def _common(spaces: list[FloatArray]) -> FloatArray:
    """What the spaces have in common: the null vectors that are the same at all points."""
    projectors = []
    for space in spaces:
        Q, _ = np.linalg.qr(space)
        projectors.append(Q @ Q.T)
    w, V = np.linalg.eigh(np.mean(projectors, axis=0))
    return np.asarray(V[:, w > 1 - 1e-6])


def _sparse(vectors: FloatArray) -> FloatArray:
    """A basis of the same space with many zeros: reduced column echelon form."""
    A = vectors.T.copy()
    row = 0
    for column in range(A.shape[1]):
        if row == len(A):
            break
        pivot = row + int(np.argmax(np.abs(A[row:, column])))
        if abs(A[pivot, column]) < 1e-6:
            continue
        A[[row, pivot]] = A[[pivot, row]]
        A[row] /= A[row, column]
        for other in range(len(A)):
            if other != row:
                A[other] -= A[other, column] * A[row]
        row += 1
    return A.T


def _whole(vector: FloatArray) -> tuple[int, ...] | None:
    """A null vector as whole numbers, or None."""
    size = np.abs(vector)
    moved = size > WHOLE * size.max()
    values = np.where(moved, vector, 0.0) / size[moved].min()
    for factor in range(1, LARGEST + 1):
        whole = np.round(values * factor)
        if (np.abs(values * factor - whole) < WHOLE * factor).all() and np.abs(whole).max() <= LARGEST**2:
            return tuple(int(n) for n in whole)
    return None
