"""Goodness of fit: are the residuals noise?

If the model is right, the residuals `x^data - x̂` are the noise less what the J parameters and the initial state have
absorbed: nearly white, of variance σ². Two tests:

- σ known: `Σ (x^data - x̂)²/σ²` is χ² with as many degrees of freedom as values less fitted quantities.
- σ estimated from the same residuals: that sum is its degrees of freedom identically and tests nothing. What is left of
  a wrong model is then serial correlation, of which the portmanteau statistic of Ljung and Box over all states tells
  (`serial`): it does not depend on σ. Repeated measurements have a scatter of their own, which no model has a part in:
  what the model leaves beyond it is lack of fit, by an F test.

Of two tests that are made the smaller p-value counts twice (Bonferroni). Where a model fails is found by the weak
residuals: each sees only its own window of the data, and over its standard deviation `√S_kk` is standard normal under
the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..collocation.residual_projection import Leftover
from ..support.array_types import FloatArray
from ..support.compact_repr import Tidy
from ..weak.weak_form import WeakForm
from .autocorrelation import chi_square_tail, serial

REJECTED, DOUBTED = 0.01, 0.05
"""Below the first a model is called wrong; below the second, where one right model in twenty is, doubtful."""
TESTABLE = 40
"""Samples below which weak residuals say nothing of a model."""


NOTHING = 1e-2
"""Mean square of residuals, over that of a given noise, below which they are not its."""
WIDEST, LEANING = 100, 2.0
"""Values of the longest stretch that is looked at, and the score from which on it is told."""


@dataclass(frozen=True)
class Misfit:
    """A stretch of time in which an equation does not hold.

    Attributes
    ----------
    equation : int
    start, stop : float
    trajectory : int
    score : float
        In standard deviations.
    """

    equation: int
    start: float
    stop: float
    score: float
    trajectory: int = 0


@dataclass(frozen=True, repr=False)
class GoodnessOfFit(Tidy):
    """The verdict on a model.

    Attributes
    ----------
    p_value : float
        Of the test as a whole: small means that the model, or a given σ, is wrong; NaN if there are too few samples.
    chi_square, freedom : float
        `Σ (x^data - x̂)²/σ²` and its degrees of freedom.
    chi_square_p : float, or None where σ was estimated
    portmanteau, portmanteau_freedom, portmanteau_p : float
        The test of serial correlation.
    lack_of_fit_p : float, or None without repeated measurements
        Of the test against their scatter.
    misfits : tuple of Misfit
        Where the equations do not hold, the worst first.
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


def assess(
    residuals: tuple[FloatArray, ...],
    chi_square: float,
    freedom: int,
    sigma_known: bool,
    misfits: tuple[Misfit, ...] = (),
    *,
    within: tuple[float, int] = (0.0, 0),
    left: Leftover | None = None,
) -> GoodnessOfFit:
    """Put the tests together.

    Parameters
    ----------
    residuals : tuple of ndarray, (time, columns)
        Over σ, NaN where missing.
    chi_square : float
        With what repeated measurements add.
    freedom : int
    sigma_known : bool
    misfits : tuple of Misfit
    within : tuple of float and int
        The part of repeated measurements about their means, and its degrees of freedom.
    left : callable, optional
        What the fit leaves of noise.
    """
    values = sum(int(np.isfinite(part).sum()) for part in residuals)
    hangs = serial(residuals, 1.0 - (freedom - within[1]) / max(values, 1), left)
    lack = _lack_of_fit(chi_square, freedom, within)
    found = GoodnessOfFit(
        p_value=math.nan,
        chi_square=chi_square,
        freedom=freedom,
        chi_square_p=None,
        portmanteau=hangs.statistic,
        portmanteau_freedom=hangs.freedom,
        portmanteau_p=hangs.p_value,
        lack_of_fit_p=lack,
        misfits=misfits,
    )
    if not sigma_known:
        return replace(found, p_value=_together(hangs.p_value, lack))
    if chi_square < NOTHING * freedom:
        # What is left is far below the noise: rounding, or no noise. No pattern in it speaks against the model.
        return replace(found, p_value=1.0, chi_square_p=0.0, portmanteau_p=1.0, lack_of_fit_p=None, misfits=())
    upper = chi_square_tail(chi_square, freedom)
    both_sides = 2 * min(upper, 1 - upper)
    return replace(found, p_value=_together(both_sides, hangs.p_value), chi_square_p=both_sides)


