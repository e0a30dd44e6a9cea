"""Events and switches along a forward solution, and how sensitivities change at them.

At a jump at the time τ(p, u₀) the states go from u to R(u, p), and the right-hand side from f to f⁺. With `S = [∂u/∂p,
∂u/∂u₀]` and `dτ = [∂τ/∂p, ∂τ/∂u₀]`,

    S⁺ = R_u (S + f dτ) + R_p - f⁺ dτ

with `R_t dτ` in addition if R depends on time. If τ is the time at which `g(t, u, p)` passes through zero,
`dτ = -(g_u S + g_p)/(g_t + g_u f)`.

A trigger g whose time depends on parameters alone is known before anything is solved (`ScheduledJump`); any other
trigger is watched while the equations are solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..model.events import TIME_SYMBOL
from ..model.expression_map import ExpressionMap
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import ModelError

TIME_ROUNDING = 1e-12
"""Relative rounding error of a computed time; two times that are closer are the same. Some thousand times the machine
precision, by judgement; `test_sample_at_an_event_up_to_rounding_is_after_it` in tests/forward/test_jumps.py."""


@dataclass(frozen=True)
class ScheduledJump:
    """An event or a switch at a known time.

    Attributes
    ----------
    time : float
    time_by_parameters : ndarray, (J,)
        Derivative of the time by the parameters, `∂τ/∂p`.
    event : int
        Position of the event, or -1 for a switch.
    """

    time: float
    time_by_parameters: FloatArray
    event: int


class Jumps:
    """Events and switches of a model, compiled.

    Parameters
    ----------
    model : Model

    Attributes
    ----------
    state_dependent_events : list of int
        Events whose time depends on the states.
    state_dependent_switches : list of int
        Switches whose time depends on the states.
    """

    def __init__(self, model: Model) -> None:
        self.model, self.events = model, model.events
        self.parameters = tuple(model.parameters)
        triggers = [event.trigger for event in self.events]
        self._times = [model.find_firing_time(trigger) for trigger in triggers]
        self._switches = list(model.switches.values())
        self._switched = [model.find_firing_time(trigger) for trigger in self._switches]
        varying = {se.Symbol(name) for name in ("t", *model.states, *model.inputs)}
        self.state_dependent_events = [k for k, time in enumerate(self._times) if time is None]
        # A switch that depends on parameters alone never changes along a solution.
        self.state_dependent_switches = [
            k for k, time in enumerate(self._switched) if time is None and self._switches[k].free_symbols & varying
        ]
        self._maps: dict[Any, ExpressionMap] = {}
        self._watched = [triggers[k] for k in self.state_dependent_events] + [
            self._switches[k] for k in self.state_dependent_switches
        ]
        # A trigger is evaluated without inputs, so that one that depends on an input would silently never fire.
        for name in model.inputs:
            if any(se.Symbol(name) in trigger.free_symbols for trigger in self._watched):
                raise ModelError(
                    f"A condition of the model depends on the input {name!r}; conditions may depend on time, states "
                    "and parameters only. Compute the condition beforehand, and give it as an input that is 0 or 1."
                )

    @property
    def has_jumps(self) -> bool:
        """True if the model has events or switches."""
        return bool(self.events or self._switches)

    @property
    def has_time_dependent_trigger(self) -> bool:
        """True if some watched trigger depends on time explicitly."""
        return any(TIME_SYMBOL in g.free_symbols for g in self._watched)

    @property
    def has_watched_trigger(self) -> bool:
        """True if some trigger must be watched, because its time depends on the solution."""
        return bool(self._watched)

    def _compile_map(self, key: Any, expressions: Sequence[Any], *, states: bool = True) -> ExpressionMap:
        """Compile expressions once for each key; without `states` they depend on parameters alone."""
        if key not in self._maps:
            named = self.model.states if states else ()
            self._maps[key] = ExpressionMap(
                expressions, named, self.model.driving_names if states else (), self.parameters
            )
        return self._maps[key]

    def list_scheduled_jumps(self, p: FloatArray) -> list[ScheduledJump]:
        """Return the events and switches at times that depend on parameters alone, sorted by time.

        At equal times switches come before events, as sorting is stable.
        """
        sources = [(time, -1) for time in self._switched if time is not None]
        sources += [(time, k) for k, time in enumerate(self._times) if time is not None]
        if not sources:
            return []
        map_ = self._compile_map("times", [time for time, _ in sources], states=False)
        # These times depend on neither time nor states, so that any time and no states will do.
        value, _, by_p = map_.linearise(np.zeros(1), np.zeros((1, 0)), p)
        jumps = [ScheduledJump(float(v), d, k) for v, d, (_, k) in zip(value[0], by_p[0], sources, strict=True)]
        return sorted(jumps, key=lambda jump: jump.time)

    def evaluate_switches(self, t: float, u: FloatArray, p: FloatArray, before: FloatArray | None = None) -> FloatArray:
        """Evaluate the switches at a time and state.

        Parameters
        ----------
        t : float
        u : ndarray, (D,)
        p : ndarray, (J,)
        before : ndarray, (switches,), optional
            Values to keep for switches that depend on states: they change only when their trigger passes through zero.

        Returns
        -------
        ndarray, (switches,)
            1 if a switch is on, else 0.
        """
        if not self._switches:
            return np.empty(0)
        idle = np.zeros((1, len(self.model.driving_names)))
        g = self._compile_map("switches", self._switches)(np.array([t]), u[None], p, idle)[0]
        # At its own time a switch at a known time is on, also if rounding leaves its trigger slightly below zero.
        slack = np.array([0.0 if time is None else TIME_ROUNDING * max(1.0, abs(t)) for time in self._switched])
        switches: FloatArray = (g >= -slack).astype(float)
        if before is not None:
            switches[self.state_dependent_switches] = before[self.state_dependent_switches]
        return switches

    def evaluate_triggers(self, t: float, u: FloatArray, p: FloatArray) -> FloatArray:
        """Evaluate the watched triggers at a time and state, `(watched,)`: first those of events, then of switches."""
        idle = np.zeros((1, len(self.model.driving_names)))
        return np.asarray(self._compile_map("watched", self._watched)(np.array([t]), u[None], p, idle)[0])

    def differentiate_time(
        self, which: int, t: float, u: FloatArray, p: FloatArray, S: FloatArray, f: FloatArray
    ) -> FloatArray:
        """Compute the derivative `dτ` of the time at which a watched trigger passes through zero.

        Parameters
        ----------
        which : int
            Position of the trigger among the watched ones.
        t : float
        u : ndarray, (D,)
        p : ndarray, (J,)
        S : ndarray, (D, J + D)
            Sensitivities of the states just before.
        f : ndarray, (D,)
            Right-hand side just before.

        Returns
        -------
        ndarray, (J + D,)
            Zeros if the trigger does not change, where the formula would divide by zero.
        """
        g = self._watched[which]
        idle = np.zeros((1, len(self.model.driving_names)))
        map_ = self._compile_map(("when", which), [g, g.diff(TIME_SYMBOL)])
        value, by_u, by_p = map_.linearise(np.array([t]), u[None], p, idle)
        rate = value[0, 1] + by_u[0, 0] @ f
        row = by_u[0, 0] @ S
        row[: len(p)] += by_p[0, 0]
        return -row / rate if rate != 0 else np.zeros_like(row)

    def compute_trigger_rate(self, which: int, t: float, u: FloatArray, p: FloatArray, f: FloatArray) -> float:
        """Compute the rate of change `g_t + g_u f` of a watched trigger; see `differentiate_time` for the arguments."""
        g = self._watched[which]
        idle = np.zeros((1, len(self.model.driving_names)))
        value, by_u, _ = self._compile_map(("when", which), [g, g.diff(TIME_SYMBOL)]).linearise(
            np.array([t]), u[None], p, idle
        )
        return float(value[0, 1] + by_u[0, 0] @ f)

    def compute_states_after(
        self, which: int, t: float, u: FloatArray, p: FloatArray, driven: FloatArray
    ) -> tuple[FloatArray, ...]:
        """Compute the states after an event, and their derivatives.

        Parameters
        ----------
        which : int
            Position of the event.
        t : float
        u : ndarray, (D,)
            States just before.
        p : ndarray, (J,)
        driven : ndarray, (I,)
            Inputs, then switches, just before.

        Returns
        -------
        R : ndarray, (D,)
        R_u : ndarray, (D, D)
        R_p : ndarray, (D, J)
        R_t : ndarray, (D,)

        Raises
        ------
        ModelError
            If the event sets something that is not a state.
        """
        event = self.events[which]
        for state in event.after:
            if state not in self.model.states:
                raise ModelError(
                    f"An event changes {state!r}, which is not a state of the model, whose states are: "
                    f"{', '.join(self.model.states)}."
                )
        # A state that the event does not set keeps its value.
        expressions = [event.after.get(state, se.Symbol(state)) for state in self.model.states]
        D = len(expressions)
        map_ = self._compile_map(
            ("after", which), [*expressions, *(se.sympify(e).diff(TIME_SYMBOL) for e in expressions)]
        )
        value, by_u, by_p = map_.linearise(np.array([t]), u[None], p, driven[None] if len(driven) else None)
        return value[0, :D], by_u[0, :D], by_p[0, :D], value[0, D:]

    def find_set_states(self, which: int) -> BoolArray:
        """Return a mask of the states that an event sets, `(D,)`."""
        return np.array([state in self.events[which].after for state in self.model.states])

    def find_holding_events(self, t: float, u: FloatArray, p: FloatArray) -> BoolArray:
        """Return a mask of the events whose condition holds at a time and state, `(events,)`.

        An event at a known time holds after that time.
        """
        held = np.zeros(len(self.events), dtype=bool)
        for jump in self.list_scheduled_jumps(p):
            if jump.event >= 0:
                held[jump.event] = jump.time < t
        if self.state_dependent_events:
            held[self.state_dependent_events] = self.evaluate_triggers(t, u, p)[: len(self.state_dependent_events)] >= 0
        return held


def get_jumps(model: Model) -> Jumps:
    """Return the compiled events and switches of a model; they are cached in the model."""
    if "jumps" not in model.compiled_functions:
        model.compiled_functions["jumps"] = Jumps(model)
    jumps: Jumps = model.compiled_functions["jumps"]
    return jumps
