"""Models of which only some states are measured: estimates, standard errors, initial values and error messages."""

import numpy as np
import pytest
from scipy.optimize import least_squares

import weakform as wf
from weakform import DataError, FitError, ModelError, Status

PREY = wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x*y")
SIR = wf.Model.from_text("""
    S' = -beta*S*I
    I' = beta*S*I - gamma*I
    cases = rho*gamma*N*I + background
    S(0) = 1 - I0
    I(0) = I0
""")
ORAL = wf.Model.from_text("A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 300\nB(0) = 0")
HOURS = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24])


def prey(seed=0, samples=101):
    t = np.linspace(0, 5, samples)
    u = wf.simulate(PREY, [3, 1, 6, 1], [1, 1], t).states
    sigma = 0.05 * np.sqrt(np.mean(u[:, 0] ** 2))
    return t, u, u[:, 0] + sigma * np.random.default_rng(seed).standard_normal(samples), sigma


def plasma(seed=0):
    u = wf.simulate(ORAL.restrict_to_observables(["conc"]), [30, 1.2, 0.25], [300, 0], np.append(0, HOURS)).states[1:]
    return u[:, 1] / 30 * np.exp(0.1 * np.random.default_rng(seed).standard_normal(len(HOURS)))


@pytest.mark.parametrize("samples", [101, 21])
def test_estimate_equals_optimum_of_output_error_from_the_truth(samples):
    t, _, y, sigma = prey(1, samples)
    data = wf.Dataset(t, y, names=["x"], sigma=sigma)
    fit = wf.fit(PREY, data, bounds=dict.fromkeys("abcd", (0, 10)), fixed={"y(0)": 1.0}, starts=3)

    def residual(theta):
        return (wf.simulate(PREY, theta[:4], [theta[4], 1.0], t, rtol=1e-10).states[:, 0] - y) / sigma

    reference = least_squares(residual, [3, 1, 6, 1, 1], x_scale="jac", xtol=1e-12, ftol=1e-12)
    assert fit.status is Status.CONVERGED
    free = fit.estimate[:4]
    solved = wf.simulate(PREY, reference.x[:4], [reference.x[4], 1.0], t, rtol=1e-10, sensitivities=True)
    K = np.column_stack([solved.by_parameters[:, 0], solved.by_initial[:, 0, :1]]) / sigma
    C = np.linalg.inv(K.T @ K)
    assert np.all(np.abs(free - reference.x[:4]) < 0.1 * np.sqrt(np.diag(C))[:4])
    assert np.allclose(fit.wald_errors[:4], np.sqrt(np.diag(C))[:4], rtol=0.05)
    assert fit.initial["x"].error == pytest.approx(np.sqrt(C[4, 4]), rel=0.1)
    assert np.sum(residual([*free, fit.initial["x"].value]) ** 2) < 2 * reference.cost + 0.1


def test_undetermined_scaling_is_reported():
    t, u, y, _ = prey(2)
    fit = wf.fit(PREY, wf.Dataset(t, y, names=["x"]), bounds=dict.fromkeys("abcd", (0, 10)))
    assert fit.status is Status.UNDETERMINED
    assert "Only the product b·y(0) can be determined" in fit.warnings[0]
    for name, truth in (("a", 3), ("c", 6), ("d", 1)):  # parameters that are determined have correct intervals
        assert abs(fit[name].value - truth) < 4 * fit[name].error
    assert np.mean((fit.denoised[0][:, 0] - u[:, 0]) ** 2) < 0.2


def test_poisson_counts_of_an_expression_with_given_initial_values():
    t = np.arange(60.0)
    u = wf.simulate(SIR.restrict_to_observables([]), [0.002, 1.5, 0.5], [0.998, 0.002], t).states
    y = np.random.default_rng(1).poisson(0.4 * 0.5 * 1e4 * u[:, 1] + 5.0)
    data = wf.Dataset(t, y.astype(float), names=["cases"], noise="poisson")
    fixed = {"N": 1e4, "rho": 0.4, "background": 5.0}
    fit = wf.fit(SIR, data, bounds={"beta": (0, 10), "gamma": (0, 5), "I0": (0, 0.1)}, fixed=fixed)
    assert fit.success
    for name, truth in (("beta", 1.5), ("gamma", 0.5), ("I0", 0.002)):
        assert abs(fit[name].value - truth) < 4 * fit[name].error
    assert fit.initial["S"].value == pytest.approx(1 - fit["I0"].value)
    curve = fit.states["S"]
    assert ((curve.lower <= curve.values) & (curve.values <= curve.upper)).all()
    assert fit.r_squared["cases"] > 0.99


