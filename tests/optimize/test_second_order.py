"""The optimisers on functions with known minima, in boxes, and in the hard cases."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakform.optimize import CubicRegularisation, ReachLimitedTrustRegion, Stop, TrustRegion, minimise
from weakform.optimize.box_quadratic import minimise_in_box
from weakform.optimize.step_rules import STEP_FAILURES, evaluate_quadratic

INF = np.inf


@dataclass
class Value:
    value: float
    gradient: np.ndarray | None = None
    hessian: np.ndarray | None = None


def rosenbrock(x, order):
    a, b = x
    r = b - a * a
    value = 100 * r**2 + (1 - a) ** 2
    g = np.array([-400 * a * r - 2 * (1 - a), 200 * r])
    H = np.array([[1200 * a * a - 400 * b + 2, -400 * a], [-400 * a, 200.0]])
    return Value(value, g, H)


def quadratic_of(H, centre):
    return lambda x, order: Value(0.5 * (x - centre) @ H @ (x - centre), H @ (x - centre), H)


@pytest.mark.parametrize("rule", [TrustRegion, ReachLimitedTrustRegion, CubicRegularisation])
@pytest.mark.parametrize(
    "start",
    [
        pytest.param((-1.2, 1.0), id="classical"),
        pytest.param((5.0, -7.0), id="far"),
        pytest.param((0.0, 0.0), id="origin"),
        pytest.param((-30.0, 40.0), id="very far"),
    ],
)
def test_rosenbrock_converges(rule, start):
    minimum = minimise(rosenbrock, np.array(start), np.full(2, -INF), np.full(2, INF), rule())
    assert minimum.stop.converged
    assert np.allclose(minimum.x, 1.0, atol=1e-6)
    assert minimum.iterations < 150


def test_rosenbrock_converges_to_bound_of_box():
    upper = np.array([0.5, 2.0])
    minimum = minimise(rosenbrock, np.array([-1.0, 1.0]), np.full(2, -2.0), upper, TrustRegion())
    assert minimum.stop.converged
    assert np.allclose(minimum.x, [0.5, 0.25], atol=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
def test_convex_quadratics_in_boxes_meet_optimality_conditions(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    H = A @ A.T + 0.1 * np.eye(n)
    scale = 10.0 ** rng.uniform(-4, 4, n)
    H = H * np.outer(scale, scale)
    centre = rng.standard_normal(n) / scale
    lower, upper = -rng.uniform(0, 1, n) / scale, rng.uniform(0, 1, n) / scale
    f = quadratic_of(H, centre)
    minimum = minimise(f, rng.uniform(lower, upper), lower, upper, TrustRegion())
    g = H @ (minimum.x - centre) / scale
    size = np.abs(H @ centre / scale).max() + 1
    inside = (minimum.x > lower) & (minimum.x < upper)
    assert minimum.stop.converged
    assert ((minimum.x >= lower) & (minimum.x <= upper)).all()
    assert (np.abs(g[inside]) < 1e-5 * size).all()
    assert (g[minimum.x <= lower] > -1e-5 * size).all()
    assert (g[minimum.x >= upper] < 1e-5 * size).all()


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
def test_step_with_unlimited_radius_is_minimum_in_box(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n + 2, n))
    H, g = A.T @ A, 3 * rng.standard_normal(n)
    low, high = -rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, n)
    step = TrustRegion(radius=1e8).step(g, H, np.sqrt(H.diagonal()), low, high)
    assert ((step >= low) & (step <= high)).all()
    # A bound is released only once, so that the minimum may be missed slightly.
    assert evaluate_quadratic(g, H, step) <= 0.99 * evaluate_quadratic(g, H, minimise_in_box(g, H, low, high))


def test_jointly_determined_variables_stop_at_first_bound():
    # The minimum is far outside along both. The first variable stops at its bound; the second one stops where the first
    # one determines it, and not at its own bound.
    H = np.array([[1.0, -0.9999], [-0.9999, 1.0]])
    g, low, high = np.array([-0.1, -0.1]), np.array([-1.0, -1.0]), np.array([0.5, 2.0])
    step = TrustRegion(radius=1e8).step(g, H, np.ones(2), low, high)
    assert np.allclose(step, minimise_in_box(g, H, low, high))
    assert step[1] < 1.0


def test_reach_limits_coordinate_without_curvature():
    """Residuals `exp(x) - 1` are flat at -18: their Gauss–Newton Hessian shows no sign that 20 is too far."""

    def f(x, order):
        e = np.exp(x)
        return Value(0.5 * float(np.sum((e - 1) ** 2)), (e - 1) * e, np.diag(e * e))

    start, low, high = np.array([3.0, -18.0]), np.full(2, -20.0), np.full(2, 20.0)
    ends = {
        rule: minimise(f, start, low, high, rule(), min_predicted_decrease=1e-3).x[0]
        for rule in (TrustRegion, ReachLimitedTrustRegion)
    }
    assert ends[ReachLimitedTrustRegion] == pytest.approx(0.0, abs=0.05)
    assert ends[TrustRegion] > 2.9  # without a reach the search fails


@pytest.mark.parametrize("rule", [TrustRegion, ReachLimitedTrustRegion, CubicRegularisation])
def test_saddle_with_zero_gradient_along_descent_direction(rule):
    """The hard case: the gradient has no component in the direction of negative curvature."""

    def f(x, order):
        a, b = x
        return Value(a * a - b * b + b**4, np.array([2 * a, -2 * b + 4 * b**3]), np.diag([2.0, -2 + 12 * b * b]))

    minimum = minimise(f, np.array([1.0, 1e-9]), np.full(2, -INF), np.full(2, INF), rule())
    assert minimum.stop.converged
    assert minimum.value == pytest.approx(-0.25, abs=1e-8)


def test_path_is_independent_of_units():
    scale = np.array([1e6, 1e-6])

    def scaled(x, order):
        v = rosenbrock(x / scale, order)
        return Value(v.value, v.gradient / scale, v.hessian / np.outer(scale, scale))

    box = np.full(2, -INF), np.full(2, INF)
    plain = minimise(rosenbrock, np.array([-1.2, 1.0]), *box, TrustRegion())
    rescaled = minimise(scaled, np.array([-1.2, 1.0]) * scale, *box, TrustRegion())
    assert plain.iterations == rescaled.iterations
    assert np.allclose(rescaled.x / scale, plain.x, rtol=1e-9)


def test_steps_into_undefined_region_are_refused():
    def f(x, order):
        if x[0] <= 0:
            return Value(INF)
        return Value(x[0] - np.log(x[0]), np.array([1 - 1 / x[0]]), np.array([[1 / x[0] ** 2]]))

    minimum = minimise(f, np.array([50.0]), np.array([-INF]), np.array([INF]), TrustRegion())
    assert minimum.stop.converged
    assert minimum.x == pytest.approx([1.0], abs=1e-6)


def test_stop_names_reason():
    assert minimise(lambda x, o: Value(INF), np.ones(2), np.zeros(2), np.ones(2), TrustRegion()).stop is Stop.START
    box = np.full(2, -INF), np.full(2, INF)
    start = np.array([-1.2, 1.0])
    assert minimise(rosenbrock, start, *box, TrustRegion(), max_iterations=3).stop is Stop.ITERATIONS
    assert minimise(rosenbrock, start, *box, TrustRegion(), stop=lambda _: True).stop is Stop.TIME


RULES = [TrustRegion, ReachLimitedTrustRegion, CubicRegularisation]
as_in_fits = pytest.mark.filterwarnings("ignore::RuntimeWarning")
"""Fits run with NumPy's floating-point warnings off; what overflows has to show in the result."""


