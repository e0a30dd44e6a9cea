"""Tokens of a text, each with its line and column, and errors that point at them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..support.errors import ModelError

MAX_TEXT_CHARACTERS = 200_000
"""Number of characters of a text above which it is refused. By judgement."""

MAX_SHOWN_CHARACTERS = 100
"""Number of characters of a line that an error message shows. By judgement."""

SHOWN_CHARACTERS_BEFORE = 60
"""Column up to which a line is shown from its start; beyond it, the part shown begins this far before the token. By
judgement."""

PRINTED_SIGNS = str.maketrans(
    {"−": "-", "–": "-", "·": "*", "⋅": "*", "×": "*", "∗": "*", "′": "'", "’": "'", "\u00a0": " "}
)
"""Typographic signs, as copied from a printed text, and the characters that replace them."""

# Longer operators come first, so that ** is not read as two signs.
_TOKEN_PATTERN = re.compile(
    r"(?P<space>[ \t\r\f\v]+)|(?P<comment>\#[^\n]*)|(?P<newline>\n|;)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[^\W\d]\w*)|(?P<op>\*\*|<=|>=|[-+*/^(),='<>:])"
)


@dataclass(frozen=True)
class Token:
    """One token of a text.

    Attributes
    ----------
    kind : str
        One of `number`, `name`, `op`, `newline`, `end`, and `bad` for a character that is not allowed.
    text : str
    line, column : int
        Its place, counted from one.
    """

    kind: str
    text: str
    line: int
    column: int


class SourceText:
    """A text, its tokens, and errors that point into it.

    Parameters
    ----------
    text : str
    description : str
        A description of the text for error messages.
    """

    def __init__(self, text: str, description: str = "model") -> None:
        if not isinstance(text, str):
            raise ModelError(f"The {description} must be text; received a {type(text).__name__}.")
        if len(text) > MAX_TEXT_CHARACTERS:
            raise ModelError(
                f"The {description} has {len(text):,} characters, but at most {MAX_TEXT_CHARACTERS:,} are read. "
                "Give a model as equations only, and data as a table."
            )
        self.text, self.description = text.translate(PRINTED_SIGNS), description
        self.lines = text.split("\n")

    def build_error(self, token: Token, reason: str) -> ModelError:
        """Return a `ModelError` that gives a reason and shows the line of `token` with a caret below its column.

        The attributes `reason` and `place` of the error hold the reason and `(line, column)`.
        """
        line = self.lines[token.line - 1].replace("\t", " ")
        # Only a part of a long line, around the token, is shown.
        start = max(0, token.column - SHOWN_CHARACTERS_BEFORE)
        error = ModelError(
            f"{self.description}, line {token.line}, column {token.column}: {reason}\n"
            f"  {line[start : start + MAX_SHOWN_CHARACTERS]}\n  {' ' * (token.column - 1 - start)}^"
        )
        error.reason, error.place = reason, (token.line, token.column)
        return error

    def tokenize(self) -> list[Token]:
        """Split the text into tokens; spaces, comments, and line ends inside parentheses are dropped."""
        tokens: list[Token] = []
        position, line, line_start, open_parentheses = 0, 1, 0, 0
        while position < len(self.text):
            column = position - line_start + 1
            match = _TOKEN_PATTERN.match(self.text, position)
            if match is None:
                bad = Token("bad", self.text[position], line, column)
                raise self.build_error(bad, _describe_unexpected_character(bad.text))
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


def _describe_unexpected_character(character: str) -> str:
    """Return the reason for refusing a character, with what was expected in its place."""
    hints = {
        '"': "text in quotes is not part of a model",
        "[": "indexing is not part of a text model; use plain names such as u1",
        ".": "attribute access (a dot) is not part of a model",
        "%": "the remainder is not smooth; comments start with #",
    }
    hint = hints.get(character, "expected numbers, names, + - * / ** ^ ( ) and functions such as exp")
    return f"unexpected character {character!r}: {hint}."
