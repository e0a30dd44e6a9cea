"""Intervals: Wald, profile and bootstrap agree if the model is nearly linear, and claim no more than the data."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import least_squares

import edges
import weakform as wf
from support import DECAYED, DRAWS, EXAMPLES, GROWTH, LOGISTIC, LV, TIMES, fitted
from weakform.forward.solver import simulate
from weakform.inference.profile_walk import Bracket
from weakform.inference.profiles import _ProfilePoints, _ProfileSide
from weakform.inference.refits import prepare_refits
from weakform.report.verdict_text import judge_fit
from weakform.support.errors import FitError

FIT = wf.fit(LOGISTIC, GROWTH)


def test_profile_agrees_with_wald_if_the_model_is_nearly_linear():
    _, _, fit = fitted()
    wald, profile = fit.intervals(0.95), fit.intervals(0.95, "profile")
    assert np.allclose(profile, wald, atol=0.1 * np.max(wald[:, 1] - wald[:, 0]))
    curve = fit.profiles["p1"]
    assert (np.diff(curve.values) > 0).all()
    assert curve.misfit.min() == 0.0
    assert curve.values[0] < curve.interval[0] < fit.estimate[0] < curve.interval[1] < curve.values[-1]


def test_profile_of_strongly_correlated_parameters():

    model = wf.Model.from_text("u' = -V*u/(Km + u)")
    u = simulate(model, [2.0, 1.0], [0.3], TIMES).states[:, 0]
    fit = wf.fit(model, wf.Dataset(TIMES, u + 0.0005 * DRAWS))
    wald, profile = np.diff(fit.intervals()), np.diff(fit.intervals(kind="profile"))
    assert np.allclose(profile / wald, 1.0, atol=0.25)


def test_a_model_with_one_parameter_has_a_profile():
    fit = wf.fit(wf.Model.from_text("u' = -k*u"), DECAYED)
    assert np.allclose(fit.intervals(kind="profile"), fit.intervals(), atol=2e-4)
    assert wf.fit(LOGISTIC, GROWTH, fixed={"K": 10}).intervals(kind="profile")[0].tolist() == [10, 10]


def test_profile_limits_a_parameter_at_its_bound():
    problem = wf.problems.get("logistic")
    data = problem.simulate(M=200, noise=0.05, seed=1)
    fit = wf.fit(problem.model, data, bounds={"p1": (0, 0.98)})
    low, high = fit.intervals(0.95, "profile")[0]
    assert fit.at_bound[0]
    assert high == pytest.approx(0.98, abs=1e-6)
    assert low < 0.98


def test_errors_match_the_default_intervals():
    nearly_linear = FIT
    assert np.array_equal(nearly_linear.errors, nearly_linear.wald_errors)
    model = wf.Model.from_text("u' = -V*u/(Km + u)")
    u = simulate(model, [2.0, 1.0], [3.0], TIMES).states[:, 0]
    curved = wf.fit(model, wf.Dataset(TIMES, u + 0.05 * DRAWS), bounds={"V": (0, 50), "Km": (0, 50)})
    notes = [curved[name].note for name in model.parameters]
    half = np.diff(curved.intervals(), axis=1)[:, 0] / 2 / curved.quantile(0.95)
    assert "by its profile" in notes
    for j, note in enumerate(notes):
        assert curved.errors[j] == pytest.approx(half[j] if note == "by its profile" else curved.wald_errors[j])


def test_a_profile_follows_a_curved_valley():
    """The data determine D·Ks, but neither alone: a refit that goes straight on stops at D = 0, inside the valley."""
    problem = wf.problems.get("monod")
    data = problem.simulate(M=20, noise=0.1, seed=62630373518581190, by_state=True)
    fit = wf.fit(problem.model, data, bounds=problem.bounds)
    j = fit.model.parameters.index("Ks")
    low, high = fit.intervals()[j]
    assert fit["Ks"].note == "by its profile"
    assert low < fit.estimate[j] < high
    assert fit.errors[j] > 2 * fit.wald_errors[j]
    with_sigma = data.replace_attributes(sigma=fit.sigma)
    others = {name: ends for name, ends in problem.bounds.items() if name != "Ks"}
    for value in (0.06, 0.3, 0.75, 1.5, 3.0, 4.5):
        held = wf.fit(problem.model, with_sigma, bounds=others, fixed={"Ks": value})
        risen = 2 * (fit.log_likelihood - held.log_likelihood)
        assert (risen < fit.quantile(0.95) ** 2) == (low < value < high)


def test_a_profile_that_never_rises_has_no_end_and_its_neighbour_is_followed():
    # As m and r go to infinity and b to zero, the equation becomes logistic, which 25 counts cannot exclude.
    model, t = wf.Model.from_text("x' = r*x*exp(-b*x) - m*x"), np.linspace(0, 10, 25)
    mean = simulate(model, {"r": 2.0, "b": 0.02, "m": 0.3}, [3.0], t).states
    counts = np.random.default_rng(0).poisson(mean)[:, 0].astype(float)
    fit = wf.fit(model, wf.Dataset(t, counts, noise="poisson"))
    low, high = fit.intervals(kind="profile").T
    assert (low < fit.estimate).all()
    assert np.isinf(high).tolist() == [False, True, True]
    # The lower end of r, where refits used to oscillate across the valley, by a solver and least squares.
    sd = fit.sigma[0] * fit.data.trajectories[0].scales[:, 0]

    def misfit(others, r):
        b, m, begin = others
        return (counts - simulate(model, {"r": r, "b": b, "m": m}, [begin], t).states[:, 0]) / sd

    begin = [*fit.estimate[:2], fit.denoised[0][0, 0]]
    least, end = (least_squares(misfit, begin, x_scale="jac", args=(r,)) for r in (fit.estimate[2], low[2]))
    assert 2 * (end.cost - least.cost) == pytest.approx(fit.quantile(0.95) ** 2, rel=0.03)


def test_well_determined_parameters_of_a_chaotic_system_need_profiles():
    problem = wf.problems.get("chua")
    data = problem.simulate(M=100, noise=0.2, seed=8050883709924694, by_state=True)
    fit = wf.fit(problem.model, data, bounds=problem.bounds)
    assert fit.success
    assert (fit.wald_errors < 0.1 * np.abs(fit.estimate)).all()
    assert "by its profile" in [fit[name].note for name in fit.model.parameters]
    assert (np.abs(fit.estimate - problem.parameters) < 5 * fit.errors).all()


@pytest.mark.slow
def test_a_profile_that_reaches_a_better_fit_is_reported():
    trial = next(make for group in edges.ROWS.values() for name, make in group.items() if "Monod, M = 30" in name)(15)
    fit = wf.fit(trial.model, trial.data, **trial.arguments)
    better = wf.fit(trial.model, trial.data, method="relaxed", start={"D": 0.64}, **trial.arguments)
    assert better.log_likelihood > fit.log_likelihood + 1, (
        "the search now reaches the better fit, and this test is no longer needed"
    )
    assert "A profile reached a better fit" in str(fit)
    assert "better fit" in judge_fit(fit).headline
    assert "A profile reached" not in str(better)


def test_the_error_at_a_bound_is_the_distance_to_the_other_end():
    problem = wf.problems.get("logistic")
    fit = wf.fit(problem.model, problem.simulate(M=200, noise=0.05, seed=1), bounds={"p1": (0, 0.98)})
    low, high = fit.intervals()[0]
    assert np.isnan(fit.wald_errors[0])
    assert fit.errors[0] == pytest.approx((high - low) / fit.quantile(0.95))


def test_bootstrap_is_seeded_and_agrees_with_wald():
    _, _, fit = fitted()
    first = fit.intervals(0.9, "bootstrap", runs=60, seed=1)
    second = fit.intervals(0.9, "bootstrap", runs=60, seed=1)
    assert np.array_equal(first, second)
    widths, wald = np.diff(first, axis=1), np.diff(fit.intervals(0.9), axis=1)
    assert np.allclose(widths / wald, 1.0, atol=0.4)


def test_bootstrap_intervals_of_unidentifiable_parameters_are_wide():
    model = wf.Model.from_text("u1' = a*e*u1 - b*u1*u2\nu2' = -c*u2 + d*u1*u2")
    fit = wf.fit(model, LV.simulate(M=100, noise=0.05), bounds={"a": (0, 50), "e": (0, 50)})
    ends = fit.intervals(kind="bootstrap", runs=40)
    for name in ("a", "e"):
        low, high = ends[fit.model.parameters.index(name)]
        assert high - low > 0.5 * fit[name].value


def test_profiles_and_bootstrap_include_the_prior():
    t = np.linspace(0, 5, 80)
    model = wf.Model.from_text("x' = -(a + b)*x + s")
    data = wf.Dataset(t, 0.5 + np.exp(-t) + 0.02 * np.random.default_rng(1).standard_normal(80))
    fit = wf.fit(model, data, priors={"a": ("normal", 0.6, 0.1)})
    wald = fit.intervals()[0]
    assert np.allclose(fit.intervals(kind="profile")[0], wald, atol=0.05)
    assert np.allclose(fit.intervals(kind="bootstrap", runs=150)[0], wald, atol=0.06)


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


def test_profile_and_bootstrap_are_refused_for_other_methods():
    _, _, fit = fitted(method="mle")
    for kind in ("profile", "bootstrap"):
        with pytest.raises(FitError, match="method='wendy'"):
            fit.intervals(0.95, kind)
    with pytest.raises(FitError, match="'wald', 'profile' or 'bootstrap'"):
        fit.intervals(0.95, "hdi")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda: FIT.derived("r", level=95), id="a level in per cent"),
        pytest.param(lambda: FIT.intervals("0.9"), id="a level as text"),
        pytest.param(lambda: FIT.intervals(kind="bootstrap", runs=1), id="one run"),
        pytest.param(lambda: FIT.intervals(kind="bootstrap", runs="a"), id="runs as text"),
        pytest.param(lambda: FIT.intervals(kind="bootstrap", seed=-1), id="a negative seed"),
    ],
)
def test_invalid_arguments_raise_a_weakform_error(wrong):
    with pytest.raises(wf.WeakformError):
        wrong()


def test_a_refit_that_leaves_the_constraint_is_no_point_of_a_profile():
    model, t = wf.Model.from_text("C' = -V*C/(K + C)"), np.linspace(0, 9, 25)
    x = wf.simulate(model, {"V": 1.0, "K": 0.02}, [5.0], t).states
    data = wf.Dataset(t, x + 0.13 * np.random.default_rng(3).standard_normal(x.shape), names=["C"])
    fit = wf.fit(model, data, bounds={"V": (0.01, 5.0), "K": (1e-4, 5.0)}, log=["K"], method="relaxed")
    low, high = fit.intervals()[fit.model.parameters.index("V")]
    assert 0.7 < low < 1.0 < high < 1.3


def test_an_expression_of_one_parameter_has_the_transformed_profile_interval():
    model = wf.Model.from_text("x' = -v*x/(K + x)\ny' = v*x/(K + x) - d*y")
    t = np.linspace(0, 5, 14)
    u = simulate(model, {"v": 1.5, "K": 0.5, "d": 0.4}, [4.0, 0.1], t).states
    data = wf.Dataset(t, u + 0.1 * np.random.default_rng(29).standard_normal(u.shape), names=["x", "y"])
    fit = wf.fit(model, data, bounds={"K": (0.01, 20)})
    parameter = fit["K"]
    assert parameter.note == "by its profile"
    assert fit.derived("K").interval == pytest.approx(parameter.interval)
    assert fit.derived("K").error == pytest.approx(parameter.error)
    assert fit.derived("K^2").interval == pytest.approx(tuple(end**2 for end in parameter.interval))
    assert fit.derived("-K").interval == pytest.approx((-parameter.interval[1], -parameter.interval[0]))
    assert fit.derived("K*v").note == ""


def test_verdict_names_intervals_limited_by_the_bound_of_another_parameter():
    """Goodwin's p1 and p3 move together: with p1 at most 5, p3 ends at 1.6, with p1 at most 20 at 7."""
    problem = wf.problems.get("goodwin")
    data = problem.simulate(M=256, noise=0.05, seed=0)
    fit = wf.fit(problem.model, data, bounds=problem.bounds)
    intervals = fit.intervals()
    assert fit.late.curves["p3", 0.95].beside == ("p1",)
    reasons = [reason for reason in judge_fit(fit).reasons if "bounds of p1" in reason]
    assert "p3" in reasons[0]
    wider = wf.fit(problem.model, data, bounds={**problem.bounds, "p1": (1, 20), "p3": (0, 20)})
    assert wider.intervals()[2, 1] > 2 * intervals[2, 1]


