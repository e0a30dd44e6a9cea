"""Tables and figures of a study: the metrics follow their formulas, and every figure is drawn."""

import numpy as np
import pytest

import weakform as wf
from support import SMALL, inside
from weakform.experiments.cell_runner import perform_run
from weakform.experiments.figures import draw_figures
from weakform.experiments.store import Store
from weakform.experiments.study import read_study
from weakform.experiments.summary import compute_error_bound, format_table, summarise
from weakform.experiments.sweep import sweep


def test_metrics_follow_the_formulas_of_the_paper(tmp_path):
    study = read_study({**SMALL, "runs": 6, "cells": [{"problems": ["lotka-volterra"], "noise": 0.05, "samples": 60}]})
    sweep(study, tmp_path / "s", inside)
    store = Store(tmp_path / "s")
    summary = {s.method: s for s in summarise(store)}["mle"]
    rows = [r for r in store.rows() if r["method"] == "mle"]
    truth = wf.problems.get("lotka-volterra").parameters
    p = np.array([r["estimate"] for r in rows])
    assert np.allclose(summary.bias_paper, np.median((p - truth) ** 2 / truth**2, axis=0))
    assert np.allclose(summary.bias, (p.mean(axis=0) - truth) ** 2 / truth**2)
    assert np.allclose(summary.variance, np.median((p - p.mean(axis=0)) ** 2 / truth**2, axis=0))
    assert np.allclose(summary.mse, np.median(((p - truth) ** 2 + (p - p.mean(axis=0)) ** 2) / truth**2, axis=0))
    errors = np.sqrt([np.diag(r["covariance"]) for r in rows])
    assert np.allclose(summary.coverage, (np.abs(p - truth) < 2 * errors).mean(axis=0))
    assert summary.coefficient_error == pytest.approx(
        np.mean(np.linalg.norm(p - truth, axis=1) / np.linalg.norm(truth))
    )
    assert summary.failure_rate == 0
    assert "| lotka-volterra | 0.05 | 60 | 5 | mle | 6 | 0% |" in format_table(summarise(store))
    assert (compute_error_bound(wf.problems.get("lotka-volterra"), summary.cell) > 0).all()
    assert len(store.frame()) == 18


def test_failed_runs_count_in_the_rate_and_not_in_the_mean_error(tmp_path):
    study = read_study({**SMALL, "runs": 2, "cells": [{"problems": ["logistic"], "noise": 0.05, "samples": 40}]})

    def failing(runs):
        for run in runs:
            record = perform_run(run)
            if run.number == 0:
                record |= {"failed": True, "forward_error": float("nan"), "coefficient_error": 99.0}
            yield run, record

    sweep(study, tmp_path / "s", failing)
    for s in summarise(Store(tmp_path / "s")):
        assert s.failure_rate == 0.5
        assert s.coefficient_error < 25
        assert np.isinf(s.median_error) or s.median_error > s.coefficient_error


@pytest.mark.slow
def test_every_figure_is_drawn(tmp_path):
    study = read_study(
        {
            "runs": 2,
            "methods": ["wls", "mle", "wendy"],
            "cells": [
                {"problems": ["lotka-volterra"], "noise": [0.0, 0.05, 0.1], "samples": [40, 60]},
                {"problems": ["logistic"], "noise": [0.05], "durations": [5, 10], "step": 0.2},
            ],
        }
    )
    sweep(study, tmp_path / "s", inside)
    names = {path.name for path in draw_figures(tmp_path / "s", tmp_path / "f", "svg", computed=False)}
    assert {"logistic-duration.svg", "lotka-volterra-accuracy-40.svg", "lotka-volterra-by-samples.svg"} <= names
    assert {"lotka-volterra-efficiency.svg", "lotka-volterra-quality-wendy.svg"} <= names
    assert "lotka-volterra-intervals-mle.svg" in names
    assert all((tmp_path / "f" / name).stat().st_size > 5000 for name in names)
