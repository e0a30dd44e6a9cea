"""`fit_batch` gives what `fit` gives for each dataset, in the shape of what came in."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

import weakform as wf
from weakform import DataError, FitError, Status
from weakform.engine import lane_iteration, passes
from weakform.experiments import batch as batch_module

T = np.linspace(0, 6, 40)
LOGISTIC = wf.Model.from_text("N' = r*N*(1 - N/K)")
RATES = np.array([0.8, 1.0, 1.2, 1.5, 1.1, 0.9])


def grow(r=RATES, K=4.0, N0=0.5, times=T):
    """Return solutions of logistic growth, `(*shape of r, time)`."""
    return K / (1 + (K / N0 - 1) * np.exp(-np.asarray(r)[..., None] * times))


def draw(shape, sigma=0.05, seed=0):
    return sigma * np.random.default_rng(seed).standard_normal(shape)


GROWTH = grow() + draw((6, 40))


def assert_like_single(batch, place, single, names=None, errors=1e-3):
    """Assert that one row of a batch is a single fit: estimates within 1e-3 standard errors, and what follows."""
    index = [single.model.parameters.index(name) for name in batch.parameters]
    assert batch.status[place] is single.status
    inner = ~single.at_bound[index]
    wald = single.wald_errors[index]
    off = np.abs(batch.estimates[place] - single.estimate[index])
    assert (off[inner] <= errors * wald[inner]).all(), off / wald
    assert batch.estimates[place][~inner] == pytest.approx(single.estimate[index][~inner], rel=1e-9)
    covariance = single.covariance[np.ix_(index, index)]
    size = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.array_equal(np.isnan(batch.covariance[place]), np.isnan(covariance))
    assert (np.abs(batch.covariance[place] - covariance) <= 5e-3 * size)[~np.isnan(covariance)].all()
    assert batch.sigmas[place] == pytest.approx(single.sigma, rel=1e-3)
    assert batch.log_likelihood[place] == pytest.approx(single.log_likelihood, rel=1e-6, abs=1e-3)
    p, expected = batch.p_value[place], single.goodness.p_value
    assert np.isnan(p) == np.isnan(expected)
    if expected > 0.2:  # smaller ones are drawn; about one half, one may be the limit and the other by moments
        assert p == pytest.approx(expected, rel=0.15)


# ---- Against single fits ----


@pytest.mark.parametrize("name", wf.problems.names())
def test_benchmark_problems_are_fitted_as_by_fit(name):
    problem = wf.problems.get(name)
    M, noise = (256, 0.05) if name in ("lorenz", "hindmarsh-rose") else (64, 0.03)
    data = [problem.simulate(M=M, noise=noise, seed=seed) for seed in range(3)]
    Y = np.array([d.trajectories[0].values for d in data])
    times, states = data[0].trajectories[0].times, list(problem.model.states)
    batch = wf.fit_batch(problem.model, times, Y, names=states, noise=data[0].noise, bounds=problem.bounds, workers=1)
    for k in range(2):
        single = wf.fit(problem.model, data[k], bounds=problem.bounds)
        assert batch.status[k].success == single.success
        if single.success:
            assert_like_single(batch, k, single)
    assert batch.columns == problem.model.states
    assert batch.fitted_singly == 0


COMPARTMENTS = wf.Model.from_text("C' = Ktrans*cp - kep*C\nS = C + vp*cp\nC(0) = 0", inputs=["cp"])
"""Tofts' extended model: a hidden state, an observable that contains the input, and an initial value that is known."""


def measure_compartments(times, cp, Ktrans=0.25, kep=0.6, vp=0.05):
    """Return the observable of `COMPARTMENTS` for an input that is linear between the times, `(time,)`."""
    fine = np.linspace(times[0], times[-1], 20_001)
    h = fine[1] - fine[0]
    weights = np.exp(kep * fine) * np.interp(fine, times, cp)
    integral = np.concatenate([[0], np.cumsum((weights[1:] + weights[:-1]) * h / 2)])
    return np.interp(times, fine, Ktrans * np.exp(-kep * fine) * integral) + vp * cp


def draw_compartments(sets):
    times = np.linspace(0, 5, 50)
    peaks = 5 + np.arange(sets)
    cp = peaks[:, None] * times * np.exp(-2 * times) + 0.3 * (1 - np.exp(-times))
    exact = np.array([measure_compartments(times, one) for one in cp])
    return times, cp, exact + draw(exact.shape, 0.005)


def test_hidden_states_with_an_input_for_each_dataset():
    """One chunk has more than eight lanes, so that groups have inputs of their own."""
    times, cp, S = draw_compartments(20)
    bounds = {"Ktrans": (0.001, 2), "kep": (0.01, 5), "vp": (0, 0.3)}
    batch = wf.fit_batch(COMPARTMENTS, times, S, names=["S"], inputs={"cp": cp}, bounds=bounds)
    assert batch.fitted_singly == 0
    for k in (0, 9, 19):
        data = wf.Dataset(times, S[k], names=["S"], inputs={"cp": (times, cp[k])})
        assert_like_single(batch, k, wf.fit(COMPARTMENTS, data, bounds=bounds))
    assert batch.success.mean() > 0.8
    assert np.abs((batch.estimate["Ktrans"] - 0.25) / batch.standard_errors["Ktrans"]).max() < 4


