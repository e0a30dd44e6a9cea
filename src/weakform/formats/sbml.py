"""SBML and Antimony models, in and out.

Reactions become sums of kinetic laws over compartment sizes, rate rules are taken as they are, assignment rules and
function definitions are put in place. Formulas are walked node by node and go through our own parser: nothing in a file
is evaluated. What has no counterpart in `u' = f(t, u, p)` (events, delays, algebraic rules, changing compartments,
piecewise functions) is named in the error.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import symengine as se

from ..errors import ModelError
from ..expressions import FUNCTIONS, RESERVED, Expr, parse_expression
from ..model import Model
from ..modelfile import MAX_BYTES, ModelFile, read_text

if TYPE_CHECKING:
    from ..result import FitResult

MAX_DEPTH = 60
_BINARY = {"AST_PLUS": "+", "AST_MINUS": "-", "AST_TIMES": "*", "AST_DIVIDE": "/"}
_CALLS = {
    "AST_FUNCTION_EXP": "exp",
    "AST_FUNCTION_LN": "log",
    "AST_FUNCTION_ABS": "abs",
    "AST_FUNCTION_SIN": "sin",
    "AST_FUNCTION_COS": "cos",
    "AST_FUNCTION_TAN": "tan",
    "AST_FUNCTION_ARCSIN": "asin",
    "AST_FUNCTION_ARCCOS": "acos",
    "AST_FUNCTION_ARCTAN": "atan",
    "AST_FUNCTION_SINH": "sinh",
    "AST_FUNCTION_COSH": "cosh",
    "AST_FUNCTION_TANH": "tanh",
    "AST_FUNCTION_ARCSINH": "asinh",
    "AST_FUNCTION_ARCCOSH": "acosh",
    "AST_FUNCTION_ARCTANH": "atanh",
}
_OUT = {"log": "ln", "asin": "arcsin", "acos": "arccos", "atan": "arctan"}
_OUT |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError:
        raise ModelError(
            "SBML and Antimony need their libraries; install them with: pip install 'weakform[sbml]'"
        ) from None


def read_sbml(path: str | Path) -> ModelFile:
    """A model from an SBML file; parameter values are the start, initial values the initial state."""
    path = Path(path)
    return from_sbml(read_text(path, "SBML file"), str(path), path.stem)


def read_antimony(path: str | Path) -> ModelFile:
    """A model from an Antimony file."""
    path = Path(path)
    return from_antimony(read_text(path, "Antimony file"), str(path), path.stem)


def from_antimony(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """A model from Antimony text."""
    if re.search(r"^\s*import\b", text, flags=re.M):
        raise ModelError(f"{where} imports another file; put everything into one.")
    return from_sbml(to_sbml(text, where), where, name)


def from_sbml(text: str, where: str = "model", name: str = "model") -> ModelFile:
    """A model from the text of an SBML document."""
    if len(text) > 20 * MAX_BYTES:
        raise ModelError(f"{where} has {len(text):,} characters, more than are read.")
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ModelError(f"{where} declares entities, which are not part of a model.")
    libsbml = _library("libsbml")
    document = libsbml.readSBMLFromString(text)
    for k in range(document.getNumErrors()):
        error = document.getError(k)
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            raise ModelError(f"{where}, line {error.getLine()}: not valid SBML: {error.getMessage().strip()}")
    model = document.getModel()
    if model is None:
        raise ModelError(f"{where} has no model.")
    for conversion in ("expandFunctionDefinitions", "expandInitialAssignments"):
        properties = libsbml.ConversionProperties()
        properties.addOption(conversion, True)
        document.convert(properties)
    return _Reader(libsbml, document.getModel(), where).file(name)


class _Reader:
    """One SBML model, translated."""

    def __init__(self, libsbml: Any, model: Any, where: str) -> None:
        self.lib, self.model, self.where = libsbml, model, where
        self.kinds = {
            getattr(libsbml, n): n
            for n in dir(libsbml)
            if n.startswith("AST_") and isinstance(getattr(libsbml, n), int)
        }
        self._refuse()
        self.values: dict[str, float] = {}
        self.rules: dict[str, str] = {}
        self.rates: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what}")

    def _refuse(self) -> None:
        model = self.model
        if model.getNumEvents():
            raise self.error(
                f"the event {model.getEvent(0).getId() or 1!r} cannot be translated: states must be smooth."
            )
        for k in range(model.getNumRules()):
            if model.getRule(k).isAlgebraic():
                raise self.error("algebraic rules cannot be translated; solve them for a variable first.")
        for k in range(model.getNumCompartments()):
            compartment = model.getCompartment(k)
            if not compartment.getConstant() or model.getRuleByVariable(compartment.getId()) is not None:
                raise self.error(
                    f"the compartment {compartment.getId()!r} changes its size, which cannot be translated."
                )

    def file(self, name: str) -> ModelFile:
        model = self.model
        for k in range(model.getNumParameters()):
            parameter = model.getParameter(k)
            self._declare(parameter.getId(), parameter.getValue() if parameter.isSetValue() else float("nan"))
        for k in range(model.getNumCompartments()):
            compartment = model.getCompartment(k)
            self._declare(compartment.getId(), compartment.getSize() if compartment.isSetSize() else 1.0)
        for k in range(model.getNumSpecies()):
            self._declare(model.getSpecies(k).getId(), self._initial(model.getSpecies(k)))
        for k in range(model.getNumRules()):
            rule = model.getRule(k)
            (self.rates if rule.isRate() else self.rules)[rule.getVariable()] = self._text(rule.getMath())
        self._reactions()
        states = [s for s in self.values if s in self.rates]
        if not states:
            raise self.error("nothing changes in time: there are no reactions and no rate rules.")
        sizes = {model.getCompartment(k).getId() for k in range(model.getNumCompartments())}
        constants = {key for key in self.values if key not in self.rates and key not in self.rules}
        return self._assemble(name, states, constants, sizes)

    def _assemble(self, name: str, states: list[str], constants: set[str], sizes: set[str]) -> ModelFile:
        known = [*(self.names[s] for s in self.values), "t"]
        symbols = {key: se.Symbol(self.names[key]) for key in self.values}
        expressions = {key: self._parse(text, known) for key, text in {**self.rules, **self.rates}.items()}
        fixed = {symbols[key]: se.RealDouble(self.values[key]) for key in sizes}
        # Assignment rules may use one another: replace until nothing changes.
        for _ in range(len(self.rules) + 1):
            inner = {symbols[key]: expressions[key] for key in self.rules}
            changed = {key: expr.subs(inner) for key, expr in expressions.items()}
            if changed == expressions:
                break
            expressions = changed
        else:
            raise self.error("assignment rules depend on one another in a circle.")
        right = tuple(expressions[key].subs(fixed) for key in states)
        used = {str(symbol) for expr in right for symbol in expr.free_symbols}
        parameters = tuple(
            self.names[key] for key in self.values if key in constants - sizes and self.names[key] in used
        )
        model = Model.__new__(Model)
        model._set(tuple(self.names[key] for key in states), parameters, right)
        species = {self.names[self.model.getSpecies(k).getId()] for k in range(self.model.getNumSpecies())}
        back = {self.names[key]: value for key, value in self.values.items()}
        finite = {p: back[p] for p in parameters if back[p] == back[p]}
        return ModelFile(
            model,
            name,
            ("gaussian",) * len(states),
            start={p: v for p, v in finite.items() if p not in species},
            # A species that does not change is known.
            fixed={p: v for p, v in finite.items() if p in species},
            initial={s: back[s] for s in model.states if back[s] == back[s]},
            title=self.model.getName() or self.model.getId() or name,
            equations=str(model),
        )

    def _parse(self, text: str, known: list[str]) -> Expr:
        try:
            return parse_expression(text, known, "formula")
        except ModelError as error:
            raise self.error(str(error)) from None

    def _declare(self, identifier: str, value: float) -> None:
        name = identifier
        while name in RESERVED or name in FUNCTIONS or name in self.names.values():
            name += "_"
        self.values[identifier], self.names[identifier] = value, name

    def _initial(self, species: Any) -> float:
        size = self.model.getCompartment(species.getCompartment())
        volume = size.getSize() if size is not None and size.isSetSize() else 1.0
        if species.getHasOnlySubstanceUnits():
            if species.isSetInitialAmount():
                return float(species.getInitialAmount())
            return (
                float(species.getInitialConcentration() * volume)
                if species.isSetInitialConcentration()
                else float("nan")
            )
        if species.isSetInitialConcentration():
            return float(species.getInitialConcentration())
        return float(species.getInitialAmount() / volume) if species.isSetInitialAmount() else float("nan")

    def _reactions(self) -> None:
        sums: dict[str, list[str]] = {}
        for k in range(self.model.getNumReactions()):
            reaction = self.model.getReaction(k)
            law = reaction.getKineticLaw()
            if law is None or law.getMath() is None:
                raise self.error(f"the reaction {reaction.getId()!r} has no kinetic law.")
            local: dict[str, str] = {}
            for j in range(law.getNumParameters()):
                parameter = law.getParameter(j)
                own = f"{reaction.getId()}_{parameter.getId()}"
                self._declare(own, parameter.getValue() if parameter.isSetValue() else float("nan"))
                local[parameter.getId()] = own
            rate = self._text(law.getMath(), local)
            for sign, count, take in (
                ("-", reaction.getNumReactants(), reaction.getReactant),
                ("+", reaction.getNumProducts(), reaction.getProduct),
            ):
                for j in range(count):
                    reference = take(j)
                    species = self.model.getSpecies(reference.getSpecies())
                    if species is None:
                        raise self.error(f"the reaction {reaction.getId()!r} names an unknown species.")
                    if species.getBoundaryCondition() or species.getConstant() or species.getId() in self.rates:
                        continue
                    if reference.isSetStoichiometryMath() or (
                        reference.isSetId() and self.model.getRuleByVariable(reference.getId())
                    ):
                        raise self.error(f"the stoichiometry in {reaction.getId()!r} is not a number.")
                    weight = reference.getStoichiometry() if reference.isSetStoichiometry() else 1.0
                    sums.setdefault(species.getId(), []).append(f"{sign} {float(weight)!r}*({rate})")
        for identifier, terms in sums.items():
            if identifier in self.rules:
                raise self.error(f"{identifier!r} is changed by reactions and set by a rule.")
            species = self.model.getSpecies(identifier)
            total = " ".join(terms)
            by = "" if species.getHasOnlySubstanceUnits() else f"/({self.names[species.getCompartment()]})"
            self.rates[identifier] = f"({total}){by}"

    def _text(self, node: Any, local: dict[str, str] | None = None, depth: int = 0) -> str:
        """A formula as text for our parser."""
        if node is None or depth > MAX_DEPTH:
            raise self.error("a formula is missing, or nested too deep.")
        kind = self.kinds.get(node.getType(), str(node.getType()))
        inside = [node.getChild(k) for k in range(node.getNumChildren())]

        def shown(child: Any) -> str:
            return self._text(child, local, depth + 1)

        if kind in ("AST_INTEGER", "AST_REAL", "AST_REAL_E", "AST_RATIONAL"):
            value = float(node.getValue())
            return f"({value!r})" if kind != "AST_INTEGER" else f"({int(value)})"
        if kind == "AST_NAME":
            identifier = (local or {}).get(node.getName(), node.getName())
            if identifier not in self.names:
                raise self.error(f"{node.getName()!r} is used in a formula, but nothing has this name.")
            return self.names[identifier]
        if kind == "AST_NAME_TIME":
            return "t"
        if kind == "AST_CONSTANT_PI":
            return "pi"
        if kind == "AST_CONSTANT_E":
            return "exp(1)"
        if kind == "AST_MINUS" and len(inside) == 1:
            return f"(-({shown(inside[0])}))"
        if kind in _BINARY and inside:
            return "(" + f" {_BINARY[kind]} ".join(f"({shown(child)})" for child in inside) + ")"
        if kind in _BINARY:
            return "0" if kind == "AST_PLUS" else "1"
        if kind in ("AST_POWER", "AST_FUNCTION_POWER") and len(inside) == 2:
            return f"(({shown(inside[0])})**({shown(inside[1])}))"
        if kind == "AST_FUNCTION_ROOT" and inside:
            degree = shown(inside[0]) if len(inside) == 2 else "2"
            return f"(({shown(inside[-1])})**(1/({degree})))"
        if kind == "AST_FUNCTION_LOG" and inside:
            base = shown(inside[0]) if len(inside) == 2 else "10"
            return f"(log({shown(inside[-1])})/log({base}))"
        if kind in _CALLS and len(inside) == 1:
            return f"{_CALLS[kind]}({shown(inside[0])})"
        what = node.getName() or kind.removeprefix("AST_").removeprefix("FUNCTION_").lower()
        raise self.error(
            f"{what!r} in a formula cannot be translated; right-hand sides must be smooth and without delays."
        )


def to_antimony(model: Model, values: dict[str, float], initial: dict[str, float], name: str = "weakform_model") -> str:
    """A model as Antimony text: rate rules, parameter values, initial states."""
    if model.inputs or model.variants:
        raise ModelError("A model with inputs or local parameters has no Antimony form.")
    plain = {s: s.replace("'", "_prime") for s in model.states}
    # Values first: Antimony keeps the order in which names are met.
    lines = [f"model {name}()"]
    lines += [f"  {plain[s]} = {float(initial.get(s, 0.0))!r};" for s in model.states]
    lines += [f"  {p} = {float(values[p])!r};" for p in model.parameters]
    for state, expr in zip(model.states, model.expressions, strict=True):
        lines.append(f"  {plain[state]}' = {_formula(expr, plain)};")
    return "\n".join([*lines, "end", ""])


def _formula(expr: Expr, plain: dict[str, str]) -> str:
    if expr.is_Symbol:
        return {"t": "time"}.get(str(expr), plain.get(str(expr), str(expr)))
    if expr == se.pi:
        return "pi"
    if expr.is_Number:
        return f"({expr})" if expr.is_Rational else f"({float(expr)!r})"
    if expr.is_Add:
        return "(" + " + ".join(_formula(term, plain) for term in expr.args) + ")"
    if expr.is_Mul:
        return "*".join(_formula(factor, plain) for factor in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        if base == se.E:
            return f"exp({_formula(exponent, plain)})"
        return f"({_formula(base, plain)})^({_formula(exponent, plain)})"
    name = type(expr).__name__.lower()
    if name not in (*_OUT, "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp"):
        raise ModelError(f"{name!r} has no Antimony form.")
    return f"{_OUT.get(name, name)}({_formula(expr.args[0], plain)})"


def fitted(fit: FitResult) -> str:
    """A fitted model with its estimates and first initial state as Antimony text."""
    initial = dict(zip(fit.model.states, map(float, fit.denoised[0][0]), strict=True))
    return to_antimony(fit.model, dict(zip(fit.model.parameters, map(float, fit.estimate), strict=True)), initial)


def to_sbml(text: str, where: str = "this") -> str:
    """Antimony text as an SBML document."""
    antimony = _library("antimony")
    antimony.clearPreviousLoads()
    try:
        if antimony.loadAntimonyString(text) < 0:
            raise ModelError(f"{where} is not valid Antimony: {antimony.getLastError().strip()}")
        return str(antimony.getSBMLString(antimony.getMainModuleName()))
    finally:
        antimony.clearPreviousLoads()
