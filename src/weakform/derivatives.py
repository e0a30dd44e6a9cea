"""The right-hand side and its derivatives in working coordinates, compiled.

Noise that is additive in `x` makes `x` the working coordinate of a state: `x = u` for Gaussian noise, `x = log u` for
log-normal noise, where `x' = f(t, u, p)/u` and `∂/∂x = u ∂/∂u`. Both act on the expressions in `u`, so no exponential
is ever formed, and `f/u` is divided term by term so that `p*u/u` is `p`.

Only structural nonzeros are kept. A tensor such as `∂²f_a/∂x_b∂p_j` is a table of indices `(a, b, j)` and of values
`(nonzeros, time)`. Each group of tensors is compiled by SymEngine's LLVM back end when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from .expressions import Expr
from .typing import FloatArray

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
"""Name of each tensor and the letters it is differentiated by; repeated letters are stored once, `i <= j`."""

GAUSSIAN, LOGNORMAL = "gaussian", "lognormal"


@dataclass(frozen=True)
class Tensor:
    """Structural nonzeros of a tensor at every time.

    Attributes
    ----------
    index : list of tuple of int
        `(a, ...)`: equation, then state and parameter indices as in `TENSORS`.
    values : ndarray, (nonzeros, time)
    """

    index: list[tuple[int, ...]]
    values: FloatArray

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], FloatArray]]:
        return iter(zip(self.index, self.values, strict=True))

    def dense(self, shape: tuple[int, ...]) -> FloatArray:
        """The full array, `(*shape, time)`."""
        full = np.zeros((*shape, self.values.shape[1]))
        for index, value in self:
            full[index] = value
        return full


class System:
    """`x' = f(t, x, p)` in working coordinates.

    Parameters
    ----------
    states, parameters : tuple of str
    expressions : tuple
        `u'` for each state, in symbols named as the states, the parameters and `t`.
    noise : tuple of str
        `"gaussian"` or `"lognormal"` for each state.
    """

    def __init__(
        self,
        states: tuple[str, ...],
        parameters: tuple[str, ...],
        expressions: tuple[Expr, ...],
        noise: tuple[str, ...],
    ) -> None:
        self.states, self.parameters, self.noise = states, parameters, noise
        self._u = [se.Symbol(name) for name in states]
        self._p = [se.Symbol(name) for name in parameters]
        self._log = [kind == LOGNORMAL for kind in noise]
        f = [_divide(expr, u) if log else expr for expr, u, log in zip(expressions, self._u, self._log, strict=True)]
        self._tensors: dict[str, dict[tuple[int, ...], Expr]] = {
            "f": {(a,): expr for a, expr in enumerate(f) if expr != 0}
        }
        self._compiled: dict[tuple[str, ...], Any] = {}

    @property
    def D(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def J(self) -> int:
        """Number of parameters."""
        return len(self.parameters)

    def to_working(self, u: FloatArray) -> FloatArray:
        """States `(time, D)` in working coordinates."""
        x = np.array(u, dtype=float)
        x[:, self._log] = np.log(x[:, self._log])
        return x

    def from_working(self, x: FloatArray) -> FloatArray:
        """The inverse of `to_working`."""
        u = np.array(x, dtype=float)
        u[:, self._log] = np.exp(u[:, self._log])
        return u

    def structure(self, name: str) -> dict[tuple[int, ...], Expr]:
        """Structural nonzeros of a tensor as expressions, differentiated when first asked for."""
        if name not in self._tensors:
            letters = TENSORS[name]
            parent = self.structure("f" + letters[:-1])
            repeated = len(letters) > 1 and letters[-2] == letters[-1]
            result: dict[tuple[int, ...], Expr] = {}
            for index, expr in parent.items():
                present = expr.free_symbols
                for k, symbol in enumerate(self._u if letters[-1] == "u" else self._p):
                    if symbol not in present or (repeated and k < index[-1]):
                        continue
                    derivative = expr.diff(symbol)
                    if letters[-1] == "u" and self._log[k]:
                        derivative = _multiply(derivative, symbol)
                    if derivative != 0:
                        result[(*index, k)] = derivative
            self._tensors[name] = result
        return self._tensors[name]

    def evaluate(self, t: FloatArray, u: FloatArray, p: FloatArray, names: tuple[str, ...]) -> dict[str, Tensor]:
        """Evaluate tensors at all times at once.

        Parameters
        ----------
        t : ndarray, (time,)
        u : ndarray, (time, D)
            States as measured, not in working coordinates.
        p : ndarray, (J,)
        names : tuple of str
            Which of `TENSORS`.
        """
        indices = [list(self.structure(name)) for name in names]
        if names not in self._compiled:
            self._compiled[names] = self._compile([e for name in names for e in self.structure(name).values()])
        function = self._compiled[names]
        total = sum(map(len, indices))
        values = np.empty((total, len(t)))
        # The compiled function reads rows (t, u, p) and writes rows; tiles keep both in cache.
        rows = np.empty((min(len(t), _TILE), 1 + self.D + self.J))
        rows[:, 1 + self.D :] = p
        for start in range(0, len(t) if total else 0, _TILE):
            part = slice(start, min(start + _TILE, len(t)))
            tile = rows[: part.stop - start]
            tile[:, 0] = t[part]
            tile[:, 1 : 1 + self.D] = u[part]
            values[:, part] = np.asarray(function(tile)).reshape(len(tile), total).T
        tensors, offset = {}, 0
        for name, index in zip(names, indices, strict=True):
            tensors[name] = Tensor(index, values[offset : offset + len(index)])
            offset += len(index)
        return tensors

    def _compile(self, expressions: list[Expr]) -> Any:
        if not expressions:
            return None
        arguments = [se.Symbol("t"), *self._u, *self._p]
        backend = "llvm" if se.have_llvm else "lambda"
        return se.Lambdify(arguments, expressions, backend=backend, cse=True)


_TILE = 4096


def _divide(expr: Expr, by: Expr) -> Expr:
    """`expr/by`, term by term."""
    return se.Add(*[term / by for term in expr.args]) if expr.is_Add else expr / by


def _multiply(expr: Expr, by: Expr) -> Expr:
    """`expr*by`, term by term."""
    return se.Add(*[term * by for term in expr.args]) if expr.is_Add else expr * by
