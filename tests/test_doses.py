"""Doses, switches, resets and steady states: fits recover the truth, and methods agree."""

import numpy as np
import pandas as pd
import pytest

import weakform as wf
from weakform.data.matching import match
from weakform.support.errors import DataError, FitError, ModelError

ORAL = "A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 0\nC(0) = 0"
TRUTH = {"V": 20.0, "ka": 1.2, "ke": 0.15}
BOUNDS = {"V": (1, 100), "ka": (0.5, 10), "ke": (0.01, 0.5)}
TIMES = np.array([0.5, 1, 2, 4, 8, 12, 24.5, 25, 26, 28, 32, 36, 48.0])


def solved(text, values, times, names, begin=0.0):
    model = wf.Model.from_text(text)
    solution = wf.simulate(model, {n: values[n] for n in model.parameters}, None, np.concatenate([[begin], times]))
    return np.column_stack([solution.states[1:, model.states.index(n)] for n in names])


def noisy(values, seed, size=0.05):
    return values * np.exp(size * np.random.default_rng(seed).standard_normal(values.shape))


def near(fit, truth, errors=4.0):
    return all(abs(fit[n].value - v) < errors * fit[n].error for n, v in truth.items())


@pytest.fixture(scope="module")
def twice():
    """Two doses of 100, measured with 5% noise."""
    values = solved(ORAL + "\nat t = 0, 24: A = A + 100", TRUTH, TIMES, ["C"])
    return wf.Dataset(TIMES, noisy(values, 1), "lognormal", names=["C"], doses=wf.Doses("A", [0, 24], 100))


def test_default_method_recovers_the_truth_from_two_doses(twice):
    fit = wf.fit(wf.Model.from_text(ORAL), twice, bounds=BOUNDS)
    assert fit.success
    assert near(fit, TRUTH)
    assert "2 doses into A" in str(fit)


def test_default_method_agrees_with_output_error(twice):
    model = wf.Model.from_text(ORAL)
    first = wf.fit(model, twice, bounds=BOUNDS)
    second = wf.fit(model, twice, bounds=BOUNDS, method="output-error")
    errors = np.sqrt(np.diag(first.covariance))
    np.testing.assert_array_less(np.abs(first.estimate - second.estimate), 0.02 * errors)
    np.testing.assert_allclose(np.sqrt(np.diag(second.covariance)), errors, rtol=0.02)
    assert first.log_likelihood == pytest.approx(second.log_likelihood, abs=0.01)


def test_dose_in_the_data_equals_the_same_event_in_the_model(twice):
    plain = twice.replace_attributes(trajectories=[wf.data.trajectory.replace(q, doses=()) for q in twice.trajectories])
    in_model = wf.fit(wf.Model.from_text(ORAL + "\nat t = 0, 24: A = A + 100"), plain, bounds=BOUNDS)
    in_data = wf.fit(wf.Model.from_text(ORAL), twice, bounds=BOUNDS)
    np.testing.assert_allclose(in_model.estimate, in_data.estimate, rtol=1e-9)


def test_predictions_and_saved_fits_include_the_doses(twice, tmp_path):
    fit = wf.fit(wf.Model.from_text(ORAL), twice, bounds=BOUNDS)
    later = np.array([10.0, 24.0, 30.0, 60.0])
    own = solved(
        ORAL + "\nat t = 0, 24: A = A + 100",
        dict(zip(fit.model.parameters, fit.estimate, strict=True)),
        later,
        ["A", "C"],
    )
    np.testing.assert_allclose(fit.predict(later).states, own, rtol=1e-5, atol=1e-9)
    fit.save(tmp_path / "fit.json")
    again = wf.FitResult.load(tmp_path / "fit.json")
    np.testing.assert_allclose(again.predict(later).states, own, rtol=1e-5, atol=1e-9)
    low, high = fit.intervals(kind="profile").T
    assert (low < fit.estimate).all()
    assert (fit.estimate < high).all()
    assert "dose" in fit.report(tmp_path / "page.html").read_text()


