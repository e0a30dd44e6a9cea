"""Compiled right-hand side and derivatives in working coordinates.

The working coordinate `x` of a state is the one in which its noise is additive: `x = u` for Gaussian noise, `x = log u`
for log-normal noise (see `noise.kinds`). With `s = du/dx`, `x' = f(t, u, p)/s` and `∂/∂x = s ∂/∂u`. The expressions
remain functions of `u`, so no exponential is formed, and `f/u` is divided term by term so that `p*u/u` is `p`. If the
noise is correlated between states with covariance L Lᵀ, the working coordinates are `y = L⁻¹ x`, in which it is
independent: `y' = L⁻¹ x'` and `∂/∂y = Lᵀ ∂/∂x`.

Only structural nonzeros are kept. A tensor such as `∂²f_a/∂x_b∂p_j` is a table of indices `(a, b, j)` and of values
`(nonzeros, time)`. Each group of tensors is compiled by SymEngine's LLVM back end when it is first used.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..noise.kinds import KINDS
from ..support.array_types import FloatArray, IntArray
from .bounded_algebra import check_derivative_cost, combine_linearly, divide_terms, multiply_terms
from .compilation import compile_expressions
from .function_table import Expr
from .inputs import Inputs

_TIMES_PER_TILE = 4096
"""Number of times in one call of a compiled function.

It keeps the arrays that the function reads and writes in cache. By judgement.
"""

TENSORS: dict[str, str] = {
    "f": "",
    "fu": "u",
    "fp": "p",
    "fup": "up",
    "fpp": "pp",
    "fupp": "upp",
    "fuu": "uu",
    "fuup": "uup",
}
"""Name of each tensor and the letters by which it is differentiated, u for states and p for parameters.

