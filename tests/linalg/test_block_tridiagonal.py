"""Block-tridiagonal operations agree with NumPy on the full matrix."""

import numpy as np
import pytest

from weakform.linalg.block_tridiagonal import factorise
from weakform.linalg.symmetric_matrix import NotPositiveDefinite


def random_system(B, b, J, seed):
    rng = np.random.default_rng(seed)

    def symmetric(shift):
        diagonal = rng.standard_normal((B, b, b))
        diagonal = diagonal + diagonal.transpose(0, 2, 1) + shift * np.eye(b)
        return diagonal, 0.4 * rng.standard_normal((B - 1, b, b))

    return symmetric(6.0 * np.sqrt(b)), [symmetric(0.0) for _ in range(J)]


def full(diagonal, lower):
    B, b, _ = diagonal.shape
    S = np.zeros((B * b, B * b))
    for k in range(B):
        S[k * b : (k + 1) * b, k * b : (k + 1) * b] = diagonal[k]
    for k in range(B - 1):
        S[(k + 1) * b : (k + 2) * b, k * b : (k + 1) * b] = lower[k]
        S[k * b : (k + 1) * b, (k + 1) * b : (k + 2) * b] = lower[k].T
    return S


@pytest.mark.parametrize(("B", "b"), [(1, 1), (1, 7), (2, 3), (5, 4), (13, 6)])
@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_operations_agree_with_the_full_matrix(B, b, chunk):
    (diagonal, lower), perturbations = random_system(B, b, 3, seed=B * 100 + b)
    S = full(diagonal, lower)
    inverse = np.linalg.inv(S)
    factor = factorise(diagonal.copy(), lower.copy())
    r = np.random.default_rng(1).standard_normal((B, b, 2))
    flat = r.reshape(B * b, 2)

    assert factor.logdet == pytest.approx(np.linalg.slogdet(S)[1], rel=1e-12)
    assert np.allclose(factor.solve(r).reshape(B * b, 2), inverse @ flat, atol=1e-12)
    white = factor.whiten(r).reshape(B * b, 2)
    assert np.allclose(white.T @ white, flat.T @ inverse @ flat, atol=1e-12)
    diagonal_inverse, lower_inverse = factor.compute_inverse_blocks()
    for k in range(B):
        rows = slice(k * b, (k + 1) * b)
        assert np.allclose(diagonal_inverse[k], inverse[rows, rows], atol=1e-12)
        if k:
            assert np.allclose(lower_inverse[k - 1], inverse[rows, (k - 1) * b : k * b], atol=1e-12)

    D = [full(*perturbation) for perturbation in perturbations]
    expected = np.array([[np.trace(inverse @ Di @ inverse @ Dj) for Dj in D] for Di in D])
    chunks = [
        (
            np.stack([d[k : k + chunk] for d, _ in perturbations]),
            np.stack([l[max(k, 1) - 1 : min(k + chunk, B) - 1] for _, l in perturbations]),
        )
        for k in range(0, B, chunk)
    ]
    assert np.allclose(factor.compute_traces(3, diagonal_inverse, chunks), expected, rtol=1e-10, atol=1e-12)


def test_an_indefinite_matrix_is_refused():
    (diagonal, lower), _ = random_system(4, 3, 0, seed=1)
    diagonal[2] -= 100 * np.eye(3)
    with pytest.raises(NotPositiveDefinite):
        factorise(diagonal, lower)


def test_a_matrix_with_nan_is_refused():
    (diagonal, lower), _ = random_system(4, 3, 0, seed=1)
    diagonal[1, 0, 0] = np.nan
    with pytest.raises(NotPositiveDefinite):
        factorise(diagonal, lower)
