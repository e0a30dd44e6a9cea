"""Tied parameters are expressions of others."""

import numpy as np
import pytest

import weakform as wf
from support import LOGISTIC, LV, TIMES, growth, values_at
from weakform.support.errors import DataError, FitError, ModelError


def test_tied_parameters_are_replaced_and_improve_the_others():
    model = wf.Model.from_text("u1' = a*u1 - b*u1*u2\nu2' = -c*u2 + d*u1*u2")
    t, _ = LV.solution(150)
    data = wf.Dataset(t, values_at(LV, t, 0.05, 1))
    free = wf.fit(model, data)
    tied = wf.fit(model, data, tied={"c": "2*a", "d": "b"})
    assert tied.model.parameters == ("a", "b")
    assert tied.errors[0] < free["a"].error
    assert tied.derived(tied.tied["c"]).value == pytest.approx(2 * tied["a"].value)
    assert "c = 2*a" in str(tied)
    with pytest.raises(ModelError, match="unknown name 'z'"):
        wf.fit(model, data, tied={"c": "2*z"})


def test_a_parameter_tied_to_a_local_one_has_a_value_for_each_trajectory(tmp_path):
    model = wf.Model.from_text("x' = -k*x + s")
    t = np.linspace(0, 5, 60)
    rng = np.random.default_rng(1)
    parts = [wf.Dataset(t, 0.5 + np.exp(-k * t) + 0.01 * rng.standard_normal(60)) for k in (1.0, 2.0)]
    fit = wf.fit(model, wf.Dataset.join(parts, ["a b", "c"]), local=["k"], tied={"s": "k/2"})
    assert "s_a_b" in str(fit)
    assert fit.derived("s_c").value == pytest.approx(fit["k_c"].value / 2)
    assert str(wf.FitResult.load(fit.save(tmp_path / "deep" / "f.json"))) == str(fit)


def test_tied_parameters_need_no_start_and_inputs_cannot_be_parameters():
    assert wf.fit(LOGISTIC, growth(1), tied={"K": "10*r"})["r"].value == pytest.approx(1, abs=0.1)
    q = np.ones(60)
    data = wf.Dataset(TIMES, growth(1).trajectories[0].values, inputs={"K": q}, names=["N"])
    with pytest.raises(FitError, match="an input of the data and a parameter"):
        wf.fit(LOGISTIC, data)
    with pytest.raises(DataError, match="two values at t = 0"):
        wf.Dataset(np.repeat(TIMES, 2), np.arange(120.0), inputs={"q": np.arange(120.0)})


def test_contradictory_ties_are_refused():
    model = wf.Model.from_text("x' = -k*x + a")
    data = wf.Dataset(np.linspace(0, 5, 60), np.exp(-np.linspace(0, 5, 60)))
    with pytest.raises(FitError, match="'k' cannot be tied to 'k'"):
        wf.fit(model, data, tied={"k": "k*2"})
    with pytest.raises(FitError, match="both fixed and tied"):
        wf.fit(model, data, tied={"k": "a*2"}, fixed={"k": 1.0})


def test_a_tie_must_be_text():
    with pytest.raises(wf.WeakformError, match="as text"):
        wf.fit(LV.model, LV.simulate(M=50), tied={"p1": 3})
