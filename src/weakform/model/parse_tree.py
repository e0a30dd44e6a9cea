"""Parsed parts of an expression, and the limit of their nesting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .function_table import Expr
from .tokenizer import Token

if TYPE_CHECKING:
    from .conditions import ConditionParser

MAX_NESTING_DEPTH = 50
"""Depth of nested parentheses, functions and powers above which an expression is refused.

It bounds the recursion of the parser. By judgement.
"""


@dataclass(frozen=True)
class ParsedExpression:
    """A parsed sub-expression and its size.

    Attributes
    ----------
    expr : expression
    size : int
        Number of terms and operations.
    depth : int
        Depth of nested functions and powers.
    constant : bool
        Whether it contains no names, apart from `pi`.
    """

    expr: Expr
    size: int = 1
    depth: int = 1
    constant: bool = False


class NestingGuard:
    """A context manager that counts open parentheses, function calls and exponents, and refuses too many.

    Parameters
    ----------
    parser : ConditionParser
        The parser whose `nesting` is counted.
    place : Token
        The token at which an error points.
    """

    def __init__(self, parser: ConditionParser, place: Token) -> None:
        self.parser, self.place = parser, place

    def __enter__(self) -> None:
        self.parser.nesting += 1
        if self.parser.nesting > MAX_NESTING_DEPTH:
            raise self.parser.source.build_error(self.place, f"nested more than {MAX_NESTING_DEPTH} deep.")

    def __exit__(self, *_: object) -> None:
        self.parser.nesting -= 1


def describe_token(token: Token) -> str:
    """Describe a token for error messages."""
    return {"end": "the end", "newline": "the end of the line"}.get(token.kind, repr(token.text))
