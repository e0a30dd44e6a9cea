"""Model files: equations as text, or a TOML file that says more.

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
A file is data: the equations are parsed (see `expressions`), everything else is checked, and nothing is evaluated.
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
from ..support.compact_repr import Tidy
from ..support.errors import ModelError
from ..support.whole_numbers import refuse_devices
from .toml_keys import known, number, parameters, repeated, words

MAX_BYTES = 1_000_000
TIME = "time"
FOREIGN = (".xml", ".sbml", ".ant")
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
)
TOP_KEYS += ("columns", "units", "initial", "duration", "missing")


@dataclass(frozen=True, repr=False)
class ModelFile(Tidy):
    """A model and what its file says of it.

    Attributes
    ----------
    model : Model
    name : str
    noise : dict of str to str
        The kind of noise of each state and each named expression that is not gaussian.
    sigma : dict of str to float, or None
    parameters : dict of str to Parameter
        What the file says of its parameters.
    truth : dict of str to float
        Parameters of simulated data.
    columns : dict of str to str
        Column of the table for a state, or for `time`; an empty one for what was not measured, whatever the table has.
    units : dict of str to str
        Of states and `time`.
    initial : dict of str to float
        For simulations.
    duration : float, or None
    title, equations : str
        As written.
    inputs : tuple of str
    hold : bool
        Whether inputs keep their value until the next sample.
    trajectory : str, or None
        The column that tells trajectories apart.
    missing : tuple of float or str
        What stands for a missing value in the table.

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
        """What the file says of its parameters, as arguments of `fit`."""
        return {"parameters": self.parameters, "units": self.units}

    def said(self, key: str) -> dict[str, Any]:
        """One thing that the file says, such as `"bounds"`, of every parameter of which it says it."""
        default = getattr(Parameter(), key)
        found = {name: getattr(record, key) for name, record in self.parameters.items()}
        return {name: value for name, value in found.items() if value != default}

    @property
    def values(self) -> dict[str, float]:
        """A value for each parameter that has one: fixed, true, or the start."""
        found = {}
        for name, record in self.parameters.items():
            known = [v for v in (record.fixed, self.truth.get(name), record.start) if v is not None]
            if known:
                found[name] = known[0]
        return {**found, **{name: value for name, value in self.truth.items() if name not in found}}