def test_initial_values_do_not_hold_a_parameter_at_its_bound_fixed():
    """Eyam: with gamma at its bound S(0) was [1046, 2507], although the eight counts are as likely with 254."""
    plague = wf.Model.from_text("S' = -beta*S*I\nI' = beta*S*I - gamma*I")
    path = EXAMPLES / "eyam.csv"
    sick = wf.Dataset.from_csv(path, time="time", names=["I"], noise="poisson")
    box = {"beta": (0, 0.1), "gamma": (0, 10)}
    fit = wf.fit(plague, sick, bounds=box)
    held = wf.fit(wf.Model.from_text("S' = -beta*S*I\nI' = beta*S*I - gamma*I\nS(0) = 254"), sick, bounds=box)
    assert fit.at_bound[fit.model.parameters.index("gamma")]
    assert fit.log_likelihood - held.log_likelihood < 0.5
    low, high = fit.initial["S"].interval
    assert low < 254 < high


def test_an_initial_value_that_is_a_parameter_has_the_interval_of_the_parameter():
    model = wf.Model.from_text("S' = -beta*S*I\nI' = beta*S*I - gamma*I\nS(0) = 261 - I(0)")
    path = EXAMPLES / "eyam.csv"
    sick = wf.Dataset.from_csv(path, time="time", names=["I"], noise="poisson")
    fit = wf.fit(model, sick, bounds={"beta": (0, 0.1), "gamma": (0, 10)})
    assert fit.initial["I"].interval == fit["I(0)"].interval


