"""Data as they come: each case against a truth, and the shapes of data that are refused."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from support import ALL
from weakform.basis.local import Local
from weakform.collocation.mesh import Mesh
from weakform.data.matching import system_of
from weakform.data.trajectory import Trajectory
from weakform.forward.solve import simulate
from weakform.model.inputs import Inputs
from weakform.noise.kinds import KINDS
from weakform.noise.level import uneven_squares
from weakform.parameters.priors import Priors
from weakform.support.errors import DataError, FitError, ModelError
from weakform.weak.likelihood import WeakLikelihood
from weakform.weak.problem import WeakProblem

LV = wf.problems.get("lotka-volterra")


def values_at(problem, times, noise, seed):
    grid = np.concatenate([[0.0], times]) if times[0] > 0 else times
    states = simulate(problem.model, problem.parameters, problem.initial, grid, rtol=1e-10).states[-len(times) :]
    sigma = noise * np.sqrt(np.mean(states**2))
    return states + sigma * np.random.default_rng(seed).standard_normal(states.shape)


def error(problem, fit):
    return np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters)


def jittered(n, duration, seed):
    times = np.linspace(0, duration, n)
    times[1:-1] += 0.3 * times[1] * np.random.default_rng(seed).uniform(-1, 1, n - 2)
    return times


# The pieces.


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n=st.integers(12, 80), degree=st.integers(0, 3))
def test_integration_by_parts_is_exact_for_cubics_at_uneven_times(seed, n, degree):
    t = np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, n))
    phi, dphi = Local().build(Trajectory(t, np.zeros((n, 1)))).dense()
    x, dx = (t - t[0]) ** degree, degree * (t - t[0]) ** max(degree - 1, 0)
    assert np.abs(dphi @ x + phi @ dx).max() <= 1e-9 * max(np.abs(x).max(), 1)


def test_bumps_do_not_bridge_gaps():
    t = np.concatenate([np.linspace(0, 10, 41), np.linspace(20, 30, 41)])
    functions = Local(radius=2.0).build(Trajectory(t, np.zeros((82, 1))))
    phi, _ = functions.dense()
    left, right = (phi[:, :41] != 0).any(axis=1), (phi[:, 41:] != 0).any(axis=1)
    assert not (left & right).any()
    assert left.any()
    assert right.any()


@pytest.mark.parametrize("name", ["lotka-volterra", "goodwin", "hindmarsh-rose"])
def test_derivatives_of_the_likelihood_with_gaps_uneven_times_and_correlated_noise(name):
    """Gradient and Hessian against differences where every generalisation is in use at once."""
    problem = wf.problems.get(name)
    rng = np.random.default_rng(3)
    t, u = problem.solution(90)
    keep = np.sort(rng.choice(91, 70, replace=False))
    t, u = t[keep], u[keep]
    D = u.shape[1]
    A = rng.standard_normal((D, D)) * 0.02
    size = 0.02 * np.sqrt(np.mean(u**2)) if problem.noise == "gaussian" else 0.02
    C = (A @ A.T + 0.001 * np.eye(D)) * size**2 * 100
    kind = KINDS[problem.noise]
    noisy = kind.from_working(kind.to_working(u) + rng.standard_normal(u.shape) @ np.linalg.cholesky(C).T)
    noisy[rng.uniform(size=len(t)) < 0.1] = np.nan
    data = wf.Dataset(t, noisy, problem.noise, C, names=problem.model.states)
    likelihood = WeakProblem.build(problem.model, data, Local()).likelihood()
    p = problem.parameters * 1.02
    found = likelihood(p, 2)
    for j in range(len(p)):
        h = 1e-4 * max(abs(p[j]), 1e-3)
        step = h * np.eye(len(p))[j]
        ends = [likelihood(p + s * step, 1) for s in (1, -1, 2, -2)]
        slope = (8 * (ends[0].value - ends[1].value) - (ends[2].value - ends[3].value)) / (12 * h)
        bend = (8 * (ends[0].gradient - ends[1].gradient) - (ends[2].gradient - ends[3].gradient)) / (12 * h)
        scale = np.abs(found.hessian[j]).max()
        assert slope == pytest.approx(found.gradient[j], rel=1e-4, abs=2e-6 * abs(found.value))
        assert np.abs(bend - found.hessian[j]).max() <= 5e-5 * scale


def test_correlated_noise_is_only_a_change_of_coordinates():
    """With a diagonal covariance the rotated problem has the same likelihood, up to a constant, as σ by state."""
    t, _ = LV.solution(80)
    noisy = values_at(LV, t, 0.05, 1)
    s = np.array([0.1, 0.3])
    one = WeakProblem.build(LV.model, wf.Dataset(t, noisy, sigma=s), Local()).likelihood()
    two = WeakProblem.build(LV.model, wf.Dataset(t, noisy, sigma=np.diag(s**2)), Local()).likelihood()
    p, q = LV.parameters, LV.parameters * 1.1
    assert one(p).value - one(q).value == pytest.approx(two(p).value - two(q).value, rel=1e-9)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_of_noise_go_there_and_back(kind):
    u = np.array([[0.5, 3.0], [20.0, 7.0]])
    k = KINDS[kind]
    assert np.allclose(k.from_working(k.to_working(u)), u)
    h = 1e-6
    assert np.allclose((k.to_working(u + h) - k.to_working(u - h)) / (2 * h), 1 / k.numeric_slope(u), rtol=1e-6)


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_noise_at_uneven_times(seed):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.2, 1.8, 400))
    squares, count = uneven_squares(t, np.sin(t / 20) + 0.1 * rng.standard_normal(400), np.ones(400))
    assert np.sqrt(squares / count) == pytest.approx(0.1, rel=0.2)


@pytest.mark.parametrize("hold", [False, True])
def test_mesh_with_inputs_scale_and_gaps_matches_differences(hold):
    model = wf.Model.from_text("x' = -a*x + b*q*y\ny' = q - c*y", inputs=["q"])
    rng = np.random.default_rng(2)
    t = np.cumsum(rng.uniform(0.1, 0.3, 12))
    data = wf.Dataset(t, rng.uniform(1, 2, (12, 2)), names=["x", "y"], inputs={"q": rng.integers(0, 3, 12)}, hold=hold)
    system = system_of(model, data, 0)
    mesh = Mesh(system, t, data.trajectories[0].values, rng.uniform(size=(12, 2)) < 0.8, np.full((12, 2), 0.5))
    p, x = np.array([0.5, 0.3, 0.8]), rng.uniform(1, 2, (12, 2))
    line = mesh.linearise(p, x)
    h = 1e-6
    for j in range(3):
        e = h * np.eye(3)[j]
        numeric = (mesh.defects(p + e, x) - mesh.defects(p - e, x)) / (2 * h)
        assert np.allclose(line.G[:, :, j], numeric, atol=1e-8)
    dx = rng.standard_normal((12, 2))
    numeric = (mesh.defects(p, x + h * dx) - mesh.defects(p, x - h * dx)) / (2 * h)
    assert np.allclose(line.apply(dx), numeric, atol=1e-8)


@settings(max_examples=40)
@given(
    value=st.floats(0.1, 5),
    centre=st.floats(0.1, 5),
    spread=st.floats(0.1, 2),
    lognormal=st.booleans(),
    log_scale=st.booleans(),
)
def test_priors_match_differences(value, centre, spread, lognormal, log_scale):
    m = np.log(centre) if lognormal else centre
    flags = (np.array([flag]) for flag in (lognormal, log_scale))
    prior = Priors(np.array([1]), np.array([m]), np.array([spread]), *flags)
    p, h = np.array([7.0, np.log(value) if log_scale else value, 3.0]), 1e-5
    e = h * np.eye(3)[1]
    slope = (prior.value(p + e) - prior.value(p - e)) / (2 * h)
    bend = (prior.gradient(p + e) - prior.gradient(p - e)) / (2 * h)
    assert slope == pytest.approx(prior.gradient(p)[1], rel=1e-5, abs=1e-6)
    assert bend[1] == pytest.approx(prior.hessian(p)[1, 1], rel=1e-5, abs=1e-6)
    assert prior.gradient(p)[0] == prior.gradient(p)[2] == 0


# Each case, against a truth.


@pytest.mark.parametrize("name", ALL)
def test_gaps_and_uneven_times_do_no_more_than_take_information(name):
    """A seeded check of benchmarks/designs.py: a third of the entries missing at jittered times."""
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
    assert error(problem, fit) < {"goodwin": 0.3, "protein-transduction": 0.15}.get(name, 0.06)
    off = np.abs(fit.estimate - problem.parameters) / fit.errors
    assert np.nanmax(off) < 4.5
    assert fit.goodness.p_value > 1e-3
    assert ("values missing" if len(problem.initial) > 1 else "without any value left out") in str(fit)


def test_what_is_not_measured_carries_no_weight():
    """A state observed at other times than the other gives the estimate of the joint likelihood, whatever is filled."""
    t, _ = LV.solution(200)
    noisy = values_at(LV, t, 0.03, 1)
    noisy[::2, 0] = np.nan
    noisy[1::2, 1] = np.nan
    fit = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds)
    exact = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds, method="hybrid")
    assert (np.abs(fit.estimate - exact.estimate) < 0.2 * fit.errors).all()
    assert error(LV, fit) < 0.03


def test_several_trajectories_share_parameters():
    parts = []
    for k, start in enumerate(([1.0, 1.0], [2.0, 3.0], [8.0, 1.5])):
        t = np.linspace(0, 3 + k, 40 + 10 * k)
        u = simulate(LV.model, LV.parameters, start, t).states
        parts.append(wf.Dataset(t, u + 0.1 * np.random.default_rng(k).standard_normal(u.shape), names=["u1", "u2"]))
    joint = wf.fit(LV.model, wf.Dataset.join(parts, ["a", "b", "c"]), bounds=LV.bounds)
    alone = [wf.fit(LV.model, part, bounds=LV.bounds) for part in parts]
    assert len(joint.denoised) == len(joint.basis) == 3
    assert (joint.errors < np.min([fit.errors for fit in alone], axis=0)).all()
    assert error(LV, joint) < 0.03
    assert "c: 60 samples" in str(joint)
    for k in range(3):
        assert np.allclose(joint.trajectory(k).states[0], joint.denoised[k][0])


@settings(max_examples=6)
@given(order=st.permutations(range(3)))
def test_the_order_of_trajectories_does_not_matter(order):
    t, _ = LV.solution(150)
    noisy = values_at(LV, t, 0.05, 3)
    parts = [wf.Dataset(t[k : k + 50], noisy[k : k + 50]) for k in (0, 50, 100)]
    one = wf.fit(LV.model, wf.Dataset.join(parts), bounds=LV.bounds)
    two = wf.fit(LV.model, wf.Dataset.join([parts[k] for k in order]), bounds=LV.bounds)
    assert np.allclose(one.estimate, two.estimate, rtol=1e-5)


def test_local_parameters():
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    parts, truth = [], {"a": 10.0, "b": 20.0, "c": 20.0}
    for k, K in enumerate(truth.values()):
        t = np.linspace(0, 12, 50)
        u = simulate(model, [K, 0.8], [1.0], t).states
        parts.append(wf.Dataset(t, u + 0.2 * np.random.default_rng(k).standard_normal(u.shape)))
    data = wf.Dataset.join(parts, list(truth))
    each = wf.fit(model, data, local=["K"], bounds={"K": (1, 100)})
    assert each.model.parameters == ("K_a", "K_b", "K_c", "r")
    for label, K in truth.items():
        assert each[f"K_{label}"].value == pytest.approx(K, rel=0.02)
    groups = wf.fit(model, data, local={"K": ["ten", "twenty", "twenty"]}, start={"K": 15.0, "r": 1.0}, starts=1)
    assert groups.model.parameters == ("K_ten", "K_twenty", "r")
    assert groups["K_twenty"].error < each["K_b"].error
    assert min(groups.r_squared.values()) > 0.98
    assert groups.predict([0.0, 12.0], trajectory=1).states[-1, 0] == pytest.approx(20, rel=0.05)
    with pytest.raises(FitError, match="several trajectories"):
        wf.fit(model, parts[0], local=["K"])


def test_own_noise_by_trajectory():
    t, u = LV.solution(120)
    rng = np.random.default_rng(1)
    quiet, loud = u + 0.05 * rng.standard_normal(u.shape), u + 1.0 * rng.standard_normal(u.shape)
    parts = [wf.Dataset(t, quiet), wf.Dataset(t, loud)]
    shared = wf.fit(LV.model, wf.Dataset.join(parts), bounds=LV.bounds)
    own = wf.fit(LV.model, wf.Dataset.join(parts, own_noise=True), bounds=LV.bounds)
    assert (own.errors < 0.4 * shared.errors).all()
    assert (np.abs(own.estimate - LV.parameters) < 4 * own.errors).all()
    given = [wf.Dataset(t, quiet, sigma=0.05), wf.Dataset(t, loud, sigma=1.0)]
    told = wf.fit(LV.model, wf.Dataset.join(given), bounds=LV.bounds)
    assert np.allclose(told.estimate, own.estimate, atol=own.errors.max())
    assert told.goodness.chi_square_p > 1e-3


def test_repeated_times_are_repeated_measurements():
    t, u = LV.solution(60)
    rng = np.random.default_rng(2)
    draws = [u + 0.2 * rng.standard_normal(u.shape) for _ in range(4)]
    order = np.argsort(np.tile(t, 4), kind="stable")
    repeated = wf.Dataset(np.tile(t, 4)[order], np.concatenate(draws)[order])
    assert repeated.samples == 61
    assert "183 repeated measurements" in repeated.notes[0]
    fit = wf.fit(LV.model, repeated, bounds=LV.bounds)
    mean = wf.fit(LV.model, wf.Dataset(t, np.mean(draws, axis=0)), bounds=LV.bounds)
    assert np.allclose(fit.estimate, mean.estimate, rtol=1e-3)
    assert fit.sigma == pytest.approx([0.2, 0.2], rel=0.15)  # of one measurement, not of the mean
    assert np.allclose(fit.errors, mean.errors, rtol=0.25)


def test_sigma_of_the_points():
    t, u = LV.solution(150)
    rng = np.random.default_rng(3)
    se = np.where(rng.uniform(size=u.shape) < 0.5, 0.05, 1.0)
    fit = wf.fit(LV.model, wf.Dataset(t, u + se * rng.standard_normal(u.shape), sigma=se), bounds=LV.bounds)
    blind = wf.fit(LV.model, wf.Dataset(t, u + se * rng.standard_normal(u.shape)), bounds=LV.bounds)
    assert (fit.errors < 0.5 * blind.errors).all()
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()
    assert fit.goodness.chi_square_p > 1e-3


def test_correlated_noise():
    t, u = LV.solution(200)
    C = np.array([[0.09, 0.085], [0.085, 0.09]])
    noisy = u + np.random.default_rng(4).standard_normal(u.shape) @ np.linalg.cholesky(C).T
    fit = wf.fit(LV.model, wf.Dataset(t, noisy, sigma=C), bounds=LV.bounds)
    plain = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds)
    assert (fit.errors < plain.errors).all()
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()
    assert fit.goodness.chi_square_p > 1e-3
    assert (fit.trajectory(kind="delta").upper >= fit.trajectory(kind="delta").lower).all()


def test_counts():
    model = wf.Model.from_text("S' = -b*S*I/1000\nI' = b*S*I/1000 - g*I")
    t = np.linspace(0, 40, 80)
    u = simulate(model, [0.8, 0.3], [980.0, 5.0], t).states
    data = wf.Dataset(t, np.random.default_rng(1).poisson(u).astype(float), "poisson", names=["S", "I"])
    fit = wf.fit(model, data)
    assert (np.abs(fit.estimate - [0.8, 0.3]) < 4 * fit.errors).all()
    assert fit.sigma == pytest.approx([1, 1], abs=0.25)


@pytest.mark.parametrize("hold", [True, False])
def test_known_inputs(hold):
    model = wf.Model.from_text("T' = a*Q - b*(T - 20)", inputs=["Q"])
    t = np.linspace(0, 60, 121)
    Q = np.where((t >= 10) & (t < 30), 50.0, 5.0)
    u = simulate(model, [0.05, 0.1], [20.0], t, inputs=Inputs(t, Q[:, None], "hold" if hold else "linear")).states
    data = wf.Dataset(t, u + 0.2 * np.random.default_rng(1).standard_normal(u.shape), inputs={"Q": Q}, hold=hold)
    for method in ("wendy", "hybrid", "mle"):
        fit = wf.fit(model, data, method=method)
        assert (np.abs(fit.estimate - [0.05, 0.1]) < (4 if method != "mle" else 12) * fit.errors).all()
    assert wf.fit(model, data).goodness.p_value > 1e-3
    assert wf.fit(model, data).predict([0.0, 100.0]).states[-1, 0] == pytest.approx(22.5, abs=0.3)


def test_held_inputs_are_solved_exactly():
    model = wf.Model.from_text("x' = q - k*x", inputs=["q"])
    inputs = Inputs(np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [0.0]]), "hold")
    at = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0])
    found = simulate(model, [2.0], [0.0], at, inputs=inputs, sensitivities=True).states[:, 0]
    rise = 0.5 * (1 - np.exp(-2 * 1.0))
    exact = [0, 0, 0, 0.5 * (1 - np.exp(-1.0)), rise, rise * np.exp(-2.0)]
    assert np.allclose(found, exact, atol=1e-7)


def test_inputs_of_a_function():
    model = wf.Model(lambda t, u, p, q: [-p[0] * u[0] + q[0]], ["x"], ["k"], inputs=["q"])
    assert str(model) == str(wf.Model.from_text("x' = -k*x + q", inputs=["q"]))


def test_second_order_equations_need_only_the_position():
    model = wf.Model.from_text("x'' = -k*sin(x) - c*x'")
    first = wf.Model.from_text("x' = v\nv' = -k*sin(x) - c*v")
    assert model.states == ("x", "x'")
    assert "x'' = " in str(model)
    t = np.linspace(0, 10, 300)
    u = simulate(first, [0.1, 4.0], [2.0, 0.0], t).states
    noisy = u + [0.02, 0.05] * np.random.default_rng(1).standard_normal(u.shape)
    half = wf.fit(model, wf.Dataset(t, noisy[:, 0], names=["x"]))
    both = wf.fit(first, wf.Dataset(t, noisy, names=["x", "v"]))
    for fit in (half, both):
        assert (np.abs(fit.estimate - [0.1, 4.0]) < 4 * fit.errors).all()
        assert fit["k"].value == pytest.approx(4.0, rel=0.01)
    assert half["k"].error > both["k"].error
    assert half.sigma[0] == pytest.approx(0.02, rel=0.15)
    assert set(half.r_squared) == {"x"}
    with pytest.raises(ModelError, match="only where there is an equation"):
        wf.Model.from_text("x' = -k*x'")


def test_tied_parameters():
    model = wf.Model.from_text("u1' = a*u1 - b*u1*u2\nu2' = -c*u2 + d*u1*u2")
    t, _ = LV.solution(150)
    data = wf.Dataset(t, values_at(LV, t, 0.05, 1))
    free = wf.fit(model, data)
    tied = wf.fit(model, data, tied={"c": "2*a", "d": "b"})
    assert tied.model.parameters == ("a", "b")
    assert tied.errors[0] < free["a"].error
    assert tied.derived(tied.tied["c"]).value == pytest.approx(2 * tied["a"].value)
    assert "c = 2*a" in str(tied)
    with pytest.raises(ModelError, match="unknown name 'z'"):
        wf.fit(model, data, tied={"c": "2*z"})


def test_log_scale_changes_the_interval_not_the_estimate():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.1, seed=1)
    plain = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0})
    log = wf.fit(problem.model, data, bounds=problem.bounds, fixed={"p3": 1.0}, log=["p1", "p4"])
    assert np.allclose(plain.estimate, log.estimate, atol=0.1 * plain.errors.max())
    assert np.allclose(plain.estimate, log.estimate, rtol=0.01)
    low, high = log["p1"].interval
    assert low > 0
    assert high / log["p1"].value == pytest.approx(log["p1"].value / low)
    assert np.allclose(log.errors, plain.errors, rtol=0.02)


def test_priors_are_measurements_of_parameters():
    model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    t = np.linspace(0, 3, 40)  # long before saturation: K is not determined
    u = simulate(model, [100.0, 0.8], [1.0], t).states
    data = wf.Dataset(t, u + 0.1 * np.random.default_rng(1).standard_normal(u.shape))
    bounds = {"K": (5, 1e4), "r": (0, 5)}
    free = wf.fit(model, data, bounds=bounds)
    for kind, spread in (("normal", 10.0), ("lognormal", 0.1)):
        for method in ("wendy", "hybrid", "mle"):
            fit = wf.fit(model, data, bounds=bounds, priors={"K": (kind, 100.0, spread)}, method=method)
            assert fit["K"].value == pytest.approx(100, abs=15)
            assert 7 < fit["K"].error < 12
            assert fit["r"].error < free["r"].error
    assert "prior" in str(wf.fit(model, data, bounds=bounds, priors={"K": ("normal", 100.0, 10.0)}))
    sharp = wf.fit(model, data, bounds=bounds, priors={"K": ("normal", 100.0, 1e-6)})
    fixed = wf.fit(model, data, bounds=bounds, fixed={"K": 100.0})
    assert sharp["r"].value == pytest.approx(fixed["r"].value, rel=1e-5)
    assert sharp["r"].error == pytest.approx(fixed["r"].error, rel=0.02)


def test_units_are_carried_to_the_report():
    data = LV.simulate(M=60, noise=0.05)
    assert "1/day" in str(wf.fit(LV.model, data, bounds=LV.bounds, units={"p1": "1/day", "time": "days"}))


# Real data.


def path(name):
    from pathlib import Path

    return Path(__file__).parent.parent / "examples" / name


def test_eyam():
    model = wf.Model.from_text("S' = -beta*S*I\nI' = beta*S*I - gamma*I")
    data = wf.Dataset.from_csv(path("eyam.csv"), time="time", names=["S", "I"], noise="poisson")
    fit = wf.fit(model, data, bounds={"beta": (0, 1), "gamma": (0, 20)})
    assert min(fit.r_squared.values()) >= 0.85
    assert fit.quantile(0.95) > 2.1  # Student's t: eight points know little
    assert "Only 8 samples" in str(fit)
    assert fit["gamma"].error / fit["gamma"].value > 0.04


@pytest.mark.parametrize("measured", [True, False])
def test_pendulum(measured):
    text = "theta' = omega\nomega' = k*sin(theta) - c*omega" if measured else "theta'' = k*sin(theta) - c*theta'"
    states = ["theta", "omega"] if measured else ["theta"]
    data = wf.Dataset.from_csv(path("pendulum.csv"), time="t", names=states, trajectory="segment")
    assert [q.label for q in data.trajectories] == ["id1", "id2", "id3", "id4", "val1", "val2"]
    fit = wf.fit(wf.Model.from_text(text), data)
    assert fit["k"].value == pytest.approx(64.29, rel=0.02)
    assert min(fit.r_squared.values()) > 0.99


def test_temperature_lab():
    model = wf.Model.from_text(
        "T1' = a1*Q1 - b1*(T1 - Ta) + c*(T2 - T1)\nT2' = a2*Q2 - b2*(T2 - Ta) + c*(T1 - T2)", inputs=["Q1", "Q2"]
    )
    data = wf.Dataset.from_csv(
        path("tclab.csv"),
        time="time_s",
        names={"T1": "T1_C", "T2": "T2_C"},
        inputs={"Q1": "Q1_pct", "Q2": "Q2_pct"},
        hold=True,
    )
    fit = wf.fit(model, data, fixed={"Ta": 20.8})
    assert min(fit.r_squared.values()) >= 0.95


def test_chemostat_is_read_with_its_gaps_and_the_model_is_rejected():
    model = wf.Model.from_text("algae' = a*algae - b*algae*rotifers\nrotifers' = -c*rotifers + d*algae*rotifers")
    data = wf.Dataset.from_csv(
        path("chemostat.csv"), time="day", names=["algae", "rotifers"], trajectory="experiment", noise="lognormal"
    )
    assert len(data.trajectories) == 10
    fit = wf.fit(model, data)
    assert fit.goodness.p_value < 1e-6
    assert "The model does not fit the data" in str(fit)
    assert "values missing" in str(fit)


# What is refused.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: wf.Dataset.join([]), "list of datasets"),
        (lambda: wf.Dataset.join([LV.simulate(M=20), wf.problems.get("logistic").simulate(M=20)]), "other names"),
        (lambda: wf.Dataset.join([LV.simulate(M=20)] * 2, ["a", "a"]), "different labels"),
        (lambda: wf.Dataset([0, 1, 2] * 4, np.arange(12.0)), "Dataset.join"),
        (lambda: wf.Dataset(np.arange(9.0), np.r_[1.0, np.full(8, np.nan)]), "received 1"),
        (lambda: wf.Dataset(np.arange(9.0), np.c_[np.arange(9.0), [1, 2] + 7 * [np.nan]]), "only 2 measured"),
        (lambda: wf.Dataset(np.arange(9.0), np.arange(9.0), sigma=np.ones((3, 2))), "sigma of the points"),
        (lambda: wf.Dataset(np.arange(9.0), np.ones((9, 2)), sigma=[[1, 2], [2, 1]]), "positive definite"),
        (lambda: wf.Dataset(np.arange(9.0), np.arange(9.0), inputs={"q": np.ones(4)}), "one value for each time"),
        (lambda: wf.Dataset(np.arange(9.0), np.arange(9.0), inputs={"q": np.full(9, np.nan)}), "must be known"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": 3}), "prior of 'p1' must be"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": ("normal", 1, -1)}), "positive spread"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), priors={"p1": ("normal", 1, 1)}, method="wls"), "no likelihood"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), log="p1"), "list of names"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p9"]), "Unknown parameter 'p9'"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p1"], start=[-1, 1, 1, 1]), "must be positive"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), log=["p1"], bounds={"p1": (-1, 1)}), "cannot be negative"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), tied={"p1": 3}), "as text"),
        (lambda: wf.fit(LV.model, LV.simulate(M=50), units={"p1": 3}), "units must be"),
        (
            lambda: wf.fit(
                wf.Model.from_text("u' = a*u + q", inputs=["q"]), wf.Dataset(np.arange(9.0), np.arange(9.0))
            ),
            "input 'q'",
        ),
        (lambda: simulate(wf.Model.from_text("u' = a*u + q", inputs=["q"]), [1], [1], [0, 1]), "needs the inputs"),
        (lambda: wf.Model.from_text("u' = a*u", inputs=["q"]), "input 'q' does not occur"),
    ],
)
def test_one_clear_error(make, words):
    with pytest.raises(wf.WeakformError, match=words):
        make()


def test_tables_with_roles(tmp_path):
    frame = pd.DataFrame(
        {
            "who": ["x"] * 12 + ["y"] * 12,
            "when": np.tile(np.arange(12.0), 2),
            "Pelts of hare": np.random.default_rng(1).uniform(1, 2, 24),
            "se": 0.1,
            "heat": np.arange(24.0),
        }
    )
    file = tmp_path / "t.csv"
    frame.to_csv(file, index=False)
    roles = {
        "time": "when",
        "names": {"hare": "Pelts of hare"},
        "sigma": {"hare": "se"},
        "inputs": ["heat"],
        "trajectory": "who",
    }
    for data in (wf.Dataset.from_csv(file, **roles), wf.Dataset.from_frame(frame, **roles)):
        assert data.names == ("hare",)
        assert [q.label for q in data.trajectories] == ["x", "y"]
        assert data.trajectories[1].inputs.values[0, 0] == 12
        assert np.allclose(data.trajectories[0].scale * data.sigma, 0.1)
    with pytest.raises(DataError, match="y: Times must not decrease"):
        wf.Dataset.from_frame(frame.iloc[::-1], **roles)


def test_weak_likelihood_adds_over_trajectories():
    t, _ = LV.solution(100)
    noisy = values_at(LV, t, 0.05, 1)
    parts = [wf.Dataset(t[:50], noisy[:50], sigma=0.2), wf.Dataset(t[50:], noisy[50:], sigma=0.2)]
    joint = WeakProblem.build(LV.model, wf.Dataset.join(parts), Local()).likelihood()(LV.parameters, 2)
    each = [WeakProblem.build(LV.model, part, Local()).likelihood()(LV.parameters, 2) for part in parts]
    assert isinstance(WeakProblem.build(LV.model, parts[0], Local()).likelihood(), WeakLikelihood)
    assert joint.value == pytest.approx(sum(e.value for e in each))
    assert np.allclose(joint.hessian, sum(e.hessian for e in each))
