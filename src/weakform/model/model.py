"""Models `u' = f(t, u, p)` with named states and parameters, as symbolic expressions.

A model is read from text equations or traced from a plain NumPy function (see `equations` and `tracing`). In both cases
it has one SymEngine expression for each state. Linearity in parameters is detected, never declared (see `linearity`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import symengine as se
from numpy.typing import ArrayLike

from ..support.array_types import FloatArray
from ..support.errors import ModelError
from ..support.wording import suggest_name
from .equations import Names, read_equations
from .events import Event, find_known_time
from .expression_map import ExpressionMap
from .function_table import Expr
from .linearity import LinearityDetection
from .naming import check_initial_values, check_names, check_observables, format_initial_name
from .system import System
from .tracing import RightHandSide, trace_function
from .transformations import ModelTransformations

if TYPE_CHECKING:
    from .array_function import Function

INFUSION_PREFIX = "infusion_"
"""Prefix of the names of the inputs that infusions add to a model."""


class Model(ModelTransformations, LinearityDetection):
    """A system of ordinary differential equations `u' = f(t, u, p)`.

    Parameters
    ----------
    f : callable, or sequence of expressions
        A function `f(t, u, p)` in plain NumPy that returns one derivative for each state; it is called once, with
        symbols. Or the derivatives as SymEngine expressions in the names below and `t`, as the readers of files produce
        them.
    states, parameters : sequence of str, (D,), (J,)
        Names, in the order of `u` and `p`.
    inputs : sequence of str, (I,)
        Names of known inputs. If there are any, the function is called as `f(t, u, p, inputs)`.
    hidden : sequence of str
        First derivatives in second-order equations, `x'`: the last of the states.
    variants : sequence of Model
        The model of each trajectory, if parameters are local.
    observe : callable, optional
        A function `h(t, u, p)` that returns quantities that may be measured besides the states, one for each of
        `observables`.
    observables : sequence of str
        Names of the values of `observe`; or a mapping from names to expressions, as the readers of files produce it.
    initial : mapping, optional
        Initial values by state: numbers, or text such as `"1 - I0"` in the names of parameters, or `"1 - I(0)"` with
        the initial value of another state. Initial values that are not given are estimated.
    events : sequence of Event
        Jumps of states; see `from_text`.
    switches : mapping, optional
        The trigger of each switch in the expressions by the name of the switch, as the readers of text produce it.
    steady : mapping, optional
        Values of parameters and inputs. If it is given, the system begins at rest: in the steady state that it reaches
        from the initial values with these values of parameters and inputs.

    Attributes
    ----------
    states, parameters, inputs : tuple of str
        Names, in the order of the arrays.
    expressions : tuple of expressions, (D,)
        The right-hand side of each state.
    observables, initial : dict of str to expression
        Expressions by name, and initial values by state.
    hidden : tuple of str
    variants : tuple of Model
    events : tuple of Event
    switches : dict of str to expression
    steady : dict of str to expression, or None
    compiled_functions : dict
        Functions that other modules compile for the model and keep here, by keys of their choice.

    Raises
    ------
    ModelError
        If a name is unsuitable or used twice, or the function cannot be traced.

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
        plain = check_names(states if not hidden else [s for s in states if s not in self.hidden], "states")
        self.states = (*plain, *self.hidden)
        # Names such as x(0) are not identifiers, so they are left out of the check.
        initial_names = tuple(format_initial_name(state) for state in self.states)
        initial_parameters = [name for name in parameters if isinstance(name, str) and name.startswith(initial_names)]
        self.inputs = check_names(inputs, "inputs")
        check_names(
            parameters if not initial_parameters else [n for n in parameters if n not in initial_parameters],
            "parameters",
        )
        self.parameters = tuple(parameters)
        for kind, names in (("a parameter", self.parameters), ("an input", self.inputs)):
            both = set(self.states) & set(names)
            if both:
                raise ModelError(f"{sorted(both)[0]!r} is both a state and {kind}; rename one.")
        if callable(f):
            self.expressions = trace_function(f, self.states, self.parameters, self.inputs)
        elif isinstance(f, str) or not isinstance(f, Sequence):
            raise ModelError(
                f"The first argument of Model must be a function f(t, u, p); received a {type(f).__name__}. "
                "For text equations use Model.from_text(...)."
            )
        else:
            self.expressions = tuple(f)
        if observe is not None:
            names = check_observables(observables, (*self.states, *self.parameters, *self.inputs))
            traced = trace_function(observe, self.states, self.parameters, self.inputs, returns=names)
            observables = dict(zip(names, traced, strict=True))
        if not isinstance(observables, Mapping | None):
            raise ModelError("observables are names for the values that observe=h(t, u, p) returns; give observe, too.")
        self.observables: dict[str, Expr] = dict(observables or {})
        self.initial = check_initial_values(initial or {}, self.states, self.parameters)
        # Expressions come from readers and transformations, which may keep a parameter that occurs nowhere.
        if callable(f):
            self._refuse_unused_names()
        self._systems: dict[Any, System] = {}
        self._maps: dict[Any, ExpressionMap] = {}
        self.compiled_functions: dict[str, Any] = {}

    @classmethod
    def from_text(cls, text: str, *, parameters: Sequence[str] | None = None, inputs: Sequence[str] = ()) -> Model:
        """Read equations such as `u1' = -p1*u1`, one for each line.

        Parameters
        ----------
        text : str
            One equation per line: `name' = ...`, `d/dt name = ...` or `dname/dt = ...` for each state. `name'' = ...`
            is a second-order equation, whose right-hand side may use `name'`. `name = ...` is a named expression: later
            lines may use it, and it may be measured. `name(0) = ...` is an initial value, a number or an
            expression of parameters and of other initial values. `if(t < 10, a, b)` and `piecewise(a, t < 10, b)`
            switch; `at t = 10: x = 0, y = y/2` and `when x > 5: x = 0` make states jump. `t` is time, `pi` is π, powers
            are `**` or `^`, and `#` starts a comment. An expression continues on the next line inside parentheses or
            around an operator.
        parameters : sequence of str, optional
            The parameters in the order wanted. By default every other name is a parameter, in natural order
            (p2 before p10).
        inputs : sequence of str
            Names of known inputs, which are columns of the data.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If the text is not a model; the message shows the line and points at the column.
        """
        declared = None if parameters is None else check_names(parameters, "parameters")
        input_names = check_names(inputs, "inputs")
        equations = read_equations(text, declared, input_names)
        model = cls(
            equations.expressions,
            equations.states,
            equations.parameters,
            input_names,
            hidden=equations.hidden,
            observables=equations.observables,
            initial=equations.initial,
            events=equations.events,
            switches=equations.switches,
            steady=equations.steady,
        )
        model._refuse_unused_names()
        return model

    def _refuse_unused_names(self) -> None:
        """Raise `ModelError` if a parameter or an input occurs in no expression of the model."""
        used = self._collect_names(self.observables)
        idle = [name for name in (*self.parameters, *self.inputs) if name not in used]
        if idle:
            what = "parameter" if idle[0] in self.parameters else "input"
            raise ModelError(
                f"The {what} {idle[0]!r} does not occur in the equations, so nothing can determine it. "
                f"Remove it from the list.{suggest_name(idle[0], used)}"
            )

    @property
    def driving_names(self) -> Names:
        """The names that the right-hand side depends on besides time, states and parameters: inputs, then switches."""
        return (*self.inputs, *self.switches)

    def find_firing_time(self, trigger: Expr) -> Expr | None:
        """Return the time at which a trigger fires as an expression of parameters.

        Return None if the time depends on states or inputs.
        """
        time = find_known_time(trigger)
        time_dependent = {se.Symbol(name) for name in (*self.states, *self.inputs)}
        return None if time is None or time.free_symbols & time_dependent else time

    @classmethod
    def from_sympy(
        cls,
        equations: Mapping[Any, Any],
        *,
        parameters: Sequence[Any] | None = None,
        inputs: Sequence[Any] = (),
        initial: Mapping[str, Any] | None = None,
    ) -> Model:
        """Build a model from derivatives as SymPy expressions.

        Parameters
        ----------
        equations : mapping
            The derivative of each state, by its symbol, by its function of time, or by its name: `{x: -k*x}`.
        parameters : sequence of symbols or str, optional
            The parameters in the order wanted. By default every other symbol is a parameter, in natural order. The
            symbol `t` is time.
        inputs : sequence of symbols or str
            Known inputs.
        initial : mapping, optional
            Initial values by state, as for `Model`.

        Returns
        -------
        Model

        Raises
        ------
        ModelError
            If a derivative cannot be read, or has symbols that are not declared.

        Examples
        --------
        >>> import sympy, weakform as wf
        >>> x, k = sympy.symbols("x k")
        >>> wf.Model.from_sympy({x: -k*x}).parameters
        ('k',)
        """
        from .sympy_bridge import convert_sympy_equations

        model = cls(**convert_sympy_equations(equations, parameters, inputs), initial=initial)
        model._refuse_unused_names()
        return model

    def to_sympy(self) -> dict[Any, Any]:
        """Return the derivative of each state as a SymPy expression, by its symbol; a switch is a `Piecewise`.

        Raises
        ------
        ModelError
            If SymPy is not installed.
        """
        from .sympy_bridge import to_sympy

        return to_sympy(self)

    def function(self) -> Function:
        """Return the right-hand side `f(t, u, p)` on NumPy arrays, with its Jacobians, for use with any solver.

        Raises
        ------
        ModelError
            If the model has switches, whose right-hand side is not smooth.
        """
        from .array_function import Function

        return Function(self)

    def _collect_names(self, observables: Mapping[str, Expr]) -> set[str]:
        """Return every name in the expressions of the model, with `observables` instead of the observables it has."""
        expressions = [*self.expressions, *observables.values(), *self.initial.values(), *self._event_expressions]
        return {str(symbol) for expr in expressions for symbol in expr.free_symbols}

    @property
    def _event_expressions(self) -> list[Expr]:
        """The expressions of switches, of the steady state and of events."""
        expressions = [*self.switches.values(), *(self.steady or {}).values()]
        return expressions + [expr for event in self.events for expr in (event.trigger, *event.after.values())]

    @property
    def all_expressions(self) -> tuple[Expr, ...]:
        """All expressions of the model."""
        return (*self.expressions, *self.observables.values(), *self.initial.values(), *self._event_expressions)

    def with_parts(self, **changes: Any) -> Model:
        """Return the model with some arguments of the constructor replaced."""
        return Model(**{**self._constructor_arguments(), **changes})

    def _constructor_arguments(self) -> dict[str, Any]:
        """Return the arguments with which the constructor builds an equal model."""
        names = ("states", "parameters", "inputs", "hidden", "variants", "observables", "initial", "events", "switches")
        return {"f": self.expressions, "steady": self.steady, **{name: getattr(self, name) for name in names}}

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_model, (self._constructor_arguments(),)

    def for_trajectory(self, trajectory: int) -> Model:
        """Return the model of one trajectory: this one, unless parameters are local."""
        return self.variants[trajectory] if self.variants else self

    def build_map(self, what: str, names: Sequence[str] = ()) -> ExpressionMap:
        """Return a compiled function of the model; later calls return the same one.

        Parameters
        ----------
        what : str
            `"f"` for the right-hand side, `"h"` for observables or states, `"g"` for the initial values.
        names : sequence of str
            The observables or states of `"h"`.

        Returns
        -------
        ExpressionMap
            The initial values of a model that begins at rest are a `SteadyInitialValues`.
        """
        key = (what, *names)
        if key not in self._maps:
            measurable = {**{state: se.Symbol(state) for state in self.states}, **self.observables}
            expressions = {
                "f": self.expressions,
                "h": [measurable[name] for name in names],
                "g": [self.initial.get(state, se.Integer(0)) for state in self.states],
            }[what]
            self._maps[key] = ExpressionMap(expressions, self.states, self.driving_names, self.parameters)
            if what == "g" and self.steady is not None:
                # Imported here, because `forward` imports models.
                from ..forward.steady_states import SteadyInitialValues

                self._maps[key] = SteadyInitialValues(self, self._maps[key])
        return self._maps[key]

    @property
    def resting_model(self) -> Model:
        """The model before the initial time, at rest: without events, inputs and observables.

        Inputs of infusions are zero in it.

        Raises
        ------
        ModelError
            If its equations depend on an input that `steady` gives no value.
        """
        values = {name: se.Integer(0) for name in self.inputs if name.startswith(INFUSION_PREFIX)} | (self.steady or {})
        substitutions = {se.Symbol(name): e for name, e in values.items()}
        changed = self._transform_expressions(self.parameters, lambda e: e.subs(substitutions))
        remaining = [n for n in self.inputs if any(se.Symbol(n) in e.free_symbols for e in changed.expressions)]
        if remaining:
            raise ModelError(
                f"The steady state before the initial time depends on the input {remaining[0]!r}, which has no value "
                f"there; give one in the model, such as steady: {remaining[0]} = 0."
            )
        return changed.with_parts(events=(), steady=None, inputs=(), observables={})

    def __str__(self) -> str:
        equations = dict(zip(self.states, self.expressions, strict=True))
        velocities = {name.rstrip("'"): name for name in self.hidden}
        lines = [
            f"{s}'' = {equations[velocities[s]]}" if s in velocities else f"{s}' = {e}"
            for s, e in equations.items()
            if s not in self.hidden
        ]
        lines += [f"{name} = {e}" for name, e in self.observables.items()]
        initial_values = [(format_initial_name(s), str(e)) for s, e in self.initial.items()]
        # An initial value that is its own parameter, x(0) = x(0), gives no line.
        lines += [f"{name} = {text}" for name, text in initial_values if name != text]
        if self.steady is not None:
            assignments = ", ".join(f"{name} = {e}" for name, e in self.steady.items())
            lines.append(f"steady: {assignments}" if assignments else "steady")
        return "\n".join([*lines, *map(str, self.events)])

    def __repr__(self) -> str:
        driven = f"; inputs {', '.join(self.inputs)}" if self.inputs else ""
        return f"<Model: states {', '.join(self.states)}; parameters {', '.join(self.parameters)}{driven}>\n{self}"

    def _repr_html_(self) -> str:
        from ..report.mathml import render_equations

        return render_equations(self)

    def __call__(self, t: ArrayLike, u: ArrayLike, p: ArrayLike) -> FloatArray:
        """Evaluate the right-hand side `f(t, u, p)` of a model without inputs and switches.

        Parameters
        ----------
        t : float or array_like, (n,)
        u : array_like, (D,) or (n, D)
        p : array_like, (J,)

        Returns
        -------
        ndarray, (D,) or (n, D)
            The derivatives of the states, in the shape of `u`.

        Raises
        ------
        ModelError
            If a shape is wrong, or the model has inputs or switches.
        """
        try:
            values = np.asarray(u, dtype=float)
        except (TypeError, ValueError):
            raise ModelError(f"The states must be numbers; received {u!r}.") from None
        rows = np.atleast_2d(values)
        times = np.broadcast_to(np.asarray(t, dtype=float), rows.shape[:1])
        parameters = np.asarray(p, dtype=float)
        if rows.shape[1] != len(self.states) or parameters.shape != (len(self.parameters),):
            raise ModelError(
                f"Expected {len(self.states)} states and {len(self.parameters)} parameters; "
                f"received {rows.shape[1]} and {parameters.size}."
            )
        if self.driving_names:
            raise ModelError("A model with inputs or switches cannot be called as f(t, u, p); use simulate(...).")
        f = self.system(("gaussian",) * len(self.states)).evaluate(times, rows, parameters, ("f",))["f"]
        return f.to_dense((len(self.states),)).T.reshape(values.shape)

    def system(self, noise: tuple[str, ...], covariance: FloatArray | None = None) -> System:
        """Return the right-hand side in the coordinates in which the noise is additive, with its derivatives.

        Parameters
        ----------
        noise : tuple of str, (D,)
            The kind of noise of each state, a key of `noise.kinds.KINDS`.
        covariance : ndarray, (D, D), optional
            Covariance of the noise between states in these coordinates.

        Returns
        -------
        System
            The same object for the same arguments, so that expressions are compiled once.
        """
        key = (noise, None if covariance is None else covariance.tobytes())
        if key not in self._systems:
            mix = None if covariance is None else np.asarray(np.linalg.cholesky(covariance), dtype=float)
            self._systems[key] = System(self.states, self.parameters, self.expressions, noise, self.driving_names, mix)
        return self._systems[key]


def _rebuild_model(parts: dict[str, Any]) -> Model:
    """Build a model from the arguments of its constructor; called when a model is unpickled."""
    return Model(**parts)
