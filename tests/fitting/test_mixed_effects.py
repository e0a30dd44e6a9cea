"""Random effects: mean and spread of a population, estimates of subjects drawn towards them, and theophylline."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from populations import MODEL, SPREAD, TRUTH, population
from support import EXAMPLES
from weakform.fitting.mixed_effects import (
    _Effects,
    _Estimate,
    _estimate_population,
    _make_population,
    fit_mixed_effects,
)
from weakform.support.errors import FitError
from weakform.support.progress import Watch

BOUNDS = {"ke": (0.01, 5), "V": (1, 200)}


@pytest.fixture(scope="module")
def fit():
    return wf.fit(wf.Model.from_text(MODEL), population(1), random=["ke", "V"], bounds=BOUNDS)


def test_mean_and_spread_are_near_the_truth(fit):
    assert fit.population.converged
    for name, truth in TRUTH.items():
        effect = fit.population[name]
        assert effect.mean == pytest.approx(truth, rel=0.25)
        assert effect.mean_interval[0] < truth < effect.mean_interval[1]
        assert effect.spread == pytest.approx(SPREAD, rel=0.5)
        assert len(effect.subjects) == 20
    assert "typical" in str(fit)


def test_saved_fit_keeps_its_population(fit, tmp_path):
    again = wf.FitResult.load(fit.save(tmp_path / "fit.json"))
    assert again.population == fit.population
    assert list(fit.population.to_frame().columns) == ["ke", "V"]
    assert "typical value" in fit.report(tmp_path / "page.html").read_text()


@pytest.mark.slow
def test_theophylline_estimates_match_those_of_nlme():
    """Pinheiro and Bates (2000): lKe -2.455, lKa 0.466, lCl -3.227; spreads 0.644 and 0.167 by maximum likelihood."""
    model = wf.Model.from_text("A' = -ka*A\nC' = ka*ke/Cl*A - ke*C\nA(0) = 0\nC(0) = 0")
    table = pd.read_csv(EXAMPLES / "theophylline.csv")
    data = wf.Dataset.from_frame(table, time="Time", names={"C": "conc"}, trajectory="Subject")
    first = table.groupby("Subject").first().reset_index()
    doses = pd.DataFrame({"id": first["Subject"], "time": 0.0, "amount": first["Dose"]})
    fit = wf.fit(
        model,
        data.with_doses(doses, into="A"),
        random=["ka", "Cl"],
        log=["ke"],
        bounds={"ka": (0.1, 20), "ke": (0.01, 0.3), "Cl": (0.005, 0.2)},
        starts=2,
    )
    assert np.log(fit["ke"].value) == pytest.approx(-2.455, abs=0.01)
    assert np.log(fit.population["ka"].mean) == pytest.approx(0.466, abs=0.02)
    assert np.log(fit.population["Cl"].mean) == pytest.approx(-3.227, abs=0.01)
    # Ours count the degrees of freedom of the means: larger by about √(12/11).
    assert fit.population["ka"].spread == pytest.approx(0.644 * np.sqrt(12 / 11), rel=0.05)
    assert fit.population["Cl"].spread == pytest.approx(0.167 * np.sqrt(12 / 11), rel=0.05)


def test_invalid_random_effects_are_refused():
    model = wf.Model.from_text("x' = -k*x")
    t = np.arange(10.0)
    single = wf.Dataset(t, np.exp(-0.2 * t))
    with pytest.raises(FitError, match="needs at least 3 subjects"):
        wf.fit(model, single, random=["k"])
    three = wf.Dataset.join([single, single, single])
    with pytest.raises(FitError, match="not a parameter"):
        wf.fit(model, three, random=["q"])
    with pytest.raises(FitError, match="'lognormal' or 'normal'"):
        wf.fit(model, three, random={"k": "gamma"})
    with pytest.raises(FitError, match="in random and in fixed"):
        wf.fit(model, three, random=["k"], fixed={"k": 1.0})


def normal(ks, noise=0.01, seed=0):
    t, rng = np.linspace(0, 3, 8), np.random.default_rng(seed)
    parts = [wf.Dataset(t, np.exp(-k * t) + noise * rng.standard_normal(8), names=["x"]) for k in ks]
    return wf.Dataset.join(parts, labels=[f"s{k}" for k in range(len(ks))])


DECAY = wf.Model.from_text("x' = -k*x\nx(0) = 1")


def test_normal_effect_recovers_a_mean_and_spread_about_zero():
    ks = [-0.3, 0.1, -0.1, 0.2, 0.05, -0.2]
    effect = wf.fit(DECAY, normal(ks), random={"k": "normal"}).population["k"]
    assert effect.spread == pytest.approx(np.std(ks, ddof=1), rel=0.1)
    assert effect.mean == pytest.approx(np.mean(ks), abs=0.01)


def test_shrinkage_is_exact_in_a_linear_normal_model():
    """For x' = k and known σ all is exact: k̂ = Σ t y/Σ t² of each subject has the variance C = σ²/Σ t².

    By REML the mean is that of the k̂, the squared spread ω² their variance less C, and each subject's estimate lies at
    the share ω²/(ω² + C) of the way from the mean to its k̂. C is nearly as large as ω² here.
    """
    t, sigma = np.linspace(0.25, 2, 8), 2.0
    slopes = (0.2, 1.5, -0.6, 0.9, 2.1, -1.0)
    rng = np.random.default_rng(0)
    values = [k * t + sigma * rng.standard_normal(8) for k in slopes]
    parts = [wf.Dataset(t, y, names=["x"], sigma=sigma) for y in values]
    data = wf.Dataset.join(parts, labels=list("abcdef"))
    effect = wf.fit(wf.Model.from_text("x' = k\nx(0) = 0"), data, random={"k": "normal"}).population["k"]

    alone, C = np.array(values) @ t / (t @ t), sigma**2 / (t @ t)
    mean, variance = alone.mean(), alone.var(ddof=1) - C
    assert variance > 0.5 * C
    assert effect.mean == pytest.approx(mean, rel=1e-6)
    assert effect.spread == pytest.approx(np.sqrt(variance), rel=1e-4)
    shrunk = mean + (alone - mean) * variance / (variance + C)
    assert list(effect.subjects.values()) == pytest.approx(list(shrunk), abs=1e-5)


def test_population_without_spread_is_reported_as_such():
    populations = [wf.fit(DECAY, normal([0.3] * 6, 0.05, seed), random=["k"]).population for seed in range(4)]
    without_spread = [population for population in populations if population["k"].spread_interval[0] == 0]
    assert len(without_spread) >= 2
    assert "no spread beyond the noise" in str(without_spread[0])


@pytest.mark.slow
def test_negative_rate_on_a_log_scale_is_no_success():
    fit = wf.fit(DECAY, normal([0.3, 0.5, -0.1], 0.05), local=["k"], log=["k"])
    assert not fit.success


def test_compare_refuses_fits_with_random_effects(fit):
    with pytest.raises(FitError, match="random effects"):
        wf.compare({"one": fit, "two": fit})


class CountdownWatch:
    """A watch whose time is up after it has been called n times."""

    def __init__(self, seconds, n):
        self.watch, self.remaining_calls = Watch(seconds), n

    def __call__(self, objective=np.nan):
        self.remaining_calls -= 1
        return self.remaining_calls < 0

    def __getattr__(self, name):
        return getattr(self.watch, name)


def fit_until(calls):
    """Fit a population with a watch whose time is up after so many calls."""

    def fit_without_limit(model, data, **keywords):
        return wf.fit(model, data, **{**keywords, "callback": None})

    arguments = {"callback": CountdownWatch(100.0, calls), "seed": 0}
    model = wf.Model.from_text(MODEL)
    return fit_mixed_effects(fit_without_limit, model, population(0), {"ke": "lognormal"}, arguments)


def test_fit_raises_an_error_without_time_for_the_first_fit():
    with pytest.raises(FitError, match="Time ran out before every subject was fitted"):
        fit_until(0)


@pytest.mark.parametrize("calls", [1, 2])
def test_population_is_returned_if_time_ends_before_or_after_the_first_round(calls):
    result = fit_until(calls)
    assert result.population.rounds == calls - 1
    assert not result.population.converged
    assert 0 < result.population.effects[0].mean < np.inf


def test_a_spread_that_does_not_change_the_likelihood_has_an_infinite_error():
    """Any spread that the search allows is lost in the rounding of the subjects' variances, which are one."""
    b = np.array([[1.0], [2.0], [3.0], [6.0]])
    estimate = _estimate_population(b, np.ones((4, 1, 1)), np.array([1e-10]), np.array([1e-10]))
    assert estimate.mean == pytest.approx([3.0])
    assert estimate.mean_error == pytest.approx([0.5])
    assert np.isinf(estimate.log_spread_error).all()


