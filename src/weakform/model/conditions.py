"""Parsing of conditions: the comparisons that switch a right-hand side."""

from __future__ import annotations

import symengine as se

from .events import TIME, switch_name
from .function_table import Expr
from .parse_tree import Nested, Value, shown
from .tokenizer import Source, Token

MAX_SWITCHES = 100
"""Number of distinct switches in one model above which the model is refused. By judgement."""

COMPARISON_OPERATORS = ("<", "<=", ">", ">=")
LOGICAL_OPERATORS = ("and", "or")


class Conditions:
    """The part of the parser that reads `if(t < 10, a, b)` and `piecewise(a, t < 10, b)`; see `expressions`."""

    source: Source
    tokens: list[Token]
    position: int
    nesting: int
    switches: dict[str, Expr] | None

    @property
    def next(self) -> Token:
        """The next token."""
        raise NotImplementedError

    def take(self) -> Token:
        """Read one token."""
        raise NotImplementedError

    def expect(self, text: str) -> Token:
        """Read the token `text`, or raise `ModelError` if the next token is a different one."""
        raise NotImplementedError

    def expression(self) -> Value:
        """Parse a sum of terms."""
        raise NotImplementedError

    def join(self, place: Token, left: Value, right: Value, expr: Expr) -> Value:
        """Return `expr`, made of two parts, with its size and depth, or raise `ModelError` beyond the limits."""
        raise NotImplementedError

    def condition(self) -> Value:
        """Parse comparisons joined by `and` and `or` to an expression that is 1 where they hold and 0 elsewhere."""
        left = self._both()
        while self.next.text == "or":
            op, right = self.take(), self._both()
            # a or b = a + b - ab for indicators a, b in {0, 1}.
            left = self.join(op, left, right, left.expr + right.expr - left.expr * right.expr)
        return left

    def _both(self) -> Value:
        """Parse comparisons joined by `and`: the product of their indicators."""
        left = self._compared()
        while self.next.text == "and":
            op, right = self.take(), self._compared()
            left = self.join(op, left, right, left.expr * right.expr)
        return left

    def _compared(self) -> Value:
        """Parse one comparison, a negated one, or a condition in parentheses, and register its switch."""
        begin = self.next
        if begin.text == "not":
            self.take()
            with Nested(self, begin):
                condition = self._compared()
            return Value(_not(condition.expr), condition.size + 1, condition.depth)
        if begin.text == "(" and self._encloses_condition():
            self.take()
            with Nested(self, begin):
                condition = self.condition()
            self.expect(")")
            return condition
        left, op = self.expression(), self.take()
        if op.text not in COMPARISON_OPERATORS:
            raise self.source.error(op, f"expected a comparison such as t < 10 here, found {shown(op)}.")
        right = self.expression()
        symbols = {str(symbol) for value in (left, right) for symbol in value.expr.free_symbols}
        if self.switches is None:
            raise self.source.error(begin, "a switch is allowed only in equations and in named expressions.")
        if symbols & self.switches.keys():
            raise self.source.error(
                begin, "the condition of a switch cannot contain another switch; write the times themselves."
            )
        rises = op.text in (">", ">=")
        # One symbol for `g >= 0`: a > b is the negation of b >= a, which matters where both stay equal.
        strict = op.text in ("<", ">")
        trigger = left.expr - right.expr if rises != strict else right.expr - left.expr
        if trigger.is_Number or not symbols:
            raise self.source.error(begin, "both sides of this comparison are numbers, so it never switches.")
        # A trigger that is linear in time is brought to the one form t - c, so that t < c and t >= c share a switch.
        rate = trigger.diff(TIME)
        falls = bool(rate.is_Number and rate < 0)
        if rate.is_Number and rate != 0:
            trigger = TIME + trigger.subs({TIME: 0}) / rate
        falls ^= strict
        name = switch_name(trigger)
        self.switches[name] = trigger
        if len(self.switches) > MAX_SWITCHES:
            raise self.source.error(begin, f"the model has more than {MAX_SWITCHES} switches.")
        symbol = se.Symbol(name)
        indicator = Value(1 - symbol if falls else symbol)
        return self.join(
            op, Value(indicator.expr, left.size, left.depth), Value(None, right.size, right.depth), indicator.expr
        )

    def _encloses_condition(self) -> bool:
        """Return True if the parenthesis that opens at the next token contains a comparison on its own level."""
        depth = 0
        for token in self.tokens[self.position :]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                return False
            if depth == 1 and token.text in (*COMPARISON_OPERATORS, *LOGICAL_OPERATORS, "not"):
                return True
        return False

    def switch(self, token: Token) -> Value:
        """Parse the arguments of `if(condition, a, b)` or `piecewise(a, condition, ..., b)` after the word `token`."""
        opening, pieces = self.take(), []
        with Nested(self, opening):
            if token.text == "if":
                condition = self.condition()
                self.expect(",")
                pieces.append((self.expression(), condition))
                self.expect(",")
                value = self.expression()
            else:
                value = self.expression()
                while self.next.text == ",":
                    self.take()
                    condition = self.condition()
                    pieces.append((value, condition))
                    if self.next.text == ")":  # without a last value the expression is zero elsewhere
                        value = Value(se.Integer(0), constant=True)
                        break
                    self.expect(",")
                    value = self.expression()
        self.expect(")")
        # value = c·piece + (1 - c)·value from the last piece to the first: the first condition that holds decides.
        for piece, condition in reversed(pieces):
            expr = condition.expr * piece.expr + _not(condition.expr) * value.expr
            size = Value(None, piece.size + condition.size, max(piece.depth, condition.depth))
            value = self.join(token, value, size, expr)
        return value


def _not(condition: Expr) -> Expr:
    """Return one minus a condition; the negation of a negated single switch is the switch itself."""
    negated = 1 - condition
    return se.expand(negated) if len(condition.free_symbols) == 1 else negated
