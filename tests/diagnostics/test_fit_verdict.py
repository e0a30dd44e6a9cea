"""Warnings and status: parameters that are not determined, variation that is not explained, wrong noise."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import weakform as wf
from support import DECAYED, DRAWS, GROWN, LOGISTIC, TIMES, growth
from weakform.diagnostics import practical_identifiability
from weakform.diagnostics.fit_verdict import is_constant
from weakform.diagnostics.uncertainty import EstimateUncertainty
from weakform.diagnostics.warning_texts import describe_uncertainty
from weakform.results.status import Status


@pytest.mark.parametrize(
    ("text", "combination"),
    [pytest.param("u' = -(a + b)*u", "a + b", id="sum"), pytest.param("u' = -a*b*u", "a*b", id="product")],
)
def test_fit_reports_unidentifiable_sum_or_product(text, combination):
    fit = wf.fit(wf.Model.from_text(text), DECAYED)
    assert np.isinf(fit.errors).all()
    assert "whatever the data; fix a or b" in " ".join(fit.warnings)
    derived = fit.derived(combination)
    assert derived.value == pytest.approx(0.3, rel=0.02)
    assert derived.error < 0.01


def test_fit_warns_of_a_parameter_without_information():
    fit = wf.fit(LOGISTIC, wf.Dataset(TIMES[:30], 0.01 * np.exp(0.5 * TIMES[:30]) + 0.001 * DRAWS[:30]))
    assert fit["r"].value == pytest.approx(0.5, rel=0.05)
    assert fit["r"].error < 0.01
    assert any(warning.startswith("K ") for warning in fit.warnings)


def test_fit_warns_if_it_explains_little_of_a_column():
    problem = wf.problems.get("lorenz")
    data = problem.simulate(M=100, noise=0.01, seed=3)
    fit = wf.fit(wf.Model.from_text("u1' = -a*u1\nu2' = -b*u2\nu3' = -c*u3"), data)
    assert any("explains little of u1" in warning for warning in fit.warnings)


def test_wrong_sigma_does_not_reject_the_model():
    fit = wf.fit(LOGISTIC, wf.Dataset(TIMES, GROWN + 0.1 * DRAWS, sigma=1.0))
    assert any("11 times smaller" in warning for warning in fit.warnings)
    assert not any("does not fit" in warning for warning in fit.warnings)


def test_fit_warns_of_sigma_zero_on_noisy_data():
    fit = wf.fit(LOGISTIC, wf.Dataset(TIMES, GROWN + 0.1 * DRAWS, sigma=0))
    assert np.isnan(fit.errors).all()
    assert "not noise-free" in fit.warnings[0]


def test_far_too_small_sigma_does_not_make_a_parameter_undetermined():
    right, wrong = (
        wf.fit(LOGISTIC, wf.Dataset(TIMES, growth(1).trajectories[0].values, sigma=s), bounds={"K": (1, 100)})
        for s in (0.3, 0.003)
    )
    assert np.allclose(right.estimate, wrong.estimate, rtol=1e-3)
    assert "sigma contradicts the data" in str(wrong)
    assert "separately" not in str(wrong)


def test_error_of_a_parameter_does_not_grow_when_another_is_at_its_bound():
    t = np.linspace(0, 5, 80)
    data = wf.Dataset(t, 1 + 0.3 * t + 0.02 * np.random.default_rng(1).standard_normal(80))
    model = wf.Model.from_text("x' = s - v*x/(c + x)")
    fit = wf.fit(model, data, bounds={"v": (0, 5), "c": (0.1, 5), "s": (0, 5)})
    if fit.at_bound[fit.model.parameters.index("v")]:
        assert fit.wald_errors[fit.model.parameters.index("s")] < 0.02
        # The profile interval does not take v as fixed: with v away from its bound s may be larger.
        assert fit["s"].error > 0.05


@pytest.mark.parametrize(
    ("equations", "warning"),
    [
        ("N' = a*b*N*(1 - N/K)", "Only the product a·b can be determined"),
        ("N' = (a + b)*N*(1 - N/K)", "a, b can change together"),
        ("N' = a*N*(1 - N/K)", ""),
    ],
)
def test_fit_reports_freedoms_of_equations_with_every_state_measured(equations, warning):
    fit = wf.fit(wf.Model.from_text(equations), growth(1), bounds={"K": (1, 100), "a": (0, 10)})
    assert any(warning in sentence for sentence in fit.warnings) if warning else fit.success
    assert bool(fit.freedoms) == bool(warning)
    assert not any("Another solution" in sentence for sentence in fit.warnings)


def test_fit_names_all_quantities_of_a_freedom():
    fit = wf.fit(wf.Model.from_text("x' = r*x*(1 - y/K)"), wf.Dataset(TIMES, GROWN + 0.1 * DRAWS, names=["x"]))
    assert fit.undetermined == {"K", "r", "y"}
    assert "K, r, y can change together" in " ".join(fit.warnings)


def test_too_few_samples_are_not_reported_as_a_freedom_of_the_model():
    """Three samples do not determine the parameters, but more of them would."""
    model = wf.Model.from_text("x' = r*x*(1 - x/K)")
    fit = wf.fit(model, wf.Dataset([0.0, 0.5, 1.0], np.array([[1.0], [1.6], [2.1]]), names=["x"]))
    assert not fit.success
    assert not fit.freedoms
    assert "whatever the data" not in " ".join(fit.warnings)


def test_fit_reports_a_hidden_state_that_affects_no_measurement():
    rng = np.random.default_rng(0)
    data = wf.Dataset(TIMES, 0.1 * np.exp(0.4 * TIMES) + 0.02 * rng.standard_normal(len(TIMES)), names=["x"])
    fit = wf.fit(wf.Model.from_text("x' = r*x\ny' = q*y"), data)
    assert {"q", "y(0)"} <= fit.undetermined
    assert fit["r"].value == pytest.approx(0.4, rel=0.05)
    assert "[, ]" not in str(fit)


def test_weak_residuals_are_standardised_by_the_noise_of_the_fit():
    """From 21 samples the filter estimates the noise badly: by its σ three of ten weak residuals were 4 to 6 off."""
    model = wf.Model.from_text("hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx")
    data = wf.Dataset.from_csv(Path(__file__).parents[2] / "examples" / "lynx_hare.csv", noise="lognormal")
    ((_, scores),) = wf.fit(model, data).weak_residuals
    assert np.abs(scores).max() < 3
    assert 0.5 < scores.std() < 1.5


def test_fit_notes_a_start_that_was_moved_inside_its_bounds():
    data = wf.Dataset(TIMES, GROWN + 0.1 * DRAWS)
    fit = wf.fit(LOGISTIC, data, start={"r": 50.0, "K": 5.0}, bounds={"r": (0, 2), "K": (1, 20)})
    assert [note for note in fit.notes if "start" in note] == [
        "The start of r, 50, was outside its bounds [0, 2] and was moved inside."
    ]


@pytest.mark.parametrize(("step", "flat"), [(0.0, True), (0.75, False)])
def test_a_step_smaller_than_the_noise_is_no_constant(step, flat):
    """Values ±0.6 about ±`step`, half of 160 values each: only means over time show the step.

    The squares have the sum 160 (0.6² + 0.75²) = 148, that of noise. Those of 16 means of ten values, over their
    variance, have the sum 16·10·0.75² = 90; for noise it is about 15.
    """
    x = 0.6 * (-1.0) ** np.arange(160) + np.repeat([step, -step], 80)
    form = SimpleNamespace(x=x[None], variances=np.ones((1, 160)))
    assert is_constant(SimpleNamespace(sigma=np.ones(1), forms=[form])) is flat


@pytest.mark.parametrize(("value", "error", "named"), [(100.0, 20.0, False), (0.01, 0.02, True), (100.0, 80.0, True)])
def test_a_parameter_is_poorly_determined_by_its_relative_error(value, error, named):
    data = SimpleNamespace(samples=100)
    task = SimpleNamespace(
        problem=SimpleNamespace(model=SimpleNamespace(parameters=("k",)), forms=(), data=data), free=np.array([True])
    )
    quantified = EstimateUncertainty(
        np.array([value]), np.array([[error**2]]), "", np.array([False]), np.array([[-np.inf, np.inf]])
    )
    sentences = describe_uncertainty(task, quantified, Status.CONVERGED)
    assert [f"{error / value:.0%} of its value" in sentence for sentence in sentences] == [True] * named


def test_freedoms_of_hidden_states_are_searched_near_the_fit(monkeypatch):
    """A parameter has no information: points differ from the estimate and the fitted states by tens of percent."""
    J, D = 4, 300
    scale = SimpleNamespace(to_natural=lambda p: p)
    task = SimpleNamespace(free=np.full(J, True), scale=scale, problem=SimpleNamespace(data=None))
    information = np.diag([0.0, 100.0, 100.0, 100.0])
    fitted = np.linspace(1.0, 2.0, D)
    best = SimpleNamespace(
        refined=SimpleNamespace(information=information),
        estimate=np.array([1.0, 2.0, 3.0, 4.0]),
        latent=SimpleNamespace(nodes=[(np.zeros(1), fitted[None])]),
    )
    monkeypatch.setattr(practical_identifiability, "match", lambda data, model: SimpleNamespace(complete=False))
    monkeypatch.setattr(practical_identifiability, "ForwardExperiment", lambda *arguments: None)
    monkeypatch.setattr(practical_identifiability, "find_freedoms", lambda experiment, points: points)
    points = practical_identifiability.find_unidentifiable_directions(SimpleNamespace(model=None), task, best, False)
    assert points
    for near, (beginning,) in points:
        assert np.abs(np.log(near / best.estimate)).max() < 1
        assert np.abs(np.log(beginning / fitted)).max() < 1
        assert np.ptp(beginning / fitted) > 0


@pytest.mark.parametrize(("estimate", "is_searched"), [(50.0, False), (1.0, False), (1e-3, True)])
def test_freedoms_are_searched_only_if_a_standard_error_is_far_above_its_estimate(monkeypatch, estimate, is_searched):
    """The standard errors are one, 2% to 1000 times the estimates; nothing else hints at a freedom."""
    p = np.array([estimate, 10.0])
    task = SimpleNamespace(
        free=np.full(2, True), scale=SimpleNamespace(to_natural=lambda p: p), problem=SimpleNamespace(data=None)
    )
    best = SimpleNamespace(refined=SimpleNamespace(information=np.eye(2)), estimate=p)
    matched = SimpleNamespace(complete=True, data=None)
    monkeypatch.setattr(practical_identifiability, "match", lambda data, model: matched)
    monkeypatch.setattr(practical_identifiability, "FullyMeasuredExperiment", lambda *arguments: None)
    monkeypatch.setattr(practical_identifiability, "find_freedoms", lambda experiment, points: points)
    points = practical_identifiability.find_unidentifiable_directions(SimpleNamespace(model=None), task, best, False)
    assert bool(points) is is_searched