def test_an_input_that_all_datasets_share():
    times, cp, _ = draw_compartments(3)
    S = measure_compartments(times, cp[0]) + draw((9, 50), 0.005)
    bounds = {"Ktrans": (0.001, 2), "kep": (0.01, 5), "vp": (0, 0.3)}
    batch = wf.fit_batch(COMPARTMENTS, times, S, names=["S"], inputs={"cp": cp[0]}, bounds=bounds)
    own = wf.fit_batch(COMPARTMENTS, times, S, names=["S"], inputs={"cp": np.tile(cp[0], (9, 1))}, bounds=bounds)
    assert own.estimates == pytest.approx(batch.estimates, rel=1e-3)
    single = wf.fit(COMPARTMENTS, wf.Dataset(times, S[4], names=["S"], inputs={"cp": (times, cp[0])}), bounds=bounds)
    assert_like_single(batch, 4, single)


@pytest.mark.parametrize("own", [False, True])
def test_held_inputs_that_jump_between_samples(own):
    """X' = k (u - x) with steps of u at 1.37 and 3.9, different in each dataset."""
    model = wf.Model.from_text("x' = k*(u - x)", inputs=["u"])
    t, steps, k = np.linspace(0, 6, 40), np.array([0.0, 1.37, 3.9]), 1.3
    levels = np.array([[1.0, 3.0, 0.5], [2.0, 0.0, 4.0], [1.0, 1.0, 5.0]]) if own else np.tile([1.0, 3.0, 0.5], (3, 1))

    def solve(u):
        x1 = u[0] + (0.2 - u[0]) * np.exp(-k * 1.37)
        x2 = u[1] + (x1 - u[1]) * np.exp(-k * (3.9 - 1.37))
        late = np.where(
            t < 3.9, u[1] + (x1 - u[1]) * np.exp(-k * (t - 1.37)), u[2] + (x2 - u[2]) * np.exp(-k * (t - 3.9))
        )
        return np.where(t < 1.37, u[0] + (0.2 - u[0]) * np.exp(-k * t), late)

    Y = np.array([solve(u) for u in levels]) + draw((3, 40), 0.02)
    batch = wf.fit_batch(model, t, Y, inputs={"u": (steps, levels if own else levels[0], "hold")})
    for n in range(3):
        single = wf.fit(model, wf.Dataset(t, Y[n], inputs={"u": (steps, levels[n], "hold")}))
        assert_like_single(batch, n, single)
    assert np.abs((batch.estimate["k"] - k) / batch.standard_errors["k"]).max() < 4


def test_the_error_of_the_rule_is_the_same_whether_inputs_are_shared_or_own():
    """A held input that jumps at every sample, on the coarsest mesh."""
    model = wf.Model.from_text("x' = k*(u - x)\ny' = c*(x - y)", inputs=["u"])
    times, k, c = np.linspace(0, 9, 19), 1.3, 0.7
    levels = np.tile([1.0, 3.0, 0.5, 2.0, 4.0], 4)[:19]
    states = [(0.2, 0.5)]
    for u, h in zip(levels, np.diff(times), strict=False):
        x, y = states[-1]
        part = c * (x - u) / (c - k)
        fast, slow = np.exp(-k * h), np.exp(-c * h)
        states.append((u + (x - u) * fast, u + part * fast + (y - u - part) * slow))
    Y = np.array(states) + draw((9, 19, 2), 0.05)
    settings = {"bounds": {"k": (0.1, 10), "c": (0.1, 10)}}
    shared = wf.fit_batch(model, times, Y, inputs={"u": (times, levels, "hold")}, **settings)
    own = wf.fit_batch(model, times, Y, inputs={"u": (times, np.tile(levels, (9, 1)), "hold")}, **settings)
    assert (shared.bias > 1e-9).all()
    assert own.bias == pytest.approx(shared.bias, rel=1e-3)
    assert own.estimates == pytest.approx(shared.estimates, rel=1e-4)


def test_doses_and_initial_values():
    """A one-compartment model with absorption, two doses; the closed solution is a sum of exponentials."""
    model = wf.Model.from_text("A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 0\nC(0) = 0")
    t = np.linspace(0.5, 20, 40)

    def bateman(t, ka, ke, V, dose):
        after = np.maximum(t, 0)
        return np.where(t > 0, dose * ka / V / (ka - ke) * (np.exp(-ke * after) - np.exp(-ka * after)), 0)

    truth = (1.2, 0.2, 10.0)
    C = bateman(t, *truth, 100.0) + bateman(t - 8, *truth, 50.0)
    Y = C + draw((10, 40), 0.1)
    doses = [wf.Doses("A", [0, 8], [100, 50])]
    settings = {"bounds": {"ka": (0.3, 10), "ke": (0.01, 0.5), "V": (1, 100)}, "log": ["ka", "ke", "V"]}
    batch = wf.fit_batch(model, t, Y, names=["C"], doses=doses, **settings)
    assert batch.fitted_singly == 0
    for k in (0, 9):
        single = wf.fit(model, wf.Dataset(t, Y[k], names=["C"], doses=doses), **settings)
        assert_like_single(batch, k, single)
    for name, value in zip(("ka", "ke", "V"), truth, strict=True):
        assert np.abs((batch.estimate[name] - value) / batch.standard_errors[name]).max() < 4


