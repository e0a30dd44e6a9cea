"""The definition of a study: problems × noise × samples × methods × runs, from a TOML file or a mapping.

    name = "small"
    runs = 20
    start = "random"            # one random start in the box for each run; "default" for the starts of `fit`
    methods = ["mle", "wendy"]  # or tables: [methods.paper] method = "hybrid", options = { weak = "mle" }

    [[cells]]
    problems = ["goodwin", "my_model.toml"]
    noise = [0.01, 0.1]
    samples = [256, 512]        # steps; or durations = [3, 6] with step = 0.01

A cell is one combination of problem, noise and samples. A block of cells may have its own runs, methods and start. The
seed of a run is a hash of its cell and its number, so that any run can be repeated alone, and neither the order of the
runs nor the number of workers changes a result. All methods of a run get the same data and the same start.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from .. import problems
from ..estimators import ESTIMATORS, Options
from ..files.model_file import ModelFile, parse_toml, read_model, read_text
from ..files.toml_keys import check_keys, read_number
from ..noise.kinds import KINDS
from ..problems import Problem
from ..support.errors import ModelError, WeakformError
from ..support.whole_numbers import is_whole
from ..support.wording import suggest_name

START_METHOD = "start"
"""Label of the method that returns the start itself, without a fit: the curve of the initial guesses in figures."""
_STUDY_KEYS = ("name", "title", "runs", "seed", "start", "methods", "bounds", "cells")
"""Keys of a study file."""
_CELL_KEYS = (
    "problems",
    "noise",
    "samples",
    "durations",
    "step",
    "kind",
    "by_state",
    "runs",
    "methods",
    "start",
    "bounds",
)
"""Keys of a block [[cells]]; those that a study file has, too, override its values."""
_METHOD_KEYS = ("method", "options", "label")
"""Keys of a table [methods.label]."""
MAX_RUNS = 10_000_000
"""Number of runs above which a study is refused: all of them are built in memory before the first one starts, so a slip
in `runs` would fill it. By judgement."""
MIN_STEPS = 7
"""Smallest number of steps of a series; `Problem.simulate` refuses fewer, too."""


@dataclass(frozen=True, order=True)
class Cell:
    """One combination of problem, noise and samples, which several methods are run on many times.

    Attributes
    ----------
    problem : str
        Name of a built-in problem, or of a model file without its suffix.
    kind : str
        Kind of noise.
    noise : float
        Noise ratio.
    samples : int
        Number of steps M; the series has M + 1 samples.
    duration : float
        Time of the last sample.
    """

    problem: str
    kind: str
    noise: float
    samples: int
    duration: float


@dataclass(frozen=True)
class Method:
    """A method of `fit` with its options, under the label that figures and tables show."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One fit of a study: everything that a worker needs, as plain data.

    Attributes
    ----------
    cell : Cell
    number : int
        Number of the run in its cell, from 0.
    method : Method
    problem : Problem
    seed : int
        Seed of the data and of the start; the same for all methods.
    start : str
        `"random"` for one random start in the box, `"default"` for the starts of `fit`.
    bounds : bool
        Whether the fit is given the box of the problem.
    by_state : bool
        Whether the noise ratio applies to each state separately; see `Problem.simulate`.
    """

    cell: Cell
    number: int
    method: Method
    problem: Problem
    seed: int
    start: str
    bounds: bool
    by_state: bool

    @property
    def key(self) -> tuple[str, str, float, int, float, str, int]:
        """Values that identify this run in its study, in the order of `store.KEY`."""
        c = self.cell
        return (c.problem, c.kind, c.noise, c.samples, c.duration, self.method.label, self.number)


@dataclass(frozen=True)
class Study:
    """A study whose definition has been checked.

    Attributes
    ----------
    name : str
    definition : str
        The table of the study and the text of its model files, as JSON with sorted keys. A store compares it with its
        own before runs are added.
    runs : tuple of Run
        The first run of every cell, then the second, and so on.
    """

    name: str
    definition: str
    runs: tuple[Run, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the methods, in their order in the study."""
        return tuple(dict.fromkeys(run.method.label for run in self.runs))


def compute_run_seed(seed: int, cell: Cell, run: int) -> int:
    """Return the seed of the data and the start of a run: a hash of the cell and the number of the run.

    Parameters
    ----------
    seed : int
        Seed of the study.
    cell : Cell
    run : int
        Number of the run in its cell.

    Returns
    -------
    int
        Between 0 and 2⁵⁶; the same on every machine and for all methods.
    """
    # `repr` writes a float with all its digits, so that different noise ratios never share a seed.
    words = (str(seed), cell.problem, cell.kind, repr(cell.noise), str(cell.samples), repr(cell.duration), str(run))
    return int.from_bytes(hashlib.sha256("|".join(words).encode()).digest()[:7], "big")


