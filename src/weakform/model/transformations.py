"""The same model with something changed: other names, values put in, local parameters multiplied, doses added."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import symengine as se

from ..support.errors import ModelError
from .bounded_algebra import expanded
from .events import Event, switch_name
from .function_table import Expr
from .naming import initial_name

if TYPE_CHECKING:
    from .model import Model


class Changes:
    """What makes other models of a model."""

    expressions: tuple[Expr, ...]
    states: tuple[str, ...]
    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    variants: tuple[Any, ...]
    observables: dict[str, Expr]
    initial: dict[str, Expr]
    events: tuple[Event, ...]
    switches: dict[str, Expr]
    steady: dict[str, Expr] | None

    def with_parts(self, **changes: Any) -> Model:
        """The model with some of what the constructor takes changed."""
        raise NotImplementedError

    def of(self, trajectory: int) -> Model:
        """The model of one trajectory."""
        raise NotImplementedError

    def _used(self, observables: Mapping[str, Expr]) -> set[str]:
        raise NotImplementedError

    def _changed(
        self, parameters: Sequence[str], change: Callable[[Expr], Expr], variants: Sequence[Model] = ()
    ) -> Model:
        """The same model with every expression changed, and other parameters, some of which may be idle."""
        switches: dict[str, Expr] = {}
        renamed = {}
        for name, trigger in self.switches.items():
            other = switch_name(change(trigger))
            renamed[se.Symbol(name)] = se.Symbol(name if other in switches else other)
            switches[str(renamed[se.Symbol(name)])] = change(trigger)
        if renamed:
            change = partial(_renamed, change=change, names=renamed)
        return self.with_parts(
            f=[change(e) for e in self.expressions],
            parameters=parameters,
            variants=variants,
            observables={name: change(e) for name, e in self.observables.items()},
            initial={name: change(e) for name, e in self.initial.items()},
            events=[event.changed(change) for event in self.events],
            switches=switches,
            steady=None if self.steady is None else {name: change(e) for name, e in self.steady.items()},
        )

    @staticmethod
    def local_name(name: str, label: str) -> str:
        """The name of a local parameter in the trajectories with a label."""
        return _joined(name, label)

    def localised(self, local: Mapping[str, Sequence[str]]) -> Model:
        """A model for several trajectories, in each of which some parameters have values of their own.

        Parameters
        ----------
        local : mapping
            For each local parameter, the label of its value in each trajectory: `{"k": ["a", "a", "b"]}` makes the
            parameters `k_a` and `k_b`, the first shared by two trajectories.
        """
        for name, labels in local.items():
            by_name: dict[str, str] = {}
            for label in labels:
                if by_name.setdefault(_joined(name, label), label) != label:
                    raise ModelError(
                        f"The labels {by_name[_joined(name, label)]!r} and {label!r} both make the name "
                        f"{_joined(name, label)!r}; rename one of them."
                    )
        names: list[str] = []
        for name in self.parameters:
            names += list(dict.fromkeys(_joined(name, label) for label in local[name])) if name in local else [name]
        if len(set(names)) < len(names) or set(names) & {*self.states, *self.inputs}:
            raise ModelError(f"Local parameters get names such as {names}, which are not all different; rename some.")
        count = len(next(iter(local.values())))
        variants = []
        for k in range(count):
            here = {se.Symbol(n): se.Symbol(_joined(n, labels[k])) for n, labels in local.items()}
            variants.append(self.of(k)._changed(names, partial(_substituted, here=here)))
        return self._changed(names, lambda e: e, variants)

    def substituted(self, values: Mapping[str, Expr], drop: bool) -> Model:
        """The model with expressions in place of parameters, which leave the list if `drop`."""
        here = {se.Symbol(name): expr for name, expr in values.items()}
        names = tuple(name for name in self.parameters if not (drop and name in values))
        # Expanded, so that what cancels does: r*(1 - x/(2*r)) has no pole at zero.
        variants = [variant.substituted(values, drop) for variant in self.variants]
        return self._changed(names, lambda e: expanded(e.subs(here)) if drop else e.subs(here), variants)

    def shifted(self, begin: float) -> Model:
        """The same model on a clock that starts at `begin`."""
        t = se.Symbol("t")
        return self._changed(self.parameters, lambda e: e.subs({t: t + begin}))

    def measured_by(self, names: Sequence[str]) -> Model:
        """The model with those observables alone that have these names, and the parameters that they leave."""
        kept = {name: e for name, e in self.observables.items() if name in names}
        used = self._used(kept).union(*(variant._used(kept) for variant in self.variants))
        left = [name for name in self.parameters if name in used]
        return self._with_variants(lambda _: {"parameters": left, "observables": kept})

    def beginning_at(self, states: Sequence[str]) -> Model:
        """The model with the initial values of some states as parameters, `x(0)`, where they are not given."""
        free = {state: se.Symbol(initial_name(state)) for state in states if state not in self.initial}
        more = {
            "parameters": [*self.parameters, *map(initial_name, free)],
            "initial": {**self.initial, **free},
        }
        return self._with_variants(lambda _: more)

    def _with_variants(self, change: Callable[[Any], dict[str, Any]]) -> Model:
        """The model with parts changed, and so those of its trajectories."""
        variants = [variant.with_parts(**change(variant)) for variant in self.variants]
        return self.with_parts(**{**change(self), "variants": variants})

    def infused(self, infusions: Mapping[str, tuple[str, Expr]], parameters: Sequence[str]) -> Model:
        """The model with further inputs, each of which times a factor adds to the equation of a state."""
        more = {state: se.Integer(0) for state in self.states}
        for name, (state, factor) in infusions.items():
            more[state] += factor * se.Symbol(name)
        f = [e + more[state] for state, e in zip(self.states, self.expressions, strict=True)]
        return self.with_parts(f=f, parameters=parameters, inputs=(*self.inputs, *infusions))

    def happening(self, events: Sequence[Sequence[Event]]) -> Model:
        """The model with further events in each trajectory."""
        variants = [self.with_parts(events=(*self.events, *more)) for more in events]
        return self.with_parts(variants=variants)

    def clocked(self, values: Mapping[str, float]) -> Model:
        """The model with numbers in place of parameters where they tell when something happens."""
        here = {se.Symbol(name): se.RealDouble(value) for name, value in values.items()}

        def change(model: Model) -> dict[str, Any]:
            events = [replace(event, trigger=event.trigger.subs(here)) for event in model.events]
            return {"events": events, "switches": {name: e.subs(here) for name, e in model.switches.items()}}

        return self._with_variants(change)


def _joined(name: str, label: str) -> str:
    """`name_label`, as a name."""
    return f"{name}_{re.sub(r'[^0-9A-Za-z_]+', '_', label).strip('_')}"


def _renamed(expr: Expr, change: Callable[[Expr], Expr], names: Mapping[Expr, Expr]) -> Expr:
    return change(expr).subs(names)


def _substituted(expr: Expr, here: Mapping[Expr, Expr]) -> Expr:
    return expr.subs(here)
