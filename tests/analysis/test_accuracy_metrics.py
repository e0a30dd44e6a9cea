"""Accuracy metrics: those of the paper against a known truth, and R²."""

from statistics import NormalDist

import numpy as np
import pytest

import weakform as wf
from support import LINEAR, LOGISTIC, decay, growth
from weakform.analysis.accuracy_metrics import arrange_residuals_by_column, compute_r_squared
from weakform.forward.solver import simulate
from weakform.support.errors import FitError


def test_metrics_follow_the_definitions_of_the_paper():
    problem = wf.problems.get("sir-tdi")
    data = problem.simulate(M=256, noise=0.05, seed=1)
    fit = wf.fit(problem.model, data, bounds=problem.bounds)
    metrics = fit.metrics()
    p = problem.parameters
    assert metrics.coefficient_error == pytest.approx(np.linalg.norm(fit.estimate - p) / np.linalg.norm(p))
    times, states = problem.solution(256)
    solved = simulate(problem.model, fit.estimate, problem.initial, times).states
    # The first row of the data has states that are zero, and is not part of log-normal data.
    assert metrics.forward_error == pytest.approx(np.linalg.norm(solved[1:] - states[1:]) / np.linalg.norm(states[1:]))
    assert not metrics.failed
    assert np.array_equal(metrics.covered, np.abs(fit.estimate - p) < 2 * fit.errors)


def test_metrics_accept_true_parameters_by_name():
    fit = wf.fit(LINEAR, decay(6))
    assert fit.metrics(truth={"k": 0.7}).coefficient_error == pytest.approx(abs(fit.estimate[0] - 0.7) / 0.7)
    assert fit.metrics(truth={"k": fit.estimate[0]}).forward_error < 1e-6
    with pytest.raises(FitError, match="no truth"):
        fit.metrics()


def test_metrics_with_local_parameters_and_inputs():
    fit = wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1.5)], ["id_1", "id 2"]), local=["r"], units={"r": "1/h"})
    assert fit.metrics({"K": 10, "r_id_1": 1, "r_id_2": 1.5}).coefficient_error < 0.1
    assert list(fit.to_frame()["unit"]) == ["", "1/h", "1/h"]
    t = np.linspace(0, 10, 50)
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    driven = wf.fit(model, wf.Dataset(t, np.exp(-t) + 0.01 * np.sin(20 * t), inputs={"q": 0 * t}))
    assert driven.metrics({"k": 1.0}).coefficient_error < 0.1


def test_r_squared_leaves_out_missing_values():
    fit = wf.fit(LINEAR, decay(7))
    assert 0.98 < fit.r_squared["u"] < 1
    values = np.array([[1.0], [2.0], [np.nan], [3.0]])
    assert compute_r_squared(values, np.array([[1.0], [2.0], [9.0], [3.0]]))[0] == 1.0
    assert compute_r_squared(values, np.full((4, 1), 2.0))[0] == 0.0


def test_residuals_are_plotted_against_quantiles_at_equally_spaced_probabilities():
    """Hazen's positions of 60 values are the probabilities 1/120, 3/120, ..., 119/120."""
    (column,) = arrange_residuals_by_column(wf.fit(LINEAR, decay(7, n=60)))
    probabilities = [NormalDist().cdf(x) for x in column.expected]
    assert probabilities == pytest.approx(np.linspace(1 / 120, 119 / 120, 60))
