"""The translation of one SBML document into equations.

Reactions become sums of kinetic laws over compartment sizes, rate rules are taken unchanged, assignment rules become
abbreviations, algebraic rules are solved for the symbol that nothing else determines, functions are expanded. The
result is text for our own parser and a table of values: nothing in a file is evaluated as code.

A species is a concentration, or an amount where the file says so. If a compartment changes its size V, amounts stay:
`c' = (rate of the reactions)/V - c V'/V`, and when V jumps, c is multiplied by the old size divided by the new size.
Everything that an event changes is a state, whose equation may be `x' = 0`.
"""

from __future__ import annotations

import math
import re
from typing import Any

import symengine as se

from ...model.expression_text import format_expression
from ...model.expressions import parse_expression
from ...model.function_table import FUNCTIONS, RESERVED_NAMES
from ...support.errors import ModelError
from .sbml_dynamics import DynamicsTranslator
from .sbml_formulas import MAX_FORMULA_DEPTH, find_names


class DocumentTranslator(DynamicsTranslator):
    """The translation of one SBML model.

    Parameters
    ----------
    libsbml : module
    model : libsbml.Model
    where : str
        Name of the document in errors.
    kept : frozenset of str
        Identifiers that stay parameters although the document gives their values.
    moving : frozenset of str
        Identifiers among them that change in time.

    Attributes
    ----------
    values : dict of str to float
        Initial or constant value of each identifier; NaN if unknown.
    sizes : list of str
        Identifiers of the compartments.
    weights : dict of str to str
        Formula of each stoichiometry that has an identifier.
    rules, rates : dict of str to str
        Formula of each abbreviation, and right-hand side of each state, by identifier.
    defaults : dict of str to str
        Formulas of kept parameters.
    failed_rules : dict of str to ModelError
        Errors of rules that cannot be translated, raised only if something needs them.
    """

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
        self.failed_rules: dict[str, ModelError] = {}

    def translate_document(self) -> dict[str, Any]:
        """Translate the model.

        Returns
        -------
        dict
            As `translation.translate_sbml` describes it.

        Raises
        ------
        ModelError
            If a part of the document cannot be translated.
        """
        self.refuse_untranslatable()
        model = self.model
        for parameter in model.getListOfParameters():
            self._declare_symbol(parameter.getId(), parameter.getValue() if parameter.isSetValue() else math.nan)
        self.sizes = [compartment.getId() for compartment in model.getListOfCompartments()]
        for compartment in model.getListOfCompartments():
            self._declare_symbol(compartment.getId(), compartment.getSize() if compartment.isSetSize() else 1.0)
        species = [entry.getId() for entry in model.getListOfSpecies()]
        reactions = [reaction.getId() for reaction in model.getListOfReactions()]
        for name in (*species, *reactions):
            self._declare_symbol(name, math.nan)
        self._read_stoichiometries()
        self._read_rules()
        self._read_reactions()
        self._resolve_rates()
        self._add_dilution()
        self._add_constant_states()
        states = [s for s in self.values if s in self.rates]
        if (
            not states and self.kept
        ):  # a PEtab problem may measure only formulas of its parameters; a model needs a state
            self._declare_symbol("nothing_changes", 0.0)
            self.rates["nothing_changes"], states = "0", ["nothing_changes"]
        if not states:
            raise self.build_error("nothing changes in time: there are no reactions, rate rules or events.")
        assigned = self._compute_initial_values()
        initial_formulas = self._collect_initial_equations(assigned, states)
        events = self.translate_events()
        event_formulas = [text for event in events for text in (event["trigger"], *event["after"].values())]
        needed = self._order_rules(
            [*(self.rates[s] for s in states), *initial_formulas.values(), *event_formulas, *self.defaults.values()]
        )
        for key in (*needed, *states):
            if key in self.failed_rules:
                raise self.failed_rules[key]
        needed += self._find_observed_rules(needed, states, {*self.sizes, *reactions})
        texts = [
            *(self.rules[key] for key in needed),
            *(self.rates[key] for key in states),
            *initial_formulas.values(),
            *event_formulas,
        ]
        all_initial_formulas = self._collect_initial_formulas(assigned, states) if self.kept else {}
        used = {
            name
            for text in (*texts, *self.defaults.values(), *all_initial_formulas.values())
            for name in find_names(text)
        }
        used |= {self.names[key] for key in self.kept if key in self.names}
        fixed = [key for key in self.sizes if key not in self.rules and key not in self.rates and key not in self.kept]
        lines = [f"{self.names[key]} = {self._read_size(key)}" for key in fixed if self.names[key] in used]
        lines += [f"{self.names[key]} = {self.rules[key]}" for key in needed]
        lines += [f"{self.names[key]}' = {self.rates[key]}" for key in states]
        lines += [f"{self.names[key]}(0) = {text}" for key, text in initial_formulas.items()]
        not_parameters = {*self.rates, *self.rules, *fixed}
        parameters = [self.names[key] for key in self.values if key not in not_parameters and self.names[key] in used]
        known_values = {self.names[key]: value for key, value in self.values.items() if math.isfinite(value)}
        # A species that does not change is a constant, and so is a parameter that only determines the size of a
        # compartment. Such a parameter occurs in no formula once the rules of the sizes are left out.
        formulas = [*(self.rates[s] for s in states), *initial_formulas.values(), *(self.names[key] for key in needed)]
        direct_rules = self._order_rules(formulas, excluded=set(self.sizes))
        direct = {n for text in (*(self.rules[k] for k in direct_rules), *formulas) for n in find_names(text)}
        constants = {self.names[key] for key in species} | (set(parameters) - direct)
        return {
            "equations": "\n".join(lines),
            "states": [self.names[s] for s in states],
            "parameters": parameters,
            "values": {
                name: known_values[name]
                for name in (*parameters, *(self.names[s] for s in states))
                if name in known_values
            },
            "constants": [name for name in parameters if name in constants],
            "names": self.names,
            "defined": sorted(set(self.rules) - set(reactions)),
            "begins": all_initial_formulas,
            "defaults": {self.names[key]: text for key, text in self.defaults.items()},
            "events": events,
            "title": model.getName() or model.getId(),
        }

    def _read_rules(self) -> None:
        """Translate rate rules and assignment rules, then solve the algebraic rules."""
        algebraic = []
        for rule in self.model.getListOfRules():
            if rule.isAlgebraic():
                algebraic.append(self.translate_formula(rule.getMath()))
                continue
            if rule.getVariable() not in self.names:
                raise self.build_error(f"a rule sets {rule.getVariable()!r}, which is not a parameter or a species.")
            try:
                text = self.translate_formula(rule.getMath())
            except ModelError as error:  # raised later, only if something needs this variable
                self.failed_rules[rule.getVariable()] = error
                text = "0"
            (self.rates if rule.isRate() else self.rules)[rule.getVariable()] = text
        for text in algebraic:
            self._solve_algebraic_rule(text)

    def _solve_algebraic_rule(self, text: str) -> None:
        """Solve an algebraic rule, `0 = text`, for the one symbol in it that nothing else determines.

        It becomes an assignment rule. The rule must be linear in that symbol: `x = -(text at x = 0)/(∂text/∂x)`.
        """
        try:
            expr = parse_expression(text, self._list_known_names(), "algebraic rule", {})
        except ModelError as error:
            raise self.build_error(str(error)) from None
        reacting = {
            reference.getSpecies()
            for reaction in self.model.getListOfReactions()
            for reference in (*reaction.getListOfReactants(), *reaction.getListOfProducts())
        }
        inside = {str(symbol) for symbol in expr.free_symbols}
        for key, name in self.names.items():
            element = self.model.getElementBySId(key)
            is_constant = element is None or (hasattr(element, "getConstant") and element.getConstant())
            reacts = key in reacting and not (
                hasattr(element, "getBoundaryCondition") and element.getBoundaryCondition()
            )
            # Reactions, rules and constancy determine a symbol already.
            if name not in inside or is_constant or reacts or key in self.rules or key in self.rates:
                continue
            # Linear means that the slope does not contain the symbol itself.
            slope = expr.diff(se.Symbol(name))
            if slope != 0 and se.Symbol(name) not in slope.free_symbols:
                self.rules[key] = format_expression(-expr.subs({se.Symbol(name): 0}) / slope)
                return
        raise self.build_error("an algebraic rule cannot be solved for one symbol; write it as an assignment rule.")

    def _collect_initial_formulas(self, assigned: dict[str, str], states: list[str]) -> dict[str, str]:
        """Return the initial value of each state that has one, as a formula, by our name for the state.

        Parameters
        ----------
        assigned : dict of str to str
            Formulas of initial assignments, by identifier.
        states : list of str
            Identifiers.
        """
        moving = {self.names[key] for key in states}
        formulas = {}
        for key in states:
            species = self.model.getSpecies(key)
            text = assigned.get(key) or (self._write_initial_value(species).get(key) if species is not None else None)
            if text is None and math.isfinite(self.values[key]):
                text = repr(self.values[key])
            if text is not None:
                formulas[self.names[key]] = _write_at_initial_time(text, moving)
        return formulas

    def _collect_initial_equations(self, assigned: dict[str, str], states: list[str]) -> dict[str, str]:
        """Return the initial values of states that are formulas of parameters, or of other initial values.

        Parameters
        ----------
        assigned : dict of str to str
            Formulas of initial assignments, by identifier.
        states : list of str
            Identifiers.

        Returns
        -------
        dict of str to str
            By identifier.
        """
        moving = {self.names[key] for key in states}
        formulas = {}
        for key in states:
            text = assigned.get(key, "")
            if not math.isfinite(self.values[key]):
                continue  # the formula has no value, such as the root of a negative number
            if not find_names(text) - {self.names[c.getId()] for c in self.model.getListOfCompartments()}:
                continue  # a formula of numbers alone is a value for simulations and not an equation
            formulas[key] = _write_at_initial_time(text, moving)
        return formulas

    def _find_observed_rules(self, needed: list[str], states: list[str], others: set[str]) -> list[str]:
        """Return further rules that depend on states, and so may be measured, each after those that it needs.

        Parameters
        ----------
        needed : list of str
            Rules that the equations contain already.
        states : list of str
        others : set of str
            Identifiers that are never measured: compartments and reactions.
        """
        moving = {self.names[key] for key in states}
        observed: list[str] = []
        for key in self.rules:
            if key in (*needed, *observed, *self.failed_rules, *others):
                continue
            chain = self._order_rules([self.names[key]])
            names = {name for rule in chain for name in find_names(self.rules[rule])}
            if (names & moving or key in self.kept) and not any(rule in self.failed_rules for rule in chain):
                observed += [rule for rule in chain if rule not in (*needed, *observed)]
        return observed

    def _order_rules(self, texts: list[str], excluded: set[str] | None = None) -> list[str]:
        """Return the rules that some formulas need, each after the rules that it needs itself.

        Parameters
        ----------
        texts : list of str
            The formulas.
        excluded : set of str, optional
            Rules to leave out.

        Returns
        -------
        list of str
            Identifiers.

        Raises
        ------
        ModelError
            If rules depend on each other in a circle, or their chain is longer than `MAX_FORMULA_DEPTH`.
        """
        rules_by_name = {self.names[key]: key for key in self.rules if key not in (excluded or ())}
        order: list[str] = []
        is_complete: dict[str, bool] = {}  # False while a rule is visited, True when all it needs is in order

        def visit(text: str) -> None:
            for name in sorted(find_names(text) & rules_by_name.keys()):
                key = rules_by_name[name]
                if is_complete.get(key) is False:
                    raise self.build_error(f"assignment rules form a circle: {key!r} depends on itself.")
                if key in is_complete:
                    continue
                if len(is_complete) - len(order) > MAX_FORMULA_DEPTH:
                    raise self.build_error(
                        f"a chain of assignment rules that depend on one another is longer than {MAX_FORMULA_DEPTH}."
                    )
                is_complete[key] = False
                visit(self.rules[key])
                is_complete[key] = True
                order.append(key)

        for text in texts:
            visit(text)
        return order

    def _compute_initial_values(self) -> dict[str, str]:
        """Compute the initial values that are given as formulas, and return the formulas of initial assignments.

        Values that cannot be computed stay NaN. A constant parameter that is a formula of constant parameters is a
        definition, and becomes a rule.

        Returns
        -------
        dict of str to str
            Formula of each initial assignment, by identifier.
        """
        formulas: dict[str, str] = {}
        assigned: dict[str, str] = {}
        for species in self.model.getListOfSpecies():
            formulas |= self._write_initial_value(species)
        for assignment in self.model.getListOfInitialAssignments():
            key = assignment.getSymbol()
            if key in self.weights:
                continue  # a stoichiometry, which its reaction contains already
            if key not in self.names:
                raise self.build_error(f"an initial assignment sets {key!r}, which is not a parameter or a species.")
            formulas[key] = assigned[key] = self.translate_formula(assignment.getMath())
            self.values[key] = math.nan
        self._move_definitions(formulas)
        texts = {key: text for key, text in {**self.rules, **formulas}.items() if key not in self.failed_rules}
        try:
            pending = {
                key: parse_expression(text, self._list_known_names(), "formula", {}) for key, text in texts.items()
            }
        except ModelError as error:
            raise self.build_error(str(error)) from None
        known_values = {self.names[k]: v for k, v in self.values.items() if k not in pending and math.isfinite(v)} | {
            "t": 0.0
        }
        # Each pass computes the formulas whose symbols all have values, until a pass adds none.
        while True:
            ready = [key for key, expr in pending.items() if {str(s) for s in expr.free_symbols} <= known_values.keys()]
            if not ready:
                break
            symbols = {se.Symbol(name): value for name, value in known_values.items()}
            for key in ready:
                try:
                    value = float(pending.pop(key).subs(symbols))
                except (
                    RuntimeError,
                    TypeError,
                    ValueError,
                    ZeroDivisionError,
                ):  # the value is complex, infinite or undefined
                    value = math.nan
                if math.isfinite(value):
                    known_values[self.names[key]] = value
                    if key in formulas:
                        self.values[key] = value
        return assigned

    def _move_definitions(self, formulas: dict[str, str]) -> None:
        """Move definitions from the initial assignments to the rules, and formulas of kept parameters to the defaults.

        A definition is a formula of constants for a parameter or compartment that no rule changes. One definition may
        make another possible, so the search repeats until nothing is added.
        """
        model = self.model
        candidates = {element.getId() for element in (*model.getListOfParameters(), *model.getListOfCompartments())}
        candidates -= {*self.rates, *self.rules}
        self.defaults = {key: formulas[key] for key in candidates & self.kept & set(formulas)}
        candidates -= self.kept
        keys_by_name = {name: key for key, name in self.names.items()}
        # A quantity that an event or a later period sets is not constant: a formula of it holds only at the start.
        constant = candidates - set(formulas) | (self.kept - self.moving)
        while True:
            ready = []
            for key in candidates & set(formulas):
                needs = {keys_by_name.get(name, name) for name in find_names(formulas[key])} - set(FUNCTIONS) - {"pi"}
                # A formula of numbers alone is a value and not a definition.
                if needs and needs <= constant:
                    ready.append(key)
            if not ready:
                for key in candidates & set(formulas):
                    if {keys_by_name.get(name, name) for name in find_names(formulas[key])} & self.kept:
                        self.defaults[key] = formulas[key]
                return
            for key in ready:
                self.rules[key] = formulas.pop(key)
                constant.add(key)

    def _list_known_names(self) -> list[str]:
        """Return all names that a formula may contain."""
        return [*self.names.values(), "t"]

    def _declare_symbol(self, identifier: str, value: float) -> None:
        """Give an identifier its value, and a name that is neither used nor reserved."""
        name = identifier
        while name in RESERVED_NAMES or name in FUNCTIONS or name in self.names.values():
            name += "_"
        self.values[identifier], self.names[identifier] = value, name

    def _write_initial_value(self, species: Any) -> dict[str, str]:
        """Return the initial value of a species as a formula by its identifier; nothing if it has none.

        The file may give an amount where a concentration is needed, or the reverse; the size of the compartment
        converts them.
        """
        amount, size = species.getHasOnlySubstanceUnits(), self.names.get(species.getCompartment())
        if species.isSetInitialConcentration():
            value, conversion = species.getInitialConcentration(), f"*{size}" if amount and size else ""
        elif species.isSetInitialAmount():
            value, conversion = species.getInitialAmount(), f"/{size}" if not amount and size else ""
        else:
            return {}
        return {species.getId(): f"({value!r}){conversion}"} if math.isfinite(value) else {}

    def _read_size(self, compartment: str) -> str:
        """Return the size of a compartment as text; raise if it is missing or not positive."""
        size = self.values.get(compartment, math.nan)
        if not 0 < size < math.inf:
            raise self.build_error(f"the compartment {compartment!r} has no positive size.")
        return repr(size)


def _write_at_initial_time(text: str, states: set[str]) -> str:
    """Return a formula at the initial time: each state `x` in it becomes `x(0)`."""
    return re.sub(r"(?<![\w.])[^\W\d]\w*", lambda m: f"{m[0]}(0)" if m[0] in states else m[0], text)
