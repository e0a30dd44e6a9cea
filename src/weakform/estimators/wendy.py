"""WENDy without its bias: a search by the weak likelihood, then a refinement with states that obey the model.

1. Weak least squares on few test functions from every start (`coarse_least_squares`). If step 2 from there does
   not bring the residuals down to the noise, WENDy-MLE is run. Its log-determinant widens the domain of convergence and
   biases the estimate.
2. From the best of these estimates, and from the data denoised by it, the Gauss–Helmert iteration on the finest test
   functions (`collocation.gauss_helmert`): linearised about the denoised states, without the log-determinant, and with
   no information left out. σ, unless given, is the root mean square of the residuals, which the iteration determines
   together with the states.
3. The error of the discretisation is carried through to the parameters. If it is not small compared with their
   standard errors, the mesh is halved; the mesh of a very long series keeps its nodes, and the error is subtracted
   instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np

from ..collocation.gauss_helmert import IterationSettings, Solution, solve_gauss_helmert
from ..collocation.mesh import TRUNCATION_SUBSTEPS, Mesh, MeshPart
from ..collocation.residual_projection import project_from_mesh
from ..linalg.symmetric_matrix import NotPositiveDefinite, invert_symmetric
from ..optimize import Stop
from ..results.status import Status
from ..support.array_types import FloatArray
from ..weak.weak_form import WeakForm
from . import coarse_least_squares, mle
from .discretisation_policy import DISCRETISATION
from .estimation_problem import StartPoint, Task
from .estimator import Estimator
from .noise_level import build_noise_estimator, compute_within_misfit, count_degrees_of_freedom, count_values
from .outcome import Outcome, Refinement

MAX_ITERATIONS = 100
"""Iterations of the refinement on one mesh, unless the option `max_iterations` is set. By judgement."""
STEP_TOLERANCE_FACTOR = 10.0
"""Factor of the root of the option `tolerance` that gives the tolerance of the refinement, in standard errors: with the
default of 1e-8 it ends when a step moves the parameters by less than 1e-3. By judgement."""
MIN_SEARCH_GAIN = 0.1
"""Predicted decrease of the objective below which the search takes no further step, and the refinement takes over. By
judgement."""
MAX_TOLERABLE_BIAS = 0.3
"""Shift of the parameters by the error of the rule, in standard errors, up to which the solution on a coarse mesh is
kept if the iteration on the finer one does not converge. By judgement."""
MAX_NODES_PER_SAMPLE = 16
"""Largest number of mesh nodes for each sample; a power of two, as meshes are halved. By judgement: beyond it the
relaxed model takes over, which halves only the intervals that need it."""
MIN_SUBSTEPS = 2
"""Runge–Kutta steps in each interval that roughly measure the error of the rule; unless it is clearly small,
`collocation.mesh.TRUNCATION_SUBSTEPS` measure it again. By judgement."""
CLEAR_BIAS_SHARE = 0.2
"""Share of `DISCRETISATION.max_bias` below which the rough measure of the bias is trusted. By judgement."""


@dataclass(frozen=True)
class _LongSeriesPolicy:
    """Thresholds for very long series.

    Over a long time a small error in the parameters makes all states drift, so that the series is first solved in
    pieces. When pieces were introduced, a series of 10⁶ samples took 49 CPU seconds instead of 74. The thresholds are
    by judgement; see docs/method.md, step 4.
    """

    min_samples: int = 200_000
    """Mean number of samples of a trajectory above which the series is long."""
    piece_samples: int = 20_000
    """Samples of the pieces that are solved first."""
    piece_tolerance: float = 1.0
    """Tolerance of the pieces, in standard errors: their solution is only a start."""
    max_corrections: int = 3
    """How often the error of the rule is subtracted before the mesh is halved."""


_LONG = _LongSeriesPolicy()


@dataclass(frozen=True)
class _MeshSolution:
    """A solution together with the mesh that it belongs to.

    Attributes
    ----------
    solution : Solution
    mesh : Mesh
    nodes_per_sample : int
        Mesh nodes for each sample.
    bias : float
        Largest shift of a parameter by the error of the rule, in standard errors.
    """

    solution: Solution
    mesh: Mesh
    nodes_per_sample: int
    bias: float


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Refine an outcome of the search by steps 2 and 3; return it unchanged if that is not possible."""
    problem = task.weak
    p, sigma = outcome.estimate, problem.sigma
    if not (np.isfinite(outcome.objective) and (sigma > 0).all()):
        return outcome
    if outcome.rough:
        p = coarse_least_squares.run_generalised_sweeps(task, p)
    settings = IterationSettings(
        task.free,
        task.lower,
        task.upper,
        tolerance=STEP_TOLERANCE_FACTOR * float(np.sqrt(task.options.tolerance)),
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        should_stop=task.stop,
        prior=task.prior,
        sigma_estimator=None if problem.data.sigma is not None else build_noise_estimator(task),
    )
    pairs = zip(problem.forms, problem.data.trajectories, strict=True)
    mesh = Mesh.from_parts([MeshPart(form.system, q.times, form.x.T, q.measured, q.scale) for form, q in pairs])
    accepted: _MeshSolution | None = None
    nodes_per_sample, iterations, last_error, singular = 1, 0, np.inf, False
    long, corrections = len(mesh.times) > len(mesh.systems) * _LONG.min_samples, 0
    try:
        cleaned = zip(problem.forms, problem.denoise(p), strict=True)
        states = np.concatenate([form.system.to_working(u) for form, u in cleaned])
        if long:
            # Over a long time a small error in the parameters makes all states drift: pieces first, which cannot.
            rough = replace(settings, tolerance=_LONG.piece_tolerance)
            pieces = solve_gauss_helmert(mesh.cut_into_pieces(_LONG.piece_samples), sigma, p, states, rough)
            p, sigma, states, iterations = pieces.p, pieces.sigma, pieces.states, pieces.iterations
        while True:
            solution = solve_gauss_helmert(mesh, sigma, p, states, settings)
            iterations += solution.iterations
            if not (np.isfinite(solution.p).all() and np.isfinite(solution.states).all()):
                break
            coarse_suffices = (
                accepted is not None
                and accepted.solution.stop.converged
                and accepted.bias <= MAX_TOLERABLE_BIAS
                and last_error <= DISCRETISATION.small_error
            )
            # The iteration fails on the finer mesh: the solution on the coarse one is kept.
            if coarse_suffices and not solution.stop.converged:
                break
            p, sigma = solution.p, solution.sigma
            bias, error = _measure_discretisation(mesh, solution, settings)
            accepted = _MeshSolution(solution, mesh, nodes_per_sample, bias)
            # Only from the third mesh on: what the first halving of a coarse mesh gains proves little.
            singular = (
                nodes_per_sample > 2
                and error > DISCRETISATION.small_error
                and error > last_error / DISCRETISATION.required_decrease
            )
            if singular:
                break
            accurate = bias <= DISCRETISATION.max_bias and error <= DISCRETISATION.large_error
            if accurate or nodes_per_sample == MAX_NODES_PER_SAMPLE or solution.stop is Stop.TIME:
                break
            correctable = np.isfinite(bias) and error <= DISCRETISATION.large_error
            if long and corrections < _LONG.max_corrections and correctable:
                mesh, states, corrections = mesh.correct_rule(p, solution.states), solution.states, corrections + 1
                continue
            nodes_per_sample, last_error = 2 * nodes_per_sample, error
            mesh, states = mesh.halve_intervals(p, solution.states)
    except NotPositiveDefinite:
        singular = accepted is not None and last_error > DISCRETISATION.small_error
    if accepted is None:
        return outcome
    solution, bias = accepted.solution, accepted.bias
    if singular:
        solution, bias = replace(solution, stop=Stop.STUCK), np.inf
    return replace(
        outcome,
        estimate=solution.p,
        objective=0.5 * solution.misfit,
        status=Status.from_stop(solution.stop),
        iterations=outcome.iterations + iterations,
        refined=_build_refinement(task, accepted.mesh, solution, accepted.nodes_per_sample, bias),
        rough=False,
    )


