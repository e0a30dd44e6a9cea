"""The independence sampler draws from the given density, and the diagnostics detect chains that have not mixed."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from weakform.optimize.independence_sampler import IndependenceSampler
from weakform.optimize.mcmc_diagnostics import _compute_normal_scores, compute_effective_size, compute_rhat


@dataclass(frozen=True)
class Value:
    log: float
    z: np.ndarray


def sample(density, d, steps=3000, seed=0):
    walk = IndependenceSampler(lambda z: Value(density(z), z), d, 4, np.random.default_rng(seed))
    walk.warm_up_chains(200)
    walk.take_steps(steps)
    return walk, np.array([[v.z for v in chain] for chain in walk.kept])


def test_most_draws_are_independent_if_density_is_near_reference():
    walk, draws = sample(lambda z: -0.5 * float(z @ z), 3, 500)
    assert walk.accepted > 0.8 * walk.steps
    assert compute_effective_size(draws[:, :, 0]) > 1000


@pytest.mark.parametrize("scale", [0.4, 2.0])
def test_correlated_normal_density(scale):
    C = scale**2 * np.array([[1.0, 0.8], [0.8, 1.0]])
    H = np.linalg.inv(C)
    _, draws = sample(lambda z: -0.5 * float((z - 1) @ H @ (z - 1)), 2)
    flat = draws.reshape(-1, 2)
    size = min(compute_effective_size(draws[:, :, k]) for k in range(2))
    assert size > 300
    assert flat.mean(axis=0) == pytest.approx([1.0, 1.0], abs=4 * scale / math.sqrt(size))
    assert np.cov(flat.T) == pytest.approx(C, abs=6 * scale**2 / math.sqrt(size))


def test_density_that_is_zero_beyond_a_boundary():
    _, draws = sample(lambda z: -float(z[0]) if z[0] > 0 else -math.inf, 1, 4000)
    flat = np.sort(draws.ravel())
    exact = 1 - np.exp(-flat)
    gap = np.max(np.abs(exact - np.arange(1, len(flat) + 1) / len(flat)))
    assert gap < 2.0 / math.sqrt(compute_effective_size(draws[:, :, 0]))


def test_proposals_that_cannot_be_computed_are_counted_after_warm_up():
    computed = []

    def density(z):
        computed.append(bool(z[0] > -0.5))
        return Value(-0.5 * float(z @ z), z) if computed[-1] else None

    walk = IndependenceSampler(density, 1, 2, np.random.default_rng(0))
    walk.warm_up_chains(60)
    computed.clear()
    walk.take_steps(50)
    assert walk.steps == len(computed) == 100
    assert walk.failed == computed.count(False) > 0
    assert walk.accepted <= computed.count(True)
    assert all(value.z[0] > -0.5 for chain in walk.kept for value in chain)


def test_chains_start_at_standard_normal_points():
    walk = IndependenceSampler(lambda z: Value(0.0, z), 2, 2000, np.random.default_rng(0))
    starts = np.array([z for z, _ in walk.points]).ravel()
    assert starts.mean() == pytest.approx(0.0, abs=0.1)
    assert starts.std() == pytest.approx(1.0, abs=0.1)
    assert np.median(np.abs(starts)) == pytest.approx(0.6745, abs=0.05)


def test_rhat_detects_separate_modes():
    def density(z):
        return float(np.logaddexp(-0.5 * ((z[0] - 1.5) / 0.01) ** 2, -0.5 * ((z[0] + 1.5) / 0.01) ** 2))

    _, draws = sample(density, 1, 300)
    assert compute_rhat(draws[:, :, 0]) > 1.01


def test_rhat_and_effective_size_match_exact_values():
    rng = np.random.default_rng(1)
    independent = rng.standard_normal((4, 2000))
    assert compute_rhat(independent) < 1.005
    assert compute_effective_size(independent) == pytest.approx(8000, rel=0.15)
    slow = np.zeros((4, 4000))
    for k in range(1, 4000):  # an autoregression: n (1 - a)/(1 + a)
        slow[:, k] = 0.9 * slow[:, k - 1] + rng.standard_normal(4)
    assert compute_effective_size(slow) == pytest.approx(16000 / 19, rel=0.3)
    assert compute_rhat(independent + np.array([[0.0], [0.0], [0.0], [0.5]])) > 1.02


def test_normal_scores_are_close_to_expected_order_statistics():
    """The expected values of five ordered standard normal draws are ±1.1630, ±0.4950 and 0."""
    scores = _compute_normal_scores(np.array([[30.0, -7.0, 2.0, 1e6, 0.0]]))
    np.testing.assert_allclose(scores, [[0.4950, -1.1630, 0.0, 1.1630, -0.4950]], atol=0.02)
