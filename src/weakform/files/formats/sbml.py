"""SBML and Antimony models, read and written.

The libraries for these formats run in a separate process (see `subprocess_reader`), which returns equations as text;
this module turns that text into a `Model`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import symengine as se

from ...inference.fitted_states import get_initial_state
from ...model.equations import read_equations
from ...model.events import Event
from ...model.expression_text import Dialect, format_expression
from ...model.expressions import parse_expression
from ...model.model import Model
from ...parameters import Parameter
from ...support.errors import ModelError
from ..model_file import ModelFile, read_text
from .subprocess_reader import run_in_subprocess

if TYPE_CHECKING:
    from ...results.fit_result import FitResult

MAX_SBML_BYTES = 20_000_000
"""Size of an SBML file in bytes above which it is refused unread. It is larger than for equations because XML is wordy;
memory and time of the translation are limited in `subprocess_reader`. By judgement."""
_KEYWORDS = """
abs acos after and arccos arccosh arcsin arcsinh arctan arctanh area asin at atan avogadro bernoulli binomial
cauchy ceil chisquare compartment const constraint cos cosh cot csc delay delete divide dna end eq event exp
exponential exponentiale factorial false floor formula function gamma gene geq gt has implies import in inf
infinity is laplace length leq ln log log10 lognormal lt max maximize min minimize minus model module nan neq
normal not notanumber operator or pi piecewise plus poisson pow power quotient rateof rayleigh reaction rem root
sec sin sinh species sqr sqrt substance substanceonly tan tanh time times true truncatednormal uniform unit var
volume xor
"""
"""Reserved words of Antimony and SBML, in lower case; a name of the model among them gets an underscore."""
_FUNCTIONS = {name: name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp")}
_FUNCTIONS |= {"log": "ln", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_FUNCTIONS |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
"""Antimony's name for each function that `to_antimony` can write."""


def read_sbml(path: str | Path) -> ModelFile:
    """Read a model from an SBML file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ModelFile
        Parameter values become starts, initial values the initial state.
    """
    path = Path(path)
    return from_sbml(read_text(path, "SBML file", MAX_SBML_BYTES), str(path), path.stem)


def read_antimony(path: str | Path) -> ModelFile:
    """Read a model from an Antimony file.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    ModelFile
        As for `read_sbml`.
    """
    path = Path(path)
    return from_antimony(read_text(path, "Antimony file"), str(path), path.stem)