def broken_eigh(matrix):
    raise np.linalg.LinAlgError("Eigenvalues did not converge")


@as_in_fits
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", [np.nan, INF])
@pytest.mark.parametrize("which", ["gradient", "hessian"])
def test_start_with_derivatives_that_are_not_finite_fails(rule, bad, which):
    def f(x, order):
        g, H = 2 * x, 2 * np.eye(2)
        (g if which == "gradient" else H).flat[0] = bad
        return Value(float(x @ x), g, H)

    minimum = minimise(f, np.ones(2), np.full(2, -5.0), np.full(2, 5.0), rule())
    assert minimum.stop is Stop.START
    assert minimum.value == INF


@as_in_fits
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("bad", [np.nan, INF])
def test_point_with_derivatives_that_are_not_finite_is_not_accepted(n, bad):
    """The gradient and Hessian of `½ ‖x‖²` break down nearer to zero than 1; the value does not."""

    def f(x, order):
        H = np.eye(n) if np.linalg.norm(x) > 1 else np.full((n, n), bad)
        return Value(0.5 * float(x @ x), x.copy(), H)

    minimum = minimise(f, np.full(n, 3.0), np.full(n, -9.0), np.full(n, 9.0), TrustRegion())
    assert not minimum.stop.converged
    assert np.isfinite(minimum.hessian).all()
    assert np.isfinite(minimum.value)


