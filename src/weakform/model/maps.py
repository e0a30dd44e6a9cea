"""Vectors of expressions of (t, u, inputs, p), with their first derivatives, at many points at once.

A right-hand side, the observables and the initial values of a model are all of this kind. Only structural nonzeros are
compiled; points may have parameters of their own, so that several trajectories go through one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import symengine as se

from ..support.typing import FloatArray
from .algebra import affordable
from .compiled import compiled
from .functions import Expr

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
        self._places: dict[bool, list[tuple[int, ...]]] = {}

    def _function(self, derivatives: bool) -> Any:
        if derivatives not in self._compiled:
            entries: list[tuple[tuple[int, ...], Expr]]
            entries = [((0, k), e) for k, e in enumerate(self._expressions) if e != 0]
            if derivatives:
                affordable(self._expressions)
                for part, symbols in ((1, self._u), (2, self._p)):
                    for k, e in enumerate(self._expressions):
                        present = e.free_symbols
                        entries += [((part, k, j), e.diff(s)) for j, s in enumerate(symbols) if s in present]
                entries = [(place, e) for place, e in entries if e != 0]
            self._places[derivatives] = [place for place, _ in entries]
            self._compiled[derivatives] = compiled(self._names, [e for _, e in entries] or [se.Integer(0)])
        return self._compiled[derivatives]

    def _beside_zero(self, function: Any, rows: FloatArray, values: FloatArray) -> None:
        """Derivatives at states that are zero, where `x^n log x` is not a number, from next to it, in place."""
        states = slice(1, 1 + self.D)
        lost = ~np.isfinite(values).all(axis=1) & (rows[:, states] == 0).any(axis=1)
        if lost.any():
            near = rows[lost]
            near[:, states] = np.where(near[:, states] == 0, BESIDE, near[:, states])
            again = np.asarray(function(near)).reshape(int(lost.sum()), -1)
            slopes = np.array([place[0] > 0 for place in self._places[True]])
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
        found = np.zeros((len(t), self.K))
        function = self._function(False)
        if self._places[False]:
            values = np.asarray(function(self._rows(t, u, p, inputs))).reshape(len(t), -1)
            for column, (_, k) in enumerate(self._places[False]):
                found[:, k] = values[:, column]
        return found

    def linearised(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values `(n, K)`, and derivatives by the states `(n, K, D)` and by the parameters `(n, K, J)`."""
        n = len(t)
        value, by_u, by_p = np.zeros((n, self.K)), np.zeros((n, self.K, self.D)), np.zeros((n, self.K, self.J))
        function = self._function(True)
        if self._places[True]:
            rows = self._rows(t, u, p, inputs)
            values = np.asarray(function(rows)).reshape(n, -1)
            self._beside_zero(function, rows, values)
            for column, (part, k, *j) in enumerate(self._places[True]):
                if part == 0:
                    value[:, k] = values[:, column]
                else:
                    (by_u if part == 1 else by_p)[:, k, j[0]] = values[:, column]
        return value, by_u, by_p
