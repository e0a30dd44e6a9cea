"""Goodness of fit: are the residuals noise?

If the model is right, the residuals `x^data - x̂` are the noise less what the J parameters and the initial state have
absorbed: nearly white, of variance σ². Two tests:

- σ known: `Σ (x^data - x̂)²/σ²` is χ² with as many degrees of freedom as values less fitted quantities.
- σ estimated from the same residuals: that sum is its degrees of freedom identically and tests nothing. What is left of
  a wrong model is then serial correlation, and the portmanteau statistic of Ljung and Box over all states,
  `Q = Σ_d n(n+2) Σ_k ρ̂_d(k)²/(n-k)`, is χ² with one degree of freedom for each lag and state. It does not depend on σ.

With σ known both are made, and the smaller p-value counts twice (Bonferroni). Where a model fails is found by the weak
residuals: each sees only its own window of the data, and over its standard deviation `√S_kk` is standard normal under
the model.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ..support.typing import FloatArray
from ..weak.form import WeakForm

REJECTED, DOUBTED = 0.01, 0.05
"""Below the first a model is called wrong; below the second, where one right model in twenty is, doubtful."""
LAGS = 10
TESTABLE = 40
"""Below this the fitted parameters take too much of the serial correlation for the test to keep its level."""


NOTHING = 1e-2
"""Mean square of residuals, over that of a given noise, below which they are not its."""


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


@dataclass(frozen=True)
class GoodnessOfFit:
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


def chi_square_tail(value: float, freedom: float) -> float:
    """`P(χ² > value)`."""
    from scipy.special import gammaincc

    return float(gammaincc(freedom / 2, value / 2)) if freedom > 0 else math.nan


def portmanteau(residuals: tuple[FloatArray, ...]) -> tuple[float, int]:
    """Ljung–Box statistic over all trajectories `(time, D)` and states, and its degrees of freedom.

    Missing values (NaN) are left out, and their neighbours taken as neighbours.
    """
    total, freedom = 0.0, 0
    for rows in residuals:
        for column in rows.T:
            e = column[np.isfinite(column)]
            n = len(e)
            lags = min(LAGS, n // 8) if n >= TESTABLE else 0
            if not lags:
                continue
            e -= e.mean()
            power = float(e @ e)
            if power > 0:
                total += n * (n + 2) * sum((float(e[k:] @ e[:-k]) / power) ** 2 / (n - k) for k in range(1, lags + 1))
                freedom += lags
    return total, freedom


def assess(
    residuals: tuple[FloatArray, ...], chi_square: float, freedom: int, sigma_known: bool, misfits: tuple[Misfit, ...]
) -> GoodnessOfFit:
    """Put the tests together."""
    Q, lags = portmanteau(residuals)
    serial = chi_square_tail(Q, lags) if lags else math.nan
    if not sigma_known:
        return GoodnessOfFit(serial, chi_square, freedom, None, Q, lags, portmanteau_p=serial, misfits=misfits)
    if chi_square < NOTHING * freedom:
        # What is left is far below the noise: rounding, or no noise. No pattern in it speaks against the model.
        return GoodnessOfFit(1.0, chi_square, freedom, 0.0, Q, lags, portmanteau_p=1.0, misfits=())
    upper = chi_square_tail(chi_square, freedom)
    both_sides = 2 * min(upper, 1 - upper)
    tests = [p for p in (both_sides, serial) if not math.isnan(p)]
    p = min(1.0, len(tests) * min(tests))
    return GoodnessOfFit(p, chi_square, freedom, both_sides, Q, lags, portmanteau_p=serial, misfits=misfits)


def tail(p: float) -> str:
    """A p-value in words."""
    return f"p = {p:.2g}" if p >= 1e-16 else "p < 1e-16"


def threshold(count: int, level: float = 0.01) -> float:
    """The score that one of `count` reaches by chance with probability `level`."""
    return NormalDist().inv_cdf(1 - level / (2 * max(count, 1)))


def misfits(forms: tuple[WeakForm, ...], p: FloatArray) -> tuple[Misfit, ...]:
    """Stretches of time in which an equation does not hold: the weak residuals that are too large, joined.

    A weak residual sees only its own window of the data, so that it tells where; it is measured by the noise that the
    filter finds, which no model has a part in.
    """
    found: list[Misfit] = []
    for number, form in enumerate(forms):
        if form.functions.blocks == 1:  # not local
            continue
        here: list[Misfit] = []
        centres, scores = form.standardised(p)
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
