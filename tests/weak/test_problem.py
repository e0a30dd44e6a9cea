"""The weak problem with gaps, uneven times, correlated noise and several trajectories."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from support import LINEAR, LV, values_at
from weakform.basis.local import Local
from weakform.noise.kinds import KINDS
from weakform.weak.weak_likelihood import WeakLikelihood
from weakform.weak.weak_problem import WeakProblem


@pytest.mark.parametrize("name", ["lotka-volterra", "goodwin", "hindmarsh-rose"])
def test_derivatives_match_differences_with_gaps_uneven_times_and_correlated_noise(name):
    """Compare gradient and Hessian with differences when all generalisations are used together."""
    problem = wf.problems.get(name)
    rng = np.random.default_rng(3)
    t, u = problem.solution(90)
    keep = np.sort(rng.choice(91, 70, replace=False))
    t, u = t[keep], u[keep]
    D = u.shape[1]
    A = rng.standard_normal((D, D)) * 0.02
    size = 0.02 * np.sqrt(np.mean(u**2)) if problem.noise == "gaussian" else 0.02
    C = (A @ A.T + 0.001 * np.eye(D)) * size**2 * 100
    kind = KINDS[problem.noise]
    noisy = kind.from_working(kind.to_working(u) + rng.standard_normal(u.shape) @ np.linalg.cholesky(C).T)
    noisy[rng.uniform(size=len(t)) < 0.1] = np.nan
    data = wf.Dataset(t, noisy, problem.noise, C, names=problem.model.states)
    likelihood = WeakProblem.build(problem.model, data, Local()).likelihood()
    p = problem.parameters * 1.02
    exact = likelihood(p, 2)
    for j in range(len(p)):
        h = 1e-4 * max(abs(p[j]), 1e-3)
        step = h * np.eye(len(p))[j]
        ends = [likelihood(p + s * step, 1) for s in (1, -1, 2, -2)]
        slope = (8 * (ends[0].value - ends[1].value) - (ends[2].value - ends[3].value)) / (12 * h)
        bend = (8 * (ends[0].gradient - ends[1].gradient) - (ends[2].gradient - ends[3].gradient)) / (12 * h)
        scale = np.abs(exact.hessian[j]).max()
        assert slope == pytest.approx(exact.gradient[j], rel=1e-4, abs=2e-6 * abs(exact.value))
        assert np.abs(bend - exact.hessian[j]).max() <= 5e-5 * scale


def test_diagonal_covariance_gives_the_likelihood_of_separate_sigmas():
    """The problem with a diagonal covariance has the same likelihood, up to a constant, as with σ by state."""
    t, _ = LV.solution(80)
    noisy = values_at(LV, t, 0.05, 1)
    s = np.array([0.1, 0.3])
    by_sigma = WeakProblem.build(LV.model, wf.Dataset(t, noisy, sigma=s), Local()).likelihood()
    by_covariance = WeakProblem.build(LV.model, wf.Dataset(t, noisy, sigma=np.diag(s**2)), Local()).likelihood()
    p, q = LV.parameters, LV.parameters * 1.1
    difference = by_covariance(p).value - by_covariance(q).value
    assert by_sigma(p).value - by_sigma(q).value == pytest.approx(difference, rel=1e-9)


def test_weak_likelihood_adds_over_trajectories():
    t, _ = LV.solution(100)
    noisy = values_at(LV, t, 0.05, 1)
    parts = [wf.Dataset(t[:50], noisy[:50], sigma=0.2), wf.Dataset(t[50:], noisy[50:], sigma=0.2)]
    joint = WeakProblem.build(LV.model, wf.Dataset.join(parts), Local()).likelihood()(LV.parameters, 2)
    each = [WeakProblem.build(LV.model, part, Local()).likelihood()(LV.parameters, 2) for part in parts]
    assert isinstance(WeakProblem.build(LV.model, parts[0], Local()).likelihood(), WeakLikelihood)
    assert joint.value == pytest.approx(sum(e.value for e in each))
    assert np.allclose(joint.hessian, sum(e.hessian for e in each))


def test_weighted_left_side_of_noise_free_data_has_root_mean_square_one():
    """One state in any unit, in two trajectories."""
    t = np.linspace(0, 3, 40)
    for unit in (1.0, 1e-6):
        parts = [wf.Dataset(t, unit * c * np.exp(-t), names=["u"], sigma=unit) for c in (1.0, 3.0)]
        problem = replace(WeakProblem.build(LINEAR, wf.Dataset.join(parts), Local()), sigma=np.zeros(1))
        assert problem.compute_left_side_norm() == pytest.approx(np.sqrt(problem.size), rel=1e-12)
