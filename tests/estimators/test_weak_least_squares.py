"""Least squares in the parameters of a task: the closed form inside a box, and starts on its faces."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from weakform.estimators.estimation_problem import Task
from weakform.estimators.weak_least_squares import _polish_solution, least_squares
from weakform.parameters.working_scale import WorkingScale
from weakform.results.options import Options
from weakform.results.status import Status
from weakform.support.progress import Watch


def box_task(lower: list[float], upper: list[float], linear: bool) -> Task:
    """Return a task without a model: its residuals are given to `least_squares`."""
    free = np.ones(len(lower), dtype=bool)
    problem: Any = None
    base = np.full(len(lower), np.nan)
    box = np.array(lower), np.array(upper)
    return Task(problem, free, base, *box, free & linear, Options(), Watch(np.inf), WorkingScale(~free))


def test_linear_model_with_active_lower_bound_moves_other_parameters_to_constrained_optimum():
    """Minimise `p² + (p + q - 3)² + (q - 3)²`: (0, 3) without bounds; with p >= 1 it is p = 1, 2q = 5."""
    G, y = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]]), np.array([0.0, 3.0, 3.0])
    for lower, expected in ((-np.inf, [0.0, 3.0]), (1.0, [1.0, 2.5])):
        task = box_task([lower, -np.inf], [np.inf, np.inf], linear=True)
        estimate, status, _ = least_squares(task, lambda p: G @ p - y, lambda p: G, None, 10)
        assert status is Status.CONVERGED
        assert np.allclose(estimate, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("face", ["lower", "upper"])
def test_start_on_face_where_residual_is_undefined_begins_inside_the_box(face):
    """`log p - log 2` does not exist at the lower bound 0, and `log(5 - p) - log 3` not at the upper bound 5."""
    task = box_task([0.0], [5.0], linear=False)

    def residual(p):
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(p / 2) if face == "lower" else np.log((5 - p) / 3)

    def jacobian(p):
        return 1 / p[:, None] if face == "lower" else -1 / (5 - p[:, None])

    start = np.array([0.0 if face == "lower" else 5.0])
    estimate, status, _ = least_squares(task, residual, jacobian, start, 100)
    assert status is Status.CONVERGED
    assert estimate[0] == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(("lower", "upper"), [(1.0, 5.0), (-5.0, 1.0)], ids=["lower", "upper"])
def test_last_step_may_end_exactly_at_a_bound(lower, upper):
    """The residual `p - 1` is zero at the bound 1, and a Gauss–Newton step from (lower + upper)/2 reaches it."""
    task = box_task([lower], [upper], linear=False)
    start = SimpleNamespace(x=np.array([(lower + upper) / 2]))
    estimate = _polish_solution(lambda p: p - 1, lambda p: np.eye(1), start, task)
    assert estimate.tolist() == [1.0]