def measure_rises(model, data, bounds=None):
    """Return the rise of the misfit at each end of a profile, in quantiles, by fits that hold the parameter."""
    fit = wf.fit(model, data, bounds=bounds)
    with_sigma = data.replace_attributes(sigma=fit.sigma)
    whole = wf.fit(model, with_sigma, bounds=bounds, start=fit.params, starts=1)
    rises = {}
    for j, name in enumerate(model.parameters):
        for side, end in enumerate(fit[name].interval if fit[name].note == "by its profile" else ()):
            if np.isfinite(end) and end not in fit.bounds[j]:
                others = {key: value for key, value in fit.params.items() if key != name}
                held = wf.fit(model, with_sigma, bounds=bounds, fixed={name: end}, start=others, starts=3)
                rise = 2 * (whole.log_likelihood - held.log_likelihood)
                rises[name, side] = np.sqrt(max(rise, 0.0)) / fit.quantile(0.95)
    return rises


HARES = wf.Model.from_text("hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx")


def test_several_profiles_all_end_where_the_misfit_has_risen_enough():
    """A solution on the profile of one parameter is no point of the profile of another."""
    rises = measure_rises(HARES, wf.Dataset.from_csv(EXAMPLES / "lynx_hare.csv", noise="lognormal"))
    assert len(rises) == 8
    problem = wf.problems.get("fitzhugh-nagumo")
    for seed in (0, 2):
        more = measure_rises(problem.model, problem.simulate(M=40, noise=0.1, seed=seed), problem.bounds)
        assert len(more) == 6
        rises |= {(seed, *end): rise for end, rise in more.items()}
    assert np.allclose(list(rises.values()), 1.0, atol=0.03), rises


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["goodwin", "sir-tdi", "fitzhugh-nagumo", "logistic"])
def test_profiles_end_where_the_misfit_has_risen_enough(name, seed):
    problem = wf.problems.get(name)
    rises = measure_rises(problem.model, problem.simulate(M=40, noise=0.1, seed=seed), problem.bounds)
    assert rises
    assert np.allclose(list(rises.values()), 1.0, atol=0.1), rises