def test_few_samples_of_a_relaxation_oscillator_are_fitted_as_by_fit():
    """The voltage of FitzHugh and Nagumo's neuron, one sample a unit of time."""
    model = wf.Model.from_text("V' = c*(V - V**3/3 + R)\nR' = -(V - a + b*R)/c")
    times = np.linspace(0, 20, 21)
    truth = {"a": 0.2, "b": 0.2, "c": 3.0}
    V = wf.simulate(model, truth, {"V": -1.0, "R": 1.0}, times).states[:, 0]
    Y = V + draw((3, 21), 0.07)
    bounds = {"a": (-1, 1), "b": (-1, 1), "c": (0.5, 10)}
    batch = wf.fit_batch(model, times, Y, names=["V"], bounds=bounds)
    for k in range(3):
        single = wf.fit(model, wf.Dataset(times, Y[k], names=["V"]), bounds=bounds)
        # The batch takes a coarser mesh, and subtracts the error of the rule from the estimate to first order.
        assert batch.status[k] is single.status
        assert (np.abs(batch.estimates[k] - single.estimate) <= 0.03 * single.wald_errors).all()
        assert batch.log_likelihood[k] == pytest.approx(single.log_likelihood, abs=0.05)


def test_lognormal_noise_of_measured_and_of_hidden_states():
    Y = np.exp(np.log(grow()) + draw((6, 40), 0.1))
    batch = wf.fit_batch(LOGISTIC, T, Y, noise="lognormal")
    assert_like_single(batch, 2, wf.fit(LOGISTIC, wf.Dataset(T, Y[2], noise="lognormal")))
    model = wf.Model.from_text("A' = -k*A\nB' = k*A - m*B\nA(0) = 5\nB(0) = 0.1\ny = s*B")
    A, t = 5.0, np.linspace(0.2, 5, 30)
    B = 0.1 * np.exp(-0.5 * t) + A * 1.4 / (0.5 - 1.4) * (np.exp(-1.4 * t) - np.exp(-0.5 * t))
    y = 3 * B * np.exp(draw((5, 30), 0.05))
    settings = {"bounds": {"k": (0.8, 5), "m": (0.05, 0.8), "s": (0.1, 30)}}
    batch = wf.fit_batch(model, t, y, names=["y"], noise=["lognormal"], **settings)
    single = wf.fit(model, wf.Dataset(t, y[3], names=["y"], noise="lognormal"), **settings)
    assert_like_single(batch, 3, single)


def test_missing_values_are_left_out():
    Y = GROWTH.copy()
    Y[1, 5:9], Y[3, 0], Y[4, -1] = np.nan, np.nan, np.nan
    batch = wf.fit_batch(LOGISTIC, T, Y)
    for k in (1, 3, 4):
        # `fit` leaves the times of the missing values out, and has a wider interval there.
        assert_like_single(batch, k, wf.fit(LOGISTIC, wf.Dataset(T, Y[k])), errors=5e-3)
    full = wf.fit_batch(LOGISTIC, T, GROWTH)
    for k in (0, 2, 5):
        assert batch.estimates[k] == pytest.approx(full.estimates[k], rel=1e-5)


def test_a_memory_mapped_array_is_read_in_pieces(tmp_path, monkeypatch):
    """Its values are not checked before: a logarithm of zero is a missing value."""
    monkeypatch.setattr(batch_module, "MAX_CHUNK_SETS", 8)
    monkeypatch.setattr(batch_module, "MIN_CHUNK_SETS", 8)
    Y = np.exp(np.log(np.tile(grow(), (3, 1))) + draw((18, 40), 0.05)).astype(np.float32)
    missing = Y.copy()
    Y[11, 3], missing[11, 3] = 0.0, np.nan
    path = tmp_path / "curves.npy"
    np.save(path, Y)
    mapped = wf.fit_batch(LOGISTIC, T, np.load(path, mmap_mode="r"), noise="lognormal", bounds={"K": (1, 10)})
    batch = wf.fit_batch(LOGISTIC, T, missing, noise="lognormal", bounds={"K": (1, 10)})
    assert np.array_equal(mapped.estimates, batch.estimates)
    assert mapped.success.mean() > 0.8


LV = wf.problems.get("lotka-volterra")
PREY = np.array([LV.simulate(M=48, noise=0.03, seed=seed).trajectories[0].values for seed in range(4)])
TIMES = LV.simulate(M=48, noise=0.03, seed=0).trajectories[0].times


SIGMA = np.linspace(0.17, 0.22, 4 * 49 * 2).reshape(4, 49, 2)
"""About the noise of `PREY`."""


@pytest.mark.parametrize("part", [(0, 0, 0), (0, 0), (slice(None), slice(1), slice(1)), (0, slice(None), slice(1)),
                                  (slice(None), slice(1)), 0, ...], ids=str)  # fmt: skip
def test_sigma_in_any_shape_that_broadcasts(part):
    """The results of `fit` with the same σ of each value."""
    sigma = SIGMA[part]
    batch = wf.fit_batch(LV.model, TIMES, PREY, sigma=sigma, bounds=LV.bounds)
    own = np.broadcast_to(sigma, PREY.shape)[2]
    single = wf.fit(LV.model, wf.Dataset(TIMES, PREY[2], sigma=own), bounds=LV.bounds)
    assert np.abs((batch.estimates[2] - single.estimate) / single.wald_errors).max() < 1e-3
    assert batch.covariance[2] == pytest.approx(single.covariance, rel=5e-3)
    assert batch.log_likelihood[2] == pytest.approx(single.log_likelihood, rel=1e-6)
    assert batch.status[2] is single.status
    assert single.goodness.portmanteau_p > 0.05
    # The test for autocorrelation draws noise; that of the size of the residuals does not.
    again = batch[2]
    assert again.log_likelihood == pytest.approx(single.log_likelihood, rel=1e-5)
    assert again.estimate == pytest.approx(single.estimate, rel=1e-4)
    factor = 1.05 if single.goodness.p_value < 2 * single.goodness.portmanteau_p else 1.5
    assert 1 / factor < batch.p_value[2] / single.goodness.p_value < factor


