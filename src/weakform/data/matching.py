"""A dataset and a model brought together: which column is which state or observable, which input drives what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import symengine as se

from ..model import Model
from ..model.inputs import Inputs
from ..model.system import System
from ..support.errors import DataError
from ..support.wording import listed, misspelt, slip, suggestion
from .data_validation import check_columns
from .dataset import Dataset
from .event_schedule import scheduled, switches_of

LATE = 5.0
"""Time before the first sample, in durations of the series, that is said to be long."""


@dataclass(frozen=True)
class Matched:
    """A model and data that belong together.

    Attributes
    ----------
    model : Model
        With the observables that are measured, and the parameters that they leave.
    data : Dataset
        The columns that are measured: the states in their order where `complete`.
    complete : bool
        Whether every state is measured as it stands, and no initial value is given.
    left : tuple of str
        Parameters that occur only in expressions that nobody measured.
    """

    model: Model
    data: Dataset
    complete: bool
    left: tuple[str, ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        """States that are not measured themselves."""
        return tuple(s for s in self.model.states if s not in (self.data.names or ()))


def match(data: Dataset, model: Model) -> Matched:
    """Find out what is measured; refuse names that are nobody's, with a suggestion."""
    for name in model.inputs:
        if name not in data.inputs:
            raise DataError(
                f"The model's input {name!r} is not in the data, whose inputs are: {', '.join(data.inputs) or 'none'}. "
                "Give it with inputs=... of the dataset."
            )
    both = [name for name in data.names or () if name in data.inputs]
    if both:
        raise DataError(
            f"{both[0]!r} is both a measured column and an input of the data: an input is known, a measured column has "
            "noise. Take it out of names=... or of inputs=..., or rename one."
        )
    data, model = scheduled(data, model)
    measured, notes = _measured(data, model)
    states = {se.Symbol(state) for state in model.states}
    for name in measured:
        if name in model.observables and not model.observables[name].free_symbols & states:
            raise DataError(f"The observable {name!r} depends on no state, so that measuring it says nothing.")
    reduced = model.measured_by(measured)
    left = tuple(name for name in model.parameters if name not in reduced.parameters)
    if left:
        verb = "occurs" if len(left) == 1 else "occur"
        notes.append(f"{', '.join(left)} {verb} only in expressions that were not measured, and left the fit.")
    jumps = bool(model.events) or any(variant.events for variant in model.variants)
    complete = set(measured) == set(model.states) and not model.initial and not jumps
    if complete:
        measured = list(model.states)
    names = data.names or tuple(measured)
    order = [names.index(name) for name in measured]
    check_columns(data.trajectories, {d: data.labels[d] for d in order})
    notes += [*slips(model, data), *_check_beginning(data, reduced)]
    if order == list(range(data.D)) and data.names is not None and not notes:
        return Matched(reduced, data, complete, left)
    picked = data.replaced(
        trajectories=tuple(q.columns(order) for q in data.trajectories),
        noise=tuple(data.noise[d] for d in order),
        sigma=None if data.sigma is None else data.sigma[order],
        covariance=None if data.covariance is None else data.covariance[order][:, order],
        names=tuple(measured),
        truth=data.truth.columns(order) if complete and data.truth is not None else data.truth,
        notes=(*data.notes, *notes),
    )
    return Matched(reduced, picked, complete, left)


def _measured(data: Dataset, model: Model) -> tuple[list[str], list[str]]:
    """Names of what the columns are, and notes on what is left out."""
    plain = [state for state in model.states if state not in model.hidden]
    known = [*plain, *model.hidden, *model.observables]
    if data.names is None:
        if len(plain) != data.D:
            raise DataError(
                f"The model has {len(plain)} states ({', '.join(plain)}), the data have {data.D} "
                f"column{'s' * (data.D > 1)} without names. Say what they are with names=[...]: states, or named "
                f"expressions ({listed(model.observables) or 'none'})."
            )
        return plain, []
    measured = [name for name in data.names if name in known]
    others = [name for name in data.names if name not in (*known, *model.inputs)]
    for name in others:
        lacking = [k for k in known if k not in measured]
        if data.selected or misspelt(name, lacking):
            raise DataError(
                f"The column {name!r} is neither a state of the model nor one of its named expressions: "
                f"{listed(known)}.{suggestion(name, lacking)} Rename it, or leave it out; if columns are to be taken "
                "by their position, give names=[...] in the order of the columns."
            )
    if not measured:
        raise DataError(
            f"No column of the data is a state of the model or one of its named expressions: {listed(known)}. The "
            f"columns are: {listed(data.names)}.{suggestion(data.names[0], known)} Rename them, or pass names={{...}}."
        )
    return measured, [left_out(others, known, measured)] if others else []


