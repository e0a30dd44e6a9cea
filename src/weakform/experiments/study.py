"""A study is data: problems × noise × samples × methods × runs, from a TOML file or a mapping.

    name = "small"
    runs = 20
    start = "random"            # one random start in the box for each run; "default" for the starts of `fit`
    methods = ["mle", "wendy"]  # or tables: [methods.paper] method = "hybrid", options = { weak = "mle" }

    [[cells]]
    problems = ["goodwin", "my_model.toml"]
    noise = [0.01, 0.1]
    samples = [256, 512]        # steps; or durations = [3, 6] with step = 0.01

A cell is one setting; runs, methods and start may be set for its block alone. The seed of a run is a hash of its cell,
so that any run can be repeated alone, and neither order nor number of workers changes a number; all methods of a run
get the same data and the same start.
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
from ..files.toml_keys import known, number
from ..noise.kinds import KINDS
from ..problems import Problem
from ..support.errors import ModelError, WeakformError
from ..support.whole_numbers import is_whole
from ..support.wording import suggestion

START = "start"
"""The method that returns the start itself: the curve of the initial guesses."""
_TOP = ("name", "title", "runs", "seed", "start", "methods", "bounds", "cells")
_CELLS = ("problems", "noise", "samples", "durations", "step", "kind", "by_state", "runs", "methods", "start", "bounds")
_METHOD = ("method", "options", "label")
MAX_RUNS = 10_000_000


@dataclass(frozen=True, order=True)
class Cell:
    """One setting.

    Attributes
    ----------
    problem : str
        Its name; a study knows where it comes from.
    kind : str
        Of noise.
    noise : float
        Noise ratio.
    samples : int
        M, the number of steps.
    duration : float
    """

    problem: str
    kind: str
    noise: float
    samples: int
    duration: float


@dataclass(frozen=True)
class Method:
    """A method of `fit` with its options, under a label."""

    label: str
    method: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """One fit: everything a worker needs, as plain data."""

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
        """What tells this run from every other of the study."""
        c = self.cell
        return (c.problem, c.kind, c.noise, c.samples, c.duration, self.method.label, self.number)


@dataclass(frozen=True)
class Study:
    """A study, checked.

    Attributes
    ----------
    name : str
    definition : str
        As canonical JSON, with the text of all model files: what the store compares.
    runs : tuple of Run
    """

    name: str
    definition: str
    runs: tuple[Run, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """Labels of the methods, in the order of the study."""
        return tuple(dict.fromkeys(run.method.label for run in self.runs))


def run_seed(seed: int, cell: Cell, run: int) -> int:
    """The seed of data and start: a hash of the cell and the number of the run, the same for all methods."""
    words = (str(seed), cell.problem, cell.kind, repr(cell.noise), str(cell.samples), repr(cell.duration), str(run))
    return int.from_bytes(hashlib.sha256("|".join(words).encode()).digest()[:7], "big")


def built_in() -> list[str]:
    """Names of the studies that come with the package."""
    folder = resources.files(__package__) / "studies"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def read_study(source: str | Path | Mapping[str, Any]) -> Study:
    """A study from a TOML file, the name of one that comes with the package, or a mapping of the same shape."""
    if isinstance(source, Mapping):
        return _study(source, "study", Path())
    name = str(source)
    if name in built_in():
        text = (resources.files(__package__) / "studies" / f"{name}.toml").read_text(encoding="utf-8")
        return _study(parse_toml(text, name), name, Path())
    path = Path(source)
    if not path.suffix and not path.exists():
        guess = suggestion(name, built_in())
        raise ModelError(f"No study {name!r}.{guess} There are: {', '.join(built_in())}; or give a TOML file.")
    return _study(parse_toml(read_text(path, "study file"), str(path)), str(path), path.parent)


def _study(table: Mapping[str, Any], where: str, folder: Path) -> Study:
    known(table, _TOP, where)
    blocks = table.get("cells")
    if not isinstance(blocks, list) or not blocks:
        raise ModelError(f"{where} needs at least one [[cells]] block with problems, noise and samples.")
    seed = _whole(table.get("seed", 0), f"{where}, seed", 0)
    sources: dict[str, str] = {}
    runs: dict[tuple[Any, ...], Run] = {}
    total = 0
    for k, block in enumerate(blocks, 1):
        place = f"{where}, [[cells]] number {k}"
        known(block, _CELLS, place)
        settings = {**{key: table[key] for key in ("runs", "methods", "start", "bounds") if key in table}, **block}
        count = _whole(settings.get("runs"), f"{place}: runs", 1)
        methods = _methods(settings.get("methods", ["wendy"]), place)
        start = settings.get("start", "random")
        if start not in ("random", "default"):
            raise ModelError(f"{place}: start must be 'random' or 'default'; received {start!r}.")
        if start == "random":
            methods = [Method(START, START), *(m for m in methods if m.label != START)]
        flags = {key: settings.get(key, default) for key, default in (("bounds", True), ("by_state", False))}
        for key, value in flags.items():
            if not isinstance(value, bool):
                raise ModelError(f"{place}: {key} must be true or false; received {value!r}.")
        cells = _cells(block, place, folder, sources)
        total += len(cells) * count * len(methods)
        if total > MAX_RUNS:
            raise ModelError(f"{where} asks for more than {MAX_RUNS:,} runs.")
        for number_ in range(count):
            for cell, problem in cells:
                for method in methods:
                    run = Run(cell, number_, method, problem, run_seed(seed, cell, number_), start, **flags)
                    if run.key in runs and method.label == START:
                        continue  # the initial guesses of a cell are the same in every block
                    if run.key in runs:
                        raise ModelError(f"{place}: the run {run.key} is there twice; cells must differ.")
                    runs[run.key] = run
    definition = json.dumps({"study": _plain(table), "files": sources}, sort_keys=True)
    name = table.get("name", Path(where).stem)
    # Files are called after it.
    if not isinstance(name, str) or not name or name.startswith(".") or any(c in '/\\:*?"<>|\0\n' for c in name):
        raise ModelError(f"{where}: the name of a study must do as the name of a file; received {name!r}.")
    return Study(name, definition, _by_number(runs.values()))


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def _whole(value: Any, what: str, least: int) -> int:
    if not is_whole(value, least):
        raise ModelError(f"{what} must be a whole number, at least {least}; received {value!r}.")
    return int(value)


def _numbers(value: Any, what: str, least: float) -> list[float]:
    values = value if isinstance(value, list | tuple) else [value]
    found = [number(v, what) for v in values]
    if not found or min(found) < least:
        raise ModelError(f"{what} must be numbers, at least {least:g}; received {value!r}.")
    return found


def _methods(value: Any, where: str) -> list[Method]:
    if isinstance(value, str):
        value = [value]
    if isinstance(value, list | tuple):
        value = {name: {"method": name} for name in value if isinstance(name, str)} if value else {}
    if not isinstance(value, Mapping) or not value:
        raise ModelError(f"{where}: methods must be a list of names or tables [methods.label]; received {value!r}.")
    found = []
    for label, entry in value.items():
        place = f"{where}, method {label!r}"
        method = known(entry, _METHOD, place).get("method", label)
        if method not in ESTIMATORS:
            guess = suggestion(str(method), ESTIMATORS)
            raise ModelError(f"{place}: unknown method {method!r}.{guess} Known: {', '.join(ESTIMATORS)}.")
        options = entry.get("options", {})
        try:
            Options.of(options)
        except WeakformError as error:
            raise ModelError(f"{place}: {error}") from None
        found.append(Method(str(label), str(method), dict(options)))
    return found


def _cells(block: Mapping[str, Any], where: str, folder: Path, sources: dict[str, str]) -> list[tuple[Cell, Problem]]:
    names = block.get("problems")
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ModelError(f"{where}: problems must be a list of names or model files; received {names!r}.")
    ratios = _numbers(block.get("noise"), f"{where}: noise", 0.0)
    kind = block.get("kind")
    if kind is not None and kind not in KINDS:
        raise ModelError(f"{where}: kind must be one of {', '.join(KINDS)}; received {kind!r}.")
    found = []
    for name in names:
        problem = _problem(name, where, folder, sources)
        if kind is not None:
            problem = problem.with_noise(kind)
        for M, duration in _lengths(block, problem, where):
            found += [(Cell(problem.name, problem.noise, ratio, M, duration), problem) for ratio in ratios]
    return found


def _lengths(block: Mapping[str, Any], problem: Problem, where: str) -> list[tuple[int, float]]:
    if "durations" not in block:
        sizes = block.get("samples")
        sizes = sizes if isinstance(sizes, list) else [sizes]
        return [(_whole(M, f"{where}: samples", 7), float(problem.duration)) for M in sizes]
    durations = _numbers(block["durations"], f"{where}: durations", 1e-300)
    step = number(block.get("step"), f"{where}: step")
    if step <= 0:
        raise ModelError(f"{where}: step must be positive; received {step!r}.")
    return [(_whole(round(T / step), f"{where}: durations over step", 7), T) for T in durations]


def _problem(name: str, where: str, folder: Path, sources: dict[str, str]) -> Problem:
    if not name.endswith(".toml"):
        try:
            return problems.get(name)
        except WeakformError as error:
            raise ModelError(f"{where}: {error}") from None
    path = folder / name
    if any(Path(other).stem == path.stem and other != name for other in sources) or path.stem in problems.ALL:
        raise ModelError(f"{where}: two problems are called {path.stem!r}; rename a file.")
    sources[name] = read_text(path, "model file")
    return problem_from(read_model(path), str(path))


def problem_from(file: ModelFile, where: str) -> Problem:
    """A problem from a model file that says what the truth is."""
    states, parameters = file.model.states, file.model.parameters
    boxes = {name: record.bounds for name, record in file.parameters.items() if record.bounds is not None}
    for what, table, wanted in (
        ("truth", file.truth, parameters),
        ("initial", file.initial, states),
        ("bounds", boxes, parameters),
    ):
        missing = [key for key in wanted if key not in table]
        if missing:
            raise ModelError(f"{where} has no {what} of {missing[0]!r}, which a study needs.")
    if file.duration is None or file.duration <= 0:
        raise ModelError(f"{where} needs a positive duration, the time of the last sample.")
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


def _by_number(runs: Iterable[Run]) -> tuple[Run, ...]:
    """The first run of every cell, then the second: a study that is stopped early has told of all its cells."""
    return tuple(sorted(runs, key=lambda run: run.number))
