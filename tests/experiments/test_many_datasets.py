"""`fit_many`: the same results as single fits, in the order of the datasets, with errors in place of failed fits."""

import numpy as np
import pytest

import weakform as wf

LV = wf.problems.get("lotka-volterra")


def simulate_draws(count, M=40):
    return [LV.simulate(M=M, noise=0.05, seed=seed) for seed in range(count)]


@pytest.mark.parametrize("workers", [1, 2])
def test_results_equal_single_fits_for_any_number_of_workers(workers):
    datasets = simulate_draws(20)
    fits = wf.fit_many(LV.model, datasets, bounds=LV.bounds, workers=workers)
    for fit, data in zip(fits, datasets, strict=True):
        assert np.array_equal(fit.estimate, wf.fit(LV.model, data, bounds=LV.bounds).estimate)


def test_bad_dataset_does_not_stop_the_others():
    short = wf.Dataset(np.arange(3.0), np.ones((3, 2)), names=["u1", "u2"])
    first, bad, last = wf.fit_many(LV.model, [*simulate_draws(1), short, *simulate_draws(1)])
    assert isinstance(bad, wf.WeakformError)
    assert "never varies" in str(bad)
    assert np.array_equal(first.estimate, last.estimate)


def test_empty_list_is_accepted_and_wrong_arguments_are_refused():
    assert wf.fit_many(LV.model, []) == []
    with pytest.raises(wf.FitError, match="workers must be"):
        wf.fit_many(LV.model, simulate_draws(1), workers=0)
    with pytest.raises(wf.FitError, match="must be a Model"):
        wf.fit_many("u' = -u", simulate_draws(1))
