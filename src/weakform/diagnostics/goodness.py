"""Goodness of fit: are the residuals noise?

If the model is right, the residuals `x^data - x̂` are the noise less what the J parameters and the initial state have
absorbed: nearly white, of variance σ². Two tests:

- σ known: `Σ (x^data - x̂)²/σ²` is χ² with as many degrees of freedom as values less fitted quantities.
- σ estimated from the same residuals: that sum equals its degrees of freedom and tests nothing. A wrong model then
  shows as autocorrelation, which the portmanteau statistic of Ljung and Box over all states detects
  (`autocorrelation`): it does not depend on σ. The scatter of repeated measurements about their means does not depend
  on any model (pure error): an F test compares the remaining residuals with it (lack of fit).

Of two tests the smaller p-value is doubled (Bonferroni). Weak residuals locate the misfit in time: each sees only its
own window of the data, and divided by its standard deviation `√S_kk` it is standard normal if the model is right.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..collocation.residual_projection import ResidualProjection
from ..support.array_types import FloatArray
from ..support.compact_repr import CompactRepr
from ..weak.weak_form import WeakForm
from .autocorrelation import compute_chi_square_tail, run_autocorrelation_test

REJECTION_LEVEL = 0.01
"""P-value below which a model is rejected: one right model in a hundred is. By judgement; `docs/accuracy.md`
has the measured share of right models that are rejected."""

DOUBT_LEVEL = 0.05
"""P-value below which a model is called doubtful, unless it is rejected at `REJECTION_LEVEL`: one right model in twenty
has a smaller p-value. By judgement."""

MIN_SAMPLES_FOR_WEAK_TEST = 40
"""Number of samples of all trajectories together below which weak residuals are no evidence against a model of unknown
σ. By judgement."""

MAX_MEAN_SQUARE_OF_ROUNDING = 1e-2
"""Mean square of the residuals over a given σ², below which they are rounding, not noise of that size, and no pattern
in them speaks against the model: `test_noise_free_data_with_given_sigma_do_not_reject_the_model` in
`tests/test_hidden.py`."""

MAX_VALUES_OF_STRETCH = 100
"""Values of the longest stretch in which the data are compared with the fitted curve. Bounds the cost, which grows with
values times length. By judgement."""

MIN_SCORE_OF_STRETCH = 2.0
"""Score of a one-sided stretch, in standard deviations of the sum of as many independent residuals, below which it is
not listed. By judgement: the largest of many such sums is often beyond 2 by chance; it only locates the misfit of a
model that was rejected."""

LEVEL_OF_LOCAL_MISFITS = 1e-3
"""Probability with which a right model has any weak residual that is listed as a misfit. By judgement."""


@dataclass(frozen=True)
class Misfit:
    """A stretch of time in which an equation does not hold.

    Attributes
    ----------
    equation : int
        Index of the state whose equation it is.
    start, stop : float
        In units of time.
    score : float
        The weak residual of the largest size, in standard deviations, with its sign.
    trajectory : int
        Index of the trajectory.
    """

    equation: int
    start: float
    stop: float
    score: float
    trajectory: int = 0


@dataclass(frozen=True, repr=False)
class GoodnessOfFit(CompactRepr):
    """Tests of a model against the data.

    Attributes
    ----------
    p_value : float
        Of all tests combined. Small if the model, or a given σ, is wrong; NaN if there are too few samples.
    chi_square : float
        `Σ (x^data - x̂)²/σ²`.
    freedom : int
        Its degrees of freedom: values less fitted quantities.
    chi_square_p : float, or None
        Two-sided p-value of a given σ; None if σ was estimated.
    portmanteau, portmanteau_freedom, portmanteau_p : float
        The test for autocorrelation: statistic, degrees of freedom, p-value.
    misfits : tuple of Misfit
        Where the equations do not hold; the worst first.
    lack_of_fit_p : float, or None
        P-value of the test against the scatter of repeated measurements; None without such measurements.
    """

    p_value: float
    chi_square: float
    freedom: int
    chi_square_p: float | None
    portmanteau: float
    portmanteau_freedom: int
    portmanteau_p: float
    misfits: tuple[Misfit, ...] = ()
    lack_of_fit_p: float | None = None


def assess_residuals(
    residuals: tuple[FloatArray, ...],
    chi_square: float,
    freedom: int,
    sigma_known: bool,
    misfits: tuple[Misfit, ...] = (),
    *,
    pure_error: tuple[float, int] = (0.0, 0),
    project_noise: ResidualProjection | None = None,
) -> GoodnessOfFit:
    """Test the residuals of a fit, and combine the tests.

    Parameters
    ----------
    residuals : tuple of ndarray, (time, columns)
        Of each trajectory, over σ; NaN where missing.
    chi_square : float
        `Σ (x^data - x̂)²/σ²`, with the scatter of repeated measurements about their means.
    freedom : int
        Degrees of freedom of `chi_square`.
    sigma_known : bool
        Whether σ was given.
    misfits : tuple of Misfit
    pure_error : tuple of float and int
        The part of `chi_square` that is scatter of repeated measurements, and its degrees of freedom.
    project_noise : callable, optional
        Computes the residuals of fits to noise `(samples, columns, draws)`.

    Returns
    -------
    GoodnessOfFit
    """
    values = sum(int(np.isfinite(part).sum()) for part in residuals)
    autocorrelation = run_autocorrelation_test(
        residuals, 1.0 - (freedom - pure_error[1]) / max(values, 1), project_noise
    )
    lack_of_fit = _test_lack_of_fit(chi_square, freedom, pure_error)
    goodness = GoodnessOfFit(
        p_value=math.nan,
        chi_square=chi_square,
        freedom=freedom,
        chi_square_p=None,
        portmanteau=autocorrelation.statistic,
        portmanteau_freedom=autocorrelation.freedom,
        portmanteau_p=autocorrelation.p_value,
        lack_of_fit_p=lack_of_fit,
        misfits=misfits,
    )
    if not sigma_known:
        return replace(goodness, p_value=_combine_p_values(autocorrelation.p_value, lack_of_fit))
    if chi_square < MAX_MEAN_SQUARE_OF_ROUNDING * freedom:
        # A chi_square_p of zero still reports that the given σ is wrong.
        return replace(goodness, p_value=1.0, chi_square_p=0.0, portmanteau_p=1.0, lack_of_fit_p=None, misfits=())
    upper = compute_chi_square_tail(chi_square, freedom)
    both_sides = 2 * min(upper, 1 - upper)
    return replace(goodness, p_value=_combine_p_values(both_sides, autocorrelation.p_value), chi_square_p=both_sides)


def _test_lack_of_fit(chi_square: float, freedom: int, pure_error: tuple[float, int]) -> float | None:
    """Compute the p-value of the F test of the residuals against the scatter of repeated measurements.

    Parameters
    ----------
    chi_square : float
        Sum of squares, with that of the repeated measurements.
    freedom : int
        Its degrees of freedom.
    pure_error : tuple of float and int
        Sum of squares of repeated measurements about their means, and its degrees of freedom.

    Returns
    -------
    float, or None
        None without repeated measurements.
    """
    rest, count = freedom - pure_error[1], pure_error[1]
    if count <= 0 or rest <= 0 or pure_error[0] <= 0:
        return None
    from scipy.special import fdtrc

    return float(fdtrc(rest, count, (chi_square - pure_error[0]) / rest / (pure_error[0] / count)))


def _combine_p_values(*tests: float | None) -> float:
    """Return the smallest p-value times the number of tests (Bonferroni); NaN without any test."""
    p_values = [p for p in tests if p is not None and not math.isnan(p)]
    return min(1.0, len(p_values) * min(p_values)) if p_values else math.nan


def format_p_value(p: float) -> str:
    """Format a p-value, such as `p = 0.012`."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def compute_score_threshold(count: int, level: float = 0.01) -> float:
    """Compute the score, in standard deviations, that the largest of `count` exceeds with probability `level`."""
    return NormalDist().inv_cdf(1 - level / (2 * max(count, 1)))


