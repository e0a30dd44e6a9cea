"""The covariances on offer, and where they differ."""

import numpy as np
import pytest

import weakform as wf
from support import fitted
from weakform.linalg.symmetric_matrix import symmetric_inverse


def test_covariances_on_offer():
    problem, data, fit = fitted()
    others = {
        kind: wf.fit(problem.model, data, bounds=problem.bounds, options={"covariance": kind})
        for kind in ("sandwich", "paper")
    }
    assert np.allclose(others["sandwich"].errors / fit.errors, 1.0, atol=0.25)
    assert (others["paper"].errors > fit.errors).all()
    assert "sandwich" in others["sandwich"].covariance_kind
    assert "paper" in others["paper"].covariance_kind
    assert np.allclose(others["paper"].estimate, fit.estimate)


@pytest.mark.slow
def test_the_sandwich_is_right_where_the_noise_is_uneven():
    """Noise ten times as large for a while: the spread of the estimates is that of the sandwich."""
    model = wf.Model.from_text("u' = -k*u")
    t = np.linspace(0, 5, 120)
    u = 5 * np.exp(-0.4 * t)
    size = np.where((t > 1) & (t < 2.2), 0.5, 0.05)
    estimates, errors = [], {"information": [], "sandwich": []}
    for seed in range(60):
        data = wf.Dataset(t, u + size * np.random.default_rng(seed).standard_normal(120))
        for kind, found in errors.items():
            fit = wf.fit(model, data, options={"covariance": kind})
            found.append(fit["k"].error)
        estimates.append(fit["k"].value)
    spread = np.std(estimates)
    assert np.mean(errors["sandwich"]) == pytest.approx(spread, rel=0.25)
    assert np.mean(errors["information"]) > 1.5 * spread


@pytest.mark.parametrize("top", [1.0, 1e3])
def test_a_small_parameter_in_a_wide_box_is_not_at_its_bound(top):
    """Infections of a million people: `b` is 4e-7, known to a hundredth, and next to zero in its box."""
    model = wf.Model.from_text("S' = -b*S*I\nI' = b*S*I - g*I")
    t = np.linspace(0, 90, 30)
    states = wf.simulate(model, {"b": 4e-7, "g": 0.15}, {"S": 1e6, "I": 50.0}, t).states
    noise = 0.05 * np.sqrt((states**2).mean(axis=0)) * np.random.default_rng(0).standard_normal(states.shape)
    fit = wf.fit(model, wf.Dataset(t, states + noise, names=["S", "I"]), bounds={"b": (0, top), "g": (0, 10)})
    assert fit.success
    assert abs(fit["b"].value - 4e-7) < 4 * fit["b"].error
    assert fit["b"].error < 1e-8


@pytest.mark.parametrize("seed", [1])
def test_an_estimate_is_not_put_onto_a_bound_where_the_model_is_another_one(seed):
    # With K = 0 the concentration would not stop at zero: C/(K + C) is one for ever.
    model, t = wf.Model.from_text("C' = -V*C/(K + C)"), np.linspace(0, 9, 25)
    x = wf.simulate(model, {"V": 1.0, "K": 0.02}, [5.0], t).states
    data = wf.Dataset(t, x + 0.13 * np.random.default_rng(seed).standard_normal(x.shape), names=["C"])
    fit = wf.fit(model, data, bounds={"V": (0.0, 5.0), "K": (0.0, 5.0)})
    assert fit.r_squared["C"] > 0.98
    assert np.isfinite(fit.predict(t).states).all()


def test_what_is_not_finite_has_no_inverse_and_raises_nothing():
    assert np.isinf(symmetric_inverse(np.array([[1.0, np.nan], [np.nan, 1.0]])).diagonal()).all()
