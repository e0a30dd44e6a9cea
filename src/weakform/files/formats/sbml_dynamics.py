"""Translation of reactions, changing compartments and events of an SBML document into rates and jumps."""

from __future__ import annotations

import math
from typing import Any

import symengine as se

from ...model.expression_text import format_expression
from ...model.expressions import parse_expression
from ...support.errors import ModelError
from .sbml_formulas import CHARACTERS_PER_NODE, FormulaTranslator, find_names


class DynamicsTranslator(FormulaTranslator):
    """The part of a document that turns reactions and events into rates and jumps.

    `DocumentTranslator` completes it with rules and initial values, and describes the attributes.
    """

    kept: frozenset[str]
    values: dict[str, float]
    rules: dict[str, str]
    rates: dict[str, str]
    sizes: list[str]
    weights: dict[str, str]

    def _declare_symbol(self, identifier: str, value: float) -> None:
        """Give an identifier a value and a name; `DocumentTranslator` implements this."""
        raise NotImplementedError

    def _list_known_names(self) -> list[str]:
        """Return all names that a formula may contain; `DocumentTranslator` implements this."""
        raise NotImplementedError

    def _read_stoichiometries(self) -> None:
        """Collect the stoichiometries that have an identifier, with a formula for each.

        Such a stoichiometry is a symbol that formulas may contain and that a rule or an initial assignment may set.
        """
        self.weights = {}
        self._named_references: dict[str, Any] = {}
        for reaction in self.model.getListOfReactions():
            for reference in (*reaction.getListOfReactants(), *reaction.getListOfProducts()):
                if reference.isSetId() and reference.getId():
                    self._named_references[reference.getId()] = reference
        for key, reference in self._named_references.items():
            rule, assignment = self.model.getRuleByVariable(key), self.model.getInitialAssignment(key)
            if rule is not None and rule.isRate():
                raise self.build_error(f"the stoichiometry {key!r} changes by a rate rule, which cannot be translated.")
            if rule is None and assignment is None:
                self.weights[key] = repr(float(reference.getStoichiometry()))
                self._declare_symbol(key, float(reference.getStoichiometry()))
            else:
                self._declare_symbol(key, math.nan)
        for key in self._named_references:
            rule, assignment = self.model.getRuleByVariable(key), self.model.getInitialAssignment(key)
            source = rule if rule is not None else assignment
            if source is not None:
                self.weights[key] = self.translate_formula(source.getMath())
                changing = {s.getId() for s in self.model.getListOfSpecies() if not s.getConstant()}
                changing |= {r.getVariable() for r in self.model.getListOfRules()} | self._event_targets
                if rule is None and find_names(self.weights[key]) & {
                    self.names[k] for k in changing if k in self.names
                }:
                    raise self.build_error(
                        f"the initial value of the stoichiometry {key!r} depends on quantities that change, which "
                        "cannot be translated."
                    )
                if rule is None:
                    self.rules[key] = self.weights[key]

    def _read_reactions(self) -> None:
        """Turn reactions into rules, one for each rate, and sum them into the rate of change of each species.

        For an amount the rate is the signed sum of stoichiometry times reaction rate; for a concentration it is divided
        by the size of the compartment. A species on the boundary, a constant one or one with a rate rule is not changed
        by reactions.
        """
        sums: dict[str, list[str]] = {}
        for reaction in self.model.getListOfReactions():
            name, law = reaction.getId(), reaction.getKineticLaw()
            if not name:
                raise self.build_error("a reaction has no identifier.")
            if law is None or law.getMath() is None:
                raise self.build_error(f"the reaction {name!r} has no kinetic law.")
            local: dict[str, str] = {}
            for parameter in (law.getParameter(j) for j in range(law.getNumParameters())):
                own_name = f"{name}_{parameter.getId()}"
                while own_name in self.names:
                    own_name += "_"
                self._declare_symbol(own_name, parameter.getValue() if parameter.isSetValue() else math.nan)
                local[parameter.getId()] = self.names[own_name]
            self.rules[name], rate = self.translate_formula(law.getMath(), local), self.names[name]
            for sign, references in (("-", reaction.getListOfReactants()), ("+", reaction.getListOfProducts())):
                for reference in references:
                    species = self.model.getSpecies(reference.getSpecies())
                    if species is None:
                        raise self.build_error(f"the reaction {name!r} names an unknown species.")
                    if species.getBoundaryCondition() or species.getConstant() or species.getId() in self.rates:
                        continue
                    weight = f"{self._write_stoichiometry(reference, name)}*"
                    sums.setdefault(species.getId(), []).append(f"{sign} {'' if weight == '1.0*' else weight}{rate}")
        for identifier, terms in sums.items():
            if identifier in self.rules:
                raise self.build_error(f"{identifier!r} is changed by reactions and set by a rule.")
            species = self.model.getSpecies(identifier)
            if species.getCompartment() not in self.names:
                raise self.build_error(f"the species {identifier!r} is in a compartment that does not exist.")
            whole = " ".join(terms)
            factor = self._find_conversion_factor(species)
            whole = f"{factor}*({whole})" if factor else whole
            size = "" if species.getHasOnlySubstanceUnits() else f"/{self.names[species.getCompartment()]}"
            self.rates[identifier] = f"({whole}){size}" if size else whole

    def _find_conversion_factor(self, species: Any) -> str:
        """Return our name for the conversion factor of a species; empty if there is none."""
        key = species.getConversionFactor() if species.isSetConversionFactor() else ""
        key = key or (self.model.getConversionFactor() if self.model.isSetConversionFactor() else "")
        if key and key not in self.names:
            raise self.build_error(f"the conversion factor {key!r} is not a parameter.")
        return self.names[key] if key else ""

    def _write_stoichiometry(self, reference: Any, reaction: str) -> str:
        """Return the stoichiometry of a reactant or product as text: a name, a formula or a number."""
        if reference.isSetId() and reference.getId() in self.weights:
            return self.names[reference.getId()] if reference.getId() in self.rules else self.weights[reference.getId()]
        if reference.isSetStoichiometryMath():
            return self.translate_formula(reference.getStoichiometryMath().getMath())
        weight = float(reference.getStoichiometry()) if reference.isSetStoichiometry() else 1.0
        weight /= float(reference.getDenominator() or 1)
        if not math.isfinite(weight):
            raise self.build_error(f"the stoichiometry in {reaction!r} is not a number.")
        return repr(weight)

    @property
    def _event_targets(self) -> set[str]:
        """Identifiers that events set."""
        events = self.model.getListOfEvents()
        return {assignment.getVariable() for event in events for assignment in event.getListOfEventAssignments()}

    def _resolve_rates(self) -> None:
        """Replace placeholders by the rates that they stand for, now that all rates are known.

        A rate may contain another placeholder, so the replacement is repeated once for each of them; a placeholder that
        remains then depends on itself.
        """
        if not self.requested_rates:
            return
        if any(key in self.sizes for key in (*self.rates, *self.rules)):
            raise self.build_error("rateOf in a model with changing compartments cannot be translated.")
        for key in self.requested_rates.values():
            if key in self.rules:
                raise self.build_error(f"rateOf {key!r} cannot be translated: {key!r} is set by a rule.")
        for _ in range(len(self.requested_rates) + 1):
            for texts in (self.rates, self.rules):
                for key, text in texts.items():
                    texts[key] = self._insert_rates(text)
                    self.nodes += len(texts[key]) // CHARACTERS_PER_NODE
        for texts in (self.rates, self.rules):
            for key, text in texts.items():
                if any(placeholder in text for placeholder in self.requested_rates):
                    raise self.build_error(f"rateOf depends on itself; see {key!r}.")

    def _insert_rates(self, text: str) -> str:
        """Return a formula with its placeholders replaced by rates; an identifier without a rate is constant."""
        for placeholder, target in self.requested_rates.items():
            text = text.replace(placeholder, f"({self.rates.get(target, '0')})")
        return text

    def _add_dilution(self) -> None:
        """Add the dilution `- c V'/V` to the rate of each concentration c in a compartment whose size V changes."""
        for key in self.sizes:
            if key not in self.rates and key not in self.rules:
                continue
            self._require_smooth_size(key)
            growth = self.rates.get(key) or self._differentiate_in_time(self.rules[key])
            if growth == "0":
                continue
            size = self.names[key]
            for species in self.model.getListOfSpecies():
                identifier = species.getId()
                if species.getCompartment() != key or species.getHasOnlySubstanceUnits() or identifier in self.rules:
                    continue
                if species.getConstant() or self.model.getRuleByVariable(identifier) is not None:
                    continue
                self.rates[identifier] = (
                    f"{self.rates.get(identifier, '0')} - {self.names[identifier]}*({growth})/{size}"
                )

    def _require_smooth_size(self, key: str) -> None:
        """Raise if the size of a compartment jumps by a rule, or depends on concentrations in a changing one."""
        if key not in self.rules:
            return
        # Collect everything that the size depends on, directly or through other rules.
        pending = [self.rules[key]]
        identifiers = {name: k for k, name in self.names.items()}
        inside: set[str] = set()
        while pending:
            for name in parse_expression(pending.pop(), self._list_known_names(), "rule", {}).free_symbols:
                identifier = identifiers.get(str(name), "")
                if identifier and identifier not in inside:
                    inside.add(identifier)
                    pending += [self.rules[identifier]] if identifier in self.rules else []
        switched = any(
            "piecewise" in t or "if(" in t for t in (self.rules[key], *(self.rules.get(k, "") for k in inside))
        )
        # The size of such a compartment would depend on concentrations that depend on the size themselves.
        grown = {
            s.getId()
            for s in self.model.getListOfSpecies()
            if not s.getHasOnlySubstanceUnits() and s.getCompartment() in (*self.rates, *self.rules)
        }
        if inside & self._event_targets or switched or inside & grown:
            raise self.build_error(
                f"the size of the compartment {key!r} jumps, or depends on another one that changes."
            )

    def _differentiate_in_time(self, text: str) -> str:
        """Return the rate of change of a formula by the chain rule, `∂f/∂t + Σ ∂f/∂x x'`, as text."""
        try:
            expr = parse_expression(text, self._list_known_names(), "rule", {})
        except ModelError as error:
            raise self.build_error(str(error)) from None
        identifiers = {name: key for key, name in self.names.items()}
        terms = [format_expression(slope)] if (slope := expr.diff(se.Symbol("t"))) != 0 else []
        for symbol in sorted(expr.free_symbols, key=str):
            key = identifiers.get(str(symbol))
            if key is None:
                continue
            pace = self.rates.get(key) or (self._differentiate_in_time(self.rules[key]) if key in self.rules else "0")
            if pace != "0":
                terms.append(f"({format_expression(expr.diff(symbol))})*({pace})")
        return " + ".join(terms) or "0"

    def _add_constant_states(self) -> None:
        """Give a rate of zero to quantities that change only by jumps, so that they become states.

        These are the targets of events, species that stay parameters, and concentrations in compartments that change.
        Only a state can jump, so each needs an equation, `x' = 0`.
        """
        for event in self.model.getListOfEvents():
            for assignment in event.getListOfEventAssignments():
                key = assignment.getVariable()
                if key not in self.names:
                    raise self.build_error(f"an event sets {key!r}, which is not a parameter, species or compartment.")
                if key in self.rules or key in self._named_references:
                    raise self.build_error(
                        f"an event sets {key!r}, which is set by a rule already, or is a stoichiometry."
                    )
                self.rates.setdefault(key, "0")
        for species in self.model.getListOfSpecies():
            key = species.getId()
            if key in self.kept and key not in self.rules:
                self.rates.setdefault(key, "0")
            compartment = species.getCompartment()
            if compartment in self.rates and not species.getHasOnlySubstanceUnits() and key not in self.rules:
                self.rates.setdefault(key, "0")

    def translate_events(self) -> list[dict[str, Any]]:
        """Translate the events.

        Returns
        -------
        list of dict
            For each event: `trigger`, a formula that is at least zero where the trigger holds; `after`, new values by
            our names; `waits`, whether it fires only after its trigger was false; `late`, whether it fires at the
            initial time if its time has passed by then; `together`, whether its new values are computed from the
            states before any event of the same time.
        """
        events = []
        several = self.model.getNumEvents() > 1
        for k, event in enumerate(self.model.getListOfEvents()):
            name = event.getId() or str(k + 1)
            if event.isSetDelay() and self._evaluate_constant(event.getDelay().getMath()) != 0:
                raise self.build_error(f"the event {name!r} has a delay, which cannot be translated.")
            if event.isSetPriority() and several:
                raise self.build_error(f"the event {name!r} has a priority, which cannot be translated.")
            trigger = event.getTrigger()
            if trigger is None or trigger.getMath() is None:
                raise self.build_error(f"the event {name!r} has no trigger.")
            after = {}
            for assignment in event.getListOfEventAssignments():
                if assignment.getMath() is not None:
                    after[self.names[assignment.getVariable()]] = self.translate_formula(assignment.getMath())
            for key in self.sizes:  # when a size jumps, amounts stay, so concentrations jump the other way
                size = self.names[key]
                for species in self.model.getListOfSpecies():
                    own_name = self.names[species.getId()]
                    inside = species.getCompartment() == key and not species.getHasOnlySubstanceUnits()
                    if size in after and inside and own_name not in after and species.getId() in self.rates:
                        after[own_name] = f"{own_name}*{size}/({after[size]})"
            waits = trigger.getInitialValue() if trigger.isSetInitialValue() else True
            rising = self.translate_trigger(trigger.getMath())
            strict = self.kinds.get(trigger.getMath().getType(), "") in ("AST_RELATIONAL_GT", "AST_RELATIONAL_LT")
            clock = not find_names(rising) & {self.names[k] for k in self.rates}
            events.append(
                {
                    "trigger": rising,
                    "after": after,
                    # A strict comparison of time alone, such as time > 0, becomes true just after the initial time,
                    # whatever it was before.
                    "waits": bool(waits) and not (strict and clock),
                    "late": not waits,
                    "together": bool(event.getUseValuesFromTriggerTime()),
                }
            )
            if trigger.isSetPersistent() and not trigger.getPersistent() and several:
                raise self.build_error(
                    f"the event {name!r} is not persistent, which cannot be translated in a model with several events."
                )
        return events

    def _evaluate_constant(self, node: Any) -> float:
        """Return the value of a constant formula; NaN if it is not constant."""
        try:
            return float(parse_expression(self.translate_formula(node), self._list_known_names(), "delay"))
        except (ModelError, RuntimeError, TypeError, ValueError):
            return math.nan