def test_amounts_and_lags_of_doses_can_be_estimated():
    values = solved(ORAL + "\nat t = 0.3, 24.3: A = A + 70", TRUTH, TIMES, ["C"])
    model = wf.Model.from_text(ORAL)
    data = wf.Dataset(
        TIMES, noisy(values, 2, 0.01), "lognormal", names=["C"], doses=wf.Doses("A", [0, 24], "F*100", lag="late")
    )
    bounds = {**BOUNDS, "late": (0, 0.45), "F": (0.01, 1)}
    fit = wf.fit(model, data, bounds=bounds, fixed={"V": 20.0}, method="output-error", starts=2)
    assert near(fit, {"F": 0.7, "late": 0.3, "ka": 1.2})
    with pytest.raises(FitError, match=r"depends on late.*output-error"):
        wf.fit(model, data, bounds=bounds, fixed={"V": 20.0})
    known = wf.fit(model, data, bounds=BOUNDS, fixed={"V": 20.0, "late": 0.3})
    assert known.method == "relaxed"
    assert near(known, {"F": 0.7, "ka": 1.2})


def test_overlapping_infusions_add_up():
    text = "C' = (if(t < 2, 30, 0) + if(t < 1, 0, if(t < 3, 10, 0)))/V - ke*C\nC(0) = 0"
    times = np.linspace(0.25, 8, 32)
    values = solved(text, TRUTH, times, ["C"])
    doses = [wf.Doses("C", 0.0, "60/V", duration=2.0), wf.Doses("C", 1.0, "20/V", duration=2.0)]
    data = wf.Dataset(times, noisy(values, 3, 0.02), "lognormal", names=["C"], doses=doses)
    fit = wf.fit(wf.Model.from_text("C' = -ke*C\nC(0) = 0"), data, bounds={"V": (1, 100), "ke": (0.01, 1)})
    assert fit.success
    assert near(fit, {"V": 20.0, "ke": 0.15})


def test_dose_before_the_first_sample_counts_and_one_after_the_last_is_noted():
    times = TIMES[2:]
    values = solved(ORAL + "\nat t = -12: A = A + 100", TRUTH, times, ["C"], begin=-12.0)
    data = wf.Dataset(times, noisy(values, 4), "lognormal", names=["C"], doses=wf.Doses("A", [-12, 60], 100))
    fit = wf.fit(wf.Model.from_text(ORAL), data, bounds={**BOUNDS, "ka": (1.0, 1.4)}, fixed={"ka": 1.2})
    assert near(fit, {"V": 20.0, "ke": 0.15})
    assert any("after the last sample" in note for note in fit.data.notes)


def test_each_subject_has_its_own_doses():
    parts = []
    for k, amount in enumerate((50.0, 100.0, 200.0)):
        values = solved(ORAL + f"\nat t = 0: A = A + {amount}", TRUTH, TIMES[:6], ["C"])
        parts.append(wf.Dataset(TIMES[:6], noisy(values, k), "lognormal", names=["C"]))
    data = wf.Dataset.join(parts, ["a", "b", "c"])
    table = pd.DataFrame({"id": ["a", "b", "c"], "time": 0.0, "amount": [50.0, 100.0, 200.0], "state": "A"})
    fit = wf.fit(wf.Model.from_text(ORAL), data.with_doses(table), bounds=BOUNDS)
    assert fit.success
    assert near(fit, TRUTH)
    with pytest.raises(DataError, match="given for 'z', which is not a trajectory"):
        data.with_doses({"z": wf.Doses("A", 0, 1)})


def test_dose_table_needs_an_id_only_for_several_trajectories():
    single = wf.Dataset(TIMES, np.exp(-TIMES), names=["C"])
    table = pd.DataFrame({"time": [0.0, 5.0], "amount": [10.0, 20.0], "state": "A"})
    (only,) = single.with_doses(table).trajectories
    assert [(d.time, d.amount) for doses in only.doses for d in doses.each] == [(0.0, 10.0), (5.0, 20.0)]
    both = wf.Dataset.join([single, single], ["a", "b"])
    with pytest.raises(DataError, match=r"needs a column id.*a.*b"):
        both.with_doses(table)
    first, second = both.with_doses(table.assign(id=["b", "b"])).trajectories
    assert first.doses == ()
    assert len(second.doses) == 2


