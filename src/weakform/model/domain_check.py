"""Check whether equations are defined for all values of the states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import symengine as se

PARTIAL_FUNCTIONS = ("log", "asin", "acos", "atanh", "acosh", "acoth", "asec", "acsc", "asech", "loggamma")
"""SymEngine's names of functions that are not defined for all real numbers."""


def has_limited_domain(expressions: Iterable[Any], states: Iterable[str]) -> bool:
    """Return True if an expression may be undefined for some values of the states.

    This is the case if a state occurs in a function of `PARTIAL_FUNCTIONS`, such as a logarithm, or in the base of a
    power whose exponent is not a whole number, such as a root. Poles, as of 1/x, are not counted.
    """
    symbols = {se.Symbol(state) for state in states}

    def is_partial(expr: Any) -> bool:
        args = expr.args
        if not args:
            return False
        power = isinstance(expr, se.Pow) and not args[1].is_Integer
        if (power or type(expr).__name__ in PARTIAL_FUNCTIONS) and args[0].free_symbols & symbols:
            return True
        return any(is_partial(arg) for arg in args)

    return any(is_partial(expr) for expr in expressions)
