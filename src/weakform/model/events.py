"""Events and switches: jumps of states, and jumps of the right-hand side.

A *switch* is a symbol that is 1 while its trigger `g(t, u, p) >= 0`, and 0 otherwise. Its name is its definition,
`if(t >= 10, 1, 0)`, so that an expression with it is printed as it is read. Between two jumps of its switches a
right-hand side is smooth. An *event* gives states new values when its trigger rises through zero. If the trigger is
`t - c(p)`, the time of the event is known without solving the equations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import symengine as se

from .expression_text import format_expression
from .function_table import Expr

TIME_SYMBOL = se.Symbol("t")
"""The symbol of time."""


@dataclass(frozen=True)
class Event:
    """A jump of states.

    Attributes
    ----------
    trigger : expression
        `g(t, u, p)`; the event occurs when it rises through zero.
    after : mapping of str to expression
        New values of some states, in terms of t, all states before the event, and p.
    waits : bool
        Whether the event occurs only after g has been below zero; if False, it also occurs at the initial time.
    together : bool
        Whether new values are computed from the states before any event of this time, as SBML defines it; if False,
        events of the same time follow one another, as doses do.
    late : bool
        Whether the event occurs at the initial time if its time has already passed by then.
    """

    trigger: Expr
    after: Mapping[str, Expr]
    waits: bool = True
    together: bool = False
    late: bool = False

    @property
    def time(self) -> Expr | None:
        """The time of the event as an expression of parameters; None if it depends on states."""
        return find_known_time(self.trigger)

    def map_expressions(self, change: Callable[[Expr], Expr]) -> Event:
        """Return the event with `change` applied to every expression."""
        return replace(self, trigger=change(self.trigger), after={s: change(e) for s, e in self.after.items()})

    def __str__(self) -> str:
        assignments = ", ".join(f"{state} = {expr}" for state, expr in self.after.items())
        when = f"at t = {self.time}" if self.time is not None else f"when {self.trigger} >= 0"
        return f"{when}: {assignments}"


def find_known_time(trigger: Expr) -> Expr | None:
    """Return c if a trigger is `t - c` and c does not depend on time, else None.

    The caller has to check whether c depends on states, whose names are not available here.
    """
    # A trigger t - c is -c at t = 0. A derivative of 1 excludes triggers that fall, or that rise at another rate.
    return -trigger.subs({TIME_SYMBOL: 0}) if trigger.diff(TIME_SYMBOL) == 1 else None


def format_switch_name(trigger: Expr) -> str:
    """Return the name of the switch that is 1 while `trigger >= 0`."""
    time = find_known_time(trigger)
    return (
        f"if(t >= {format_expression(time)}, 1, 0)"
        if time is not None
        else f"if({format_expression(trigger)} >= 0, 1, 0)"
    )
