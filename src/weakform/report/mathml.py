"""Equations as MathML, which browsers typeset themselves: no script, no font, no network."""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

import symengine as se

from ..model.function_table import Expr

if TYPE_CHECKING:
    from ..model.model import Model

_LETTERS = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho
    sigma tau upsilon phi chi psi omega
"""
GREEK = dict(zip(_LETTERS.split(), "αβγδεζηθικλμνξοπρστυφχψω", strict=True))
_SPACE = '<mspace width="0.17em"/>'
_SUM, _PRODUCT, _POWER, _ATOM = range(4)


def equations(model: Model) -> str:
    """All equations of a model, aligned at their equals signs."""
    order = {name.rstrip("'"): name for name in model.hidden}
    shown = dict(zip(model.states, model.expressions, strict=True))
    rows = []
    for name, expr in shown.items():
        if name in model.hidden:
            continue
        primes, right = ("″", shown[order[name]]) if name in order else ("′", expr)
        cells = (("right", symbol(name, primes)), ("center", "<mo>=</mo>"), ("left", expression(right)))
        rows.append(f"<mtr>{''.join(f'<mtd style={side!r}>{body}</mtd>' for side, body in _aligned(cells))}</mtr>")
    named = [(symbol(name), e) for name, e in model.observables.items()]
    named += [
        (f"<mrow>{symbol(name)}<mo>(</mo><mn>0</mn><mo>)</mo></mrow>", e)
        for name, e in model.initial.items()
        if str(e) != f"{name}(0)"
    ]
    for left, right in named:
        cells = (("right", left), ("center", "<mo>=</mo>"), ("left", expression(right)))
        rows.append(f"<mtr>{''.join(f'<mtd style={side!r}>{body}</mtd>' for side, body in _aligned(cells))}</mtr>")
    table = f'<math display="block"><mtable displaystyle="true">{"".join(rows)}</mtable></math>'
    said = [str(event) for event in model.events]
    if model.steady is not None:
        values = ", ".join(f"{name} = {e}" for name, e in model.steady.items())
        said.insert(0, f"at rest before it begins{', with ' + values if values else ''}")
    return table + "".join(f"<p>{escape(line)}</p>" for line in said)


def _aligned(cells: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(f"text-align:{side};padding:0.25em 0.15em", body) for side, body in cells]


def symbol(name: str, primes: str = "") -> str:
    """A name: Greek letters as such, trailing digits and what follows `_` as an index, `'` as a prime."""
    if name.endswith("'"):
        return symbol(name[:-1], "′")
    switch = re.fullmatch(r"if\((.+) >= (.+), 1, 0\)", name)
    if switch is not None:  # one where the condition holds, zero elsewhere
        return f"<mrow><mo>[</mo><mtext>{escape(switch[1])} ≥ {escape(switch[2])}</mtext><mo>]</mo></mrow>"
    match = re.fullmatch(r"([^\W\d_]+)(?:_?(\d+)|_(\w+))?", name)
    if match is None:
        return _primed(f"<mi>{escape(name)}</mi>", primes)
    stem, index = match.group(1), match.group(2) or match.group(3)
    shown = GREEK.get(stem.lower(), stem)
    if stem[:1].isupper() and stem.lower() in GREEK and len(stem) > 1:
        shown = shown.upper()
    body = f"<mi>{escape(shown)}</mi>"
    return _primed(body if index is None else f"<msub>{body}<mtext>{escape(index)}</mtext></msub>", primes)


def _primed(body: str, primes: str) -> str:
    return f"<msup>{body}<mo>{primes}</mo></msup>" if primes else body


def expression(expr: Expr) -> str:
    """An expression."""
    return _shown(expr)[0]


def _shown(expr: Expr) -> tuple[str, int]:
    """MathML, and how strongly its outermost operation binds."""
    if expr.is_Symbol:
        return symbol(str(expr)), _ATOM
    if expr == se.pi:
        return "<mi>π</mi>", _ATOM
    if expr.is_Number:
        return _number(expr)
    if expr.is_Add:
        return _sum(expr), _SUM
    if expr.is_Mul:
        return _product(expr)
    if expr.is_Pow:
        return _power(*expr.args)
    name = type(expr).__name__.lower()
    name = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "log": "ln"}.get(name, name)
    inside = "<mo>,</mo>".join(_shown(argument)[0] for argument in expr.args)
    return f"<mrow><mi>{escape(name)}</mi><mo>(</mo>{inside}<mo>)</mo></mrow>", _ATOM


def _number(expr: Expr) -> tuple[str, int]:
    value = float(expr)
    if expr.is_Rational and not expr.is_Integer:
        top, _, bottom = str(abs(expr)).partition("/")
        body = f"<mfrac><mn>{top}</mn><mn>{bottom}</mn></mfrac>"
    elif value and not 1e-4 <= abs(value) < 1e6 and not expr.is_Integer:
        digits, _, power = f"{abs(value):.6g}".partition("e")
        body = (
            f"<mn>{digits}</mn>"
            if not power
            else f"<mn>{digits}</mn><mo>·</mo><msup><mn>10</mn><mn>{int(power)}</mn></msup>"
        )
    else:
        body = f"<mn>{abs(value):g}</mn>"
    return (f"<mrow><mo>-</mo>{body}</mrow>", _SUM) if value < 0 else (body, _ATOM)


def _sum(expr: Expr) -> str:
    # Terms without a minus first, so that a line does not begin with one if it need not.
    terms = sorted(
        ((_negative(term), -term if _negative(term) else term) for term in expr.args), key=lambda pair: pair[0]
    )
    parts = []
    for k, (negative, term) in enumerate(terms):
        if negative or k:
            parts.append(f"<mo>{'-' if negative else '+'}</mo>")
        parts.append(_wrapped(term, _PRODUCT))
    return f"<mrow>{''.join(parts)}</mrow>"


def _negative(term: Expr) -> bool:
    factors = term.args if term.is_Mul else (term,)
    return bool(factors[0].is_Number and float(factors[0]) < 0)


def _product(expr: Expr) -> tuple[str, int]:
    if _negative(expr):
        return f"<mrow><mo>-</mo>{_wrapped(-expr, _PRODUCT)}</mrow>", _SUM
    above, below = [], []
    for factor in expr.args:
        if factor.is_Pow and factor.args[1].is_Number and float(factor.args[1]) < 0:
            below.append(factor.args[0] ** (-factor.args[1]))
        elif factor.is_Rational and not factor.is_Integer:
            top, _, bottom = str(factor).partition("/")
            above += [se.Integer(int(top))] if top != "1" else []
            below.append(se.Integer(int(bottom)))
        else:
            above.append(factor)
    if below:
        return f"<mfrac>{_times(above)}{_times(below)}</mfrac>", _POWER
    return _times(above), _PRODUCT


def _times(factors: list[Expr]) -> str:
    if not factors:
        return "<mn>1</mn>"
    if len(factors) == 1:
        return f"<mrow>{_shown(factors[0])[0]}</mrow>"
    ordered = sorted(factors, key=lambda f: not f.is_Number)
    return f"<mrow>{_SPACE.join(_wrapped(factor, _PRODUCT) for factor in ordered)}</mrow>"


def _power(base: Expr, exponent: Expr) -> tuple[str, int]:
    if exponent.is_Number and float(exponent) < 0:
        under = base if exponent == -1 else base ** (-exponent)
        return f"<mfrac><mn>1</mn>{_times([under])}</mfrac>", _POWER
    if base == se.E:
        return f"<msup><mi>e</mi>{_times([exponent])}</msup>", _POWER
    if exponent.is_Number and float(exponent) == 0.5:
        return f"<msqrt>{_shown(base)[0]}</msqrt>", _ATOM
    return f"<msup>{_wrapped(base, _ATOM)}{_times([exponent])}</msup>", _POWER


def _wrapped(expr: Expr, least: int) -> str:
    """In parentheses if it binds more weakly than `least`."""
    body, strength = _shown(expr)
    return f"<mrow><mo>(</mo>{body}<mo>)</mo></mrow>" if strength < least else body