def list_built_in_studies() -> list[str]:
    """Return the sorted names of the studies that come with the package."""
    folder = resources.files(__package__) / "studies"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_study(source: str | Path | Mapping[str, Any]) -> Study:
    """Read a study from a TOML file, by the name of a built-in one, or from a mapping.

    Parameters
    ----------
    source : str, Path or mapping
        Path of a TOML file, name of a study that comes with the package, or a mapping with the keys of such a file.
        Model files are looked for in the folder of the TOML file, those of a mapping in the current folder.

    Returns
    -------
    Study

    Raises
    ------
    ModelError
        If the study cannot be read, or a key or value in it is wrong.
    """
    if isinstance(source, Mapping):
        return _build_study(source, "study", Path())
    name = str(source)
    if name in list_built_in_studies():
        text = (resources.files(__package__) / "studies" / f"{name}.toml").read_text(encoding="utf-8")
        return _build_study(parse_toml(text, name), name, Path())
    path = Path(source)
    if not path.suffix and not path.exists():
        guess = suggest_name(name, list_built_in_studies())
        raise ModelError(
            f"There is no built-in study {name!r}.{guess} The built-in studies are "
            f"{', '.join(list_built_in_studies())}; for your own, give the path of a TOML file."
        )
    return _build_study(parse_toml(read_text(path, "study file"), str(path)), str(path), path.parent)


def _build_study(table: Mapping[str, Any], where: str, folder: Path) -> Study:
    """Check the table of a study and build its runs.

    Parameters
    ----------
    table : mapping
        Keys and values as in the TOML file.
    where : str
        Source of the table, for messages.
    folder : Path
        Folder in which model files are looked for.
    """
    check_keys(table, _STUDY_KEYS, where)
    blocks = table.get("cells")
    if not isinstance(blocks, list) or not blocks:
        raise ModelError(f"{where} needs at least one [[cells]] block with problems, noise and samples.")
    seed = _check_whole_number(table.get("seed", 0), f"{where}, seed", 0)
    sources: dict[str, str] = {}  # text of each model file, which the store keeps
    runs: dict[tuple[Any, ...], Run] = {}
    total = 0
    for k, block in enumerate(blocks, 1):
        place = f"{where}, [[cells]] number {k}"
        check_keys(block, _CELL_KEYS, place)
        settings = {**{key: table[key] for key in ("runs", "methods", "start", "bounds") if key in table}, **block}
        count = _check_whole_number(settings.get("runs"), f"{place}: runs", 1)
        methods = _read_methods(settings.get("methods", ["wendy"]), place)
        start = settings.get("start", "random")
        if start not in ("random", "default"):
            raise ModelError(f"{place}: start must be 'random' or 'default'; received {start!r}.")
        if start == "random":
            # Figures and tables compare every method with its starts.
            methods = [Method(START_METHOD, START_METHOD), *(m for m in methods if m.label != START_METHOD)]
        flags = {key: settings.get(key, default) for key, default in (("bounds", True), ("by_state", False))}
        for key, value in flags.items():
            if not isinstance(value, bool):
                raise ModelError(f"{place}: {key} must be true or false; received {value!r}.")
        cells = _build_cells(block, place, folder, sources)
        total += len(cells) * count * len(methods)
        if total > MAX_RUNS:
            raise ModelError(
                f"{where} has more than {MAX_RUNS:,} runs, the most a study may have; lower runs, or split the study."
            )
        for run_number in range(count):
            for cell, problem in cells:
                for method in methods:
                    run = Run(
                        cell, run_number, method, problem, compute_run_seed(seed, cell, run_number), start, **flags
                    )
                    if run.key in runs and method.label == START_METHOD:
                        continue  # the initial guesses of a cell are the same in every block
                    if run.key in runs:
                        raise ModelError(f"{place}: the run {run.key} occurs twice; cells must differ.")
                    runs[run.key] = run
    definition = json.dumps({"study": _convert_to_json(table), "files": sources}, sort_keys=True)
    name = table.get("name", Path(where).stem)
    # The store is named after the study, so the name must not lead to another folder or hide the file.
    is_file_name = isinstance(name, str) and name and not any(c in '/\\:*?"<>|\0\n' for c in name)
    if not is_file_name or name.startswith("."):
        raise ModelError(
            f"{where}: name must be usable as the name of a file, without a dot at its beginning and without any of "
            f'/ \\ : * ? " < > |; received {name!r}.'
        )
    return Study(name, definition, _sort_by_number(runs.values()))


def _convert_to_json(value: Any) -> Any:
    """Return a value with all that JSON does not have, such as TOML's dates, written as text."""
    return json.loads(json.dumps(value, default=str))


def _check_whole_number(value: Any, quantity: str, least: int) -> int:
    """Check that a value is a whole number not below `least`, and return it; `quantity` names it in the error."""
    if not is_whole(value, least):
        raise ModelError(f"{quantity} must be a whole number, at least {least}; received {value!r}.")
    return int(value)


def _check_numbers(value: Any, quantity: str, least: float) -> list[float]:
    """Check that a value is a number or a list of numbers not below `least`, and return them as a list."""
    values = value if isinstance(value, list | tuple) else [value]
    checked = [read_number(v, quantity) for v in values]
    if not checked or min(checked) < least:
        raise ModelError(
            f"{quantity} must be a number or a list of numbers, each at least {least:g}; received {value!r}."
        )
    return checked


