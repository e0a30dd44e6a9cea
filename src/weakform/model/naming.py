"""Checks of the names of states, parameters, inputs, observables and initial values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import symengine as se

from ..support.errors import ModelError
from ..support.wording import suggest_name
from .expressions import parse_expression
from .function_table import FUNCTIONS, RESERVED_NAMES, Expr


def check_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """Return the names as a tuple, or raise `ModelError` if one is not an identifier, is reserved or occurs twice.

    Parameters
    ----------
    names : sequence of str
    what : str
        The kind of the names for error messages, in the plural.
    """
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"The {what} must be a list of names; received {names!r}.")
    for name in names:
        if not name.isidentifier():
            raise ModelError(f"{name!r} in {what} is not a name (letters, digits and _, not starting with a digit).")
        if name in RESERVED_NAMES or name in FUNCTIONS:
            raise ModelError(
                f"{name!r} in {what} is reserved: it is {describe_reserved_name(name)}. Choose another name."
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ModelError(f"{twice!r} occurs twice in {what}.")
    return tuple(names)


def describe_reserved_name(name: str) -> str:
    """Describe the meaning of a reserved name."""
    return {"t": "time", "pi": "the number π"}.get(name, "a function")


def format_initial_name(state: str) -> str:
    """Return the name of the initial value of a state as a parameter: `x(0)`."""
    return f"{state}(0)"


def check_observables(observables: Any, taken: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the values of `observe=`, or raise `ModelError` if one is not a name or is `taken`."""
    if isinstance(observables, Mapping) or observables is None:
        raise ModelError("observe=h(t, u, p) needs observables=[...], a name for each value that it returns.")
    names = check_names(observables, "observables")
    both = set(names) & set(taken)
    if both:
        raise ModelError(
            f"{sorted(both)[0]!r} is the name of an observable and of a state, parameter or input; rename one."
        )
    return names


def check_initial_values(
    initial: Mapping[str, Any], states: Sequence[str], parameters: Sequence[str]
) -> dict[str, Expr]:
    """Return initial values as expressions by state, in the order of the states.

    Parameters
    ----------
    initial : mapping of str to number, expression or str
        Text is parsed in the names of the parameters and of the initial values, `x(0)`.
    states, parameters : sequence of str

    Returns
    -------
    dict of str to expression

    Raises
    ------
    ModelError
        If a name is not that of a state, or a text is not an expression.
    """
    if not isinstance(initial, Mapping):
        raise ModelError(f"initial must be a mapping from states to values, such as {{'x': 1}}; received {initial!r}.")
    names = [*parameters, *map(format_initial_name, states)]
    values = {}
    for state, value in initial.items():
        if state not in states:
            raise ModelError(f"initial has {state!r}, which is not a state.{suggest_name(str(state), states)}")
        values[state] = parse_expression(value, names, f"initial {state}") if isinstance(value, str) else value
    return {state: se.sympify(values[state]) for state in states if state in values}


def natural_sort_key(name: str) -> list[tuple[int, str | int]]:
    """Return a key that sorts names in natural order, p2 before p10."""
    # The leading 0 or 1 keeps numbers from being compared with text.
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]
