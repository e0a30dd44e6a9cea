"""Meshes of problems with hidden states."""

import numpy as np

from weakform.collocation.hidden_state_problem import separate_times


def test_state_before_a_jump_is_reported_just_before_its_time():
    """Jumps at 1 and 4 are two nodes each: the first of them is moved by much less than any interval."""
    mesh = np.array([0.0, 1.0, 1.0, 1.5, 4.0, 4.0, 6.0])
    times = separate_times(mesh)
    assert (np.diff(times) > 0).all()
    is_moved = times != mesh
    assert np.flatnonzero(is_moved).tolist() == [1, 4]
    assert (mesh - times).max() < 0.01 * 0.5
    assert separate_times(np.array([0.0, 1.0, 3.0])).tolist() == [0.0, 1.0, 3.0]
