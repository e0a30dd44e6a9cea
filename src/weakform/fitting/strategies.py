"""Strategies of a fit: ways to an estimate, the order in which they are tried, and when each applies.

A `Strategy` has a name, a condition and an action. `LADDERS` lists, for each method, the strategies in the order in
which they are tried. A condition returns a `Decision`: whether the strategy is run, and why; `FitResult.trace` shows
the reason. To add a strategy, write its condition and its action here, make a `Strategy` of them, and put it into the
ladders.

Every condition is a function of a `Context`, the record of the fit so far, so that it can be tested without a fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..basis import Local
from ..data.matching import MatchedPair
from ..diagnostics.data_likelihood import compute_log_likelihood
from ..diagnostics.uncertainty import EstimateUncertainty, quantify_uncertainty
from ..engine.lane_search import explain_search_obstacle, search_in_lanes
from ..estimators import Estimator, Options, output_error, relaxed_model, wendy
from ..estimators.growing_horizon import fit_growing_horizon
from ..estimators.noise_free_data import is_noise_free
from ..parameters import ResolvedParameters
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError, UndefinedError
from ..weak.weak_form import WeakForm
from .judgement import Judgement, compute_largest_unexplained_share, is_short_series, judge, unexplained_share_exceeds
from .multistart import (
    SearchResult,
    collect_outcomes,
    estimate_with_narrow_functions,
    reaches_noise,
    refine,
    search,
)
from .policy import FALLBACK_POLICY, FallbackPolicy
from .preparation import Prepared, prepare


@dataclass(frozen=True)
class Decision:
    """Whether a strategy is run, and why.

    Attributes
    ----------
    should_run : bool
        Whether it is run.
    reason : str
        A clause for the trace, which follows "tried because" or "skipped:"; empty if a strategy that is run needs no
        reason.
    """

    should_run: bool
    reason: str


@dataclass(frozen=True)
class Attempt:
    """A fit by one strategy, from its search to its verdict.

    Attributes
    ----------
    strategy : str
        Name of the strategy.
    searched : SearchResult
    quantified : EstimateUncertainty
        Covariance and bounds.
    judgement : Judgement
        Status, warnings, goodness of fit.
    """

    strategy: str
    searched: SearchResult
    quantified: EstimateUncertainty
    judgement: Judgement

    @property
    def status(self) -> Status:
        """The status after judgement."""
        return self.judgement.status

    @property
    def solves_equations(self) -> bool:
        """True if the states come from an ODE solver, so that they obey the model however the search ended."""
        return self.searched.estimator.solves_equations

    @cached_property
    def log_likelihood(self) -> float:
        """Log-likelihood of the data; NaN for methods without one and for noise-free data."""
        return compute_log_likelihood(self.searched.task, self.searched.best.refined, self.searched.noise_free)

    @property
    def p_value(self) -> float:
        """The p-value of the model; NaN without a test."""
        goodness = self.judgement.goodness
        return np.nan if goodness is None else goodness.p_value

    def count_agreeing_starts(self, policy: FallbackPolicy) -> int:
        """Count the starts that reached the best log-likelihood."""
        return sum(abs(record.behind) < policy.agreement for record in self.searched.records)


@dataclass(frozen=True)
class Abandoned:
    """A try of a strategy that produced no attempt.

    Attributes
    ----------
    reason : str
        A clause for the trace, which follows "not taken:".
    starts : int
        Number of starts that were followed.
    """

    reason: str
    starts: int = 0


@dataclass(frozen=True)
class Context:
    """A fit so far, as the conditions of strategies see it.

    Attributes
    ----------
    parameters : ResolvedParameters
    matched : MatchedPair
        The data with their columns assigned to states and observables.
    prepared : Prepared
        The problem for the chosen method.
    starts : int, optional
        Number of starts that the user asked for.
    seed : int
    attempts : tuple of Attempt
        What earlier strategies returned.
    best : Attempt, optional
        The attempt that would be reported if the fit ended now.
    refusal : UndefinedError, optional
        Why the chosen method could not be run: the model is undefined at every start.
    policy : FallbackPolicy
    """

    parameters: ResolvedParameters
    matched: MatchedPair
    prepared: Prepared
    starts: int | None
    seed: int
    attempts: tuple[Attempt, ...] = ()
    best: Attempt | None = None
    refusal: UndefinedError | None = None
    policy: FallbackPolicy = FALLBACK_POLICY

    @property
    def first(self) -> Attempt:
        """The first attempt."""
        return self.attempts[0]

    @property
    def forms(self) -> tuple[WeakForm, ...]:
        """Weak forms of the first attempt; they show where a model fails if the method has none of its own."""
        return self.first.searched.task.problem.forms if self.attempts else ()

    def build_fallback_options(self) -> Options:
        """Build the options of a fallback: the time that remains, and the user's tolerance and iteration limit."""
        task = self.prepared.task
        options = task.options
        return Options(
            time_limit=task.stop.compute_seconds_left(),
            tolerance=options.tolerance,
            max_iterations=options.max_iterations,
        )


