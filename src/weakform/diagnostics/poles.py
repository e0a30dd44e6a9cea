"""Poles of the equations between two states of a fit, over which no solution goes.

A rule of quadrature may step over a pole without noticing, as of `V*P/(Km + P)` at a negative P. Each denominator that
depends on states is evaluated at the fitted states; where it changes its sign between two samples, the right-hand side
and its derivatives by free parameters in the denominator are looked at where it vanishes: only if one of them is far
larger there is it a pole. `P/(0 + P)` has none, but its derivative by Km has: no solution is next to it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import symengine as se

from ..collocation.hidden_state_problem import LatentProblem
from ..estimators.estimation_problem import Task
from ..model import Model
from ..model.compilation import compiled
from ..support.array_types import FloatArray

BESIDE, FAR_LARGER = 1e-7, 1e3
"""How near to the place, as a share of the way between two samples; and how much larger than at both."""


def crossed(task: Task, p: FloatArray, states: tuple[FloatArray, ...]) -> tuple[str, ...]:
    """One sentence for each denominator that vanishes on the way, at states `(time, D)` of each trajectory."""
    found = {}
    free = {se.Symbol(name) for name, f in zip(task.problem.model.parameters, task.free, strict=True) if f}
    for own, names, rows in along(task, p, states):
        times = rows[:, 0]
        for base in _denominators(own):
            with np.errstate(all="ignore"):
                level = np.asarray(compiled(names, [base])(rows)).reshape(-1)
                for n in np.flatnonzero(level[:-1] * level[1:] < 0):
                    ends, others = slice(n, n + 2), base.free_symbols & free
                    if base not in found and _is_pole(own, others, names, rows[ends], level[ends]):
                        between = f"between t = {times[n]:.4g} and {times[n + 1]:.4g}"
                        found[base] = (
                            f"The fitted states pass {between} where {base} is zero and the equations have a pole; no "
                            "solution goes there. Give bounds, or initial values, that keep it away from zero."
                        )
    return tuple(found.values())


def along(task: Task, p: FloatArray, states: tuple[FloatArray, ...]) -> Iterator[tuple[Model, list[str], FloatArray]]:
    """The model of each trajectory, the names its equations are compiled with, and their values `(time, names)`.

    The equations of a weak problem have the logarithms of parameters on a log scale, those of a latent one do not.
    """
    model = task.problem.model
    own_p = task.scale.natural(p) if isinstance(task.problem, LatentProblem) else p
    values = dict(zip(model.parameters, own_p, strict=True))
    for k, (q, u) in enumerate(zip(task.problem.data.trajectories, states, strict=True)):
        own = model.of(k)
        fixed = np.array([values[name] for name in own.parameters])
        rows = np.column_stack([q.times, u, np.broadcast_to(fixed, (len(u), len(fixed)))])
        yield own, ["t", *own.states, *own.parameters], rows


def _denominators(model: Model) -> Iterator[se.Expr]:
    """What is divided by, and depends on states; without what depends on inputs."""
    states = {se.Symbol(name) for name in model.states}
    known = states | {se.Symbol(name) for name in ("t", *model.parameters)}
    seen = set()
    for expression in model.expressions:
        for power in se.sympify(expression).atoms(se.Pow):
            base, exponent = power.args
            if exponent.is_number and float(exponent) < 0 and base not in seen:
                seen.add(base)
                if base.free_symbols & states and base.free_symbols <= known:
                    yield base


def _is_pole(model: Model, free: set[se.Symbol], names: list[str], ends: FloatArray, level: FloatArray) -> bool:
    """Whether something is far larger where the line between two rows meets the zero than at its ends."""
    slopes = [se.sympify(e).diff(symbol) for symbol in sorted(free, key=str) for e in model.expressions]
    looked_at = [*model.expressions, *slopes]
    share = level[0] / (level[0] - level[1])
    beside = [(1 - s) * ends[0] + s * ends[1] for s in (share - BESIDE, share + BESIDE)]
    f = np.abs(np.asarray(compiled(names, looked_at)(np.array([*ends, *beside])))).reshape(4, -1)
    return bool((~np.isfinite(f[2:]) | (f[2:] > FAR_LARGER * f[:2].max(axis=0))).any())
