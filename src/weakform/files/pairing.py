"""A model file and a table: which column is what."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path

from ..data.columns import Roles, dataset, time_column, wide
from ..data.dataset import Dataset
from ..data.matching import CLOSE
from ..data.tables import read_table
from ..support.errors import DataError
from ..support.messages import listed, suggestion
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


def read_data(file: ModelFile, path: str | Path, how: Reading | None = None) -> Dataset:
    """The table of a model: columns by name, or as its file maps them."""
    how = how or Reading()
    given = read_table(Path(path), how.sheet)
    time = how.time or file.columns.get(TIME)
    table = given if set(file.columns.values()) - {time} and time in given.columns else wide(given, time)
    columns = [name for name in table.columns if name not in table.errors.values()]
    trajectory = how.trajectory or file.trajectory or table.group
    inputs = {name: file.columns.get(name, name) for name in file.inputs}
    names, others = _measured(file, columns, {time or time_column(columns), trajectory, *inputs.values()})
    kinds = [how.noise or file.noise.get(name, "gaussian") for name in names]
    sigma = None
    if file.sigma is not None:
        lacking = [name for name in names if name not in file.sigma]
        if lacking:
            raise DataError(f"{file.name}, [sigma] lacks {lacking[0]!r}, which is measured; give all, or none.")
        sigma = [file.sigma[name] for name in names]
    read = dataset(table, Roles(time, names, kinds, sigma, inputs=inputs, hold=file.hold, trajectory=trajectory))
    if how.doses is not None:
        read = read.with_doses(how.doses, how.into)
    note = f"Columns that the model does not have were left out: {listed(others)}."
    return read.replaced(notes=(*read.notes, note)) if others else read


def _measured(file: ModelFile, columns: list[str], taken: set[str | None]) -> tuple[dict[str, str], list[str]]:
    """Which columns of a table are measured, by name or as the file maps them; and those that nobody asks for."""
    model = file.model
    plain = [state for state in model.states if state not in model.hidden]
    every = {name: file.columns.get(name, name) for name in (*plain, *model.hidden, *model.observables)}
    names = {name: column for name, column in every.items() if column in columns or name in file.columns}
    others = [column for column in columns if column not in taken and column not in names.values()]
    if not names and len(plain) == 1 and len(others) == 1:  # one state and one column need no name in common
        return {plain[0]: others[0]}, []
    lacking = [name for name in every if name not in names]
    for column in others:
        close = difflib.get_close_matches(column, lacking, n=1, cutoff=CLOSE)
        guess = suggestion(column, lacking)
        if close or (guess and not names):
            raise DataError(
                f"The column {column!r} is no state of the model and no named expression.{guess} Rename it; if it is "
                "not meant, leave it out of the table."
            )
    return names or {name: every[name] for name in plain}, others if names else []
