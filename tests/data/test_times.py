"""Irregular times: repeated, and in bursts."""

import numpy as np
import pytest

import weakform as wf
from support import LV


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


def test_bursts_of_samples_are_fitted():
    rng = np.random.default_rng(1)
    for times in (
        np.cumsum(np.tile([1.0, 0.01], 10)),
        np.concatenate([3600 * k + 0.1 * np.arange(10) for k in range(10)]),
    ):
        x = 1 + 0.001 * times + 0.01 * rng.standard_normal(len(times))
        fit = wf.fit(wf.Model.from_text("x' = a"), wf.Dataset(times, x))
        assert fit["a"].value == pytest.approx(0.001, abs=5 * fit["a"].error)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("fourth", "even"), [(3.0, True), (3.001, True), (3.2, False)])
def test_even_spacing_does_not_depend_on_unit_of_time(unit, fourth, even):
    """A rounded time still counts as evenly spaced; one that is off by a fifth of a step does not."""
    times = unit * np.array([0.0, 1.0, 2.0, fourth, 4.0, 5.0])
    assert wf.Dataset(times, np.arange(6.0)).trajectories[0].is_evenly_spaced is even
