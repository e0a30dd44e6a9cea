"""Poles of the equations between two fitted states, which no solution can cross.

A quadrature rule may step over a pole unnoticed, such as that of `V*P/(Km + P)` at P = -Km. Each denominator
that depends on states is evaluated at the fitted states. Where it changes its sign between two samples, the right-hand
side, and its derivatives with respect to the free parameters in the denominator, are evaluated next to its zero: only
if one of them is far larger there is it a pole. At Km = 0, `P/(Km + P)` has no pole, but its derivative with respect to
Km has one: any other Km gives a pole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import symengine as se

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..estimators.estimation_problem import Task
from ..model import Model
from ..model.compilation import compile_expressions
from ..support.array_types import FloatArray


@dataclass(frozen=True)
class _PolePolicy:
    """Where the right-hand side is evaluated next to a zero, and how large it is at a pole."""

    distance_from_zero: float = 1e-7
    """Distance from the zero of the denominator at which the right-hand side is evaluated, as a share of the step
    between two samples. There, the right-hand side at a simple pole is larger by about the inverse. By judgement."""

    growth: float = 1e3
    """Ratio of the right-hand side next to the zero to the larger one at both samples. Above this ratio, the zero is a
    pole; below it, the numerator vanishes with the denominator. By judgement: far below the 1e7 of a simple pole."""


POLE_POLICY = _PolePolicy()
"""The thresholds in use."""


def warn_of_crossed_poles(task: Task, p: FloatArray, states: tuple[FloatArray, ...]) -> tuple[str, ...]:
    """Warn of each pole that the fitted states cross between two samples.

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
        One sentence for each denominator that vanishes; empty if no pole is crossed.
    """
    sentences = {}
    free = {se.Symbol(name) for name, f in zip(task.problem.model.parameters, task.free, strict=True) if f}
    for trajectory_model, names, rows in iterate_equation_rows(task, p, states):
        times = rows[:, 0]
        for base in _iterate_denominators(trajectory_model):
            with np.errstate(all="ignore"):
                level = np.asarray(compile_expressions(names, [base])(rows)).reshape(-1)
                for n in np.flatnonzero(level[:-1] * level[1:] < 0):
                    ends, free_in_base = slice(n, n + 2), base.free_symbols & free
                    if base not in sentences and _is_pole(
                        trajectory_model, free_in_base, names, rows[ends], level[ends]
                    ):
                        between = f"between t = {times[n]:.4g} and {times[n + 1]:.4g}"
                        sentences[base] = (
                            f"The fitted states cross a pole of the equations {between}, where {base} is zero, "
                            "which no solution can. Give bounds or initial values that keep it away from zero."
                        )
    return tuple(sentences.values())


def iterate_equation_rows(
    task: Task, p: FloatArray, states: tuple[FloatArray, ...]
) -> Iterator[tuple[Model, list[str], FloatArray]]:
    """Yield, for each trajectory, the values at which its equations are evaluated: those of the fitted states.

    Parameters
    ----------
    task : Task
    p : ndarray, (J,)
        The estimate, in working coordinates.
    states : tuple of ndarray, (time, D)
        Fitted states at the samples of each trajectory.

    Yields
    ------
    model : Model
        The model of the trajectory.
    names : list of str
        Time, states and parameters: the columns of `rows`, in the order in which the equations are compiled.
    rows : ndarray, (time, names)
    """
    model = task.problem.model
    # The equations of a weak problem take the logarithms of parameters on a log scale; those with hidden states do not.
    model_p = task.scale.to_natural(p) if isinstance(task.problem, HiddenStateProblem) else p
    values = dict(zip(model.parameters, model_p, strict=True))
    for k, (q, u) in enumerate(zip(task.problem.data.trajectories, states, strict=True)):
        own = model.for_trajectory(k)
        fixed = np.array([values[name] for name in own.parameters])
        rows = np.column_stack([q.times, u, np.broadcast_to(fixed, (len(u), len(fixed)))])
        yield own, ["t", *own.states, *own.parameters], rows


def _iterate_denominators(model: Model) -> Iterator[se.Expr]:
    """Yield each denominator that depends on states; those that depend on inputs are left out."""
    states = {se.Symbol(name) for name in model.states}
    allowed = states | {se.Symbol(name) for name in ("t", *model.parameters)}
    visited = set()
    for expression in model.expressions:
        for power in se.sympify(expression).atoms(se.Pow):
            base, exponent = power.args
            if exponent.is_number and float(exponent) < 0 and base not in visited:
                visited.add(base)
                if base.free_symbols & states and base.free_symbols <= allowed:
                    yield base


def _is_pole(model: Model, free: set[se.Symbol], names: list[str], ends: FloatArray, level: FloatArray) -> bool:
    """Return True if the equations, or their derivatives, are far larger next to a zero than at the samples around it.

    Parameters
    ----------
    model : Model
    free : set of Symbol
        Free parameters in the denominator; derivatives are taken with respect to these.
    names : list of str
    ends : ndarray, (2, names)
        Time, states and parameters at the samples before and after the zero.
    level : ndarray, (2,)
        The denominator at both samples, of opposite signs.
    """
    slopes = [se.sympify(e).diff(symbol) for symbol in sorted(free, key=str) for e in model.expressions]
    functions = [*model.expressions, *slopes]
    # The zero of the denominator on the straight line between the two samples.
    share = level[0] / (level[0] - level[1])
    distance = POLE_POLICY.distance_from_zero
    near_zero = [(1 - s) * ends[0] + s * ends[1] for s in (share - distance, share + distance)]
    f = np.abs(np.asarray(compile_expressions(names, functions)(np.array([*ends, *near_zero])))).reshape(4, -1)
    return bool((~np.isfinite(f[2:]) | (f[2:] > POLE_POLICY.growth * f[:2].max(axis=0))).any())
