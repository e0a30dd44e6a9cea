"""What is set on the page, as a model file, a command and a script that give the same fit."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..data.dataset import Dataset
from ..estimators import ESTIMATORS
from ..files.model_file import ModelFile, parse_model
from ..files.table_for_model import Reading, measured, read_data
from ..support.errors import FitError, ModelError
from ..support.versions import __version__
from ..support.whole_numbers import is_whole

LONGEST, MOST_STARTS = 3600.0, 1000
"""Seconds of a fit, and starts, at most."""


@dataclass(frozen=True)
class Setup:
    """A model, how its table is read, and how it is fitted.

    Attributes
    ----------
    equations : str
    inputs : tuple of str
    columns : dict of str to str
        The column of each measured name, input and `time`; an empty one where it was not measured.
    trajectory, sheet : str, or None
    hold : bool
    noise, units : dict of str to str
    missing : tuple of float or str
        What stands for a missing value.
    parameters : dict
        Of each parameter: bounds, start, fixed, log.
    method : str
        The default of `fit` where it is empty.
    seed : int
    starts : int, or None
    time_limit : float
    file : str
        The name of the table.
    """

    equations: str
    inputs: tuple[str, ...] = ()
    columns: dict[str, str] = field(default_factory=dict)
    trajectory: str | None = None
    sheet: str | None = None
    hold: bool = False
    noise: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    missing: tuple[float | str, ...] = ()
    parameters: dict[str, dict[str, Any]] = field(default_factory=dict)
    method: str = ""
    seed: int = 0
    starts: int | None = None
    time_limit: float = 60.0
    file: str = "data.csv"

    @classmethod
    def of(cls, given: Any) -> Setup:
        """From what the page sends: everything is checked, nothing is believed."""
        if not isinstance(given, Mapping) or not isinstance(given.get("equations"), str):
            raise ModelError("The page must send the equations as text.")
        for key in ("inputs", "missing"):
            if not isinstance(given.get(key) or [], list | tuple):
                raise ModelError(f"{key} must be a list; received {given[key]!r}.")
        kept = {key: value for key, value in given.items() if key in cls.__dataclass_fields__ and value is not None}
        for key, kind in (("columns", str), ("noise", str), ("units", str)):
            words = kept.get(key, {})
            if not isinstance(words, Mapping) or not all(isinstance(w, kind) for w in (*words, *words.values())):
                raise ModelError(f"{key} must be a word for each name; received {words!r}.")
            kept[key] = dict(words)
        for key in ("trajectory", "sheet", "file", "method"):
            if not isinstance(kept.get(key, ""), str):
                raise ModelError(f"{key} must be a word; received {kept[key]!r}.")
        if kept["columns"].get("time") == "":
            raise ModelError("No column is time: choose one among the columns of the table.")
        kept["inputs"] = tuple(map(str, kept.get("inputs", ())))
        kept["missing"] = tuple(v if isinstance(v, str) else _number(v, "missing") for v in kept.get("missing", ()))
        kept["parameters"] = _parameters(kept.get("parameters", {}))
        kept["file"] = Path(kept.get("file") or "data.csv").name
        made = cls(**kept)
        if made.method and made.method not in ESTIMATORS:
            raise FitError(f"No method {made.method!r}; there are: {', '.join(ESTIMATORS)}.")
        if not is_whole(made.seed, 0):
            raise FitError(f"The seed must be a whole number, 0 or larger; received {made.seed!r}.")
        if made.starts is not None and not (is_whole(made.starts, 1) and made.starts <= MOST_STARTS):
            raise FitError(f"Starts must be a whole number between 1 and {MOST_STARTS}; received {made.starts!r}.")
        if not 0 < _number(made.time_limit, "time_limit") <= LONGEST:
            raise FitError(f"The time limit must be between 0 and {LONGEST:g} s; received {made.time_limit!r}.")
        return made

    @property
    def reading(self) -> Reading:
        """How the table is read."""
        return Reading(sheet=self.sheet)

    @property
    def file_text(self) -> str:
        """The model file (TOML)."""
        quoted = json.dumps(self.equations) if "'''" in self.equations else f"'''\n{self.equations.strip()}\n'''"
        lines = [f"# Written by weakform {__version__}.", f"equations = {quoted}"]
        if self.inputs:
            lines.append(f"inputs = {json.dumps(self.inputs, ensure_ascii=False)}")
        if self.hold:
            lines.append("hold = true")
        if self.trajectory:
            lines.append(f"trajectory = {_text(self.trajectory)}")
        if self.missing:
            lines.append(f"missing = {json.dumps(self.missing, ensure_ascii=False)}")
        for name, said in (("noise", self.noise), ("columns", self.columns), ("units", self.units)):
            if said:
                lines += ["", f"[{name}]", *(f"{_text(key)} = {_text(value)}" for key, value in said.items())]
        for name, record in self.parameters.items():
            shown = {key: value for key, value in record.items() if value is not None and value is not False}
            if shown:
                lines += ["", f"[parameters.{_text(name)}]"]
                lines += [f"{key} = {_value(value)}" for key, value in shown.items()]
        return "\n".join(lines) + "\n"

    @property
    def command(self) -> str:
        """The command line that gives this fit."""
        words = ["weakform", "fit", "model.toml", self.file, "--seed", str(self.seed)]
        words += ["--time-limit", f"{self.time_limit:g}"]
        words += ["--method", self.method] if self.method else []
        words += ["--starts", str(self.starts)] if self.starts is not None else []
        words += ["--sheet", self.sheet] if self.sheet else []
        return shlex.join([*words, "--report", "fit.html"])

    def script(self, table: Path) -> str:
        """The Python script that gives this fit; `table` is looked at for its columns."""
        file = self.model()
        names, kinds = measured(file, table, self.reading)
        read: dict[str, Any] = {"time": self.columns.get("time"), "names": names}
        read |= {"noise": kinds} if set(kinds) != {"gaussian"} else {}
        read |= {"inputs": {n: self.columns.get(n, n) for n in self.inputs}} if self.inputs else {}
        read |= {"hold": True} if self.hold else {}
        read |= {"trajectory": self.trajectory, "missing": list(self.missing) or None, "sheet": self.sheet}
        fitted: dict[str, Any] = {"method": self.method or None, "starts": self.starts}
        lines = [f'"""A fit, as the page of weakform {__version__} has made it."""', "", "import weakform as wf", ""]
        inputs = f", inputs={list(self.inputs)!r}" if self.inputs else ""
        lines += [f'model = wf.Model.from_text("""\n{_inside(self.equations.strip())}\n"""{inputs})']
        lines += [f"data = wf.Dataset.from_csv(\n    {self.file!r},"]
        lines += [f"    {key}={value!r}," for key, value in read.items() if value is not None]
        lines += [")", "fit = wf.fit(", "    model,", "    data,", "    parameters={"]
        for name, record in file.parameters.items():
            keys = ("bounds", "start", "log", "unit") if record.fixed is None else ("fixed", "unit")
            said = {key: getattr(record, key) for key in keys}
            shown = ", ".join(
                f"{key}={_python(v)}" for key, v in said.items() if v is not None and v is not False and v != ""
            )
            lines.append(f"        {name!r}: wf.Parameter({shown}),")
        lines += ["    },", f"    units={self.units!r},"] if self.units else ["    },"]
        lines += [f"    {key}={value!r}," for key, value in fitted.items() if value is not None]
        lines += [f'    options={{"time_limit": {float(self.time_limit)!r}}},', f"    seed={self.seed},", ")"]
        return "\n".join([*lines, "print(fit)", 'fit.report("fit.html")', ""])

    def model(self) -> ModelFile:
        """The model file, read."""
        try:
            return replace(parse_model(self.file_text, "model.toml"), name="model.toml")
        except ModelError as error:
            prefix = "model.toml, equations: "
            if str(error).startswith(prefix):
                raise ModelError(str(error).removeprefix(prefix)) from None
            raise

    def data(self, table: Path) -> Dataset:
        """The table, read."""
        return read_data(self.model(), table, self.reading)


def _parameters(given: Any) -> dict[str, dict[str, Any]]:
    """What the page says of parameters."""
    if not isinstance(given, Mapping):
        raise ModelError(f"parameters must be a record for each name; received {given!r}.")
    found: dict[str, dict[str, Any]] = {}
    for name, record in given.items():
        if not isinstance(record, Mapping):
            raise ModelError(f"parameters.{name} must be a record; received {record!r}.")
        fixed = record.get("fixed")
        if fixed is not None:
            found[str(name)] = {"fixed": _number(fixed, f"{name}, fixed")}
            found[str(name)] |= {"unit": str(record["unit"])} if record.get("unit") else {}
            continue
        one: dict[str, Any] = {}
        ends = record.get("bounds")
        if ends is not None and (not isinstance(ends, list | tuple) or len(ends) != 2):
            raise ModelError(f"{name}: bounds are two numbers; received {ends!r}.")
        if ends is not None and any(end is not None for end in ends):
            low, high = (None if end is None else _number(end, f"{name}, bound") for end in ends)
            one["bounds"] = [-float("inf") if low is None else low, float("inf") if high is None else high]
        if record.get("start") is not None:
            one["start"] = _number(record["start"], f"{name}, start")
        if record.get("log"):
            one["log"] = True
        if record.get("unit"):
            one["unit"] = str(record["unit"])
        if one:
            found[str(name)] = one
    return found


def _number(value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ModelError(f"{what} must be a number; received {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise ModelError(f"{what} is too large.") from None


def _text(word: str) -> str:
    return json.dumps(word, ensure_ascii=False)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return "true"
    if isinstance(value, str):
        return _text(value)
    return repr(float(value))


def _python(value: Any) -> str:
    """A value in Python; a bound that is not there is None."""
    if isinstance(value, tuple):
        return f"({', '.join('None' if abs(end) == float('inf') else repr(end) for end in value)})"
    return repr(value)


def _inside(text: str) -> str:
    """A text as it may stand between three quotes in Python."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
