"""Linear least squares: solutions by hand, also with columns of zeros and of very different magnitude."""

import numpy as np
import pytest

from weakform.optimize.least_squares import solve_linear, solve_linear_bounded


def test_bounded_solution_with_column_of_zeros():
    # ‖(2x₀ - 6, 1e6 x₂ + 3e6, 1)‖ is smallest at x₀ = 3 and x₂ = -3, and does not depend on x₁.
    G = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 1e6], [0.0, 0.0, 0.0]])
    r = np.array([-6.0, 3e6, 1.0])
    x = solve_linear_bounded(G, r, np.array([0.0, -1.0, -10.0]), np.array([5.0, 1.0, 10.0]))
    assert x[[0, 2]] == pytest.approx([3.0, -3.0])
    assert -1.0 <= x[1] <= 1.0
    x = solve_linear_bounded(G, r, np.array([0.0, -1.0, -2.0]), np.array([2.5, 1.0, 10.0]))
    assert x[[0, 2]].tolist() == [2.5, -2.0]
    assert -1.0 <= x[1] <= 1.0


def test_unbounded_solution_with_column_of_zeros():
    G = np.array([[2.0, 0.0, 0.0], [0.0, 0.0, 1e6], [0.0, 0.0, 0.0]])
    # The solution of least norm leaves the variable that nothing depends on at zero.
    assert solve_linear(G, np.array([-6.0, 3e6, 1.0])) == pytest.approx([3.0, 0.0, -3.0])
