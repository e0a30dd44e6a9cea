"""Comparison of models: criteria are those of the maximum, the right model is preferred, unlike fits are refused."""

import numpy as np
import pytest

import weakform as wf
from support import EXAMPLES
from weakform.cli.main import main
from weakform.inference.information_criteria import compute_max_log_likelihood, count_unknowns
from weakform.support.errors import FitError

THETA = wf.Model.from_text("N' = r*N*(1 - (N/K)**theta)")
BOUNDS = {"r": (0.01, 5), "K": (0.5, 5), "theta": (0.2, 5)}


def data(theta=1.0, seed=0, noise=0.02, samples=60):
    """Simulate growth with the exponent `theta`; at 1 it is logistic."""
    t = np.linspace(0, 10, samples)
    u = wf.simulate(THETA, {"K": 2.0, "r": 0.9, "theta": theta}, [0.1], t).states
    return wf.Dataset(t, u + noise * np.random.default_rng(seed).standard_normal(u.shape), names=["N"])


def test_criteria_use_the_maximum_of_the_likelihood():
    fit = wf.fit(THETA, data(), bounds=BOUNDS)
    r = fit.data.trajectories[0].values - fit.denoised[0]
    n = r.size
    direct = -0.5 * n * (np.log(2 * np.pi * np.mean(r**2)) + 1)
    assert compute_max_log_likelihood(fit) == pytest.approx(direct, abs=1e-6)
    assert count_unknowns(fit) == 3 + 1 + 1
    assert fit.aic == pytest.approx(10 - 2 * direct, abs=1e-5)
    assert fit.bic == pytest.approx(5 * np.log(n) - 2 * direct, abs=1e-5)
    assert fit.aicc == pytest.approx(fit.aic + 2 * 5 * 6 / (n - 6))


def test_given_sigma_does_not_count_as_unknown():
    q = data().trajectories[0]
    fit = wf.fit(THETA, wf.Dataset(q.times, q.values, sigma=0.02, names=["N"]), bounds=BOUNDS)
    assert count_unknowns(fit) == 4
    assert fit.aic == pytest.approx(8 - 2 * fit.log_likelihood)


def test_right_model_is_preferred_and_test_of_nested_models_has_its_size():
    refuted = 0
    for seed in range(20):
        d = data(seed=seed)
        large = wf.fit(THETA, d, bounds=BOUNDS)
        small = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})
        comparison = wf.compare({"large": large, "small": small})
        (test,) = comparison.nested
        assert (test.small, test.large, test.freedom) == ("small", "large", 1)
        refuted += test.p_value < 0.05
    assert refuted <= 4
    d = data(theta=2.5)
    comparison = wf.compare(
        {"large": wf.fit(THETA, d, bounds=BOUNDS), "small": wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})}
    )
    assert comparison.best == "large"
    assert comparison.nested[0].p_value < 1e-6
    assert "prefer large" in comparison.sentence
    assert "refuted" in str(comparison)


def test_model_with_tied_parameters_is_nested():
    model = wf.Model.from_text("x' = a - b*x\ny' = b*x - c*y")
    t = np.linspace(0, 10, 50)
    u = wf.simulate(model, {"a": 1.0, "b": 0.5, "c": 0.5}, [0.0, 0.0], t).states
    d = wf.Dataset(t, u + 0.02 * np.random.default_rng(0).standard_normal(u.shape), names=["x", "y"])
    comparison = wf.compare({"free": wf.fit(model, d), "tied": wf.fit(model, d, tied={"c": "b"})})
    assert [(n.small, n.large) for n in comparison.nested] == [("tied", "free")]


def test_fits_with_different_noise_can_be_compared():
    d = data(noise=0.0)
    q = d.trajectories[0]
    noisy = q.values * np.exp(0.1 * np.random.default_rng(3).standard_normal(q.values.shape))
    fits = {
        kind: wf.fit(THETA, wf.Dataset(q.times, noisy, kind, names=["N"]), bounds=BOUNDS, fixed={"theta": 1.0})
        for kind in ("gaussian", "lognormal")
    }
    assert wf.compare(fits).best == "lognormal"


