"""Readers for the values of TOML keys, each of which checks the type of its value.

An unknown key is an error with a suggestion: a misspelt key that is ignored would change a fit silently.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..model import Model
from ..model.naming import format_initial_name
from ..parameters.parameter import PARAMETER_FIELDS, PRIOR_KINDS
from ..support.errors import ModelError
from ..support.wording import suggest_name

PARAMETER_KEYS = (*PARAMETER_FIELDS, "truth")
"""Keys that a model file may have under `[parameters.name]`."""


def check_keys(table: Any, names: tuple[str, ...], where: str) -> Mapping[str, Any]:
    """Check that a value is a table with no keys other than `names`.

    Parameters
    ----------
    table : object
        A value of a TOML document.
    names : tuple of str
    where : str
        Location of the table in the file, for messages.

    Returns
    -------
    Mapping
        The table.

    Raises
    ------
    ModelError
        If it is not a table, or has another key; the message suggests the nearest known one.
    """
    if not isinstance(table, Mapping):
        raise ModelError(f"{where} must be a table; received {table!r}.")
    for key in table:
        if key not in names:
            raise ModelError(f"{where}: unknown key {key!r}.{suggest_name(key, names)} Known: {', '.join(names)}.")
    return table


def read_number(value: Any, what: str) -> float:
    """Return a finite number as a float; `what` names it in the error for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ModelError(f"{what} must be a finite number; received {value!r}.")
    return float(value)


def read_texts(table: Any, names: tuple[str, ...], where: str) -> dict[str, str]:
    """Check that a value is a table of texts with keys among `names`, and return a copy."""
    for key, value in check_keys(table, names, where).items():
        if not isinstance(value, str):
            raise ModelError(f"{where}: {key} must be text; received {value!r}.")
    return dict(table)


def read_columns(
    table: Any, names: tuple[str, ...], where: str, measured: tuple[str, ...]
) -> dict[str, str | list[str]]:
    """Check that a value is a table of columns, and return a copy.

    Parameters
    ----------
    table : object
        A value of a TOML document.
    names : tuple of str
        Keys that are allowed.
    where : str
        Location of the table in the file, for messages.
    measured : tuple of str
        Keys that may have a list of columns, for repeated measurements.

    Returns
    -------
    dict of str to str or list of str
    """
    for key, value in check_keys(table, names, where).items():
        if isinstance(value, list) and key in measured:
            if not value or not all(isinstance(column, str) and column for column in value):
                raise ModelError(f"{where}: {key} must be a column, or a list of columns; received {value!r}.")
        elif not isinstance(value, str):
            raise ModelError(f"{where}: {key} must be text; received {value!r}.")
    return dict(table)


def read_parameters(table: Any, model: Model, where: str) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Read the table `[parameters]` of a model file.

    Parameters
    ----------
    table : object
        A value of a TOML document. A bare number in it is a fixed value.
    model : Model
    where : str
        Name of the file, for messages.

    Returns
    -------
    fields : dict of str to dict
        Arguments of `Parameter` by name of the parameter or initial value.
    truth : dict of str to float
        True values, for simulated data.
    """
    fields: dict[str, dict[str, Any]] = {}
    truth: dict[str, float] = {}
    initial_names = tuple(format_initial_name(state) for state in model.states)
    for name, entry in check_keys(table, (*model.parameters, *initial_names), f"{where}, [parameters]").items():
        place = f"{where}, [parameters.{name}]"
        if isinstance(entry, int | float):
            fields[name] = {"fixed": read_number(entry, place)}
            continue
        entries = check_keys(entry, PARAMETER_KEYS, place)
        values = {key: _READERS[key](value, f"{place}: {key}") for key, value in entries.items()}
        # Only simulated data have a true value, and `fit` must not see it.
        if "truth" in values:
            truth[name] = values.pop("truth")
        if values:
            fields[name] = values
    return fields, truth


def _read_text(value: Any, what: str) -> str:
    """Return a text; raise `ModelError` for anything else."""
    if not isinstance(value, str):
        raise ModelError(f"{what} must be text; received {value!r}.")
    return value


def _read_flag(value: Any, what: str) -> bool:
    """Return true or false; raise `ModelError` for anything else."""
    if not isinstance(value, bool):
        raise ModelError(f"{what} must be true or false; received {value!r}.")
    return value


def _read_bounds(value: Any, what: str) -> tuple[float, float]:
    """Return the lower and the upper bound; each may be infinite."""
    if not isinstance(value, list) or len(value) != 2:
        raise ModelError(f"{what} must be [smallest, largest]; received {value!r}.")
    # TOML has the literals inf and -inf, which mean that there is no bound on that side.
    low, high = (v if isinstance(v, float) and math.isinf(v) else read_number(v, what) for v in value)
    return float(low), float(high)


def _read_local(value: Any, what: str) -> Any:
    """Return the value of `local`: true or false, or labels that group the trajectories."""
    labels = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if not isinstance(value, bool | list | Mapping) or not all(isinstance(label, str) for label in labels):
        raise ModelError(f"{what} must be true, or a label for each trajectory; received {value!r}.")
    return value


def _read_prior(value: Any, what: str) -> tuple[str, float, float]:
    """Return the kind, centre and spread of a prior."""
    if not isinstance(value, list) or len(value) != 3 or value[0] not in PRIOR_KINDS:
        kinds = " or ".join(map(repr, PRIOR_KINDS))
        raise ModelError(f"{what} must be [{kinds}, centre, spread]; received {value!r}.")
    return value[0], read_number(value[1], what), read_number(value[2], what)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "bounds": _read_bounds,
    "start": read_number,
    "fixed": read_number,
    "tied": _read_text,
    "log": _read_flag,
    "prior": _read_prior,
    "unit": _read_text,
    "local": _read_local,
    "truth": read_number,
}
"""Reader for each key of a parameter."""
