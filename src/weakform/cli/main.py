"""The command line: its parser and its entry point.

Errors are printed to stderr as one message, without a traceback. Exit codes: 0 for success; 1 for a fit that did not
succeed (it did not converge, the model does not fit, or the data do not determine a parameter), for a batch of which no
fit succeeded, for a check that found errors and for a sweep that lost runs; 2 for wrong input; 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from ..support.errors import WeakformError
from ..support.versions import __version__
from . import command_arguments
from .batch_command import add_batch_options, run_batch
from .commands import list_problems, run_check, run_compare, run_demo, run_fit, run_new, run_serve, run_simulate
from .predict_and_design import run_design, run_predict
from .study_commands import run_figures, run_summary, run_sweep


def print_completion(args: argparse.Namespace) -> int:
    """Print a completion script for a shell: commands, then the long options of the command, and files."""
    commands = " ".join(sorted(COMMANDS))
    if args.shell == "fish":
        print(f"complete -c weakform -n __fish_use_subcommand -f -a '{commands}'")
        for name, options in _list_options().items():
            for option in options:
                print(f"complete -c weakform -n '__fish_seen_subcommand_from {name}' -l {option[2:]}")
        return 0
    cases = "\n".join(f"    {name}) words='{' '.join(options)}' ;;" for name, options in _list_options().items())
    load = "autoload -U +X bashcompinit && bashcompinit\n" if args.shell == "zsh" else ""
    print(
        f"{load}_weakform() {{\n  local words='{commands}'\n  if [ \"$COMP_CWORD\" -gt 1 ]; then\n"
        f'    case "${{COMP_WORDS[1]}}" in\n{cases}\n    esac\n  fi\n'
        '  COMPREPLY=($(compgen -f -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n}\n'
        "complete -o filenames -F _weakform weakform"
    )
    return 0


def _list_options() -> dict[str, list[str]]:
    """Return the long options of each command."""
    # argparse has no public way to list the options of a parser.
    group = build_parser()._subparsers
    assert group is not None
    (commands,) = (action for action in group._actions if isinstance(action, argparse._SubParsersAction))
    return {
        name: sorted(option for option in command._option_string_actions if option.startswith("--"))
        for name, command in commands.choices.items()
    }


COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, str]] = {
    "new": (run_new, "write a model file with comments, as a starting point", "weakform new model.toml"),
    "check": (
        run_check,
        "check a model and a table before fitting, and print errors and warnings",
        "weakform check model.toml data.csv",
    ),
    "fit": (run_fit, "fit a model to a table", "weakform fit model.toml data.csv --report fit.html"),
    "batch": (
        run_batch,
        "fit a model to each of many datasets, such as the voxels of an image",
        "weakform batch model.toml curves.nc --out maps.nc",
    ),
    "simulate": (
        run_simulate,
        "solve the equations of a model and print the states as a table",
        "weakform simulate model.toml --set a=1 --initial x=2",
    ),
    "compare": (
        run_compare,
        "fit several models to one table and compare how well the data support them",
        "weakform compare logistic.toml gompertz.toml data.csv --report page.html",
    ),
    "design": (
        run_design,
        "fit a model and print which further samples would reduce the standard errors most",
        "weakform design model.toml data.csv --samples 20 --to 30",
    ),
    "predict": (
        run_predict,
        "fit a model and print its solution with a confidence band as a table",
        "weakform predict model.toml data.csv --to 30",
    ),
    "serve": (run_serve, "fit models on a page in the browser, served on this machine only", "weakform serve"),
    "demo": (
        run_demo,
        "simulate and fit a benchmark problem, and show the report",
        "weakform demo --problem lorenz --noise 0.1 --out demo",
    ),
    "problems": (list_problems, "list the benchmark problems", "weakform problems"),
    "sweep": (
        run_sweep,
        "run a Monte Carlo study, or continue one that was interrupted",
        "weakform sweep lorenz --out lorenz.sqlite --workers 4",
    ),
    "summary": (run_summary, "print the metrics of a study", "weakform summary lorenz.sqlite --export lorenz.parquet"),
    "figures": (run_figures, "draw the figures of a study", "weakform figures lorenz.sqlite --format svg"),
    "completion": (
        print_completion,
        "print a completion script for your shell",
        "weakform completion bash >> ~/.bashrc",
    ),
}
"""For each command the function that runs it and returns its exit code, its help text, and an example."""


class _OneLineErrorParser(argparse.ArgumentParser):
    """A parser whose errors are one line that names the command with all options."""

    def error(self, message: str) -> NoReturn:
        """Print an error in the arguments and exit with code 2."""
        self.exit(2, f"{self.prog}: error: {message}. All options: {self.prog} --help\n")


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of `weakform` with all its commands."""
    from ..estimators import ESTIMATORS

    top = _OneLineErrorParser(
        prog="weakform",
        description="Estimate the parameters of differential equations from noisy data, without solving the equations.",
        epilog="start with: weakform new model.toml; then weakform fit model.toml data.csv --report fit.html",
    )
    top.add_argument(
        "--version", action="version", version=f"weakform {__version__}", help="print the version and exit"
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {}
    for name, (run, summary_line, example) in COMMANDS.items():
        parsers[name] = commands.add_parser(
            name,
            help=summary_line,
            description=f"{summary_line[0].upper()}{summary_line[1:]}.",
            epilog=f"example: {example}",
        )
        parsers[name].set_defaults(run=run)

    # Options are added in the order in which --help and the reference show them.
    new_parser = parsers["new"]
    new_parser.add_argument(
        "file", nargs="?", default="model.toml", metavar="FILE", help="the file to write (default: %(default)s)"
    )
    new_parser.add_argument(
        "--observed",
        action="store_true",
        help="write an example of a system that is measured only in part, with observables and initial values",
    )
    for name in ("fit", "check", "design", "predict"):
        parsers[name].add_argument(
            "model",
            metavar="MODEL",
            help="a file with the equations: text, TOML (see weakform new), SBML, Antimony or PEtab"
            if name in ("fit", "check")
            else "a file with the equations: text, TOML (see weakform new), SBML or Antimony",
        )
        parsers[name].add_argument(
            "data", nargs="?", metavar="DATA", help="a table in CSV, TSV, Parquet or Excel; columns are found by name"
        )
    parsers["compare"].add_argument("files", nargs="+", metavar="FILE", help="two or more models, then the table")
    for name in ("fit", "check", "compare", "design", "predict"):
        command_arguments.add_table_options(parsers[name])
    for name in ("fit", "design", "predict"):
        command_arguments.add_parameter_options(parsers[name])
        command_arguments.add_random_option(parsers[name])
    command_arguments.add_verbosity_options(
        parsers["fit"],
        quiet="print errors only; the exit code reports the outcome",
        verbose="report each stage as it begins, and print which strategies were tried and why",
    )
    command_arguments.add_verbosity_options(
        parsers["compare"], quiet="print errors only", verbose="report each stage of each fit as it begins"
    )
    for name in ("design", "predict"):
        command_arguments.add_verbosity_options(
            parsers[name],
            quiet="do not show the progress of the fit",
            verbose="report each stage of the fit as it begins",
        )
    for name in ("fit", "compare", "design", "predict"):
        parsers[name].add_argument(
            "--seed", type=int, default=0, help="seed of the random starts and draws (default: %(default)s)"
        )
    for name in ("design", "predict"):
        parsers[name].add_argument(
            "--of",
            metavar="TRAJECTORY",
            help="label or number, from 0, of the trajectory to continue (default: the first)",
        )
    for name in ("fit", "check"):
        parsers[name].add_argument("--json", action="store_true", help="print the result as JSON")

    fit_parser = parsers["fit"]
    fit_parser.add_argument("--method", default="wendy", help=f"one of {', '.join(ESTIMATORS)} (default: %(default)s)")
    fit_parser.add_argument(
        "--starts", type=int, metavar="N", help="number of starts (default: chosen for the model and the data)"
    )
    fit_parser.add_argument(
        "--time-limit",
        type=float,
        default=200.0,
        metavar="S",
        help="stop the fit after S seconds (default: %(default)s)",
    )
    fit_parser.add_argument("--profile", action="store_true", help="also compute profile likelihood intervals")
    fit_parser.add_argument("--sample", action="store_true", help="also draw from the posterior distribution")
    fit_parser.add_argument("--report", metavar="FILE", help="write the report as an HTML page")
    fit_parser.add_argument(
        "--save", metavar="FILE", help="write the fit as JSON, for weakform.FitResult.load in Python"
    )

    add_batch_options(parsers["batch"])

    compare_parser = parsers["compare"]
    compare_parser.add_argument(
        "--folds",
        type=int,
        metavar="N",
        help="cross-validate: hold out each of N blocks of time in turn and score the prediction",
    )
    compare_parser.add_argument("--report", metavar="FILE", help="write the comparison as an HTML page")

    predict_parser = parsers["predict"]
    predict_parser.add_argument(
        "--from", dest="begin", type=float, metavar="T", help="first time of the prediction (default: that of the data)"
    )
    predict_parser.add_argument(
        "--to", type=float, metavar="T", help="last time of the prediction (default: that of the data)"
    )
    predict_parser.add_argument(
        "--samples", type=int, default=100, metavar="N", help="number of time steps (default: %(default)s)"
    )
    predict_parser.add_argument(
        "--level", type=float, default=0.95, help="confidence level of the band (default: %(default)s)"
    )
    predict_parser.add_argument("--out", metavar="FILE", help="write a CSV file instead of printing")

    design_parser = parsers["design"]
    design_parser.add_argument(
        "--from",
        dest="begin",
        type=float,
        metavar="T",
        help="earliest time of further samples (default: the first of the data)",
    )
    design_parser.add_argument(
        "--to",
        type=float,
        metavar="T",
        help="latest time of further samples (default: half the span of the data after their end)",
    )
    design_parser.add_argument(
        "--windows", type=int, default=8, metavar="N", help="number of windows to compare (default: %(default)s)"
    )
    design_parser.add_argument(
        "--samples", type=int, default=10, metavar="N", help="number of samples in each window (default: %(default)s)"
    )
    design_parser.add_argument("--picture", metavar="FILE", help="draw the design: .png, .svg or .pdf")

    simulate_parser = parsers["simulate"]
    simulate_parser.add_argument(
        "model", metavar="MODEL", help="a file with the equations: text, TOML (see weakform new), SBML or Antimony"
    )
    simulate_parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="value of a parameter; may be repeated"
    )
    simulate_parser.add_argument(
        "--initial",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="initial value of a state; may be repeated",
    )
    simulate_parser.add_argument(
        "--columns",
        metavar="NAMES",
        help="states and named expressions to write, separated by commas (default: all states)",
    )
    simulate_parser.add_argument(
        "--duration", type=float, metavar="T", help="time of the last sample (default: duration in the model file)"
    )
    simulate_parser.add_argument(
        "--samples", type=int, default=100, metavar="M", help="number of time steps (default: %(default)s)"
    )
    simulate_parser.add_argument(
        "--noise", type=float, default=0.0, help="noise ratio: 0.05 for noise of 5%% (default: no noise)"
    )
    simulate_parser.add_argument("--seed", type=int, default=0, help="seed of the noise (default: %(default)s)")
    simulate_parser.add_argument("--out", metavar="FILE", help="write a CSV file instead of printing")

    serve_parser = parsers["serve"]
    serve_parser.add_argument(
        "--port", type=int, metavar="N", help="port on which the page is served (default: a free one)"
    )
    serve_parser.add_argument("--no-browser", action="store_true", help="print the address without opening a browser")

    demo_parser = parsers["demo"]
    demo_parser.add_argument(
        "--problem", default="goodwin", help="name of a benchmark problem; see weakform problems (default: %(default)s)"
    )
    demo_parser.add_argument(
        "--samples", type=int, default=256, metavar="M", help="number of time steps (default: %(default)s)"
    )
    demo_parser.add_argument(
        "--noise", type=float, default=0.05, help="noise ratio: 0.05 for noise of 5%% (default: %(default)s)"
    )
    demo_parser.add_argument(
        "--seed", type=int, default=0, help="seed of the noise and the starts (default: %(default)s)"
    )
    demo_parser.add_argument(
        "--out", default=".", metavar="FOLDER", help="folder for the picture and the page (default: the current one)"
    )

    parsers["problems"].add_argument("--json", action="store_true", help="print the problems as JSON")

    sweep_parser = parsers["sweep"]
    sweep_parser.add_argument(
        "study",
        metavar="STUDY",
        help="a TOML file, or a built-in study: accuracy, edges, lorenz, paper, paper-small",
    )
    sweep_parser.add_argument(
        "--out", metavar="FILE", help="the study file that stores the runs (default: NAME.sqlite in the current folder)"
    )
    sweep_parser.add_argument(
        "--workers", type=int, metavar="N", help="number of processes on this machine (default: one for each core)"
    )
    sweep_parser.add_argument("--dask", metavar="ADDRESS", help="send the runs to the Dask scheduler at this address")

    summary_parser = parsers["summary"]
    summary_parser.add_argument("file", metavar="FILE", help="the study file that weakform sweep wrote")
    summary_parser.add_argument(
        "--export", metavar="TABLE", help="write all runs to a .parquet or .csv file instead of printing the metrics"
    )

    figures_parser = parsers["figures"]
    figures_parser.add_argument("file", metavar="FILE", help="the study file that weakform sweep wrote")
    figures_parser.add_argument(
        "--out", default="figures", metavar="FOLDER", help="folder for the figures (default: %(default)s)"
    )
    figures_parser.add_argument(
        "--format", choices=("pdf", "svg", "png"), default="pdf", help="format of the figures (default: %(default)s)"
    )
    figures_parser.add_argument(
        "--runs-only",
        action="store_true",
        help="draw the figures of the study only, without those that need no study: contours, minimal radius, cost",
    )

    parsers["completion"].add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after `weakform`; by default those of this process.

    Returns
    -------
    int
        See the exit codes of this module.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        args = build_parser().parse_args(words)
        args.words = words
        return int(args.run(args))
    except WeakformError as error:
        print(f"weakform: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of the output, such as `head`, has stopped: no error. Python would warn of it at exit.
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
