"""Expressions as text, in the words of a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import symengine as se

from ..support.errors import ModelError
from .function_table import FUNCTIONS, Expr


@dataclass(frozen=True)
class Dialect:
    """How a language writes expressions.

    Attributes
    ----------
    power : str
        The sign of a power.
    functions : mapping of str to str
        Its word for each function of SymEngine that it has.
    names : mapping of str to str
        Other words for names.
    title : str
        What the language is called.
    """

    power: str
    functions: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


OWN = Dialect("**", {name: name for name in FUNCTIONS}, title="text")
"""What `parse_expression` reads back as the same expression, numbers to the last bit."""


def to_text(expr: Expr, dialect: Dialect = OWN) -> str:
    """An expression as text."""
    if expr.is_Symbol:
        return dialect.names.get(str(expr), str(expr))
    if expr == se.pi:
        return "pi"
    if expr == se.E:
        return "exp(1)"
    if expr.is_Number:
        shown = str(expr) if expr.is_Rational else repr(float(expr))
        return f"({shown})" if shown.startswith("-") or "/" in shown else shown
    if expr.is_Add:
        return "(" + " + ".join(to_text(term, dialect) for term in expr.args) + ")"
    if expr.is_Mul:
        return "*".join(to_text(factor, dialect) for factor in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        if base == se.E:
            return f"exp({to_text(exponent, dialect)})"
        return f"({to_text(base, dialect)}){dialect.power}({to_text(exponent, dialect)})"
    name = type(expr).__name__.lower()
    if name not in dialect.functions:
        raise ModelError(f"{name!r} has no {dialect.title} form.")
    return f"{dialect.functions[name]}({', '.join(to_text(argument, dialect) for argument in expr.args)})"
