"""Equations as MathML, which browsers typeset without script, font or network."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import symengine as se

from ..model.function_table import Expr

if TYPE_CHECKING:
    from ..model.model import Model

_GREEK_NAMES = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho
    sigma tau upsilon phi chi psi omega
"""
"""Names of Greek letters, in the order of the letters below."""
GREEK = dict(zip(_GREEK_NAMES.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
"""Greek letters by their names."""
_SPACE = '<mspace width="0.17em"/>'
"""Thin space between factors: without it, `a b` could be read as one name."""
_SUM, _PRODUCT, _POWER, _ATOM = range(4)
"""How strongly the outermost operation of an expression binds, from weakest to strongest."""
MIN_DECIMAL = 1e-4
"""Absolute value of a number that is not an integer. Below, it is shown as a power of ten. By judgement."""
MAX_DECIMAL = 1e6
"""Absolute value of a number that is not an integer. From here on, it is shown as a power of ten. By judgement."""


def render_equations(model: Model) -> str:
    """Build the MathML of all equations of a model, aligned at their equals signs.

    Differential equations come first, then named expressions and initial values; events follow as text.

    Parameters
    ----------
    model : Model

    Returns
    -------
    str
    """
    second_order = {name.rstrip("'"): name for name in model.hidden}
    right_sides = dict(zip(model.states, model.expressions, strict=True))
    rows = []
    for name, expr in right_sides.items():
        if name in model.hidden:  # x' of an equation of second order, which is shown as x″
            continue
        primes, right = ("″", right_sides[second_order[name]]) if name in second_order else ("′", expr)
        cells = (("right", render_symbol(name, primes)), ("center", "<mo>=</mo>"), ("left", render_expression(right)))
        rows.append(f"<mtr>{''.join(f'<mtd style={side!r}>{body}</mtd>' for side, body in _style_cells(cells))}</mtr>")
    definitions = [(render_symbol(name), e) for name, e in model.observables.items()]
    definitions += [
        (f"<mrow>{render_symbol(name)}<mo>(</mo><mn>0</mn><mo>)</mo></mrow>", e)
        for name, e in model.initial.items()
        if str(e) != f"{name}(0)"
    ]
    for defined, expr in definitions:
        cells = (("right", defined), ("center", "<mo>=</mo>"), ("left", render_expression(expr)))
        rows.append(f"<mtr>{''.join(f'<mtd style={side!r}>{body}</mtd>' for side, body in _style_cells(cells))}</mtr>")
    table = f'<math display="block"><mtable displaystyle="true">{"".join(rows)}</mtable></math>'
    remarks = [str(event) for event in model.events]
    if model.steady is not None:
        values = ", ".join(f"{name} = {e}" for name, e in model.steady.items())
        remarks.insert(0, f"starts in the steady state{', with ' + values if values else ''}")
    return table + "".join(f"<p>{escape(line)}</p>" for line in remarks)


def _style_cells(cells: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    """Replace the side of each cell, `"left"`, `"center"` or `"right"`, by CSS that aligns it there."""
    return [(f"text-align:{side};padding:0.25em 0.15em", body) for side, body in cells]


def render_symbol(name: str, primes: str = "") -> str:
    """Typeset a name.

    Greek letters are shown as such, trailing digits and what follows `_` as an index, and `'` as a prime.
    """
    if name.endswith("'"):
        return render_symbol(name[:-1], "′")
    switch = re.fullmatch(r"if\((.+) >= (.+), 1, 0\)", name)
    if switch is not None:  # an Iverson bracket: 1 where the condition holds, 0 elsewhere
        return f"<mrow><mo>[</mo><mtext>{escape(switch[1])} ≥ {escape(switch[2])}</mtext><mo>]</mo></mrow>"
    match = re.fullmatch(r"([^\W\d_]+)(?:_?(\d+)|_(\w+))?", name)
    if match is None:
        return _add_primes(f"<mi>{escape(name)}</mi>", primes)
    letters, index = match.group(1), match.group(2) or match.group(3)
    shown = GREEK.get(letters.lower(), letters)
    if letters[:1].isupper() and letters.lower() in GREEK and len(letters) > 1:
        shown = shown.upper()
    body = f"<mi>{escape(shown)}</mi>"
    return _add_primes(body if index is None else f"<msub>{body}<mtext>{escape(index)}</mtext></msub>", primes)


def _add_primes(body: str, primes: str) -> str:
    """Add primes as a superscript."""
    return f"<msup>{body}<mo>{primes}</mo></msup>" if primes else body


def render_expression(expr: Expr) -> str:
    """Typeset an expression."""
    return _render(expr)[0]


def _render(expr: Expr) -> tuple[str, int]:
    """Typeset an expression; returns its MathML and one of `_SUM`, `_PRODUCT`, `_POWER`, `_ATOM`."""
    if expr.is_Symbol:
        return render_symbol(str(expr)), _ATOM
    if expr == se.pi:
        return "<mi>π</mi>", _ATOM
    if expr.is_Number:
        return _render_number(expr)
    if expr.is_Add:
        return _render_sum(expr), _SUM
    if expr.is_Mul:
        return _render_product(expr)
    if expr.is_Pow:
        return _render_power(*expr.args)
    name = type(expr).__name__.lower()
    name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "log": "ln"}.get(name, name)
    inside = "<mo>,</mo>".join(_render(argument)[0] for argument in expr.args)
    return f"<mrow><mi>{escape(name)}</mi><mo>(</mo>{inside}<mo>)</mo></mrow>", _ATOM


def _render_number(expr: Expr) -> tuple[str, int]:
    """Typeset a number; a negative one binds like a sum."""
    value = float(expr)
    if expr.is_Rational and not expr.is_Integer:
        top, _, bottom = str(abs(expr)).partition("/")
        body = f"<mfrac><mn>{top}</mn><mn>{bottom}</mn></mfrac>"
    elif value and not MIN_DECIMAL <= abs(value) < MAX_DECIMAL and not expr.is_Integer:
        digits, _, power = f"{abs(value):.6g}".partition("e")
        body = (
            f"<mn>{digits}</mn>"
            if not power
            else f"<mn>{digits}</mn><mo>·</mo><msup><mn>10</mn><mn>{int(power)}</mn></msup>"
        )
    else:
        body = f"<mn>{abs(value):g}</mn>"
    return (f"<mrow><mo>-</mo>{body}</mrow>", _SUM) if value < 0 else (body, _ATOM)


def _render_sum(expr: Expr) -> str:
    """Typeset a sum."""
    # Positive terms come first, so that a sum begins with a minus sign only if all its terms are negative.
    terms = sorted(
        ((_is_negative(term), -term if _is_negative(term) else term) for term in expr.args), key=lambda pair: pair[0]
    )
    parts = []
    for k, (negative, term) in enumerate(terms):
        if negative or k:
            parts.append(f"<mo>{'-' if negative else '+'}</mo>")
        parts.append(_parenthesise(term, _PRODUCT))
    return f"<mrow>{''.join(parts)}</mrow>"


def _is_negative(term: Expr) -> bool:
    """Return True if a term has a negative numerical factor."""
    factors = term.args if term.is_Mul else (term,)
    return bool(factors[0].is_Number and float(factors[0]) < 0)


def _render_product(expr: Expr) -> tuple[str, int]:
    """Typeset a product; factors with negative powers and denominators of fractions go below a fraction bar."""
    if _is_negative(expr):
        return f"<mrow><mo>-</mo>{_parenthesise(-expr, _PRODUCT)}</mrow>", _SUM
    numerator, denominator = [], []
    for factor in expr.args:
        if factor.is_Pow and factor.args[1].is_Number and float(factor.args[1]) < 0:
            denominator.append(factor.args[0] ** (-factor.args[1]))
        elif factor.is_Rational and not factor.is_Integer:
            top, _, bottom = str(factor).partition("/")
            numerator += [se.Integer(int(top))] if top != "1" else []
            denominator.append(se.Integer(int(bottom)))
        else:
            numerator.append(factor)
    if denominator:
        return f"<mfrac>{_render_factors(numerator)}{_render_factors(denominator)}</mfrac>", _POWER
    return _render_factors(numerator), _PRODUCT


def _render_factors(factors: list[Expr]) -> str:
    """Typeset factors side by side, numbers first."""
    if not factors:
        return "<mn>1</mn>"
    if len(factors) == 1:
        return f"<mrow>{_render(factors[0])[0]}</mrow>"
    ordered = sorted(factors, key=lambda f: not f.is_Number)
    return f"<mrow>{_SPACE.join(_parenthesise(factor, _PRODUCT) for factor in ordered)}</mrow>"


def _render_power(base: Expr, exponent: Expr) -> tuple[str, int]:
    """Typeset a power: as a fraction, a root or with a superscript."""
    if exponent.is_Number and float(exponent) < 0:
        under = base if exponent == -1 else base ** (-exponent)
        return f"<mfrac><mn>1</mn>{_render_factors([under])}</mfrac>", _POWER
    if base == se.E:
        return f"<msup><mi>e</mi>{_render_factors([exponent])}</msup>", _POWER
    if exponent.is_Number and float(exponent) == 0.5:
        return f"<msqrt>{_render(base)[0]}</msqrt>", _ATOM
    return f"<msup>{_parenthesise(base, _ATOM)}{_render_factors([exponent])}</msup>", _POWER


def _parenthesise(expr: Expr, min_strength: int) -> str:
    """Typeset an expression, in parentheses if it binds more weakly than `min_strength`."""
    body, strength = _render(expr)
    return f"<mrow><mo>(</mo>{body}<mo>)</mo></mrow>" if strength < min_strength else body