def test_a_profile_is_followed_where_the_linearisation_breaks_down():
    """k1 = k2 at the optimum of late counts: a step as long as the error, 7000, would leave the bounds immediately."""
    model = wf.Model.from_text("A' = -k1*A\nB' = k1*A - k2*B\ncounts = e*k2*B\nA(0) = A0\nB(0) = 0")
    t = np.arange(3, 25, 1.5)
    counts = np.array([17, 18, 14, 15, 9, 12, 9, 6, 3, 2, 4, 1, 0, 0, 2.0])
    data = wf.Dataset(t, counts, "poisson", names=["counts"])
    fit = wf.fit(model, data, bounds={"A0": (1, 2000), "k1": (0, 5), "k2": (0, 5)}, fixed={"e": 0.8})
    for name in ("k1", "k2"):
        low, high = fit[name].interval
        assert low == pytest.approx(0.127, abs=0.01)
        assert high == 5


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(("distance", "repeats"), [(1.5, False), (2.5, True)])
def test_a_lost_profile_is_followed_again_only_from_a_solution_beyond_it(monkeypatch, sign, distance, repeats):
    """The profile of a parameter estimated at 5 is lost at a distance of 2; another profile has a solution."""
    best, other = (SimpleNamespace(p=np.array([value]), misfit=0.5) for value in (5.0, 5.0 + sign * distance))
    refit = SimpleNamespace(
        best=best, compute_misfit=lambda solution: solution.misfit, hold_parameter=lambda *arguments: None
    )
    points = _ProfilePoints(SimpleNamespace(estimate=best.p), refit, 0, 1.0, z=2.0, solutions=[])
    starts = []

    def lose_profile(side, first):
        starts.append(first)
        points.misfits |= {5.0 + side: 1.0, 5.0 + 2 * side: 2.0}
        return np.nan

    monkeypatch.setattr(points, "_follow_from", lose_profile)
    assert np.isnan(points.follow_to_end(sign, [other]))
    assert starts == [best, other][: 1 + repeats]


