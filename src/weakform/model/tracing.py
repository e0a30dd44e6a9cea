"""Tracing of a plain NumPy right-hand side: one call with symbols gives its expressions.

NumPy applies `np.exp` to an object array by calling the method `exp` of each element, so a scalar with arithmetic and
these methods is enough to trace `f(t, u, p)`. The function is called once. Branches on traced values cannot be
followed and raise a `ModelError`.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import symengine as se

from ..support.errors import ModelError
from .function_table import FUNCTIONS, Expr, absolute

RightHandSide = Callable[..., Any]
"""A function `f(t, u, p)` or `f(t, u, p, inputs)` of plain NumPy."""


class TracedScalar:
    """A symbolic scalar with which NumPy can compute.

    Parameters
    ----------
    expr : expression
        The SymEngine expression of the scalar.
    """

    __slots__ = ("expr",)
    # Not hashable, because == is refused.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __repr__(self) -> str:
        return f"TracedScalar({self.expr})"

    def _refuse_branch(self, *_: object) -> bool:
        """Refuse a comparison or a truth value."""
        raise ModelError(
            f"The right-hand side branches on the value of {self.expr}, or compares it. It is traced once with "
            "symbols, so `if`, `while`, `<`, `==`, `max`, `np.where` on states, parameters or time cannot be followed. "
            "Use a smooth expression instead, for example 1/(1 + np.exp(-k*(t - t0))) for a switch."
        )

    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _refuse_branch

    def _refuse_conversion(self, *_: object) -> Any:
        """Refuse a conversion to a number."""
        raise ModelError(
            f"The right-hand side needs the number behind {self.expr}, but it is traced with symbols: "
            "float(), int(), math functions and typed arrays cannot be used. Use NumPy functions (np.exp, not "
            "math.exp) and build the result as a list or with np.array([...])."
        )

    __float__ = __int__ = __index__ = __complex__ = _refuse_conversion

    def __add__(self, other: Any) -> Any:
        return _apply_binary(self, other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return _apply_binary(other, self, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Any:
        return _apply_binary(self, other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return _apply_binary(other, self, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Any:
        return _apply_binary(self, other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return _apply_binary(other, self, lambda a, b: a * b)

    def __truediv__(self, other: Any) -> Any:
        return _apply_binary(self, other, lambda a, b: a / b)

    def __rtruediv__(self, other: Any) -> Any:
        return _apply_binary(other, self, lambda a, b: a / b)

    def __pow__(self, other: Any) -> Any:
        return _apply_binary(self, other, lambda a, b: a**b)

    def __rpow__(self, other: Any) -> Any:
        return _apply_binary(other, self, lambda a, b: a**b)

    def __neg__(self) -> TracedScalar:
        return TracedScalar(-self.expr)

    def __pos__(self) -> TracedScalar:
        return self

    def __abs__(self) -> TracedScalar:
        return TracedScalar(absolute(self.expr))

    def square(self) -> TracedScalar:
        """Return the square; `np.square` calls this method."""
        return TracedScalar(self.expr**2)

    def conjugate(self) -> TracedScalar:
        """Return the value itself, as all quantities are real; `np.conj`, and so `np.vdot`, calls this method."""
        return self

    def __getattr__(self, name: str) -> Callable[[], TracedScalar]:
        # NumPy looks up the method `exp` for np.exp, so every function of one argument is offered as a method.
        arity, function = FUNCTIONS.get(name, (0, None))
        if arity != 1 or function is None:
            raise AttributeError(f"a traced value has no attribute {name!r}")
        return lambda: TracedScalar(function(self.expr))


def _to_expression(value: Any) -> Expr | None:
    """Convert a traced value or a real number to an expression; return None for anything else."""
    if isinstance(value, TracedScalar):
        return value.expr
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, numbers.Integral):  # exact, so that u**2 is a whole power
        return se.Integer(int(value))
    if isinstance(value, numbers.Real):
        return se.RealDouble(float(value))
    return None


def _apply_binary(left: Any, right: Any, operation: Callable[[Expr, Expr], Expr]) -> Any:
    """Apply an operation to two values; return NotImplemented if one of them is neither traced nor a real number."""
    a, b = _to_expression(left), _to_expression(right)
    if a is None or b is None:
        return NotImplemented
    return TracedScalar(operation(a, b))


def trace_function(
    f: RightHandSide,
    states: Sequence[str],
    parameters: Sequence[str],
    inputs: Sequence[str] = (),
    returns: Sequence[str] | None = None,
) -> tuple[Expr, ...]:
    """Call a function once with symbols and return its values as expressions.

    Parameters
    ----------
    f : callable
        `f(t, u, p)`, or `f(t, u, p, inputs)` if there are inputs.
    states, parameters, inputs : sequence of str
        Names of the symbols.
    returns : sequence of str, optional
        Names of the values of an observation function; by default the values are the derivatives of the states.

    Returns
    -------
    tuple of expressions
        One for each state, or for each name of `returns`.

    Raises
    ------
    ModelError
        If the function cannot be traced, or returns a wrong number or kind of values.
    """
    expected, what = (states, "derivative") if returns is None else (returns, "value")
    t = TracedScalar(se.Symbol("t"))
    u = np.array([TracedScalar(se.Symbol(name)) for name in states], dtype=object)
    p = np.array([TracedScalar(se.Symbol(name)) for name in parameters], dtype=object)
    input_arguments = [np.array([TracedScalar(se.Symbol(name)) for name in inputs], dtype=object)] if inputs else []
    try:
        returned = f(t, u, p, *input_arguments)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(
            f"The function could not be traced: {type(error).__name__}: {error}. It is called once as "
            f"f(t, u, p{', inputs' if inputs else ''}), "
            f"where u holds {len(states)} states and p holds {len(parameters)} parameters as symbols; it may use "
            f"arithmetic and these NumPy functions: {', '.join(sorted(n for n in FUNCTIONS if hasattr(np, n)))}."
        ) from error
    values = list(np.asarray(returned, dtype=object).ravel()) if returned is not None else []
    if len(values) != len(expected):
        kind = "states" if returns is None else "observables"
        raise ModelError(
            f"The function returned {len(values)} values for {len(expected)} {kind} ({', '.join(expected)}); "
            f"return one {what} for each of them, in that order."
        )
    expressions = [_to_expression(value) for value in values]
    for name, value, expr in zip(expected, values, expressions, strict=True):
        if expr is None:
            raise ModelError(f"The {what} of {name} is a {type(value).__name__}, not a number or an expression.")
    return tuple(expressions)