def test_given_initial_values_are_exact():
    fit = wf.fit(
        ORAL,
        wf.Dataset(HOURS, plasma(), names=["conc"], noise="lognormal"),
        bounds={"ka": (0.4, 10), "ke": (0.01, 0.4), "V": (1, 200)},
    )
    assert fit.success
    for name, truth in (("ka", 1.2), ("ke", 0.25), ("V", 30)):
        assert abs(fit[name].value - truth) < 4 * fit[name].error
    assert fit.initial["A"].note == "given"
    assert fit.predict([0.0, 1.0])["A"][0, 0] == 300


def test_nonlinear_parameter_of_an_observable_needs_no_bounds():
    assert ORAL.linear_parameters == ("ka", "ke")  # V divides, though no equation has it
    data = wf.Dataset(HOURS, plasma(1), names=["conc"], noise="lognormal")
    bounded = wf.fit(ORAL, data, bounds={"ka": (0.4, 10), "ke": (0.01, 0.4), "V": (1, 200)})
    free = wf.fit(ORAL, data, bounds={"ka": (0.4, 10), "ke": (0.01, 0.4)})
    assert np.allclose(free.estimate, bounded.estimate, rtol=1e-4)


@pytest.mark.slow
def test_given_initial_values_make_estimates_more_precise():
    model, t = wf.Model.from_text("N' = r*N*(1 - N/K)"), np.linspace(0, 6, 31)
    with_initial_value = wf.Model.from_text("N' = r*N*(1 - N/K)\nN(0) = 0.1")
    errors = []
    for seed in range(10):
        x = 1 / (1 + 9 * np.exp(-t)) + 0.05 * np.random.default_rng(seed).standard_normal(len(t))
        errors.append([wf.fit(m, wf.Dataset(t, x, names=["N"]))["r"].error for m in (with_initial_value, model)])
    assert np.median(np.array(errors)[:, 0] / np.array(errors)[:, 1]) < 0.8


def test_velocity_of_a_second_order_equation_is_hidden():
    model = wf.Model.from_text("x'' = -w*x - c*x'")
    t = np.linspace(0, 10, 81)
    u = wf.simulate(model, [0.2, 2.0], [1.0, 0.0], t).states
    fit = wf.fit(model, wf.Dataset(t, u[:, 0] + 0.02 * np.random.default_rng(1).standard_normal(81), names=["x"]))
    assert fit.success
    assert np.all(np.abs(fit.estimate - [0.2, 2.0]) < 4 * fit.errors)


def test_trajectories_have_separate_initial_values_and_share_parameters():
    t = np.linspace(0, 5, 25)
    chain = wf.Model.from_text("x' = -k*x\ny' = k*x - m*y")
    parts = []
    for n, (k, x0) in enumerate(((0.5, 2.0), (1.0, 4.0), (1.0, 1.0))):
        y = wf.simulate(chain, [k, 0.3], [x0, 0.5], t).states[:, 1]
        parts.append(wf.Dataset(t, y + 0.01 * np.random.default_rng(n).standard_normal(25), names=["y"]))
    data = wf.Dataset.join(parts, ["a", "b", "c"])
    fit = wf.fit(chain, data, local={"k": {"a": "slow", "b": "fast", "c": "fast"}}, bounds={"k": (0, 5), "m": (0, 5)})
    assert fit.success
    assert fit.model.parameters == ("k_slow", "k_fast", "m")
    assert np.all(np.abs(fit.estimate - [0.5, 1.0, 0.3]) < 4 * fit.errors)
    assert [round(q.value) for q in fit.initial["x"].values()] == [2, 4, 1]


def test_piecewise_constant_input_drives_a_hidden_state():
    model = wf.Model.from_text("h' = -a*h + u\nT' = b*h - c*T", inputs=["u"])
    t = np.linspace(0, 20, 81)
    u = (t % 8 < 4).astype(float)
    from weakform.model.inputs import Inputs

    solved = wf.simulate(model, [0.7, 0.5, 0.3], [0.0, 0.0], t, inputs=Inputs(t, u[:, None], (True,))).states
    values = solved[:, 1] + 0.01 * np.random.default_rng(1).standard_normal(81)
    data = wf.Dataset(t, values, names=["T"], inputs={"u": u}, hold=True)
    fit = wf.fit(model, data, bounds={"a": (0.35, 5), "b": (0, 5), "c": (0, 0.6)}, fixed={"h(0)": 0.0})
    assert fit.converged
    assert np.all(np.abs(fit.estimate[:3] - [0.7, 0.5, 0.3]) < 4 * fit.errors[:3])


