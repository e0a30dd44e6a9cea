"""Search from several starts, then refinement of the distinct optima."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..basis import Local
from ..data.matching import MatchedPair
from ..diagnostics.autocorrelation import is_autocorrelated
from ..estimators import ESTIMATORS, Estimator, Options, Outcome, Task, wls
from ..estimators.distinct_optima import rank_optima
from ..estimators.estimation_problem import StartPoint, extract_parameters
from ..estimators.iterative_weights import iterate_weights
from ..estimators.noise_free_data import is_exact_fit, is_exact_weak_fit, is_noise_free
from ..estimators.start_points import make_starts
from ..parameters import ResolvedParameters
from ..results.records import Alternative, StartRecord
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError, UndefinedError, WeakformError
from ..support.progress import Watch
from .preparation import Prepared, prepare

MAX_EXCESS_OVER_FILTER = 10.0
"""Relative excess of the residual variance over the variance that a high-pass filter sees in the data, times the
square root of the number of values of the column. Below, the residuals are as small as the noise. By judgement: about
seven standard deviations of a variance estimate."""

MIN_P_VALUE_OF_WHITE_RESIDUALS = 1e-3
"""P-value of the test for autocorrelation. Below, the residuals are not white, and the fit can be improved. By
judgement."""

NARROW_RADII = (3, 4, 6)
"""Radii of test functions, in samples, for rough guesses: wider ones average out sparsely sampled dynamics. By
judgement."""


@dataclass(frozen=True)
class SearchResult:
    """Outcomes of a search, the best first, and the decisions taken during it.

    Attributes
    ----------
    estimator : Estimator
        The method that computed the best outcome; it may replace the chosen one.
    task : Task
    records : tuple of StartRecord
        One for each start that was followed.
    outcomes : tuple of Outcome
        After `search` one for each record; after `refine` the refined best one only.
    noise_free : bool
    notes : tuple of str
    alternatives : tuple of Alternative
        Other optima that fit equally well.
    """

    estimator: Estimator
    task: Task
    records: tuple[StartRecord, ...]
    outcomes: tuple[Outcome, ...]
    noise_free: bool
    notes: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def best(self) -> Outcome:
        """The best outcome."""
        return self.outcomes[0]


def search(prepared: Prepared, starts: int | None, seed: int) -> SearchResult:
    """Run the estimator from every start and sort the outcomes by their objective.

    Parameters
    ----------
    prepared : Prepared
    starts : int, or None
        Number of starts; None lets the method choose, and stop early when its starts agree.
    seed : int
        Seed of random starts.

    Returns
    -------
    SearchResult
        One outcome for each start that was followed.

    Raises
    ------
    UndefinedError
        If the objective is not finite at any start.
    FitError
        If time ran out before any estimate.
    """
    estimator, task = prepared.estimator, prepared.task
    needs_no_start = task.is_linear and estimator.closed_form
    build_starts = estimator.starts or make_starts
    points: Sequence[StartPoint | None] = (
        [None] if needs_no_start else build_starts(task, prepared.guesses, starts, seed)
    )
    noise_free, notes = is_noise_free(task.problem), []
    if not noise_free and not estimator.minimises_weak_residual and task.problem.forms:
        noise_free = is_exact_weak_fit(task.weak, lambda: wls.ESTIMATOR.search(task, points[0]).objective)
    if noise_free and estimator.noise_free is not None:
        task = estimator.noise_free(task)
    elif noise_free:
        reason = "sigma is 0" if is_noise_free(task.problem) else "weak least squares fits them to rounding"
        notes.append(f"The data are noise-free ({reason}): weak least squares replaced {estimator.name!r}.")
        if task.prior is not None:
            notes.append("The priors were ignored: beside noise-free data they have no weight.")
        estimator = wls.ESTIMATOR
        points = [None] if task.is_linear else points
    pairs: list[tuple[StartPoint | None, Outcome]] = []
    lowest_objective = np.nan
    for k, point in enumerate(points, 1):
        task.stop.begin_stage(f"search ({estimator.name})", k, len(points), lowest_objective)
        pairs.append((point, _search_from(estimator, task, point)))
        lowest_objective = np.fmin(lowest_objective, pairs[-1][1].objective)
        enough = estimator.enough if starts is None else None
        if task.stop() or (enough is not None and enough(task, [outcome for _, outcome in pairs])):
            break
    if task.stop.stop_requested and len(pairs) < len(points):
        notes.append(f"Stopped by the user after {len(pairs)} of {len(points)} starts; the others might end elsewhere.")
    # Each start has its own pair, so that records and outcomes keep the same order.
    pairs.sort(key=lambda pair: pair[1].objective)
    best = pairs[0][1]
    if best.status is Status.START and task.stop():
        raise FitError("The fit was stopped before it had any estimate. Give it more time.")
    if best.status is Status.START:
        raise UndefinedError(f"No fit: {best.status.value}.")
    records = _record_starts(task, pairs)
    return SearchResult(estimator, task, records, tuple(outcome for _, outcome in pairs), noise_free, tuple(notes))


def collect_outcomes(prepared: Prepared, pairs: list[tuple[FloatArray, Outcome]]) -> SearchResult | None:
    """Return the outcomes of a search by other means, the best first; None if there is none.

    Parameters
    ----------
    prepared : Prepared
    pairs : list of pairs
        The start `(J,)` and the outcome of each search.
    """
    if not pairs:
        return None
    pairs = sorted(pairs, key=lambda pair: pair[1].objective)
    return SearchResult(
        prepared.estimator, prepared.task, _record_starts(prepared.task, pairs), tuple(o for _, o in pairs), False
    )


def _record_starts(task: Task, pairs: Sequence[tuple[StartPoint | None, Outcome]]) -> tuple[StartRecord, ...]:
    """Return a record of each start."""
    natural = task.scale.to_natural
    return tuple(
        StartRecord(
            start=None if point is None else natural(extract_parameters(point)),
            estimate=natural(outcome.estimate),
            objective=outcome.objective,
            status=outcome.status,
            iterations=outcome.iterations,
            evaluations=outcome.evaluations,
        )
        for point, outcome in pairs
    )


def _search_from(estimator: Estimator, task: Task, point: StartPoint | None) -> Outcome:
    """Search from one start; return a failed outcome if the arithmetic breaks down, so that the fit can go on."""
    try:
        return estimator.search(task, point)
    except (np.linalg.LinAlgError, ArithmeticError):
        estimate = task.base.copy() if point is None else extract_parameters(point).copy()
        return Outcome(estimate, np.inf, Status.START, iterations=0, evaluations=0)


def refine(searched: SearchResult) -> SearchResult:
    """Refine the distinct optima, keep the one with the best likelihood, and check again for noise-free data.

    Returns
    -------
    SearchResult
        With one outcome, and the records of all starts.
    """
    estimator, task, best = searched.estimator, searched.task, searched.best
    noise_free, notes, records = searched.noise_free, list(searched.notes), searched.records
    alternatives: tuple[Alternative, ...] = ()
    if estimator.refine is not None:
        task.stop.begin_stage(f"refine ({estimator.name})", objective=best.objective)
        ranked = rank_optima(estimator, task, list(searched.outcomes))
        best, least = ranked.best, ranked.cost
        records = tuple(replace(r, behind=cost - least) for r, cost in zip(records, ranked.costs, strict=True))
        natural = task.scale.to_natural
        alternatives = tuple(
            Alternative(natural(outcome.estimate), cost - least) for outcome, cost in ranked.alternatives
        )
        task, best = iterate_weights(estimator, task, best)
        notes += [best.note] if best.note else []
        if best.refined is None and estimator.method_if_unrefined is not None:
            estimator = ESTIMATORS[estimator.method_if_unrefined]
            best = replace(best, status=Status.UNREFINED) if best.status.converged else best
            notes.append(
                f"The refinement was not possible; the estimate is that of {estimator.name!r}, biased by the noise."
            )
    if estimator.minimises_weak_residual and not noise_free and task.problem.data.sigma is None:
        noise_free = is_exact_weak_fit(task.weak, lambda: best.objective)
    if best.status is Status.TIME and task.stop.stop_requested:
        best = replace(best, status=Status.INTERRUPTED)
    if not noise_free and is_exact_fit(task.problem, best.refined):
        notes.append("The data are noise-free: the model follows them to rounding, so there are no standard errors.")
        noise_free = True
    return SearchResult(estimator, task, records, (best,), noise_free, tuple(notes), alternatives=alternatives)


def estimate_with_narrow_functions(
    parameters: ResolvedParameters, matched: MatchedPair, options: Options, watch: Watch
) -> tuple[FloatArray, ...]:
    """Estimate by weak least squares with test functions of a few samples: rough, but rarely far off.

    If the dynamics are sampled sparsely, wider test functions average them out.

    Returns
    -------
    tuple of ndarray, (J,)
        Estimates in working coordinates; radii without a finite estimate are left out.
    """
    step = float(np.median(np.concatenate([np.diff(q.times) for q in matched.data.trajectories])))
    estimates = []
    for samples in NARROW_RADII:
        try:
            prepared = prepare(parameters, matched, wls.ESTIMATOR, options, Local(radius=samples * step), watch=watch)
            estimates.append(search(prepared, None, 0).best.estimate)
        except WeakformError:
            continue
    return tuple(p for p in estimates if np.isfinite(p).all())


def reaches_noise(searched: SearchResult) -> bool:
    """Return True if the residuals are white and as small as the noise that a filter sees in the data.

    The variance that the filter sees is at least that of the noise, which no model can explain: residuals of that size
    without autocorrelation leave nothing to improve.
    """
    best, problem = searched.best, searched.task.problem
    refined = best.refined
    if searched.noise_free:
        return True
    if refined is None or refined.residuals is None or refined.held_direction is not None or not best.status.converged:
        return False
    values = np.maximum(problem.data.measurements, 1)
    sigma_is_known = problem.data.sigma is not None
    excess = refined.misfit / max(refined.freedom, 1) if sigma_is_known else (refined.sigma / problem.sigma) ** 2
    if not np.all(excess < 1.0 + MAX_EXCESS_OVER_FILTER / np.sqrt(values)):
        return False
    return not is_autocorrelated(refined.residuals, MIN_P_VALUE_OF_WHITE_RESIDUALS)
