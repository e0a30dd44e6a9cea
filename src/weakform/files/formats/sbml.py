"""SBML and Antimony models, in and out; the libraries for them work in a process of their own (see `isolated`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import symengine as se

from ...inference.fitted_states import beginning
from ...model.equations import read_equations
from ...model.events import Event
from ...model.expression_text import Dialect, to_text
from ...model.expressions import parse_expression
from ...model.model import Model
from ...parameters import Parameter
from ...support.errors import ModelError
from ..model_file import ModelFile, read_text
from .subprocess_reader import ask

if TYPE_CHECKING:
    from ...results.fit_result import FitResult

MAX_BYTES = 20_000_000
_KEYWORDS = """
abs acos after and arccos arccosh arcsin arcsinh arctan arctanh area asin at atan avogadro bernoulli binomial
cauchy ceil chisquare compartment const constraint cos cosh cot csc delay delete divide dna end eq event exp
exponential exponentiale factorial false floor formula function gamma gene geq gt has implies import in inf
infinity is laplace length leq ln log log10 lognormal lt max maximize min minimize minus model module nan neq
normal not notanumber operator or pi piecewise plus poisson pow power quotient rateof rayleigh reaction rem root
sec sin sinh species sqr sqrt substance substanceonly tan tanh time times true truncatednormal uniform unit var
volume xor
"""
"""Names that Antimony or SBML keeps for itself."""
_FUNCTIONS = {name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")}
_FUNCTIONS |= {"log": "ln", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_FUNCTIONS |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}


def read_sbml(path: str | Path) -> ModelFile:
    """A model from an SBML file; parameter values are the start, initial values the initial state."""
    path = Path(path)
    return from_sbml(read_text(path, "SBML file", MAX_BYTES), str(path), path.stem)


def read_antimony(path: str | Path) -> ModelFile:
    """A model from an Antimony file."""
    path = Path(path)
    return from_antimony(read_text(path, "Antimony file"), str(path), path.stem)


def from_antimony(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """A model from Antimony text."""
    return assembled(ask("antimony", text, where), where, name)


def from_sbml(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """A model from the text of an SBML document."""
    return assembled(ask("sbml", text, where), where, name)


def assembled(found: dict[str, Any], where: str, name: str) -> ModelFile:
    """A model file from what `translate.equations_of_sbml` found."""
    try:
        read = read_equations(found["equations"], tuple(found["parameters"]), ())
    except ModelError as error:
        raise ModelError(f"{where}, as equations: {error}") from None
    model = Model(
        read.expressions,
        read.states,
        read.parameters,
        observables=read.observables,
        initial=read.initial,
        events=events_of(found, (*read.states, *read.parameters), read.observables),
        switches=read.switches,
    ).measured_by(tuple(read.observables))  # without parameters that cancel
    values = found["values"]
    constants = set(found["constants"])
    return ModelFile(
        model,
        name,
        parameters={
            p: Parameter(fixed=values[p]) if p in constants else Parameter(start=values[p])
            for p in model.parameters
            if p in values
        },
        initial={s: values[s] for s in model.states if s in values},
        title=found["title"] or name,
        equations=str(model),
    )


def events_of(found: dict[str, Any], names: tuple[str, ...], defined: dict[str, Any]) -> list[Event]:
    """Events as expressions."""
    here = {se.Symbol(name): expr for name, expr in defined.items()}

    def read(text: str) -> Any:
        return parse_expression(text, ["t", *names, *defined], "event").subs(here)

    made = []
    for event in found["events"]:
        after = {s: read(text) for s, text in event["after"].items()}
        flags = {name: bool(event[name]) for name in ("waits", "together", "late")}
        one = Event(read(event["trigger"]), after, **flags)
        if any(str(s).startswith("if(") for e in (one.trigger, *after.values()) for s in e.free_symbols):
            raise ModelError("an event depends on a piecewise expression, which cannot be translated.")
        made.append(one)
    return made


def to_antimony(model: Model, values: dict[str, float], initial: dict[str, float], name: str = "weakform_model") -> str:
    """A model as Antimony text: rate rules, parameter values, initial states.

    Names that Antimony keeps for itself get an underscore; a comment says so.
    """
    if model.driven or model.variants or model.events:
        raise ModelError("A model with inputs, switches, events or local parameters has no Antimony form.")
    plain: dict[str, str] = {}
    for own in (*model.states, *model.parameters):
        other = re.sub(r"[^0-9A-Za-z_]", "_", own.replace("'", "_prime"))
        while (
            other.lower() in _KEYWORDS.split()
            or other in plain.values()
            or (other != own and other in model.parameters)
        ):
            other += "_"
        plain[own] = other
    # Values first: Antimony keeps the order in which names are met.
    lines = [f"  // {other} is {own}" for own, other in plain.items() if own != other]
    lines += [f"  {plain[s]} = {float(initial.get(s, 0.0))!r};" for s in model.states]
    lines += [f"  {plain[p]} = {float(values[p])!r};" for p in model.parameters]
    dialect = Dialect("^", _FUNCTIONS, {"t": "time", **plain}, "Antimony")
    for state, expr in zip(model.states, model.expressions, strict=True):
        lines.append(f"  {plain[state]}' = {to_text(expr, dialect)};")
    return "\n".join([f"model {name}()", *lines, "end", ""])


def fitted(fit: FitResult) -> str:
    """A fitted model with its estimates and first initial state as Antimony text; its time 0 is the first sample."""
    begin, u0 = beginning(fit, 0)
    initial = dict(zip(fit.model.states, map(float, u0), strict=True))
    values = dict(zip(fit.model.parameters, map(float, fit.estimate), strict=True))
    return to_antimony(fit.model.shifted(begin) if begin else fit.model, values, initial)


def to_sbml(text: str, where: str = "this") -> str:
    """Antimony text as an SBML document."""
    return str(ask("antimony to sbml", text, where))
