"""The default method: noise level, goodness of fit, weak directions, intervals."""

import numpy as np
import pytest

import weakform as wf
from weakform.forward.cramer_rao import cramer_rao
from weakform.forward.solve import simulate
from weakform.results.goodness import chi_square_tail, portmanteau
from weakform.support.errors import FitError


def fitted(name="lotka-volterra", M=256, noise=0.05, seed=3, **options):
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=noise, seed=seed)
    return problem, data, wf.fit(problem.model, data, bounds=problem.bounds, **options)


def test_it_is_the_default():
    _, _, fit = fitted()
    assert fit.method == "wendy"
    assert "information" in fit.covariance_kind


def test_noise_level_is_found_where_the_filter_is_wrong():
    """Hindmarsh–Rose u2 at 2%, M = 256: the filter is 2.5 times too large."""
    problem, data, fit = fitted("hindmarsh-rose", noise=0.02)
    rough = wf.fit(problem.model, data, bounds=problem.bounds, method="wls").sigma
    assert rough[1] > 2 * data.truth.sigma[1]
    assert np.allclose(fit.sigma, data.truth.sigma, rtol=0.12)


def test_a_finer_mesh_where_the_samples_are_coarse():
    problem, _, fit = fitted("hindmarsh-rose", noise=0.02)
    assert fit.mesh > 1
    assert np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters) < 0.03


def test_denoised_states_are_close_to_the_truth():
    _, data, fit = fitted("goodwin")
    error = np.log(fit.denoised[0] / data.truth.states)
    assert np.sqrt(np.mean(error**2)) < 0.2 * data.truth.sigma.mean()


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


def test_weak_directions_do_not_run_away():
    """Goodwin without bounds: only the ratio of p1 and p3 is determined."""
    problem = wf.problems.get("goodwin")
    for seed in (1, 4, 7):
        data = problem.simulate(M=256, noise=0.1, seed=seed)
        fit = wf.fit(problem.model, data, start=problem.parameters, starts=1)
        assert np.abs(fit.estimate).max() < 1e3
        text = " ".join(str(fit).split())
        assert "p1 and p3" in text or "p3 and p1" in text
        well = [1, 4, 5, 6, 7]
        assert np.allclose(fit.estimate[well], problem.parameters[well], rtol=0.2)


def test_profile_agrees_with_wald_where_the_model_is_nearly_linear():
    _, _, fit = fitted()
    wald, profile = fit.intervals(0.95), fit.intervals(0.95, "profile")
    assert np.allclose(profile, wald, atol=0.1 * np.max(wald[:, 1] - wald[:, 0]))
    curve = fit.profiles["p1"]
    assert (np.diff(curve.values) > 0).all()
    assert curve.misfit.min() == 0.0
    assert curve.values[0] < curve.interval[0] < fit.estimate[0] < curve.interval[1] < curve.values[-1]


def test_bootstrap_is_seeded_and_agrees_with_wald():
    _, _, fit = fitted()
    one = fit.intervals(0.9, "bootstrap", runs=60, seed=1)
    two = fit.intervals(0.9, "bootstrap", runs=60, seed=1)
    assert np.array_equal(one, two)
    widths, wald = np.diff(one, axis=1), np.diff(fit.intervals(0.9), axis=1)
    assert np.allclose(widths / wald, 1.0, atol=0.4)


def test_profile_limits_a_parameter_at_its_bound():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=200, noise=0.05, seed=1)
    fit = wf.fit(problem.model, data, bounds={"p1": (0, 0.98)})
    low, high = fit.intervals(0.95, "profile")[0]
    assert fit.at_bound[0]
    assert high == pytest.approx(0.98, abs=1e-6)
    assert low < 0.98


def test_other_methods_have_no_profile():
    _, _, fit = fitted(method="mle")
    for kind in ("profile", "bootstrap"):
        with pytest.raises(FitError, match="method='wendy'"):
            fit.intervals(0.95, kind)
    with pytest.raises(FitError, match="'wald', 'profile' or 'bootstrap'"):
        fit.intervals(0.95, "hdi")


def test_cramer_rao_of_a_linear_problem():
    """U' = -k u, u(0) known: the bound is σ²/Σ(t u)²."""
    model = wf.Model.from_text("u' = -k*u")
    t = np.linspace(0, 3, 50)
    u = 2 * np.exp(-0.7 * t)
    bound = cramer_rao(model, [0.7], [2.0], t, ["gaussian"], [0.1], known_initial=True)
    assert bound[0, 0] == pytest.approx(0.01 / np.sum((t * u) ** 2), rel=1e-5)
    free = cramer_rao(model, [0.7], [2.0], t, ["gaussian"], [0.1])
    assert free[0, 0] > bound[0, 0]
    K = np.column_stack([-t, np.ones(50) / 2.0])  # log-normal: ∂log u/∂k, ∂log u/∂u0
    log = cramer_rao(model, [0.7], [2.0], t, ["lognormal"], [0.1])
    assert log[0, 0] == pytest.approx(0.01 * np.linalg.inv(K.T @ K)[0, 0], rel=1e-5)


def test_portmanteau_of_white_noise():
    rng = np.random.default_rng(0)
    p = []
    for _ in range(300):
        Q, freedom = portmanteau((rng.standard_normal((200, 2)),))
        p.append(chi_square_tail(Q, freedom))
    assert 0.02 < np.mean(np.array(p) < 0.05) < 0.09


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
