"""Translation of doses and switches into events and inputs of the model of each trajectory.

An instantaneous dose is an event that adds its amount to a state. An infusion is an input that adds to the equation of
its state: amount over duration while it lasts, and zero before and after. A switch at a known time is an input that
jumps from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import symengine as se

from ..model import Model
from ..model.events import TIME_SYMBOL, Event
from ..model.expressions import parse_expression
from ..model.function_table import Expr
from ..model.inputs import Inputs
from ..model.model import INFUSION_PREFIX
from ..support.errors import DataError
from ..support.wording import list_names, suggest_name
from .dataset import Dataset
from .doses import Amount, Dose
from .trajectory import Trajectory


def apply_doses(data: Dataset, model: Model) -> tuple[Dataset, Model]:
    """Write the doses of a dataset into the models of its trajectories.

    Parameters
    ----------
    data : Dataset
    model : Model

    Returns
    -------
    Dataset
        With the rates of infusions as inputs, and notes on doses that have no effect.
    Model
        With the parameters that doses name, the inputs of infusions, and the events of each trajectory.
    """
    if not any(q.doses for q in data.trajectories):
        return data, model
    parameters = list(model.parameters)  # extended by the names in amounts and lags
    taken = {"t": "time", **dict.fromkeys(model.states, "a state"), **dict.fromkeys(model.inputs, "an input")}
    taken |= dict.fromkeys(model.observables, "a named expression")
    infusions: dict[tuple[str, Expr], str] = {}
    events: list[list[Event]] = []
    rates: list[list[tuple[str, float, float, float]]] = []
    notes: list[str] = []
    for q in data.trajectories:
        own_events: list[Event] = []
        infused: list[tuple[str, float, float, float]] = []
        for dose in (each for doses in q.doses for each in doses.each):
            if dose.state not in model.states:
                raise DataError(
                    f"A dose is given into {dose.state!r}, which is not a state of the model: "
                    f"{list_names(model.states)}."
                    f"{suggest_name(dose.state, model.states)}"
                )
            if not isinstance(dose.lag, str) and dose.time + dose.lag > q.times[-1]:
                where = f" of {q.label}" if q.label else ""
                notes.append(
                    f"The dose at t = {dose.time:g}{where} is after the last sample and has no effect on the fit."
                )
            amount = _parse_amount(dose.amount, parameters, "The amount of a dose", taken)
            if dose.duration is None:
                arrival = dose.time + _parse_amount(dose.lag, parameters, "The lag of a dose", taken)
                # `waits=False`: a dose at the very first time has its effect too.
                own_events.append(
                    Event(TIME_SYMBOL - arrival, {dose.state: se.Symbol(dose.state) + amount}, waits=False)
                )
            else:
                infused.append(_describe_infusion(dose, amount, infusions, model))
        events.append(own_events)
        rates.append(infused)
    extended = model.add_infusions({name: key for key, name in infusions.items()}, parameters)
    names = list(infusions.values())
    trajectories = [_add_infusion_rates(q, parts, names) for q, parts in zip(data.trajectories, rates, strict=True)]
    scheduled = data.replace_attributes(
        trajectories=tuple(trajectories), inputs=(*data.inputs, *names), notes=(*data.notes, *dict.fromkeys(notes))
    )
    return scheduled, extended.add_events(events) if any(events) else extended


def _describe_infusion(
    dose: Dose, amount: Expr, infusions: dict[tuple[str, Expr], str], model: Model
) -> tuple[str, float, float, float]:
    """Describe an infusion as an input.

    Parameters
    ----------
    dose : Dose
        With a duration.
    amount : expression
        Its amount, of numbers and parameters.
    infusions : dict
        Names of the inputs of all infusions, by state and factor; extended here. Infusions into one state with numeric
        amounts share one input of factor 1; an amount with parameters is a factor of its own.
    model : Model

    Returns
    -------
    str
        Name of the input.
    rate, begin, end : float
        Value of the input, and when it begins and ends.
    """
    if isinstance(dose.lag, str):
        # The times at which inputs jump must be known before a fit.
        raise DataError(
            f"The lag of an infusion must be a number, because inputs change at known times; received {dose.lag!r}."
        )
    assert dose.duration is not None
    number = amount.is_Number
    factor = se.Integer(1) if number else amount
    count = sum(state == dose.state for state, _ in infusions)
    name = infusions.setdefault((dose.state, factor), f"{INFUSION_PREFIX}{dose.state}" + (f"_{count}" if count else ""))
    if name in (*model.states, *model.parameters, *model.inputs):
        raise DataError(f"The model uses the name {name!r}, which is reserved for an infusion; rename it.")
    begin = dose.time + float(dose.lag)
    return name, (float(amount) if number else 1.0) / dose.duration, begin, begin + dose.duration


def _parse_amount(amount: Amount, parameters: list[str], what: str, taken: Mapping[str, str]) -> Expr:
    """Parse an amount or a lag: a number, or an expression of parameters.

    Parameters
    ----------
    amount : float or str
    parameters : list of str
        Names of parameters; new ones in the expression are appended.
    what : str
        What is parsed, for error messages.
    taken : mapping of str to str
        Names that cannot be parameters, and what each of them is, such as `a state`.

    Returns
    -------
    expression
        Of numbers and parameters.
    """
    if not isinstance(amount, str):
        return se.RealDouble(amount)
    new = [name for name in re.findall(r"(?<![\w.])[^\W\d]\w*(?!\w*\s*\()", amount) if name not in parameters]
    for name in new:
        if name in taken:
            raise DataError(f"{what} is {amount!r}, but {name!r} is {taken[name]}; use numbers and parameters.")
    parameters += [name for name in dict.fromkeys(new) if name != "pi"]
    return parse_expression(amount, parameters, what)


def _add_infusion_rates(q: Trajectory, parts: list[tuple[str, float, float, float]], names: list[str]) -> Trajectory:
    """Return a trajectory with the rates of its infusions as additional inputs.

    Parameters
    ----------
    q : Trajectory
    parts : list of tuple
        Input, rate, begin and end of each infusion.
    names : list of str
        Names of the inputs of all infusions, in their order.
    """
    if not names:
        return q
    # Before its first time an input has its first value: an edge before all others makes that value zero.
    first = min([float(q.times[0]), *(begin for _, _, begin, _ in parts)])
    edges = np.unique([first - 1.0, first, *(t for _, _, begin, end in parts for t in (begin, end))])
    values = np.zeros((len(edges), len(names)))
    for name, rate, begin, end in parts:
        values[(edges >= begin) & (edges < end), names.index(name)] += rate
    rates = Inputs(edges, values, (True,) * len(names))
    return replace(q, inputs=rates if q.inputs is None else q.inputs.merge_with(rates))


def build_switch_inputs(model: Model) -> Inputs | None:
    """Return the switches of a model as inputs that hold; None without switches, or if the time of one is unknown."""
    times = [model.find_firing_time(trigger) for trigger in model.switches.values()]
    numeric = [float(time) for time in times if time is not None and time.is_Number]
    if not times or len(numeric) < len(times):
        return None
    switch_times = np.array(numeric)
    # Before its first time an input has its first value: a time before all switches makes that value zero.
    edges = np.unique(np.append(switch_times, switch_times.min() - 1.0))
    return Inputs(edges, (edges[:, None] >= switch_times).astype(float), (True,) * len(switch_times))


def find_jump_times(model: Model) -> list[float]:
    """Return the times at which states jump, sorted; only those that are known before a fit."""
    times = [model.find_firing_time(event.trigger) for event in model.events]
    return sorted({float(time) for time in times if time is not None and time.is_Number})


def describe_unknown_times(model: Model, trajectories: int) -> str:
    """Describe the first event or switch whose time is unknown before the fit; an empty text if there is none.

    Parameters
    ----------
    model : Model
    trajectories : int
        Number of trajectories.
    """
    for k in range(trajectories):
        own = model.for_trajectory(k)
        triggers = [*own.switches.values(), *(event.trigger for event in own.events)]
        for trigger in triggers:
            time = own.find_firing_time(trigger)
            if time is None:
                return f"an event or a switch occurs when {trigger} passes through zero, which depends on the states"
            if not time.is_Number:
                names = ", ".join(sorted(map(str, time.free_symbols)))
                return f"the time of a jump depends on {names}, which is to be estimated"
    return ""
