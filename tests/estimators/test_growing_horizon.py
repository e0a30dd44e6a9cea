"""Output error over a horizon that grows."""

from dataclasses import replace

import numpy as np

import weakform as wf
from weakform.data.matching import match
from weakform.estimators import ESTIMATORS, Options
from weakform.estimators.growing_horizon import grown
from weakform.estimators.output_error import search
from weakform.fitting.multistart import prepare
from weakform.parameters import resolve
from weakform.support.progress import Watch

NOTHING = {
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
    parameters = resolve(matched.model, matched.data, None, {**NOTHING, "bounds": problem.bounds})
    return prepare(parameters, matched, ESTIMATORS["output-error"], Options(), wf.Local(), watch=Watch(60)).task


def test_it_follows_a_solution_that_the_whole_horizon_loses():
    """Six periods of predator and prey: a period that is 8% off puts the last peaks where the troughs are."""
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=150, noise=0.05, seed=1, duration=12.0)
    with np.errstate(all="ignore"):
        found = grown(task_of(problem, data), problem.parameters * [1.1, 1.0, 1.1, 1.0])
    assert found.status.success
    assert np.abs(found.estimate / problem.parameters - 1).max() < 0.03


def test_what_cannot_be_followed_is_told():
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=60, noise=0.05, seed=1).trajectories[0]
    shuffled = np.random.default_rng(2).permutation(q.values)
    data = wf.Dataset(q.times, shuffled, sigma=[0.1, 0.1], names=["u1", "u2"])
    with np.errstate(all="ignore"):
        found = grown(task_of(problem, data), problem.parameters)
    assert not found.status.success
    assert found.objective == np.inf


def test_an_initial_value_that_noise_hides_may_be_on_the_other_side_of_zero():
    """The state forgets where it began before the second sample: the best beginning is what was measured there."""
    model = wf.Model.from_text("x' = r*(y - x)\ny' = -k*y")
    t = np.linspace(0, 4, 60)
    states = wf.simulate(model, {"k": 0.5, "r": 60.0}, {"x": 0.01, "y": 2.0}, t).states
    values = states + 0.05 * np.random.default_rng(0).standard_normal(states.shape)
    values[0, 0] = -0.08
    data = wf.Dataset(t, values, sigma=[0.05, 0.05], names=["x", "y"])
    matched = match(data, model)
    bounds = {"k": (0.0, 10.0), "r": (0.0, 1000.0)}
    parameters = resolve(matched.model, matched.data, None, {**NOTHING, "bounds": bounds})
    task = prepare(parameters, matched, ESTIMATORS["output-error"], Options(), wf.Local(), watch=Watch(60)).task
    found = grown(task, np.array([5.0, 3.0]))
    assert found.status.success
    assert abs(found.initial[0][0] + 0.08) < 0.01
    assert abs(found.estimate[0] - 0.5) < 0.02


def test_relative_steps_end_where_plain_ones_do():
    problem = wf.problems.get("logistic")
    task = task_of(problem, problem.simulate(M=60, noise=0.05, seed=1))
    begin = tuple(form.x[:, 0] for form in task.weak.forms)
    plain, logs = (search(task, problem.parameters * 1.3, begin, logs) for logs in (False, True))
    assert plain.status.success
    assert logs.status.success
    np.testing.assert_allclose(logs.estimate, plain.estimate, rtol=1e-4)
    far = search(task, problem.parameters * [30.0, 0.03], begin, logs=True)
    np.testing.assert_allclose(far.estimate, plain.estimate, rtol=1e-3)


def test_without_time_nothing_is_found():
    problem = wf.problems.get("logistic")
    task = replace(task_of(problem, problem.simulate(M=60, noise=0.05, seed=1)), stop=Watch(-1.0))
    assert grown(task, problem.parameters).objective == np.inf