def test_trajectory_begins_at_zero_if_first_sample_is_later():
    model = wf.Model.from_text("x' = -k*x\nx(0) = 4")
    t = np.linspace(2, 6, 20)
    fit = wf.fit(
        model, wf.Dataset(t, 4 * np.exp(-0.5 * t) + 0.01 * np.random.default_rng(1).standard_normal(20), names=["x"])
    )
    assert abs(fit["k"].value - 0.5) < 4 * fit["k"].error
    assert fit.nodes[0][0][0] == 0.0


def test_sparse_data_are_fitted_by_the_relaxed_model():
    t = np.linspace(0, 4, 8)
    model = wf.Model.from_text("x' = -k*x\ny' = k*x - m*y\nz' = m*y")
    u = wf.simulate(model, [1.0, 0.5], [2, 0, 0], t).states
    noisy = u + 0.02 * np.random.default_rng(1).standard_normal(u.shape)
    for rows in (8, 6):
        fit = wf.fit(model, wf.Dataset(t[:rows], noisy[:rows], names=["x", "y", "z"]))
        assert np.all(np.abs(fit.estimate - [1.0, 0.5]) < 5 * fit.errors)
    assert fit.method == "relaxed"
    with pytest.raises(DataError, match="at least 8 samples"):
        wf.fit(model, wf.Dataset(t[:6], noisy[:6], names=["x", "y", "z"]), method="mle")
    noisy[3:, 2] = np.nan  # too few values of one state for the weak form
    assert wf.fit(model, wf.Dataset(t, noisy, names=["x", "y", "z"])).method == "relaxed"


def test_derived_quantity_of_initial_values_has_a_standard_error():
    t, _, y, _ = prey(2)
    fit = wf.fit(PREY, wf.Dataset(t, y, names=["x"]), bounds=dict.fromkeys("acd", (0, 10)), fixed={"b": 1.0})
    quantity = fit.derived("b*y(0)")
    assert quantity.value == pytest.approx(fit.initial["y"].value)
    assert quantity.error == pytest.approx(fit.initial["y"].error)
    assert abs(quantity.value - 1.0) < 4 * quantity.error


def test_fixed_initial_value_is_kept_if_every_state_is_measured():
    t = np.linspace(0, 4, 30)
    data = wf.Dataset(t, 2 * np.exp(-t) + 0.01 * np.random.default_rng(1).standard_normal(30), names=["x"])
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), data, fixed={"x(0)": 2.0})
    assert fit.initial["x"].value == 2.0
    assert abs(fit["k"].value - 1) < 4 * fit["k"].error


def test_failed_search_is_no_success():
    t = np.arange(60.0)
    y = np.random.default_rng(1).poisson(100 * np.exp(-((t - 20) ** 2) / 50) + 5.0).astype(float)
    fit = wf.fit(SIR, wf.Dataset(t, y, names=["cases"], noise="poisson"), options={"time_limit": 4})
    assert not fit.success


