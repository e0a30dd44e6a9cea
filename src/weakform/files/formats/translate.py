"""SBML and Antimony as text equations, walked node by node; runs in a process of its own (see `isolated`).

Reactions become sums of kinetic laws over compartment sizes, rate rules are taken as they are, assignment rules become
abbreviations, functions are put in place. What comes out is text for our own parser and a table of values: nothing in
a file is evaluated. What has no counterpart in `u' = f(t, u, p)` (events, delays, algebraic rules, changing
compartments, piecewise functions) is named in the error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import symengine as se

from ...model.expressions import parse_expression
from ...model.functions import FUNCTIONS, RESERVED
from ...support.errors import ModelError
from .formulas import MAX_DEPTH, Formulas

REFUSED_PACKAGES = {"arrays", "comp", "dyn", "multi", "qual", "spatial"}


def _imports(text: str) -> bool:
    """Whether Antimony text may open another file: the word stands anywhere but in a comment at the end of a line."""
    for line in (*text.splitlines(), *re.sub(r"\\\s*\n", "", text).splitlines()):
        code = line.partition("//")[0]
        plain = not any(mark in code for mark in '"/') and "*/" not in line
        if re.search(r"\bimport\b", code if plain else line):
            return True
    return False


def _library(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise ModelError(
            "SBML and Antimony need their libraries; install them with: pip install 'weakform[sbml]'"
        ) from None


def sbml_of_antimony(text: str, where: str) -> str:
    """Antimony text as an SBML document."""
    if _imports(text):
        raise ModelError(f"{where} imports another file; put everything into one.")
    antimony = _library("antimony")
    antimony.clearPreviousLoads()
    try:
        if antimony.loadAntimonyString(text) < 0:
            raise ModelError(f"{where} is not valid Antimony: {antimony.getLastError().strip()[:1000]}")
        return str(antimony.getSBMLString(antimony.getMainModuleName()))
    except UnicodeError:
        raise ModelError(f"{where} is not valid Antimony: it has characters other than ASCII.") from None
    finally:
        antimony.clearPreviousLoads()


def equations_of_sbml(text: str, where: str) -> dict[str, Any]:
    """An SBML document as equations.

    Returns
    -------
    dict
        `equations`, text; `states` and `parameters`, names; `values`, by name, where there are some; `constants`, the
        parameters that are known; `names`, of all that has an identifier; `defined`, identifiers that are formulas;
        `title`.
    """
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ModelError(f"{where} declares entities, which are not part of a model.")
    libsbml = _library("libsbml")
    document = libsbml.readSBMLFromString(text)
    for k in range(document.getNumErrors()):
        error = document.getError(k)
        if error.getSeverity() >= libsbml.LIBSBML_SEV_ERROR:
            raise ModelError(f"{where}, line {error.getLine()}: not valid SBML: {error.getMessage().strip()[:1000]}")
    model = document.getModel()
    if model is None:
        raise ModelError(f"{where} has no model.")
    for k in range(document.getNumPlugins()):
        package = document.getPlugin(k).getPackageName()
        if package in REFUSED_PACKAGES:
            raise ModelError(f"{where}: the SBML package {package!r} cannot be translated.")
    return _Document(libsbml, model, where).equations()


def equations_of_antimony(text: str, where: str) -> dict[str, Any]:
    """Antimony text as equations; the result is that of `equations_of_sbml`."""
    return equations_of_sbml(sbml_of_antimony(text, where), where)


def _petab(path: str, where: str) -> dict[str, Any]:
    from .petab_tables import tables

    return tables(path, where)


TASKS: dict[str, Callable[[str, str], Any]] = {
    "sbml": equations_of_sbml,
    "antimony": equations_of_antimony,
    "antimony to sbml": sbml_of_antimony,
    "petab": _petab,
}


class _Document(Formulas):
    """One SBML model, translated."""

    def __init__(self, libsbml: Any, model: Any, where: str) -> None:
        super().__init__(libsbml, model, where)
        self.values: dict[str, float] = {}
        self.rules: dict[str, str] = {}
        self.rates: dict[str, str] = {}
        self.failed: dict[str, ModelError] = {}

    def equations(self) -> dict[str, Any]:
        """What `equations_of_sbml` returns."""
        self.refuse()
        model = self.model
        for parameter in model.getListOfParameters():
            self._declare(parameter.getId(), parameter.getValue() if parameter.isSetValue() else math.nan)
        sizes = [compartment.getId() for compartment in model.getListOfCompartments()]
        for compartment in model.getListOfCompartments():
            self._declare(compartment.getId(), compartment.getSize() if compartment.isSetSize() else 1.0)
        species = [one.getId() for one in model.getListOfSpecies()]
        reactions = [reaction.getId() for reaction in model.getListOfReactions()]
        for name in (*species, *reactions):
            self._declare(name, math.nan)
        for rule in model.getListOfRules():
            if rule.getVariable() not in self.names:
                raise self.error(f"a rule sets {rule.getVariable()!r}, which is not a parameter or a species.")
            try:
                text = self.text(rule.getMath())
            except ModelError as error:  # it matters only if something needs this variable
                self.failed[rule.getVariable()] = error
                text = "0"
            (self.rates if rule.isRate() else self.rules)[rule.getVariable()] = text
        self._reactions()
        states = [s for s in self.values if s in self.rates]
        if not states:
            raise self.error("nothing changes in time: there are no reactions and no rate rules.")
        begun = self._beginnings(self._initial_values(), states)
        needed = self._ordered([*(self.rates[s] for s in states), *begun.values()])
        for key in (*needed, *states):
            if key in self.failed:
                raise self.failed[key]
        needed += self._observed(needed, states, {*sizes, *reactions})
        texts = [*(self.rules[key] for key in needed), *(self.rates[key] for key in states), *begun.values()]
        used = {name for text in texts for name in _names(text)}
        plain = [key for key in sizes if key not in self.rules]
        lines = [f"{self.names[key]} = {self._size(key)}" for key in plain if self.names[key] in used]
        lines += [f"{self.names[key]} = {self.rules[key]}" for key in needed]
        lines += [f"{self.names[key]}' = {self.rates[key]}" for key in states]
        lines += [f"{self.names[key]}(0) = {text}" for key, text in begun.items()]
        other = {*self.rates, *self.rules, *sizes}
        parameters = [self.names[key] for key in self.values if key not in other and self.names[key] in used]
        known = {self.names[key]: value for key, value in self.values.items() if math.isfinite(value)}
        # A species that does not change is known, and so is what only tells the size of a compartment.
        formulas = [*(self.rates[s] for s in states), *begun.values(), *(self.names[key] for key in needed)]
        elsewhere = self._ordered(formulas, leave=set(sizes))
        direct = {n for text in (*(self.rules[k] for k in elsewhere), *formulas) for n in _names(text)}
        constants = {self.names[key] for key in species} | (set(parameters) - direct)
        return {
            "equations": "\n".join(lines),
            "states": [self.names[s] for s in states],
            "parameters": parameters,
            "values": {name: known[name] for name in (*parameters, *(self.names[s] for s in states)) if name in known},
            "constants": [name for name in parameters if name in constants],
            "names": self.names,
            "defined": sorted(set(self.rules) - set(reactions)),
            "title": model.getName() or model.getId(),
        }

    def _beginnings(self, assigned: dict[str, str], states: list[str]) -> dict[str, str]:
        """Initial values of states that are formulas of parameters, and of other states at the beginning."""
        moving = {self.names[key] for key in states}
        found = {}
        for key in states:
            text = assigned.get(key, "")
            if not math.isfinite(self.values[key]):
                continue  # the root of a negative number says nothing
            if not _names(text) - {self.names[c.getId()] for c in self.model.getListOfCompartments()}:
                continue  # a number, however it is written, is a value for a simulation
            found[key] = re.sub(r"[^\W\d]\w*", lambda m: f"{m[0]}(0)" if m[0] in moving else m[0], text)
        return found

    def _observed(self, needed: list[str], states: list[str], others: set[str]) -> list[str]:
        """Further rules that tell something of the states, and may be measured, in their order."""
        moving = {self.names[key] for key in states}
        found: list[str] = []
        for key in self.rules:
            if key in (*needed, *found, *self.failed, *others):
                continue
            chain = self._ordered([self.names[key]])
            names = {name for each in chain for name in _names(self.rules[each])}
            if names & moving and not any(each in self.failed for each in chain):
                found += [each for each in chain if each not in (*needed, *found)]
        return found

    def _ordered(self, texts: list[str], leave: set[str] | None = None) -> list[str]:
        """The rules, but those to `leave`, that some formulas need, each after those which it needs itself."""
        back = {self.names[key]: key for key in self.rules if key not in (leave or ())}
        order: list[str] = []
        state: dict[str, bool] = {}  # False while what it needs is looked up, True when that is done

        def visit(text: str) -> None:
            for name in sorted(_names(text) & back.keys()):
                key = back[name]
                if state.get(key) is False:
                    raise self.error(f"assignment rules depend on one another in a circle: {key!r} needs itself.")
                if key in state:
                    continue
                if len(state) - len(order) > MAX_DEPTH:
                    raise self.error(f"more than {MAX_DEPTH} assignment rules need one another in a row.")
                state[key] = False
                visit(self.rules[key])
                state[key] = True
                order.append(key)

        for text in texts:
            visit(text)
        return order

    def _initial_values(self) -> dict[str, str]:
        """Compute values at the start that are given as formulas, and return those of initial assignments.

        Those that cannot be computed stay unknown. A constant parameter that is a formula of constant parameters is a
        definition, and stays one.
        """
        formulas: dict[str, str] = {}
        assigned: dict[str, str] = {}
        for species in self.model.getListOfSpecies():
            formulas |= self._initial(species)
        for assignment in self.model.getListOfInitialAssignments():
            if assignment.getSymbol() not in self.names:
                raise self.error(
                    f"an initial assignment sets {assignment.getSymbol()!r}, which is not a parameter or a species."
                )
            formulas[assignment.getSymbol()] = assigned[assignment.getSymbol()] = self.text(assignment.getMath())
            self.values[assignment.getSymbol()] = math.nan
        self._define(formulas)
        texts = {key: text for key, text in {**self.rules, **formulas}.items() if key not in self.failed}
        try:
            pending = {key: parse_expression(text, self._known(), "formula") for key, text in texts.items()}
        except ModelError as error:
            raise self.error(str(error)) from None
        found = {self.names[k]: v for k, v in self.values.items() if k not in pending and math.isfinite(v)} | {"t": 0.0}
        while True:
            ready = [key for key, expr in pending.items() if {str(s) for s in expr.free_symbols} <= found.keys()]
            if not ready:
                break
            symbols = {se.Symbol(name): value for name, value in found.items()}
            for key in ready:
                try:
                    value = float(pending.pop(key).subs(symbols))
                except (RuntimeError, TypeError, ValueError, ZeroDivisionError):  # not a number, whatever the reason
                    value = math.nan
                if math.isfinite(value):
                    found[self.names[key]] = value
                    if key in formulas:
                        self.values[key] = value
        return assigned

    def _define(self, formulas: dict[str, str]) -> None:
        """Move definitions among the initial assignments to the rules."""
        model = self.model
        own = {one.getId() for one in (*model.getListOfParameters(), *model.getListOfCompartments())}
        own -= {*self.rates, *self.rules}
        back = {name: key for key, name in self.names.items()}
        constant = own - set(formulas)
        while True:
            ready = []
            for key in own & set(formulas):
                needs = {back.get(name, name) for name in _names(formulas[key])} - set(FUNCTIONS) - {"pi"}
                # A number, however it is written, is a value and no definition.
                if needs and needs <= constant:
                    ready.append(key)
            if not ready:
                return
            for key in ready:
                self.rules[key] = formulas.pop(key)
                constant.add(key)

    def _known(self) -> list[str]:
        return [*self.names.values(), "t"]

    def _declare(self, identifier: str, value: float) -> None:
        name = identifier
        while name in RESERVED or name in FUNCTIONS or name in self.names.values():
            name += "_"
        self.values[identifier], self.names[identifier] = value, name

    def _initial(self, species: Any) -> dict[str, str]:
        """The initial value of a species as a formula: in the file it may be an amount or a concentration."""
        amount, size = species.getHasOnlySubstanceUnits(), self.names.get(species.getCompartment())
        if species.isSetInitialConcentration():
            value, by = species.getInitialConcentration(), f"*{size}" if amount and size else ""
        elif species.isSetInitialAmount():
            value, by = species.getInitialAmount(), f"/{size}" if not amount and size else ""
        else:
            return {}
        return {species.getId(): f"({value!r}){by}"} if math.isfinite(value) else {}

    def _reactions(self) -> None:
        sums: dict[str, list[str]] = {}
        for reaction in self.model.getListOfReactions():
            name, law = reaction.getId(), reaction.getKineticLaw()
            if not name:
                raise self.error("a reaction has no identifier.")
            if law is None or law.getMath() is None:
                raise self.error(f"the reaction {name!r} has no kinetic law.")
            local: dict[str, str] = {}
            for parameter in (law.getParameter(j) for j in range(law.getNumParameters())):
                own = f"{name}_{parameter.getId()}"
                while own in self.names:
                    own += "_"
                self._declare(own, parameter.getValue() if parameter.isSetValue() else math.nan)
                local[parameter.getId()] = self.names[own]
            self.rules[name], rate = self.text(law.getMath(), local), self.names[name]
            for sign, references in (("-", reaction.getListOfReactants()), ("+", reaction.getListOfProducts())):
                for reference in references:
                    species = self.model.getSpecies(reference.getSpecies())
                    if species is None:
                        raise self.error(f"the reaction {name!r} names an unknown species.")
                    if species.getBoundaryCondition() or species.getConstant() or species.getId() in self.rates:
                        continue
                    weight = f"{self._stoichiometry(reference, name)!r}*"
                    sums.setdefault(species.getId(), []).append(f"{sign} {'' if weight == '1.0*' else weight}{rate}")
        for identifier, terms in sums.items():
            if identifier in self.rules:
                raise self.error(f"{identifier!r} is changed by reactions and set by a rule.")
            species = self.model.getSpecies(identifier)
            if species.getCompartment() not in self.names:
                raise self.error(f"the species {identifier!r} is in a compartment that is not there.")
            size = "" if species.getHasOnlySubstanceUnits() else f"/{self.names[species.getCompartment()]}"
            self.rates[identifier] = f"({' '.join(terms)}){size}" if size else " ".join(terms)

    def _stoichiometry(self, reference: Any, reaction: str) -> float:
        changed = reference.isSetId() and (
            self.model.getRuleByVariable(reference.getId()) or self.model.getInitialAssignment(reference.getId())
        )
        weight = float(reference.getStoichiometry()) if reference.isSetStoichiometry() else 1.0
        weight /= float(reference.getDenominator() or 1)
        if reference.isSetStoichiometryMath() or changed or not math.isfinite(weight):
            raise self.error(f"the stoichiometry in {reaction!r} is not a number.")
        return weight

    def _size(self, compartment: str) -> str:
        size = self.values.get(compartment, math.nan)
        if not 0 < size < math.inf:
            raise self.error(f"the compartment {compartment!r} has no size.")
        return repr(size)


def _names(text: str) -> set[str]:
    """Every name in a formula; the e of 1e-05 is none."""
    return set(re.findall(r"(?<![\w.])[^\W\d]\w*", text))
