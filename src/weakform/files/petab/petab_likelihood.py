"""The likelihood of a PEtab problem by forward solutions, with its gradient and information.

With θ the quantities of the parameter table, the parameters of the model and of formulas are `q(θ)`, and change from
period to period; `S = ∂u/∂θ` is carried along by the chain rule,

    S(t) = [∂u/∂q] ∂q/∂θ + [∂u/∂u₀] S(t₀).

A measurement m with prediction y and noise σ, on a scale s, has the residual `r = (s(m) - s(y))/σ`, and for a normal
distribution the information `s'(y)² y_θ y_θᵀ/σ² + 2 σ_θ σ_θᵀ/σ²`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import symengine as se

from ...forward.jumps import jumps_of
from ...forward.solver import simulate
from ...forward.steady_states import steady_state
from ...model.expression_map import Map
from ...model.function_table import Expr
from ...support.array_types import BoolArray, FloatArray
from ...support.errors import FitError
from .semantics import Meaning, Period

LN10 = math.log(10.0)
MOST = 500_000
"""Evaluations of the right-hand side in one period."""
FINE = 1e-10
"""Relative tolerance of forward solutions, of which a likelihood is to be known to many digits."""


@dataclass(frozen=True)
class Predicted:
    """Predictions of all measurements.

    Attributes
    ----------
    y, sigma : ndarray, (n,)
    by_y, by_sigma : ndarray, (n, P), or None
        Derivatives by the quantities of the parameter table.
    """

    y: FloatArray
    sigma: FloatArray
    by_y: FloatArray | None = None
    by_sigma: FloatArray | None = None


@dataclass
class Now:
    """Where a solution stands: states and parameters, with their derivatives by θ."""

    t: float
    u: FloatArray
    S: FloatArray
    q: FloatArray
    Q: FloatArray
    held: BoolArray | None = None


class Likelihood:
    """A problem that can be evaluated."""

    def __init__(self, found: Meaning, rtol: float = FINE) -> None:
        self.found, self.rtol = found, rtol
        self.model, self.jumps = found.model, jumps_of(found.model)
        self.names = [one.name for one in found.quantities]
        self.own = list(found.own)
        self.dynamic = [self.own.index(name) for name in self.model.parameters]
        self._maps: dict[object, Map] = {}
        formulas: dict[tuple[Expr, Expr], list[int]] = {}
        for k, m in enumerate(found.measurements):
            formulas.setdefault((m.formula, m.sigma), []).append(k)
        self.outputs = [Map(list(pair), self.model.states, self.model.driven, self.own) for pair in formulas]
        self.of_kind = list(formulas.values())
        self.rows: list[list[int]] = [[] for _ in found.experiments]
        for k, m in enumerate(found.measurements):
            self.rows[m.experiment].append(k)
        self.values = np.array([m.value for m in found.measurements])
        self.scales = np.array([m.scale for m in found.measurements])
        self.laplace = np.array([m.distribution == "laplace" for m in found.measurements])

    @cached_property
    def nominal(self) -> FloatArray:
        """Nominal values, `(P,)`."""
        return np.array([one.nominal for one in self.found.quantities])

    def _start(self, first: Period) -> Map:
        """Parameters and initial states in terms of θ, where an experiment begins."""
        key = ("start", id(first))
        if key not in self._maps:
            now = dict(self.found.own)
            now.update({name: e for name, e in first.values.items() if name in now})
            begins = {**self.found.begins, **{n: e for n, e in first.values.items() if n in self.model.states}}
            # A value that the document gives in terms of a state is that at the beginning.
            first_states = {se.Symbol(state): e for state, e in begins.items()}
            now = {name: e if e == se.Symbol(name) else e.subs(first_states) for name, e in now.items()}
            resolved = {name: self._resolved(e, now) for name, e in now.items()}
            here = {se.Symbol(name): e for name, e in resolved.items()}
            states = {
                name: e.subs({se.Symbol("t"): 0 if math.isinf(first.begin) else first.begin}).subs(here)
                for name, e in begins.items()
            }
            # A condition may say a state in terms of others, which are those of the model then.
            inner = {se.Symbol(name): e for name, e in states.items() if name not in first.values}
            states = {name: e.subs(inner) if name in first.values else e for name, e in states.items()}
            expressions = [*resolved.values(), *(states[s] for s in self.model.states)]
            unknown = {str(s) for e in expressions for s in e.free_symbols} - set(self.names)
            if unknown:
                raise FitError(f"{min(unknown)!r} has no value where the experiment begins.")
            self._maps[key] = Map(expressions, (), (), self.names)
        return self._maps[key]

    def _resolved(self, expr: Expr, now: dict[str, Expr]) -> Expr:
        """An expression of parameters in terms of θ; a name of both kinds is the quantity."""
        for _ in range(len(now) + 1):
            inside = {s: now[str(s)] for s in expr.free_symbols if str(s) in now and now[str(s)] != s}
            inside = {s: e for s, e in inside.items() if s != expr or str(s) not in self.names}
            if not inside:
                return expr
            expr = expr.subs(inside)
        raise FitError("the values of parameters are given by one another, in a circle.")

    def _later(self, period: Period) -> Map:
        """Parameters and states after the beginning of a period, in terms of what they were."""
        key = ("later", id(period))
        if key not in self._maps:
            after = [period.values.get(name, se.Symbol(name)) for name in self.own]
            after += [period.values.get(name, se.Symbol(name)) for name in self.model.states]
            self._maps[key] = Map(after, self.model.states, self.model.driven, self.own)
        return self._maps[key]

    def predicted(self, theta: FloatArray, derivatives: bool = False) -> Predicted | None:
        """Predictions; None where the model cannot be solved."""
        with np.errstate(all="ignore"):
            course = self.course(theta, derivatives)
            return None if course is None else self.seen(course, derivatives)

    def course(self, theta: FloatArray, derivatives: bool = False) -> list[Now] | None:
        """Where the solution stands at each measurement, with `∂u/∂θ` where asked; None where it cannot be solved."""
        found: dict[int, Now] = {}
        for (_, periods), rows in zip(self.found.experiments, self.rows, strict=True):
            if rows and not self._solved(theta, periods, rows, derivatives, found):
                return None
        return [found[k] for k in range(len(self.values))]

    def seen(self, course: list[Now], derivatives: bool) -> Predicted | None:
        """What is predicted of all measurements; None where something is not finite."""
        n, P = len(self.values), len(self.names)
        y, sigma = np.full(n, np.nan), np.full(n, np.nan)
        by_y, by_sigma = np.zeros((n, P)), np.zeros((n, P))
        for kind, rows in enumerate(self.of_kind):
            at = [course[k] for k in rows]
            t = np.array([0.0 if math.isinf(now.t) else now.t for now in at])
            u, q = np.stack([now.u for now in at]), np.stack([now.q for now in at])
            signals = np.stack([self._signals(now) for now in at]) if self.model.driven else None
            if derivatives:
                value, by_u, by_q = self.outputs[kind].linearised(t, u, q, signals)
                both = by_u @ np.stack([now.S for now in at]) + by_q @ np.stack([now.Q for now in at])
                by_y[rows], by_sigma[rows] = both[:, 0], both[:, 1]
            else:
                value = self.outputs[kind](t, u, q, signals)
            y[rows], sigma[rows] = value[:, 0], value[:, 1]
        if not (np.isfinite(y).all() and np.isfinite(sigma).all() and (sigma > 0).all()):
            return None
        return Predicted(y, sigma, by_y, by_sigma) if derivatives else Predicted(y, sigma)

    def _signals(self, now: Now) -> FloatArray:
        t = 1e300 if math.isinf(now.t) else now.t
        return self.jumps.switched(t, now.u, now.q[self.dynamic])

    def _solved(
        self,
        theta: FloatArray,
        periods: tuple[Period, ...],
        rows: list[int],
        derivatives: bool,
        found: dict[int, Now],
    ) -> bool:
        """Where one experiment stands at each of its measurements, into `found`."""
        n, times_of = len(self.own), {k: self.found.measurements[k].time for k in rows}
        value, _, by = self._start(periods[0]).linearised(np.zeros(1), np.zeros((1, 0)), theta)
        now = Now(periods[0].begin, value[0, n:], by[0, n:], value[0, :n], by[0, :n])
        for k, period in enumerate(periods):
            if k:
                self._change(now, period, settled=math.isinf(periods[k - 1].begin))
            if math.isinf(period.begin):
                if not self._settle(now, 0.0):
                    return False
                continue
            now.t = period.begin
            end = periods[k + 1].begin if k + 1 < len(periods) else math.inf
            inside = [j for j in rows if period.begin <= times_of[j] < end and math.isfinite(times_of[j])]
            times = sorted({period.begin, *(times_of[j] for j in inside), *([end] if math.isfinite(end) else [])})
            stations = self._period(now, times, derivatives, math.isfinite(end))
            if stations is None:
                return False
            found |= {j: stations[times_of[j]] for j in inside}
            now = stations[times[-1]]
        forever = [j for j in rows if times_of[j] == math.inf]
        if forever:
            now = replace(now)  # what was found for the last finite time stays as it is
            now.held = self.jumps.holding(now.t, now.u, now.q[self.dynamic])
            if not self._settle(now, now.t):
                return False
            found |= dict.fromkeys(forever, replace(now, t=math.inf))
        return all(j in found for j in rows)

    def _period(self, now: Now, times: list[float], derivatives: bool, open_end: bool) -> dict[float, Now] | None:
        """Where the solution stands at some times of one period."""
        solved = simulate(
            self.model,
            now.q[self.dynamic],
            now.u,
            times,
            held=now.held,
            open_end=open_end,
            sensitivities=derivatives,
            rtol=self.rtol,
            max_evaluations=MOST,
        )
        if not solved.success:
            return None
        S = np.broadcast_to(now.S, (len(times), *now.S.shape))
        if solved.by_parameters is not None and solved.by_initial is not None:
            S = solved.by_parameters @ now.Q[self.dynamic] + solved.by_initial @ now.S
        return {t: Now(t, u, own, now.q, now.Q) for t, u, own in zip(times, solved.states, S, strict=True)}

    def _settle(self, now: Now, begin: float) -> bool:
        """Let the model come to rest."""
        found = steady_state(self.model, now.q[self.dynamic], now.u, begin, happened=now.held)
        if found is None:
            return False
        now.S = found.by_parameters @ now.Q[self.dynamic] + found.by_initial @ now.S
        now.u, now.t = found.state, begin + found.time
        now.held = self.jumps.holding(now.t, now.u, now.q[self.dynamic])
        for k, event in enumerate(self.jumps.events):  # the clock starts anew
            if k not in self.jumps.by_state:
                now.held[k] = event.waits
        return True

    def _change(self, now: Now, period: Period, settled: bool) -> None:
        """What a period changes at its beginning."""
        n = len(self.own)
        if not settled:
            now.held = self.jumps.holding(period.begin, now.u, now.q[self.dynamic])
        t = period.begin
        value, by_u, by_q = self._later(period).linearised(np.array([t]), now.u[None], now.q, self._signals(now))
        both = by_u[0] @ now.S + by_q[0] @ now.Q
        now.q, now.u, now.Q, now.S = value[0, :n], value[0, n:], both[:n], both[n:]

    def residuals(self, found: Predicted) -> FloatArray:
        """`(s(m) - s(y))/σ`, `(n,)`."""
        with np.errstate(all="ignore"):
            return np.asarray((self._scaled(self.values) - self._scaled(found.y)) / found.sigma)

    def _scaled(self, x: FloatArray) -> FloatArray:
        return np.where(self.scales == "lin", x, np.log(np.where(self.scales == "lin", 1.0, x)) / self._base)

    @cached_property
    def _base(self) -> FloatArray:
        return np.where(self.scales == "log10", LN10, 1.0)

    def log_densities(self, found: Predicted) -> FloatArray:
        """The logarithm of the density of each measurement, `(n,)`."""
        r, sigma = self.residuals(found), found.sigma
        normal = -0.5 * r**2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)
        other = -np.abs(r) - np.log(2 * sigma)
        there = np.where(self.scales == "lin", 1.0, self.values * self._base)
        lost = np.log(there)
        return np.asarray(np.where(self.laplace, other, normal) - lost)

    def value(self, found: Predicted | None) -> float:
        """Minus the log-likelihood; infinite where there is none."""
        value = math.inf if found is None else -float(self.log_densities(found).sum())
        return value if math.isfinite(value) else math.inf

    def derivatives(self, found: Predicted) -> tuple[FloatArray, FloatArray]:
        """Gradient `(P,)` of minus the log-likelihood, and its expected Hessian `(P, P)`."""
        assert found.by_y is not None
        assert found.by_sigma is not None
        r, sigma = self.residuals(found), found.sigma
        with np.errstate(all="ignore"):
            slope = np.where(self.scales == "lin", 1.0, 1.0 / (found.y * self._base))
        J = -slope[:, None] * found.by_y / sigma[:, None]
        L = found.by_sigma / sigma[:, None]
        pull = np.where(self.laplace, np.sign(r), r)
        about = np.where(self.laplace, np.abs(r), r**2)
        # Of a Laplace distribution the information about y is 1/σ² as well, that about σ half as large.
        weight = np.where(self.laplace, 1.0, 2.0)
        return J.T @ pull + L.T @ (1.0 - about), J.T @ J + (L * weight[:, None]).T @ L
