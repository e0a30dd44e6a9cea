"""Benchmark problems: solutions satisfy the equations, and simulated data have the stated truth."""

import numpy as np
import pytest

import weakform as wf
from support import ALL


def test_there_are_eight_problems_and_names_are_matched_loosely():
    assert len(ALL) == 8
    assert wf.problems.get("Hindmarsh_Rose").name == "hindmarsh-rose"
    with pytest.raises(wf.WeakformError, match="Did you mean 'goodwin'"):
        wf.problems.get("godwin")


@pytest.mark.parametrize("name", ALL)
def test_truth_and_box_match_the_model(name):
    problem = wf.problems.get(name)
    low, high = np.array(problem.box).T
    assert len(problem.truth) == len(problem.box) == len(problem.model.parameters)
    assert (low <= problem.truth).all()
    assert (problem.truth <= high).all()
    assert len(problem.initial) == len(problem.model.states)
    assert problem.source


@pytest.mark.parametrize("name", ALL)
def test_the_solution_satisfies_the_equations(name):
    problem = wf.problems.get(name)
    times, states = problem.solution(M=2000)
    h = times[1]
    # Sixth-order differences of the solution against the right-hand side.
    d = (45 * (states[4:-2] - states[2:-4]) - 9 * (states[5:-1] - states[1:-5]) + states[6:] - states[:-6]) / (60 * h)
    f = problem.model(times[3:-3], states[3:-3], problem.parameters)
    error = np.abs(d - f) / np.abs(f).max(axis=0)
    assert np.median(error) < 1e-6
    assert np.allclose(states[0], problem.initial)


@pytest.mark.parametrize("name", ALL)
def test_simulated_data_are_seeded_and_have_the_stated_noise(name):
    problem = wf.problems.get(name)
    data = problem.simulate(M=400, noise=0.1, seed=7)
    same_seed = problem.simulate(M=400, noise=0.1, seed=7)
    other_seed = problem.simulate(M=400, noise=0.1, seed=8)
    values = data.trajectories[0].values
    assert np.array_equal(values, same_seed.trajectories[0].values)
    assert not np.array_equal(values, other_seed.trajectories[0].values)
    work = problem.model.system(data.noise).to_working
    noise = work(values) - work(data.truth.states)
    assert np.allclose(noise.std(axis=0) / data.truth.sigma, 1.0, atol=0.15)


def test_noise_ratio_applies_to_all_states_or_to_each():
    problem = wf.problems.get("hindmarsh-rose")
    _, states = problem.solution(M=256)
    together = problem.simulate(noise=0.1).truth.sigma
    by_state = problem.simulate(noise=0.1, by_state=True).truth.sigma
    assert np.allclose(together, 0.1 * np.sqrt(np.mean(states**2)))
    assert np.allclose(by_state, 0.1 * np.sqrt(np.mean(states**2, axis=0)))


def test_first_row_of_lognormal_sir_is_dropped():
    data = wf.problems.get("sir-tdi").simulate(M=256)
    assert data.samples == 256
    assert len(data.truth.states) == 256
    assert "dropped" in data.notes[0]


def test_starts_are_seeded_and_inside_the_box():
    problem = wf.problems.get("goodwin")
    low, high = np.array(problem.box).T
    starts = np.array([problem.start(seed) for seed in range(50)])
    assert ((low <= starts) & (starts <= high)).all()
    assert np.array_equal(problem.start(3), starts[3])


def test_duration_sets_the_last_time():
    data = wf.problems.get("lorenz").simulate(M=300, duration=3.0)
    assert data.trajectories[0].times[-1] == 3.0


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: wf.problems.get("logistic").simulate(M=30.0), id="steps as a float"),
        pytest.param(lambda: wf.problems.get("logistic").simulate(M=30, noise="a"), id="noise as text"),
    ],
)
def test_invalid_arguments_raise_weakform_errors(wrong):
    with pytest.raises(wf.WeakformError):
        wrong()
