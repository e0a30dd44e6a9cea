"""Missing values cost information and do not bias the estimate."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from support import ALL, LV, relative_error, values_at
from weakform.forward.solver import simulate
from weakform.noise.kinds import KINDS


def jittered(n, duration, seed):
    times = np.linspace(0, duration, n)
    times[1:-1] += 0.3 * times[1] * np.random.default_rng(seed).uniform(-1, 1, n - 2)
    return times


@pytest.mark.parametrize("name", ALL)
def test_gaps_and_uneven_times_only_cost_information(name):
    """A small seeded version of benchmarks/designs.py: a third of the entries missing, at jittered times."""
    problem = wf.problems.get(name)
    times = jittered(257, problem.duration, 4)
    grid_states = simulate(problem.model, problem.parameters, problem.initial, times, rtol=1e-10).states
    kind, rng = KINDS[problem.noise], np.random.default_rng(5)
    sigma = 0.02 if problem.noise == "lognormal" else 0.02 * np.sqrt(np.mean(grid_states**2))
    with np.errstate(divide="ignore"):
        values = kind.from_working(kind.to_working(grid_states) + sigma * rng.standard_normal(grid_states.shape))
    values[rng.uniform(size=values.shape) < 0.3] = np.nan
    data = wf.Dataset(times, values, problem.noise, names=problem.model.states)
    fit = wf.fit(problem.model, data, bounds=problem.bounds)
    assert fit.success
    assert relative_error(problem, fit) < {"goodwin": 0.3, "protein-transduction": 0.15}.get(name, 0.06)
    deviation = np.abs(fit.estimate - problem.parameters) / fit.errors
    assert np.nanmax(deviation) < 4.5
    assert fit.goodness.p_value > 1e-3
    assert ("values missing" if len(problem.initial) > 1 else "without any value left out") in str(fit)


def test_missing_values_carry_no_weight():
    """States observed at alternating times give the estimate of the joint likelihood, whatever fills the gaps."""
    t, _ = LV.solution(200)
    noisy = values_at(LV, t, 0.03, 1)
    noisy[::2, 0] = np.nan
    noisy[1::2, 1] = np.nan
    fit = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds)
    exact = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds, method="hybrid")
    assert (np.abs(fit.estimate - exact.estimate) < 0.2 * fit.errors).all()
    assert relative_error(LV, fit) < 0.03


def test_state_missing_in_one_trajectory_is_fitted():
    t, u = LV.solution(100)
    noisy = u + 0.05 * np.random.default_rng(1).standard_normal(u.shape)
    rows = [
        pd.DataFrame({"who": who, "t": t, "u1": noisy[:, 0], "u2": y}) for who, y in (("a", noisy[:, 1]), ("b", np.nan))
    ]
    data = wf.Dataset.from_frame(pd.concat(rows), time="t", trajectory="who")
    assert "svg" in data._repr_html_()
    fit = wf.fit(LV.model, data, bounds=LV.bounds)
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()


def test_state_measured_only_at_the_start_is_fitted():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
    t = np.linspace(0, 12, 100)
    u = simulate(model, [1.0, 0.5, 0.7, 0.3], [2.0, 1.0], t).states
    u = u + 0.05 * np.random.default_rng(5).standard_normal(u.shape)
    u[25:, 1] = np.nan
    fit = wf.fit(model, wf.Dataset(t, u), start=[1.0, 0.5, 0.7, 0.3])
    assert (np.abs(fit.estimate - [1.0, 0.5, 0.7, 0.3]) < 4 * fit.errors).all()
