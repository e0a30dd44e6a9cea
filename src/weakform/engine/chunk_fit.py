"""Fits of a chunk of datasets: starts, iterations, finer meshes, more starts, verdicts.

What the first pass does not settle is tried again, each time only for the datasets that need it:

1. a few starts on the first mesh, of which the best is judged;
2. a mesh with half the step, as long as the error of the rule is too large for the estimate;
3. more starts, for datasets that have not converged, whose model is rejected or whose data seem to determine too
   little, and where a start that is unlike the others was the best.

A later result replaces an earlier one only if it converged and is at least as likely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..estimators.discretisation_policy import DISCRETISATION
from ..results.batch_result import STATUSES
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray, IntArray
from .lane_iteration import LaneEnd, LaneProblem, LaneSolution, solve_lanes
from .lane_plan import LaneInputs, LaneMesh, LaneModel
from .lane_starts import (
    POLICY as START_POLICY,
)
from .lane_starts import (
    WeakStarts,
    collect_units,
    draw_parameters,
    estimate_sigma,
    fill_missing,
    select_best,
    solve_draws,
)
from .lane_verdict import judge_lanes
from .passes import LANES_PER_GROUP, LanePasses, find_finite, from_groups, get_instruction_set, to_groups


@dataclass(frozen=True)
class _ChunkPolicy:
    """How often a dataset is tried. By judgement."""

    first_starts: int = 2
    """Starts of the first pass, where a model is not linear in its parameters or has hidden states."""
    more_starts: tuple[int, ...] = (8, 24)
    """Starts of each later pass, unless the model is linear in its parameters."""
    nearby_starts: int = 6
    """Starts of each later pass of a model that is linear in its parameters: the weak estimate with windows of another
    radius, and points about it."""
    nearby_spread: float = 0.3
    """Standard deviation of these points, relative to the parameters."""
    halvings: int = 4
    """How often the mesh is halved, at most."""
    agreement: float = 0.1
    """Difference in log-likelihood up to which two starts have reached the same optimum."""
    min_agreeing: int = 2
    """Starts that have to agree on a success; with fewer the dataset is tried again."""
    min_agreeing_on_doubt: int = 3
    """Starts that have to agree on any other verdict: a model that looks wrong or undetermined may only be far from its
    optimum."""
    long_series: int = 100
    """Samples from which a success needs no start that agrees."""
    max_gap: int = 5
    """Successive missing samples beyond which a start may lie in another period of an oscillation, so that starts have
    to agree in any case."""
    max_hidden_bias: float = 0.03
    """Error of the rule, in standard errors, above which the mesh is made finer if states are hidden. Below it, its
    effect is subtracted to first order, so that about its square remains."""
    wide_gap: int = 10
    """Successive missing samples beyond which a gap is wide, if it is also longer than `wide_gap_share`. An oscillation
    may have made another number of turns in it, so that neither agreement nor white residuals prove an optimum."""
    wide_gap_share: float = 0.15
    """Share of all samples beyond which a gap is wide."""
    default_sigma_share: float = 0.1
    """First σ relative to the spread, where there are too few values to estimate it."""
    min_values_for_sigma: int = 4
    """Filtered values from which they give the first σ."""


POLICY = _ChunkPolicy()
"""The numbers in use."""
UNUSABLE_MISFIT = 1e300
"""Misfit of a draw whose solution is not finite, so that it is chosen last."""
_CONVERGED = STATUSES.index(Status.CONVERGED)
_EMPTY = STATUSES.index(Status.EMPTY)
_HAS_CONVERGED = np.array([status.converged for status in STATUSES])


@dataclass(frozen=True)
class BatchPlan:
    """What all chunks of a batch have in common.

    Attributes
    ----------
    model : LaneModel
    meshes : tuple of LaneMesh
        The first one, and each with the step of the one before it halved.
    complete : bool
        Whether every state is measured.
    is_linear : bool
        Whether the model is linear in its free parameters, so that one start is enough.
    linear : ndarray of bool, (F,)
        Parameters in which the model is linear together.
    problem : LaneProblem
        With no data yet.
    start : ndarray, (F,), or None
        A first guess on the scale of the iteration; NaN where there is none.
    seed : int
    typical : ndarray, (K,), or None
        Size of the values of each column in all datasets, from `measure_size`; None to take that of each chunk.
    shared_draws : dict of int to _ForwardDraws
        For each pass over the datasets, draws that serve all datasets with the same inputs.
    """

    model: LaneModel
    meshes: tuple[LaneMesh, ...]
    complete: bool
    is_linear: bool
    linear: BoolArray
    problem: LaneProblem
    start: FloatArray | None
    seed: int
    typical: FloatArray | None = None
    shared_draws: dict[int, _ForwardDraws] = field(default_factory=dict)


@dataclass
class ChunkInputs:
    """The inputs of a chunk, evaluated on a mesh when they are needed there.

    Attributes
    ----------
    evaluate : callable
        `evaluate(level)` returns the `LaneInputs` of all datasets of the chunk on mesh number `level`, and keeps them.
    is_shared : bool
        Whether all datasets have the same inputs.
    chosen : ndarray of int, or None
        The datasets that are selected; None for all.
    """

    evaluate: Callable[[int], LaneInputs]
    is_shared: bool
    chosen: IntArray | None = None

    def select(self, chosen: IntArray) -> ChunkInputs:
        """Return the inputs of some of the datasets."""
        return replace(self, chosen=chosen if self.chosen is None else self.chosen[chosen])

    def on_mesh(self, level: int) -> LaneInputs:
        """Return the inputs on a mesh."""
        inputs = self.evaluate(level)
        return inputs if self.chosen is None else inputs.select(self.chosen)


@dataclass
class ChunkData:
    """The data of a chunk.

    Attributes
    ----------
    times : ndarray, (S,)
    values, weights : ndarray, (sets, S, K)
        Values in the coordinates of their noise, and one over their relative standard deviation, 0 where missing.
    sigma : ndarray, (sets, K), or None
    inputs : ChunkInputs, or None
    """

    times: FloatArray
    values: FloatArray
    weights: FloatArray
    sigma: FloatArray | None
    inputs: ChunkInputs | None

    @property
    def sets(self) -> int:
        """Number of datasets."""
        return len(self.values)

    def select(self, chosen: IntArray) -> ChunkData:
        """Return some of the datasets."""
        inputs = None if self.inputs is None else self.inputs.select(chosen)
        sigma = None if self.sigma is None else self.sigma[chosen]
        return ChunkData(self.times, self.values[chosen], self.weights[chosen], sigma, inputs)


@dataclass
class ChunkResult:
    """Results of some datasets.

    Attributes
    ----------
    estimate : ndarray, (sets, F)
        Free parameters in natural units.
    covariance : ndarray, (sets, F, F)
    sigma : ndarray, (sets, K)
    p_value, log_likelihood, bias : ndarray, (sets,)
    status : ndarray of int, (sets,)
        Positions in `STATUSES`.
    freedom : ndarray, (sets,)
        Values less unknowns, by which σ was estimated; infinite if σ is known.
    starts, agreeing, mesh, steps : ndarray of int, (sets,)
        Starts that were followed, those that reached the best likelihood, nodes of the mesh relative to the first one,
        and steps of the best start.
    """

    estimate: FloatArray
    covariance: FloatArray
    sigma: FloatArray
    p_value: FloatArray
    log_likelihood: FloatArray
    bias: FloatArray
    freedom: FloatArray
    status: IntArray
    starts: IntArray
    agreeing: IntArray
    mesh: IntArray
    steps: IntArray

    @classmethod
    def empty(cls, sets: int, F: int, K: int) -> ChunkResult:
        """Return results without any fit."""
        counts = {name: np.zeros(sets, dtype=np.int64) for name in ("starts", "agreeing", "mesh", "steps")}
        return cls(
            estimate=np.full((sets, F), np.nan),
            covariance=np.full((sets, F, F), np.nan),
            sigma=np.full((sets, K), np.nan),
            p_value=np.full(sets, np.nan),
            log_likelihood=np.full(sets, -np.inf),
            bias=np.full(sets, np.nan),
            freedom=np.full(sets, np.nan),
            status=np.full(sets, _EMPTY, dtype=np.int64),
            **counts,
        )

    def assign(self, chosen: IntArray, results: ChunkResult) -> None:
        """Replace the results of some datasets."""
        for name, values in vars(results).items():
            getattr(self, name)[chosen] = values


def fit_chunk(plan: BatchPlan, data: ChunkData) -> ChunkResult:
    """Fit all datasets of a chunk.

    Parameters
    ----------
    plan : BatchPlan
    data : ChunkData

    Returns
    -------
    ChunkResult
        Datasets with fewer values than unknowns have the status `EMPTY`.
    """
    result = ChunkResult.empty(data.sets, plan.model.F, plan.model.K)
    counts = np.count_nonzero(data.weights, axis=(1, 2))
    todo = np.flatnonzero(counts >= max(plan.model.unknowns, 2))
    with np.errstate(all="ignore"):
        single = plan.is_linear and plan.complete
        rounds = (POLICY.first_starts, *POLICY.more_starts)
        for number, starts in enumerate(rounds):
            if not len(todo):
                break
            count = (1 if number == 0 else POLICY.nearby_starts) if single else starts
            fitted = _fit_round(plan, data.select(todo), count, number)
            _merge(result, todo, fitted)
            agreed = result.agreeing[todo] >= POLICY.min_agreeing
            # In a long series without gaps, residuals that are white and small leave nothing to a better optimum.
            if single or len(data.times) >= POLICY.long_series:
                agreed |= _measure_longest_gap(data.weights[todo]) <= POLICY.max_gap
            # Starts that agree settle a verdict of any kind; without them only a success may be settled.
            settled = _HAS_CONVERGED[result.status[todo]] & (result.agreeing[todo] >= POLICY.min_agreeing_on_doubt)
            todo = todo[~((result.status[todo] == _CONVERGED) & agreed | settled)]
        # With a prior the best start is that of the largest posterior; what is reported is the likelihood of the data.
        log = plan.problem.log[plan.problem.free]
        penalty, _, _ = plan.problem.compute_prior(np.where(log, np.log(result.estimate), result.estimate))
        result.log_likelihood += np.where(np.isfinite(penalty), penalty, 0.0)
        if plan.complete:  # a single fit looks further
            doubtful = find_wide_gaps(data.weights) & (result.status == _CONVERGED)
            result.status[doubtful] = STATUSES.index(Status.STUCK)
    return result


def _measure_longest_gap(weights: FloatArray) -> IntArray:
    """Return the largest number of successive samples `(sets,)` at which some column has no value."""
    missing: BoolArray = np.asarray((weights <= 0).any(axis=2))
    longest, current = np.zeros(len(missing), dtype=np.int64), np.zeros(len(missing), dtype=np.int64)
    for column in missing.T:
        current = np.where(column, current + 1, 0)
        longest = np.maximum(longest, current)
    return longest


def has_wide_gap(times: FloatArray) -> bool:
    """Return True if there is a wide gap between two successive times; see the thresholds in `POLICY`."""
    steps = np.diff(times)
    longest = float(steps.max())
    wide = POLICY.wide_gap * float(np.median(steps))
    return longest > wide and longest > POLICY.wide_gap_share * float(times[-1] - times[0])


def find_wide_gaps(weights: FloatArray) -> BoolArray:
    """Return True for datasets with weights `(sets, S, K)` that have a wide gap; see the thresholds in `POLICY`."""
    longest = _measure_longest_gap(weights)
    return np.asarray((longest > POLICY.wide_gap) & (longest > POLICY.wide_gap_share * weights.shape[1]))


def _merge(result: ChunkResult, chosen: IntArray, fitted: ChunkResult) -> None:
    """Take over results that are better than those so far, and count starts that agree with the best."""
    ranks = np.array([2 if s.converged else 1 for s in STATUSES])
    old_rank = np.where(result.starts[chosen] > 0, ranks[result.status[chosen]], 0)
    new_rank = ranks[fitted.status]
    gain = fitted.log_likelihood - result.log_likelihood[chosen]
    better = (new_rank > old_rank) | ((new_rank == old_rank) & (gain > 1e-3))
    same = (old_rank == 2) & (new_rank == 2) & (np.abs(gain) <= POLICY.agreement)
    starts = result.starts[chosen] + fitted.starts
    agreeing = np.where(
        same, result.agreeing[chosen] + fitted.agreeing, np.where(better, fitted.agreeing, result.agreeing[chosen])
    )
    at = np.flatnonzero(better)
    result.assign(chosen[at], ChunkResult(**{name: values[at] for name, values in vars(fitted).items()}))
    result.starts[chosen], result.agreeing[chosen] = starts, agreeing


def _fit_round(plan: BatchPlan, data: ChunkData, starts: int, number: int) -> ChunkResult:
    """Fit each dataset from some starts, judge the best one, and refine its mesh where that is needed."""
    sets = data.sets
    spread = _compute_spread(data)
    sigma = data.sigma
    if sigma is None:
        filled = fill_missing(data.times, data.values, data.weights)
        sigma = estimate_sigma(
            *(data.times, filled, data.weights, spread),
            *(POLICY.default_sigma_share, POLICY.min_values_for_sigma),
        )
    rng = np.random.default_rng([plan.seed, 4, number])
    q, x = (_start_complete if plan.complete else _start_hidden)(plan, data, sigma, starts, rng, number)
    lanes = np.repeat(np.arange(sets), starts)
    passes, problem = _build_passes(plan, data.select(lanes), spread[lanes], 0)
    passes.x[...] = x
    solution = solve_lanes(passes, problem, q, sigma[lanes], lanes)
    best, agreeing, starts_used = _choose_best(solution, sets, starts)
    chosen, states = _select_solution(solution, best), from_groups(passes.x, passes.lanes)[best]
    result = _judge(plan, data, spread, chosen, states, 0)
    result.starts, result.agreeing = starts_used, agreeing
    _refine_meshes(plan, data, spread, result, chosen, states)
    return result


def _refine_meshes(
    plan: BatchPlan,
    data: ChunkData,
    spread: FloatArray,
    result: ChunkResult,
    solution: LaneSolution,
    states: FloatArray,
) -> None:
    """Solve again on finer meshes where the error of the rule is too large; results are replaced in place."""
    converged = solution.end == LaneEnd.CONVERGED
    todo = np.flatnonzero(converged & _needs_finer_mesh(plan, result))
    for level in range(1, len(plan.meshes)):
        if not len(todo):
            return
        coarse, fine = plan.meshes[level - 1].times, plan.meshes[level].times
        states = np.array([[np.interp(_separate(fine), _separate(coarse), x) for x in lane.T] for lane in states[todo]])
        part = data.select(todo)
        passes, problem = _build_passes(plan, part, spread[todo], level)
        passes.x[...] = to_groups(states.transpose(0, 2, 1), passes.width)
        finer = solve_lanes(passes, problem, solution.q[todo], result.sigma[todo])
        judged = _judge(plan, part, spread[todo], finer, from_groups(passes.x, passes.lanes), level)
        judged.starts, judged.agreeing = result.starts[todo], result.agreeing[todo]
        # A coarse mesh proves nothing: if the finer one does not converge, neither has the fit.
        result.assign(todo, judged)
        unresolved = (finer.end == LaneEnd.CONVERGED) & _needs_finer_mesh(plan, judged)
        full_q = solution.q.copy()
        full_q[todo] = finer.q
        solution = replace(solution, q=full_q)
        kept = from_groups(passes.x, passes.lanes)
        states = np.zeros((data.sets, *kept.shape[1:]))
        states[todo] = kept
        todo = todo[unresolved]


def _needs_finer_mesh(plan: BatchPlan, result: ChunkResult) -> BoolArray:
    """Return True where the error of the rule is too large for the estimate."""
    return ~(result.bias <= (DISCRETISATION.max_bias if plan.complete else POLICY.max_hidden_bias))


def _separate(times: FloatArray) -> FloatArray:
    """Return times that increase strictly: of two equal ones at a jump the first is moved earlier."""
    steps = np.diff(times)
    twice = np.append(steps == 0, False)
    return times - np.where(twice, 1e-9 * float(steps[steps > 0].min()), 0.0) if twice.any() else times


def _judge(
    plan: BatchPlan, data: ChunkData, spread: FloatArray, solution: LaneSolution, states: FloatArray, level: int
) -> ChunkResult:
    """Judge one solution of each dataset."""
    passes, problem = _build_passes(plan, data, spread, level)
    passes.x[...] = to_groups(states, passes.width)
    verdict = judge_lanes(passes, problem, solution)
    counts = np.count_nonzero(data.weights, axis=1)
    with np.errstate(all="ignore"):
        log_scale = np.sum(
            np.where(data.weights > 0, np.log(np.where(data.weights > 0, data.weights, 1.0)), 0.0), axis=(1, 2)
        )
    # The density of a log-normal value is that of its logarithm, divided by the value.
    is_log = plan.model.log_states if plan.complete else plan.model.log_noise.astype(bool)
    log_values = np.sum(np.where((data.weights > 0) & is_log, data.values, 0.0), axis=(1, 2))
    constant = 0.5 * counts.sum(axis=1) * np.log(2 * np.pi) - log_scale + log_values
    too_coarse = verdict.error > DISCRETISATION.large_error
    estimate = solution.p[:, plan.model.free]
    if not plan.complete:
        # Where the error of the rule is small, its effect is known to first order. (A single fit with every state
        # measured leaves it, below a tenth of a standard error, and the batch agrees with it.)
        corrected = np.clip(solution.q + verdict.correction, problem.lower, problem.upper)
        is_small = verdict.bias <= DISCRETISATION.max_bias
        estimate = np.where(is_small[:, None], problem.expand(corrected)[0][:, plan.model.free], estimate)
    return ChunkResult(
        estimate=estimate,
        covariance=verdict.covariance,
        sigma=solution.sigma,
        p_value=verdict.p_value,
        log_likelihood=-solution.objective - constant,
        bias=np.where(too_coarse, np.inf, verdict.bias) if level < len(plan.meshes) - 1 else verdict.bias,
        freedom=_count_freedom(plan, data),
        status=verdict.status,
        starts=np.ones(data.sets, dtype=np.int64),
        agreeing=np.ones(data.sets, dtype=np.int64),
        mesh=np.full(data.sets, 2**level, dtype=np.int64),
        steps=solution.steps,
    )


def _count_freedom(plan: BatchPlan, data: ChunkData) -> FloatArray:
    """Return the degrees of freedom by which σ is estimated, `(sets,)`; infinite if it is given."""
    if data.sigma is not None:
        return np.full(data.sets, np.inf)
    return np.asarray(np.count_nonzero(data.weights, axis=(1, 2)) - float(plan.model.unknowns))


def _build_passes(plan: BatchPlan, data: ChunkData, spread: FloatArray, level: int) -> tuple[LanePasses, LaneProblem]:
    """Build the passes and the problem of some lanes."""
    width = _choose_width(data.sets)
    inputs = None if data.inputs is None else data.inputs.on_mesh(level)
    passes = LanePasses(plan.model, plan.meshes[level], inputs, data.values, data.weights, width)
    return passes, replace(plan.problem, sigma=data.sigma, spread=spread)


def _choose_width(lanes: int) -> int:
    """Return the number of lanes of a group: one for a single fit, which would leave the others unused."""
    return LANES_PER_GROUP if lanes > 1 or get_instruction_set() == "numpy" else 1


def _compute_spread(data: ChunkData) -> FloatArray:
    """Compute the standard deviation of each column, `(sets, K)`; one for a constant column."""
    measured = data.weights > 0
    count = np.maximum(measured.sum(axis=1), 1)
    values = np.where(measured, data.values, 0.0)
    mean = values.sum(axis=1) / count
    spread = np.sqrt(np.where(measured, (values - mean[:, None]) ** 2, 0.0).sum(axis=1) / count)
    return np.where(spread > 0, spread, 1.0)


def _choose_best(solution: LaneSolution, sets: int, starts: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the lane of the best start of each dataset, how many starts agree with it, and how many there were."""
    objective = solution.objective.reshape(sets, starts)
    converged = solution.end.reshape(sets, starts) == LaneEnd.CONVERGED
    ranked = np.where(converged, objective, np.inf)
    none = ~converged.any(axis=1)
    ranked[none] = np.where(np.isfinite(objective[none]), objective[none], UNUSABLE_MISFIT)
    best = np.argmin(ranked, axis=1)
    lowest = np.take_along_axis(ranked, best[:, None], axis=1)
    agreeing = (converged & (ranked <= lowest + POLICY.agreement)).sum(axis=1)
    return np.arange(sets) * starts + best, agreeing, np.full(sets, starts, dtype=np.int64)


