"""Every kind of noise draws what it says, and its working coordinates are consistent."""

import numpy as np
import pytest
import symengine as se

import weakform as wf
from weakform import DataError
from weakform.forward.solve import simulate
from weakform.noise.kinds import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_working_coordinates_go_there_and_back(name):
    kind, u = KINDS[name], np.array([0.5, 1.0, 7.0, 300.0])
    assert np.allclose(kind.from_working(kind.to_working(u)), u)
    h = 1e-6
    slope = (kind.from_working(kind.to_working(u) + h) - kind.from_working(kind.to_working(u) - h)) / (2 * h)
    assert np.allclose(kind.numeric_slope(u), slope, rtol=1e-6)
    symbol = se.Symbol("u")
    assert np.allclose([float(se.sympify(kind.slope(symbol)).subs({symbol: v})) for v in u], slope, rtol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_draws_have_the_sigma_that_they_say(name):
    kind = KINDS[name]
    u = np.full((20_000, 1), 50.0)
    sigma = kind.sigma(u, kind.ratio)
    drawn = kind.draw(np.random.default_rng(1), u, sigma)
    assert kind.to_working(drawn).std() == pytest.approx(sigma[0], rel=0.03)


def test_poisson_problems_give_counts():
    problem = wf.problems.get("lotka-volterra").with_noise("poisson")
    data = problem.simulate(M=400, seed=1)
    values, mean = data.trajectories[0].values, data.truth.states
    assert (values == np.round(values)).all()
    assert np.mean((values - mean) ** 2 / mean) == pytest.approx(1.0, abs=0.1)


def test_counts_have_no_other_noise_ratio_and_no_negative_mean():
    with pytest.raises(DataError, match="noise ratio 1"):
        wf.problems.get("lotka-volterra").with_noise("poisson").simulate(noise=0.05)
    with pytest.raises(DataError, match="not negative"):
        wf.problems.get("lorenz").with_noise("poisson").simulate()
    with pytest.raises(DataError, match="Did you mean 'poisson'"):
        wf.problems.get("lorenz").with_noise("poison")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_kinds_of_noise_go_there_and_back(kind):
    u = np.array([[0.5, 3.0], [20.0, 7.0]])
    k = KINDS[kind]
    assert np.allclose(k.from_working(k.to_working(u)), u)
    h = 1e-6
    assert np.allclose((k.to_working(u + h) - k.to_working(u - h)) / (2 * h), 1 / k.numeric_slope(u), rtol=1e-6)


def test_counts():
    model = wf.Model.from_text("S' = -b*S*I/1000\nI' = b*S*I/1000 - g*I")
    t = np.linspace(0, 40, 80)
    u = simulate(model, [0.8, 0.3], [980.0, 5.0], t).states
    data = wf.Dataset(t, np.random.default_rng(1).poisson(u).astype(float), "poisson", names=["S", "I"])
    fit = wf.fit(model, data)
    assert (np.abs(fit.estimate - [0.8, 0.3]) < 4 * fit.errors).all()
    assert fit.sigma == pytest.approx([1, 1], abs=0.25)
