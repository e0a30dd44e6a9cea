"""Claims: posterior draws are calibrated, and fits with random effects recover the population."""

import numpy as np
import pytest
from scipy import stats

import weakform as wf
from calibration import SYSTEMS, calibrated
from populations import MODEL, SPREAD, TRUTH, population


def test_ranks_of_the_truth_among_draws_are_nearly_uniform_in_six_runs():
    p_values, failed = calibrated(SYSTEMS["logistic"], 6)
    assert failed == 0
    assert min(p_values.values()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("name", SYSTEMS)
def test_ranks_of_the_truth_among_draws_are_uniform(name):
    p_values, failed = calibrated(SYSTEMS[name], 200)
    assert failed == 0
    # Bonferroni: one p-value for each parameter.
    assert min(p_values.values()) * len(p_values) > 0.01


@pytest.mark.slow
def test_population_means_and_spreads_are_recovered_and_intervals_cover():
    effects = {name: [] for name in TRUTH}
    for seed in range(100):
        fit = wf.fit(
            wf.Model.from_text(MODEL), population(seed), random=list(TRUTH), bounds={"ke": (0.01, 5), "V": (1, 200)}
        )
        for name in TRUTH:
            effects[name].append(fit.population[name])
    for name, truth in TRUTH.items():
        assert np.mean([e.mean for e in effects[name]]) == pytest.approx(truth, rel=0.02)
        assert np.mean([e.spread for e in effects[name]]) == pytest.approx(SPREAD, rel=0.1)
        inside = sum(e.mean_interval[0] < truth < e.mean_interval[1] for e in effects[name])
        assert stats.binomtest(inside, 100, 0.95).pvalue > 0.01
