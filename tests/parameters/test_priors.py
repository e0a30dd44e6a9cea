"""Priors act as measurements of parameters."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from support import LV
from weakform.forward.solver import simulate
from weakform.parameters.priors import Priors


@settings(max_examples=40)
@given(
    value=st.floats(0.1, 5),
    centre=st.floats(0.1, 5),
    spread=st.floats(0.1, 2),
    lognormal=st.booleans(),
    log_scale=st.booleans(),
)
def test_derivatives_of_priors_agree_with_differences(value, centre, spread, lognormal, log_scale):
    m = np.log(centre) if lognormal else centre
    flags = (np.array([flag]) for flag in (lognormal, log_scale))
    prior = Priors(np.array([1]), np.array([m]), np.array([spread]), *flags)
    p, h = np.array([7.0, np.log(value) if log_scale else value, 3.0]), 1e-5
    e = h * np.eye(3)[1]
    slope = (prior.compute_penalty(p + e) - prior.compute_penalty(p - e)) / (2 * h)
    bend = (prior.gradient(p + e) - prior.gradient(p - e)) / (2 * h)
    assert slope == pytest.approx(prior.gradient(p)[1], rel=1e-5, abs=1e-6)
    assert bend[1] == pytest.approx(prior.hessian(p)[1, 1], rel=1e-5, abs=1e-6)
    assert prior.gradient(p)[0] == prior.gradient(p)[2] == 0


def test_priors_act_as_measurements_of_parameters():
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    t = np.linspace(0, 3, 40)  # long before saturation: K is not determined
    u = simulate(model, [100.0, 0.8], [1.0], t).states
    data = wf.Dataset(t, u + 0.1 * np.random.default_rng(1).standard_normal(u.shape))
    bounds = {"K": (5, 1e4), "r": (0, 5)}
    free = wf.fit(model, data, bounds=bounds)
    for kind, spread in (("normal", 10.0), ("lognormal", 0.1)):
        for method in ("wendy", "hybrid", "mle"):
            fit = wf.fit(model, data, bounds=bounds, priors={"K": (kind, 100.0, spread)}, method=method)
            assert fit["K"].value == pytest.approx(100, abs=15)
            assert 7 < fit["K"].error < 12
            assert fit["r"].error < free["r"].error
    assert "prior" in str(wf.fit(model, data, bounds=bounds, priors={"K": ("normal", 100.0, 10.0)}))
    sharp = wf.fit(model, data, bounds=bounds, priors={"K": ("normal", 100.0, 1e-6)})
    fixed = wf.fit(model, data, bounds=bounds, fixed={"K": 100.0})
    assert sharp["r"].value == pytest.approx(fixed["r"].value, rel=1e-5)
    assert sharp["r"].error == pytest.approx(fixed["r"].error, rel=0.02)


@pytest.mark.parametrize("seed", range(8))
def test_a_log_normal_prior_keeps_starts_positive(seed):
    t = np.linspace(0, 5, 40)
    data = wf.Dataset(t, np.exp(-t) + 0.005 + 0.05 * np.random.default_rng(seed).standard_normal(40))
    fit = wf.fit(wf.Model.from_text("x' = -k*x + s"), data, priors={"s": ("lognormal", 0.005, 0.5)})
    assert fit["s"].value > 0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(
            lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": 3}), "prior of 'p1' must be", id="a number"
        ),
        pytest.param(
            lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": ("normal", 1, -1)}),
            "positive spread",
            id="negative spread",
        ),
        pytest.param(
            lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": ("normal", 1, 1)}, method="wls"),
            "no likelihood",
            id="no likelihood",
        ),
    ],
)
def test_invalid_priors_are_refused(make, words):
    with pytest.raises(wf.WeakformError, match=words):
        make()
