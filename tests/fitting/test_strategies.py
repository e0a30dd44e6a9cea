"""Each strategy decides from the record of a fit whether it applies; these tests need no fit."""

from types import SimpleNamespace

import numpy as np
import pytest

from weakform.estimators import ESTIMATORS, output_error, relaxed_model, wendy
from weakform.fitting import strategies
from weakform.fitting.fallback import choose_attempt, compare_attempts, write_note
from weakform.fitting.judgement import Judgement
from weakform.fitting.policy import FALLBACK_POLICY
from weakform.results.options import Options
from weakform.results.records import StartRecord
from weakform.results.status import Status


class Clock:
    """A watch whose time is up if `over` is set."""

    def __init__(self, forbids_fallback=False, over=False):
        self.forbids_fallback, self.over = forbids_fallback, over

    def __call__(self):
        return self.over

    def compute_seconds_left(self):
        return 100.0


def make_attempt(
    status=Status.CONVERGED,
    log_likelihood=0.0,
    *,
    share=0.1,
    samples=50,
    agreeing=1,
    stiffness=0.0,
    noise_free=False,
    estimator=wendy.ESTIMATOR,
    p_value=0.5,
    estimate=(1.0, 2.0),
    alternatives=(),
):
    """An attempt with one column of spread one whose residuals are `share`, after `agreeing` equal starts."""
    problem = SimpleNamespace(
        data=SimpleNamespace(
            sigma=None, trajectories=[SimpleNamespace(times=np.arange(samples))], measurements=np.array([samples])
        ),
        spread=np.ones(1),
        sigma=np.full(1, 0.05),
        forms=(),
        model=SimpleNamespace(parameters=("a", "b")),
    )
    refined = SimpleNamespace(
        sigma=np.array([share]),
        stiffness=stiffness,
        held_direction=None,
        residuals=(np.ones((samples, 1)),),
        misfit=1.0,
        freedom=1,
    )
    p = np.array(estimate)
    record = StartRecord(None, p, 0.0, status, 1, 1, behind=0.0)
    searched = SimpleNamespace(
        estimator=estimator,
        task=SimpleNamespace(problem=problem, free=np.ones(2, dtype=bool)),
        best=SimpleNamespace(refined=refined, estimate=p, status=status),
        records=(record,) * agreeing,
        noise_free=noise_free,
        alternatives=alternatives,
        notes=(),
    )
    goodness = SimpleNamespace(p_value=p_value)
    judgement = SimpleNamespace(status=status, goodness=goodness, warnings=())
    quantified = SimpleNamespace(p=p, covariance=np.eye(2))
    attempt = strategies.Attempt("chosen method", searched, quantified, judgement)
    attempt.__dict__["log_likelihood"] = log_likelihood  # a cached property
    return attempt


def make_context(*attempts, complete=True, starts=None, options=None, alone=False, over=False, covariance=None):
    task = SimpleNamespace(stop=Clock(alone, over), options=options or Options(), is_linear=False)
    estimator = wendy.ESTIMATOR if complete else relaxed_model.ESTIMATOR
    return strategies.Context(
        parameters=None,
        matched=SimpleNamespace(complete=complete, data=SimpleNamespace(covariance=covariance)),
        prepared=SimpleNamespace(estimator=estimator, task=task, guesses=()),
        starts=starts,
        seed=0,
        attempts=attempts,
        best=attempts[-1] if attempts else None,
    )


FALLBACKS = (
    strategies.growing_horizon_applies,
    strategies.relaxed_model_applies,
    strategies.more_starts_apply,
    strategies.output_error_nearby_applies,
)


@pytest.mark.parametrize("applies", FALLBACKS)
def test_no_fallback_is_tried_after_a_success_with_many_samples_and_agreeing_starts(applies):
    decision = applies(make_context(make_attempt(samples=500, agreeing=4)))
    assert not decision.should_run
    assert decision.reason


@pytest.mark.parametrize("applies", FALLBACKS)
@pytest.mark.parametrize(("name", "value"), [("solver", "cubic"), ("covariance", "paper"), ("weak", "mle")])
def test_options_that_restrict_the_fit_turn_fallbacks_off_and_are_named(applies, name, value):
    failed = make_attempt(Status.REJECTED, stiffness=1e6)
    complete = applies is not strategies.more_starts_apply
    decision = applies(make_context(failed, complete=complete, options=Options(**{name: value})))
    assert not decision.should_run
    assert f"{name}={value!r}" in decision.reason


def test_tolerance_and_iterations_do_not_turn_fallbacks_off():
    failed = make_attempt(Status.REJECTED, p_value=2e-9)
    for options in (Options(tolerance=1.1e-8), Options(max_iterations=50), Options(time_limit=3.0)):
        decision = strategies.relaxed_model_applies(make_context(failed, options=options))
        assert decision.should_run
        assert "rejected (p = 2e-09)" in decision.reason


