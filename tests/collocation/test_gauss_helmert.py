"""The Gauss–Helmert iteration: its solution obeys the model and is stationary; unmeasured values have no weight."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from support import mesh_of
from weakform.collocation.gauss_helmert import IterationSettings, _Iteration, solve_gauss_helmert
from weakform.collocation.mesh import Mesh, MeshPart
from weakform.collocation.watchdog import GaussHelmertStep, Watchdog
from weakform.linalg.symmetric_matrix import NotPositiveDefinite


def settings_of(problem):
    low, high = np.array(problem.box).T
    return IterationSettings(np.ones(len(low), dtype=bool), low, high)


@pytest.mark.parametrize("name", ["lotka-volterra", "lorenz", "goodwin"])
def test_solution_obeys_model_and_is_stationary(name):
    problem, data, mesh = mesh_of(name, M=150, noise=0.05)
    settings = settings_of(problem)
    solved = solve_gauss_helmert(mesh, data.truth.sigma, problem.parameters, mesh.data, settings)
    assert solved.stop.converged
    x = solved.states
    assert np.abs(mesh.compute_defects(solved.p, x)).max() < 1e-4 * np.abs(np.diff(x, axis=0)).max()
    # With any one parameter held slightly off, no fit is better.
    for j in range(len(solved.p)):
        held = settings.free.copy()
        held[j] = False
        for change in (0.999, 1.001):
            p = solved.p.copy()
            p[j] *= change
            if problem.box[j][0] <= p[j] <= problem.box[j][1]:
                near = solve_gauss_helmert(mesh, data.truth.sigma, p, solved.states, replace(settings, free=held))
                assert near.misfit > solved.misfit - 0.05


def test_finer_mesh_changes_little_if_samples_are_dense():
    problem, data, mesh = mesh_of("lotka-volterra", M=150, noise=0.05)
    settings = settings_of(problem)
    coarse = solve_gauss_helmert(mesh, data.truth.sigma, problem.parameters, mesh.data, settings)
    fine, states = mesh.halve_intervals(coarse.p, coarse.states)
    finer = solve_gauss_helmert(fine, data.truth.sigma, problem.parameters, states, settings)
    errors = np.sqrt(np.diag(np.linalg.inv(coarse.information)))
    assert (np.abs(finer.p - coarse.p) < 0.05 * errors).all()
    assert finer.misfit == pytest.approx(coarse.misfit, rel=1e-2)


def test_corrected_mesh_gives_estimate_of_finer_mesh():
    problem, data, mesh = mesh_of("lorenz", M=600, noise=0.0005)
    settings, sigma = settings_of(problem), data.truth.sigma
    coarse = solve_gauss_helmert(mesh, sigma, problem.parameters, mesh.data, settings)
    corrected, corrected_mesh = coarse, mesh
    for _ in range(3):
        corrected_mesh = corrected_mesh.correct_rule(corrected.p, corrected.states)
        corrected = solve_gauss_helmert(corrected_mesh, sigma, corrected.p, corrected.states, settings)
    fine, states = mesh.halve_intervals(coarse.p, coarse.states)
    fine, states = fine.halve_intervals(coarse.p, states)
    finer = solve_gauss_helmert(fine, sigma, coarse.p, states, settings)
    errors = np.sqrt(np.diag(np.linalg.inv(finer.information)))
    before, after = np.abs(coarse.p - finer.p) / errors, np.abs(corrected.p - finer.p) / errors
    assert before.max() > 0.05, "the coarse mesh has an error to correct"
    assert after.max() < 0.02 * before.max()


def test_unmeasured_values_have_no_weight():
    problem, data, mesh = mesh_of("lotka-volterra", M=150, noise=0.05)
    rng = np.random.default_rng(4)
    missing = rng.uniform(size=mesh.data.shape) < 0.2
    settings = settings_of(problem)
    estimates = []
    for junk in (0.0, 5.0):
        holes = replace(mesh, data=np.where(missing, mesh.data + junk, mesh.data), measured=~missing)
        estimates.append(solve_gauss_helmert(holes, data.truth.sigma, problem.parameters, mesh.data, settings).p)
    assert np.allclose(estimates[0], estimates[1], rtol=1e-3)
    assert np.linalg.norm(estimates[0] / problem.parameters - 1) < 0.1


def test_two_trajectories_share_parameters():
    problem = wf.problems.get("logistic")
    parts = []
    for seed in (1, 2):
        q = problem.simulate(M=80, noise=0.05, seed=seed).trajectories[0]
        system = problem.model.system(("gaussian",))
        parts.append(MeshPart(system, q.times, q.values, q.measured))
    sigma = np.array([0.03])
    settings = settings_of(problem)
    two, first = Mesh.from_parts(parts), Mesh.from_parts(parts[:1])
    both = solve_gauss_helmert(two, sigma, problem.parameters, two.data, settings)
    alone = solve_gauss_helmert(first, sigma, problem.parameters, first.data, settings)
    assert both.stop.converged
    assert (np.diag(np.linalg.inv(both.information)) < 0.7 * np.diag(np.linalg.inv(alone.information))).all()


@pytest.mark.parametrize("slope", [1.6, 2.5, 3.0, 6.0])
def test_watchdog_shortens_oscillating_steps(slope):
    # A step is -slope times the distance to the floor. Whole steps never converge from a slope of 2 on, halved ones
    # from 4 on.
    def step(x):
        dp = np.array([-slope * x])
        return GaussHelmertStep(
            dp, np.zeros((1, 1)), dp, np.eye(1), drift=0.0, cost=x**2, violation=0.0, A=None, factor=None
        )

    x = 1.0
    watch = Watchdog(np.array([x]), np.zeros((1, 1)), step(x))
    for _ in range(12):
        share = watch.share
        x += share * float(step(x).dp[0])
        watch.record_point(np.array([x]), np.zeros((1, 1)), step(x), share, lambda at: at.cost)
    assert abs(x) < 1e-6


@pytest.mark.parametrize(
    ("degrees", "share"),
    [
        pytest.param(0, 1.0, id="same direction"),
        pytest.param(80, 1.0, id="slightly forward"),
        pytest.param(100, 1.0, id="slightly backward"),
        # The second step has the component -1 along the first: steps are too long by the factor 2.
        pytest.param(180, 0.5, id="reversed"),
    ],
)
def test_watchdog_shortens_only_steps_that_turn_back(degrees, share):
    def step(angle, cost):
        dp = 3.0 * np.array([np.cos(angle), np.sin(angle)])
        return GaussHelmertStep(
            dp, np.zeros((1, 1)), dp, np.eye(2), drift=0.0, cost=cost, violation=0.0, A=None, factor=None
        )

    p, x = np.zeros(2), np.zeros((1, 1))
    watch = Watchdog(p, x, step(0.0, 2.0))
    watch.record_point(p, x, step(np.deg2rad(degrees), 1.0), 1.0, lambda at: at.cost)
    assert watch.share == pytest.approx(share)


def test_failed_eigendecomposition_is_reported_as_singular(monkeypatch):
    problem, data, mesh = mesh_of("logistic", M=40, noise=0.05)

    def broken_eigh(matrix):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", broken_eigh)
    with pytest.raises(NotPositiveDefinite):
        solve_gauss_helmert(mesh, data.truth.sigma, problem.parameters, mesh.data, settings_of(problem))


def test_watchdog_keeps_the_best_point_although_the_next_one_is_worse():
    def step(cost):
        dp = np.array([0.1])
        return GaussHelmertStep(
            dp, np.zeros((1, 1)), dp, np.eye(1), drift=0.0, cost=cost, violation=0.0, A=None, factor=None
        )

    x = np.zeros((1, 1))
    watch = Watchdog(np.array([1.0]), x, step(2.0))
    watch.record_point(np.array([2.0]), x, step(3.0), 1.0, lambda at: at.cost)
    assert watch.return_to_best()[0] == 1.0
    # After the return the next point becomes the best, whatever its value.
    watch.record_point(np.array([3.0]), x, step(4.0), 1.0, lambda at: at.cost)
    assert watch.return_to_best()[0] == 3.0


@pytest.mark.parametrize(("off", "excess"), [(0.0, 1.0), (0.5, 1.0), (3.0, 3.0), (-3.0, 3.0)])
def test_excess_of_residuals_is_their_root_mean_square_over_sigma_and_at_least_one(off, excess):
    problem, data, mesh = mesh_of("lotka-volterra", M=40, noise=0.05)
    sigma = data.truth.sigma
    iteration = _Iteration(mesh, sigma, settings_of(problem), None)
    assert iteration._compute_excess(mesh.data - off * sigma) == pytest.approx(excess)
