"""Names of states, parameters, inputs, observables and initial values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import symengine as se

from ..support.errors import ModelError
from ..support.wording import suggestion
from .expressions import parse_expression
from .function_table import FUNCTIONS, RESERVED, Expr


def checked_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """A list of names, each a name, none reserved, none twice."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"The {what} must be a list of names, but {names!r} was given.")
    for name in names:
        if not name.isidentifier():
            raise ModelError(f"{name!r} in {what} is not a name (letters, digits and _, not starting with a digit).")
        if name in RESERVED or name in FUNCTIONS:
            raise ModelError(f"{name!r} in {what} is reserved: it is {meaning(name)}. Choose another name.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ModelError(f"{twice!r} occurs twice in {what}.")
    return tuple(names)


def meaning(name: str) -> str:
    """What a reserved name stands for."""
    return {"t": "time", "pi": "the number π"}.get(name, "a function")


def initial_name(state: str) -> str:
    """The name of an initial value as a parameter: `x(0)`."""
    return f"{state}(0)"


def checked_observables(named: Any, taken: Sequence[str]) -> tuple[str, ...]:
    """Names for what `observe=` returns, none of them taken."""
    if isinstance(named, Mapping) or named is None:
        raise ModelError("observe=h(t, u, p) needs observables=[...], a name for each value that it returns.")
    names = checked_names(named, "observables")
    both = set(names) & set(taken)
    if both:
        raise ModelError(f"{sorted(both)[0]!r} is an observable and something else; rename one.")
    return names


def checked_initial(initial: Mapping[str, Any], states: Sequence[str], parameters: Sequence[str]) -> dict[str, Expr]:
    """Initial values as expressions, in the order of the states."""
    if not isinstance(initial, Mapping):
        raise ModelError(f"initial must be a mapping from states to values, such as {{'x': 1}}; received {initial!r}.")
    known = [*parameters, *map(initial_name, states)]
    found = {}
    for state, value in initial.items():
        if state not in states:
            raise ModelError(f"initial has {state!r}, which is not a state.{suggestion(str(state), states)}")
        found[state] = parse_expression(value, known, f"initial {state}") if isinstance(value, str) else value
    return {state: se.sympify(found[state]) for state in states if state in found}


def natural(name: str) -> list[tuple[int, str | int]]:
    """A key to sort names by, p2 before p10."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]
