"""Parsing of models as text: lines such as `u1' = -p1*u1`, `cases = rho*I` and `u1(0) = 2`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import symengine as se

from ..support.errors import ModelError
from ..support.wording import suggest_name
from .events import TIME_SYMBOL, Event
from .expressions import Parser
from .function_table import FUNCTIONS, NAME_CORRECTIONS, RESERVED_NAMES, Expr
from .naming import describe_reserved_name, format_initial_name, natural_sort_key
from .parse_tree import ParsedExpression, describe_token
from .tokenizer import SourceText, Token

INITIAL_VALUE = -1
"""Marks a line with the initial value of a state, where other lines have the order of an equation."""

INITIAL_VELOCITY = -2
"""Marks a line with the initial value of a first derivative, where other lines have the order of an equation."""

_CONTINUATION_OPERATORS = {"+", "-", "*", "/", "**", "^"}
"""Operators before or after which an expression may continue in the next line."""

ORDER_BY_SUFFIX = {
    (): 0,
    ("'",): 1,
    ("'", "'"): 2,
    ("(", "0", ")"): INITIAL_VALUE,
    ("'", "(", "0", ")"): INITIAL_VELOCITY,
}
"""The tokens that may follow a name on the left, and the order of the equation (0 for a definition)."""

Names = tuple[str, ...]
"""Names of states, parameters or inputs."""


@dataclass(frozen=True)
class Equations:
    """The contents of a model text.

    Attributes
    ----------
    states, parameters : tuple of str, (D,), (J,)
        First derivatives in second-order equations, such as `x'`, are the last of the states.
    expressions : tuple of expressions, (D,)
        The right-hand side of each state.
    hidden : tuple of str
        First derivatives in second-order equations.
    observables : dict of str to expression
        Named expressions, in the order of their lines.
    initial : dict of str to expression
        The given initial values, by state, in terms of parameters.
    events : tuple of Event
    switches : dict
        The trigger of each switch in the expressions, by the name of the switch; see `events`.
    steady : dict of str to expression, or None
        Values of parameters and inputs with which the system was at rest before the initial time; None if it was not at
        rest.
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
    """Read equations, named expressions, initial values and events, one for each line.

    Parameters
    ----------
    text : str
    declared : tuple of str, or None
        The parameters in the order wanted; with None, every name that is not defined otherwise is a parameter.
    inputs : tuple of str
        Names of known inputs.

    Returns
    -------
    Equations

    Raises
    ------
    ModelError
        If the text is not a model; the message shows the line and points at the column.
    """
    source = SourceText(text)
    plain, event_lines = _split_events(source.tokenize())
    statements = _split_statements(source, plain)
    states = [name.text for name, order, _ in statements if order > 0]
    hidden = [f"{name.text}'" for name, order, _ in statements if order == 2]
    defined = {name.text: name for name, order, _ in statements if order == 0}
    if not states:
        prime = f" Is a prime missing, as in {next(iter(defined))}' = ...?" if defined else ""
        raise ModelError(f"The model has no equations. Write one line for each state, such as: u1' = -p1*u1.{prime}")
    names = {name: ParsedExpression(se.Symbol(name)) for name in ("t", *states, *hidden, *inputs)}
    parameters: dict[str, ParsedExpression] = {name: ParsedExpression(se.Symbol(name)) for name in declared or ()}
    initial_values = {name: ParsedExpression(se.Symbol(format_initial_name(name))) for name in (*states, *hidden)}

    def resolve_unknown(token: Token) -> ParsedExpression:
        """Return the symbol of a parameter, a new one if none are declared, or raise `ModelError`."""
        if token.text in parameters:
            return parameters[token.text]
        if token.text in defined:
            raise source.build_error(token, f"{token.text!r} is used before it is defined; move its line up.")
        if declared is not None:
            guess = suggest_name(token.text, [*declared, *states, *defined])
            raise source.build_error(
                token, f"{token.text!r} is not a declared parameter, a state or a definition.{guess}"
            )
        if token.text in NAME_CORRECTIONS:
            raise source.build_error(
                token, f"{token.text!r} would be a parameter here; write {NAME_CORRECTIONS[token.text]}."
            )
        return parameters.setdefault(token.text, ParsedExpression(se.Symbol(token.text)))

    expressions: dict[str, Expr] = {}
    observables: dict[str, Expr] = {}
    initial: dict[str, Expr] = {}
    switches: dict[str, Expr] = {}
    time_dependent = {se.Symbol(name) for name in ("t", *states, *hidden, *inputs)}
    for name, order, tokens in statements:
        # The state to which an initial value belongs, if the line is one.
        state = f"{name.text}'" if order == INITIAL_VELOCITY else name.text
        if order < 0 and (state not in initial_values or state in initial):
            reason = "has two initial values" if state in initial else "has no equation, so it has no initial value"
            missing = (
                f": it needs {name.text}'' = ..." if order == INITIAL_VELOCITY and state not in initial_values else ""
            )
            raise source.build_error(name, f"{state!r} {reason}{missing}.")
        if order >= 0 and (name.text in expressions or (not order and name.text in names)):
            raise source.build_error(name, f"{name.text!r} has two equations.")
        if name.text in RESERVED_NAMES or name.text in FUNCTIONS:
            raise source.build_error(
                name, f"{name.text!r} is reserved: it is {describe_reserved_name(name.text)}. Rename it."
            )
        parser = Parser(
            source,
            tokens,
            names,
            resolve_unknown,
            initial_values if order < 0 else None,
            switches=switches if order >= 0 else None,
        )
        value = parser.parse_sum()
        if parser.next_token.kind != "end":
            raise source.build_error(
                parser.next_token, f"expected the end of the equation, found {parser.next_token.text!r}."
            )
        if order < 0:
            changing = sorted(str(symbol) for symbol in value.expr.free_symbols & time_dependent)
            if changing:
                hint = f"; write {changing[0]}(0) for its initial value" if changing[0] in states else ""
                raise source.build_error(
                    name, f"the initial value of {state} depends on {changing[0]!r}, which changes in time{hint}."
                )
            initial[state] = value.expr
        elif order == 2:
            expressions[name.text] = se.Symbol(f"{name.text}'")
            expressions[f"{name.text}'"] = value.expr
        elif order:
            expressions[name.text] = value.expr
        elif name.text in parameters:
            raise source.build_error(name, f"{name.text!r} is declared as a parameter, but defined here.")
        else:
            # One level deeper than its expression, so that chains of definitions stay within the limit of nesting.
            names[name.text] = ParsedExpression(value.expr, value.size, value.depth + 1, value.constant)
            observables[name.text] = value.expr
    all_states = (*states, *hidden)
    events: list[Event] = []
    steady: dict[str, Expr] | None = None
    for tokens in event_lines:
        parser = Parser(source, tokens, names, resolve_unknown, switches={})
        if tokens[0].text != "steady":
            events += _parse_events(parser, all_states)
        elif steady is not None:
            raise source.build_error(tokens[0], "there are two lines that begin with steady; write one.")
        else:
            steady = _parse_steady(parser, (*inputs, *parameters))
    if steady is not None:  # the search for the steady state starts from 1 where no initial value is given
        for state in all_states:
            initial.setdefault(state, se.Integer(1))
    initial, free = resolve_initial_values(initial)
    ordered = declared if declared is not None else tuple(sorted(parameters, key=natural_sort_key))
    return Equations(
        all_states,
        (*ordered, *free),
        tuple(expressions[name] for name in all_states),
        tuple(hidden),
        observables=observables,
        initial=initial,
        events=tuple(events),
        switches=switches,
        steady=steady,
    )


