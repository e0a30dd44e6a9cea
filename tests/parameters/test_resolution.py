"""Bounds, fixed values, starts and units of parameters have their effect; invalid ones are refused."""

import numpy as np
import pytest

import weakform as wf
from support import GROWTH, LOGISTIC, LV, relative_error
from weakform.estimators import ESTIMATORS

METHODS = sorted(ESTIMATORS)


def test_fixed_parameters_keep_their_value_and_improve_the_others():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=200, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0, "p2": 0.0969}, method="mle")
    assert fit["p3"].value == 1.0
    assert fit["p3"].error == 0.0
    assert fit["p3"].note == "fixed"
    assert "fixed" in str(fit)
    assert relative_error(problem, fit) < 0.05
    # p1 and p3 are nearly proportional, so that fixing p3 makes p1 precise.
    free = wf.fit(problem.model, data, start=problem.parameters, starts=1, method="mle")
    assert fit["p1"].error < 0.2 * free["p1"].error


def test_estimates_at_a_bound_are_reported():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=200, noise=0.02, seed=1)
    for method in METHODS:
        fit = wf.fit(problem.model, data, bounds={"p1": (0, 0.9)}, method=method)
        assert fit["p1"].value == pytest.approx(0.9, abs=1e-5)
        assert fit.at_bound.tolist() == [True, False], method
        assert np.isnan(fit.intervals(kind="wald")[0]).all()
        assert np.isfinite(fit.intervals()[1]).all()
        if ESTIMATORS[method].refits:
            # The bound excludes the truth, so that the fit is rejected, and its profiles run on request only.
            assert fit["p1"].note == "at its bound: no Wald interval"
            low, high = fit.intervals(kind="profile")[0]
            assert low < high == 0.9
        assert any("p1 sits at its upper bound" in warning for warning in fit.warnings)
        assert "at its bound" in str(fit)


def test_bounds_can_be_a_list_a_subset_or_one_sided():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=100, noise=0.02, seed=1)
    by_list = wf.fit(problem.model, data, bounds=[(0, 10), (None, 5)])
    by_name = wf.fit(problem.model, data, bounds={"p2": (-np.inf, 5)})
    assert np.allclose(by_list.estimate, by_name.estimate, rtol=1e-6)
    assert by_list.bounds.tolist() == [[0, 10], [-np.inf, 5]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"bounds": {"p9": (0, 1)}}, "Unknown parameter 'p9' in bounds", id="bounds of an unknown name"),
        pytest.param({"bounds": {"p1": (1, 0)}}, "lower bound of 'p1' must be below", id="bounds upside down"),
        pytest.param({"bounds": {"p1": 3}}, "must be a pair", id="bounds as a number"),
        pytest.param({"bounds": [(0, 1)]}, "one pair for each of 2 parameters", id="too few bounds"),
        pytest.param({"fixed": {"p1": "x"}}, "must be a finite number", id="fixed as text"),
        pytest.param({"fixed": {"p1": 1, "p2": 1}}, "nothing to estimate", id="all fixed"),
        pytest.param({"fixed": {"p1": 5.0}, "bounds": {"p1": (0, 1)}}, "outside its bounds", id="fixed out of bounds"),
        pytest.param({"start": [1.0]}, "one number for each of 2", id="short start"),
        pytest.param({"start": {"q": 1.0}}, "Unknown parameter 'q' in start", id="start of an unknown name"),
    ],
)
def test_invalid_arguments_are_refused_with_the_reason(changes, message):
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=100, noise=0.02, seed=1)
    with pytest.raises(wf.WeakformError, match=message):
        wf.fit(problem.model, data, **changes)


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, bounds=5), id="bounds as a number"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, bounds={(0, 1), (2, 3)}), id="bounds as a set"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, fixed=["r"]), id="fixed as a list"),
        pytest.param(lambda: wf.fit(LOGISTIC, GROWTH, fixed={"K": 0.0}), id="fixed at a pole"),
    ],
)
def test_invalid_arguments_raise_weakform_errors(wrong):
    with pytest.raises(wf.WeakformError):
        wrong()


def test_units_must_be_text():
    with pytest.raises(wf.WeakformError, match="units must be"):
        wf.fit(LV.model, LV.simulate(M=50), units={"p1": 3})
