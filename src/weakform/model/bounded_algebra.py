"""Algebra of expressions whose cost is bounded beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import symengine as se

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import ModelError
from .function_table import Expr

MAX_EXPANDED = 2_000
MAX_OPERATIONS = 20_000_000


def affordable(expressions: Iterable[Expr]) -> None:
    """Refuse what would have too many derivatives: a term of n operations has n derivatives of n operations at most."""
    bound = sum(se.count_ops(term) ** 2 for e in expressions for term in (e.args if e.is_Add else (e,)))
    if bound > MAX_OPERATIONS:
        raise ModelError(
            "The derivatives of this model would be too long to compile: an equation multiplies or nests too many "
            "things. Write it as a sum of shorter terms, or introduce states for parts of it."
        )


def combined(weights: FloatArray, expressions: list[Expr]) -> Expr:
    """`Σ weight·expression`."""
    terms = [se.RealDouble(float(w)) * e for w, e in zip(weights, expressions, strict=True) if w != 0 and e != 0]
    return se.Add(*terms) if terms else se.Integer(0)


def divide(expr: Expr, by: Expr) -> Expr:
    """`expr/by`, term by term."""
    if by == 1:
        return expr
    return se.Add(*[term / by for term in expr.args]) if expr.is_Add else expr / by


def multiply(expr: Expr, by: Expr) -> Expr:
    """`expr*by`, term by term."""
    if by == 1:
        return expr
    return se.Add(*[term * by for term in expr.args]) if expr.is_Add else expr * by


def expanded(expr: Expr) -> Expr:
    """The expression multiplied out, so that what cancels does; as it is, where this would make it huge."""
    return expr.expand(deep=False) if _terms(expr) <= MAX_EXPANDED else expr


def _terms(expr: Expr) -> int:
    """How many terms an expression has, at most, once it is multiplied out."""
    if expr.is_Add:
        return sum(map(_terms, expr.args))
    if expr.is_Mul:
        return math.prod(map(_terms, expr.args))
    if expr.is_Pow and expr.args[1].is_Integer:
        inside, power = _terms(expr.args[0]), abs(int(expr.args[1]))
        return math.comb(inside + power - 1, power)
    return 1


def curved(expressions: Iterable[Expr], names: Sequence[str]) -> BoolArray:
    """Pairs of names with `∂²e/∂p_i∂p_j ≠ 0` for some expression e, `(n, n)`."""
    symbols = [se.Symbol(name) for name in names]
    n = len(symbols)
    found = np.zeros((n, n), dtype=bool)
    for expr in expressions:
        present = [i for i in range(n) if symbols[i] in expr.free_symbols]
        for i in present:
            first = expr.diff(symbols[i])
            for j in present:
                if j <= i and not found[i, j] and expanded(first.diff(symbols[j])) != 0:
                    found[i, j] = found[j, i] = True
    return found
