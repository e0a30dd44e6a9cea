"""What a user says of parameters on the command line, in place of the model file."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..support.errors import ModelError
from ..support.messages import listed, suggestion

if TYPE_CHECKING:
    from ..files.model_file import ModelFile


def add(parser: argparse.ArgumentParser) -> None:
    """The options."""
    parser.add_argument("--fix", action="append", default=[], metavar="NAME=VALUE", help="a parameter that is known")
    parser.add_argument("--bounds", action="append", default=[], metavar="NAME=LOW,HIGH", help="where one may be")
    parser.add_argument("--log", action="append", default=[], metavar="NAME", help="one to be found on a log scale")
    parser.add_argument("--random", action="append", default=[], metavar="NAME", help="one that varies over subjects")


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