def test_compare_refuses_unlike_fits():
    fit = wf.fit(THETA, data(), bounds=BOUNDS)
    with pytest.raises(FitError, match="two or more fits"):
        wf.compare({"one": fit})
    with pytest.raises(FitError, match="different data"):
        wf.compare({"one": fit, "two": wf.fit(THETA, data(seed=1), bounds=BOUNDS)})
    with pytest.raises(FitError, match="no likelihood"):
        wf.compare({"one": fit, "two": wf.fit(THETA, data(), bounds=BOUNDS, method="wls")})


def test_compare_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logistic.txt").write_text("yeast' = r*yeast*(1 - yeast/K)\n")
    (tmp_path / "gompertz.txt").write_text("yeast' = r*yeast*log(K/yeast)\n")
    assert main(["compare", "logistic.txt", "gompertz.txt", str(EXAMPLES / "yeast.csv"), "--report", "page.html"]) == 0
    output = capsys.readouterr().out
    assert "The data prefer logistic." in output
    assert "gompertz" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["compare", "logistic.txt", str(EXAMPLES / "yeast.csv")]) == 2


@pytest.mark.slow
def test_models_that_are_not_nested_have_no_test():
    d = data()
    large = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})
    different = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.5, "K": 2.2})
    assert wf.compare({"large": large, "different": different}).nested == ()
    with_initial_value = [wf.Model.from_text(f"N' = r*N*(1 - N/K)\nN(0) = {v}") for v in (0.1, 0.2)]
    fits = {"one": wf.fit(with_initial_value[0], d, fixed={"K": 2.0}), "two": wf.fit(with_initial_value[1], d)}
    assert wf.compare(fits).nested == ()
    reset = wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)\nat t = 6: N = N/2"), d, fixed={"K": 2.0})
    assert wf.compare({"reset": reset, "plain": wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)"), d)}).nested == ()


def test_compare_refuses_noise_without_a_maximum_over_sigma():
    t = np.linspace(0, 10, 40)
    counts = np.random.default_rng(0).poisson(40 / (1 + 20 * np.exp(-t)))
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    fit = wf.fit(model, wf.Dataset(t, counts, "poisson", names=["N"]))
    assert np.isnan(fit.aic)
    with pytest.raises(FitError, match="no maximum"):
        wf.compare({"a": fit, "b": wf.fit(model, wf.Dataset(t, counts, "poisson", names=["N"]), fixed={"K": 40.0})})


def test_model_with_shared_parameters_is_nested_in_that_with_local_ones():
    parts = [data(seed=seed) for seed in range(3)]
    both = wf.Dataset.join(parts)
    logistic = wf.Model.from_text("N' = r*N*(1 - N/K)")
    bounds = {"r": (0.01, 5), "K": (0.5, 5)}
    shared = wf.fit(logistic, both, bounds=bounds)
    local = wf.fit(logistic, both, bounds=bounds, local=["K"])
    (test,) = wf.compare({"shared": shared, "local": local}).nested
    assert (test.small, test.large, test.freedom) == ("shared", "local", 2)
    assert test.p_value > 0.001


def test_right_model_predicts_held_out_data_best():
    d = data(theta=2.5)
    fits = {
        "right": wf.fit(THETA, d, bounds=BOUNDS),
        "logistic": wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0}),
    }
    comparison = wf.compare(fits, folds=4)
    assert comparison["right"].left_out > comparison["logistic"].left_out + 0.5
    # No higher than the noise allows: the log-density of a normal value with σ = 0.02.
    assert comparison["right"].left_out < -0.5 - np.log(0.02 * np.sqrt(2 * np.pi)) + 0.2
    assert "right predicts the held-out data best" in comparison.sentence
    with pytest.raises(FitError, match="whole number"):
        wf.compare(fits, folds=1)


def test_compare_says_which_fits_have_priors():
    d = data()
    fits = {
        "with": wf.fit(THETA, d, bounds=BOUNDS, priors={"theta": ("normal", 1.0, 0.1)}),
        "without": wf.fit(THETA, d, bounds=BOUNDS),
    }
    assert "The fit of with is at the maximum of the posterior" in wf.compare(fits).sentence
