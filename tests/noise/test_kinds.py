"""Every kind of noise draws what it says, and its working coordinates are consistent."""

import numpy as np
import pytest
import symengine as se

import weakform as wf
from weakform import DataError
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
