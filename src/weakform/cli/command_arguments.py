"""What a user says on the command line in place of the model file: of the equations, the table, the parameters."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..support.errors import DataError, ModelError
from ..support.wording import listed, suggestion

if TYPE_CHECKING:
    from ..data.dataset import Dataset
    from ..files.model_file import ModelFile


def add(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--fix", action="append", default=[], metavar="NAME=VALUE", help="a parameter that is known")
    parser.add_argument("--bounds", action="append", default=[], metavar="NAME=LOW,HIGH", help="where one may be")
    parser.add_argument("--log", action="append", default=[], metavar="NAME", help="one to be found on a log scale")
    parser.add_argument("--random", action="append", default=[], metavar="NAME", help="one that varies over subjects")


def add_table(parser: argparse.ArgumentParser) -> None:
    """Options that say what a model has and what a table holds."""
    from ..noise.kinds import KINDS

    parser.add_argument("--time", metavar="COLUMN", help="the time column (default: the first)")
    parser.add_argument("--trajectory", metavar="COLUMN", help="the column that tells several experiments apart")
    parser.add_argument("--inputs", action="append", default=[], metavar="NAME", help="a known input of the model")
    parser.add_argument(
        "--observe", action="append", default=[], metavar="'NAME = EXPRESSION'", help="what is measured"
    )
    parser.add_argument("--sheet", metavar="NAME", help="of a spreadsheet (default: the first)")
    parser.add_argument("--noise", choices=tuple(KINDS), help="in place of the model file's")
    parser.add_argument("--doses", metavar="FILE", help="a table of doses: time, amount; id, state, duration")
    parser.add_argument("--into", metavar="STATE", help="the state that is dosed, where the table does not say")


def add_words(parser: argparse.ArgumentParser) -> None:
    """How much is said."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quiet", action="store_true", help="say nothing but errors; the exit code tells the rest")
    how.add_argument(
        "--verbose",
        action="store_true",
        help="report each stage as it begins, and print which strategies were tried and why",
    )


def watched(said: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `fit`: whether it shows how far it is."""
    if said.verbose:
        import logging

        logging.basicConfig(level=logging.INFO, format="weakform: %(message)s", stream=sys.stderr, force=True)
    return {"callback": _silent} if said.quiet or said.verbose else {}


def _silent(progress: object) -> None:
    del progress


def read(said: argparse.Namespace) -> ModelFile:
    """The model file, with inputs and what is measured as they are said."""
    from ..files.model_file import read_model
    from ..model.model import Model

    file = read_model(said.model)
    if not said.inputs and not said.observe:
        return file
    if not file.equations:
        raise ModelError(f"--inputs and --observe need equations as text; {said.model} has none. Use a TOML file.")
    inputs = tuple(dict.fromkeys([*file.inputs, *(n.strip() for word in said.inputs for n in word.split(","))]))
    text = "\n".join([file.equations, *said.observe])
    try:
        model = Model.from_text(text, inputs=inputs)
    except ModelError as error:
        raise ModelError(f"{said.model} with --inputs and --observe: {error}") from None
    return replace(file, model=model, inputs=inputs, equations=text)


def data(file: ModelFile, said: argparse.Namespace) -> Dataset:
    """The table."""
    from ..files.table_for_model import Reading, read_data

    if said.data is None:
        raise DataError(f"No table is given; write: weakform {said.command} {said.model} data.csv")
    if said.into is not None and said.doses is None:
        raise DataError(f"--into {said.into} says where the doses of a table go; give the table with --doses FILE.")
    return read_data(
        file, said.data, Reading(said.time, said.trajectory, said.noise, said.sheet, doses=said.doses, into=said.into)
    )


def arguments(file: ModelFile, said: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `fit`: those of the file, with what was said in their place."""
    from ..parameters import Parameter

    records = dict(file.parameters)

    def changed(name: str, option: str, **values: Any) -> None:
        known = (*file.model.parameters, *(f"{state}(0)" for state in file.model.states))
        if name not in known:
            raise ModelError(
                f"{option}: {name!r} is no parameter.{suggestion(name, known)} There are: "
                f"{listed(file.model.parameters)}."
            )
        records[name] = replace(records.get(name, Parameter()), **values)

    for word in said.fix:
        name, value = number(word, "--fix")
        changed(name, "--fix", fixed=value, bounds=None, start=None, prior=None, log=False)
    for word in said.bounds:
        name, (low, high) = _numbers(word, "--bounds", 2)
        changed(name, "--bounds", bounds=(low, high))
    for name in said.log:
        changed(name.strip(), "--log", log=True)
    random = [name.strip() for name in said.random]
    return {"parameters": records, "units": file.units, **({"random": random} if random else {})}


def number(word: str, option: str) -> tuple[str, float]:
    """A name and its value."""
    name, (value,) = _numbers(word, option, 1)
    return name, value


def _numbers(word: str, option: str, count: int) -> tuple[str, list[float]]:
    """A name and its numbers."""
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
