"""Fitted solutions that oscillate faster than they were sampled.

Samples a step h apart show an angular frequency ω above π/h as a lower one, and a fit without bounds may end at either.
For a sine the mean slope times h is `ωh/2 / |sin(ωh/2)|` times the mean difference of neighbouring samples: π/2 at
ω = π/h, and more above it. Solutions with jumps come near to twice that ratio, so that the threshold is larger.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Task
from ..model.compilation import compile_expressions
from ..support.array_types import FloatArray
from .poles import iterate_equation_rows


@dataclass(frozen=True)
class _AliasingPolicy:
    """Thresholds above which a state is aliased; it must exceed both."""

    slope_ratio: float = 3.0
    """Ratio of slope times step to the difference of neighbouring samples, both as medians, above which the state moves
    between samples without the samples showing it. A sine at the highest frequency that the samples resolve has π/2,
    and jumps come near to twice that; `tests/diagnostics/test_aliasing.py` has frequencies on either side."""

    share_of_spread: float = 2.0
    """Slope times step, in standard deviations of the state over time, above which the state would cross its whole
    range within one step; below it, a large ratio may come from a state that hardly changes. By judgement."""


ALIASING_POLICY = _AliasingPolicy()
"""The thresholds in use."""


def warn_of_aliasing(task: Task, p: FloatArray, states: tuple[FloatArray, ...]) -> tuple[str, ...]:
    """Warn if some fitted states oscillate between their samples.

    Models with inputs or switches are not checked: their right-hand side may jump.

    Parameters
    ----------
    task : Task
    p : ndarray, (J,)
        The estimate, in working coordinates.
    states : tuple of ndarray, (time, D)
        Fitted states at the samples of each trajectory.

    Returns
    -------
    tuple of str
        One sentence that names all such states; empty if there are none.
    """
    model = task.problem.model
    smooth_symbols = {"t", *model.states, *model.parameters}
    if any(str(symbol) not in smooth_symbols for expression in model.expressions for symbol in expression.free_symbols):
        return ()
    aliased, longest_step = set(), 0.0
    for (trajectory_model, names, rows), u in zip(iterate_equation_rows(task, p, states), states, strict=True):
        f = compile_expressions(names, trajectory_model.expressions)
        with np.errstate(all="ignore"):
            slopes = np.abs(np.asarray(f(rows))).reshape(len(rows), -1)
            h = np.diff(rows[:, 0])
            # Medians: a few steps with a spike of the right-hand side are not an oscillation.
            travel = np.median(h[:, None] * (slopes[1:] + slopes[:-1]) / 2, axis=0)
            differences = np.median(np.abs(np.diff(u, axis=0)), axis=0)
            is_aliased = travel > np.maximum(
                ALIASING_POLICY.slope_ratio * differences, ALIASING_POLICY.share_of_spread * u.std(axis=0)
            )
        aliased |= {name for name, flag in zip(trajectory_model.states, is_aliased, strict=True) if flag}
        # The longest step has the lowest limit π/h, which the warning states.
        longest_step = max(longest_step, float(np.median(h))) if is_aliased.any() else longest_step
    if not aliased:
        return ()
    verb = "oscillates faster than it was" if len(aliased) == 1 else "oscillate faster than they were"
    return (
        f"The fitted {', '.join(sorted(aliased))} {verb} sampled: these samples cannot tell angular frequencies above "
        f"{np.pi / longest_step:.3g} from each other, nor from lower ones (aliasing). Give bounds, or sample more "
        "often.",
    )
