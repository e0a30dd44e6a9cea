r"""Parsing of text to symbolic expressions, without ever evaluating text as code.

A hand-written tokenizer and precedence-climbing parser build SymEngine expressions from a small grammar::

    expression := term (("+" | "-") term)*
    term       := factor (("*" | "/") factor)*
    factor     := ("+" | "-")* power
    power      := atom (("**" | "^") factor)?
    atom       := number | name | function "(" expression ("," expression)* ")" | "(" expression ")" | switch
    switch     := "if" "(" condition "," expression "," expression ")"
                | "piecewise" "(" expression "," condition ("," expression "," condition)* "," expression ")"
    condition  := conjunct ("or" conjunct)*
    conjunct   := comparison ("and" comparison)*
    comparison := "not" comparison | "(" condition ")" | expression ("<" | "<=" | ">" | ">=") expression

Nesting, length and constant exponents are bounded before an expression is built, and every constant sub-expression must
be real and finite. Text that is refused raises a `ModelError` that shows the line and points at the column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import symengine as se

from ..support.wording import suggest_name
from .conditions import LOGICAL_OPERATORS, ConditionParser
from .function_table import FUNCTIONS, NON_SMOOTH_FUNCTIONS, SWITCH_FUNCTIONS, Expr
from .parse_tree import MAX_NESTING_DEPTH, NestingGuard, ParsedExpression, describe_token
from .tokenizer import SourceText, Token

MAX_EXPRESSION_SIZE = 20_000
"""Number of terms and operations in one expression above which it is refused. By judgement."""

MAX_CONSTANT_EXPONENT = 100
"""Absolute value of a constant exponent above which a power is refused. By judgement."""

MAX_EXACT_CONSTANT = 1e15
"""Absolute value up to which integer constants remain exact; larger ones become floating-point numbers.

It is below 2^53, so an integer within it is exact as a floating-point number, too.
"""

MAX_CONSTANT_POWER = 1e300
"""Absolute value from which on a constant power is refused as infinite.