def from_antimony(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """Read a model from Antimony text.

    Parameters
    ----------
    text : str
    where : str
        Name of the source in errors.
    name : str
        Name of the model.

    Returns
    -------
    ModelFile
        As for `read_sbml`.

    Raises
    ------
    ModelError
        If the text is not valid Antimony, or uses something that cannot be translated.
    """
    return assemble_model_file(run_in_subprocess("antimony", text, where), where, name)


def from_sbml(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """Read a model from the text of an SBML document.

    Parameters
    ----------
    text : str
    where : str
        Name of the source in errors.
    name : str
        Name of the model.

    Returns
    -------
    ModelFile
        As for `read_sbml`.

    Raises
    ------
    ModelError
        If the text is not valid SBML, or uses something that cannot be translated.
    """
    return assemble_model_file(run_in_subprocess("sbml", text, where), where, name)


def assemble_model_file(translated: dict[str, Any], where: str, name: str) -> ModelFile:
    """Build a model file from a translated document.

    Parameters
    ----------
    translated : dict
        As `translation.translate_sbml` returns it.
    where : str
        Name of the source in errors.
    name : str
        Name of the model.

    Returns
    -------
    ModelFile

    Raises
    ------
    ModelError
        If the equations or events are not valid for our own parser, for example because they are too large.
    """
    try:
        equations = read_equations(translated["equations"], tuple(translated["parameters"]), ())
    except ModelError as error:
        raise ModelError(f"{where}, as equations: {error}") from None
    model = Model(
        equations.expressions,
        equations.states,
        equations.parameters,
        observables=equations.observables,
        initial=equations.initial,
        events=build_events(translated, (*equations.states, *equations.parameters), equations.observables),
        switches=equations.switches,
    ).restrict_to_observables(tuple(equations.observables))  # drops parameters that cancel
    values = translated["values"]
    constants = set(translated["constants"])
    return ModelFile(
        model,
        name,
        parameters={
            p: Parameter(fixed=values[p]) if p in constants else Parameter(start=values[p])
            for p in model.parameters
            if p in values
        },
        initial={s: values[s] for s in model.states if s in values},
        title=translated["title"] or name,
        equations=str(model),
    )


def build_events(translated: dict[str, Any], names: tuple[str, ...], named_expressions: dict[str, Any]) -> list[Event]:
    """Build the events of a translated document.

    Parameters
    ----------
    translated : dict
        As `translation.translate_sbml` returns it.
    names : tuple of str
        States and parameters of the model.
    named_expressions : dict of str to expression
        Expressions of the model by name, which are substituted.

    Returns
    -------
    list of Event

    Raises
    ------
    ModelError
        If an event depends on a piecewise expression.
    """
    definitions = {se.Symbol(name): expr for name, expr in named_expressions.items()}

    def read(text: str) -> Any:
        return parse_expression(text, ["t", *names, *named_expressions], "event").subs(definitions)

    events = []
    for event in translated["events"]:
        after = {s: read(text) for s, text in event["after"].items()}
        flags = {name: bool(event[name]) for name in ("waits", "together", "late")}
        built = Event(read(event["trigger"]), after, **flags)
        if any(str(s).startswith("if(") for e in (built.trigger, *after.values()) for s in e.free_symbols):
            raise ModelError("an event depends on a piecewise expression, which cannot be translated.")
        events.append(built)
    return events


def to_antimony(model: Model, values: dict[str, float], initial: dict[str, float], name: str = "weakform_model") -> str:
    """Write a model as Antimony text: rate rules, parameter values and initial states.

    Names that Antimony reserves get an underscore; a comment in the text lists them.

    Parameters
    ----------
    model : Model
        Without inputs, switches, events and local parameters.
    values : dict of str to float
        Value of each parameter.
    initial : dict of str to float
        Initial value of each state; zero for states that are missing.
    name : str
        Name of the model.

    Returns
    -------
    str

    Raises
    ------
    ModelError
        If the model has parts that cannot be written.
    """
    if model.driving_names or model.variants or model.events:
        raise ModelError("A model with inputs, switches, events or local parameters cannot be written as Antimony.")
    antimony_names: dict[str, str] = {}
    for own_name in (*model.states, *model.parameters):
        written = re.sub(r"[^0-9A-Za-z_]", "_", own_name.replace("'", "_prime"))
        while (
            written.lower() in _KEYWORDS.split()
            or written in antimony_names.values()
            or (written != own_name and written in model.parameters)
        ):
            written += "_"
        antimony_names[own_name] = written
    # Values come first: Antimony keeps the order in which names appear, and so states keep the order of the model.
    lines = [f"  // {written} is {own_name}" for own_name, written in antimony_names.items() if own_name != written]
    lines += [f"  {antimony_names[s]} = {float(initial.get(s, 0.0))!r};" for s in model.states]
    lines += [f"  {antimony_names[p]} = {float(values[p])!r};" for p in model.parameters]
    dialect = Dialect("^", _FUNCTIONS, {"t": "time", **antimony_names}, "Antimony")
    for state, expr in zip(model.states, model.expressions, strict=True):
        lines.append(f"  {antimony_names[state]}' = {format_expression(expr, dialect)};")
    return "\n".join([f"model {name}()", *lines, "end", ""])


def write_fitted_antimony(fit: FitResult) -> str:
    """Write a fitted model as Antimony text, with the estimates and the initial state of the first trajectory.

    Time 0 of the text is the first sample.
    """
    begin, u0 = get_initial_state(fit, 0)
    initial = dict(zip(fit.model.states, map(float, u0), strict=True))
    values = dict(zip(fit.model.parameters, map(float, fit.estimate), strict=True))
    return to_antimony(fit.model.shift_time(begin) if begin else fit.model, values, initial)


def to_sbml(text: str, where: str = "this") -> str:
    """Translate Antimony text into the text of an SBML document; `where` names the text in errors."""
    return str(run_in_subprocess("antimony to sbml", text, where))
