"""Keys of TOML files: each has a reader that checks its value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..model import Model
from ..model.naming import initial_name
from ..parameters.parameter import KEYS, PRIORS
from ..support.errors import ModelError
from ..support.wording import suggestion

PARAMETER_KEYS = (*KEYS, "truth")
"""What a model file may say of a parameter."""


def known(table: Any, names: tuple[str, ...], where: str) -> Mapping[str, Any]:
    """A table with no other keys than `names`, or an error that names the key and what it may mean."""
    if not isinstance(table, Mapping):
        raise ModelError(f"{where} must be a table; received {table!r}.")
    for key in table:
        if key not in names:
            raise ModelError(f"{where}: unknown key {key!r}.{suggestion(key, names)} Known: {', '.join(names)}.")
    return table


def number(value: Any, what: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ModelError(f"{what} must be a finite number; received {value!r}.")
    return float(value)


def words(table: Any, names: tuple[str, ...], where: str) -> dict[str, str]:
    """A table of texts."""
    for key, value in known(table, names, where).items():
        if not isinstance(value, str):
            raise ModelError(f"{where}: {key} must be text; received {value!r}.")
    return dict(table)


def repeated(table: Any, names: tuple[str, ...], where: str, measured: tuple[str, ...]) -> dict[str, str | list[str]]:
    """A table of texts, or of lists of texts for what is `measured`."""
    for key, value in known(table, names, where).items():
        if isinstance(value, list) and key in measured:
            if not value or not all(isinstance(one, str) and one for one in value):
                raise ModelError(f"{where}: {key} must be a column, or a list of columns; received {value!r}.")
        elif not isinstance(value, str):
            raise ModelError(f"{where}: {key} must be text; received {value!r}.")
    return dict(table)


def parameters(table: Any, model: Model, where: str) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """What a file says of its parameters, and their true values."""
    found: dict[str, dict[str, Any]] = {}
    truth: dict[str, float] = {}
    beginnings = tuple(initial_name(state) for state in model.states)
    for name, entry in known(table, (*model.parameters, *beginnings), f"{where}, [parameters]").items():
        place = f"{where}, [parameters.{name}]"
        if isinstance(entry, int | float):
            found[name] = {"fixed": number(entry, place)}
            continue
        entries = known(entry, PARAMETER_KEYS, place)
        read = {key: _READERS[key](value, f"{place}: {key}") for key, value in entries.items()}
        if "truth" in read:
            truth[name] = read.pop("truth")
        if read:
            found[name] = read
    return found, truth


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise ModelError(f"{what} must be text; received {value!r}.")
    return value


def _flag(value: Any, what: str) -> bool:
    if not isinstance(value, bool):
        raise ModelError(f"{what} must be true or false; received {value!r}.")
    return value


def _bounds(value: Any, what: str) -> tuple[float, float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ModelError(f"{what} must be [smallest, largest]; received {value!r}.")
    # TOML knows inf, for a bound that is not there.
    low, high = (v if isinstance(v, float) and math.isinf(v) else number(v, what) for v in value)
    return float(low), float(high)


def _local(value: Any, what: str) -> Any:
    words = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    if not isinstance(value, bool | list | Mapping) or not all(isinstance(word, str) for word in words):
        raise ModelError(f"{what} must be true, or a label for each trajectory; received {value!r}.")
    return value


def _prior(value: Any, what: str) -> tuple[str, float, float]:
    if not isinstance(value, list) or len(value) != 3 or value[0] not in PRIORS:
        words = " or ".join(map(repr, PRIORS))
        raise ModelError(f"{what} must be [{words}, centre, spread]; received {value!r}.")
    return value[0], number(value[1], what), number(value[2], what)


_READERS: dict[str, Callable[[Any, str], Any]] = {
    "bounds": _bounds,
    "start": number,
    "fixed": number,
    "tied": _text,
    "log": _flag,
    "prior": _prior,
    "unit": _text,
    "local": _local,
    "truth": number,
}