NONMEM = pd.DataFrame(
    {
        "ID": [1, 1, 1, 1, 1, 2, 2, 2, 2],
        "TIME": [0.0, 1.0, 2.0, 2.0, 3.0, 0.0, 0.0, 3.0, 4.0],
        "AMT": [100.0, 0, 0, 50.0, 0, 0, 80.0, 0, 0],
        "RATE": [0, 0, 0, 25.0, 0, 0, 0, 0, 0],
        "DV": [".", 3.0, 2.0, ".", 1.0, 0.1, ".", 1.5, 1.1],
        "EVID": [1, 0, 0, 1, 0, 0, 1, 0, 0],
    }
)


def test_nonmem_table_is_read_with_its_doses():
    data = wf.Dataset.from_nonmem(NONMEM, into="A", measured="C")
    first, second = data.trajectories
    assert list(first.times) == [1.0, 2.0, 3.0]
    doses = [each for doses in first.doses for each in doses.each]
    assert [(d.amount, d.duration) for d in doses] == [(100.0, None), (50.0, 2.0)]
    # A value before the dose of the same time was measured before it.
    (late,) = second.doses[0].each
    assert 0.0 < late.time < 1e-6
    with pytest.raises(DataError, match="TIME, AMT and DV"):
        wf.Dataset.from_nonmem(NONMEM.drop(columns="AMT"), into="A", measured="C")


def test_nonmem_table_without_id_has_one_subject():
    rows = NONMEM[NONMEM["ID"] == 1]
    (without_id,) = wf.Dataset.from_nonmem(rows.drop(columns="ID"), into="A", measured="C").trajectories
    (with_id,) = wf.Dataset.from_nonmem(rows, into="A", measured="C").trajectories
    assert list(without_id.times) == list(with_id.times) == [1.0, 2.0, 3.0]
    assert without_id.doses == with_id.doses


@pytest.mark.parametrize(
    ("doses", "words"),
    [
        (lambda: wf.Doses("B", 0.0, 1.0), "not a state of the model"),
        (lambda: wf.Doses("A", [0, 1], [1, 2, 3]), "as many amounts"),
        (lambda: wf.Doses("A", [0, np.nan], 1), "finite"),
        (lambda: wf.Doses("A", 0, 1, duration=-1), "negative"),
        (lambda: wf.Doses("A", 0, 1, duration=1, lag="late"), "lag of an infusion must be a number"),
        (lambda: [1, 2], "must be Doses"),
    ],
)
def test_invalid_doses_are_refused(doses, words):
    with pytest.raises(DataError, match=words):
        match(wf.Dataset(TIMES, np.sin(TIMES), names=["C"], doses=doses()), wf.Model.from_text(ORAL))


@pytest.mark.parametrize(("samples", "method"), [(61, "wendy"), (60, "relaxed")])
def test_switch_is_fitted_if_every_state_is_measured(samples, method):
    """No interval may contain a jump: a sample at the jump allows the weak form, else a mesh has a node there."""
    text, t = "x' = if(t < 5, a, 0) - b*x", np.linspace(0, 12, samples)
    model = wf.Model.from_text(text)
    u = wf.simulate(model, {"a": 2.0, "b": 0.5}, [1.0], t).states
    data = wf.Dataset(t, u + 0.03 * np.random.default_rng(0).standard_normal(u.shape), names=["x"])
    fit = wf.fit(model, data)
    assert fit.method == method
    assert fit.success
    assert near(fit, {"a": 2.0, "b": 0.5})
    solved_fit = wf.fit(model, data, method="output-error")
    np.testing.assert_array_less(np.abs(fit.estimate - solved_fit.estimate), 0.05 * np.sqrt(np.diag(fit.covariance)))


def test_reset_by_an_event_is_fitted_and_predicted():
    model = wf.Model.from_text("x' = r*x*(1 - x/K)\nat t = 6: x = x/4")
    t = np.linspace(0, 12, 60)
    u = wf.simulate(model, {"K": 2.0, "r": 0.9}, [0.1], t).states
    fit = wf.fit(model, wf.Dataset(t, u + 0.03 * np.random.default_rng(1).standard_normal(u.shape), names=["x"]))
    assert fit.success
    assert near(fit, {"K": 2.0, "r": 0.9})
    np.testing.assert_allclose(fit.predict([5.99, 6.0]).states[:, 0] @ [1, -4], 0.0, atol=0.02)


