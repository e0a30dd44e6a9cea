"""Options shared by several commands, and the reading of model, table and arguments of `fit` from them."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..support.errors import DataError, ModelError
from ..support.wording import list_names, suggest_name

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..files.model_file import ModelFile


def add_parameter_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about parameters to a command."""
    parser.add_argument(
        "--fix", action="append", default=[], metavar="NAME=VALUE", help="fix a parameter at a value; may be repeated"
    )
    parser.add_argument(
        "--bounds",
        action="append",
        default=[],
        metavar="NAME=LOW,HIGH",
        help="lower and upper bound of a parameter; may be repeated",
    )
    parser.add_argument(
        "--log",
        action="append",
        default=[],
        metavar="NAME",
        help="estimate a positive parameter on a log scale; may be repeated",
    )


def add_random_option(parser: argparse.ArgumentParser) -> None:
    """Add the option about parameters that vary between subjects to a command."""
    parser.add_argument(
        "--random",
        action="append",
        default=[],
        metavar="NAME",
        help="a parameter that varies between subjects (mixed effects); may be repeated",
    )


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about the columns of the table, the noise and the doses to a command."""
    from ..noise.kinds import KINDS

    parser.add_argument("--time", metavar="COLUMN", help="the time column (default: the first)")
    parser.add_argument("--trajectory", metavar="COLUMN", help="the column that separates several experiments")
    parser.add_argument(
        "--inputs",
        action="append",
        default=[],
        metavar="NAME",
        help="a name in the equations that is a column of known values; may be repeated",
    )
    parser.add_argument(
        "--observe",
        action="append",
        default=[],
        metavar="'NAME = EXPRESSION'",
        help="a measured column as an expression of states and parameters; may be repeated",
    )
    parser.add_argument("--sheet", metavar="NAME", help="the sheet of a spreadsheet (default: the first)")
    parser.add_argument("--noise", choices=tuple(KINDS), help="kind of noise, in place of that in the model file")
    add_dose_options(parser)


def add_dose_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about doses to a command."""
    parser.add_argument(
        "--doses",
        metavar="FILE",
        help="a table of doses with columns time and amount, and optionally id, state, duration",
    )
    parser.add_argument(
        "--into", metavar="STATE", help="the state that receives the doses, if their table has no column state"
    )


def add_verbosity_options(parser: argparse.ArgumentParser, quiet: str, verbose: str) -> None:
    """Add `--quiet` and `--verbose` to a command, with their help texts."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quiet", action="store_true", help=quiet)
    group.add_argument("--verbose", action="store_true", help=verbose)


def build_progress_arguments(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `fit` that replace its line of progress, and start logging if `--verbose` is given."""
    if args.verbose:
        import logging

        logging.basicConfig(level=logging.INFO, format="weakform: %(message)s", stream=sys.stderr, force=True)
    return {"callback": _ignore_progress} if args.quiet or args.verbose else {}


def _ignore_progress(progress: object) -> None:
    """Ignore the progress of a fit."""
    del progress


def read_model_file(args: argparse.Namespace) -> ModelFile:
    """Read the model file, and add the inputs and observed expressions of the command line to it."""
    from ..files.model_file import read_model
    from ..model.model import Model

    file = read_model(args.model)
    if not args.inputs and not args.observe:
        return file
    if not file.equations:
        raise ModelError(
            f"--inputs and --observe need equations as text, but {args.model} has none. Write the equations in a model "
            "file; weakform new model.toml creates one."
        )
    inputs = tuple(dict.fromkeys([*file.inputs, *(n.strip() for word in args.inputs for n in word.split(","))]))
    text = "\n".join([file.equations, *args.observe])
    try:
        model = Model.from_text(text, inputs=inputs)
    except ModelError as error:
        raise ModelError(f"{args.model} with --inputs and --observe: {error}") from None
    return replace(file, model=model, inputs=inputs, equations=text)


def read_dataset(file: ModelFile, args: argparse.Namespace) -> Dataset:
    """Read the table of measurements and the table of doses for a model."""
    from ..files.table_for_model import TableOptions, read_data

    if args.data is None:
        raise DataError(f"No table of measurements is given; write: weakform {args.command} {args.model} data.csv")
    if args.into is not None and args.doses is None:
        raise DataError(
            f"--into {args.into} names the state that receives doses, but no doses are given; give the table with "
            "--doses FILE."
        )
    return read_data(
        file,
        args.data,
        TableOptions(args.time, args.trajectory, args.noise, args.sheet, doses=args.doses, into=args.into),
    )


def build_fit_arguments(file: ModelFile, args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `fit` about parameters: those of the model file, changed by the command line."""
    from ..parameters import Parameter

    records = dict(file.parameters)

    def change_record(name: str, option: str, **values: Any) -> None:
        """Replace values in the record of a parameter or an initial value."""
        names = (*file.model.parameters, *(f"{state}(0)" for state in file.model.states))
        if name not in names:
            raise ModelError(
                f"{option}: {name!r} is not a parameter.{suggest_name(name, names)} The parameters are "
                f"{list_names(file.model.parameters)}."
            )
        records[name] = replace(records.get(name, Parameter()), **values)

    for word in args.fix:
        name, value = parse_named_number(word, "--fix")
        # A fixed parameter takes none of these, which the model file may have.
        change_record(name, "--fix", fixed=value, bounds=None, start=None, prior=None, log=False)
    for word in args.bounds:
        name, (low, high) = _parse_named_numbers(word, "--bounds", 2)
        change_record(name, "--bounds", bounds=(low, high))
    for name in args.log:
        change_record(name.strip(), "--log", log=True)
    random = [name.strip() for name in args.random]
    return {"parameters": records, "units": file.units, **({"random": random} if random else {})}


def parse_named_number(word: str, option: str) -> tuple[str, float]:
    """Return the name and the value of an argument such as `a=1.5`."""
    name, (value,) = _parse_named_numbers(word, option, 1)
    return name, value


def _parse_named_numbers(word: str, option: str, count: int) -> tuple[str, list[float]]:
    """Return the name and the `count` numbers of an argument such as `a=0,5`; `option` is named in the error."""
    name, _, text = word.partition("=")
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not name.strip() or len(values) != count:
        example = "a=1.5" if count == 1 else "a=0,5"
        raise ModelError(
            f"{option} takes {'name=value' if count == 1 else 'name=low,high'}, such as {example}; received {word!r}."
        )
    return name.strip(), values
