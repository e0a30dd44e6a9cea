"""The default method: noise level, mesh refinement, denoised states, directions that the data do not determine."""

import numpy as np
import pytest

import weakform as wf
from support import fitted
from weakform.collocation.gauss_helmert import solve_gauss_helmert
from weakform.estimators import ESTIMATORS, Outcome, Status, wendy
from weakform.estimators.estimation_problem import Task
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.study import read_study
from weakform.linalg.symmetric_matrix import NotPositiveDefinite
from weakform.parameters.working_scale import WorkingScale
from weakform.results.options import Options
from weakform.support.progress import Watch
from weakform.weak.weak_problem import WeakProblem


def test_wendy_is_the_default_method():
    _, _, fit = fitted()
    assert fit.method == "wendy"
    assert "information" in fit.covariance_kind


def test_sigma_is_right_where_filter_overestimates_it():
    """On Hindmarsh–Rose u2 at 2% noise, M = 256, the σ of the filter is 2.5 times too large."""
    problem, data, fit = fitted("hindmarsh-rose", noise=0.02)
    filtered = wf.fit(problem.model, data, bounds=problem.bounds, method="wls").sigma
    assert filtered[1] > 2 * data.truth.sigma[1]
    assert np.allclose(fit.sigma, data.truth.sigma, rtol=0.12)


def test_mesh_is_refined_if_samples_are_coarse():
    problem, _, fit = fitted("hindmarsh-rose", noise=0.02)
    assert fit.mesh > 1
    assert np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters) < 0.03


def test_denoised_states_are_close_to_truth():
    _, data, fit = fitted("goodwin")
    error = np.log(fit.denoised[0] / data.truth.states)
    assert np.sqrt(np.mean(error**2)) < 0.2 * data.truth.sigma.mean()


def test_undetermined_direction_does_not_diverge_and_is_reported():
    """Without bounds, the data of Goodwin's model determine only the ratio of p1 and p3."""
    problem = wf.problems.get("goodwin")
    for seed in (1, 4, 7):
        data = problem.simulate(M=256, noise=0.1, seed=seed)
        fit = wf.fit(problem.model, data, start=problem.parameters, starts=1)
        assert np.abs(fit.estimate).max() < 1e3
        text = " ".join(str(fit).split())
        assert "p1 and p3" in text or "p3 and p1" in text
        determined = [1, 4, 5, 6, 7]
        assert np.allclose(fit.estimate[determined], problem.parameters[determined], rtol=0.2)


def test_refinement_survives_parameter_without_information():
    """From this random start WENDy-MLE ends where p4 has no effect at all."""
    run = next(
        run for run in read_study("paper-small").runs if run.key == ("goodwin", "lognormal", 0.1, 256, 80.0, "wendy", 0)
    )
    assert perform_run(run)["status"] in ("CONVERGED", "STUCK", "ITERATIONS")


def test_states_on_both_sides_of_a_pole_do_not_converge():
    """`V*P/(Km + P)` with P below -Km between two samples: the rule steps over the pole, a finer mesh reveals it."""
    problem = wf.problems.get("protein-transduction")
    weak = WeakProblem.build(problem.model, problem.simulate(M=256, noise=0.2, seed=101), wf.Local())
    lower, upper = np.array([problem.bounds[name] for name in problem.model.parameters]).T
    free = np.ones(6, dtype=bool)
    task = Task(weak, free, np.full(6, np.nan), lower, upper, ~free, Options(), Watch(np.inf), WorkingScale(~free))
    refine = ESTIMATORS["wendy"].refine

    def refined(p):
        return refine(task, Outcome(np.array(p), 1.0, Status.CONVERGED, 1, 1))

    # Which of these starts cross the pole depends on rounding, and thus on the machine; some always do.
    starts = [
        [0.10224, 0.70429, 0.07678, 0.3121, V, Km] for V in (0.004, 0.006, 0.009, 0.012) for Km in (0.005, 0.02, 0.022)
    ]
    outcomes = [refined(p) for p in starts]
    crossed = [
        end for end in outcomes if end.estimate[5] > 0.02 and end.refined.states[0][:, 4].min() < -end.estimate[5]
    ]
    assert crossed
    assert not any(end.status.converged for end in crossed)
    assert all(end.refined.bias == np.inf for end in crossed)
    converged = refined([0.0737, 0.5817, 0.0, 0.2719, 0.0159, 0.2495])
    assert converged.status is Status.CONVERGED
    assert converged.refined.bias < 0.1


@pytest.mark.parametrize(("error", "is_singular"), [(0.0, False), (0.25, True)])
def test_failure_on_finer_mesh_keeps_accurate_solution_but_reports_inaccurate_one(monkeypatch, error, is_singular):
    """The error of the rule on the first mesh, in σ, tells a pole (0.25) from a failure of the algebra alone (0)."""
    problem = wf.problems.get("logistic")
    weak = WeakProblem.build(problem.model, problem.simulate(M=40, noise=0.05, seed=1), wf.Local())
    free = np.ones(2, dtype=bool)
    unbounded = np.full(2, np.inf)
    task = Task(
        weak, free, np.full(2, np.nan), -unbounded, unbounded, ~free, Options(), Watch(np.inf), WorkingScale(~free)
    )
    solutions = []

    def solve_once(*args):
        if solutions:
            raise NotPositiveDefinite
        solutions.append(solve_gauss_helmert(*args))
        return solutions[0]

    # A shift of one standard error asks for a finer mesh.
    monkeypatch.setattr(wendy, "_measure_discretisation", lambda *args: (1.0, error))
    monkeypatch.setattr(wendy, "solve_gauss_helmert", solve_once)
    end = wendy.refine(task, Outcome(problem.parameters, 1.0, Status.CONVERGED, 1, 1))
    assert (end.estimate == solutions[0].p).all()
    assert end.status is (Status.STUCK if is_singular else Status.CONVERGED)
    assert end.refined.bias == (np.inf if is_singular else 1.0)
    assert end.refined.nodes_per_sample == 1