def test_switch_time_is_estimated_by_output_error():
    model = wf.Model.from_text("x' = if(t < tau, a, 0) - b*x")
    t = np.linspace(0, 12, 60)
    u = wf.simulate(model, {"a": 2.0, "b": 0.5, "tau": 5.3}, [1.0], t).states
    data = wf.Dataset(t, u + 0.03 * np.random.default_rng(0).standard_normal(u.shape), names=["x"])
    with pytest.raises(FitError, match=r"depends on tau.*output-error"):
        wf.fit(model, data)
    fit = wf.fit(model, data, method="output-error", bounds={"tau": (1, 10)}, starts=3)
    assert near(fit, {"a": 2.0, "b": 0.5, "tau": 5.3})
    assert near(wf.fit(model, data, fixed={"tau": 5.3}), {"a": 2.0, "b": 0.5})


def test_initial_steady_state_is_fitted():
    model = wf.Model.from_text("x' = k1*s - d1*x\ny' = k2*x - d2*y\nsteady: s = 1")
    values = {"d1": 0.5, "d2": 0.3, "k1": 2.0, "k2": 1.0, "s": 3.0}
    t = np.linspace(0, 20, 40)
    u = wf.simulate(model, values, None, t).states
    np.testing.assert_allclose(u[0], [4.0, 40 / 3], rtol=1e-8)
    data = wf.Dataset(t, noisy(u[:, 1:], 5, 0.02), "lognormal", names=["y"])
    bounds = {"d1": (0.35, 5), "d2": (0.01, 0.35), "k1": (0.1, 10)}
    fit = wf.fit(model, data, fixed={"s": 3.0, "k2": 1.0}, bounds=bounds)
    assert near(fit, {"d1": 0.5, "d2": 0.3, "k1": 2.0})
    solved_fit = wf.fit(model, data, fixed={"s": 3.0, "k2": 1.0}, bounds=bounds, method="output-error", starts=2)
    assert solved_fit.log_likelihood == pytest.approx(fit.log_likelihood, abs=0.01)


def test_steady_state_keeps_a_conserved_total():
    model = wf.Model.from_text("A' = -k1*A + k2*B\nB' = k1*A - k2*B\nA(0) = tot\nB(0) = 0\nsteady: k1 = 0.3")
    value, _, by_p = model.build_map("g").linearise(np.zeros(1), np.ones((1, 2)), np.array([0.8, 0.6, 1.5]))
    np.testing.assert_allclose(value[0], [1.0, 0.5], rtol=1e-9)
    np.testing.assert_allclose(by_p[0], [[0, 1.5 * 0.3 / 0.81, 2 / 3], [0, -1.5 * 0.3 / 0.81, 1 / 3]], rtol=1e-6)


@pytest.mark.parametrize(
    "text", ["x' = k*x\nx(0) = 1\nsteady", pytest.param("x' = k\nx(0) = 1\nsteady", marks=pytest.mark.slow)]
)
def test_model_without_a_steady_state_is_refused(text):
    t = np.linspace(0, 5, 30)
    with pytest.raises(FitError, match=r"no steady state|not finite"):
        wf.fit(
            wf.Model.from_text(text),
            wf.Dataset(t, np.exp(-t) + 0.01 * np.sin(9 * t), names=["x"]),
            bounds={"k": (0.1, 1)},
        )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x' = -k*x\nat t = 3: y = 2", "'y' is not a state"),
        ("x' = -k*x\nat t = x: x = 2", "time depends on 'x'"),
        ("x' = if(t < if(t < 3, 1, 2), k, 2*k)*x", "cannot contain another switch"),
        ("x' = -k*x\nat t = 3: x = if(t < 3, 1, 2)", "event cannot contain a switch"),
        ("x' = -k*x\nsteady: z = 1", "neither a parameter nor an input"),
        ("x' = -k*x\nwhen x > 1 and x < 2: x = 0", "one comparison"),
        ("x' = if(1 < 2, k, 2)*x", "never switches"),
    ],
)
def test_invalid_events_and_switches_are_refused(text, words):
    with pytest.raises(ModelError, match=words):
        wf.Model.from_text(text)


