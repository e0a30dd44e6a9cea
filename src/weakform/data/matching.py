"""A dataset and a model brought together: which column is which state, which input drives what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..model import Model
from ..model.inputs import Inputs
from ..model.system import System
from ..support.errors import DataError
from ..support.messages import listed, suggestion
from .dataset import Dataset


def for_model(data: Dataset, model: Model) -> Dataset:
    """The columns of a model's states and inputs, in their order."""
    for name in model.inputs:
        if name not in data.inputs:
            raise DataError(
                f"The model's input {name!r} is not in the data, whose inputs are: {', '.join(data.inputs) or 'none'}. "
                "Give it with inputs=... of the dataset."
            )
    order, notes = _order(data, model)
    hidden = len(model.hidden)
    if order == list(range(data.D)) and not hidden:
        return data
    if hidden and data.covariance is not None:
        raise DataError("A covariance of the states is not for second-order equations; give sigma for each state.")
    truth = data.truth
    return data.replaced(
        trajectories=tuple(q.columns(order, hidden) for q in data.trajectories),
        noise=tuple(data.noise[d] for d in order) + ("gaussian",) * hidden,
        sigma=None if data.sigma is None else np.concatenate([data.sigma[order], np.full(hidden, np.nan)]),
        covariance=None if data.covariance is None else data.covariance[np.ix_(order, order)],
        names=model.states,
        truth=truth if hidden or truth is None else truth.columns(order),
        notes=(*data.notes, *notes),
    )


def _order(data: Dataset, model: Model) -> tuple[list[int], list[str]]:
    """The column of each measured state, and what is left out, in words."""
    seen = model.states[: len(model.states) - len(model.hidden)]
    if data.names is None:
        if len(seen) != data.D:
            raise DataError(
                f"The model has {len(seen)} states ({', '.join(seen)}), the data have {data.D} columns. "
                "Every state must be measured; name the columns with names=[...]."
            )
        return list(range(data.D)), []
    missing = [name for name in seen if name not in data.names]
    others = [name for name in data.names if name not in (*model.states, *model.inputs)]
    if missing:
        raise DataError(
            f"The model's state {missing[0]!r} has no column in the data, whose columns are: "
            f"{listed(data.names)}.{suggestion(missing[0], data.names)} Every state must be measured; "
            "rename a column, or pass names={...} to tell which column is which state."
        )
    if others and data.selected:
        raise DataError(
            f"The column {others[0]!r} is not a state of the model, whose states are: {listed(seen)}."
            f"{suggestion(others[0], seen)} Leave it out; or, if columns are to be taken by their position, give "
            "names=[...] in the order of the columns."
        )
    note = [f"Columns that the model does not have were left out: {listed(others)}."] if others else []
    return [data.names.index(name) for name in seen], note


def system_of(model: Model, data: Dataset, k: int) -> System:
    """The right-hand side of trajectory k, in working coordinates, with its inputs."""
    inputs = inputs_of(model, data, k)
    return model.of(k).system(data.noise, data.covariance).driven_by(inputs)


def inputs_of(model: Model, data: Dataset, k: int) -> Inputs | None:
    """The inputs of trajectory k, in the order of the model's."""
    inputs = data.trajectories[k].inputs
    if inputs is None or not model.inputs:
        return None
    order = [data.inputs.index(name) for name in model.inputs]
    return replace(inputs, values=inputs.values[:, order])