def _measure_discretisation(mesh: Mesh, solution: Solution, settings: IterationSettings) -> tuple[float, float]:
    """Measure the error of the rule on a mesh.

    With τ the truncation error of the intervals, the parameters shift by `(GᵀS⁻¹G)⁻¹ GᵀS⁻¹ τ`.

    Returns
    -------
    bias : float
        Largest shift of a parameter, in standard errors; infinite if it cannot be computed.
    error : float
        Largest error of one interval, in σ.
    """
    free, p, x = settings.free, solution.p, solution.states
    with np.errstate(all="ignore"):
        line = mesh.linearise(p, x)
        factor = line.factorise_covariance(mesh.compute_variances(solution.sigma))
        G = factor.whiten(line.G[:, :, free].reshape(line.c.size, -1))
        covariance = invert_symmetric(solution.information)
        determined = np.isfinite(covariance.diagonal())
        covariance = covariance[np.ix_(determined, determined)]

        def compute_shifts(substeps: int) -> tuple[FloatArray, float]:
            truncation = mesh.estimate_truncation(p, x, substeps)
            pull = G.T @ factor.whiten(truncation.ravel())
            unit = np.maximum(solution.sigma, DISCRETISATION.exact_share * x.std(axis=0))
            error = float(np.max(np.abs(truncation) / unit))
            return np.asarray(np.abs(covariance @ pull[determined]) / np.sqrt(covariance.diagonal())), error

        # Few substeps suffice where the rule is clearly accurate; otherwise the error is measured again with many.
        shifts, error = compute_shifts(MIN_SUBSTEPS)
        clearly_small = shifts.max(initial=0.0) < CLEAR_BIAS_SHARE * DISCRETISATION.max_bias
        if not (np.isfinite(shifts).all() and clearly_small and error < DISCRETISATION.large_error):
            shifts, error = compute_shifts(TRUNCATION_SUBSTEPS)
    return float(shifts.max(initial=0.0)) if np.isfinite(shifts).all() else np.inf, error


