r"""Text to symbolic expressions, without ever evaluating text as code.

A hand-written tokenizer and precedence-climbing parser build SymEngine expressions from a small grammar::

    expression := term (("+" | "-") term)*
    term       := factor (("*" | "/") factor)*
    factor     := ("+" | "-")* power
    power      := atom (("**" | "^") factor)?
    atom       := number | name | function "(" expression ("," expression)* ")" | "(" expression ")"

Everything is bounded before it is built: nesting, size, the size of constant exponents, and the value of every
constant sub-expression (real and finite). A refusal is a `ModelError` that shows the line and points at the column.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import symengine as se

from .errors import ModelError

Expr = Any
"""A SymEngine expression (the library ships no types)."""

MAX_DEPTH = 50
MAX_SIZE = 20_000
MAX_EXPONENT = 100
MAX_CHARACTERS = 200_000
MAX_EXPANDED = 2_000


def absolute(x: Expr) -> Expr:
    """`|x|` as `sqrt(x²)`, whose derivatives exist in closed form away from zero."""
    return se.sqrt(x**2)


FUNCTIONS: dict[str, tuple[int, Callable[..., Expr]]] = {
    "exp": (1, se.exp),
    "log": (1, se.log),
    "ln": (1, se.log),
    "log10": (1, lambda x: se.log(x) / se.log(10)),
    "log2": (1, lambda x: se.log(x) / se.log(2)),
    "log1p": (1, lambda x: se.log(1 + x)),
    "expm1": (1, lambda x: se.exp(x) - 1),
    "sqrt": (1, se.sqrt),
    "cbrt": (1, lambda x: x ** se.Rational(1, 3)),
    "abs": (1, absolute),
    "sin": (1, se.sin),
    "cos": (1, se.cos),
    "tan": (1, se.tan),
    "arcsin": (1, se.asin),
    "arccos": (1, se.acos),
    "arctan": (1, se.atan),
    "asin": (1, se.asin),
    "acos": (1, se.acos),
    "atan": (1, se.atan),
    "sinh": (1, se.sinh),
    "cosh": (1, se.cosh),
    "tanh": (1, se.tanh),
    "arcsinh": (1, se.asinh),
    "arccosh": (1, se.acosh),
    "arctanh": (1, se.atanh),
    "asinh": (1, se.asinh),
    "acosh": (1, se.acosh),
    "atanh": (1, se.atanh),
    "erf": (1, se.erf),
    "erfc": (1, se.erfc),
    "pow": (2, lambda x, y: x**y),
}
"""Every function a model may use: all are smooth, and SymEngine compiles each of them and its derivatives."""

NOT_SMOOTH = {"min", "max", "sign", "floor", "ceil", "round", "mod", "heaviside", "where", "piecewise", "if"}
RESERVED = {"t", "pi"}

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n|;)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<op>\*\*|[-+*/^(),='])"
)


@dataclass(frozen=True)
class Token:
    """One word of the text, with its place (`line` and `column` count from one)."""

    kind: str
    text: str
    line: int
    column: int


@dataclass(frozen=True)
class Value:
    """A parsed sub-expression with what is needed to bound it."""

    expr: Expr
    size: int = 1
    depth: int = 1
    constant: bool = False


class Source:
    """A text and the means to point into it."""

    def __init__(self, text: str, what: str = "model") -> None:
        if not isinstance(text, str):
            raise ModelError(f"The {what} must be text, but a {type(text).__name__} was given.")
        if len(text) > MAX_CHARACTERS:
            raise ModelError(
                f"The {what} has {len(text):,} characters; at most {MAX_CHARACTERS:,} are read. "
                "Give a model as equations only, and data as a table."
            )
        self.text, self.what, self.lines = text, what, text.split("\n")

    def error(self, token: Token, reason: str) -> ModelError:
        """An error that shows the line of `token` with a caret under it."""
        shown = self.lines[token.line - 1].replace("\t", " ")
        start = max(0, token.column - 60)
        return ModelError(
            f"{self.what}, line {token.line}, column {token.column}: {reason}\n"
            f"  {shown[start : start + 100]}\n  {' ' * (token.column - 1 - start)}^"
        )

    def tokens(self) -> list[Token]:
        """Split the text; spaces and comments are dropped, line ends inside parentheses too."""
        found: list[Token] = []
        position, line, line_start, open_parentheses = 0, 1, 0, 0
        while position < len(self.text):
            column = position - line_start + 1
            match = _TOKEN.match(self.text, position)
            if match is None:
                bad = Token("bad", self.text[position], line, column)
                raise self.error(bad, _unexpected_character(bad.text))
            kind, word = str(match.lastgroup), match.group()
            if kind == "op":
                open_parentheses += {"(": 1, ")": -1}.get(word, 0)
            if (kind == "newline" and open_parentheses <= 0) or kind in ("number", "name", "op"):
                found.append(Token(kind, word, line, column))
            position = match.end()
            if word == "\n":
                line, line_start = line + 1, position
        found.append(Token("end", "", line, position - line_start + 1))
        return found


def _unexpected_character(character: str) -> str:
    hints = {
        '"': "text in quotes is not part of a model",
        "[": "indexing is not part of a text model; use plain names such as u1",
        ".": "attribute access (a dot) is not part of a model",
        "<": "comparisons are not part of a model; a right-hand side must be smooth",
        ">": "comparisons are not part of a model; a right-hand side must be smooth",
        "%": "the remainder is not smooth; comments start with #",
    }
    hint = hints.get(character, "expected numbers, names, + - * / ** ^ ( ) and functions such as exp")
    return f"unexpected character {character!r}: {hint}."


def suggestion(name: str, candidates: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing."""
    close = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""


