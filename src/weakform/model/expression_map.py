"""Vectors of expressions of (t, u, inputs, p), with their first derivatives, at many points at once.

A right-hand side, the observables and the initial values of a model are all of this kind. Only structural nonzeros are
compiled; points may have parameters of their own, so that several trajectories go through one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import symengine as se

from ..support.array_types import FloatArray, IntArray
from .bounded_algebra import affordable
from .compilation import compiled
from .function_table import Expr

BESIDE = 1e-300
"""What stands for a state that is zero, where a derivative is not a number there."""


class Map:
    """`h(t, u, inputs, p)` with values in K dimensions.

    Parameters
    ----------
    expressions : sequence, (K,)
    states, inputs, parameters : sequence of str
        The names in them, besides `t`.
    """

    def __init__(
        self,
        expressions: Sequence[Expr],
        states: Sequence[str],
        inputs: Sequence[str] = (),
        parameters: Sequence[str] = (),
    ) -> None:
        self.K, self.D, self.I, self.J = len(expressions), len(states), len(inputs), len(parameters)
        self._expressions = [se.sympify(e) for e in expressions]
        self._u, self._p = ([se.Symbol(n) for n in names] for names in (states, parameters))
        self._names = ["t", *states, *inputs, *parameters]
        self._compiled: dict[bool, Any] = {}
        self._places: dict[bool, IntArray] = {}

    def _function(self, derivatives: bool) -> Any:
        if derivatives not in self._compiled:
            # Where each number goes: values, derivatives by states, by parameters, one behind the other.
            entries: list[tuple[int, Expr]] = [(k, e) for k, e in enumerate(self._expressions) if e != 0]
            if derivatives:
                affordable(self._expressions)
                for first, symbols in ((self.K, self._u), (self.K * (1 + self.D), self._p)):
                    for k, e in enumerate(self._expressions):
                        present, place = e.free_symbols, first + k * len(symbols)
                        entries += [(place + j, e.diff(s)) for j, s in enumerate(symbols) if s in present]
                entries = [(place, e) for place, e in entries if e != 0]
            self._places[derivatives] = np.array([place for place, _ in entries], dtype=np.intp)
            self._compiled[derivatives] = compiled(self._names, [e for _, e in entries] or [se.Integer(0)])
        return self._compiled[derivatives]

    def _beside_zero(self, function: Any, rows: FloatArray, values: FloatArray) -> None:
        """Derivatives at states that are zero, where `x^n log x` is not a number, from next to it, in place."""
        if np.isfinite(values).all():
            return
        states = slice(1, 1 + self.D)
        lost = ~np.isfinite(values).all(axis=1) & (rows[:, states] == 0).any(axis=1)
        if lost.any():
            near = rows[lost]
            near[:, states] = np.where(near[:, states] == 0, BESIDE, near[:, states])
            again = np.asarray(function(near)).reshape(int(lost.sum()), -1)
            slopes = self._places[True] >= self.K
            values[lost] = np.where(slopes & ~np.isfinite(values[lost]), again, values[lost])

    def _rows(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None) -> FloatArray:
        rows = np.empty((len(t), 1 + self.D + self.I + self.J))
        rows[:, 0] = t
        rows[:, 1 : 1 + self.D] = u
        if inputs is not None and self.I:
            rows[:, 1 + self.D : 1 + self.D + self.I] = inputs
        rows[:, 1 + self.D + self.I :] = p
        return rows

    def __call__(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """Values `(n, K)` at times `(n,)`, states `(n, D)`, parameters `(n, J)` or `(J,)` and inputs `(n, I)`."""
        function, places = self._function(False), self._places[False]
        if not len(places):
            return np.zeros((len(t), self.K))
        values = np.asarray(function(self._rows(t, u, p, inputs))).reshape(len(t), -1)
        if len(places) == self.K:
            return values
        found = np.zeros((len(t), self.K))
        found[:, places] = values
        return found

    def nonzeros(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """What is not zero of values, and of derivatives by states and by parameters, `(n, columns)`; see `pattern`."""
        function = self._function(True)
        if not len(self._places[True]):
            return np.zeros((len(t), 0))
        rows = self._rows(t, u, p, inputs)
        values = np.asarray(function(rows)).reshape(len(t), -1)
        self._beside_zero(function, rows, values)
        return values

    @cached_property
    def pattern(self) -> tuple[IntArray, tuple[int, int, int]]:
        """What the columns of `nonzeros` are: value, then state or parameter, `(columns, 2)`; and how many of each."""
        self._function(True)
        K, D, places = self.K, self.D, self._places[True]
        ends = np.searchsorted(places, [K, K * (1 + D)])
        by_u, by_p = places[ends[0] : ends[1]] - K, places[ends[1] :] - K * (1 + D)
        first = np.concatenate([places[: ends[0]], by_u // max(D, 1), by_p // max(self.J, 1)])
        second = np.concatenate([np.zeros(ends[0], dtype=np.intp), by_u % max(D, 1), by_p % max(self.J, 1)])
        return np.column_stack([first, second]).astype(np.intp), (int(ends[0]), len(by_u), len(by_p))

    def linearised(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values `(n, K)`, and derivatives by the states `(n, K, D)` and by the parameters `(n, K, J)`."""
        n, K, D, J = len(t), self.K, self.D, self.J
        found = np.zeros((n, K * (1 + D + J)))
        found[:, self._places[True]] = self.nonzeros(t, u, p, inputs)
        end = K * (1 + D)
        return found[:, :K], found[:, K:end].reshape(n, K, D), found[:, end:].reshape(n, K, J)
