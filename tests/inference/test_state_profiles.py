"""Bands by the likelihood: their ends are those of profiles, and of the delta method if solutions are linear."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform import FitError
from weakform.inference.state_profiles import StateProfiler

CHAIN = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w")
TANKS = wf.Model.from_text("upper' = q - c*sqrt(upper)\nlower' = c*sqrt(upper) - e*sqrt(lower)")


def chain(samples=14, sigma=0.05, seed=3):
    t = np.linspace(0, 9, samples)
    w = wf.simulate(CHAIN, [0.5, 0.3], [2.0, 0.4], t).states[:, 1]
    return wf.Dataset(t, w + sigma * np.random.default_rng(seed).standard_normal(samples), names=["w"])


def test_band_at_the_initial_time_is_the_profile_of_the_initial_value():
    fit = wf.fit(CHAIN, chain(10, 0.1), start={"x(0)": 2.0, "a": 0.5}, fixed={"b": 0.3})
    fit.intervals(kind="profile")
    low, high = fit.profiles["x(0)"].interval
    band = fit.predict(np.array([0.0, 2.0, 5.0]), kind="profile")
    assert band.kind == "profile"
    assert band["x"][0, 1] == pytest.approx(low, rel=0.02)
    assert band["x"][0, 2] == pytest.approx(high, rel=0.02)
    # It is skewed here, which the delta method cannot be.
    up, down = band["x"][0, 2] - band["x"][0, 0], band["x"][0, 0] - band["x"][0, 1]
    assert up > 1.1 * down


def test_likelihood_band_agrees_with_the_delta_method_if_solutions_are_linear():
    fit = wf.fit(CHAIN, chain(200, 0.001))
    times = np.array([0.0, 1.0, 4.0, 9.0, 12.0])
    pinned, linear = fit.predict(times, kind="profile"), fit.predict(times, kind="delta")
    for state in ("x", "w"):
        assert pinned[state] == pytest.approx(linear[state], abs=0.1 * float(np.ptp(linear[state], axis=1).max()))


def test_band_of_a_positive_state_is_positive():
    fit = wf.fit(CHAIN, chain(10, 0.1, seed=1), bounds={"a": (0, 5), "b": (0, 5)})
    band = fit.predict(np.linspace(0, 9, 7), kind="profile")
    assert (band.lower[:, 0] >= 0).all()
    assert (band.lower[:3, 0] > 0).all()
    assert (band.lower[:, 0] <= band.states[:, 0]).all()
    assert (band.states[:, 0] <= band.upper[:, 0]).all()


@pytest.mark.parametrize("seed", [pytest.param(4, marks=pytest.mark.slow), 9, pytest.param(10, marks=pytest.mark.slow)])
def test_a_hidden_state_whose_rate_is_wide_has_the_band_of_its_profile(seed):
    """An oral dose, measured late: A(t) = 100 exp(-ka t), so that the band of A follows from the interval of ka."""
    t = np.array([3.0, 4, 6, 8, 10, 12, 16, 20, 24])
    model = wf.Model.from_text("A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 100\nC(0) = 0")
    C = wf.simulate(model, {"ka": 1.2, "V": 20.0, "ke": 0.15}, None, t).states[:, 1]
    noisy = C * np.exp(0.1 * np.random.default_rng(seed).standard_normal(len(t)))
    fit = wf.fit(model, wf.Dataset(t, noisy, "lognormal", names=["C"]), bounds={"ka": (0.5, 10)})
    band = fit.predict([1.0, 2.0, 8.0, 16.0])
    low, high = fit["ka"].interval
    assert band.kind == "profile"  # of another draw it was [23, 79] by the delta method, where ka implies [0, 61]
    assert band["A"][:, 2] == pytest.approx(100 * np.exp(-low * band.times), rel=0.02)
    assert band["A"][:, 1] == pytest.approx(100 * np.exp(-high * band.times), rel=0.05, abs=0.1)
    assert (band.lower[:, 0] >= 0).all()  # the band of a decayed state used to have negative ends


def test_likelihood_bands_are_refused_if_all_states_are_measured():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=60, noise=0.02, seed=1))
    with pytest.raises(FitError, match="by method 'relaxed'"):
        fit.predict(np.array([0.0, 1.0]), kind="profile")
    with pytest.raises(FitError, match="'auto', 'delta', 'sampling' or 'profile'"):
        fit.predict(np.array([0.0, 1.0]), kind="pinned")


@pytest.mark.parametrize("noise", ["lognormal", "poisson"])
def test_band_of_a_measured_state_is_in_its_own_units(noise):
    """Bands of measured states with log-normal noise used to be those of the logarithm."""
    t = np.linspace(0.2, 8, 40)
    y, rng = 1000 / 0.7 * (np.exp(-0.3 * t) - np.exp(-t)), np.random.default_rng(1)
    values = y * np.exp(0.05 * rng.standard_normal(40)) if noise == "lognormal" else rng.poisson(y)
    model = wf.Model.from_text("x' = -k*x\ny' = k*x - m*y\ny(0) = 0")
    fit = wf.fit(model, wf.Dataset(t, values, noise, names=["y"]), bounds={"k": (0.5, 5), "m": (0, 0.5)})
    linear, pinned = fit.predict(t, kind="delta"), fit.predict(t, kind="profile")
    assert pinned["y"] == pytest.approx(linear["y"], rel=0.02)


def test_bands_do_not_depend_on_units():
    """Two tanks in a row of which the lower is measured, in metres and in units a billion times as large."""
    t, bands = np.linspace(0, 30, 15), []
    for unit in (1.0, 1e-9):
        p = {"q": 0.5 * unit, "c": 0.4 * np.sqrt(unit), "e": 0.3 * np.sqrt(unit)}
        level = wf.simulate(TANKS, p, [20.0 * unit, unit], t).states[:, 1]
        level = level + 0.1 * unit * np.random.default_rng(1).standard_normal(15)
        fit = wf.fit(TANKS, wf.Dataset(t, level, names=["lower"]))
        band = fit.predict([0.0, 10.0, 30.0])
        low, high = fit.initial["upper"].interval
        assert band["upper"][0, 1:] == pytest.approx([low, high], rel=1e-6)
        # It is far from Wald's: it reaches farther up than down.
        assert high - band["upper"][0, 0] > 1.3 * (band["upper"][0, 0] - low)
        bands.append(band["upper"] / unit)
    assert bands[1] == pytest.approx(bands[0], rel=1e-5)


DOSED = "A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 0\nC(0) = 0"


def dosed():
    """Fit two doses of 100 units, with 13 samples of the concentration."""
    t = np.array([0.5, 1, 2, 3, 5, 7, 9, 12.5, 13, 14, 16, 20, 24])
    with_doses = wf.Model.from_text(f"{DOSED}\nat t = 0, 12: A = A + 100")
    C = wf.simulate(with_doses, {"ka": 0.8, "V": 20.0, "ke": 0.1}, None, np.append(0, t)).states[1:, 1]
    noisy = C * np.exp(0.15 * np.random.default_rng(16).standard_normal(len(t)))
    doses = wf.Doses("A", times=[0.0, 12.0], amounts=[100.0, 100.0])
    data = wf.Dataset(t, noisy, "lognormal", names=["C"], doses=doses)
    return wf.fit(wf.Model.from_text(DOSED), data, bounds={"ka": (0, 10), "V": (1, 200), "ke": (0, 3)})


def test_a_band_does_not_depend_on_the_other_times_and_jumps_with_the_state():
    fit = dosed()
    times = np.array([6.0, 11.99, 12.0, 14.5, 20.0])
    together, curve = fit.predict(times), fit.states["A"]
    assert (together["A"][2:3] >= 100).all()  # the dose, and the rest of the first one
    for n, t in enumerate(times):
        assert fit.predict([t])["A"][0] == pytest.approx(together["A"][n], rel=0.03)
        k = int(np.argmin(np.abs(curve.times - t) + (curve.times < t) * 0.01))
        if abs(curve.times[k] - t) < 1e-9:
            assert curve.upper[k] == pytest.approx(together["A"][n, 2], rel=0.1)
    # There is at most one dose before the second one, and at most two after it.
    assert curve.upper[curve.times < 12].max() <= 100
    assert curve.upper.max() < 140


def test_ends_are_those_of_the_branch_that_reaches_farthest():
    """Two compartments of which one is measured eight times: the likelihood of the other has two branches."""
    model = wf.Model.from_text("C' = -ke*C - k12*C + k21*P\nP' = k12*C - k21*P\nC(0) = C0\nP(0) = 0")
    t = np.array([0.25, 0.5, 1, 2, 4, 6, 8, 12.0])
    truth = {"ke": 0.3, "k12": 0.5, "k21": 0.3, "C0": 10.0}
    C = wf.simulate(model, truth, None, np.append(0, t)).states[1:, 0]
    noisy = C * np.exp(0.1 * np.random.default_rng(3).standard_normal(8))
    box = {"ke": (0, 5), "k12": (0, 5), "k21": (0, 5), "C0": (1, 100)}
    fit = wf.fit(model, wf.Dataset(t, noisy, "lognormal", names=["C"]), bounds=box)
    together = fit.predict([0.5, 3.0, 6.0, 12.0])["P"]
    for n, (time, reached) in enumerate([(6.0, 14.56), (12.0, 10.94)], 2):
        # By least squares around a solver, within the misfit that the level allows.
        assert fit.predict([time])["P"][0, 2] > reached
        assert together[n, 2] > reached


@pytest.mark.slow
def test_band_is_the_likelihoods_where_two_rates_coincide():
    """k1 = k2 at the optimum: the linearisation breaks down there, and the band is that of the likelihood."""
    model = wf.Model.from_text("A' = -k1*A\nB' = k1*A - k2*B\nC' = k2*B - k3*C\nA(0) = A0\nB(0) = 0\nC(0) = 0")
    t = np.linspace(1, 30, 16)
    truth = {"k1": 1.2, "k2": 0.4, "k3": 0.1, "A0": 50.0}
    C = wf.simulate(model, truth, None, np.append(0, t)).states[1:, 2]
    data = wf.Dataset(t, C + np.random.default_rng(4).standard_normal(16), names=["C"])
    fit = wf.fit(model, data, bounds={"k1": (0.2, 20), "k2": (0.2, 20), "k3": (0, 0.2)})
    A = fit.predict([0.5, 3.0, 8.0])["A"]
    # By least squares around a solver: 42.62, 16.64 and 2.56, and below 22.70, 0.574 and 0.0003 or less.
    assert A[:, 2] == pytest.approx([42.62, 16.64, 2.56], rel=0.05)
    assert A[0, 1] == pytest.approx(22.70, rel=0.02)
    assert (A[1:, 1] < [0.58, 3.1e-4]).all()


def test_an_end_depends_only_on_pins_at_its_own_time():
    """A growing population under a drug that is not measured: fits with other pins are inside the band, not its end."""
    model = wf.Model.from_text("N' = g*N*(1 - N/100) - k*D*N\nD' = -d*D\nN(0) = N0\nD(0) = 1")
    t, rng, parts = np.linspace(0, 20, 16), np.random.default_rng(23), []
    for k in (0.3, 1.2):
        N = wf.simulate(model, {"g": 0.4, "k": k, "d": 0.25, "N0": 10.0}, None, t).states[:, 0]
        parts.append(wf.Dataset(t, N * np.exp(0.15 * rng.standard_normal(16)), "lognormal", names=["N"]))
    bounds = {"g": (0, 3), "k": (0, 20), "d": (0, 5), "N0": (0.1, 100)}
    fit = wf.fit(model, wf.Dataset.join(parts, ["lo", "hi"]), bounds=bounds, local=["k"])
    together = fit.predict([0.0, 2.0, 6.0, 12.0, 20.0, 25.0], trajectory=1, kind="profile")["N"][3]
    assert together == pytest.approx(fit.predict([12.0], trajectory=1, kind="profile")["N"][0], rel=0.005)
    assert together[1:] == pytest.approx(
        [8.93, 11.65], rel=0.005
    )  # it was 9.21 to 11.22 when other times were requested, too


def test_a_known_initial_value_has_a_band_of_no_width():
    fit = dosed()
    for curve in (fit.states["A"], fit.states["C"]):
        assert curve.lower[0] == curve.values[0] == curve.upper[0]


@pytest.mark.parametrize("error", [0.01, 100.0])
@pytest.mark.parametrize(("misfit", "starts"), [(12.0, ["other"]), (50.0, ["other", "best"])])
def test_a_pin_that_costs_more_than_a_parabola_is_tried_from_the_best_fit_in_any_units(
    monkeypatch, error, misfit, starts
):
    """A pin at three standard errors should cost about 3² = 9; the fit that begins at the best one costs 10."""

    def fit_at(name, standard_errors, squares):
        return SimpleNamespace(name=name, root=np.sqrt(squares), pinned_values=np.array([[standard_errors * error]]))

    best, other = fit_at("best", 0.0, 0.0), fit_at("other", 3.0, 11.0)
    results = {"other": fit_at("from other", 3.0, misfit), "best": fit_at("from best", 3.0, 10.0)}
    tried = []

    def fit_from(near, *pin):
        tried.append(near.name)
        return results[near.name]

    profiler = StateProfiler.__new__(StateProfiler)
    profiler.best, profiler.fits = best, [best, other]
    monkeypatch.setattr(profiler, "_fit_from", fit_from)
    assert profiler.fit_pinned(0, 0, 3.0 * error, error).name == f"from {starts[-1]}"
    assert tried == starts


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_a_pinned_fit_starts_from_the_fit_nearest_to_the_pin_on_either_side(monkeypatch, sign):
    """Of fits at 0, 0.8 and 4 standard errors, the second is nearest to a pin at 1, and costs about as little."""

    def fit_at(name, standard_errors, squares):
        return SimpleNamespace(name=name, root=np.sqrt(squares), pinned_values=np.array([[sign * standard_errors]]))

    best, near, beyond = fit_at("best", 0.0, 0.0), fit_at("near", 0.8, 0.7), fit_at("beyond", 4.0, 10.0)
    tried = []

    def fit_from(start, *pin):
        tried.append(start.name)
        return fit_at(f"from {start.name}", 1.0, 1.0)

    profiler = StateProfiler.__new__(StateProfiler)
    profiler.best, profiler.fits = best, [best, beyond, near]
    monkeypatch.setattr(profiler, "_fit_from", fit_from)
    assert profiler.fit_pinned(0, 0, sign, 1.0).name == "from near"
    assert tried == ["near"]