def listed(names: Iterable[str]) -> str:
    """Names in a row, not too many."""
    names = list(names)
    return ", ".join(names[:20]) + (f", ... ({len(names)} in all)" if len(names) > 20 else "")


class Parser:
    """Parses one expression at a time from a list of tokens.

    Parameters
    ----------
    source : Source
    tokens : list of Token
    names : mapping
        What a name stands for; `unknown(token)` is called for others.
    unknown : callable
        Makes a `Value` for a new name, or raises.
    """

    def __init__(
        self,
        source: Source,
        tokens: list[Token],
        names: Mapping[str, Value],
        unknown: Callable[[Token], Value],
    ) -> None:
        self.source, self.tokens, self.names, self.unknown = source, tokens, names, unknown
        self.position = 0
        self.nesting = 0

    @property
    def next(self) -> Token:
        """The token to be read."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Read one token."""
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def expect(self, text: str) -> Token:
        """Read the token `text`, or complain."""
        token = self.take()
        if token.text != text:
            raise self.source.error(token, f"expected {text!r}, found {_shown(token)}.")
        return token

    def expression(self) -> Value:
        """A sum of terms."""
        left = self.term()
        while self.next.text in ("+", "-"):
            op, right = self.take(), self.term()
            left = self._join(op, left, right, left.expr + right.expr if op.text == "+" else left.expr - right.expr)
        return left

    def term(self) -> Value:
        """A product of factors."""
        left = self.factor()
        while self.next.text in ("*", "/"):
            op, right = self.take(), self.factor()
            if op.text == "/" and right.expr == 0:
                raise self.source.error(op, "division by zero.")
            left = self._join(op, left, right, left.expr * right.expr if op.text == "*" else left.expr / right.expr)
        return left

    def factor(self) -> Value:
        """A signed power; the sign binds weaker than the power, as in mathematics."""
        negative = False
        while self.next.text in ("+", "-"):
            negative ^= self.take().text == "-"
        value = self.power()
        return Value(-value.expr, value.size + 1, value.depth, value.constant) if negative else value

    def power(self) -> Value:
        """An atom, or an atom raised to a factor (right-associative)."""
        base = self.atom()
        if self.next.text not in ("**", "^"):
            return base
        op = self.take()
        with _Nested(self, op):
            exponent = self.factor()
        return self._power(op, base, exponent)

    def _power(self, op: Token, base: Value, exponent: Value) -> Value:
        if exponent.constant:
            power = _number(exponent.expr)
            if power is None or abs(power) > MAX_EXPONENT:
                raise self.source.error(
                    op, f"the exponent is too large: a constant exponent must lie within ±{MAX_EXPONENT}."
                )
            if base.constant:
                # Decided in floating point before SymEngine is asked to form a huge exact integer.
                try:
                    result = float(base.expr) ** power
                except (OverflowError, ZeroDivisionError, RuntimeError):
                    result = math.nan
                if isinstance(result, complex) or not abs(result) < 1e300:
                    raise self.source.error(op, "this constant power is not a finite real number.")
                if abs(result) > 1e15:
                    return Value(se.RealDouble(result), constant=True)
        return self._join(op, base, exponent, base.expr**exponent.expr)

    def atom(self) -> Value:
        """A number, a name, a function call or an expression in parentheses."""
        token = self.take()
        if token.kind == "number":
            value = self._literal(token)
        elif token.text == "(":
            with _Nested(self, token):
                value = self.expression()
            self.expect(")")
        elif token.kind == "name" and self.next.text == "(":
            return self._call(token)
        elif token.kind == "name":
            value = self._name(token)
        else:
            raise self.source.error(token, f"expected a number, a name or '(', found {_shown(token)}.")
        if self.next.kind in ("number", "name") or self.next.text == "(":
            raise self.source.error(
                self.next, f"an operator is missing before {_shown(self.next)} (write * for a product)."
            )
        return value

    def _literal(self, token: Token) -> Value:
        number = float(token.text)
        if not math.isfinite(number):
            raise self.source.error(token, f"the number {token.text} is too large.")
        exact = token.text.isdigit() and number < 1e15
        return Value(se.Integer(int(token.text)) if exact else se.RealDouble(number), constant=True)

    def _name(self, token: Token) -> Value:
        if token.text == "pi":
            return Value(se.pi, constant=True)
        if self.next.text == "'":
            mark = self.take()
            if f"{token.text}'" not in self.names:
                raise self.source.error(
                    mark, f"{token.text}' may stand on the right only where there is an equation {token.text}'' = ..."
                )
            return self.names[f"{token.text}'"]
        if token.text in self.names:
            return self.names[token.text]
        return self.unknown(token)

    def _call(self, token: Token) -> Value:
        if token.text.lower() in NOT_SMOOTH:
            raise self.source.error(
                token, f"{token.text!r} is not smooth; the right-hand side must be twice differentiable."
            )
        if token.text not in FUNCTIONS:
            if token.text in self.names:
                raise self.source.error(token, f"{token.text!r} is a variable, not a function (write * for a product).")
            known = ", ".join(sorted(FUNCTIONS))
            raise self.source.error(
                token, f"unknown function {token.text!r}.{suggestion(token.text, FUNCTIONS)} Known: {known}."
            )
        arity, function = FUNCTIONS[token.text]
        opening = self.take()
        with _Nested(self, opening):
            arguments = [self.expression()]
            while self.next.text == ",":
                self.take()
                arguments.append(self.expression())
        self.expect(")")
        if len(arguments) != arity:
            raise self.source.error(
                token, f"{token.text} takes {arity} argument{'s' * (arity > 1)}, {len(arguments)} given."
            )
        if token.text == "pow":
            return self._power(token, *arguments)
        value = arguments[0]
        try:
            made = function(value.expr)
        except RuntimeError as error:
            raise self.source.error(token, f"this is never a finite real number: {error}.") from None
        return self._join(token, value, Value(None, 0, 0, True), made)

    def _join(self, place: Token, left: Value, right: Value, expr: Expr) -> Value:
        size, depth = left.size + right.size + 1, max(left.depth, right.depth) + 1
        constant = left.constant and right.constant
        if size > MAX_SIZE:
            raise self.source.error(place, f"the expression has more than {MAX_SIZE:,} terms and operations.")
        # Long sums and products are flat in SymEngine; only what really nests counts as depth.
        if place.text in ("+", "-", "*", "/"):
            depth -= 1
        if depth > MAX_DEPTH:
            raise self.source.error(place, f"functions and powers are nested more than {MAX_DEPTH} deep.")
        if (constant or expr.is_Number) and _number(expr) is None:
            raise self.source.error(place, "this constant is not a finite real number.")
        return Value(expr, size, depth, constant)


