"""Missing values are filled by interpolation between the measured values of their state."""

import numpy as np

from weakform.weak.missing_values import interpolate_missing


def test_state_without_any_measured_value_stays_missing():
    """Interpolation of a straight line is exact; beyond its ends, and from a single value, the nearest one counts."""
    t = np.arange(6.0)
    nan = np.nan
    x = np.array(
        [
            [nan, nan, nan, 1.0],
            [2.0, nan, nan, 0.0],
            [nan, nan, nan, 5.0],
            [6.0, 7.0, nan, 2.0],
            [8.0, nan, nan, 2.0],
            [nan, nan, nan, 9.0],
        ]
    )
    filled = interpolate_missing(t, x, np.isfinite(x))
    np.testing.assert_allclose(filled[:, 0], [2.0, 2.0, 4.0, 6.0, 8.0, 8.0], rtol=1e-14)
    np.testing.assert_array_equal(filled[:, 1], np.full(6, 7.0))
    assert np.isnan(filled[:, 2]).all()
    np.testing.assert_array_equal(filled[:, 3], x[:, 3])
