"""Options: errors for names that are misspelt, values that are invalid, and options of other methods."""

import pytest

import weakform as wf
from weakform import FitError

PROBLEM = wf.problems.get("logistic")
DATA = PROBLEM.simulate(M=60, noise=0.05, seed=1)


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        pytest.param("wls", {"solver": "cubic"}, "does not use the option 'solver'.*mle", id="wls-solver"),
        pytest.param("mle", {"covariance": "paper"}, "belongs to wendy, hybrid", id="mle-covariance"),
        pytest.param("wendy", wf.Options(residuals="additive"), "output-error, hybrid", id="wendy-residuals"),
        pytest.param("irls", {"weak": "mle"}, "belongs to hybrid", id="irls-weak"),
    ],
)
def test_options_of_other_methods_are_rejected(method, options, message):
    with pytest.raises(FitError, match=message):
        wf.fit(PROBLEM.model, DATA, method=method, options=options)


@pytest.mark.parametrize("method", ["mle", "wendy", "hybrid"])
def test_cubic_solver_rejects_bounds(method):
    with pytest.raises(FitError, match="does not support bounds"):
        wf.fit(PROBLEM.model, DATA, method=method, bounds=PROBLEM.bounds, options={"solver": "cubic"})
    unbounded = wf.fit(PROBLEM.model, DATA, method=method, options={"solver": "cubic"})
    assert unbounded.converged


def test_every_method_takes_the_common_options():
    from weakform.estimators import ESTIMATORS

    for method in ESTIMATORS:
        assert wf.fit(PROBLEM.model, DATA, method=method, options={"time_limit": 60, "tolerance": 1e-6}).converged


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"options": {"tolerence": 1e-3}}, "Did you mean 'tolerance'", id="misspelt"),
        pytest.param({"options": {"tolerance": 0.0}}, "between 0 and 1", id="tolerance of 0"),
        pytest.param({"options": {"solver": "newton"}}, "'trust-region', 'cubic'", id="unknown solver"),
        pytest.param({"options": {"time_limit": -1}}, "positive number of seconds", id="negative time"),
    ],
)
def test_invalid_option_error_names_the_remedy(changes, message):
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=100, noise=0.02, seed=1)
    with pytest.raises(wf.WeakformError, match=message):
        wf.fit(problem.model, data, **changes)


@pytest.mark.parametrize(("option", "value"), [("residuals", "log"), ("weak", "hybrid"), ("solver", "newton")])
def test_unknown_option_values_are_rejected(option, value):
    problem = wf.problems.get("logistic")
    with pytest.raises(FitError, match=option):
        wf.fit(problem.model, problem.simulate(M=50), options={option: value})
