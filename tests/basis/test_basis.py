"""Test functions have correct shapes, supports and derivatives; impossible ones are refused."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weakform as wf
from weakform.basis.bump_function import bump, normalise_bumps
from weakform.basis.local import Local, _correct_derivatives, _place_centres
from weakform.basis.orthonormal import compute_radius_errors, find_corner
from weakform.data.trajectory import Trajectory
from weakform.support.errors import FitError


def make_trajectory(M=200, step=0.1, seed=0):
    t = step * np.arange(M + 1)
    return Trajectory(t, np.sin(t)[:, None] + 0.01 * np.random.default_rng(seed).standard_normal((M + 1, 1)))


def test_bump_derivative_agrees_with_differences():
    tau = np.linspace(-1.2, 1.2, 4001)
    phi, dphi = bump(tau)
    numeric = np.gradient(phi, tau, edge_order=2)
    assert np.abs(dphi - numeric)[1:-1].max() < 1e-4
    assert phi[np.abs(tau) >= 1].max() == 0
    assert phi.max() == 1.0
    assert np.isfinite(dphi).all()


def test_normalised_bumps_have_unit_norm():
    phi, _ = normalise_bumps(np.linspace(-1, 1, 41)[None], 2.0)
    assert np.linalg.norm(phi) == pytest.approx(1.0)


@pytest.mark.parametrize(
    "basis",
    [
        pytest.param(wf.Local(), id="default"),
        pytest.param(wf.Local(0.73, 0.21), id="radius and stride"),
        pytest.param(wf.Orthonormal(max_functions=50), id="orthonormal"),
    ],
)
def test_integration_by_parts_holds(basis):
    """Σ φ' u + φ u' = 0 for a smooth u, so that Φ' is the derivative of Φ."""
    q = make_trajectory()
    phi, dphi = basis.build(q).to_dense()
    u, du = np.sin(1.3 * q.times + 0.4), 1.3 * np.cos(1.3 * q.times + 0.4)
    assert np.abs(dphi @ u + phi @ du).max() < 1e-4 * np.abs(dphi @ u).max()


def test_local_default_is_ten_samples_with_a_quarter_as_stride():
    functions = wf.Local().build(make_trajectory(M=200, step=0.1))
    phi, _ = functions.to_dense()
    assert functions.radius == pytest.approx(1.0)
    assert functions.count == len(phi) == (200 - 20) / 2.5 + 1
    assert functions.length == 8
    assert np.allclose(np.linalg.norm(phi, axis=1), 1.0)
    assert functions.phi.strides[0] == 0, "identical blocks must be stored once"


def test_local_uses_the_whole_series_for_every_length():
    for M in (57, 58, 59, 60, 100, 101):
        functions = wf.Local().build(make_trajectory(M))
        phi, _ = functions.to_dense()
        covered = np.flatnonzero(np.abs(phi).max(axis=0) > 0)
        assert covered[0] + (M - covered[-1]) <= 6, M


def test_blocks_share_samples_only_with_their_neighbours():
    functions = wf.Local(radius=0.77, stride=0.19).build(make_trajectory())
    for k in range(functions.blocks - 2):
        assert not set(functions.window[k]) & set(functions.window[k + 2]) - {functions.samples}


@pytest.mark.parametrize("M", [7, 10, 18, 20, 40])
def test_short_series_have_test_functions(M):
    functions = wf.Local().build(make_trajectory(M))
    assert functions.count >= 2
    phi, _ = functions.to_dense()
    assert np.linalg.matrix_rank(phi) == functions.count


@pytest.mark.parametrize(
    ("basis", "message"),
    [
        pytest.param(wf.Local(radius=11.0), "too large.*at most 100", id="large radius"),
        pytest.param(wf.Local(radius=0.05), "larger than one sample", id="small radius"),
        pytest.param(wf.Local(radius=float("nan")), "larger than one sample", id="radius is NaN"),
        pytest.param(wf.Local(radius=1.0, stride=0.01), "stride", id="small stride"),
        pytest.param(wf.Local(radius=1.0, stride=-1.0), "stride", id="negative stride"),
        pytest.param(wf.Orthonormal(radius=11.0), "No test function", id="large orthonormal radius"),
    ],
)
def test_impossible_functions_are_refused(basis, message):
    with pytest.raises(FitError, match=message):
        basis.build(make_trajectory())


def test_orthonormal_functions_are_orthonormal():
    functions = wf.Orthonormal(max_functions=60).build(make_trajectory())
    phi, _ = functions.to_dense()
    assert functions.count <= 60
    assert np.abs(phi @ phi.T - np.eye(len(phi))).max() < 1e-10