def test_fit_can_be_saved_profiled_and_bootstrapped(tmp_path):
    t, _, y, _ = prey(3)
    fit = wf.fit(PREY, wf.Dataset(t, y, names=["x"]), bounds=dict.fromkeys("abcd", (0, 10)), fixed={"y(0)": 1.0})
    loaded = wf.FitResult.load(fit.save(tmp_path / "fit.json"))
    assert str(loaded) == str(fit)
    assert loaded.initial["y"] == fit.initial["y"]
    profile = loaded.intervals(kind="profile")
    assert np.allclose(profile[:4], fit.intervals()[:4], rtol=0.15)
    draws = fit.intervals(kind="bootstrap", runs=30)
    assert np.allclose(draws[:4].mean(axis=1), fit.estimate[:4], rtol=0.2)
    page = fit.report(tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "y (not measured)" in page


def test_parameters_of_unmeasured_expressions_are_dropped():
    model = wf.Model.from_text("x' = -k*x\nglow = scale*x")
    t = np.linspace(0, 4, 30)
    fit = wf.fit(
        model,
        wf.Dataset(t, np.exp(-t) + 0.01 * np.random.default_rng(1).standard_normal(30), names=["x"]),
        bounds={"scale": (0, 1)},
    )
    assert fit.model.parameters == ("k",)
    assert any("scale" in note for note in fit.data.notes)


@pytest.mark.parametrize("method", ["mle", "irls", "wls"])
def test_methods_that_need_every_state_refuse_hidden_ones(method):
    t, _, y, _ = prey()
    with pytest.raises(FitError, match=r"needs every state measured.*y not measured"):
        wf.fit(PREY, wf.Dataset(t, y, names=["x"]), method=method)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("x' = -k*x\nx(0) = x", r"write x\(0\) for its initial value", id="state"),
        pytest.param("x' = -k*x\nx(0) = t", "changes in time", id="time"),
        pytest.param("x' = -k*x\ny' = x\nx(0) = y(0)\ny(0) = x(0)", "in a circle", id="circle"),
        pytest.param("x' = -k*x\nx(0) = 1\nx(0) = 2", "two initial values", id="twice"),
        pytest.param("x' = -k*x\nz(0) = 1", "no equation", id="no-equation"),
        pytest.param("x' = -k*x\nx'(0) = 1", r"it needs x'' = \.\.\.", id="no-velocity"),
        pytest.param("x' = -k*x\ny = x\ny = 2*x", "two equations", id="defined-twice"),
    ],
)
def test_invalid_models_are_refused(text, words):
    with pytest.raises(ModelError, match=words):
        wf.Model.from_text(text)


@pytest.mark.parametrize(
    ("text", "times", "names", "words"),
    [
        pytest.param("x' = -k*x\nglow = s*k", 0, ["glow"], "depends on no state", id="no-state"),
        pytest.param("x' = -k*x\nglow = s*x", 0, ["glov"], "Did you mean 'glow'", id="mistyped"),
        pytest.param("x' = -k*x\nx(0) = 1", -1, ["x"], "begin at t = -1", id="before-zero"),
    ],
)
def test_invalid_data_are_refused(text, times, names, words):
    t = times + np.linspace(0, 4, 20)
    with pytest.raises(DataError, match=words):
        wf.fit(wf.Model.from_text(text), wf.Dataset(t, np.exp(-t), names=names))


def test_fewer_values_than_unknowns_are_an_error():
    model = wf.Model.from_text("x' = a*x + b*y + c*z\ny' = d*x + e*y\nz' = f*x + g*z + h*y")
    with pytest.raises(FitError, match=r"8 measured values cannot determine 11 unknowns: 8 parameters and 3 initial"):
        wf.fit(model, wf.Dataset(np.arange(8.0), np.sin(np.arange(8.0)), names=["x"]))


def test_initial_velocity_may_be_given_as_an_expression():
    t = np.linspace(0, 10, 60)
    y = np.exp(-0.1 * t) * np.cos(1.4 * t) + 0.01 * np.random.default_rng(0).standard_normal(60)
    data = wf.Dataset(t, y, names=["x"])
    fit = wf.fit(wf.Model.from_text("x'' = -k*x - c*x'\nx(0) = 1\nx'(0) = v0"), data)
    assert fit.success
    assert abs(fit["v0"].value + 0.1) < 4 * fit["v0"].error
    assert fit.initial["x'"].value == pytest.approx(fit["v0"].value)
    free = wf.fit(wf.Model.from_text("x'' = -k*x - c*x'"), data)
    ratio = free.derived("x'(0)/x(0)")
    assert abs(ratio.value + 0.1) < 4 * ratio.error
    assert str(fit["k"]).startswith("k = ")


CHAIN = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w")


def chain(seed=0):
    t = np.linspace(0, 10, 60)
    w = wf.simulate(CHAIN, [0.5, 0.3], [2.0, 0.4], t).states[:, 1]
    return wf.Dataset(t, w + 0.005 * np.random.default_rng(seed).standard_normal(60), names=["w"])


def test_initial_values_may_be_tied_to_each_other():
    fit = wf.fit(CHAIN, chain(), tied={"w(0)": "x(0)/5"}, bounds={"x(0)": (0, 10)})
    assert fit.success
    assert abs(fit["x(0)"].value - 2) < 4 * fit["x(0)"].error
    assert fit.initial["w"].value == pytest.approx(fit["x(0)"].value / 5)


