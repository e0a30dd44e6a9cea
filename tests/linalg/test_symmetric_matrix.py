"""Small symmetric matrices: eigenvalues that do not depend on units, and the inverse of an information matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weakform.linalg.symmetric_matrix import decompose_scaled_matrix, invert_symmetric


def random_information(seed, n=4):
    """Return a well-conditioned symmetric positive definite matrix `(n, n)`."""
    root = np.random.default_rng(seed).standard_normal((n + 3, n))
    return root.T @ root


def test_eigenvalues_and_vectors_rebuild_the_scaled_matrix():
    H = random_information(0)
    scale = np.array([1e-3, 1.0, 20.0, 1e4])
    values, vectors = decompose_scaled_matrix(H, scale)
    assert np.allclose((vectors * values) @ vectors.T, H / np.outer(scale, scale), rtol=1e-12, atol=0)
    assert np.allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)
    assert (np.diff(values) >= 0).all()


@given(st.integers(0, 1000), st.lists(st.floats(1e-6, 1e6), min_size=4, max_size=4))
def test_eigenvalues_of_information_do_not_depend_on_units(seed, units):
    H = random_information(seed)
    other_units = H * np.outer(units, units)
    values, converted = (decompose_scaled_matrix(matrix, np.sqrt(matrix.diagonal()))[0] for matrix in (H, other_units))
    assert np.allclose(values, converted, rtol=1e-9, atol=1e-12)
    assert values.sum() == pytest.approx(4)  # the trace of a matrix with unit diagonal


def test_undetermined_combination_is_the_eigenvector_of_the_smallest_eigenvalue():
    """Data that see only the product of two parameters have no information about their ratio."""
    a, b = 2.0, 300.0
    gradient = np.array([b, a])  # of a·b
    H = np.outer(gradient, gradient)
    scale = np.sqrt(H.diagonal())
    values, vectors = decompose_scaled_matrix(H, scale)
    direction = vectors[:, 0] / scale  # in the units of the parameters
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert direction[0] / a == pytest.approx(-direction[1] / b)


def test_inverse_does_not_depend_on_units():
    H = random_information(1)
    units = np.array([1e-5, 1.0, 1e3, 1e6])
    converted = invert_symmetric(H * np.outer(units, units)) * np.outer(units, units)
    assert np.allclose(converted, np.linalg.inv(H), rtol=1e-9)


def test_inverse_has_infinite_variance_for_a_parameter_without_information():
    H = np.zeros((3, 3))
    H[:2, :2] = random_information(2, 2)
    inverse = invert_symmetric(H)
    assert np.isinf(inverse[2, 2])
    assert np.allclose(inverse[:2, :2], np.linalg.inv(H[:2, :2]))
    assert (inverse[2, :2] == 0).all()


def test_inverse_of_a_matrix_that_is_not_finite_has_infinite_variances():
    assert np.isinf(invert_symmetric(np.array([[1.0, np.nan], [np.nan, 1.0]])).diagonal()).all()


def test_inverse_below_a_limit_keeps_only_poorly_determined_directions():
    H = np.diag([1.0, 1.0])
    H[0, 1] = H[1, 0] = 0.999
    weak = invert_symmetric(H, max_eigenvalue=0.5)
    assert np.linalg.matrix_rank(weak) == 1
    assert weak[0, 0] == pytest.approx(0.5 / 0.001)
    assert weak[0, 1] == pytest.approx(-0.5 / 0.001)
