"""What happens at once: jumps of states, and switches of the right-hand side.

A *switch* is a symbol that is 1 while `g(t, u, p) >= 0`, and 0 else; its name is what it says, `if(t >= 10, 1, 0)`, so
that an expression with it is printed as it is read. Between two jumps of its switches a right-hand side is smooth. An
*event* gives states new values when its g rises through zero. Where g is `t - c(p)`, the time is known before anything
is solved.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import symengine as se

from .expression_text import to_text
from .function_table import Expr

TIME = se.Symbol("t")


@dataclass(frozen=True)
class Event:
    """States that change at once.

    Attributes
    ----------
    trigger : expression
        `g(t, u, p)`; the event happens when it rises through zero.
    after : mapping of str to expression
        New values of some states, in terms of t, all states as they were, and p.
    waits : bool
        Whether it happens only after g has been below zero; else also at the very beginning.
    late : bool
        Whether it happens at the beginning, where its time has passed by then.
    together : bool
        Whether new values are those of the moment before anything happens at this time, as SBML has it; else events of
        one time follow one another, as doses do.
    """

    trigger: Expr
    after: Mapping[str, Expr]
    waits: bool = True
    together: bool = False
    late: bool = False

    @property
    def time(self) -> Expr | None:
        """When it happens, as an expression of parameters; None where that depends on states."""
        return known_time(self.trigger)

    def changed(self, change: Callable[[Expr], Expr]) -> Event:
        """The same with every expression changed."""
        return replace(self, trigger=change(self.trigger), after={s: change(e) for s, e in self.after.items()})

    def __str__(self) -> str:
        done = ", ".join(f"{state} = {expr}" for state, expr in self.after.items())
        when = f"at t = {self.time}" if self.time is not None else f"when {self.trigger} >= 0"
        return f"{when}: {done}"


def known_time(trigger: Expr) -> Expr | None:
    """c, where a trigger is `t - c` and c does not depend on time; None else.

    Whether c depends on states is for the caller to know, who knows their names.
    """
    return -trigger.subs({TIME: 0}) if trigger.diff(TIME) == 1 else None


def switch_name(trigger: Expr) -> str:
    """The name of the switch that is 1 while `trigger >= 0`."""
    time = known_time(trigger)
    return f"if(t >= {to_text(time)}, 1, 0)" if time is not None else f"if({to_text(trigger)} >= 0, 1, 0)"
