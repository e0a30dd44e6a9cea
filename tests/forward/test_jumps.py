"""Forward solutions with jumps against closed forms, their sensitivities against differences; steady states."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.forward.jumps import Jumps
from weakform.forward.piecewise_solution import _WatchedTrigger
from weakform.forward.solver import simulate
from weakform.forward.steady_states import find_steady_state

TIMES = np.linspace(0, 10, 41)

CASES = {
    "a dose at a known time": ("A' = -k*A\nA(0) = 1\nat t = 3: A = A + F*10", {"k": 0.4, "F": 0.7}),
    "a dose at the beginning": ("A' = -k*A\nA(0) = 0\nat t = 0, 4: A = A + D", {"k": 0.4, "D": 2.0}),
    "a dose at an unknown time": ("A' = -k*A\nA(0) = 1\nat t = tau: A = A/2 + F", {"k": 0.4, "F": 0.7, "tau": 3.3}),
    "a switch": ("x' = if(t < 4, a, -b*x)\nx(0) = 1", {"a": 0.4, "b": 0.7}),
    "a switch at an unknown time": (
        "x' = piecewise(a, t < tau, -b*x, t < tau + 2, c)\nx(0) = 1",
        {"a": 0.4, "b": 0.7, "c": 0.2, "tau": 3.3},
    ),
    "an event by a state": ("x' = v\nv' = -g\nx(0) = 5\nv(0) = 0\nwhen x < 0: x = 0, v = -e*v", {"g": 2.0, "e": 0.8}),
    "a switch by a state": ("x' = if(x < 3, a, b*x)\nx(0) = 1", {"a": 0.7, "b": 0.05}),
    "a reset that depends on its time": ("x' = -k*x\nx(0) = 2\nat t = tau: x = x + t**2", {"k": 0.5, "tau": 2.6}),
    "an event caused by a jump": (
        "x' = k\nn' = 0*k\nx(0) = 0\nn(0) = 0\nat t = tau: n = 1\nwhen n > 0.5: x = 0",
        {"k": 0.7, "tau": 1.6},
    ),
    "a jump that turns a switch": (
        "x' = k\ny' = if(x > 5, 2, 0)\nx(0) = 0\ny(0) = 0\nat t = tau: x = x + 10",
        {"k": 0.3, "tau": 2.6},
    ),
    "two events at one time": (
        "x' = -k*x\ny' = k*x\nx(0) = 1\ny(0) = 0\nat t = 5: x = x + y\nat t = 5: y = 0",
        {"k": 0.3},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sensitivities_agree_with_differences(case):
    text, values = CASES[case]
    model = wf.Model.from_text(text)
    p = np.array([values[name] for name in model.parameters])
    solved = simulate(model, p, None, TIMES, sensitivities=True, rtol=1e-10)
    assert solved.success
    for j in range(len(p)):
        h = 1e-5 * abs(p[j])
        ends = [simulate(model, p + s * h * np.eye(len(p))[j], None, TIMES, rtol=1e-10).states for s in (1, -1)]
        # A sample exactly at the time of a jump that moves with the parameter has no derivative.
        smooth = np.abs(ends[0] - ends[1]).max(axis=1) < 0.05
        assert smooth.sum() > 35
        slope = (ends[0] - ends[1]) / (2 * h)
        np.testing.assert_allclose(solved.by_parameters[smooth, :, j], slope[smooth], rtol=2e-4, atol=2e-5)


def test_event_by_a_state_happens_each_time_its_condition_becomes_true():
    """Falling from 1 at the rate 1 and set to 1 at zero, x is one minus the time since the last whole number."""
    model = wf.Model.from_text("x' = -k\nx(0) = 1\nwhen x < 0: x = 1")
    solved = simulate(model, [1.0], None, [0.0, 0.25, 1.5, 2.75, 3.4])
    assert solved.success
    np.testing.assert_allclose(solved.states[:, 0], [1.0, 0.75, 0.5, 0.25, 0.6], atol=1e-6)


def test_sensitivities_to_initial_values_agree_with_differences():
    model = wf.Model.from_text("x' = v\nv' = -g\nwhen x < 0: x = 0, v = -e*v\nat t = 4: v = v/2")
    p, u0 = np.array([0.8, 2.0]), np.array([5.0, 0.3])
    solved = simulate(model, p, u0, TIMES, sensitivities=True, rtol=1e-10)
    for d in range(2):
        h = 1e-5
        ends = [simulate(model, p, u0 + s * h * np.eye(2)[d], TIMES, rtol=1e-10).states for s in (1, -1)]
        np.testing.assert_allclose(solved.by_initial[:, :, d], (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-4)


def test_doses_match_closed_form():
    model = wf.Model.from_text("A' = -k*A\nA(0) = 0\nat t = 0, 2.5, 5: A = A + D")
    solved = simulate(model, {"D": 3.0, "k": 0.7}, None, TIMES).states[:, 0]
    exact = sum(np.where(s <= TIMES, 3 * np.exp(-0.7 * (TIMES - s)), 0.0) for s in (0, 2.5, 5))
    np.testing.assert_allclose(solved, exact, rtol=1e-6)


def test_event_caused_by_a_jump_happens_at_the_same_time():
    model = wf.Model.from_text("x' = k\nn' = 0*k\nx(0) = 0\nn(0) = 0\nat t = 2: x = x + 5\nwhen x > 6: n = n + 1")
    solved = simulate(model, [1.0], None, [0.0, 1.9, 2.0, 3.0])
    np.testing.assert_allclose(solved.states[:, 1], [0, 0, 1, 1])


@pytest.mark.slow
def test_endless_events_end_in_a_failed_status():
    model = wf.Model.from_text("x' = -k\nx(0) = 1\nwhen x < 0: x = 1e-7")
    assert not simulate(model, [1.0], None, [0.0, 5.0]).success


def test_condition_that_stays_at_zero_does_not_switch():
    model = wf.Model.from_text("x' = if(dose > 0, 1, 0.1)\nn' = if(x < 0, 1, 0)\nx(0) = 0\nn(0) = 0")
    solved = simulate(model, {"dose": 0.0}, None, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(solved.states, [[0, 0], [0.1, 0], [0.2, 0]], atol=1e-9)


def test_event_whose_condition_stays_true_happens_once():
    model = wf.Model.from_text("n' = 0*k\nx' = k\nn(0) = 0\nx(0) = 0\nat t = 1, 2, 3: n = n + 1\nwhen n >= 3: x = 100")
    solved = simulate(model, [1.0], None, [0.0, 1.0, 2.2, 3.0, 4.1, 5.7])
    np.testing.assert_allclose(solved.states[:, 1], [0, 1, 2.2, 100, 101.1, 102.7], rtol=1e-8)


def test_sample_at_an_event_up_to_rounding_is_after_it():
    model = wf.Model.from_text("x' = -k*x\nx(0) = 1\nat t = 0.3: x = x + 1")
    times = np.array([0, 1, 2, 3, 4]) * 0.1
    solved = simulate(model, [1.0], None, times, sensitivities=True)
    assert solved.success
    assert solved.states[3, 0] == pytest.approx(np.exp(-0.3) + 1)


STEADY = {
    "slow and fast": ("y' = f*(1 - y)\nx' = s*(2 - x)\ny(0) = 0.5\nx(0) = 1", {"f": 1e3, "s": 1e-7}, [1.0, 2.0]),
    "away from an unstable root": ("x' = k*(x - 1)*(3 - x)\nx(0) = 1.00001", {"k": 1.0}, [3.0]),
    "two time scales": (
        "y' = -f*(y - x)\nx' = s*(x - x**3)\nx(0) = 0.1\ny(0) = 0.1",
        {"f": 1e6, "s": 1e-3},
        [1.0, 1.0],
    ),
    "conserved": ("A' = -k*A + g*B\nB' = k*A - g*B\nA(0) = 4\nB(0) = 0", {"k": 1.0, "g": 3.0}, [3.0, 1.0]),
}


@pytest.mark.parametrize("case", STEADY)
def test_steady_state_is_the_one_that_is_reached(case):
    text, values, expected = STEADY[case]
    model = wf.Model.from_text(text)
    p = np.array([values[name] for name in model.parameters])
    u0 = model.build_map("g")(np.zeros(1), np.ones((1, len(model.states))), p)[0]
    np.testing.assert_allclose(find_steady_state(model, p, u0).state, expected, rtol=1e-6)


def test_dose_on_the_way_to_a_steady_state_is_applied_once():
    """Four at the beginning and a dose of four are eight, of which A holds g/(k + g) = 3/4."""
    model = wf.Model.from_text("A' = -k*A + g*B\nB' = k*A - g*B\nat t = 3: A = A + 4")
    p = np.array([{"k": 1.0, "g": 3.0}[name] for name in model.parameters])
    np.testing.assert_allclose(find_steady_state(model, p, np.array([4.0, 0.0])).state, [6.0, 2.0], rtol=1e-6)


def test_dose_that_has_happened_is_not_applied_on_the_way_to_a_steady_state():
    """Four in all, with or without a dose of four at the time of the first state."""
    model = wf.Model.from_text("A' = -k*A + g*B\nB' = k*A - g*B\nat t = 0: A = A + 4")
    p, u0 = np.array([{"k": 1.0, "g": 3.0}[name] for name in model.parameters]), np.array([4.0, 0.0])
    happened = find_steady_state(model, p, u0, happened=np.array([True]))
    np.testing.assert_allclose(happened.state, [3.0, 1.0], rtol=1e-6)
    due = find_steady_state(model, p, u0, happened=np.array([False]))
    np.testing.assert_allclose(due.state, [6.0, 2.0], rtol=1e-6)


def test_steady_state_is_approached_from_the_time_of_the_first_state():
    """A pulse at t = 0 pushes x from -0.9 to the steady state 1; at t = 50 it is over, and x comes to rest at -1."""
    model = wf.Model.from_text("x' = k*(x - x**3) + 5*exp(-t)")
    p, u0 = np.array([1.0]), np.array([-0.9])
    np.testing.assert_allclose(find_steady_state(model, p, u0, 0.0).state, [1.0], rtol=1e-6)
    np.testing.assert_allclose(find_steady_state(model, p, u0, 50.0).state, [-1.0], rtol=1e-6)


def test_steady_state_whose_conserved_quantity_depends_on_parameters():
    model = wf.Model.from_text("a' = -(k + g)*a\nb' = k*a\nc' = g*a")
    u0 = np.array([4.0, 0.0, 0.0])
    solved = find_steady_state(model, np.array([3.0, 1.0]), u0)  # g, k
    np.testing.assert_allclose(solved.state, [0, 1, 3], atol=1e-6)
    np.testing.assert_allclose(solved.by_parameters[1], [-4 / 16, 4 * 3 / 16], rtol=1e-4)


@pytest.mark.parametrize("text", ["x' = k*x\nx(0) = 1", "x' = k\nx(0) = 1", "x' = k*(x - 1)*(3 - x)\nx(0) = 0.9999"])
def test_model_without_steady_state_gives_none(text):
    assert find_steady_state(wf.Model.from_text(text), np.array([1.0]), np.array([0.9999])) is None


def test_dose_at_the_only_time_is_applied_once():
    model = wf.Model.from_text("A' = -k*A\nA(0) = 0\nat t = 0, 12: A = A + 100")
    for times in ([0.0], [0.0, 1.0]):
        assert wf.simulate(model, {"k": 0.8}, None, times).states[0, 0] == 100
    assert wf.simulate(model, {"k": 0.8}, [1.0], [12.0]).states[0, 0] == 101


def test_initial_value_before_a_dose_has_its_own_interval():
    model = wf.Model.from_text("A' = -ka*A\nC' = ka*A/20 - ke*C\nC(0) = 0")
    t, ka, ke = np.arange(1, 13.0), 0.6, 0.15
    C = 80 * ka / 20 / (ka - ke) * (np.exp(-ke * t) - np.exp(-ka * t))
    values = C + 0.05 * np.random.default_rng(1).standard_normal(12)
    data = wf.Dataset(t, values, names=["C"], doses=wf.Doses("A", times=0.0, amounts=60.0))
    fit = wf.fit(model, data, bounds={"ka": (0.3, 10), "ke": (0, 0.3)})
    before, after = fit.initial["A"], fit.predict([0.0])["A"][0]
    assert before.interval[0] < before.value < before.interval[1]
    assert after[0] == pytest.approx(before.value + 60)


@pytest.mark.parametrize("direction", [1.0, -1.0], ids=["rising", "falling"])
def test_trigger_at_zero_up_to_rounding_of_large_states_has_not_passed_it(direction):
    """Neighbouring numbers at 1e6 differ by 1e-10, so a trigger of 1e-9 may be rounding; one of 1 is not."""
    for size, has_passed in ((1e-9, False), (1.0, True)):
        jumps = SimpleNamespace(evaluate_triggers=lambda t, u, p, size=size: np.array([direction * size]))
        watched = _WatchedTrigger(jumps, 0, np.empty(0), 1, 0.0, direction)
        assert (direction * watched(1.0, np.array([1e6])) > 0) is has_passed


def test_switch_near_time_zero_is_on_at_its_own_time_up_to_rounding():
    """The time `0.1 + 0.2 - 0.3` of the switch is 6e-17 by rounding: zero is the same time."""
    jumps = Jumps(wf.Model.from_text("x' = if(t < a + b - c, 0, k)"))
    p = np.array([{"a": 0.1, "b": 0.2, "c": 0.3, "k": 1.0}[name] for name in jumps.parameters])
    assert 0 < jumps.list_scheduled_jumps(p)[0].time < 1e-15
    before, at = (jumps.evaluate_switches(t, np.zeros(1), p) for t in (-1e-9, 0.0))
    assert (before != at).all()
    assert (at == jumps.evaluate_switches(1.0, np.zeros(1), p)).all()
