"""Lanes end at the optima that SciPy finds with the exact solution, and each is independent of the others."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lane_cases import LaneCase, build_problem
from scipy import optimize

import weakform as wf
from weakform.engine import lane_iteration
from weakform.engine.lane_iteration import MIN_RELATIVE_SIGMA, POLICY, LaneEnd, LaneSolution, solve_in_box, solve_lanes
from weakform.engine.passes import LanePasses, from_groups, to_groups

# ---- The step inside a box ----


def draw_quadratics(n: int, lanes: int, seed: int, alike: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return random J `(lanes, rows, n)` and y `(lanes, rows)`; with `alike`, columns are nearly parallel."""
    rng = np.random.default_rng(seed)
    J = rng.standard_normal((lanes, 2 * n + 2, n)) + alike * rng.standard_normal((lanes, 2 * n + 2, 1))
    return J * 10.0 ** rng.integers(-6, 7, n), 3 * rng.standard_normal((lanes, 2 * n + 2))


def multiply(J: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return H = JᵀJ and g = Jᵀy of each lane."""
    return np.einsum("lki,lkj->lij", J, J), np.einsum("lki,lk->li", J, y)


def draw_box(H: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return sides of a box about zero in units of the curvature: some are infinite, some zero."""
    rng, d = np.random.default_rng(seed), np.sqrt(np.einsum("lii->li", H))
    low, high = (rng.choice([0.0, 0.3, 1.0, np.inf], d.shape) / d for _ in range(2))
    return -low, np.where((low == 0) & (high == 0), 1 / d, high)


@pytest.mark.parametrize("damping", [0.0, 0.5])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_step_without_active_bounds_solves_the_damped_equations(n, damping):
    J, y = draw_quadratics(n, 20, 1)
    H, g = multiply(J, y)
    far = np.full(g.shape, np.inf)
    delta = solve_in_box(H, g, np.full(20, damping), -far, far)
    diagonal = np.einsum("lii->li", H)
    assert np.einsum("lij,lj->li", H, delta) + damping * diagonal * delta == pytest.approx(g, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_step_in_a_box_is_that_of_bounded_least_squares(n):
    J, y = draw_quadratics(n, 60, n, alike=1.0)
    H, g = multiply(J, y)
    low, high = draw_box(H, n)
    delta = solve_in_box(H, g, np.zeros(60), low, high)
    active = 0
    for k in range(60):
        d = np.sqrt(np.diag(H[k]))
        # SciPy needs a little room between the sides.
        best = optimize.lsq_linear(J[k] / d, y[k], (low[k] * d - 1e-13, high[k] * d + 1e-13), method="bvls", tol=1e-14)
        assert delta[k] * d == pytest.approx(best.x, rel=1e-6, abs=1e-9)
        active += bool((best.active_mask != 0).any())
    assert active > 30


def find_violation(H, g, delta, low, high):
    """Return the largest violation of the conditions of Karush, Kuhn and Tucker in each lane, in unit curvature."""
    d = np.sqrt(np.einsum("lii->li", H))
    slope = (g - np.einsum("lij,lj->li", H, delta)) / d
    at_low, at_high = delta <= low, delta >= high
    slope = np.where(at_low, np.maximum(slope, 0.0), slope)
    slope = np.where(at_high, np.minimum(slope, 0.0), slope)
    return np.abs(np.where(at_low & at_high, 0.0, slope)).max(axis=1)


@pytest.mark.parametrize("n", [3, 5, 8])
def test_step_in_a_box_fulfils_the_conditions_of_an_optimum(n):
    J, y = draw_quadratics(n, 400, n, alike=0.5)
    H, g = multiply(J, y)
    low, high = draw_box(H, n)
    delta = solve_in_box(H, g, np.zeros(400), low, high)
    assert (delta >= low).all()
    assert (delta <= high).all()
    assert find_violation(H, g, delta, low, high).max() < 1e-8


def test_step_from_a_corner_moves_unless_the_corner_is_the_optimum():
    H = np.array([[[3.51, 0.106, 1.378], [0.106, 2.751, -2.621], [1.378, -2.621, 15.386]]])
    g = np.array([[-11.405, 0.0891, -0.701]])
    delta = solve_in_box(H, g, np.zeros(1), np.zeros((1, 3)), np.full((1, 3), 10.0))
    assert delta[0] == pytest.approx([0, 0.0891 / 2.751, 0], rel=1e-9)


@given(st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_step_is_inside_the_box_to_the_last_bit(n, seed):
    J, y = draw_quadratics(n, 8, seed)
    H, g = multiply(J, y)
    low, high = draw_box(H, seed)
    delta = solve_in_box(H, g, np.zeros(8), low, high)
    assert ((low <= delta) & (delta <= high)).all()


def test_singular_and_infinite_matrices_spoil_only_their_lane():
    """An unknown without effect stays where it is."""
    J, y = draw_quadratics(3, 4, 5)
    H, g = multiply(J, y)
    far = np.full((4, 3), np.inf)
    expected = solve_in_box(H, g, np.zeros(4), -far, far)
    H[1], H[2], g[2] = np.nan, 0.0, 0.0
    delta = solve_in_box(H, g, np.zeros(4), -far, far)
    assert np.isnan(delta[1]).all()
    assert (delta[2] == 0).all()
    assert np.array_equal(delta[[0, 3]], expected[[0, 3]])


# ---- The iteration ----

TIMES = np.concatenate([np.linspace(0, 4, 15), [4.5, 5.5, 6, 7.5, 8]])
TRUTH = {"N0": 0.5, "r": 1.2, "K": 4.0}


def grow(times, N0, r, K):
    """Return the solution of N' = r N (1 - N/K)."""
    return K / (1 + (K / N0 - 1) * np.exp(-r * times))


@cache
def get_logistic(noise: str = "gaussian", **settings) -> LaneCase:
    """Return logistic growth on a mesh that is fine enough for the rule to be exact to 1e-6."""
    data = wf.Dataset(TIMES, grow(TIMES, **TRUTH), noise=noise)
    settings = {k: list(v) if k == "log" else dict(v) for k, v in settings.items()}
    case = LaneCase.build(wf.Model.from_text("N' = r*N*(1 - N/K)"), data, halvings=3, **settings)
    assert case.model.parameters == ("K", "r")
    return case


def draw_data(lanes: int, noise: str = "gaussian", sigma: float = 0.15, seed: int = 0) -> np.ndarray:
    """Return noisy data `(lanes, S, 1)` in working coordinates."""
    exact = grow(TIMES, **TRUTH)
    draws = sigma * np.random.default_rng(seed).standard_normal((lanes, len(TIMES)))
    return ((exact if noise == "gaussian" else np.log(exact)) + draws)[:, :, None]


def draw_starts(case: LaneCase, lanes: int, seed: int = 1) -> np.ndarray:
    """Return starts of K and r on the scale of the search, within 20% of the truth."""
    natural = np.array([TRUTH["K"], TRUTH["r"]]) * np.exp(0.2 * np.random.default_rng(seed).standard_normal((lanes, 2)))
    return case.resolved.scale.to_working(natural)


def solve(case, data, q, *, sigma=None, weights=None, width=8, states=None, dataset=None) -> LaneSolution:
    """Solve all lanes from the data as states."""
    lanes = len(data)
    weights = np.ones_like(data) if weights is None else weights
    passes = LanePasses(case.model, case.mesh, None, data, weights, width)
    if states is None:
        smooth = grow(case.mesh.times, **TRUTH)
        states = np.tile((np.log(smooth) if case.model.log_states.any() else smooth)[None, :, None], (lanes, 1, 1))
        states = states * (1 + 0.02 * np.sin(7 * case.mesh.times)[None, :, None])
    passes.x[...] = to_groups(states, width)
    given = None if sigma is None else np.full((lanes, 1), sigma)
    with np.errstate(all="ignore"):
        problem = build_problem(case, given, data.std(axis=1))
    solution = solve_lanes(passes, problem, q, np.full((lanes, 1), 0.1) if given is None else given, dataset)
    assert passes.lanes == lanes
    return solution


def fit_reference(case, y, *, weights=None, sigma=None, prior=None, bounds=None):
    """Fit the exact solution by SciPy; return K and r on the scale of the search, σ, and the information.

    σ² is the weighted sum of squares over values less unknowns; with a prior it has to be given.
    """
    w = np.ones(len(TIMES)) if weights is None else weights
    log_noise = case.model.log_states.any()

    def residual(z):
        p = case.resolved.scale.to_natural(z[1:])
        with np.errstate(all="ignore"):
            N = grow(TIMES, np.exp(z[0]) if log_noise else z[0], p[1], p[0])
            r = w * (y - (np.log(N) if log_noise else N))
        return r if prior is None else np.append(r / sigma, prior(z[1:]))

    start = np.array([np.log(0.5) if log_noise else 0.5, *case.resolved.scale.to_working(np.array([4.0, 1.2]))])
    bounds = (-np.inf, np.inf) if bounds is None else bounds
    start = np.clip(start, *bounds)
    best = optimize.least_squares(residual, start, bounds=bounds, xtol=1e-14, ftol=1e-14, gtol=1e-14, x_scale="jac")
    count = np.count_nonzero(w)
    s = np.sqrt(np.sum(residual(best.x) ** 2) / (count - 3)) if sigma is None else sigma
    information = best.jac.T @ best.jac / (1 if prior is not None else s**2)
    return best.x[1:], s, information


def assert_at_reference(case, solution, data, lanes=slice(None), **settings):
    """Assert that lanes have converged to the reference within 1e-3 standard errors."""
    for k in np.arange(len(data))[lanes]:
        own = {name: value[k, :, 0] if name == "weights" else value for name, value in settings.items()}
        q, sigma, information = fit_reference(case, data[k, :, 0], **own)
        assert solution.end[k] == LaneEnd.CONVERGED
        errors = np.sqrt(np.diag(np.linalg.inv(information)))[1:]
        assert np.abs((solution.q[k] - q) / errors).max() < 1e-3
        assert solution.sigma[k, 0] == pytest.approx(sigma, rel=1e-3)
        assert solution.information[k] == pytest.approx(information, rel=5e-3, abs=1e-3 * np.abs(information).max())


@pytest.mark.parametrize("log", [(), ("r",), ("r", "K")])
def test_lanes_reach_the_least_squares_fit_of_the_exact_solution(log):
    case, data = get_logistic(log=log), draw_data(6)
    solution = solve(case, data, draw_starts(case, 6))
    assert_at_reference(case, solution, data)
    assert solution.p == pytest.approx(case.resolved.scale.to_natural(solution.q))
    assert np.array_equal(solution.p[:, 0] == solution.q[:, 0], ["K" not in log] * 6)


def test_lanes_reach_the_fit_with_a_given_sigma():
    case, data = get_logistic(), draw_data(4)
    solution = solve(case, data, draw_starts(case, 4), sigma=0.3)
    assert (solution.sigma == 0.3).all()
    assert_at_reference(case, solution, data, sigma=0.3)
    r = data[:, :, 0] - np.array([grow(TIMES, *fit_start(case, y, 0.3)) for y in data[:, :, 0]])
    assert solution.squares[:, 0] == pytest.approx(np.sum(r**2, axis=1), rel=1e-6)
    assert solution.objective == pytest.approx(np.sum(r**2, axis=1) / 2 / 0.09 + 20 * np.log(0.3), rel=1e-6)


def fit_start(case, y, sigma):
    """Return N0, r and K of the reference fit."""
    (K, r), _, _ = fit_reference(case, y, sigma=sigma)
    N0 = optimize.minimize_scalar(lambda z: np.sum((y - grow(TIMES, z, r, K)) ** 2), bounds=(0.1, 2), method="bounded")
    return N0.x, r, K


def test_lanes_reach_the_fit_with_weights_and_missing_values():
    rng = np.random.default_rng(3)
    case, data = get_logistic(), draw_data(5)
    weights = rng.uniform(0.3, 3, data.shape) * (rng.uniform(size=data.shape) < 0.8)
    data[weights == 0] = np.nan
    solution = solve(case, np.where(weights > 0, data, 0.0), draw_starts(case, 5), weights=weights)
    assert_at_reference(case, solution, np.where(weights > 0, data, 0.0), weights=weights)


def test_lanes_reach_the_fit_with_lognormal_noise():
    case, data = get_logistic("lognormal"), draw_data(5, "lognormal")
    solution = solve(case, data, draw_starts(case, 5))
    assert_at_reference(case, solution, data)


PRIORS = {
    "normal": ({"r": ("normal", 1.0, 0.05)}, lambda q, p: (p[1] - 1.0) / 0.05),
    "lognormal": ({"K": ("lognormal", 4.5, 0.02)}, lambda q, p: (np.log(p[0]) - np.log(4.5)) / 0.02),
}


@pytest.mark.parametrize("log", [(), ("r", "K")])
@pytest.mark.parametrize("kind", PRIORS)
def test_lanes_reach_the_maximum_of_the_posterior(kind, log):
    priors, rho = PRIORS[kind]
    case, data = get_logistic(log=log, priors=tuple(priors.items())), draw_data(4)

    def prior(q):
        return rho(q, case.resolved.scale.to_natural(q))

    solution = solve(case, data, draw_starts(case, 4), sigma=0.15)
    assert_at_reference(case, solution, data, sigma=0.15, prior=prior)
    free = solve(get_logistic(log=log), data, draw_starts(case, 4), sigma=0.15)
    penalty = 0.5 * np.array([prior(q) for q in solution.q]) ** 2
    assert solution.objective == pytest.approx(
        solution.squares[:, 0] / 2 / 0.15**2 + 20 * np.log(0.15) + penalty, rel=1e-9
    )
    assert (solution.squares > free.squares).all()


@pytest.mark.parametrize("log", [(), ("r",)])
def test_lanes_reach_the_fit_at_a_bound(log):
    """K is at most 3.9, and r at least 1.3: each bound holds in some lanes."""
    bounds = {"K": (0.1, 3.9), "r": (1.3, 5.0)}
    case, data = get_logistic(log=log, bounds=tuple(bounds.items())), draw_data(12)
    solution = solve(case, data, draw_starts(case, 12))
    scale = case.resolved.scale
    sides = [scale.to_working(np.array(side)) for side in ([0.1, 1.3], [3.9, 5.0])]
    reference = ([-np.inf, *sides[0]], [np.inf, *sides[1]])
    at_bound = 0
    for k in range(12):
        q, sigma, information = fit_reference(case, data[k, :, 0], bounds=reference)
        assert solution.end[k] == LaneEnd.CONVERGED
        assert np.abs((solution.q[k] - q) * np.sqrt(np.diag(information)[1:])).max() < 2e-3
        assert solution.sigma[k, 0] == pytest.approx(sigma, rel=1e-3)
        assert np.array_equal(solution.at_upper[k], solution.q[k] == sides[1])
        assert np.array_equal(solution.at_lower[k], solution.q[k] == sides[0])
        at_bound += int(solution.at_upper[k, 0]) + int(solution.at_lower[k, 1])
    assert 6 <= at_bound < 24


def test_fixed_parameters_stay():
    case, data = get_logistic(fixed=(("K", 4.1),)), draw_data(3)
    solution = solve(case, data, np.full((3, 1), 1.0))
    assert (solution.p[:, 0] == 4.1).all()
    assert solution.q.shape == (3, 1)
    for k in range(3):
        best = optimize.least_squares(lambda z, k=k: data[k, :, 0] - grow(TIMES, z[0], z[1], 4.1), [0.5, 1.2]).x
        assert solution.q[k, 0] == pytest.approx(best[1], rel=1e-4)


def test_far_starts_end_at_the_optimum_or_say_that_they_did_not():
    """Some lanes have to take steps back; none ends as converged at any other point."""
    case, data = get_logistic(log=("r", "K")), np.repeat(draw_data(1), 24, axis=0)
    rng = np.random.default_rng(2)
    q = np.log(np.array([4.0, 1.2])) + rng.uniform(-1.5, 1.5, (24, 2))
    noisy = np.interp(case.mesh.times, TIMES, data[0, :, 0])
    solution = solve(case, data, q, states=np.tile(noisy[None, :, None], (24, 1, 1)))
    best, _, information = fit_reference(case, data[0, :, 0])
    converged = solution.end == LaneEnd.CONVERGED
    distance = np.abs(solution.q - best) * np.sqrt(np.diag(information)[1:])
    assert (distance[converged] < 5e-3).all()
    assert converged.sum() >= 12
    assert solution.steps[converged].max() > solution.steps[converged].min() + 3
    assert (solution.steps <= POLICY.max_steps).all()


def test_noise_free_data_have_a_sigma_above_zero():
    case = get_logistic()
    data = np.tile(grow(TIMES, **TRUTH)[None, :, None], (2, 1, 1))
    solution = solve(case, data, draw_starts(case, 2))
    assert (solution.end == LaneEnd.CONVERGED).all()
    assert solution.p == pytest.approx(np.array([[4.0, 1.2]] * 2), rel=1e-6)
    assert (solution.sigma >= MIN_RELATIVE_SIGMA * data.std(axis=1)).all()
    assert (solution.sigma < 1e-5).all()


# ---- Lanes are independent ----


def compare(left: LaneSolution, right: LaneSolution, lanes, others) -> None:
    """Assert that lanes of two solutions agree to rounding."""
    for name in vars(left):
        assert getattr(left, name)[lanes] == pytest.approx(getattr(right, name)[others], rel=1e-9, abs=1e-11), name


def test_a_lane_is_independent_of_the_others_of_its_group():
    case, data = get_logistic(log=("r",)), draw_data(11)
    q = draw_starts(case, 11)
    q[3] *= 4  # one takes many steps, or fails
    everything = solve(case, data, q)
    order = np.random.default_rng(0).permutation(11)
    compare(everything, solve(case, data[order], q[order]), order, slice(None))
    for k in (0, 9):
        compare(everything, solve(case, data[[k]], q[[k]]), [k], slice(None))
    compare(everything, solve(case, data, q), slice(None), slice(None))


def test_one_lane_in_a_group_of_one_is_the_same_lane():
    case, data = get_logistic(log=("r",)), draw_data(3)
    q = draw_starts(case, 3)
    wide, narrow = solve(case, data, q), solve(case, data, q, width=1)
    assert narrow.q == pytest.approx(wide.q, rel=1e-7)
    assert np.array_equal(narrow.end, wide.end)


@pytest.mark.parametrize("spoilt", ["data", "start", "states", "sigma"])
def test_a_lane_that_fails_does_not_disturb_its_neighbours(spoilt):
    case, data = get_logistic(), draw_data(6)
    q = draw_starts(case, 6)
    expected = solve(case, data, q)
    states = np.tile(grow(case.mesh.times, **TRUTH)[None, :, None], (6, 1, 1))
    states *= 1 + 0.02 * np.sin(7 * case.mesh.times)[None, :, None]
    passes = {"data": data.copy(), "q": q.copy(), "states": states}
    if spoilt == "data":
        passes["data"][2, 5] = np.inf
    elif spoilt == "start":
        passes["q"][2] = np.nan
    elif spoilt == "states":
        passes["states"][2, 7] = np.nan
    else:
        passes["data"][2] = 1e300
    got = solve(case, passes.pop("data"), passes.pop("q"), **passes)
    kept = [0, 1, 3, 4, 5]
    compare(got, expected, kept, kept)
    assert got.end[2] != LaneEnd.CONVERGED
    assert got.objective[2] == np.inf


def test_a_lane_that_has_converged_stands_still():
    """One lane needs many more steps than the others; they end with as many as alone."""
    case, data = get_logistic(log=("r", "K")), draw_data(8)
    q = draw_starts(case, 8)
    q[5] += [1.5, -1.5]
    together = solve(case, data, q)
    alone = solve(case, data[[0]], q[[0]])
    assert together.steps[0] == alone.steps[0]
    assert together.steps[5] > together.steps[0] + 2
    assert together.q[0] == pytest.approx(alone.q[0], rel=1e-12)


def test_states_of_a_converged_lane_obey_the_equations():
    case, data = get_logistic(), draw_data(2)
    passes = LanePasses(case.model, case.mesh, None, data, np.ones_like(data), 8)
    passes.x[...] = to_groups(np.tile(grow(case.mesh.times, **TRUTH)[None, :, None], (2, 1, 1)), 8)
    solution = solve_lanes(
        passes, build_problem(case, None, data.std(axis=1)), draw_starts(case, 2), np.full((2, 1), 0.1)
    )
    x = from_groups(passes.x, 2)
    for k in range(2):
        K, r = solution.p[k]
        assert x[k, :, 0] == pytest.approx(grow(case.mesh.times, x[k, 0, 0], r, K), abs=1e-5)


def test_solutions_that_diverge_are_no_solutions():
    """From t = 0 to 20 a difference of the initial value grows by a factor exp(20) = 5e8."""
    times = np.linspace(0, 20, 200)
    data = np.exp(times)[None, :, None] * np.array([[[1.0]]])
    case = LaneCase.build(wf.Model.from_text("x' = k*x"), wf.Dataset(times, data[0, :, 0]))
    passes = LanePasses(case.model, case.mesh, None, data, np.ones_like(data), 8)
    passes.x[...] = to_groups(data, 8)
    problem = build_problem(case, np.full((1, 1), 1e5), data.std(axis=1))
    assert solve_lanes(passes, problem, np.array([[1.0]]), np.full((1, 1), 1e5)).end[0] == LaneEnd.DIVERGING


def test_starts_far_behind_a_converged_one_of_their_dataset_are_abandoned(monkeypatch):
    """Two datasets with the same starts; the second one has only one start, and that one is as bad as the others."""
    monkeypatch.setattr(lane_iteration, "POLICY", replace(POLICY, steps_before_abandoning=1))
    case = get_logistic(log=("r", "K"), bounds=(("K", (0.5, 50.0)), ("r", (1e-4, 50.0))))
    data = np.repeat(draw_data(1, sigma=0.01), 8, axis=0)
    q = np.tile(np.log([4.0, 1.2]), (8, 1)) + np.linspace(0, 2, 8)[:, None] * [1, -1]
    alone = solve(case, data, q, sigma=0.01, dataset=np.arange(8))
    assert not (alone.end == LaneEnd.ABANDONED).any()
    together = solve(case, data, q, sigma=0.01, dataset=np.array([0, 0, 0, 0, 0, 0, 0, 1]))
    gone = together.end == LaneEnd.ABANDONED
    assert gone.sum() >= 2
    assert not gone[[0, 7]].any()
    assert (together.steps[gone] < alone.steps[gone]).all()
    compare(together, alone, ~gone, ~gone)
