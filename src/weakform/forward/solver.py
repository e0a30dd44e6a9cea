"""Forward solutions and their sensitivities.

    u' = f(t, u, p),    Ṡ = F S + [f_p, 0],    S = [∂u/∂p, ∂u/∂u₀],    S(0) = [0, I]

solved by LSODA, which switches between stiff and non-stiff methods, piece by piece between jumps (see
`piecewise_solution`). Work is bounded by a budget of evaluations. A solution that blows up or exhausts the budget has a
failed status and NaN after the last time that was reached, never what the solver left in memory.
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
from ..support.compact_repr import CompactRepr
from ..support.errors import DataError
from ..support.wording import suggest_name
from .initial_value_problem import InitialValueProblem
from .jumps import get_jumps
from .piecewise_solution import PiecewiseSolver
from .simulation_status import SimulationStatus

MAX_EVALUATIONS = 150_000
"""Default budget of evaluations of the right-hand side; a solution that needs more fails with `TOO_MUCH_WORK`. By
judgement."""
MIN_STATE_SHARE = 1e-3
"""Size below which a state is not resolved relative to itself, as a share of its initial size, or of its largest size
if it changes its sign: a relative tolerance alone would be zero when a state passes through zero. By judgement."""


@dataclass(frozen=True, repr=False)
class Simulation(CompactRepr):
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
        Evaluations of the right-hand side.
    seen : callable
        Computes `observables` when they are first read.
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
        """Named expressions of the model along the solution, `(time,)` each, by name."""
        return self.seen()

    @property
    def success(self) -> bool:
        """True if all times were reached."""
        return self.status is SimulationStatus.SUCCESS


@np.errstate(all="ignore")
def evaluate_initial_values(model: Model, p: ArrayLike) -> dict[str, float]:
    """Return the initial values that the model gives, by state, for parameters `(J,)`."""
    if not model.initial:
        return {}
    values = model.build_map("g")(np.zeros(1), np.ones((1, len(model.states))), np.array(p, dtype=float))[0]
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
        Parameters in the order of the model, or by name.
    u0 : array_like, (D,), mapping, or None
        States at `times[0]`, in the order of the model or by name. None takes the initial values that the model gives,
        `x(0) = ...`. These are the values at t = 0, as in a fit: the time from then to `times[0]` is solved too. If the
        times begin before t = 0, the initial values are taken at `times[0]`.
    times : array_like, (time,)
        Increasing.
    inputs : Inputs, optional
        Required if the model has inputs.
    held : ndarray of bool, (events,), optional
        Events whose condition holds before the first time, and which have happened; none by default.
    open_end : bool
        Whether to leave out events and switches at exactly the last time.
    sensitivities : bool
        Whether to solve for the derivatives by p and u0 too.
    rtol, atol : float
        Relative and absolute tolerance of the solver. By default the absolute tolerance of each state follows from its
        size.
    max_evaluations : int
        Budget of evaluations of the right-hand side; one with sensitivities counts as four.

    Returns
    -------
    Simulation
        With `times`, `states` `(time, D)`, a status, and if requested the sensitivities.

    Raises
    ------
    DataError
        If an argument has the wrong shape, is not finite, or lacks a value.

    Examples
    --------
    >>> import weakform as wf
    >>> model = wf.Model.from_text("x' = -k*x")
    >>> solved = wf.simulate(model, [1.0], [2.0], [0.0, 1.0])
    >>> round(float(solved.states[-1, 0]), 4)
    0.7358
    """
    D, J, starts_from_model = len(model.states), len(model.parameters), u0 is None
    p = _order_by_name(p, model.parameters, "parameters")
    if u0 is not None:
        u0 = _order_by_name(u0, model.states, "initial states")
    if u0 is None:
        model_values = evaluate_initial_values(model, p) if np.shape(p) == (J,) else {}
        lacking = [state for state in model.states if state not in model_values]
        if lacking:
            raise DataError(f"The model gives no initial value of {lacking[0]!r}; give all initial states as u0.")
        u0 = [model_values[state] for state in model.states]
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
    # The model's own initial values are those at t = 0: that time is added here, and removed from the result.
    extra = int(starts_from_model and grid[0] > 0)
    grid = np.append(np.zeros(extra), grid)
    # A fit appends the values of switches to the inputs; these are left out, because the solution computes them.
    driven = None if inputs is None or not model.inputs else inputs.select_columns(range(len(model.inputs)))
    if (model.inputs and driven is None) or (inputs is not None and not model.driving_names):
        needed = f"the inputs {', '.join(model.inputs)}" if model.inputs else "no inputs"
        raise DataError(f"The model needs {needed}; received {'none' if inputs is None else 'some'}.")
    sizes = _measure_initial_sizes(initial)
    columns = 1 + (J + D if sensitivities else 0)
    start, tolerances = np.zeros((columns, D)), np.empty((columns, D))
    start[0], tolerances[0] = initial, rtol * MIN_STATE_SHARE * sizes if atol is None else atol
    if sensitivities:
        # The unit of ∂u/∂p is that of the state over that of the parameter, and the tolerances follow.
        start[1 + J :] = np.eye(D)
        scale = np.where(parameters != 0, np.abs(parameters), 1.0)
        tolerances[1 : 1 + J] = (rtol * sizes if atol is None else atol) / scale[:, None]
        tolerances[1 + J :] = rtol * sizes / sizes[:, None] if atol is None else atol

    def solve() -> tuple[FloatArray, SimulationStatus, int]:
        """Solve with the current tolerances; see `PiecewiseSolver.solve`."""
        setting = InitialValueProblem(
            model,
            parameters,
            driven,
            get_jumps(model),
            rtol,
            atol=tolerances,
            budget=max_evaluations,
            held=held,
            open_end=open_end,
        )
        return PiecewiseSolver(setting, start, grid).solve()

    solved, status, evaluations = solve()
    if atol is None and status is SimulationStatus.SUCCESS:
        # A state that falls by decades needs the same relative accuracy at its end as at its beginning: if it fell
        # below the size that the tolerances assume, solve again with smaller ones.
        needed_tolerances = rtol * _find_smallest_sizes(solved[:, 0])
        if (needed_tolerances < tolerances[0]).any():
            tolerances[0] = np.minimum(tolerances[0], needed_tolerances)
            second = solve()
            if second[1] is SimulationStatus.SUCCESS:
                solved, status, evaluations = second[0], second[1], evaluations + second[2]
    solved, grid = solved[extra:], grid[extra:]
    states = solved[:, 0]
    compute_observables = partial(_evaluate_observables, model, parameters, states, grid, driven)
    if not sensitivities:
        return Simulation(grid, states, status, evaluations=evaluations, seen=compute_observables)
    by_parameters = solved[:, 1 : 1 + J].transpose(0, 2, 1)
    by_initial = solved[:, 1 + J :].transpose(0, 2, 1)
    return Simulation(grid, states, status, by_parameters, by_initial, evaluations, seen=compute_observables)


