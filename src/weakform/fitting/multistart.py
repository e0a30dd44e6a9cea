"""Prepare, search and refine: from what the user says to an estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..basis import Local
from ..data.matching import Matched
from ..diagnostics.autocorrelation import hangs_together
from ..estimators import ESTIMATORS, Estimator, Options, Outcome, Status, Task, takes
from ..estimators.distinct_optima import rank
from ..estimators.estimation_problem import StartPoint, extract_parameters
from ..estimators.iterative_weights import settled
from ..estimators.noise_free_data import fits_to_rounding, follows_to_rounding, is_noise_free
from ..estimators.problem_setup import pose
from ..estimators.start_points import make_starts
from ..estimators.wls import ESTIMATOR as WLS
from ..parameters import Parameters
from ..results.records import Alternative, StartRecord
from ..support.array_types import FloatArray
from ..support.errors import FitError, UndefinedError, WeakformError
from ..support.progress import Watch
from ..weak.weak_problem import Basis

SPREAD, WHITE = 10.0, 1e-3
"""How much larger than the filter's the variance may be, times the square root of the number of values of a column; and
the p-value below which the residuals hang together."""
NARROW = (3, 4, 6)
"""Radii, in samples, of test functions for dynamics that are sampled rarely."""


@dataclass(frozen=True)
class Prepared:
    """What is to be estimated, by which method, from which first guesses."""

    estimator: Estimator
    task: Task
    guesses: tuple[FloatArray, ...]


def prepare(
    parameters: Parameters, matched: Matched, estimator: Estimator, options: Options, basis: Basis, *, watch: Watch
) -> Prepared:
    """The weak problem, and what is known of its parameters, in the coordinates that the estimators work in."""
    free, scale = parameters.free, parameters.scale
    if not free.any():
        raise FitError("All parameters are fixed; there is nothing to estimate.")
    if parameters.prior is not None and not estimator.likelihood:
        users = [other.name for other in ESTIMATORS.values() if other.likelihood]
        raise FitError(f"Method {estimator.name!r} has no likelihood to join with priors; use {', '.join(users)}.")
    chosen = estimator
    estimator, problem = pose(parameters, matched, chosen, basis)
    if estimator is not chosen:
        takes(estimator, options.given)
    names = problem.model.parameters
    linear = np.isin(names, problem.model.linear_among([name for name, f in zip(names, free, strict=True) if f]))
    lower, upper = parameters.bounds
    task = Task(
        problem=problem,
        free=free,
        base=parameters.base,
        lower=scale.working(lower),
        upper=scale.working(upper),
        linear=linear & ~scale.log,
        options=options,
        stop=watch,
        scale=scale,
        prior=None if parameters.prior is None else parameters.prior.on(scale),
    )
    if estimator.check is not None:
        estimator.check(task)
    start = parameters.start
    return Prepared(estimator, task, () if start is None else (np.where(free, scale.working(start), task.base),))


def weak_guesses(parameters: Parameters, matched: Matched, options: Options, watch: Watch) -> tuple[FloatArray, ...]:
    """Estimates by weak least squares with test functions of a few samples: rough, but hardly ever lost.

    Where samples are few for the dynamics, wider test functions see nothing of them.
    """
    step = float(np.median(np.concatenate([np.diff(q.times) for q in matched.data.trajectories])))
    found = []
    for samples in NARROW:
        try:
            prepared = prepare(parameters, matched, WLS, options, Local(radius=samples * step), watch=watch)
            found.append(search(prepared, None, 0).best.estimate)
        except WeakformError:
            continue
    return tuple(p for p in found if np.isfinite(p).all())


@dataclass(frozen=True)
class Searched:
    """Where the starts have led, the best first; and what was decided on the way."""

    estimator: Estimator
    task: Task
    records: tuple[StartRecord, ...]
    outcomes: tuple[Outcome, ...]
    noise_free: bool
    notes: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()

    @property
    def best(self) -> Outcome:
        """The first."""
        return self.outcomes[0]


def search(prepared: Prepared, starts: int | None, seed: int) -> Searched:
    """Run the estimator from every start."""
    estimator, task = prepared.estimator, prepared.task
    direct = task.is_linear and estimator.closed_form
    begin = estimator.starts or make_starts
    points: Sequence[StartPoint | None] = [None] if direct else begin(task, prepared.guesses, starts, seed)
    noise_free, notes = is_noise_free(task.problem), []
    if not noise_free and estimator is not WLS and task.problem.forms:
        noise_free = fits_to_rounding(task.weak, lambda: WLS.search(task, points[0]).objective)
    if noise_free and estimator.noise_free is not None:
        task = estimator.noise_free(task)
    elif noise_free:
        why = "sigma is 0" if is_noise_free(task.problem) else "weak least squares fits them to rounding"
        notes.append(f"The data are noise-free ({why}): weak least squares was used in place of {estimator.name!r}.")
        if task.prior is not None:
            notes.append("Priors were left out: noise-free data leave nothing for them to say.")
        estimator = WLS
        points = [None] if task.is_linear else points
    tried: list[tuple[StartPoint | None, Outcome]] = []
    least = np.nan
    for k, point in enumerate(points, 1):
        task.stop.tell(f"search ({estimator.name})", k, len(points), least)
        tried.append((point, estimator.search(task, point)))
        least = np.fmin(least, tried[-1][1].objective)
        enough = estimator.enough if starts is None else None
        if task.stop() or (enough is not None and enough(task, [outcome for _, outcome in tried])):
            break
    if task.stop.asked and len(tried) < len(points):
        notes.append(f"Stopped by the user after {len(tried)} of {len(points)} starts: others may lead elsewhere.")
    tried.sort(key=lambda pair: pair[1].objective)
    best = tried[0][1]
    if best.status is Status.START and task.stop():
        raise FitError("The fit was stopped before anything was found; give it more time.")
    if best.status is Status.START:
        raise UndefinedError(f"No fit: {best.status.value}.")
    natural = task.scale.natural
    records = tuple(
        StartRecord(
            start=None if point is None else natural(extract_parameters(point)),
            estimate=natural(outcome.estimate),
            objective=outcome.objective,
            status=outcome.status,
            iterations=outcome.iterations,
            evaluations=outcome.evaluations,
        )
        for point, outcome in tried
    )
    return Searched(estimator, task, records, tuple(outcome for _, outcome in tried), noise_free, tuple(notes))


def refine(searched: Searched) -> Searched:
    """Refine what is distinct, keep the best likelihood, and look again whether the data are noise-free."""
    estimator, task, best = searched.estimator, searched.task, searched.best
    noise_free, notes, records = searched.noise_free, list(searched.notes), searched.records
    alternatives: tuple[Alternative, ...] = ()
    if estimator.refine is not None:
        task.stop.tell(f"refine ({estimator.name})", objective=best.objective)
        ranked = rank(estimator, task, list(searched.outcomes))
        best, least = ranked.best, ranked.cost
        records = tuple(replace(r, behind=cost - least) for r, cost in zip(records, ranked.costs, strict=True))
        natural = task.scale.natural
        alternatives = tuple(Alternative(natural(o.estimate), cost - least) for o, cost in ranked.alternatives)
        task, best = settled(estimator, task, best)
        notes += [best.note] if best.note else []
        if best.refined is None and estimator.unrefined is not None:
            estimator = ESTIMATORS[estimator.unrefined]
            best = replace(best, status=Status.UNREFINED) if best.status.converged else best
            notes.append(
                f"The refinement was not possible; the estimate is that of {estimator.name!r}, biased by the noise."
            )
    if estimator is WLS and not noise_free and task.problem.data.sigma is None:
        noise_free = fits_to_rounding(task.weak, lambda: best.objective)
    if best.status is Status.TIME and task.stop.asked:
        best = replace(best, status=Status.INTERRUPTED)
    if not noise_free and follows_to_rounding(task.problem, best.refined):
        notes.append("The data are noise-free: the model follows them to rounding, which leaves no errors to tell.")
        noise_free = True
    return Searched(estimator, task, records, (best,), noise_free, tuple(notes), alternatives=alternatives)


def reaches_noise(searched: Searched) -> bool:
    """Whether the residuals of an estimate are white, and as small as the noise that a filter sees in the data.

    What the filter sees is at least the noise; an estimate that leaves no more has nothing more to find.
    """
    best, problem = searched.best, searched.task.problem
    refined = best.refined
    if searched.noise_free:
        return True
    if refined is None or refined.residuals is None or refined.held is not None or not best.status.converged:
        return False
    values = np.maximum(problem.data.measurements, 1)
    known = problem.data.sigma is not None
    excess = refined.misfit / max(refined.freedom, 1) if known else (refined.sigma / problem.sigma) ** 2
    if not np.all(excess < 1.0 + SPREAD / np.sqrt(values)):
        return False
    return not hangs_together(refined.residuals, WHITE)
