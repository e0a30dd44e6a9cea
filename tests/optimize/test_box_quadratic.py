"""The minimum of a quadratic in a box, against SciPy."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from weakform.optimize.box_quadratic import minimise_in_box


@given(st.integers(1, 8), st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_the_minimum_is_that_of_bounded_least_squares(n, seed):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((n + 2, n)) * 10 ** rng.uniform(-3, 3, n), rng.standard_normal(n + 2)
    low = -np.abs(rng.standard_normal(n)) * rng.choice([0.0, 1.0, 1e9], n)
    high = np.abs(rng.standard_normal(n)) * rng.choice([0.1, 1.0, 1e9], n)
    g, H = A.T @ b, A.T @ A
    found = minimise_in_box(g, H, low, high)
    best = lsq_linear(A, -b, (low, high), method="bvls", tol=1e-14).x

    def value(s):
        return g @ s + 0.5 * s @ (H @ s)

    assert ((found >= low) & (found <= high)).all()
    assert value(found) <= value(best) + 1e-9 * abs(value(best)) + 1e-12


def test_variables_without_room_do_not_move():
    zero = np.zeros(2)
    assert (minimise_in_box(np.array([1.0, -1.0]), np.eye(2), zero, zero) == 0).all()
    assert minimise_in_box(np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0)).shape == (0,)


def test_minimum_is_inside_the_box_to_the_last_bit():
    rng = np.random.default_rng(0)
    for _ in range(400):
        n = int(rng.integers(1, 7))
        A = rng.standard_normal((n, n))
        H, g = A @ A.T + 0.1 * np.eye(n), 10.0 * rng.standard_normal(n)
        low, high = -rng.random(n), rng.random(n)
        s = minimise_in_box(g, H, low, high)
        assert (s >= low).all()
        assert (s <= high).all()