def test_fallbacks_keep_tolerance_and_iterations_of_the_user():
    context = make_context(options=Options(tolerance=1e-5, max_iterations=7))
    options = context.build_fallback_options()
    assert (options.tolerance, options.max_iterations, options.time_limit) == (1e-5, 7, 100.0)


def test_fallbacks_are_off_for_one_fit_of_many():
    decision = strategies.relaxed_model_applies(make_context(make_attempt(Status.REJECTED), alone=True))
    assert not decision.should_run
    assert "one of many" in decision.reason


def test_fallbacks_are_off_for_noise_that_is_correlated_between_columns():
    decision = strategies.relaxed_model_applies(make_context(make_attempt(Status.REJECTED), covariance=np.eye(1)))
    assert not decision.should_run
    assert "correlated" in decision.reason


@pytest.mark.parametrize(
    ("share", "samples", "go"),
    [(0.24, 99, False), (0.26, 99, True), (0.26, 100, False)],
    ids=["small", "large", "long"],
)
def test_relaxed_model_is_tried_if_a_success_leaves_much_of_a_short_series_unexplained(share, samples, go):
    decision = strategies.relaxed_model_applies(make_context(make_attempt(share=share, samples=samples)))
    assert decision.should_run is go
    assert "26%" in decision.reason or not go


def test_relaxed_model_is_tried_when_the_chosen_method_is_undefined_everywhere():
    assert strategies.relaxed_model_applies(make_context()).should_run


def test_relaxed_model_is_not_tried_for_stiff_equations():
    stiff = make_attempt(Status.REJECTED, stiffness=FALLBACK_POLICY.stiff_decay * 1.01)
    soft = make_attempt(Status.REJECTED, stiffness=FALLBACK_POLICY.stiff_decay * 0.99)
    assert "stiff" in strategies.relaxed_model_applies(make_context(stiff)).reason
    assert strategies.relaxed_model_applies(make_context(soft)).should_run


def test_growing_horizon_is_for_stiff_equations_with_every_state_measured():
    stiff = make_attempt(Status.REJECTED, stiffness=FALLBACK_POLICY.stiff_decay * 1.01)
    assert strategies.growing_horizon_applies(make_context(stiff)).should_run
    assert not strategies.growing_horizon_applies(make_context(stiff, complete=False)).should_run
    assert not strategies.growing_horizon_applies(make_context(stiff, over=True)).should_run
    soft = make_attempt(Status.REJECTED, stiffness=FALLBACK_POLICY.stiff_decay * 0.99)
    assert strategies.growing_horizon_applies(make_context(soft)).reason == "the equations are not stiff"


@pytest.mark.parametrize(
    ("status", "agreeing", "go"),
    [
        (Status.CONVERGED, 2, True),
        (Status.CONVERGED, 3, False),
        (Status.UNDETERMINED, 3, True),
        (Status.UNDETERMINED, 4, False),
        (Status.REJECTED, 50, True),
        (Status.ITERATIONS, 50, True),
    ],
)
def test_more_starts_are_tried_with_hidden_states_unless_starts_agree(status, agreeing, go):
    context = make_context(make_attempt(status, agreeing=agreeing), complete=False)
    assert strategies.more_starts_apply(context).should_run is go


def test_more_starts_are_not_tried_if_the_user_set_their_number_or_every_state_is_measured():
    doubtful = make_attempt(Status.REJECTED)
    assert "starts=5" in strategies.more_starts_apply(make_context(doubtful, complete=False, starts=5)).reason
    assert "every state" in strategies.more_starts_apply(make_context(doubtful)).reason


def test_more_starts_are_not_tried_without_an_earlier_attempt():
    assert not strategies.more_starts_apply(make_context(complete=False)).should_run


@pytest.mark.parametrize("status", [Status.CONVERGED, Status.REJECTED, Status.UNDETERMINED, Status.MISSTATED])
def test_equations_are_not_solved_nearby_if_the_states_obey_the_model(status):
    assert not strategies.output_error_nearby_applies(make_context(make_attempt(status))).should_run


@pytest.mark.parametrize("status", [Status.UNRESOLVED, Status.ITERATIONS, Status.UNREFINED])
def test_equations_are_solved_nearby_if_no_states_obey_the_model(status):
    assert strategies.output_error_nearby_applies(make_context(make_attempt(status))).should_run


def test_coarse_search_is_skipped_if_a_solver_was_asked_for():
    assert strategies.coarse_search_applies(make_context()).should_run
    assert "cubic" in strategies.coarse_search_applies(make_context(options=Options(solver="cubic"))).reason
    assert not strategies.coarse_search_applies(make_context(complete=False)).should_run


