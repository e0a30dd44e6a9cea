"""Draws are calibrated, and populations are found: the long versions of what the gate sees, and a short one."""

import numpy as np
import pytest
from scipy import stats

import weakform as wf
from calibration import SYSTEMS, calibrated
from populations import MODEL, SPREAD, TRUTH, population


def test_ranks_of_the_truth_are_spread_evenly():
    values, failed = calibrated(SYSTEMS["logistic"], 6)
    assert failed == 0
    assert min(values.values()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_ranks_of_the_truth_are_uniform(name):
    values, failed = calibrated(SYSTEMS[name], 200)
    assert failed == 0
    assert min(values.values()) * len(values) > 0.01


@pytest.mark.slow
def test_populations_are_found():
    found = {name: [] for name in TRUTH}
    for seed in range(100):
        fit = wf.fit(
            wf.Model.from_text(MODEL), population(seed), random=list(TRUTH), bounds={"ke": (0.01, 5), "V": (1, 200)}
        )
        for name in TRUTH:
            found[name].append(fit.population[name])
    for name, truth in TRUTH.items():
        assert np.mean([e.mean for e in found[name]]) == pytest.approx(truth, rel=0.02)
        assert np.mean([e.spread for e in found[name]]) == pytest.approx(SPREAD, rel=0.1)
        inside = sum(e.mean_interval[0] < truth < e.mean_interval[1] for e in found[name])
        assert stats.binomtest(inside, 100, 0.95).pvalue > 0.01
