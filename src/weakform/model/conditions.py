"""Conditions in expressions: comparisons that a right-hand side switches on."""

from __future__ import annotations

import symengine as se

from .events import TIME, switch_name
from .function_table import Expr
from .parse_tree import Nested, Value, shown
from .tokenizer import Source, Token

MAX_SWITCHES = 100
COMPARED = ("<", "<=", ">", ">=")
JOINED = ("and", "or")


class Conditions:
    """The part of the parser that reads `if(t < 10, a, b)` and `piecewise(a, t < 10, b)`; see `expressions`."""

    source: Source
    tokens: list[Token]
    position: int
    switches: dict[str, Expr] | None

    @property
    def next(self) -> Token:
        """The token to be read."""
        raise NotImplementedError

    def take(self) -> Token:
        """Read one token."""
        raise NotImplementedError

    def expect(self, text: str) -> Token:
        """Read the token `text`, or complain."""
        raise NotImplementedError

    def expression(self) -> Value:
        """A sum of terms."""
        raise NotImplementedError

    def join(self, place: Token, left: Value, right: Value, expr: Expr) -> Value:
        """Two parts as one, within the limits."""
        raise NotImplementedError

    def condition(self) -> Value:
        """Comparisons joined by `and` and `or`, as an expression that is 1 where they hold, and 0 else."""
        left = self._both()
        while self.next.text == "or":
            op, right = self.take(), self._both()
            left = self.join(op, left, right, left.expr + right.expr - left.expr * right.expr)
        return left

    def _both(self) -> Value:
        left = self._compared()
        while self.next.text == "and":
            op, right = self.take(), self._compared()
            left = self.join(op, left, right, left.expr * right.expr)
        return left

    def _compared(self) -> Value:
        begin = self.next
        if begin.text == "not":
            self.take()
            with Nested(self, begin):
                held = self._compared()
            return Value(_not(held.expr), held.size + 1, held.depth)
        if begin.text == "(" and self._encloses_condition():
            self.take()
            with Nested(self, begin):
                held = self.condition()
            self.expect(")")
            return held
        left, op = self.expression(), self.take()
        if op.text not in COMPARED:
            raise self.source.error(op, f"expected a comparison such as t < 10 here, found {shown(op)}.")
        right = self.expression()
        inside = {str(symbol) for value in (left, right) for symbol in value.expr.free_symbols}
        if self.switches is None:
            raise self.source.error(begin, "a switch may stand only in equations and in named expressions.")
        if inside & self.switches.keys():
            raise self.source.error(begin, "a switch inside the condition of a switch; write the times themselves.")
        rises = op.text in (">", ">=")
        # One symbol for `g >= 0`: a > b is what b >= a is not, which matters where both stay equal.
        strict = op.text in ("<", ">")
        trigger = left.expr - right.expr if rises != strict else right.expr - left.expr
        if trigger.is_Number or not inside:
            raise self.source.error(begin, "both sides of this comparison are numbers, so that nothing switches.")
        # What rises with time at the rate of one is the one form: t < c is what t >= c is not.
        pace = trigger.diff(TIME)
        falls = bool(pace.is_Number and pace < 0)
        if pace.is_Number and pace != 0:
            trigger = TIME + trigger.subs({TIME: 0}) / pace
        falls ^= strict
        name = switch_name(trigger)
        self.switches[name] = trigger
        if len(self.switches) > MAX_SWITCHES:
            raise self.source.error(begin, f"more than {MAX_SWITCHES} switches.")
        symbol = se.Symbol(name)
        held = Value(1 - symbol if falls else symbol)
        return self.join(op, Value(held.expr, left.size, left.depth), Value(None, right.size, right.depth), held.expr)

    def _encloses_condition(self) -> bool:
        """Whether the parenthesis that opens here has a comparison in it, on its own level."""
        depth = 0
        for token in self.tokens[self.position :]:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if depth == 0:
                return False
            if depth == 1 and token.text in (*COMPARED, *JOINED, "not"):
                return True
        return False

    def switch(self, token: Token) -> Value:
        """`if(condition, a, b)` or `piecewise(a, condition, ..., b)`."""
        opening, pieces = self.take(), []
        with Nested(self, opening):
            if token.text == "if":
                held = self.condition()
                self.expect(",")
                pieces.append((self.expression(), held))
                self.expect(",")
                value = self.expression()
            else:
                value = self.expression()
                while self.next.text == ",":
                    self.take()
                    held = self.condition()
                    pieces.append((value, held))
                    if self.next.text == ")":  # nothing is said of what is left: zero
                        value = Value(se.Integer(0), constant=True)
                        break
                    self.expect(",")
                    value = self.expression()
        self.expect(")")
        for piece, held in reversed(pieces):
            whole = held.expr * piece.expr + _not(held.expr) * value.expr
            size = Value(None, piece.size + held.size, max(piece.depth, held.depth))
            value = self.join(token, value, size, whole)
        return value


def _not(held: Expr) -> Expr:
    """One less a condition; of one that is so already, what it was."""
    other = 1 - held
    return se.expand(other) if len(held.free_symbols) == 1 else other
