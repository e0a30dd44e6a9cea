"""What happens at once along a forward solution, and what becomes of its sensitivities.

At a jump at the time τ(p, u₀) the states go from u to R(u, p), and the right-hand side from f to f⁺. With `S = [∂u/∂p,
∂u/∂u₀]` and `dτ = [∂τ/∂p, ∂τ/∂u₀]`,

    S⁺ = R_u (S + f dτ) + R_p - f⁺ dτ

and where the time is that at which `g(t, u, p)` passes through zero, `dτ = -(g_u S + g_p)/(g_t + g_u f)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..model.events import TIME
from ..model.expression_map import Map
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import ModelError

ROUNDING = 1e-12
"""Relative error of a time at which something happens."""


@dataclass(frozen=True)
class Known:
    """Something that happens at a known time.

    Attributes
    ----------
    time : float
    by_p : ndarray, (J,)
        `∂τ/∂p`.
    event : int
        Which event, or -1 for a switch.
    """

    time: float
    by_p: FloatArray
    event: int


class Jumps:
    """Events and switches of a model.

    Parameters
    ----------
    model : Model
    """

    def __init__(self, model: Model) -> None:
        self.model, self.events = model, model.events
        self.parameters = tuple(model.parameters)
        triggers = [event.trigger for event in self.events]
        self._times = [model.timed(trigger) for trigger in triggers]
        self._switches = list(model.switches.values())
        self._switched = [model.timed(trigger) for trigger in self._switches]
        moving = {se.Symbol(name) for name in ("t", *model.states, *model.inputs)}
        self.by_state = [k for k, time in enumerate(self._times) if time is None]
        # What depends on parameters alone never changes.
        self.modes = [
            k for k, time in enumerate(self._switched) if time is None and self._switches[k].free_symbols & moving
        ]
        self._maps: dict[Any, Map] = {}
        watched = [triggers[k] for k in self.by_state] + [self._switches[k] for k in self.modes]
        self._watched = watched

    @property
    def any(self) -> bool:
        """Whether anything happens at all."""
        return bool(self.events or self._switches)

    @property
    def by_clock(self) -> bool:
        """Whether some trigger that is watched depends on time itself."""
        return any(TIME in g.free_symbols for g in self._watched)

    @property
    def watched(self) -> bool:
        """Whether something happens at a time that the solution itself tells."""
        return bool(self._watched)

    def _map(self, key: Any, expressions: Sequence[Any], *, states: bool = True) -> Map:
        if key not in self._maps:
            named = self.model.states if states else ()
            self._maps[key] = Map(expressions, named, self.model.driven if states else (), self.parameters)
        return self._maps[key]

    def known(self, p: FloatArray) -> list[Known]:
        """What happens at times that parameters alone tell, in their order; events after switches."""
        sources = [(time, -1) for time in self._switched if time is not None]
        sources += [(time, k) for k, time in enumerate(self._times) if time is not None]
        if not sources:
            return []
        map_ = self._map("times", [time for time, _ in sources], states=False)
        value, _, by_p = map_.linearised(np.zeros(1), np.zeros((1, 0)), p)
        found = [Known(float(v), d, k) for v, d, (_, k) in zip(value[0], by_p[0], sources, strict=True)]
        return sorted(found, key=lambda one: one.time)

    def switched(self, t: float, u: FloatArray, p: FloatArray, before: FloatArray | None = None) -> FloatArray:
        """Switches at a time and state, `(switches,)`; those that depend on states stay where `before` has them."""
        if not self._switches:
            return np.empty(0)
        idle = np.zeros((1, len(self.model.driven)))
        g = self._map("switches", self._switches)(np.array([t]), u[None], p, idle)[0]
        slack = np.array([0.0 if time is None else ROUNDING * max(1.0, abs(t)) for time in self._switched])
        found: FloatArray = (g >= -slack).astype(float)
        if before is not None:
            found[self.modes] = before[self.modes]
        return found

    def triggers(self, t: float, u: FloatArray, p: FloatArray) -> FloatArray:
        """What is watched: triggers of events, then of switches that depend on states."""
        idle = np.zeros((1, len(self.model.driven)))
        return np.asarray(self._map("watched", self._watched)(np.array([t]), u[None], p, idle)[0])

    def when(self, which: int, t: float, u: FloatArray, p: FloatArray, S: FloatArray, f: FloatArray) -> FloatArray:
        """`dτ`, `(J + D,)`, of one that is watched; S is `(D, J + D)`."""
        g = self._watched[which]
        idle = np.zeros((1, len(self.model.driven)))
        map_ = self._map(("when", which), [g, g.diff(TIME)])
        value, by_u, by_p = map_.linearised(np.array([t]), u[None], p, idle)
        pace = value[0, 1] + by_u[0, 0] @ f
        row = by_u[0, 0] @ S
        row[: len(p)] += by_p[0, 0]
        return -row / pace if pace != 0 else np.zeros_like(row)

    def pace(self, which: int, t: float, u: FloatArray, p: FloatArray, f: FloatArray) -> float:
        """The rate of change of one that is watched."""
        g = self._watched[which]
        idle = np.zeros((1, len(self.model.driven)))
        value, by_u, _ = self._map(("when", which), [g, g.diff(TIME)]).linearised(np.array([t]), u[None], p, idle)
        return float(value[0, 1] + by_u[0, 0] @ f)

    def after(self, which: int, t: float, u: FloatArray, p: FloatArray, driven: FloatArray) -> tuple[FloatArray, ...]:
        """States after an event `(D,)`, with R_u `(D, D)`, R_p `(D, J)` and R_t `(D,)`."""
        event = self.events[which]
        for state in event.after:
            if state not in self.model.states:
                raise ModelError(f"An event changes {state!r}, which is not a state of the model.")
        expressions = [event.after.get(state, se.Symbol(state)) for state in self.model.states]
        D = len(expressions)
        map_ = self._map(("after", which), [*expressions, *(se.sympify(e).diff(TIME) for e in expressions)])
        value, by_u, by_p = map_.linearised(np.array([t]), u[None], p, driven[None] if len(driven) else None)
        return value[0, :D], by_u[0, :D], by_p[0, :D], value[0, D:]

    def set_by(self, which: int) -> BoolArray:
        """Which states an event sets, `(D,)`."""
        return np.array([state in self.events[which].after for state in self.model.states])

    def holding(self, t: float, u: FloatArray, p: FloatArray) -> BoolArray:
        """Which events hold at a time and state, `(events,)`; those at known times do afterwards."""
        held = np.zeros(len(self.events), dtype=bool)
        for one in self.known(p):
            if one.event >= 0:
                held[one.event] = one.time < t
        if self.by_state:
            held[self.by_state] = self.triggers(t, u, p)[: len(self.by_state)] >= 0
        return held


def jumps_of(model: Model) -> Jumps:
    """The events and switches of a model, with what is compiled of them; kept with the model."""
    if "jumps" not in model.compiled:
        model.compiled["jumps"] = Jumps(model)
    found: Jumps = model.compiled["jumps"]
    return found
