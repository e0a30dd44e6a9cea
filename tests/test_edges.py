"""Difficult problems: draws of each row of `benchmarks/edges.py`, and fits that must not be called a success."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import weakform as wf
from weakform import Status
from weakform.inference.profiles import compute_profile
from weakform.inference.refits import prepare_refits

ROOT = Path(__file__).parent.parent
_SPEC = importlib.util.spec_from_file_location("edges", ROOT / "benchmarks" / "edges.py")
edges = importlib.util.module_from_spec(_SPEC)
sys.modules["edges"] = edges
_SPEC.loader.exec_module(edges)

SLOW = (
    "Oregonator",
    "Duffing",
    "Rosenzweig",
    "van der Pol, μ",
    "van der Pol, M = 45, 10%",
    "van der Pol, M = 30, noise-free",
    "Chua, M = 20, 5%",
    "HIV, M = 60, log-normal 2%",
    "oscillator, middle 60% missing",
    "Monod",
    "Hindmarsh–Rose, M = 513",
    "Goodwin",
)
ROWS = {name: make for rows in (edges.OPTIMUM, edges.HONEST, edges.NOISE_FREE) for name, make in rows.items()}


@pytest.mark.parametrize("name", [name for name in ROWS if not name.startswith(SLOW)])
def test_fit_succeeds_at_the_right_optimum(name):
    ended = edges.run(ROWS[name], 1, compare=False)  # the benchmark compares with the fit from the truth
    assert ended.right, ended.words
    assert ended.success, ended.words


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith(SLOW)])
def test_no_fit_succeeds_at_a_wrong_optimum(name):
    outcomes = [edges.run(ROWS[name], seed) for seed in range(3)]
    assert not any(outcome.success and not outcome.right for outcome in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 6, 8])
def test_fit_converges_if_noise_hides_the_initial_states(seed):
    ended = edges.run(ROWS["Oregonator, M = 200, 5%"], seed, compare=False)
    assert ended.right, ended.words
    assert ended.success, ended.words


@pytest.mark.slow
def test_few_noisy_samples_give_no_wrong_success():
    problem = wf.problems.get("duffing")
    truth = np.array(problem.truth)
    for noise, seed in ((0.1, 14507937400516883), (0.2, 3)):
        data = problem.simulate(M=20, noise=noise, seed=seed, by_state=True)
        fit = wf.fit(problem.model, data, bounds=problem.bounds)
        assert not fit.success or (np.abs(fit.estimate - truth) < 5 * fit.errors).all()


OFFSET = wf.Model.from_text("x' = -k*x")


def offset(t, seed):
    """Return a noisy decay to a level of one; the model decays to zero."""
    return 5 * np.exp(-0.7 * t) + 1 + 0.1 * np.random.default_rng(seed).standard_normal(len(t))


def ten_series():
    t = np.linspace(0, 5, 39)
    return wf.Dataset.join([wf.Dataset(t, offset(t, k)) for k in range(10)], [f"run {k}" for k in range(10)])


def repeats(n, m, **more):
    t = np.repeat(np.linspace(0, 5, n), m)
    return wf.Dataset(t, offset(t, 1), **more)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(ten_series, id="ten series of 39"),
        pytest.param(lambda: repeats(39, 20), id="39 times, 20 repeats"),
        pytest.param(lambda: repeats(20, 5, sigma=0.1), id="20 times, 5 repeats, sigma given"),
    ],
)
def test_wrong_model_is_rejected_in_every_design(make):
    fit = wf.fit(OFFSET, make())
    assert fit.status is Status.REJECTED
    assert fit.goodness.p_value < 1e-6
    assert any("does not fit the data" in warning for warning in fit.warnings)
    assert not any("sigma" in warning for warning in fit.warnings)


def test_unrefined_is_no_success_and_unresolved_is_not_sound():
    assert not Status.UNREFINED.success
    assert not Status.UNREFINED.converged
    assert Status.UNRESOLVED.converged
    assert not Status.UNRESOLVED.sound


GROWTH = wf.problems.get("logistic")
DATA = GROWTH.simulate(M=60, noise=0.03, seed=2).trajectories[0]


@pytest.mark.slow
def test_single_absurd_value_is_named_by_its_row():
    values = DATA.values.copy()
    values[16] = -999
    fit = wf.fit(GROWTH.model, wf.Dataset(DATA.times, values, names=["u"]))
    assert not fit.success
    assert "row 17, u = -999" in fit.warnings[0]
    assert not any("does not fit" in warning for warning in fit.warnings)
    robust = wf.fit(GROWTH.model, wf.Dataset(DATA.times, values, "student", names=["u"]))
    assert robust.success
    assert (np.abs(robust.estimate - GROWTH.parameters) < 4 * robust.errors).all()


PREY = wf.problems.get("lotka-volterra")
TIMES = np.linspace(0, PREY.duration, 201)
STATES = wf.simulate(PREY.model, PREY.truth, PREY.initial, TIMES).states


def correlated(seed):
    e = np.random.default_rng(seed).standard_normal(STATES.shape)
    for k in range(1, len(e)):
        e[k] = 0.6 * e[k - 1] + 0.8 * e[k]
    return STATES + 0.05 * STATES.std(axis=0) * e


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        pytest.param(
            STATES * np.exp(0.15 * np.random.default_rng(1).standard_normal(STATES.shape)),
            "gaussian",
            'try noise="lognormal"',
            id="grows with the level",
        ),
        pytest.param(
            STATES + 0.1 * np.random.default_rng(1).standard_normal(STATES.shape),
            "lognormal",
            'try noise="gaussian"',
            id="shrinks with the level",
        ),
        pytest.param(
            np.random.default_rng(1).poisson(40 * STATES).astype(float) / 40,
            "gaussian",
            "grows with its level",
            id="counts over their scale",
        ),
        pytest.param(correlated(1), "gaussian", "correlated from sample to sample", id="correlated"),
    ],
)
def test_wrong_kind_of_noise_is_reported_as_misstated(values, kind, words):
    fit = wf.fit(PREY.model, wf.Dataset(TIMES, values, kind, names=list(PREY.model.states)), bounds=PREY.bounds)
    assert fit.status is Status.MISSTATED
    assert any(words in warning for warning in fit.warnings)
    assert not any("does not fit" in warning for warning in fit.warnings)


def test_right_kind_of_noise_is_rarely_reported_as_misstated():
    statuses = [
        wf.fit(PREY.model, PREY.simulate(M=60, noise=0.05, seed=seed), bounds=PREY.bounds).status for seed in range(20)
    ]
    assert sum(status is Status.CONVERGED for status in statuses) >= 19


@pytest.mark.slow
def test_profiles_and_refits_agree_with_wald_intervals():
    """Log-normal noise over decades, fitted by the relaxed model; and stiff equations, fitted by solving them."""
    for name in ("HIV, M = 60, log-normal 1%", "Robertson, M = 100, 1%, log scale"):
        trial = ROWS[name](0)
        fit = wf.fit(trial.model, trial.data, **trial.arguments)
        assert fit.success
        wald = fit.intervals(kind="wald")
        for j, parameter in list(enumerate(fit.model.parameters))[:2]:
            low, high = compute_profile(fit, parameter).interval
            assert low < fit.estimate[j] < high
            assert high - low == pytest.approx(wald[j, 1] - wald[j, 0], rel=0.3)
        drawn = prepare_refits(fit).refit_drawn_data(np.random.default_rng(0))
        assert np.abs((drawn.p - fit.estimate) / fit.errors).max() < 6


def test_interval_at_a_bound_covers_the_truth():
    t = np.linspace(0, 6, 60)
    model = wf.Model.from_text("x' = -k*x + s")
    inside = 0
    for seed in range(20):
        y = 5 * np.exp(-0.7 * t) + 0.1 * np.random.default_rng(seed).standard_normal(60)
        fit = wf.fit(model, wf.Dataset(t, y), bounds={"k": (0, 5), "s": (0, 5)})
        low, high = fit.intervals()[model.parameters.index("s")]
        assert 0 <= low < high
        inside += low <= 0 <= high
        if fit.at_bound.any():
            assert "by its profile" in fit["s"].note
            assert "by its profile" in str(fit)
    assert inside >= 17


def test_model_with_a_square_root_fits_data_that_are_partly_negative():
    t, rng = np.linspace(0, 3.8, 60), np.random.default_rng(0)
    values = (2 - 0.5 * t) ** 2 + 0.1 * rng.standard_normal(60)
    assert (values < 0).any()
    fit = wf.fit(wf.Model.from_text("h' = -k*sqrt(h)"), wf.Dataset(t, values))
    assert fit.success
    assert abs(fit["k"].value - 1) < 4 * fit["k"].error


@pytest.mark.parametrize("method", ["wendy", "relaxed"])
def test_residual_projection_is_idempotent_and_agrees_with_output_error(method):
    from weakform.collocation.residual_projection import ResidualProjection
    from weakform.fitting import judgement

    projections: list[ResidualProjection] = []
    assess_residuals = judgement.assess_residuals

    def spy(*args, project_noise, **keywords):
        projections.append(project_noise)
        return assess_residuals(*args, project_noise=project_noise, **keywords)

    noise = np.random.default_rng(0).standard_normal((41, 2, 3))
    data = PREY.simulate(M=40, noise=0.05, seed=3)
    projected = []
    for name in ("output-error", method):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judgement, "assess_residuals", spy)
            wf.fit(PREY.model, data, bounds=PREY.bounds, method=name)
        projected.append(projections[-1](noise))
    assert np.allclose(projected[0], projected[1], atol=0.02)
    # A projection leaves what it returns unchanged.
    assert np.allclose(projections[-1](projected[1]), projected[1], atol=1e-4)


def test_p_values_of_right_models_are_rarely_below_five_per_cent():
    """About one in twenty should be; `benchmarks/goodness.py size` counts 10,000 fits."""
    t, rejections = np.linspace(0, 10, 41), 0
    truth = 5.0 / (0.5 + (10 - 0.5) * np.exp(-0.9 * t))
    model = wf.Model.from_text("u' = r*u*(1 - u/K)")
    for seed in range(80):
        values = 10 * truth / 10 + 0.05 * truth.std() * np.random.default_rng(seed).standard_normal(41)
        fit = wf.fit(model, wf.Dataset(t, values), start={"r": 0.9, "K": 10.0}, starts=1)
        rejections += fit.goodness.p_value < 0.05
    assert 1 <= rejections <= 11