def test_intervals_of_a_population_have_the_t_quantile_of_its_subjects():
    """Of five subjects: t at 97.5% with four degrees of freedom is 2.776445."""
    subjects = SimpleNamespace(data=SimpleNamespace(trajectories=[SimpleNamespace(label=name) for name in "abcde"]))
    modes = np.array([[1.0, 2.0], [2.0, 2.0], [3.0, 2.0], [4.0, 2.0], [5.0, 2.0]])
    estimate = _Estimate(np.array([3.0, 2.0]), np.array([2.0, 0.01]), np.array([0.5, 0.1]), np.array([0.2, np.inf]))
    effects = _Effects(("base", "rate"), ("normal", "lognormal"))
    base, rate = _make_population(
        subjects, effects, estimate, np.array([False, True]), modes, rounds=3, converged=True
    ).effects
    assert base.mean_interval == pytest.approx((3 - 2.776445 * 0.5, 3 + 2.776445 * 0.5))
    assert base.spread_interval == pytest.approx((2 * np.exp(-2.776445 * 0.2), 2 * np.exp(2.776445 * 0.2)))
    assert base.shrinkage == pytest.approx(1 - np.sqrt(2.5) / 2)
    assert rate.mean == pytest.approx(np.exp(2))
    assert rate.mean_interval == pytest.approx((np.exp(2 - 2.776445 * 0.1), np.exp(2 + 2.776445 * 0.1)))
    # The likelihood is largest at no spread: the interval begins at zero.
    assert rate.spread_interval == pytest.approx((0.0, 2.776445 * 0.1 * np.sqrt(5 / 2)))
