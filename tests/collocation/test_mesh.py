"""The constraint of the refinement: derivatives against differences, order of accuracy, missing values."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from support import ALL
from weakform.collocation.helmert import Settings, solve
from weakform.collocation.mesh import Mesh


def mesh_of(name, M=60, noise=0.02):
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=noise, seed=1)
    q = data.trajectories[0]
    system = problem.model.system(data.noise)
    return problem, data, Mesh(system, q.times, system.to_working(q.values), q.measured)


@pytest.mark.parametrize("name", ALL)
def test_derivatives_match_differences(name):
    problem, data, mesh = mesh_of(name)
    x = mesh.system.to_working(data.truth.states)
    p = problem.parameters * 1.05
    line = mesh.linearise(p, x)
    assert np.allclose(line.c, mesh.defects(p, x), rtol=1e-12, atol=1e-14)
    rng = np.random.default_rng(0)
    size = np.abs(x).max()
    for _ in range(3):
        dx, dp = rng.standard_normal(x.shape) * size, rng.standard_normal(len(p)) * p

        def ends(make, h=1e-5):
            return (8 * (make(h) - make(-h)) - (make(2 * h) - make(-2 * h))) / (12 * h)

        by_x = ends(lambda s, dx=dx: mesh.defects(p, x + s * dx))
        by_p = ends(lambda s, dp=dp: mesh.defects(p + s * dp, x))
        assert np.allclose(line.apply(dx), by_x, rtol=1e-6, atol=1e-7 * np.abs(by_x).max())
        assert np.allclose(line.G @ dp, by_p, rtol=1e-6, atol=1e-7 * np.abs(by_p).max())
        z = rng.standard_normal(line.c.shape)
        assert np.sum(z * line.apply(dx)) == pytest.approx(np.sum(line.transposed(z) * dx), rel=1e-10)


def test_the_covariance_is_the_dense_one():
    problem, _, mesh = mesh_of("lorenz", M=12)
    line = mesh.linearise(problem.parameters, mesh.data)
    M, D = line.c.shape
    A = np.zeros((M * D, (M + 1) * D))
    for m in range(M):
        rows = slice(m * D, (m + 1) * D)
        A[rows, m * D : (m + 1) * D] = line.left[m]
        A[rows, (m + 1) * D : (m + 2) * D] = line.right[m]
    v = np.random.default_rng(1).uniform(0.5, 2, (M + 1, D))
    S = (A * v.ravel()) @ A.T
    factor = line.covariance(v)
    b = np.random.default_rng(2).standard_normal((M * D, 3))
    white = factor.whiten(b)
    assert np.allclose(white.T @ white, b.T @ np.linalg.solve(S, b), rtol=1e-9)
    assert np.allclose(factor.back(white), np.linalg.solve(S, b), rtol=1e-8)


def test_the_rule_is_of_fourth_order():
    problem = wf.problems.get("lotka-volterra")
    errors = []
    for M in (100, 200, 400):
        _, data, mesh = mesh_of("lotka-volterra", M=M, noise=0.0)
        errors.append(np.abs(mesh.defects(problem.parameters, data.truth.states)).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert (orders > 4.7).all(), "a local error of order five"


def test_truncation_foretells_the_error():
    problem, data, mesh = mesh_of("lotka-volterra", M=100, noise=0.0)
    x = data.truth.states
    actual = mesh.defects(problem.parameters, x)
    assert np.allclose(-mesh.truncation(problem.parameters, x), actual, rtol=0.1, atol=0.1 * np.abs(actual).max())


def settings_of(problem):
    low, high = np.array(problem.box).T
    return Settings(np.ones(len(low), dtype=bool), low, high)


@pytest.mark.parametrize("name", ["lotka-volterra", "lorenz", "goodwin"])
def test_the_solution_obeys_the_model_and_is_stationary(name):
    problem, data, mesh = mesh_of(name, M=150, noise=0.05)
    settings = settings_of(problem)
    solved = solve((mesh,), data.truth.sigma, problem.parameters, (mesh.data,), settings)
    assert solved.stop.converged
    x = solved.states[0]
    assert np.abs(mesh.defects(solved.p, x)).max() < 1e-4 * np.abs(np.diff(x, axis=0)).max()
    # No neighbouring parameters fit better.
    for j in range(len(solved.p)):
        held = settings.free.copy()
        held[j] = False
        for change in (0.999, 1.001):
            p = solved.p.copy()
            p[j] *= change
            if problem.box[j][0] <= p[j] <= problem.box[j][1]:
                near = solve((mesh,), data.truth.sigma, p, solved.states, replace(settings, free=held))
                assert near.misfit > solved.misfit - 0.05


def test_a_finer_mesh_changes_little_where_the_samples_suffice():
    problem, data, mesh = mesh_of("lotka-volterra", M=150, noise=0.05)
    settings = settings_of(problem)
    coarse = solve((mesh,), data.truth.sigma, problem.parameters, (mesh.data,), settings)
    fine, states = mesh.halved(coarse.p, coarse.states[0])
    again = solve((fine,), data.truth.sigma, problem.parameters, (states,), settings)
    errors = np.sqrt(np.diag(np.linalg.inv(coarse.information)))
    assert (np.abs(again.p - coarse.p) < 0.05 * errors).all()
    assert again.misfit == pytest.approx(coarse.misfit, rel=1e-2)


def test_values_that_were_not_measured_carry_no_weight():
    problem, data, mesh = mesh_of("lotka-volterra", M=150, noise=0.05)
    rng = np.random.default_rng(4)
    lost = rng.uniform(size=mesh.data.shape) < 0.2
    settings = settings_of(problem)
    estimates = []
    for junk in (0.0, 5.0):
        holes = replace(mesh, data=np.where(lost, mesh.data + junk, mesh.data), measured=~lost)
        states = (mesh.data,)
        estimates.append(solve((holes,), data.truth.sigma, problem.parameters, states, settings).p)
    assert np.allclose(estimates[0], estimates[1], rtol=1e-3)
    assert np.linalg.norm(estimates[0] / problem.parameters - 1) < 0.1


def test_two_trajectories_share_the_parameters():
    problem = wf.problems.get("logistic")
    meshes = []
    for seed in (1, 2):
        q = problem.simulate(M=80, noise=0.05, seed=seed).trajectories[0]
        system = problem.model.system(("gaussian",))
        meshes.append(Mesh(system, q.times, q.values, q.measured))
    sigma = np.array([0.03])
    settings = settings_of(problem)
    both = solve(tuple(meshes), sigma, problem.parameters, tuple(m.data for m in meshes), settings)
    one = solve((meshes[0],), sigma, problem.parameters, (meshes[0].data,), settings)
    assert both.stop.converged
    assert (np.diag(np.linalg.inv(both.information)) < 0.7 * np.diag(np.linalg.inv(one.information))).all()
