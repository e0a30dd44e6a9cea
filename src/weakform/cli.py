"""The command line: parses, calls, prints.

Errors are one line on stderr and exit code 2; no traceback reaches a user.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from . import __version__
from .errors import WeakformError


def demo(arguments: argparse.Namespace) -> int:
    """Simulate, fit, show the report beside the truth, save a picture."""
    from . import problems
    from .fitting import fit
    from .report.plots import save, states
    from .report.text import report

    problem = problems.get(arguments.problem)
    data = problem.simulate(M=arguments.samples, noise=arguments.noise, seed=arguments.seed)
    print(f"{problem.title}: {arguments.samples + 1} samples, {arguments.noise:.0%} {problem.noise} noise, ", end="")
    print(f"seed {arguments.seed}; fitted without a start.\n")
    print("\n".join(f"    {line}" for line in str(problem.model).splitlines()), end="\n\n")
    result = fit(problem.model, data, bounds=problem.bounds, seed=arguments.seed)
    print(report(result, truth=problem.parameters))
    print(f"\nPicture: {save(states(result), Path(arguments.out) / f'{problem.name}.png')}")
    return 0 if result.success else 1


def list_problems(arguments: argparse.Namespace) -> int:
    """Print the benchmark problems."""
    from . import problems

    for name in problems.names():
        problem = problems.get(name)
        print(f"{name:22s} {problem.title}; {problem.noise} noise, t = 0..{problem.duration:g}")
        for line in str(problem.model).splitlines():
            print(f"    {line}")
        values = zip(problem.model.parameters, problem.truth, strict=True)
        print("    " + ", ".join(f"{parameter} = {value:.4g}" for parameter, value in values) + "\n")
    return 0


def sweep(arguments: argparse.Namespace) -> int:
    """Do the runs of a study that its file lacks."""
    import os

    from .experiments.executors import dask, local
    from .experiments.study import read_study
    from .experiments.sweep import sweep as run_sweep

    study = read_study(arguments.study)
    out = Path(arguments.out or f"{study.name}.sqlite")
    workers = arguments.workers or os.cpu_count() or 1
    execute = dask(arguments.dask) if arguments.dask else local(workers)
    try:
        outcome = run_sweep(study, out, execute)
    except KeyboardInterrupt:
        print(f"weakform: stopped. What was done is in {out}; give the same command again to go on.", file=sys.stderr)
        return 130
    print(
        f"{study.name}: {outcome.done} runs done, {outcome.failed} failed, {outcome.before} were there; "
        f"{outcome.before + outcome.done - len(outcome.lost)} of {outcome.total} are in {out}."
    )
    for line in outcome.lost:
        print(f"lost: {line}", file=sys.stderr)
    return 1 if outcome.lost else 0


def figures(arguments: argparse.Namespace) -> int:
    """Draw a study."""
    from .experiments.figures import draw

    for path in draw(arguments.file, arguments.out, arguments.format, not arguments.runs_only):
        print(path, flush=True)
    return 0


def summary(arguments: argparse.Namespace) -> int:
    """Print the metrics of a study, or write its runs as a table."""
    from .experiments.store import Store
    from .experiments.summary import summarise, table

    store = Store(arguments.file)
    if arguments.export is None:
        print(table(summarise(store)))
        return 0
    out, frame = Path(arguments.export), store.frame()
    if out.suffix == ".parquet":
        frame.to_parquet(out)
    elif out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        raise WeakformError(f"Runs are exported to .parquet or .csv; received {out.name!r}.")
    print(f"{len(frame)} runs in {out}")
    return 0


def parser() -> argparse.ArgumentParser:
    """The arguments of `weakform`."""
    top = argparse.ArgumentParser(
        prog="weakform",
        description="Parameters of differential-equation models from noisy data, without solving the equations.",
    )
    top.add_argument("--version", action="version", version=f"weakform {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")

    show = commands.add_parser(
        "demo",
        help="simulate a problem, fit it without a start, show the report and save a picture",
        epilog="example: weakform demo --problem lorenz --noise 0.1 --out pictures",
    )
    show.add_argument("--problem", default="goodwin", help="a benchmark problem (default: %(default)s)")
    show.add_argument("--samples", type=int, default=256, metavar="M", help="number of steps (default: %(default)s)")
    show.add_argument("--noise", type=float, default=0.05, help="noise ratio (default: %(default)s)")
    show.add_argument("--seed", type=int, default=1, help="of the noise and the starts (default: %(default)s)")
    show.add_argument("--out", default=".", help="folder for the picture (default: here)")
    show.set_defaults(run=demo)

    study = commands.add_parser(
        "sweep",
        help="do a Monte Carlo study, or go on with it",
        epilog="example: weakform sweep lorenz --out lorenz.sqlite --workers 4",
    )
    study.add_argument("study", metavar="STUDY", help="a TOML file, or one of: lorenz, paper, paper-small")
    study.add_argument("--out", metavar="FILE", help="the study file (default: the study's name, .sqlite)")
    study.add_argument("--workers", type=int, metavar="N", help="processes on this machine (default: one a core)")
    study.add_argument("--dask", metavar="ADDRESS", help="send the runs to the Dask scheduler at this address")
    study.set_defaults(run=sweep)

    shown = commands.add_parser(
        "summary",
        help="print the metrics of a study, or export its runs",
        epilog="example: weakform summary lorenz.sqlite --export lorenz.parquet",
    )
    shown.add_argument("file", metavar="FILE", help="the study file")
    shown.add_argument("--export", metavar="TABLE", help="write all runs to a .parquet or .csv file instead")
    shown.set_defaults(run=summary)

    drawn = commands.add_parser(
        "figures",
        help="draw a study: every figure of the paper, and ours",
        epilog="example: weakform figures lorenz.sqlite --out figures --format svg",
    )
    drawn.add_argument("file", metavar="FILE", help="the study file")
    drawn.add_argument("--out", default="figures", metavar="FOLDER", help="(default: %(default)s)")
    drawn.add_argument("--format", choices=("pdf", "svg", "png"), default="pdf", help="(default: %(default)s)")
    drawn.add_argument("--runs-only", action="store_true", help="leave out what is computed, not read: contours, cost")
    drawn.set_defaults(run=figures)

    listing = commands.add_parser("problems", help="list the benchmark problems", epilog="example: weakform problems")
    listing.set_defaults(run=list_problems)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0 for success, 1 for a fit that did not converge, 2 for bad input."""
    try:
        chosen = parser().parse_args(arguments)
        return int(chosen.run(chosen))
    except WeakformError as error:
        print(f"weakform: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read our output has had enough
        sys.stderr.close()
        return 0
    except OSError as error:
        print(f"weakform: {error.filename or ''}: {error.strerror or error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("weakform: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
