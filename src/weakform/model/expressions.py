r"""Text to symbolic expressions, without ever evaluating text as code.

A hand-written tokenizer and precedence-climbing parser build SymEngine expressions from a small grammar::

    expression := term (("+" | "-") term)*
    term       := factor (("*" | "/") factor)*
    factor     := ("+" | "-")* power
    power      := atom (("**" | "^") factor)?
    atom       := number | name | function "(" expression ("," expression)* ")" | "(" expression ")" | switch
    switch     := "if" "(" condition "," expression "," expression ")"
                | "piecewise" "(" expression "," condition ("," expression "," condition)* "," expression ")"
    condition  := both ("or" both)*
    both       := compared ("and" compared)*
    compared   := "not" compared | "(" condition ")" | expression ("<" | "<=" | ">" | ">=") expression

Everything is bounded before it is built: nesting, size, the size of constant exponents, and the value of every
constant sub-expression (real and finite). A refusal is a `ModelError` that shows the line and points at the column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import symengine as se

from ..support.wording import suggestion
from .conditions import JOINED, Conditions
from .function_table import FUNCTIONS, NOT_SMOOTH, SWITCHES, Expr
from .parse_tree import MAX_DEPTH, Nested, Value, shown
from .tokenizer import Source, Token

MAX_SIZE = 20_000
MAX_EXPONENT = 100


class Parser(Conditions):
    """Parses one expression at a time from a list of tokens.

    Parameters
    ----------
    source : Source
    tokens : list of Token
    names : mapping
        What a name stands for; `unknown(token)` is called for others.
    unknown : callable
        Makes a `Value` for a new name, or raises.
    at_zero : mapping
        Names that may stand as `name(0)`, and what that stands for.
    switches : dict, optional
        Where switches are collected: what each name stands for. Without it there may be none.
    """

    def __init__(
        self,
        source: Source,
        tokens: list[Token],
        names: Mapping[str, Value],
        unknown: Callable[[Token], Value],
        at_zero: Mapping[str, Value] | None = None,
        *,
        switches: dict[str, Expr] | None = None,
    ) -> None:
        self.source, self.tokens, self.names, self.unknown = source, tokens, names, unknown
        self.at_zero, self.switches = at_zero or {}, switches
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
            raise self.source.error(token, f"expected {text!r}, found {shown(token)}.")
        return token

    def expression(self) -> Value:
        """A sum of terms."""
        left = self.term()
        while self.next.text in ("+", "-"):
            op, right = self.take(), self.term()
            left = self.join(op, left, right, left.expr + right.expr if op.text == "+" else left.expr - right.expr)
        return left

    def term(self) -> Value:
        """A product of factors."""
        left = self.factor()
        while self.next.text in ("*", "/"):
            op, right = self.take(), self.factor()
            if op.text == "/" and right.expr == 0:
                raise self.source.error(op, "division by zero.")
            left = self.join(op, left, right, left.expr * right.expr if op.text == "*" else left.expr / right.expr)
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
        op, begin = self.take(), self.tokens[self.position - 2]
        with Nested(self, op):
            exponent = self.factor()
        if begin.text in ("e", "E") and begin.text not in self.names and not exponent.constant:
            raise self.source.error(
                begin, f"{begin.text!r} is not a number here; write exp(...) for the exponential function."
            )
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
        return self.join(op, base, exponent, base.expr**exponent.expr)

    def atom(self) -> Value:
        """A number, a name, a function call or an expression in parentheses."""
        token = self.take()
        if token.kind == "number":
            value = self._literal(token)
        elif token.text == "(":
            with Nested(self, token):
                value = self.expression()
            self.expect(")")
        elif token.kind == "name" and (begun := self._beginning(token)) is not None:
            value = begun
        elif token.kind == "name" and self.next.text == "(":
            return self._call(token)
        elif token.kind == "name":
            value = self._name(token)
        else:
            raise self.source.error(token, f"expected a number, a name or '(', found {shown(token)}.")
        if (self.next.kind in ("number", "name") and self.next.text not in JOINED) or self.next.text == "(":
            raise self.source.error(
                self.next, f"an operator is missing before {shown(self.next)} (write * for a product)."
            )
        return value

    def _beginning(self, token: Token) -> Value | None:
        """`name(0)` or `name'(0)`, where it stands for something."""
        mark = int(self.next.text == "'")
        name = token.text + "'" * mark
        after = [t.text for t in self.tokens[self.position + mark : self.position + mark + 4]]
        if after[:3] != ["(", "0", ")"]:
            return None
        # That of one trajectory, as in x(0)_a.
        label = f"{name}(0){after[3]}" if len(after) > 3 else ""
        if label in self.at_zero or name in self.at_zero:
            self.position += mark + (4 if label in self.at_zero else 3)
            return self.at_zero[label if label in self.at_zero else name]
        return None

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
        if token.text in SWITCHES:
            return self.switch(token)
        if token.text.lower() in NOT_SMOOTH:
            raise self.source.error(
                token,
                f"{token.text!r} is not smooth; the right-hand side must be twice differentiable.{_rounded(token)}",
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
        with Nested(self, opening):
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
        try:
            made = function(*(argument.expr for argument in arguments))
        except RuntimeError as error:
            raise self.source.error(token, f"this is never a finite real number: {error}.") from None
        size, depth = sum(a.size for a in arguments), max(a.depth for a in arguments)
        inner = Value(arguments[0].expr, size, depth, all(a.constant for a in arguments))
        return self.join(token, inner, Value(None, 0, 0, True), made)

    def join(self, place: Token, left: Value, right: Value, expr: Expr) -> Value:
        """Two parts as one, within the limits."""
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


def _number(expr: Expr) -> float | None:
    """The value of a constant expression, or None if it is not a finite real number."""
    try:
        value = float(expr)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _rounded(token: Token) -> str:
    """Smooth forms of what is not smooth, for those who want them."""
    name = token.text.lower()
    return f" smooth_{name}(a, b, width) is, with a corner rounded over a width." if name in ("min", "max") else ""


def parse_expression(
    text: str, names: Iterable[str], what: str = "expression", switches: dict[str, Expr] | None = None
) -> Expr:
    """Parse one expression in the given names.

    Parameters
    ----------
    text : str
    names : iterable of str
        The only names that may occur.
    what : str
        What the text is, for error messages.
    switches : dict, optional
        Where switches are collected; without it there may be none.
    """
    known = list(names)
    source = Source(text, what)

    def unknown(token: Token) -> Value:
        raise source.error(
            token, f"unknown name {token.text!r}.{suggestion(token.text, known)} Known: {', '.join(known)}."
        )

    values = {name: Value(se.Symbol(name)) for name in known}
    beginnings = {name[:-3]: value for name, value in values.items() if name.endswith("(0)")}
    beginnings |= {name: value for name, value in values.items() if "(0)_" in name}
    parser = Parser(source, source.tokens(), values, unknown, beginnings, switches=switches)
    value = parser.expression()
    if parser.next.kind != "end":
        raise source.error(parser.next, f"expected the end, found {shown(parser.next)}.")
    return value.expr
