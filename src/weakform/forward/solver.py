"""Forward solutions and their sensitivities.

    u' = f(t, u, p),    Ṡ = F S + [f_p, 0],    S = [∂u/∂p, ∂u/∂u₀],    S(0) = [0, I]

solved by LSODA, which switches between stiff and non-stiff methods, piece by piece between jumps (see `course`). Work
is bounded by a budget of evaluations; a solution that blows up or exhausts it is a failed status with NaN from the last
time that was reached, never what the solver left in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from ..model.inputs import Inputs
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from ..support.compact_repr import Tidy
from ..support.errors import DataError
from ..support.wording import suggestion
from .initial_value_problem import Setting
from .jumps import jumps_of
from .piecewise_solution import Course
from .simulation_status import SimulationStatus

MAX_EVALUATIONS = 150_000
SMALL = 1e-3
"""What a state that passes through zero is not less than, as a share of what it begins with."""


@dataclass(frozen=True, repr=False)
class Simulation(Tidy):
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
    seen : callable
        What makes `observables`, when they are asked for.
    """

    times: FloatArray
    states: FloatArray
    status: SimulationStatus
    by_parameters: FloatArray | None = None
    by_initial: FloatArray | None = None
    evaluations: int = 0
    seen: Callable[[], dict[str, FloatArray]] = field(default=dict, repr=False, compare=False)

    @cached_property
    def observables(self) -> dict[str, FloatArray]:
        """Named expressions of the model along the solution, `(time,)` each."""
        return self.seen()

    @property
    def success(self) -> bool:
        """Whether all times were reached."""
        return self.status is SimulationStatus.SUCCESS


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
    held: BoolArray | None = None,
    open_end: bool = False,
    sensitivities: bool = False,
    rtol: float = 1e-8,
    atol: float | None = None,
    max_evaluations: int = MAX_EVALUATIONS,
) -> Simulation:
    """Solve the model from `u0` at `times[0]`, or from its own initial values at t = 0.

    Parameters
    ----------
    model : Model
    p : array_like, (J,), or mapping
    u0 : array_like, (D,), mapping, or None
        At `times[0]`. None takes the initial values that the model gives, `x(0) = ...`, which are those at t = 0, as in
        a fit: what happens from then to `times[0]` is solved too. Where the times begin earlier, they hold there.
    times : array_like, (time,)
        Increasing.
    inputs : Inputs, optional
        Of a model that has some.
    held : ndarray of bool, optional
        Which events hold before the first time, and have happened; by default nothing has.
    open_end : bool
        Whether what happens at the very last time is left out.
    sensitivities : bool
        Whether to solve for the derivatives by p and u0 too.
    rtol, atol : float
        Tolerances of the solver; by default each state is followed relative to what it is.
    max_evaluations : int
        Budget of evaluations of the right-hand side; one with sensitivities counts as four.

    Returns
    -------
    Simulation
        With `times`, `states` `(time, D)` and a status.

    Examples
    --------
    >>> import weakform as wf
    >>> model = wf.Model.from_text("x' = -k*x")
    >>> solved = wf.simulate(model, [1.0], [2.0], [0.0, 1.0])
    >>> round(float(solved.states[-1, 0]), 4)
    0.7358
    """
    D, J, own = len(model.states), len(model.parameters), False
    p = _by_name(p, model.parameters, "parameters")
    if u0 is not None:
        u0 = _by_name(u0, model.states, "initial states")
    if u0 is None:
        given = begin(model, p) if np.shape(p) == (J,) else {}
        lacking = [state for state in model.states if state not in given]
        if lacking:
            raise DataError(f"The model gives no initial value of {lacking[0]!r}; give the state to begin with.")
        u0, own = [given[state] for state in model.states], True
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
    # Its own initial values are those at t = 0: the way from there to the first time is solved, and left out.
    way = int(own and grid[0] > 0)
    grid = np.append(np.zeros(way), grid)
    # Where a fit gives the values of switches, too, they are left out: the model itself tells them.
    driven = None if inputs is None or not model.inputs else inputs.columns(range(len(model.inputs)))
    if (model.inputs and driven is None) or (inputs is not None and not model.driven):
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
        setting = Setting(
            model,
            parameters,
            driven,
            jumps_of(model),
            rtol,
            atol=tolerances,
            budget=max_evaluations,
            held=held,
            open=open_end,
        )
        return Course(setting, start, grid).run()

    solved, status, evaluations = solve()
    if atol is None and status is SimulationStatus.SUCCESS:
        # A state that falls by decades is to be known as well at its end as at its beginning.
        least = rtol * _least(solved[:, 0])
        if (least < tolerances[0]).any():
            tolerances[0] = np.minimum(tolerances[0], least)
            again = solve()
            if again[1] is SimulationStatus.SUCCESS:
                solved, status, evaluations = again[0], again[1], evaluations + again[2]
    solved, grid = solved[way:], grid[way:]
    states = solved[:, 0]
    seen = partial(_seen, model, parameters, states, grid, driven)
    if not sensitivities:
        return Simulation(grid, states, status, evaluations=evaluations, seen=seen)
    by_parameters = solved[:, 1 : 1 + J].transpose(0, 2, 1)
    by_initial = solved[:, 1 + J :].transpose(0, 2, 1)
    return Simulation(grid, states, status, by_parameters, by_initial, evaluations, seen=seen)


@np.errstate(all="ignore")
def _seen(
    model: Model, p: FloatArray, states: FloatArray, times: FloatArray, driven: Inputs | None
) -> dict[str, FloatArray]:
    """Named expressions along a solution."""
    if not model.observables:
        return {}
    parts = [] if driven is None else [driven(times)]
    if model.switches:
        jumps = jumps_of(model)
        parts.append(np.stack([jumps.switched(float(t), u, p) for t, u in zip(times, states, strict=True)]))
    signals = np.column_stack(parts) if parts else None
    values = model.map("h", tuple(model.observables))(times, states, p, signals)
    return dict(zip(model.observables, values.T, strict=True))


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