class _Nested:
    """Counts open parentheses, function calls and exponents, and refuses too many."""

    def __init__(self, parser: Parser, place: Token) -> None:
        self.parser, self.place = parser, place

    def __enter__(self) -> None:
        self.parser.nesting += 1
        if self.parser.nesting > MAX_DEPTH:
            raise self.parser.source.error(self.place, f"nested more than {MAX_DEPTH} deep.")

    def __exit__(self, *_: object) -> None:
        self.parser.nesting -= 1


def _number(expr: Expr) -> float | None:
    """The value of a constant expression, or None if it is not a finite real number."""
    try:
        value = float(expr)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _shown(token: Token) -> str:
    return {"end": "the end", "newline": "the end of the line"}.get(token.kind, repr(token.text))


def expanded(expr: Expr) -> Expr:
    """The expression multiplied out, so that what cancels does; as it is, where this would make it huge."""
    return expr.expand(deep=False) if _terms(expr) <= MAX_EXPANDED else expr


def _terms(expr: Expr) -> int:
    """How many terms an expression has, at most, once it is multiplied out."""
    if expr.is_Add:
        return sum(map(_terms, expr.args))
    if expr.is_Mul:
        return math.prod(map(_terms, expr.args))
    if expr.is_Pow and expr.args[1].is_Integer:
        inside, power = _terms(expr.args[0]), abs(int(expr.args[1]))
        return math.comb(inside + power - 1, power)
    return 1


