"""Forward solutions: accuracy, bounded work, and a status after every failure."""

import time

import numpy as np
import pytest

import weakform as wf
from support import ALL
from weakform.forward.initial_value_problem import InitialValueProblem
from weakform.forward.jumps import get_jumps
from weakform.forward.piecewise_solution import PiecewiseSolver
from weakform.forward.solver import SimulationStatus, simulate
from weakform.model.inputs import Inputs
from weakform.support.errors import DataError


def test_exponential_decay_and_its_sensitivities_match_closed_form():
    model = wf.Model.from_text("u' = -k*u")
    t = np.linspace(0, 3, 50)
    solved = simulate(model, [0.7], [2.0], t, sensitivities=True)
    assert solved.success
    assert np.allclose(solved.states[:, 0], 2 * np.exp(-0.7 * t), rtol=1e-7)
    assert np.allclose(solved.by_parameters[:, 0, 0], -2 * t * np.exp(-0.7 * t), atol=1e-6)
    assert np.allclose(solved.by_initial[:, 0, 0], np.exp(-0.7 * t), rtol=1e-6)


@pytest.mark.parametrize("name", ALL)
def test_sensitivities_match_differences(name):
    problem = wf.problems.get(name)
    # Short enough that a chaotic system does not amplify the differences beyond use.
    times = np.linspace(0, problem.duration * (0.1 if name in ("lorenz", "hindmarsh-rose") else 1.0), 40)
    p, u0 = problem.parameters, np.array(problem.initial) + 0.05
    tight = {"rtol": 1e-11, "atol": 1e-13}
    solved = simulate(problem.model, p, u0, times, sensitivities=True, **tight)
    assert solved.success

    def differences(solve, values):
        columns = []
        for k, value in enumerate(values):
            h = 1e-4 * max(abs(value), 0.1)
            ends = []
            for step in (h, -h, 2 * h, -2 * h):
                moved = np.array(values, dtype=float)
                moved[k] += step
                ends.append(solve(moved).states)
            columns.append((8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h))
        return np.stack(columns, axis=2)

    by_p = differences(lambda q: simulate(problem.model, q, u0, times, **tight), p)
    by_u0 = differences(lambda v: simulate(problem.model, p, v, times, **tight), u0)
    for exact, numeric in ((solved.by_parameters, by_p), (solved.by_initial, by_u0)):
        scale = np.abs(numeric).max(axis=(0, 1))
        assert (np.abs(exact - numeric).max(axis=(0, 1)) <= 1e-5 * scale + 1e-10).all()


@pytest.mark.parametrize(("name", "index", "value"), [("lorenz", 0, -10.0), ("hindmarsh-rose", 1, -10.0)])
@pytest.mark.parametrize("sensitivities", [False, True])
def test_blow_up_ends_quickly_with_a_failed_status(name, index, value, sensitivities):
    problem = wf.problems.get(name)
    p = problem.parameters
    p[index] = value
    simulate(problem.model, p, problem.initial, [0.0, 1e-6], sensitivities=sensitivities)  # compile
    begin = time.process_time()
    solved = simulate(problem.model, p, problem.initial, np.linspace(0, 10, 257), sensitivities=sensitivities)
    assert time.process_time() - begin < 1.0
    assert not solved.success
    assert solved.status in (SimulationStatus.BLOWS_UP, SimulationStatus.TOO_MUCH_WORK)
    assert np.isnan(solved.states[-1]).all()
    reached = np.isfinite(solved.states).all(axis=1)
    assert not reached[np.argmax(~reached) :].any(), "nothing after the failure"


def test_finite_time_blow_up_keeps_only_what_was_solved():
    model = wf.Model.from_text("u' = p*u**2")
    t = np.linspace(0, 2, 201)
    solved = simulate(model, [1.0], [1.0], t)
    assert not solved.success
    kept = np.isfinite(solved.states[:, 0])
    assert t[kept].max() < 1.0
    assert np.allclose(solved.states[kept, 0], 1 / (1 - t[kept]), rtol=1e-4)


def test_robertson_matches_reference_values():
    model = wf.Model.from_text("a' = -k1*a + k3*b*c\nb' = k1*a - k2*b**2 - k3*b*c\nc' = k2*b**2")
    solved = simulate(model, [0.04, 3e7, 1e4], [1.0, 0.0, 0.0], [0.0, 0.4, 40.0, 4e3, 4e5, 4e7], atol=1e-14)
    assert solved.success
    # Reference values of the classical test set.
    assert solved.states[1] == pytest.approx([9.8517e-1, 3.3864e-5, 1.4794e-2], rel=1e-4)
    assert solved.states[2] == pytest.approx([7.1582e-1, 9.1851e-6, 2.8417e-1], rel=1e-3)
    assert np.allclose(solved.states.sum(axis=1), 1.0, atol=1e-6)


