"""The passes: compiled and in NumPy they agree; and they compute what a dense linear system, and solutions, give."""

import numpy as np
import pytest
from lane_cases import CASES, COMPILED, LaneCase, get_case, use_instruction_set
from scipy import integrate, optimize

import weakform as wf
from weakform.collocation.mesh import Mesh, MeshPart
from weakform.data.matching import build_system
from weakform.engine.lane_plan import RUNGE_KUTTA_STEPS, LaneInputs
from weakform.engine.passes import LanePasses, TestWindows, find_finite, from_groups, get_instruction_set, to_groups

TILE_EDGES = (2, 7, 8, 9, 64, 65, 10**6)
"""Numbers of nodes: eight lanes have 8 of them in a tile, one lane has 64."""


# ---- Groups ----


@pytest.mark.parametrize("lanes", [1, 7, 8, 9])
@pytest.mark.parametrize("width", [1, 8])
def test_groups_keep_the_order_of_lanes_and_repeat_the_last_one(lanes, width):
    values = np.arange(lanes * 6.0).reshape(lanes, 3, 2)
    grouped = to_groups(values, width)
    assert grouped.shape == (-(-lanes // width), 3, 2, width)
    assert grouped.flags.c_contiguous
    assert np.array_equal(grouped[lanes // width if lanes % width else -1, :, :, (lanes - 1) % width], values[-1])
    assert np.array_equal(grouped[-1, :, :, -1], values[-1])
    back = from_groups(grouped, lanes)
    assert np.array_equal(back, values)
    assert not np.shares_memory(back, grouped)


def test_a_lane_is_finite_if_all_its_values_are():
    values = np.zeros((3, 2, 2))
    values[1, 1, 0], values[2, 0, 0] = np.nan, -np.inf
    assert find_finite(values).tolist() == [True, False, False]


# ---- Compiled and NumPy ----


def draw_windows(passes: LanePasses) -> tuple[TestWindows, np.ndarray, np.ndarray]:
    """Return five random test functions, each zero at most nodes, with left sides and scales of the weak residuals."""
    rng = np.random.default_rng(12)
    N, D = len(passes.mesh.times), passes.model.D
    phi = np.where(rng.uniform(size=(5, N)) < 0.4, rng.standard_normal((5, N)), 0.0)
    left, scale = rng.standard_normal((passes.lanes, 5, D)), rng.uniform(0.5, 2, (passes.lanes, D))
    return TestWindows(phi, phi), left, scale


def sum_weak_residuals(passes: LanePasses) -> tuple[np.ndarray, ...]:
    """Return the normal equations of weak least squares with the windows of `draw_windows`."""
    windows, left, scale = draw_windows(passes)
    return passes.sum_weak_residuals(windows, to_groups(left, passes.width), to_groups(scale, passes.width))


def run_passes(case: LaneCase, lanes: int, width: int, own_inputs: bool) -> dict[str, np.ndarray]:
    """Run every pass at a random point; return what each computes, lanes first."""
    passes = case.build_passes(lanes, width, own_inputs=own_inputs)
    passes.data[passes.weights == 0] = np.nan
    passes.y = to_groups(passes.data, width)
    model, G = case.model, passes.groups
    residuals = np.zeros((G, case.mesh.samples, model.K, width))
    rows = np.zeros((G, case.mesh.samples, model.K, model.unknowns, width))
    with np.errstate(all="ignore"):
        results = dict(vars(passes.linearise(residuals=residuals, rows=rows)))
        results |= {"residuals": from_groups(residuals, lanes), "rows": from_groups(rows, lanes)}
        steps = passes.steps[:-1].reshape(G, case.mesh.intervals, model.D, -1, width)
        results["steps"] = from_groups(steps, lanes)
        share = np.linspace(0.1, 1, lanes)
        results["drift"] = passes.move(np.full((lanes, model.unknowns), 0.02), share)
        results["moved"] = from_groups(passes.x, lanes)
        results["values"] = from_groups(passes.evaluate(), lanes)
        truncation = passes.compute_truncation()
        results["truncation"] = from_groups(truncation, lanes)
        passes.offset = 0.1 * np.nan_to_num(truncation, nan=0.0, posinf=0.0, neginf=0.0)
        results |= {f"{name} with offset": value for name, value in vars(passes.linearise()).items()}
        results |= dict(zip(("weak H", "weak g", "weak squares"), sum_weak_residuals(passes), strict=True))
        passes.march()
        results["solution"] = from_groups(passes.x, lanes)
    return results


def assert_agree(case, lanes, width, own_inputs, monkeypatch):
    """Assert that all compiled instruction sets agree with NumPy to 1e-10 of the size of each lane's values."""
    results = {}
    for level in ("numpy", *COMPILED):
        use_instruction_set(monkeypatch, level)
        results[level] = run_passes(case, lanes, width, own_inputs)
    for level in COMPILED:
        for name, expected in results["numpy"].items():
            got = results[level][name]
            assert got.shape == expected.shape
            assert np.array_equal(np.isfinite(got), np.isfinite(expected)), (level, name)
            finite = np.where(np.isfinite(expected), expected, 0.0)
            size = np.abs(finite).reshape(len(finite), -1).max(axis=1, initial=1e-3)
            off = np.abs(np.where(np.isfinite(got), got, 0.0) - finite).reshape(len(finite), -1).max(axis=1, initial=0)
            assert (off <= 1e-10 * size).all(), (level, name, off / size)


DRIVEN = ("inputs", "hidden inputs")
"""Cases with inputs."""


@pytest.mark.parametrize("width", [8, 1])
@pytest.mark.parametrize("name", CASES)
def test_compiled_passes_agree_with_numpy(monkeypatch, name, width):
    case = get_case(name)
    for nodes in TILE_EDGES:
        assert_agree(case.cut(nodes), 9, width, False, monkeypatch)


@pytest.mark.parametrize("lanes", [1, 7, 8, 17])
@pytest.mark.parametrize("name", ["all measured", "hidden inputs", "doses"])
def test_compiled_passes_agree_with_numpy_for_any_number_of_lanes(monkeypatch, name, lanes):
    for width in (8, 1):
        assert_agree(get_case(name).cut(20), lanes, width, False, monkeypatch)


@pytest.mark.parametrize("name", DRIVEN)
def test_compiled_passes_agree_with_numpy_with_inputs_of_each_lane(monkeypatch, name):
    for nodes in TILE_EDGES:
        assert_agree(get_case(name).cut(nodes), 8, 8, True, monkeypatch)
        assert_agree(get_case(name).cut(nodes), 1, 1, True, monkeypatch)


@pytest.mark.parametrize("name", [*DRIVEN, "doses"])
def test_compiled_passes_agree_with_numpy_for_more_groups_than_a_tile_holds(monkeypatch, name):
    """`march` has one node of eight groups, or of 64 lanes, in a tile; each has inputs and parameters of its own."""
    case = get_case(name).cut(10**6 if name == "doses" else 9)
    assert_agree(case, 70, 8, case.inputs is not None, monkeypatch)
    assert_agree(case, 70, 1, case.inputs is not None, monkeypatch)


@pytest.mark.parametrize("level", [*COMPILED, "numpy"])
def test_other_groups_keep_their_values(monkeypatch, level):
    use_instruction_set(monkeypatch, level)
    passes = get_case("hidden").build_passes(17, 8)
    before = passes.linearise()
    passes.x *= 1.1
    passes.p *= 1.1
    residuals = np.full((3, passes.mesh.samples, 1, 8), 7.0)
    after = passes.linearise(np.array([1]), residuals=residuals)
    for name, values in vars(after).items():
        assert np.array_equal(values[:8], getattr(before, name)[:8])
        assert np.array_equal(values[16:], getattr(before, name)[16:])
        assert not np.array_equal(values[8:16], getattr(before, name)[8:16])
    assert (residuals[[0, 2]] == 7).all()
    assert (residuals[1] != 7).all()
    assert np.array_equal(after.H, after.H.transpose(0, 2, 1))


@pytest.mark.parametrize("level", [*COMPILED, "numpy"])
def test_a_lane_that_is_not_finite_does_not_disturb_the_others(monkeypatch, level):
    """One has no finite state, one a singular step, one an infinite parameter."""
    use_instruction_set(monkeypatch, level)

    def run(spoil: bool) -> dict[str, np.ndarray]:
        passes = get_case("all measured").build_passes(8, 8)
        if spoil:
            passes.x[0, 3, :, 2] = np.nan
            passes.x[0, 5, 1, 4] = np.inf
            passes.p[0, 0, 6] = np.inf
        with np.errstate(all="ignore"):
            results = {**vars(passes.linearise()), "truncation": from_groups(passes.compute_truncation(), 8)}
            passes.move(np.full((8, 5), 0.1), np.ones(8))
            passes.march()
        return results | {"x": from_groups(passes.x, 8)}

    kept = [0, 1, 3, 5, 7]
    spoilt, plain = run(True), run(False)
    for name, values in plain.items():
        assert spoilt[name][kept] == pytest.approx(values[kept], rel=1e-12, abs=1e-13), name
        assert np.isfinite(values).all()
    assert not np.isfinite(spoilt["H"][[2, 4, 6]]).all(axis=(1, 2)).any()


@pytest.mark.parametrize("level", [*COMPILED, "numpy"])
def test_a_lane_without_a_share_stays_where_it_is(monkeypatch, level):
    use_instruction_set(monkeypatch, level)
    passes = get_case("hidden").build_passes(3, 8)
    passes.linearise()
    before = from_groups(passes.x, 3)
    drift = passes.move(np.full((3, passes.model.unknowns), 0.1), np.array([0.0, 1.0, 0.5]))
    after = from_groups(passes.x, 3)
    assert np.array_equal(after[0], before[0])
    assert (after[1:] != before[1:]).all()
    assert drift == pytest.approx(np.sum((after - before) ** 2, axis=1), rel=1e-9)


@pytest.mark.parametrize("wanted", ["avx512", "avx2", "base", "numpy", "unknown"])
def test_the_environment_chooses_an_instruction_set_of_the_machine(monkeypatch, wanted):
    if wanted in (*COMPILED, "numpy"):
        use_instruction_set(monkeypatch, wanted)
    else:
        use_instruction_set(monkeypatch, COMPILED[0] if COMPILED else "numpy")
        monkeypatch.setenv("WEAKFORM_LANES", wanted)
        get_instruction_set.cache_clear()
        assert get_instruction_set() == (COMPILED[0] if COMPILED else "numpy")


# ---- Against a dense linear system ----


def solve_dense(case: LaneCase, p: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """Solve the linearised equations for the states as a dense system.

    Parameters
    ----------
    case : LaneCase
    p : ndarray, (P,)
        Parameters on the scale of the search.
    x : ndarray, (N, D)

    Returns
    -------
    dict
        Defects `c` (N - 1, D), derivatives `Y` (N, D, n) of the states by the unknowns, and their change `s` (N, D) by
        closing the defects.
    """
    model = case.model
    N, D, n, Q = len(x), model.D, model.unknowns, len(model.free_initial)
    free = case.resolved.free
    if case.matched.complete:
        data = case.matched.data
        system = build_system(case.problem.shared, data, 0)
        q = data.trajectories[0]
        part = MeshPart(system, case.mesh.times, np.zeros(x.shape), np.ones(x.shape, dtype=bool))
        line = Mesh.from_parts([part]).linearise(case.resolved.scale.to_natural(p), x)
        assert len(q.times) == case.mesh.samples
        c, left, right = line.c, line.A.left, line.A.right
        slope = np.where(case.resolved.scale.log, np.exp(p), 1.0)[free]
        G = line.G[:, :, free] * slope
        first, first_G = np.zeros(D), np.zeros((D, model.F))
    else:
        relaxed = case.problem.build_relaxed_model((case.mesh.times,), case.problem.sigma, free)
        line = relaxed.linearise(p, np.concatenate([x[:1], x]))
        c, left, right, G = line.v[1:-1], line.left[1:-1], line.right[1:-1], line.G[1:-1]
        first, first_G = line.v[0], line.G[0]
    matrix = np.zeros((N, D, N, D))
    rhs = np.zeros((N, D, n + 1))
    matrix[0, :, 0] = np.eye(D)
    rhs[0, :, n], rhs[0, :, Q:n] = -first, -first_G
    rhs[0, model.free_initial, n], rhs[0, model.free_initial, Q:n] = 0.0, 0.0
    rhs[0, model.free_initial, np.arange(Q)] = 1.0
    for m in range(N - 1):
        matrix[m + 1, :, m], matrix[m + 1, :, m + 1] = left[m], right[m]
        rhs[m + 1, :, n], rhs[m + 1, :, Q:n] = -c[m], -G[m]
    solution = np.linalg.solve(matrix.reshape(N * D, -1), rhs.reshape(N * D, -1)).reshape(N, D, n + 1)
    return {"c": c, "Y": solution[:, :, :n], "s": solution[:, :, n]}


def observe_dense(case: LaneCase, p: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return observables `(N, K)` at the nodes, their derivatives by the states and by the free parameters."""
    if case.matched.complete:  # a state on a log scale is its own observable
        return x, np.tile(np.eye(case.model.D), (len(x), 1, 1)), np.zeros((*x.shape, case.model.F))
    functions, scale = case.problem.functions, case.resolved.scale
    inputs = None if case.inputs is None else case.inputs(case.mesh.times)
    values, by_x, by_p = functions.h.linearise(case.mesh.times, x, np.tile(scale.to_natural(p), (len(x), 1)), inputs)
    slope = np.where(scale.log, np.exp(p), 1.0)
    return values, by_x, (by_p * slope)[:, :, case.resolved.free]


def place_lane(case: LaneCase, seed: int) -> tuple[LanePasses, np.ndarray, np.ndarray, np.ndarray]:
    """Return passes at a random point, with its parameters on the scale of the search, states, and σ."""
    rng = np.random.default_rng(seed)
    passes = case.build_passes(2, 8, seed=seed)
    scale, model = case.resolved.scale, case.model
    natural = rng.uniform(0.3, 1.2, (2, len(model.parameters)))
    natural[:, ~case.resolved.free] = case.resolved.fixed_values[~case.resolved.free]
    sigma = rng.uniform(0.1, 0.3, (2, model.K))
    slope = np.where(scale.log, natural, 1.0)[:, case.resolved.free]
    passes.set_point(natural, slope, sigma)
    return passes, scale.to_working(natural[1]), from_groups(passes.x, 2)[1], sigma[1]


@pytest.mark.parametrize("name", CASES)
def test_linearise_condenses_the_dense_system(name):
    case = get_case(name)
    passes, p, x, sigma = place_lane(case, 5)
    model, mesh = case.model, case.mesh
    Q, n = len(model.free_initial), model.unknowns
    lin = passes.linearise()
    dense = solve_dense(case, p, x)
    values, by_x, by_p = observe_dense(case, p, x)
    rows = np.einsum("mkd,mdi->mki", by_x, np.concatenate([dense["Y"], dense["s"][:, :, None]], axis=2))
    rows[:, :, Q:n] += by_p
    sampled, sampled_rows = np.zeros((mesh.samples, model.K)), np.zeros((mesh.samples, model.K, n + 1))
    for (node, sample, _), weight in zip(mesh.entries, mesh.entry_weights, strict=True):
        sampled[sample] += weight * values[node]
        sampled_rows[sample] += weight * rows[node]
    y, w = passes.data[1], passes.weights[1]
    log = model.log_noise.astype(bool)
    # Log-normal noise is additive in the logarithm, continued by its tangent below a thousandth of the value.
    floor = 1e-3 * np.exp(y)
    base = np.maximum(sampled, floor)
    sampled_rows = np.where(log[:, None], sampled_rows / base[:, :, None], sampled_rows)
    sampled = np.where(log, np.log(base) + (sampled - base) / base, sampled)
    r = w * (y - sampled)
    closed = r - w * sampled_rows[:, :, n]
    J = w[:, :, None] * sampled_rows[:, :, :n]
    precision = 1 / sigma**2
    expected = {
        "H": np.einsum("ski,skj,k->ij", J, J, precision),
        "g": np.einsum("ski,sk,k->i", J, closed, precision),
        "squares": np.sum(r**2, axis=0),
        "closed_squares": np.sum(closed**2, axis=0),
        "defects": np.abs(dense["c"]).sum(axis=0),
        "growth": np.abs(dense["Y"][1:, :, :Q]).max(initial=0),
    }
    for label, value in expected.items():
        got = getattr(lin, label)[1]
        assert got == pytest.approx(value, rel=1e-7, abs=1e-8 * np.max(np.abs(value), initial=1e-8)), label


@pytest.mark.parametrize("name", CASES)
def test_move_is_the_step_of_the_dense_system(name):
    case = get_case(name)
    passes, p, x, _ = place_lane(case, 6)
    passes.linearise()
    delta = np.random.default_rng(0).uniform(-0.2, 0.2, (2, case.model.unknowns))
    passes.move(delta, np.array([1.0, 0.5]))
    dense = solve_dense(case, p, x)
    step = dense["Y"] @ delta[1] + dense["s"]
    assert from_groups(passes.x, 2)[1] - x == pytest.approx(0.5 * step, rel=1e-7, abs=1e-8 * np.abs(step).max())


def test_a_step_at_a_solution_of_linear_equations_keeps_them_closed():
    """The equations are linear in the states: after one step at fixed parameters no defect is left."""
    passes = get_case("hidden").build_passes(3, 8)
    assert passes.linearise().defects.min() > 1
    passes.move(np.zeros((3, passes.model.unknowns)), np.ones(3))
    assert passes.linearise().defects.max() < 1e-12


# ---- Against solutions of the equations ----

KINETICS = get_case("log-normal")
"""x' = -a x + b y, y' = a x - b y, z' = x - z with x(0) = A0 and y(0) = 0; C = x/V has log-normal noise."""


def solve_kinetics(times, z0, p):
    """Solve the equations of `KINETICS` by Simpson's rule with Hermite midpoints, `(N, 3)`; a, b, A0, V are in p."""
    a, b, A0, _ = p

    def f(x):
        return np.array([-a * x[0] + b * x[1], a * x[0] - b * x[1], x[0] - x[2]])

    def defect(x1, x0, h):
        middle = (x0 + x1) / 2 + h / 8 * (f(x0) - f(x1))
        return x1 - x0 - h / 6 * (f(x0) + 4 * f(middle) + f(x1))

    states = [np.array([A0, 0.0, z0])]
    for h in np.diff(times):
        states.append(optimize.root(defect, states[-1], (states[-1], h), tol=1e-14, options={"xtol": 1e-15}).x)
    return np.array(states)


def test_information_and_gradient_are_those_of_closed_solutions():
    """Derivatives of residuals of solutions, by central differences, with another implementation of the rule."""
    case = KINETICS
    names = case.model.parameters
    order = [names.index(name) for name in ("a", "b", "A0", "V")]
    times, nodes = case.mesh.times, case.mesh.entries[:, 0]
    p, z0 = np.array([0.8, 0.3, 2.0, 1.5]), 0.4
    passes = case.build_passes(1, 1)
    passes.x[...] = to_groups(solve_kinetics(times, z0, p)[None], 1)
    natural = np.zeros((1, len(names)))
    natural[0, order] = p
    sigma = np.array([[0.1, 0.2]])
    passes.set_point(natural, np.ones((1, 4)), sigma)
    lin = passes.linearise()
    y, w = passes.data[0], passes.weights[0]
    columns = [case.matched.data.names.index(name) for name in ("C", "z")]
    assert columns == [0, 1]

    def residual(unknowns):
        x = solve_kinetics(times, unknowns[0], unknowns[1:])[nodes]
        return w * (y - np.column_stack([np.log(x[:, 0] / unknowns[4]), x[:, 2]])) / sigma[0]

    at, h = np.array([z0, *p]), 1e-5
    J = np.array([(residual(at + h * e) - residual(at - h * e)) / (2 * h) for e in np.eye(5)]).reshape(5, -1)
    r = residual(at).ravel()
    # The unknowns of the engine: z(0), then the free parameters in the order of the model.
    unknowns = np.array([0, *(1 + np.argsort(order))])
    assert lin.H[0] == pytest.approx((J @ J.T)[np.ix_(unknowns, unknowns)], rel=1e-6, abs=1e-6)
    assert lin.g[0] == pytest.approx(-(J @ r)[unknowns], rel=1e-6, abs=1e-6)
    assert lin.squares[0] == pytest.approx(lin.closed_squares[0], rel=1e-10)
    assert lin.squares[0] @ (1 / sigma[0] ** 2) == pytest.approx(r @ r, rel=1e-10)


def solve_interval(case: LaneCase, x0: np.ndarray, m: int, natural: np.ndarray) -> np.ndarray:
    """Solve the equations over one interval to high accuracy."""
    begin, end = case.mesh.times[m : m + 2]

    def f(t, x):
        # An input that jumps at the end has its value before the jump throughout.
        inputs = None if case.inputs is None else case.inputs(np.array([t]), before=t >= end)
        return case.problem.functions.f(np.array([t]), x[None], natural[None], inputs)[0]

    return integrate.solve_ivp(f, (begin, end), x0, rtol=1e-12, atol=1e-13).y[:, -1]


@pytest.mark.parametrize("level", [*COMPILED[:1], "numpy"])
@pytest.mark.parametrize("name", ["hidden inputs", "time", "doses"])
def test_truncation_is_the_distance_from_the_solution_less_the_defect(monkeypatch, name, level):
    use_instruction_set(monkeypatch, level)
    case = get_case(name)
    passes, p, x, _ = place_lane(case, 7)
    natural = case.resolved.scale.to_natural(p)
    c = solve_dense(case, p, x)["c"]
    got = from_groups(passes.compute_truncation(), 2)[1]
    assert got.shape == (case.mesh.intervals, case.model.D)
    for m in range(0, case.mesh.intervals, 7):
        if case.mesh.times[m] == case.mesh.times[m + 1]:
            continue
        expected = x[m + 1] - solve_interval(case, x[m], m, natural) - c[m]
        assert got[m] == pytest.approx(expected, rel=1e-3, abs=2e-10)
    if case.mesh.kind is not None:
        jumps = case.mesh.kind >= 0
        assert jumps.sum() == 3
        assert (got[jumps] == 0).all()


def test_truncation_is_that_of_the_mesh():
    case = get_case("log states")
    passes, p, x, _ = place_lane(case, 8)
    system = build_system(case.problem.shared, case.matched.data, 0)
    part = MeshPart(system, case.mesh.times, np.zeros(x.shape), np.ones(x.shape, dtype=bool))
    expected = Mesh.from_parts([part]).estimate_truncation(case.resolved.scale.to_natural(p), x, RUNGE_KUTTA_STEPS)
    assert from_groups(passes.compute_truncation(), 2)[1] == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("level", [*COMPILED[:1], "numpy"])
@pytest.mark.parametrize("name", ["hidden inputs", "time", "doses", "log-normal"])
def test_march_solves_the_equations_with_inputs_and_jumps(monkeypatch, name, level):
    use_instruction_set(monkeypatch, level)
    case = get_case(name)
    passes, p, x, _ = place_lane(case, 9)
    natural = case.resolved.scale.to_natural(p)
    passes.march()
    got = from_groups(passes.x, 2)[1]
    F = dict(zip(case.model.parameters, natural, strict=True)).get("F", 0.0)
    doses = {0.0: [10 * F, 0.0], 1.3: [0.0, 2.0], 2.0: [5.0, 0.0]}
    state = x[0]
    assert np.array_equal(got[0], state)
    for m in range(case.mesh.intervals):
        time = case.mesh.times[m]
        jumps = time == case.mesh.times[m + 1]
        state = state + doses[time] if jumps else solve_interval(case, state, m, natural)
        assert got[m + 1] == pytest.approx(state, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("level", [*COMPILED[:1], "numpy"])
@pytest.mark.parametrize("name", CASES)
def test_evaluate_returns_the_right_hand_side_and_its_derivatives(monkeypatch, name, level):
    use_instruction_set(monkeypatch, level)
    case = get_case(name)
    passes, p, x, _ = place_lane(case, 10)
    model, natural = case.model, case.resolved.scale.to_natural(p)
    got = from_groups(passes.evaluate(), 2)[1]
    N, nf, nA = len(x), len(model.value_row), len(model.by_state)
    f, by_x, by_p = np.zeros((N, model.D)), np.zeros((N, model.D**2)), np.zeros((N, model.D * model.F))
    f[:, model.value_row], by_x[:, model.by_state] = got[:, :nf], got[:, nf : nf + nA]
    by_p[:, model.by_parameter] = got[:, nf + nA :]
    inputs = None if case.inputs is None else case.inputs(case.mesh.times)
    u = np.exp(x) if model.log_states.any() else x
    values, fu, fp = case.problem.functions.f.linearise(case.mesh.times, u, np.tile(natural, (N, 1)), inputs)
    if model.log_states.any():  # (log u)' = f/u
        fu = fu / u[:, :, None] * u[:, None, :] - np.einsum("md,de->mde", values / u, np.eye(model.D))
        values, fp = values / u, fp / u[:, :, None]
    assert f == pytest.approx(values, rel=1e-12, abs=1e-12)
    assert by_x.reshape(fu.shape) == pytest.approx(fu, rel=1e-12, abs=1e-12)
    assert by_p.reshape(N, model.D, -1) == pytest.approx(fp[:, :, case.resolved.free], rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("level", [*COMPILED[:1], "numpy"])
@pytest.mark.parametrize("name", CASES)
def test_weak_least_squares_has_the_normal_equations_of_its_residuals(monkeypatch, name, level):
    """Derivatives by central differences of `scale (left + Φ f)`, with f and its parameters on the search's scale."""
    use_instruction_set(monkeypatch, level)
    case = get_case(name)
    passes, p, x, _ = place_lane(case, 13)
    windows, left, scale = draw_windows(passes)
    H, g, squares = (part[1] for part in sum_weak_residuals(passes))
    inputs = None if case.inputs is None else case.inputs(case.mesh.times)
    u = np.exp(x) if case.model.log_states.any() else x

    def residual(q):
        natural = np.tile(case.resolved.scale.to_natural(q), (len(u), 1))
        f = case.problem.functions.f(case.mesh.times, u, natural, inputs)
        f = f / u if case.model.log_states.any() else f
        return (scale[1] * (left[1] + windows.phi @ f)).ravel()

    h = 1e-5
    J = np.array([(residual(p + h * e) - residual(p - h * e)) / (2 * h) for e in np.eye(len(p))[case.resolved.free]])
    size = np.abs(J @ J.T).max()
    assert pytest.approx(J @ J.T, rel=1e-6, abs=1e-7 * size) == H
    assert g == pytest.approx(-J @ residual(p), rel=1e-6, abs=1e-7 * size)
    assert squares == pytest.approx(residual(p) @ residual(p), rel=1e-12)


# ---- Inputs and initial values ----


def test_inputs_are_limits_at_jumps_and_belong_to_their_lanes():
    case = get_case("hidden inputs")
    inputs = case.build_inputs(3, own=True)
    mesh, source = case.mesh, case.inputs
    jump = int(np.flatnonzero(mesh.times == 1.1)[0])
    assert not inputs.is_shared
    assert inputs.before[:, jump, 1] == pytest.approx([1.0, 1.1, 1.2])
    assert inputs.after[:, jump, 1] == pytest.approx([2.0, 2.2, 2.4])
    # Row m is the middle of the interval that ends at node m.
    assert inputs.middle[0, 1:] == pytest.approx(source((mesh.times[1:] + mesh.times[:-1]) / 2))
    # The interval that ends at the jump has the value before it up to its end, the next one the value after it.
    assert (inputs.substeps[0, jump - 1, :, 1] == 1).all()
    assert (inputs.substeps[0, jump, :, 1] == 2).all()
    assert inputs.substeps.shape == (3, mesh.intervals, 2 * RUNGE_KUTTA_STEPS + 1, 2)
    assert inputs.substeps[0, 3, :, 0] == pytest.approx(
        1 + 0.2 * np.linspace(*mesh.times[3:5], 2 * RUNGE_KUTTA_STEPS + 1)
    )
    chosen = inputs.select(np.array([2, 0]))
    assert np.array_equal(chosen.substeps, inputs.substeps[[2, 0]])
    assert np.array_equal(chosen.before, inputs.before[[2, 0]])
    shared = case.build_inputs(3)
    assert shared.is_shared
    assert shared.select(np.array([1])) is shared
    assert LaneInputs.stack([shared, shared]).after.shape == (2, *shared.after.shape)


def test_initial_values_follow_from_the_parameters():
    """x(0) = A0 a with a on a log scale: the derivative by log a is A0 a, and the gap is what x lacks."""
    case = get_case("initial values")
    passes, p, x, _ = place_lane(case, 11)
    natural = dict(zip(case.model.parameters, case.resolved.scale.to_natural(p), strict=True))
    Y0, gap = from_groups(passes.Y0, 2)[1], from_groups(passes.gap, 2)[1]
    names = [case.model.parameters[j] for j in case.model.free]
    expected = np.zeros((2, len(names)))
    expected[0, names.index("a")] = natural["A0"] * natural["a"]
    expected[0, names.index("A0")] = natural["a"]
    assert pytest.approx(expected, rel=1e-12) == Y0
    assert gap == pytest.approx([natural["A0"] * natural["a"] - x[0, 0], 2 - x[0, 1]], rel=1e-12)
    assert case.mesh.times[0] == 0  # they hold at t = 0, before the first sample


@pytest.mark.parametrize("level", [*COMPILED, "numpy"])
def test_a_state_of_zero_is_replaced_where_logarithms_need_it(monkeypatch, level):
    """y^1.5 and its derivatives are finite at y = 0."""
    use_instruction_set(monkeypatch, level)
    model = wf.Model.from_text("x' = -k*x^n")
    case = LaneCase.build(model, wf.Dataset(np.arange(6.0), np.arange(6.0)))
    passes = case.build_passes(1, 8)
    passes.x[...] = 0.0
    passes.set_point(np.array([[0.7, 1.5]]), np.ones((1, 2)), np.ones((1, 1)))
    lin = passes.linearise()
    assert np.isfinite(lin.H).all()
    assert (lin.defects == 0).all()