def _select_solution(solution: LaneSolution, lanes: IntArray) -> LaneSolution:
    """Return the solutions of some lanes."""
    return LaneSolution(**{name: values[lanes] for name, values in vars(solution).items()})


def _start_complete(
    plan: BatchPlan, data: ChunkData, sigma: FloatArray, starts: int, rng: np.random.Generator, number: int
) -> tuple[FloatArray, FloatArray]:
    """Return starts q `(sets starts, F)` by weak least squares, and the data as states, in groups."""
    sets, F = data.sets, plan.model.F
    filled = fill_missing(data.times, data.values, data.weights)
    nodes = plan.meshes[0].entries[:, 0]
    times = plan.meshes[0].times
    if len(times) != len(data.times):
        at = np.searchsorted(data.times, times).clip(1, len(data.times) - 1)
        share = (times - data.times[at - 1]) / (data.times[at] - data.times[at - 1])
        states = filled[:, at - 1] + share[:, None] * (filled[:, at] - filled[:, at - 1])
        states[:, nodes] = filled
    else:
        states = filled
    spread = _compute_spread(data)
    natural = np.where(plan.model.log_states, np.exp(filled), filled)
    units = collect_units(data.times, np.abs(natural).max(axis=1))
    # From any point one step leads to the weak estimate of a model that is linear in its parameters.
    draws = 1 if plan.is_linear else max(START_POLICY.draws, 2 * starts)
    Q = draw_parameters(plan.problem, draws, units, rng)
    has_user_start = plan.start is not None and number == 0
    if plan.start is not None and number == 0:
        Q[:, 0] = np.where(np.isnan(plan.start), Q[:, 0], plan.start)
    passes, problem = _build_passes(plan, data, spread, 0)
    grouped = to_groups(states, passes.width)
    passes.x[...] = grouped
    radius = START_POLICY.radii[number]
    chosen = Q[:, :1]
    if draws > 1:
        screening = WeakStarts(passes, problem, sigma, radius, START_POLICY.screening_windows)
        screened = [screening.improve(Q[:, k], plan.linear, 1) for k in range(draws)]
        values = np.stack([value for _, value in screened], axis=1)
        order = select_best(np.where(np.isfinite(values), values, UNUSABLE_MISFIT), starts)
        if has_user_start:
            order[:, -1] = 0
        chosen = np.stack([q for q, _ in screened], axis=1)[np.arange(sets)[:, None], order]
    weak = WeakStarts(passes, problem, sigma, radius, START_POLICY.windows)
    moving = np.ones(F, dtype=bool)
    if draws > 1:
        improved = [weak.improve(chosen[:, k], moving, START_POLICY.weak_steps)[0] for k in range(starts)]
    else:
        estimate, _ = weak.improve(chosen[:, 0], moving, START_POLICY.weak_steps)
        factors = 1 + POLICY.nearby_spread * rng.standard_normal((starts - 1, F))
        improved = [estimate, *(np.clip(estimate * f, problem.lower, problem.upper) for f in factors)]
    lanes = np.repeat(np.arange(sets), starts)
    return np.stack(improved, axis=1).reshape(-1, F), to_groups(states[lanes], _choose_width(len(lanes)))