def resolve_initial_values(initial: Mapping[str, Expr]) -> tuple[dict[str, Expr], Names]:
    """Express initial values in terms of parameters alone.

    An initial value `x(0)` that occurs in the initial value of another state, but is not given, becomes a parameter.

    Parameters
    ----------
    initial : mapping of str to expression
        Initial values by state, in terms of parameters and of the initial values of other states.

    Returns
    -------
    dict
        Initial values by state, in terms of parameters; states whose initial value is a parameter come last.
    tuple of str
        The names of these parameters, such as `x(0)`.

    Raises
    ------
    ModelError
        If an initial value depends on itself.
    """
    symbols = {se.Symbol(format_initial_name(state)): expr for state, expr in initial.items()}
    resolved: dict[str, Expr] = {}
    for state, expr in initial.items():
        current = se.sympify(expr)
        # Without a circle, a chain of references is at most as long as the number of initial values. Each pass replaces
        # one link of the chain.
        for _ in range(len(initial) + 1):
            references = {symbol: symbols[symbol] for symbol in current.free_symbols if symbol in symbols}
            if not references:
                break
            current = current.subs(references)
        else:
            raise ModelError(f"The initial value of {state!r} depends on itself, in a circle; give one as a number.")
        resolved[state] = current
    free = sorted({str(s) for e in resolved.values() for s in e.free_symbols if str(s).endswith("(0)")})
    return {**resolved, **{name.removesuffix("(0)"): se.Symbol(name) for name in free}}, tuple(free)


