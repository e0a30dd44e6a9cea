"""The default method: noise level, mesh, denoised states, weak directions."""

import numpy as np

import weakform as wf
from support import fitted
from weakform.estimators import ESTIMATORS, Outcome, Status
from weakform.estimators.estimation_problem import Task
from weakform.experiments.cell_runner import perform
from weakform.experiments.study import read_study
from weakform.parameters.working_scale import Scale
from weakform.results.options import Options
from weakform.support.progress import Watch
from weakform.weak.weak_problem import WeakProblem


def test_it_is_the_default():
    _, _, fit = fitted()
    assert fit.method == "wendy"
    assert "information" in fit.covariance_kind


def test_noise_level_is_found_where_the_filter_is_wrong():
    """Hindmarsh–Rose u2 at 2%, M = 256: the filter is 2.5 times too large."""
    problem, data, fit = fitted("hindmarsh-rose", noise=0.02)
    rough = wf.fit(problem.model, data, bounds=problem.bounds, method="wls").sigma
    assert rough[1] > 2 * data.truth.sigma[1]
    assert np.allclose(fit.sigma, data.truth.sigma, rtol=0.12)


def test_a_finer_mesh_where_the_samples_are_coarse():
    problem, _, fit = fitted("hindmarsh-rose", noise=0.02)
    assert fit.mesh > 1
    assert np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters) < 0.03


def test_denoised_states_are_close_to_the_truth():
    _, data, fit = fitted("goodwin")
    error = np.log(fit.denoised[0] / data.truth.states)
    assert np.sqrt(np.mean(error**2)) < 0.2 * data.truth.sigma.mean()


def test_weak_directions_do_not_run_away():
    """Goodwin without bounds: only the ratio of p1 and p3 is determined."""
    problem = wf.problems.get("goodwin")
    for seed in (1, 4, 7):
        data = problem.simulate(M=256, noise=0.1, seed=seed)
        fit = wf.fit(problem.model, data, start=problem.parameters, starts=1)
        assert np.abs(fit.estimate).max() < 1e3
        text = " ".join(str(fit).split())
        assert "p1 and p3" in text or "p3 and p1" in text
        well = [1, 4, 5, 6, 7]
        assert np.allclose(fit.estimate[well], problem.parameters[well], rtol=0.2)


def test_no_information_about_a_parameter_where_the_weak_estimate_ends():
    """A random start from which WENDy-MLE ends where p4 has no effect at all."""
    run = next(
        run for run in read_study("paper-small").runs if run.key == ("goodwin", "lognormal", 0.1, 256, 80.0, "wendy", 0)
    )
    assert perform(run)["status"] in ("CONVERGED", "STUCK", "ITERATIONS")


def test_states_that_have_jumped_over_a_pole_are_no_estimate():
    """`V*P/(Km + P)` with P below -Km between two samples: the rule does not see the pole, and a finer mesh tells."""
    problem = wf.problems.get("protein-transduction")
    weak = WeakProblem.build(problem.model, problem.simulate(M=256, noise=0.2, seed=101), wf.Local())
    lower, upper = np.array([problem.bounds[name] for name in problem.model.parameters]).T
    free = np.ones(6, dtype=bool)
    task = Task(weak, free, np.full(6, np.nan), lower, upper, ~free, Options(), Watch(np.inf), Scale(~free))
    refine = ESTIMATORS["wendy"].refine

    def refined(p):
        return refine(task, Outcome(np.array(p), 1.0, Status.CONVERGED, 1, 1))

    # Which starts are lost is for the last digits of a machine to say; of some dozen always some are.
    starts = [
        [0.10224, 0.70429, 0.07678, 0.3121, V, Km] for V in (0.004, 0.006, 0.009, 0.012) for Km in (0.005, 0.02, 0.022)
    ]
    ends = [refined(p) for p in starts]
    lost = [end for end in ends if end.estimate[5] > 0.02 and end.refined.states[0][:, 4].min() < -end.estimate[5]]
    assert lost
    assert not any(end.status.converged for end in lost)
    assert all(end.refined.bias == np.inf for end in lost)
    found = refined([0.0737, 0.5817, 0.0, 0.2719, 0.0159, 0.2495])
    assert found.status is Status.CONVERGED
    assert found.refined.bias < 0.1