def test_weights_are_inverse_relative_variances():
    """Weights of four are values with half the standard deviation; σ is estimated. A weight of zero is no value."""
    weights = np.where(np.arange(49) < 24, 4.0, 1.0)[:, None]
    batch = wf.fit_batch(LV.model, TIMES, PREY, weights=weights, bounds=LV.bounds)
    # Known σ of the same ratio, at the estimated size, give the same estimates.
    sigma = batch.sigmas[:, None] / np.sqrt(weights)
    known = wf.fit_batch(LV.model, TIMES, PREY, sigma=sigma, bounds=LV.bounds)
    assert known.estimates == pytest.approx(batch.estimates, rel=1e-4)
    assert known.covariance == pytest.approx(batch.covariance, rel=1e-2)
    assert known.log_likelihood == pytest.approx(batch.log_likelihood, rel=1e-6)
    some = np.ones((49, 2))
    some[10:20, 0] = 0
    missing = PREY.copy()
    missing[:, 10:20, 0] = np.nan
    left = wf.fit_batch(LV.model, TIMES, PREY, weights=some, bounds=LV.bounds)
    right = wf.fit_batch(LV.model, TIMES, missing, bounds=LV.bounds)
    assert left.estimates == pytest.approx(right.estimates, rel=1e-9)
    assert left.log_likelihood == pytest.approx(right.log_likelihood, rel=1e-9)
    single = batch[1]
    assert single.estimate == pytest.approx(batch.estimates[1], rel=1e-4)
    assert single.sigma == pytest.approx(batch.sigmas[1], rel=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"fixed": {"K": 4.0}},
        {"fixed": {"r": 1.1}},
        {"log": ["r", "K"]},
        {"log": ["K"], "bounds": {"K": (1.0, 10.0), "r": (0.1, 3.0)}},
        {"priors": {"r": ("normal", 1.05, 0.03)}},
        {"priors": {"K": ("lognormal", 4.03, 0.004)}, "log": ["K"]},
        {"priors": {"r": ("lognormal", 1.05, 0.03)}, "bounds": {"r": (0.5, 2.0)}},
        {"bounds": {"K": (1.0, 3.9), "r": (0.1, 3.0)}},
        {"bounds": [(1.0, 10.0), (0.1, 3.0)]},
        {"parameters": {"r": wf.Parameter(bounds=(0.1, 3.0), log=True), "K": 4.0}},
        {"start": {"r": 1.0, "K": 3.0}},
        {"start": [3.0, 1.0]},
    ],
    ids=str,
)
def test_settings_of_parameters_are_those_of_fit(settings):
    batch = wf.fit_batch(LOGISTIC, T, GROWTH, **settings)
    fixed = settings.get("fixed", {}) | {k: v for k, v in settings.get("parameters", {}).items() if v == 4.0}
    free = tuple(name for name in ("K", "r") if name not in fixed)
    assert batch.parameters == free
    log = ["r"] if "parameters" in settings else settings.get("log", [])
    assert batch.log_scale.tolist() == [name in log for name in free]
    for k in (1, 4):
        assert_like_single(batch, k, wf.fit(LOGISTIC, wf.Dataset(T, GROWTH[k]), **settings))


def test_tied_parameters():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = c*x*y - d*y")
    truth = dict(zip(LV.model.parameters, LV.parameters, strict=True))
    assert len(truth) == 4
    batch = wf.fit_batch(model, TIMES, PREY, names=["x", "y"], tied={"c": "b"})
    single = wf.fit(model, wf.Dataset(TIMES, PREY[1], names=["x", "y"]), tied={"c": "b"})
    assert "c" not in batch.parameters
    assert batch.estimates[1] == pytest.approx([single.params[name] for name in batch.parameters], rel=1e-4)


def test_an_input_with_a_single_value_in_each_dataset():
    """X' = k (u - x) with a constant u, however it is interpolated."""
    model = wf.Model.from_text("x' = k*(u - x)", inputs=["u"])
    u = np.array([[1.0], [2.0], [3.0]])
    Y = u + (0.2 - u) * np.exp(-1.3 * T) + draw((3, 40), 0.02)
    expected = wf.fit_batch(model, T, Y, inputs={"u": np.repeat(u, 40, axis=1)})
    for how in ("hold", "linear"):
        batch = wf.fit_batch(model, T, Y, inputs={"u": ([0.0], u, how)})
        assert batch.fitted_singly == 0
        assert batch.estimates == pytest.approx(expected.estimates, rel=1e-9)


ENDS = np.cumsum(np.concatenate([[0], np.repeat([0.25, 0.5, 1.0, 2.0], [8, 6, 5, 4])]))
FRAMES = (ENDS[:-1], ENDS[1:])
MIDDLES = (ENDS[1:] + ENDS[:-1]) / 2


def average(curve):
    """Return averages of a function of time over `FRAMES`, by a very fine rule that ends before a jump at 2 or 6.5."""
    fine = np.linspace(0, ENDS[-1], 400_001) * (1 - 1e-9)
    total = np.concatenate([[0], np.cumsum((curve(fine)[1:] + curve(fine)[:-1]) / 2 * np.diff(fine))])
    return np.diff(np.interp(ENDS, fine, total)) / np.diff(ENDS)


