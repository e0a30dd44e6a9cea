"""Fitted states do not pass a pole of the equations; where nothing is divided by zero there is none."""

from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.diagnostics.poles import crossed


def passed(text, states, p, fixed=()):
    model = wf.Model.from_text(text)
    data = wf.Dataset(np.arange(float(len(states))), states, names=model.states)
    free = np.array([name not in fixed for name in model.parameters])
    task = SimpleNamespace(problem=SimpleNamespace(model=model, data=data), free=free)
    return crossed(task, np.array(p), (states,))


@pytest.mark.parametrize(
    ("text", "p", "words"),
    [
        ("x' = -V*x/(K + x)", (0.1, 1.0), "where K + x is zero"),
        ("x' = -V*x/(K + x)", (0.0, 1.0), "where K + x is zero"),  # not here, but for every other K
        ("x' = -V*x/(K + x)", (0.5, 1.0), ""),
        ("x' = V/x^2", (1.0,), "where x is zero"),
        ("x' = V*x^2", (1.0,), ""),
        ("x' = V/(1 + x^2)", (1.0,), ""),
    ],
)
def test_where_a_denominator_changes_its_sign(text, p, words):
    found = passed(text, np.array([[-0.3], [0.2], [0.6]]), p)
    assert len(found) == bool(words)
    assert all(words in sentence and "between t = 0 and 1" in sentence for sentence in found)


def test_what_is_fixed_at_zero_has_no_neighbours():
    assert not passed("x' = -V*x/(K + x)", np.array([[-0.3], [0.2], [0.6]]), (0.0, 1.0), fixed=["K"])


@pytest.mark.slow
def test_a_fit_beyond_a_pole_is_no_success():
    """The rule steps over it, and the likelihood there is none of any solution."""
    model = wf.Model.from_text("x' = -k1*x\ny' = k1*x - V*y/(K + y)")
    t, truth = np.linspace(0, 6, 20), {"k1": 2.0, "V": 0.5, "K": 0.05}
    states = wf.simulate(model, truth, {"x": 2.0, "y": 0.0}, t).states
    noise = 0.1 * np.sqrt((states**2).mean(axis=0)) * np.random.default_rng(3).standard_normal(states.shape)
    data = wf.Dataset(t, states + noise, names=["x", "y"])
    fit = wf.fit(model, data, bounds=dict.fromkeys(truth, (1e-8, 1e3)))
    assert not fit.success or fit.initial["y"].value > -fit["K"].value