def list_model_p_values(goodness: GoodnessOfFit) -> list[float]:
    """Return the p-values of tests of the model that do not depend on σ: autocorrelation, and lack of fit."""
    return [p for p in (goodness.portmanteau_p, goodness.lack_of_fit_p) if p is not None and not np.isnan(p)]


def is_only_sigma_wrong(goodness: GoodnessOfFit) -> bool:
    """Return True if the given σ is wrong, and nothing else is."""
    is_wrong = goodness.chi_square_p is not None and max(goodness.chi_square_p, goodness.p_value) < REJECTION_LEVEL
    return is_wrong and min(list_model_p_values(goodness), default=1.0) >= REJECTION_LEVEL


@dataclass(frozen=True)
class OneSidedStretch:
    """A stretch of time in which the data are above, or below, the fitted curve.

    Attributes
    ----------
    column, trajectory, count : int
        Indices of the column and the trajectory; the number of values.
    start, stop : float
        In units of time.
    score : float
        The sum of the residuals, in standard deviations; positive if the data are above the curve.
    """

    column: int
    trajectory: int
    count: int
    start: float
    stop: float
    score: float


def find_one_sided_stretches(residuals: tuple[FloatArray, ...], times: tuple[FloatArray, ...]) -> list[OneSidedStretch]:
    """Find, for each column, the stretch of time whose residuals are most one-sided.

    Its score is `max |Σ e| / √n` over stretches of up to `MAX_VALUES_OF_STRETCH` values. It locates the misfit of a
    model if weak residuals cannot, because they are too few, or because states are hidden.

    Parameters
    ----------
    residuals : tuple of ndarray, (time, columns)
        Of each trajectory, over σ; NaN where missing.
    times : tuple of ndarray, (time,)

    Returns
    -------
    list of OneSidedStretch
        At most one for each column; the worst first.
    """
    stretches = []
    for d in range(residuals[0].shape[1]):
        best = OneSidedStretch(d, 0, 0, 0.0, 0.0, 0.0)
        for k, (part, t) in enumerate(zip(residuals, times, strict=True)):
            rows = np.flatnonzero(np.isfinite(part[:, d]))
            total = np.concatenate([[0.0], np.cumsum(part[rows, d])])
            for n in range(2, min(len(rows), MAX_VALUES_OF_STRETCH) + 1):
                score = (total[n:] - total[:-n]) / np.sqrt(n)
                m = int(np.argmax(np.abs(score)))
                if abs(score[m]) > abs(best.score):
                    start, stop = float(t[rows[m]]), float(t[rows[m + n - 1]])
                    best = OneSidedStretch(d, k, n, start, stop, score=float(score[m]))
        stretches.append(best)
    significant = (stretch for stretch in stretches if abs(stretch.score) > MIN_SCORE_OF_STRETCH)
    return sorted(significant, key=lambda stretch: -abs(stretch.score))


