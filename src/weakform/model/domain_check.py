"""Where equations are defined: everywhere, or only for some states."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import symengine as se

PARTIAL = ("log", "asin", "acos", "atanh", "acosh", "acoth", "asec", "acsc", "asech", "loggamma")
"""Functions that are not defined for all numbers."""


def ends_somewhere(expressions: Iterable[Any], states: Iterable[str]) -> bool:
    """Whether expressions may be no number for some states: logarithms, roots, powers that are not whole numbers."""
    symbols = {se.Symbol(state) for state in states}

    def partial(expr: Any) -> bool:
        args = expr.args
        if not args:
            return False
        power = isinstance(expr, se.Pow) and not args[1].is_Integer
        if (power or type(expr).__name__ in PARTIAL) and args[0].free_symbols & symbols:
            return True
        return any(partial(arg) for arg in args)

    return any(partial(expr) for expr in expressions)
