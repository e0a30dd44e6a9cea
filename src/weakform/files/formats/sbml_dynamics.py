"""What changes in an SBML document, and when: reactions, compartments that grow, events."""

from __future__ import annotations

import math
from typing import Any

import symengine as se

from ...model.expression_text import to_text
from ...model.expressions import parse_expression
from ...support.errors import ModelError
from .sbml_formulas import Formulas, names_in


class Happenings(Formulas):
    """The part of `Document` that turns reactions and events into rates and jumps."""

    kept: frozenset[str]
    values: dict[str, float]
    rules: dict[str, str]
    rates: dict[str, str]
    sizes: list[str]
    weights: dict[str, str]

    def _declare(self, identifier: str, value: float) -> None:
        raise NotImplementedError

    def _known(self) -> list[str]:
        raise NotImplementedError

    def _references(self) -> None:
        """Stoichiometries that have a name, and formulas for them."""
        self.weights = {}
        self._named: dict[str, Any] = {}
        for reaction in self.model.getListOfReactions():
            for reference in (*reaction.getListOfReactants(), *reaction.getListOfProducts()):
                if reference.isSetId() and reference.getId():
                    self._named[reference.getId()] = reference
        for key, reference in self._named.items():
            rule, assignment = self.model.getRuleByVariable(key), self.model.getInitialAssignment(key)
            if rule is not None and rule.isRate():
                raise self.error(f"the stoichiometry {key!r} changes by a rate rule, which cannot be translated.")
            if rule is None and assignment is None:
                self.weights[key] = repr(float(reference.getStoichiometry()))
                self._declare(key, float(reference.getStoichiometry()))
            else:
                self._declare(key, math.nan)
        for key in self._named:
            rule, assignment = self.model.getRuleByVariable(key), self.model.getInitialAssignment(key)
            source = rule if rule is not None else assignment
            if source is not None:
                self.weights[key] = self.text(source.getMath())
                changing = {s.getId() for s in self.model.getListOfSpecies() if not s.getConstant()}
                changing |= {r.getVariable() for r in self.model.getListOfRules()} | self._event_targets
                if rule is None and names_in(self.weights[key]) & {self.names[k] for k in changing if k in self.names}:
                    raise self.error(f"the stoichiometry {key!r} begins with what changes, which cannot be translated.")
                if rule is None:
                    self.rules[key] = self.weights[key]

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
                    weight = f"{self._stoichiometry(reference, name)}*"
                    sums.setdefault(species.getId(), []).append(f"{sign} {'' if weight == '1.0*' else weight}{rate}")
        for identifier, terms in sums.items():
            if identifier in self.rules:
                raise self.error(f"{identifier!r} is changed by reactions and set by a rule.")
            species = self.model.getSpecies(identifier)
            if species.getCompartment() not in self.names:
                raise self.error(f"the species {identifier!r} is in a compartment that is not there.")
            whole = " ".join(terms)
            factor = self._conversion(species)
            whole = f"{factor}*({whole})" if factor else whole
            size = "" if species.getHasOnlySubstanceUnits() else f"/{self.names[species.getCompartment()]}"
            self.rates[identifier] = f"({whole}){size}" if size else whole

    def _conversion(self, species: Any) -> str:
        """The conversion factor of a species."""
        key = species.getConversionFactor() if species.isSetConversionFactor() else ""
        key = key or (self.model.getConversionFactor() if self.model.isSetConversionFactor() else "")
        if key and key not in self.names:
            raise self.error(f"the conversion factor {key!r} is not a parameter.")
        return self.names[key] if key else ""

    def _stoichiometry(self, reference: Any, reaction: str) -> str:
        if reference.isSetId() and reference.getId() in self.weights:
            return self.names[reference.getId()] if reference.getId() in self.rules else self.weights[reference.getId()]
        if reference.isSetStoichiometryMath():
            return self.text(reference.getStoichiometryMath().getMath())
        weight = float(reference.getStoichiometry()) if reference.isSetStoichiometry() else 1.0
        weight /= float(reference.getDenominator() or 1)
        if not math.isfinite(weight):
            raise self.error(f"the stoichiometry in {reaction!r} is not a number.")
        return repr(weight)

    @property
    def _event_targets(self) -> set[str]:
        """What events set."""
        events = self.model.getListOfEvents()
        return {one.getVariable() for event in events for one in event.getListOfEventAssignments()}

    def _rates_of(self) -> None:
        """Put rates in place of what asks for them, now that all are known."""
        if not self.asked:
            return
        if any(key in self.sizes for key in (*self.rates, *self.rules)):
            raise self.error("rateOf in a model with changing compartments cannot be translated.")
        for key in self.asked.values():
            if key in self.rules:
                raise self.error(f"rateOf {key!r} cannot be translated: a rule gives it.")
        for _ in range(len(self.asked) + 1):
            for texts in (self.rates, self.rules):
                for key, text in texts.items():
                    texts[key] = self._with_rates(text)
                    self.nodes += len(texts[key]) // 8
        for texts in (self.rates, self.rules):
            for key, text in texts.items():
                if any(placeholder in text for placeholder in self.asked):
                    raise self.error(f"rateOf depends on itself, in a circle: see {key!r}.")

    def _with_rates(self, text: str) -> str:
        for placeholder, target in self.asked.items():
            text = text.replace(placeholder, f"({self.rates.get(target, '0')})")
        return text

    def _growing(self) -> None:
        """Concentrations in compartments that change their size: `- c V'/V`."""
        for key in self.sizes:
            if key not in self.rates and key not in self.rules:
                continue
            self._smoothly(key)
            growth = self.rates.get(key) or self._pace(self.rules[key])
            if growth == "0":
                continue
            size = self.names[key]
            for species in self.model.getListOfSpecies():
                own = species.getId()
                if species.getCompartment() != key or species.getHasOnlySubstanceUnits() or own in self.rules:
                    continue
                if species.getConstant() or self.model.getRuleByVariable(own) is not None:
                    continue
                self.rates[own] = f"{self.rates.get(own, '0')} - {self.names[own]}*({growth})/{size}"

    def _smoothly(self, key: str) -> None:
        """Refuse a compartment that jumps by a rule, or whose size depends on what changes in others."""
        if key not in self.rules:
            return
        pending = [self.rules[key]]
        back = {name: k for k, name in self.names.items()}
        inside: set[str] = set()
        while pending:
            for name in parse_expression(pending.pop(), self._known(), "rule", {}).free_symbols:
                one = back.get(str(name), "")
                if one and one not in inside:
                    inside.add(one)
                    pending += [self.rules[one]] if one in self.rules else []
        switched = any(
            "piecewise" in t or "if(" in t for t in (self.rules[key], *(self.rules.get(k, "") for k in inside))
        )
        grown = {
            s.getId()
            for s in self.model.getListOfSpecies()
            if not s.getHasOnlySubstanceUnits() and s.getCompartment() in (*self.rates, *self.rules)
        }
        if inside & self._event_targets or switched or inside & grown:
            raise self.error(f"the size of the compartment {key!r} jumps, or depends on another one that changes.")

    def _pace(self, text: str) -> str:
        """The rate of change of a formula, by the chain rule."""
        try:
            expr = parse_expression(text, self._known(), "rule", {})
        except ModelError as error:
            raise self.error(str(error)) from None
        back = {name: key for key, name in self.names.items()}
        terms = [to_text(slope)] if (slope := expr.diff(se.Symbol("t"))) != 0 else []
        for symbol in sorted(expr.free_symbols, key=str):
            key = back.get(str(symbol))
            if key is None:
                continue
            pace = self.rates.get(key) or (self._pace(self.rules[key]) if key in self.rules else "0")
            if pace != "0":
                terms.append(f"({to_text(expr.diff(symbol))})*({pace})")
        return " + ".join(terms) or "0"

    def _still(self) -> None:
        """What events change is a state, even where nothing else changes it; a kept species, too."""
        for event in self.model.getListOfEvents():
            for assignment in event.getListOfEventAssignments():
                key = assignment.getVariable()
                if key not in self.names:
                    raise self.error(f"an event sets {key!r}, which is not a parameter, a species or a compartment.")
                if key in self.rules or key in self._named:
                    raise self.error(f"an event sets {key!r}, which a rule gives, or which is a stoichiometry.")
                self.rates.setdefault(key, "0")
        for species in self.model.getListOfSpecies():
            key = species.getId()
            if key in self.kept and key not in self.rules:
                self.rates.setdefault(key, "0")
            compartment = species.getCompartment()
            if compartment in self.rates and not species.getHasOnlySubstanceUnits() and key not in self.rules:
                self.rates.setdefault(key, "0")

    def events(self) -> list[dict[str, Any]]:
        """Events as triggers, new values and whether they wait."""
        found = []
        several = self.model.getNumEvents() > 1
        for k, event in enumerate(self.model.getListOfEvents()):
            name = event.getId() or str(k + 1)
            if event.isSetDelay() and self._number_of(event.getDelay().getMath()) != 0:
                raise self.error(f"the event {name!r} has a delay, which cannot be translated.")
            if event.isSetPriority() and several:
                raise self.error(f"the event {name!r} has a priority, which cannot be translated.")
            trigger = event.getTrigger()
            if trigger is None or trigger.getMath() is None:
                raise self.error(f"the event {name!r} has no trigger.")
            after = {}
            for assignment in event.getListOfEventAssignments():
                if assignment.getMath() is not None:
                    after[self.names[assignment.getVariable()]] = self.text(assignment.getMath())
            for key in self.sizes:  # amounts stay where a compartment jumps
                size = self.names[key]
                for species in self.model.getListOfSpecies():
                    own = self.names[species.getId()]
                    inside = species.getCompartment() == key and not species.getHasOnlySubstanceUnits()
                    if size in after and inside and own not in after and species.getId() in self.rates:
                        after[own] = f"{own}*{size}/({after[size]})"
            waits = trigger.getInitialValue() if trigger.isSetInitialValue() else True
            rising = self.rising(trigger.getMath())
            strict = self.kinds.get(trigger.getMath().getType(), "") in ("AST_RELATIONAL_GT", "AST_RELATIONAL_LT")
            clock = not names_in(rising) & {self.names[k] for k in self.rates}
            found.append(
                {
                    "trigger": rising,
                    "after": after,
                    # time > 0 becomes true just after the beginning, whatever was before.
                    "waits": bool(waits) and not (strict and clock),
                    "late": not waits,
                    "together": bool(event.getUseValuesFromTriggerTime()),
                }
            )
            if trigger.isSetPersistent() and not trigger.getPersistent() and several:
                raise self.error(f"the event {name!r} is not persistent, which cannot be translated beside others.")
        return found

    def _number_of(self, node: Any) -> float:
        try:
            return float(parse_expression(self.text(node), self._known(), "delay"))
        except (ModelError, RuntimeError, TypeError, ValueError):
            return math.nan
