"""Fitted states that cross a pole of the equations are reported; a zero of a denominator need not be a pole."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.diagnostics.poles import warn_of_crossed_poles


def find_crossed_poles(text, states, p, fixed=()):
    """Return the warnings about states `(time, D)` of a model `text` with the parameters `p` `(J,)`."""
    model = wf.Model.from_text(text)
    data = wf.Dataset(np.arange(float(len(states))), states, names=model.states)
    free = np.array([name not in fixed for name in model.parameters])
    task = SimpleNamespace(problem=SimpleNamespace(model=model, data=data), free=free)
    return warn_of_crossed_poles(task, np.array(p), (states,))


@pytest.mark.parametrize(
    ("text", "p", "words"),
    [
        ("x' = -V*x/(K + x)", (0.1, 1.0), "where K + x is zero"),
        ("x' = -V*x/(K + x)", (0.0, 1.0), "where K + x is zero"),  # no pole at this K, but at every other one
        ("x' = -V*x/(K + x)", (0.5, 1.0), ""),
        ("x' = V/x^2", (1.0,), "where x is zero"),
        ("x' = 1/(K*t + x)", (0.1,), "is zero"),  # the denominator has every symbol of the model
        ("x' = V*x^2", (1.0,), ""),
        ("x' = V/(1 + x^2)", (1.0,), ""),
    ],
)
def test_only_a_pole_is_reported_where_a_denominator_changes_its_sign(text, p, words):
    sentences = find_crossed_poles(text, np.array([[-0.3], [0.2], [0.6]]), p)
    assert len(sentences) == bool(words)
    assert all(words in sentence and "between t = 0 and 1" in sentence for sentence in sentences)


def test_removable_pole_is_not_reported_if_its_parameter_is_fixed():
    assert not find_crossed_poles("x' = -V*x/(K + x)", np.array([[-0.3], [0.2], [0.6]]), (0.0, 1.0), fixed=["K"])


@pytest.mark.slow
def test_fit_across_a_pole_does_not_succeed():
    """The quadrature rule steps over the pole, so that the likelihood beyond it belongs to no solution."""
    model = wf.Model.from_text("x' = -k1*x\ny' = k1*x - V*y/(K + y)")
    t, truth = np.linspace(0, 6, 20), {"k1": 2.0, "V": 0.5, "K": 0.05}
    states = wf.simulate(model, truth, {"x": 2.0, "y": 0.0}, t).states
    noise = 0.1 * np.sqrt((states**2).mean(axis=0)) * np.random.default_rng(3).standard_normal(states.shape)
    data = wf.Dataset(t, states + noise, names=["x", "y"])
    fit = wf.fit(model, data, bounds=dict.fromkeys(truth, (1e-8, 1e3)))
    assert not fit.success or fit.initial["y"].value > -fit["K"].value
