"""Lanes are judged as single fits are: by the same rules, on many synthetic cases and on solutions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lane_cases import LaneCase, build_problem

import weakform as wf
from weakform.diagnostics.fit_verdict import Evidence, decide_status
from weakform.engine.lane_iteration import LaneEnd, LaneProblem, LaneSolution, solve_lanes
from weakform.engine.lane_verdict import STATUS_OF_END, STATUSES, decide_statuses, invert_information, judge_lanes
from weakform.engine.passes import LanePasses, to_groups
from weakform.results.status import Status

# ---- The rules ----


def draw_covariance(rng, F: int) -> np.ndarray:
    """Return a covariance: of any size, nearly singular, or infinite."""
    root = rng.standard_normal((F, F)) * 10.0 ** rng.uniform(-3, 3, F)[:, None]
    if F > 1 and rng.uniform() < 0.5:  # two estimates trade off
        root[1] = root[0] * rng.uniform(0.5, 2) + 10.0 ** rng.uniform(-8, -1) * root[1]
    covariance = root @ root.T
    return np.full((F, F), np.inf) if rng.uniform() < 0.1 else covariance


def draw_lanes(rng, lanes: int, F: int):
    """Return random problems, solutions and findings of some lanes."""
    log = rng.uniform(size=F) < 0.3
    width = 10.0 ** rng.uniform(-2, 3, F)
    lower = np.where(log, 10.0 ** rng.uniform(-3, 0, F), rng.choice([0.0, -1.0, 0.5], F))
    lower, upper = np.where(rng.uniform(size=F) < 0.2, -np.inf, lower), lower + width
    lower = np.where(log & ~np.isfinite(lower), 0.0, lower)
    upper = np.where(rng.uniform(size=F) < 0.3, np.inf, upper)
    estimate = rng.uniform(-2, 2, (lanes, F)) * 10.0 ** rng.uniform(-4, 3, (lanes, F))
    estimate = np.clip(np.where(log, np.abs(estimate), estimate), lower, upper)
    side = rng.uniform(size=(lanes, F))
    estimate = np.where((side < 0.15) & np.isfinite(lower) & (~log | (lower > 0)), lower, estimate)
    estimate = np.where((side > 0.85) & np.isfinite(upper), upper, estimate)
    with np.errstate(divide="ignore", invalid="ignore"):
        sides = [np.where(log, np.log(bound), bound) for bound in (lower, upper)]
    problem = LaneProblem(
        base=np.zeros(F + 1),
        free=np.arange(1, F + 1),
        log=np.append(False, log),
        lower=sides[0],
        upper=sides[1],
        prior=None,
        sigma=None,
        spread=np.ones((lanes, 1)),
    )
    one = np.ones((lanes, 1))
    solution = LaneSolution(
        q=estimate,
        p=np.column_stack([one, estimate]),
        sigma=one,
        information=np.zeros((lanes, F, F)),
        objective=one[:, 0],
        squares=one,
        end=rng.choice([LaneEnd.CONVERGED] * 12 + list(LaneEnd), lanes),
        steps=one[:, 0].astype(int),
        at_lower=estimate == lower,
        at_upper=estimate == upper,
    )
    covariance = np.array([draw_covariance(rng, F) for _ in range(lanes)])
    size = 10.0 ** rng.uniform(-4, 1, (lanes, F)) * np.maximum(np.abs(estimate), 1e-3)
    covariance *= size[:, :, None] * size[:, None, :]
    findings = {
        "p_value": rng.choice([np.nan, 1e-5, 0.0099, 0.0101, 0.6], lanes, p=[0.1, 0.1, 0.1, 0.1, 0.6]),
        "bias": rng.choice([0.0, 0.49, 0.51, np.inf], lanes, p=[0.7, 0.1, 0.1, 0.1]),
        "is_constant": rng.uniform(size=lanes) < 0.1,
        "without_freedom": rng.uniform(size=lanes) < 0.1,
        "is_misstated": rng.uniform(size=lanes) < 0.1,
    }
    return problem, solution, covariance, findings


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=60)
def test_statuses_are_those_of_a_single_fit(seed, F):
    """`decide_status` with the same evidence, for 40 lanes in each example."""
    problem, solution, covariance, findings = draw_lanes(np.random.default_rng(seed), 40, F)
    with np.errstate(all="ignore"):
        statuses = decide_statuses(problem, solution, covariance, **findings)
    log = problem.log[problem.free]
    with np.errstate(all="ignore"):
        lower, upper = (np.where(log, np.exp(side), side) for side in (problem.lower, problem.upper))
    for k in range(40):
        at_bound = solution.at_lower[k] | solution.at_upper[k]
        p = solution.p[k, problem.free]
        own = np.where(at_bound[:, None] | at_bound, np.nan, covariance[k])
        evidence = Evidence(
            p=p,
            covariance=own,
            inner=~at_bound,
            p_value=findings["p_value"][k],
            weak_misfit=0.0,
            data_are_constant=bool(findings["is_constant"][k]),
            at_nonzero_bound=bool((at_bound & (p != 0)).any()),
            box_width=upper - lower,
            bias=findings["bias"][k],
            noise_is_misstated=bool(findings["is_misstated"][k]),
            noise_is_unknown=bool(findings["without_freedom"][k]),
        )
        end = LaneEnd(solution.end[k])
        reached = Status.CONVERGED if end is LaneEnd.CONVERGED else STATUS_OF_END[end]
        if np.isinf(covariance[k]).any() and not np.isinf(np.diag(own)).any() and (~at_bound).any():
            continue
        assert STATUSES[statuses[k]] is decide_status(reached, evidence), (k, p, own)


def test_every_end_has_a_status_that_is_no_success():
    assert set(STATUS_OF_END) == set(LaneEnd) - {LaneEnd.CONVERGED}
    assert not any(status.success or status.converged for status in STATUS_OF_END.values())


# ---- The covariance ----


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
@settings(max_examples=30)
def test_inverse_is_that_of_the_unknowns_that_are_not_held(seed, n):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((6, n, n + 2)) * 10.0 ** rng.uniform(-8, 8, (n, 1))
    H, held = root @ root.transpose(0, 2, 1), rng.uniform(size=(6, n)) < 0.3
    inverse, factor = invert_information(H, held)
    for k in range(6):
        free = np.flatnonzero(~held[k])
        expected = np.zeros((n, n))
        block, d = H[k][np.ix_(free, free)], np.sqrt(np.diag(H[k]))[free]
        expected[np.ix_(free, free)] = np.linalg.inv(block / np.outer(d, d)) / np.outer(d, d)
        size = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
        condition = np.linalg.cond(block / np.outer(d, d)) if len(free) else 1.0
        assert (np.abs(inverse[k] - expected) <= 1e-13 * condition * size).all()
        assert factor[k] @ factor[k].T == pytest.approx(inverse[k], rel=1e-12, abs=0)


def test_singular_and_undefined_matrices_have_an_infinite_inverse():
    H = np.tile(np.array([[2.0, 1.0], [1.0, 3.0]]), (5, 1, 1))
    H[1] = [[1.0, 1.0], [1.0, 1.0]]
    H[2], H[3] = np.nan, 0.0
    H[4] = [[1.0, 2.0], [2.0, 1.0]]  # not positive definite
    inverse, root = invert_information(H, np.zeros((5, 2), dtype=bool))
    assert inverse[0] == pytest.approx(np.linalg.inv(H[0]))
    assert np.isinf(inverse[[1, 2, 4]]).all()
    assert inverse[3] == pytest.approx(np.diag([np.inf, np.inf]))  # unknowns without any effect
    assert (root[1:] == 0).all()
    # What is held needs no information.
    inverse, _ = invert_information(H[[1, 3]], np.array([[True, False], [True, True]]))
    assert inverse[0] == pytest.approx(np.array([[0, 0], [0, 1]]))
    assert (inverse[1] == 0).all()


# ---- Judging solutions ----

T = np.linspace(0, 6, 40)
TRUTH = {"N0": 0.5, "r": 1.2, "K": 4.0}
MODEL = wf.Model.from_text("N' = r*N*(1 - N/K)")


def grow(times, N0=0.5, r=1.2, K=4.0):
    return K / (1 + (K / N0 - 1) * np.exp(-r * times))


def judge(data, *, model=MODEL, times=T, weights=None, sigma=None, halvings=1, **settings):
    """Fit data `(lanes, S)` of one state, and return the problem, the solution and the verdict of each lane."""
    case = LaneCase.build(model, wf.Dataset(times, np.linspace(1, 2, len(times))), halvings, **settings)
    lanes, values = len(data), data[:, :, None]
    weights = np.ones_like(values) if weights is None else weights[:, :, None]
    passes = LanePasses(case.model, case.mesh, None, values, weights, 8)
    states = np.array([np.interp(case.mesh.times, times, y) for y in data])
    passes.x[...] = to_groups(states[:, :, None], 8)
    spread = np.where(values.std(axis=1) > 0, values.std(axis=1), 1.0)
    given = None if sigma is None else np.full((lanes, 1), sigma)
    problem = build_problem(case, given, spread)
    q = np.tile(case.resolved.scale.to_working(np.full(len(case.model.parameters), 1.0))[case.model.free], (lanes, 1))
    solution = solve_lanes(passes, problem, q, np.full((lanes, 1), 0.1) if given is None else given)
    return case, solution, judge_lanes(passes, problem, solution)


def draw_noise(lanes, sigma, seed=0):
    return sigma * np.random.default_rng(seed).standard_normal((lanes, len(T)))


@pytest.mark.parametrize("log", [[], ["r", "K"]])
def test_verdict_is_that_of_a_single_fit(log):
    """Status, standard errors and p-value of twelve datasets, some of which follow another equation."""
    data = grow(T) + draw_noise(12, 0.05)
    data[4:8] += 0.2 * np.sin(4 * T)
    _, solution, verdict = judge(data, log=log)
    for k in range(12):
        single = wf.fit(MODEL, wf.Dataset(T, data[k]), log=log, start={"r": 1.2, "K": 4.0})
        assert STATUSES[verdict.status[k]] is single.status
        assert single.model.parameters == ("K", "r")
        assert solution.p[k] == pytest.approx(single.estimate, rel=1e-4)
        assert verdict.covariance[k] == pytest.approx(single.covariance, rel=2e-2)
        if single.goodness.p_value > 0.2:
            assert verdict.p_value[k] == pytest.approx(single.goodness.p_value, rel=0.03)
    assert (verdict.status[4:8] == STATUSES.index(Status.REJECTED)).all()
    assert (verdict.bias < 0.1).all()


def test_a_coarse_mesh_is_noticed_by_the_error_of_its_rule():
    """The shift that the verdict predicts is that to the estimate on a mesh eight times as fine."""
    times = np.linspace(0, 10, 8)
    model = wf.Model.from_text("x' = w*cos(w*t)*a")
    rng = np.random.default_rng(1)
    data = np.sin(1.9 * times) + 0.003 * rng.standard_normal((3, 8))
    settings = {"fixed": {"a": 1.0}, "bounds": {"w": (1.7, 2.1)}}
    case, coarse, verdict = judge(data, model=model, times=times, halvings=0, **settings)
    _, fine, better = judge(data, model=model, times=times, halvings=3, **settings)
    assert (coarse.end == LaneEnd.CONVERGED).all()
    errors = np.sqrt(verdict.covariance[:, 0, 0])
    shift = np.abs(coarse.p - fine.p)[:, case.model.free[0]] / errors
    assert verdict.bias == pytest.approx(shift, rel=0.1)
    assert (verdict.bias > 0.5).all()
    assert (verdict.status == STATUSES.index(Status.UNRESOLVED)).all()
    assert (better.bias < 0.01 * verdict.bias).all()


def test_parameters_at_a_bound_have_no_covariance_and_do_not_widen_that_of_others():
    data = grow(T) + draw_noise(3, 0.05)
    case, solution, verdict = judge(data, bounds={"K": (0.1, 3.9), "r": (0.1, 5.0)})
    fixed_case, fixed, fixed_verdict = judge(data, fixed={"K": 3.9})
    K, r = (case.model.parameters.index(name) for name in ("K", "r"))
    assert solution.at_upper[:, K].all()
    assert np.isnan(verdict.covariance[:, K]).all()
    assert np.isnan(verdict.covariance[:, :, K]).all()
    assert fixed_case.model.F == 1
    # σ has one more degree of freedom with K fixed.
    expected = fixed_verdict.covariance[:, 0, 0] * (solution.sigma / fixed.sigma)[:, 0] ** 2
    assert verdict.covariance[:, r, r] == pytest.approx(expected, rel=1e-3)
    assert set(verdict.status) <= {STATUSES.index(s) for s in (Status.UNDETERMINED, Status.REJECTED)}


def test_a_product_of_parameters_is_undetermined():
    model = wf.Model.from_text("N' = a*b*N*(1 - N/4)")
    data = grow(T) + draw_noise(3, 0.05)
    _, _, verdict = judge(data, model=model, bounds={"a": (0.01, 100.0), "b": (0.01, 100.0)})
    assert (verdict.status == STATUSES.index(Status.UNDETERMINED)).all()


def test_constant_data_determine_nothing():
    """Noise about the carrying capacity: r is unknown. A weak trend in many samples is none."""
    data = 4 + draw_noise(6, 0.3)
    bounds = {"r": (0.01, 10.0), "K": (1.0, 10.0)}
    _, solution, verdict = judge(data, bounds=bounds)
    converged = solution.end == LaneEnd.CONVERGED
    assert converged.sum() >= 3
    assert (verdict.status[converged] == STATUSES.index(Status.UNDETERMINED)).all()
    # Growth by 20% of its noise in a hundred times as many samples.
    times = np.linspace(0, 6, 4000)
    trend = 4 - 0.4 * np.exp(-times) + 0.5 * np.random.default_rng(1).standard_normal((2, 4000))
    _, _, verdict = judge(trend, times=times, halvings=0, bounds=bounds)
    assert (verdict.status == STATUSES.index(Status.CONVERGED)).all()


@pytest.mark.parametrize("sigma", [None, 0.05])
def test_as_many_unknowns_as_values_leave_nothing_to_estimate_sigma_from(sigma):
    """Three values determine K, r and N(0), whose errors are known only if σ is given."""
    times = np.array([0.0, 2.0, 5.0])
    data = grow(times)[None] * np.array([[1.0, 1.05, 0.97]])
    _, solution, verdict = judge(data, times=times, halvings=4, sigma=sigma)
    single = wf.fit(MODEL, wf.Dataset(times, data[0], sigma=sigma))
    if sigma is None:
        assert single.status is Status.UNDETERMINED
        assert STATUSES[verdict.status[0]] is not Status.CONVERGED
    else:
        assert STATUSES[verdict.status[0]] is single.status is Status.CONVERGED
        assert solution.p[0] == pytest.approx(single.estimate, rel=1e-4)
        assert verdict.covariance[0] == pytest.approx(single.covariance, rel=2e-2)


def test_missing_values_count_neither_in_the_test_nor_in_the_freedom():
    """With every other value missing, the verdict is that of the others alone."""
    data = grow(T) + draw_noise(4, 0.05)
    weights = np.tile(np.arange(len(T)) % 2 == 0, (4, 1)).astype(float)
    spoilt = np.where(weights > 0, data, 1e6)
    _, solution, verdict = judge(np.where(weights > 0, data, grow(T)), weights=weights)
    _, expected, alone = judge(data[:, ::2], times=T[::2], halvings=2)
    assert solution.p == pytest.approx(expected.p, rel=1e-4)
    assert solution.sigma == pytest.approx(expected.sigma, rel=1e-3)
    assert verdict.p_value == pytest.approx(alone.p_value, rel=0.03)
    assert verdict.covariance == pytest.approx(alone.covariance, rel=1e-2)
    assert spoilt.max() == 1e6


def test_noise_free_data_are_no_evidence_against_the_model():
    _, solution, verdict = judge(np.tile(grow(T), (2, 1)), halvings=4)
    assert (solution.end == LaneEnd.CONVERGED).all()
    assert np.isnan(verdict.p_value).all()
    assert (verdict.status == STATUSES.index(Status.CONVERGED)).all()


def test_a_given_sigma_that_is_wrong_is_rejected():
    data = grow(T) + draw_noise(4, 0.05)
    for sigma, rejected in ((0.05, False), (0.02, True), (0.15, True)):
        _, _, verdict = judge(data, sigma=sigma)
        assert (verdict.p_value < 0.01).tolist() == [rejected] * 4
        for k in range(4):
            goodness = wf.fit(MODEL, wf.Dataset(T, data[k], sigma=sigma)).goodness
            if goodness.portmanteau_p > 0.2:  # exact, and the χ² of both sides decides
                assert verdict.p_value[k] == pytest.approx(goodness.p_value, rel=0.05)