@dataclass(frozen=True)
class _ForwardDraws:
    """Draws of the parameters with their forward solutions.

    Attributes
    ----------
    q : ndarray, (draws, F)
    predicted : ndarray, (draws, S, K)
        In the coordinates of the noise.
    states : ndarray, (draws, N, D)
    """

    q: FloatArray
    predicted: FloatArray
    states: FloatArray


def _start_hidden(
    plan: BatchPlan, data: ChunkData, sigma: FloatArray, starts: int, rng: np.random.Generator, number: int
) -> tuple[FloatArray, FloatArray]:
    """Return starts q `(sets starts, F)` whose forward solutions are nearest to the data, and these solutions."""
    sets = data.sets
    measured = data.weights > 0
    if data.inputs is None or data.inputs.is_shared:
        if number not in plan.shared_draws:  # the first chunk serves all, whichever it is
            size = measure_size(plan.model, data) if plan.typical is None else plan.typical
            q, level = _draw_starts(plan, data.times, size, START_POLICY.shared_draws, rng, number)
            plan.shared_draws[number] = _solve_draws(plan, data.inputs, q, level)
        draws = plan.shared_draws[number]
        weights = (data.weights / sigma[:, None]).reshape(sets, -1) ** 2
        values = np.where(measured, data.values, 0.0).reshape(sets, -1)
        flat = draws.predicted.reshape(len(draws.q), -1)
        good = find_finite(flat) & (np.abs(flat).max(axis=1) < 1e100)
        flat = np.where(good[:, None], flat, 0.0)
        # Σ w² (y - f)², multiplied out, for all datasets and draws at once.
        misfit = (weights * values**2).sum(axis=1)[:, None] - 2 * (weights * values) @ flat.T + weights @ (flat**2).T
        order = select_best(np.where(good, misfit, UNUSABLE_MISFIT), starts)
        if plan.start is not None and number == 0:
            order[:, -1] = 0
        order = order.ravel()
    else:
        size = measure_size(plan.model, data)
        count = max(START_POLICY.draws, 2 * starts)
        q, level = _draw_starts(plan, data.times, size, count, rng, number)
        lanes = np.repeat(np.arange(sets), count)
        part = data.select(lanes)
        draws = _solve_draws(plan, part.inputs, np.tile(q, (sets, 1)), np.tile(level, (sets, 1)))
        residual = np.where(part.weights > 0, (part.values - draws.predicted) * part.weights, 0.0)
        misfit = np.sum((residual / sigma[lanes][:, None]) ** 2, axis=(1, 2))
        best = select_best(np.where(np.isfinite(misfit), misfit, UNUSABLE_MISFIT).reshape(sets, count), starts)
        if plan.start is not None and number == 0:
            best[:, -1] = 0
        order = (np.arange(sets)[:, None] * count + best).ravel()
    return draws.q[order], to_groups(draws.states[order], _choose_width(sets * starts))


