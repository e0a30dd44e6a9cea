"""What reviewers and newcomers found, once each."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from weakform.cli.main import main
from weakform.experiments.executors import _pool
from weakform.experiments.study import read_study
from weakform.experiments.worker import perform
from weakform.forward.solve import simulate
from weakform.model.inputs import Inputs
from weakform.support.errors import DataError, FitError, ModelError

T = np.linspace(0, 10, 60)
LOGISTIC = wf.Model.from_text("N' = r*N*(1 - N/K)")
LV = wf.problems.get("lotka-volterra")


def growth(r, K=10.0, seed=1, sigma=0.3):
    noise = sigma * np.random.default_rng(seed).standard_normal(60)
    return wf.Dataset(T, K / (1 + (K - 1) * np.exp(-r * T)) + noise, names=["N"])


def test_a_short_pulse_of_an_input_is_not_stepped_over():
    t = np.linspace(0, 100, 1001)
    pulse = np.zeros(1001)
    pulse[500] = 1.0
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    found = simulate(model, [1.0], [0.0], t, inputs=Inputs(t, pulse[:, None], "linear"))
    assert found.states.max() == pytest.approx(0.0952, abs=0.01)


def test_weak_methods_at_the_jumps_of_inputs():
    t = np.linspace(0, 50, 101)
    Q = np.where((t // 10) % 2 == 0, 1.0, 0.0)
    model = wf.Model.from_text("T' = k*(T0 - T) + a*Q", inputs=["Q"])
    truth = {"T0": 20.0, "a": 3.0, "k": 0.2}
    p = [truth[name] for name in model.parameters]
    u = simulate(model, p, [18.0], t, inputs=Inputs(t, Q[:, None], "hold")).states
    exact = wf.fit(model, wf.Dataset(t, u, sigma=0, inputs={"Q": Q}, hold=True))
    assert np.allclose(exact.estimate, p, rtol=0.01)
    noisy = wf.Dataset(t, u + 0.2 * np.random.default_rng(1).standard_normal(u.shape), inputs={"Q": Q}, hold=True)
    for method in ("mle", "irls", "wls"):
        fit = wf.fit(model, noisy, method=method)
        assert (np.abs(fit.estimate - p) < 4 * fit.errors).all()


def test_repeats_count_in_the_test_of_a_given_sigma():
    t = np.repeat(np.linspace(0, 3, 60), 4)
    values = 2 * np.exp(-0.7 * t) + 0.02 * np.random.default_rng(1).standard_normal(240)
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values, sigma=0.02))
    assert fit.goodness.chi_square_p > 1e-3
    sandwich = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, values), options={"covariance": "sandwich"})
    assert sandwich.errors[0] == pytest.approx(fit.errors[0], rel=0.3)


def test_profiles_and_bootstrap_know_the_prior():
    t = np.linspace(0, 5, 80)
    model = wf.Model.from_text("x' = -(a + b)*x + s")
    data = wf.Dataset(t, 0.5 + np.exp(-t) + 0.02 * np.random.default_rng(1).standard_normal(80))
    fit = wf.fit(model, data, priors={"a": ("normal", 0.6, 0.1)})
    wald = fit.intervals()[0]
    assert np.allclose(fit.intervals(kind="profile")[0], wald, atol=0.05)
    assert np.allclose(fit.intervals(kind="bootstrap", runs=150)[0], wald, atol=0.06)


def test_bootstrap_does_not_claim_what_the_data_leave_open():
    model = wf.Model.from_text("u1' = a*e*u1 - b*u1*u2\nu2' = -c*u2 + d*u1*u2")
    fit = wf.fit(model, LV.simulate(M=100, noise=0.05), bounds={"a": (0, 50), "e": (0, 50)})
    ends = fit.intervals(kind="bootstrap", runs=40)
    for name in ("a", "e"):
        low, high = ends[fit.model.parameters.index(name)]
        assert high - low > 0.5 * fit[name].value


def killed_once(run):
    import os
    import signal
    import time

    if run == "first":
        return os.getpid()
    time.sleep(0.05)
    if run == "kill":
        os.kill(os.getpid(), signal.SIGKILL) if not os.path.exists("killed") and not open(
            "killed", "w"
        ).close() else None
    return os.getpid()


def test_no_run_is_lost_between_pools(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = ["first", "a", "b", "kill", *"cdefgh"]
    import time

    class Named(str):
        @property
        def key(self):
            return str(self)

    done = []
    for run, _ in _pool(iter(map(Named, runs)), 2, killed_once):
        done.append(str(run))
        time.sleep(0.1)
    assert sorted(done) == sorted(runs)


def test_numbers_of_subjects_stay_apart(tmp_path):
    rows = [f"{i},{t},{v}" for i, v in ((1234561, 1), (1234562, 2)) for t, v in enumerate(np.arange(12) * v + v)]
    (tmp_path / "d.csv").write_text("who,t,x\n" + "\n".join(rows))
    data = wf.Dataset.from_csv(tmp_path / "d.csv", trajectory="who")
    assert [q.label for q in data.trajectories] == ["1234561", "1234562"]
    (tmp_path / "e.csv").write_text("who,t,x\n" + "\n".join(rows) + "\n,5,6\n")
    with pytest.raises(DataError, match="tells trajectories apart"):
        wf.Dataset.from_csv(tmp_path / "e.csv", trajectory="who")


@pytest.mark.parametrize("labels", [["-1", "+1"], ["α", "β"], ["dose -1", "dose +1"]])
def test_labels_that_make_one_name_are_refused(labels):
    with pytest.raises(ModelError, match="both make the name"):
        wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1.5)], labels), local=["r"])


def test_bands_of_correlated_noise_contain_the_solution():
    t, u = LV.solution(80)
    C = np.array([[0.09, -0.085], [-0.085, 0.09]])
    noisy = u + np.random.default_rng(4).standard_normal(u.shape) @ np.linalg.cholesky(C).T
    fit = wf.fit(LV.model, wf.Dataset(t, noisy, sigma=C), bounds=LV.bounds)
    band = fit.predict(t[::8], kind="sampling")
    assert (band.lower < band.upper).all()
    assert ((band.lower <= band.states) & (band.states <= band.upper)).mean() > 0.9


def test_sigma_of_points_has_the_units_of_the_state():
    t, u = LV.solution(100)
    noisy = 1e-3 * (u + 0.1 * np.random.default_rng(1).standard_normal(u.shape))
    model = wf.Model.from_text("u1' = p1*u1 - p2*u1*u2\nu2' = -p3*u2 + p4*u1*u2")
    state, point = (wf.fit(model, wf.Dataset(t, noisy, sigma=sigma)) for sigma in (1e-4, np.full(noisy.shape, 1e-4)))
    assert np.allclose(state.estimate, point.estimate, rtol=1e-6)
    assert state.warnings == point.warnings
    assert "u1 0.0001" in str(point)


def test_a_bound_and_no_information_elsewhere_leave_the_other_errors_alone():
    t = np.linspace(0, 5, 80)
    data = wf.Dataset(t, 1 + 0.3 * t + 0.02 * np.random.default_rng(1).standard_normal(80))
    model = wf.Model.from_text("x' = s - v*x/(c + x)")
    fit = wf.fit(model, data, bounds={"v": (0, 5), "c": (0.1, 5), "s": (0, 5)})
    if fit.at_bound[fit.model.parameters.index("v")]:
        assert fit["s"].error < 0.02


def test_output_error_says_when_it_sits_at_a_one_sided_bound():
    t = np.linspace(0, 5, 80)
    data = wf.Dataset(t, np.exp(-t) - 0.02 * (1 - np.exp(-t)) + 0.01 * np.random.default_rng(1).standard_normal(80))
    fit = wf.fit(wf.Model.from_text("x' = -k*x + s"), data, bounds={"s": (0, None)}, method="output-error")
    assert fit.at_bound[1]
    assert fit["s"].value == 0.0


def test_metrics_with_local_parameters_and_inputs():
    fit = wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1.5)], ["id_1", "id 2"]), local=["r"], units={"r": "1/h"})
    assert fit.metrics({"K": 10, "r_id_1": 1, "r_id_2": 1.5}).coefficient_error < 0.1
    assert list(fit.to_frame()["unit"]) == ["", "1/h", "1/h"]
    t = np.linspace(0, 10, 50)
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    driven = wf.fit(model, wf.Dataset(t, np.exp(-t) + 0.01 * np.sin(20 * t), inputs={"q": 0 * t}))
    assert driven.metrics({"k": 1.0}).coefficient_error < 0.1


def test_tied_to_a_local_parameter(tmp_path):
    model = wf.Model.from_text("x' = -k*x + s")
    t = np.linspace(0, 5, 60)
    rng = np.random.default_rng(1)
    parts = [wf.Dataset(t, 0.5 + np.exp(-k * t) + 0.01 * rng.standard_normal(60)) for k in (1.0, 2.0)]
    fit = wf.fit(model, wf.Dataset.join(parts, ["a b", "c"]), local=["k"], tied={"s": "k/2"})
    assert "s_a_b" in str(fit)
    assert fit.derived("s_c").value == pytest.approx(fit["k_c"].value / 2)
    assert str(wf.FitResult.load(fit.save(tmp_path / "deep" / "f.json"))) == str(fit)


def test_saved_options_and_constants(tmp_path):
    fit = wf.fit(wf.Model.from_text("N' = r*N*(1 - N/K)*exp(1)"), growth(0.4), options={"time_limit": np.inf})
    assert wf.FitResult.load(fit.save(tmp_path / "f.json")).options.time_limit == np.inf


@pytest.mark.parametrize("seed", range(8))
def test_a_log_normal_prior_keeps_starts_positive(seed):
    t = np.linspace(0, 5, 40)
    data = wf.Dataset(t, np.exp(-t) + 0.005 + 0.05 * np.random.default_rng(seed).standard_normal(40))
    fit = wf.fit(wf.Model.from_text("x' = -k*x + s"), data, priors={"s": ("lognormal", 0.005, 0.5)})
    assert fit["s"].value > 0


def test_bursts_of_samples():
    rng = np.random.default_rng(1)
    for times in (
        np.cumsum(np.tile([1.0, 0.01], 10)),
        np.concatenate([3600 * k + 0.1 * np.arange(10) for k in range(10)]),
    ):
        x = 1 + 0.001 * times + 0.01 * rng.standard_normal(len(times))
        fit = wf.fit(wf.Model.from_text("x' = a"), wf.Dataset(times, x))
        assert fit["a"].value == pytest.approx(0.001, abs=5 * fit["a"].error)


def test_a_state_that_one_trajectory_lacks():
    t, u = LV.solution(100)
    noisy = u + 0.05 * np.random.default_rng(1).standard_normal(u.shape)
    rows = [
        pd.DataFrame({"who": who, "t": t, "u1": noisy[:, 0], "u2": y}) for who, y in (("a", noisy[:, 1]), ("b", np.nan))
    ]
    data = wf.Dataset.from_frame(pd.concat(rows), time="t", trajectory="who")
    assert "svg" in data._repr_html_()
    fit = wf.fit(LV.model, data, bounds=LV.bounds)
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()


def test_a_state_measured_only_at_the_start():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
    t = np.linspace(0, 12, 100)
    u = simulate(model, [1.0, 0.5, 0.7, 0.3], [2.0, 1.0], t).states
    u = u + 0.05 * np.random.default_rng(5).standard_normal(u.shape)
    u[25:, 1] = np.nan
    fit = wf.fit(model, wf.Dataset(t, u), start=[1.0, 0.5, 0.7, 0.3])
    assert (np.abs(fit.estimate - [1.0, 0.5, 0.7, 0.3]) < 4 * fit.errors).all()


def test_columns_in_another_order_carry_their_truth():
    data = LV.simulate(M=80, noise=0.02)
    swapped = wf.Model.from_text("u2' = -p3*u2 + p4*u1*u2\nu1' = p1*u1 - p2*u1*u2", parameters=["p1", "p2", "p3", "p4"])
    assert wf.fit(swapped, data, bounds=LV.bounds).metrics().forward_error < 0.05


def test_tied_without_a_start_and_inputs_that_were_not_declared():
    assert wf.fit(LOGISTIC, growth(1), tied={"K": "10*r"})["r"].value == pytest.approx(1, abs=0.1)
    q = np.ones(60)
    data = wf.Dataset(T, growth(1).trajectories[0].values, inputs={"K": q}, names=["N"])
    with pytest.raises(FitError, match="an input of the data and a parameter"):
        wf.fit(LOGISTIC, data)
    with pytest.raises(DataError, match="two values at t = 0"):
        wf.Dataset(np.repeat(T, 2), np.arange(120.0), inputs={"q": np.arange(120.0)})


def test_a_sigma_that_is_far_too_small_does_not_hide_a_parameter():
    right, wrong = (
        wf.fit(LOGISTIC, wf.Dataset(T, growth(1).trajectories[0].values, sigma=s), bounds={"K": (1, 100)})
        for s in (0.3, 0.003)
    )
    assert np.allclose(right.estimate, wrong.estimate, rtol=1e-3)
    assert "sigma contradicts the data" in str(wrong)
    assert "separately" not in str(wrong)


def test_requests_in_other_forms():
    fit = wf.fit(LOGISTIC, wf.Dataset.join([growth(1), growth(1, seed=2)], ["a", "b"]))
    assert np.array_equal(fit.predict([0, 1], trajectory="b").states, fit.predict([0, 1], trajectory=1).states)
    assert fit.predict([0, 1], initial={"N": 2.0}).states[0, 0] == 2.0
    for wrong in (
        lambda: fit.predict([0, 1], trajectory="x"),
        lambda: fit.predict([0, 1], initial="a"),
        lambda: fit.predict([0, 1], initial={"M": 1}),
        lambda: fit.plot(5),
        lambda: fit.metrics({"r": "a", "K": 1}),
        lambda: wf.FitResult.load(3),
        lambda: wf.Dataset.from_frame(fit.to_frame(), tim="t"),
        lambda: wf.fit(LOGISTIC, growth(1), log=["r"], bounds={"r": (None, 0)}),
        lambda: wf.fit(LOGISTIC, growth(1, sigma=0.0)).intervals(kind="profile"),
        lambda: wf.Model.from_text("N = r*N"),
    ):
        with pytest.raises(wf.WeakformError):
            wrong()


def test_a_prediction_says_that_inputs_are_held_beyond_the_data():
    t = np.linspace(0, 10, 50)
    model = wf.Model.from_text("x' = -k*x + q", inputs=["q"])
    fit = wf.fit(model, wf.Dataset(t, np.exp(-t) + 0.01 * np.sin(20 * t), inputs={"q": 0 * t}))
    assert "keep their nearest value" in fit.predict([0.0, 20.0]).note
    assert fit.predict([0.0, 5.0]).note == ""


def test_no_information_about_a_parameter_where_the_weak_estimate_ends():
    """A random start from which WENDy-MLE ends where p4 has no effect at all."""
    run = next(
        run for run in read_study("paper-small").runs if run.key == ("goodwin", "lognormal", 0.1, 256, 80.0, "wendy", 0)
    )
    assert perform(run)["status"] in ("CONVERGED", "STUCK", "ITERATIONS")


def test_tied_says_what_is_wrong():
    model = wf.Model.from_text("x' = -k*x + a")
    data = wf.Dataset(np.linspace(0, 5, 60), np.exp(-np.linspace(0, 5, 60)))
    with pytest.raises(FitError, match="'k' cannot be tied to 'k'"):
        wf.fit(model, data, tied={"k": "k*2"})
    with pytest.raises(FitError, match="both fixed and tied"):
        wf.fit(model, data, tied={"k": "a*2"}, fixed={"k": 1.0})


@pytest.mark.parametrize(
    ("part", "value"),
    [("estimate", []), ("estimate", None), ("covariance", [[1.0]]), ("sigma", [1.0, 2.0, 3.0]), ("warnings", [3])],
)
def test_a_saved_fit_whose_parts_do_not_belong_together_is_refused(tmp_path, part, value):
    problem = wf.problems.get("lotka-volterra")
    path = wf.fit(problem.model, problem.simulate(M=60, noise=0.02), method="wls").save(tmp_path / "f.json")
    document = json.loads(path.read_text())
    document["fit"][part] = value
    path.write_text(json.dumps(document))
    with pytest.raises(DataError, match="not a whole fit"):
        wf.FitResult.load(path)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no devices")
def test_devices_are_not_files(tmp_path, capsys):
    (tmp_path / "m.txt").write_text("x' = -k*x")
    (tmp_path / "d.csv").write_text("t,x\n0,1\n")
    assert main(["fit", str(tmp_path / "m.txt"), "/dev/zero"]) == 2
    assert main(["fit", "/dev/zero", str(tmp_path / "d.csv")]) == 2
    assert capsys.readouterr().err.count("device or a pipe") == 2


@pytest.mark.parametrize("name", ["../evil", "/evil", "", ".hidden", 3])
def test_a_study_cannot_name_a_file_elsewhere(name):
    cell = {"problems": ["logistic"], "noise": [0.1], "samples": [32]}
    study = {"name": name, "runs": 1, "methods": ["wls"], "cells": [cell]}
    with pytest.raises(ModelError, match="name of a file"):
        read_study(study)
