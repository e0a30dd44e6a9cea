"""What a result answers: derived quantities, requests in other forms, containers."""

import numpy as np
import pytest

import weakform as wf
from support import DECAYED, GROWTH, LOGISTIC, fitted, growth

FIT = wf.fit(LOGISTIC, GROWTH)


def test_derived_quantity_has_its_error_by_the_delta_method():
    problem = wf.problems.get("lotka-volterra")
    fit = wf.fit(problem.model, problem.simulate(M=256, noise=0.02, seed=1))
    ratio = fit.derived("p3 / p4")
    i, j = 2, 3
    a, b = fit.estimate[i], fit.estimate[j]
    g = np.array([1 / b, -a / b**2])
    expected = np.sqrt(g @ fit.covariance[np.ix_([i, j], [i, j])] @ g)
    assert ratio.value == pytest.approx(a / b)
    assert ratio.error == pytest.approx(expected)
    half = fit.quantile(0.95) * expected
    assert 1.9599 * expected < half < 1.98 * expected
    assert ratio.interval == pytest.approx((a / b - half, a / b + half))
    assert fit.derived("p1").error == pytest.approx(fit["p1"].error)
    for bad in ("p9", "__import__('os')", "p1 +", "log(p1 - p1)", "p1.real"):
        with pytest.raises(wf.WeakformError):
            fit.derived(bad)


def test_trajectories_are_selected_by_label_and_invalid_requests_are_refused():
    fit = wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1, seed=2)], ["a", "b"]))
    assert np.array_equal(fit.predict([0, 1], trajectory="b").states, fit.predict([0, 1], trajectory=1).states)
    assert fit.predict([0, 1], initial={"N": 2.0}).states[0, 0] == 2.0
    for wrong in (
        lambda: fit.predict([0, 1], trajectory="x"),
        lambda: fit.predict([0, 1], initial="a"),
        lambda: fit.predict([0, 1], initial={"M": 1}),
        lambda: fit.plot(5),
        lambda: fit.metrics({"r": "a", "K": 1}),
        lambda: wf.FitResult.load(3),
        lambda: wf.Dataset.from_frame(fit.to_frame(), tim="t"),
        lambda: wf.fit(LOGISTIC, growth(1), log=["r"], bounds={"r": (None, 0)}),
        lambda: wf.fit(LOGISTIC, growth(1, sigma=0.0)).intervals(kind="profile"),
        lambda: wf.Model.from_text("N = r*N"),
    ):
        with pytest.raises(wf.WeakformError):
            wrong()


def test_results_behave_like_containers():
    assert "r" in FIT
    assert list(FIT) == ["K", "r"]
    assert FIT == FIT
    assert GROWTH != DECAYED


def test_result_gives_estimates_by_name_residuals_and_a_prediction_table():
    *_, fit = fitted(M=64)
    assert list(fit.params) == list(fit.model.parameters)
    assert fit.params["p1"] == fit["p1"].value
    (r,) = fit.residuals
    assert r.shape == fit.data.trajectories[0].values.shape
    assert r.std(axis=0) == pytest.approx(fit.sigma, rel=0.3)
    frame = fit.predict([0.0, 1.0, 2.0]).to_frame()
    assert list(frame.columns)[:3] == ["u1", "u1_lower", "u1_upper"]
    assert list(frame.index) == [0.0, 1.0, 2.0]
    assert "95% band" in repr(fit.predict([0.0, 1.0]))
