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

from ...forward.jumps import Jumps
from ...forward.solve import simulate
from ...forward.steady import steady_state
from ...model.functions import Expr
from ...model.maps import Map
from ...support.errors import FitError
from ...support.typing import BoolArray, FloatArray
from .meaning import Meaning, Period

LN10 = math.log(10.0)
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


@dataclass(frozen=True)
class Evaluated:
    """The objective, its gradient and an approximation of its Hessian, as the minimiser takes them."""

    value: float
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None


@dataclass
class _Now:
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
        self.model, self.jumps = found.model, Jumps(found.model)
        self.names = [one.name for one in found.quantities]
        self.own = list(found.own)
        self.dynamic = [self.own.index(name) for name in self.model.parameters]
        self._maps: dict[object, Map] = {}
        formulas: dict[tuple[Expr, Expr], int] = {}
        self.kind = [formulas.setdefault((m.formula, m.sigma), len(formulas)) for m in found.measurements]
        pairs = list(formulas)
        self.outputs = [Map(list(pair), self.model.states, self.model.driven, self.own) for pair in pairs]
        # Measurements of each experiment, in the order of time.
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
        n, P = len(self.values), len(theta)
        y, sigma = np.full(n, np.nan), np.full(n, np.nan)
        by_y, by_sigma = (np.zeros((n, P)), np.zeros((n, P))) if derivatives else (None, None)
        for (_, periods), rows in zip(self.found.experiments, self.rows, strict=True):
            if not rows:
                continue
            for k, now in self._states(theta, periods, rows, derivatives):
                map_ = self.outputs[self.kind[k]]
                signals = self._signals(now)
                t = 0.0 if math.isinf(now.t) else now.t
                at = np.array([t]), now.u[None], now.q, signals
                if not derivatives:
                    y[k], sigma[k] = map_(*at)[0]
                    continue
                value, by_u, by_q = map_.linearised(*at)
                y[k], sigma[k] = value[0]
                assert by_y is not None and by_sigma is not None
                both = by_u[0] @ now.S + by_q[0] @ now.Q
                by_y[k], by_sigma[k] = both
        if not (np.isfinite(y).all() and np.isfinite(sigma).all() and (sigma > 0).all()):
            return None
        return Predicted(y, sigma, by_y, by_sigma)

    def _signals(self, now: _Now) -> FloatArray | None:
        if not self.model.driven:
            return None
        t = 1e300 if math.isinf(now.t) else now.t
        return self.jumps.switched(t, now.u, now.q[self.dynamic])[None]

    def _states(self, theta: FloatArray, periods: tuple[Period, ...], rows: list[int], derivatives: bool):  # type: ignore[no-untyped-def]
        """The state at each measurement of an experiment; ends early where the model cannot be solved."""
        D, n = len(self.model.states), len(self.own)
        value, _, by = self._start(periods[0]).linearised(np.zeros(1), np.zeros((1, 0)), theta)
        now = _Now(periods[0].begin, value[0, n:], by[0, n:], value[0, :n], by[0, :n])
        measured = self.found.measurements
        order = sorted(rows, key=lambda k: measured[k].time)
        for k, period in enumerate(periods):
            if k:
                self._change(now, period, settled=math.isinf(periods[k - 1].begin))
            end = periods[k + 1].begin if k + 1 < len(periods) else math.inf
            if math.isinf(period.begin):
                if not self._settle(now, 0.0):
                    return
                continue
            now.t = period.begin
            inside = [
                j
                for j in order
                if period.begin <= measured[j].time < end or (end == math.inf and measured[j].time == math.inf)
            ]
            finite = sorted({measured[j].time for j in inside if math.isfinite(measured[j].time)})
            times = sorted({period.begin, *finite, *([end] if math.isfinite(end) else [])})
            solved = simulate(
                self.model,
                now.q[self.dynamic],
                now.u,
                times,
                held=now.held,
                sensitivities=derivatives,
                rtol=self.rtol,
                max_evaluations=500_000,
                open_end=math.isfinite(end),
            )
            if not solved.success:
                return
            place = {time: m for m, time in enumerate(times)}
            first = replace(now)

            def at(m: int, t: float) -> _Now:
                S = first.S
                if derivatives:
                    assert solved.by_parameters is not None and solved.by_initial is not None
                    S = solved.by_parameters[m] @ first.Q[self.dynamic] + solved.by_initial[m] @ first.S
                return _Now(t, solved.states[m], S, first.q, first.Q)

            for j in inside:
                if math.isfinite(measured[j].time):
                    yield j, at(place[measured[j].time], measured[j].time)
            now = at(len(times) - 1, times[-1])
            forever = [j for j in inside if measured[j].time == math.inf]
            if forever:
                if not self._settle(now, now.t):
                    return
                for j in forever:
                    yield j, replace(now, t=math.inf)
        assert D

    def _settle(self, now: _Now, begin: float) -> bool:
        """Let the model come to rest."""
        found = steady_state(self.model, now.q[self.dynamic], now.u, begin)
        if found is None:
            return False
        now.S = found.by_parameters @ now.Q[self.dynamic] + found.by_initial @ now.S
        now.u, now.t = found.state, begin + found.time
        now.held = self.jumps.holding(now.t, now.u, now.q[self.dynamic])
        for k, event in enumerate(self.jumps.events):  # the clock starts anew
            if k not in self.jumps.by_state:
                now.held[k] = event.waits
        return True

    def _change(self, now: _Now, period: Period, settled: bool) -> None:
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

    def objective(self, theta: FloatArray, order: int) -> Evaluated:
        """Minus the log-likelihood as a function of θ, its gradient and its expected Hessian."""
        found = self.predicted(theta, order > 0)
        if found is None:
            return Evaluated(math.inf)
        value = -float(self.log_densities(found).sum())
        if not math.isfinite(value):
            return Evaluated(math.inf)
        if order == 0:
            return Evaluated(value)
        assert found.by_y is not None and found.by_sigma is not None
        r, sigma = self.residuals(found), found.sigma
        slope = np.where(self.scales == "lin", 1.0, 1.0 / (found.y * self._base))
        J = -slope[:, None] * found.by_y / sigma[:, None]
        L = found.by_sigma / sigma[:, None]
        pull = np.where(self.laplace, np.sign(r), r)
        about = np.where(self.laplace, np.abs(r), r**2)
        gradient = J.T @ pull + L.T @ (1.0 - about)
        # Of a Laplace distribution the information about y is 1/σ² as well, that about σ half as large.
        weight = np.where(self.laplace, 1.0, 2.0)
        hessian = J.T @ J + (L * weight[:, None]).T @ L
        return Evaluated(value, gradient, hessian)
