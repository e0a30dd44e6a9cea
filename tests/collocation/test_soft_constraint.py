"""The relaxed model: derivatives against differences, the banded system against a dense one, the limit of small q."""

import numpy as np
import pytest

import weakform as wf
from weakform.collocation import continuation
from weakform.collocation.bordered_system import BorderedSystem
from weakform.collocation.continuation import Point, SearchSettings, _Level, minimise_level, settle_on_exact_model
from weakform.collocation.hidden_state_problem import HiddenStateProblem
from weakform.data.matching import match
from weakform.linalg.symmetric_matrix import NotPositiveDefinite
from weakform.parameters import resolve_parameters

MODELS = {
    "hidden": ("x' = a*x - b*x*y\ny' = -c*y + d*x*y", ["x"], [3.0, 1.0, 6.0, 1.0]),
    "observable": ("x' = -k*x\ny' = k*x - m*y\nz = s*y + off", ["z"], [0.8, 0.3, 0.1, 2.0]),
    "given": ("x' = -k*x\ny' = k*x - m*y\nx(0) = x0\ny(0) = 0", ["y"], [0.8, 0.3, 2.0]),
}


def relaxed_problem(name, samples=15, noise="gaussian"):
    text, names, p = MODELS[name]
    model = wf.Model.from_text(text)
    t = np.linspace(0, 3, samples)
    values = 1.0 + 0.1 * np.random.default_rng(1).standard_normal((samples, len(names)))
    matched = match(wf.Dataset(t, values, names=names, noise=noise), model)
    parameters = resolve_parameters(matched.model, matched.data)
    problem = HiddenStateProblem.build(parameters, matched.data)
    meshes = problem.build_meshes()
    return problem, meshes, problem.build_relaxed_model(meshes, np.full(len(names), 0.1), parameters.free), np.array(p)


def random_states(relaxed, D):
    return 1.0 + 0.3 * np.random.default_rng(2).standard_normal((len(relaxed.layout.times), D))


@pytest.mark.parametrize("noise", ["gaussian", "lognormal", "poisson"])
@pytest.mark.parametrize("name", MODELS)
def test_derivatives_match_differences(name, noise):
    problem, _, relaxed, p = relaxed_problem(name, noise=noise)
    X = np.abs(random_states(relaxed, len(problem.shared.states))) + 0.2
    line = relaxed.linearise(p, X)
    assert np.allclose(line.r, relaxed.compute_residual(p, X))
    assert np.allclose(line.v, relaxed.compute_constraint(p, X))
    rng, h = np.random.default_rng(3), 1e-6
    dp, dX = rng.standard_normal(len(p)), rng.standard_normal(X.shape)
    moved = [
        (
            relaxed.compute_residual(p + s * h * dp, X + s * h * dX),
            relaxed.compute_constraint(p + s * h * dp, X + s * h * dX),
        )
        for s in (1, -1)
    ]
    by_r, by_v = ((up - down) / (2 * h) for up, down in zip(*moved, strict=True))
    at = relaxed.layout.sampled
    assert np.allclose(line.P @ dp + (line.R @ dX[at][:, :, None])[:, :, 0], by_r, rtol=1e-5, atol=1e-6)
    expected = line.G @ dp + (line.left @ dX[:, :, None])[:, :, 0]
    expected[:-1] += (line.right[:-1] @ dX[1:, :, None])[:, :, 0]
    assert np.allclose(expected, by_v, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [(1.0, 1.0), (0.2, 5.0)])
@pytest.mark.parametrize("q", [1.0, 1e-3, 0.0])
@pytest.mark.parametrize("name", MODELS)
def test_banded_system_matches_dense(name, q, size):
    problem, _, relaxed, p = relaxed_problem(name, samples=8)
    X = random_states(relaxed, len(problem.shared.states))
    line, V = relaxed.linearise(p, X), relaxed.compute_variances(X, q)
    N, D = X.shape
    size = np.array(size)
    arrow = BorderedSystem(line, relaxed.layout, V, 0.1, size)
    # A row without a constraint has any regular block; the size of a state is the unit of its damping.
    V = np.where(line.left.any(axis=2) | line.right.any(axis=2), V, size**2)
    K = np.zeros((N, 2, D, N, 2, D))
    for m in range(N):
        K[m, 0, :, m, 0] = np.diag((1.0 if relaxed.layout.ahead[m] else 0.1) / size**2)
        K[m, 1, :, m, 0], K[m, 0, :, m, 1] = line.left[m], line.left[m].T
        K[m, 1, :, m, 1] = -np.diag(V[m])
        if m + 1 < N:
            K[m, 1, :, m + 1, 0], K[m + 1, 0, :, m, 1] = line.right[m], line.right[m].T
    for row, m in enumerate(relaxed.layout.sampled):
        K[m, 0, :, m, 0] += line.R[row].T @ line.R[row]
    dense = K.reshape(2 * N * D, -1)
    b = np.random.default_rng(4).standard_normal((N, 2, D, 2))
    solved = arrow.solve(b).reshape(2 * N * D, 2)
    assert np.allclose(dense @ solved, b.reshape(2 * N * D, 2), atol=1e-8)


