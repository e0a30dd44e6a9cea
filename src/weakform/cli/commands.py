"""The commands of `weakform` for models, tables and fits.

Each command reads its arguments, calls the package, prints the result and returns an exit code.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.errors import DataError, ModelError, WeakformError
from ..support.wording import suggest_name
from . import command_arguments, petab_commands
from .json_output import build_json

if TYPE_CHECKING:
    from ..model.model import Model
    from ..support.array_types import FloatArray


def _check_report_path(path: str | None) -> None:
    """Refuse a name for the report that has the suffix of another format, such as `fit.pdf`."""
    if path and Path(path).suffix.lower() not in (".html", ".htm", ""):
        raise ModelError(
            f"--report: the report is an HTML page, not a file of type {Path(path).suffix}; give a name such as "
            f"{Path(path).with_suffix('.html')}."
        )


def run_fit(args: argparse.Namespace) -> int:
    """Fit a model file to a table, and print and write the result."""
    if petab_commands.is_petab(args):
        return petab_commands.run_petab_fit(args)
    from ..fitting import fit

    file = command_arguments.read_model_file(args)
    for option, path in (("--report", args.report), ("--save", args.save)):
        # A fit may take minutes, so a name that cannot be written is refused before it.
        if path and Path(path).is_dir():
            raise ModelError(f"{option}: {path} is a folder; give the name of a file.")
    _check_report_path(args.report)
    result = fit(
        file.model,
        command_arguments.read_dataset(file, args),
        **command_arguments.build_fit_arguments(file, args),
        starts=args.starts,
        method=args.method,
        options={"time_limit": args.time_limit},
        seed=args.seed,
        **command_arguments.build_progress_arguments(args),
    )
    # The estimate is printed first, so that a failure after the fit does not lose it.
    failures: list[str] = []

    def attempt(action: Callable[[], object]) -> None:
        """Do something after the fit, and collect the message if it fails."""
        try:
            action()
        except WeakformError as error:
            failures.append(str(error))
        except OSError as error:
            failures.append(f"{error.filename or ''}: {error.strerror or error}")

    if not args.json and not args.quiet:
        print(result, flush=True)
        if args.verbose and result.trace is not None:
            print(f"\nHow this fit was found:\n{result.trace}", flush=True)
    if args.profile:
        attempt(lambda: result.intervals(kind="profile"))
    if args.sample:
        attempt(lambda: result.sample(seed=args.seed))
    if args.json:
        print(json.dumps(build_json(result), indent=2))
    elif not args.quiet:
        if result.posterior is not None:
            print(f"\nPosterior: {result.posterior}")
        if result.profiles:
            print("\n95% profile intervals:")
            for name, profile in result.profiles.items():
                print(f"  {name}: [{profile.interval[0]:.4g}, {profile.interval[1]:.4g}]")
    if args.report:
        attempt(lambda: result.report(args.report, shlex.join(["weakform", *args.words])))
    if args.save:
        attempt(lambda: result.save(args.save))
    if args.report and not failures and not args.json and not args.quiet:
        print(f"\nReport: {args.report}")
    for line in failures:
        print(f"weakform: {line}", file=sys.stderr)
    if failures:
        return 2
    return 0 if result.success else 1


def run_compare(args: argparse.Namespace) -> int:
    """Fit several models to one table, and compare the fits."""
    from ..analysis.comparison import compare as compare_fits
    from ..fitting import fit

    *models, table = args.files
    if len(models) < 2:
        raise ModelError(
            "compare needs at least two models and then a table, such as: weakform compare a.toml b.toml data.csv; "
            f"received {len(args.files)} file{'s' * (len(args.files) != 1)}."
        )
    _check_report_path(args.report)
    fits, progress = {}, command_arguments.build_progress_arguments(args)
    for path in models:
        model_args = argparse.Namespace(**{**vars(args), "model": path, "data": table})
        file = command_arguments.read_model_file(model_args)
        # The second of two files with the same name in different folders gets a prime.
        name = Path(path).stem
        while name in fits:
            name += "'"
        fits[name] = fit(
            file.model, command_arguments.read_dataset(file, model_args), **file.arguments(), seed=args.seed, **progress
        )
    comparison = compare_fits(fits, args.folds)
    lines = [str(comparison)]
    if args.report:
        from ..report.comparison_page import write_comparison

        lines.append(f"\nReport: {write_comparison(comparison, args.report)}")
    if not args.quiet:
        print("\n".join(lines))
    return 0


def run_check(args: argparse.Namespace) -> int:
    """Print all errors and warnings about a model and a table, without a fit."""
    if petab_commands.is_petab(args):
        return petab_commands.run_petab_check(args)
    from ..files.preflight import check_before_fit

    errors: list[str] = []
    warnings: list[str] = []
    facts: list[str] = []
    file = data = None
    try:
        file = command_arguments.read_model_file(args)
        names = ", ".join(file.model.parameters)
        n = len(file.model.states)
        facts.append(f"{args.model}: {n} state{'s' * (n > 1)}, parameters {names}")
    except ModelError as error:
        errors.append(str(error))
    if file is not None:
        try:
            data = command_arguments.read_dataset(file, args)
            facts.append(f"{args.data}: {repr(data).removeprefix('<Dataset: ').removesuffix('>')}")
        except DataError as error:
            errors.append(str(error))
    if file is not None and data is not None:
        findings = check_before_fit(file, data)
        facts, errors = [*facts, *findings.facts], [*errors, *findings.errors]
        warnings += [*data.notes, *findings.warnings]
    if args.json:
        print(json.dumps({"ok": not errors, "wrong": errors, "doubtful": warnings, "good": facts}, indent=2))
    else:
        for label, lines in (("ok", facts), ("error", errors), ("warning", warnings)):
            for line in lines:
                print(f"{label + ':':10s}{line}")
        print("Ready to fit." if not errors else "Not ready to fit: correct what is marked error.")
    return 1 if errors else 0


def run_simulate(args: argparse.Namespace) -> int:
    """Solve the equations of a model file, and print or write the states as a table.

    `--noise` adds noise of the kinds that the model file gives.
    """
    import numpy as np

    from ..files.model_file import read_model
    from ..forward.solver import evaluate_initial_values, simulate
    from ..noise.kinds import KINDS

    file = read_model(args.model)
    values = {**file.values, **dict(command_arguments.parse_named_number(word, "--set") for word in args.set)}
    initial = {**file.initial, **dict(command_arguments.parse_named_number(word, "--initial") for word in args.initial)}
    missing = [name for name in file.model.parameters if name not in values]
    if not missing:
        initial = {**evaluate_initial_values(file.model, [values[name] for name in file.model.parameters]), **initial}
    missing += [name for name in file.model.states if name not in initial]
    if missing:
        raise ModelError(
            f"No value is given for {missing[0]!r}. Give parameters with --set and initial states with --initial, such "
            f"as {missing[0]}=1, or write truth and [initial] into the model file."
        )
    for option, assigned, names_of_model in (
        ("--set", values, file.model.parameters),
        ("--initial", initial, file.model.states),
    ):
        unknown = [name for name in assigned if name not in names_of_model]
        if unknown:
            raise ModelError(
                f"{option}: {unknown[0]!r} is not one of {', '.join(names_of_model)}."
                f"{suggest_name(unknown[0], names_of_model)}"
            )
    if not 0 <= args.noise < float("inf"):
        raise ModelError(f"--noise must be a finite number, not negative; received {args.noise!r}.")
    if file.model.inputs:
        raise ModelError(
            "A model with inputs cannot be simulated from the command line, which has no table of their values; use "
            "weakform.simulate in Python."
        )
    duration = file.duration if args.duration is None else args.duration
    if duration is None or duration <= 0 or args.samples < 1:
        raise ModelError(
            "The duration must be positive, and --samples at least 1; received "
            f"{'no duration' if duration is None else f'a duration of {duration:g}'} and --samples {args.samples}. "
            "Give --duration, or duration in the model file."
        )
    times = np.linspace(0.0, duration, args.samples + 1)
    p = [values[name] for name in file.model.parameters]
    solved = simulate(file.model, p, [initial[name] for name in file.model.states], times)
    if not solved.success:
        raise ModelError(f"The model cannot be solved with these values: {solved.status.value}.")
    names = _select_columns(file.model, args.columns)
    columns = file.model.build_map("h", names)(times, solved.states, np.array(p))
    if args.noise:
        rng = np.random.default_rng(args.seed)
        for d, kind in enumerate(KINDS[file.noise.get(name, "gaussian")] for name in names):
            column = columns[:, [d]]
            columns[:, [d]] = kind.draw(rng, column, kind.compute_sigma(column, args.noise))
    write_table(["time", *names], np.column_stack([times, columns]), args.out, "samples")
    return 0


def write_table(header: Sequence[str], values: FloatArray, path: str | None, row_name: str) -> None:
    """Print a table as CSV, or write it to a file and report its size.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    values : ndarray, (rows, columns)
    path : str or None
        The file; the standard output if None.
    row_name : str
        What a row is, in the plural, for the message about its size.
    """
    rows = [",".join(f"{value:.10g}" for value in row) for row in values]
    text = "\n".join([",".join(header), *rows]) + "\n"
    if path:
        Path(path).write_text(text, encoding="utf-8")
        print(f"Wrote {len(rows)} {row_name} to {path}")
    else:
        sys.stdout.write(text)


def _select_columns(model: Model, text: str | None) -> list[str]:
    """Return the columns of a simulated table: the names in `text`, separated by commas, or all states."""
    available = [*model.states, *model.observables]
    names = [name.strip() for name in text.split(",")] if text else list(model.states)
    for name in names:
        if name not in available:
            raise ModelError(
                f"--columns: {name!r} is not one of {', '.join(available)}.{suggest_name(name, available)}"
            )
    return names


def run_new(args: argparse.Namespace) -> int:
    """Write a model file with comments, as a starting point."""
    from ..files.template import PARTLY_OBSERVED_TEMPLATE, TEMPLATE

    path = Path(args.file)
    if path.exists():
        raise ModelError(f"{path} already exists and is not overwritten; give another name.")
    path.write_text(PARTLY_OBSERVED_TEMPLATE if args.observed else TEMPLATE, encoding="utf-8")
    print(f"Wrote {path}. Edit it, then try:  weakform check {path} your_data.csv")
    return 0


def run_demo(args: argparse.Namespace) -> int:
    """Simulate and fit a benchmark problem, print the report beside the truth, and write a picture and a page."""
    from .. import problems
    from ..fitting import fit
    from ..report.plots import save, states
    from ..report.text_report import format_report

    problem = problems.get(args.problem)
    data = problem.simulate(M=args.samples, noise=args.noise, seed=args.seed)
    print(f"{problem.title}: {args.samples + 1} samples, {args.noise:.0%} {problem.noise} noise, ", end="")
    print(f"seed {args.seed}; no starting values are given.\n")
    print("\n".join(f"    {line}" for line in str(problem.model).splitlines()), end="\n\n")
    result = fit(problem.model, data, bounds=problem.bounds, seed=args.seed)
    print(format_report(result, truth=problem.parameters))
    folder = Path(args.out)
    print(f"\nPicture: {save(states(result), folder / f'{problem.name}.png')}")
    page = result.report(folder / f"{problem.name}.html", shlex.join(["weakform", *args.words]))
    print(f"Report:  {page}  (open it in a browser)")
    return 0 if result.converged else 1


def run_serve(args: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from ..serve.launcher import serve

    serve(args.port, not args.no_browser)
    return 0


def list_problems(args: argparse.Namespace) -> int:
    """Print the benchmark problems with their equations and true parameters."""
    from .. import problems

    all_problems = [problems.get(name) for name in problems.names()]
    if args.json:
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
            for p in all_problems
        }
        print(json.dumps(rows, indent=2))
        return 0
    for problem in all_problems:
        print(f"{problem.name:22s} {problem.title}; {problem.noise} noise, t = 0..{problem.duration:g}")
        for line in str(problem.model).splitlines():
            print(f"    {line}")
        values = zip(problem.model.parameters, problem.truth, strict=True)
        print("    " + ", ".join(f"{parameter} = {value:.4g}" for parameter, value in values) + "\n")
    return 0
