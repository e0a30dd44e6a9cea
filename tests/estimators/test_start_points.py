"""Starts: given, made, or completed."""

import numpy as np
import pytest

import weakform as wf
from weakform.support.errors import FitError


def test_a_start_that_is_given_competes_unless_it_is_alone():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.03, seed=1)
    bad = dict(zip(problem.model.parameters, problem.start(0), strict=True))
    alone = wf.fit(problem.model, data, bounds=problem.bounds, start=bad, starts=1, method="mle")
    assert len(alone.starts) == 1
    assert np.array_equal(alone.starts[0].start, problem.start(0))
    among = wf.fit(problem.model, data, bounds=problem.bounds, start=bad, method="mle")
    assert len(among.starts) == 4
    assert any(np.array_equal(s.start, problem.start(0)) for s in among.starts)
    assert among.starts[0].objective <= alone.starts[0].objective + 1e-6
    more = wf.fit(problem.model, data, bounds=problem.bounds, starts=6, method="wls")
    assert len(more.starts) == 6


def test_linear_parameters_may_be_left_out_of_the_start():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=128, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, start={"p3": 0.8, "p4": 9.0}, starts=1, method="mle")
    assert np.isfinite(fit.starts[0].start).all()
    with pytest.raises(FitError, match="The start lacks p4"):
        wf.fit(problem.model, data, start={"p3": 0.8}, starts=1)


def test_no_bounds_and_no_start():
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=256, noise=0.03, seed=1)
    fit = wf.fit(problem.model, data, method="mle")
    assert fit.success
    assert fit["p4"].value == pytest.approx(10, rel=0.3)


def test_a_model_that_is_nowhere_defined():
    model = wf.Model.from_text("u' = log(0 - p1**2 - 1)*p2*u")
    data = wf.problems.get("logistic").simulate(M=60)
    with pytest.raises(FitError, match="No start could be made"):
        wf.fit(model, data)
