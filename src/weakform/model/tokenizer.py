"""Words of a text, each with its place, and errors that point at it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..support.errors import ModelError

MAX_CHARACTERS = 200_000
PRINTED = str.maketrans({"−": "-", "–": "-", "·": "*", "⋅": "*", "×": "*", "∗": "*", "′": "'", "’": "'", "\u00a0": " "})
"""Signs as they are printed, and copied from there."""

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f\v]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n|;)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<op>\*\*|<=|>=|[-+*/^(),='<>:])"
)


@dataclass(frozen=True)
class Token:
    """One word of the text, with its place (`line` and `column` count from one)."""

    kind: str
    text: str
    line: int
    column: int


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
        self.text, self.what = text.translate(PRINTED), what
        self.lines = text.split("\n")

    def error(self, token: Token, reason: str) -> ModelError:
        """An error that shows the line of `token` with a caret under it."""
        shown = self.lines[token.line - 1].replace("\t", " ")
        start = max(0, token.column - 60)
        error = ModelError(
            f"{self.what}, line {token.line}, column {token.column}: {reason}\n"
            f"  {shown[start : start + 100]}\n  {' ' * (token.column - 1 - start)}^"
        )
        error.reason, error.place = reason, (token.line, token.column)
        return error

    def tokens(self) -> list[Token]:
        """Split the text; spaces and comments are dropped, line ends inside parentheses too."""
        tokens: list[Token] = []
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
                tokens.append(Token(kind, word, line, column))
            position = match.end()
            if word == "\n":
                line, line_start = line + 1, position
        tokens.append(Token("end", "", line, position - line_start + 1))
        return tokens


def _unexpected_character(character: str) -> str:
    hints = {
        '"': "text in quotes is not part of a model",
        "[": "indexing is not part of a text model; use plain names such as u1",
        ".": "attribute access (a dot) is not part of a model",
        "%": "the remainder is not smooth; comments start with #",
    }
    hint = hints.get(character, "expected numbers, names, + - * / ** ^ ( ) and functions such as exp")
    return f"unexpected character {character!r}: {hint}."
