"""Forward solutions piece by piece, as the right-hand side is smooth between two jumps.

Between jumps of inputs, of switches and of states the equations are solved by LSODA (SciPy's `odeint`) on compiled
right-hand sides. If the time of a jump depends on the solution, the same method runs in `solve_ivp`, which looks for
the zeros of triggers. A value at exactly the time of a jump is the value after it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from ..model.expression_map import ZERO_STATE_SUBSTITUTE
from ..support.array_types import BoolArray, FloatArray, IntArray
from .initial_value_problem import InitialValueProblem
from .jumps import TIME_ROUNDING, Jumps, ScheduledJump
from .sensitivity_equations import compile_rhs
from .simulation_status import SimulationStatus

MAX_INPUT_STEPS = 20_000
"""Largest number of steps that inputs which vary between samples can enforce: no step is longer than the time between
two samples of the inputs, or than the duration over this number if that is more. By judgement."""
TRIGGER_MARGIN = 1e-12
"""How far beyond zero a watched trigger has to go, in units of one plus the size of the states: a trigger that has just
fired is at zero up to rounding, and must not fire again. By judgement; tested in tests/forward/test_jumps.py."""
MIN_WATCHED_STEPS = 1000
"""Fewest steps over the duration if a watched trigger depends on time explicitly: it may pass through zero and back
within one step, which a solver cannot predict from the states. By judgement."""
SAMPLE_AT_EVENT = 1e-9
"""Difference between the times of a sample and of a watched jump up to which the sample is taken after the jump;
relative to the larger of the time and the duration. By judgement."""
TRIGGER_AT_ZERO = 1e-9
"""Time to the zero of a trigger up to which it counts as zero, relative to the larger of the time and 1. Its rate of
change then decides whether it holds. By judgement."""
MAX_EVENTS = 10_000
"""Largest number of jumps, in all and in one cascade; a solution with more is given up as too much work. By judgement;
tested in tests/forward/test_jumps.py."""
SENSITIVITY_COST = 4
"""Evaluations that one evaluation with sensitivities counts as; see `max_evaluations` of `simulate`. By judgement."""


class _BudgetSpent(Exception):
    """The budget of evaluations, or of jumps, is spent."""


class _WatchedTrigger:
    """A watched trigger as an event of `solve_ivp`: the solution ends where it passes through zero.

    Parameters
    ----------
    jumps : Jumps
    which : int
        Position among the watched triggers.
    p : ndarray, (J,)
    D : int
    now : float
        Time at which the solution begins.
    direction : float
        1 for a rising trigger, -1 for a falling one.
    """

    terminal = True

    def __init__(self, jumps: Jumps, which: int, p: FloatArray, D: int, now: float, direction: float) -> None:
        self.jumps, self.which, self.p, self.D = jumps, which, p, D
        self.now, self.direction = now, direction

    def __call__(self, t: float, y: FloatArray) -> float:
        """Return the trigger, moved slightly beyond zero; at the first time a value that has not passed it."""
        # A jump that has just occurred left its trigger at zero up to rounding: that is no second zero.
        g = float(self.jumps.evaluate_triggers(t, y[: self.D], self.p)[self.which])
        size = 1.0 + float(np.abs(y[: self.D]).max())
        return g - self.direction * TRIGGER_MARGIN * size if t > self.now else -self.direction


class PiecewiseSolver:
    """One forward solution of an initial value problem.

    A solution at one time has `(columns, D)` values: the state, then the columns of S, transposed.

    Parameters
    ----------
    setting : InitialValueProblem
    start : ndarray, (columns, D)
        The solution at the first time; one column without sensitivities, else `1 + J + D`.
    times : ndarray, (time,)
    """

    def __init__(self, setting: InitialValueProblem, start: FloatArray, times: FloatArray) -> None:
        self.setting, self.times = setting, times
        self.columns, self.D = start.shape
        model, p, self.J = setting.model, setting.p, len(setting.p)
        self.function = compile_rhs(model, self.columns > 1)
        D, own, n = self.D, len(model.inputs), len(model.driving_names)
        self.inputs = np.concatenate([[times[0]], start[0], np.zeros(n), p])
        self.signal, self.switches = slice(1 + D, 1 + D + own), slice(1 + D + own, 1 + D + n)
        self.outputs = np.empty(D if self.columns == 1 else D + D * D + D * self.J)
        self.change = np.empty(self.columns * D)
        # Views are created once, because the right-hand side is called some ten thousand times.
        by_column = self.change.reshape(self.columns, D)
        self.of_state, self.of_columns, self.of_parameters = by_column[0], by_column[1:], by_column[1 : 1 + self.J]
        if self.columns > 1:
            self.F = self.outputs[D : D + D * D].reshape(D, D)
            self.F_transposed, self.fp_transposed = self.F.T, self.outputs[D + D * D :].reshape(D, self.J).T
        self.evaluations, self.reached, self.evaluation_cost = (
            0,
            float(times[0]),
            1 if self.columns == 1 else SENSITIVITY_COST,
        )
        # The derivative of x^n by n is not a number at x = 0. Derivatives are checked only if a trial at zero shows
        # that this can happen, or with inputs or switches. This and the views make sensitivities cost a third less.
        self.function.unsafe_real(np.concatenate([times[:1], np.zeros(D + n), p]), self.outputs)
        self.checks_derivatives = n > 0 or not np.isfinite(self.outputs).all()
        self.result = np.full((len(times), self.columns * D), np.nan)
        self.now, self.y, self.jump_count = float(times[0]), start.ravel().copy(), 0
        self.held = np.zeros(len(setting.jumps.events), dtype=bool)
        # A solver at rest takes long steps and would miss a short pulse of an input: no step is longer than the
        # shortest time between its samples.
        driven = setting.driven
        self.has_varying_inputs = driven is not None and not all(driven.hold)
        self.max_step = 0.0
        if driven is not None and self.has_varying_inputs:
            shortest = float(np.diff(driven.times).min(initial=np.inf))
            self.max_step = max(shortest, (times[-1] - times[0]) / MAX_INPUT_STEPS)

    def evaluate_rhs(self, values: FloatArray, t: float) -> FloatArray:
        """Compute the derivatives of all columns by time, `(columns·D,)`.

        The result is a view that the next call overwrites.
        """
        self.evaluations += self.evaluation_cost
        if self.evaluations > self.setting.budget:
            raise _BudgetSpent
        self.reached = t
        D, inputs, outputs = self.D, self.inputs, self.outputs
        inputs[0] = t
        inputs[1 : 1 + D] = values[:D]
        if self.has_varying_inputs and self.setting.driven is not None:
            inputs[self.signal] = self.setting.driven(np.array([t]))[0]
        self.function.unsafe_real(inputs, outputs)
        f = outputs[:D]
        if self.columns == 1:
            return f
        if (
            self.checks_derivatives
            and not np.isfinite(outputs).all()
            and np.isfinite(f).all()
            and (values[:D] == 0).any()
        ):
            at_zero = f.copy()  # x^n log x is not a number at zero: take derivatives at a tiny x instead
            inputs[1 : 1 + D] = np.where(values[:D] == 0, ZERO_STATE_SUBSTITUTE, values[:D])
            self.function.unsafe_real(inputs, outputs)
            f[:] = at_zero
        # Ṡ = F S + [f_p, 0], transposed.
        self.of_state[:] = f
        np.dot(values[D:].reshape(-1, D), self.F_transposed, out=self.of_columns)
        self.of_parameters += self.fp_transposed
        return self.change

    def _evaluate_jacobian_band(self, values: FloatArray, t: float) -> FloatArray:
        """Return the Jacobian of all columns as a band `(2D - 1, columns·D)`: F for each column.

        The coupling of the columns to the state is left out: Newton's method inside the solver does not need it, and a
        band is factorised quickly.
        """
        self.evaluate_rhs(values, t)
        D = self.D
        band = np.zeros((2 * D - 1, D))
        for j in range(D):
            band[D - 1 - j : 2 * D - 1 - j, j] = self.F[:, j]
        return np.tile(band, self.columns)

    def solve(self) -> tuple[FloatArray, SimulationStatus, int]:
        """Solve the problem.

        Returns
        -------
        values : ndarray, (time, columns, D)
            NaN from the first time that was not reached.
        status : SimulationStatus
        evaluations : int
        """
        status = SimulationStatus.SUCCESS
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                status = self._solve_pieces()
            except _BudgetSpent:
                status = SimulationStatus.TOO_MUCH_WORK
        broken = ~np.isfinite(self.result).all(axis=1)
        if broken.any():
            self.result[np.argmax(broken) :] = np.nan
            status = SimulationStatus.BLOWS_UP if status is SimulationStatus.SUCCESS else status
        return self.result.reshape(-1, self.columns, self.D), status, self.evaluations

    def _solve_pieces(self) -> SimulationStatus:
        """Solve from jump to jump, up to the last time."""
        jumps, p, times = self.setting.jumps, self.setting.p, self.times
        scheduled = self._snap_times(jumps.list_scheduled_jumps(p)) if jumps.has_jumps else []
        if jumps.has_jumps:
            self._apply_first_events(scheduled)
        scheduled = [jump for jump in scheduled if jump.time >= times[0]]
        self.result[0] = self.y
        driven = self.setting.driven
        edges = [] if driven is None else [float(t) for t in driven.jump_times if times[0] < t < times[-1]]
        last = times[-1]
        scheduled = [
            jump for jump in scheduled if jump.time < last or (jump.time == last and not self.setting.open_end)
        ]
        ahead = {*edges, float(last), *(jump.time for jump in scheduled)}
        for edge in sorted(edge for edge in ahead if edge > times[0]):  # the first time is done already
            while self.now < edge:
                if not self._solve_piece(edge):
                    return SimulationStatus.BLOWS_UP
            due = [jump for jump in scheduled if jump.time == edge]
            if due:
                self._apply_due_jumps(due)
                self.result[times == edge] = self.y
        return SimulationStatus.SUCCESS

    def _snap_times(self, scheduled: list[ScheduledJump]) -> list[ScheduledJump]:
        """Move jumps to the time of a sample, or of an earlier jump, if only rounding keeps the two apart."""
        grid, snapped = self.times, []
        for jump in scheduled:
            k = int(np.argmin(np.abs(grid - jump.time)))
            near = abs(grid[k] - jump.time) <= TIME_ROUNDING * max(abs(jump.time), float(np.ptp(self.times)), 1e-300)
            snapped.append(replace(jump, time=float(grid[k])) if near else jump)
            grid = grid if near else np.append(grid, jump.time)
        return snapped

    def _apply_first_events(self, scheduled: list[ScheduledJump]) -> None:
        """Set the switches, and apply the events of the first time.

        An event whose time has passed is applied only if it is `late` and the past is unknown (`held` is None). An
        event that has happened by `held`, or one that waits (`Event.waits`) if the past is unknown, is not applied.
        """
        jumps, p = self.setting.jumps, self.setting.p
        u = self.y[: self.D]
        self.inputs[self.switches] = jumps.evaluate_switches(self.now, u, p)
        held = self.setting.held
        late = [jump.event >= 0 and held is None and jumps.events[jump.event].late for jump in scheduled]
        due = [
            jump
            for jump, passed in zip(scheduled, late, strict=True)
            if jump.event >= 0 and (jump.time == self.now or (jump.time < self.now and passed))
        ]
        done = np.array([event.waits for event in jumps.events], dtype=bool) if held is None else held
        due = [jump for jump in due if not done[jump.event]]
        rows = {jump.event: self._pad_time_derivative(jump.time_by_parameters) for jump in due}
        self._apply_events(list(rows), rows)
        if jumps.state_dependent_events:
            self.held = self._find_holding_events() & done
            self._apply_caused_events(None)

    def _pad_time_derivative(self, by_p: FloatArray) -> FloatArray | None:
        """Return `dτ`, `(J + D,)`, of a known time; None without sensitivities, or if no parameter changes the time."""
        return np.concatenate([by_p, np.zeros(self.D)]) if self.columns > 1 and by_p.any() else None

    def _find_nodes(self, edge: float) -> tuple[IntArray, FloatArray]:
        """Return the positions of the samples up to an edge, and the times of the solver: now, samples, edge."""
        inside = np.flatnonzero((self.times > self.now) & (self.times <= edge))
        last = [edge] if not len(inside) or self.times[inside[-1]] < edge else []
        return inside, np.concatenate([[self.now], self.times[inside], last])

    def _solve_piece(self, edge: float) -> bool:
        """Solve up to an edge, or up to a jump before it; return False if that failed."""
        driven = self.setting.driven
        if driven is not None:
            # Held inputs are constant up to the edge: their value half-way avoids the ambiguity at both ends.
            between = driven(np.array([(self.now + edge) / 2]))[0]
            self.inputs[self.signal] = np.where(driven.hold, between, self.inputs[self.signal])
        if self.setting.jumps.has_watched_trigger:
            return self._solve_watched_piece(edge)
        from scipy.integrate import odeint

        inside, nodes = self._find_nodes(edge)
        banded: dict[str, Any] = {}
        if self.columns > 1:
            banded = {"Dfun": self._evaluate_jacobian_band, "ml": self.D - 1, "mu": self.D - 1}
        values, info = odeint(
            self.evaluate_rhs,
            self.y,
            nodes,
            **banded,
            rtol=self.setting.rtol,
            atol=self.setting.atol.ravel(),
            full_output=True,
            mxstep=self.setting.budget,
            hmax=self.max_step,
            tcrit=nodes[-1:],  # no step goes beyond the edge, where the solution may no longer exist
        )
        if info["message"] != "Integration successful.":
            # Keep only times that the solver has passed; the last of them may be inaccurate and is left out, too.
            good = nodes <= min(self.reached, float(info["tcur"].max()))
            good[np.argmax(~good) - 1 if not good.all() else len(good) - 1 :] = False
            kept = good[1 : 1 + len(inside)]
            self.result[inside[kept]] = values[1 : 1 + len(inside)][kept]
            return False
        self.result[inside], self.y, self.now = values[1 : 1 + len(inside)], values[-1], edge
        return True

    def _solve_watched_piece(self, edge: float) -> bool:
        """Solve up to an edge, or up to the first zero of a watched trigger; return False if that failed."""
        from scipy.integrate import solve_ivp

        jumps, p, n = self.setting.jumps, self.setting.p, len(self.setting.jumps.state_dependent_events)
        inside, nodes = self._find_nodes(edge)
        modes = self.inputs[self.switches][jumps.state_dependent_switches]
        watched = []
        for k in range(n + len(jumps.state_dependent_switches)):
            # A condition that holds is watched for its end, any other one for its beginning.
            on = modes[k - n] != 0 if k >= n else self.held[jumps.state_dependent_events[k]]
            watched.append(_WatchedTrigger(jumps, k, p, self.D, self.now, -1.0 if on else 1.0))
        try:
            solved = solve_ivp(
                lambda t, y: self.evaluate_rhs(y, t).copy(),
                (self.now, edge),
                self.y,
                method="LSODA",
                t_eval=nodes[1:],
                events=watched,
                rtol=self.setting.rtol,
                atol=self.setting.atol.ravel(),
                max_step=min(self.max_step or np.inf, self._max_watched_step),
            )
        except ValueError:  # raised by the search for a zero if a trigger is not a number
            return False
        if solved.status < 0:
            return False
        inner = inside[: min(len(solved.t), len(inside))]
        self.result[inner] = np.reshape(solved.y, (len(self.y), -1)).T[: len(inner)]
        if solved.status == 0:
            self.y, self.now = solved.y[:, -1], edge
            return True
        which = next(k for k, zeros in enumerate(solved.t_events) if len(zeros))
        self.now, self.y = float(solved.t_events[which][0]), np.array(solved.y_events[which][0])
        # Copied, because the result is a view that the next evaluation overwrites.
        f = self.evaluate_rhs(self.y, self.now)[: self.D].copy()
        row = None  # dτ of the jump
        if self.columns > 1:
            S = self.y[self.D :].reshape(-1, self.D).T
            row = jumps.differentiate_time(which, self.now, self.y[: self.D], p, S, f)
        event = jumps.state_dependent_events[which] if which < n else -1
        if event >= 0 and self.held[event]:  # its condition has ended, so that it may happen again
            self.held[event] = False
        elif event >= 0:
            simultaneous = [int(k) for k in np.flatnonzero(self._find_holding_events() & ~self.held)]
            fired = sorted({event, *simultaneous})
            self.held[fired] = True
            self._apply_events(fired, dict.fromkeys(fired, row))
            self._apply_caused_events(row)
        else:
            position = self.switches.start + jumps.state_dependent_switches[which - n]
            self.inputs[position] = 1.0 - self.inputs[position]
            self._update_at_switch(f, row)
        near = np.abs(self.times - self.now) <= SAMPLE_AT_EVENT * max(abs(self.now), float(np.ptp(self.times)))
        self.result[near] = self.y
        return True

    @property
    def _max_watched_step(self) -> float:
        """Longest step while triggers are watched; see `MIN_WATCHED_STEPS`."""
        span = float(self.times[-1] - self.times[0])
        return span / MIN_WATCHED_STEPS if self.setting.jumps.has_time_dependent_trigger else np.inf

    def _apply_due_jumps(self, due: list[ScheduledJump]) -> None:
        """Apply the jumps at a known time: switches first, then events in their order, then those that they cause."""
        jumps, p = self.setting.jumps, self.setting.p
        f = self.evaluate_rhs(self.y, self.now)[: self.D].copy()
        switched = jumps.evaluate_switches(self.now, self.y[: self.D], p, self.inputs[self.switches])
        if (switched != self.inputs[self.switches]).any():
            row = next(
                (
                    self._pad_time_derivative(jump.time_by_parameters)
                    for jump in due
                    if jump.event < 0 and jump.time_by_parameters.any()
                ),
                None,
            )
            self.inputs[self.switches] = switched
            self._update_at_switch(f, row)
        rows = {jump.event: self._pad_time_derivative(jump.time_by_parameters) for jump in due if jump.event >= 0}
        self._apply_events(list(rows), rows)
        self._apply_caused_events(next((row for row in rows.values() if row is not None), None))

    def _apply_events(self, events: list[int], rows: dict[int, FloatArray | None]) -> None:
        """Apply the events of one time, in their order.

        Parameters
        ----------
        events : list of int
        rows : dict of int to ndarray, (J + D,), or None
            `dτ` of each event.
        """
        # An event that is `together` takes the values before all of them, as SBML does; see `Event`.
        before = self.y[: self.D].copy() if len(events) > 1 else None
        for event in events:
            self._apply_event(event, rows.get(event), before if self.setting.jumps.events[event].together else None)

    def _apply_caused_events(self, row: FloatArray | None) -> None:
        """Apply the events whose condition a jump has made true, repeatedly; `row` is `dτ` of that jump."""
        jumps = self.setting.jumps
        for _ in range(MAX_EVENTS if jumps.state_dependent_events else 0):
            holding = self._find_holding_events()
            self.held &= holding
            fired = [int(k) for k in np.flatnonzero(holding & ~self.held)]
            if not fired:
                return
            self.held[fired] = True
            self._apply_events(fired, dict.fromkeys(fired, row))

    def _find_holding_events(self) -> BoolArray:
        """Return a mask of the events by states whose condition holds now, `(events,)`.

        A trigger at zero holds if it is rising.
        """
        jumps, p, u = self.setting.jumps, self.setting.p, self.y[: self.D]
        held = np.zeros(len(jumps.events), dtype=bool)
        g = jumps.evaluate_triggers(self.now, u, p)
        f = self.evaluate_rhs(self.y, self.now)[: self.D].copy()
        for k, event in enumerate(jumps.state_dependent_events):
            rate = jumps.compute_trigger_rate(k, self.now, u, p, f)
            near = abs(g[k]) <= TRIGGER_AT_ZERO * max(abs(rate) * max(abs(self.now), 1.0), 1e-300)
            held[event] = rate >= 0 if near else g[k] >= 0
        return held

    def _update_at_switch(self, f: FloatArray, row: FloatArray | None) -> None:
        """Update the sensitivities at a jump of the right-hand side: `S⁺ = S + (f - f⁺) dτ`.

        Parameters
        ----------
        f : ndarray, (D,)
            Right-hand side just before; the one after it is evaluated here.
        row : ndarray, (J + D,), or None
            `dτ`; None if nothing depends on the time of the jump.
        """
        self._count_jump()
        if row is not None:
            f_after = self.evaluate_rhs(self.y, self.now)[: self.D].copy()
            S = self.y[self.D :].reshape(-1, self.D)
            S += row[:, None] * (f - f_after)[None]

    def _apply_event(self, which: int, row: FloatArray | None, before: FloatArray | None = None) -> None:
        """Apply an event: `u⁺ = R(u, p)` and `S⁺ = R_u (S + f dτ) + R_p + R_t dτ - f⁺ dτ`.

        Parameters
        ----------
        which : int
            Position of the event.
        row : ndarray, (J + D,), or None
            `dτ`; None if nothing depends on the time of the event.
        before : ndarray, (D,), optional
            States from which new values are computed, if earlier events of the same time must not count.
        """
        self._count_jump()
        jumps, D, J = self.setting.jumps, self.D, self.J
        signals = self.inputs[self.signal.start : self.switches.stop].copy()
        u_before = self.y[:D] if before is None else before
        u, by_u, by_p, by_t = jumps.compute_states_after(which, self.now, u_before, self.setting.p, signals)
        if before is not None:
            # States that this event does not set keep what earlier events of the same time have made of them.
            unchanged = ~jumps.find_set_states(which)
            u[unchanged] = self.y[:D][unchanged]
        S = self.y[D:].reshape(-1, D).T  # no rows without sensitivities
        if self.columns > 1:
            if row is not None:
                S = S + self.evaluate_rhs(self.y, self.now)[:D, None] * row[None]
            S = by_u @ S
            S[:, :J] += by_p
            if row is not None:
                S = S + by_t[:, None] * row[None]
        self.y[:D] = u
        self.inputs[self.switches] = jumps.evaluate_switches(self.now, u, self.setting.p)
        if self.columns > 1:
            if row is not None:
                S = S - self.evaluate_rhs(self.y, self.now)[:D, None] * row[None]
            self.y[D:] = S.T.ravel()

    def _count_jump(self) -> None:
        """Count a jump; give up after `MAX_EVENTS`."""
        self.jump_count += 1
        if self.jump_count > MAX_EVENTS:
            raise _BudgetSpent