@pytest.mark.parametrize("known", [True, False])
def test_averages_over_frames(known):
    """Decay from an initial value that is a parameter or free: least squares with the integral in closed form."""
    model = wf.Model.from_text("x' = -k*x" + ("\nx(0) = A" if known else ""))
    width = FRAMES[1] - FRAMES[0]

    def predict(k, A):
        return A * (np.exp(-k * FRAMES[0]) - np.exp(-k * FRAMES[1])) / (k * width)

    Y = predict(0.3, 5.0) + draw((3, len(width)), 0.02)
    batch = wf.fit_batch(model, MIDDLES, Y, names=["x"], frames=FRAMES)
    for n in range(3):
        best = optimize.least_squares(lambda z, n=n: predict(*z) - Y[n], [0.3, 5.0], xtol=1e-14, ftol=1e-14)
        sigma = np.sqrt(2 * best.cost / (len(width) - 2))
        error = sigma * np.sqrt(np.linalg.inv(best.jac.T @ best.jac)[0, 0])
        assert batch.status[n] is Status.CONVERGED
        assert abs(batch.estimate["k"][n] - best.x[0]) < 1e-3 * error
        assert batch.standard_errors["k"][n] == pytest.approx(error, rel=1e-3)
        assert batch.sigmas[n, 0] == pytest.approx(sigma, rel=1e-3)


def draw_driven(jump: float, v: float) -> np.ndarray:
    """Return averages of x + v u for x' = u - 0.3 x from zero, with u = 1 before a jump and 0.2 after it."""

    def curve(t):
        x = np.where(t < jump, 1 - np.exp(-0.3 * t), 0.2 + (0.8 - np.exp(-0.3 * jump)) * np.exp(-0.3 * (t - jump)))
        return x / 0.3 + v * np.where(t < jump, 1.0, 0.2)

    return average(curve) + draw((4, len(MIDDLES)), 0.001)


@pytest.mark.parametrize("jump", [2.0, 6.5])
def test_averages_of_a_state_whose_input_jumps(jump):
    """At the end of a frame, and inside one."""
    model = wf.Model.from_text("x' = -k*x + u\nS = m*x\nx(0) = 0", inputs=["u"])
    Y = draw_driven(jump, 0.0)
    inputs = {"u": ([0.0, jump], [1.0, 0.2], "hold")}
    batch = wf.fit_batch(model, MIDDLES, Y, names=["S"], frames=FRAMES, inputs=inputs)
    assert np.abs((batch.estimate["k"] - 0.3) / batch.standard_errors["k"]).max() < 4
    assert batch.sigmas == pytest.approx(np.full((4, 1), 0.001), rel=0.6)


@pytest.mark.parametrize("jump", [2.0, 6.5])
def test_averages_of_an_observable_whose_input_jumps(jump):
    model = wf.Model.from_text("x' = -k*x + u\nS = x + v*u\nx(0) = 0", inputs=["u"])
    inputs = {"u": ([0.0, jump], [1.0, 0.2], "hold")}
    batch = wf.fit_batch(model, MIDDLES, draw_driven(jump, 0.5), names=["S"], frames=FRAMES, inputs=inputs)
    assert batch.sigmas == pytest.approx(np.full((4, 1), 0.001), rel=0.6)


# ---- Shapes ----


def test_results_have_the_shape_of_the_datasets():
    """None, one, and three axes; one column with and without its own axis."""
    flat = wf.fit_batch(LOGISTIC, T, GROWTH, seed=1)
    assert flat.shape == (6,)
    image = wf.fit_batch(LOGISTIC, T, GROWTH.reshape(1, 2, 3, 40), seed=1)
    assert image.shape == image.p_value.shape == image.status.shape == (1, 2, 3)
    assert image.covariance.shape == (1, 2, 3, 2, 2)
    assert image.interval("r").shape == (1, 2, 3, 2)
    assert np.array_equal(image.estimate["r"].ravel(), flat.estimate["r"])
    column = wf.fit_batch(LOGISTIC, T, GROWTH.reshape(2, 3, 40, 1), names=["N"], seed=1)
    assert np.array_equal(column.estimates.reshape(6, 2), flat.estimates)
    alone = wf.fit_batch(LOGISTIC, T, GROWTH[2])
    assert alone.shape == alone.p_value.shape == alone.success.shape == ()
    assert alone.estimate["r"] == pytest.approx(flat.estimate["r"][2], rel=1e-5)
    assert alone[()].estimate == pytest.approx(alone.estimates, rel=1e-4)
    assert "1 dataset," in repr(alone)
    not_contiguous = wf.fit_batch(LOGISTIC, T, np.asfortranarray(GROWTH.reshape(2, 3, 40)), seed=1)
    assert np.array_equal(not_contiguous.estimates, flat.estimates.reshape(2, 3, 2))


def test_columns_in_another_order_are_matched_by_name():
    batch = wf.fit_batch(LV.model, TIMES, PREY, bounds=LV.bounds)
    prey, predator = LV.model.states
    swapped = wf.fit_batch(LV.model, TIMES, PREY[:, :, ::-1], names=[predator, prey], bounds=LV.bounds)
    assert swapped.estimates == pytest.approx(batch.estimates, rel=1e-9)
    assert swapped.sigma[prey] == pytest.approx(batch.sigma[prey], rel=1e-9)
    sigma = np.array([0.3, 0.1])
    given = wf.fit_batch(LV.model, TIMES, PREY[:, :, ::-1], names=[predator, prey], bounds=LV.bounds, sigma=sigma)
    assert given.sigma[prey] == pytest.approx(0.1)
    assert given.sigma[predator] == pytest.approx(0.3)
    noise = ["gaussian", "lognormal"]
    exact = LV.simulate(M=48, noise=1e-9).trajectories[0].values
    positive = np.stack([exact[:, 0] * np.exp(draw((2, 49), 0.05)), exact[:, 1] + draw((2, 49), 0.1, seed=1)], axis=-1)
    mixed = wf.fit_batch(LV.model, TIMES, positive[:, :, ::-1], names=[predator, prey], noise=noise, bounds=LV.bounds)
    data = wf.Dataset(TIMES, positive[1], names=[prey, predator], noise=noise[::-1])
    single = wf.fit(LV.model, data, bounds=LV.bounds)
    assert_like_single(mixed, 1, single)


