"""The functions that a model may use, and the names that it may not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import symengine as se

Expr = Any
"""A SymEngine expression (the library ships no types)."""


def absolute(x: Expr) -> Expr:
    """Return `|x|` as `sqrt(x²)`, whose derivatives exist in closed form away from zero."""
    return se.sqrt(x**2)


def smooth_max(x: Expr, y: Expr, width: Expr) -> Expr:
    """Return `(x + y + sqrt((x - y)² + width²))/2`, the maximum of x and y with its corner rounded over `width`."""
    return (x + y + se.sqrt((x - y) ** 2 + width**2)) / 2


# Names of NumPy functions are also the names of the methods that tracing offers to NumPy (see `tracing`).
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
    "cot": (1, lambda x: se.cos(x) / se.sin(x)),
    "sec": (1, lambda x: 1 / se.cos(x)),
    "csc": (1, lambda x: 1 / se.sin(x)),
    "arccot": (1, lambda x: se.atan(1 / x)),
    "arcsec": (1, lambda x: se.acos(1 / x)),
    "arccsc": (1, lambda x: se.asin(1 / x)),
    "acot": (1, lambda x: se.atan(1 / x)),
    "asec": (1, lambda x: se.acos(1 / x)),
    "acsc": (1, lambda x: se.asin(1 / x)),
    "sinh": (1, se.sinh),
    "cosh": (1, se.cosh),
    "tanh": (1, se.tanh),
    "coth": (1, lambda x: se.cosh(x) / se.sinh(x)),
    "sech": (1, lambda x: 1 / se.cosh(x)),
    "csch": (1, lambda x: 1 / se.sinh(x)),
    "arcsinh": (1, se.asinh),
    "arccosh": (1, se.acosh),
    "arctanh": (1, se.atanh),
    "asinh": (1, se.asinh),
    "acosh": (1, se.acosh),
    "atanh": (1, se.atanh),
    "erf": (1, se.erf),
    "erfc": (1, se.erfc),
    "pow": (2, lambda x, y: x**y),
    "smooth_max": (3, smooth_max),
    "smooth_min": (3, lambda x, y, width: -smooth_max(-x, -y, width)),
}
"""Every function that a model may use, with its number of arguments.

SymEngine compiles each of them and its derivatives. All are smooth inside their domains, except `abs` at zero.
"""

NON_SMOOTH_FUNCTIONS = {"min", "max", "sign", "floor", "ceil", "round", "mod", "heaviside", "where"}
"""Names of functions that are refused because they are not twice differentiable."""

SWITCH_FUNCTIONS = ("if", "piecewise")
"""Names of the functions whose conditions become switches."""

RESERVED_NAMES = {"t", "pi"}
"""Names that no state, parameter or input may have, besides those of functions."""

NAME_CORRECTIONS = {"time": "t", "Time": "t", "Pi": "pi", "PI": "pi", "π": "pi", "exp": "exp(...)", "log": "log(...)"}
"""Names that are probably not meant as parameters, and what was probably meant."""