def _build_refinement(task: Task, mesh: Mesh, solution: Solution, nodes_per_sample: int, bias: float) -> Refinement:
    """Compute covariance, residuals, states and goodness of fit from a solution on a mesh."""
    sigma = solution.sigma
    measured = tuple(q.measured for q in task.weak.data.trajectories)
    ends = np.cumsum([len(mask) for mask in measured])[:-1]
    residuals = np.split((mesh.compute_residuals(solution.states) / sigma)[mesh.samples], ends)
    states = tuple(np.split(mesh.system.from_working(solution.states[mesh.samples]), ends))
    covariance = invert_symmetric(solution.information)
    if solution.held_direction is not None:
        # Conditional on the held direction h: with B a basis of its complement, B (BᵀHB)⁻¹ Bᵀ.
        d = np.maximum(np.sqrt(np.abs(solution.information.diagonal())), np.finfo(float).tiny)
        basis = np.linalg.qr(np.column_stack([solution.held_direction, np.eye(len(d))]))[0][:, 1:] / d[:, None]
        covariance = basis @ invert_symmetric(basis.T @ solution.information @ basis) @ basis.T
    elif task.options.covariance == "sandwich":
        covariance = _compute_sandwich(task, mesh, solution, covariance)
    is_inverse = solution.held_direction is None and task.options.covariance != "sandwich"
    stiffness = 0.0
    if not bias <= DISCRETISATION.max_bias:
        stiffness = max(map(_compute_stiffness, task.weak.forms, states, repeat(solution.p)))
    return Refinement(
        covariance=covariance,
        sigma=sigma,
        states=states,
        misfit=solution.misfit + compute_within_misfit(task, sigma),
        freedom=count_degrees_of_freedom(task),
        nodes_per_sample=nodes_per_sample,
        bias=bias,
        held_direction=solution.held_direction,
        residuals=tuple(np.where(mask, r, np.nan) for mask, r in zip(measured, residuals, strict=True)),
        information=solution.information if is_inverse else None,
        project_residuals=project_from_mesh(mesh, solution, task.find_interior_parameters(solution.p)),
        stiffness=stiffness,
    )


def _compute_stiffness(form: WeakForm, states: FloatArray, p: FloatArray) -> float:
    """Compute the fastest decay rate of the equations along states `(time, D)`, times the interval between samples."""
    with np.errstate(all="ignore"):
        F = form.system.evaluate(form.times, states, p, ("fu",))["fu"].to_dense((form.system.D, form.system.D))
        rates = np.linalg.eigvals(np.moveaxis(np.where(np.isfinite(F), F, 0.0), -1, 0)).real
    return float(-rates.min() * np.median(np.diff(form.times)))


def _compute_sandwich(task: Task, mesh: Mesh, solution: Solution, C: FloatArray) -> FloatArray:
    """Compute the sandwich covariance `Σ_m M_m ε̂_m² M_mᵀ` with `M = C Gᵀ S⁻¹ A`, by which each noise value moves p.

    It is valid also where the variance differs from sample to sample. It is scaled by the number of values over the
    degrees of freedom.

    Parameters
    ----------
    C : ndarray, (F, F)
        Inverse of the information.

    Returns
    -------
    ndarray, (F, F)
    """
    x = solution.states
    with np.errstate(all="ignore"):
        line = mesh.linearise(solution.p, x)
        factor = line.factorise_covariance(mesh.compute_variances(solution.sigma))
        Z = factor.solve_transposed(factor.whiten(line.G[:, :, task.free].reshape(line.c.size, -1)))
        moves = line.A.apply_transposed(Z.reshape(*line.c.shape, -1), len(x))
        moves *= np.where(mesh.measured, mesh.data - x, 0.0)[:, :, None]
    flat = moves.reshape(-1, moves.shape[2])
    values = float(count_values(task).sum())
    return np.asarray(C @ (flat.T @ flat) @ C) * values / max(count_degrees_of_freedom(task), 1)


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Run WENDy-MLE from one start, as close to its minimum as the refinement needs."""
    return mle.search(task, start, min_decrease=MIN_SEARCH_GAIN)


def has_agreeing_searches(task: Task, outcomes: list[Outcome]) -> bool:
    """Return True if at least two converged searches agree on the best objective."""
    del task
    best = min(outcome.objective for outcome in outcomes)
    agreeing = [o for o in outcomes if o.status.converged and o.objective - best < 2 * MIN_SEARCH_GAIN]
    return len(agreeing) > 1


ESTIMATOR = Estimator(
    "wendy",
    "WENDy-MLE, then refined to remove its bias",
    search,
    refine,
    mle.check,
    options=("solver", "covariance"),
    method_if_unrefined="mle",
    refits=True,
    hidden_state_method="relaxed",
    coarse_search=coarse_least_squares.search,
    enough=has_agreeing_searches,
)
