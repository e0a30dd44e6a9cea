"""Forward solutions and their sensitivities.

    u' = f(t, u, p),    Ṡ = F S + [f_p, 0],    S = [∂u/∂p, ∂u/∂u₀],    S(0) = [0, I]

solved by LSODA (SciPy's `odeint`), which switches between stiff and non-stiff methods, on compiled right-hand sides;
with known inputs, in pieces between their jumps. Work is bounded by a budget of evaluations; a solution that blows up
or exhausts it is a failed status with NaN from the last time that was reached, never what the solver left in memory.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

import numpy as np
import symengine as se
from numpy.typing import ArrayLike

from ..model.compiled import compiled
from ..model.inputs import Inputs
from ..model.maps import BESIDE
from ..model.model import Model
from ..support.errors import DataError
from ..support.messages import suggestion
from ..support.typing import FloatArray

MAX_EVALUATIONS = 150_000
SMALL = 1e-3
"""What a state that passes through zero is not less than, as a share of what it begins with."""
MAX_STEPS = 20_000


class SimulationStatus(Enum):
    """How a forward solution ended; the text says what to do."""

    SUCCESS = "solved"
    BLOWS_UP = "the solution blows up or its right-hand side is not finite; check the parameters and the initial state"
    TOO_MUCH_WORK = (
        "the budget of evaluations is spent; loosen the tolerance, shorten the time, or raise max_evaluations"
    )


@dataclass(frozen=True)
class Simulation:
    """A forward solution.

    Attributes
    ----------
    times : ndarray, (time,)
    states : ndarray, (time, D)
        NaN after a failure.
    status : SimulationStatus
    by_parameters : ndarray, (time, D, J), or None
        `∂u/∂p`.
    by_initial : ndarray, (time, D, D), or None
        `∂u/∂u₀`.
    evaluations : int
    """

    times: FloatArray
    states: FloatArray
    status: SimulationStatus
    by_parameters: FloatArray | None = None
    by_initial: FloatArray | None = None
    evaluations: int = 0

    @property
    def success(self) -> bool:
        """Whether all times were reached."""
        return self.status is SimulationStatus.SUCCESS


class _Spent(Exception):
    """The budget of evaluations is spent."""


@np.errstate(all="ignore")
def begin(model: Model, p: ArrayLike) -> dict[str, float]:
    """Initial values that the model gives, by state."""
    if not model.initial:
        return {}
    values = model.map("g")(np.zeros(1), np.ones((1, len(model.states))), np.array(p, dtype=float))[0]
    return {s: float(v) for s, v in zip(model.states, values, strict=True) if s in model.initial}


def simulate(
    model: Model,
    p: ArrayLike | Mapping[str, float],
    u0: ArrayLike | Mapping[str, float] | None,
    times: ArrayLike,
    *,
    inputs: Inputs | None = None,
    sensitivities: bool = False,
    rtol: float = 1e-8,
    atol: float | None = None,
    max_evaluations: int = MAX_EVALUATIONS,
) -> Simulation:
    """Solve the model from `u0` at `times[0]`.

    Parameters
    ----------
    model : Model
    p : array_like, (J,), or mapping
    u0 : array_like, (D,), mapping, or None
        None takes the initial values that the model gives, `x(0) = ...`.
    times : array_like, (time,)
        Increasing.
    inputs : Inputs, optional
        Of a model that has some.
    sensitivities : bool
        Whether to solve for the derivatives by p and u0 too.
    rtol, atol : float
        Tolerances of the solver; by default each state is followed relative to what it is.
    max_evaluations : int
        Budget of evaluations of the right-hand side; one with sensitivities counts as four.

    Examples
    --------
    >>> import weakform as wf
    >>> model = wf.Model.from_text("x' = -k*x")
    >>> solved = wf.simulate(model, [1.0], [2.0], [0.0, 1.0])
    >>> round(float(solved.states[-1, 0]), 4)
    0.7358
    """
    D, J = len(model.states), len(model.parameters)
    p = _by_name(p, model.parameters, "parameters")
    if u0 is not None:
        u0 = _by_name(u0, model.states, "initial states")
    if u0 is None:
        given = begin(model, p) if np.shape(p) == (J,) else {}
        lacking = [state for state in model.states if state not in given]
        if lacking:
            raise DataError(f"The model gives no initial value of {lacking[0]!r}; give the state to begin with.")
        u0 = [given[state] for state in model.states]
    parameters, initial, grid = (np.array(a, dtype=float) for a in (p, u0, times))
    if parameters.shape != (J,) or initial.shape != (D,) or grid.ndim != 1 or len(grid) < 1:
        raise DataError(
            f"simulate needs {J} parameters, {D} initial states and a vector of times; received shapes "
            f"{parameters.shape}, {initial.shape} and {grid.shape}."
        )
    if not (np.isfinite(parameters).all() and np.isfinite(initial).all() and np.isfinite(grid).all()):
        raise DataError("Parameters, initial states and times must be finite numbers.")
    if (np.diff(grid) <= 0).any():
        raise DataError("The times must increase.")
    if (inputs is None) == bool(model.inputs):
        needed = f"the inputs {', '.join(model.inputs)}" if model.inputs else "no inputs"
        raise DataError(f"The model needs {needed}; received {'none' if inputs is None else 'some'}.")
    sizes = _sizes(initial)
    columns = 1 + (J + D if sensitivities else 0)
    start, tolerances = np.zeros((columns, D)), np.empty((columns, D))
    start[0], tolerances[0] = initial, rtol * SMALL * sizes if atol is None else atol
    if sensitivities:
        start[1 + J :] = np.eye(D)
        scale = np.where(parameters != 0, np.abs(parameters), 1.0)
        tolerances[1 : 1 + J] = (rtol * sizes if atol is None else atol) / scale[:, None]
        tolerances[1 + J :] = rtol * sizes / sizes[:, None] if atol is None else atol

    def solve() -> tuple[FloatArray, SimulationStatus, int]:
        return _solve(model, parameters, start, grid, inputs, rtol=rtol, atol=tolerances, budget=max_evaluations)

    solved, status, evaluations = solve()
    if atol is None and status is SimulationStatus.SUCCESS:
        # A state that falls by decades is to be known as well at its end as at its beginning.
        least = rtol * _least(solved[:, 0])
        if (least < tolerances[0]).any():
            tolerances[0] = np.minimum(tolerances[0], least)
            again = solve()
            if again[1] is SimulationStatus.SUCCESS:
                solved, status, evaluations = again[0], again[1], evaluations + again[2]
    states = solved[:, 0]
    if not sensitivities:
        return Simulation(grid, states, status, evaluations=evaluations)
    by_parameters = solved[:, 1 : 1 + J].transpose(0, 2, 1)
    return Simulation(grid, states, status, by_parameters, solved[:, 1 + J :].transpose(0, 2, 1), evaluations)


def _by_name(values: ArrayLike | Mapping[str, float], names: Sequence[str], what: str) -> ArrayLike:
    """Values in the order of the names, from a mapping."""
    if not isinstance(values, Mapping):
        return values
    for name in values:
        if name not in names:
            guess = suggestion(str(name), names)
            raise DataError(f"{name!r} is not one of the {what}: {', '.join(names)}.{guess}")
    lacking = [name for name in names if name not in values]
    if lacking:
        raise DataError(f"simulate needs a value of {lacking[0]!r} among the {what}.")
    return [float(values[name]) for name in names]


def _sizes(initial: FloatArray) -> FloatArray:
    """The size of each state to begin with; of one at zero the least of the others."""
    size = np.abs(initial)
    known = size[size > 0]
    return np.where(size > 0, size, float(known.min()) if len(known) else 1.0)


def _least(states: FloatArray) -> FloatArray:
    """The least that a state is which never changes its sign, and a small share of the most of others, `(D,)`."""
    size = np.abs(states)
    one_sign = (states > 0).all(axis=0) | (states < 0).all(axis=0)
    most = np.maximum(size.max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.where(one_sign, size.min(axis=0), SMALL * most))


def _solve(
    model: Model,
    p: FloatArray,
    start: FloatArray,
    times: FloatArray,
    driven: Inputs | None,
    *,
    rtol: float,
    atol: FloatArray,
    budget: int,
) -> tuple[FloatArray, SimulationStatus, int]:
    """Solve for `(columns, D)` values at all times: the state, then the columns of S, transposed."""
    from scipy.integrate import odeint

    columns, D = start.shape
    J = len(p)
    function = _compiled(model, columns > 1)
    inputs = np.concatenate([[times[0]], start[0], np.zeros(len(model.inputs)), p])
    signal = slice(1 + D, 1 + D + len(model.inputs))
    outputs = np.empty(D if columns == 1 else D + D * D + D * J)
    f, F = outputs[:D], outputs[D : D + D * D].reshape(-1, D)
    fp = outputs[D + D * D :].reshape(D, -1)
    change = np.empty(columns * D)
    by_column = change.reshape(columns, D)
    used, reached, cost = 0, times[0], 1 if columns == 1 else 4

    def rhs(values: FloatArray, t: float) -> FloatArray:
        nonlocal used, reached
        used += cost
        if used > budget:
            raise _Spent
        reached = t
        inputs[0] = t
        inputs[1 : 1 + D] = values[:D]
        if driven is not None and driven.kind != "hold":
            inputs[signal] = driven(np.array([t]))[0]
        function.unsafe_real(inputs, outputs)
        if columns == 1:
            return f
        if not np.isfinite(outputs).all() and np.isfinite(f).all() and (values[:D] == 0).any():
            there = f.copy()  # x^n log x is not a number at zero: derivatives from next to it
            inputs[1 : 1 + D] = np.where(values[:D] == 0, BESIDE, values[:D])
            function.unsafe_real(inputs, outputs)
            f[:] = there
        by_column[0] = f
        np.matmul(values[D:].reshape(columns - 1, D), F.T, out=by_column[1:])
        by_column[1 : 1 + J] += fp.T
        return change

    result = np.full((len(times), columns * D), np.nan)
    result[0] = start.ravel()
    if len(times) == 1:
        return result.reshape(-1, columns, D), SimulationStatus.SUCCESS, used
    # A system at rest would step over a short pulse of an input: no step is longer than what tells its samples apart.
    longest = 0.0
    if driven is not None and driven.kind != "hold":
        longest = max(float(np.diff(driven.times).min(initial=np.inf)), (times[-1] - times[0]) / MAX_STEPS)
    status, carried = SimulationStatus.SUCCESS, start.ravel()
    for begin, end in _pieces(times, driven):
        inside = np.flatnonzero((times > begin) & (times <= end))
        nodes = np.concatenate([[begin], times[inside], [end][: int(not len(inside) or times[inside[-1]] < end)]])
        if driven is not None and driven.kind == "hold":
            inputs[signal] = driven(np.array([(begin + end) / 2]))[0]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                values, info = odeint(
                    rhs, carried, nodes, rtol=rtol, atol=atol.ravel(), full_output=True, mxstep=budget, hmax=longest
                )
            except _Spent:
                return result.reshape(-1, columns, D), SimulationStatus.TOO_MUCH_WORK, used
        if info["message"] != "Integration successful.":
            status = SimulationStatus.BLOWS_UP
            good = nodes <= min(reached, float(info["tcur"].max()))
            good[np.argmax(~good) - 1 if not good.all() else len(good) - 1 :] = False
            kept = good[1 : 1 + len(inside)]
            result[inside[kept]] = values[1 : 1 + len(inside)][kept]
            break
        result[inside], carried = values[1 : 1 + len(inside)], values[-1]
    broken = ~np.isfinite(result).all(axis=1)
    if broken.any():
        result[np.argmax(broken) :] = np.nan
        status = SimulationStatus.BLOWS_UP
    return result.reshape(-1, columns, D), status, used


def _pieces(times: FloatArray, driven: Inputs | None) -> list[tuple[float, float]]:
    """Stretches of time between jumps of the inputs, over which the right-hand side is smooth."""
    jumps = np.empty(0) if driven is None else driven.jumps
    inner = jumps[(jumps > times[0]) & (jumps < times[-1])]
    edges = np.concatenate([times[:1], inner, times[-1:]])
    return list(pairwise(edges))


def _compiled(model: Model, sensitivities: bool) -> Any:
    """`f`, or `f`, `F` and `f_p` row by row, as one compiled function of (t, u, p); kept with the model."""
    key = "sensitivities" if sensitivities else "states"
    if key not in model.compiled:
        expressions = list(model.expressions)
        if sensitivities:
            for part in (model.states, model.parameters):
                expressions += [expr.diff(se.Symbol(name)) for expr in model.expressions for name in part]
        names = ["t", *model.states, *model.inputs, *model.parameters]
        model.compiled[key] = compiled(names, expressions)
    return model.compiled[key]