It is just below the largest floating-point number, 1.8e308. By judgement.
"""


class Parser(ConditionParser):
    """A parser of one expression at a time from a list of tokens.

    Parameters
    ----------
    source : SourceText
    tokens : list of Token
        The tokens of one expression, the last of which has the kind `end`.
    names : mapping of str to ParsedExpression
        The expressions of the names that are defined.
    resolve_unknown : callable
        Maps the token of any other name to a `ParsedExpression`, or raises `ModelError`.
    initial_values : mapping of str to ParsedExpression, optional
        Names that may be written as `name(0)`, and the expressions of these initial values.
    switches : dict, optional
        Collects the trigger of each switch by the name of the switch. Without it switches are refused.
    """

    def __init__(
        self,
        source: SourceText,
        tokens: list[Token],
        names: Mapping[str, ParsedExpression],
        resolve_unknown: Callable[[Token], ParsedExpression],
        initial_values: Mapping[str, ParsedExpression] | None = None,
        *,
        switches: dict[str, Expr] | None = None,
    ) -> None:
        self.source, self.tokens, self.names, self.resolve_unknown = source, tokens, names, resolve_unknown
        self.initial_values, self.switches = initial_values or {}, switches
        self.position = 0
        self.nesting = 0

    @property
    def next_token(self) -> Token:
        """The next token."""
        return self.tokens[self.position]

    def take_token(self) -> Token:
        """Return the next token and move past it, unless it is the end."""
        token = self.tokens[self.position]
        self.position += token.kind != "end"
        return token

    def expect_token(self, text: str) -> Token:
        """Read the token `text`, or raise `ModelError` if the next token is a different one."""
        token = self.take_token()
        if token.text != text:
            raise self.source.build_error(token, f"expected {text!r}, found {describe_token(token)}.")
        return token

    def parse_sum(self) -> ParsedExpression:
        """Parse a sum of terms."""
        left = self.parse_product()
        while self.next_token.text in ("+", "-"):
            op, right = self.take_token(), self.parse_product()
            left = self.join_values(
                op, left, right, left.expr + right.expr if op.text == "+" else left.expr - right.expr
            )
        return left

    def parse_product(self) -> ParsedExpression:
        """Parse a product of factors."""
        left = self.parse_signed_power()
        while self.next_token.text in ("*", "/"):
            op, right = self.take_token(), self.parse_signed_power()
            if op.text == "/" and right.expr == 0:
                raise self.source.build_error(op, "division by zero.")
            left = self.join_values(
                op, left, right, left.expr * right.expr if op.text == "*" else left.expr / right.expr
            )
        return left

    def parse_signed_power(self) -> ParsedExpression:
        """Parse a signed power; the sign binds weaker than the power, as in mathematics: -2**2 is -4."""
        negative = False
        while self.next_token.text in ("+", "-"):
            negative ^= self.take_token().text == "-"
        value = self.parse_power()
        return ParsedExpression(-value.expr, value.size + 1, value.depth, value.constant) if negative else value

    def parse_power(self) -> ParsedExpression:
        """Parse an atom, or an atom raised to a factor (right-associative)."""
        base = self.parse_atom()
        if self.next_token.text not in ("**", "^"):
            return base
        op, begin = self.take_token(), self.tokens[self.position - 2]
        with NestingGuard(self, op):
            exponent = self.parse_signed_power()
        # e^x probably means exp(x), so it is refused, not read as a power of a parameter e.
        if begin.text in ("e", "E") and begin.text not in self.names and not exponent.constant:
            raise self.source.build_error(
                begin, f"{begin.text!r} is not a number here; write exp(...) for the exponential function."
            )
        return self._raise_to_power(op, base, exponent)

    def _raise_to_power(self, op: Token, base: ParsedExpression, exponent: ParsedExpression) -> ParsedExpression:
        """Return `base**exponent`, or raise `ModelError` if it is a constant that is too large or not real."""
        if exponent.constant:
            power = _evaluate_constant(exponent.expr)
            if power is None or abs(power) > MAX_CONSTANT_EXPONENT:
                raise self.source.build_error(
                    op, f"the exponent is too large: a constant exponent must be within ±{MAX_CONSTANT_EXPONENT}."
                )
            if base.constant:
                # Checked in floating point first, because SymEngine would form a huge exact integer.
                try:
                    result = float(base.expr) ** power
                except (OverflowError, ZeroDivisionError, RuntimeError):
                    result = math.nan
                if isinstance(result, complex) or not abs(result) < MAX_CONSTANT_POWER:
                    raise self.source.build_error(op, "this constant power is not a finite real number.")
                if abs(result) > MAX_EXACT_CONSTANT:
                    return ParsedExpression(se.RealDouble(result), constant=True)
        return self.join_values(op, base, exponent, base.expr**exponent.expr)

    def parse_atom(self) -> ParsedExpression:
        """Parse a number, a name, a function call or an expression in parentheses."""
        token = self.take_token()
        if token.kind == "number":
            value = self._parse_number(token)
        elif token.text == "(":
            with NestingGuard(self, token):
                value = self.parse_sum()
            self.expect_token(")")
        elif token.kind == "name" and (initial_value := self._parse_initial_value(token)) is not None:
            value = initial_value
        elif token.kind == "name" and self.next_token.text == "(":
            return self._parse_call(token)
        elif token.kind == "name":
            value = self._resolve_name(token)
        else:
            raise self.source.build_error(token, f"expected a number, a name or '(', found {describe_token(token)}.")
        if (
            self.next_token.kind in ("number", "name") and self.next_token.text not in LOGICAL_OPERATORS
        ) or self.next_token.text == "(":
            raise self.source.build_error(
                self.next_token,
                f"an operator is missing before {describe_token(self.next_token)} (write * for a product).",
            )
        return value

    def _parse_initial_value(self, token: Token) -> ParsedExpression | None:
        """Parse `name(0)` or `name'(0)` after its name; return None, without reading, if it is not an initial value."""
        prime = int(self.next_token.text == "'")
        name = token.text + "'" * prime
        after = [t.text for t in self.tokens[self.position + prime : self.position + prime + 4]]
        if after[:3] != ["(", "0", ")"]:
            return None
        # The initial value of one trajectory has a label behind it, as in x(0)_a.
        label = f"{name}(0){after[3]}" if len(after) > 3 else ""
        if label in self.initial_values or name in self.initial_values:
            self.position += prime + (4 if label in self.initial_values else 3)
            return self.initial_values[label if label in self.initial_values else name]
        return None

    def _parse_number(self, token: Token) -> ParsedExpression:
        """Return the number of a token, exact if it is an integer below `MAX_EXACT_CONSTANT`."""
        number = float(token.text)
        if not math.isfinite(number):
            raise self.source.build_error(token, f"the number {token.text} is too large.")
        exact = token.text.isdigit() and number < MAX_EXACT_CONSTANT
        return ParsedExpression(se.Integer(int(token.text)) if exact else se.RealDouble(number), constant=True)

    def _resolve_name(self, token: Token) -> ParsedExpression:
        """Return the expression of a name, or of a first derivative `name'`."""
        if token.text == "pi":
            return ParsedExpression(se.pi, constant=True)
        if self.next_token.text == "'":
            prime = self.take_token()
            if f"{token.text}'" not in self.names:
                raise self.source.build_error(
                    prime,
                    f"{token.text}' is allowed on the right only where there is an equation {token.text}'' = ...",
                )
            return self.names[f"{token.text}'"]
        if token.text in self.names:
            return self.names[token.text]
        return self.resolve_unknown(token)

    def _parse_call(self, token: Token) -> ParsedExpression:
        """Parse the arguments of a function call and apply the function named by `token`."""
        if token.text in SWITCH_FUNCTIONS:
            return self.parse_switch(token)
        if token.text.lower() in NON_SMOOTH_FUNCTIONS:
            raise self.source.build_error(
                token,
                f"{token.text!r} is not smooth; the right-hand side must be twice "
                f"differentiable.{_suggest_smooth_form(token)}",
            )
        if token.text not in FUNCTIONS:
            if token.text in self.names:
                raise self.source.build_error(
                    token, f"{token.text!r} is a variable, not a function (write * for a product)."
                )
            function_names = ", ".join(sorted(FUNCTIONS))
            raise self.source.build_error(
                token,
                f"unknown function {token.text!r}.{suggest_name(token.text, FUNCTIONS)} Known functions: "
                f"{function_names}.",
            )
        arity, function = FUNCTIONS[token.text]
        opening = self.take_token()
        with NestingGuard(self, opening):
            arguments = [self.parse_sum()]
            while self.next_token.text == ",":
                self.take_token()
                arguments.append(self.parse_sum())
        self.expect_token(")")
        if len(arguments) != arity:
            raise self.source.build_error(
                token, f"{token.text} takes {arity} argument{'s' * (arity > 1)}, received {len(arguments)}."
            )
        if token.text == "pow":
            return self._raise_to_power(token, *arguments)
        try:
            expr = function(*(argument.expr for argument in arguments))
        except RuntimeError as error:
            raise self.source.build_error(token, f"this is never a finite real number: {error}.") from None
        size, depth = sum(a.size for a in arguments), max(a.depth for a in arguments)
        inner = ParsedExpression(arguments[0].expr, size, depth, all(a.constant for a in arguments))
        return self.join_values(token, inner, ParsedExpression(None, 0, 0, True), expr)

    def join_values(
        self, place: Token, left: ParsedExpression, right: ParsedExpression, expr: Expr
    ) -> ParsedExpression:
        """Return `expr`, made of `left` and `right`, with its size and depth.

        Parameters
        ----------
        place : Token
            The operator or function that joins the parts; errors point at it.
        left, right : ParsedExpression
            The parts, whose sizes add up.
        expr : expression
            The joined expression.

        Raises
        ------
        ModelError
            If the expression is too long, nested too deep, or a constant that is not finite and real.
        """
        size, depth = left.size + right.size + 1, max(left.depth, right.depth) + 1
        constant = left.constant and right.constant
        if size > MAX_EXPRESSION_SIZE:
            raise self.source.build_error(
                place, f"the expression has more than {MAX_EXPRESSION_SIZE:,} terms and operations."
            )
        # Long sums and products are flat in SymEngine, so only functions and powers count as depth.
        if place.text in ("+", "-", "*", "/"):
            depth -= 1
        if depth > MAX_NESTING_DEPTH:
            raise self.source.build_error(place, f"functions and powers are nested more than {MAX_NESTING_DEPTH} deep.")
        if (constant or expr.is_Number) and _evaluate_constant(expr) is None:
            raise self.source.build_error(place, "this constant is not a finite real number.")
        return ParsedExpression(expr, size, depth, constant)


def _evaluate_constant(expr: Expr) -> float | None:
    """Return the value of a constant expression, or None if it is not a finite real number."""
    try:
        value = float(expr)
    except (RuntimeError, TypeError, ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def _suggest_smooth_form(token: Token) -> str:
    """Return a sentence that suggests the smooth form of `min` or `max`, or an empty text for other functions."""
    name = token.text.lower()
    if name not in ("min", "max"):
        return ""
    return f" Use smooth_{name}(a, b, width), whose corner is rounded over a width."


def parse_expression(
    text: str, names: Iterable[str], description: str = "expression", switches: dict[str, Expr] | None = None
) -> Expr:
    """Parse an expression in the names `names`.

    Parameters
    ----------
    text : str
    names : iterable of str
        The only names that may occur; `x(0)` and `x(0)_a` are the initial values of a state x.
    description : str
        A description of the text for error messages.
    switches : dict, optional
        Collects the trigger of each switch by the name of the switch. Without it switches are refused.

    Returns
    -------
    expression

    Raises
    ------
    ModelError
        If the text is not an expression in these names.
    """
    allowed = list(names)
    source = SourceText(text, description)

    def refuse_unknown(token: Token) -> ParsedExpression:
        raise source.build_error(
            token, f"unknown name {token.text!r}.{suggest_name(token.text, allowed)} Known names: {', '.join(allowed)}."
        )

    values = {name: ParsedExpression(se.Symbol(name)) for name in allowed}
    initial_values = {name.removesuffix("(0)"): value for name, value in values.items() if name.endswith("(0)")}
    initial_values |= {name: value for name, value in values.items() if "(0)_" in name}
    parser = Parser(source, source.tokenize(), values, refuse_unknown, initial_values, switches=switches)
    value = parser.parse_sum()
    if parser.next_token.kind != "end":
        raise source.build_error(parser.next_token, f"expected the end, found {describe_token(parser.next_token)}.")
    return value.expr
