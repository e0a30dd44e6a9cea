"""Output error and the hybrid: efficiency, derivatives, and the status if the system cannot be solved."""

import numpy as np
import pytest

import weakform as wf
from support import ALL, relative_error
from weakform.estimators.estimation_problem import Task
from weakform.estimators.output_error import _LeastSquares
from weakform.forward.cramer_rao import compute_cramer_rao_bound
from weakform.parameters.working_scale import WorkingScale
from weakform.results.options import Options
from weakform.results.status import Status
from weakform.support.errors import FitError
from weakform.support.progress import Watch
from weakform.weak.weak_problem import WeakProblem

SMOOTH = ["goodwin", "sir-tdi", "logistic", "lotka-volterra", "fitzhugh-nagumo", "protein-transduction"]


def task_of(problem, data, **options):
    J = len(problem.model.parameters)
    free = np.ones(J, dtype=bool)
    lower, upper = np.array(problem.box).T
    built = WeakProblem.build(problem.model, data, wf.Local())
    return Task(
        built, free, np.full(J, np.nan), lower, upper, free, Options(**options), Watch(np.inf), WorkingScale(~free)
    )


@pytest.mark.parametrize("residuals", ["noise", "additive"])
@pytest.mark.parametrize("name", ALL)
def test_jacobian_matches_finite_differences(name, residuals):
    problem = wf.problems.get(name)
    short = {"lorenz": 2.0, "hindmarsh-rose": 1.0}.get(name)
    data = problem.simulate(M=40, noise=0.02, seed=1, duration=short)
    least_squares = _LeastSquares(task_of(problem, data, residuals=residuals, tolerance=1e-11))
    form = least_squares.forward.forms[0]
    theta = np.concatenate([problem.parameters * 1.01, form.system.to_working(data.truth.states[:1])[0] + 0.01])
    exact = least_squares._compute_jacobian(theta)
    for k in range(len(theta)):
        h = 1e-4 * max(abs(theta[k]), 0.1)
        step = h * np.eye(len(theta))[k]
        ends = [least_squares.compute_residual(theta + s * step) for s in (1, -1, 2, -2)]
        numeric = (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * h)
        assert np.abs(exact[:, k] - numeric).max() <= 2e-5 * np.abs(numeric).max() + 1e-8


@pytest.mark.parametrize("name", SMOOTH)
def test_hybrid_agrees_with_wendy_within_standard_errors(name):
    problem = wf.problems.get(name)
    data = problem.simulate(M=256, noise=0.03, seed=6)
    weak = wf.fit(problem.model, data, bounds=problem.bounds)
    hybrid = wf.fit(problem.model, data, bounds=problem.bounds, method="hybrid")
    free = ~(weak.at_bound | hybrid.at_bound)
    assert (np.abs(weak.estimate - hybrid.estimate)[free] <= 0.35 * weak.errors[free]).all()
    assert "output error, started by 'wendy', was kept" in " ".join(hybrid.notes)
    assert hybrid.goodness.p_value > 0.001
    assert "sensitivities" in hybrid.covariance_kind


def test_covariance_equals_cramer_rao_bound():
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=256, noise=0.02, seed=2)
    fit = wf.fit(problem.model, data, method="output-error")
    times = data.trajectories[0].times
    bound = compute_cramer_rao_bound(problem.model, fit.estimate, fit.denoised[0][0], times, data.noise, fit.sigma)
    assert np.allclose(fit.covariance, bound, rtol=1e-4)


def test_plain_differences_are_less_precise_for_lognormal_noise():
    problem = wf.problems.get("sir-tdi")
    data = problem.simulate(M=256, noise=0.1, seed=3)
    fits = {
        kind: wf.fit(problem.model, data, bounds=problem.bounds, method="hybrid", options={"residuals": kind})
        for kind in ("noise", "additive")
    }
    assert (fits["additive"].errors > fits["noise"].errors).all()
    assert relative_error(problem, fits["noise"]) < relative_error(problem, fits["additive"])
    deviations = np.abs(fits["additive"].estimate - problem.parameters) / fits["additive"].errors
    assert deviations.max() < 3.5


def test_noise_free_fit_is_exact_without_errors():
    problem = wf.problems.get("lotka-volterra")
    data = problem.simulate(M=100, noise=0.0)
    for method in ("output-error", "hybrid"):
        fit = wf.fit(problem.model, data, bounds=problem.bounds, method=method)
        assert relative_error(problem, fit) < 1e-6
        assert np.isnan(fit.errors).all()


