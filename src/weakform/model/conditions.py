"""Parsing of conditions: the comparisons that switch a right-hand side."""

from __future__ import annotations

import symengine as se

from .events import TIME_SYMBOL, format_switch_name
from .function_table import Expr
from .parse_tree import NestingGuard, ParsedExpression, describe_token
from .tokenizer import SourceText, Token

MAX_SWITCHES = 100
"""Number of distinct switches in one model above which the model is refused. By judgement."""

COMPARISON_OPERATORS = ("<", "<=", ">", ">=")
"""Operators that compare two expressions."""

LOGICAL_OPERATORS = ("and", "or")
"""Operators that join two conditions; `and` binds more strongly."""


class ConditionParser:
    """The part of the parser that reads `if(t < 10, a, b)` and `piecewise(a, t < 10, b)`; see `expressions`."""

    source: SourceText
    tokens: list[Token]
    position: int
    nesting: int
    switches: dict[str, Expr] | None

    @property
    def next_token(self) -> Token:
        """The next token."""
        raise NotImplementedError

    def take_token(self) -> Token:
        """Return the next token and move past it, unless it is the end."""
        raise NotImplementedError

    def expect_token(self, text: str) -> Token:
        """Read the token `text`, or raise `ModelError` if the next token is a different one."""
        raise NotImplementedError

    def parse_sum(self) -> ParsedExpression:
        """Parse a sum of terms."""
        raise NotImplementedError

    def join_values(
        self, place: Token, left: ParsedExpression, right: ParsedExpression, expr: Expr
    ) -> ParsedExpression:
        """Return `expr`, made of `left` and `right`, with its size and depth; raise `ModelError` beyond the limits."""
        raise NotImplementedError

    def parse_condition(self) -> ParsedExpression:
        """Parse comparisons joined by `and` and `or` to an expression that is 1 where they hold and 0 elsewhere."""
        left = self._parse_conjunction()
        while self.next_token.text == "or":
            op, right = self.take_token(), self._parse_conjunction()
            # a or b = a + b - ab for indicators a, b in {0, 1}.
            left = self.join_values(op, left, right, left.expr + right.expr - left.expr * right.expr)
        return left

    def _parse_conjunction(self) -> ParsedExpression:
        """Parse comparisons joined by `and`: the product of their indicators."""
        left = self._parse_comparison()
        while self.next_token.text == "and":
            op, right = self.take_token(), self._parse_comparison()
            left = self.join_values(op, left, right, left.expr * right.expr)
        return left

    def _parse_comparison(self) -> ParsedExpression:
        """Parse one comparison, a negated one, or a condition in parentheses, and register its switch."""
        begin = self.next_token
        if begin.text == "not":
            self.take_token()
            with NestingGuard(self, begin):
                condition = self._parse_comparison()
            return ParsedExpression(_negate_condition(condition.expr), condition.size + 1, condition.depth)
        if begin.text == "(" and self._encloses_condition():
            self.take_token()
            with NestingGuard(self, begin):
                condition = self.parse_condition()
            self.expect_token(")")
            return condition
        left, op = self.parse_sum(), self.take_token()
        if op.text not in COMPARISON_OPERATORS:
            raise self.source.build_error(op, f"expected a comparison such as t < 10 here, found {describe_token(op)}.")
        right = self.parse_sum()
        symbols = {str(symbol) for value in (left, right) for symbol in value.expr.free_symbols}
        if self.switches is None:
            raise self.source.build_error(begin, "a switch is allowed only in equations and in named expressions.")
        if symbols & self.switches.keys():
            raise self.source.build_error(
                begin, "the condition of a switch cannot contain another switch; write the times themselves."
            )
        rises = op.text in (">", ">=")
        # Every switch is `g >= 0`, so a > b becomes the negation of b >= a. The difference from a >= b matters where
        # both sides stay equal.
        strict = op.text in ("<", ">")
        trigger = left.expr - right.expr if rises != strict else right.expr - left.expr
        if trigger.is_Number or not symbols:
            raise self.source.build_error(begin, "both sides of this comparison are numbers, so it never switches.")
        # A trigger that is linear in time is brought to the form t - c, so that t < c and t >= c share a switch.
        # Division by a negative rate turns the inequality.
        rate = trigger.diff(TIME_SYMBOL)
        falls = bool(rate.is_Number and rate < 0)
        if rate.is_Number and rate != 0:
            trigger = TIME_SYMBOL + trigger.subs({TIME_SYMBOL: 0}) / rate
        falls ^= strict
        name = format_switch_name(trigger)
        self.switches[name] = trigger
        if len(self.switches) > MAX_SWITCHES:
            raise self.source.build_error(begin, f"the model has more than {MAX_SWITCHES} switches.")
        symbol = se.Symbol(name)
        indicator = ParsedExpression(1 - symbol if falls else symbol)
        return self.join_values(
            op,
            ParsedExpression(indicator.expr, left.size, left.depth),
            ParsedExpression(None, right.size, right.depth),
            indicator.expr,
        )

    def _encloses_condition(self) -> bool:
        """Return True if the parenthesis that opens at the next token encloses a condition, not a sum.

        It does if a comparison or a logical operator is inside it, but inside no further parenthesis.
        """
        depth = 0
        for token in self.tokens[self.position :]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                return False
            if depth == 1 and token.text in (*COMPARISON_OPERATORS, *LOGICAL_OPERATORS, "not"):
                return True
        return False

    def parse_switch(self, token: Token) -> ParsedExpression:
        """Parse the arguments of `if(condition, a, b)` or `piecewise(a, condition, ..., b)` after the word `token`.

        The result is one expression, in which the switches of the conditions are symbols.
        """
        opening, pieces = self.take_token(), []
        with NestingGuard(self, opening):
            if token.text == "if":
                condition = self.parse_condition()
                self.expect_token(",")
                pieces.append((self.parse_sum(), condition))
                self.expect_token(",")
                value = self.parse_sum()
            else:
                value = self.parse_sum()
                while self.next_token.text == ",":
                    self.take_token()
                    condition = self.parse_condition()
                    pieces.append((value, condition))
                    if self.next_token.text == ")":  # without a last value the expression is zero elsewhere
                        value = ParsedExpression(se.Integer(0), constant=True)
                        break
                    self.expect_token(",")
                    value = self.parse_sum()
        self.expect_token(")")
        # value = c·piece + (1 - c)·value from the last piece to the first: the first condition that holds decides.
        for piece, condition in reversed(pieces):
            expr = condition.expr * piece.expr + _negate_condition(condition.expr) * value.expr
            case = ParsedExpression(None, piece.size + condition.size, max(piece.depth, condition.depth))
            value = self.join_values(token, value, case, expr)
        return value


def _negate_condition(condition: Expr) -> Expr:
    """Return one minus a condition; expanded for a single switch s, so that 1 - (1 - s) is s."""
    negated = 1 - condition
    return se.expand(negated) if len(condition.free_symbols) == 1 else negated
