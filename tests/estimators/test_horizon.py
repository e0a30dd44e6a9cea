"""Output error over a horizon that grows."""

import numpy as np

import weakform as wf
from weakform.data.matching import match
from weakform.estimators import ESTIMATORS, Options
from weakform.estimators.horizon import grown
from weakform.fitting.search import prepare
from weakform.parameters import resolve
from weakform.support.watch import Watch

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
