"""Chains of intervals agree with dense matrices, and the C kernels with NumPy to 1e-10."""

import numpy as np
import pytest

import weakform as wf
from support import mesh_of, use_numpy
from weakform.linalg import interval_chain, kernels
from weakform.linalg.interval_chain import BandFactor, Chain, ChainFactor
from weakform.linalg.symmetric_matrix import NotPositiveDefinite

needs_kernels = pytest.mark.skipif(kernels.load_library() is None, reason="the kernels are not compiled")


def random_chain(rng, lengths, D):
    """Return a chain of trajectories with `lengths` nodes, and the total number of nodes."""
    begin = np.concatenate(
        [np.arange(n - 1) + before for n, before in zip(lengths, np.cumsum([0, *lengths[:-1]]), strict=True)]
    )
    left, right = (sign * np.eye(D) + 0.3 * rng.standard_normal((len(begin), D, D)) for sign in (-1, 1))
    return Chain(begin, left, right), sum(lengths)


def dense(chained, nodes):
    M, D, _ = chained.left.shape
    A = np.zeros((M, D, nodes, D))
    for m, k in enumerate(chained.begin):
        A[m, :, k], A[m, :, k + 1] = chained.left[m], chained.right[m]
    return A.reshape(M * D, nodes * D)


@pytest.fixture(params=[True, False], ids=["C", "NumPy"])
def either(request, monkeypatch):
    if request.param and kernels.load_library() is None:
        pytest.skip("the kernels are not compiled")
    if not request.param:
        use_numpy(monkeypatch)


@pytest.mark.parametrize(("lengths", "D"), [((9,), 1), ((5, 2, 7), 3), ((2,), 4), ((4, 4, 4, 4), 2)])
@pytest.mark.usefixtures("either")
def test_chain_operations_agree_with_the_dense_matrix(lengths, D):
    rng = np.random.default_rng(3)
    chained, nodes = random_chain(rng, lengths, D)
    A, v = dense(chained, nodes), rng.uniform(0.5, 2.0, (nodes, D))
    M = len(chained.begin)
    for shape in ((), (3,)):
        d, z = rng.standard_normal((nodes, D, *shape)), rng.standard_normal((M, D, *shape))
        assert np.allclose(chained.apply(d).reshape(M * D, -1), A @ d.reshape(nodes * D, -1), rtol=1e-12)
        back = chained.apply_transposed(z, nodes).reshape(nodes * D, -1)
        assert np.allclose(back, A.T @ z.reshape(M * D, -1), rtol=1e-12, atol=1e-13)
    S, b = (A * v.ravel()) @ A.T, rng.standard_normal((M * D, 2))
    factor = chained.factorise_covariance(v)
    L = np.linalg.cholesky(S)
    assert np.allclose(factor.whiten(b), np.linalg.solve(L, b), rtol=1e-9, atol=1e-11)
    assert np.allclose(factor.solve_transposed(b), np.linalg.solve(L.T, b), rtol=1e-9, atol=1e-11)
    assert np.allclose(factor.whiten(b[:, 0]), np.linalg.solve(L, b[:, 0]), rtol=1e-9, atol=1e-11)
    assert factor.whiten(b[:, :0]).shape == (M * D, 0)


@pytest.mark.usefixtures("either")
def test_a_covariance_that_is_not_positive_definite_raises():
    chained, nodes = random_chain(np.random.default_rng(1), (6,), 2)
    for bad in (0.0, np.nan):
        v = np.ones((nodes, 2))
        v[:] = bad
        with pytest.raises(NotPositiveDefinite):
            chained.factorise_covariance(v)


@needs_kernels
@pytest.mark.parametrize("name", ["lorenz", "goodwin", "hindmarsh-rose", "protein-transduction", "sir-tdi"])
def test_kernels_agree_with_numpy_to_ten_digits(name, monkeypatch):
    problem, _, mesh = mesh_of(name, M=64, noise=0.02)
    v = mesh.compute_variances(np.full(mesh.system.D, 0.1))
    fast = mesh.linearise(problem.parameters, mesh.data)
    factor = fast.factorise_covariance(v)
    use_numpy(monkeypatch)
    slow = mesh.linearise(problem.parameters, mesh.data)
    slow_factor = slow.factorise_covariance(v)
    assert isinstance(factor, ChainFactor)
    assert isinstance(slow_factor, BandFactor)
    for a, b in ((fast.c, slow.c), (fast.G, slow.G), (fast.A.left, slow.A.left), (fast.A.right, slow.A.right)):
        assert np.allclose(a, b, rtol=1e-10, atol=1e-13 * np.abs(b).max())
    columns = slow.G.reshape(slow.c.size, -1)
    compiled, numpy = (
        factor.solve_transposed(factor.whiten(columns)),
        slow_factor.solve_transposed(slow_factor.whiten(columns)),
    )
    assert np.allclose(compiled, numpy, rtol=1e-8, atol=1e-10 * np.abs(numpy).max())


def test_recursion_from_node_to_node_satisfies_its_equations(monkeypatch):
    rng = np.random.default_rng(0)
    left, right, q = rng.standard_normal((6, 3, 3)), rng.standard_normal((6, 3, 3)), rng.standard_normal((6, 3, 4))
    fast = interval_chain.solve_recursion(left, right, q)
    assert (fast[0] == 0).all()
    for m in range(5):
        assert right[m] @ fast[m + 1] == pytest.approx(-(left[m] @ fast[m] + q[m]))
    singular = right.copy()
    singular[2] = 0.0
    assert interval_chain.solve_recursion(left, singular, q) is None
    use_numpy(monkeypatch)
    assert interval_chain.solve_recursion(left, right, q) == pytest.approx(fast, rel=1e-10)
    assert interval_chain.solve_recursion(left, singular, q) is None


def test_a_fit_gives_the_same_result_without_kernels(monkeypatch):
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=100, noise=0.05, seed=2)
    fast = wf.fit(problem.model, data)
    use_numpy(monkeypatch)
    slow = wf.fit(problem.model, data)
    assert np.allclose(fast.estimate, slow.estimate, rtol=1e-10)
    assert fast.log_likelihood == pytest.approx(slow.log_likelihood, rel=1e-10)


def test_a_fit_of_hidden_states_gives_the_same_result_without_kernels(monkeypatch):
    t = np.linspace(0, 6, 40)
    model = wf.Model.from_text("x' = a*x - x*y\ny' = x*y - c*y")
    u = wf.simulate(model, [1.0, 1.2], [1.0, 0.5], t).states[:, 0]
    data = wf.Dataset(t, u + 0.02 * np.random.default_rng(0).standard_normal(40), names=["x"])
    fast = wf.fit(model, data, bounds={"a": (0, 5), "c": (0, 5)})
    use_numpy(monkeypatch)
    slow = wf.fit(model, data, bounds={"a": (0, 5), "c": (0, 5)})
    assert fast.success
    assert np.allclose(fast.estimate, slow.estimate, atol=1e-4 * fast.wald_errors.min())


def test_a_library_that_cannot_be_loaded_is_ignored(monkeypatch, tmp_path):
    (tmp_path / "libkernels.so").write_text("no library")
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "kernels.py"))
    assert kernels.load_library.__wrapped__() is None
    monkeypatch.setenv("WEAKFORM_KERNELS", "0")
    assert kernels.load_library.__wrapped__() is None
