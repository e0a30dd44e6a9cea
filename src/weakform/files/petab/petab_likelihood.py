"""The likelihood of a PEtab problem by forward solutions, with its gradient and information.

With θ the quantities of the parameter table, the parameters of the model and of formulas are `q(θ)`, and change from
period to period. The sensitivities `S = ∂u/∂θ` follow by the chain rule,

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

from ...forward.jumps import get_jumps
from ...forward.solver import simulate
from ...forward.steady_states import find_steady_state
from ...model.expression_map import ExpressionMap
from ...model.function_table import Expr
from ...support.array_types import BoolArray, FloatArray
from ...support.errors import FitError
from .semantics import Period, ProblemContents

LOG_OF_TEN = math.log(10.0)
"""Natural logarithm of ten, the base of the scale log10."""
MAX_PERIOD_EVALUATIONS = 500_000
"""Evaluations of the right-hand side in one period, after which the model counts as not solvable. By judgement."""
FINE_TOLERANCE = 1e-10
"""Relative tolerance of forward solutions by default: a likelihood must be known to many digits, since it is compared
with published values and differentiated. By judgement."""
INFINITE_TIME = 1e300
"""Finite time that stands for infinity where switches are evaluated, so that products such as `0*t` are defined."""


@dataclass(frozen=True)
class PredictedMeasurements:
    """Predictions of all measurements, with their noise.

    Attributes
    ----------
    y, sigma : ndarray, (n,)
        Predicted values, and standard deviations (or scales of Laplace noise).
    y_by_theta, sigma_by_theta : ndarray, (n, P), or None
        Derivatives of y and sigma by the quantities of the parameter table.
    """

    y: FloatArray
    sigma: FloatArray
    y_by_theta: FloatArray | None = None
    sigma_by_theta: FloatArray | None = None


@dataclass
class SolutionState:
    """The state of a solution at one time, with derivatives by θ.

    Attributes
    ----------
    t : float
    u : ndarray, (D,)
        States.
    S : ndarray, (D, P)
        Derivatives of the states.
    q : ndarray, (Q,)
        Parameters of the model and of formulas.
    Q : ndarray, (Q, P)
        Derivatives of the parameters.
    held : ndarray of bool, (events,), or None
        Which triggers hold.
    """

    t: float
    u: FloatArray
    S: FloatArray
    q: FloatArray
    Q: FloatArray
    held: BoolArray | None = None


class PetabLikelihood:
    """The likelihood of a problem.

    Parameters
    ----------
    contents : ProblemContents
    rtol : float
        Relative tolerance of forward solutions.

    Attributes
    ----------
    quantity_names : list of str
        Quantities of the parameter table.
    parameter_names : list of str
        Parameters of the model and of formulas.
    dynamic : list of int
        Positions in `parameter_names` of the parameters of the model.
    outputs : list of ExpressionMap
        One for each distinct pair of formula and noise, which maps states and parameters to both.
    rows_by_output, rows_by_experiment : list of list of int
        Positions of the measurements of each output, and of each experiment.
    values, scales : ndarray, (n,)
        Measured values, and their scales.
    laplace : ndarray of bool, (n,)
        Which measurements have Laplace noise; the others are normal.
    """

    def __init__(self, contents: ProblemContents, rtol: float = FINE_TOLERANCE) -> None:
        self.contents, self.rtol = contents, rtol
        self.model, self.jumps = contents.model, get_jumps(contents.model)
        self.quantity_names = [quantity.name for quantity in contents.quantities]
        self.parameter_names = list(contents.parameter_values)
        self.dynamic = [self.parameter_names.index(name) for name in self.model.parameters]
        self._maps: dict[object, ExpressionMap] = {}
        formulas: dict[tuple[Expr, Expr], list[int]] = {}
        for k, m in enumerate(contents.measurements):
            formulas.setdefault((m.formula, m.sigma), []).append(k)
        self.outputs = [
            ExpressionMap(list(pair), self.model.states, self.model.driving_names, self.parameter_names)
            for pair in formulas
        ]
        self.rows_by_output = list(formulas.values())
        self.rows_by_experiment: list[list[int]] = [[] for _ in contents.experiments]
        for k, m in enumerate(contents.measurements):
            self.rows_by_experiment[m.experiment].append(k)
        self.values = np.array([m.value for m in contents.measurements])
        self.scales = np.array([m.scale for m in contents.measurements])
        self.laplace = np.array([m.distribution == "laplace" for m in contents.measurements])

    @cached_property
    def nominal(self) -> FloatArray:
        """Nominal values of all quantities, `(P,)`."""
        return np.array([quantity.nominal for quantity in self.contents.quantities])

    def _map_start(self, first: Period) -> ExpressionMap:
        """Return the map from θ to parameters and initial states at the beginning of an experiment.

        Parameters
        ----------
        first : Period
            The first period, which may give some of them other values than the model.

        Returns
        -------
        ExpressionMap
            A function of θ, which returns first the parameters `parameter_names`, then the states.

        Raises
        ------
        FitError
            If a value depends on something that has no value.
        """
        key = ("start", id(first))
        if key not in self._maps:
            parameters = dict(self.contents.parameter_values)
            parameters.update({name: e for name, e in first.values.items() if name in parameters})
            initial_values = {
                **self.contents.initial_values,
                **{n: e for n, e in first.values.items() if n in self.model.states},
            }
            # A state in the formula of a parameter means its initial value.
            first_states = {se.Symbol(state): e for state, e in initial_values.items()}
            parameters = {name: e if e == se.Symbol(name) else e.subs(first_states) for name, e in parameters.items()}
            resolved = {name: self._resolve_expression(e, parameters) for name, e in parameters.items()}
            substitutions = {se.Symbol(name): e for name, e in resolved.items()}
            states = {
                name: e.subs({se.Symbol("t"): 0 if math.isinf(first.begin) else first.begin}).subs(substitutions)
                for name, e in initial_values.items()
            }
            # A condition may set a state to a formula of other states, which have the values of the model then.
            model_states = {se.Symbol(name): e for name, e in states.items() if name not in first.values}
            states = {name: e.subs(model_states) if name in first.values else e for name, e in states.items()}
            expressions = [*resolved.values(), *(states[s] for s in self.model.states)]
            unknown = {str(s) for e in expressions for s in e.free_symbols} - set(self.quantity_names)
            if unknown:
                raise FitError(f"{min(unknown)!r} has no value where the experiment begins.")
            self._maps[key] = ExpressionMap(expressions, (), (), self.quantity_names)
        return self._maps[key]

    def _resolve_expression(self, expr: Expr, values: dict[str, Expr]) -> Expr:
        """Express a parameter in terms of θ.

        Parameters
        ----------
        expr : expression
        values : dict of str to expression
            Value of each parameter, in terms of θ or of other parameters. A name that is both a parameter and a
            quantity means the quantity.

        Returns
        -------
        expression

        Raises
        ------
        FitError
            If parameters depend on one another in a circle.
        """
        # Each pass inserts one level of values; more levels than parameters mean a circle.
        for _ in range(len(values) + 1):
            inside = {s: values[str(s)] for s in expr.free_symbols if str(s) in values and values[str(s)] != s}
            inside = {s: e for s, e in inside.items() if s != expr or str(s) not in self.quantity_names}
            if not inside:
                return expr
            expr = expr.subs(inside)
        raise FitError("the values of parameters form a circle: each depends on another.")

    def _map_period_start(self, period: Period) -> ExpressionMap:
        """Return the map from the values before the beginning of a later period to those after it.

        It takes states and parameters, and returns first the parameters `parameter_names`, then the states.
        """
        key = ("later", id(period))
        if key not in self._maps:
            after = [period.values.get(name, se.Symbol(name)) for name in self.parameter_names]
            after += [period.values.get(name, se.Symbol(name)) for name in self.model.states]
            self._maps[key] = ExpressionMap(after, self.model.states, self.model.driving_names, self.parameter_names)
        return self._maps[key]

    def predict(self, theta: FloatArray, derivatives: bool = False) -> PredictedMeasurements | None:
        """Predict all measurements.

        Parameters
        ----------
        theta : ndarray, (P,)
        derivatives : bool

        Returns
        -------
        PredictedMeasurements, or None
            None if the model cannot be solved.
        """
        with np.errstate(all="ignore"):
            course = self.solve(theta, derivatives)
            return None if course is None else self.evaluate(course, derivatives)

    def solve(self, theta: FloatArray, derivatives: bool = False) -> list[SolutionState] | None:
        """Solve all experiments up to their measurements.

        Parameters
        ----------
        theta : ndarray, (P,)
        derivatives : bool
            Whether `∂u/∂θ` is computed.

        Returns
        -------
        list of SolutionState, or None
            One for each measurement; None if the model cannot be solved.
        """
        by_measurement: dict[int, SolutionState] = {}
        for (_, periods), rows in zip(self.contents.experiments, self.rows_by_experiment, strict=True):
            if rows and not self._solve_experiment(theta, periods, rows, derivatives, by_measurement):
                return None
        return [by_measurement[k] for k in range(len(self.values))]

    def evaluate(self, course: list[SolutionState], derivatives: bool) -> PredictedMeasurements | None:
        """Evaluate observables and noise at the solution.

        Parameters
        ----------
        course : list of SolutionState
            One for each measurement.
        derivatives : bool

        Returns
        -------
        PredictedMeasurements, or None
            None if a prediction is not finite, or a noise is not positive.
        """
        n, P = len(self.values), len(self.quantity_names)
        y, sigma = np.full(n, np.nan), np.full(n, np.nan)
        by_y, by_sigma = np.zeros((n, P)), np.zeros((n, P))
        for kind, rows in enumerate(self.rows_by_output):
            solutions = [course[k] for k in rows]
            # At t = ∞, in a steady state, formulas are evaluated with t = 0: an explicit t must not make them infinite.
            t = np.array([0.0 if math.isinf(now.t) else now.t for now in solutions])
            u, q = np.stack([now.u for now in solutions]), np.stack([now.q for now in solutions])
            signals = (
                np.stack([self._evaluate_switches(now) for now in solutions]) if self.model.driving_names else None
            )
            if derivatives:
                value, by_u, by_q = self.outputs[kind].linearise(t, u, q, signals)
                both = by_u @ np.stack([now.S for now in solutions]) + by_q @ np.stack([now.Q for now in solutions])
                by_y[rows], by_sigma[rows] = both[:, 0], both[:, 1]
            else:
                value = self.outputs[kind](t, u, q, signals)
            y[rows], sigma[rows] = value[:, 0], value[:, 1]
        if not (np.isfinite(y).all() and np.isfinite(sigma).all() and (sigma > 0).all()):
            return None
        return PredictedMeasurements(y, sigma, by_y, by_sigma) if derivatives else PredictedMeasurements(y, sigma)

    def _evaluate_switches(self, now: SolutionState) -> FloatArray:
        """Return the values of the switches `(switches,)` at a time, with t = ∞ replaced by a finite time."""
        t = INFINITE_TIME if math.isinf(now.t) else now.t
        return self.jumps.evaluate_switches(t, now.u, now.q[self.dynamic])

    def _solve_experiment(
        self,
        theta: FloatArray,
        periods: tuple[Period, ...],
        rows: list[int],
        derivatives: bool,
        solutions: dict[int, SolutionState],
    ) -> bool:
        """Solve one experiment, and add the solution at each of its measurements to `solutions`.

        Parameters
        ----------
        theta : ndarray, (P,)
        periods : tuple of Period
        rows : list of int
            Measurements of the experiment.
        derivatives : bool
        solutions : dict of int to SolutionState
            Solution at each measurement, to which this adds.

        Returns
        -------
        bool
            False if the model cannot be solved, or a measurement is before the first period.
        """
        n, times_of = len(self.parameter_names), {k: self.contents.measurements[k].time for k in rows}
        value, _, by_theta = self._map_start(periods[0]).linearise(np.zeros(1), np.zeros((1, 0)), theta)
        now = SolutionState(periods[0].begin, value[0, n:], by_theta[0, n:], value[0, :n], by_theta[0, :n])
        for k, period in enumerate(periods):
            if k:
                self._apply_period(now, period, settled=math.isinf(periods[k - 1].begin))
            if math.isinf(period.begin):
                if not self._settle_to_steady_state(now, 0.0):
                    return False
                continue
            now.t = period.begin
            end = periods[k + 1].begin if k + 1 < len(periods) else math.inf
            # A measurement at a change of periods belongs to the later one: it is taken after the change.
            inside = [j for j in rows if period.begin <= times_of[j] < end and math.isfinite(times_of[j])]
            times = sorted({period.begin, *(times_of[j] for j in inside), *([end] if math.isfinite(end) else [])})
            stations = self._solve_period(now, times, derivatives, math.isfinite(end))
            if stations is None:
                return False
            solutions |= {j: stations[times_of[j]] for j in inside}
            now = stations[times[-1]]
        steady_rows = [j for j in rows if times_of[j] == math.inf]
        if steady_rows:
            now = replace(now)  # a copy: the solution at the last finite time belongs to other measurements
            now.held = self.jumps.find_holding_events(now.t, now.u, now.q[self.dynamic])
            if not self._settle_to_steady_state(now, now.t):
                return False
            solutions |= dict.fromkeys(steady_rows, replace(now, t=math.inf))
        return all(j in solutions for j in rows)

    def _solve_period(
        self, now: SolutionState, times: list[float], derivatives: bool, open_end: bool
    ) -> dict[float, SolutionState] | None:
        """Solve one period from the state `now`.

        Parameters
        ----------
        now : SolutionState
        times : list of float
            The beginning of the period, its measurements, and its end if that is finite.
        derivatives : bool
        open_end : bool
            Whether events at the last time are left to the next period.

        Returns
        -------
        dict of float to SolutionState, or None
            The solution at each of the times; None if the period cannot be solved.
        """
        solved = simulate(
            self.model,
            now.q[self.dynamic],
            now.u,
            times,
            held=now.held,
            open_end=open_end,
            sensitivities=derivatives,
            rtol=self.rtol,
            max_evaluations=MAX_PERIOD_EVALUATIONS,
        )
        if not solved.success:
            return None
        # The chain rule of the module docstring; without sensitivities S is a placeholder.
        S = np.broadcast_to(now.S, (len(times), *now.S.shape))
        if solved.by_parameters is not None and solved.by_initial is not None:
            S = solved.by_parameters @ now.Q[self.dynamic] + solved.by_initial @ now.S
        return {
            t: SolutionState(t, u, S_at_t, now.q, now.Q) for t, u, S_at_t in zip(times, solved.states, S, strict=True)
        }

    def _settle_to_steady_state(self, now: SolutionState, begin: float) -> bool:
        """Replace the solution by the steady state that it approaches; return False if there is none.

        Parameters
        ----------
        now : SolutionState
            Changed in place.
        begin : float
            Time from which the model is solved.
        """
        steady = find_steady_state(self.model, now.q[self.dynamic], now.u, begin, happened=now.held)
        if steady is None:
            return False
        now.S = steady.by_parameters @ now.Q[self.dynamic] + steady.by_initial @ now.S
        now.u, now.t = steady.state, begin + steady.time
        now.held = self.jumps.find_holding_events(now.t, now.u, now.q[self.dynamic])
        # Time starts again after a steady state, so events at given times may happen again.
        for k, event in enumerate(self.jumps.events):
            if k not in self.jumps.state_dependent_events:
                now.held[k] = event.waits
        return True

    def _apply_period(self, now: SolutionState, period: Period, settled: bool) -> None:
        """Apply what a period changes at its beginning, in place.

        Parameters
        ----------
        now : SolutionState
        period : Period
        settled : bool
            Whether the period before ended in a steady state, which has set the triggers already.
        """
        n = len(self.parameter_names)
        if not settled:
            # Triggers that hold already before the change fire only after they were false.
            now.held = self.jumps.find_holding_events(period.begin, now.u, now.q[self.dynamic])
        t = period.begin
        value, by_u, by_q = self._map_period_start(period).linearise(
            np.array([t]), now.u[None], now.q, self._evaluate_switches(now)
        )
        both = by_u[0] @ now.S + by_q[0] @ now.Q
        now.q, now.u, now.Q, now.S = value[0, :n], value[0, n:], both[:n], both[n:]

    def compute_residuals(self, prediction: PredictedMeasurements) -> FloatArray:
        """Return the residuals `(s(m) - s(y))/σ`, of shape `(n,)`."""
        with np.errstate(all="ignore"):
            return np.asarray(
                (self._convert_to_scales(self.values) - self._convert_to_scales(prediction.y)) / prediction.sigma
            )

    def _convert_to_scales(self, x: FloatArray) -> FloatArray:
        """Return values `(n,)` on the scales of the measurements."""
        return np.where(self.scales == "lin", x, np.log(np.where(self.scales == "lin", 1.0, x)) / self._scale_bases)

    @cached_property
    def _scale_bases(self) -> FloatArray:
        """Natural logarithm of the base of each scale, `(n,)`; one on a linear scale."""
        return np.where(self.scales == "log10", LOG_OF_TEN, 1.0)

    def compute_log_densities(self, prediction: PredictedMeasurements) -> FloatArray:
        """Return the logarithm of the density of each measurement, `(n,)`.

        The density is one of the measurement itself, so on a logarithmic scale the derivative of the scale enters.
        """
        r, sigma = self.compute_residuals(prediction), prediction.sigma
        normal = -0.5 * r**2 - np.log(sigma) - 0.5 * math.log(2 * math.pi)
        laplace = -np.abs(r) - np.log(2 * sigma)
        inverse_slope = np.where(self.scales == "lin", 1.0, self.values * self._scale_bases)
        log_inverse_slope = np.log(inverse_slope)
        return np.asarray(np.where(self.laplace, laplace, normal) - log_inverse_slope)

    def compute_value(self, prediction: PredictedMeasurements | None) -> float:
        """Return minus the log-likelihood; infinity if there is no prediction or the value is not finite."""
        value = math.inf if prediction is None else -float(self.compute_log_densities(prediction).sum())
        return value if math.isfinite(value) else math.inf

    def compute_derivatives(self, prediction: PredictedMeasurements) -> tuple[FloatArray, FloatArray]:
        """Return the derivatives of minus the log-likelihood.

        Parameters
        ----------
        prediction : PredictedMeasurements
            With derivatives.

        Returns
        -------
        gradient : ndarray, (P,)
        hessian : ndarray, (P, P)
            Expected Hessian (Fisher information).
        """
        assert prediction.y_by_theta is not None
        assert prediction.sigma_by_theta is not None
        r, sigma = self.compute_residuals(prediction), prediction.sigma
        with np.errstate(all="ignore"):
            slope = np.where(self.scales == "lin", 1.0, 1.0 / (prediction.y * self._scale_bases))
        # With ∂r/∂θ = J - r L, the derivative of ½r² + log σ is Jᵀr + Lᵀ(1 - r²), and that of |r| + log σ is
        # Jᵀsign(r) + Lᵀ(1 - |r|).
        J = -slope[:, None] * prediction.y_by_theta / sigma[:, None]
        L = prediction.sigma_by_theta / sigma[:, None]
        pull = np.where(self.laplace, np.sign(r), r)
        by_log_sigma = np.where(self.laplace, np.abs(r), r**2)
        # A Laplace distribution has the same information 1/σ² about y as a normal one, and half as much about σ.
        weight = np.where(self.laplace, 1.0, 2.0)
        return J.T @ pull + L.T @ (1.0 - by_log_sigma), J.T @ J + (L * weight[:, None]).T @ L
