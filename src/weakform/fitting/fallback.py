"""The ways to an estimate: the method itself, others that come to its help, and which of them is told."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..basis import Local
from ..data.matching import Matched
from ..diagnostics.data_likelihood import log_likelihood
from ..diagnostics.fit_verdict import rivals
from ..diagnostics.uncertainty import Quantified, quantify
from ..estimators import ESTIMATORS, Estimator, Options, Status
from ..estimators.distinct_optima import APART, EQUAL
from ..estimators.growing_horizon import grown
from ..parameters import Parameters
from ..results.records import Alternative
from ..support.array_types import FloatArray
from ..support.errors import FitError, UndefinedError
from ..weak.weak_form import WeakForm
from .judgement import MOST_LEFT, MUCH_LEFT, Judged, is_short, judge, leaves
from .multistart import Prepared, Searched, prepare, reaches_noise, refine, search, weak_guesses

STIFF = 100.0
"""Decay in the time between samples above which only a solver for stiff equations can follow."""
BETTER = 0.5
AGREE, FEWEST, SAME, MORE = 4, 3, 0.05, 24
"""Starts that have led to the same log-likelihood, so that more would not help, even to a success that is hardly ever
reached; how near that is, and how many more there are else."""
REFUTED, MANY = (Status.REJECTED, Status.MISSTATED), 64
"""What the data say no to, or at least not as it stands; and how many more starts there are before that is told."""
ELSEWHERE, MOST = 0.1, 3
"""Relative difference of places that are not the same, and from how many of them equations are solved."""
TWIN = 0.005
"""Difference of log-likelihoods up to which two solutions are the same one, with its names exchanged."""
PLACES = 2
"""Where the search has led: how many of them stiff equations are followed from over a growing horizon."""
NEAR = 40
"""Iterations of a method that solves the equations, from where others have ended."""
MUCH = 3.0
"""Log-likelihood by which a second way must be better, and where it is no success either."""


@dataclass(frozen=True)
class Told:
    """A fit from its search to its verdict."""

    refined: Searched
    quantified: Quantified
    judged: Judged

    @cached_property
    def log_likelihood(self) -> float:
        """Of the data; NaN where there is none."""
        return log_likelihood(self.refined.task, self.refined.best.refined, self.refined.noise_free)


def _told(
    parameters: Parameters, prepared: Prepared, starts: int | None, seed: int, forms: tuple[WeakForm, ...] = ()
) -> Told:
    """From the search to the verdict; where the method has no weak forms, those of another tell where a model fails."""
    with prepared.task.stop.on_interrupt():
        refined = None
        quick = prepared.estimator.quick
        if quick is not None and "solver" not in prepared.task.options.given:
            # From all starts: two that agree are no proof that there is no other place that fits as well.
            cheap = replace(prepared.estimator, search=quick, enough=None)
            refined = refine(search(replace(prepared, estimator=cheap), starts, seed))
        if refined is None or not (prepared.task.stop() or reaches_noise(refined)):
            refined = refine(search(prepared, starts, seed))
    refined.task.stop.tell("judge", objective=refined.best.objective)
    quantified = quantify(refined.task, refined.best, refined.noise_free)
    return Told(refined, quantified, judge(parameters, refined, quantified, forms))


def all_tried(
    parameters: Parameters, matched: Matched, prepared: Prepared, starts: int | None, seed: int
) -> list[Told]:
    """Fits of the method, and of those that come to its help."""
    tried, refusal = [], None
    try:
        tried.append(_told(parameters, prepared, starts, seed))
    except UndefinedError as error:  # at the data; the states of other methods need not be there
        refusal = error
    if tried and prepared.estimator.then and matched.complete:
        tried += _grown(parameters, matched, prepared, tried, seed)
    for name in prepared.estimator.then:
        tried += _others(parameters, matched, prepared, ESTIMATORS[name], tried, starts=starts, seed=seed)
    if refusal is not None and not tried:
        raise refusal
    return tried


def _others(
    parameters: Parameters,
    matched: Matched,
    first: Prepared,
    estimator: Estimator,
    tried: list[Told],
    *,
    starts: int | None,
    seed: int,
) -> list[Told]:
    """Fits of another method, where none so far is a success; a local one begins where the others have ended."""
    task = first.task
    if (
        task.stop.alone
        or task.options.particular
        or matched.data.covariance is not None
        or (estimator.local and not tried)
    ):
        return []
    if tried:
        best = best_of(tried)
        status = best.judged.status
        again = estimator is first.estimator
        done = status.success and not leaves(best.refined, MUCH_LEFT) and not (again and _reached(best) < FEWEST)
        if best.refined.noise_free or (estimator.local and status.sound) or done:
            return []
        if not is_short(best.refined) and reaches_noise(best.refined):  # no search would find anything better
            return []
        # That starts agree is no proof where the fit is none.
        sure = status.sound and status not in REFUTED and _reached(best) >= AGREE
        if again and (starts is not None or matched.complete or sure):
            return []
        found = best.refined.best
        stiff = found.refined is not None and found.refined.held is None and found.refined.stiffness > STIFF
        if stiff and not estimator.local:
            return []
    options = Options(time_limit=task.stop.left(), tolerance=task.options.tolerance)
    if estimator.local:  # what is not near is not to be found by solving on and on
        options = replace(options, max_iterations=NEAR)
    ends = tuple(p for told in reversed(tried) if np.isfinite(p := told.refined.best.estimate).all())
    if estimator.local:  # other places of the search, too: one of them may fit as well
        ends = _distinct((*ends, *(task.scale.working(record.estimate) for record in tried[0].refined.records)))
    others: list[Told] = []
    for guesses in [(end,) for end in ends] if estimator.local else [ends]:
        if task.stop():
            break
        try:
            prepared = prepare(parameters, matched, estimator, options, Local(), watch=task.stop)
            if estimator.local:
                prepared = replace(prepared, guesses=guesses)
            elif starts is None and estimator is not first.estimator:
                weak = weak_guesses(parameters, matched, options, task.stop)
                prepared = replace(prepared, guesses=(*prepared.guesses, *guesses, *weak))
            forms = tried[0].refined.task.problem.forms if tried else ()
            count, other = 1 if estimator.local else starts, seed
            wide = not (estimator.local or task.is_linear)  # a linear model has a good place to begin
            if starts is None and tried and wide and leaves(best_of(tried).refined, MOST_LEFT):
                count = MORE
            if estimator is first.estimator:  # the same once more, from other starts, and more of them
                count, other = MANY if best.judged.status in REFUTED else MORE, seed + 1
            others.append(_told(parameters, prepared, count, other, forms))
        except FitError:
            continue
    return others


def _grown(parameters: Parameters, matched: Matched, first: Prepared, tried: list[Told], seed: int) -> list[Told]:
    """For stiff equations: solutions over a horizon that grows, from where the weak search has led."""
    best, task = best_of(tried), first.task
    refined = best.refined.best.refined
    stiff = refined is None or refined.stiffness > STIFF
    if (
        best.judged.status.success
        or not stiff
        or task.options.particular
        or task.stop.alone
        or matched.data.covariance is not None
        or task.stop()
    ):
        return []
    estimator = replace(ESTIMATORS[first.estimator.then[-1]], search=grown)
    options = Options(time_limit=task.stop.left(), tolerance=task.options.tolerance)
    prepared = prepare(parameters, matched, estimator, options, Local(), watch=task.stop)
    found: list[Told] = []
    for record in tried[0].refined.records[:PLACES]:
        guess = task.scale.working(record.estimate)
        try:
            found.append(_told(parameters, replace(prepared, guesses=(guess,)), 1, seed, task.problem.forms))
        except FitError:
            continue
        if found[-1].judged.status.success:
            break
    return found


def _reached(told: Told) -> int:
    """How many starts have led to the best likelihood."""
    return sum(abs(record.behind) < SAME for record in told.refined.records)


def best_of(tried: list[Told]) -> Told:
    """The first, unless another is a success and better, or obeys the model and is much better."""
    best = tried[0]
    for other in tried[1:]:
        old, new = best.judged.status, other.judged.status
        gain = other.log_likelihood - best.log_likelihood
        gained = not gain <= (BETTER if new.success else MUCH)  # NaN where there was nothing to compare with
        obeys = new.sound or other.refined.estimator.local  # a solution does, wherever the search for it has ended
        more = old is not Status.UNDETERMINED or new is Status.UNDETERMINED
        if (new.success and (gained or not old.sound)) or (obeys and gained and more):
            how = "solving the equations" if other.refined.estimator.local else "the relaxed model"
            first = tried[0].refined.estimator.name
            note = f"{first!r} led to no estimate that fits; {how} did better, and is told here."
            best = replace(other, refined=replace(other.refined, notes=(*other.refined.notes, note)))
    best = _with_rivals(best, tried) if best.judged.status.success else best
    # Exchanged names are one solution twice; intervals about one of two different ones are not those of both.
    if best.judged.status.success and any(abs(other.behind) > TWIN for other in best.refined.alternatives):
        return replace(best, judged=replace(best.judged, status=Status.UNDETERMINED))
    return best


def _with_rivals(best: Told, tried: list[Told]) -> Told:
    """With successes elsewhere that fit equally well."""
    C, free = best.quantified.covariance, best.refined.task.free
    found = list(best.refined.alternatives)
    for other in tried:
        behind = best.log_likelihood - other.log_likelihood
        moved = np.abs(other.quantified.p - best.quantified.p)[free]
        far = bool((moved > APART * np.sqrt(np.abs(np.diag(C))[free])).any())
        if other.judged.status.success and abs(behind) < EQUAL and far and not found:
            found.append(Alternative(other.quantified.p, behind))
    if len(found) == len(best.refined.alternatives):
        return best
    words = rivals(best.refined.task, tuple(found))
    judged = replace(best.judged, warnings=(*words, *best.judged.warnings))
    return replace(best, refined=replace(best.refined, alternatives=tuple(found)), judged=judged)


def _distinct(places: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """The first few that differ by more than a few per cent."""
    kept: list[FloatArray] = []
    for p in places:
        if np.isfinite(p).all() and not any(np.allclose(p, other, rtol=ELSEWHERE) for other in kept):
            kept.append(p)
    return tuple(kept[:MOST])