def find_misfits(
    forms: tuple[WeakForm, ...], standardised: Iterable[tuple[FloatArray, FloatArray]]
) -> tuple[Misfit, ...]:
    """Find the stretches of time in which an equation does not hold: large weak residuals, joined if they overlap.

    Parameters
    ----------
    forms : tuple of WeakForm
        Of each trajectory.
    standardised : iterable of pairs of ndarray
        Of each trajectory: centres of the test functions `(K,)`, and weak residuals over their standard deviations
        `(D, K)`, as `WeakForm.standardise` returns them.

    Returns
    -------
    tuple of Misfit
        The worst first.
    """
    all_misfits: list[Misfit] = []
    for number, (form, (centres, scores)) in enumerate(zip(forms, standardised, strict=True)):
        if form.functions.blocks == 1:  # test functions that are not local cannot locate a misfit in time
            continue
        own: list[Misfit] = []
        limit = compute_score_threshold(scores.size, level=LEVEL_OF_LOCAL_MISFITS)
        for equation, row in enumerate(scores):
            for k in np.flatnonzero(np.abs(row) > limit):
                # Half the radius on either side: the middle of the bump, where it has most of its weight.
                start, stop = (float(centres[k] + sign * form.functions.radius / 2) for sign in (-1, 1))
                last = own[-1] if own else None
                if last is not None and last.equation == equation and last.start <= start <= last.stop:
                    worse = max(last.score, float(row[k]), key=abs)
                    own[-1] = Misfit(equation, last.start, stop, worse, number)
                else:
                    own.append(Misfit(equation, start, stop, float(row[k]), number))
        all_misfits += own
    return tuple(sorted(all_misfits, key=lambda misfit: -abs(misfit.score)))
