"""Slow steps summed up: a geometric series is met at its end, and nothing is done where there is none."""

import numpy as np

from weakform.collocation.secants import Secants


def after(points, states=None):
    """What is said after the last of some points."""
    secants, said = Secants(), None
    for k, p in enumerate(points):
        said = secants.further(np.array(p), np.zeros((3, 1)) if states is None else states[k], np.array([1.0, 2.0]))
    return said


def test_a_geometric_series_is_summed_also_across_swings():
    limit, slow, swing = np.array([3.0, -1.0]), np.array([1.0, 0.5]), np.array([0.01, -0.02])
    points = [limit - 0.9**k * slow + (-0.5) ** k * swing for k in range(5)]
    p, x = after(points, [np.full((4, 2), float(q[0])) for q in points])
    assert np.linalg.norm(p - limit) < 0.15 * np.linalg.norm(points[-1] - limit)
    assert np.allclose(x, p[0]), "the states go along"


def test_nothing_is_summed_that_does_not_shrink_slowly_in_one_direction():
    line = np.array([1.0, 0.5])
    assert after([2.0**k * line for k in range(5)]) is None, "growing"
    assert after([0.1**k * line for k in range(5)]) is None, "quick already"
    assert after([0.9**k * line for k in range(4)]) is None, "too few"
    assert after([[np.cos(k), np.sin(k)] for k in range(5)]) is None, "turning"
    assert after([line] * 5) is None, "standing still"
