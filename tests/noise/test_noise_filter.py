"""The size of the noise is estimated without a model."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakform.noise.noise_filter import build_stencil, estimate_sigma, filter_uneven_series


@pytest.mark.parametrize("half_width", [3, 5, 8])
def test_stencil_removes_polynomials_except_the_sixth_power(half_width):
    c = build_stencil(half_width)
    x = np.arange(-half_width, half_width + 1.0)
    assert np.linalg.norm(c) == pytest.approx(1.0)
    for degree in range(2 * half_width + 1):
        moment, size = c @ x**degree, np.linalg.norm(c) * np.linalg.norm(x**degree)
        assert (abs(moment) < 1e-10 * size) == (degree != 6), degree


@pytest.mark.parametrize(("samples", "tolerance"), [(8, 0.8), (20, 0.5), (200, 0.15), (5000, 0.04)])
def test_sigma_of_a_smooth_curve_is_recovered(samples, tolerance):
    rng = np.random.default_rng(1)
    t = np.linspace(0, 1, samples)
    noise = np.array([0.1, 3.0])
    x = np.column_stack([np.sin(2 * t), 10 * np.exp(-t)]) + noise * rng.standard_normal((samples, 2))
    assert np.allclose(estimate_sigma(x) / noise, 1.0, atol=tolerance)


def test_sigma_without_noise_is_zero():
    t = np.linspace(0, 1, 100)
    assert estimate_sigma(np.sin(3 * t)[:, None])[0] < 1e-10


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6))
def test_sigma_at_uneven_times_is_recovered(seed):
    rng = np.random.default_rng(seed)
    t = np.cumsum(rng.uniform(0.2, 1.8, 400))
    squares, count = filter_uneven_series(t, np.sin(t / 20) + 0.1 * rng.standard_normal(400), np.ones(400))
    assert np.sqrt(squares / count) == pytest.approx(0.1, rel=0.2)
