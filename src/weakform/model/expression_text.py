"""Expressions written as text, in the syntax of a dialect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import symengine as se

from ..support.errors import ModelError
from .function_table import FUNCTIONS, Expr


@dataclass(frozen=True)
class Dialect:
    """The syntax in which a language writes expressions.

    Attributes
    ----------
    power : str
        The operator of a power.
    functions : mapping of str to str
        The name in the language of each function that the language has, by SymEngine's name in lower case.
    names : mapping of str to str
        Replacements for names of symbols.
    title : str
        The name of the language, for error messages.
    """

    power: str
    functions: Mapping[str, str]
    names: Mapping[str, str] = field(default_factory=dict)
    title: str = ""


NATIVE_DIALECT = Dialect("**", {name: name for name in FUNCTIONS}, title="text")
"""The syntax that `parse_expression` reads back as the same expression, with numbers exact to the last bit."""


def format_expression(expr: Expr, dialect: Dialect = NATIVE_DIALECT) -> str:
    """Return an expression as text.

    Parameters
    ----------
    expr : expression
    dialect : Dialect

    Returns
    -------
    str

    Raises
    ------
    ModelError
        If the dialect does not have a function of the expression.
    """
    if expr.is_Symbol:
        return dialect.names.get(str(expr), str(expr))
    if expr == se.pi:
        return "pi"
    if expr == se.E:
        return "exp(1)"
    if expr.is_Number:
        # `repr` of a float reads back as the same number. Parentheses keep -1 and 1/2 together in a product.
        number = str(expr) if expr.is_Rational else repr(float(expr))
        return f"({number})" if number.startswith("-") or "/" in number else number
    if expr.is_Add:
        return "(" + " + ".join(format_expression(term, dialect) for term in expr.args) + ")"
    if expr.is_Mul:
        return "*".join(format_expression(factor, dialect) for factor in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        # SymEngine stores exp(x) as a power of E.
        if base == se.E:
            return f"exp({format_expression(exponent, dialect)})"
        return f"({format_expression(base, dialect)}){dialect.power}({format_expression(exponent, dialect)})"
    name = type(expr).__name__.lower()
    if name not in dialect.functions:
        raise ModelError(f"The function {name!r} cannot be written as {dialect.title}.")
    return f"{dialect.functions[name]}({', '.join(format_expression(argument, dialect) for argument in expr.args)})"
