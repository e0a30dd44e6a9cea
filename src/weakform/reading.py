"""Tables into datasets: which column is what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .data import Dataset, part
from .errors import DataError
from .expressions import listed, suggestion
from .tables import Table


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are."""

    time: str | None = None
    states: Sequence[str] | Mapping[str, str] | None = None
    noise: str | Sequence[str] = "gaussian"
    sigma: ArrayLike | Mapping[str, str] | None = None
    inputs: Sequence[str] | Mapping[str, str] = ()
    hold: bool = False
    trajectory: str | None = None


def dataset(source: Table, roles: Roles) -> Dataset:
    """A dataset from a table."""
    columns, where = source.columns, source.where
    if not columns:
        raise DataError(f"{where} has no columns; a time column and one for each state are needed.")
    if isinstance(roles.states, str):
        raise DataError(f"states must be a list of names, such as [{roles.states!r}]; received {roles.states!r}.")
    inputs = _renamed(roles.inputs)
    errors = dict(roles.sigma) if isinstance(roles.sigma, Mapping) else {}
    taken = {*inputs.values(), *errors.values(), *([roles.trajectory] if roles.trajectory else [])}
    if roles.states is not None:
        taken |= set(_renamed(roles.states).values())
    free = [name for name in columns if name not in taken]
    time = roles.time if roles.time is not None else (free[0] if free else next(iter(columns)))
    states = _renamed([n for n in free if n != time] if roles.states is None else roles.states)
    for name in (time, *states.values(), *taken):
        if name not in columns:
            raise DataError(
                f"No column {name!r} in {where}; its columns are: {listed(columns)}.{suggestion(str(name), columns)}"
            )
    if not states:
        raise DataError(f"{where} has only the time column {time!r}; a column for each state is needed.")
    for name in errors:
        if name not in states:
            raise DataError(f"sigma names {name!r}, which is not one of the states: {', '.join(states)}.")
    table = np.column_stack([source.numbers(c) for c in states.values()])
    points = None
    if errors:
        blank = np.full(len(table), np.nan)
        points = np.column_stack([source.numbers(errors[s]) if s in errors else blank for s in states])
        if np.isnan(points).all(axis=0).any():
            raise DataError(f"sigma must name a column for each state: {', '.join(states)}.")
    times, note = source.times(time)
    driven = {name: source.numbers(c) for name, c in inputs.items()}
    sigma: Any = roles.sigma if points is None else points
    if roles.trajectory is None:
        data = Dataset(times, table, roles.noise, sigma, states=list(states), inputs=driven, hold=roles.hold)
        data._set(notes=(*([note] if note else []), *data.notes))
        return data
    group = np.array([_label(v) for v in columns[roles.trajectory]])
    parts, labels = [], list(dict.fromkeys(group))
    for label in labels:
        rows = group == label
        try:
            parts.append(
                part(
                    times[rows],
                    table[rows],
                    roles.noise,
                    sigma if points is None else points[rows],
                    list(states),
                    {name: values[rows] for name, values in driven.items()},
                    roles.hold,
                )
            )
        except DataError as error:
            raise DataError(f"{roles.trajectory} {label}: {error}") from None
    joined = Dataset.join(parts, labels)
    joined._set(notes=(*([note] if note else []), *joined.notes))
    joined._check()
    return joined


def _label(value: Any) -> str:
    """The name of a trajectory; whole numbers without a point."""
    if value is None or value != value or str(value).strip() in ("", "nan", "<NA>"):
        raise DataError(
            "A row has no value in the column that tells trajectories apart; fill it, or leave the row out."
        )
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _renamed(names: Sequence[str] | Mapping[str, str]) -> dict[str, str]:
    return dict(names) if isinstance(names, Mapping) else {name: name for name in names}
