"""The Cramér–Rao bound against the closed form of a linear problem."""

import numpy as np
import pytest

import weakform as wf
from weakform.forward.cramer_rao import compute_cramer_rao_bound


def test_cramer_rao_matches_closed_form_of_a_linear_problem():
    """For u' = -k u with u(0) known the bound is σ²/Σ(t u)²."""
    model = wf.Model.from_text("u' = -k*u")
    t = np.linspace(0, 3, 50)
    u = 2 * np.exp(-0.7 * t)
    bound = compute_cramer_rao_bound(model, [0.7], [2.0], t, ["gaussian"], [0.1], known_initial=True)
    assert bound[0, 0] == pytest.approx(0.01 / np.sum((t * u) ** 2), rel=1e-5)
    free = compute_cramer_rao_bound(model, [0.7], [2.0], t, ["gaussian"], [0.1])
    assert free[0, 0] > bound[0, 0]
    K = np.column_stack([-t, np.ones(50) / 2.0])  # log-normal: ∂log u/∂k, ∂log u/∂u0
    log = compute_cramer_rao_bound(model, [0.7], [2.0], t, ["lognormal"], [0.1])
    assert log[0, 0] == pytest.approx(0.01 * np.linalg.inv(K.T @ K)[0, 0], rel=1e-5)
