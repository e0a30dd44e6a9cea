"""Expressions compiled to machine code, by SymEngine's LLVM back end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import symengine as se

from ..support.errors import ModelError
from .function_table import Expr


def compiled(names: Sequence[str], expressions: Sequence[Expr]) -> Any:
    """A function of one row of values, or of many, for the names in this order; the same one for the same again.

    SymEngine calls common parts of expressions x0, x1, ... without a look at names that no expression has, such as
    those of parameters that only give an initial value; so names of the model that look like these are replaced before.
    """
    return _compiled(tuple(names), tuple(se.sympify(expr) for expr in expressions))


@lru_cache(maxsize=256)
def _compiled(names: tuple[str, ...], expressions: tuple[Expr, ...]) -> Any:
    safe = [f"{name}_of_the_model" if re.fullmatch(r"x\d+", name) else name for name in names]
    other = {se.Symbol(name): se.Symbol(new) for name, new in zip(names, safe, strict=True) if name != new}
    try:
        return se.Lambdify(
            [se.Symbol(name) for name in safe],
            [expr.subs(other) if other else expr for expr in expressions],
            backend="llvm" if se.have_llvm else "lambda",
            cse=True,
        )
    except RuntimeError as error:
        raise ModelError(
            f"An equation has a part that is never a finite real number, such as 1/(x - x): {error}."
        ) from None
