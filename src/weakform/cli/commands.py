"""The commands of `weakform`: each reads its arguments, calls, prints, and returns an exit code."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.errors import DataError, ModelError, WeakformError
from ..support.wording import suggestion
from . import command_arguments, petab_commands
from .json_output import as_json

if TYPE_CHECKING:
    from ..model.model import Model
    from ..support.array_types import FloatArray


def _check_page(path: str | None) -> None:
    """A report is a web page, whatever its name says: then it should say so."""
    if path and Path(path).suffix.lower() not in (".html", ".htm", ""):
        raise ModelError(
            f"--report: a report is a page in HTML; give a name such as {Path(path).with_suffix('.html')}."
        )


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit a model file to a table."""
    if petab_commands.is_petab(arguments):
        return petab_commands.run_fit(arguments)
    from ..fitting import fit

    file = command_arguments.read(arguments)
    for option, path in (("--report", arguments.report), ("--save", arguments.save)):
        if path and Path(path).is_dir():  # said before the fit, not after it
            raise ModelError(f"{option}: {path} is a folder; give the name of a file.")
    _check_page(arguments.report)
    result = fit(
        file.model,
        command_arguments.data(file, arguments),
        **command_arguments.arguments(file, arguments),
        starts=arguments.starts,
        method=arguments.method,
        options={"time_limit": arguments.time_limit},
        seed=arguments.seed,
        **command_arguments.watched(arguments),
    )
    # The numbers come first: whatever fails after the fit must not take it along.
    failures: list[str] = []

    def attempt(what: Any) -> None:
        try:
            what()
        except WeakformError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{error.filename or ''}: {error.strerror or error}")

    if not arguments.json and not arguments.quiet:
        print(result, flush=True)
        if arguments.verbose and result.trace is not None:
            print(f"\nHow this fit was found:\n{result.trace}", flush=True)
    if arguments.profile:
        attempt(lambda: result.intervals(kind="profile"))
    if arguments.sample:
        attempt(lambda: result.sample(seed=arguments.seed))
    if arguments.json:
        print(json.dumps(as_json(result), indent=2))
    elif not arguments.quiet:
        if result.posterior is not None:
            print(f"\nPosterior: {result.posterior}")
        if result.profiles:
            print("\n95% profile intervals:")
            for name, profile in result.profiles.items():
                print(f"  {name}: [{profile.interval[0]:.4g}, {profile.interval[1]:.4g}]")
    if arguments.report:
        attempt(lambda: result.report(arguments.report, shlex.join(["weakform", *arguments.words])))
    if arguments.save:
        attempt(lambda: result.save(arguments.save))
    if arguments.report and not failures and not arguments.json and not arguments.quiet:
        print(f"\nReport: {arguments.report}")
    for line in failures:
        print(f"weakform: {line}", file=sys.stderr)
    if failures:
        return 2
    return 0 if result.success else 1


def compare(arguments: argparse.Namespace) -> int:
    """Fit several models to one table, and compare them."""
    from ..analysis.comparison import compare as side_by_side
    from ..fitting import fit

    *models, table = arguments.files
    if len(models) < 2:
        raise ModelError("compare needs two or more models and a table: weakform compare a.toml b.toml data.csv")
    _check_page(arguments.report)
    fits, watched = {}, command_arguments.watched(arguments)
    for path in models:
        own = argparse.Namespace(**{**vars(arguments), "model": path, "data": table})
        file = command_arguments.read(own)
        name = Path(path).stem
        while name in fits:
            name += "'"
        fits[name] = fit(
            file.model, command_arguments.data(file, own), **file.arguments(), seed=arguments.seed, **watched
        )
    found = side_by_side(fits, arguments.folds)
    words = [str(found)]
    if arguments.report:
        from ..report.comparison_page import write

        words.append(f"\nReport: {write(found, arguments.report)}")
    if not arguments.quiet:
        print("\n".join(words))
    return 0


def check(arguments: argparse.Namespace) -> int:
    """Say everything that is wrong or doubtful before fitting."""
    if petab_commands.is_petab(arguments):
        return petab_commands.check(arguments)
    from ..files.preflight import examine

    wrong: list[str] = []
    doubtful: list[str] = []
    good: list[str] = []
    file = data = None
    try:
        file = command_arguments.read(arguments)
        names = ", ".join(file.model.parameters)
        n = len(file.model.states)
        good.append(f"{arguments.model}: {n} state{'s' * (n > 1)}, parameters {names}")
    except ModelError as error:
        wrong.append(str(error))
    if file is not None:
        try:
            data = command_arguments.data(file, arguments)
            good.append(f"{arguments.data}: {repr(data)[10:-1]}")
        except DataError as error:
            wrong.append(str(error))
    if file is not None and data is not None:
        found = examine(file, data)
        good, wrong = [*good, *found.good], [*wrong, *found.wrong]
        doubtful += [*data.notes, *found.doubtful]
    if arguments.json:
        print(json.dumps({"ok": not wrong, "wrong": wrong, "doubtful": doubtful, "good": good}, indent=2))
    else:
        for mark, lines in (("ok", good), ("wrong", wrong), ("doubtful", doubtful)):
            for line in lines:
                print(f"{mark + ':':10s}{line}")
        print("Ready to fit." if not wrong else "Not ready to fit.")
    return 1 if wrong else 0