def test_misfit_of_a_refit_by_output_error_counts_the_prior_once():
    """With k held, the best initial value is `Σ y e / Σ e²`, e = exp(-kt); the prior at 0.8 adds ((0.8 - 0.6)/0.1)²."""
    t = np.linspace(0, 4, 12)
    y = 2 * np.exp(-0.7 * t) + 0.05 * DRAWS[:12]
    data = wf.Dataset(t, y, names=["x"], sigma=0.05)
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), data, method="output-error", priors={"k": ("normal", 0.6, 0.1)})
    refit = prepare_refits(fit)
    solution = refit.hold_parameter(0, 0.8, refit.best)
    decay = np.exp(-0.8 * t)
    squares = np.sum((y - decay * (y @ decay) / (decay @ decay)) ** 2) / 0.05**2
    assert solution.misfit == pytest.approx(squares, rel=1e-4)
    assert refit.compute_misfit(solution) == pytest.approx(squares + 4.0, rel=1e-4)


@pytest.mark.parametrize("shift", [0.0, -11.0, -30.0])
@pytest.mark.parametrize(("inner", "is_narrow"), [(9.9, True), (2.0, False)])
def test_a_profile_is_followed_closer_to_its_end_until_the_bracket_is_short(shift, inner, is_narrow):
    """The root is steep: 0 at the inner value and 2, the quantile, at the outer one, 10 beyond the estimate.

    Only lengths count, wherever zero is.
    """
    best = SimpleNamespace(p=np.array([shift]), misfit=0.0)
    refit = SimpleNamespace(best=best, compute_misfit=lambda solution: solution.misfit)
    points = _ProfilePoints(SimpleNamespace(estimate=best.p), refit, 0, 1.0, z=2.0, solutions=[])
    bracket = Bracket((inner + shift, 0.0), (10.0 + shift, 2.0))
    assert _ProfileSide(points, 1.0, best)._is_narrow(bracket) is is_narrow
