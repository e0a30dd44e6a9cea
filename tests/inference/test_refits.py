"""Refits to drawn data: only those that converged count."""

from types import SimpleNamespace

import numpy as np
import pytest

from weakform.collocation.gauss_helmert import Solution
from weakform.inference.refits import Refit
from weakform.optimize import Stop


def solution(p, stop):
    """Return a solution with the parameter `p` and one state."""
    return Solution.without_information(np.array([p]), np.zeros((1, 1)), np.ones(1), 0.0, stop)


@pytest.mark.parametrize(
    ("result", "is_kept"),
    [
        pytest.param(solution(1.0, Stop.STEP), True, id="converged"),
        pytest.param(solution(1.0, Stop.STUCK), False, id="stuck"),
        pytest.param(solution(1.0, Stop.TIME), False, id="stopped"),
        pytest.param(solution(np.nan, Stop.STEP), False, id="not finite"),
        pytest.param(None, False, id="nothing computed"),
    ],
)
def test_refit_to_drawn_data_is_kept_only_if_it_converged(result, is_kept):
    drawn = SimpleNamespace(solve=lambda p, states, free: result)
    refit = Refit.__new__(Refit)
    refit.fit = SimpleNamespace(sigma_estimated=False)
    refit.solver = SimpleNamespace(redraw_data=lambda best, noise, rng: drawn)
    refit.best, refit.free = solution(1.0, Stop.STEP), np.array([True])
    assert refit.refit_drawn_data(np.random.default_rng(0)) is (result if is_kept else None)