def _read_methods(value: Any, where: str) -> list[Method]:
    """Return the methods of a study or a block, from a name, a list of names, or a table for each label."""
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple):
        value = {name: {"method": name} for name in value if isinstance(name, str)} if value else {}
    if not isinstance(value, Mapping) or not value:
        raise ModelError(
            f"{where}: methods must be a list of names or a table [methods.label] for each; received {value!r}."
        )
    methods = []
    for label, entry in value.items():
        place = f"{where}, method {label!r}"
        method = check_keys(entry, _METHOD_KEYS, place).get("method", label)
        if method not in ESTIMATORS:
            guess = suggest_name(str(method), ESTIMATORS)
            raise ModelError(f"{place}: unknown method {method!r}.{guess} The methods are {', '.join(ESTIMATORS)}.")
        options = entry.get("options", {})
        try:
            Options.of(options)
        except WeakformError as error:
            raise ModelError(f"{place}: {error}") from None
        methods.append(Method(str(label), str(method), dict(options)))
    return methods


def _build_cells(
    block: Mapping[str, Any], where: str, folder: Path, sources: dict[str, str]
) -> list[tuple[Cell, Problem]]:
    """Return the cells of a block with their problems; the text of each model file is added to `sources`."""
    names = block.get("problems")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{where}: problems must be a list of names and model files; received {names!r}.")
    ratios = _check_numbers(block.get("noise"), f"{where}: noise", 0.0)
    kind = block.get("kind")
    if kind is not None and kind not in KINDS:
        raise ModelError(f"{where}: kind must be one of {', '.join(KINDS)}; received {kind!r}.")
    cells = []
    for name in names:
        problem = _find_problem(name, where, folder, sources)
        if kind is not None:
            problem = problem.with_noise(kind)
        for M, duration in _read_lengths(block, problem, where):
            cells += [(Cell(problem.name, problem.noise, ratio, M, duration), problem) for ratio in ratios]
    return cells


def _read_lengths(block: Mapping[str, Any], problem: Problem, where: str) -> list[tuple[int, float]]:
    """Return the number of steps and the duration of each series that a block has for a problem."""
    if "durations" not in block:
        sizes = block.get("samples")
        sizes = sizes if isinstance(sizes, list) else [sizes]
        return [(_check_whole_number(M, f"{where}: samples", MIN_STEPS), float(problem.duration)) for M in sizes]
    durations = _check_numbers(block["durations"], f"{where}: durations", 0.0)
    step = read_number(block.get("step"), f"{where}: step")
    if step <= 0:
        raise ModelError(f"{where}: step must be positive; received {step!r}.")
    return [
        (_check_whole_number(round(T / step), f"{where}: durations divided by step", MIN_STEPS), T) for T in durations
    ]


def _find_problem(name: str, where: str, folder: Path, sources: dict[str, str]) -> Problem:
    """Return a built-in problem, or read one from a model file and add its text to `sources`."""
    if not name.endswith(".toml"):
        try:
            return problems.get(name)
        except WeakformError as error:
            raise ModelError(f"{where}: {error}") from None
    path = folder / name
    # A cell holds only the name of its problem, so two problems with one name would share their runs.
    is_taken = any(Path(source).stem == path.stem and source != name for source in sources) or path.stem in problems.ALL
    if is_taken:
        raise ModelError(f"{where}: two problems have the name {path.stem!r}; rename the model file.")
    sources[name] = read_text(path, "model file")
    return build_problem_from_file(read_model(path), str(path))


def build_problem_from_file(file: ModelFile, where: str) -> Problem:
    """Build a problem from a model file that gives the truth, the initial state, bounds and a duration.

    Parameters
    ----------
    file : ModelFile
    where : str
        Source of the file, for messages.

    Raises
    ------
    ModelError
        If one of them is missing, or states have different kinds of noise.
    """
    states, parameters = file.model.states, file.model.parameters
    boxes = {name: record.bounds for name, record in file.parameters.items() if record.bounds is not None}
    for key, table, required in (
        ("truth", file.truth, parameters),
        ("initial", file.initial, states),
        ("bounds", boxes, parameters),
    ):
        missing = [name for name in required if name not in table]
        if missing:
            raise ModelError(f"{where} has no {key} of {missing[0]!r}; a study needs it to simulate data.")
    if file.duration is None or file.duration <= 0:
        raise ModelError(f"{where} needs a positive duration, which is the time of the last sample.")
    kinds = {file.noise.get(state, "gaussian") for state in states}
    if len(kinds) > 1:
        raise ModelError(f"{where}: a study needs the same kind of noise for all states; received {sorted(kinds)}.")
    return Problem(
        name=file.name,
        title=file.title or file.name,
        equations=file.equations,
        truth=tuple(file.truth[p] for p in parameters),
        initial=tuple(file.initial[s] for s in states),
        duration=file.duration,
        box=tuple(boxes[p] for p in parameters),
        noise=kinds.pop(),
        source=where,
        names=parameters,
    )


def _sort_by_number(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Sort runs by number: the first run of every cell, then the second, so that an early stop leaves no cell empty."""
    return tuple(sorted(runs, key=lambda run: run.number))
