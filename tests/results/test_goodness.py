"""Goodness of fit: wrong models and wrong sigmas are called wrong, right ones are not."""

import numpy as np
import pytest

import weakform as wf
from weakform.forward.solve import simulate
from weakform.results.serial import serial


def test_portmanteau_of_white_noise():
    rng = np.random.default_rng(0)
    p = [serial((rng.standard_normal((200, 2)),)).p_value for _ in range(300)]
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


def test_a_given_sigma_that_contradicts_the_data_is_said():
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=256, noise=0.05, seed=3)
    for factor in (0.5, 2.0):
        data = wf.Dataset(q.trajectories[0].times, q.trajectories[0].values, sigma=factor * q.truth.sigma)
        fit = wf.fit(problem.model, data)
        assert fit.goodness.p_value < 0.01
        assert any("given sigma contradicts" in warning for warning in fit.warnings)
    right = wf.Dataset(q.trajectories[0].times, q.trajectories[0].values, sigma=q.truth.sigma)
    assert wf.fit(problem.model, right).goodness.p_value > 0.01


def test_a_wrong_model_is_called_wrong_and_where():
    """A force that acts only for a while: the report names the equation and the time."""
    model = wf.Model.from_text("x' = v\nv' = -k*x - c*v + 3*exp(-(t - 12)**2)")
    t = np.linspace(0, 20, 401)
    truth = simulate(model, [2.0, 0.2], [1.0, 0.0], t).states
    data = wf.Dataset(t, truth + 0.05 * np.random.default_rng(1).standard_normal(truth.shape))
    fit = wf.fit(wf.Model.from_text("x' = v\nv' = -k*x - c*v"), data)
    assert fit.goodness.p_value < 1e-6
    strains = fit.goodness.misfits
    assert strains[0].equation == 1
    assert all(s.equation == 1 and 10 < s.start < s.stop < 15 for s in strains)
    text = " ".join(str(fit).split())
    assert "The model does not fit the data" in text
    assert "The equation of v does not hold between" in text


def test_repeats_count_in_the_test_of_a_given_sigma():
    t = np.repeat(np.linspace(0, 3, 60), 4)
    values = 2 * np.exp(-0.7 * t) + 0.02 * np.random.default_rng(1).standard_normal(240)
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values, sigma=0.02))
    assert fit.goodness.chi_square_p > 1e-3
    sandwich = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values), options={"covariance": "sandwich"})
    assert sandwich.errors[0] == pytest.approx(fit.errors[0], rel=0.3)
