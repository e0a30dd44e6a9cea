"""What a newcomer does and meets: odd scales, models that cannot be identified, short series, wrong arguments."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

import weakform as wf

T = np.linspace(0, 10, 60)
EPS = np.random.default_rng(0).standard_normal(60)
LOGISTIC = wf.Model.from_text("N' = r*N*(1 - N/K)")
N = 10 / (1 + 9 * np.exp(-T))
DATA = wf.Dataset(T, N + 0.1 * EPS)
DECAY = wf.Dataset(T, 5 * np.exp(-0.3 * T) + 0.05 * EPS)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 5e4, 1e9, 1e15])
def test_no_first_guess_is_needed_at_any_scale(scale):
    fit = wf.fit(LOGISTIC, wf.Dataset(T, scale * (N + 0.1 * EPS)))
    assert fit.success
    assert fit["K"].value / scale == pytest.approx(10, rel=0.02)
    assert fit["r"].value == pytest.approx(1, rel=0.05)


def test_it_agrees_with_curve_fit_on_the_analytic_solution():
    def solution(t, n0, r, K):
        return K / (1 + (K / n0 - 1) * np.exp(-r * t))

    best, covariance = curve_fit(solution, T, N + 0.1 * EPS, [1.0, 1.0, 10.0])
    fit = wf.fit(LOGISTIC, DATA)
    assert fit["r"].value == pytest.approx(best[1], abs=0.05 * np.sqrt(covariance[1, 1]))
    assert fit["K"].value == pytest.approx(best[2], abs=0.05 * np.sqrt(covariance[2, 2]))
    assert fit["r"].error == pytest.approx(np.sqrt(covariance[1, 1]), rel=0.03)
    assert fit["K"].error == pytest.approx(np.sqrt(covariance[2, 2]), rel=0.03)


@pytest.mark.parametrize(("text", "told"), [("u' = -(a + b)*u", "a + b"), ("u' = -a*b*u", "a*b")])
def test_what_cannot_be_told_apart_has_no_small_error(text, told):
    fit = wf.fit(wf.Model.from_text(text), DECAY)
    assert (fit.errors > 10 * np.abs(fit.estimate)).all()
    assert "product or sum" in " ".join(fit.warnings)
    combination = fit.derived(told)
    assert combination.value == pytest.approx(0.3, rel=0.02)
    assert combination.error < 0.01


def test_a_parameter_without_information_is_named():
    fit = wf.fit(LOGISTIC, wf.Dataset(T[:30], 0.01 * np.exp(0.5 * T[:30]) + 0.001 * EPS[:30]))
    assert fit["r"].value == pytest.approx(0.5, rel=0.05)
    assert fit["r"].error < 0.01
    assert any(warning.startswith("K ") for warning in fit.warnings)


def test_profile_of_strongly_correlated_parameters():
    from weakform.forward.solve import simulate

    model = wf.Model.from_text("u' = -V*u/(Km + u)")
    u = simulate(model, [2.0, 1.0], [0.3], T).states[:, 0]
    fit = wf.fit(model, wf.Dataset(T, u + 0.0005 * EPS))
    wald, profile = np.diff(fit.intervals()), np.diff(fit.intervals(kind="profile"))
    assert np.allclose(profile / wald, 1.0, atol=0.25)


def test_one_parameter_has_a_profile():
    fit = wf.fit(wf.Model.from_text("u' = -k*u"), DECAY)
    assert np.allclose(fit.intervals(kind="profile"), fit.intervals(), atol=2e-4)
    assert wf.fit(LOGISTIC, DATA, fixed={"K": 10}).intervals(kind="profile")[0].tolist() == [10, 10]


@pytest.mark.parametrize(("end", "n"), [(2, 8), (10, 8), (10, 12), (10, 100)])
def test_noise_free_decay_of_any_length(end, n):
    t = np.linspace(0, end, n)
    fit = wf.fit(wf.Model.from_text("u' = -k*u"), wf.Dataset(t, np.exp(-0.5 * t)))
    assert fit["k"].value == pytest.approx(0.5, rel=1e-4)


def test_a_fit_that_explains_nothing_says_so():
    problem = wf.problems.get("lorenz")
    fit = wf.fit(problem.model, problem.simulate(M=40, noise=1e-4, seed=3), bounds=problem.bounds)
    assert any("explains little of u1" in warning for warning in fit.warnings)


def test_intervals_of_short_series_use_student_s_t():
    covered = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        t = np.linspace(0, 5, 9)
        fit = wf.fit(
            wf.Model.from_text("u' = -k*u"), wf.Dataset(t, 5 * np.exp(-0.4 * t) + 0.2 * rng.standard_normal(9))
        )
        low, high = fit["k"].interval
        covered += low <= 0.4 <= high
    assert covered >= 51  # 95% of 60 is 57; 51 or fewer has probability 0.02


def test_a_wrong_sigma_is_not_a_wrong_model():
    fit = wf.fit(LOGISTIC, wf.Dataset(T, N + 0.1 * EPS, sigma=1.0))
    assert any("11 times smaller" in warning for warning in fit.warnings)
    assert not any("does not fit" in warning for warning in fit.warnings)


def test_sigma_zero_on_noisy_data_is_doubted():
    fit = wf.fit(LOGISTIC, wf.Dataset(T, N + 0.1 * EPS, sigma=0))
    assert np.isnan(fit.errors).all()
    assert "not noise-free" in fit.warnings[0]


FIT = wf.fit(LOGISTIC, DATA)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: wf.fit(LOGISTIC, DATA, method=None),
        lambda: wf.fit(LOGISTIC, DATA, bounds=5),
        lambda: wf.fit(LOGISTIC, DATA, bounds={(0, 1), (2, 3)}),
        lambda: wf.fit(LOGISTIC, DATA, fixed=["r"]),
        lambda: wf.fit(LOGISTIC, DATA, fixed={"K": 0.0}),
        lambda: wf.fit(LOGISTIC, DATA, seed=-1),
        lambda: wf.fit(LOGISTIC, DATA, seed=None),
        lambda: wf.fit(LOGISTIC, DATA, basis="local"),
        lambda: wf.fit(LOGISTIC, DATA, basis=wf.Local),
        lambda: wf.fit(LOGISTIC, DATA, basis=wf.Local(radius="a")),
        lambda: wf.fit(LOGISTIC, DATA, options=5),
        lambda: wf.fit(LOGISTIC, DATA, options={"tolerance": "a"}),
        lambda: wf.fit(LOGISTIC, DATA, options={"max_iterations": 3.5}),
        lambda: wf.fit(wf.Model.from_text("N' = N"), DATA),
        lambda: FIT.derived("r", level=95),
        lambda: FIT.intervals("0.9"),
        lambda: FIT.intervals(kind="bootstrap", runs=1),
        lambda: FIT.intervals(kind="bootstrap", runs="a"),
        lambda: FIT.intervals(kind="bootstrap", seed=-1),
        lambda: wf.Dataset(1.0, N),
        lambda: wf.Dataset(T, N, noise=None),
        lambda: wf.Dataset(T, N, noise=0.1),
        lambda: wf.Dataset(T, N, names=5),
        lambda: wf.Dataset(T, N, names=[5]),
        lambda: wf.Dataset(T, N + 0j),
        lambda: wf.Dataset(pd.date_range("2020", periods=60), N),
        lambda: wf.Dataset(T, 5 * np.exp(-0.3 * T) - 3, noise="lognormal"),
        lambda: wf.Dataset.from_frame(np.c_[T, N]),
        lambda: wf.Dataset.from_frame(pd.DataFrame()),
        lambda: wf.Dataset.from_frame(pd.DataFrame({"t": T, "Ny": N}), names="Ny"),
        lambda: wf.Dataset.from_csv(5),
        lambda: wf.Model(lambda t, u, p: [p[0] * u[0]], None, ["r"]),
        lambda: LOGISTIC(0, ["a"], [1.0, 2.0]),
        lambda: wf.problems.get("logistic").simulate(M=30.0),
        lambda: wf.problems.get("logistic").simulate(M=30, noise="a"),
    ],
)
def test_every_refusal_is_one_of_our_errors(wrong):
    with pytest.raises(wf.WeakformError):
        wrong()


def test_a_table_without_a_header(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("\n".join(f"{t},{n}" for t, n in zip(T, N, strict=True)))
    with pytest.raises(wf.WeakformError, match="header"):
        wf.Dataset.from_csv(path)


def test_results_behave_like_containers():
    assert "r" in FIT
    assert list(FIT) == ["K", "r"]
    assert FIT == FIT
    assert DATA != DECAY
