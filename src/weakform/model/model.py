"""A model: `u' = f(t, u, p)` with named states and parameters, as symbolic expressions.

A model comes from text equations or from a plain NumPy function (see `expressions` and `tracing`); either way it holds
one SymEngine expression for each state. What is linear in the parameters is detected, never declared (see `affine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import symengine as se
from numpy.typing import ArrayLike

from ..support.array_types import FloatArray
from ..support.errors import ModelError
from ..support.wording import suggestion
from .equations import Names, read_equations
from .events import Event, known_time
from .expression_map import Map
from .function_table import Expr
from .linearity import Affine
from .naming import checked_initial, checked_names, checked_observables, initial_name
from .system import System
from .tracing import RightHandSide, trace
from .transformations import Changes

if TYPE_CHECKING:
    from .array_function import Function

INFUSION = "infusion_"
"""How the inputs begin that infusions make."""


class Model(Changes, Affine):
    """A system of ordinary differential equations `u' = f(t, u, p)`.

    Parameters
    ----------
    f : callable, or sequence of expressions
        `f(t, u, p)` in plain NumPy, called once with symbols; returns one derivative for each state. Or the derivatives
        themselves, as SymEngine expressions in the names below and `t`, as readers of files make them.
    states, parameters : sequence of str
        Names, in the order of `u` and `p`.
    inputs : sequence of str
        Names of known inputs; with some, the function is called as `f(t, u, p, inputs)`.
    hidden : sequence of str
        First derivatives in second-order equations, `x'`: the last of the states.
    variants : sequence of Model
        The model of each trajectory, where parameters are local.
    observe : callable, optional
        `h(t, u, p)`: quantities that may be measured besides the states, as many as there are `observables`.
    observables : sequence of str
        Their names. (Or a mapping of names to expressions, as readers of files make it.)
    initial : mapping, optional
        Initial values by state: numbers, or text such as `"1 - I0"` in the names of parameters; `"1 - I(0)"` for the
        initial value of another state. Those that are not given are estimated.
    events : sequence of Event
        Jumps of states; see `from_text`.
    switches : mapping, optional
        What each switch in the expressions stands for, as readers of text make it.
    steady : mapping, optional
        Where it is given, the system begins at rest: in the steady state that it reaches from the initial values, with
        these values of parameters and inputs.

    Examples
    --------
    >>> import weakform as wf
    >>> wf.Model.from_text("N' = r*N*(1 - N/K)").parameters
    ('K', 'r')
    """

    def __init__(
        self,
        f: RightHandSide | Sequence[Expr],
        states: Sequence[str],
        parameters: Sequence[str],
        inputs: Sequence[str] = (),
        *,
        hidden: Sequence[str] = (),
        variants: Sequence[Model] = (),
        observables: Mapping[str, Expr] | Sequence[str] | None = None,
        observe: RightHandSide | None = None,
        initial: Mapping[str, Any] | None = None,
        events: Sequence[Event] = (),
        switches: Mapping[str, Expr] | None = None,
        steady: Mapping[str, Expr] | None = None,
    ) -> None:
        self.steady = None if steady is None else dict(steady)
        self.events, self.switches = tuple(events), dict(switches or {})
        self.hidden, self.variants = tuple(hidden), tuple(variants)
        plain = checked_names(states if not hidden else [s for s in states if s not in self.hidden], "states")
        self.states = (*plain, *self.hidden)
        beginnings = tuple(initial_name(state) for state in self.states)
        named = [name for name in parameters if isinstance(name, str) and name.startswith(beginnings)]
        self.inputs = checked_names(inputs, "inputs")
        checked_names(parameters if not named else [n for n in parameters if n not in named], "parameters")
        self.parameters = tuple(parameters)
        for kind, names in (("a parameter", self.parameters), ("an input", self.inputs)):
            both = set(self.states) & set(names)
            if both:
                raise ModelError(f"{sorted(both)[0]!r} is both a state and {kind}; rename one.")
        if callable(f):
            self.expressions = trace(f, self.states, self.parameters, self.inputs)
        elif isinstance(f, str) or not isinstance(f, Sequence):
            raise ModelError(
                f"Model takes a function f(t, u, p), but a {type(f).__name__} was given. "
                "For text equations use Model.from_text(...)."
            )
        else:
            self.expressions = tuple(f)
        if observe is not None:
            names = checked_observables(observables, (*self.states, *self.parameters, *self.inputs))
            traced = trace(observe, self.states, self.parameters, self.inputs, returns=names)
            observables = dict(zip(names, traced, strict=True))
        if not isinstance(observables, Mapping | None):
            raise ModelError("observables are names for what observe=h(t, u, p) returns; give observe, too.")
        self.observables: dict[str, Expr] = dict(observables or {})
        self.initial = checked_initial(initial or {}, self.states, self.parameters)
        if callable(f):
            self._refuse_idle()
        self._systems: dict[Any, System] = {}
        self._maps: dict[Any, Map] = {}
        self.compiled: dict[str, Any] = {}

    @classmethod
    def from_text(cls, text: str, *, parameters: Sequence[str] | None = None, inputs: Sequence[str] = ()) -> Model:
        """Read equations such as `u1' = -p1*u1`, one for each line.

        Parameters
        ----------
        text : str
            `name' = ...`, `d/dt name = ...` or `dname/dt = ...` for each state; `name = ...` is a named expression, an
            abbreviation for the lines below it that may be measured, too; `name(0) = ...` is an initial value, a number
            or an expression of parameters and of other initial values; `#` starts a comment. `t` is time, `pi` is π,
            powers are `**` or `^`. An expression goes on in the next line inside parentheses or around an operator.
            `name'' = ...` is a second-order equation, whose right-hand side may use `name'`. `if(t < 10, a, b)` and
            `piecewise(a, t < 10, b)` switch; `at t = 10: x = 0, y = y/2` and `when x > 5: x = 0` make states jump.
        parameters : sequence of str, optional
            The parameters in the order wanted. By default every other name is a parameter, in natural order
            (p2 before p10).
        inputs : sequence of str
            Names that are known inputs, columns of the data.
        """
        declared = None if parameters is None else checked_names(parameters, "parameters")
        driven = checked_names(inputs, "inputs")
        read = read_equations(text, declared, driven)
        model = cls(
            read.expressions,
            read.states,
            read.parameters,
            driven,
            hidden=read.hidden,
            observables=read.observables,
            initial=read.initial,
            events=read.events,
            switches=read.switches,
            steady=read.steady,
        )
        model._refuse_idle()
        return model

    def _refuse_idle(self) -> None:
        """Refuse parameters and inputs that no equation has."""
        used = self._used(self.observables)
        idle = [name for name in (*self.parameters, *self.inputs) if name not in used]
        if idle:
            what = "parameter" if idle[0] in self.parameters else "input"
            raise ModelError(
                f"The {what} {idle[0]!r} does not occur in the equations, so nothing can determine it. "
                f"Remove it from the list.{suggestion(idle[0], used)}"
            )

    @property
    def driven(self) -> Names:
        """What a right-hand side depends on besides time, states and parameters: inputs, then switches."""
        return (*self.inputs, *self.switches)

    def timed(self, trigger: Expr) -> Expr | None:
        """When a trigger fires, as an expression of parameters; None where that depends on states or inputs."""
        moving = {se.Symbol(name) for name in (*self.states, *self.inputs)}
        return None if (time := known_time(trigger)) is None or time.free_symbols & moving else time

    @classmethod
    def from_sympy(
        cls,
        equations: Mapping[Any, Any],
        *,
        parameters: Sequence[Any] | None = None,
        inputs: Sequence[Any] = (),
        initial: Mapping[str, Any] | None = None,
    ) -> Model:
        """Take the derivatives as SymPy expressions.

        Parameters
        ----------
        equations : mapping
            The derivative of each state, by its symbol, by its function of time, or by its name: `{x: -k*x}`.
        parameters : sequence, optional
            In the order wanted; by default every other symbol, in natural order. The symbol `t` is time.
        inputs : sequence
            Known inputs.
        initial : mapping, optional
            As for `Model`.

        Examples
        --------
        >>> import sympy, weakform as wf
        >>> x, k = sympy.symbols("x k")
        >>> wf.Model.from_sympy({x: -k*x}).parameters
        ('k',)
        """
        from .sympy_bridge import parts

        model = cls(**parts(equations, parameters, inputs), initial=initial)
        model._refuse_idle()
        return model

    def to_sympy(self) -> dict[Any, Any]:
        """The derivative of each state as a SymPy expression, by its symbol; a switch is a `Piecewise`."""
        from .sympy_bridge import to_sympy

        return to_sympy(self)

    def function(self) -> Function:
        """The right-hand side `f(t, u, p)` on NumPy arrays, with its Jacobians, for use with any solver."""
        from .array_function import Function

        return Function(self)

    def _used(self, observables: Mapping[str, Expr]) -> set[str]:
        """Every name in the equations, with some of the observables."""
        every = [*self.expressions, *observables.values(), *self.initial.values(), *self._happens]
        return {str(symbol) for expr in every for symbol in expr.free_symbols}

    @property
    def _happens(self) -> list[Expr]:
        """Expressions of switches and events."""
        found = [*self.switches.values(), *(self.steady or {}).values()]
        return found + [expr for event in self.events for expr in (event.trigger, *event.after.values())]

    @property
    def everything(self) -> tuple[Expr, ...]:
        """Every expression of the model."""
        return (*self.expressions, *self.observables.values(), *self.initial.values(), *self._happens)

    def with_parts(self, **changes: Any) -> Model:
        """The model with some of what the constructor takes changed."""
        return Model(**{**self._parts(), **changes})

    def _parts(self) -> dict[str, Any]:
        """What the constructor takes."""
        names = ("states", "parameters", "inputs", "hidden", "variants", "observables", "initial", "events", "switches")
        return {"f": self.expressions, "steady": self.steady, **{name: getattr(self, name) for name in names}}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._parts(),)

    def of(self, trajectory: int) -> Model:
        """The model of one trajectory: this one, unless parameters are local."""
        return self.variants[trajectory] if self.variants else self

    def map(self, what: str, names: Sequence[str] = ()) -> Map:
        """The right-hand side (`"f"`), some observables or states (`"h"`), or the initial values (`"g"`), compiled."""
        key = (what, *names)
        if key not in self._maps:
            known = {**{state: se.Symbol(state) for state in self.states}, **self.observables}
            expressions = {
                "f": self.expressions,
                "h": [known[name] for name in names],
                "g": [self.initial.get(state, se.Integer(0)) for state in self.states],
            }[what]
            self._maps[key] = Map(expressions, self.states, self.driven, self.parameters)
            if what == "g" and self.steady is not None:
                from ..forward.steady_states import AtRest

                self._maps[key] = AtRest(self, self._maps[key])
        return self._maps[key]

    @property
    def resting(self) -> Model:
        """The model as it was before it begins, where it is at rest: without events."""
        values = {name: se.Integer(0) for name in self.inputs if name.startswith(INFUSION)} | (self.steady or {})
        here = {se.Symbol(name): e for name, e in values.items()}
        changed = self._changed(self.parameters, lambda e: e.subs(here))
        open_to = [n for n in self.inputs if any(se.Symbol(n) in e.free_symbols for e in changed.expressions)]
        if open_to:
            raise ModelError(f"Say with which {open_to[0]} the model was at rest before: steady: {open_to[0]} = 0.")
        return changed.with_parts(events=(), steady=None, inputs=(), observables={})

    def __str__(self) -> str:
        shown = dict(zip(self.states, self.expressions, strict=True))
        order = {name.rstrip("'"): name for name in self.hidden}
        lines = [
            f"{s}'' = {shown[order[s]]}" if s in order else f"{s}' = {e}"
            for s, e in shown.items()
            if s not in self.hidden
        ]
        lines += [f"{name} = {e}" for name, e in self.observables.items()]
        begun = [(initial_name(s), str(e)) for s, e in self.initial.items()]
        lines += [f"{name} = {text}" for name, text in begun if name != text]
        if self.steady is not None:
            said = ", ".join(f"{name} = {e}" for name, e in self.steady.items())
            lines.append(f"steady: {said}" if said else "steady")
        return "\n".join([*lines, *map(str, self.events)])

    def __repr__(self) -> str:
        driven = f"; inputs {', '.join(self.inputs)}" if self.inputs else ""
        return f"<Model: states {', '.join(self.states)}; parameters {', '.join(self.parameters)}{driven}>\n{self}"

    def _repr_html_(self) -> str:
        from ..report.mathml import equations

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
        if self.driven:
            raise ModelError("A model with inputs or switches cannot be called alone; use simulate(...).")
        f = self.system(("gaussian",) * len(self.states)).evaluate(times, rows, parameters, ("f",))["f"]
        return f.dense((len(self.states),)).T.reshape(values.shape)

    def system(self, noise: tuple[str, ...], covariance: FloatArray | None = None) -> System:
        """The right-hand side in the coordinates in which the given noise is additive, with its derivatives."""
        key = (noise, None if covariance is None else covariance.tobytes())
        if key not in self._systems:
            mix = None if covariance is None else np.asarray(np.linalg.cholesky(covariance), dtype=float)
            self._systems[key] = System(self.states, self.parameters, self.expressions, noise, self.driven, mix)
        return self._systems[key]


def _rebuild(parts: dict[str, Any]) -> Model:
    return Model(**parts)