@pytest.mark.parametrize("place", [0, -1, (3,), np.int64(2)])
def test_an_index_returns_the_full_result_of_a_dataset(place):
    batch = wf.fit_batch(LOGISTIC, T, GROWTH, fixed={"K": 4.0})
    single = batch[place]
    assert isinstance(single, wf.FitResult)
    assert_like_single(batch, place if not isinstance(place, tuple) else place[0], single)


def test_an_index_of_an_image_is_the_dataset_there():
    times, cp, S = draw_compartments(6)
    bounds = {"Ktrans": (0.001, 2), "kep": (0.01, 5), "vp": (0, 0.3)}
    batch = wf.fit_batch(
        COMPARTMENTS, times, S.reshape(2, 3, -1), names=["S"], inputs={"cp": cp.reshape(2, 3, -1)}, bounds=bounds
    )
    single = batch[1, 0]
    assert single.data.trajectories[0].values[:, 0] == pytest.approx(S[3])
    assert_like_single(batch, (1, 0), single)


@pytest.mark.parametrize("index", [slice(2), 1.0, (0, 0), "r", None, [0, 1]])
def test_an_index_that_is_not_one_dataset_is_refused(index):
    batch = wf.fit_batch(LOGISTIC, T, GROWTH[:2])
    with pytest.raises(FitError, match="one whole number for each"):
        batch[index]


def test_an_index_outside_is_refused():
    batch = wf.fit_batch(LOGISTIC, T, GROWTH[:2])
    for index in (2, -3):
        with pytest.raises(IndexError):
            batch[index]
    with pytest.raises(FitError, match=r"Did you mean|which has"):
        batch.estimate["R"]
    with pytest.raises(FitError, match="level"):
        batch.interval("r", 1.0)


def test_intervals_are_those_of_the_scale_of_the_parameter():
    """Student's t with 40 values less 3 unknowns."""
    batch = wf.fit_batch(LOGISTIC, T, GROWTH, log=["r"], bounds={"K": (1, 10)})
    r, error = batch.estimate["r"], batch.standard_errors["r"]
    assert batch.interval("r", 0.95) == pytest.approx(
        np.stack([r * np.exp(-2.026192 * error / r), r * np.exp(2.026192 * error / r)], axis=-1), rel=1e-6
    )
    K, error = batch.estimate["K"], batch.standard_errors["K"]
    assert batch.interval("K", 0.9) == pytest.approx(
        np.stack([K - 1.687094 * error, K + 1.687094 * error], -1), rel=1e-6
    )


# ---- Datasets that cannot be fitted, and models that are wrong ----


def test_a_dataset_of_nan_alone_is_empty_and_the_others_are_fitted():
    Y = GROWTH.copy()
    Y[2], Y[4, 2:] = np.nan, np.nan
    batch = wf.fit_batch(LOGISTIC, T, Y)
    assert batch.status[2] is Status.EMPTY
    assert batch.status[4] is Status.EMPTY  # two values, three unknowns
    assert not batch.success[2]
    assert np.isnan(batch.estimates[2]).all()
    assert np.isnan(batch.p_value[2])
    assert batch.fitted_singly == 0
    full = wf.fit_batch(LOGISTIC, T, GROWTH)
    others = [0, 1, 3, 5]
    assert batch.estimates[others] == pytest.approx(full.estimates[others], rel=1e-5)
    assert wf.fit_batch(LOGISTIC, T, np.full((3, 40), np.nan)).count_statuses() == {Status.EMPTY: 3}
    with pytest.raises(wf.WeakformError):
        batch[2]


def test_a_wrong_model_is_rejected():
    decay = wf.Model.from_text("N' = r*N")
    batch = wf.fit_batch(decay, T, GROWTH)
    assert set(batch.status) == {Status.REJECTED}
    assert (batch.p_value < 0.01).all()
    assert not batch.success.any()
    assert "REJECTED" in repr(batch)


def test_a_product_of_parameters_is_undetermined():
    model = wf.Model.from_text("N' = a*b*N*(1 - N/K)")
    batch = wf.fit_batch(model, T, GROWTH, bounds={"a": (0.01, 100), "b": (0.01, 100)})
    assert set(batch.status) == {Status.UNDETERMINED}


def test_constant_data_are_no_success():
    batch = wf.fit_batch(LOGISTIC, T, 4 + draw((5, 40), 0.05), bounds={"K": (1, 10), "r": (0.01, 10)})
    assert not batch.success.any()
    exact = wf.fit_batch(LOGISTIC, T, np.full((2, 40), 4.0), bounds={"K": (1, 10), "r": (0.01, 10)})
    assert not exact.success.any()


def test_noise_free_data_give_the_truth():
    batch = wf.fit_batch(LOGISTIC, T, grow())
    assert batch.estimate["r"] == pytest.approx(RATES, rel=1e-4)
    assert batch.estimate["K"] == pytest.approx(np.full(6, 4.0), rel=1e-4)
    assert batch.success.all()
    with_sigma = wf.fit_batch(LOGISTIC, T, grow(), sigma=0.05)
    assert with_sigma.success.all()
    assert (with_sigma.p_value == 1).all()


