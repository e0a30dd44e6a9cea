"""Every kind of noise has consistent working coordinates and draws, and fits maximise its likelihood."""

from dataclasses import replace

import numpy as np
import pytest
import symengine as se
from scipy import integrate, optimize, stats

import weakform as wf
from weakform import DataError
from weakform.forward.solver import simulate
from weakform.noise.kinds import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_working_coordinates_have_an_inverse_and_the_stated_slope(name):
    kind, u = KINDS[name], np.array([0.5, 1.0, 7.0, 300.0])
    assert np.allclose(kind.from_working(kind.to_working(u)), u)
    h = 1e-6
    slope = (kind.from_working(kind.to_working(u) + h) - kind.from_working(kind.to_working(u) - h)) / (2 * h)
    assert np.allclose(kind.numeric_slope(u), slope, rtol=1e-6)
    symbol = se.Symbol("u")
    assert np.allclose([float(se.sympify(kind.slope(symbol)).subs({symbol: v})) for v in u], slope, rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_draws_have_the_stated_sigma(name):
    kind = KINDS[name]
    u = np.full((20_000, 1), 50.0)
    sigma = kind.compute_sigma(u, kind.ratio)
    drawn = kind.draw(np.random.default_rng(1), u, sigma)[:, 0]
    if name == "student":
        low, high = np.quantile(drawn, [0.25, 0.75])
        assert (high - low) / 2 == pytest.approx(stats.t(4).ppf(0.75) * sigma[0], rel=0.03)
    else:
        assert drawn.std() == pytest.approx(kind.compute_uncertainty(u[:1, 0], sigma)[0], rel=0.03)


def test_error_of_student_noise_is_one_over_the_root_of_its_information():
    """The information about the location of Student's t with ν = 4 is (ν + 1)/(ν + 3)/σ² = 5/7/σ²."""
    sigma = 0.5
    t = stats.t(4, scale=sigma)
    h = 1e-5

    def score_squared(e):
        return ((t.logpdf(e + h) - t.logpdf(e - h)) / (2 * h)) ** 2 * t.pdf(e)

    information = integrate.quad(score_squared, -60, 60, limit=500, points=[0])[0]
    error = KINDS["student"].compute_uncertainty(np.array([-3.0, 0.0, 20.0]), sigma)
    assert error == pytest.approx(np.full(3, sigma * np.sqrt(7 / 5)), rel=1e-14)  # the same wherever the mean lies
    assert error[0] == pytest.approx(1 / np.sqrt(information), rel=1e-6)


def test_error_of_counts_is_the_root_of_their_variance():
    """σ√μ; and √(μ + σ²μ²) for negative binomial counts with 1/k = σ²."""
    mu = np.array([4.0, 100.0])
    assert KINDS["poisson"].compute_uncertainty(mu, 1.5) == pytest.approx([3.0, 15.0], rel=1e-14)
    assert KINDS["negative-binomial"].compute_uncertainty(mu, 0.5) == pytest.approx(np.sqrt([8.0, 2600.0]), rel=1e-14)


def test_scatter_of_negative_binomial_counts_is_solved_for():
    """The squared distances are what 1/k = 15 promises, μ + 15μ²: 16 about 1, and 62 about 2."""
    mu = np.array([1.0, 2.0])
    weigh = KINDS["negative-binomial"].weigh
    scale = weigh(mu + np.sqrt([16.0, 62.0]), mu, np.ones(2))
    assert scale == pytest.approx(np.sqrt([16.0, 62.0]), rel=1e-12)


def test_scatter_of_negative_binomial_counts_has_two_ends():
    """1/k is zero where counts scatter less than Poisson's, and at most 10⁶."""
    mu = np.array([4.0, 9.0])
    weigh = KINDS["negative-binomial"].weigh
    assert weigh(np.array([5.0, 8.0]), mu, np.ones(2)) == pytest.approx([2.0, 3.0], rel=1e-12)
    assert weigh(mu + 1e9, mu, np.ones(2)) == pytest.approx(np.sqrt(mu + 1e6 * mu**2), rel=1e-9)


def test_first_scale_of_student_noise_uses_the_median_deviation_from_a_running_median():
    """The deviations from the running median are 0 or 2, and their median is 2, so σ is 2/Φ⁻¹(3/4) for normal noise."""
    y = np.array([-2.0, 0.0, 2.0] * 3)
    deviations = np.array([0.0, 2, 2, 2, 0, 2, 2, 2, 0])
    sigma = 2.0 / stats.norm.ppf(0.75)
    expected = np.sqrt((4 + (deviations / sigma) ** 2) / 5)
    assert KINDS["student"].estimate_initial_scale(y) == pytest.approx(expected, rel=0.01)


def test_working_coordinates_go_on_linearly_below_a_thousandth_of_each_value():
    """The floor is lowest + (value - lowest)/1000: 0.002 and 0.05 above zero, 2.01 and 2.2 above two."""
    lognormal = KINDS["lognormal"]
    assert lognormal.compute_linear_floor(np.array([2.0, 50.0])) == pytest.approx([0.002, 0.05], rel=1e-14)
    assert replace(lognormal, lowest=2.0).compute_linear_floor(np.array([12.0, 202.0])) == pytest.approx(
        [2.01, 2.2], rel=1e-14
    )
    assert list(KINDS["gaussian"].compute_linear_floor(np.array([-1.0, 2.0]))) == [-np.inf, -np.inf]


def test_problems_with_poisson_noise_give_counts():
    problem = wf.problems.get("lotka-volterra").with_noise("poisson")
    data = problem.simulate(M=400, seed=1)
    values, mean = data.trajectories[0].values, data.truth.states
    assert (values == np.round(values)).all()
    assert np.mean((values - mean) ** 2 / mean) == pytest.approx(1.0, abs=0.1)


def test_counts_refuse_another_noise_ratio_and_negative_means():
    with pytest.raises(DataError, match="noise ratio 1"):
        wf.problems.get("lotka-volterra").with_noise("poisson").simulate(noise=0.05)
    with pytest.raises(DataError, match="not negative"):
        wf.problems.get("lorenz").with_noise("poisson").simulate()
    with pytest.raises(DataError, match="Did you mean 'poisson'"):
        wf.problems.get("lorenz").with_noise("poison")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_working_coordinates_of_several_states_have_an_inverse(kind):
    u = np.array([[0.5, 3.0], [20.0, 7.0]])
    k = KINDS[kind]
    assert np.allclose(k.from_working(k.to_working(u)), u)
    h = 1e-6
    assert np.allclose((k.to_working(u + h) - k.to_working(u - h)) / (2 * h), 1 / k.numeric_slope(u), rtol=1e-6)


def test_poisson_fit_recovers_the_truth():
    model = wf.Model.from_text("S' = -b*S*I/1000\nI' = b*S*I/1000 - g*I")
    t = np.linspace(0, 40, 80)
    u = simulate(model, [0.8, 0.3], [980.0, 5.0], t).states
    data = wf.Dataset(t, np.random.default_rng(1).poisson(u).astype(float), "poisson", names=["S", "I"])
    fit = wf.fit(model, data)
    assert (np.abs(fit.estimate - [0.8, 0.3]) < 4 * fit.errors).all()
    assert fit.sigma == pytest.approx([1, 1], abs=0.25)


DECAY = wf.Model.from_text("x' = -k*x")


def test_poisson_fit_maximises_the_likelihood():
    t = np.linspace(0, 8, 100)
    counts = np.random.default_rng(1).poisson(30 * np.exp(-0.5 * t)).astype(float)
    fit = wf.fit(DECAY, wf.Dataset(t, counts, "poisson", sigma=1.0))
    best = optimize.minimize(
        lambda a: -stats.poisson.logpmf(counts, a[1] * np.exp(-a[0] * t)).sum(),
        [0.5, 30.0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-10, "maxiter": 4000},
    )
    assert fit["k"].value == pytest.approx(best.x[0], rel=1e-5)
    assert fit.initial["x"].value == pytest.approx(best.x[1], rel=1e-5)


def test_student_fit_maximises_the_likelihood():
    t, rng = np.linspace(0, 8, 100), np.random.default_rng(1)
    y = 10 * np.exp(-0.5 * t) + 0.2 * rng.standard_t(4, 100)
    fit = wf.fit(DECAY, wf.Dataset(t, y, "student"))
    best = optimize.minimize(
        lambda a: 100 * a[2] - stats.t.logpdf((y - a[1] * np.exp(-a[0] * t)) / np.exp(a[2]), 4).sum(),
        [0.5, 10.0, -1.6],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000},
    )
    # The fit divides by the degrees of freedom of the residuals, the likelihood by their number.
    assert fit["k"].value == pytest.approx(best.x[0], abs=0.02 * fit["k"].error)
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=0.1)


