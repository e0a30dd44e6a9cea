"""Tables for a model: find the time and the measured columns, and build the dataset.

Columns are matched to states and named expressions by name, or as `[columns]` of the model file maps them. A column
that nearly has the name of something measurable is an error and not ignored: a typo must not turn a measured state
into a hidden one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..data.column_roles import Roles, build_dataset, find_time_column, make_wide
from ..data.dataset import Dataset
from ..data.matching import note_left_out_columns
from ..data.text_reader import Table, read_table
from ..support.errors import DataError
from ..support.wording import is_misspelt, list_names, suggest_name
from .model_file import TIME_KEY, ModelFile


@dataclass(frozen=True)
class TableOptions:
    """Choices for reading a table that a model file does not make, or that replace those it makes.

    Attributes
    ----------
    time, trajectory : str, optional
        Columns of the time and of the label that separates trajectories.
    noise : str, optional
        Kind of noise of everything measured.
    sheet : str, optional
        Sheet of a spreadsheet.
    doses : str, optional
        Path of a table of doses.
    into : str, optional
        The state that receives the doses if that table does not name it.
    """

    time: str | None = None
    trajectory: str | None = None
    noise: str | None = None
    sheet: str | None = None
    doses: str | None = None
    into: str | None = None


@dataclass(frozen=True)
class _PairedTable:
    """A table with the role of each of its columns.

    Attributes
    ----------
    table : Table
    columns_by_name : dict of str to str or list of str
        Column, or columns of repeats, of each measured name.
    kinds : list of str
        Kind of noise of each measured name.
    columns_without_role : list of str
    time, trajectory : str, or None
        Columns of the time and of the trajectory labels; None if `build_dataset` chooses the time, or if there are no
        labels.
    inputs : dict of str to str
        Column of each input.
    """

    table: Table
    columns_by_name: dict[str, str | list[str]]
    kinds: list[str]
    columns_without_role: list[str]
    time: str | None
    trajectory: str | None
    inputs: dict[str, str]


def _pair_table(file: ModelFile, path: str | Path, options: TableOptions) -> _PairedTable:
    """Read a table and assign a role to each of its columns."""
    table, time = read_table(Path(path), options.sheet), options.time or _take_single_column(file.columns.get(TIME_KEY))
    # A table with columns that `[columns]` names is wide already; `make_wide` converts any other one if it is long.
    if not {
        column
        for name, columns_of_name in file.columns.items()
        if name != TIME_KEY
        for column in list_columns(columns_of_name)
    } & set(table.columns):
        table = make_wide(table, time, options.trajectory or file.trajectory)
    columns = [name for name in table.columns if name not in table.errors.values()]
    trajectory = options.trajectory or file.trajectory or table.group
    inputs = {name: _take_single_column(file.columns.get(name)) or name for name in file.inputs}
    clock = time or find_time_column(columns)
    for name in (*file.model.states, *file.model.observables):
        if clock in list_columns(file.columns.get(name, name)) and name not in file.model.hidden:
            raise DataError(
                f"{path}: the column {clock!r} is measured, as {name} of the model, and cannot be the time as well. "
                f"Name the column of time, with --time or under [columns] of the model file: {list_names(columns)}."
            )
    names, without_role = _assign_columns(file, columns, {clock, trajectory, *inputs.values()})
    kinds = [options.noise or file.noise.get(name, "gaussian") for name in names]
    return _PairedTable(table, names, kinds, without_role, time=time, trajectory=trajectory, inputs=inputs)


def list_columns(columns: str | list[str]) -> list[str]:
    """Return the columns of a name as a list: empty if it is marked as not measured, several if it has repeats."""
    return columns if isinstance(columns, list) else [columns] if columns else []


def _take_single_column(columns: str | list[str] | None) -> str | None:
    """Return a single column, or None; only measured names may have several columns."""
    assert not isinstance(columns, list)
    return columns


def find_measured_columns(
    file: ModelFile, path: str | Path, options: TableOptions
) -> tuple[dict[str, str | list[str]], list[str]]:
    """Return the columns of a table that measure names of a model.

    Parameters
    ----------
    file : ModelFile
    path : str or Path
    options : TableOptions

    Returns
    -------
    names : dict of str to str or list of str
        Column, or columns of repeats, of each measured name.
    kinds : list of str
        Kind of noise of each of these names, in the same order.
    """
    paired = _pair_table(file, path, options)
    return paired.columns_by_name, paired.kinds


def read_data(file: ModelFile, path: str | Path, options: TableOptions | None = None) -> Dataset:
    """Read the table of a model as a dataset.

    Parameters
    ----------
    file : ModelFile
    path : str or Path
    options : TableOptions, optional

    Returns
    -------
    Dataset
        Its notes list columns that were left out, and a column that was taken for the only state although its name
        differs.

    Raises
    ------
    DataError
        If a column nearly has the name of something measurable, the time is measured as well, or sigma is incomplete.
    """
    options = options or TableOptions()
    paired = _pair_table(file, path, options)
    names, without_role, sigma = paired.columns_by_name, paired.columns_without_role, None
    if file.sigma is not None:
        names_without_sigma = [name for name in names if name not in file.sigma]
        if names_without_sigma:
            raise DataError(
                f"{file.name}: [sigma] lacks {names_without_sigma[0]!r}, which is measured; "
                "give a sigma for every measured name, or none."
            )
        sigma = [file.sigma[name] for name in names]
    roles = Roles(paired.time, names, paired.kinds, sigma, inputs=paired.inputs, hold=file.hold)
    data = build_dataset(paired.table, replace(roles, trajectory=paired.trajectory, missing=file.missing))
    if options.doses is not None:
        data = data.with_doses(options.doses, options.into)
    measurable = [name for name in (*file.model.states, *file.model.observables) if name not in file.model.hidden]
    notes = [note_left_out_columns(without_role, measurable, names)] if without_role else []
    assumed = [(column, name) for name, column in names.items() if column != name and name not in file.columns]
    notes += [f"The column {column!r} was taken for {name}, the only state." for column, name in assumed]
    return data.replace_attributes(notes=(*data.notes, *notes)) if notes else data


def _assign_columns(
    file: ModelFile, columns: list[str], taken: set[str | None]
) -> tuple[dict[str, str | list[str]], list[str]]:
    """Assign the columns of a table to measurable names, by name or as the model file maps them.

    Parameters
    ----------
    file : ModelFile
    columns : list of str
    taken : set of str or None
        Columns that already have a role (time, trajectory, inputs); may contain None.

    Returns
    -------
    names : dict of str to str or list of str
    without_role : list of str
        Columns that have no role.

    Raises
    ------
    DataError
        If a column nearly has the name of something measurable.
    """
    model = file.model
    visible = [state for state in model.states if state not in model.hidden]
    every = {name: file.columns.get(name, name) for name in (*visible, *model.hidden, *model.observables)}
    # An empty column marks a name as not measured.
    excluded = {name for name, column in file.columns.items() if not column}
    named = every.items() if not excluded else [pair for pair in every.items() if pair[0] not in excluded]
    names = {name: column for name, column in named if column in columns or name in file.columns}
    assigned = {item for column in names.values() for item in list_columns(column)}
    without_role = [c for c in columns if c not in taken and c not in assigned and c not in excluded]
    # With one state and one column there is only one way to match them, so the names may differ.
    if not names and len(visible) == 1 and len(without_role) == 1:
        return {visible[0]: without_role[0]}, []
    unassigned = [name for name in every if name not in names and name not in excluded]
    for column in without_role:
        guess = suggest_name(column, unassigned)
        # If nothing matched, any similar name is an error. Otherwise only a misspelling is: tables often have further
        # columns, whose names may resemble those of the model.
        if is_misspelt(column, unassigned) or (guess and not names):
            alike = [candidate for candidate in without_role if guess and suggest_name(candidate, unassigned) == guess]
            remedy = "Rename it, or leave it out of the table."
            if len(alike) > 1:
                quoted = ", ".join(f'"{candidate}"' for candidate in alike)
                remedy = (
                    f"If they repeat one measurement, list them under [columns] of a model file: name = [{quoted}]."
                )
            raise DataError(
                f"The column {column!r} is neither a state nor a named expression of the model.{guess} {remedy}"
            )
    return names or {name: every[name] for name in visible}, without_role if names else []
