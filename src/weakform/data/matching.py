"""Matching of a dataset with a model: which column is which state or observable, and which input drives what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import symengine as se

from ..model import Model
from ..model.inputs import Inputs
from ..model.system import System
from ..support.errors import DataError
from ..support.wording import is_misspelt, is_typo, list_names, suggest_name
from .data_validation import check_fitted_columns
from .dataset import Dataset
from .event_schedule import apply_doses, build_switch_inputs

LATE_BEGIN_DURATIONS = 5.0
"""Time between t = 0, to which initial values refer, and the first sample, in durations of the series; a note warns if
it is longer. By judgement."""


@dataclass(frozen=True)
class MatchedPair:
    """A model and a dataset whose columns are matched.

    Attributes
    ----------
    model : Model
        Without the observables that were not measured, and the parameters that occur only in them.
    data : Dataset
        The measured columns; the states in the order of the model if `complete`.
    complete : bool
        Whether every state is measured directly, with no given initial value and no jump.
    unused_parameters : tuple of str
        Parameters that occur only in expressions that were not measured; they are not fitted.
    """

    model: Model
    data: Dataset
    complete: bool
    unused_parameters: tuple[str, ...]

    @property
    def hidden(self) -> tuple[str, ...]:
        """States that are not measured directly."""
        return tuple(s for s in self.model.states if s not in (self.data.names or ()))


def match(data: Dataset, model: Model) -> MatchedPair:
    """Match the columns and inputs of a dataset with a model.

    Parameters
    ----------
    data : Dataset
    model : Model

    Returns
    -------
    MatchedPair

    Raises
    ------
    DataError
        If an input of the model is not in the data, or a column has no meaning in the model. The message suggests a
        similar name.
    """
    for name in model.inputs:
        if name not in data.inputs:
            raise DataError(
                f"The model's input {name!r} is not in the data, whose inputs are: {', '.join(data.inputs) or 'none'}. "
                "Give it with inputs=... of the dataset."
            )
    both = [name for name in data.names or () if name in data.inputs]
    if both:
        raise DataError(
            f"{both[0]!r} is both a measured column and an input of the data; an input is known exactly, a measured "
            "column has noise. Remove it from names=... or from inputs=..., or rename one of them."
        )
    data, model = apply_doses(data, model)
    measured, notes = _find_measured(data, model)
    states = {se.Symbol(state) for state in model.states}
    for name in measured:
        if name in model.observables and not model.observables[name].free_symbols & states:
            raise DataError(
                f"The observable {name!r} depends on no state; it must contain at least one, or its measurements carry "
                "no information."
            )
    reduced = model.restrict_to_observables(measured)
    unused = tuple(name for name in model.parameters if name not in reduced.parameters)
    if unused:
        verb = "occurs" if len(unused) == 1 else "occur"
        notes.append(f"{', '.join(unused)} {verb} only in expressions that were not measured: left out of the fit.")
    jumps = bool(model.events) or any(variant.events for variant in model.variants)
    complete = set(measured) == set(model.states) and not model.initial and not jumps
    if complete:
        measured = list(model.states)
    names = data.names or tuple(measured)
    order = [names.index(name) for name in measured]
    check_fitted_columns(data.trajectories, {d: data.labels[d] for d in order})
    notes += [*note_misspelt_parameters(model, data), *_check_begin_time(data, reduced)]
    if order == list(range(data.D)) and data.names is not None and not notes:
        return MatchedPair(reduced, data, complete, unused)
    matched = data.replace_attributes(
        trajectories=tuple(q.select_columns(order) for q in data.trajectories),
        noise=tuple(data.noise[d] for d in order),
        sigma=None if data.sigma is None else data.sigma[order],
        covariance=None if data.covariance is None else data.covariance[order][:, order],
        names=tuple(measured),
        truth=data.truth.select_states(order) if complete and data.truth is not None else data.truth,
        notes=(*data.notes, *notes),
    )
    return MatchedPair(reduced, matched, complete, unused)


def _find_measured(data: Dataset, model: Model) -> tuple[list[str], list[str]]:
    """Find the state or observable that each column measures.

    Parameters
    ----------
    data : Dataset
    model : Model

    Returns
    -------
    measured : list of str
        The states and observables that are measured, in the order of the columns.
    notes : list of str
        A note on columns that are left out.
    """
    plain = [state for state in model.states if state not in model.hidden]
    measurable = [*plain, *model.hidden, *model.observables]
    if data.names is None:
        if len(plain) != data.D:
            raise DataError(
                f"The model has {len(plain)} states ({', '.join(plain)}), the data have {data.D} "
                f"column{'s' * (data.D > 1)} without names. Name the columns with names=[...]: states, or named "
                f"expressions ({list_names(model.observables) or 'none'})."
            )
        return plain, []
    measured = [name for name in data.names if name in measurable]
    unmatched = [name for name in data.names if name not in (*measurable, *model.inputs)]
    for name in unmatched:
        lacking = [k for k in measurable if k not in measured]
        # A column that was chosen, or that looks like a misspelt state, is never left out silently.
        if data.selected or is_misspelt(name, lacking):
            raise DataError(
                f"The column {name!r} is neither a state of the model nor one of its named expressions: "
                f"{list_names(measurable)}.{suggest_name(name, lacking)} Rename it, or leave it out; to take columns "
                "by their position, give names=[...] in the order of the columns."
            )
    if not measured:
        raise DataError(
            "No column of the data is a state of the model or one of its named expressions: "
            f"{list_names(measurable)}. The columns are: {list_names(data.names)}."
            f"{suggest_name(data.names[0], measurable)} Rename them, or pass names={{...}}."
        )
    return measured, [note_left_out_columns(unmatched, measurable, measured)] if unmatched else []


def note_left_out_columns(columns: Sequence[str], candidates: Iterable[str], measured: Iterable[str]) -> str:
    """Write a note on columns that were left out, with a suggestion if one of them may be a misspelt state.

    Parameters
    ----------
    columns : sequence of str
        Columns that are no state or named expression of the model.
    candidates : iterable of str
        The states and named expressions of the model.
    measured : iterable of str
        The candidates that are measured.
    """
    hidden = [name for name in candidates if name not in measured]
    guess = next(
        (f" {c!r} is no name of the model.{suggest_name(c, hidden)}" for c in columns if suggest_name(c, hidden)), ""
    )
    return f"Columns that are not in the model were left out: {list_names(columns)}.{guess}"


def note_misspelt_parameters(model: Model, data: Dataset) -> list[str]:
    """Write a note on each parameter that may be misspelt: its name is close to that of a state, column or definition.

    A misspelt state in an equation is read as a new parameter, so that the model stays valid.
    """
    meanings = dict.fromkeys(model.states, "the state")
    meanings |= {name: "the column" for name in (*(data.names or ()), *data.inputs) if name not in meanings}
    meanings |= dict.fromkeys(model.observables, "the definition")
    similar_names = {
        p: [f"{what} {name}" for name, what in meanings.items() if name != p and is_typo(p, name)]
        for p in model.parameters
    }
    return [note_misspelling(parameter, *similar) for parameter, similar in similar_names.items() if similar]


def note_misspelling(name: str, *similar: str) -> str:
    """Write the note on a parameter whose name is close to the names in `similar`, such as `the state x`."""
    return f"The parameter {name} looks like {' and '.join(similar)}; is it a misspelling?"


def _check_begin_time(data: Dataset, model: Model) -> list[str]:
    """Check when the data begin if the model gives initial values, which are those at t = 0.

    Data that begin earlier are refused.

    Returns
    -------
    list of str
        A note if the data begin much later.
    """
    # `y(0) = 2*x(0)` turns x(0) into a parameter with `x(0) = x(0)`: such a value is fitted, not given.
    given_states = [state for state, e in model.initial.items() if e != se.Symbol(f"{state}(0)")]
    for q in data.trajectories:
        if given_states and q.times[0] < 0:
            where = f" of {q.label}" if q.label else ""
            raise DataError(
                f"{given_states[0]}(0) is the value at t = 0, but the data{where} begin at t = {q.times[0]:g}. Count "
                "time from the moment at which the initial values hold."
            )
        if given_states and q.times[0] > LATE_BEGIN_DURATIONS * (q.times[-1] - q.times[0]):
            where = f" of {q.label}" if q.label else ""
            return [
                f"{given_states[0]}(0) is the value at t = 0, long before the first sample{where}, t = {q.times[0]:g}; "
                "if it holds at the first sample, count time from that sample."
            ]
    return []


def match_all_states(data: Dataset, model: Model) -> Dataset:
    """Return the dataset with a column for each state of the model, in their order.

    Raises
    ------
    DataError
        If a state is not measured, or only by a named expression, or if the model has given initial values or jumps.
    """
    matched = match(data, model)
    if matched.hidden:
        raise DataError(
            f"The model's state {matched.hidden[0]!r} has no column in the data, whose columns are: "
            f"{list_names(data.names or ())}.{suggest_name(matched.hidden[0], data.names or ())} Every state must be "
            "measured for this; rename a column, or pass names={...} to say which column is which state."
        )
    if not matched.complete:
        raise DataError(
            "Every state must be measured directly for this, without named expressions, initial values or jumps."
        )
    return matched.data


def build_system(model: Model, data: Dataset, k: int) -> System:
    """Return the right-hand side of trajectory k, in working coordinates, with its inputs."""
    inputs = collect_inputs(model, data, k)
    return model.for_trajectory(k).system(data.noise, data.covariance).with_inputs(inputs)


def collect_inputs(model: Model, data: Dataset, k: int) -> Inputs | None:
    """Return the inputs of trajectory k in the order of the model, followed by its switches at known times.

    None if there is neither, or if the time of a switch is unknown and the model has no inputs.
    """
    inputs, switches = data.trajectories[k].inputs, build_switch_inputs(model.for_trajectory(k))
    driven = None
    if inputs is not None and model.inputs:
        driven = inputs.select_columns([data.inputs.index(name) for name in model.inputs])
    if driven is None or switches is None:
        return driven if switches is None else switches
    return driven.merge_with(switches)
