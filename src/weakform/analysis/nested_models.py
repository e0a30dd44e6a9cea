"""Likelihood-ratio tests of models that are special cases of others.

Twice the difference of the log-likelihoods is χ² if the smaller model is right; its degrees of freedom are the
number of parameters that the smaller model lacks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import symengine as se

from ..diagnostics.autocorrelation import compute_chi_square_tail
from ..inference.information_criteria import compute_max_log_likelihood, count_unknowns
from ..model.expressions import parse_expression
from ..model.model import Model
from ..results.fit_result import FitResult

SIGNIFICANCE_LEVEL = 0.05
"""P-value of a likelihood-ratio test. Below, the smaller model is refuted. By judgement: the usual level."""


@dataclass(frozen=True)
class NestedModels:
    """The test of a model against another one of which it is a special case.

    Attributes
    ----------
    small, large : str
        Names of both models; the small one is the large one with parameters fixed, tied or shared.
    statistic : float
        Twice the difference of the log-likelihoods.
    freedom : int
        Number of parameters that the small model lacks.
    p_value : float
    """

    small: str
    large: str
    statistic: float
    freedom: int
    p_value: float


def find_nested_models(fits: dict[str, FitResult]) -> list[NestedModels]:
    """Return the tests of all pairs of fits in which one model is a special case of the other."""
    tests = []
    for small, a in fits.items():
        for large, b in fits.items():
            freedom = count_unknowns(b) - count_unknowns(a)
            if small == large or freedom <= 0 or not _is_special_case(a, b):
                continue
            statistic = max(2 * (compute_max_log_likelihood(b) - compute_max_log_likelihood(a)), 0.0)
            tests.append(NestedModels(small, large, statistic, freedom, compute_chi_square_tail(statistic, freedom)))
    return tests


def _is_special_case(a: FitResult, b: FitResult) -> bool:
    """Return True if the model of `a` is that of `b` with parameters fixed, tied or shared."""
    if (
        a.model.states != b.model.states
        or a.data.noise != b.data.noise
        or a.model.driving_names != b.model.driving_names
    ):
        return False
    if a.sigma_estimated != b.sigma_estimated or (not a.sigma_estimated and not np.array_equal(a.sigma, b.sigma)):
        return False
    if _is_shared_version(a, b):
        return True
    own = {*a.model.parameters, *a.tied}
    if own != set(b.model.parameters) or b.tied:
        return False
    tied = {se.Symbol(n): parse_expression(text, a.model.parameters, "tied") for n, text in a.tied.items()}
    if a.model.initial.keys() != b.model.initial.keys() or len(a.model.all_expressions) != len(b.model.all_expressions):
        return False
    # All expressions of b, with its parameters tied as in a, must be those of a.
    pairs = zip(
        (m.all_expressions for m in _list_models(a)), (m.all_expressions for m in _list_models(b)), strict=False
    )
    is_same = len(_list_models(a)) == len(_list_models(b)) and all(
        len(x) == len(y) and all(se.expand(e - f.subs(tied)) == 0 for e, f in zip(x, y, strict=True)) for x, y in pairs
    )
    values = [dict(zip(f.model.parameters, f.estimate, strict=True)) for f in (a, b)]
    fixed = [{n for n, flag in zip(f.model.parameters, f.fixed, strict=True) if flag} for f in (a, b)]
    # A parameter that is fixed in b must be fixed in a, at the same value.
    return is_same and fixed[1] <= fixed[0] and all(values[0][n] == values[1][n] for n in fixed[1])


def _is_shared_version(a: FitResult, b: FitResult) -> bool:
    """Return True if the models are the same, and trajectories of `a` share parameters that are local in `b`."""
    if a.shared is None or b.shared is None or a.index is None or b.index is None or a.tied or b.tied:
        return False
    if a.shared.parameters != b.shared.parameters or a.shared.all_expressions != b.shared.all_expressions:
        return False
    if a.fixed.any() or b.fixed.any() or a.index.shape != b.index.shape:
        return False
    # Parameters that two trajectories share in b they must share in a: each parameter of b belongs to one of a.
    pairs = {(int(x), int(y)) for x, y in zip(b.index.ravel(), a.index.ravel(), strict=True)}
    return len({x for x, _ in pairs}) == len(pairs)


def _list_models(fit: FitResult) -> tuple[Model, ...]:
    """Return the model of a fit and its variants."""
    return (fit.model, *fit.model.variants)
