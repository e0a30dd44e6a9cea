"""Which model: criteria are those of the maximum, the right model is found, and nonsense is refused."""

import numpy as np
import pytest

import weakform as wf
from support import EXAMPLES
from weakform.cli.main import main
from weakform.inference.information_criteria import maximum, unknowns
from weakform.support.errors import FitError

THETA = wf.Model.from_text("N' = r*N*(1 - (N/K)**theta)")
BOUNDS = {"r": (0.01, 5), "K": (0.5, 5), "theta": (0.2, 5)}


def data(theta=1.0, seed=0, noise=0.02, samples=60):
    t = np.linspace(0, 10, samples)
    u = wf.simulate(THETA, {"K": 2.0, "r": 0.9, "theta": theta}, [0.1], t).states
    return wf.Dataset(t, u + noise * np.random.default_rng(seed).standard_normal(u.shape), names=["N"])


def test_the_likelihood_is_that_of_the_maximum():
    fit = wf.fit(THETA, data(), bounds=BOUNDS)
    r = fit.data.trajectories[0].values - fit.denoised[0]
    n = r.size
    direct = -0.5 * n * (np.log(2 * np.pi * np.mean(r**2)) + 1)
    assert maximum(fit) == pytest.approx(direct, abs=1e-6)
    assert unknowns(fit) == 3 + 1 + 1
    assert fit.aic == pytest.approx(10 - 2 * direct, abs=1e-5)
    assert fit.bic == pytest.approx(5 * np.log(n) - 2 * direct, abs=1e-5)
    assert fit.aicc == pytest.approx(fit.aic + 2 * 5 * 6 / (n - 6))


def test_a_given_sigma_is_not_counted():
    one = data()
    fit = wf.fit(
        THETA, wf.Dataset(one.trajectories[0].times, one.trajectories[0].values, sigma=0.02, names=["N"]), bounds=BOUNDS
    )
    assert unknowns(fit) == 4
    assert fit.aic == pytest.approx(8 - 2 * fit.log_likelihood)


def test_the_right_model_is_preferred_and_the_test_of_nested_ones_has_its_size():
    refuted = 0
    for seed in range(20):
        d = data(seed=seed)
        large = wf.fit(THETA, d, bounds=BOUNDS)
        small = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})
        found = wf.compare({"large": large, "small": small})
        (one,) = found.nested
        assert (one.small, one.large, one.freedom) == ("small", "large", 1)
        refuted += one.p_value < 0.05
    assert refuted <= 4
    d = data(theta=2.5)
    found = wf.compare(
        {"large": wf.fit(THETA, d, bounds=BOUNDS), "small": wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})}
    )
    assert found.best == "large"
    assert found.nested[0].p_value < 1e-6
    assert "prefer large" in found.sentence
    assert "refuted" in str(found)


def test_tied_parameters_are_nested():
    model = wf.Model.from_text("x' = a - b*x\ny' = b*x - c*y")
    t = np.linspace(0, 10, 50)
    u = wf.simulate(model, {"a": 1.0, "b": 0.5, "c": 0.5}, [0.0, 0.0], t).states
    d = wf.Dataset(t, u + 0.02 * np.random.default_rng(0).standard_normal(u.shape), names=["x", "y"])
    found = wf.compare({"free": wf.fit(model, d), "tied": wf.fit(model, d, tied={"c": "b"})})
    assert [(n.small, n.large) for n in found.nested] == [("tied", "free")]


def test_other_noise_can_be_compared():
    d = data(noise=0.0)
    q = d.trajectories[0]
    noisy = q.values * np.exp(0.1 * np.random.default_rng(3).standard_normal(q.values.shape))
    fits = {
        kind: wf.fit(THETA, wf.Dataset(q.times, noisy, kind, names=["N"]), bounds=BOUNDS, fixed={"theta": 1.0})
        for kind in ("gaussian", "lognormal")
    }
    assert wf.compare(fits).best == "lognormal"


