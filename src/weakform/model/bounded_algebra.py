"""Algebra on expressions, with limits that are checked before the work is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import symengine as se

from ..support.array_types import BoolArray, FloatArray
from ..support.errors import ModelError
from .function_table import Expr

MAX_EXPANDED_TERMS = 2_000
"""Number of terms above which a product is not multiplied out, so that terms which would cancel may remain.

By judgement.
"""

MAX_DERIVATIVE_OPERATIONS = 20_000_000
"""Bound on the number of operations in the first derivatives of a model, above which the model is refused.

It keeps differentiation and compilation from filling the memory. By judgement.
"""


def check_derivative_cost(expressions: Iterable[Expr]) -> None:
    """Raise `ModelError` if the derivatives of the expressions could be too long to compile.

    The length is estimated as n² for a term of n operations: it has about n occurrences of symbols, and by the product
    and chain rules each adds about n operations to a derivative.
    """
    bound = sum(se.count_ops(term) ** 2 for e in expressions for term in (e.args if e.is_Add else (e,)))
    if bound > MAX_DERIVATIVE_OPERATIONS:
        raise ModelError(
            "The derivatives of this model would be too long to compile: an equation multiplies or nests too many "
            "factors. Write it as a sum of shorter terms, or introduce states for parts of it."
        )


def combine_linearly(weights: FloatArray, expressions: list[Expr]) -> Expr:
    """Return `Σ weight·expression` for weights `(n,)` and n expressions."""
    # Zero weights and zero expressions are skipped, so that structural zeros stay zeros.
    terms = [se.RealDouble(float(w)) * e for w, e in zip(weights, expressions, strict=True) if w != 0 and e != 0]
    return se.Add(*terms) if terms else se.Integer(0)


def divide_terms(expr: Expr, divisor: Expr) -> Expr:
    """Return `expr/divisor`, divided term by term."""
    if divisor == 1:
        return expr
    return se.Add(*[term / divisor for term in expr.args]) if expr.is_Add else expr / divisor


def multiply_terms(expr: Expr, factor: Expr) -> Expr:
    """Return `expr*factor`, multiplied term by term."""
    if factor == 1:
        return expr
    return se.Add(*[term * factor for term in expr.args]) if expr.is_Add else expr * factor


def expand_if_short(expr: Expr) -> Expr:
    """Multiply an expression out so that terms cancel, or return it unchanged if that would make it too long."""
    return expr.expand(deep=False) if _bound_expanded_terms(expr) <= MAX_EXPANDED_TERMS else expr


def _bound_expanded_terms(expr: Expr) -> int:
    """Return an upper bound of the number of terms of an expression after it is multiplied out."""
    if expr.is_Add:
        return sum(map(_bound_expanded_terms, expr.args))
    if expr.is_Mul:
        return math.prod(map(_bound_expanded_terms, expr.args))
    if expr.is_Pow and expr.args[1].is_Integer:
        # The multinomial expansion of (a_1 + … + a_n)^k has C(n + k - 1, k) terms.
        base_terms, power = _bound_expanded_terms(expr.args[0]), abs(int(expr.args[1]))
        return math.comb(base_terms + power - 1, power)
    return 1


def find_curved_pairs(expressions: Iterable[Expr], names: Sequence[str]) -> BoolArray:
    """Return the pairs of the n names with `∂²e/∂p_i∂p_j ≠ 0` for some expression e, as a mask `(n, n)`."""
    symbols = [se.Symbol(name) for name in names]
    n = len(symbols)
    is_curved = np.zeros((n, n), dtype=bool)
    for expr in expressions:
        present = [i for i in range(n) if symbols[i] in expr.free_symbols]
        for i in present:
            slope = expr.diff(symbols[i])
            for j in present:
                # A second derivative is zero only if its terms cancel, as those of (a + u)² - a² do, so it is expanded.
                if j <= i and not is_curved[i, j] and expand_if_short(slope.diff(symbols[j])) != 0:
                    is_curved[i, j] = is_curved[j, i] = True
    return is_curved