def test_stiff_van_der_pol_follows_the_slow_manifold():
    model = wf.Model.from_text("x' = y\ny' = mu*(1 - x**2)*y - x")
    solved = simulate(model, [1000.0], [2.0, 0.0], np.linspace(0, 2000, 21))
    assert solved.success
    # On the slow manifold, log x - x²/2 - t/mu is constant: x(800) from x(0) = 2.
    x = solved.states[8, 0]
    assert np.log(x) - x**2 / 2 - 0.8 == pytest.approx(np.log(2.0) - 2.0, abs=2e-3)


def test_work_is_bounded():
    problem = wf.problems.get("lorenz")
    solved = simulate(problem.model, problem.parameters, problem.initial, np.linspace(0, 1e6, 3), max_evaluations=2000)
    assert solved.status is SimulationStatus.TOO_MUCH_WORK
    assert solved.evaluations <= 2001


def test_wrong_shapes_orders_and_values_are_refused():
    model = wf.Model.from_text("u' = -k*u")
    for arguments in (([1.0, 2.0], [1.0], [0, 1]), ([1.0], [1.0], [1, 0]), ([np.nan], [1.0], [0, 1])):
        with pytest.raises(DataError):
            simulate(model, *arguments)


def test_short_pulse_of_an_input_is_not_stepped_over():
    t = np.linspace(0, 100, 1001)
    pulse = np.zeros(1001)
    pulse[500] = 1.0
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    solved = simulate(model, [1.0], [0.0], t, inputs=Inputs(t, pulse[:, None], (False,)))
    assert solved.states.max() == pytest.approx(0.0952, abs=0.01)


def test_held_inputs_are_solved_exactly():
    model = wf.Model.from_text("x' = q - k*x", inputs=["q"])
    inputs = Inputs(np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [0.0]]), (True,))
    at = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    x = simulate(model, [2.0], [0.0], at, inputs=inputs, sensitivities=True).states[:, 0]
    rise = 0.5 * (1 - np.exp(-2 * 1.0))
    exact = [0, 0, 0, 0.5 * (1 - np.exp(-1.0)), rise, rise * np.exp(-2.0)]
    assert np.allclose(x, exact, atol=1e-7)


def test_missing_inputs_are_refused():
    with pytest.raises(wf.WeakformError, match="needs the inputs"):
        simulate(wf.Model.from_text("u' = a*u + q", inputs=["q"]), [1], [1], [0, 1])


def test_no_step_goes_beyond_the_last_time():
    # The solution ends at t = 4: a long step, as a smooth solution allows, would meet the root of a negative number.
    t = np.linspace(0, 3, 25)
    solved = wf.simulate(wf.Model.from_text("x' = -k*sqrt(x)"), {"k": 1.0}, [4.0], t)
    assert solved.success
    assert np.allclose(solved.states[:, 0], (2 - t / 2) ** 2, rtol=1e-6)


def test_initial_values_of_the_model_are_those_at_time_zero():
    model = wf.Model.from_text("x' = -k*x\ntwice = 2*x\nx(0) = A")
    p = {"A": 100.0, "k": 1.0}
    whole = simulate(model, p, None, [0.0, 0.25, 1.0], sensitivities=True)
    late = simulate(model, p, None, [0.25, 1.0], sensitivities=True)
    assert np.array_equal(late.states, whole.states[1:])
    assert np.array_equal(late.by_parameters, whole.by_parameters[1:])
    assert np.array_equal(late.observables["twice"], whole.observables["twice"][1:])
    assert late.times.tolist() == [0.25, 1.0]
    assert np.allclose(late.states[:, 0], 100 * np.exp([-0.25, -1.0]), rtol=1e-7)
    # Given initial states are those at the first time.
    assert np.allclose(simulate(model, p, [100.0], [0.25, 1.0]).states[:, 0], 100 * np.exp([0.0, -0.75]), rtol=1e-7)
    # If the times begin earlier, as with a dose before time zero, the initial values hold there.
    assert np.allclose(simulate(model, p, None, [-1.0, 1.0]).states[:, 0], 100 * np.exp([0.0, -2.0]), rtol=1e-7)


def test_limit_of_steps_between_inputs_is_independent_of_the_requested_times():
    """Two samples of the input are nearly at one time: the longest step follows from the duration, not from a gap."""
    model = wf.Model.from_text("x' = q - x", inputs=["q"])
    driven = Inputs(np.array([0.0, 1e-9, 10.0]), np.array([[1.0], [2.0], [3.0]]), (False,))
    setting = InitialValueProblem(model, np.zeros(0), driven, get_jumps(model), 1e-8, atol=np.ones((1, 1)), budget=100)
    few, many = (PiecewiseSolver(setting, np.ones((1, 1)), np.linspace(0, 10, n)).max_step for n in (2, 1001))
    assert 1e-9 < many == few < 10.0


def test_state_that_stays_at_zero_has_no_sensitivity_to_its_rate():
    """The derivative of `-k*u` by k is exactly zero at u = 0; only one that is no number is taken next to zero."""
    solved = simulate(wf.Model.from_text("u' = -k*u"), [0.7], [0.0], np.linspace(0, 3, 5), sensitivities=True)
    assert (solved.by_parameters == 0).all()