def test_a_parameter_on_a_log_scale_among_others_leads_to_the_same_fit():
    batch = wf.fit_batch(LOGISTIC, T, GROWTH, log=["r"])
    assert wf.fit(LOGISTIC, wf.Dataset(T, GROWTH[0]), log=["r"]).success
    assert batch.success.all()


def test_a_given_sigma_that_is_wrong_is_misstated():
    for sigma in (0.02, 0.2):
        batch = wf.fit_batch(LOGISTIC, T, GROWTH[:2], sigma=sigma)
        assert wf.fit(LOGISTIC, wf.Dataset(T, GROWTH[0], sigma=sigma)).status is Status.MISSTATED
        assert batch.status[0] is Status.MISSTATED


def test_datasets_of_very_different_sizes_do_not_disturb_each_other():
    """One is a hundred million times as large, one as small."""
    model = wf.Model.from_text("x' = -a*x/(b + x)")
    t = np.linspace(0, 5, 40)
    x, curve = 3.0, [3.0]

    def f(v):
        return -2.0 * v / (1.0 + v)

    for h in np.diff(t):  # Runge-Kutta
        for _ in range(10):
            k1 = f(x)
            k2 = f(x + h / 20 * k1)
            k3 = f(x + h / 20 * k2)
            x = x + h / 60 * (k1 + 2 * k2 + 2 * k3 + f(x + h / 10 * k3))
        curve.append(x)
    Y = np.array(curve) + draw((6, 40), 0.03)
    alone = wf.fit_batch(model, t, Y)
    scale = np.array([1, 1, 1e8, 1, 1e-8, 1])[:, None]
    together = wf.fit_batch(model, t, Y * scale)
    assert np.array_equal(together.success, alone.success)
    assert together.estimates == pytest.approx(alone.estimates * scale, rel=1e-3)


# ---- What the engine does not take ----


def test_noise_that_the_engine_does_not_take_is_fitted_one_by_one():
    """With a fixed parameter before the free ones, whose estimates must not be mixed up."""
    model = wf.Model.from_text("N' = r*N*(1 - N/K) - c*N")
    settings = {"noise": "student", "fixed": {"K": 4.0}, "bounds": {"r": (0.1, 3.0), "c": (0.0, 0.5)}}
    batch = wf.fit_batch(model, T, GROWTH[:2], **settings)
    assert batch.fitted_singly == 2
    assert any("student" in note for note in batch.notes)
    assert "fitted one by one" in repr(batch)
    settings.pop("noise")
    single = wf.fit(model, wf.Dataset(T, GROWTH[0], noise="student"), **settings)
    assert set(batch.parameters) == {"r", "c"}
    for name in batch.parameters:
        k = single.model.parameters.index(name)
        assert batch.estimate[name][0] == pytest.approx(single.params[name], rel=1e-6)
        assert batch.standard_errors[name][0] == pytest.approx(single.wald_errors[k], rel=1e-6, nan_ok=True)
    assert batch.status[0] is single.status
    assert batch.log_likelihood[0] == pytest.approx(single.log_likelihood)


def test_datasets_that_the_engine_does_not_settle_are_fitted_one_by_one(monkeypatch):
    """All end at the limit of steps; only some of them are tried again."""
    monkeypatch.setattr(lane_iteration, "POLICY", replace(lane_iteration.POLICY, max_steps=1))
    monkeypatch.setattr(batch_module, "MAX_SINGLE_FITS", 2)
    batch = wf.fit_batch(LOGISTIC, T, GROWTH, fixed={"K": 4.0})
    assert batch.fitted_singly == 2
    assert batch.success[:2].all()
    assert batch.estimate["r"][:2] == pytest.approx(RATES[:2], rel=0.05)
    assert set(batch.status[2:]) == {Status.ITERATIONS}


def test_a_model_that_fit_refuses_gives_its_error():
    model = wf.Model.from_text("x' = -k*x + if(t > s, c, 0)")
    with pytest.raises(FitError, match="times of all events"):
        wf.fit(model, wf.Dataset(T, GROWTH[0]))
    with pytest.raises(FitError, match="times of all events"):
        wf.fit_batch(model, T, GROWTH[:2])


def test_an_interrupt_keeps_what_is_done(monkeypatch):
    monkeypatch.setattr(batch_module, "MAX_CHUNK_SETS", 8)
    monkeypatch.setattr(batch_module, "MIN_CHUNK_SETS", 8)
    original, calls = batch_module.fit_chunk, []

    def interrupt(*arguments):
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(batch_module, "fit_chunk", interrupt)
    Y = np.tile(grow(), (5, 1)) + draw((30, 40), 0.05)
    batch = wf.fit_batch(LOGISTIC, T, Y, workers=1)
    done = np.array([status is not Status.INTERRUPTED for status in batch.status])
    assert done.sum() == 16
    assert np.isfinite(batch.estimates[done]).all()
    assert np.isnan(batch.estimates[~done]).all()
    assert any("14" in note for note in batch.notes)


# ---- Reproducibility ----