def test_what_cannot_be_compared():
    fit = wf.fit(THETA, data(), bounds=BOUNDS)
    with pytest.raises(FitError, match="two or more fits"):
        wf.compare({"one": fit})
    with pytest.raises(FitError, match="different data"):
        wf.compare({"one": fit, "two": wf.fit(THETA, data(seed=1), bounds=BOUNDS)})
    with pytest.raises(FitError, match="no likelihood"):
        wf.compare({"one": fit, "two": wf.fit(THETA, data(), bounds=BOUNDS, method="wls")})


def test_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logistic.txt").write_text("yeast' = r*yeast*(1 - yeast/K)\n")
    (tmp_path / "gompertz.txt").write_text("yeast' = r*yeast*log(K/yeast)\n")
    assert main(["compare", "logistic.txt", "gompertz.txt", str(EXAMPLES / "yeast.csv"), "--report", "page.html"]) == 0
    told = capsys.readouterr().out
    assert "The data prefer logistic." in told
    assert "gompertz" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["compare", "logistic.txt", str(EXAMPLES / "yeast.csv")]) == 2


@pytest.mark.slow
def test_what_is_not_nested_is_not_tested():
    d = data()
    large = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0})
    other = wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.5, "K": 2.2})
    assert wf.compare({"large": large, "other": other}).nested == ()
    begun = [wf.Model.from_text(f"N' = r*N*(1 - N/K)\nN(0) = {v}") for v in (0.1, 0.2)]
    fits = {"one": wf.fit(begun[0], d, fixed={"K": 2.0}), "two": wf.fit(begun[1], d)}
    assert wf.compare(fits).nested == ()
    reset = wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)\nat t = 6: N = N/2"), d, fixed={"K": 2.0})
    assert wf.compare({"reset": reset, "plain": wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)"), d)}).nested == ()


def test_noise_without_a_maximum_is_refused():
    t = np.linspace(0, 10, 40)
    counts = np.random.default_rng(0).poisson(40 / (1 + 20 * np.exp(-t)))
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    fit = wf.fit(model, wf.Dataset(t, counts, "poisson", names=["N"]))
    assert np.isnan(fit.aic)
    with pytest.raises(FitError, match="no maximum"):
        wf.compare({"a": fit, "b": wf.fit(model, wf.Dataset(t, counts, "poisson", names=["N"]), fixed={"K": 40.0})})


def test_shared_parameters_are_local_ones_made_equal():
    parts = [data(seed=seed) for seed in range(3)]
    both = wf.Dataset.join(parts)
    logistic = wf.Model.from_text("N' = r*N*(1 - N/K)")
    bounds = {"r": (0.01, 5), "K": (0.5, 5)}
    shared = wf.fit(logistic, both, bounds=bounds)
    local = wf.fit(logistic, both, bounds=bounds, local=["K"])
    (one,) = wf.compare({"shared": shared, "local": local}).nested
    assert (one.small, one.large, one.freedom) == ("shared", "local", 2)
    assert one.p_value > 0.001


def test_what_was_left_out_is_foreseen_by_the_right_model():
    d = data(theta=2.5)
    fits = {
        "right": wf.fit(THETA, d, bounds=BOUNDS),
        "logistic": wf.fit(THETA, d, bounds=BOUNDS, fixed={"theta": 1.0}),
    }
    found = wf.compare(fits, folds=4)
    assert found["right"].left_out > found["logistic"].left_out + 0.5
    # No more than the noise allows: log-density of a normal value with σ = 0.02.
    assert found["right"].left_out < -0.5 - np.log(0.02 * np.sqrt(2 * np.pi)) + 0.2
    assert "foreseen best by right" in found.sentence
    with pytest.raises(FitError, match="whole number"):
        wf.compare(fits, folds=1)


def test_a_prior_is_named():
    d = data()
    fits = {
        "with": wf.fit(THETA, d, bounds=BOUNDS, priors={"theta": ("normal", 1.0, 0.1)}),
        "without": wf.fit(THETA, d, bounds=BOUNDS),
    }
    assert "with stands at the maximum of the posterior" in wf.compare(fits).sentence
