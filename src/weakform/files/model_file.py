"""Model files: equations as text, or a TOML file that adds noise, parameters, columns and units.

    equations = '''
        hare' = a*hare - b*hare*lynx
        lynx' = -c*lynx + d*hare*lynx
    '''
    noise = "lognormal"                  # or a table, one word for each measured name

    [parameters.a]
    bounds = [0, 2]                      # any of: bounds, start, fixed, tied, log, local, prior, unit, truth
    unit = "1/year"

    [columns]                            # where the names in the table differ
    time = "year"

In place of equations, `model = "model.xml"` takes them from an SBML or Antimony file in the same folder.
A file is data: the equations are parsed (see `model.expressions`), everything else is checked, and nothing is evaluated
as code.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..model.model import Model
from ..noise.kinds import KINDS
from ..parameters import Parameter
from ..support.compact_repr import CompactRepr
from ..support.errors import ModelError
from ..support.whole_numbers import refuse_devices
from .toml_keys import check_keys, read_columns, read_number, read_parameters, read_texts

MAX_TEXT_BYTES = 1_000_000
"""Size of a model file in bytes above which it is refused unread, so that a wrong file cannot fill the memory. By
judgement."""
TIME_KEY = "time"
"""Key of the time under `[columns]` and `[units]`, beside the names of states and named expressions."""
FOREIGN_SUFFIXES = (".xml", ".sbml", ".ant")
"""Endings of the files that the SBML and Antimony readers read."""
TOP_KEYS: tuple[str, ...] = (
    "title",
    "equations",
    "model",
    "inputs",
    "hold",
    "noise",
    "sigma",
    "trajectory",
    "parameters",
    "columns",
    "units",
    "initial",
    "duration",
    "missing",
)
"""Keys that a model file may have at its top level, in the order in which the reference lists them."""


@dataclass(frozen=True, repr=False)
class ModelFile(CompactRepr):
    """A model with everything that its file states about it.

    Attributes
    ----------
    model : Model
    name : str
        The name of the file without its ending.
    noise : dict of str to str
        Kind of noise of each state and each named expression; names that are missing have gaussian noise.
    sigma : dict of str to float, or None
        Known standard deviation of the noise of each measured name; None if it is to be estimated.
    parameters : dict of str to Parameter
        Bounds, starts, fixed values, priors and units of parameters.
    truth : dict of str to float
        True values of the parameters of simulated data.
    columns : dict of str to str or list of str
        Column of the table for a state, a named expression, an input or `time`; several columns for repeats; an empty
        text for a state that was not measured even though the table has a column of its name.
    units : dict of str to str
        Units of states, named expressions and `time`.
    initial : dict of str to float
        Initial states for simulations.
    duration : float, or None
        Length of a simulation.
    title, equations : str
        As written in the file.
    inputs : tuple of str
        Names in the equations that are columns of known values.
    hold : bool
        True if inputs keep their value until the next sample; False if they are interpolated.
    trajectory : str, or None
        The column whose values separate the trajectories.
    missing : tuple of float or str
        Values of the table that mean a missing value.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import weakform as wf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.txt"
    >>> _ = path.write_text("x' = -k*x")
    >>> wf.read_model(path).model.parameters
    ('k',)
    """

    model: Model
    name: str
    noise: dict[str, str] = field(default_factory=dict)
    sigma: dict[str, float] | None = None
    parameters: dict[str, Parameter] = field(default_factory=dict)
    truth: dict[str, float] = field(default_factory=dict)
    columns: dict[str, str | list[str]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    initial: dict[str, float] = field(default_factory=dict)
    duration: float | None = None
    title: str = ""
    equations: str = ""
    inputs: tuple[str, ...] = ()
    hold: bool = False
    trajectory: str | None = None
    missing: tuple[float | str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Return the parameters and units of the file as keyword arguments of `fit`.

        Returns
        -------
        dict
            With the keys `parameters` and `units`.
        """
        return {"parameters": self.parameters, "units": self.units}

    def said(self, key: str) -> dict[str, Any]:
        """Return one field of the parameters that have a value for it.

        Parameters
        ----------
        key : str
            A field of `Parameter`, such as `"bounds"` or `"start"`.

        Returns
        -------
        dict of str to value
            The parameters for which the field differs from its default.
        """
        default = getattr(Parameter(), key)
        values = {name: getattr(record, key) for name, record in self.parameters.items()}
        return {name: value for name, value in values.items() if value != default}

    @property
    def values(self) -> dict[str, float]:
        """A value for each parameter that has one: its fixed value, else its true value, else its start."""
        values = {}
        for name, record in self.parameters.items():
            candidates = [v for v in (record.fixed, self.truth.get(name), record.start) if v is not None]
            if candidates:
                values[name] = candidates[0]
        return {**values, **{name: value for name, value in self.truth.items() if name not in values}}