@dataclass(frozen=True)
class Strategy:
    """A way to an estimate.

    Attributes
    ----------
    name : str
        As the trace and the docs show it.
    summary : str
        What it does, for the table in the docs.
    condition : str
        When it applies, for the table in the docs.
    applies : callable
        `applies(context) -> Decision`.
    run : callable
        `run(context)` yields attempts, and a reason for each try that did not become one.
    """

    name: str
    summary: str
    condition: str
    applies: Callable[[Context], Decision]
    run: Callable[[Context], Iterator[Attempt | Abandoned]]


def complete_attempt(context: Context, strategy: str, refined: SearchResult, forms: tuple[WeakForm, ...]) -> Attempt:
    """Quantify and judge a refined search.

    Parameters
    ----------
    context : Context
    strategy : str
        Name of the strategy.
    refined : SearchResult
        After refinement.
    forms : tuple of WeakForm
        Weak forms of another problem; they locate the misfit of a model if that of `refined` has none.
    """
    refined.task.stop.begin_stage("judge", objective=refined.best.objective)
    quantified = quantify_uncertainty(refined.task, refined.best, refined.noise_free)
    return Attempt(strategy, refined, quantified, judge(context.parameters, refined, quantified, forms, context.policy))


def make_attempt(
    context: Context,
    strategy: str,
    prepared: Prepared,
    starts: int | None,
    seed: int,
    forms: tuple[WeakForm, ...] = (),
) -> Attempt:
    """Search, refine, quantify and judge.

    Parameters
    ----------
    context : Context
    strategy : str
        Name of the strategy.
    prepared : Prepared
    starts : int, or None
        Number of starts; None for as many as the method chooses.
    seed : int
    forms : tuple of WeakForm
        Weak forms of another problem; they locate the misfit of a model if `prepared` has none.

    Returns
    -------
    Attempt

    Raises
    ------
    FitError
        If the search has no estimate.
    """
    with prepared.task.stop.handle_interrupts():
        return complete_attempt(context, strategy, refine(search(prepared, starts, seed)), forms)


# The coarse search: weak least squares on few test functions, at little cost.


def coarse_search_applies(context: Context) -> Decision:
    """Decide on the coarse search: run if the method has one, unless the user has chosen a solver."""
    if context.prepared.estimator.coarse_search is None:
        return Decision(False, "the method has no coarse search")
    if "solver" in context.prepared.task.options.non_default_names:
        return Decision(False, f"the user chose solver={context.prepared.task.options.solver!r}")
    return Decision(True, "")