def _split_events(tokens: list[Token]) -> tuple[list[Token], list[list[Token]]]:
    """Split the tokens into those of equations and the lines of events, which begin with `at t`, `when` or `steady`."""
    plain: list[Token] = []
    event_lines: list[list[Token]] = []
    line: list[Token] = []
    for token in tokens:
        line.append(token)
        if token.kind not in ("newline", "end"):
            continue
        words = [t.text for t in line[:2]]
        # `when` and `steady` may also be names of states and definitions.
        is_equation = words[1:] in (["="], ["'"], ["("])
        if words == ["at", "t"] or (words[:1] in (["when"], ["steady"]) and not is_equation):
            event_lines.append([*line[:-1], Token("end", "", token.line, token.column)])
            line = [token] if token.kind == "end" else []
        plain += line
        line = []
    return plain, event_lines


def _parse_events(parser: Parser, states: Names) -> list[Event]:
    """Parse a line such as `at t = 10, 20: x = 0, y = y/2` or `when x > 5: x = 0`.

    Return one event for each time, or one for the condition. `states` may be assigned to.
    """
    source, first = parser.source, parser.take_token()
    triggers = []
    if first.text == "at":
        parser.expect_token("t")
        parser.expect_token("=")
        while True:
            place, time = parser.next_token, parser.parse_sum().expr
            changing = sorted({str(s) for s in time.free_symbols} & {"t", *states})
            if changing:
                raise source.build_error(
                    place, f"the event time depends on {changing[0]!r}; write when ... for such an event."
                )
            triggers.append(TIME_SYMBOL - time)
            if parser.next_token.text != ",":
                break
            parser.take_token()
    else:
        place = parser.next_token
        condition = parser.parse_condition().expr
        # A single comparison registers exactly one switch, whose trigger is that of the event.
        assert parser.switches is not None
        name, trigger = next(iter(parser.switches.items()))
        if condition not in (se.Symbol(name), 1 - se.Symbol(name)):
            raise source.build_error(
                place, "the condition of an event is one comparison, such as x > 5; write one line for each comparison."
            )
        # A negated switch, 1 - s, rises where the trigger falls.
        triggers.append(trigger if condition == se.Symbol(name) else -trigger)
        parser.switches.clear()
    parser.expect_token(":")
    after = _parse_assignments(parser, states, "is not a state, so it cannot jump")
    if parser.switches:
        raise source.build_error(first, "an event cannot contain a switch; write one event for each case.")
    return [Event(trigger, after, waits=first.text != "at") for trigger in triggers]


def _parse_steady(parser: Parser, allowed: Names) -> dict[str, Expr]:
    """Parse a line such as `steady` or `steady: dose = 0, k = 1`.

    Return the values of some names in `allowed` with which the system was at rest.
    """
    parser.take_token()
    if parser.next_token.kind == "end":
        return {}
    parser.expect_token(":")
    return _parse_assignments(parser, allowed, "is neither a parameter nor an input")


