"""Equations as text: lines such as `u1' = -p1*u1`, `cases = rho*I` and `u1(0) = 2`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import symengine as se

from ..support.errors import ModelError
from ..support.wording import suggestion
from .events import TIME, Event
from .expressions import Parser
from .function_table import FUNCTIONS, RESERVED, WORDS, Expr
from .naming import initial_name, meaning, natural
from .parse_tree import Value, shown
from .tokenizer import Source, Token

BEGINNING, VELOCITY = -1, -2
"""In place of the order of an equation: the initial value of a state, and of its first derivative."""
_CONTINUES = {"+", "-", "*", "/", "**", "^"}


Names = tuple[str, ...]


@dataclass(frozen=True)
class Equations:
    """What a text says.

    Attributes
    ----------
    states, parameters : tuple of str
        The first derivatives of second-order equations are the last of the states.
    expressions : tuple
        The right-hand side of each state.
    hidden : tuple of str
        First derivatives in second-order equations.
    observables : dict
        Named expressions, in the order of their lines.
    initial : dict
        Initial values that are given, by state.
    events : tuple of Event
    switches : dict
        What each switch in the expressions stands for; see `events`.
    steady : dict, or None
        Values of parameters and inputs with which the system was at rest before it begins; None where it was not.
    """

    states: Names
    parameters: Names
    expressions: tuple[Expr, ...]
    hidden: Names
    observables: dict[str, Expr]
    initial: dict[str, Expr]
    events: tuple[Event, ...] = ()
    switches: dict[str, Expr] = field(default_factory=dict)
    steady: dict[str, Expr] | None = None


def read_equations(text: str, declared: Names | None, inputs: Names) -> Equations:
    """Read equations, named expressions, initial values and events, one for each line."""
    source = Source(text)
    plain, happenings = _divided(source.tokens())
    statements = _statements(source, plain)
    states = [name.text for name, order, _ in statements if order > 0]
    hidden = [f"{name.text}'" for name, order, _ in statements if order == 2]
    defined = {name.text: name for name, order, _ in statements if order == 0}
    if not states:
        prime = f" Is a prime missing, as in {next(iter(defined))}' = ...?" if defined else ""
        raise ModelError(f"The model has no equations. Write one line for each state, such as: u1' = -p1*u1.{prime}")
    names = {name: Value(se.Symbol(name)) for name in ("t", *states, *hidden, *inputs)}
    parameters: dict[str, Value] = {name: Value(se.Symbol(name)) for name in declared or ()}
    beginning = {name: Value(se.Symbol(initial_name(name))) for name in (*states, *hidden)}

    def unknown(token: Token) -> Value:
        if token.text in parameters:
            return parameters[token.text]
        if token.text in defined:
            raise source.error(token, f"{token.text!r} is used before it is defined; move its line up.")
        if declared is not None:
            guess = suggestion(token.text, [*declared, *states, *defined])
            raise source.error(token, f"{token.text!r} is not a declared parameter, a state or a definition.{guess}")
        if token.text in WORDS:
            raise source.error(token, f"{token.text!r} would be a parameter here; write {WORDS[token.text]}.")
        return parameters.setdefault(token.text, Value(se.Symbol(token.text)))

    expressions: dict[str, Expr] = {}
    observables: dict[str, Expr] = {}
    initial: dict[str, Expr] = {}
    switches: dict[str, Expr] = {}
    moving = {se.Symbol(name) for name in ("t", *states, *hidden, *inputs)}
    for name, order, tokens in statements:
        begun = f"{name.text}'" if order == VELOCITY else name.text
        if order < 0 and (begun not in beginning or begun in initial):
            reason = "has two initial values" if begun in initial else "has no equation, so that it has no beginning"
            second = f": it needs {name.text}'' = ..." if order == VELOCITY and begun not in beginning else ""
            raise source.error(name, f"{begun!r} {reason}{second}.")
        if order >= 0 and (name.text in expressions or (not order and name.text in names)):
            raise source.error(name, f"{name.text!r} has two equations.")
        if name.text in RESERVED or name.text in FUNCTIONS:
            raise source.error(name, f"{name.text!r} is reserved: it is {meaning(name.text)}. Rename it.")
        parser = Parser(
            source,
            tokens,
            names,
            unknown,
            beginning if order < 0 else None,
            switches=switches if order >= 0 else None,
        )
        value = parser.expression()
        if parser.next.kind != "end":
            raise source.error(parser.next, f"expected the end of the equation, found {parser.next.text!r}.")
        if order < 0:
            wrong = sorted(str(symbol) for symbol in value.expr.free_symbols & moving)
            if wrong:
                hint = f"; write {wrong[0]}(0) for its beginning" if wrong[0] in states else ""
                raise source.error(
                    name, f"the initial value of {begun} depends on {wrong[0]!r}, which changes in time{hint}."
                )
            initial[begun] = value.expr
        elif order == 2:
            expressions[name.text] = se.Symbol(f"{name.text}'")
            expressions[f"{name.text}'"] = value.expr
        elif order:
            expressions[name.text] = value.expr
        elif name.text in parameters:
            raise source.error(name, f"{name.text!r} is declared as a parameter, yet defined here.")
        else:
            names[name.text] = Value(value.expr, value.size, value.depth + 1, value.constant)
            observables[name.text] = value.expr
    every = (*states, *hidden)
    events: list[Event] = []
    steady: dict[str, Expr] | None = None
    for tokens in happenings:
        parser = Parser(source, tokens, names, unknown, switches={})
        if tokens[0].text != "steady":
            events += _events(parser, every)
        elif steady is not None:
            raise source.error(tokens[0], "a second line that begins with steady.")
        else:
            steady = _steady(parser, (*inputs, *parameters))
    if steady is not None:  # where it comes to rest from
        for state in every:
            initial.setdefault(state, se.Integer(1))
    initial, free = resolved_initial(initial)
    found = declared if declared is not None else tuple(sorted(parameters, key=natural))
    return Equations(
        every,
        (*found, *free),
        tuple(expressions[name] for name in every),
        tuple(hidden),
        observables=observables,
        initial=initial,
        events=tuple(events),
        switches=switches,
        steady=steady,
    )


def resolved_initial(initial: Mapping[str, Expr]) -> tuple[dict[str, Expr], Names]:
    """Initial values in terms of parameters alone, and those among them that are initial values themselves.

    An initial value that another one refers to and that is not given is a parameter, `x(0)`.
    """
    symbols = {se.Symbol(initial_name(state)): expr for state, expr in initial.items()}
    resolved: dict[str, Expr] = {}
    for state, expr in initial.items():
        current = se.sympify(expr)
        for _ in range(len(initial) + 1):
            inside = {symbol: symbols[symbol] for symbol in current.free_symbols if symbol in symbols}
            if not inside:
                break
            current = current.subs(inside)
        else:
            raise ModelError(f"The initial value of {state!r} is given by itself, in a circle.")
        resolved[state] = current
    free = sorted({str(s) for e in resolved.values() for s in e.free_symbols if str(s).endswith("(0)")})
    return {**resolved, **{name[:-3]: se.Symbol(name) for name in free}}, tuple(free)


def _divided(tokens: list[Token]) -> tuple[list[Token], list[list[Token]]]:
    """Lines of equations, and each line that begins with `at t` or `when`, which tells of an event."""
    plain: list[Token] = []
    happenings: list[list[Token]] = []
    line: list[Token] = []
    for token in tokens:
        line.append(token)
        if token.kind not in ("newline", "end"):
            continue
        words = [t.text for t in line[:2]]
        plainly = words[1:] in (["="], ["'"], ["("])
        if words == ["at", "t"] or (words[:1] in (["when"], ["steady"]) and not plainly):
            happenings.append([*line[:-1], Token("end", "", token.line, token.column)])
            line = [token] if token.kind == "end" else []
        plain += line
        line = []
    return plain, happenings


def _events(parser: Parser, states: Names) -> list[Event]:
    """`at t = 10, 20: x = 0, y = y/2` or `when x > 5: x = 0`."""
    source, first = parser.source, parser.take()
    triggers = []
    if first.text == "at":
        parser.expect("t")
        parser.expect("=")
        while True:
            place, time = parser.next, parser.expression().expr
            wrong = sorted({str(s) for s in time.free_symbols} & {"t", *states})
            if wrong:
                raise source.error(place, f"the time depends on {wrong[0]!r}; write when ... for such an event.")
            triggers.append(TIME - time)
            if parser.next.text != ",":
                break
            parser.take()
    else:
        place = parser.next
        held = parser.condition().expr
        assert parser.switches is not None
        one = next(iter(parser.switches.items()))
        if held not in (se.Symbol(one[0]), 1 - se.Symbol(one[0])):
            raise source.error(place, "an event has one comparison, such as x > 5; write a line for each.")
        triggers.append(one[1] if held == se.Symbol(one[0]) else -one[1])
        parser.switches.clear()
    parser.expect(":")
    after = _assignments(parser, states, "is not a state, so that it cannot jump")
    if parser.switches:
        raise source.error(first, "a switch inside an event; write one event for each case.")
    return [Event(trigger, after, waits=first.text != "at") for trigger in triggers]


def _steady(parser: Parser, known: Names) -> dict[str, Expr]:
    """`steady`, or `steady: dose = 0, k = 1`: how the system was at rest before it begins."""
    parser.take()
    if parser.next.kind == "end":
        return {}
    parser.expect(":")
    return _assignments(parser, known, "is neither a parameter nor an input")


def _assignments(parser: Parser, known: Names, stranger: str) -> dict[str, Expr]:
    """`x = 0, y = y/2` to the end of the line, each of the known names at most once."""
    source, found = parser.source, dict[str, Expr]()
    while True:
        name = parser.take()
        if name.text not in known or name.text in found:
            reason = "has two values" if name.text in found else stranger
            raise source.error(name, f"{shown(name)} {reason}.{suggestion(name.text, known)}")
        parser.expect("=")
        found[name.text] = parser.expression().expr
        if parser.next.text != ",":
            break
        parser.take()
    if parser.next.kind != "end":
        raise source.error(parser.next, f"expected ',' or the end of the line, found {shown(parser.next)}.")
    return found


def _statements(source: Source, tokens: list[Token]) -> list[tuple[Token, int, list[Token]]]:
    """Split into name, order of the equation (0 for a definition, below it for an initial value), and right side."""
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


SUFFIXES = {(): 0, ("'",): 1, ("'", "'"): 2, ("(", "0", ")"): BEGINNING, ("'", "(", "0", ")"): VELOCITY}
"""What may follow a name on the left, and what the equation then says."""


def _left_side(source: Source, tokens: list[Token], equals: Token) -> tuple[Token, int]:
    words = [token.text for token in tokens]
    if tokens and tokens[0].kind == "name" and tuple(words[1:]) in SUFFIXES:
        return tokens[0], SUFFIXES[tuple(words[1:])]
    named = next((token for token in tokens if token.kind == "name" and token.text not in ("d", "dt")), None)
    if named is not None:
        n = named.text
        if words in (["d", "/", "dt", n], ["d", "/", "dt", "(", n, ")"], ["d", "(", n, ")", "/", "dt"]):
            return named, 1
        if words == [n, "/", "dt"] and n.startswith("d") and len(n) > 1:
            return Token("name", n[1:], named.line, named.column + 1), 1
    raise source.error(
        tokens[0] if tokens else equals,
        "the left-hand side must be name', d/dt name or dname/dt for an equation, a name for a definition, or name(0) "
        "for an initial value.",
    )
