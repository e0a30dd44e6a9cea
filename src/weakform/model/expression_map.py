"""Vectors of expressions of (t, u, inputs, p), with their first derivatives, evaluated at many points in one call.

The right-hand side, the observables and the initial values of a model are such vectors. Only structural nonzeros are
compiled. Each point may have its own parameters, so that one call serves several trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import symengine as se

from ..support.array_types import FloatArray, IntArray
from .bounded_algebra import check_derivative_cost
from .compilation import compile_expressions
from .function_table import Expr

ZERO_STATE_SUBSTITUTE = 1e-300
"""Value that replaces a state of zero where a derivative is not finite at zero, in units of the state.

The derivative of `x^n` by n is `x^n log x`, which for n > 0 tends to zero with x, but is not a number at x = 0. At
1e-300 its size is below 1e-12 from n = 0.05 on.
"""


class ExpressionMap:
    """A function `h(t, u, inputs, p)` with values in K dimensions.

    Parameters
    ----------
    expressions : sequence of expressions, (K,)
    states, inputs, parameters : sequence of str, (D,), (I,), (J,)
        The names in the expressions, besides `t`.

    Attributes
    ----------
    K, D, I, J : int
        The numbers of expressions, states, inputs and parameters.
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
        self._positions: dict[bool, IntArray] = {}

    def _compile_function(self, derivatives: bool) -> Any:
        """Return the compiled function of the values, or of the values and their derivatives; fill `_positions`."""
        if derivatives not in self._compiled:
            # The position of each number in one flat array: K values, then KD derivatives by states, then KJ by
            # parameters.
            entries: list[tuple[int, Expr]] = [(k, e) for k, e in enumerate(self._expressions) if e != 0]
            if derivatives:
                check_derivative_cost(self._expressions)
                for first, symbols in ((self.K, self._u), (self.K * (1 + self.D), self._p)):
                    for k, e in enumerate(self._expressions):
                        present, row_start = e.free_symbols, first + k * len(symbols)
                        entries += [(row_start + j, e.diff(s)) for j, s in enumerate(symbols) if s in present]
                entries = [(position, e) for position, e in entries if e != 0]
            self._positions[derivatives] = np.array([position for position, _ in entries], dtype=np.intp)
            self._compiled[derivatives] = compile_expressions(self._names, [e for _, e in entries] or [se.Integer(0)])
        return self._compiled[derivatives]

    def _replace_derivatives_at_zero(self, function: Any, rows: FloatArray, values: FloatArray) -> None:
        """Replace derivatives that are not finite at states of zero by those next to zero, in place.

        Parameters
        ----------
        function : callable
            The compiled function of values and derivatives.
        rows : ndarray, (n, 1 + D + I + J)
            Its arguments.
        values : ndarray, (n, columns)
            Its values, which are changed.
        """
        if np.isfinite(values).all():
            return
        states = slice(1, 1 + self.D)
        invalid = ~np.isfinite(values).all(axis=1) & (rows[:, states] == 0).any(axis=1)
        if invalid.any():
            shifted = rows[invalid]
            shifted[:, states] = np.where(shifted[:, states] == 0, ZERO_STATE_SUBSTITUTE, shifted[:, states])
            shifted_values = np.asarray(function(shifted)).reshape(int(invalid.sum()), -1)
            # Only derivatives are replaced: a value that is not finite at zero is a real pole.
            slopes = self._positions[True] >= self.K
            values[invalid] = np.where(slopes & ~np.isfinite(values[invalid]), shifted_values, values[invalid])

    def _stack_arguments(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None) -> FloatArray:
        """Return the arguments as rows `(t, u, inputs, p)`, `(n, 1 + D + I + J)`."""
        rows = np.empty((len(t), 1 + self.D + self.I + self.J))
        rows[:, 0] = t
        rows[:, 1 : 1 + self.D] = u
        if inputs is not None and self.I:
            rows[:, 1 + self.D : 1 + self.D + self.I] = inputs
        rows[:, 1 + self.D + self.I :] = p
        return rows

    def __call__(self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """Evaluate the values.

        Parameters
        ----------
        t : ndarray, (n,)
        u : ndarray, (n, D)
        p : ndarray, (J,) or (n, J)
        inputs : ndarray, (n, I), optional

        Returns
        -------
        ndarray, (n, K)
        """
        function, positions = self._compile_function(False), self._positions[False]
        if not len(positions):
            return np.zeros((len(t), self.K))
        values = np.asarray(function(self._stack_arguments(t, u, p, inputs))).reshape(len(t), -1)
        if len(positions) == self.K:
            return values
        full = np.zeros((len(t), self.K))
        full[:, positions] = values
        return full

    def evaluate_nonzeros(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> FloatArray:
        """Evaluate the structural nonzeros of values, and of derivatives by states and by parameters.

        The parameters are those of `__call__`.

        Returns
        -------
        ndarray, (n, columns)
            `sparsity_pattern` describes the columns.
        """
        function = self._compile_function(True)
        if not len(self._positions[True]):
            return np.zeros((len(t), 0))
        rows = self._stack_arguments(t, u, p, inputs)
        values = np.asarray(function(rows)).reshape(len(t), -1)
        self._replace_derivatives_at_zero(function, rows, values)
        return values

    @cached_property
    def sparsity_pattern(self) -> tuple[IntArray, tuple[int, int, int]]:
        """The meaning of the columns of `evaluate_nonzeros`.

        Returns
        -------
        ndarray of int, (columns, 2)
            Index of the value; and index of the state or parameter of a derivative, 0 for a value.
        tuple of int
            The numbers of columns with values, derivatives by states, and derivatives by parameters, in this order.
        """
        self._compile_function(True)
        K, D, positions = self.K, self.D, self._positions[True]
        ends = np.searchsorted(positions, [K, K * (1 + D)])
        by_u, by_p = positions[ends[0] : ends[1]] - K, positions[ends[1] :] - K * (1 + D)
        # Positions are row-major; max(…, 1) avoids division by zero where there are no states or no parameters.
        first = np.concatenate([positions[: ends[0]], by_u // max(D, 1), by_p // max(self.J, 1)])
        second = np.concatenate([np.zeros(ends[0], dtype=np.intp), by_u % max(D, 1), by_p % max(self.J, 1)])
        return np.column_stack([first, second]).astype(np.intp), (int(ends[0]), len(by_u), len(by_p))

    def linearise(
        self, t: FloatArray, u: FloatArray, p: FloatArray, inputs: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Evaluate the values and their first derivatives.

        The parameters are those of `__call__`.

        Returns
        -------
        ndarray, (n, K)
            Values.
        ndarray, (n, K, D)
            Derivatives by the states.
        ndarray, (n, K, J)
            Derivatives by the parameters.
        """
        n, K, D, J = len(t), self.K, self.D, self.J
        full = np.zeros((n, K * (1 + D + J)))
        # Python evaluates the right side first: `evaluate_nonzeros` compiles the function and so fills `_positions`.
        full[:, self._positions[True]] = self.evaluate_nonzeros(t, u, p, inputs)
        end = K * (1 + D)
        return full[:, :K], full[:, K:end].reshape(n, K, D), full[:, end:].reshape(n, K, J)
