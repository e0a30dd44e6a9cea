"""The posterior is the one that integrals give; what has none, or has not mixed, is said so."""

import numpy as np
import pytest
from scipy import stats

import weakform as wf
from support import EXAMPLES
from weakform.collocation.hidden_state_problem import LatentProblem
from weakform.collocation.mesh_sensitivities import Meshed
from weakform.inference.posterior_density import Target
from weakform.support.errors import FitError

DECAY = wf.Model.from_text("x' = -k*x\nx(0) = 1")


def decay(samples=8, noise=0.05, seed=0, k=0.6, **more):
    t = np.linspace(0.4, 4, samples)
    y = np.exp(-k * t) + noise * np.random.default_rng(seed).standard_normal(samples)
    return wf.Dataset(t, y, names=["x"], **more)


def test_a_straight_line_has_the_posterior_of_linear_regression():
    t = np.linspace(0, 5, 9)
    rng = np.random.default_rng(3)
    y = 1 + 0.5 * t + 0.2 * rng.standard_normal(9)
    fit = wf.fit(wf.Model.from_text("x' = a"), wf.Dataset(t, y))
    found = fit.sample(4000, seed=1)
    assert found.success
    X = np.column_stack([t, np.ones(9)])
    b, squares, *_ = np.linalg.lstsq(X, y, rcond=None)
    s = float(squares[0]) / 7
    errors = np.sqrt(s * np.linalg.inv(X.T @ X).diagonal())
    for j, name in enumerate(("a", "x(0)")):
        exact = stats.t(7, b[j], errors[j])
        assert found[name].mean() == pytest.approx(b[j], abs=0.1 * errors[j])
        low, high = found.intervals()[name]
        assert (low, high) == pytest.approx(exact.ppf([0.025, 0.975]), abs=0.25 * errors[j])
    assert np.mean(found["sigma x"] ** -2) == pytest.approx(1 / s, rel=0.05)


def integrated(data, density, grid):
    """Mean and sd of k by quadrature."""
    t, y = data.trajectories[0].times, data.trajectories[0].values[:, 0]
    log = np.array([density(k, y - np.exp(-k * t)) for k in grid])
    w = np.exp(log - log.max())
    w /= w.sum()
    mean = float(w @ grid)
    return mean, float(np.sqrt(w @ (grid - mean) ** 2))


GRID = np.linspace(1e-4, 3, 6000)
CASES = {
    "flat": ({}, lambda k, r: -4 * np.log(r @ r)),
    "bounded": ({"bounds": {"k": (0.55, 0.62)}}, lambda k, r: -4 * np.log(r @ r) if 0.55 < k < 0.62 else -np.inf),
    "log scale": ({"log": ["k"]}, lambda k, r: -4 * np.log(r @ r) - np.log(k)),
    "normal prior": (
        {"priors": {"k": ("normal", 0.5, 0.03)}},
        lambda k, r: -4 * np.log(r @ r) - 0.5 * ((k - 0.5) / 0.03) ** 2,
    ),
    "log-normal prior": (
        {"priors": {"k": ("lognormal", 0.5, 0.2)}},
        lambda k, r: -4 * np.log(r @ r) - 0.5 * (np.log(k / 0.5) / 0.2) ** 2 - np.log(k),
    ),
    "normal prior on a log scale": (
        {"priors": {"k": ("normal", 0.5, 0.2)}, "log": ["k"]},
        lambda k, r: -4 * np.log(r @ r) - 0.5 * ((k - 0.5) / 0.2) ** 2,
    ),
}


LONGER = ("log scale", "log-normal prior", "normal prior on a log scale")


@pytest.mark.parametrize("case", [pytest.param(c, marks=pytest.mark.slow if c in LONGER else ()) for c in CASES])
def test_one_parameter_against_quadrature(case):
    arguments, density = CASES[case]
    data = decay()
    found = wf.fit(DECAY, data, **arguments).sample(2000, seed=2)
    mean, sd = integrated(data, density, GRID)
    assert found.success
    assert found["k"].mean() == pytest.approx(mean, abs=0.12 * sd)
    assert found["k"].std() == pytest.approx(sd, rel=0.12)


def test_a_given_sigma_is_taken_as_known():
    data = decay(sigma=[0.1])
    found = wf.fit(DECAY, data).sample(2000, seed=2)
    mean, sd = integrated(data, lambda k, r: -0.5 * (r @ r) / 0.01, GRID)
    assert found.names == ("k",)
    assert found["k"].mean() == pytest.approx(mean, abs=0.12 * sd)
    assert found["k"].std() == pytest.approx(sd, rel=0.12)


