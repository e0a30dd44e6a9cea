"""Equations as text: states, parameters and right-hand sides from lines such as `u1' = -p1*u1`."""

from __future__ import annotations

import re
from collections.abc import Sequence

import symengine as se

from ..support.errors import ModelError
from ..support.messages import suggestion
from .expressions import Parser, Value
from .functions import FUNCTIONS, RESERVED, Expr
from .tokens import Source, Token

_CONTINUES = {"+", "-", "*", "/", "**", "^"}


def checked_names(names: Sequence[str], what: str) -> tuple[str, ...]:
    """A list of names, each a name, none reserved, none twice."""
    if isinstance(names, str) or not isinstance(names, Sequence) or not all(isinstance(n, str) for n in names):
        raise ModelError(f"The {what} must be a list of names, but {names!r} was given.")
    for name in names:
        if not name.isidentifier():
            raise ModelError(f"{name!r} in {what} is not a name (letters, digits and _, not starting with a digit).")
        if name in RESERVED or name in FUNCTIONS:
            raise ModelError(f"{name!r} in {what} is reserved: it is {_meaning(name)}. Choose another name.")
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise ModelError(f"{twice!r} occurs twice in {what}.")
    return tuple(names)


def _meaning(name: str) -> str:
    return {"t": "time", "pi": "the number π"}.get(name, "a function")


def _natural(name: str) -> list[tuple[int, str | int]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]


Names = tuple[str, ...]


def read_equations(text: str, declared: Names | None, inputs: Names) -> tuple[Names, Names, tuple[Expr, ...], Names]:
    """States, parameters, right-hand sides, and the hidden states: first derivatives in second-order equations."""
    source = Source(text)
    statements = _statements(source, source.tokens())
    states = [name.text for name, order, _ in statements if order]
    hidden = [f"{name.text}'" for name, order, _ in statements if order == 2]
    defined = {name.text: name for name, order, _ in statements if not order}
    if not states:
        prime = f" Is a prime missing, as in {next(iter(defined))}' = ...?" if defined else ""
        raise ModelError(f"The model has no equations. Write one line for each state, such as: u1' = -p1*u1.{prime}")
    names = {name: Value(se.Symbol(name)) for name in ("t", *states, *hidden, *inputs)}
    found: dict[str, Value] = {name: Value(se.Symbol(name)) for name in declared or ()}

    def unknown(token: Token) -> Value:
        if token.text in found:
            return found[token.text]
        if token.text in defined:
            raise source.error(token, f"{token.text!r} is used before it is defined; move its line up.")
        if declared is not None:
            guess = suggestion(token.text, [*declared, *states, *defined])
            raise source.error(token, f"{token.text!r} is not a declared parameter, a state or a definition.{guess}")
        return found.setdefault(token.text, Value(se.Symbol(token.text)))

    expressions: dict[str, Expr] = {}
    for name, order, tokens in statements:
        if name.text in expressions or (not order and name.text in names):
            raise source.error(name, f"{name.text!r} has two equations.")
        if name.text in RESERVED or name.text in FUNCTIONS:
            raise source.error(name, f"{name.text!r} is reserved: it is {_meaning(name.text)}. Rename it.")
        parser = Parser(source, tokens, names, unknown)
        value = parser.expression()
        if parser.next.kind != "end":
            raise source.error(parser.next, f"expected the end of the equation, found {parser.next.text!r}.")
        if order == 2:
            expressions[name.text] = se.Symbol(f"{name.text}'")
            expressions[f"{name.text}'"] = value.expr
        elif order:
            expressions[name.text] = value.expr
        elif name.text in found:
            raise source.error(name, f"{name.text!r} is declared as a parameter, yet defined here.")
        else:
            names[name.text] = Value(value.expr, value.size, value.depth + 1, value.constant)
    parameters = declared if declared is not None else tuple(sorted(found, key=_natural))
    every = (*states, *hidden)
    return every, parameters, tuple(expressions[name] for name in every), tuple(hidden)


def _statements(source: Source, tokens: list[Token]) -> list[tuple[Token, int, list[Token]]]:
    """Split into `(name, order of the equation or 0 for a definition, tokens of the right-hand side)`."""
    groups: list[list[Token]] = [[]]
    for i, token in enumerate(tokens):
        if token.kind != "newline":
            groups[-1].append(token)
        elif not (groups[-1] and groups[-1][-1].text in _CONTINUES | {"="}) and tokens[i + 1].text not in _CONTINUES:
            groups.append([])
    end = tokens[-1]
    statements = []
    for group in groups:
        body = [token for token in group if token.kind != "end"]
        if not body:
            continue
        equals = [i for i, token in enumerate(body) if token.text == "="]
        if not equals:
            raise source.error(body[0], "expected an equation such as u1' = -p1*u1, but there is no '='.")
        if len(equals) > 1:
            raise source.error(body[equals[1]], "a second '=' in one equation; write one equation a line.")
        name, order = _left_side(source, body[: equals[0]], body[equals[0]])
        stop = Token("end", "", body[-1].line, body[-1].column + len(body[-1].text)) if body else end
        statements.append((name, order, [*body[equals[0] + 1 :], stop]))
    return statements


def _left_side(source: Source, tokens: list[Token], equals: Token) -> tuple[Token, int]:
    words = [token.text for token in tokens]
    named = next((token for token in tokens if token.kind == "name" and token.text not in ("d", "dt")), None)
    if named is not None:
        n = named.text
        if words == [n]:
            return named, 0
        if words in (
            [n, "'"],
            ["d", "/", "dt", n],
            ["d", "/", "dt", "(", n, ")"],
            ["d", "(", n, ")", "/", "dt"],
        ):
            return named, 1
        if words == [n, "/", "dt"] and n.startswith("d") and len(n) > 1:
            return Token("name", n[1:], named.line, named.column + 1), 1
        if words == [n, "'", "'"]:
            return named, 2
    raise source.error(
        tokens[0] if tokens else equals,
        "the left-hand side must be name', d/dt name or dname/dt for an equation, or a name for a definition.",
    )