@pytest.mark.parametrize(
    ("kind", "runs"),
    [
        pytest.param("poisson", 60, id="counts down to 0.5"),
        pytest.param("negative-binomial", 60, id="overdispersed counts"),
    ],
)
@pytest.mark.slow
def test_intervals_of_counts_cover_the_truth(kind, runs):
    t, covered = np.linspace(0, 8, 60), 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        spread = rng.gamma(3, 1 / 3, size=60) if kind == "negative-binomial" else 1.0
        fit = wf.fit(DECAY, wf.Dataset(t, rng.poisson(30 * np.exp(-0.5 * t) * spread).astype(float), kind))
        low, high = fit.intervals()[0]
        covered += low <= 0.5 <= high
    assert 0.88 * runs <= covered <= runs


def test_gross_outliers_hardly_change_a_student_fit():
    t, rng = np.linspace(0, 8, 100), np.random.default_rng(3)
    y = 10 * np.exp(-0.5 * t) + 0.1 * rng.standard_normal(100)
    clean = wf.fit(DECAY, wf.Dataset(t, y, "student"))
    y[[17, 40, 77]] += [-999.0, 8.0, 15.0]
    fit = wf.fit(DECAY, wf.Dataset(t, y, "student"))
    assert fit.success
    assert abs(fit["k"].value - clean["k"].value) < clean["k"].error
    assert fit["k"].error < 1.5 * clean["k"].error
