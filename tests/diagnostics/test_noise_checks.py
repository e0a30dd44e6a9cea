"""Checks of the noise by residuals that are made by hand: outliers, scatter, skewness, correlation."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.diagnostics.noise_checks import (
    _compute_standard_deviations,
    check_noise,
    is_rounding,
    warn_of_isolated_outliers,
)

TIMES = np.linspace(0, 10, 200)


def check(level, e, kind="gaussian", rejected=False, repeated=False, uneven=False):
    """Check noise `e` `(n,)` of standard deviation one about fitted values `level` `(n,)`."""
    kinds = {"gaussian": level + e, "lognormal": level * np.exp(e), "poisson": level + e}
    data = wf.Dataset(TIMES, kinds[kind], kind, names=["u"])
    refined = SimpleNamespace(residuals=(e[:, None],), sigma=np.ones(1), project_residuals=None)
    return check_noise(data, refined, rejected, rejected_by_repeats=repeated, allow_uneven=uneven)


def normal(seed=0):
    """Draw normal noise `(n,)`."""
    return np.random.default_rng(seed).standard_normal(len(TIMES))


def autoregressive(rho):
    """Draw noise `(n,)` whose neighbours have the correlation `rho`."""
    e = normal()
    for k in range(1, len(e)):
        e[k] = rho * e[k - 1] + np.sqrt(1 - rho**2) * e[k]
    return e


def test_value_far_from_its_neighbours_is_reported_by_its_row():
    values = np.sin(TIMES)
    values[16] = -999.0
    (sentence,) = warn_of_isolated_outliers(wf.Dataset(TIMES, values, names=["u"]))
    assert "row 17, u = -999 at t = 0.80402" in sentence
    assert not warn_of_isolated_outliers(wf.Dataset(TIMES, np.sin(TIMES), names=["u"]))


def test_normal_noise_has_no_finding():
    findings = check(10 + np.sin(TIMES), normal())
    assert not findings.sentences
    assert not findings.is_misstated
    assert not findings.explains_rejection


def test_outlier_is_reported_by_its_row():
    e = normal()
    e[50] = 12.0
    findings = check(10 + np.sin(TIMES), e)
    assert findings.is_misstated
    assert "row 51, u = " in findings.sentences[0]


def test_neighbouring_large_residuals_are_not_outliers():
    e = normal()
    e[50:53] = 9.0, 10.0, 9.0
    assert not check(10 + np.sin(TIMES), e).is_misstated


@pytest.mark.parametrize(
    ("kind", "power", "words"),
    [
        ("gaussian", 1.0, "grows with its level"),
        ("lognormal", -1.0, "shrinks as its level grows"),
        ("poisson", 0.7, "scatter more than Poisson counts"),
    ],
)
def test_scatter_that_follows_the_level_is_reported(kind, power, words):
    level = np.exp(3 + 1.5 * np.sin(TIMES))
    e = 0.1 * normal() * (level / level.mean()) ** power
    (sentence,) = check(level, e, kind).sentences
    assert words in sentence


def test_uneven_noise_may_follow_the_level_if_the_covariance_allows_it():
    level = np.exp(3 + 0.7 * np.sin(TIMES))
    e = 0.1 * normal() * level / level.mean()
    assert check(level, e).sentences
    assert not check(level, e, uneven=True).sentences


def test_skewed_residuals_are_reported():
    ranks = np.random.default_rng(0).permutation(len(TIMES)) + 0.5
    e = np.minimum(-np.log(ranks / len(TIMES)), 3.5) - 0.9  # exponential noise, cut off before it has outliers
    (sentence,) = check(10 + np.sin(TIMES), e).sentences
    assert sentence == 'The residuals of u are skewed: try noise="lognormal".'


def test_correlated_noise_explains_a_rejection():
    findings = check(10 + np.sin(TIMES), autoregressive(0.5), rejected=True)
    assert findings.explains_rejection
    assert "correlated from sample to sample (0." in findings.sentences[0]


def test_correlated_noise_does_not_explain_a_rejection_by_repeated_measurements():
    assert not check(10 + np.sin(TIMES), autoregressive(0.5), rejected=True, repeated=True).explains_rejection


def test_slow_pattern_does_not_pass_for_correlated_noise():
    """A wrong model leaves a slow pattern with white noise on top of it."""
    e = np.sin(2 * TIMES) + normal()
    assert not check(10 + np.sin(TIMES), e, rejected=True).explains_rejection


@pytest.mark.parametrize("repeated", [False, True])
def test_uneven_scatter_explains_a_rejection_unless_repeated_measurements_reject(repeated):
    level = np.exp(3 + 1.5 * np.sin(TIMES))
    findings = check(level, 0.1 * normal() * level / level.mean(), rejected=True, repeated=repeated)
    assert findings.explains_rejection is not repeated
    assert len(findings.sentences) == (not repeated)
    assert not findings.is_misstated


def test_uneven_scatter_does_not_explain_a_rejection_by_correlated_residuals():
    level = np.exp(3 + 1.5 * np.sin(TIMES))
    findings = check(level, 0.1 * autoregressive(0.9) * level / level.mean(), rejected=True)
    assert not any("scatter" in sentence for sentence in findings.sentences)
    assert not findings.explains_rejection


def test_residual_whose_deviation_cannot_be_computed_counts_as_not_absorbed():
    """The fit absorbs half of the noise of one column; the draws of the other are not finite."""
    data = wf.Dataset(TIMES, np.column_stack([np.sin(TIMES), np.cos(TIMES)]), names=["u", "v"])

    def project(noise):
        return noise * np.array([0.5, np.nan])[:, None]

    deviations = _compute_standard_deviations(data, SimpleNamespace(project_residuals=project))
    assert deviations[:, 0].mean() == pytest.approx(0.5, rel=0.02)
    assert (deviations[:, 1] == 1.0).all()


def test_residuals_of_rounded_values_are_recognised():
    """Rounding errors of a fast curve are uniform; the residuals of a wrong model are smooth, and noise is normal."""
    t = np.linspace(0, 10, 400)
    curve = np.exp(-0.3 * t) * (2 + np.sin(3 * t))
    rounded = curve - np.round(curve, 2)
    rng = np.random.default_rng(0)
    assert is_rounding(rounded)
    assert is_rounding(np.concatenate([np.zeros(100), rounded]))
    assert not is_rounding(rng.standard_normal(400))
    assert not is_rounding(np.sin(t))
    assert not is_rounding(np.interp(t % 2, [0, 1, 2], [-1, 1, -1]))
    assert not is_rounding(rounded[:90])


@pytest.mark.parametrize("sigma", [0.004, 1.0, 20.0])
def test_reported_step_of_rounded_values_does_not_depend_on_sigma(sigma):
    """Rounding errors that are spread evenly over a step of 0.01, whatever σ divides them."""
    errors = 0.01 * np.random.default_rng(0).permutation((np.arange(200) + 0.5) / 200 - 0.5)
    data = wf.Dataset(TIMES, 10 + np.sin(TIMES) + errors, names=["u"])
    refined = SimpleNamespace(residuals=(errors[:, None] / sigma,), sigma=np.array([sigma]), project_residuals=None)
    findings = check_noise(data, refined, True)
    assert "rounded to steps of about 0.01, " in findings.sentences[0]
    assert findings.explains_rejection