def read_text(path: Path, what: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a small text file.

    Parameters
    ----------
    path : Path
    what : str
        What the file should be, for messages.
    max_bytes : int
        Size in bytes above which the file is refused unread.

    Returns
    -------
    str
        The text, decoded as UTF-8, without a byte order mark.

    Raises
    ------
    ModelError
        If the file is missing, a folder, a device, too large, not readable or not UTF-8.
    """
    try:
        refuse_devices(path, ModelError)
        if path.stat().st_size > max_bytes:
            raise ModelError(f"{path} has {path.stat().st_size:,} bytes; a {what} has at most {max_bytes:,}.")
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise ModelError(f"There is no {what} {path}.") from None
    except IsADirectoryError:
        raise ModelError(f"{path} is a folder; a {what} is needed.") from None
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 text (byte {error.start + 1}); save it as UTF-8.") from None


def read_model(path: str | Path) -> ModelFile:
    r"""Read a model file in the format that the ending of its name indicates.

    The formats are TOML (`.toml`), SBML (`.xml`, `.sbml`) and Antimony (`.ant`); a file with any other ending holds
    equations.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ModelFile
        Its `model` and `parameters` are arguments of `fit`.

    Raises
    ------
    ModelError
        If the file cannot be read, or a key or an equation in it is wrong.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import weakform as wf
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "decay.toml"
    >>> _ = path.write_text('equations = "d/dt x = -k*x"\n[parameters.k]\nbounds = [0, 5]')
    >>> wf.read_model(path).parameters["k"].bounds
    (0.0, 5.0)
    """
    path = Path(path)
    if path.suffix.lower() in FOREIGN_SUFFIXES:
        from .formats.sbml import read_antimony, read_sbml

        return read_antimony(path) if path.suffix.lower() == ".ant" else read_sbml(path)
    text = read_text(path, "model file")
    if path.suffix.lower() != ".toml":
        model = _parse_equations(text, path)
        return ModelFile(model, path.stem, equations=text)
    return parse_model(text, str(path), path.stem, path.parent)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Parse a TOML document.

    Parameters
    ----------
    text : str
    where : str
        Name of the document in errors.

    Returns
    -------
    dict

    Raises
    ------
    ModelError
        If the text is not valid TOML; the message gives the line and column.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ModelError(f"{where} is not valid TOML: {error}.") from None


def _parse_equations(text: str, where: object, inputs: list[str] | None = None) -> Model:
    """Build a model from equations; errors begin with the name of their source."""
    try:
        return Model.from_text(text, inputs=inputs or ())
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from None


def parse_model(text: str, where: str, name: str = "model", folder: Path | None = None) -> ModelFile:
    """Build a model from the text of a TOML file.

    Parameters
    ----------
    text : str
    where : str
        Name of the file in errors.
    name : str
        Name of the model.
    folder : Path, optional
        Folder of the file that `model = ...` names; without it the text may not name another file.

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelError
        If the text is not valid TOML, or a key, a value or an equation in it is wrong.
    """
    table = parse_toml(text, where)
    check_keys(table, TOP_KEYS, where)
    inputs = table.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        raise ModelError(f"{where}: inputs must be a list of names; received {inputs!r}.")
    hold, trajectory = table.get("hold", False), table.get("trajectory")
    if not isinstance(hold, bool) or not isinstance(trajectory, str | None):
        raise ModelError(
            f"{where}: hold must be true or false, and trajectory the name of a column; received hold = {hold!r} and "
            f"trajectory = {trajectory!r}."
        )
    base = _read_base_model(table, inputs, where, folder)
    model = base.model
    parameter_fields, truth = read_parameters(table.get("parameters", {}), model, where)
    units = read_texts(table.get("units", {}), (TIME_KEY, *model.states, *model.observables), f"{where}, [units]")
    measurable = (TIME_KEY, *model.states, *model.observables, *model.inputs)
    columns = read_columns(
        table.get("columns", {}), measurable, f"{where}, [columns]", (*model.states, *model.observables)
    )
    initial = {
        key: read_number(value, f"{where}, initial.{key}")
        for key, value in check_keys(table.get("initial", {}), model.states, f"{where}, [initial]").items()
    }
    duration = table.get("duration")
    return ModelFile(
        model,
        name,
        _read_noise(table.get("noise", "gaussian"), model, where),
        _read_sigma(table.get("sigma"), model, where),
        parameters={
            name: _merge_parameter(base.parameters.get(name), parameter_fields.get(name, {}))
            for name in {**base.parameters, **parameter_fields}
        },
        truth=truth,
        columns=columns,
        units=units,
        initial={**base.initial, **initial},
        duration=None if duration is None else read_number(duration, f"{where}, duration"),
        title=str(table.get("title", base.title)),
        equations=base.equations,
        inputs=model.inputs,
        hold=hold,
        trajectory=trajectory,
        missing=_read_missing_values(table.get("missing", []), where),
    )


def _merge_parameter(base: Parameter | None, overrides: dict[str, Any]) -> Parameter:
    """Return a parameter of a named model file with the fields that a TOML file adds or replaces.

    A value that the named file takes as known becomes a start as soon as the TOML file gives more than a unit: bounds
    or a prior mean that the parameter is to be estimated.
    """
    if base is None:
        return Parameter(**overrides)
    if "fixed" in overrides:
        return replace(base, start=None, **overrides)
    if base.fixed is not None and set(overrides) - {"unit"}:
        return replace(base, **{"start": base.fixed, "fixed": None, **overrides})
    return replace(base, **overrides)


def _read_base_model(table: Mapping[str, Any], inputs: list[str], where: str, folder: Path | None) -> ModelFile:
    """Return the model of a TOML file: its own equations, or the SBML or Antimony file that it names."""
    equations, foreign_name = table.get("equations"), table.get("model")
    if isinstance(equations, str) and foreign_name is None:
        model = _parse_equations(equations, f"{where}, equations", inputs)
        return ModelFile(model, "", equations=equations)
    if equations is not None or not isinstance(foreign_name, str):
        raise ModelError(
            f"{where} needs either equations = '''...''', one equation for each state, or model = \"model.xml\", the "
            "name of an SBML or Antimony file."
        )
    # A bare name keeps the reader inside the folder of the TOML file, which may come from an untrusted source.
    is_bare_name = foreign_name.isprintable() and Path(foreign_name).name == foreign_name
    has_foreign_suffix = Path(foreign_name).suffix.lower() in FOREIGN_SUFFIXES
    if not (is_bare_name and has_foreign_suffix) or folder is None or inputs:
        raise ModelError(
            f"{where}: model must name a file ({', '.join(FOREIGN_SUFFIXES)}) in the same folder, without inputs; "
            f"received {foreign_name!r}."
        )
    return read_model(folder / foreign_name)


def _read_missing_values(value: Any, where: str) -> tuple[float | str, ...]:
    """Check the values that mean a missing value: numbers and texts."""
    if not isinstance(value, list):
        raise ModelError(f'{where}: missing must be a list, such as [-999, "<LOD"]; received {value!r}.')
    return tuple(item if isinstance(item, str) else read_number(item, f"{where}, missing") for item in value)


def _read_noise(value: Any, model: Model, where: str) -> dict[str, str]:
    """Return the kind of noise of each measurable name: one kind for all, or a table by name."""
    names = (*model.states, *model.observables)
    kinds_by_name = (
        check_keys(value, names, f"{where}, noise") if isinstance(value, Mapping) else dict.fromkeys(names, value)
    )
    for kind in kinds_by_name.values():
        if not isinstance(kind, str) or kind not in KINDS:
            choices = " or ".join(map(repr, KINDS))
            raise ModelError(
                f"{where}: noise must be {choices}, or a table with a kind for each measured name; received {kind!r}."
            )
    return {name: str(kind) for name, kind in kinds_by_name.items()}


def _read_sigma(value: Any, model: Model, where: str) -> dict[str, float] | None:
    """Return the known standard deviation of each measurable name: one number for all, or a table by name."""
    if value is None:
        return None
    names = (*model.states, *model.observables)
    if not isinstance(value, Mapping):
        return dict.fromkeys(names, read_number(value, f"{where}, sigma"))
    return {
        name: read_number(v, f"{where}, sigma.{name}")
        for name, v in check_keys(value, names, f"{where}, [sigma]").items()
    }
