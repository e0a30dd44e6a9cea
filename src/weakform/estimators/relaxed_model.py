"""The relaxed model: estimation for systems with hidden states or given initial values.

1. From every start: the model is first a soft constraint, which becomes stiff level by level
   (`collocation.soft_constraint`, `collocation.continuation`).
2. From the best of the points reached, with the exact constraint: σ, unless given, is the root mean square of the
   residuals, updated in turn with the estimate. If the error of the discretisation is not small compared with the
   standard errors, the intervals that cause it are halved.

The covariance is the inverse of the information about the parameters that remains when states and initial values adapt.
N is the number of nodes of all trajectories, F that of free parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..collocation.bordered_system import BorderedSystem
from ..collocation.continuation import (
    Point,
    SearchSettings,
    compute_information,
    compute_state_sizes,
    run_continuation,
    settle_on_exact_model,
)
from ..collocation.hidden_state_problem import HiddenStateProblem, MeshStates, find_sample_nodes, refine_meshes
from ..collocation.residual_projection import project_from_relaxed
from ..collocation.simpson_rule import improve_midpoints
from ..collocation.soft_constraint import RelaxedModel
from ..data.event_schedule import describe_unknown_times
from ..linalg.symmetric_matrix import NotPositiveDefinite, invert_symmetric
from ..optimize.box_quadratic import minimise_in_box
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .discretisation_policy import DISCRETISATION
from .estimation_problem import HiddenStateStart, RelaxationSettings, StartPoint, Task
from .estimator import Estimator
from .forward_residuals import PartlyObservedResiduals
from .initial_guess import (
    check_initial_values,
    compute_natural_sizes,
    compute_velocity_factors,
    guess_initial_values,
    guess_states,
)
from .noise_level import alternate_with_noise, compute_within_misfit, count_degrees_of_freedom, count_values
from .outcome import Outcome, Refinement
from .start_points import map_to_bounds

DEFAULT_HIDDEN_STATE_STARTS = 8
"""Starts, unless the user sets their number. By judgement; benchmarks/hidden.py measures how often single starts and
the default reach the best optimum."""
STARTS_FOR_UNKNOWN_TIMES = 24
"""Starts if the time of an event is to be estimated: few starts are then near enough. By judgement."""
MIN_SEARCH_NOISE = 0.01
"""Smallest σ of the search, as a share of the spread of a column: less noise only makes the search harder. By
judgement."""
SEARCH_SETTINGS = (
    RelaxationSettings(parameter_range=1.0, noise_share=MIN_SEARCH_NOISE),
    RelaxationSettings(parameter_range=0.1, noise_share=MIN_SEARCH_NOISE),
    RelaxationSettings(parameter_range=1.0, noise_share=0.3),
    RelaxationSettings(parameter_range=0.1, noise_share=0.1),
)
"""Settings of the starts, in turn: a search with one setting may miss an optimum that another reaches. By judgement."""
START_RANGES = ((0.1, 10.0), (1.0, 100.0))
"""Ranges of unbounded parameters around their natural sizes, each for all `SEARCH_SETTINGS` in turn. The
rate of a process that is over long before the data end exceeds the natural size. The second range was added together
with the mean effects of `compute_natural_sizes`, after flip-flop kinetics had ended in a second optimum."""
STATE_LEVEL_DECADES = (-1.0, 0.5)
"""Range of the decimal logarithm of the constant value of a hidden state in a start, relative to a size that the state
may have. By judgement."""
UNBOUNDED_RANGE = 1.0
"""Distance that a parameter without bounds may move in one level, relative to its size. By judgement."""
MAX_DOMAIN_REPAIRS = 5
"""How often, at most, states outside the domain of the equations are replaced by their neighbours. By judgement."""
SOLUTION_WALK_SIZE = 0.03
"""Relative size of the random walk by which states may deviate from the model when a search from a forward solution
begins. By judgement: the solution obeys the model, but its parameters are only a start."""
SOLUTION_TOLERANCE = 1e-6
"""Relative tolerance of the forward solution from which a search begins. By judgement."""
MAX_SIGMA_ROUNDS = 8
"""Updates of σ in turn with the estimate on one mesh. By judgement."""
RELATIVE_INFORMATION_DAMPING = 1e-8
"""Damping of the information relative to its diagonal, which keeps directions that the data do not determine from
counting in the test for convergence. By judgement."""
SETTLED_GAIN = 0.01
"""Difference of log-likelihoods: the most that a converged estimate may still gain, that it may change by on a finer
mesh, and that agreeing starts may differ by (relative if the objective is larger than one). By judgement."""


@dataclass(frozen=True)
class _RefinementPolicy:
    """Thresholds of the mesh refinement besides those of `DISCRETISATION`; all by judgement."""

    meshes: int = 6
    """Largest number of meshes, each with some intervals of the last one halved."""
    min_defect_share: float = 0.02
    """Truncation error of an interval, as a share of the largest, above which it is halved."""
    max_unsettled: float = 0.5
    """Change of the log-likelihood with the last mesh above which the states are no solution of the equations."""


@dataclass(frozen=True)
class _AgreementPolicy:
    """When the remaining starts may be skipped; all by judgement."""

    starts: int = 3
    """Converged starts that must agree on the best objective, or starts in a row that bring nothing better."""
    min_nodes: int = 20_000
    """Nodes above which a problem with hidden states is large: only then agreement saves starts."""


_REFINEMENT = _RefinementPolicy()
_AGREEMENT = _AgreementPolicy()


def make_hidden_state_starts(
    task: Task, user_starts: tuple[FloatArray, ...], count: int | None, seed: int
) -> list[HiddenStateStart]:
    """Make the starts of a problem with hidden states.

    Parameters
    ----------
    task : Task
    user_starts : tuple of ndarray, (P,)
        Starts of the user, on the scale of the task; NaN where no value is given.
    count : int, optional
        Number of starts.
    seed : int
    """
    problem = _get_hidden_state_problem(task)
    # The second number separates these draws from all others with the same seed.
    rng = np.random.default_rng([seed, 5])
    lower, upper = task.scale.to_natural(task.lower), task.scale.to_natural(task.upper)
    sizes = collect_state_sizes(problem)
    paces = compute_velocity_factors(problem)
    units = compute_natural_sizes(task, float(np.exp(np.mean(np.log(sizes)))))
    points: list[HiddenStateStart] = []
    unknown = describe_unknown_times(problem.shared, len(problem.data.trajectories))
    default = STARTS_FOR_UNKNOWN_TIMES if unknown else DEFAULT_HIDDEN_STATE_STARTS
    for k in range(default if count is None else count):
        share = rng.uniform(size=len(lower))
        reach = START_RANGES[k // len(SEARCH_SETTINGS) % len(START_RANGES)]
        levels = rng.choice(sizes) * paces * 10 ** rng.uniform(*STATE_LEVEL_DECADES, size=len(paces))
        p = np.where(task.free, task.scale.to_working(map_to_bounds(lower, upper, share, units, reach)), task.base)
        # The starts of the user may all be wrong in the same way: every second start is drawn.
        from_user = k % 2 == 0 and k // 2 < len(user_starts)
        if from_user:
            p = np.where(np.isnan(user_starts[k // 2]), p, user_starts[k // 2])
        if task.prior is not None:
            p = task.prior.replace_impossible(p)
        # Of many starts some drawn ones begin from their own solution, too: the continuation may lose count of the
        # turns of a phase. It helped with a third-order chain of which the last state is measured (CHANGELOG, 1.2.0).
        from_solution = from_user or (k >= DEFAULT_HIDDEN_STATE_STARTS and k % 2 == 1)
        settings = SEARCH_SETTINGS[0 if from_user else k % len(SEARCH_SETTINGS)]
        points.append(HiddenStateStart(np.clip(p, task.lower, task.upper), levels, from_solution, settings))
    check_initial_values(problem, points)
    return points


def _get_hidden_state_problem(task: Task) -> HiddenStateProblem:
    """Return the problem of a task, which must have hidden states."""
    assert isinstance(task.problem, HiddenStateProblem)
    return task.problem


def collect_state_sizes(problem: HiddenStateProblem) -> FloatArray:
    """Return the sizes that a hidden state may have: those of measured states and of given initial values, or one."""
    names, sizes = problem.data.names or (), []
    for k, name in enumerate(names):
        if name in problem.shared.states:
            sizes.append(float(np.nanmax(np.abs(np.concatenate([q.values[:, k] for q in problem.data.trajectories])))))
    sizes += [abs(float(expr)) for expr in problem.shared.initial.values() if expr.is_Number and expr != 0]
    return np.array([size for size in sizes if size > 0] or [1.0])


def _build_search_limits(task: Task) -> SearchSettings:
    """Return the bounds, prior and stopping rule of a search, without a limit on the move in one level."""
    return SearchSettings(task.lower, task.upper, prior=task.prior, stop=task.stop)


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Search from one start, with a constraint that becomes stiff level by level."""
    assert isinstance(start, HiddenStateStart)
    problem = _get_hidden_state_problem(task)
    meshes = problem.build_meshes()
    settings = start.settings
    sigma = np.maximum(problem.sigma, settings.noise_share * problem.spread)
    relaxed = problem.build_relaxed_model(meshes, sigma, task.free)
    p = start.parameters
    X = _move_into_domain(relaxed, p, guess_states(problem, meshes, p, start.state_levels))
    width = task.upper - task.lower
    ranges = np.where(np.isfinite(width), width, UNBOUNDED_RANGE * np.where(p == 0, 1.0, np.abs(p)))
    limits = replace(_build_search_limits(task), spring_length=settings.parameter_range * ranges)
    # Most unbounded parameters are positive, and poles are at zero: a sign changes only if the search ends at zero.
    low = np.where(np.isneginf(task.lower) & ~task.scale.log & (p > 0), 0.0, task.lower)
    high = np.where(np.isposinf(task.upper) & ~task.scale.log & (p < 0), 0.0, task.upper)
    point = run_continuation(relaxed, p, X, replace(limits, lower=low, upper=high))
    at_sign = (point.p == low) & (low > task.lower) | (point.p == high) & (high < task.upper)
    if (task.free & at_sign).any():
        point = min(point, run_continuation(relaxed, p, X, limits), key=lambda candidate: candidate.value)
    if start.from_solution:
        point = _search_from_solution(task, relaxed, start, point, limits)
    if settings.noise_share > MIN_SEARCH_NOISE:  # starts can be compared only with the same σ for all
        point = settle_on_exact_model(
            relaxed.with_sigma(np.maximum(problem.sigma, MIN_SEARCH_NOISE * problem.spread)), point, limits
        )
    status = Status.CONVERGED if point.done else Status.TIME if task.stop() else Status.ITERATIONS
    if not np.isfinite(point.value):
        return Outcome(point.p, np.inf, Status.START, point.steps, point.steps)
    return Outcome(point.p, point.value, status, point.steps, point.steps, latent=MeshStates(meshes, point))


