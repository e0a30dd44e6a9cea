"""P-values in the lanes are those of a single fit: equal unless noise is drawn, and then nearly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weakform.collocation.residual_projection import project_from_directions
from weakform.diagnostics.autocorrelation import MIN_VALUES_OF_COLUMN, NULL_POLICY, run_autocorrelation_test
from weakform.diagnostics.goodness import REJECTION_LEVEL, assess_residuals
from weakform.engine.lane_goodness import compute_p_values


def draw_basis(rng, lanes: int, is_measured: np.ndarray, n: int) -> np.ndarray:
    """Return orthonormal bases `(lanes, S, K, n)` of smooth directions, zero at missing values."""
    S, K = is_measured.shape
    t, column = np.linspace(0, 1, S)[:, None, None], np.arange(K)[None, :, None]
    smooth = np.cos(np.pi * np.arange(n) * t + column) + 0.1 * rng.standard_normal((lanes, S, K, n))
    return np.linalg.qr((smooth * is_measured[..., None]).reshape(lanes, S * K, n))[0].reshape(lanes, S, K, n)


def draw_residuals(rng, basis: np.ndarray, is_measured: np.ndarray, correlation: float) -> np.ndarray:
    """Return autocorrelated noise `(lanes, S, K)` less what lies in the basis."""
    lanes, S, K, _ = basis.shape
    e, noise = np.zeros((lanes, S, K)), rng.standard_normal((lanes, S, K))
    for s in range(S):
        e[:, s] = noise[:, s] + (correlation * e[:, s - 1] if s else 0.0)
    e *= is_measured
    return e - np.einsum("lskn,ln->lsk", basis, np.einsum("lskn,lsk->ln", basis, e))


def test_single(e, is_measured, basis, sigma_known):
    """Return the p-value of a single fit with the same residuals, and that of its test for autocorrelation."""
    rows = np.where(is_measured, e, np.nan)
    project = project_from_directions(basis.reshape(-1, basis.shape[2]))
    freedom = int(is_measured.sum()) - basis.shape[2]
    goodness = assess_residuals((rows,), float(np.sum(e**2)), freedom, sigma_known, project_noise=project)
    return goodness.p_value, goodness.portmanteau_p


test_single.__test__ = False

CASES = [(6, 1, 2), (9, 2, 3), (12, 1, 3), (24, 2, 4), (60, 1, 3), (60, 3, 6), (320, 2, 6)]
"""Samples, columns, and fitted quantities. With fewer than ten samples there is no test for autocorrelation."""


@pytest.mark.parametrize("sigma_known", [False, True])
@pytest.mark.parametrize(("S", "K", "n"), CASES)
def test_p_values_are_those_of_a_single_fit(S, K, n, sigma_known):
    """Both are equal in their limits and by moments; drawn ones agree to a factor of three, and in what they decide."""
    rng = np.random.default_rng(S + 10 * K)
    exact = 0
    for correlation in (0.0, 0.3, 0.8, -0.5):
        for missing in (0.0, 0.15):
            is_measured = rng.uniform(size=(S, K)) >= missing
            basis = draw_basis(rng, 3, is_measured, n)
            e = draw_residuals(rng, basis, is_measured, correlation)
            masks = np.tile(is_measured, (3, 1, 1))
            p, _ = compute_p_values(e, masks, basis, np.full(3, is_measured.sum() - n), sigma_known)
            for lane in range(3):
                single, portmanteau = test_single(e[lane], is_measured, basis[lane], sigma_known)
                assert np.isnan(p[lane]) == np.isnan(single)
                shortest = min((count for count in is_measured.sum(axis=0) if count >= MIN_VALUES_OF_COLUMN), default=0)
                # A single fit finds no subspace in very short series, and always draws.
                has_subspace = is_measured.size // 2 >= NULL_POLICY.first_vectors
                is_clear = portmanteau > 1.5 * NULL_POLICY.draws_below[0][0] or shortest >= NULL_POLICY.long_series
                is_drawn = not (np.isnan(portmanteau) or (has_subspace and is_clear))
                if np.isnan(single):
                    continue
                if not is_drawn or portmanteau < NULL_POLICY.certain_rejection:
                    assert p[lane] == pytest.approx(single, rel=1e-6, abs=0)
                    exact += 1
                elif single > 3 * REJECTION_LEVEL:
                    assert single / 3 < p[lane] < 3 * single
                    assert p[lane] > REJECTION_LEVEL
                elif single < REJECTION_LEVEL / 10:
                    assert p[lane] < REJECTION_LEVEL
    assert exact >= 5 or S == 12 or (S < MIN_VALUES_OF_COLUMN and not sigma_known)


def test_p_values_of_lanes_with_different_missing_values_are_those_of_each_alone():
    rng = np.random.default_rng(1)
    masks = rng.uniform(size=(9, 40, 2)) > 0.1
    masks[4] = masks[2]
    masks[5, :, 1] = False  # a column without values
    masks[6] = False
    masks[6, :8] = True
    basis = np.concatenate([draw_basis(rng, 1, mask, 3) for mask in masks])
    e = np.concatenate([draw_residuals(rng, b[None], mask, 0.2) for b, mask in zip(basis, masks, strict=True)])
    freedom = masks.sum(axis=(1, 2)) - 3
    together, _ = compute_p_values(e, masks, basis, freedom, False)
    assert np.isnan(together).tolist() == [False] * 6 + [True] + [False] * 2
    for k in range(9):
        alone, _ = compute_p_values(e[[k]], masks[[k]], basis[[k]], freedom[[k]], False)
        assert together[k] == pytest.approx(alone[0], rel=1e-9, nan_ok=True)


def test_a_given_sigma_is_tested_on_both_sides():
    """χ² with 57 degrees of freedom; the smaller of two p-values is doubled."""
    rng = np.random.default_rng(2)
    is_measured = np.ones((60, 1), dtype=bool)
    basis = draw_basis(rng, 1, is_measured, 3)
    e = draw_residuals(rng, basis, is_measured, 0.0)
    e *= np.sqrt(57 / np.sum(e**2))
    for size, low, high in ((1.0, 0.05, 1.0), (2.0, 0, 1e-9), (0.4, 0, 1e-6)):
        p = compute_p_values(size * e, is_measured[None], basis, np.array([57]), True)[0][0]
        assert low <= p <= high
        assert p == pytest.approx(test_single(size * e[0], is_measured, basis[0], True)[0], rel=1e-6, abs=1e-300)
    # Far below σ the residuals are rounding.
    assert compute_p_values(0.05 * e, is_measured[None], basis, np.array([57]), True)[0][0] == 1.0


@pytest.mark.parametrize("sigma_known", [False, True])
def test_p_values_are_uniform_for_noise(sigma_known):
    """Of 1500 right models about 15 have a p-value below 1% and 75 below 5%: limits of about four deviations."""
    rng = np.random.default_rng(3)
    is_measured = np.ones((50, 2), dtype=bool)
    basis = draw_basis(rng, 1, is_measured, 5)
    e = draw_residuals(rng, np.repeat(basis, 1500, axis=0), is_measured, 0.0)
    p, _ = compute_p_values(
        e, np.tile(is_measured, (1500, 1, 1)), np.repeat(basis, 1500, axis=0), np.full(1500, 95), sigma_known
    )
    assert np.sum(p < 0.01) <= 31
    assert 41 <= np.sum(p < 0.05) <= 109
    assert 650 <= np.sum(p < 0.5) <= 850


def test_p_values_of_short_series_have_their_size():
    """Of 2000 right models with twelve samples and three unknowns, about 20 have a p-value below 1%."""
    rng = np.random.default_rng(6)
    is_measured = np.ones((12, 1), dtype=bool)
    bases = np.repeat(draw_basis(rng, 1, is_measured, 3), 2000, axis=0)
    e = draw_residuals(rng, bases, is_measured, 0.0)
    p, _ = compute_p_values(e, np.tile(is_measured, (2000, 1, 1)), bases, np.full(2000, 9), False)
    assert 5 <= np.sum(p < 0.01) <= 38


def test_drawn_p_values_account_for_what_the_fit_absorbs():
    """The null distribution from many more draws of projected noise; χ² would give a quarter of the p-value."""
    rng = np.random.default_rng(5)
    is_measured = np.ones((30, 1), dtype=bool)
    basis = draw_basis(rng, 1, is_measured, 5)
    B = basis[0, :, 0]
    noise = rng.standard_normal((200_000, 30))
    noise -= (noise @ B) @ B.T
    products = [np.sum(noise[:, k:] * noise[:, :-k], axis=1) / np.sum(noise**2, axis=1) for k in (1, 2, 3)]
    Q = sum(30 * 32 / (30 - k) * rho**2 for k, rho in zip((1, 2, 3), products, strict=True))
    for level, low, high in ((0.01, 0.006, 0.016), (0.003, 0.001, 0.006), (5e-5, 2e-6, 3e-4)):
        e = noise[[np.argmin(np.abs(Q - np.quantile(Q, 1 - level)))], :, None]
        p = compute_p_values(e, is_measured[None], basis, np.array([25]), False)[0][0]
        assert low < p < high
        assert run_autocorrelation_test((e[0],)).p_value < 0.5 * low


def test_tail_of_drawn_p_values_continues_below_one_over_the_number_of_draws():
    """With a single long column of the statistic the tail falls, and never rises above the share of draws."""
    rng = np.random.default_rng(4)
    is_measured = np.ones((30, 1), dtype=bool)
    basis = draw_basis(rng, 1, is_measured, 3)
    e = draw_residuals(rng, np.repeat(basis, 400, axis=0), is_measured, 0.7)
    p, _ = compute_p_values(
        e, np.tile(is_measured, (400, 1, 1)), np.repeat(basis, 400, axis=0), np.full(400, 27), False
    )
    Q = np.array([run_autocorrelation_test((part,)).statistic for part in e])
    order = np.argsort(Q)
    assert (p < 1e-3).any()
    assert (p > 0).all()
    # Beyond the draws a χ² of the same mean and variance continues; the two halves need not meet exactly.
    assert (np.diff(np.log(p[order])) < np.log(3)).all()
    assert np.corrcoef(Q, np.log(p))[0, 1] < -0.9


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=15)
def test_p_values_are_shares(seed):
    rng = np.random.default_rng(seed)
    S, K = int(rng.integers(2, 40)), int(rng.integers(1, 3))
    masks = rng.uniform(size=(3, S, K)) > 0.2
    n = int(rng.integers(1, min(4, S * K)))
    basis = np.concatenate([draw_basis(rng, 1, mask, n) for mask in masks])
    e = rng.standard_normal((3, S, K)) * masks * 10.0 ** rng.uniform(-12, 12)
    with np.errstate(all="ignore"):
        p, _ = compute_p_values(e, masks, basis, masks.sum(axis=(1, 2)) - n, bool(rng.integers(2)))
    assert (np.isnan(p) | ((p >= 0) & (p <= 1))).all()
