"""Data without noise are detected, reported and fitted exactly."""

import numpy as np
import pytest

import weakform as wf
from support import relative_error


@pytest.mark.parametrize("method", ["mle", "irls"])
def test_noise_free_data_switch_method_to_wls_with_note(method):
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=512, noise=0.0)
    for dataset in (data, wf.Dataset(data.trajectories[0].times, data.trajectories[0].values, sigma=0.0)):
        fit = wf.fit(problem.model, dataset, method=method)
        assert fit.method == "wls"
        assert "noise-free" in fit.notes[0]
        assert relative_error(problem, fit) < 1e-4


def test_sigma_zero_switches_method_of_nonlinear_model_to_wls():
    problem = wf.problems.get("goodwin")
    clean = problem.simulate(M=512, noise=0.0)
    q = clean.trajectories[0]
    data = wf.Dataset(q.times, q.values, "lognormal", sigma=0.0)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method="mle")
    assert fit.method == "wls"
    assert relative_error(problem, fit) < 0.02


@pytest.mark.parametrize(("end", "n"), [(2, 8), (10, 8), (10, 12), (10, 100)])
def test_noise_free_decay_is_fitted_at_any_length(end, n):
    t = np.linspace(0, end, n)
    fit = wf.fit(wf.Model.from_text("u' = -k*u"), wf.Dataset(t, np.exp(-0.5 * t)))
    assert fit["k"].value == pytest.approx(0.5, rel=1e-4)
