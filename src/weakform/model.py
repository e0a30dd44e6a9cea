"""A model: `u' = f(t, u, p)` with named states and parameters, as symbolic expressions.

A model comes from text equations or from a plain NumPy function (see `expressions` and `tracing`); either way it holds
one SymEngine expression for each state. What is linear in the parameters is detected here, never declared:
`f` is jointly affine in a set L of parameters exactly if `∂²f/∂p_i∂p_j = 0` for all i, j in L.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import symengine as se
from numpy.typing import ArrayLike, NDArray

from .derivatives import System
from .errors import ModelError
from .expressions import FUNCTIONS, RESERVED, Expr, Parser, Source, Token, Value, expanded, suggestion
from .tracing import RightHandSide, trace
from .typing import FloatArray

_CONTINUES = {"+", "-", "*", "/", "**", "^"}


class Model:
    """A system of ordinary differential equations `u' = f(t, u, p)`.

    Parameters
    ----------
    f : callable
        `f(t, u, p)` in plain NumPy, called once with symbols; returns one derivative for each state.
    states, parameters : sequence of str
        Names, in the order of `u` and `p`.
    inputs : sequence of str
        Names of known inputs; with some, the function is called as `f(t, u, p, inputs)`.

    Examples
    --------
    >>> import weakform as wf
    >>> wf.Model.from_text("N' = r*N*(1 - N/K)").parameters
    ('K', 'r')
    """

    def __init__(
        self, f: RightHandSide, states: Sequence[str], parameters: Sequence[str], inputs: Sequence[str] = ()
    ) -> None:
        if not callable(f):
            raise ModelError(
                f"Model takes a function f(t, u, p), but a {type(f).__name__} was given. "
                "For text equations use Model.from_text(...)."
            )
        states, parameters = _names(states, "states"), _names(parameters, "parameters")
        inputs = _names(inputs, "inputs")
        self._set(states, parameters, trace(f, states, parameters, inputs), inputs)

    @classmethod
    def from_text(cls, text: str, *, parameters: Sequence[str] | None = None, inputs: Sequence[str] = ()) -> Model:
        """Read equations such as `u1' = -p1*u1`, one a line.

        Parameters
        ----------
        text : str
            `name' = ...`, `d/dt name = ...` or `dname/dt = ...` for each state; `name = ...` defines an
            abbreviation for the lines below it; `#` starts a comment. `t` is time, `pi` is π, powers are `**` or `^`.
            An expression goes on in the next line inside parentheses or around an operator. `name'' = ...` is a
            second-order equation, whose right-hand side may use `name'`; only `name` needs to be measured.
        parameters : sequence of str, optional
            The parameters in the order wanted. By default every other name is a parameter, in natural order
            (p2 before p10).
        inputs : sequence of str
            Names that are known inputs, columns of the data.
        """
        declared = None if parameters is None else _names(parameters, "parameters")
        driven = _names(inputs, "inputs")
        states, names, expressions, hidden = read_equations(text, declared, driven)
        model = cls.__new__(cls)
        model._set(states, names, expressions, driven, hidden)
        return model

    def _set(
        self,
        states: tuple[str, ...],
        parameters: tuple[str, ...],
        expressions: tuple[Expr, ...],
        inputs: tuple[str, ...] = (),
        hidden: tuple[str, ...] = (),
        variants: tuple[Model, ...] = (),
    ) -> None:
        for kind, names in (("a parameter", parameters), ("an input", inputs)):
            both = set(states) & set(names)
            if both:
                raise ModelError(f"{sorted(both)[0]!r} is both a state and {kind}; rename one.")
        used = {str(symbol) for expr in expressions for symbol in expr.free_symbols}
        idle = [name for name in (*parameters, *inputs) if name not in used]
        if idle and not variants:
            what = "parameter" if idle[0] in parameters else "input"
            raise ModelError(
                f"The {what} {idle[0]!r} does not occur in the equations, so nothing can determine it. "
                f"Remove it from the list.{suggestion(idle[0], used)}"
            )
        self._assign(states, parameters, expressions, inputs, hidden, variants)

    def _assign(
        self,
        states: tuple[str, ...],
        parameters: tuple[str, ...],
        expressions: tuple[Expr, ...],
        inputs: tuple[str, ...],
        hidden: tuple[str, ...],
        variants: tuple[Model, ...],
    ) -> Model:
        self.states, self.parameters, self.expressions = states, parameters, expressions
        self.inputs, self.hidden, self.variants = inputs, hidden, variants
        self._systems: dict[Any, System] = {}
        self.compiled: dict[str, Any] = {}
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        parts = (self.states, self.parameters, self.expressions, self.inputs, self.hidden, self.variants)
        return _rebuild, parts

    def of(self, trajectory: int) -> Model:
        """The model of one trajectory: this one, unless parameters are local."""
        return self.variants[trajectory] if self.variants else self

    def _with(self, parameters: tuple[str, ...], expressions: tuple[Expr, ...]) -> Model:
        """The same model with other parameters, some of which may be idle."""
        model = Model.__new__(Model)
        return model._assign(self.states, parameters, expressions, self.inputs, self.hidden, ())

    @staticmethod
    def local_name(name: str, label: str) -> str:
        """The name of a local parameter in the trajectories with a label."""
        return _joined(name, label)

    def localised(self, local: Mapping[str, Sequence[str]]) -> Model:
        """A model for several trajectories, in each of which some parameters have values of their own.

        Parameters
        ----------
        local : mapping
            For each local parameter, the label of its value in each trajectory: `{"k": ["a", "a", "b"]}` makes the
            parameters `k_a` and `k_b`, the first shared by two trajectories.
        """
        for name, labels in local.items():
            by_name: dict[str, str] = {}
            for label in labels:
                if by_name.setdefault(_joined(name, label), label) != label:
                    raise ModelError(
                        f"The labels {by_name[_joined(name, label)]!r} and {label!r} both make the name "
                        f"{_joined(name, label)!r}; rename one of them."
                    )
        names: list[str] = []
        for name in self.parameters:
            names += list(dict.fromkeys(_joined(name, label) for label in local[name])) if name in local else [name]
        if len(set(names)) < len(names) or set(names) & {*self.states, *self.inputs}:
            raise ModelError(f"Local parameters get names such as {names}, which are not all different; rename some.")
        count = len(next(iter(local.values())))
        variants = []
        for k in range(count):
            here = {se.Symbol(n): se.Symbol(_joined(n, labels[k])) for n, labels in local.items()}
            variants.append(self._with(tuple(names), tuple(e.subs(here) for e in self.expressions)))
        model = Model.__new__(Model)
        return model._assign(self.states, tuple(names), self.expressions, self.inputs, self.hidden, tuple(variants))

    def substituted(self, values: Mapping[str, Expr], drop: bool) -> Model:
        """The model with expressions in place of parameters, which leave the list if `drop`."""
        here = {se.Symbol(name): expr for name, expr in values.items()}
        names = tuple(name for name in self.parameters if not (drop and name in values))
        # Expanded, so that what cancels does: r*(1 - x/(2*r)) has no pole at zero.
        made = tuple(expanded(e.subs(here)) if drop else e.subs(here) for e in self.expressions)
        model = self._with(names, made)
        model.variants = tuple(variant.substituted(values, drop) for variant in self.variants)
        return model

    def shifted(self, begin: float) -> Model:
        """The same model on a clock that starts at `begin`."""
        t = se.Symbol("t")
        return self._with(self.parameters, tuple(e.subs({t: t + begin}) for e in self.expressions))

    def __str__(self) -> str:
        shown = dict(zip(self.states, self.expressions, strict=True))
        order = {name.rstrip("'"): name for name in self.hidden}
        return "\n".join(
            f"{s}'' = {shown[order[s]]}" if s in order else f"{s}' = {e}"
            for s, e in shown.items()
            if s not in self.hidden
        )

    def __repr__(self) -> str:
        return f"<Model: {len(self.states)} states, {len(self.parameters)} parameters>\n{self}"

    def _repr_html_(self) -> str:
        from .report.mathml import equations

        return equations(self)

    def __call__(self, t: ArrayLike, u: ArrayLike, p: ArrayLike) -> FloatArray:
        """Evaluate `f(t, u, p)`; `u` is `(D,)` or `(time, D)`, and the result has its shape."""
        try:
            values = np.asarray(u, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"The states must be numbers; received {u!r}.") from None
        rows = np.atleast_2d(values)
        times = np.broadcast_to(np.asarray(t, dtype=float), rows.shape[:1])
        parameters = np.asarray(p, dtype=float)
        if rows.shape[1] != len(self.states) or parameters.shape != (len(self.parameters),):
            raise ModelError(
                f"Expected {len(self.states)} states and {len(self.parameters)} parameters, "
                f"received {rows.shape[1]} and {parameters.size}."
            )
        if self.inputs:
            raise ModelError("A model with inputs cannot be called alone; use simulate(..., inputs=...).")
        f = self.system(("gaussian",) * len(self.states)).evaluate(times, rows, parameters, ("f",))["f"]
        return f.dense((len(self.states),)).T.reshape(values.shape)

    def system(self, noise: tuple[str, ...], covariance: FloatArray | None = None) -> System:
        """The right-hand side in the coordinates in which the given noise is additive, with its derivatives."""
        key = (noise, None if covariance is None else covariance.tobytes())
        if key not in self._systems:
            mix = None if covariance is None else np.asarray(np.linalg.cholesky(covariance), dtype=float)
            self._systems[key] = System(self.states, self.parameters, self.expressions, noise, self.inputs, mix)
        return self._systems[key]

    @cached_property
    def _bent(self) -> NDArray[np.bool_]:
        """Pairs of parameters with `∂²f/∂p_i∂p_j ≠ 0`, `(J, J)`."""
        symbols = [se.Symbol(name) for name in self.parameters]
        n = len(symbols)
        bent = np.zeros((n, n), dtype=bool)
        everywhere = [e for variant in self.variants for e in variant.expressions] or self.expressions
        for expr in everywhere:
            present = [i for i in range(n) if symbols[i] in expr.free_symbols]
            for i in present:
                first = expr.diff(symbols[i])
                for j in present:
                    if j <= i and not bent[i, j] and expanded(first.diff(symbols[j])) != 0:
                        bent[i, j] = bent[j, i] = True
        return bent

    def linear_among(self, names: Sequence[str]) -> tuple[str, ...]:
        """A largest set found among `names` in which, all other parameters being fixed, the equations are affine."""
        # A greedy independent set in the graph of bent pairs, the least entangled parameters first.
        bent = self._bent
        candidates = [self.parameters.index(name) for name in names]
        chosen: list[int] = []
        for i in sorted(candidates, key=lambda i: (int(bent[i, candidates].sum()), i)):
            if not bent[i, i] and not bent[i, chosen].any():
                chosen.append(i)
        return tuple(self.parameters[i] for i in sorted(chosen))

    @property
    def linear_parameters(self) -> tuple[str, ...]:
        """A largest set found of parameters in which, the others being fixed, the equations are affine."""
        return self.linear_among(self.parameters)

    @property
    def is_linear(self) -> bool:
        """Whether the equations are linear (affine) in all parameters."""
        return len(self.linear_parameters) == len(self.parameters)


def _rebuild(*parts: Any) -> Model:
    return Model.__new__(Model)._assign(*parts)


def _joined(name: str, label: str) -> str:
    """`name_label`, as a name."""
    return f"{name}_{re.sub(r'[^0-9A-Za-z_]+', '_', label).strip('_')}"


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
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
