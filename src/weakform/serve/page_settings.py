"""The settings of the page, as a model file, a command and a Python script that all give the same fit."""

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
from ..files.table_for_model import TableOptions, find_measured_columns, read_data
from ..support.errors import FitError, ModelError
from ..support.versions import __version__
from ..support.whole_numbers import is_whole
from .jobs import MAX_TIME_LIMIT

MAX_STARTS = 1000
"""Starts of a fit. More are refused. By judgement."""


@dataclass(frozen=True)
class PageSettings:
    """A model, how its table is read, and how it is fitted.

    Attributes
    ----------
    equations : str
    inputs : tuple of str
        Names that the table gives as known functions of time.
    columns : dict of str to str
        The column of each measured name, of each input and of `time`; an empty string for a name that was not measured.
    trajectory : str, or None
        Column whose values label the trajectories.
    sheet : str, or None
        The first sheet if None.
    hold : bool
        Whether inputs are constant between their samples.
    noise : dict of str to str
        Kind of noise by name; Gaussian where none is given.
    units : dict of str to str
    missing : tuple of float or str
        Values that stand for a missing one.
    parameters : dict
        For each parameter its bounds, start, fixed value, log scale and unit, as far as they are set.
    method : str
        The default of `fit` if empty.
    seed : int
    starts : int, or None
        Number of starts; chosen automatically if None.
    time_limit : float
        Seconds.
    file : str
        Name of the table, without its folder.
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
    def from_request(cls, content: Any) -> PageSettings:
        """Build settings from what the page sends; every entry is checked.

        Parameters
        ----------
        content : Any
            The decoded JSON; must be an object.

        Returns
        -------
        PageSettings

        Raises
        ------
        ModelError, FitError
            If an entry has the wrong type or value.
        """
        if not isinstance(content, Mapping) or not isinstance(content.get("equations"), str):
            raise ModelError("The page must send an object with the equations as text.")
        for key in ("inputs", "missing"):
            if not isinstance(content.get(key) or [], list | tuple):
                raise ModelError(f"{key} must be a list; received {content[key]!r}.")
        fields = {key: value for key, value in content.items() if key in cls.__dataclass_fields__ and value is not None}
        for key, kind in (("columns", str), ("noise", str), ("units", str)):
            entries = fields.get(key, {})
            if not isinstance(entries, Mapping) or not all(
                isinstance(word, kind) for word in (*entries, *entries.values())
            ):
                raise ModelError(f"{key} must map names to text; received {entries!r}.")
            fields[key] = dict(entries)
        for key in ("trajectory", "sheet", "file", "method"):
            if not isinstance(fields.get(key, ""), str):
                raise ModelError(f"{key} must be text; received {fields[key]!r}.")
        if fields["columns"].get("time") == "":
            raise ModelError("No column is the time. Choose one of the columns of the table.")
        fields["inputs"] = tuple(map(str, fields.get("inputs", ())))
        fields["missing"] = tuple(
            v if isinstance(v, str) else _check_number(v, "missing") for v in fields.get("missing", ())
        )
        fields["parameters"] = _check_parameters(fields.get("parameters", {}))
        fields["file"] = Path(fields.get("file") or "data.csv").name
        settings = cls(**fields)
        if settings.method and settings.method not in ESTIMATORS:
            raise FitError(f"There is no method {settings.method!r}. The methods are: {', '.join(ESTIMATORS)}.")
        if not is_whole(settings.seed, 0):
            raise FitError(f"The seed must be a whole number, 0 or larger; received {settings.seed!r}.")
        if settings.starts is not None and not (is_whole(settings.starts, 1) and settings.starts <= MAX_STARTS):
            raise FitError(
                f"The number of starts must be a whole number between 1 and {MAX_STARTS}; received {settings.starts!r}."
            )
        if not 0 < _check_number(settings.time_limit, "time_limit") <= MAX_TIME_LIMIT:
            raise FitError(
                f"The time limit must be between 0 and {MAX_TIME_LIMIT:g} s; received {settings.time_limit!r}."
            )
        return settings

    @property
    def table_options(self) -> TableOptions:
        """How the table is read."""
        return TableOptions(sheet=self.sheet)

    @property
    def file_text(self) -> str:
        """The model file (TOML)."""
        # Equations that contain the quotes of TOML are written as one escaped line.
        quoted = json.dumps(self.equations) if "'''" in self.equations else f"'''\n{self.equations.strip()}\n'''"
        lines = [f"# Written by weakform {__version__}.", f"equations = {quoted}"]
        if self.inputs:
            lines.append(f"inputs = {json.dumps(self.inputs, ensure_ascii=False)}")
        if self.hold:
            lines.append("hold = true")
        if self.trajectory:
            lines.append(f"trajectory = {_quote_toml(self.trajectory)}")
        if self.missing:
            lines.append(f"missing = {json.dumps(self.missing, ensure_ascii=False)}")
        for name, entries in (("noise", self.noise), ("columns", self.columns), ("units", self.units)):
            if entries:
                lines += [
                    "",
                    f"[{name}]",
                    *(f"{_quote_toml(key)} = {_quote_toml(value)}" for key, value in entries.items()),
                ]
        for name, record in self.parameters.items():
            settings = {key: value for key, value in record.items() if value is not None and value is not False}
            if settings:
                lines += ["", f"[parameters.{_quote_toml(name)}]"]
                lines += [f"{key} = {_format_toml(value)}" for key, value in settings.items()]
        return "\n".join(lines) + "\n"

    @property
    def command(self) -> str:
        """The command line that gives the same fit."""
        words = ["weakform", "fit", "model.toml", self.file, "--seed", str(self.seed)]
        words += ["--time-limit", f"{self.time_limit:g}"]
        words += ["--method", self.method] if self.method else []
        words += ["--starts", str(self.starts)] if self.starts is not None else []
        words += ["--sheet", self.sheet] if self.sheet else []
        return shlex.join([*words, "--report", "fit.html"])

    def write_script(self, table: Path) -> str:
        """Write a Python script that gives the same fit.

        Parameters
        ----------
        table : Path
            The table; its columns are read.

        Returns
        -------
        str
        """
        file = self.build_model_file()
        names, kinds = find_measured_columns(file, table, self.table_options)
        data_arguments: dict[str, Any] = {"time": self.columns.get("time"), "names": names}
        data_arguments |= {"noise": kinds} if set(kinds) != {"gaussian"} else {}
        data_arguments |= {"inputs": {n: self.columns.get(n, n) for n in self.inputs}} if self.inputs else {}
        data_arguments |= {"hold": True} if self.hold else {}
        data_arguments |= {"trajectory": self.trajectory, "missing": list(self.missing) or None, "sheet": self.sheet}
        fit_arguments: dict[str, Any] = {"method": self.method or None, "starts": self.starts}
        lines = [f'"""A fit that was set up on the page of weakform {__version__}."""', "", "import weakform as wf", ""]
        inputs = f", inputs={list(self.inputs)!r}" if self.inputs else ""
        lines += [f'model = wf.Model.from_text("""\n{_escape_quotes(self.equations.strip())}\n"""{inputs})']
        lines += [f"data = wf.Dataset.from_csv(\n    {self.file!r},"]
        lines += [f"    {key}={value!r}," for key, value in data_arguments.items() if value is not None]
        lines += [")", "fit = wf.fit(", "    model,", "    data,", "    parameters={"]
        for name, record in file.parameters.items():
            keys = ("bounds", "start", "log", "unit") if record.fixed is None else ("fixed", "unit")
            values = {key: getattr(record, key) for key in keys}
            arguments = ", ".join(
                f"{key}={_format_python(v)}"
                for key, v in values.items()
                if v is not None and v is not False and v != ""
            )
            lines.append(f"        {name!r}: wf.Parameter({arguments}),")
        lines += ["    },", f"    units={self.units!r},"] if self.units else ["    },"]
        lines += [f"    {key}={value!r}," for key, value in fit_arguments.items() if value is not None]
        lines += [f'    options={{"time_limit": {float(self.time_limit)!r}}},', f"    seed={self.seed},", ")"]
        return "\n".join([*lines, "print(fit)", 'fit.report("fit.html")', ""])

    def build_model_file(self) -> ModelFile:
        """Parse the model file of these settings; errors in the equations are located within the equations."""
        try:
            return replace(parse_model(self.file_text, "model.toml"), name="model.toml")
        except ModelError as error:
            prefix = "model.toml, equations: "
            if str(error).startswith(prefix):
                raise ModelError(str(error).removeprefix(prefix)) from None
            raise

    def read_dataset(self, table: Path) -> Dataset:
        """Read the table as these settings say."""
        return read_data(self.build_model_file(), table, self.table_options)


def _check_parameters(content: Any) -> dict[str, dict[str, Any]]:
    """Check the settings of the parameters; those without any are left out."""
    if not isinstance(content, Mapping):
        raise ModelError(f"parameters must map names to objects; received {content!r}.")
    records: dict[str, dict[str, Any]] = {}
    for name, record in content.items():
        if not isinstance(record, Mapping):
            raise ModelError(f"parameters.{name} must be an object; received {record!r}.")
        fixed = record.get("fixed")
        if fixed is not None:
            records[str(name)] = {"fixed": _check_number(fixed, f"{name}, fixed")}
            records[str(name)] |= {"unit": str(record["unit"])} if record.get("unit") else {}
            continue
        settings: dict[str, Any] = {}
        ends = record.get("bounds")
        if ends is not None and (not isinstance(ends, list | tuple) or len(ends) != 2):
            raise ModelError(f"The bounds of {name} must be two numbers; received {ends!r}.")
        if ends is not None and any(end is not None for end in ends):
            low, high = (None if end is None else _check_number(end, f"{name}, bound") for end in ends)
            settings["bounds"] = [-float("inf") if low is None else low, float("inf") if high is None else high]
        if record.get("start") is not None:
            settings["start"] = _check_number(record["start"], f"{name}, start")
        if record.get("log"):
            settings["log"] = True
        if record.get("unit"):
            settings["unit"] = str(record["unit"])
        if settings:
            records[str(name)] = settings
    return records


def _check_number(value: Any, name: str) -> float:
    """Return a number as a float; raises an error for anything else, NaN and booleans included."""
    # JSON's true and false are integers in Python, and NaN is the only number that differs from itself.
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
        raise ModelError(f"{name} must be a number; received {value!r}.")
    try:
        return float(value)
    except OverflowError:
        raise ModelError(f"{name} is too large for a floating-point number.") from None


def _quote_toml(word: str) -> str:
    """Quote a text for TOML."""
    return json.dumps(word, ensure_ascii=False)


def _format_toml(value: Any) -> str:
    """Format a value for TOML."""
    if isinstance(value, list):
        return f"[{', '.join(map(_format_toml, value))}]"
    if isinstance(value, bool):
        return "true"
    if isinstance(value, str):
        return _quote_toml(value)
    return repr(float(value))


def _format_python(value: Any) -> str:
    """Format a value for Python; infinite bounds become None."""
    if isinstance(value, tuple):
        return f"({', '.join('None' if abs(end) == float('inf') else repr(end) for end in value)})"
    return repr(value)


def _escape_quotes(text: str) -> str:
    """Escape a text for use between three double quotes in Python."""
    return text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