def run_coarse_search(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield the refined coarse estimate if its residuals reach the noise of the data, else why it is abandoned."""
    prepared = context.prepared
    coarse = prepared.estimator.coarse_search
    assert coarse is not None
    with prepared.task.stop.handle_interrupts():
        # All starts are followed: two that agree do not prove that there is no other optimum that fits as well.
        cheap = replace(prepared.estimator, search=coarse, enough=None)
        refined = refine(search(replace(prepared, estimator=cheap), context.starts, context.seed))
        # Without time for the full search the coarse estimate is the best there is.
        if prepared.task.stop() or reaches_noise(refined):
            yield complete_attempt(context, COARSE_SEARCH.name, refined, ())
            return
    yield Abandoned("it did not converge to white residuals as small as the noise", len(refined.records))


# Many starts side by side in the compiled engine, where states are hidden.


def lane_search_applies(context: Context) -> Decision:
    """Decide on the search in lanes: run unless the user set the number of starts, or the engine cannot do it."""
    if context.starts is not None:
        return Decision(False, "the user set the number of starts")
    if obstacle := explain_search_obstacle(context.prepared.task):
        return Decision(False, obstacle)
    if is_noise_free(context.prepared.task.problem):
        return Decision(False, "the data are noise-free")
    return Decision(True, "")


def run_lane_search(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield the refined best of many starts if its residuals reach the noise of the data, else why it is abandoned."""
    prepared = context.prepared
    task = prepared.task
    with task.stop.handle_interrupts():
        task.stop.begin_stage("search in lanes")
        searched = collect_outcomes(prepared, search_in_lanes(task, prepared.guesses, context.seed))
        if searched is None:
            yield Abandoned("the equations have no finite solution from any of its starts")
            return
        refined = refine(searched)
        agreeing = sum(abs(record.behind) < context.policy.agreement for record in refined.records)
        if task.stop() or (reaches_noise(refined) and agreeing >= context.policy.min_agreeing_starts_of_success):
            yield complete_attempt(context, LANE_SEARCH.name, refined, ())
            return
    yield Abandoned("its starts do not agree on white residuals as small as the noise", len(refined.records))


# The chosen method.


def chosen_method_applies(context: Context) -> Decision:
    """Decide on the chosen method: run unless an earlier search was accepted."""
    if context.refusal is not None:
        return Decision(False, "the model is undefined at every start of the coarse search")
    if context.attempts:
        return Decision(False, f"the estimate of the {context.first.strategy} was accepted")
    if coarse_search_applies(context).should_run:
        return Decision(True, "the coarse search was not accepted")
    if lane_search_applies(context).should_run:
        return Decision(True, "the search in lanes was not accepted")
    return Decision(True, "")


def run_chosen_method(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield the fit by the method that the user chose."""
    yield make_attempt(context, CHOSEN_METHOD.name, context.prepared, context.starts, context.seed)


# What all fallbacks have in common.


def find_obstacle(context: Context) -> str:
    """Return why no fallback may run at all, as a clause; an empty string if fallbacks may run."""
    task = context.prepared.task
    if task.stop.forbids_fallback:
        return "fallbacks are off, because this fit is one of many"
    restricting = task.options.restricting_names
    if restricting:
        values = ", ".join(f"{name}={getattr(task.options, name)!r}" for name in restricting)
        return f"{values} restricts the fit to the method {context.prepared.estimator.name!r}"
    if context.matched.data.covariance is not None:
        return "the noise is correlated between columns, which only the chosen method can handle"
    return ""


def describe_doubt(attempt: Attempt, policy: FallbackPolicy) -> str:
    """Describe in a clause, with numbers, why an attempt is not accepted without further tries."""
    who, status, p = f"the fit by {attempt.searched.estimator.name!r}", attempt.status, attempt.p_value
    if status is Status.REJECTED and not np.isnan(p):
        return f"{who} was rejected (p = {p:.1g})"
    if not status.success:
        return f"{who} ended with the status {status.name}"
    if unexplained_share_exceeds(attempt.searched, policy.unexplained_for_retry, policy):
        share = compute_largest_unexplained_share(attempt.searched)
        return f"{who} converged but left {share:.0%} of a column's spread unexplained in a short series"
    agreeing = attempt.count_agreeing_starts(policy)
    return f"only {agreeing} start{'s' * (agreeing != 1)} reached the best likelihood of {who}"


def explain_why_settled(context: Context, repeats_method: bool) -> str:
    """Return why the best attempt so far needs no fallback, as a clause; an empty string if it may need one.

    Parameters
    ----------
    context : Context
        With at least one attempt.
    repeats_method : bool
        True if the strategy repeats the method with more starts: then a success needs starts that agree.
    """
    best, policy = context.best, context.policy
    assert best is not None
    if best.searched.noise_free:
        return "the data are noise-free"
    explained = not unexplained_share_exceeds(best.searched, policy.unexplained_for_retry, policy)
    too_few_agree = best.count_agreeing_starts(policy) < policy.min_agreeing_starts_of_success
    if best.status.success and explained and not (repeats_method and too_few_agree):
        return "the fit succeeded"
    return ""


def explain_why_noise_is_reached(context: Context) -> str:
    """Return why another search cannot help, as a clause; an empty string if it can.

    It cannot if the residuals are white and at the noise level in a series that is not short. In a short series a wrong
    optimum may have such residuals, too.
    """
    best = context.best
    assert best is not None
    if not is_short_series(best.searched, context.policy) and reaches_noise(best.searched):
        return "the residuals are white and as small as the noise, so that no search can improve the fit"
    return ""


def is_stiff_for_collocation(context: Context) -> bool:
    """Return True if the solutions of the best attempt decay too fast between samples for states on a mesh."""
    assert context.best is not None
    refined = context.best.searched.best.refined
    return refined is not None and refined.held_direction is None and refined.stiffness > context.policy.stiff_decay


# Stiff equations: forward solutions over a horizon that grows.


def growing_horizon_applies(context: Context) -> Decision:
    """Decide on the growing horizon: for stiff equations with every state measured, without a success so far."""
    if context.best is None:
        return Decision(False, "there is no earlier attempt to start from")
    if not context.matched.complete:
        return Decision(False, "not every state is measured")
    if context.best.status.success:
        return Decision(False, "the fit succeeded")
    refined = context.best.searched.best.refined
    if refined is not None and not refined.stiffness > context.policy.stiff_decay:
        return Decision(False, "the equations are not stiff")
    if obstacle := find_obstacle(context):
        return Decision(False, obstacle)
    if context.prepared.task.stop():
        return Decision(False, "the time limit is reached")
    return Decision(True, f"{describe_doubt(context.best, context.policy)}, and the equations may be stiff")


def run_growing_horizon(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield output-error fits over a growing horizon, from the best end points of the first search."""
    task, policy = context.prepared.task, context.policy
    estimator = replace(output_error.ESTIMATOR, search=fit_growing_horizon)
    options = context.build_fallback_options()
    prepared = prepare(context.parameters, context.matched, estimator, options, Local(), watch=task.stop)
    if not prepared.task.problem.forms:  # too few samples, or an input that jumps between two samples
        yield Abandoned("there is no weak form of the data")
        return
    for record in context.first.searched.records[: policy.max_horizon_starts]:
        guess = task.scale.to_working(record.estimate)
        try:
            attempt = make_attempt(
                context, GROWING_HORIZON.name, replace(prepared, guesses=(guess,)), 1, context.seed, task.problem.forms
            )
        except FitError as error:
            yield Abandoned(str(error))
            continue
        yield attempt
        if attempt.status.success:
            break


# The relaxed model: states on a mesh that obey the equations more and more closely.


def relaxed_model_applies(context: Context) -> Decision:
    """Decide on the relaxed model: run if no attempt succeeded, or much of a short series is unexplained."""
    if obstacle := find_obstacle(context):
        return Decision(False, obstacle)
    if context.best is None:
        return Decision(True, "the model is undefined at every start of the chosen method")
    obstacle = explain_why_settled(context, repeats_method=False) or explain_why_noise_is_reached(context)
    if obstacle:
        return Decision(False, obstacle)
    if is_stiff_for_collocation(context):
        return Decision(False, "the equations are too stiff for states on a mesh")
    return Decision(True, describe_doubt(context.best, context.policy))


def run_relaxed_model(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield the relaxed fit from its own starts, the earlier estimates and rough weak estimates."""
    task = context.prepared.task
    if task.stop():
        yield Abandoned("the time limit is reached")
        return
    options = context.build_fallback_options()
    estimator, starts = relaxed_model.ESTIMATOR, context.starts
    prepared = prepare(context.parameters, context.matched, estimator, options, Local(), watch=task.stop)
    if starts is None:
        rough = estimate_with_narrow_functions(context.parameters, context.matched, options, task.stop)
        prepared = replace(prepared, guesses=(*prepared.guesses, *collect_end_points(context), *rough))
        # A model that is linear in its parameters needs no more starts: weak least squares gives a good one.
        share = context.policy.unexplained_for_more_starts
        best = context.best
        if best is not None and not task.is_linear and unexplained_share_exceeds(best.searched, share, context.policy):
            starts = context.policy.extra_starts
    yield make_attempt(context, RELAXED_MODEL.name, prepared, starts, context.seed, context.forms)


# The same method from more starts, with hidden states.


def more_starts_apply(context: Context) -> Decision:
    """Decide on more starts: for hidden states, if too few starts agree and the user did not set their number."""
    if context.best is None:
        return Decision(False, "there is no earlier attempt to improve on")
    if obstacle := find_obstacle(context):
        return Decision(False, obstacle)
    obstacle = explain_why_settled(context, repeats_method=True) or explain_why_noise_is_reached(context)
    if obstacle:
        return Decision(False, obstacle)
    policy, best = context.policy, context.best
    if context.starts is not None:
        return Decision(False, f"the user set starts={context.starts}")
    if context.matched.complete:
        return Decision(False, "every state is measured")
    agreeing = best.count_agreeing_starts(policy)
    # Starts that agree prove nothing if the data refute their fit: all may have ended at the same wrong optimum.
    if best.status.sound and not is_refuted(best) and agreeing >= policy.min_agreeing_starts:
        return Decision(False, f"{agreeing} starts reached the best likelihood")
    if is_stiff_for_collocation(context):
        return Decision(False, "the equations are too stiff for states on a mesh")
    return Decision(True, describe_doubt(best, policy))


def run_more_starts(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield the fit by the same method from more random starts."""
    task, policy, best = context.prepared.task, context.policy, context.best
    assert best is not None
    if task.stop():
        yield Abandoned("the time limit is reached")
        return
    estimator = context.prepared.estimator
    options = context.build_fallback_options()
    prepared = prepare(context.parameters, context.matched, estimator, options, Local(), watch=task.stop)
    starts = policy.extra_starts_if_refuted if is_refuted(best) else policy.extra_starts
    yield make_attempt(context, MORE_STARTS.name, prepared, starts, context.seed + 1, context.forms)


def is_refuted(attempt: Attempt) -> bool:
    """Return True if the data contradict the model or the stated noise."""
    return attempt.status in (Status.REJECTED, Status.MISSTATED)


# Output error: the equations are solved, from the end points of earlier attempts.


def output_error_nearby_applies(context: Context) -> Decision:
    """Decide on output error nearby: run if the states of the best attempt may not obey the model."""
    if obstacle := find_obstacle(context):
        return Decision(False, obstacle)
    if context.best is None:
        return Decision(False, "there is no earlier attempt to start from")
    if context.best.status.sound:
        return Decision(False, "the states of the best attempt already obey the model")
    obstacle = explain_why_settled(context, repeats_method=False) or explain_why_noise_is_reached(context)
    if obstacle:
        return Decision(False, obstacle)
    return Decision(True, describe_doubt(context.best, context.policy))


def run_output_error_nearby(context: Context) -> Iterator[Attempt | Abandoned]:
    """Yield output-error fits from the end points of earlier attempts, each for a few iterations."""
    task, policy = context.prepared.task, context.policy
    options = context.build_fallback_options()
    limit = options.max_iterations
    options = replace(options, max_iterations=min(policy.nearby_iterations, limit or policy.nearby_iterations))
    # Other end points of the first search may fit as well as its best.
    records = context.first.searched.records
    ends = (*collect_end_points(context), *(task.scale.to_working(record.estimate) for record in records))
    for end in keep_distinct(ends, policy):
        if task.stop():
            yield Abandoned("the time limit is reached")
            return
        try:
            prepared = prepare(
                context.parameters, context.matched, output_error.ESTIMATOR, options, Local(), watch=task.stop
            )
            prepared = replace(prepared, guesses=(end,))
            attempt = make_attempt(context, OUTPUT_ERROR_NEARBY.name, prepared, 1, context.seed, context.forms)
        except FitError as error:
            yield Abandoned(str(error))
            continue
        yield attempt


def collect_end_points(context: Context) -> tuple[FloatArray, ...]:
    """Return the finite estimates of all attempts in working coordinates, the latest first."""
    estimates = (attempt.searched.best.estimate for attempt in reversed(context.attempts))
    return tuple(p for p in estimates if np.isfinite(p).all())


def keep_distinct(points: tuple[FloatArray, ...], policy: FallbackPolicy) -> tuple[FloatArray, ...]:
    """Return the first `max_end_points` finite points `(J,)` that differ by more than `distinct_end_points`."""
    kept: list[FloatArray] = []
    for p in points:
        if np.isfinite(p).all() and not any(np.allclose(p, q, rtol=policy.distinct_end_points) for q in kept):
            kept.append(p)
    return tuple(kept[: policy.max_end_points])


LANE_SEARCH = Strategy(
    "search in lanes",
    "Gauss–Newton iterations from many forward solutions, side by side",
    "states are hidden, and the engine can fit the model; accepted only if several starts agree on residuals that are "
    "white and as small as the noise",
    lane_search_applies,
    run_lane_search,
)
COARSE_SEARCH = Strategy(
    "coarse search",
    "weak least squares on few test functions, then the refinement",
    "the method has a coarse search; accepted only if its residuals are white and as small as the noise",
    coarse_search_applies,
    run_coarse_search,
)
CHOSEN_METHOD = Strategy(
    "chosen method",
    "the method that was asked for",
    "the coarse search was not accepted, or there is none",
    chosen_method_applies,
    run_chosen_method,
)
GROWING_HORIZON = Strategy(
    "growing horizon",
    "output error over a horizon that grows, with a stiff solver",
    "every state is measured, nothing succeeded so far, and the equations are stiff",
    growing_horizon_applies,
    run_growing_horizon,
)
RELAXED_MODEL = Strategy(
    "relaxed model",
    "states on a mesh that obey the equations more and more closely, from several starts",
    "nothing succeeded so far, or a short series was left with much unexplained variation; not for stiff equations",
    relaxed_model_applies,
    run_relaxed_model,
)
MORE_STARTS = Strategy(
    "more starts",
    "the same method from 24 more random starts, 64 if the data refute the model",
    "some states are not measured, and too few starts agree on an accepted fit",
    more_starts_apply,
    run_more_starts,
)
OUTPUT_ERROR_NEARBY = Strategy(
    "output error nearby",
    "the equations are solved from the end points of earlier attempts",
    "no estimate so far has states that obey the model",
    output_error_nearby_applies,
    run_output_error_nearby,
)

DEFAULT_LADDER = (CHOSEN_METHOD,)
"""The ladder of a method without an entry in `LADDERS`: no fallback."""

LADDERS: dict[str, tuple[Strategy, ...]] = {
    wendy.ESTIMATOR.name: (COARSE_SEARCH, CHOSEN_METHOD, GROWING_HORIZON, RELAXED_MODEL, OUTPUT_ERROR_NEARBY),
    relaxed_model.ESTIMATOR.name: (LANE_SEARCH, CHOSEN_METHOD, GROWING_HORIZON, MORE_STARTS, OUTPUT_ERROR_NEARBY),
}
"""Strategies in the order in which they are tried, by the name of the method."""


def get_ladder(estimator: Estimator) -> tuple[Strategy, ...]:
    """Return the strategies of a method, in the order in which they are tried."""
    return LADDERS.get(estimator.name, DEFAULT_LADDER)
