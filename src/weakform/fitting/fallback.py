"""Strategies of a fit: run them in order, choose the attempt that is reported, and record why.

If a fit does not succeed, other strategies are tried (`strategies`). Each strategy decides from the attempts so far
whether it applies. `choose_attempt` compares the attempts in their order: a later one replaces the best so far if

- it succeeded, and its log-likelihood is higher by more than `gain_of_success`, or the states of the best attempt need
  not obey the model;
- or it did not succeed, but its states obey the model and its log-likelihood is higher by more than
  `gain_without_success`. An attempt that is UNDETERMINED is replaced in this way only by another such attempt.

Log-likelihoods cannot be compared if the states do not obey the model. A difference that is NaN counts as higher.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from ..data.matching import MatchedPair
from ..diagnostics.warning_texts import describe_rivals
from ..estimators.distinct_optima import MAX_EQUIVALENT_GAP, MIN_DISTINCT_DISTANCE
from ..parameters import ResolvedParameters
from ..results.records import Alternative
from ..results.status import Status
from ..results.trace import FAILED, NOT_TAKEN, SKIPPED, TAKEN, Trace, TraceStep
from ..support.errors import FitError, UndefinedError
from .policy import FALLBACK_POLICY, FallbackPolicy
from .preparation import Prepared
from .strategies import Abandoned, Attempt, Context, Decision, Strategy, get_ladder


@dataclass(frozen=True)
class LadderResult:
    """The outcome of the strategies of a method.

    Attributes
    ----------
    attempt : Attempt
        The attempt that is reported.
    trace : Trace
        All steps in their order.
    note : str
        Why a later attempt than the first is reported; empty if the first one is.
    """

    attempt: Attempt
    trace: Trace
    note: str


def run_ladder(
    parameters: ResolvedParameters,
    matched: MatchedPair,
    prepared: Prepared,
    starts: int | None,
    seed: int,
    policy: FallbackPolicy = FALLBACK_POLICY,
) -> LadderResult:
    """Run the strategies of a method in their order and choose the best attempt.

    Parameters
    ----------
    parameters : ResolvedParameters
    matched : MatchedPair
    prepared : Prepared
    starts : int, or None
        Number of starts that the user asked for.
    seed : int
    policy : FallbackPolicy

    Returns
    -------
    LadderResult

    Raises
    ------
    FitError
        If no strategy led to an attempt.
    """
    context = Context(parameters, matched, prepared, starts, seed, policy=policy)
    method = prepared.estimator.name
    steps: list[TraceStep] = []
    rows: list[int] = []  # the index in `steps` of each attempt
    for strategy in get_ladder(prepared.estimator):
        decision = strategy.applies(context)
        if not decision.should_run:
            steps.append(TraceStep(strategy.name, SKIPPED, decision.reason))
            continue
        begin = time.monotonic()
        try:
            for result in strategy.run(context):
                end = time.monotonic()
                steps.append(_make_step(strategy, decision, result, end - begin))
                begin = end
                if isinstance(result, Attempt):
                    rows.append(len(steps) - 1)
                    attempts = (*context.attempts, result)
                    context = replace(context, attempts=attempts, best=choose_attempt(attempts, policy)[0])
        except UndefinedError as error:
            # The model is undefined at the data. The relaxed model may still work: its states on a mesh may differ from
            # the data.
            context = replace(context, refusal=context.refusal or error)
            steps.append(_make_failed_step(strategy, decision, method, str(error), begin))
        except FitError as error:
            if not context.attempts and context.refusal is None:
                raise  # there is nothing else to report; the error says what to change
            steps.append(_make_failed_step(strategy, decision, method, str(error), begin))
        except (np.linalg.LinAlgError, ArithmeticError) as error:
            reason = f"a numerical error occurred: {error}"
            steps.append(_make_failed_step(strategy, decision, method, reason, begin))
    if not context.attempts:
        raise context.refusal or FitError(
            "No fit: "
            + "; ".join(f"{step.strategy}: {step.reason}" for step in steps if step.decision == FAILED)
            + ". Give bounds, or a start, that keep the equations finite."
        )
    winner, position, reasons = choose_attempt(context.attempts, policy)
    for k, (row, reason) in enumerate(zip(rows, reasons, strict=True)):
        steps[row] = replace(steps[row], decision=TAKEN if k == position else NOT_TAKEN, reason=reason)
    taken = steps[rows[position]]
    steps[rows[position]] = replace(taken, status=winner.status.name)
    note = write_note(context, winner, taken.trigger) if position else ""
    return LadderResult(winner, Trace(tuple(steps)), note)


def choose_attempt(
    attempts: tuple[Attempt, ...], policy: FallbackPolicy = FALLBACK_POLICY
) -> tuple[Attempt, int, tuple[str, ...]]:
    """Choose the attempt that is reported.

    Returns
    -------
    attempt : Attempt
        The winner, with alternatives from the other attempts; UNDETERMINED if two optima fit equally well.
    position : int
        Its position in `attempts`.
    reasons : tuple of str
        Why each attempt was taken or not, as a clause with numbers.
    """
    position, reasons = 0, ["it is the first attempt, and no other replaced it"]
    for k, attempt in enumerate(attempts[1:], 1):
        takes, why = compare_attempts(attempts[position], attempt, policy)
        if takes:
            reasons[position] = f"strategy {attempt.strategy!r} replaced it: {why}"
            position = k
        reasons.append(why)
    winner = attempts[position]
    if winner.status.success:
        winner = add_alternatives(winner, attempts)
    # If the likelihoods are equal, the optima are one solution with two parameter names exchanged. If they differ a
    # little, the optima are two solutions, and intervals around one of them do not cover the other.
    if winner.status.success and any(
        abs(alternative.behind) > policy.equal_likelihoods for alternative in winner.searched.alternatives
    ):
        winner = replace(winner, judgement=replace(winner.judgement, status=Status.UNDETERMINED))
    return winner, position, tuple(reasons)


def compare_attempts(best: Attempt, attempt: Attempt, policy: FallbackPolicy) -> tuple[bool, str]:
    """Compare an attempt with the best one so far.

    Returns
    -------
    replaces : bool
        Whether the attempt replaces the best one so far.
    why : str
        A clause with numbers, of which the attempt is the subject.
    """
    old, new = best.status, attempt.status
    gain = attempt.log_likelihood - best.log_likelihood
    needed = policy.gain_of_success if new.success else policy.gain_without_success
    has_gained = not gain <= needed  # True for NaN: without likelihoods the status decides
    obeys_model = new.sound or attempt.solves_equations
    # A fit that is UNDETERMINED was not rejected: only a success or another such fit replaces it.
    keeps_verdict = old is not Status.UNDETERMINED or new is Status.UNDETERMINED
    difference = f"its log-likelihood is {abs(gain):.2f} {'lower' if gain < 0 else 'higher'}"
    change = "log-likelihoods cannot be compared" if np.isnan(gain) else difference
    if new.success and not old.sound:
        return True, f"it succeeded, while the best attempt before ended with {old.name}; {change}"
    if (new.success or (obeys_model and keeps_verdict)) and has_gained:
        return True, change
    if not has_gained:
        return False, f"{change}, and must be more than {needed:g} higher to replace the best attempt"
    if not obeys_model:
        return False, f"it ended with {new.name}, so that its states need not obey the model"
    return False, f"{change}, but it ended with {new.name}, and the best attempt with {old.name}"


def add_alternatives(winner: Attempt, attempts: tuple[Attempt, ...]) -> Attempt:
    """Add to the winner the first other success that fits equally well at different parameters, with a warning.

    Nothing is added if the search of the winner has found alternatives itself.
    """
    covariance, free = winner.quantified.covariance, winner.searched.task.free
    alternatives = list(winner.searched.alternatives)
    for attempt in attempts:
        behind = winner.log_likelihood - attempt.log_likelihood
        distance = np.abs(attempt.quantified.p - winner.quantified.p)[free]
        is_far = bool((distance > MIN_DISTINCT_DISTANCE * np.sqrt(np.abs(np.diag(covariance))[free])).any())
        if attempt.status.success and abs(behind) < MAX_EQUIVALENT_GAP and is_far and not alternatives:
            alternatives.append(Alternative(attempt.quantified.p, behind))
    if len(alternatives) == len(winner.searched.alternatives):
        return winner
    words = describe_rivals(winner.searched.task, tuple(alternatives))
    judgement = replace(winner.judgement, warnings=(*words, *winner.judgement.warnings))
    searched = replace(winner.searched, alternatives=tuple(alternatives))
    return replace(winner, searched=searched, judgement=judgement)


def _make_failed_step(strategy: Strategy, decision: Decision, method: str, reason: str, begin: float) -> TraceStep:
    """Return the step of a strategy that ended in an error."""
    seconds = time.monotonic() - begin
    return TraceStep(strategy.name, FAILED, reason, trigger=decision.reason, method=method, seconds=seconds)


def _make_step(strategy: Strategy, decision: Decision, result: Attempt | Abandoned, seconds: float) -> TraceStep:
    """Return the step of an attempt, or of a try that produced none."""
    if isinstance(result, Abandoned):
        return TraceStep(
            strategy.name, NOT_TAKEN, result.reason, trigger=decision.reason, seconds=seconds, starts=result.starts
        )
    return TraceStep(
        strategy.name,
        NOT_TAKEN,
        reason="",
        trigger=decision.reason,
        method=result.searched.estimator.name,
        seconds=seconds,
        starts=len(result.searched.records),
        log_likelihood=result.log_likelihood,
        status=result.status.name,
    )


def write_note(context: Context, winner: Attempt, trigger: str) -> str:
    """Write the note that says why a later attempt than the first is reported, with numbers."""
    gain = winner.log_likelihood - context.first.log_likelihood
    change = f"its log-likelihood is {gain:.1f} higher" if np.isfinite(gain) else f"it ended with {winner.status.name}"
    return (
        f"{trigger[0].upper()}{trigger[1:]}, so strategy {winner.strategy!r} was tried: {change}, and it is reported."
    )