@np.errstate(all="ignore")
def _evaluate_observables(
    model: Model, p: FloatArray, states: FloatArray, times: FloatArray, driven: Inputs | None
) -> dict[str, FloatArray]:
    """Compute the named expressions of a model along a solution.

    Parameters
    ----------
    model : Model
    p : ndarray, (J,)
    states : ndarray, (time, D)
    times : ndarray, (time,)
    driven : Inputs, or None

    Returns
    -------
    dict of str to ndarray, (time,)
    """
    if not model.observables:
        return {}
    parts = [] if driven is None else [driven(times)]
    if model.switches:
        jumps = get_jumps(model)
        parts.append(np.stack([jumps.evaluate_switches(float(t), u, p) for t, u in zip(times, states, strict=True)]))
    signals = np.column_stack(parts) if parts else None
    values = model.build_map("h", tuple(model.observables))(times, states, p, signals)
    return dict(zip(model.observables, values.T, strict=True))


def _order_by_name(values: ArrayLike | Mapping[str, float], names: Sequence[str], what: str) -> ArrayLike:
    """Return values in the order of the names if they are a mapping; other values unchanged.

    Parameters
    ----------
    values : array_like or mapping
    names : sequence of str
    what : str
        What the values are, for error messages.

    Raises
    ------
    DataError
        If a name is unknown, or has no value.
    """
    if not isinstance(values, Mapping):
        return values
    for name in values:
        if name not in names:
            guess = suggest_name(str(name), names)
            raise DataError(f"{name!r} is not one of the {what}, which are: {', '.join(names)}.{guess}")
    lacking = [name for name in names if name not in values]
    if lacking:
        raise DataError(f"The value of {lacking[0]!r} is missing; simulate needs all {what}: {', '.join(names)}.")
    return [float(values[name]) for name in names]


def _measure_initial_sizes(initial: FloatArray) -> FloatArray:
    """Return the initial size of each state, `(D,)`; for a state at zero the smallest size of the others."""
    size = np.abs(initial)
    nonzero = size[size > 0]
    return np.where(size > 0, size, float(nonzero.min()) if len(nonzero) else 1.0)


def _find_smallest_sizes(states: FloatArray) -> FloatArray:
    """Return the smallest size at which each state must be resolved, `(D,)`.

    It is the smallest size of a state that keeps its sign, and a small share of the largest size of any other.

    Parameters
    ----------
    states : ndarray, (time, D)
    """
    size = np.abs(states)
    one_sign = (states > 0).all(axis=0) | (states < 0).all(axis=0)
    largest = np.maximum(size.max(axis=0), np.finfo(float).tiny)
    return np.asarray(np.where(one_sign, size.min(axis=0), MIN_STATE_SHARE * largest))
