"""Information criteria against the likelihood of all measured values."""

import numpy as np
import pytest

import weakform as wf
from support import LINEAR
from weakform.inference.information_criteria import compute_max_log_likelihood


def test_repeated_measurements_count_one_by_one():
    t = np.linspace(0, 3, 30)
    values = 2 * np.exp(-0.7 * t)[:, None] + 0.03 * np.random.default_rng(0).standard_normal((30, 2))
    fit = wf.fit(LINEAR, wf.Dataset(np.repeat(t, 2), values.ravel()))
    r = values - fit.denoised[0]
    direct = -0.5 * 60 * (np.log(2 * np.pi * np.mean(r**2)) + 1)
    assert compute_max_log_likelihood(fit) == pytest.approx(direct, abs=1e-6)
    # One rate, one initial value and σ are unknown.
    assert fit.bic == pytest.approx(3 * np.log(60) - 2 * direct, abs=1e-5)
