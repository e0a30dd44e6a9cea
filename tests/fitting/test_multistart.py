"""Rough guesses by narrow test functions: their radii are a few samples, whatever the unit of time."""

from types import SimpleNamespace

import numpy as np
import pytest

from weakform.fitting import multistart
from weakform.results.options import Options


@pytest.mark.parametrize("step", [0.1, 1.0, 20.0])
def test_radii_of_narrow_test_functions_are_a_few_steps_in_any_unit_of_time(monkeypatch, step):
    trajectories = [SimpleNamespace(times=step * np.arange(20.0)), SimpleNamespace(times=5.0 + step * np.arange(8.0))]
    matched = SimpleNamespace(data=SimpleNamespace(trajectories=trajectories))
    outcome = SimpleNamespace(best=SimpleNamespace(estimate=np.ones(1)))
    radii = []

    def prepare(parameters, matched, estimator, options, functions, *, watch):
        radii.append(functions.radius)

    monkeypatch.setattr(multistart, "prepare", prepare)
    monkeypatch.setattr(multistart, "search", lambda prepared, starts, seed: outcome)
    estimates = multistart.estimate_with_narrow_functions(None, matched, Options(), lambda: False)
    assert radii == pytest.approx(step * np.array(multistart.NARROW_RADII))
    assert len(estimates) == len(radii)
