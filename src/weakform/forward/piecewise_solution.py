"""A forward solution piece by piece: between two jumps the right-hand side is smooth.

Between jumps of inputs, of switches and of states the equations are solved by LSODA (SciPy's `odeint`) on compiled
right-hand sides. Where the solution itself tells when something happens, the same method runs in `solve_ivp`, which
looks for the zeros of triggers. A value at the very time of a jump is that after it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ..model.expression_map import BESIDE
from ..support.array_types import BoolArray, FloatArray
from .initial_value_problem import Setting
from .jumps import ROUNDING, Known
from .sensitivity_equations import compiled_sensitivities
from .simulation_status import SimulationStatus

MAX_STEPS = 20_000
BESIDE_ZERO, FEWEST = 1e-12, 1000
"""How far beyond zero a trigger has to go, relative to the states; and steps at least, where it depends on time."""
SAME = 1e-9
"""Time, relative to the duration, within which a sample is at an event."""
AT_ZERO = 1e-9
"""Time, relative to that which has passed, within which a trigger is at zero."""
MAX_EVENTS = 10_000
"""Jumps in a row, or in all, after which a solution goes nowhere."""


class _Spent(Exception):
    """The budget of evaluations is spent."""


class Course:
    """One forward solution, `(columns, D)` values: the state, then the columns of S, transposed."""

    def __init__(self, setting: Setting, start: FloatArray, times: FloatArray) -> None:
        self.setting, self.times = setting, times
        self.columns, self.D = start.shape
        model, p, self.J = setting.model, setting.p, len(setting.p)
        self.function = compiled_sensitivities(model, self.columns > 1)
        D, own, n = self.D, len(model.inputs), len(model.driven)
        self.inputs = np.concatenate([[times[0]], start[0], np.zeros(n), p])
        self.signal, self.switches = slice(1 + D, 1 + D + own), slice(1 + D + own, 1 + D + n)
        self.outputs = np.empty(D if self.columns == 1 else D + D * D + D * self.J)
        self.change = np.empty(self.columns * D)
        # Views made once: a right-hand side is called ten thousand times.
        by_column = self.change.reshape(self.columns, D)
        self.of_state, self.of_columns, self.of_parameters = by_column[0], by_column[1:], by_column[1 : 1 + self.J]
        if self.columns > 1:
            self.F = self.outputs[D : D + D * D].reshape(D, D)
            self.F_transposed, self.fp_transposed = self.F.T, self.outputs[D + D * D :].reshape(D, self.J).T
        self.used, self.reached, self.cost = 0, float(times[0]), 1 if self.columns == 1 else 4
        # A derivative may be no number where a state is zero, as that of x^n: then, and with inputs, each is looked at.
        self.function.unsafe_real(np.concatenate([times[:1], np.zeros(D + n), p]), self.outputs)
        self.careful = n > 0 or not np.isfinite(self.outputs).all()
        self.result = np.full((len(times), self.columns * D), np.nan)
        self.now, self.y, self.happened = float(times[0]), start.ravel().copy(), 0
        self.held = np.zeros(len(setting.jumps.events), dtype=bool)
        # A system at rest would step over a short pulse of an input: no step is longer than what tells samples apart.
        driven = setting.driven
        self.moving = driven is not None and not all(driven.hold)
        self.longest = 0.0
        if driven is not None and self.moving:
            least = float(np.diff(driven.times).min(initial=np.inf))
            self.longest = max(least, (times[-1] - times[0]) / MAX_STEPS)

    def rhs(self, values: FloatArray, t: float) -> FloatArray:
        """The change of all columns, `(columns·D,)`."""
        self.used += self.cost
        if self.used > self.setting.budget:
            raise _Spent
        self.reached = t
        D, inputs, outputs = self.D, self.inputs, self.outputs
        inputs[0] = t
        inputs[1 : 1 + D] = values[:D]
        if self.moving and self.setting.driven is not None:
            inputs[self.signal] = self.setting.driven(np.array([t]))[0]
        self.function.unsafe_real(inputs, outputs)
        f = outputs[:D]
        if self.columns == 1:
            return f
        if self.careful and not np.isfinite(outputs).all() and np.isfinite(f).all() and (values[:D] == 0).any():
            there = f.copy()  # x^n log x is not a number at zero: derivatives from next to it
            inputs[1 : 1 + D] = np.where(values[:D] == 0, BESIDE, values[:D])
            self.function.unsafe_real(inputs, outputs)
            f[:] = there
        self.of_state[:] = f
        np.dot(values[D:].reshape(-1, D), self.F_transposed, out=self.of_columns)
        self.of_parameters += self.fp_transposed
        return self.change

    def _band(self, values: FloatArray, t: float) -> FloatArray:
        """The Jacobian of all columns as a band: F for each, without what couples them to the first.

        Newton's method inside the solver needs no more, and a band is factorised in no time.
        """
        self.rhs(values, t)
        D = self.D
        band = np.zeros((2 * D - 1, D))
        for j in range(D):
            band[D - 1 - j : 2 * D - 1 - j, j] = self.F[:, j]
        return np.tile(band, self.columns)

    def run(self) -> tuple[FloatArray, SimulationStatus, int]:
        """Values `(time, columns, D)`, how it ended, and the evaluations used."""
        status = SimulationStatus.SUCCESS
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                status = self._pieces()
            except _Spent:
                status = SimulationStatus.TOO_MUCH_WORK
        broken = ~np.isfinite(self.result).all(axis=1)
        if broken.any():
            self.result[np.argmax(broken) :] = np.nan
            status = SimulationStatus.BLOWS_UP if status is SimulationStatus.SUCCESS else status
        return self.result.reshape(-1, self.columns, self.D), status, self.used

    def _pieces(self) -> SimulationStatus:
        jumps, p, times = self.setting.jumps, self.setting.p, self.times
        known = self._snapped(jumps.known(p)) if jumps.any else []
        if jumps.any:
            self._begin(known)
        known = [one for one in known if one.time >= times[0]]
        self.result[0] = self.y
        driven = self.setting.driven
        edges = [] if driven is None else [float(t) for t in driven.jumps if times[0] < t < times[-1]]
        last = times[-1]
        known = [one for one in known if one.time < last or (one.time == last and not self.setting.open)]
        ahead = {*edges, float(last), *(one.time for one in known)}
        for edge in sorted(edge for edge in ahead if edge > times[0]):  # what happens at the first has happened
            while self.now < edge:
                if not self._piece(edge):
                    return SimulationStatus.BLOWS_UP
            here = [one for one in known if one.time == edge]
            if here:
                self._happen(here)
                self.result[times == edge] = self.y
        return SimulationStatus.SUCCESS

    def _snapped(self, known: list[Known]) -> list[Known]:
        """At the very time of a sample, or of what happens before, where rounding alone keeps them apart."""
        grid, found = self.times, []
        for one in known:
            k = int(np.argmin(np.abs(grid - one.time)))
            near = abs(grid[k] - one.time) <= ROUNDING * max(abs(one.time), float(np.ptp(self.times)), 1e-300)
            found.append(replace(one, time=float(grid[k])) if near else one)
            grid = grid if near else np.append(grid, one.time)
        return found

    def _begin(self, known: list[Known]) -> None:
        """Switches, and what happens at the first moment."""
        jumps, p = self.setting.jumps, self.setting.p
        u = self.y[: self.D]
        self.inputs[self.switches] = jumps.switched(self.now, u, p)
        held = self.setting.held
        late = [one.event >= 0 and held is None and jumps.events[one.event].late for one in known]
        at_once = [
            one
            for one, passed in zip(known, late, strict=True)
            if one.event >= 0 and (one.time == self.now or (one.time < self.now and passed))
        ]
        done = np.array([event.waits for event in jumps.events], dtype=bool) if held is None else held
        at_once = [one for one in at_once if not done[one.event]]
        rows = {one.event: self._row(one.by_p) for one in at_once}
        self._fire(list(rows), rows)
        if jumps.by_state:
            self.held = self._holding() & done
            self._cascade(None)

    def _row(self, by_p: FloatArray) -> FloatArray | None:
        """`dτ` `(J + D,)` of a time that depends on parameters; None where there is nothing to tell."""
        return np.concatenate([by_p, np.zeros(self.D)]) if self.columns > 1 and by_p.any() else None

    def _nodes(self, edge: float) -> tuple[Any, FloatArray]:
        inside = np.flatnonzero((self.times > self.now) & (self.times <= edge))
        last = [edge] if not len(inside) or self.times[inside[-1]] < edge else []
        return inside, np.concatenate([[self.now], self.times[inside], last])

    def _piece(self, edge: float) -> bool:
        """Solve up to an edge, or up to what happens before it; False where it cannot be solved."""
        driven = self.setting.driven
        if driven is not None:
            between = driven(np.array([(self.now + edge) / 2]))[0]
            self.inputs[self.signal] = np.where(driven.hold, between, self.inputs[self.signal])
        if self.setting.jumps.watched:
            return self._watched_piece(edge)
        from scipy.integrate import odeint

        inside, nodes = self._nodes(edge)
        banded: dict[str, Any] = {}
        if self.columns > 1:
            banded = {"Dfun": self._band, "ml": self.D - 1, "mu": self.D - 1}
        values, info = odeint(
            self.rhs,
            self.y,
            nodes,
            **banded,
            rtol=self.setting.rtol,
            atol=self.setting.atol.ravel(),
            full_output=True,
            mxstep=self.setting.budget,
            hmax=self.longest,
            tcrit=nodes[-1:],  # no step goes beyond, where there may be no solution any more
        )
        if info["message"] != "Integration successful.":
            good = nodes <= min(self.reached, float(info["tcur"].max()))
            good[np.argmax(~good) - 1 if not good.all() else len(good) - 1 :] = False
            kept = good[1 : 1 + len(inside)]
            self.result[inside[kept]] = values[1 : 1 + len(inside)][kept]
            return False
        self.result[inside], self.y, self.now = values[1 : 1 + len(inside)], values[-1], edge
        return True

    def _watched_piece(self, edge: float) -> bool:
        """The same, with an eye on what the solution itself makes happen."""
        from scipy.integrate import solve_ivp

        jumps, p, n = self.setting.jumps, self.setting.p, len(self.setting.jumps.by_state)
        inside, nodes = self._nodes(edge)
        modes = self.inputs[self.switches][jumps.modes]
        looks = []
        for k in range(n + len(jumps.modes)):
            on = modes[k - n] != 0 if k >= n else self.held[jumps.by_state[k]]
            sign = -1.0 if on else 1.0

            def look(t: float, y: FloatArray, k: int = k, sign: float = sign, now: float = self.now) -> float:
                # What has just happened left the trigger at zero, give or take rounding: it has not passed it again.
                g = float(jumps.triggers(t, y[: self.D], p)[k])
                return g - sign * BESIDE_ZERO * (1.0 + float(np.abs(y[: self.D]).max())) if t > now else -sign

            look.terminal = True  # type: ignore[attr-defined]
            look.direction = sign  # type: ignore[attr-defined]
            looks.append(look)
        try:
            solved = solve_ivp(
                lambda t, y: self.rhs(y, t).copy(),
                (self.now, edge),
                self.y,
                method="LSODA",
                t_eval=nodes[1:],
                events=looks,
                rtol=self.setting.rtol,
                atol=self.setting.atol.ravel(),
                max_step=min(self.longest or np.inf, self._careful),
            )
        except ValueError:  # a trigger that is no number has no zero
            return False
        if solved.status < 0:
            return False
        inner = inside[: min(len(solved.t), len(inside))]
        self.result[inner] = np.reshape(solved.y, (len(self.y), -1)).T[: len(inner)]
        if solved.status == 0:
            self.y, self.now = solved.y[:, -1], edge
            return True
        which = next(k for k, found in enumerate(solved.t_events) if len(found))
        self.now, self.y = float(solved.t_events[which][0]), np.array(solved.y_events[which][0])
        f = self.rhs(self.y, self.now)[: self.D].copy()
        row = None
        if self.columns > 1:
            S = self.y[self.D :].reshape(-1, self.D).T
            row = jumps.when(which, self.now, self.y[: self.D], p, S, f)
        event = jumps.by_state[which] if which < n else -1
        if event >= 0 and self.held[event]:  # it has ended, and may happen again
            self.held[event] = False
        elif event >= 0:
            also = [int(k) for k in np.flatnonzero(self._holding() & ~self.held)]
            fired = sorted({event, *also})
            self.held[fired] = True
            self._fire(fired, dict.fromkeys(fired, row))
            self._cascade(row)
        else:
            place = self.switches.start + jumps.modes[which - n]
            self.inputs[place] = 1.0 - self.inputs[place]
            self._bend(f, row)
        near = np.abs(self.times - self.now) <= SAME * max(abs(self.now), float(np.ptp(self.times)))
        self.result[near] = self.y
        return True

    @property
    def _careful(self) -> float:
        """The longest step where a trigger depends on time, which a solver does not see coming."""
        span = float(self.times[-1] - self.times[0])
        return span / FEWEST if self.setting.jumps.by_clock else np.inf

    def _happen(self, here: list[Known]) -> None:
        """What happens at a known time: switches first, then events in their order, then what follows from them."""
        jumps, p = self.setting.jumps, self.setting.p
        f = self.rhs(self.y, self.now)[: self.D].copy()
        turned = jumps.switched(self.now, self.y[: self.D], p, self.inputs[self.switches])
        if (turned != self.inputs[self.switches]).any():
            row = next((self._row(one.by_p) for one in here if one.event < 0 and one.by_p.any()), None)
            self.inputs[self.switches] = turned
            self._bend(f, row)
        rows = {one.event: self._row(one.by_p) for one in here if one.event >= 0}
        self._fire(list(rows), rows)
        self._cascade(next((row for row in rows.values() if row is not None), None))

    def _fire(self, events: list[int], rows: dict[int, FloatArray | None]) -> None:
        """Events of one moment: values of the moment before, where they say so, in their order."""
        before = self.y[: self.D].copy() if len(events) > 1 else None
        for event in events:
            self._jump(event, rows.get(event), before if self.setting.jumps.events[event].together else None)

    def _cascade(self, row: FloatArray | None) -> None:
        """Events that a jump has made true, one after the other; others have ended by it."""
        jumps = self.setting.jumps
        for _ in range(MAX_EVENTS if jumps.by_state else 0):
            now = self._holding()
            self.held &= now
            fired = [int(k) for k in np.flatnonzero(now & ~self.held)]
            if not fired:
                return
            self.held[fired] = True
            self._fire(fired, dict.fromkeys(fired, row))

    def _holding(self) -> BoolArray:
        """Which events by states hold now, `(events,)`; at zero those that are about to."""
        jumps, p, u = self.setting.jumps, self.setting.p, self.y[: self.D]
        held = np.zeros(len(jumps.events), dtype=bool)
        g = jumps.triggers(self.now, u, p)
        f = self.rhs(self.y, self.now)[: self.D].copy()
        for k, event in enumerate(jumps.by_state):
            pace = jumps.pace(k, self.now, u, p, f)
            near = abs(g[k]) <= AT_ZERO * max(abs(pace) * max(abs(self.now), 1.0), 1e-300)
            held[event] = pace >= 0 if near else g[k] >= 0
        return held

    def _bend(self, f: FloatArray, row: FloatArray | None) -> None:
        """The right-hand side jumps at a time that parameters tell: `S⁺ = S + (f - f⁺) dτ`."""
        self._count()
        if row is not None:
            beyond = self.rhs(self.y, self.now)[: self.D].copy()
            S = self.y[self.D :].reshape(-1, self.D)
            S += row[:, None] * (f - beyond)[None]

    def _jump(self, which: int, row: FloatArray | None, before: FloatArray | None = None) -> None:
        """States change at once; by the values `before`, where other events of the same moment have changed them."""
        self._count()
        jumps, D, J = self.setting.jumps, self.D, self.J
        signals = self.inputs[self.signal.start : self.switches.stop].copy()
        at = self.y[:D] if before is None else before
        u, by_u, by_p, by_t = jumps.after(which, self.now, at, self.setting.p, signals)
        if before is not None:
            kept = ~jumps.set_by(which)
            u[kept] = self.y[:D][kept]
        if self.columns > 1:
            S = self.y[D:].reshape(-1, D).T
            if row is not None:
                S = S + self.rhs(self.y, self.now)[:D, None] * row[None]
            S = by_u @ S
            S[:, :J] += by_p
            if row is not None:
                S = S + by_t[:, None] * row[None]
        self.y[:D] = u
        self.inputs[self.switches] = jumps.switched(self.now, u, self.setting.p)
        if self.columns > 1:
            if row is not None:
                S = S - self.rhs(self.y, self.now)[:D, None] * row[None]
            self.y[D:] = S.T.ravel()

    def _count(self) -> None:
        self.happened += 1
        if self.happened > MAX_EVENTS:
            raise _Spent
