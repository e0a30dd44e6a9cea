"""A model file and a table: which column is what."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..data.column_roles import Roles, dataset, time_column, wide
from ..data.dataset import Dataset
from ..data.matching import left_out
from ..data.text_reader import Table, read_table
from ..support.errors import DataError
from ..support.wording import listed, misspelt, suggestion
from .model_file import TIME, ModelFile


@dataclass(frozen=True)
class Reading:
    """How a table is to be read, where the model file does not say, or in its place.

    Attributes
    ----------
    time, trajectory : str, optional
        Columns.
    noise : str, optional
        Of all that is measured.
    sheet : str, optional
        Of a spreadsheet.
    doses : str, optional
        A table of doses.
    into : str, optional
        The state that is dosed, where that table does not say.
    """

    time: str | None = None
    trajectory: str | None = None
    noise: str | None = None
    sheet: str | None = None
    doses: str | None = None
    into: str | None = None


@dataclass(frozen=True)
class _Paired:
    """A table with what its columns are."""

    table: Table
    names: dict[str, str | list[str]]
    kinds: list[str]
    others: list[str]
    time: str | None
    trajectory: str | None
    inputs: dict[str, str]


def _paired(file: ModelFile, path: str | Path, how: Reading) -> _Paired:
    table, time = read_table(Path(path), how.sheet), how.time or _text(file.columns.get(TIME))
    if not {one for name, said in file.columns.items() if name != TIME for one in each(said)} & set(table.columns):
        table = wide(table, time, how.trajectory or file.trajectory)
    columns = [name for name in table.columns if name not in table.errors.values()]
    trajectory = how.trajectory or file.trajectory or table.group
    inputs = {name: _text(file.columns.get(name)) or name for name in file.inputs}
    clock = time or time_column(columns)
    for name in (*file.model.states, *file.model.observables):
        if clock in each(file.columns.get(name, name)) and name not in file.model.hidden:
            raise DataError(
                f"{path}: the column {clock!r} is measured, as {name} of the model, and cannot be the time as well. "
                f"Name the column of time, with --time or under [columns] of the model file: {listed(columns)}."
            )
    names, others = _measured(file, columns, {clock, trajectory, *inputs.values()})
    kinds = [how.noise or file.noise.get(name, "gaussian") for name in names]
    return _Paired(table, names, kinds, others, time=time, trajectory=trajectory, inputs=inputs)


def each(said: str | list[str]) -> list[str]:
    """The columns of a name: none where it is said not to be measured, several where it is measured several times."""
    return said if isinstance(said, list) else [said] if said else []


def _text(said: str | list[str] | None) -> str | None:
    assert not isinstance(said, list)  # only what is measured has several
    return said


def measured(file: ModelFile, path: str | Path, how: Reading) -> tuple[dict[str, str | list[str]], list[str]]:
    """The columns of each measured name, and the kind of its noise."""
    found = _paired(file, path, how)
    return found.names, found.kinds


def read_data(file: ModelFile, path: str | Path, how: Reading | None = None) -> Dataset:
    """The table of a model: columns by name, or as its file maps them."""
    how = how or Reading()
    found = _paired(file, path, how)
    names, others, sigma = found.names, found.others, None
    if file.sigma is not None:
        lacking = [name for name in names if name not in file.sigma]
        if lacking:
            raise DataError(f"{file.name}, [sigma] lacks {lacking[0]!r}, which is measured; give all, or none.")
        sigma = [file.sigma[name] for name in names]
    roles = Roles(found.time, names, found.kinds, sigma, inputs=found.inputs, hold=file.hold)
    read = dataset(found.table, replace(roles, trajectory=found.trajectory, missing=file.missing))
    if how.doses is not None:
        read = read.with_doses(how.doses, how.into)
    known = [name for name in (*file.model.states, *file.model.observables) if name not in file.model.hidden]
    notes = [left_out(others, known, names)] if others else []
    taken = [(column, name) for name, column in names.items() if column != name and name not in file.columns]
    notes += [f"The column {column!r} was taken for {name}, the only state." for column, name in taken]
    return read.replaced(notes=(*read.notes, *notes)) if notes else read


def _measured(
    file: ModelFile, columns: list[str], taken: set[str | None]
) -> tuple[dict[str, str | list[str]], list[str]]:
    """Which columns of a table are measured, by name or as the file maps them; and those that nobody asks for."""
    model = file.model
    plain = [state for state in model.states if state not in model.hidden]
    every = {name: file.columns.get(name, name) for name in (*plain, *model.hidden, *model.observables)}
    left = {name for name, column in file.columns.items() if not column}  # said not to be measured
    named = every.items() if not left else [pair for pair in every.items() if pair[0] not in left]
    names = {name: column for name, column in named if column in columns or name in file.columns}
    asked = {one for column in names.values() for one in each(column)}
    others = [c for c in columns if c not in taken and c not in asked and c not in left]
    if not names and len(plain) == 1 and len(others) == 1:  # one state and one column need no name in common
        return {plain[0]: others[0]}, []
    lacking = [name for name in every if name not in names and name not in left]
    for column in others:
        guess = suggestion(column, lacking)
        if misspelt(column, lacking) or (guess and not names):
            alike = [other for other in others if guess and suggestion(other, lacking) == guess]
            how = "Rename it; if it is not meant, leave it out of the table."
            if len(alike) > 1:
                said = ", ".join(f'"{other}"' for other in alike)
                how = f"If they repeat one measurement, say so under [columns] of a model file: name = [{said}]."
            raise DataError(f"The column {column!r} is no state of the model and no named expression.{guess} {how}")
    return names or {name: every[name] for name in plain}, others if names else []
