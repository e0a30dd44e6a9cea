"""Transformations of models: substituted parameters, local parameters, shifted time, added doses and events."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import symengine as se

from ..support.errors import ModelError
from .bounded_algebra import expand_if_short
from .events import Event, format_switch_name
from .function_table import Expr
from .naming import format_initial_name

if TYPE_CHECKING:
    from .model import Model


class ModelTransformations:
    """The part of a model that derives other models from it; no method changes the model."""

    expressions: tuple[Expr, ...]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    variants: tuple[Model, ...]
    observables: dict[str, Expr]
    initial: dict[str, Expr]
    events: tuple[Event, ...]
    switches: dict[str, Expr]
    steady: dict[str, Expr] | None

    def with_parts(self, **changes: Any) -> Model:
        """Return the model with some arguments of the constructor replaced."""
        raise NotImplementedError

    def for_trajectory(self, trajectory: int) -> Model:
        """Return the model of one trajectory."""
        raise NotImplementedError

    def _collect_names(self, observables: Mapping[str, Expr]) -> set[str]:
        """Return every name in the expressions of the model, with `observables` instead of the observables it has."""
        raise NotImplementedError

    def _transform_expressions(
        self, parameters: Sequence[str], change: Callable[[Expr], Expr], variants: Sequence[Model] = ()
    ) -> Model:
        """Return the model with every expression changed, and with other parameters.

        Parameters
        ----------
        parameters : sequence of str
            The new parameters, some of which may occur in no expression.
        change : callable
            Maps an expression to the changed one.
        variants : sequence of Model
            The changed models of the trajectories, if parameters are local. Without them the new model has none.
        """
        switches: dict[str, Expr] = {}
        renamed = {}
        for name, trigger in self.switches.items():
            # The name of a switch is its definition, so it changes with the trigger. If two switches become equal, the
            # second one keeps its old name.
            formatted = format_switch_name(change(trigger))
            new_name = name if formatted in switches else formatted
            renamed[se.Symbol(name)] = se.Symbol(new_name)
            switches[new_name] = change(trigger)
        if renamed:
            change = partial(_rename_symbols, change=change, names=renamed)
        return self.with_parts(
            f=[change(e) for e in self.expressions],
            parameters=parameters,
            variants=variants,
            observables={name: change(e) for name, e in self.observables.items()},
            initial={name: change(e) for name, e in self.initial.items()},
            events=[event.map_expressions(change) for event in self.events],
            switches=switches,
            steady=None if self.steady is None else {name: change(e) for name, e in self.steady.items()},
        )

    @staticmethod
    def format_local_name(name: str, label: str) -> str:
        """Return the name of a local parameter in the trajectories with a label: `k_a`."""
        return _join_label(name, label)

    def localise_parameters(self, local: Mapping[str, Sequence[str]]) -> Model:
        """Return a model for several trajectories in which some parameters have separate values.

        Parameters
        ----------
        local : mapping of str to sequence of str
            For each local parameter, the label of its value in each trajectory: `{"k": ["a", "a", "b"]}` creates the
            parameters `k_a` and `k_b`, the first shared by two trajectories.

        Raises
        ------
        ModelError
            If two of the new names are equal, or one of them is already used.
        """
        for name, labels in local.items():
            by_name: dict[str, str] = {}
            for label in labels:
                if by_name.setdefault(_join_label(name, label), label) != label:
                    raise ModelError(
                        f"The labels {by_name[_join_label(name, label)]!r} and {label!r} both give the parameter name "
                        f"{_join_label(name, label)!r}; rename one of them."
                    )
        names: list[str] = []
        for name in self.parameters:
            names += list(dict.fromkeys(_join_label(name, label) for label in local[name])) if name in local else [name]
        if len(set(names)) < len(names) or set(names) & {*self.states, *self.inputs}:
            raise ModelError(
                "The names of local parameters and of states and inputs must differ; the parameters would be "
                f"{', '.join(names)}. Rename one of them."
            )
        count = len(next(iter(local.values())))
        # Every variant lists all parameters, so that one vector of values serves all trajectories.
        variants = []
        for k in range(count):
            substitutions = {se.Symbol(n): se.Symbol(_join_label(n, labels[k])) for n, labels in local.items()}
            variants.append(
                self.for_trajectory(k)._transform_expressions(
                    names, partial(_substitute_symbols, substitutions=substitutions)
                )
            )
        return self._transform_expressions(names, lambda e: e, variants)

    def substitute_parameters(self, values: Mapping[str, Expr], drop: bool) -> Model:
        """Return the model with expressions in place of parameters.

        Parameters
        ----------
        values : mapping of str to expression
            The expressions by the name of the parameter.
        drop : bool
            Whether these parameters are removed from the list of parameters. Only then are products multiplied out.
        """
        substitutions = {se.Symbol(name): expr for name, expr in values.items()}
        names = tuple(name for name in self.parameters if not (drop and name in values))
        variants = [variant.substitute_parameters(values, drop) for variant in self.variants]
        # Expanded, so that terms cancel: r*(1 - x/(2*r)) has no pole at zero.
        return self._transform_expressions(
            names, lambda e: expand_if_short(e.subs(substitutions)) if drop else e.subs(substitutions), variants
        )

    def shift_time(self, begin: float) -> Model:
        """Return the model with time counted from `begin`: t is replaced by `t + begin`. It has no variants."""
        t = se.Symbol("t")
        return self._transform_expressions(self.parameters, lambda e: e.subs({t: t + begin}))

    def restrict_to_observables(self, names: Sequence[str]) -> Model:
        """Return the model with only the observables `names`, and only the parameters that then occur in it."""
        kept = {name: e for name, e in self.observables.items() if name in names}
        used = self._collect_names(kept).union(*(variant._collect_names(kept) for variant in self.variants))
        parameters = [name for name in self.parameters if name in used]
        return self._change_with_variants(lambda _: {"parameters": parameters, "observables": kept})

    def free_initial_values(self, states: Sequence[str]) -> Model:
        """Return the model with the initial values of some states as parameters, `x(0)`, if they are not given."""
        free = {state: se.Symbol(format_initial_name(state)) for state in states if state not in self.initial}
        changes = {
            "parameters": [*self.parameters, *map(format_initial_name, free)],
            "initial": {**self.initial, **free},
        }
        return self._change_with_variants(lambda _: changes)

    def _change_with_variants(self, change: Callable[[ModelTransformations], dict[str, Any]]) -> Model:
        """Return the model with parts replaced in it and in the models of its trajectories.

        Parameters
        ----------
        change : callable
            Maps a model to the arguments of the constructor that are replaced.
        """
        variants = [variant.with_parts(**change(variant)) for variant in self.variants]
        return self.with_parts(**{**change(self), "variants": variants})

    def add_infusions(self, infusions: Mapping[str, tuple[str, Expr]], parameters: Sequence[str]) -> Model:
        """Return the model with further inputs that are added to the equations of states.

        Parameters
        ----------
        infusions : mapping of str to (str, expression)
            For each new input, the state to whose equation it is added, and the factor by which it is multiplied.
        parameters : sequence of str
            The parameters of the new model.
        """
        rates = {state: se.Integer(0) for state in self.states}
        for name, (state, factor) in infusions.items():
            rates[state] += factor * se.Symbol(name)
        f = [e + rates[state] for state, e in zip(self.states, self.expressions, strict=True)]
        return self.with_parts(f=f, parameters=parameters, inputs=(*self.inputs, *infusions))

    def add_events(self, events: Sequence[Sequence[Event]]) -> Model:
        """Return the model with further events; `events` has a sequence of them for each trajectory."""
        variants = [self.with_parts(events=(*self.events, *additional)) for additional in events]
        return self.with_parts(variants=variants)

    def fix_event_times(self, values: Mapping[str, float]) -> Model:
        """Return the model with numbers in place of parameters in the triggers of events and switches."""
        substitutions = {se.Symbol(name): se.RealDouble(value) for name, value in values.items()}

        def fix_triggers(model: ModelTransformations) -> dict[str, Any]:
            events = [replace(event, trigger=event.trigger.subs(substitutions)) for event in model.events]
            return {"events": events, "switches": {name: e.subs(substitutions) for name, e in model.switches.items()}}

        return self._change_with_variants(fix_triggers)


def _join_label(name: str, label: str) -> str:
    """Return `name_label` with every character of the label that is not allowed in a name replaced."""
    return f"{name}_{re.sub(r'[^0-9A-Za-z_]+', '_', label).strip('_')}"


def _rename_symbols(expr: Expr, change: Callable[[Expr], Expr], names: Mapping[Expr, Expr]) -> Expr:
    """Apply `change` to an expression, then rename its symbols."""
    return change(expr).subs(names)


def _substitute_symbols(expr: Expr, substitutions: Mapping[Expr, Expr]) -> Expr:
    """Return an expression with symbols replaced."""
    return expr.subs(substitutions)