def left_out(columns: Sequence[str], known: Iterable[str], measured: Iterable[str]) -> str:
    """A note on columns that are no state or named expression of the model; one of them may be meant for another."""
    hidden = [name for name in known if name not in measured]
    guess = next(
        (f" {c!r} is no name of the model.{suggestion(c, hidden)}" for c in columns if suggestion(c, hidden)), ""
    )
    return f"Columns that the model does not have were left out: {listed(columns)}.{guess}"


def slips(model: Model, data: Dataset) -> list[str]:
    """Parameters that may be slips of the pen: their names are next to those of something else."""
    others = dict.fromkeys(model.states, "the state")
    others |= {name: "the column" for name in (*(data.names or ()), *data.inputs) if name not in others}
    others |= dict.fromkeys(model.observables, "the definition")
    near = {
        p: [f"{what} {other}" for other, what in others.items() if other != p and slip(p, other)]
        for p in model.parameters
    }
    return [slipped(name, *found) for name, found in near.items() if found]


def slipped(name: str, *others: str) -> str:
    """What to say of a parameter that looks like something else."""
    return f"The parameter {name} looks like {' and '.join(others)}: is it a slip of the pen?"


def _check_beginning(data: Dataset, model: Model) -> list[str]:
    """An initial value is that at t = 0; data may not begin earlier, and those that begin much later get a note."""
    given = [state for state, e in model.initial.items() if e != se.Symbol(f"{state}(0)")]
    for q in data.trajectories:
        if given and q.times[0] < 0:
            where = f" of {q.label}" if q.label else ""
            raise DataError(
                f"{given[0]}(0) is the value at t = 0, but the data{where} begin at t = {q.times[0]:g}. Count time "
                "from the moment at which the initial values hold."
            )
        if given and q.times[0] > LATE * (q.times[-1] - q.times[0]):
            where = f" of {q.label}" if q.label else ""
            return [
                f"{given[0]}(0) is the value at t = 0, long before the first sample{where}, t = {q.times[0]:g}; if it "
                "holds at the first sample, count time from there."
            ]
    return []


def for_model(data: Dataset, model: Model) -> Dataset:
    """The columns of a model's states, in their order; refuses data that lack one."""
    matched = match(data, model)
    if matched.hidden:
        raise DataError(
            f"The model's state {matched.hidden[0]!r} has no column in the data, whose columns are: "
            f"{listed(data.names or ())}.{suggestion(matched.hidden[0], data.names or ())} Here every state must be "
            "measured; rename a column, or pass names={...} to tell which column is which state."
        )
    if not matched.complete:
        raise DataError("Here every state must be measured as it stands, without named expressions or initial values.")
    return matched.data


def system_of(model: Model, data: Dataset, k: int) -> System:
    """The right-hand side of trajectory k, in working coordinates, with its inputs."""
    inputs = inputs_of(model, data, k)
    return model.of(k).system(data.noise, data.covariance).driven_by(inputs)


def inputs_of(model: Model, data: Dataset, k: int) -> Inputs | None:
    """The inputs of trajectory k, in the order of the model's."""
    inputs, switches = data.trajectories[k].inputs, switches_of(model.of(k))
    own = None
    if inputs is not None and model.inputs:
        own = inputs.columns([data.inputs.index(name) for name in model.inputs])
    if own is None or switches is None:
        return own if switches is None else switches
    return own.beside(switches)
