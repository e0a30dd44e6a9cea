"""Distinct optima: the likelihood of the data ranks them, and those that fit equally well are reported."""

from dataclasses import replace

import numpy as np
import pytest

import weakform as wf
from weakform.estimators import ESTIMATORS, Outcome, Status
from weakform.estimators.distinct_optima import rank_optima
from weakform.estimators.estimation_problem import Task
from weakform.estimators.outcome import Refinement
from weakform.parameters.working_scale import WorkingScale
from weakform.results.options import Options
from weakform.support.progress import Watch
from weakform.weak.weak_problem import WeakProblem

ORAL = wf.Model.from_text("A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 300\nB(0) = 0")


def plasma(seed):
    t = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24])
    truth = {"ka": 1.2, "ke": 0.25, "V": 30.0}
    p = [truth[name] for name in ORAL.parameters]
    B = wf.simulate(ORAL, p, [300.0, 0.0], np.append(0, t)).states[1:, 1]
    return wf.Dataset(
        t, B / 30 * np.exp(0.1 * np.random.default_rng(seed).standard_normal(12)), "lognormal", names=["conc"]
    )


def test_fit_reports_both_of_two_equally_good_optima(tmp_path):
    """Fast absorption with slow excretion gives the same concentrations as slow absorption with fast excretion."""
    fit = wf.fit(ORAL, plasma(0), bounds={"ka": (0.1, 10), "ke": (0.01, 2), "V": (1, 200)})
    (alternative,) = fit.alternatives
    values = dict(zip(fit.model.parameters, alternative.estimate, strict=True))
    assert alternative.behind == pytest.approx(0, abs=1e-3)
    assert values["ka"] == pytest.approx(fit["ke"].value, rel=1e-3)
    assert values["ke"] == pytest.approx(fit["ka"].value, rel=1e-3)
    assert values["V"] * values["ke"] == pytest.approx(fit["V"].value * fit["ke"].value, rel=1e-3)
    assert any("Another solution fits equally well: V = " in warning for warning in fit.warnings)
    fit.save(tmp_path / "fit.json")
    assert wf.FitResult.load(tmp_path / "fit.json").alternatives[0].behind == alternative.behind
    restricted = wf.fit(ORAL, plasma(0), bounds={"ka": (0.6, 10), "ke": (0.01, 0.6), "V": (1, 200)})
    assert not restricted.alternatives


def test_scaling_of_undetermined_parameters_is_no_alternative():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
    t = np.linspace(0, 5, 60)
    x = wf.simulate(model, [3, 1, 6, 1], [1, 1], t).states[:, 0]
    data = wf.Dataset(t, x + 0.3 * np.random.default_rng(0).standard_normal(60), names=["x"])
    fit = wf.fit(model, data, bounds=dict.fromkeys("abcd", (0, 10)))
    assert fit.status is Status.UNDETERMINED
    assert not fit.alternatives


def test_best_likelihood_wins_over_best_search_objective():
    problem = wf.problems.get("logistic")
    weak = WeakProblem.build(problem.model, problem.simulate(M=40, noise=0.05, seed=1), wf.Local())
    free = np.ones(2, dtype=bool)
    task = Task(
        weak, free, np.full(2, np.nan), np.zeros(2), np.ones(2), free, Options(), Watch(np.inf), WorkingScale(~free)
    )
    misfits = {0.1: 90.0, 0.5: 40.0, 0.9: 60.0}

    def refine(_, outcome):
        misfit = misfits[outcome.estimate[0]]
        return replace(
            outcome,
            refined=Refinement(np.eye(2), np.ones(1), (), misfit, 38, None, information=np.eye(2) * 1e4),
        )

    estimator = replace(ESTIMATORS["wendy"], refine=refine)
    outcomes = [
        Outcome(np.array([value, value]), objective, Status.CONVERGED, 1, 1)
        for value, objective in ((0.1, 1.0), (0.5, 2.0), (0.5, 2.0), (0.9, 3.0))
    ]
    ranked = rank_optima(estimator, task, outcomes)
    assert ranked.best.estimate[0] == 0.5
    assert ranked.costs == pytest.approx((45.0, 20.0, 20.0, 30.0))
    assert not ranked.alternatives
    misfits[0.9] = 41.0
    ((alternative, cost),) = rank_optima(estimator, task, outcomes).alternatives
    assert (alternative.estimate[0], cost) == (0.9, 20.5)


def test_relaxed_model_is_tried_if_weak_form_fails():
    """Van der Pol's oscillator with 30 samples: its fast part is over between two of them."""
    model = wf.Model.from_text("x' = y\ny' = mu*(1 - a*x**2)*y - w*x")
    t = np.linspace(0, 20, 30)
    states = wf.simulate(model, [1.0, 2.0, 1.0], [2.0, 0.0], t).states
    noise = 0.1 * states.std(axis=0) * np.random.default_rng(1).standard_normal(states.shape)
    fit = wf.fit(model, wf.Dataset(t, states + noise))
    assert fit.success
    assert fit.method == "relaxed"
    assert fit.trace.taken.strategy == "relaxed model"
    assert "so strategy 'relaxed model' was tried" in fit.notes[-1]
    assert (np.abs(fit.estimate - [1.0, 2.0, 1.0]) < 4 * fit.errors).all()