def test_chosen_method_is_skipped_if_the_coarse_search_reached_the_noise():
    assert not strategies.chosen_method_applies(make_context(make_attempt())).should_run
    assert strategies.chosen_method_applies(make_context()).should_run


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (make_attempt(Status.REJECTED, p_value=2e-9), "the fit by 'wendy' was rejected (p = 2e-09)"),
        (make_attempt(Status.ITERATIONS), "the fit by 'wendy' ended with the status ITERATIONS"),
        (make_attempt(share=0.41), "the fit by 'wendy' converged but left 41% of a column's spread unexplained"),
        (make_attempt(agreeing=2), "only 2 starts reached the best likelihood of the fit by 'wendy'"),
    ],
    ids=["rejected", "not converged", "unexplained", "few starts"],
)
def test_note_names_the_doubt_that_triggered_a_fallback(attempt, words):
    trigger = strategies.describe_doubt(attempt, FALLBACK_POLICY)
    assert trigger.startswith(words)
    note = write_note(make_context(attempt), make_attempt(log_likelihood=209.8), trigger)
    assert note.startswith(words[0].upper() + words[1:])
    assert note.endswith("was tried: its log-likelihood is 209.8 higher, and it is reported.")


def test_distinct_end_points_are_few_and_differ_by_more_than_a_tenth():
    places = tuple(np.array([1.0, x]) for x in (1.0, 1.05, 2.0, np.nan, 3.0, 4.0))
    kept = strategies.keep_distinct(places, FALLBACK_POLICY)
    assert [p[1] for p in kept] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("old", "new", "gain", "takes"),
    [
        (Status.REJECTED, Status.CONVERGED, 0.4, False),
        (Status.REJECTED, Status.CONVERGED, 0.6, True),
        (Status.ITERATIONS, Status.CONVERGED, -10.0, True),
        (Status.CONVERGED, Status.CONVERGED, 0.6, True),
        (Status.REJECTED, Status.REJECTED, 2.9, False),
        (Status.REJECTED, Status.REJECTED, 3.1, True),
        (Status.REJECTED, Status.ITERATIONS, 50.0, False),
        (Status.UNDETERMINED, Status.REJECTED, 50.0, False),
        (Status.UNDETERMINED, Status.UNDETERMINED, 3.1, True),
        (Status.REJECTED, Status.CONVERGED, np.nan, True),
    ],
)
def test_an_attempt_replaces_another_by_its_gain_and_its_status(old, new, gain, takes):
    result, why = compare_attempts(make_attempt(old), make_attempt(new, gain), FALLBACK_POLICY)
    assert result is takes
    assert why


def test_a_solution_of_the_equations_obeys_the_model_however_its_search_ended():
    solved = make_attempt(Status.ITERATIONS, 50.0, estimator=output_error.ESTIMATOR)
    assert compare_attempts(make_attempt(Status.REJECTED), solved, FALLBACK_POLICY)[0]


def test_choice_is_the_last_attempt_that_replaced_its_predecessor():
    attempts = (make_attempt(Status.REJECTED), make_attempt(Status.CONVERGED, 5.0), make_attempt(Status.CONVERGED, 5.2))
    winner, position, reasons = choose_attempt(attempts)
    assert (winner.log_likelihood, position) == (5.0, 1)
    assert reasons == (
        "strategy 'chosen method' replaced it: its log-likelihood is 5.00 higher",
        "its log-likelihood is 5.00 higher",
        "its log-likelihood is 0.20 higher, and must be more than 0.5 higher to replace the best attempt",
    )


def test_two_successes_that_fit_equally_well_are_undetermined():
    near = make_attempt(Status.CONVERGED, 0.2, estimate=(100.0, 2.0))
    first = make_attempt(Status.CONVERGED)
    alternative = SimpleNamespace(behind=-0.2, estimate=np.array([100.0, 2.0]))
    first.searched.alternatives = (alternative,)
    judgement = Judgement(Status.CONVERGED, None, (), (), ())
    attempt = strategies.Attempt("chosen method", first.searched, first.quantified, judgement)
    attempt.__dict__["log_likelihood"] = 0.0
    winner, _, _ = choose_attempt((attempt, near))
    assert winner.status is Status.UNDETERMINED


def test_every_method_has_a_ladder_of_distinct_strategies_with_descriptions():
    for estimator in ESTIMATORS.values():
        ladder = strategies.get_ladder(estimator)
        assert strategies.CHOSEN_METHOD in ladder
        assert all(strategy.summary and strategy.condition for strategy in ladder)
        assert len({strategy.name for strategy in ladder}) == len(ladder)
