"""Output error over a growing horizon."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np

import weakform as wf
from weakform.data.matching import match
from weakform.estimators import ESTIMATORS, Options, growing_horizon
from weakform.estimators.growing_horizon import fit_growing_horizon
from weakform.estimators.output_error import search
from weakform.fitting.multistart import prepare
from weakform.parameters import resolve_parameters
from weakform.support.progress import Watch

NO_SETTINGS = {
    "bounds": None,
    "start": None,
    "fixed": None,
    "tied": None,
    "local": (),
    "log": (),
    "priors": None,
    "units": None,
}


def task_of(problem, data):
    matched = match(data, problem.model)
    parameters = resolve_parameters(matched.model, matched.data, None, {**NO_SETTINGS, "bounds": problem.bounds})
    return prepare(parameters, matched, ESTIMATORS["output-error"], Options(), wf.Local(), watch=Watch(60)).task


def test_growing_horizon_corrects_period_that_is_8_percent_off():
    """Over six periods of predator and prey, a period that is 8% off puts the last peaks where the troughs are."""
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=150, noise=0.05, seed=1, duration=12.0)
    with np.errstate(all="ignore"):
        outcome = fit_growing_horizon(task_of(problem, data), problem.parameters * [1.1, 1.0, 1.1, 1.0])
    assert outcome.status.success
    assert np.abs(outcome.estimate / problem.parameters - 1).max() < 0.03


def test_growing_horizon_fails_on_shuffled_data():
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=60, noise=0.05, seed=1).trajectories[0]
    shuffled = np.random.default_rng(2).permutation(q.values)
    data = wf.Dataset(q.times, shuffled, sigma=[0.1, 0.1], names=["u1", "u2"])
    with np.errstate(all="ignore"):
        outcome = fit_growing_horizon(task_of(problem, data), problem.parameters)
    assert not outcome.status.success
    assert outcome.objective == np.inf


def test_initial_value_hidden_by_noise_may_change_sign():
    """The state forgets its initial value before the second sample, so that the best estimate is the first sample."""
    model = wf.Model.from_text("x' = r*(y - x)\ny' = -k*y")
    t = np.linspace(0, 4, 60)
    states = wf.simulate(model, {"k": 0.5, "r": 60.0}, {"x": 0.01, "y": 2.0}, t).states
    values = states + 0.05 * np.random.default_rng(0).standard_normal(states.shape)
    values[0, 0] = -0.08
    data = wf.Dataset(t, values, sigma=[0.05, 0.05], names=["x", "y"])
    matched = match(data, model)
    bounds = {"k": (0.0, 10.0), "r": (0.0, 1000.0)}
    parameters = resolve_parameters(matched.model, matched.data, None, {**NO_SETTINGS, "bounds": bounds})
    task = prepare(parameters, matched, ESTIMATORS["output-error"], Options(), wf.Local(), watch=Watch(60)).task
    outcome = fit_growing_horizon(task, np.array([5.0, 3.0]))
    assert outcome.status.success
    assert abs(outcome.initial[0][0] + 0.08) < 0.01
    assert abs(outcome.estimate[0] - 0.5) < 0.02


def test_relative_and_absolute_steps_reach_same_estimate():
    problem = wf.problems.get("logistic")
    task = task_of(problem, problem.simulate(M=60, noise=0.05, seed=1))
    initial = tuple(form.x[:, 0] for form in task.weak.forms)
    absolute, relative = (search(task, problem.parameters * 1.3, initial, logs) for logs in (False, True))
    assert absolute.status.success
    assert relative.status.success
    np.testing.assert_allclose(relative.estimate, absolute.estimate, rtol=1e-4)
    far = search(task, problem.parameters * [30.0, 0.03], initial, log_steps=True)
    np.testing.assert_allclose(far.estimate, absolute.estimate, rtol=1e-3)


def test_objective_is_infinite_if_time_is_over():
    problem = wf.problems.get("logistic")
    task = replace(task_of(problem, problem.simulate(M=60, noise=0.05, seed=1)), stop=Watch(-1.0))
    assert fit_growing_horizon(task, problem.parameters).objective == np.inf


def test_horizon_grows_by_less_after_a_fit_that_is_not_good(monkeypatch):
    """Fits stay good over at most five more samples; too long a horizon is shortened, and the end is reached."""
    problem = wf.problems.get("logistic")
    task = task_of(problem, problem.simulate(M=60, noise=0.05, seed=1))
    horizons, reached = [], 12

    def is_good(part, outcome):
        nonlocal reached
        horizons.append(part)
        if good := part - reached <= 5:
            reached = part
        return good

    fitted = SimpleNamespace(estimate=problem.parameters, initial=(np.ones(1),))
    monkeypatch.setattr(growing_horizon, "_truncate_task", lambda task, samples, steps: samples)
    monkeypatch.setattr(growing_horizon, "search", lambda *arguments, **options: fitted)
    monkeypatch.setattr(growing_horizon, "_is_good", is_good)
    monkeypatch.setattr(growing_horizon, "_lower_sigma", lambda part, outcome: part)
    monkeypatch.setattr(growing_horizon, "_try_measured_initial_states", lambda part, outcome: outcome)
    assert growing_horizon._follow_draw(task, problem.parameters, (np.ones(1),), 12) is fitted
    assert reached == len(task.weak.forms[0].times)
    first, too_long, shorter = horizons[:3]
    assert first == 12
    assert too_long > 17 >= shorter
