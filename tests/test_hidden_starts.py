"""With hidden states and few or no bounds the search reaches the best optimum and not the second-best one."""

import numpy as np
import pytest

import weakform as wf

CHAIN = "x' = -k1*x\ny' = k1*x - k2*y\nz' = k2*y - k3*z\nw' = k3*z - k4*w\nx(0) = 100\ny(0) = 0\nz(0) = 0\nw(0) = 0"
RATES = {"k1": 1.0, "k2": 0.6, "k3": 0.3, "k4": 0.1}
DRIVEN = "x'' = -k*x - c*x' + F*sin(w*t)"


def draw_data(text, truth, initial, times, seed, noise):
    """Return the model and noisy values of the states; `noise(states, rng)` adds the noise."""
    model = wf.Model.from_text(text)
    solved = wf.simulate(model, truth, initial, np.concatenate([[0.0], times]) if times[0] else times)
    states = solved.states[-len(times) :]
    return model, noise(states, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", [1, 5, 7])
def test_rates_of_a_chain_are_not_exchanged(seed):
    """Once all starts agreed on an optimum with k1 and k2 exchanged, 15 log-likelihoods below the best."""
    times = np.linspace(0.5, 40, 60)
    model, values = draw_data(
        CHAIN, RATES, {"x": 100.0, "y": 0.0, "z": 0.0, "w": 0.0}, times, seed,
        lambda u, rng: u[:, [1, 3]] * np.exp(0.15 * rng.standard_normal((60, 2))),
    )  # fmt: skip
    fit = wf.fit(model, wf.Dataset(times, values, noise="lognormal", names=["y", "w"]))
    assert fit.success
    for name, rate in RATES.items():
        assert abs(fit[name].value - rate) < 4 * fit[name].error


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_correct_model_is_not_rejected_at_an_optimum_that_most_starts_reach(seed):
    """Most starts end where nothing drives the oscillator, and agree there that the model is wrong."""
    times, truth = np.linspace(0, 30, 90), {"k": 2.0, "c": 0.4, "F": 1.0, "w": 0.7}
    model, values = draw_data(
        DRIVEN, truth, {"x": 1.0, "x'": 0.0}, times, seed,
        lambda u, rng: u[:, :1] + 0.05 * u[:, :1].std() * rng.standard_normal((90, 1)),
    )  # fmt: skip
    box = {"k": (0, 10), "c": (0, 4), "F": (0, 10), "w": (0, 5)}
    fit = wf.fit(model, wf.Dataset(times, values, names=["x"]), bounds=box)
    assert fit.success
    for name, value in truth.items():
        assert abs(fit[name].value - value) < 4 * fit[name].error
