"""The constraint on single intervals: derivatives against differences, covariance, order of accuracy."""

import numpy as np
import pytest

import weakform as wf
from support import ALL, mesh_of
from weakform.collocation.mesh import Mesh, MeshPart
from weakform.data.matching import build_system


@pytest.mark.parametrize("name", ALL)
def test_derivatives_match_differences(name):
    problem, data, mesh = mesh_of(name)
    x = mesh.system.to_working(data.truth.states)
    p = problem.parameters * 1.05
    line = mesh.linearise(p, x)
    assert np.allclose(line.c, mesh.compute_defects(p, x), rtol=1e-12, atol=1e-14)
    rng = np.random.default_rng(0)
    size = np.abs(x).max()
    for _ in range(3):
        dx, dp = rng.standard_normal(x.shape) * size, rng.standard_normal(len(p)) * p

        def difference(f, h=1e-5):
            return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

        by_x = difference(lambda s, dx=dx: mesh.compute_defects(p, x + s * dx))
        by_p = difference(lambda s, dp=dp: mesh.compute_defects(p + s * dp, x))
        assert np.allclose(line.A.apply(dx), by_x, rtol=1e-6, atol=1e-7 * np.abs(by_x).max())
        assert np.allclose(line.G @ dp, by_p, rtol=1e-6, atol=1e-7 * np.abs(by_p).max())
        z = rng.standard_normal(line.c.shape)
        assert np.sum(z * line.A.apply(dx)) == pytest.approx(np.sum(line.A.apply_transposed(z, len(x)) * dx), rel=1e-10)


def test_banded_covariance_matches_dense():
    problem, _, mesh = mesh_of("lorenz", M=12)
    line = mesh.linearise(problem.parameters, mesh.data)
    M, D = line.c.shape
    A = np.zeros((M * D, (M + 1) * D))
    for m in range(M):
        rows = slice(m * D, (m + 1) * D)
        A[rows, m * D : (m + 1) * D] = line.A.left[m]
        A[rows, (m + 1) * D : (m + 2) * D] = line.A.right[m]
    v = np.random.default_rng(1).uniform(0.5, 2, (M + 1, D))
    S = (A * v.ravel()) @ A.T
    factor = line.factorise_covariance(v)
    b = np.random.default_rng(2).standard_normal((M * D, 3))
    white = factor.whiten(b)
    assert np.allclose(white.T @ white, b.T @ np.linalg.solve(S, b), rtol=1e-9)
    assert np.allclose(factor.solve_transposed(white), np.linalg.solve(S, b), rtol=1e-8)


def test_rule_is_of_fourth_order():
    problem = wf.problems.get("lotka-volterra")
    errors = []
    for M in (100, 200, 400):
        _, data, mesh = mesh_of("lotka-volterra", M=M, noise=0.0)
        errors.append(np.abs(mesh.compute_defects(problem.parameters, data.truth.states)).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 4.7).all(), "a local error of order five"


def test_truncation_predicts_error_of_rule():
    problem, data, mesh = mesh_of("lotka-volterra", M=100, noise=0.0)
    x = data.truth.states
    actual = mesh.compute_defects(problem.parameters, x)
    assert np.allclose(
        -mesh.estimate_truncation(problem.parameters, x), actual, rtol=0.1, atol=0.1 * np.abs(actual).max()
    )


def test_corrected_rule_has_no_error_where_it_was_corrected():
    problem, data, mesh = mesh_of("lorenz", M=100, noise=0.0)
    p, x = problem.parameters, data.truth.states
    corrected = mesh.correct_rule(p, x)
    assert np.abs(corrected.compute_defects(p, x)).max() < 1e-3 * np.abs(mesh.compute_defects(p, x)).max()
    assert np.allclose(corrected.linearise(p, x).c, corrected.compute_defects(p, x), rtol=0, atol=1e-12)
    assert np.abs(corrected.estimate_truncation(p, x)).max() < 1e-12
    # A second correction adds the remaining error, which is zero, to the first.
    assert np.allclose(corrected.correct_rule(p, x).offset, corrected.offset, atol=1e-12)


@pytest.mark.parametrize("hold", [False, True])
def test_mesh_with_inputs_scale_and_gaps_matches_differences(hold):
    model = wf.Model.from_text("x' = -a*x + b*q*y\ny' = q - c*y", inputs=["q"])
    rng = np.random.default_rng(2)
    t = np.cumsum(rng.uniform(0.1, 0.3, 12))
    data = wf.Dataset(t, rng.uniform(1, 2, (12, 2)), names=["x", "y"], inputs={"q": rng.integers(0, 3, 12)}, hold=hold)
    system = build_system(model, data, 0)
    measured = rng.uniform(size=(12, 2)) < 0.8
    mesh = Mesh.from_parts([MeshPart(system, t, data.trajectories[0].values, measured, np.full((12, 2), 0.5))])
    p, x = np.array([0.5, 0.3, 0.8]), rng.uniform(1, 2, (12, 2))
    line = mesh.linearise(p, x)
    h = 1e-6
    for j in range(3):
        e = h * np.eye(3)[j]
        numeric = (mesh.compute_defects(p + e, x) - mesh.compute_defects(p - e, x)) / (2 * h)
        assert np.allclose(line.G[:, :, j], numeric, atol=1e-8)
    dx = rng.standard_normal((12, 2))
    numeric = (mesh.compute_defects(p, x + h * dx) - mesh.compute_defects(p, x - h * dx)) / (2 * h)
    assert np.allclose(line.A.apply(dx), numeric, atol=1e-8)


def test_pieces_of_a_mesh_are_nearly_equal_and_stay_within_their_trajectories():
    """Nine and eight nodes make two pieces each of at least four nodes; a trajectory of three nodes stays whole."""
    model = wf.Model.from_text("x' = -k*x")
    parts = []
    for nodes in (9, 8, 3):
        t, values = np.arange(float(nodes)), np.ones((nodes, 1))
        parts.append(MeshPart(build_system(model, wf.Dataset(t, values, names=["x"]), 0), t, values, values > 0))
    pieces = Mesh.from_parts(parts).cut_into_pieces(4)
    assert pieces.begins.tolist() == [0, 4, 9, 13, 17, 20]
    assert pieces.systems == tuple(parts[k].system for k in (0, 0, 1, 1, 2))
