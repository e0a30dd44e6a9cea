"""Bands by the likelihood: the same ends as the profile of a parameter, and the tangent's where nothing bends."""

import numpy as np
import pytest

import weakform as wf
from weakform import FitError

CHAIN = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w")
TANKS = wf.Model.from_text("upper' = q - c*sqrt(upper)\nlower' = c*sqrt(upper) - e*sqrt(lower)")


def chain(samples=14, sigma=0.05, seed=3):
    t = np.linspace(0, 9, samples)
    w = wf.simulate(CHAIN, [0.5, 0.3], [2.0, 0.4], t).states[:, 1]
    return wf.Dataset(t, w + sigma * np.random.default_rng(seed).standard_normal(samples), names=["w"])


def test_the_band_at_the_beginning_is_the_profile_of_the_initial_value():
    fit = wf.fit(CHAIN, chain(10, 0.1), start={"x(0)": 2.0, "a": 0.5}, fixed={"b": 0.3})
    fit.intervals(kind="profile")
    low, high = fit.profiles["x(0)"].interval
    band = fit.predict(np.array([0.0, 2.0, 5.0]), kind="profile")
    assert band.kind == "profile"
    assert band["x"][0, 1] == pytest.approx(low, rel=0.02)
    assert band["x"][0, 2] == pytest.approx(high, rel=0.02)
    # It is lopsided here, which the tangent cannot be.
    up, down = band["x"][0, 2] - band["x"][0, 0], band["x"][0, 0] - band["x"][0, 1]
    assert up > 1.1 * down


def test_where_nothing_bends_it_is_the_tangent():
    fit = wf.fit(CHAIN, chain(200, 0.001))
    times = np.array([0.0, 1.0, 4.0, 9.0, 12.0])
    pinned, linear = fit.predict(times, kind="profile"), fit.predict(times, kind="delta")
    for state in ("x", "w"):
        assert pinned[state] == pytest.approx(linear[state], abs=0.1 * float(np.ptp(linear[state], axis=1).max()))


def test_a_positive_state_stays_positive():
    fit = wf.fit(CHAIN, chain(10, 0.1, seed=1), bounds={"a": (0, 5), "b": (0, 5)})
    band = fit.predict(np.linspace(0, 9, 7), kind="profile")
    assert (band.lower[:, 0] >= 0).all()
    assert (band.lower[:3, 0] > 0).all()
    assert (band.lower[:, 0] <= band.states[:, 0]).all()
    assert (band.states[:, 0] <= band.upper[:, 0]).all()


@pytest.mark.parametrize("seed", [4, 9, 10])
def test_a_hidden_state_whose_rate_is_wide_has_the_band_of_its_profile(seed):
    """A late look at an oral dose: A(t) = 100 exp(-ka t), so that its band is that of ka, up to the bound of ka."""
    t = np.array([3.0, 4, 6, 8, 10, 12, 16, 20, 24])
    model = wf.Model.from_text("A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 100\nC(0) = 0")
    C = wf.simulate(model, {"ka": 1.2, "V": 20.0, "ke": 0.15}, None, t).states[:, 1]
    noisy = C * np.exp(0.1 * np.random.default_rng(seed).standard_normal(len(t)))
    fit = wf.fit(model, wf.Dataset(t, noisy, "lognormal", names=["C"]), bounds={"ka": (0.5, 10)})
    band = fit.predict([1.0, 2.0, 8.0, 16.0])
    low, high = fit["ka"].interval
    assert band.kind == "profile"  # of another draw it was [23, 79] by the tangent, where ka says [0, 61]
    assert band["A"][:, 2] == pytest.approx(100 * np.exp(-low * band.times), rel=0.02)
    assert band["A"][:, 1] == pytest.approx(100 * np.exp(-high * band.times), rel=0.05, abs=0.1)
    assert (band.lower[:, 0] >= 0).all()  # what has decayed had negative ends


def test_it_belongs_to_fits_on_a_mesh():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=60, noise=0.02, seed=1))
    with pytest.raises(FitError, match="by method 'relaxed'"):
        fit.predict(np.array([0.0, 1.0]), kind="profile")
    with pytest.raises(FitError, match="'auto', 'delta', 'sampling' or 'profile'"):
        fit.predict(np.array([0.0, 1.0]), kind="pinned")


@pytest.mark.parametrize("noise", ["lognormal", "poisson"])
def test_a_measured_state_keeps_its_units(noise):
    """Bands of measured states with log-normal noise were those of the logarithm."""
    t = np.linspace(0.2, 8, 40)
    y, rng = 1000 / 0.7 * (np.exp(-0.3 * t) - np.exp(-t)), np.random.default_rng(1)
    values = y * np.exp(0.05 * rng.standard_normal(40)) if noise == "lognormal" else rng.poisson(y)
    model = wf.Model.from_text("x' = -k*x\ny' = k*x - m*y\ny(0) = 0")
    fit = wf.fit(model, wf.Dataset(t, values, noise, names=["y"]), bounds={"k": (0.5, 5), "m": (0, 0.5)})
    linear, pinned = fit.predict(t, kind="delta"), fit.predict(t, kind="profile")
    assert pinned["y"] == pytest.approx(linear["y"], rel=0.02)


def test_units_change_nothing():
    """Two tanks in a row of which the lower is seen, in metres and in units a billion times as large."""
    t, found = np.linspace(0, 30, 15), []
    for unit in (1.0, 1e-9):
        p = {"q": 0.5 * unit, "c": 0.4 * np.sqrt(unit), "e": 0.3 * np.sqrt(unit)}
        level = wf.simulate(TANKS, p, [20.0 * unit, unit], t).states[:, 1]
        level = level + 0.1 * unit * np.random.default_rng(1).standard_normal(15)
        fit = wf.fit(TANKS, wf.Dataset(t, level, names=["lower"]))
        band = fit.predict([0.0, 10.0, 30.0])
        low, high = fit.initial["upper"].interval
        assert band["upper"][0, 1:] == pytest.approx([low, high], rel=1e-6)
        # Far from Wald's: it reaches further up than down.
        assert high - band["upper"][0, 0] > 1.3 * (band["upper"][0, 0] - low)
        found.append(band["upper"] / unit)
    assert found[1] == pytest.approx(found[0], rel=1e-5)
