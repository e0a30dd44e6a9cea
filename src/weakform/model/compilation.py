"""Compilation of expressions to machine code by SymEngine's LLVM back end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import symengine as se

from ..support.errors import ModelError
from .function_table import Expr

MAX_CACHED_FUNCTIONS = 256
"""Number of compiled functions that are kept for reuse; the least recently used ones are dropped. By judgement."""


def compile_expressions(names: Sequence[str], expressions: Sequence[Expr]) -> Any:
    """Compile expressions to a function of one row of values, or of many rows.

    SymEngine calls common subexpressions x0, x1, …, even if a name that occurs in no expression is the same, such as
    that of a parameter of an initial value. Names of the model of this form are therefore replaced first.

    Parameters
    ----------
    names : sequence of str, (n,)
        The names of the values in a row.
    expressions : sequence of expressions, (K,)

    Returns
    -------
    callable
        A function of `(n,)` or `(rows, n)` that returns `(K,)` or `(rows, K)`. Equal arguments give the same function
        as long as it is in the cache.

    Raises
    ------
    ModelError
        If an expression contains an undefined constant.
    """
    return _compile_cached(tuple(names), tuple(se.sympify(expr) for expr in expressions))


@lru_cache(maxsize=MAX_CACHED_FUNCTIONS)
def _compile_cached(names: tuple[str, ...], expressions: tuple[Expr, ...]) -> Any:
    """Compile expressions, with hashable arguments for the cache; see `compile_expressions`."""
    safe = [f"{name}_of_the_model" if re.fullmatch(r"x\d+", name) else name for name in names]
    replacements = {se.Symbol(name): se.Symbol(new) for name, new in zip(names, safe, strict=True) if name != new}
    try:
        return se.Lambdify(
            [se.Symbol(name) for name in safe],
            [expr.subs(replacements) if replacements else expr for expr in expressions],
            backend="llvm" if se.have_llvm else "lambda",
            cse=True,
        )
    except RuntimeError as error:
        # SymEngine raises RuntimeError for constants such as zoo and nan, which no compiled function can return.
        raise ModelError(
            f"An equation has a part that is never a finite real number, such as 1/(x - x): {error}."
        ) from None