Derivatives by a repeated letter are symmetric and stored once, for `i <= j`.
"""


@dataclass(frozen=True)
class Tensor:
    """The structural nonzeros of a tensor at each time; iteration yields pairs of an index and its values `(time,)`.

    Attributes
    ----------
    index : list of tuple of int, (nonzeros,)
        `(a, ...)`: equation, then state and parameter indices as in `TENSORS`.
    values : ndarray, (nonzeros, time)
    """

    index: list[tuple[int, ...]]
    values: FloatArray

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        return iter(zip(self.index, self.values, strict=True))

    def to_dense(self, shape: tuple[int, ...]) -> FloatArray:
        """Return the full array `(*shape, time)`."""
        full = np.zeros((*shape, self.values.shape[1]))
        for index, value in self:
            full[index] = value
        return full


class System:
    """The system `x' = f(t, x, p)` in working coordinates, with its derivatives.

    Parameters
    ----------
    states, parameters : tuple of str, (D,), (J,)
    expressions : tuple of expressions, (D,)
        `u'` for each state, in symbols named as the states, the inputs, the parameters and `t`.
    noise : tuple of str, (D,)
        The kind of noise of each state, a key of `noise.kinds.KINDS`.
    inputs : tuple of str, (I,)
        Names of the inputs; `with_inputs` adds their values.
    mix : ndarray, (D, D), optional
        The Cholesky factor L of the covariance of the noise between states; without it the noise is independent.

    Attributes
    ----------
    inputs : Inputs, or None
        The inputs of one trajectory as functions of time; see `with_inputs`.
    """

    def __init__(
        self,
        states: tuple[str, ...],
        parameters: tuple[str, ...],
        expressions: tuple[Expr, ...],
        noise: tuple[str, ...],
        inputs: tuple[str, ...] = (),
        mix: FloatArray | None = None,
    ) -> None:
        self.states, self.parameters, self.noise, self.mix = states, parameters, noise, mix
        self.kinds = [KINDS[kind] for kind in noise]
        self.inputs: Inputs | None = None
        self._u = [se.Symbol(name) for name in states]
        self._p = [se.Symbol(name) for name in parameters]
        self._input_names = inputs
        self._names = ["t", *states, *inputs, *parameters]
        self._slopes = [kind.slope(u) for kind, u in zip(self.kinds, self._u, strict=True)]
        # x' = u'/s with s = du/dx, and y' = L⁻¹ x'.
        f = [divide_terms(expr, slope) for expr, slope in zip(expressions, self._slopes, strict=True)]
        if mix is not None:
            f = [combine_linearly(row, f) for row in np.linalg.inv(mix)]
        self._tensors: dict[str, dict[tuple[int, ...], Expr]] = {
            "f": {(a,): expr for a, expr in enumerate(f) if expr != 0}
        }
        self._has_one_kind = all(kind is self.kinds[0] for kind in self.kinds)
        self._compiled: dict[tuple[str, ...], tuple[Any, int]] = {}
        self._column_indices: dict[tuple[str, ...], IntArray] = {}

    def with_inputs(self, inputs: Inputs | None) -> System:
        """Return the system with the inputs of one trajectory; it shares the compiled functions with this one."""
        if inputs is None:
            return self
        # A shallow copy: both systems refer to the same dictionaries of tensors and compiled functions.
        system = copy(self)
        system.inputs = inputs
        return system

    @property
    def has_jumps(self) -> bool:
        """Whether the right-hand side jumps in time because a held input does."""
        return self.inputs is not None and len(self.inputs.jump_times) > 0

    @property
    def D(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def J(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    def to_working(self, u: FloatArray) -> FloatArray:
        """Transform states `(time, D)` to working coordinates `(time, D)`."""
        x = np.column_stack([kind.to_working(column) for kind, column in zip(self.kinds, u.T, strict=True)])
        return np.asarray(x if self.mix is None else np.linalg.solve(self.mix, x.T).T, dtype=float)

    def from_working(self, x: FloatArray) -> FloatArray:
        """Transform working coordinates `(time, D)` to states `(time, D)`; the result may share memory with `x`."""
        if self.mix is not None:
            x = x @ self.mix.T
        if self._has_one_kind:  # one call for all columns
            return self.kinds[0].from_working(x)
        return np.column_stack([kind.from_working(column) for kind, column in zip(self.kinds, x.T, strict=True)])

    def compute_slopes(self, u: FloatArray) -> FloatArray:
        """Return `∂u/∂x` `(time, D, D)` at states `(time, D)`."""
        s = np.column_stack([kind.numeric_slope(column) for kind, column in zip(self.kinds, u.T, strict=True)])
        return s[:, :, None] * (np.eye(self.D) if self.mix is None else self.mix)

    def divide_by_slopes(self, u: FloatArray, K: FloatArray) -> FloatArray:
        """Return `(∂x/∂u) K`: derivatives `K` of states turned into derivatives of working coordinates.

        Parameters
        ----------
        u : ndarray, (time, D)
            States.
        K : ndarray, (time, D, n)
            Their derivatives by n quantities.

        Returns
        -------
        ndarray, (time, D, n)
        """
        s = np.column_stack([kind.numeric_slope(column) for kind, column in zip(self.kinds, u.T, strict=True)])
        K = K / s[:, :, None]
        return K if self.mix is None else np.asarray(np.linalg.solve(self.mix, K))

    def differentiate_tensor(self, name: str) -> dict[tuple[int, ...], Expr]:
        """Return the structural nonzeros of a tensor of `TENSORS` as expressions by index.

        The parent tensor, without the last letter, is differentiated by that letter on first use.
        """
        if name not in self._tensors:
            letters = TENSORS[name]
            parent = self.differentiate_tensor("f" + letters[:-1])
            repeated = len(letters) > 1 and letters[-2] == letters[-1]
            result: dict[tuple[int, ...], Expr] = {}
            check_derivative_cost(parent.values())
            for index, expr in parent.items():
                differentiate = (
                    self._differentiate_by_states if letters[-1] == "u" else self._differentiate_by_parameters
                )
                for k, derivative in differentiate(expr):
                    if derivative != 0 and not (repeated and k < index[-1]):
                        result[(*index, k)] = derivative
            self._tensors[name] = result
        return self._tensors[name]

    def _differentiate_by_parameters(self, expr: Expr) -> Iterator[tuple[int, Expr]]:
        """Return an iterator over pairs of index and derivative for the parameters that occur in an expression."""
        present = expr.free_symbols
        return ((k, expr.diff(symbol)) for k, symbol in enumerate(self._p) if symbol in present)

    def _differentiate_by_states(self, expr: Expr) -> Iterator[tuple[int, Expr]]:
        """Yield pairs of index and derivative by working coordinates, `∂/∂x = s ∂/∂u` or `∂/∂y = Lᵀ ∂/∂x`."""
        present = expr.free_symbols
        by_x = {
            k: multiply_terms(expr.diff(u), s)
            for k, (u, s) in enumerate(zip(self._u, self._slopes, strict=True))
            if u in present
        }
        if self.mix is None:
            yield from by_x.items()
            return
        for k, column in enumerate(self.mix.T):
            yield k, combine_linearly(column, [by_x.get(b, se.Integer(0)) for b in range(self.D)])

    @property
    def equations_id(self) -> int:
        """A number that is equal for a system and its copies by `with_inputs`, which have the same equations."""
        return id(self._compiled)

    def index_columns(self, names: tuple[str, ...]) -> IntArray:
        """Return the index of each column of `evaluate_rows`, `(columns, 2)`: equation, then state or parameter, or 0.

        Only the first of several derivatives is returned, so `names` should have at most one letter; see `TENSORS`.
        """
        if names not in self._column_indices:
            indices = [index for name in names for index in self.differentiate_tensor(name)]
            self._column_indices[names] = np.array([(*index, 0)[:2] for index in indices], dtype=np.intp).reshape(-1, 2)
        return self._column_indices[names]

    def evaluate_rows(
        self,
        t: FloatArray,
        u: FloatArray,
        p: FloatArray,
        names: tuple[str, ...],
        input_values: FloatArray | None = None,
    ) -> FloatArray:
        """Evaluate the structural nonzeros of tensors at all times.

        Parameters
        ----------
        t : ndarray, (time,)
        u : ndarray, (time, D)
            States as measured, not in working coordinates.
        p : ndarray, (J,) or (time, J)
        names : tuple of str
            Names of tensors, keys of `TENSORS`.
        input_values : ndarray, (time, I), optional
            Values of the inputs.

        Returns
        -------
        ndarray, (time, columns)
            The nonzeros of the tensors in the order of `names`; see `index_columns` for the indices.
        """
        function, total = self._compile_tensors(names)
        values = np.empty((len(t), total))
        # The compiled function reads rows (t, u, q, p) and writes rows; tiles keep both in cache.
        D, n = self.D, 1 + self.D + len(self._input_names)
        tile = np.empty((min(len(t), _TIMES_PER_TILE), n + self.J))
        if p.ndim == 1:
            tile[:, n:] = p
        for start in range(0, len(t) if total else 0, _TIMES_PER_TILE):
            part = slice(start, min(start + _TIMES_PER_TILE, len(t)))
            row = tile[: part.stop - start]
            row[:, 0] = t[part]
            row[:, 1 : 1 + D] = u[part]
            if input_values is not None:
                row[:, 1 + D : n] = input_values[part]
            if p.ndim > 1:
                row[:, n:] = p[part]
            function(row, out=values[part])
        return values

    def _compile_tensors(self, names: tuple[str, ...]) -> tuple[Any, int]:
        """Return the compiled function of some tensors, or None without nonzeros, and the number of its values."""
        if names not in self._compiled:
            expressions = [e for name in names for e in self.differentiate_tensor(name).values()]
            function = compile_expressions(self._names, expressions) if expressions else None
            self._compiled[names] = function, len(expressions)
        function_and_count: tuple[Any, int] = self._compiled[names]
        return function_and_count

    def evaluate(
        self, t: FloatArray, u: FloatArray, p: FloatArray, names: tuple[str, ...], before: bool = False
    ) -> dict[str, Tensor]:
        """Evaluate tensors at all times.

        Parameters
        ----------
        t : ndarray, (time,)
        u : ndarray, (time, D)
            States as measured, not in working coordinates.
        p : ndarray, (J,)
        names : tuple of str
            Names of tensors, keys of `TENSORS`.
        before : bool
            Whether inputs that jump at a time have their value before the jump; by default the value after it.

        Returns
        -------
        dict of str to Tensor
        """
        input_values = None if self.inputs is None else self.inputs(t, before)
        _, total = self._compile_tensors(names)
        values = np.empty((total, len(t)))
        for start in range(0, len(t), _TIMES_PER_TILE):
            part = slice(start, start + _TIMES_PER_TILE)
            input_part = None if input_values is None else input_values[part]
            values[:, part] = self.evaluate_rows(t[part], u[part], p, names, input_part).T
        # The rows of `values` are the nonzeros of the tensors in the order of `names`.
        tensors, offset = {}, 0
        for name in names:
            index = list(self.differentiate_tensor(name))
            tensors[name] = Tensor(index, values[offset : offset + len(index)])
            offset += len(index)
        return tensors
