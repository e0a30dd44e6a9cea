"""The functions a model may use, and names that it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import symengine as se

Expr = Any
"""A SymEngine expression (the library ships no types)."""


def absolute(x: Expr) -> Expr:
    """`|x|` as `sqrt(x²)`, whose derivatives exist in closed form away from zero."""
    return se.sqrt(x**2)


FUNCTIONS: dict[str, tuple[int, Callable[..., Expr]]] = {
    "exp": (1, se.exp),
    "log": (1, se.log),
    "ln": (1, se.log),
    "log10": (1, lambda x: se.log(x) / se.log(10)),
    "log2": (1, lambda x: se.log(x) / se.log(2)),
    "log1p": (1, lambda x: se.log(1 + x)),
    "expm1": (1, lambda x: se.exp(x) - 1),
    "sqrt": (1, se.sqrt),
    "cbrt": (1, lambda x: x ** se.Rational(1, 3)),
    "abs": (1, absolute),
    "sin": (1, se.sin),
    "cos": (1, se.cos),
    "tan": (1, se.tan),
    "arcsin": (1, se.asin),
    "arccos": (1, se.acos),
    "arctan": (1, se.atan),
    "asin": (1, se.asin),
    "acos": (1, se.acos),
    "atan": (1, se.atan),
    "sinh": (1, se.sinh),
    "cosh": (1, se.cosh),
    "tanh": (1, se.tanh),
    "arcsinh": (1, se.asinh),
    "arccosh": (1, se.acosh),
    "arctanh": (1, se.atanh),
    "asinh": (1, se.asinh),
    "acosh": (1, se.acosh),
    "atanh": (1, se.atanh),
    "erf": (1, se.erf),
    "erfc": (1, se.erfc),
    "pow": (2, lambda x, y: x**y),
}
"""Every function a model may use: all are smooth, and SymEngine compiles each of them and its derivatives."""

NOT_SMOOTH = {"min", "max", "sign", "floor", "ceil", "round", "mod", "heaviside", "where", "piecewise", "if"}
RESERVED = {"t", "pi"}