@pytest.mark.parametrize("name", ["lorenz", "hindmarsh-rose"])
def test_the_jacobian_of_solutions_on_the_mesh(name):
    problem = wf.problems.get(name)
    fit = wf.fit(problem.model, problem.simulate(M=128, noise=0.02, seed=1))
    target = Target(fit)
    problem_, p = target.problem, fit.estimate
    assert isinstance(problem_, LatentProblem)
    assert isinstance(target.meshed, Meshed)
    base = target.at(np.zeros(len(target.estimate)))
    rng = np.random.default_rng(0)
    for _ in range(3):
        z = rng.standard_normal(len(target.estimate))
        at = target.at(z)
        # The solution that was found is that of the equations from where it begins.
        begin = at.theta[target.F :]
        solved = wf.simulate(fit.model, at.theta[: target.F], begin, fit.data.trajectories[0].times, rtol=1e-10)
        r = (solved.states - fit.data.trajectories[0].values) / fit.sigma
        assert np.sum(r**2) == pytest.approx(at.squares.sum(), rel=2e-3)
        # With nothing but curvature between them the density is nearly normal in these coordinates.
        assert at.log - base.log == pytest.approx(-0.5 * z @ z, abs=0.25 * (z @ z))
    assert p.shape == (target.F,)


@pytest.mark.slow
def test_hidden_states_and_several_trajectories():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = x*y - c*y")
    t = np.linspace(0, 5, 31)
    rng, parts = np.random.default_rng(0), []
    for u0 in ([1.0, 1.0], [2.0, 1.0]):
        u = wf.simulate(model, {"a": 3, "b": 1.0, "c": 2}, u0, t).states
        parts.append(wf.Dataset(t, u[:, :1] + 0.1 * rng.standard_normal((31, 1)), names=["x"]))
    fit = wf.fit(model, wf.Dataset.join(parts), fixed={"b": 1.0}, seed=1)
    found = fit.sample(400, seed=1)
    assert len(found.names) == 2 + 4 + 1
    for name in ("a", "c"):
        assert found[name].mean() == pytest.approx(fit[name].value, abs=0.5 * fit[name].error)
        assert found[name].std() == pytest.approx(fit[name].error, rel=0.35)


def test_the_same_seed_gives_the_same_draws_and_they_are_kept():
    fit = wf.fit(DECAY, decay())
    assert fit.posterior is None
    one, two = fit.sample(200, seed=5), fit.sample(200, seed=5)
    assert (one.draws == two.draws).all()
    assert fit.posterior is two
    assert "R̂" in str(one)
    assert list(one.to_frame().columns) == ["chain", "k", "sigma x"]
    with pytest.raises(KeyError, match="Nothing called 'q'"):
        one["q"]


def test_what_has_not_mixed_is_no_success():
    fit = wf.fit(DECAY, decay())
    found = fit.sample(100, seed=0)
    assert not found.success
    assert "draw more" in found.trouble
    assert "NOT TO BE TRUSTED" in str(found)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_arviz():
    arviz = pytest.importorskip("arviz")
    found = wf.fit(DECAY, decay()).sample(300, seed=1)
    data = found.to_arviz()
    assert data.posterior["k"].shape == found.draws.shape[:2]
    assert float(arviz.rhat(data)["k"]) == pytest.approx(found.rhat["k"], abs=0.01)


def test_nothing_to_draw_from_is_said():
    free = wf.Model.from_text("x' = -a*b*x\nx(0) = 1")
    with pytest.raises(FitError, match="no end along a, b"):
        wf.fit(free, decay()).sample()
    t = np.arange(20.0)
    counts = wf.Dataset(t, np.random.default_rng(0).poisson(50 * np.exp(-0.1 * t)).astype(float), noise="poisson")
    with pytest.raises(FitError, match="these data have 'poisson'"):
        wf.fit(wf.Model.from_text("x' = -k*x"), counts).sample()
    with pytest.raises(FitError, match="100 draws and 2 chains"):
        wf.fit(DECAY, decay()).sample(draws=3)


def test_pairs_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    fit = wf.fit(DECAY, decay())
    found = fit.sample(200, seed=1)
    axes = found.plot()
    assert axes.shape == (2, 2)
    axes[0, 0].figure.savefig(tmp_path / "pairs.png")
    page = fit.report(tmp_path / "page.html").read_text()
    assert "4 chains of 50 draws" in page
    with pytest.raises(FitError, match="Nothing called 'kk'"):
        found.plot(["kk"])


def test_the_command_line_draws(tmp_path, capsys):
    from weakform.cli.main import main

    (tmp_path / "m.txt").write_text("N' = r*N*(1 - N/K)")
    assert main(["fit", str(tmp_path / "m.txt"), str(EXAMPLES / "yeast.csv"), "--sample"]) in (0, 1)
    assert "Posterior: 4 chains" in capsys.readouterr().out


def test_another_solution_that_is_not_reached_is_said():
    model = wf.Model.from_text("a' = -k1*a\nb' = k1*a - k2*b\nb(0) = 0")
    t = np.linspace(0, 8, 25)
    b = wf.simulate(model, {"k1": 1.0, "k2": 0.3}, [2.0, 0.0], t).states[:, 1:]
    data = wf.Dataset(t, b + 0.01 * np.random.default_rng(3).standard_normal((25, 1)), names=["b"], sigma=[0.01])
    fit = wf.fit(model, data, bounds={"k1": (0.1, 10), "k2": (0.01, 5)})
    assert fit.alternatives
    found = fit.sample(100)
    assert not found.success
    assert "another solution" in found.trouble


def test_the_seed_is_checked():
    with pytest.raises(FitError, match="seed"):
        wf.fit(DECAY, decay()).sample(seed=-1)
