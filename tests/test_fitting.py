"""`fit`: no first guess is needed, the estimate is that of least squares, and what cannot be fitted is refused."""

import numpy as np
import pytest
from scipy.optimize import curve_fit

import weakform as wf
from support import DRAWS, GROWN, GROWTH, LOGISTIC, TIMES
from weakform.support.errors import DataError, FitError


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 5e4, 1e9, 1e15])
def test_fit_without_a_guess_recovers_parameters_at_any_scale(scale):
    fit = wf.fit(LOGISTIC, wf.Dataset(TIMES, scale * (GROWN + 0.1 * DRAWS)))
    assert fit.success
    assert fit["K"].value / scale == pytest.approx(10, rel=0.02)
    assert fit["r"].value == pytest.approx(1, rel=0.05)


def test_fit_agrees_with_curve_fit_on_the_analytic_solution():
    def solution(t, n0, r, K):
        return K / (1 + (K / n0 - 1) * np.exp(-r * t))

    best, covariance = curve_fit(solution, TIMES, GROWN + 0.1 * DRAWS, [1.0, 1.0, 10.0])
    fit = wf.fit(LOGISTIC, GROWTH)
    assert fit["r"].value == pytest.approx(best[1], abs=0.05 * np.sqrt(covariance[1, 1]))
    assert fit["K"].value == pytest.approx(best[2], abs=0.05 * np.sqrt(covariance[2, 2]))
    assert fit["r"].error == pytest.approx(np.sqrt(covariance[1, 1]), rel=0.03)
    assert fit["K"].error == pytest.approx(np.sqrt(covariance[2, 2]), rel=0.03)


def test_objects_of_the_wrong_type_are_refused():
    problem = wf.problems.get("logistic")
    with pytest.raises(FitError, match="must be a Dataset"):
        wf.fit(problem.model, [[1, 2]])
    with pytest.raises(FitError, match="must be a Model"):
        wf.fit("u' = p*u", problem.simulate())
    with pytest.raises(DataError, match="is neither a state"):
        wf.fit(wf.problems.get("lorenz").model, problem.simulate())


def test_more_parameters_than_weak_residuals_are_refused():
    t = np.linspace(0, 1, 8)
    names = [f"a{k}" for k in range(6)]
    model = wf.Model.from_text("u' = " + " + ".join(f"{a}*u**{k}" for k, a in enumerate(names)))
    with pytest.raises(FitError, match="cannot determine 6 parameters"):
        wf.fit(model, wf.Dataset(t, np.exp(t)), method="mle")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"method": "mlee"}, "Did you mean 'mle'", id="misspelt method"),
        pytest.param({"starts": 0}, "at least 1", id="no starts"),
        pytest.param({"starts": 1.5}, "whole number", id="half a start"),
        pytest.param({"basis": wf.Local(radius=100.0)}, "too large", id="radius"),
    ],
)
def test_error_messages_name_the_remedy(changes, message):
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=100, noise=0.02, seed=1)
    with pytest.raises(wf.WeakformError, match=message):
        wf.fit(problem.model, data, **changes)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, method=None), id="no method"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, seed=-1), id="negative seed"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, seed=None), id="no seed"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, basis="local"), id="basis as text"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, basis=wf.Local), id="basis as a class"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, basis=wf.Local(radius="a")), id="radius as text"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, options=5), id="options as a number"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, options={"tolerance": "a"}), id="tolerance as text"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, options={"max_iterations": 3.5}), id="half an iteration"),
        pytest.param(lambda: wf.fit(wf.Model.from_text("N' = N"), GROWTH), id="no parameters"),
    ],
)
def test_invalid_arguments_raise_a_weakform_error(wrong):
    with pytest.raises(wf.WeakformError):
        wrong()
