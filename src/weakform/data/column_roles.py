"""Roles of the columns of a table, and the dataset that follows from them.

A column is the time, a measured state, its standard errors, a known input, or the name of the trajectory of each row.
Roles that are not given are inferred: the time by its name, the states from the columns that have no other role.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..support.errors import DataError
from ..support.wording import list_names, suggest_name
from .cell_parsing import is_time_name
from .data_validation import TrajectoryArguments, check_sample_count, validate_trajectory
from .dataset import Dataset
from .long_format import is_long, pivot_to_wide
from .text_reader import Table


@dataclass(frozen=True)
class Roles:
    """Roles of the columns of a table; see the parameters of `Dataset.from_csv`."""

    time: str | None = None
    names: Sequence[str] | Mapping[str, str | Sequence[str]] | None = None
    noise: str | Sequence[str] = "gaussian"
    sigma: ArrayLike | Mapping[str, str] | None = None
    inputs: Sequence[str] | Mapping[str, str] = ()
    hold: bool = False
    trajectory: str | None = None
    missing: Sequence[float | str] = ()


def find_time_column(names: Sequence[str]) -> str:
    """Return the column that is named like a time, if there is exactly one; else the first column."""
    named = [name for name in names if is_time_name(name)]
    return named[0] if len(named) == 1 else names[0]


def make_wide(table: Table, time: str | None = None, trajectory: str | None = None) -> Table:
    """Return a table with one column for each measured name; a long table (one value per row) is pivoted."""
    return pivot_to_wide(table, time or find_time_column(list(table.columns)), trajectory) if is_long(table) else table


def build_dataset(source: Table, roles: Roles) -> Dataset:
    """Build a dataset from a table.

    Parameters
    ----------
    source : Table
    roles : Roles

    Returns
    -------
    Dataset
        One trajectory, or one for each label in the column `roles.trajectory`.

    Raises
    ------
    DataError
        If a column is missing, or has two roles, or contains something that is not a number.
    """
    source = source.blank_words(word for word in roles.missing if isinstance(word, str))
    if isinstance(roles.names, Mapping):
        if any(not isinstance(c, str) for c in roles.names.values()):
            source, roles = _stack_repeats(source, roles)
    elif roles.names is not None and not all(isinstance(name, str) for name in roles.names):
        raise DataError(
            f"names must be names of columns; received {roles.names!r}. If several columns repeat the measurement of "
            "one state, list them under its name: names={'OD': ['OD_1', 'OD_2']}."
        )
    # A long table whose own columns are requested, such as `value`, stays as it is.
    if roles.names is None or not set(_map_names(roles.names).values()) & set(source.columns):
        source = make_wide(source, roles.time, roles.trajectory)
    if roles.trajectory is None and source.group is not None:
        roles = replace(roles, trajectory=source.group)
    # A long table has one column of standard errors, which becomes one for each state.
    if roles.sigma is None and source.errors:
        requested = list(source.errors) if roles.names is None else list(_map_names(roles.names).values())
        state_of = {column: name for name, column in _map_names(roles.names or requested).items()}
        roles = replace(roles, sigma={state_of[c]: source.errors[c] for c in requested if c in source.errors})
    columns, location = source.columns, source.location
    if not isinstance(roles.trajectory, str | None):
        roles = replace(roles, trajectory=str(roles.trajectory))
    if not columns:
        raise DataError(f"{location} has no columns; a time column and a column for each state are needed.")
    if isinstance(roles.names, str):
        raise DataError(f"names must be a list, such as [{roles.names!r}]; received {roles.names!r}.")
    # Explicit roles come first: what remains of the columns is the time and the states.
    inputs = _map_names(roles.inputs)
    errors = dict(roles.sigma) if isinstance(roles.sigma, Mapping) else {}
    taken = {*inputs.values(), *errors.values(), *([roles.trajectory] if roles.trajectory else [])}
    if roles.names is not None:
        taken |= set(_map_names(roles.names).values())
    free = [name for name in columns if name not in taken and name not in source.errors.values()]
    time = roles.time if roles.time is not None else find_time_column(free or list(columns))
    states = _map_names([n for n in free if n != time] if roles.names is None else roles.names)
    for name in (time, *states.values(), *taken):
        if name not in columns:
            raise DataError(
                f"No column {name!r} in {location}; its columns are: "
                f"{list_names(columns)}.{suggest_name(str(name), columns)}"
            )
    if not states:
        raise DataError(f"{location} has only the time column {time!r}; a column for each state is needed.")
    for name in errors:
        if name not in states:
            raise DataError(f"sigma names {name!r}, which is not one of the states: {', '.join(states)}.")
    table = np.column_stack([source.parse_numbers(c) for c in states.values()])
    # Numbers that stand for missing values count in the columns of states only: inputs must be known at all times.
    for number in roles.missing:
        if not isinstance(number, str):
            table[table == number] = np.nan
    points = None  # standard errors of the points, (rows, D)
    if errors:
        blank = np.full(len(table), np.nan)
        points = np.column_stack([source.parse_numbers(errors[s]) if s in errors else blank for s in states])
        if np.isnan(points).all(axis=0).any():
            raise DataError(f"sigma must name a column for each state: {', '.join(states)}.")
    times, note = source.parse_times(time)
    notes = [*source.notes, *([note] if note else [])]
    if roles.time is None and not is_time_name(time):
        notes.append(f"The column {time!r} was taken as the time, because no column is named like one.")
    driven = {name: source.parse_numbers(c) for name, c in inputs.items()}
    sigma: Any = roles.sigma if points is None else points
    if roles.trajectory is None:
        data = Dataset(times, table, roles.noise, sigma, names=list(states), inputs=driven, hold=roles.hold)
        return data.replace_attributes(notes=(*notes, *data.notes), selected=roles.names is not None)
    group = np.array([format_label(v) for v in columns[roles.trajectory]])
    parts, labels = [], list(dict.fromkeys(group))
    for label in labels:
        rows = group == label
        try:
            trajectory, attributes = validate_trajectory(
                TrajectoryArguments(
                    times[rows],
                    table[rows],
                    noise=roles.noise,
                    sigma=sigma if points is None else points[rows],
                    names=list(states),
                    inputs={name: values[rows] for name, values in driven.items()},
                    hold=roles.hold,
                )
            )
            parts.append(Dataset(trajectories=[trajectory], **vars(attributes)))
        except DataError as error:
            raise DataError(f"{roles.trajectory} {label}: {error}") from None
    joined = Dataset.join(parts, labels)
    # Samples are counted after the join: a single trajectory may have fewer than a dataset needs.
    check_sample_count(joined.trajectories)
    return joined.replace_attributes(notes=(*notes, *joined.notes), selected=roles.names is not None)


def _stack_repeats(source: Table, roles: Roles) -> tuple[Table, Roles]:
    """Move repeated measurements from columns side by side into rows below each other.

    Parameters
    ----------
    source : Table
    roles : Roles
        Its `names` map some state to several columns: `{"OD": ["OD_1", "OD_2"]}`.

    Returns
    -------
    Table
        One column for each state.
    Roles
        The roles of its columns.
    """
    names: Mapping[str, Any] = roles.names if isinstance(roles.names, Mapping) else {}
    columns_of: dict[str, list[str]] = {}
    for name, columns in names.items():
        columns_of[name] = list(columns) if isinstance(columns, list | tuple) else [columns]
        lacking = [str(c) for c in columns_of[name] if not isinstance(c, str) or c not in source.columns]
        if lacking or not columns_of[name]:
            raise DataError(
                f"names[{name!r}] must be a column, or a list of columns that repeat it; received {columns!r}. The "
                f"columns of {source.location} are: {list_names(source.columns)}."
                f"{suggest_name((lacking or [''])[0], source.columns)}"
            )
    sigma = _map_names(roles.sigma) if isinstance(roles.sigma, Mapping) else {}
    if not all(isinstance(c, str) for c in sigma.values()):
        raise DataError(f"sigma must name one column for each state; received {roles.sigma!r}.")
    measured = [c for parts in columns_of.values() for c in parts]
    other_roles = [roles.time, roles.trajectory, *_map_names(roles.inputs).values(), *sigma.values()]
    twice = [c for k, c in enumerate(measured) if c in measured[:k] or c in other_roles]
    if twice:
        raise DataError(
            f"The column {twice[0]!r} is named twice, at least once as a measurement; each column has one role."
        )
    free = [c for c in source.columns if c not in measured and c not in source.errors.values()]
    time = roles.time if roles.time is not None else find_time_column(free or list(source.columns))
    if time in measured:
        raise DataError(f"{source.location} has no column left for the time: {list_names(source.columns)}.")
    shared = [time, *_map_names(roles.inputs).values(), *sigma.values()]
    shared += [group for group in (roles.trajectory, source.group) if group]
    repeats = {name: parts for name, parts in columns_of.items() if len(parts) > 1}
    plain = {name: name if name in repeats else parts[0] for name, parts in columns_of.items()}
    return source.stack_repeats(repeats, shared) if repeats else source, replace(roles, names=plain, time=time)


def format_label(value: Any) -> str:
    """Return a cell as the label of a trajectory: the text as written in the file, or a whole number without a point.

    Parameters
    ----------
    value : object
        A cell of the column that tells trajectories apart. An empty cell is refused.
    """
    text = getattr(value, "text", "")
    if text.strip():
        return str(text).strip()
    if value is None or value != value or str(value).strip() in ("", "nan", "<NA>"):
        raise DataError(
            "A row has no value in the column that tells trajectories apart; fill it, or leave the row out."
        )
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    return str(value)


def _map_names(names: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Return the column for each name; a plain list keeps the names of the columns."""
    return dict(names) if isinstance(names, Mapping) else {name: name for name in names}