@pytest.mark.parametrize("name", ["lotka-volterra", "goodwin", "protein-transduction"])
def test_numpy_leads_to_the_estimates_of_the_compiled_passes(monkeypatch, name):
    problem = wf.problems.get(name)
    data = [problem.simulate(M=64, noise=0.03, seed=seed) for seed in range(9)]
    Y = np.array([d.trajectories[0].values for d in data])
    arguments = (problem.model, data[0].trajectories[0].times, Y)
    settings = {"names": list(problem.model.states), "noise": data[0].noise, "bounds": problem.bounds, "workers": 1}
    compiled = wf.fit_batch(*arguments, **settings)
    monkeypatch.setenv("WEAKFORM_LANES", "numpy")
    passes.get_instruction_set.cache_clear()
    try:
        plain = wf.fit_batch(*arguments, **settings)
    finally:
        monkeypatch.undo()
        passes.get_instruction_set.cache_clear()
    assert np.array_equal(plain.status_code, compiled.status_code)
    errors = np.sqrt(np.einsum("...ii->...i", compiled.covariance))
    off = np.abs(plain.estimates - compiled.estimates) / errors
    assert np.nanmax(off[compiled.success]) < 1e-5
    assert compiled.success.sum() >= 3


def test_the_same_seed_gives_the_same_result_with_any_number_of_workers(monkeypatch):
    monkeypatch.setattr(batch_module, "MAX_CHUNK_SETS", 8)
    monkeypatch.setattr(batch_module, "MIN_CHUNK_SETS", 8)
    Y = np.tile(grow(), (5, 1)) + draw((30, 40), 0.1)
    model = wf.Model.from_text("N' = r*N*(1 - (N/K)^n)")
    settings = {"bounds": {"r": (0.1, 5), "K": (1, 10), "n": (0.2, 5)}}
    one = wf.fit_batch(model, T, Y, workers=1, seed=3, **settings)
    two, again = (wf.fit_batch(model, T, Y, workers=workers, seed=3, **settings) for workers in (2, 1))
    for other in (two, again):
        for name in ("estimates", "covariance", "p_value", "status_code", "log_likelihood", "starts"):
            assert np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True), name
    seeds = wf.fit_batch(model, T, Y, workers=1, seed=4, **settings)
    both = one.success & seeds.success
    assert both.mean() > 0.5
    off = np.abs(one.estimates - seeds.estimates)[both] / np.sqrt(np.einsum("...ii->...i", one.covariance))[both]
    assert np.nanmax(off) < 1e-2


# ---- Bad input ----

DATA = {"model": LOGISTIC, "times": T, "Y": GROWTH}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": "N' = r*N"}, FitError, "Model"),
        ({"times": T[:-1]}, DataError, r"last axis of Y must be time, \(..., 39\).*received \(6, 40\)"),
        ({"times": T[::-1]}, DataError, "increase"),
        ({"times": np.where(np.arange(40) == 7, np.nan, T)}, DataError, "position 7"),
        ({"times": T.reshape(2, 20)}, DataError, "one axis"),
        ({"times": "later"}, DataError, "times must be an array of numbers"),
        ({"times": [1.0], "Y": [[1.0]]}, DataError, "at least two"),
        ({"Y": "data"}, DataError, "Y must be an array of numbers"),
        ({"Y": GROWTH[0, 0]}, DataError, "last axis of Y"),
        ({"Y": np.zeros((0, 40))}, DataError, "no dataset"),
        ({"Y": GROWTH, "names": ["N", "P"]}, DataError, "time and column"),
        ({"names": "N"}, DataError, r"\['N'\]"),
        ({"names": []}, DataError, "empty"),
        ({"names": ["M"]}, DataError, "M"),
        ({"noise": "gauss"}, DataError, "noise must be one of"),
        ({"noise": ["gaussian", "gaussian"]}, DataError, "noise must be one of"),
        ({"noise": "lognormal", "Y": GROWTH - 2}, DataError, "positive"),
        ({"sigma": np.ones(7)}, DataError, "sigma must broadcast"),
        ({"sigma": 0.0}, DataError, "sigma must be positive"),
        ({"sigma": np.nan}, DataError, "sigma must be positive"),
        ({"sigma": "big"}, DataError, "sigma must be an array of numbers"),
        ({"weights": -1.0}, DataError, "weights must be zero or positive"),
        ({"weights": np.ones((2, 6, 40))}, DataError, "weights must broadcast"),
        ({"seed": -1}, FitError, "seed"),
        ({"seed": 0.5}, FitError, "seed"),
        ({"workers": 0}, FitError, "workers"),
        ({"bounds": {"q": (0, 1)}}, FitError, "q"),
        ({"bounds": {"r": (1, 0)}}, FitError, "r"),
        ({"fixed": {"r": 1.0, "K": 4.0}}, FitError, "nothing to estimate"),
        ({"start": {"r": "x"}}, FitError, "r"),
        ({"log": ["q"]}, FitError, "q"),
        ({"priors": {"r": ("uniform", 0, 1)}}, FitError, "uniform"),
        ({"doses": "daily"}, DataError, "dose"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bad_input_gives_one_clear_error(change, error, message):
    arguments = DATA | change
    with pytest.raises(error, match=message):
        wf.fit_batch(arguments.pop("model"), arguments.pop("times"), arguments.pop("Y"), **arguments)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.ones(39), "must be"),
        (np.ones((5, 40)), "must be"),
        (np.full(40, np.nan), "not finite"),
        ((T, np.ones(39)), "must be"),
        ((T, np.ones(40), "cubic"), "'hold' or 'linear'"),
        ("on", "array of numbers"),
        ((T[::-1], np.ones(40)), "increas"),
        ((T, np.ones((5, 40))), "must be"),
    ],
)
def test_bad_inputs_give_one_clear_error(value, message):
    model = wf.Model.from_text("N' = r*N*(1 - N/K) - u", inputs=["u"])
    with pytest.raises(DataError, match=message):
        wf.fit_batch(model, T, GROWTH, inputs={"u": value})
    with pytest.raises(DataError, match="u"):
        wf.fit_batch(model, T, GROWTH)