def test_the_initial_value_of_one_trajectory_may_be_fixed():
    fit = wf.fit(CHAIN, wf.Dataset.join([chain(1), chain(2)], ["a", "b"]), fixed={"w(0)_a": 0.4})
    assert fit.initial["w"]["a"].value == 0.4
    assert fit.initial["w"]["a"].error == 0
    assert abs(fit.initial["w"]["b"].value - 0.4) < 4 * fit.initial["w"]["b"].error


def test_log_scale_may_apply_to_one_copy_of_a_local_parameter():
    data = wf.Dataset.join([chain(1), chain(2)], ["a", "b"])
    plain = wf.fit(CHAIN, data, local=["a"])
    mixed = wf.fit(CHAIN, data, local=["a"], log=["a_a"])
    assert mixed.status is plain.status is Status.UNDETERMINED  # a and b exchanged fit nearly as well
    assert np.all(np.abs(mixed.estimate - plain.estimate) < 0.02 * plain.errors)
    assert mixed.errors == pytest.approx(plain.errors, rel=0.02)


def test_each_trajectory_may_have_its_own_noise_level():
    t = np.linspace(0, 10, 60)
    w = wf.simulate(CHAIN, [0.5, 0.3], [2.0, 0.4], t).states[:, 1]
    rng = np.random.default_rng(3)
    parts = [wf.Dataset(t, w + sigma * rng.standard_normal(60), names=["w"]) for sigma in (0.002, 0.05)]
    box = {"a": (0.4, 1), "b": (0, 0.4)}
    own = wf.fit(CHAIN, wf.Dataset.join(parts, own_noise=True), bounds=box)
    shared = wf.fit(CHAIN, wf.Dataset.join(parts), bounds=box)
    alone = wf.fit(CHAIN, parts[0], bounds=box)
    assert own["a"].error < 1.2 * alone["a"].error < shared["a"].error
    assert abs(own["a"].value - 0.5) < 4 * own["a"].error


def test_a_column_cannot_be_input_and_measured():
    model = wf.Model.from_text("x' = -a*x + u", inputs=["u"])
    t = np.linspace(0, 5, 30)
    data = wf.Dataset(t, np.column_stack([t, t]), names=["x", "u"], inputs={"u": t})
    with pytest.raises(DataError, match="'u' is both a measured column and an input"):
        wf.fit(model, data)


@pytest.mark.parametrize(
    ("begin", "fixed"),
    [pytest.param("-1", {}, id="number"), pytest.param("x0", {"x0": -2.0}, id="fixed")],
)
def test_initial_values_outside_the_domain_are_named(begin, fixed):
    model = wf.Model.from_text(f"x' = -a*sqrt(x)\nw' = a*x - b*w\nx(0) = {begin}")
    with pytest.raises(FitError, match=r"not defined at the initial values: x' is not a finite number at x\(0\) = -"):
        wf.fit(model, chain(), fixed=fixed)


def test_initial_values_long_before_the_data_get_a_note():
    model = wf.Model.from_text("x' = -a*x\nx(0) = 2")
    t = 1900 + np.linspace(0, 4, 20)
    fit = wf.fit(model, wf.Dataset(t, np.exp(1900 - t), names=["x"], sigma=0.1), bounds={"a": (0, 3)}, starts=1)
    assert any("long before the first sample, t = 1900" in note for note in fit.data.notes)


def test_parameter_that_ended_at_zero_is_not_reported_as_undetermined():
    """Once E0, beta and gamma of an SEIR model were reported as undetermined, judged at a point far from the fit."""
    model = wf.Model.from_text("x' = -k*x + s\ny' = k*x - m*y\nx(0) = 1\ny(0) = y0")
    t = np.linspace(0.5, 8, 25)
    y = wf.simulate(model, [0.8, 0.4, 0.0, 0.0], [1.0, 0.0], np.append(0, t)).states[1:, 1]
    fit = wf.fit(
        model,
        wf.Dataset(t, y + 0.01 * np.random.default_rng(4).standard_normal(25), names=["y"]),
        bounds={"k": (0, 5), "m": (0, 5), "s": (0, 5), "y0": (0, 5)},
    )
    assert not any("cannot be determined" in warning for warning in fit.warnings)


