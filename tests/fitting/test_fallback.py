"""A fit runs the ladder of strategies, reports the best attempt, and keeps a trace of why."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from weakform.cli.main import main
from weakform.estimators import wls
from weakform.fitting import fallback, multistart, strategies
from weakform.report.html_report import build_page
from weakform.results.trace import DECISIONS, Trace, TraceStep
from weakform.support.errors import UndefinedError


def short_lorenz(seed):
    """64 samples of Lorenz with 10% noise: the weak form alone loses it."""
    problem = wf.problems.get("lorenz")
    return problem.model, problem.simulate(M=64, noise=0.1, seed=seed)


def test_fit_raises_an_error_if_a_model_with_hidden_states_is_undefined_at_every_start():
    model = wf.Model.from_text("x' = -a*x + 0.1*sqrt(5 - t)\nz' = -b*z\ny = x + z")
    t = np.linspace(0, 10, 40)
    y = np.exp(-t) + np.exp(-0.3 * t)
    with pytest.raises(wf.FitError, match="not finite at any start"):
        wf.fit(model, wf.Dataset(t, y, names=["y"]))


def test_a_different_tolerance_does_not_turn_fallbacks_off():
    model, data = short_lorenz(1)
    fit = wf.fit(model, data, options={"tolerance": 1.1e-8})
    default = wf.fit(model, data)
    assert (fit.status, fit.method) == (default.status, default.method) == (wf.Status.CONVERGED, "relaxed")
    assert (np.abs(fit.estimate - default.estimate) < 1e-3 * default.wald_errors).all()


def test_option_that_restricts_the_fit_keeps_the_method_and_is_named_in_the_trace():
    model, data = short_lorenz(1)
    fit = wf.fit(model, data, options={"covariance": "sandwich"})
    assert fit.method == "wendy"
    skipped = [step for step in fit.trace.steps if step.decision == "skipped"]
    assert any("covariance='sandwich' restricts the fit to the method 'wendy'" in step.reason for step in skipped)


def test_note_of_a_fallback_gives_the_reason_and_the_gain():
    model, data = short_lorenz(1)
    fit = wf.fit(model, data)
    gain = fit.log_likelihood - fit.trace.steps[1].log_likelihood
    assert fit.notes[-1] == (
        f"The fit by 'wendy' was rejected (p = {3e-79:.1g}), so strategy 'relaxed model' was tried: its log-likelihood "
        f"is {gain:.1f} higher, and it is reported."
    )
    assert gain > 100


def test_trace_lists_each_strategy_and_has_one_taken_step():
    model, data = short_lorenz(1)
    trace = wf.fit(model, data).trace
    names = [step.strategy for step in trace.steps]
    assert names == ["coarse search", "chosen method", "growing horizon", "relaxed model", "output error nearby"]
    assert [step.decision for step in trace.steps].count("taken") == 1
    assert {step.decision for step in trace.steps} <= set(DECISIONS)
    assert all(step.reason for step in trace.steps)
    assert trace.taken.method == "relaxed"
    ran = [step for step in trace.steps if step.was_run]
    assert all(step.seconds >= 0 and step.starts >= 1 for step in ran)


def test_trace_of_a_simple_fit_says_that_fallbacks_were_not_needed():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=200, noise=0.02, seed=1))
    assert fit.trace.taken.strategy == "coarse search"
    assert fit.trace.taken.reason == "it is the first attempt, and no other replaced it"
    assert str(fit.trace).count("skipped") == len(fit.trace.steps) - 1


def test_method_without_fallbacks_has_a_trace_of_one_step():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1), method="irls")
    assert [step.strategy for step in fit.trace.steps] == ["chosen method"]


def test_empty_trace_prints_that_none_was_recorded():
    assert str(Trace()) == "No trace was recorded."
    assert Trace().taken is None


def test_printed_trace_stays_within_its_width():
    step = TraceStep("a strategy", "skipped", "for a reason that is explained at great length " * 5, "words " * 40)
    assert max(map(len, str(Trace((step, step))).splitlines())) <= 120


@pytest.mark.parametrize("error", [np.linalg.LinAlgError("Eigenvalues did not converge"), OverflowError("too large")])
def test_start_whose_arithmetic_breaks_down_is_recorded_as_failed(monkeypatch, error):
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=100, noise=0.05, seed=1)
    calls = []
    real = wls.ESTIMATOR.search

    def search(task, start):
        calls.append(start)
        if len(calls) == 1:
            raise error
        return real(task, start)

    broken = multistart.replace(wls.ESTIMATOR, search=search)
    monkeypatch.setitem(multistart.ESTIMATORS, "wls", broken)
    fit = wf.fit(problem.model, data, method="wls", starts=3)
    assert len(calls) >= 2
    assert fit.converged
    assert sum(record.status is wf.Status.START for record in fit.starts) == 1


def test_fit_raises_an_error_if_the_arithmetic_breaks_down_at_every_start(monkeypatch):
    def search(task, start):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setitem(multistart.ESTIMATORS, "wls", multistart.replace(wls.ESTIMATOR, search=search))
    problem = wf.problems.get("logistic")
    with pytest.raises(wf.FitError, match="not finite at any start"):
        wf.fit(problem.model, problem.simulate(M=100, noise=0.05, seed=1), method="wls", starts=3)


def test_saved_fit_keeps_its_trace(tmp_path):
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
    loaded = wf.FitResult.load(fit.save(tmp_path / "fit.json"))
    assert str(loaded.trace) == str(fit.trace)
    assert [step.seconds for step in loaded.trace.steps if step.was_run] == [
        step.seconds for step in fit.trace.steps if step.was_run
    ]


def test_fit_saved_without_a_trace_still_loads(tmp_path):
    problem = wf.problems.get("logistic")
    path = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1)).save(tmp_path / "fit.json")
    document = json.loads(path.read_text())
    del document["fit"]["trace"]
    path.write_text(json.dumps(document))
    assert wf.FitResult.load(path).trace is None


def test_report_shows_the_trace():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
    html = build_page(fit)
    assert "How this fit was found" in html
    assert html.count("skipped: ") == str(fit.trace).count("skipped: ")


def test_verbose_command_prints_the_trace(tmp_path, capsys):
    (tmp_path / "model.txt").write_text("x' = -k*x")
    t = np.linspace(0, 4, 40)
    values = np.exp(-0.7 * t) + 0.01 * np.random.default_rng(0).standard_normal(40)
    (tmp_path / "data.csv").write_text("t,x\n" + "\n".join(f"{a},{b}" for a, b in zip(t, values, strict=True)))
    words = ["fit", str(tmp_path / "model.txt"), str(tmp_path / "data.csv")]
    assert main([*words, "--verbose"]) == 0
    assert "How this fit was found:\nstrategy" in capsys.readouterr().out
    assert main(words) == 0
    assert "How this fit was found" not in capsys.readouterr().out


def test_later_strategies_know_that_the_model_is_undefined_and_the_first_reason_is_raised(monkeypatch):
    seen = []

    def decide(context):
        seen.append(context.refusal)
        return strategies.Decision(True, "")

    def make_strategy(error):
        def run(context):
            raise error
            yield

        return strategies.Strategy(str(error), "", "", decide, run)

    errors = [UndefinedError("the chosen method"), UndefinedError("the fallback"), wf.FitError("the last one")]
    monkeypatch.setattr(fallback, "get_ladder", lambda estimator: tuple(map(make_strategy, errors)))
    prepared = SimpleNamespace(estimator=wls.ESTIMATOR)
    with pytest.raises(UndefinedError, match="the chosen method"):
        fallback.run_ladder(None, None, prepared, None, 0)
    assert seen == [None, errors[0], errors[0]]
