"""Goodness of fit: wrong models and wrong sigmas are detected, right ones are not rejected."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.diagnostics.autocorrelation import is_autocorrelated, run_autocorrelation_test
from weakform.diagnostics.goodness import find_misfits, find_one_sided_stretches
from weakform.forward.solver import simulate


def test_portmanteau_test_of_white_noise_has_its_size():
    rng = np.random.default_rng(0)
    p_values = [run_autocorrelation_test((rng.standard_normal((200, 2)),)).p_value for _ in range(300)]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.09


def test_ljung_box_matches_hand_computed_value():
    """Σe² = 16, Σ e_i e_{i+1} = 1 over 15 pairs and Σ e_i e_{i+2} = -14 over 14: n(n + 2) Σ ρ̂_k²/n_k is 15.825."""
    test = run_autocorrelation_test((np.tile([1.0, 1.0, -1.0, -1.0], 4)[:, None],))
    assert test.freedom == 2
    assert test.statistic == pytest.approx(16 * 18 * ((1 / 16) ** 2 / 15 + (14 / 16) ** 2 / 14), rel=1e-12)
    assert test.statistic == pytest.approx(15.825, rel=1e-12)
    assert test.p_value == pytest.approx(np.exp(-15.825 / 2), rel=1e-9)  # χ² with two degrees of freedom


def test_ljung_box_pools_trajectories_without_pairs_across_them():
    """Two halves of eight: 14 pairs at lag one (sum 2), 12 at lag two (sum -12)."""
    half = np.tile([1.0, 1.0, -1.0, -1.0], 2)[:, None]
    expected = 16 * 18 * ((2 / 16) ** 2 / 14 + (12 / 16) ** 2 / 12)
    assert run_autocorrelation_test((half, half)).statistic == pytest.approx(expected, rel=1e-12)


def test_ljung_box_counts_a_missing_value_neither_as_value_nor_as_partner():
    """The 17th row is missing: n stays 16. Rows without a value are skipped, so the pairs are the same."""
    values = np.append(np.tile([1.0, 1.0, -1.0, -1.0], 4), np.nan)[:, None]
    assert run_autocorrelation_test((values,)).statistic == pytest.approx(15.825, rel=1e-12)


def test_quick_check_of_autocorrelation_ignores_negative_correlations():
    """Only ρ̂_1 = 1/16 is positive: Q = 16 · 18 · (1/16)²/15 = 0.075, and P(χ²_2 > 0.075) = exp(-0.0375) = 0.9632."""
    residuals = (np.tile([1.0, 1.0, -1.0, -1.0], 4)[:, None],)
    assert is_autocorrelated(residuals, 0.964)
    assert not is_autocorrelated(residuals, 0.963)


def test_fit_warns_of_a_sigma_that_contradicts_the_data():
    problem = wf.problems.get("lotka-volterra")
    simulated = problem.simulate(M=256, noise=0.05, seed=3)
    q = simulated.trajectories[0]
    for factor in (0.5, 2.0):
        data = wf.Dataset(q.times, q.values, sigma=factor * simulated.truth.sigma)
        fit = wf.fit(problem.model, data)
        assert fit.goodness.p_value < 0.01
        assert any("given sigma contradicts" in warning for warning in fit.warnings)
    right = wf.Dataset(q.times, q.values, sigma=simulated.truth.sigma)
    assert wf.fit(problem.model, right).goodness.p_value > 0.01


def test_rejected_model_is_located_by_equation_and_time():
    """The model lacks a force that acts only for a while."""
    model = wf.Model.from_text("x' = v\nv' = -k*x - c*v + 3*exp(-(t - 12)**2)")
    t = np.linspace(0, 20, 401)
    truth = simulate(model, [2.0, 0.2], [1.0, 0.0], t).states
    data = wf.Dataset(t, truth + 0.05 * np.random.default_rng(1).standard_normal(truth.shape))
    fit = wf.fit(wf.Model.from_text("x' = v\nv' = -k*x - c*v"), data)
    assert fit.goodness.p_value < 1e-6
    misfits = fit.goodness.misfits
    assert misfits[0].equation == 1
    assert all(misfit.equation == 1 and 10 < misfit.start < misfit.stop < 15 for misfit in misfits)
    text = " ".join(str(fit).split())
    assert "The model does not fit the data" in text
    assert "The equation of v does not hold between" in text


def test_repeated_measurements_count_in_the_test_of_a_given_sigma():
    t = np.repeat(np.linspace(0, 3, 60), 4)
    values = 2 * np.exp(-0.7 * t) + 0.02 * np.random.default_rng(1).standard_normal(240)
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values, sigma=0.02))
    assert fit.goodness.chi_square_p > 1e-3
    sandwich = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values), options={"covariance": "sandwich"})
    assert sandwich.errors[0] == pytest.approx(fit.errors[0], rel=0.3)


def test_stretch_of_data_above_the_fit_is_found():
    quiet, loud = np.tile([1.0, -1.0], 30), np.tile([0.5, -0.5], 30)
    loud[20:30] += 2.0
    loud[40] = np.nan
    times = np.arange(60.0)
    stretches = find_one_sided_stretches(
        (np.column_stack([quiet, loud]), np.column_stack([quiet, quiet])), (times, times + 100)
    )
    (stretch,) = stretches
    assert (stretch.column, stretch.trajectory) == (1, 0)
    assert (stretch.start, stretch.stop, stretch.count) == (20, 29, 10)
    assert stretch.score == pytest.approx(20 / np.sqrt(10))


def test_rejected_model_with_few_samples_is_located_by_one_sided_residuals():
    t = np.linspace(0, 10, 25)
    slow = 10 * np.exp(-3 * np.exp(-0.7 * t)) + 0.05 * np.random.default_rng(0).standard_normal(25)
    fit = wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)"), wf.Dataset(t, slow, sigma=0.05, names=["N"]))
    assert fit.status is wf.Status.REJECTED
    assert any("N is below the fit from t = 0 to 0.4167: 2 values" in words for words in fit.warnings)


@pytest.mark.parametrize("is_sigma_given", [True, False])
def test_as_many_unknowns_as_values_need_a_given_sigma(is_sigma_given):
    t = np.linspace(0, 3, 3)
    values = 0.5 + 1.5 * np.exp(-t)
    data = wf.Dataset(t, values, sigma=0.01 if is_sigma_given else None, names=["x"])
    fit = wf.fit(wf.Model.from_text("x' = b - a*x"), data)
    assert fit["a"].value == pytest.approx(1.0, rel=1e-4)
    words = " ".join(fit.warnings)
    assert "as many unknowns as values" in words
    if is_sigma_given:  # the parameters are known as well as the values are
        assert fit.success
        assert "nothing tests the model" in words
        low, high = fit["a"].interval
        assert 0.05 < high - low < 1
    else:
        assert fit.status is wf.Status.UNDETERMINED
        assert fit["a"].interval == (-np.inf, np.inf)
        assert fit["a"].note == fit["b"].note == "as many unknowns as values"
        assert "contain no information" not in words
        assert np.isinf(fit.predict([1.0]).upper).all()


def test_misfits_of_the_equations_are_listed_with_the_worst_first():
    """Weak residuals of 8 and -12 standard deviations in one trajectory, and of 10 in the other."""
    form = SimpleNamespace(functions=SimpleNamespace(blocks=2, radius=1.0))
    centres, first, second = np.arange(20.0), np.zeros((2, 20)), np.zeros((2, 20))
    first[0, 3], first[1, 15], second[0, 9] = 8.0, -12.0, 10.0
    misfits = find_misfits((form, form), [(centres, first), (centres, second)])
    assert [(m.score, m.equation, m.trajectory) for m in misfits] == [(-12.0, 1, 0), (10.0, 0, 1), (8.0, 0, 0)]
    assert [(m.start, m.stop) for m in misfits] == [(14.5, 15.5), (8.5, 9.5), (2.5, 3.5)]
