"""The banded saddle-point system agrees with the dense one, by the compiled kernel and by LAPACK."""

import numpy as np
import pytest

from support import use_numpy
from weakform.linalg import kernels
from weakform.linalg.saddle_point import SaddlePointSystem
from weakform.linalg.symmetric_matrix import NotPositiveDefinite


@pytest.fixture(params=[True, False], ids=["C", "LAPACK"])
def either(request, monkeypatch):
    if request.param and kernels.load_library() is None:
        pytest.skip("the kernels are not compiled")
    if not request.param:
        use_numpy(monkeypatch)


def random(N, D, seed=0):
    rng = np.random.default_rng(seed)
    R = rng.standard_normal((N, 1, D))
    return R.transpose(0, 2, 1) @ R, *rng.standard_normal((2, N, D, D)), rng.uniform(0, 1, (N, D))


def dense(H, left, right, V):
    N, D = V.shape
    K = np.zeros((N, 2, D, N, 2, D))
    for m in range(N):
        K[m, 0, :, m, 0], K[m, 1, :, m, 1] = H[m], -np.diag(V[m])
        K[m, 1, :, m, 0], K[m, 0, :, m, 1] = left[m], left[m].T
        if m + 1 < N:
            K[m, 1, :, m + 1, 0], K[m + 1, 0, :, m, 1] = right[m], right[m].T
    return K.reshape(2 * N * D, 2 * N * D)


@pytest.mark.parametrize(("N", "D"), [(1, 1), (2, 1), (1, 3), (2, 2), (7, 3), (30, 5)])
@pytest.mark.usefixtures("either")
def test_solution_agrees_with_the_dense_system(N, D):
    parts = random(N, D)
    parts[3][::2] = 0.0  # an exact constraint has a zero on the diagonal, which only pivoting can handle
    b = np.random.default_rng(1).standard_normal((N, 2, D, 4))
    original = b.copy()
    solved = SaddlePointSystem(*parts).solve(b)
    assert np.allclose(solved.reshape(-1, 4), np.linalg.solve(dense(*parts), b.reshape(-1, 4)), rtol=1e-7, atol=1e-8)
    assert (b == original).all()
    assert SaddlePointSystem(*parts).solve(b[..., :0]).shape == (N, 2, D, 0)


@pytest.mark.usefixtures("either")
def test_uncoupled_trajectories_can_be_solved_separately():
    H, left, right, V = random(9, 2)
    right[4] = 0.0  # nothing couples the fifth node to the sixth
    H = H + np.eye(2)
    whole = SaddlePointSystem(H, left, right, V)
    b = np.random.default_rng(1).standard_normal((9, 2, 2, 3))
    apart = [whole.solve(b[part], part) for part in (slice(0, 5), slice(5, 9))]
    assert np.allclose(np.concatenate(apart), whole.solve(b), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("bad", [0.0, np.nan])
@pytest.mark.usefixtures("either")
def test_a_singular_system_raises(bad):
    parts = [np.full_like(part, bad) for part in random(4, 2)]
    with pytest.raises(NotPositiveDefinite):
        SaddlePointSystem(*parts)
