"""The covariances that a fit can compute, where they differ, and estimates next to a bound."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from support import fitted
from weakform.diagnostics.uncertainty import quantify_uncertainty
from weakform.estimators.outcome import Outcome, Refinement
from weakform.parameters.working_scale import WorkingScale
from weakform.results.status import Status


def test_covariance_options_differ_as_expected():
    problem, data, fit = fitted()
    fits = {
        kind: wf.fit(problem.model, data, bounds=problem.bounds, options={"covariance": kind})
        for kind in ("sandwich", "paper")
    }
    assert np.allclose(fits["sandwich"].errors / fit.errors, 1.0, atol=0.25)
    assert (fits["paper"].errors > fit.errors).all()
    assert "sandwich" in fits["sandwich"].covariance_kind
    assert "paper" in fits["paper"].covariance_kind
    assert np.allclose(fits["paper"].estimate, fit.estimate)


@pytest.mark.slow
def test_sandwich_covariance_is_right_for_uneven_noise():
    """Noise ten times as large for a while: the spread of the estimates is that of the sandwich."""
    model = wf.Model.from_text("u' = -k*u")
    t = np.linspace(0, 5, 120)
    u = 5 * np.exp(-0.4 * t)
    size = np.where((t > 1) & (t < 2.2), 0.5, 0.05)
    estimates, errors = [], {"information": [], "sandwich": []}
    for seed in range(60):
        data = wf.Dataset(t, u + size * np.random.default_rng(seed).standard_normal(120))
        for kind, errors_of_kind in errors.items():
            fit = wf.fit(model, data, options={"covariance": kind})
            errors_of_kind.append(fit["k"].error)
        estimates.append(fit["k"].value)
    spread = np.std(estimates)
    assert np.mean(errors["sandwich"]) == pytest.approx(spread, rel=0.25)
    assert np.mean(errors["information"]) > 1.5 * spread


@pytest.mark.parametrize("top", [1.0, 1e3])
def test_small_parameter_in_a_wide_box_is_not_at_its_bound(top):
    """Infections of a million people: `b` is 4e-7, has an error of 1%, and is next to zero in its box."""
    model = wf.Model.from_text("S' = -b*S*I\nI' = b*S*I - g*I")
    t = np.linspace(0, 90, 30)
    states = wf.simulate(model, {"b": 4e-7, "g": 0.15}, {"S": 1e6, "I": 50.0}, t).states
    noise = 0.05 * np.sqrt((states**2).mean(axis=0)) * np.random.default_rng(0).standard_normal(states.shape)
    fit = wf.fit(model, wf.Dataset(t, states + noise, names=["S", "I"]), bounds={"b": (0, top), "g": (0, 10)})
    assert fit.success
    assert abs(fit["b"].value - 4e-7) < 4 * fit["b"].error
    assert fit["b"].error < 1e-8


@pytest.mark.parametrize("seed", [1])
def test_estimate_is_not_put_onto_a_bound_that_changes_the_model(seed):
    # With K = 0 the concentration would go on below zero: C/(K + C) is always one.
    model, t = wf.Model.from_text("C' = -V*C/(K + C)"), np.linspace(0, 9, 25)
    x = wf.simulate(model, {"V": 1.0, "K": 0.02}, [5.0], t).states
    data = wf.Dataset(t, x + 0.13 * np.random.default_rng(seed).standard_normal(x.shape), names=["C"])
    fit = wf.fit(model, data, bounds={"V": (0.0, 5.0), "K": (0.0, 5.0)})
    assert fit.r_squared["C"] > 0.98
    assert np.isfinite(fit.predict(t).states).all()


def test_estimate_within_rounding_of_a_bound_is_put_onto_it():
    """With b at its bound, a has the variance 1/H_aa = 1/400, not that of both parameters free."""
    model, t = wf.Model.from_text("x' = -(a + b)*x"), np.arange(5.0)
    x, free = np.exp(-0.5 * t)[:, None], np.array([True, True])
    information = np.array([[400.0, 300.0], [300.0, 400.0]])
    refined = Refinement(np.linalg.inv(information), np.ones(1), (x,), 5.0, 2, None, information=information)
    task = SimpleNamespace(
        problem=SimpleNamespace(model=model, data=wf.Dataset(t, x, names=["x"], sigma=0.1)),
        free=free,
        lower=np.zeros(2),
        upper=np.ones(2),
        options=SimpleNamespace(covariance="information"),
        scale=WorkingScale(~free),
        prior=None,
    )
    best = Outcome(np.array([0.5, 1e-9]), 0.0, Status.CONVERGED, 1, 1, refined)
    quantified = quantify_uncertainty(task, best, noise_free=False)
    assert quantified.at_bound.tolist() == [False, True]
    assert quantified.p.tolist() == [0.5, 0.0]
    assert quantified.covariance[0, 0] == pytest.approx(1 / 400)
    assert np.isnan(quantified.covariance[1]).all()
