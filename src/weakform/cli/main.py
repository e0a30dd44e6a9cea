"""The command line: parses, calls, prints.

Errors are one message on stderr and exit code 2; no traceback reaches a user. Exit codes: 0 for success, 1 for a fit
that did not converge, a model that does not fit or is not determined, or a check that found something wrong, 2 for bad
input, 130 for Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from ..support.errors import WeakformError
from ..support.versions import __version__
from . import command_arguments
from .commands import check, compare, demo, list_problems, new, run_fit, run_simulate
from .predict_and_design import run_design, run_predict, run_serve
from .study_commands import figures, summary, sweep


def completion(arguments: argparse.Namespace) -> int:
    """Print a completion script for a shell."""
    commands = " ".join(sorted(COMMANDS))
    if arguments.shell == "fish":
        print(f"complete -c weakform -n __fish_use_subcommand -f -a '{commands}'")
        for name, options in _options().items():
            for option in options:
                print(f"complete -c weakform -n '__fish_seen_subcommand_from {name}' -l {option[2:]}")
        return 0
    cases = "\n".join(f"    {name}) words='{' '.join(options)}' ;;" for name, options in _options().items())
    load = "autoload -U +X bashcompinit && bashcompinit\n" if arguments.shell == "zsh" else ""
    print(
        f"{load}_weakform() {{\n  local words='{commands}'\n  if [ \"$COMP_CWORD\" -gt 1 ]; then\n"
        f'    case "${{COMP_WORDS[1]}}" in\n{cases}\n    esac\n  fi\n'
        '  COMPREPLY=($(compgen -f -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))\n}\n'
        "complete -o filenames -F _weakform weakform"
    )
    return 0


def _options() -> dict[str, list[str]]:
    """The long options of each command."""
    chosen = parser()._subparsers
    assert chosen is not None
    (commands,) = (a for a in chosen._actions if isinstance(a, argparse._SubParsersAction))
    return {
        name: sorted(w for w in sub._option_string_actions if w.startswith("--"))
        for name, sub in commands.choices.items()
    }


COMMANDS: dict[str, tuple[Any, str, str]] = {
    "new": (new, "write a commented model file to start from", "weakform new model.toml"),
    "check": (check, "say what is wrong or doubtful with a model and a table", "weakform check model.toml data.csv"),
    "fit": (run_fit, "fit a model to a table", "weakform fit model.toml data.csv --report fit.html"),
    "simulate": (
        run_simulate,
        "solve a model and print a table",
        "weakform simulate model.toml --set a=1 --initial x=2",
    ),
    "compare": (
        compare,
        "fit several models to one table, and say which the data prefer",
        "weakform compare logistic.toml gompertz.toml data.csv --report page.html",
    ),
    "design": (
        run_design,
        "fit a model, and say which further samples would tell most",
        "weakform design model.toml data.csv --samples 20 --to 30",
    ),
    "predict": (
        run_predict,
        "fit a model, and print its solution with a band as a table",
        "weakform predict model.toml data.csv --to 30",
    ),
    "serve": (run_serve, "fit on a page in the browser, on this machine", "weakform serve"),
    "demo": (
        demo,
        "fit a benchmark problem and show the report",
        "weakform demo --problem lorenz --noise 0.1 --out demo",
    ),
    "problems": (list_problems, "list the benchmark problems", "weakform problems"),
    "sweep": (
        sweep,
        "do a Monte Carlo study, or go on with it",
        "weakform sweep lorenz --out lorenz.sqlite --workers 4",
    ),
    "summary": (summary, "print the metrics of a study", "weakform summary lorenz.sqlite --export lorenz.parquet"),
    "figures": (figures, "draw a study: the paper's figures and ours", "weakform figures lorenz.sqlite --format svg"),
    "completion": (completion, "print a completion script for your shell", "weakform completion bash >> ~/.bashrc"),
}


class _Parser(argparse.ArgumentParser):
    """One that says what is wrong, and where all options stand."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}. All options: {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The arguments of `weakform`."""
    from ..estimators import ESTIMATORS

    top = _Parser(
        prog="weakform",
        description="Parameters of differential-equation models from noisy data, without solving the equations.",
        epilog="start with: weakform new model.toml; then weakform fit model.toml data.csv --report fit.html",
    )
    top.add_argument("--version", action="version", version=f"weakform {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    made = {}
    for name, (run, help_, example) in COMMANDS.items():
        made[name] = commands.add_parser(
            name, help=help_, description=f"{help_[0].upper()}{help_[1:]}.", epilog=f"example: {example}"
        )
        made[name].set_defaults(run=run)

    made["new"].add_argument(
        "file", nargs="?", default="model.toml", metavar="FILE", help="the file to write (default: %(default)s)"
    )
    made["new"].add_argument(
        "--observed",
        action="store_true",
        help="for a system of which only a part is measured: observables, initial values",
    )
    for name in ("fit", "check", "design", "predict"):
        one = made[name]
        one.add_argument("model", metavar="MODEL", help="equations, TOML (see weakform new), SBML, Antimony, or PEtab")
        one.add_argument("data", nargs="?", metavar="DATA", help="a table: CSV, TSV, Parquet or Excel, columns by name")
    made["compare"].add_argument("files", nargs="+", metavar="FILE", help="two or more models, then the table")
    for name in ("fit", "check", "compare", "design", "predict"):
        command_arguments.add_table(made[name])
    for name in ("fit", "design", "predict"):
        command_arguments.add(made[name])
    for name in ("fit", "compare", "design", "predict"):
        command_arguments.add_words(made[name])
        made[name].add_argument("--seed", type=int, default=0, help="of the starts (default: %(default)s)")
    for name in ("design", "predict"):
        made[name].add_argument("--of", metavar="TRAJECTORY", help="the trajectory to go on with (default: the first)")
    for name in ("fit", "check"):
        made[name].add_argument("--json", action="store_true", help="print JSON")
    one = made["fit"]
    one.add_argument("--method", default="wendy", help=f"{', '.join(ESTIMATORS)} (default: wendy)")
    one.add_argument("--starts", type=int, metavar="N", help="how many starts (default: as many as the model needs)")
    one.add_argument("--time-limit", type=float, default=200.0, metavar="S", help="seconds (default: %(default)s)")
    one.add_argument("--profile", action="store_true", help="compute profile intervals too")
    one.add_argument("--sample", action="store_true", help="draw from the posterior too")
    one.add_argument("--report", metavar="FILE", help="write an HTML page")
    one.add_argument("--save", metavar="FILE", help="write the fit as JSON, to be loaded in Python")

    one = made["compare"]
    one.add_argument("--folds", type=int, metavar="N", help="leave out N blocks of time in turn, and foresee them")
    one.add_argument("--report", metavar="FILE", help="write an HTML page")

    one = made["predict"]
    one.add_argument("--from", dest="begin", type=float, metavar="T", help="first time (default: that of the data)")
    one.add_argument("--to", type=float, metavar="T", help="last time (default: that of the data)")
    one.add_argument("--samples", type=int, default=100, metavar="N", help="number of steps (default: %(default)s)")
    one.add_argument("--level", type=float, default=0.95, help="of the band (default: %(default)s)")
    one.add_argument("--out", metavar="FILE", help="write a CSV file instead of printing")

    one = made["design"]
    one.add_argument("--from", dest="begin", type=float, metavar="T", help="time from which on (default: the first)")
    one.add_argument("--to", type=float, metavar="T", help="time up to which (default: half as long again as the data)")
    one.add_argument("--windows", type=int, default=8, metavar="N", help="in how many parts (default: %(default)s)")
    one.add_argument("--samples", type=int, default=10, metavar="N", help="samples in each (default: %(default)s)")
    one.add_argument("--picture", metavar="FILE", help="draw it")

    one = made["simulate"]
    one.add_argument("model", metavar="MODEL", help="equations as text, TOML, SBML or Antimony")
    one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter; may be repeated")
    one.add_argument("--initial", action="append", default=[], metavar="NAME=VALUE", help="an initial state")
    one.add_argument("--columns", metavar="NAMES", help="states and named expressions to write (default: all states)")
    one.add_argument("--duration", type=float, metavar="T", help="time of the last sample")
    one.add_argument("--samples", type=int, default=100, metavar="M", help="number of steps (default: %(default)s)")
    one.add_argument("--noise", type=float, default=0.0, help="noise ratio (default: none)")
    one.add_argument("--seed", type=int, default=0, help="of the noise (default: %(default)s)")
    one.add_argument("--out", metavar="FILE", help="write a CSV file instead of printing")

    one = made["serve"]
    one.add_argument("--port", type=int, metavar="N", help="on this port (default: a free one)")
    one.add_argument("--no-browser", action="store_true", help="only print the address")

    one = made["demo"]
    one.add_argument("--problem", default="goodwin", help="a benchmark problem (default: %(default)s)")
    one.add_argument("--samples", type=int, default=256, metavar="M", help="number of steps (default: %(default)s)")
    one.add_argument("--noise", type=float, default=0.05, help="noise ratio (default: %(default)s)")
    one.add_argument("--seed", type=int, default=0, help="of the noise and the starts (default: %(default)s)")
    one.add_argument("--out", default=".", help="folder for the picture and the page (default: here)")

    made["problems"].add_argument("--json", action="store_true", help="print JSON")

    one = made["sweep"]
    one.add_argument(
        "study",
        metavar="STUDY",
        help="a TOML file, or one of those that come with the package: accuracy, edges, lorenz, paper, paper-small",
    )
    one.add_argument("--out", metavar="FILE", help="the study file (default: the study's name, .sqlite)")
    one.add_argument("--workers", type=int, metavar="N", help="processes on this machine (default: one for each core)")
    one.add_argument("--dask", metavar="ADDRESS", help="send the runs to the Dask scheduler at this address")

    one = made["summary"]
    one.add_argument("file", metavar="FILE", help="the study file")
    one.add_argument("--export", metavar="TABLE", help="write all runs to a .parquet or .csv file instead")

    one = made["figures"]
    one.add_argument("file", metavar="FILE", help="the study file")
    one.add_argument("--out", default="figures", metavar="FOLDER", help="where the figures go (default: %(default)s)")
    one.add_argument(
        "--format", choices=("pdf", "svg", "png"), default="pdf", help="of the files (default: %(default)s)"
    )
    one.add_argument("--runs-only", action="store_true", help="leave out what is computed, not read: contours, cost")

    made["completion"].add_argument("shell", choices=("bash", "zsh", "fish"), help="your shell")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        chosen = parser().parse_args(words)
        chosen.words = words
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
