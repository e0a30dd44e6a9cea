"""The log-likelihood of a fit is the density of the data in the table, which is computed here from scratch."""

import numpy as np
import pytest
from scipy import stats

import weakform as wf


def density(fit, values, kind):
    """Compute the log-density of measured `values` `(time, D)` at the fitted states."""
    x = fit.denoised[0]
    if kind == "gaussian":
        return stats.norm.logpdf(values, x, fit.sigma).sum()
    return stats.lognorm.logpdf(values, fit.sigma, scale=x).sum()


@pytest.mark.parametrize("method", ["wendy", "output-error", "hybrid"])
@pytest.mark.parametrize("kind", ["gaussian", "lognormal"])
@pytest.mark.parametrize("is_sigma_given", [False, True], ids=["sigma-estimated", "sigma-given"])
def test_log_likelihood_is_the_density_of_the_data(method, kind, is_sigma_given):
    problem = wf.problems.get("lotka-volterra").with_noise(kind)
    data = problem.simulate(M=80, noise=0.05, seed=1)
    q = data.trajectories[0]
    sigma = data.truth.sigma if is_sigma_given else None
    fit = wf.fit(problem.model, wf.Dataset(q.times, q.values, kind, sigma), bounds=problem.bounds, method=method)
    assert fit.log_likelihood == pytest.approx(density(fit, q.values, kind), rel=1e-9)
    assert f"{fit.log_likelihood:.8g}" in str(fit)


@pytest.mark.parametrize("kind", ["gaussian", "lognormal"])
def test_each_repeated_measurement_counts(kind):
    problem = wf.problems.get("lotka-volterra").with_noise(kind)
    data = problem.simulate(M=80, noise=0.05, seed=1)
    q = data.trajectories[0]
    twice = np.repeat(q.values, 2, axis=0) * np.exp(0.03 * np.random.default_rng(1).standard_normal((162, 2)))
    fit = wf.fit(problem.model, wf.Dataset(np.repeat(q.times, 2), twice, kind), bounds=problem.bounds)
    x = np.repeat(fit.denoised[0], 2, axis=0)
    expected = (
        stats.norm.logpdf(twice, x, fit.sigma)
        if kind == "gaussian"
        else stats.lognorm.logpdf(twice, fit.sigma, scale=x)
    )
    assert fit.log_likelihood == pytest.approx(expected.sum(), rel=1e-9)


def test_log_likelihood_is_higher_at_the_better_fit():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=80, noise=0.05, seed=1)
    best = wf.fit(problem.model, data)
    worse = wf.fit(problem.model, data, fixed={"p1": 0.8})
    assert best.log_likelihood > worse.log_likelihood + 10


@pytest.mark.parametrize("method", ["mle", "irls", "wls"])
def test_log_likelihood_is_nan_for_methods_without_states_that_obey_the_model(method):
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=80, noise=0.05, seed=1), method=method)
    assert np.isnan(fit.log_likelihood)
    assert "no states that obey the model" in str(fit)


def test_log_likelihood_of_correlated_noise_is_the_density_of_the_multivariate_normal():
    C = np.array([[0.0025, 0.001], [0.001, 0.0016]])
    model, t = wf.Model.from_text("x' = -k*x\ny' = -m*y"), np.linspace(0, 5, 30)
    u = wf.simulate(model, [0.5, 0.2], [2.0, 3.0], t).states
    values = u + np.random.default_rng(0).multivariate_normal([0.0, 0.0], C, len(t))
    fit = wf.fit(model, wf.Dataset(t, values, sigma=C, names=["x", "y"]))
    expected = stats.multivariate_normal(cov=C).logpdf(values - fit.denoised[0]).sum()
    assert fit.log_likelihood == pytest.approx(expected, rel=1e-9)