def test_orthonormal_family_has_bumps_of_four_radii_by_default():
    """Radii of 5, 10, 20 and 40 samples fit at 91, 81, 61 and 21 of 101 samples; each bump ends at its radius."""
    phi, dphi = wf.Orthonormal()._build_full_family(100, 5.0, 0.1)
    assert phi.shape == dphi.shape == (91 + 81 + 61 + 21, 101)
    supports = np.count_nonzero(phi, axis=1)
    for radius, count in ((5, 91), (10, 81), (20, 61), (40, 21)):
        assert (supports == 2 * radius - 1).sum() == count


def test_orthonormal_limits_reduce_the_number_of_functions():
    q = make_trajectory()
    few = wf.Orthonormal(radius=0.8, information=0.5).build(q).count
    many = wf.Orthonormal(radius=0.8, information=0.99, max_condition=1e8).build(q).count
    assert few < many
    assert wf.Orthonormal(radius=0.8, max_condition=2.0).build(q).count < few


def test_corner_of_two_lines_is_their_intersection():
    y = np.concatenate([np.linspace(0, -10, 30), np.linspace(-10, -11, 50)[1:]])
    assert abs(find_corner(np.exp(y)) - 29) <= 1


def test_minimal_radius_of_logistic_growth_decreases_with_noise():
    """As in the paper's figure, the corner is at a smaller radius when the noise is larger."""
    problem = wf.problems.get("logistic")
    radii_at_corner = []
    for noise in (1e-6, 1e-2):
        data = problem.simulate(M=512, noise=noise, seed=1)
        radii, errors = compute_radius_errors(data.trajectories[0], (0.04, 1.0), 1.0)
        radii_at_corner.append(radii[find_corner(errors)])
    assert radii_at_corner[1] < radii_at_corner[0]


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n=st.integers(12, 80), degree=st.integers(0, 3))
def test_integration_by_parts_is_exact_for_cubics_at_uneven_times(seed, n, degree):
    t = np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, n))
    phi, dphi = Local().build(Trajectory(t, np.zeros((n, 1)))).to_dense()
    x, dx = (t - t[0]) ** degree, degree * (t - t[0]) ** max(degree - 1, 0)
    assert np.abs(dphi @ x + phi @ dx).max() <= 1e-9 * max(np.abs(x).max(), 1)


def test_bumps_do_not_bridge_gaps():
    t = np.concatenate([np.linspace(0, 10, 41), np.linspace(20, 30, 41)])
    functions = Local(radius=2.0).build(Trajectory(t, np.zeros((82, 1))))
    phi, _ = functions.to_dense()
    left, right = (phi[:, :41] != 0).any(axis=1), (phi[:, 41:] != 0).any(axis=1)
    assert not (left & right).any()
    assert left.any()
    assert right.any()


def test_radius_of_a_series_too_short_for_the_search_is_refused():
    """Four radii from 2 to 5 samples are needed, and twice the largest one has to fit into the series."""
    for steps in (6, 9):
        with pytest.raises(FitError, match=f"{steps + 1} samples is too short to search"):
            compute_radius_errors(make_trajectory(steps), None, 1.0)
    radii, errors = compute_radius_errors(make_trajectory(10), None, 1.0)
    assert radii == pytest.approx([0.2, 0.3, 0.4, 0.5])
    assert np.isfinite(errors).all()


def test_corrected_derivative_is_that_of_the_bump_where_samples_are_dense():
    """The correction makes sums exact for cubics; where they are close to integrals, hardly anything is corrected."""
    tau = np.linspace(-0.99, 0.99, 101)
    tau = tau + 0.003 * np.sin(7 * tau)
    weights = np.gradient(tau)
    phi, dphi = _correct_derivatives(tau, weights, 4.0)
    expected, slope = bump(tau)
    size = np.linalg.norm(weights * expected)
    assert phi == pytest.approx(weights * expected / size, rel=1e-12)
    assert dphi == pytest.approx(weights * slope / (4.0 * size), abs=1e-3 * np.abs(dphi).max())


def test_bumps_at_uneven_times_leave_equal_margins_at_both_ends():
    """A span of 8 has 27 centres 0.3 apart, and the remaining 0.2 are divided between the ends."""
    t = np.concatenate([[0.0], np.sort(np.random.default_rng(0).uniform(0, 10, 600)), [10.0]])
    assert _place_centres(t, 1.0, 0.3) == pytest.approx(1.1 + 0.3 * np.arange(27), rel=1e-12)
