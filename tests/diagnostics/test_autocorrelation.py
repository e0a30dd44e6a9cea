"""The null distribution of the portmanteau statistic against its limits."""

import numpy as np
import pytest

from weakform.diagnostics.autocorrelation import _compute_p_value_by_moments, _pair_rows


@pytest.mark.parametrize(("Q", "p_value"), [(1.0, np.exp(-0.5)), (6.0, np.exp(-3.0)), (20.0, np.exp(-10.0))])
def test_p_value_by_moments_is_that_of_chi_square_if_nothing_is_absorbed(Q, p_value):
    """16 values have two lags, and `P(χ²_2 > Q) = exp(-Q/2)`."""
    columns = _pair_rows(np.full((16, 1), True), np.zeros(16, dtype=int))
    assert _compute_p_value_by_moments(Q, np.zeros((16, 1, 1)), columns) == pytest.approx(p_value, rel=1e-9)
