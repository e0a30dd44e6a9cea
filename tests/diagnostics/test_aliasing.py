"""Aliasing: a solution that oscillates faster than it was sampled is reported, and the fit does not succeed."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.diagnostics.aliasing import warn_of_aliasing

MODEL = wf.Model.from_text("x' = A*cos(om*t)")


@pytest.mark.parametrize(("om", "words"), [(2.0, ""), (13.0, ""), (2 * np.pi / 0.2 + 2.0, "above 15.7"), (60.0, "x")])
def test_only_frequencies_well_above_the_sampling_are_reported(om, words):
    t = np.arange(0, 8, 0.2)
    states = np.sin(om * t)[:, None]
    data = wf.Dataset(t, states, names=["x"])
    task = SimpleNamespace(problem=SimpleNamespace(model=MODEL, data=data))
    p = np.array([{"A": om, "om": om}[name] for name in MODEL.parameters])
    sentences = warn_of_aliasing(task, p, (states,))
    assert len(sentences) == bool(words)
    assert all(words in sentence for sentence in sentences)


def test_fit_at_an_aliased_frequency_does_not_succeed():
    """The sampling frequency 2π·29/6 = 30.4 plus 3 fits as well as 3, and the lower one is the truth."""
    model = wf.Model.from_text("x' = -k*x + A*sin(om*t)")
    t = np.linspace(0, 6, 30)
    states = wf.simulate(model, {"A": 2.0, "k": 0.3, "om": 3.0}, {"x": 1.0}, t).states
    noise = 0.1 * states.std() * np.random.default_rng(2).standard_normal(states.shape)
    data = wf.Dataset(t, states + noise, names=["x"])
    high = wf.fit(model, data, bounds={"om": (20.0, 50.0), "k": (0.0, 5.0), "A": (0.0, 100.0)})
    assert not high.success
    assert any("oscillates faster" in sentence for sentence in high.warnings)
    low = wf.fit(model, data, bounds={"om": (0.0, 10.0), "k": (0.0, 5.0), "A": (0.0, 100.0)})
    assert low.success
    assert low["om"].value == pytest.approx(3.0, abs=0.1)


def test_parameters_on_a_log_scale_are_converted_before_the_equations_are_evaluated():
    model = wf.Model.from_text("gut' = -ka*gut\nC' = ka*gut/V - ke*C\ngut(0) = 320\nC(0) = 0")
    t = np.arange(1.0, 25.0)
    truth = {"ka": 1.5, "ke": 0.09, "V": 32.0}
    states = wf.simulate(model, truth, [320.0, 0.0], np.concatenate([[0.0], t])).states[1:, 1]
    noisy = states * np.exp(0.06 * np.random.default_rng(0).standard_normal(len(t)))
    bounds = {"ka": (0.1, 10.0), "ke": (0.01, 0.5), "V": (5.0, 100.0)}
    data = wf.Dataset(t, noisy, noise="lognormal", names=["C"])
    fit = wf.fit(model, data, bounds=bounds, log=list(truth))
    assert fit.success
    assert not any("oscillates" in sentence or "pole" in sentence for sentence in fit.warnings)