def _move_into_domain(relaxed: RelaxedModel, p: FloatArray, X: FloatArray) -> FloatArray:
    """Replace states `(N, D)` at which the equations are not defined by those of the nearest node where they are.

    Noise may take the data out of the domain of the equations; the states must stay in it.
    """
    for _ in range(MAX_DOMAIN_REPAIRS):
        with np.errstate(all="ignore"):
            good = relaxed.find_defined_nodes(p, X)
        if good.all() or not good.any():
            break
        real = np.flatnonzero(good & ~relaxed.layout.ahead)
        if not len(real):
            break
        nodes = np.arange(len(X))
        right = np.clip(np.searchsorted(real, nodes), 0, len(real) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(nodes - real[left] < np.abs(real[right] - nodes), real[left], real[right])
        X = np.where(good[:, None], X, X[nearest])
    return X


def has_agreeing_starts(task: Task, outcomes: list[Outcome]) -> bool:
    """Return True if the remaining starts may be skipped.

    If every state is measured: when starts agree on the best objective, or several in a row bring nothing better. If
    states are hidden: when starts agree and the problem is large, since small ones can afford to look further.
    """
    best = min(outcome.objective for outcome in outcomes)
    near = [o.objective <= best + SETTLED_GAIN * max(1.0, abs(best)) for o in outcomes]
    agreed = sum(o.status.converged and good for o, good in zip(outcomes, near, strict=True))
    problem = _get_hidden_state_problem(task)
    if set(problem.shared.states) <= set(problem.data.names or ()):
        return agreed >= _AGREEMENT.starts or len(outcomes) - 1 - near.index(True) >= _AGREEMENT.starts
    return agreed >= _AGREEMENT.starts and sum(map(len, problem.build_meshes())) > _AGREEMENT.min_nodes


def _search_from_solution(
    task: Task, relaxed: RelaxedModel, start: HiddenStateStart, point: Point, limits: SearchSettings
) -> Point:
    """Search also from the model's forward solution at a start, and return that result unless it is worse.

    Parameters
    ----------
    task : Task
    relaxed : RelaxedModel
        The problem of the search.
    start : HiddenStateStart
    point : Point
        The result of the search from a soft constraint.
    limits : SearchSettings
    """
    problem, p = _get_hidden_state_problem(task), start.parameters
    meshes = problem.build_meshes()
    solved = PartlyObservedResiduals(problem, SOLUTION_TOLERANCE, meshes=meshes).solve_on_mesh(
        p, guess_initial_values(problem, start)
    )
    if solved is None:
        return point
    near = run_continuation(relaxed, p, solved.point.X, limits, SOLUTION_WALK_SIZE)
    return near if near.value <= point.value + SETTLED_GAIN else point


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Refine an outcome: the exact constraint, a σ that agrees with the residuals, and a mesh that is fine enough."""
    if outcome.latent is None:
        return outcome
    problem, limits = _get_hidden_state_problem(task), _build_search_limits(task)
    meshes, point = outcome.latent.meshes, outcome.latent.point
    sigma = np.where(problem.sigma > 0, problem.sigma, MIN_SEARCH_NOISE * problem.spread)
    last_error, last_cost, singular = np.inf, np.inf, False
    remaining = _REFINEMENT.meshes
    while True:
        remaining -= 1
        relaxed = problem.build_relaxed_model(meshes, sigma, task.free)
        point, sigma = _solve_exact_constraint(task, relaxed, point, limits)
        relaxed = relaxed.with_sigma(sigma)
        try:
            bordered, H, gradient = compute_information(relaxed, point.p, point.X)
        except NotPositiveDefinite:
            return _build_stuck_outcome(task, relaxed, outcome, MeshStates(meshes, point))
        H = H if task.prior is None else H + task.prior.hessian(point.p, exact=False)[np.ix_(task.free, task.free)]
        bias, error, halve = _measure_discretisation(problem, relaxed, MeshStates(meshes, point), bordered, H)
        cost = point.value + float(count_values(task) @ np.log(sigma))
        change = abs(cost - last_cost)
        noisy = bool((sigma > DISCRETISATION.exact_share * problem.spread).all())
        # Only from the third mesh on: what the first halving of a coarse mesh gains proves little.
        halved_twice = remaining < _REFINEMENT.meshes - 2
        stays = (
            halved_twice
            and error > DISCRETISATION.small_error
            and error > last_error / DISCRETISATION.required_decrease
        )
        singular = noisy and (stays or (not remaining and change > _REFINEMENT.max_unsettled))
        unsettled = noisy and (error > DISCRETISATION.large_error or change > SETTLED_GAIN)
        fine = bias <= DISCRETISATION.max_bias and not unsettled
        # The last mesh is not refined, as no solution on it would follow: residuals and states must share a mesh.
        if singular or fine or not halve.any() or not remaining or task.stop():
            break
        last_error, last_cost = error, cost
        meshes, X = refine_meshes(relaxed, meshes, point, halve)
        point = replace(point, X=X)
    return replace(
        outcome,
        estimate=point.p,
        objective=point.value,
        status=Status.STUCK if singular else _judge_convergence(task, point, H, gradient),
        iterations=point.steps,
        refined=replace(
            _build_refinement(task, relaxed, MeshStates(meshes, point), H, np.inf if singular else bias),
            project_residuals=project_from_relaxed(
                relaxed, bordered, H, task.find_interior_parameters(point.p)[task.free]
            ),
        ),
        latent=MeshStates(meshes, point),
    )


def _build_stuck_outcome(task: Task, relaxed: RelaxedModel, outcome: Outcome, latent: MeshStates) -> Outcome:
    """Return the outcome for a point at which the problem cannot be linearised: no covariance, and status `STUCK`."""
    F = int(task.free.sum())
    kept = _build_refinement(task, relaxed, latent, np.zeros((F, F)), np.inf)
    kept = replace(kept, covariance=np.full((F, F), np.nan), information=None)
    return replace(outcome, status=Status.STUCK, refined=kept, latent=latent)


def _judge_convergence(task: Task, point: Point, H: FloatArray, gradient: FloatArray) -> Status:
    """Judge convergence by the likelihood that a step inside the box still promises, `½ gᵀ H⁻¹ g` without bounds.

    Parameters
    ----------
    task : Task
    point : Point
    H : ndarray, (F, F)
        Information about the free parameters, with the prior.
    gradient : ndarray, (F,)
        Of the objective without the prior.
    """
    p, (lower, upper) = point.p[task.free], task.box
    if task.prior is not None:
        gradient = gradient + task.prior.gradient(point.p)[task.free]
    # Along directions that the data do not determine the gradient is rounding, and a step gains nothing.
    damped = H + np.diag(RELATIVE_INFORMATION_DAMPING * np.abs(H.diagonal()) + np.finfo(float).tiny)
    step = minimise_in_box(gradient, damped, np.minimum(lower - p, 0.0), np.maximum(upper - p, 0.0))
    gain = -float(gradient @ step + 0.5 * step @ (damped @ step))
    if gain < SETTLED_GAIN:
        return Status.CONVERGED
    if task.stop():
        return Status.TIME
    return Status.STUCK if point.done else Status.ITERATIONS


def _solve_exact_constraint(
    task: Task, relaxed: RelaxedModel, point: Point, limits: SearchSettings
) -> tuple[Point, FloatArray]:
    """Solve with the exact constraint and update σ in turn; return the point and σ `(K,)`."""
    plain = relaxed.with_sigma(np.ones(len(relaxed.sigma)))

    def solve(sigma: FloatArray, near: Point) -> tuple[Point, bool]:
        solved = settle_on_exact_model(relaxed.with_sigma(sigma), near, limits)
        return solved, np.isfinite(solved.value)

    def residuals(at: Point) -> tuple[FloatArray, ...]:
        with np.errstate(all="ignore"):
            return tuple(_split_by_trajectory(task, plain.compute_residual(at.p, at.X)))

    first, _ = solve(relaxed.sigma, point)
    return alternate_with_noise(task, relaxed.sigma, first, solve, residuals, MAX_SIGMA_ROUNDS)


def _split_by_trajectory(task: Task, rows: FloatArray) -> list[FloatArray]:
    """Split rows of all samples by trajectory."""
    ends = np.cumsum([len(q.times) for q in task.problem.data.trajectories])[:-1]
    return np.split(rows, ends)


def _measure_discretisation(
    problem: HiddenStateProblem, relaxed: RelaxedModel, latent: MeshStates, bordered: BorderedSystem, H: FloatArray
) -> tuple[float, float, BoolArray]:
    """Measure the error of the rule on a mesh, and find the intervals that cause it.

    The truncation error τ is the change of the defects when the step is halved. Carried through the linear system of a
    step it shifts the parameters by `C Bᵀ K⁻¹ τ`, and the states by `K⁻¹ τ`.

    Parameters
    ----------
    problem : HiddenStateProblem
    relaxed : RelaxedModel
        The problem on the mesh.
    latent : MeshStates
    bordered : BorderedSystem
        Linear system of a step at this point.
    H : ndarray, (F, F)
        Information about the free parameters.

    Returns
    -------
    bias : float
        Largest shift of a parameter, in standard errors.
    error : float
        Largest shift of an observable at a sample, in σ.
    halve : ndarray of bool, (N,)
        Intervals to halve, by the node at which each begins.
    """
    L, point = relaxed.layout, latent.point
    with np.errstate(all="ignore"):
        meshes, X = refine_meshes(relaxed, latent.meshes, point, L.inner)
        fine = problem.build_relaxed_model(meshes, relaxed.sigma, relaxed.free)
        begins = np.flatnonzero(fine.layout.inner)
        first, middle = begins[::2], begins[1::2]
        # Corrected midpoints are more accurate than the rule itself, so that its error can be read off.
        X = improve_midpoints(lambda states: fine.compute_constraint(point.p, states), X, middle, (first, middle))
        v = fine.compute_constraint(point.p, X)
        truncation = np.zeros_like(point.X)
        truncation[L.inner] = v[first] + v[middle] - relaxed.compute_constraint(point.p, point.X)[L.inner]
        solved = bordered.solve(np.stack([np.zeros_like(truncation), truncation], axis=1)[..., None])
        pull = bordered.B.reshape(-1, bordered.B.shape[3]).T @ solved.ravel()
        C = invert_symmetric(H)
        determined = np.isfinite(C.diagonal())
        variances = np.abs(C.diagonal()[determined])
        shift = np.abs(C[np.ix_(determined, determined)] @ pull[determined]) / np.sqrt(variances)
        bias = float(shift.max(initial=0.0))
        change = relaxed.compute_residual(point.p, point.X + solved[:, 0, :, 0]) - relaxed.compute_residual(
            point.p, point.X
        )
        error = float(np.nanmax(np.abs(change), initial=0.0))
        defect = np.max(np.abs(truncation) / compute_state_sizes(point.X), axis=1)
    halve = L.inner & (defect > _REFINEMENT.min_defect_share * np.nanmax(defect))
    return bias if np.isfinite(bias) else np.inf, error, halve


def _build_refinement(task: Task, relaxed: RelaxedModel, latent: MeshStates, H: FloatArray, bias: float) -> Refinement:
    """Compute covariance, residuals, states and goodness of fit at a point, with the information H `(F, F)`."""
    problem, point, meshes, sigma = _get_hidden_state_problem(task), latent.point, latent.meshes, relaxed.sigma
    with np.errstate(all="ignore"):
        r = -relaxed.compute_residual(point.p, point.X)
    data = problem.data.trajectories
    states = [problem.extract_states(meshes, point.X, k) for k in range(len(data))]
    return Refinement(
        covariance=invert_symmetric(H),
        sigma=sigma,
        states=tuple(x[find_sample_nodes(m, q.times)] for x, m, q in zip(states, meshes, data, strict=True)),
        misfit=float(np.sum(r * r)) + compute_within_misfit(task, sigma),
        freedom=count_degrees_of_freedom(task),
        residuals=tuple(
            np.where(q.measured, part, np.nan) for q, part in zip(data, _split_by_trajectory(task, r), strict=True)
        ),
        bias=bias,
        information=H,
    )


ESTIMATOR = Estimator(
    "relaxed",
    "relaxed model, for systems with hidden states",
    search,
    refine,
    starts=make_hidden_state_starts,
    noise_free=lambda task: task,
    refits=True,
    enough=has_agreeing_starts,
    handles_hidden_states=True,
    uses_weak_form=False,
)