def test_observable_has_a_band_even_where_its_states_are_given():
    """Where the states are known exactly, the scale of an expression of them is still uncertain."""
    model = wf.Model.from_text("x' = -k*x\nglow = s*x\nx(0) = 5")
    t = np.linspace(0, 6, 30)
    y = 2 * 5 * np.exp(-0.5 * t) + 0.1 * np.random.default_rng(1).standard_normal(30)
    fit = wf.fit(model, wf.Dataset(t, y, names=["glow"]))
    for kind in ("delta", "sampling"):
        band = fit.predict(t, kind=kind)
        assert (band["x"][0] == 5).all()
        assert band["glow"][0, 1] < band["glow"][0, 0] < band["glow"][0, 2]
        assert np.ptp(band["glow"][0]) == pytest.approx(2 * 5 * fit.quantile(0.95) * fit["s"].error, rel=0.3)


def test_undetermined_quantities_have_no_interval_and_determined_ones_have(tmp_path):
    model = wf.Model.from_text("x' = -k*x\nglow = s*x")
    t = np.linspace(0, 10, 50)
    data = wf.Dataset(t, 3 * np.exp(-0.3 * t) + 0.05 * np.random.default_rng(0).standard_normal(50), names=["glow"])
    for bounds in (None, {"s": (0.1, 2.0)}):  # with bounds the fit may end at one of them
        fit = wf.fit(model, data, bounds=bounds)
        assert fit.status is Status.UNDETERMINED
        assert fit.undetermined == {"s", "x(0)"}
        for unknown in (fit["s"], fit.initial["x"], fit.derived("s/2")):
            assert unknown.error == np.inf
            assert unknown.note == "cannot be determined"
        assert fit["k"].error < 0.01
        level = fit.derived("s*x(0)")
        assert abs(level.value - 3) < 4 * level.error < 0.2
        curves = fit.states
        assert np.isinf(curves["x"].upper).all()
        assert np.isfinite(curves["glow"].upper).all()
        assert "not determined" in str(fit)
    fit.save(tmp_path / "fit.json")
    assert wf.FitResult.load(tmp_path / "fit.json").undetermined == fit.undetermined


def test_wrong_model_is_rejected_even_if_a_parameter_is_at_its_bound():
    model = wf.Model.from_text("x' = -k*x\ny' = k*x - g*y\nx(0) = 10\ny(0) = 0\no = s*y")
    t = np.linspace(0, 10, 45)
    y = 100 / 3 * (np.exp(-0.2 * t) - np.exp(-0.5 * t)) + 0.1 * np.random.default_rng(0).standard_normal(45)
    fit = wf.fit(model, wf.Dataset(t, y, names=["o"]), bounds={"k": (0.25, 3), "g": (0, 0.25), "s": (0, 1)})
    assert fit.status is Status.REJECTED


def test_noise_free_data_with_given_sigma_do_not_reject_the_model():
    """Such data serve to plan experiments. A rate whose true value is zero is not undetermined."""
    model = wf.Model.from_text("x' = -k*x\ny' = k*x - g*y\nx(0) = 10\ny(0) = 0")
    t = np.linspace(0, 10, 60)
    y = wf.simulate(model, [0.0, 0.6], None, t).states[:, 1]
    fit = wf.fit(model, wf.Dataset(t, y, names=["y"], sigma=0.1), bounds={"k": (0.3, 3), "g": (-1, 0.25)})
    assert fit.status is Status.CONVERGED
    assert "given sigma contradicts" in fit.warnings[0]
    assert not any("cannot be determined" in warning for warning in fit.warnings)


@pytest.mark.parametrize("unit", [1e-9, 1e6])
def test_units_of_time_do_not_matter(unit):
    t = np.linspace(0, 10, 100)
    w = np.sqrt(4 - 0.15**2)
    y = np.exp(-0.15 * t) * (np.cos(w * t) + 0.15 / w * np.sin(w * t))
    y += 0.05 * np.random.default_rng(0).standard_normal(100)
    model = wf.Model.from_text("x'' = -w*x - c*x'")
    base, rescaled = (wf.fit(model, wf.Dataset(t * scale, y, names=["x"])) for scale in (1.0, unit))
    assert rescaled.success
    assert rescaled["w"].value * unit**2 == pytest.approx(base["w"].value, rel=1e-6)
    assert rescaled["w"].error * unit**2 == pytest.approx(base["w"].error, rel=1e-5)