def _draw_starts(
    plan: BatchPlan, times: FloatArray, size: FloatArray, count: int, rng: np.random.Generator, number: int
) -> tuple[FloatArray, FloatArray]:
    """Draw parameters `(count, F)`, the user's start first, and fitted initial values `(count, D)`.

    The initial values are spread over two and a half decades about the size of the data.
    """
    q = draw_parameters(plan.problem, count, collect_units(times, size[None]), rng)[0]
    if plan.start is not None and number == 0:
        q[0] = np.where(np.isnan(plan.start), q[0], plan.start)
    typical = float(np.median(size[size > 0])) if (size > 0).any() else 1.0
    return q, typical * np.exp(rng.uniform(-3, 3, size=(count, plan.model.D)))


def measure_size(model: LaneModel, data: ChunkData) -> FloatArray:
    """Return the size of each column, `(K,)`, in natural units: the median over datasets of their largest value."""
    with np.errstate(over="ignore"):
        sizes = np.where(data.weights > 0, np.abs(_to_natural(model, data.values)), 0.0).max(axis=1)
    return np.array([np.median(column[column > 0]) if (column > 0).any() else 0.0 for column in sizes.T])


def _to_natural(model: LaneModel, values: FloatArray) -> FloatArray:
    """Return values in natural units."""
    return np.where(model.log_noise.astype(bool), np.exp(values), values)


def _solve_draws(plan: BatchPlan, inputs: ChunkInputs | None, q: FloatArray, level: FloatArray) -> _ForwardDraws:
    """Solve the equations forward from draws of the parameters `(draws, F)` and of the initial values `(draws, D)`."""
    model, mesh = plan.model, plan.meshes[0]
    count = len(q)
    empty = np.zeros((count, mesh.samples, model.K))
    passes = LanePasses(model, mesh, None if inputs is None else inputs.on_mesh(0), empty, empty, LANES_PER_GROUP)
    predicted, states = solve_draws(passes, plan.problem, q, level)
    if model.log_noise.any():
        predicted = np.where(model.log_noise.astype(bool), np.log(np.maximum(predicted, 1e-300)), predicted)
    return _ForwardDraws(q, predicted, states)