def to_text(expr: Expr) -> str:
    """An expression as text that is read back as the same expression, numbers to the last bit."""
    if expr.is_Symbol or expr == se.pi:
        return str(expr)
    if expr == se.E:
        return "exp(1)"
    if expr.is_Number:
        shown = str(expr) if expr.is_Rational else repr(float(expr))
        return f"({shown})" if shown.startswith("-") or "/" in shown else shown
    if expr.is_Add:
        parts = [to_text(term) for term in expr.args]
        return "(" + " + ".join(parts) + ")"
    if expr.is_Mul:
        return "*".join(to_text(factor) for factor in expr.args)
    if expr.is_Pow:
        base, exponent = expr.args
        if base == se.E:
            return f"exp({to_text(exponent)})"
        return f"({to_text(base)})**({to_text(exponent)})"
    inside = ", ".join(to_text(argument) for argument in expr.args)
    return f"{type(expr).__name__.lower()}({inside})"


def parse_expression(text: str, names: Iterable[str], what: str = "expression") -> Expr:
    """Parse one expression in the given names.

    Parameters
    ----------
    text : str
    names : iterable of str
        The only names that may occur.
    what : str
        What the text is, for error messages.
    """
    known = list(names)
    source = Source(text, what)

    def unknown(token: Token) -> Value:
        raise source.error(
            token, f"unknown name {token.text!r}.{suggestion(token.text, known)} Known: {', '.join(known)}."
        )

    parser = Parser(source, source.tokens(), {name: Value(se.Symbol(name)) for name in known}, unknown)
    value = parser.expression()
    if parser.next.kind != "end":
        raise source.error(parser.next, f"expected the end, found {_shown(parser.next)}.")
    return value.expr