def test_units_of_states_do_not_matter():
    t = np.linspace(0, 20, 100)
    text = "x' = y\ny' = mu*(1 - (x/{0})^2)*y - w*x"
    x = wf.simulate(wf.Model.from_text(text.format(1.0)), [2.0, 1.3], [1.0, 0.0], t).states[:, 0]
    x += 0.1 * np.random.default_rng(1).standard_normal(100)
    base, rescaled = (
        wf.fit(wf.Model.from_text(text.format(scale)), wf.Dataset(t, scale * x, names=["x"])) for scale in (1.0, 1e10)
    )
    assert rescaled.estimate == pytest.approx(base.estimate, rel=1e-5)
    assert rescaled.errors == pytest.approx(base.errors, rel=1e-5)


@pytest.mark.parametrize("method", ["wendy", "output-error", "hybrid"])
def test_hill_exponent_of_a_state_that_starts_at_zero(method):
    """At zero the derivative `x^n log x` is not a number, and below zero `x^n` is undefined."""
    model = wf.Model.from_text("m' = k/(1 + (p/K)^n) - d*m\np' = m - 0.3*p\nm(0) = 0\np(0) = 0")
    truth = {"k": 2.0, "K": 3.0, "n": 3.0, "d": 0.4}
    t = np.linspace(0, 30, 60)
    p = wf.simulate(model, [truth[name] for name in model.parameters], None, t).states[:, 1]
    data = wf.Dataset(t, p + 0.1 * np.random.default_rng(2).standard_normal(60), names=["p"])
    near = {name: 1.1 * value for name, value in truth.items()}
    box = {"k": (0, 10), "K": (0.1, 20), "n": (1, 8), "d": (0, 3)}
    fit = wf.fit(model, data, bounds=box, method=method, start=near, starts=2)
    assert fit.success
    for name, value in truth.items():
        assert abs(fit[name].value - value) < 4 * fit[name].error < 2 * value


def test_derived_quantity_may_contain_the_initial_value_of_one_trajectory():
    fit = wf.fit(CHAIN, wf.Dataset.join([chain(1), chain(2)], ["a", "b"]), bounds={"w(0)": (0, 2)})
    ratio = fit.derived("w(0)_a/w(0)_b")
    assert abs(ratio.value - 1) < 4 * ratio.error


def test_rates_of_an_exchange_between_equal_states_are_estimated():
    """The natural sizes once missed these rates: between states of equal size an exchange has no net effect."""
    model = wf.Model.from_text(
        "A' = -(CL/V)*A - (Q/V)*A + (Q/W)*B\nB' = (Q/V)*A - (Q/W)*B\nconc = A/V\nA(0) = 100\nB(0) = 0"
    )
    truth = {"CL": 5.0, "Q": 3.0, "V": 10.0, "W": 25.0}
    t = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 36])
    clean = wf.simulate(model, [truth[n] for n in model.parameters], None, np.append(0, t)).states[1:, 0] / 10
    noisy = clean * np.exp(0.1 * np.random.default_rng(3).standard_normal(13))
    fit = wf.fit(model, wf.Dataset(t, noisy, "lognormal", names=["conc"]))
    assert fit.success
    for name, value in truth.items():
        assert abs(fit[name].value - value) < 4 * fit[name].error


def test_times_that_differ_by_rounding_do_not_change_the_fit():
    """Times such as 0.3 and 0.1 + 0.2 in one table: the variance of an interval between them would be rounding."""
    model = wf.Model.from_text("x' = -a*x\nw' = a*x - b*w")
    t = np.linspace(0, 9, 31)
    u = wf.simulate(model, [0.5, 0.3], [2.0, 0.4], t).states + 0.03 * np.random.default_rng(0).standard_normal((31, 2))
    third = np.arange(31) % 3 == 1
    merged = wf.Dataset(t, np.column_stack([np.where(third, u[:, 0], np.nan), u[:, 1]]), names=["x", "w"])
    times = np.concatenate([t, t[third] * (1 + 4e-16)])
    values = np.full((len(times), 2), np.nan)
    values[:31, 1], values[31:, 0] = u[:, 1], u[third, 0]
    order = np.argsort(times, kind="stable")
    assert 0 < np.diff(times[order]).min() < 1e-14
    separate = wf.Dataset(times[order], values[order], names=["x", "w"])
    whole, split = (wf.fit(model, data, method="relaxed") for data in (merged, separate))
    assert split.method == "relaxed"  # once the search did not converge, and another method was tried
    assert split.estimate == pytest.approx(whole.estimate, rel=1e-5)
    assert split.log_likelihood == pytest.approx(whole.log_likelihood, abs=1e-4)