@pytest.mark.parametrize("rule", RULES)
def test_failed_eigendecomposition_ends_search_where_it_is(rule, monkeypatch):
    monkeypatch.setattr(np.linalg, "eigh", broken_eigh)
    start = np.array([-1.2, 1.0])
    minimum = minimise(rosenbrock, start, np.full(2, -5.0), np.full(2, 5.0), rule())
    assert minimum.stop is Stop.STUCK
    assert (minimum.x == start).all()
    assert minimum.value == rosenbrock(start, 0).value


@as_in_fits
@pytest.mark.parametrize("rule", RULES)
def test_curvature_and_scale_that_underflow_end_search(rule):
    """From a Hill model with free exponents: a gradient of 1e-213, a curvature of zero, and a squared scale of zero."""

    def f(x, order):
        return Value(float(x[0] ** 2), np.array([2 * x[0], 1e-213]), np.diag([2.0, 0.0]))

    minimum = minimise(f, np.ones(2), np.full(2, -INF), np.full(2, INF), rule())
    assert minimum.stop is Stop.STUCK


@pytest.mark.parametrize("failure", [np.linalg.LinAlgError, OverflowError, ZeroDivisionError])
@pytest.mark.parametrize("method", ["begin", "step"])
def test_rule_that_cannot_compute_a_step_ends_search(method, failure, monkeypatch):
    def fail(*arguments):
        raise failure

    monkeypatch.setattr(TrustRegion, method, fail)
    start = np.array([-1.2, 1.0])
    minimum = minimise(rosenbrock, start, np.full(2, -5.0), np.full(2, 5.0), TrustRegion())
    assert minimum.stop is Stop.STUCK
    assert (minimum.x == start).all()


def test_radius_that_overflows_raises_step_failure():
    """In the hard case the squared radius is compared with the length of the step."""
    rule = TrustRegion(radius=1e200)
    with pytest.raises(STEP_FAILURES):
        rule.step(np.array([0.0, 1.0]), np.diag([-1.0, 1.0]), np.ones(2), np.full(2, -INF), np.full(2, INF))


def test_reach_grows_only_after_a_good_step_that_used_it():
    """In a box from -2 to 2 a step of 0.9 uses 0.45 of the extent, nearly the whole reach of 0.5."""
    g, H, d = np.array([1.0]), np.eye(1), np.ones(1)
    reaches = {}
    for length in (0.9, 0.2):
        rule = ReachLimitedTrustRegion(radius=10.0, reach=0.5)
        rule.step(g, H, d, np.array([-2.0]), np.array([2.0]))
        rule.update(1.0, np.array([-length]), d)
        reaches[length] = rule.reach
    assert reaches[0.9] > 0.5
    assert reaches[0.2] == 0.5


@pytest.mark.parametrize("ratio", [-1.0, 0.0, np.nan])
def test_cubic_weight_grows_after_poor_step_so_that_next_step_is_shorter(ratio):
    rule = CubicRegularisation(weight=2.0)
    g, H, d, open_box = np.array([3.0]), np.eye(1), np.ones(1), np.full(1, INF)
    first = rule.step(g, H, d, -open_box, open_box)
    rule.update(ratio, first, d)
    second = rule.step(g, H, d, -open_box, open_box)
    assert first == pytest.approx([-1.0])  # 3 + s - 2 s² = 0 at s = -1
    assert -1.0 < second[0] < 0.0


@pytest.mark.parametrize("value", [INF, np.nan])
def test_undefined_value_is_no_start_even_with_finite_derivatives(value):
    minimum = minimise(lambda x, o: Value(value, x, np.eye(2)), np.ones(2), np.zeros(2), np.ones(2), TrustRegion())
    assert minimum.stop is Stop.START
    assert minimum.value == INF


def test_first_radius_without_an_extent_is_the_length_of_a_scaled_gradient_step():
    """The gradient (6, 16) over the scales (2, 4) is (3, 4), of length 5."""
    g, d = np.array([6.0, 16.0]), np.array([2.0, 4.0])
    rule = TrustRegion()
    rule.begin(g, d, np.zeros(2))
    assert rule.radius == 5.0


def test_step_along_a_bound_keeps_within_the_radius():
    """The first variable stops at -0.3; the second one takes what is left of the radius 1, `√(1 - 0.3²)`."""
    low, high = np.array([-0.3, -10.0]), np.full(2, 10.0)
    step = TrustRegion(radius=1.0).step(np.ones(2), 1e-3 * np.eye(2), np.ones(2), low, high)
    assert step == pytest.approx([-0.3, -np.sqrt(0.91)], rel=1e-6)