def _parse_assignments(parser: Parser, allowed: Names, not_allowed: str) -> dict[str, Expr]:
    """Parse `x = 0, y = y/2` up to the end of the line.

    Parameters
    ----------
    parser : Parser
    allowed : tuple of str
        The names that may be assigned to, each at most once.
    not_allowed : str
        The predicate of the error message for a name that is not allowed.

    Returns
    -------
    dict of str to expression
        The assigned values, in the order of the line.
    """
    source, values = parser.source, dict[str, Expr]()
    while True:
        name = parser.take_token()
        if name.text not in allowed or name.text in values:
            reason = "has two values" if name.text in values else not_allowed
            raise source.build_error(name, f"{describe_token(name)} {reason}.{suggest_name(name.text, allowed)}")
        parser.expect_token("=")
        values[name.text] = parser.parse_sum().expr
        if parser.next_token.text != ",":
            break
        parser.take_token()
    if parser.next_token.kind != "end":
        raise source.build_error(
            parser.next_token, f"expected ',' or the end of the line, found {describe_token(parser.next_token)}."
        )
    return values


def _split_statements(source: SourceText, tokens: list[Token]) -> list[tuple[Token, int, list[Token]]]:
    """Split tokens into statements.

    Returns
    -------
    list of (Token, int, list of Token)
        The name on the left; the order of the equation, 0 for a definition, `INITIAL_VALUE` or `INITIAL_VELOCITY`; and
        the tokens on the right, with an end token.
    """
    groups: list[list[Token]] = [[]]
    for i, token in enumerate(tokens):
        if token.kind != "newline":
            groups[-1].append(token)
        # A line end splits statements unless an operator or an equals sign precedes it, or an operator follows.
        elif (
            not (groups[-1] and groups[-1][-1].text in _CONTINUATION_OPERATORS | {"="})
            and tokens[i + 1].text not in _CONTINUATION_OPERATORS
        ):
            groups.append([])
    statements = []
    for group in groups:
        body = [token for token in group if token.kind != "end"]
        if not body:
            continue
        equals = [i for i, token in enumerate(body) if token.text == "="]
        if not equals:
            raise source.build_error(body[0], "expected an equation such as u1' = -p1*u1, but there is no '='.")
        if len(equals) > 1:
            raise source.build_error(body[equals[1]], "a second '=' in one equation; write one equation per line.")
        name, order = _parse_left_side(source, body[: equals[0]], body[equals[0]])
        end = Token("end", "", body[-1].line, body[-1].column + len(body[-1].text))
        statements.append((name, order, [*body[equals[0] + 1 :], end]))
    return statements


def _parse_left_side(source: SourceText, tokens: list[Token], equals: Token) -> tuple[Token, int]:
    """Return the name on the left of an equation and the order of the equation, or raise `ModelError`.

    Parameters
    ----------
    source : SourceText
    tokens : list of Token
        The tokens before the equals sign.
    equals : Token
        The equals sign, at which the error points if nothing is before it.
    """
    words = [token.text for token in tokens]
    if tokens and tokens[0].kind == "name" and tuple(words[1:]) in ORDER_BY_SUFFIX:
        return tokens[0], ORDER_BY_SUFFIX[tuple(words[1:])]
    state = next((token for token in tokens if token.kind == "name" and token.text not in ("d", "dt")), None)
    if state is not None:
        n = state.text
        if words in (["d", "/", "dt", n], ["d", "/", "dt", "(", n, ")"], ["d", "(", n, ")", "/", "dt"]):
            return state, 1
        if words == [n, "/", "dt"] and n.startswith("d") and len(n) > 1:
            return Token("name", n[1:], state.line, state.column + 1), 1
    raise source.build_error(
        tokens[0] if tokens else equals,
        "the left-hand side must be name', d/dt name or dname/dt for an equation, a name for a definition, or name(0) "
        "for an initial value.",
    )