def run_simulate(arguments: argparse.Namespace) -> int:
    """Solve a model file, and print or write a table."""
    import numpy as np

    from ..files.model_file import read_model
    from ..forward.solver import begin, simulate
    from ..noise.kinds import KINDS

    file = read_model(arguments.model)
    values = {**file.values, **dict(command_arguments.number(word, "--set") for word in arguments.set)}
    initial = {**file.initial, **dict(command_arguments.number(word, "--initial") for word in arguments.initial)}
    missing = [name for name in file.model.parameters if name not in values]
    if not missing:
        initial = {**begin(file.model, [values[name] for name in file.model.parameters]), **initial}
    missing += [name for name in file.model.states if name not in initial]
    if missing:
        raise ModelError(
            f"No value of {missing[0]!r}: give --set for parameters and --initial for states, such as {missing[0]}=1, "
            "or truth and [initial] in the model file."
        )
    for option, given, known in (
        ("--set", values, file.model.parameters),
        ("--initial", initial, file.model.states),
    ):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ModelError(f"{option}: {unknown[0]!r} is not one of {', '.join(known)}.")
    if not 0 <= arguments.noise < float("inf"):
        raise ModelError(f"--noise must be a number that is not negative; received {arguments.noise!r}.")
    if file.model.inputs:
        raise ModelError("A model with inputs cannot be simulated from the command line; use Python.")
    duration = file.duration if arguments.duration is None else arguments.duration
    if duration is None or duration <= 0 or arguments.samples < 1:
        raise ModelError("Give a positive --duration (or one in the model file) and at least one step in --samples.")
    times = np.linspace(0.0, duration, arguments.samples + 1)
    p = [values[name] for name in file.model.parameters]
    solved = simulate(file.model, p, [initial[name] for name in file.model.states], times)
    if not solved.success:
        raise ModelError(f"The model cannot be solved: {solved.status.value}.")
    names = _columns(file.model, arguments.columns)
    values_of = file.model.map("h", names)(times, solved.states, np.array(p))
    if arguments.noise:
        rng = np.random.default_rng(arguments.seed)
        for d, kind in enumerate(KINDS[file.noise.get(name, "gaussian")] for name in names):
            column = values_of[:, [d]]
            values_of[:, [d]] = kind.draw(rng, column, kind.sigma(column, arguments.noise))
    write_table(["time", *names], np.column_stack([times, values_of]), arguments.out, "samples")
    return 0


def write_table(header: Sequence[str], values: FloatArray, path: str | None, what: str) -> None:
    """Print a table as CSV, or write it to a file."""
    rows = [",".join(f"{value:.10g}" for value in row) for row in values]
    text = "\n".join([",".join(header), *rows]) + "\n"
    if path:
        Path(path).write_text(text, encoding="utf-8")
        print(f"{len(rows)} {what} in {path}")
    else:
        sys.stdout.write(text)


def _columns(model: Model, asked: str | None) -> list[str]:
    """The columns of a simulated table: what was asked for, or all states."""
    known = [*model.states, *model.observables]
    names = [name.strip() for name in asked.split(",")] if asked else list(model.states)
    for name in names:
        if name not in known:
            raise ModelError(f"--columns: {name!r} is not one of {', '.join(known)}.{suggestion(name, known)}")
    return names


def new(arguments: argparse.Namespace) -> int:
    """Write a commented model file to start from."""
    from ..files.template import OBSERVED, TEMPLATE

    path = Path(arguments.file)
    if path.exists():
        raise ModelError(f"{path} is there already; give another name.")
    path.write_text(OBSERVED if arguments.observed else TEMPLATE, encoding="utf-8")
    print(f"{path}: edit it, then try  weakform check {path} your_data.csv")
    return 0


def demo(arguments: argparse.Namespace) -> int:
    """Simulate, fit, show the report beside the truth, save a picture and a page."""
    from .. import problems
    from ..fitting import fit
    from ..report.plots import save, states
    from ..report.text_report import report

    problem = problems.get(arguments.problem)
    data = problem.simulate(M=arguments.samples, noise=arguments.noise, seed=arguments.seed)
    print(f"{problem.title}: {arguments.samples + 1} samples, {arguments.noise:.0%} {problem.noise} noise, ", end="")
    print(f"seed {arguments.seed}; fitted without a start.\n")
    print("\n".join(f"    {line}" for line in str(problem.model).splitlines()), end="\n\n")
    result = fit(problem.model, data, bounds=problem.bounds, seed=arguments.seed)
    print(report(result, truth=problem.parameters))
    folder = Path(arguments.out)
    print(f"\nPicture: {save(states(result), folder / f'{problem.name}.png')}")
    page = result.report(folder / f"{problem.name}.html", shlex.join(["weakform", *arguments.words]))
    print(f"Report:  {page}  (open it in a browser)")
    return 0 if result.converged else 1


def list_problems(arguments: argparse.Namespace) -> int:
    """Print the benchmark problems."""
    from .. import problems

    every = [problems.get(name) for name in problems.names()]
    if arguments.json:
        rows = {
            p.name: {
                "title": p.title,
                "equations": str(p.model).splitlines(),
                "truth": dict(zip(p.model.parameters, p.truth, strict=True)),
                "initial": dict(zip(p.model.states, p.initial, strict=True)),
                "bounds": p.bounds,
                "duration": p.duration,
                "noise": p.noise,
            }
            for p in every
        }
        print(json.dumps(rows, indent=2))
        return 0
    for problem in every:
        print(f"{problem.name:22s} {problem.title}; {problem.noise} noise, t = 0..{problem.duration:g}")
        for line in str(problem.model).splitlines():
            print(f"    {line}")
        values = zip(problem.model.parameters, problem.truth, strict=True)
        print("    " + ", ".join(f"{parameter} = {value:.4g}" for parameter, value in values) + "\n")
    return 0