@pytest.mark.parametrize("sigma", [0.0, [0.0, 0.1]], ids=["all states", "one state"])
def test_residuals_of_states_without_noise_are_finite(sigma):
    """Division by σ = 0 is impossible; one unit of the noise-free scale is the same in all states."""
    problem = wf.problems.get("lotka-volterra")
    q = problem.simulate(M=40, noise=0.0).trajectories[0]
    least_squares = _LeastSquares(task_of(problem, wf.Dataset(q.times, q.values, sigma=sigma)))
    assert not least_squares.weighted
    assert (least_squares.sigma > 0).all()
    theta = np.concatenate([1.01 * problem.parameters, q.values[0]])
    residual = least_squares.compute_residual(theta)
    assert np.isfinite(residual).all()
    assert np.abs(residual).max() > 0


def test_hybrid_keeps_wendy_estimate_if_output_error_diverges():
    problem = wf.problems.get("lorenz")
    data = problem.simulate(M=1000, noise=0.1, seed=1, duration=24.0)
    weak = wf.fit(problem.model, data, bounds=problem.bounds)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method="hybrid")
    assert np.allclose(fit.estimate, weak.estimate, rtol=1e-6)
    assert np.allclose(fit.covariance, weak.covariance, rtol=1e-3)
    assert "the estimate of 'wendy' was kept" in " ".join(fit.notes)


def test_hybrid_result_does_not_depend_on_weak_method():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=128, noise=0.05, seed=2)
    estimates = [
        wf.fit(problem.model, data, bounds=problem.bounds, method="hybrid", options={"weak": weak}).estimate
        for weak in ("wendy", "mle", "irls", "wls")
    ]
    assert np.allclose(estimates, estimates[0], rtol=1e-4)


def test_start_from_which_model_cannot_be_solved_is_an_error():
    model = wf.Model.from_text("u' = a*u**2 - b*u")
    t = np.linspace(0, 2, 40)
    data = wf.Dataset(t, np.exp(-t) + 0.01 * np.random.default_rng(1).standard_normal(40))
    with pytest.raises(FitError, match="not finite at any start"):
        wf.fit(model, data, method="output-error", start={"a": 80.0, "b": 1.0}, starts=1)


def test_time_limit_returns_best_estimate_so_far():
    problem = wf.problems.get("hindmarsh-rose")
    data = problem.simulate(M=512, noise=0.05, seed=1)
    options = {"time_limit": 0.5}
    fit = wf.fit(problem.model, data, bounds=problem.bounds, method="output-error", options=options)
    assert fit.status is Status.TIME
    assert np.isfinite(fit.estimate).all()


def test_estimate_at_one_sided_bound_is_marked():
    t = np.linspace(0, 5, 80)
    data = wf.Dataset(t, np.exp(-t) - 0.02 * (1 - np.exp(-t)) + 0.01 * np.random.default_rng(1).standard_normal(80))
    fit = wf.fit(wf.Model.from_text("x' = -k*x + s"), data, bounds={"s": (0, None)}, method="output-error")
    assert fit.at_bound[1]
    assert fit["s"].value == 0.0


def test_search_stops_after_max_iterations():
    problem = wf.problems.get("logistic")
    task = task_of(problem, problem.simulate(M=20, noise=0.02, seed=1), max_iterations=2)
    least_squares = _LeastSquares(task)
    initial = (least_squares.forward.forms[0].x[:, 0],)
    assert least_squares.minimise(1.5 * problem.parameters, initial) == (Status.ITERATIONS, 2)


def test_search_from_a_bound_begins_inside_it(monkeypatch):
    """The trust-region method needs a start strictly inside its box."""
    problem = wf.problems.get("logistic")
    task = task_of(problem, problem.simulate(M=20, noise=0.02, seed=1), max_iterations=1)
    least_squares = _LeastSquares(task)
    initial, (lower, upper) = (least_squares.forward.forms[0].x[:, 0],), task.box
    evaluated = []
    compute_residual = least_squares.compute_residual
    monkeypatch.setattr(
        least_squares, "compute_residual", lambda theta: evaluated.append(theta) or compute_residual(theta)
    )
    for bound in (lower, upper):
        evaluated.clear()
        least_squares.minimise(bound, initial)
        assert (evaluated[0][: len(bound)] > lower).all()
        assert (evaluated[0][: len(bound)] < upper).all()
        assert evaluated[0][: len(bound)] == pytest.approx(bound, rel=1e-3, abs=1e-3)
