"""Start points: given by the user, drawn, or completed."""

import numpy as np
import pytest

import weakform as wf
from weakform.data.matching import match
from weakform.estimators import ESTIMATORS, Options
from weakform.estimators.initial_guess import compute_natural_sizes, compute_velocity_factors
from weakform.estimators.relaxed_model import SEARCH_SETTINGS, make_hidden_state_starts
from weakform.fitting.multistart import prepare
from weakform.parameters import resolve_parameters
from weakform.support.errors import FitError
from weakform.support.progress import Watch


def test_given_start_competes_with_drawn_ones_unless_starts_is_1():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.03, seed=1)
    poor = dict(zip(problem.model.parameters, problem.start(0), strict=True))
    alone = wf.fit(problem.model, data, bounds=problem.bounds, start=poor, starts=1, method="mle")
    assert len(alone.starts) == 1
    assert np.array_equal(alone.starts[0].start, problem.start(0))
    several = wf.fit(problem.model, data, bounds=problem.bounds, start=poor, method="mle")
    assert len(several.starts) == 4
    assert any(np.array_equal(s.start, problem.start(0)) for s in several.starts)
    assert several.starts[0].objective <= alone.starts[0].objective + 1e-6
    more = wf.fit(problem.model, data, bounds=problem.bounds, starts=6, method="wls")
    assert len(more.starts) == 6


def test_linear_parameters_may_be_omitted_from_start():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, start={"p3": 0.8, "p4": 9.0}, starts=1, method="mle")
    assert np.isfinite(fit.starts[0].start).all()
    with pytest.raises(FitError, match="The start lacks p4"):
        wf.fit(problem.model, data, start={"p3": 0.8}, starts=1)


def test_fit_without_bounds_and_start():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=256, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, method="mle")
    assert fit.success
    assert fit["p4"].value == pytest.approx(10, rel=0.3)


def test_model_that_is_undefined_everywhere_is_an_error():
    model = wf.Model.from_text("u' = log(0 - p1**2 - 1)*p2*u")
    data = wf.problems.get("logistic").simulate(M=60)
    with pytest.raises(FitError, match="No start could be made"):
        wf.fit(model, data)


def test_starts_with_hidden_states_take_the_settings_in_turn_and_given_starts_first():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
    t = np.linspace(0, 5, 40)
    x = wf.simulate(model, {"a": 3.0, "b": 1.0, "c": 6.0, "d": 1.0}, [1.0, 1.0], t).states[:, 0]
    matched = match(wf.Dataset(t, x, names=["x"], sigma=0.1), model)
    parameters = resolve_parameters(matched.model, matched.data, None, {"bounds": dict.fromkeys("abcd", (0, 10))})
    task = prepare(parameters, matched, ESTIMATORS["relaxed"], Options(), wf.Local(), watch=Watch(60)).task
    drawn = make_hidden_state_starts(task, (), None, 0)
    assert [start.settings for start in drawn] == [SEARCH_SETTINGS[k % len(SEARCH_SETTINGS)] for k in range(8)]
    assert not any(start.from_solution for start in drawn)
    assert all(start.parameters.shape == (4,) and start.state_levels.shape == (2,) for start in drawn)
    user_start = np.array([1.0, 2.0, 3.0, 4.0])
    first, *drawn = make_hidden_state_starts(task, (user_start,), 4, 0)
    assert np.array_equal(first.parameters, user_start)
    assert first.from_solution
    assert not any(start.from_solution for start in drawn)


@pytest.mark.parametrize("log", [[], ["k"]], ids=["plain", "log"])
@pytest.mark.parametrize("duration", [0.1, 1000.0])
def test_natural_size_of_a_rate_is_about_five_over_the_duration_on_either_scale(duration, log):
    """At about this rate a state changes by its size in a fifth of the time; the sizes of the two differ a little."""
    t = np.linspace(0, duration, 20)
    data = wf.Dataset(t, 1 - np.exp(-2 * t / duration), names=["y"], sigma=0.1)
    matched = match(data, wf.Model.from_text("x' = -k*x\ny' = k*x"))
    parameters = resolve_parameters(matched.model, matched.data, None, {"bounds": {"k": (0, np.inf)}, "log": log})
    task = prepare(parameters, matched, ESTIMATORS["relaxed"], Options(), wf.Local(), watch=Watch(60)).task
    assert compute_natural_sizes(task, 1.0) == pytest.approx([5 / duration], rel=0.2)


def test_natural_size_is_computed_at_the_centre_of_the_bounds_of_other_parameters():
    """The rate is k exp(b), and b between 1 and 3: k has the size that it has with b = 2."""
    t = np.linspace(0, 10, 20)
    data = wf.Dataset(t, 1 - np.exp(-0.2 * t), names=["y"], sigma=0.1)
    sizes = {}
    for name, choices in {"bounded": {"bounds": {"b": (1, 3)}}, "fixed": {"fixed": {"b": 2.0}}}.items():
        matched = match(data, wf.Model.from_text("x' = -k*exp(b)*x\ny' = k*exp(b)*x", parameters=["b", "k"]))
        parameters = resolve_parameters(matched.model, matched.data, None, choices)
        task = prepare(parameters, matched, ESTIMATORS["relaxed"], Options(), wf.Local(), watch=Watch(60)).task
        sizes[name] = compute_natural_sizes(task, 1.0)
    assert sizes["bounded"] == pytest.approx(sizes["fixed"], rel=1e-9)
    assert sizes["fixed"][1] == pytest.approx(0.5 * np.exp(-2.0), rel=0.2)


def test_drawn_levels_of_hidden_states_are_within_decades_of_the_measured_size():
    """The largest measured value is 4, so that a hidden state is drawn between about 0.4 and 13, times its pace."""
    t = np.linspace(0, 5, 40)
    matched = match(wf.Dataset(t, 4 * np.exp(-t), names=["x"], sigma=0.1), wf.Model.from_text("x' = -a*y\ny' = -b*y"))
    parameters = resolve_parameters(matched.model, matched.data, None, {"bounds": dict.fromkeys("ab", (0, 10))})
    task = prepare(parameters, matched, ESTIMATORS["relaxed"], Options(), wf.Local(), watch=Watch(60)).task
    paces = compute_velocity_factors(task.problem)
    levels = np.array([start.state_levels for start in make_hidden_state_starts(task, (), 40, 0)]) / paces
    assert levels.min() > 0.04
    assert levels.max() < 40
    assert levels.max() > 10 * levels.min()
