"""Predictions: forward solutions of a fit, with bands that cover the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from support import LINEAR, LV, decay
from weakform.forward.solver import simulate
from weakform.inference import prediction, state_bands
from weakform.inference.state_bands import BandBuilder, JointEstimate
from weakform.noise.kinds import KINDS
from weakform.support.errors import DataError, FitError


def test_trajectory_is_the_forward_solution_of_the_estimate():
    fit = wf.fit(LINEAR, decay(1))
    drawn = fit.trajectory()
    solved = simulate(LINEAR, fit.estimate, fit.denoised[0][0], drawn.times)
    assert np.allclose(drawn.states, solved.states, rtol=1e-6)
    assert set(decay(1).trajectories[0].times) <= set(drawn.times)
    assert (drawn.lower < drawn.states).all()
    assert (drawn.states < drawn.upper).all()
    assert drawn["u"].shape == (len(drawn.times), 3)
    with pytest.raises(KeyError, match="No state 'v'"):
        drawn["v"]


def test_delta_band_agrees_with_linear_theory():
    fit = wf.fit(LINEAR, decay(2))
    t = fit.data.trajectories[0].times
    k, u0 = fit.estimate[0], fit.denoised[0][0, 0]
    K = np.column_stack([-t * u0 * np.exp(-k * t), np.exp(-k * t)]) / fit.sigma[0]
    C = np.linalg.inv(K.T @ K)
    at = np.array([0.0, 1.0, 5.0])
    S = np.column_stack([-at * u0 * np.exp(-k * at), np.exp(-k * at)])
    half = fit.quantile(0.95) * np.sqrt(np.einsum("ti,ij,tj->t", S, C, S))
    band = fit.predict(at, kind="delta")
    assert np.allclose(band.upper[:, 0] - band.states[:, 0], half, rtol=2e-3)


def test_bands_cover_the_truth_over_the_data_and_beyond():
    at = np.linspace(0, 6, 13)
    truth = 2 * np.exp(-0.7 * at)
    inside = np.zeros(len(at))
    for seed in range(100):
        band = wf.fit(LINEAR, decay(seed)).predict(at)
        inside += (band.lower[:, 0] <= truth) & (truth <= band.upper[:, 0])
    assert (inside >= 87).all()
    assert inside.mean() <= 99


def test_sampling_agrees_with_delta_if_solutions_are_linear_and_is_chosen_if_not():
    fit = wf.fit(LINEAR, decay(3, n=200, sigma=0.01))
    at = np.linspace(0.5, 3, 6)
    delta, sampled = fit.predict(at, kind="delta"), fit.predict(at, kind="sampling", seed=1)
    assert fit.predict(at).kind == "delta"
    assert np.allclose(delta.upper - delta.lower, sampled.upper - sampled.lower, rtol=0.25)
    assert np.array_equal(fit.predict(at, kind="sampling", seed=1).lower, sampled.lower)
    problem = wf.problems.get("lotka-volterra")
    noisy = wf.fit(problem.model, problem.simulate(M=40, noise=0.3, seed=1), bounds=problem.bounds)
    assert noisy.predict(np.linspace(0, 20, 50)).kind == "sampling"


@pytest.mark.slow
def test_log_normal_bands_stay_positive():
    problem = wf.problems.get("goodwin")
    fit = wf.fit(problem.model, problem.simulate(M=128, noise=0.2, seed=1), bounds=problem.bounds)
    for kind in ("delta", "sampling"):
        assert (fit.trajectory(kind=kind).lower > 0).all()


def test_a_known_initial_state_has_no_band():
    fit = wf.fit(LINEAR, decay(4))
    band = fit.predict([1.0, 2.0], initial=[3.0])
    assert band.states[0, 0] == 3.0
    assert band.lower[0, 0] == band.upper[0, 0] == 3.0
    assert band.upper[1, 0] > band.lower[1, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param({"times": [-1.0, 2.0]}, "begins at t = 0", id="before the data"),
        pytest.param({"times": [2.0, 1.0]}, "increase", id="backwards"),
        pytest.param({"times": ["a"]}, "numbers", id="text"),
        pytest.param({"times": [1.0], "initial": [1.0, 2.0]}, "1 numbers", id="two initial values"),
        pytest.param({"times": [1.0], "trajectory": 3}, "there is one, number 0", id="no such trajectory"),
        pytest.param({"times": [1.0], "kind": "bayes"}, "kind of band", id="unknown band"),
        pytest.param({"times": [1.0], "level": 95}, "between 0 and 1", id="level in per cent"),
    ],
)
def test_invalid_arguments_are_refused(arguments, words):
    fit = wf.fit(LINEAR, decay(5))
    with pytest.raises((DataError, FitError), match=words):
        fit.predict(**arguments)


def test_bands_of_correlated_noise_contain_the_solution():
    t, u = LV.solution(80)
    C = np.array([[0.09, -0.085], [-0.085, 0.09]])
    noisy = u + np.random.default_rng(4).standard_normal(u.shape) @ np.linalg.cholesky(C).T
    fit = wf.fit(LV.model, wf.Dataset(t, noisy, sigma=C), bounds=LV.bounds)
    band = fit.predict(t[::8], kind="sampling")
    assert (band.lower < band.upper).all()
    assert ((band.lower <= band.states) & (band.states <= band.upper)).mean() > 0.9


def test_note_says_that_inputs_are_held_outside_the_data():
    t = np.linspace(0, 10, 50)
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    fit = wf.fit(model, wf.Dataset(t, np.exp(-t) + 0.01 * np.sin(20 * t), inputs={"q": 0 * t}))
    assert "keep their nearest value" in fit.predict([0.0, 20.0]).note
    assert fit.predict([0.0, 5.0]).note == ""
    assert fit.predict([0.0, 10.0]).note == ""  # the last sample is inside


@pytest.mark.slow
def test_bands_cover_the_truth_after_a_state_has_decayed():
    """The linearised band is right where it is wide, and far too short where the state has decayed."""
    model = wf.Model.from_text("x' = -v*x/(K + x)\ny' = v*x/(K + x) - d*y")
    t, later = np.linspace(0, 5, 14), [2.0, 3.0, 4.5, 5.0, 6.0]
    truth = {"v": 1.5, "K": 0.5, "d": 0.4}
    u = wf.simulate(model, truth, [4.0, 0.1], t).states
    solution = wf.simulate(model, truth, [4.0, 0.1], [0.0, *later]).states[1:, 0]
    inside = []
    for seed in range(12):
        data = wf.Dataset(t, u + 0.1 * np.random.default_rng(seed).standard_normal(u.shape), names=["x", "y"])
        band = wf.fit(model, data, bounds={"K": (0.01, 20)}).predict(later)
        inside.append((band.lower[:, 0] <= solution) & (solution <= band.upper[:, 0]))
    assert np.mean(np.array(inside)[:, 2:]) > 0.8  # 57% by the delta method


@pytest.mark.parametrize(("off", "close"), [((0.1, 0.1), True), ((0.1, 1.0), False), ((np.nan, 0.1), False)])
def test_a_solution_is_drawn_only_if_each_state_stays_close_to_the_fitted_one(monkeypatch, off, close):
    states = np.tile([[0.0, 0.0], [2.0, 2.0]], (5, 1))  # of standard deviation one
    monkeypatch.setattr(prediction, "solve_at_samples", lambda fit, trajectory: states + np.array(off))
    assert prediction.is_solution_close(SimpleNamespace(denoised=(states,)), 0) is close


@pytest.mark.parametrize("bound", [0.0, 1.0])
def test_draws_for_a_band_respect_other_bounds_if_one_parameter_is_held_at_its_bound(monkeypatch, bound):
    model = wf.Model.from_text("u' = c - k*u")
    assert model.parameters == ("c", "k")
    fit = wf.fit(model, decay(3), bounds={"c": (0.0, 1.0), "k": (0.5, 1.0)})
    joint = JointEstimate(np.array([bound, 0.7, 2.0]), np.diag([0.0, 0.3**2, 0.1**2]), is_given=False)
    builder = BandBuilder(fit, 0, np.linspace(0, 3, 4), 0.0, joint)
    monkeypatch.setattr(builder, "_solve_moved", lambda theta: joint.mean + theta)
    c, k, _ = np.array(list(builder._draw_normal(0))).T
    assert (c == bound).all()
    assert k.min() >= 0.5
    assert k.max() <= 1.0


def test_draws_for_a_band_are_inside_the_bounds_and_not_piled_up_at_them(monkeypatch):
    fit = wf.fit(LINEAR, decay(3), bounds={"k": (0.5, 1.0)})
    joint = JointEstimate(np.array([0.7, 2.0]), np.diag([0.3**2, 0.1**2]), is_given=False)
    builder = BandBuilder(fit, 0, np.linspace(0, 3, 4), 0.0, joint)
    monkeypatch.setattr(builder, "_solve_moved", lambda theta: joint.mean + theta)
    k, u0 = np.array(list(builder._draw_normal(0))).T
    assert k.min() >= 0.5
    assert k.max() <= 1.0
    assert np.ptp(k) > 0.4
    # The initial value has no bounds: it is normal.
    assert u0.mean() == pytest.approx(2.0, abs=0.03)
    assert u0.std() == pytest.approx(0.1, rel=0.2)


def test_linearised_band_of_correlated_noise_is_in_the_units_of_the_states():
    """Only the rate k of x = 2 exp(-k t) is uncertain, by s: the band is x ± z t x s, and that of y has no width."""
    C = np.array([[0.0025, 0.001], [0.001, 0.0016]])
    model, t = wf.Model.from_text("x' = -k*x\ny' = -m*y"), np.linspace(0, 5, 20)
    u = wf.simulate(model, [0.5, 0.2], [2.0, 3.0], t).states
    noisy = u + np.random.default_rng(0).multivariate_normal([0.0, 0.0], C, len(t))
    fit = wf.fit(model, wf.Dataset(t, noisy, sigma=C, names=["x", "y"]))
    joint = JointEstimate(np.array([0.5, 0.2, 2.0, 3.0]), np.diag([0.1**2, 0.0, 0.0, 0.0]), is_given=True)
    band = BandBuilder(fit, 0, np.array([0.0, 1.0, 4.0]), 0.0, joint).build_prediction(0.95, 3.0, "delta", 0)
    half = 3.0 * band.times * 2 * np.exp(-0.5 * band.times) * 0.1
    for end, sign in ((band.lower, -1), (band.upper, 1)):
        assert sign * (end - band.states)[:, 0] == pytest.approx(half, rel=1e-4, abs=1e-12)
        assert end[:, 1] == pytest.approx(band.states[:, 1], rel=1e-9)


@pytest.mark.parametrize(("failed", "is_finite"), [(100, True), (399, False)])
def test_share_of_draws_that_could_not_be_solved_is_reported(monkeypatch, failed, is_finite):
    fit = wf.fit(LINEAR, decay(3))
    joint = JointEstimate(np.array([0.7, 2.0]), np.diag([0.1**2, 0.1**2]), is_given=False)
    builder = BandBuilder(fit, 0, np.linspace(0, 3, 4), 0.0, joint)
    solution = 2 * np.exp(-0.7 * builder.times)[:, None]
    monkeypatch.setattr(BandBuilder, "_can_refit", False)
    monkeypatch.setattr(builder, "_draw_normal", lambda seed: iter([None] * failed + [solution] * (400 - failed)))
    band = builder.build_prediction(0.95, 1.96, "sampling", 0)
    assert f"could not be solved for {failed / 400:.0%} of the draws" in band.note
    assert np.isfinite(band.lower).all() == is_finite


@pytest.mark.parametrize(("last_error", "last_upper"), [(0.1, 0.5), (0.0, 0.0)], ids=["decayed", "known to be zero"])
def test_band_of_a_state_at_zero_reaches_to_its_last_resolved_value_unless_zero_is_certain(
    monkeypatch, last_error, last_upper
):
    fit = wf.fit(LINEAR, decay(3))
    joint = JointEstimate(np.array([0.7, 2.0]), np.diag([0.1**2, 0.1**2]), is_given=False)
    monkeypatch.setattr(BandBuilder, "_can_pin", lambda self, kind: False)
    builder = BandBuilder(fit, 0, np.linspace(0, 3, 4), 0.0, joint)
    builder.fit = SimpleNamespace(data=fit.data, nodes=((builder.times,),))

    class LinearisedProfiler:
        """Ends at `z` standard errors, on a log scale."""

        kinds, logs = (KINDS["lognormal"],), (True,)

        def __init__(self, *arguments):
            pass

        def find_ends(self, requests, z):
            return [np.full((2, len(request.errors)), z) for request in requests]

    monkeypatch.setattr(state_bands, "StateProfiler", LinearisedProfiler)
    x = np.array([[2.0], [1.0], [0.5], [0.0]])
    error = np.array([[0.1], [0.1], [0.1], [last_error]])
    lower, upper, _ = builder._profile_columns(x, error, np.array([0]), 2.0, watch=None)
    # On a log scale an error of 0.1 is the share 0.1/x.
    share = 2.0 * 0.1 / np.array([2.0, 1.0, 0.5])
    assert lower[:3, 0] == pytest.approx(x[:3, 0] * np.exp(-share))
    assert upper[:3, 0] == pytest.approx(x[:3, 0] * np.exp(share))
    assert lower[3, 0] == 0.0
    # The last resolved value has a band of its own; the state has decayed from its upper end.
    assert upper[3, 0] == pytest.approx(last_upper * np.exp(share[2]))
