"""Standard errors of single points, and noise that is correlated between states."""

import numpy as np
import pytest

import weakform as wf
from support import LV
from weakform.support.errors import DataError


def test_sigma_of_points_weights_them():
    t, u = LV.solution(150)
    rng = np.random.default_rng(3)
    se = np.where(rng.uniform(size=u.shape) < 0.5, 0.05, 1.0)
    fit = wf.fit(LV.model, wf.Dataset(t, u + se * rng.standard_normal(u.shape), sigma=se), bounds=LV.bounds)
    unweighted = wf.fit(LV.model, wf.Dataset(t, u + se * rng.standard_normal(u.shape)), bounds=LV.bounds)
    assert (fit.errors < 0.5 * unweighted.errors).all()
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()
    assert fit.goodness.chi_square_p > 1e-3


def test_sigma_of_points_has_the_unit_of_the_state():
    t, u = LV.solution(100)
    noisy = 1e-3 * (u + 0.1 * np.random.default_rng(1).standard_normal(u.shape))
    model = wf.Model.from_text("u1' = p1*u1 - p2*u1*u2\nu2' = -p3*u2 + p4*u1*u2")
    state, point = (wf.fit(model, wf.Dataset(t, noisy, sigma=sigma)) for sigma in (1e-4, np.full(noisy.shape, 1e-4)))
    assert np.allclose(state.estimate, point.estimate, rtol=1e-6)
    assert state.warnings == point.warnings
    assert "u1 0.0001" in str(point)


def test_covariance_of_correlated_noise_reduces_errors():
    t, u = LV.solution(200)
    C = np.array([[0.09, 0.085], [0.085, 0.09]])
    noisy = u + np.random.default_rng(4).standard_normal(u.shape) @ np.linalg.cholesky(C).T
    fit = wf.fit(LV.model, wf.Dataset(t, noisy, sigma=C), bounds=LV.bounds)
    plain = wf.fit(LV.model, wf.Dataset(t, noisy), bounds=LV.bounds)
    assert (fit.errors < plain.errors).all()
    assert (np.abs(fit.estimate - LV.parameters) < 4 * fit.errors).all()
    assert fit.goodness.chi_square_p > 1e-3
    assert (fit.trajectory(kind="delta").upper >= fit.trajectory(kind="delta").lower).all()


@pytest.mark.parametrize("shape", [(1, 2), (2, 1), (4, 1), (3, 2), (4, 3)])
def test_standard_errors_of_points_must_have_the_shape_of_the_states(shape):
    with pytest.raises(DataError, match=r"shape of the states, \(4, 2\).* received shape"):
        wf.Dataset(np.arange(4.0), np.arange(8.0).reshape(4, 2), sigma=np.ones(shape))