def test_input_may_have_times_other_than_the_samples():
    model = wf.Model.from_text("x' = u - k*x", inputs=["u"])
    t = np.linspace(0, 10, 50)
    steps = (np.array([0.0, 3.3, 7.1]), np.array([1.0, 2.0, 0.0]), "hold")
    u = wf.simulate(
        model, {"k": 0.5}, [0.0], t, inputs=wf.Dataset(t, t, inputs={"u": steps}).trajectories[0].inputs
    ).states
    data = wf.Dataset(t, u + 0.02 * np.random.default_rng(0).standard_normal(u.shape), names=["x"], inputs={"u": steps})
    fit = wf.fit(model, data)
    assert fit.success
    assert near(fit, {"k": 0.5})
    with pytest.raises(DataError, match="must increase"):
        wf.Dataset(t, u, names=["x"], inputs={"u": (np.array([1.0, 0.0]), np.array([0.0, 1.0]))})


@pytest.mark.parametrize("method", ["wendy", "output-error", "hybrid"])
def test_free_initial_value_is_the_one_before_the_first_dose(method):
    t = np.linspace(0.5, 12, 25)
    values = 10 * np.exp(-0.3 * t) + np.where(t >= 6, 10 * np.exp(-0.3 * (t - 6)), 0)
    data = wf.Dataset(
        t,
        values + 0.1 * np.random.default_rng(0).standard_normal(25),
        names=["C"],
        doses=wf.Doses("A", [0, 6], 100.0),
    )
    fit = wf.fit(wf.Model.from_text("A' = -k*A\nC = A/V"), data, method=method, bounds={"k": (0.01, 3), "V": (1, 100)})
    assert abs(fit.initial["A"].value) < 4
    np.testing.assert_allclose(fit.predict([0, 0.5, 3])["C"][:, 0], [10, 8.6, 4.07], rtol=0.02)


def test_dose_at_the_last_sample_counts_and_a_later_one_is_predicted():
    t = np.linspace(0.5, 12, 24)
    values = sum(np.where(t >= s, 10 * np.exp(-0.3 * (t - s)), 0) for s in (0, 6, 12))
    data = wf.Dataset(
        t,
        values + 0.05 * np.random.default_rng(1).standard_normal(24),
        names=["C"],
        doses=wf.Doses("A", [0, 6, 12, 20], 100.0),
    )
    fit = wf.fit(wf.Model.from_text("A' = -k*A\nC = A/V\nA(0) = 0"), data, bounds={"k": (0.01, 3), "V": (1, 100)})
    assert fit.success
    later = fit.predict([19.9, 20.0])["C"][:, 0]
    assert later[1] - later[0] == pytest.approx(10.0, abs=0.5)


def test_steady_state_with_inputs_is_fitted():
    model = wf.Model.from_text("m' = k*s - d*m\nP' = b*m - g*P\nsteady: s = 1", inputs=["s"])
    t = np.linspace(0, 20, 40)
    steps = {"s": ([0.0, 4.0, 11.0], [1.0, 3.0, 0.5], "hold")}
    driven = wf.Dataset(t, np.column_stack([t, t]), names=["m", "P"], inputs=steps).trajectories[0].inputs
    truth = {"k": 2.0, "d": 0.5, "b": 1.0, "g": 0.3}
    u = wf.simulate(model, truth, None, t, inputs=driven).states
    data = wf.Dataset(t, noisy(u, 0, 0.02), "lognormal", names=["m", "P"], inputs=steps)
    fit = wf.fit(model, data, bounds={"k": (0.1, 10), "d": (0.01, 5), "b": (0.1, 10), "g": (0.01, 5)})
    assert near(fit, truth)
    with pytest.raises(ModelError, match="steady: s = 0"):
        wf.fit(wf.Model.from_text("m' = k*s - d*m\nP' = b*m - g*P\nsteady", inputs=["s"]), data)


@pytest.mark.parametrize(
    ("column", "words"), [({"SS": 1}, "SS"), ({"CMT": [1, 1, 1, 2, 1, 1, 1, 1, 1]}, "more than one compartment")]
)
def test_unsupported_nonmem_columns_are_refused(column, words):
    with pytest.raises(DataError, match=words):
        wf.Dataset.from_nonmem(NONMEM.assign(**column), into="A", measured="C")
