"""Parts of an expression that is being read, and how deep they may be nested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .function_table import Expr
from .tokenizer import Token

MAX_DEPTH = 50


@dataclass(frozen=True)
class Value:
    """A parsed sub-expression with what is needed to bound it."""

    expr: Expr
    size: int = 1
    depth: int = 1
    constant: bool = False


class Nested:
    """Counts open parentheses, function calls and exponents, and refuses too many."""

    def __init__(self, parser: Any, place: Token) -> None:
        self.parser, self.place = parser, place

    def __enter__(self) -> None:
        self.parser.nesting += 1
        if self.parser.nesting > MAX_DEPTH:
            raise self.parser.source.error(self.place, f"nested more than {MAX_DEPTH} deep.")

    def __exit__(self, *_: object) -> None:
        self.parser.nesting -= 1


def shown(token: Token) -> str:
    """A word, for error messages."""
    return {"end": "the end", "newline": "the end of the line"}.get(token.kind, repr(token.text))
