"""One SBML document, walked node by node.

Reactions become sums of kinetic laws over compartment sizes, rate rules are taken as they are, assignment rules become
abbreviations, algebraic rules are solved for the symbol that nothing else determines, functions are put in place. What
comes out is text for our own parser and a table of values: nothing in a file is evaluated.

A species is a concentration, or an amount where the file says so. Where a compartment changes its size V, amounts stay:
`c' = (what reactions do)/V - c V'/V`, and when V jumps, c is multiplied by the old size over the new. What an event
changes is a state, of which the equation may be `x' = 0`.
"""

from __future__ import annotations

import math
import re
from typing import Any

import symengine as se

from ...model.expressions import parse_expression
from ...model.function_table import FUNCTIONS, RESERVED
from ...support.errors import ModelError
from .sbml_dynamics import Happenings
from .sbml_formulas import MAX_DEPTH, Formulas, names_in


class Document(Happenings, Formulas):
    """One SBML model, translated."""

    def __init__(
        self,
        libsbml: Any,
        model: Any,
        where: str,
        kept: frozenset[str] = frozenset(),
        moving: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(libsbml, model, where)
        self.kept = kept
        self.moving = moving | self._event_targets
        self.values: dict[str, float] = {}
        self.rules: dict[str, str] = {}
        self.rates: dict[str, str] = {}
        self.defaults: dict[str, str] = {}
        self.failed: dict[str, ModelError] = {}

    def equations(self) -> dict[str, Any]:
        """What `equations_of_sbml` returns."""
        self.refuse()
        model = self.model
        for parameter in model.getListOfParameters():
            self._declare(parameter.getId(), parameter.getValue() if parameter.isSetValue() else math.nan)
        self.sizes = [compartment.getId() for compartment in model.getListOfCompartments()]
        for compartment in model.getListOfCompartments():
            self._declare(compartment.getId(), compartment.getSize() if compartment.isSetSize() else 1.0)
        species = [one.getId() for one in model.getListOfSpecies()]
        reactions = [reaction.getId() for reaction in model.getListOfReactions()]
        for name in (*species, *reactions):
            self._declare(name, math.nan)
        self._references()
        self._rules()
        self._reactions()
        self._rates_of()
        self._growing()
        self._still()
        states = [s for s in self.values if s in self.rates]
        if not states and self.kept:  # its parameters alone may be measured
            self._declare("nothing_changes", 0.0)
            self.rates["nothing_changes"], states = "0", ["nothing_changes"]
        if not states:
            raise self.error("nothing changes in time: there are no reactions, rate rules and events.")
        assigned = self._initial_values()
        begun = self._beginnings(assigned, states)
        events = self.events()
        happens = [text for event in events for text in (event["trigger"], *event["after"].values())]
        needed = self._ordered([*(self.rates[s] for s in states), *begun.values(), *happens, *self.defaults.values()])
        for key in (*needed, *states):
            if key in self.failed:
                raise self.failed[key]
        needed += self._observed(needed, states, {*self.sizes, *reactions})
        texts = [*(self.rules[key] for key in needed), *(self.rates[key] for key in states), *begun.values(), *happens]
        all_begun = self._all_beginnings(assigned, states) if self.kept else {}
        used = {name for text in (*texts, *self.defaults.values(), *all_begun.values()) for name in names_in(text)}
        used |= {self.names[key] for key in self.kept if key in self.names}
        fixed = [key for key in self.sizes if key not in self.rules and key not in self.rates and key not in self.kept]
        lines = [f"{self.names[key]} = {self._size(key)}" for key in fixed if self.names[key] in used]
        lines += [f"{self.names[key]} = {self.rules[key]}" for key in needed]
        lines += [f"{self.names[key]}' = {self.rates[key]}" for key in states]
        lines += [f"{self.names[key]}(0) = {text}" for key, text in begun.items()]
        other = {*self.rates, *self.rules, *fixed}
        parameters = [self.names[key] for key in self.values if key not in other and self.names[key] in used]
        known = {self.names[key]: value for key, value in self.values.items() if math.isfinite(value)}
        # A species that does not change is known, and so is what only tells the size of a compartment.
        formulas = [*(self.rates[s] for s in states), *begun.values(), *(self.names[key] for key in needed)]
        elsewhere = self._ordered(formulas, leave=set(self.sizes))
        direct = {n for text in (*(self.rules[k] for k in elsewhere), *formulas) for n in names_in(text)}
        constants = {self.names[key] for key in species} | (set(parameters) - direct)
        return {
            "equations": "\n".join(lines),
            "states": [self.names[s] for s in states],
            "parameters": parameters,
            "values": {name: known[name] for name in (*parameters, *(self.names[s] for s in states)) if name in known},
            "constants": [name for name in parameters if name in constants],
            "names": self.names,
            "defined": sorted(set(self.rules) - set(reactions)),
            "begins": all_begun,
            "defaults": {self.names[key]: text for key, text in self.defaults.items()},
            "events": events,
            "title": model.getName() or model.getId(),
        }

    def _rules(self) -> None:
        algebraic = []
        for rule in self.model.getListOfRules():
            if rule.isAlgebraic():
                algebraic.append(self.text(rule.getMath()))
                continue
            if rule.getVariable() not in self.names:
                raise self.error(f"a rule sets {rule.getVariable()!r}, which is not a parameter or a species.")
            try:
                text = self.text(rule.getMath())
            except ModelError as error:  # it matters only if something needs this variable
                self.failed[rule.getVariable()] = error
                text = "0"
            (self.rates if rule.isRate() else self.rules)[rule.getVariable()] = text
        for text in algebraic:
            self._solve(text)

    def _solve(self, text: str) -> None:
        """An algebraic rule, `0 = text`, solved for the one symbol in it that nothing else determines."""
        try:
            expr = parse_expression(text, self._known(), "algebraic rule", {})
        except ModelError as error:
            raise self.error(str(error)) from None
        moved = {
            reference.getSpecies()
            for reaction in self.model.getListOfReactions()
            for reference in (*reaction.getListOfReactants(), *reaction.getListOfProducts())
        }
        inside = {str(symbol) for symbol in expr.free_symbols}
        for key, name in self.names.items():
            one = self.model.getElementBySId(key)
            still = one is None or (hasattr(one, "getConstant") and one.getConstant())
            reacts = key in moved and not (hasattr(one, "getBoundaryCondition") and one.getBoundaryCondition())
            if name not in inside or still or reacts or key in self.rules or key in self.rates:
                continue
            slope = expr.diff(se.Symbol(name))
            if slope != 0 and se.Symbol(name) not in slope.free_symbols:
                from ...model.expression_text import to_text

                self.rules[key] = to_text(-expr.subs({se.Symbol(name): 0}) / slope)
                return
        raise self.error("an algebraic rule cannot be solved for one symbol; solve it for a variable first.")

    def _all_beginnings(self, assigned: dict[str, str], states: list[str]) -> dict[str, str]:
        """The initial value of each state as a formula, where there is one."""
        moving = {self.names[key] for key in states}
        found = {}
        for key in states:
            one = self.model.getSpecies(key)
            text = assigned.get(key) or (self._initial(one).get(key) if one is not None else None)
            if text is None and math.isfinite(self.values[key]):
                text = repr(self.values[key])
            if text is not None:
                found[self.names[key]] = _begun(text, moving)
        return found

    def _beginnings(self, assigned: dict[str, str], states: list[str]) -> dict[str, str]:
        """Initial values of states that are formulas of parameters, and of other states at the beginning."""
        moving = {self.names[key] for key in states}
        found = {}
        for key in states:
            text = assigned.get(key, "")
            if not math.isfinite(self.values[key]):
                continue  # the root of a negative number says nothing
            if not names_in(text) - {self.names[c.getId()] for c in self.model.getListOfCompartments()}:
                continue  # a number, however it is written, is a value for a simulation
            found[key] = _begun(text, moving)
        return found

    def _observed(self, needed: list[str], states: list[str], others: set[str]) -> list[str]:
        """Further rules that tell something of the states, and may be measured, in their order."""
        moving = {self.names[key] for key in states}
        found: list[str] = []
        for key in self.rules:
            if key in (*needed, *found, *self.failed, *others):
                continue
            chain = self._ordered([self.names[key]])
            names = {name for each in chain for name in names_in(self.rules[each])}
            if (names & moving or key in self.kept) and not any(each in self.failed for each in chain):
                found += [each for each in chain if each not in (*needed, *found)]
        return found

    def _ordered(self, texts: list[str], leave: set[str] | None = None) -> list[str]:
        """The rules, but those to `leave`, that some formulas need, each after those which it needs itself."""
        back = {self.names[key]: key for key in self.rules if key not in (leave or ())}
        order: list[str] = []
        state: dict[str, bool] = {}  # False while what it needs is looked up, True when that is done

        def visit(text: str) -> None:
            for name in sorted(names_in(text) & back.keys()):
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
            key = assignment.getSymbol()
            if key in self.weights:
                continue  # a stoichiometry, which is in its reaction
            if key not in self.names:
                raise self.error(f"an initial assignment sets {key!r}, which is not a parameter or a species.")
            formulas[key] = assigned[key] = self.text(assignment.getMath())
            self.values[key] = math.nan
        self._define(formulas)
        texts = {key: text for key, text in {**self.rules, **formulas}.items() if key not in self.failed}
        try:
            pending = {key: parse_expression(text, self._known(), "formula", {}) for key, text in texts.items()}
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
        """Move definitions among the initial assignments to the rules; those of kept parameters are defaults."""
        model = self.model
        own = {one.getId() for one in (*model.getListOfParameters(), *model.getListOfCompartments())}
        own -= {*self.rates, *self.rules}
        self.defaults = {key: formulas[key] for key in own & self.kept & set(formulas)}
        own -= self.kept
        back = {name: key for key, name in self.names.items()}
        # What an event or a later period sets is not constant: a formula of it holds at the beginning alone.
        constant = own - set(formulas) | (self.kept - self.moving)
        while True:
            ready = []
            for key in own & set(formulas):
                needs = {back.get(name, name) for name in names_in(formulas[key])} - set(FUNCTIONS) - {"pi"}
                # A number, however it is written, is a value and no definition.
                if needs and needs <= constant:
                    ready.append(key)
            if not ready:
                for key in own & set(formulas):
                    if {back.get(name, name) for name in names_in(formulas[key])} & self.kept:
                        self.defaults[key] = formulas[key]
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

    def _size(self, compartment: str) -> str:
        size = self.values.get(compartment, math.nan)
        if not 0 < size < math.inf:
            raise self.error(f"the compartment {compartment!r} has no size.")
        return repr(size)


def _begun(text: str, moving: set[str]) -> str:
    """A formula at the beginning: states in it are those then."""
    return re.sub(r"(?<![\w.])[^\W\d]\w*", lambda m: f"{m[0]}(0)" if m[0] in moving else m[0], text)