def read_text(path: Path, what: str, most: int = MAX_BYTES) -> str:
    """The text of a small file, with a clear error for what is not one."""
    try:
        refuse_devices(path, ModelError)
        if path.stat().st_size > most:
            raise ModelError(f"{path} has {path.stat().st_size:,} bytes; a {what} has at most {most:,}.")
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
    r"""Read a model by the ending of its file: `.toml`, SBML (`.xml`, `.sbml`), Antimony (`.ant`), or equations.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ModelFile
        Its `model` and `parameters` are what `fit` takes.

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
    if path.suffix.lower() in FOREIGN:
        from .formats.sbml import read_antimony, read_sbml

        return read_antimony(path) if path.suffix.lower() == ".ant" else read_sbml(path)
    text = read_text(path, "model file")
    if path.suffix.lower() != ".toml":
        model = _equations(text, path)
        return ModelFile(model, path.stem, equations=text)
    return parse_model(text, str(path), path.stem, path.parent)


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML document, with the place of an error in it."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise ModelError(f"{where} is not valid TOML: {error}.") from None


def _equations(text: str, where: object, inputs: list[str] | None = None) -> Model:
    try:
        return Model.from_text(text, inputs=inputs or ())
    except ModelError as error:
        raise ModelError(f"{where}: {error}") from None


def parse_model(text: str, where: str, name: str = "model", folder: Path | None = None) -> ModelFile:
    """A model from the text of a TOML file; `where` names it in errors, other files are looked for in `folder`."""
    table = parse_toml(text, where)
    known(table, TOP_KEYS, where)
    inputs = table.get("inputs", [])
    if not isinstance(inputs, list) or not all(isinstance(name, str) for name in inputs):
        raise ModelError(f"{where}: inputs must be a list of names; received {inputs!r}.")
    hold, trajectory = table.get("hold", False), table.get("trajectory")
    if not isinstance(hold, bool) or not isinstance(trajectory, str | None):
        raise ModelError(f"{where}: hold must be true or false, and trajectory the name of a column.")
    base = _base(table, inputs, where, folder)
    model = base.model
    said, truth = parameters(table.get("parameters", {}), model, where)
    units = words(table.get("units", {}), (TIME, *model.states, *model.observables), f"{where}, [units]")
    measurable = (TIME, *model.states, *model.observables, *model.inputs)
    columns = repeated(table.get("columns", {}), measurable, f"{where}, [columns]", (*model.states, *model.observables))
    initial = {
        key: number(value, f"{where}, initial.{key}")
        for key, value in known(table.get("initial", {}), model.states, f"{where}, [initial]").items()
    }
    duration = table.get("duration")
    return ModelFile(
        model,
        name,
        _noise(table.get("noise", "gaussian"), model, where),
        _sigma(table.get("sigma"), model, where),
        parameters={
            name: _merged(base.parameters.get(name), said.get(name, {})) for name in {**base.parameters, **said}
        },
        truth=truth,
        columns=columns,
        units=units,
        initial={**base.initial, **initial},
        duration=None if duration is None else number(duration, f"{where}, duration"),
        title=str(table.get("title", base.title)),
        equations=base.equations,
        inputs=model.inputs,
        hold=hold,
        trajectory=trajectory,
        missing=_missing(table.get("missing", []), where),
    )


def _merged(base: Parameter | None, said: dict[str, Any]) -> Parameter:
    """What a TOML file adds to a parameter of another: what that takes as known becomes a start if more is said."""
    if base is None:
        return Parameter(**said)
    if "fixed" in said:
        return replace(base, start=None, **said)
    if base.fixed is not None and set(said) - {"unit"}:
        return replace(base, **{"start": base.fixed, "fixed": None, **said})
    return replace(base, **said)


def _base(table: Mapping[str, Any], inputs: list[str], where: str, folder: Path | None) -> ModelFile:
    """The equations of a TOML file: its own, or those of the file that it names."""
    equations, other = table.get("equations"), table.get("model")
    if isinstance(equations, str) and other is None:
        model = _equations(equations, f"{where}, equations", inputs)
        return ModelFile(model, "", equations=equations)
    if equations is not None or not isinstance(other, str):
        raise ModelError(
            f"{where} needs either equations = '''...''', one equation for each state, or model = \"model.xml\", the "
            "name of an SBML or Antimony file."
        )
    if (
        not other.isprintable()
        or Path(other).suffix.lower() not in FOREIGN
        or Path(other).name != other
        or folder is None
        or inputs
    ):
        raise ModelError(
            f"{where}: model must name a file ({', '.join(FOREIGN)}) in the same folder, without inputs; received "
            f"{other!r}."
        )
    return read_model(folder / other)


def _missing(value: Any, where: str) -> tuple[float | str, ...]:
    if not isinstance(value, list):
        raise ModelError(f'{where}: missing must be a list, such as [-999, "<LOD"]; received {value!r}.')
    return tuple(one if isinstance(one, str) else number(one, f"{where}, missing") for one in value)


def _noise(value: Any, model: Model, where: str) -> dict[str, str]:
    names = (*model.states, *model.observables)
    words = known(value, names, f"{where}, noise") if isinstance(value, Mapping) else dict.fromkeys(names, value)
    for word in words.values():
        if not isinstance(word, str) or word not in KINDS:
            kinds = " or ".join(map(repr, KINDS))
            raise ModelError(
                f"{where}: noise must be {kinds}, or a table with a word for each measured name; received {word!r}."
            )
    return {name: str(word) for name, word in words.items()}


def _sigma(value: Any, model: Model, where: str) -> dict[str, float] | None:
    if value is None:
        return None
    names = (*model.states, *model.observables)
    if not isinstance(value, Mapping):
        return dict.fromkeys(names, number(value, f"{where}, sigma"))
    return {name: number(v, f"{where}, sigma.{name}") for name, v in known(value, names, f"{where}, [sigma]").items()}
