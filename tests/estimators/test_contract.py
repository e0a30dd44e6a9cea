"""One contract for every method, and what must not change a result."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from support import ALL, relative_error
from weakform.estimators import ESTIMATORS
from weakform.results.status import Status

METHODS = sorted(ESTIMATORS)


# Output error finds its way on Hindmarsh–Rose only from close by: tests/estimators/test_output_error.py.
HEAVY = [(n, m) for n in ALL for m in ("relaxed", "hybrid", "output-error") if n not in ("logistic", "lotka-volterra")]
CASES = [
    pytest.param(n, m, marks=pytest.mark.slow if (n, m) in HEAVY else ())
    for n in ALL
    for m in METHODS
    if (n, m) != ("hindmarsh-rose", "output-error")
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_contract(name, method):
    problem = wf.problems.get(name)
    data = problem.simulate(M=200, noise=0.02, seed=4)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method=method, seed=1)
    names = problem.model.parameters
    J = len(names)
    low, high = np.array(problem.box).T

    assert fit.method == method
    assert fit.success
    assert fit.status is Status.CONVERGED
    assert fit.message == "converged"
    assert fit.estimate.shape == (J,)
    assert fit.covariance.shape == (J, J)
    assert ((low <= fit.estimate) & (fit.estimate <= high)).all()
    assert fit.intervals(0.95).shape == (J, 2)
    free = ~fit.at_bound
    assert np.allclose(fit.covariance[np.ix_(free, free)], fit.covariance[np.ix_(free, free)].T)
    assert np.linalg.eigvalsh(fit.covariance[np.ix_(free, free)])[0] > -1e-8
    assert (fit.intervals(0.99)[free, 0] < fit.intervals(0.9)[free, 0]).all()
    for j, parameter in enumerate(names):
        quantity = fit[parameter]
        assert quantity.value == fit.estimate[j]
        if free[j]:
            assert quantity.interval[0] < quantity.value < quantity.interval[1]
            assert quantity.error == fit.errors[j] > 0
            assert fit.wald_errors[j] == pytest.approx(np.sqrt(fit.covariance[j, j]))
    assert all(parameter in str(fit) for parameter in names)
    assert len(fit.starts) >= 1
    assert fit.starts[0].objective == min(s.objective for s in fit.starts)
    assert np.isfinite(fit.log_likelihood) == (method not in ("mle", "irls", "wls"))
    # Far from the truth only where the data are known not to determine the parameters, or the method is biased.
    biased = method in ("mle", "irls", "wls")
    loose = {"hindmarsh-rose": 0.6, "goodwin": 0.6, "protein-transduction": 0.6} if biased else {"goodwin": 0.3}
    assert relative_error(problem, fit) < loose.get(name, 0.06)


@pytest.mark.parametrize("method", METHODS)
def test_the_same_seed_gives_the_same_result(method):
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.05, seed=4)
    one, two = (wf.fit(problem.model, data, bounds=problem.bounds, method=method, seed=3) for _ in range(2))
    assert np.array_equal(one.estimate, two.estimate)
    assert np.array_equal(one.covariance, two.covariance, equal_nan=True)


@pytest.mark.parametrize("method", ["wls", "irls"])
@pytest.mark.parametrize("name", ["lorenz", "hindmarsh-rose", "logistic", "lotka-volterra", "fitzhugh-nagumo"])
def test_linear_models_the_general_path_equals_the_closed_form(name, method, monkeypatch):
    problem = wf.problems.get(name)
    data = problem.simulate(M=200, noise=0.03, seed=2)
    options = {"tolerance": 1e-12}
    closed = wf.fit(problem.model, data, method=method, options=options)
    # Pretend that nothing is linear, so that the nonlinear path runs from a start.
    monkeypatch.setattr(wf.Model, "linear_among", lambda self, names: ())
    general = wf.fit(problem.model, data, method=method, start=problem.parameters * 1.2, starts=1, options=options)
    assert np.allclose(general.estimate, closed.estimate, rtol=1e-8, atol=1e-8 * np.abs(closed.estimate).max())


def test_mle_of_a_linear_model_does_not_depend_on_the_start():
    problem = wf.problems.get("lorenz")
    data = problem.simulate(M=256, noise=0.05, seed=1)
    ends = [
        wf.fit(problem.model, data, bounds=problem.bounds, start=problem.start(s), starts=1, method="mle").estimate
        for s in range(5)
    ]
    assert np.allclose(ends, ends[0], rtol=1e-6)


def test_solvers_agree():
    for name in ("lorenz", "goodwin"):
        problem = wf.problems.get(name)
        data = problem.simulate(M=200, noise=0.03, seed=1)
        ends = [
            wf.fit(
                problem.model, data, start=problem.parameters * 1.05, starts=1, method="mle", options={"solver": solver}
            )
            for solver in ("trust-region", "cubic")
        ]
        assert ends[0].starts[0].objective == pytest.approx(ends[1].starts[0].objective, abs=1e-5)


def test_fixing_all_but_linear_parameters_is_the_closed_form():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=200, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, fixed={"p3": 1.0, "p4": 10.0}, method="wls")
    assert fit.success
    assert len(fit.starts) == 1
    assert fit.starts[0].start is None


def test_limits_are_statuses():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.05, seed=1)
    few = wf.fit(problem.model, data, bounds=problem.bounds, method="mle", options={"max_iterations": 2})
    assert few.status is Status.ITERATIONS
    assert not few.success
    assert "max_iterations" in few.message
    assert "NOT CONVERGED" in str(few)
    late = wf.fit(problem.model, data, bounds=problem.bounds, method="mle", options={"time_limit": 1e-3})
    assert late.status is Status.TIME
    assert "time_limit" in late.message


@settings(max_examples=8)
@given(scale=st.sampled_from([1e-6, 1e-3, 1e3, 1e6]), time=st.sampled_from([1e-6, 1e-3, 1e3, 1e6]))
@pytest.mark.parametrize("method", METHODS)
def test_units_do_not_matter(method, scale, time):
    """States in other units and time in others: the estimates change only as they must."""
    problem = wf.problems.get("logistic")
    q = problem.simulate(M=100, noise=0.03, seed=5).trajectories[0]
    base = wf.fit(problem.model, wf.Dataset(q.times, q.values), method=method)
    other = wf.fit(problem.model, wf.Dataset(q.times * time, q.values * scale), method=method)
    units = np.array([1 / time, 1 / (time * scale)])
    assert np.allclose(other.estimate / units, base.estimate, rtol=1e-6)
    assert np.allclose(other.errors / units, base.errors, rtol=1e-5)
