"""What happens along each trajectory: doses as jumps and infusions, switches as inputs that hold.

A dose at once is an event of the model of its trajectory; an infusion is an input, `rate` while it lasts, that adds to
the equation of its state. A switch at a known time is an input that jumps from 0 to 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import symengine as se

from ..model import Model
from ..model.events import TIME, Event
from ..model.expressions import parse_expression
from ..model.function_table import Expr
from ..model.inputs import Inputs
from ..model.model import INFUSION
from ..support.errors import DataError
from ..support.wording import listed, suggestion
from .dataset import Dataset
from .doses import Amount, Dose
from .trajectory import Trajectory


def scheduled(data: Dataset, model: Model) -> tuple[Dataset, Model]:
    """The doses of a dataset in the models of its trajectories; the same where there are none."""
    if not any(q.doses for q in data.trajectories):
        return data, model
    known = list(model.parameters)
    taken = {"t": "time", **dict.fromkeys(model.states, "a state"), **dict.fromkeys(model.inputs, "an input")}
    taken |= dict.fromkeys(model.observables, "a named expression")
    infusions: dict[tuple[str, Expr], str] = {}
    events: list[list[Event]] = []
    rates: list[list[tuple[str, float, float, float]]] = []
    notes: list[str] = []
    for q in data.trajectories:
        happens: list[Event] = []
        infused: list[tuple[str, float, float, float]] = []
        for dose in (each for doses in q.doses for each in doses.each):
            if dose.state not in model.states:
                raise DataError(
                    f"A dose goes into {dose.state!r}, which is not a state of the model: {listed(model.states)}."
                    f"{suggestion(dose.state, model.states)}"
                )
            if not isinstance(dose.lag, str) and dose.time + dose.lag > q.times[-1]:
                where = f" of {q.label}" if q.label else ""
                notes.append(
                    f"The dose at t = {dose.time:g}{where} comes after the last sample: it has no effect on the fit."
                )
            amount = _expression(dose.amount, known, "The amount of a dose", taken)
            if dose.duration is None:
                arrives = dose.time + _expression(dose.lag, known, "The lag of a dose", taken)
                happens.append(Event(TIME - arrives, {dose.state: se.Symbol(dose.state) + amount}, waits=False))
            else:
                infused.append(_infusion(dose, amount, infusions, model))
        events.append(happens)
        rates.append(infused)
    driven = model.infused({name: key for key, name in infusions.items()}, known)
    names = list(infusions.values())
    trajectories = [_with_rates(q, parts, names) for q, parts in zip(data.trajectories, rates, strict=True)]
    joined = data.replaced(
        trajectories=tuple(trajectories), inputs=(*data.inputs, *names), notes=(*data.notes, *dict.fromkeys(notes))
    )
    return joined, driven.happening(events) if any(events) else driven


def _infusion(
    dose: Dose, amount: Expr, infusions: dict[tuple[str, Expr], str], model: Model
) -> tuple[str, float, float, float]:
    """The input of an infusion, with its rate, begin and end."""
    if isinstance(dose.lag, str):
        raise DataError("An infusion cannot have a lag that is a parameter; give the lag as a number.")
    assert dose.duration is not None
    number = amount.is_Number
    factor = se.Integer(1) if number else amount
    count = sum(state == dose.state for state, _ in infusions)
    name = infusions.setdefault((dose.state, factor), f"{INFUSION}{dose.state}" + (f"_{count}" if count else ""))
    if name in (*model.states, *model.parameters, *model.inputs):
        raise DataError(f"The model has the name {name!r}, which an infusion needs; rename it.")
    begin = dose.time + float(dose.lag)
    return name, (float(amount) if number else 1.0) / dose.duration, begin, begin + dose.duration


def _expression(amount: Amount, known: list[str], what: str, taken: Mapping[str, str]) -> Expr:
    """A number, or an expression of parameters, some of which may be new."""
    if not isinstance(amount, str):
        return se.RealDouble(amount)
    new = [name for name in re.findall(r"(?<![\w.])[^\W\d]\w*(?!\w*\s*\()", amount) if name not in known]
    for name in new:
        if name in taken:
            raise DataError(f"{what} is {amount!r}, but {name!r} is {taken[name]}; use numbers and parameters.")
    known += [name for name in dict.fromkeys(new) if name != "pi"]
    return parse_expression(amount, known, what)


def _with_rates(q: Trajectory, parts: list[tuple[str, float, float, float]], names: list[str]) -> Trajectory:
    """A trajectory with the rates of its infusions as inputs."""
    if not names:
        return q
    first = min([float(q.times[0]), *(begin for _, _, begin, _ in parts)])
    edges = np.unique([first - 1.0, first, *(t for _, _, begin, end in parts for t in (begin, end))])
    values = np.zeros((len(edges), len(names)))
    for name, rate, begin, end in parts:
        values[(edges >= begin) & (edges < end), names.index(name)] += rate
    rates = Inputs(edges, values, (True,) * len(names))
    return replace(q, inputs=rates if q.inputs is None else q.inputs.beside(rates))


def switches_of(model: Model) -> Inputs | None:
    """Switches at known times as inputs that hold; None where the time of one is not known."""
    times = [model.timed(trigger) for trigger in model.switches.values()]
    known = [float(time) for time in times if time is not None and time.is_Number]
    if not times or len(known) < len(times):
        return None
    at = np.array(known)
    edges = np.unique(np.append(at, at.min() - 1.0))
    return Inputs(edges, (edges[:, None] >= at).astype(float), (True,) * len(at))


def jump_times(model: Model) -> list[float]:
    """Times at which states jump, as far as they are known."""
    times = [model.timed(event.trigger) for event in model.events]
    return sorted({float(time) for time in times if time is not None and time.is_Number})


def unknown_times(model: Model, trajectories: int) -> str:
    """What happens at times that are not known before the fit, in words; empty where there is nothing."""
    for k in range(trajectories):
        own = model.of(k)
        triggers = [*own.switches.values(), *(event.trigger for event in own.events)]
        for trigger in triggers:
            time = own.timed(trigger)
            if time is None:
                return f"something happens when {trigger} passes through zero, which depends on the states"
            if not time.is_Number:
                names = ", ".join(sorted(map(str, time.free_symbols)))
                return f"the time of a jump depends on {names}, still to be estimated"
    return ""