def _lack_of_fit(chi_square: float, freedom: int, within: tuple[float, int]) -> float | None:
    """F test of what the model leaves against the scatter of repeated measurements; None without these."""
    rest, count = freedom - within[1], within[1]
    if count <= 0 or rest <= 0 or within[0] <= 0:
        return None
    from scipy.special import fdtrc

    return float(fdtrc(rest, count, (chi_square - within[0]) / rest / (within[0] / count)))


def _together(*tests: float | None) -> float:
    """The smallest p-value, times their number (Bonferroni); NaN without any."""
    there = [p for p in tests if p is not None and not math.isnan(p)]
    return min(1.0, len(there) * min(there)) if there else math.nan


def tail(p: float) -> str:
    """A p-value in words."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def threshold(count: int, level: float = 0.01) -> float:
    """The score that one of `count` reaches by chance with probability `level`."""
    return NormalDist().inv_cdf(1 - level / (2 * max(count, 1)))


def model_p_values(goodness: GoodnessOfFit) -> list[float]:
    """P-values of what speaks against the model and not against sigma: residuals hang together, or exceed repeats."""
    return [p for p in (goodness.portmanteau_p, goodness.lack_of_fit_p) if p is not None and not np.isnan(p)]


def contradicts_sigma(goodness: GoodnessOfFit) -> bool:
    """Whether the sigma that was given is wrong, and nothing else is."""
    wrong = goodness.chi_square_p is not None and max(goodness.chi_square_p, goodness.p_value) < REJECTED
    return wrong and min(model_p_values(goodness), default=1.0) >= REJECTED


@dataclass(frozen=True)
class Leaning:
    """A stretch of time in which values lie to one side of the fitted curve.

    Attributes
    ----------
    column, trajectory, count : int
    start, stop : float
    score : float
        Of their sum, in standard deviations; positive where the data lie above.
    """

    column: int
    trajectory: int
    count: int
    start: float
    stop: float
    score: float


def leanings(residuals: tuple[FloatArray, ...], times: tuple[FloatArray, ...]) -> list[Leaning]:
    """For each column the stretch whose residuals `(time, columns)` over σ add up to most, the worst column first.

    It is found as `max |Σ e| / √n` over stretches of up to `WIDEST` values: where a model fails whose weak residuals
    are too few to tell, or whose states are hidden.
    """
    found = []
    for d in range(residuals[0].shape[1]):
        best = Leaning(d, 0, 0, 0.0, 0.0, 0.0)
        for k, (part, t) in enumerate(zip(residuals, times, strict=True)):
            rows = np.flatnonzero(np.isfinite(part[:, d]))
            total = np.concatenate([[0.0], np.cumsum(part[rows, d])])
            for n in range(2, min(len(rows), WIDEST) + 1):
                score = (total[n:] - total[:-n]) / np.sqrt(n)
                m = int(np.argmax(np.abs(score)))
                if abs(score[m]) > abs(best.score):
                    start, stop = float(t[rows[m]]), float(t[rows[m + n - 1]])
                    best = Leaning(d, k, n, start, stop, score=float(score[m]))
        found.append(best)
    return sorted((one for one in found if abs(one.score) > LEANING), key=lambda one: -abs(one.score))


def misfits(forms: tuple[WeakForm, ...], standardised: Iterable[tuple[FloatArray, FloatArray]]) -> tuple[Misfit, ...]:
    """Stretches of time in which an equation does not hold: the weak residuals that are too large, joined.

    A weak residual sees only its own window of the data, so that it tells where; it is measured by the noise that the
    filter finds, which no model has a part in. They come with their centres, as `WeakForm.standardised` has them.
    """
    found: list[Misfit] = []
    for number, (form, (centres, scores)) in enumerate(zip(forms, standardised, strict=True)):
        if form.functions.blocks == 1:  # not local
            continue
        here: list[Misfit] = []
        limit = threshold(scores.size, level=1e-3)
        for equation, row in enumerate(scores):
            for k in np.flatnonzero(np.abs(row) > limit):
                start, stop = (float(centres[k] + sign * form.functions.radius / 2) for sign in (-1, 1))
                last = here[-1] if here else None
                if last is not None and last.equation == equation and last.start <= start <= last.stop:
                    worse = max(last.score, float(row[k]), key=abs)
                    here[-1] = Misfit(equation, last.start, stop, worse, number)
                else:
                    here.append(Misfit(equation, start, stop, float(row[k]), number))
        found += here
    return tuple(sorted(found, key=lambda misfit: -abs(misfit.score)))
