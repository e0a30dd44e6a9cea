"""The optimisers on functions with known minima, inside boxes, and in the hard cases."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakform.optimize import Cubic, Reaching, Stop, TrustRegion, minimise
from weakform.optimize.box_quadratic import minimise_in_box
from weakform.optimize.step_rules import quadratic

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


@pytest.mark.parametrize("rule", [TrustRegion, Reaching, Cubic])
@pytest.mark.parametrize(
    "start",
    [
        pytest.param((-1.2, 1.0), id="classical"),
        pytest.param((5.0, -7.0), id="far"),
        pytest.param((0.0, 0.0), id="origin"),
        pytest.param((-30.0, 40.0), id="very far"),
    ],
)
def test_rosenbrock(rule, start):
    found = minimise(rosenbrock, np.array(start), np.full(2, -INF), np.full(2, INF), rule())
    assert found.stop.converged
    assert np.allclose(found.x, 1.0, atol=1e-6)
    assert found.iterations < 150


def test_rosenbrock_in_a_box():
    upper = np.array([0.5, 2.0])
    found = minimise(rosenbrock, np.array([-1.0, 1.0]), np.full(2, -2.0), upper, TrustRegion())
    assert found.stop.converged
    assert np.allclose(found.x, [0.5, 0.25], atol=1e-7)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
def test_convex_quadratics_in_boxes_meet_the_optimality_conditions(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, n))
    H = A @ A.T + 0.1 * np.eye(n)
    scale = 10.0 ** rng.uniform(-4, 4, n)
    H = H * np.outer(scale, scale)
    centre = rng.standard_normal(n) / scale
    lower, upper = -rng.uniform(0, 1, n) / scale, rng.uniform(0, 1, n) / scale
    f = quadratic_of(H, centre)
    found = minimise(f, rng.uniform(lower, upper), lower, upper, TrustRegion())
    g = H @ (found.x - centre) / scale
    size = np.abs(H @ centre / scale).max() + 1
    inside = (found.x > lower) & (found.x < upper)
    assert found.stop.converged
    assert ((found.x >= lower) & (found.x <= upper)).all()
    assert (np.abs(g[inside]) < 1e-5 * size).all()
    assert (g[found.x <= lower] > -1e-5 * size).all()
    assert (g[found.x >= upper] < 1e-5 * size).all()


@given(seed=st.integers(0, 10_000), n=st.integers(1, 6))
def test_a_step_without_radius_is_the_minimum_in_the_box(seed, n):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n + 2, n))
    H, g = A.T @ A, 3 * rng.standard_normal(n)
    low, high = -rng.uniform(0.1, 1, n), rng.uniform(0.1, 1, n)
    step = TrustRegion(radius=1e8).step(g, H, np.sqrt(H.diagonal()), low, high)
    assert ((step >= low) & (step <= high)).all()
    # A bound is let go only once, so that the minimum may be missed by a little.
    assert quadratic(g, H, step) <= 0.99 * quadratic(g, H, minimise_in_box(g, H, low, high))


def test_two_that_are_known_only_together_go_to_one_bound():
    # The minimum is far out along both; the first bound is that of one, and the other follows it, not its own bound.
    H = np.array([[1.0, -0.9999], [-0.9999, 1.0]])
    g, low, high = np.array([-0.1, -0.1]), np.array([-1.0, -1.0]), np.array([0.5, 2.0])
    step = TrustRegion(radius=1e8).step(g, H, np.ones(2), low, high)
    assert np.allclose(step, minimise_in_box(g, H, low, high))
    assert step[1] < 1.0


def test_a_coordinate_without_curvature_does_not_lead_the_others_astray():
    """Residuals `exp(x) - 1` with the expected Hessian: flat at -18, where nothing says that 20 is far too far."""

    def f(x, order):
        e = np.exp(x)
        return Value(0.5 * float(np.sum((e - 1) ** 2)), (e - 1) * e, np.diag(e * e))

    start, low, high = np.array([3.0, -18.0]), np.full(2, -20.0), np.full(2, 20.0)
    ends = {rule: minimise(f, start, low, high, rule(), enough=1e-3).x[0] for rule in (TrustRegion, Reaching)}
    assert ends[Reaching] == pytest.approx(0.0, abs=0.05)
    assert ends[TrustRegion] > 2.9  # what the other is for


@pytest.mark.parametrize("rule", [TrustRegion, Reaching, Cubic])
def test_saddle_with_zero_gradient_along_the_descent_direction(rule):
    """The hard case: the gradient has no part in the direction of negative curvature."""

    def f(x, order):
        a, b = x
        return Value(a * a - b * b + b**4, np.array([2 * a, -2 * b + 4 * b**3]), np.diag([2.0, -2 + 12 * b * b]))

    found = minimise(f, np.array([1.0, 1e-9]), np.full(2, -INF), np.full(2, INF), rule())
    assert found.stop.converged
    assert found.value == pytest.approx(-0.25, abs=1e-8)


def test_units_do_not_matter():
    """The same path in other units."""
    scale = np.array([1e6, 1e-6])

    def scaled(x, order):
        v = rosenbrock(x / scale, order)
        return Value(v.value, v.gradient / scale, v.hessian / np.outer(scale, scale))

    box = np.full(2, -INF), np.full(2, INF)
    one = minimise(rosenbrock, np.array([-1.2, 1.0]), *box, TrustRegion())
    other = minimise(scaled, np.array([-1.2, 1.0]) * scale, *box, TrustRegion())
    assert one.iterations == other.iterations
    assert np.allclose(other.x / scale, one.x, rtol=1e-9)


def test_undefined_regions_are_stepped_back_from():
    def f(x, order):
        if x[0] <= 0:
            return Value(INF)
        return Value(x[0] - np.log(x[0]), np.array([1 - 1 / x[0]]), np.array([[1 / x[0] ** 2]]))

    found = minimise(f, np.array([50.0]), np.array([-INF]), np.array([INF]), TrustRegion())
    assert found.stop.converged
    assert found.x == pytest.approx([1.0], abs=1e-6)


def test_limits():
    assert minimise(lambda x, o: Value(INF), np.ones(2), np.zeros(2), np.ones(2), TrustRegion()).stop is Stop.START
    box = np.full(2, -INF), np.full(2, INF)
    start = np.array([-1.2, 1.0])
    assert minimise(rosenbrock, start, *box, TrustRegion(), max_iterations=3).stop is Stop.ITERATIONS
    assert minimise(rosenbrock, start, *box, TrustRegion(), stop=lambda _: True).stop is Stop.TIME
