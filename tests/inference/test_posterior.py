"""Draws agree with the posterior by quadrature; missing posteriors and chains that have not mixed are reported."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import weakform as wf
from support import EXAMPLES
from weakform.collocation.hidden_state_problem import HiddenStateProblem
from weakform.collocation.mesh_sensitivities import MeshSensitivities
from weakform.inference.posterior_density import PosteriorDensity
from weakform.support.errors import FitError

DECAY = wf.Model.from_text("x' = -k*x\nx(0) = 1")


def decay(samples=8, noise=0.05, seed=0, k=0.6, **more):
    t = np.linspace(0.4, 4, samples)
    y = np.exp(-k * t) + noise * np.random.default_rng(seed).standard_normal(samples)
    return wf.Dataset(t, y, names=["x"], **more)


def test_posterior_of_a_straight_line_is_that_of_linear_regression():
    t = np.linspace(0, 5, 9)
    rng = np.random.default_rng(3)
    y = 1 + 0.5 * t + 0.2 * rng.standard_normal(9)
    fit = wf.fit(wf.Model.from_text("x' = a"), wf.Dataset(t, y))
    posterior = fit.sample(4000, seed=1)
    assert posterior.success
    X = np.column_stack([t, np.ones(9)])
    b, squares, *_ = np.linalg.lstsq(X, y, rcond=None)
    s = float(squares[0]) / 7
    errors = np.sqrt(s * np.linalg.inv(X.T @ X).diagonal())
    for j, name in enumerate(("a", "x(0)")):
        exact = stats.t(7, b[j], errors[j])
        assert posterior[name].mean() == pytest.approx(b[j], abs=0.1 * errors[j])
        low, high = posterior.intervals()[name]
        assert (low, high) == pytest.approx(exact.ppf([0.025, 0.975]), abs=0.25 * errors[j])
    assert np.mean(posterior["sigma x"] ** -2) == pytest.approx(1 / s, rel=0.05)


def compute_moments(data, density, grid):
    """Return the mean and the standard deviation of k, by quadrature over a grid."""
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
def test_posterior_of_one_parameter_agrees_with_quadrature(case):
    arguments, density = CASES[case]
    data = decay()
    posterior = wf.fit(DECAY, data, **arguments).sample(2000, seed=2)
    mean, sd = compute_moments(data, density, GRID)
    assert posterior.success
    assert posterior["k"].mean() == pytest.approx(mean, abs=0.12 * sd)
    assert posterior["k"].std() == pytest.approx(sd, rel=0.12)


def test_a_given_sigma_is_not_drawn():
    data = decay(sigma=[0.1])
    posterior = wf.fit(DECAY, data).sample(2000, seed=2)
    mean, sd = compute_moments(data, lambda k, r: -0.5 * (r @ r) / 0.01, GRID)
    assert posterior.names == ("k",)
    assert posterior["k"].mean() == pytest.approx(mean, abs=0.12 * sd)
    assert posterior["k"].std() == pytest.approx(sd, rel=0.12)


@pytest.mark.parametrize("name", ["lorenz", "hindmarsh-rose"])
def test_draws_obey_the_equations_and_their_density_is_nearly_normal(name):
    problem = wf.problems.get(name)
    fit = wf.fit(problem.model, problem.simulate(M=128, noise=0.02, seed=1))
    target = PosteriorDensity(fit)
    problem_, p = target.problem, fit.estimate
    assert isinstance(problem_, HiddenStateProblem)
    assert isinstance(target.meshed, MeshSensitivities)
    base = target.evaluate(np.zeros(len(target.estimate)))
    rng = np.random.default_rng(0)
    for _ in range(3):
        z = rng.standard_normal(len(target.estimate))
        at = target.evaluate(z)
        # The solution on the mesh is that of the equations from its initial state.
        begin = at.theta[target.F :]
        solved = wf.simulate(fit.model, at.theta[: target.F], begin, fit.data.trajectories[0].times, rtol=1e-10)
        r = (solved.states - fit.data.trajectories[0].values) / fit.sigma
        assert np.sum(r**2) == pytest.approx(at.squares.sum(), rel=2e-3)
        # Only intrinsic curvature is left in these coordinates, so that the density is nearly normal.
        assert at.log - base.log == pytest.approx(-0.5 * z @ z, abs=0.25 * (z @ z))
    assert p.shape == (target.F,)


@pytest.mark.slow
def test_posterior_with_hidden_states_and_several_trajectories():
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = x*y - c*y")
    t = np.linspace(0, 5, 31)
    rng, parts = np.random.default_rng(0), []
    for u0 in ([1.0, 1.0], [2.0, 1.0]):
        u = wf.simulate(model, {"a": 3, "b": 1.0, "c": 2}, u0, t).states
        parts.append(wf.Dataset(t, u[:, :1] + 0.1 * rng.standard_normal((31, 1)), names=["x"]))
    fit = wf.fit(model, wf.Dataset.join(parts), fixed={"b": 1.0}, seed=1)
    posterior = fit.sample(400, seed=1)
    assert len(posterior.names) == 2 + 4 + 1
    for name in ("a", "c"):
        assert posterior[name].mean() == pytest.approx(fit[name].value, abs=0.5 * fit[name].error)
        assert posterior[name].std() == pytest.approx(fit[name].error, rel=0.35)


def test_the_same_seed_gives_the_same_draws_and_the_last_are_kept():
    fit = wf.fit(DECAY, decay())
    assert fit.posterior is None
    first, second = fit.sample(200, seed=5), fit.sample(200, seed=5)
    assert (first.draws == second.draws).all()
    assert fit.posterior is second
    assert "R̂" in str(first)
    assert list(first.to_frame().columns) == ["chain", "k", "sigma x"]
    with pytest.raises(KeyError, match="no quantity 'q'"):
        first["q"]


def test_chains_that_have_not_mixed_did_not_succeed():
    fit = wf.fit(DECAY, decay())
    posterior = fit.sample(100, seed=0)
    assert not posterior.success
    assert "draw more" in posterior.trouble
    assert "NOT TO BE TRUSTED" in str(posterior)


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_arviz_reads_the_draws():
    arviz = pytest.importorskip("arviz")
    posterior = wf.fit(DECAY, decay()).sample(300, seed=1)
    data = posterior.to_arviz()
    assert data.posterior["k"].shape == posterior.draws.shape[:2]
    assert float(arviz.rhat(data)["k"]) == pytest.approx(posterior.rhat["k"], abs=0.01)


def test_fits_without_a_posterior_are_refused():
    free = wf.Model.from_text("x' = -a*b*x\nx(0) = 1")
    with pytest.raises(FitError, match="no end along a, b"):
        wf.fit(free, decay()).sample()
    t = np.arange(20.0)
    counts = wf.Dataset(t, np.random.default_rng(0).poisson(50 * np.exp(-0.1 * t)).astype(float), noise="poisson")
    with pytest.raises(FitError, match="these data have 'poisson'"):
        wf.fit(wf.Model.from_text("x' = -k*x"), counts).sample()
    with pytest.raises(FitError, match="100 draws and 2 chains"):
        wf.fit(DECAY, decay()).sample(draws=3)


def test_pairs_are_plotted_and_reported(tmp_path):
    pytest.importorskip("matplotlib")
    fit = wf.fit(DECAY, decay())
    posterior = fit.sample(200, seed=1)
    axes = posterior.plot()
    assert axes.shape == (2, 2)
    axes[0, 0].figure.savefig(tmp_path / "pairs.png")
    page = fit.report(tmp_path / "page.html").read_text()
    assert "4 chains of 50 draws" in page
    with pytest.raises(FitError, match="no quantity 'kk'"):
        posterior.plot(["kk"])


def test_command_line_prints_the_posterior(tmp_path, capsys):
    from weakform.cli.main import main

    (tmp_path / "m.txt").write_text("N' = r*N*(1 - N/K)")
    assert main(["fit", str(tmp_path / "m.txt"), str(EXAMPLES / "yeast.csv"), "--sample"]) in (0, 1)
    assert "Posterior: 4 chains" in capsys.readouterr().out


def test_another_solution_that_chains_do_not_reach_is_reported():
    model = wf.Model.from_text("a' = -k1*a\nb' = k1*a - k2*b\nb(0) = 0")
    t = np.linspace(0, 8, 25)
    b = wf.simulate(model, {"k1": 1.0, "k2": 0.3}, [2.0, 0.0], t).states[:, 1:]
    data = wf.Dataset(t, b + 0.01 * np.random.default_rng(3).standard_normal((25, 1)), names=["b"], sigma=[0.01])
    fit = wf.fit(model, data, bounds={"k1": (0.1, 10), "k2": (0.01, 5)})
    assert fit.alternatives
    posterior = fit.sample(100)
    assert not posterior.success
    assert "another solution" in posterior.trouble


def test_a_negative_seed_is_refused():
    with pytest.raises(FitError, match="seed"):
        wf.fit(DECAY, decay()).sample(seed=-1)


@pytest.mark.parametrize("sigma", [None, 0.0])
def test_noise_free_data_have_no_posterior(sigma):
    t = np.arange(20.0)
    fit = wf.fit(wf.Model.from_text("x' = -k*x"), wf.Dataset(t, 5 * np.exp(-0.1 * t), sigma=sigma))
    assert fit.converged
    with pytest.raises(FitError, match="Noise-free data have no posterior"):
        fit.sample()


@pytest.mark.parametrize(("p", "is_inside"), [(0.9, False), (1.0, True), (2.0, True), (3.0, True), (3.1, False)])
def test_density_is_zero_only_beyond_the_bounds(p, is_inside):
    density = PosteriorDensity.__new__(PosteriorDensity)
    density.fit, density.prior, density.F = SimpleNamespace(sigma_estimated=False), None, 1
    density.low, density.high, density.Q = np.array([1.0]), np.array([3.0]), np.ones((1, 1))
    density.group, density.counts, density.within = np.zeros((1, 1), dtype=int), np.ones(1), np.zeros(1)
    point = density._evaluate_density(np.array([p]), np.array([0.5]), np.array([[2.0]]))
    # Half the square of the residual, and the logarithm of the derivative, which converts the density.
    assert point.log == (pytest.approx(-0.5 * 0.5**2 - np.log(2.0)) if is_inside else -np.inf)


@pytest.mark.parametrize("width", [1e-3, 2.0, 500.0])
def test_two_bounds_count_as_a_residual_with_the_variance_of_a_uniform_distribution(width):
    """The standard deviation is the width over √12, so that the middle is at 0 and the bounds are at ±√3."""
    density = PosteriorDensity.__new__(PosteriorDensity)
    density.prior, density.meshed = None, SimpleNamespace(expand_jacobian=lambda moving: np.empty((0, 2)))
    density.low, density.high = np.array([-np.inf, 4.0]), np.array([np.inf, 4.0 + width])
    density.narrow = np.array([1])
    moving = SimpleNamespace(residuals=np.empty((0, 1)))
    for value, expected in ((4.0, -np.sqrt(3)), (4.0 + width / 2, 0.0), (4.0 + width, np.sqrt(3))):
        r, J = density._stack_residuals(np.array([7.0, value]), moving)
        assert r == pytest.approx([expected], rel=1e-9, abs=1e-9)
        assert pytest.approx(np.array([[0.0, 2 * np.sqrt(3) / width]])) == J


@pytest.mark.parametrize(
    ("own", "group", "counts"),
    [(False, [[0, 1]] * 3, [3, 2]), (True, [[0, 1], [2, 3], [2, 3]], [1, 0, 2, 2])],
    ids=["shared", "own"],
)
def test_each_column_has_one_noise_level_or_one_in_each_trajectory(own, group, counts):
    """Two columns have a sample in the first trajectory, whose second value is missing, and two in the second."""
    layout = SimpleNamespace(
        weight=np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]]),
        trajectory=np.array([0, 0, 1, 1, 1]),
        sampled=np.array([1, 3, 4]),
    )
    plain = SimpleNamespace(within=None, repeats=None)
    density = PosteriorDensity.__new__(PosteriorDensity)
    density.fit = SimpleNamespace(data=SimpleNamespace(D=2, own_noise=own, trajectories=[plain, plain]))
    density.meshed, density.T = SimpleNamespace(relaxed=SimpleNamespace(layout=layout)), 2
    density._assign_noise_levels()
    assert density.group.tolist() == group
    assert density.counts.tolist() == counts
    assert not density.within.any()