def test_damping_rises_faster_with_each_refused_step(monkeypatch):
    problem, _, relaxed, p = relaxed_problem("hidden", samples=8)
    tried = []

    def refuse(line, layout, V, damping, size):
        tried.append(damping)
        raise NotPositiveDefinite("a system that cannot be factorised")

    monkeypatch.setattr(continuation, "BorderedSystem", refuse)
    X = random_states(relaxed, len(problem.shared.states))
    search = SearchSettings(np.full(len(p), -np.inf), np.full(len(p), np.inf))
    point = minimise_level(relaxed, Point(p, X), 1.0, search)
    factors = np.array(tried[1:]) / tried[:-1]
    assert len(factors) >= 3
    assert factors[0] > 1
    assert (factors[1:] > factors[:-1]).all()
    # No damping helps: the level ends where it began.
    assert point.done
    assert point.steps == len(tried)
    assert (point.p == p).all()
    assert (point.X == X).all()


def test_states_of_stiff_model_are_forward_solution():
    model = wf.Model.from_text(MODELS["hidden"][0])
    t = np.linspace(0, 3, 61)
    u = wf.simulate(model, [3, 1, 6, 1], [1, 1], t).states
    matched = match(wf.Dataset(t, u[:, 0], names=["x"], sigma=0.01), model)
    parameters = resolve_parameters(matched.model, matched.data, fixed={"b": 1.0})
    problem = HiddenStateProblem.build(parameters, matched.data)
    meshes = problem.build_meshes()
    relaxed = problem.build_relaxed_model(meshes, np.array([0.01]), parameters.free)
    start = np.tile(u[0], (len(relaxed.layout.times), 1))
    start[1:, 0] = np.interp(meshes[0], t, u[:, 0])
    point = Point(np.array([2.5, 1.0, 5.0, 0.8]), start)
    search = SearchSettings(np.full(4, -np.inf), np.full(4, np.inf))
    for q in (1.0, 0.1, 0.01, 1e-3):
        point = minimise_level(relaxed, point, q, search)
    point = settle_on_exact_model(relaxed, point, search)
    assert np.allclose(point.p, [3, 1, 6, 1], rtol=1e-3)
    solved = wf.simulate(model, point.p, point.X[1], meshes[0]).states
    assert np.allclose(point.X[1:], solved, atol=2e-3)


def test_working_coordinate_continues_along_its_tangent_below_the_floor():
    """The logarithm below the floor f: log f + (h - f)/f, which is log f - 1 at zero and log f - 3 at -2 f."""
    _, _, relaxed, _ = relaxed_problem("hidden", noise="lognormal")
    floor = relaxed.layout.floor
    assert (floor > 0).all()
    for share, below in ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0), (-2.0, 3.0)):
        x, slope = relaxed.convert_to_working(share * floor)
        assert x == pytest.approx(np.log(floor) - below, rel=1e-12)
        assert slope == pytest.approx(floor, rel=1e-12)


def test_switch_at_an_unknown_time_counts_as_half_on_at_every_node():
    """Until the states are known, the right-hand side is half-way between its values before and after the switch."""
    model, t = wf.Model.from_text("x' = if(x > 2, a, b) - x\ny' = x - y"), np.linspace(0, 3, 15)
    matched = match(wf.Dataset(t, 1 + np.sin(t), names=["y"], sigma=0.1), model)
    parameters = resolve_parameters(matched.model, matched.data)
    problem = HiddenStateProblem.build(parameters, matched.data)
    layout = problem.build_layout(problem.build_meshes())
    X, p = np.ones((len(layout.times), 2)), np.array([5.0, 3.0])
    assert matched.model.parameters == ("a", "b")
    for inputs in (layout.before, layout.after, layout.middle):
        assert problem.functions.f(layout.times, X, p, inputs) == pytest.approx(np.tile([4.0 - 1.0, 0.0], (len(X), 1)))


@pytest.mark.parametrize("q", [1.0, 0.1])
def test_variance_of_a_given_initial_value_is_that_of_a_walk_over_the_whole_duration(q):
    """All states are 2: `q² 2²` for an initial value, and the share h/T of it, one of 14, for an interval."""
    _, _, relaxed, _ = relaxed_problem("given")
    V = relaxed.compute_variances(np.full((len(relaxed.layout.times), 2), 2.0), q)
    assert V[relaxed.layout.ahead] == pytest.approx(4 * q**2, rel=1e-12)
    assert V[relaxed.layout.inner].sum(axis=0) == pytest.approx(4 * q**2, rel=1e-9)


def test_strong_springs_pull_parameters_back_to_where_the_level_began():
    problem, _, relaxed, p = relaxed_problem("hidden")
    X = random_states(relaxed, len(problem.shared.states))
    wide = np.full(len(p), 100.0)
    level = _Level(relaxed, Point(p, X), 1.0, SearchSettings(-wide, wide, spring_length=np.full(len(p), 1e-5)))
    level.p = p + np.array([0.1, -0.1, 0.2, -0.2])
    stepped, *_ = level.compute_trial_step(relaxed.linearise(level.p, X), 1e-9)
    assert stepped == pytest.approx(p, abs=1e-5)
