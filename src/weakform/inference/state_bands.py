"""Forward solutions of a fit, over the data and beyond, with pointwise bands.

With K(t) = ∂x(t)/∂(p, x₀) in working coordinates, C_p the covariance of the parameters, and K₀, K_p the two parts of
K at the samples of a trajectory, over σ: given p, the data determine x₀ with covariance `B = (K₀ᵀK₀)⁻¹`, and it moves
with p by `R = -B K₀ᵀ K_p`. Hence

    Cov(p, x₀) = [[C_p, C_p Rᵀ], [R C_p, B + R C_p Rᵀ]],     Var x(t) = K(t) Cov K(t)ᵀ     (delta method)

and the band is `x(t) ± z √Var`, in working coordinates, so that a log-normal state stays positive. If solutions are too
nonlinear for that, the ends of the band are quantiles of solutions: from fits to data drawn from the fitted states (the
parametric bootstrap), which follow a curved valley and stay inside the bounds; or, if the fit cannot be repeated, from
normal draws of (p, x₀) inside the bounds. If some states are not measured, it comes from the likelihood
(`state_profiles`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..estimators import ESTIMATORS
from ..forward.solver import simulate
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.optional_imports import import_pandas
from ..support.progress import Watch
from ..support.wording import show_progress
from .band_times import choose_band_times, find_rounding_level, interpolate_reach, number_pieces
from .fitted_states import (
    FORWARD_TOLERANCE,
    UNDETERMINED_RELATIVE_ERROR,
    MeasuredColumns,
    get_system,
    has_free_direction,
)
from .intervals import DEFAULT_LEVEL, MIN_SHARE_OF_RUNS
from .profile_time import TimeLimitReached, build_unlimited_watch, limit_automatic_profiles
from .refits import can_refit, prepare_refits
from .state_profiles import MAX_REACH, SAME_TIME, BandRequest, StateProfiler

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

NORMAL_DRAWS = 400
"""Number of normal draws of (p, x₀) for a band, each solved once: about ten solutions are outside each end at 95%. By
judgement."""
REFITS_TO_DRAWN_DATA = 120
"""Number of fits to drawn data for a band. By judgement: fewer than `NORMAL_DRAWS`, as each is a whole fit."""
REFITS_BY_SOLVING = 40
"""Number of fits to drawn data for a band if each step of a refit solves the equations, which costs many times as much.
By judgement."""
MAX_SAMPLES_TO_REFIT = 5000
"""Number of samples above which nothing is refitted for a band: each refit of such a series is slow. By judgement."""
MAX_WORK_TO_REFIT = 3000
"""Samples times free parameters above which nothing is refitted for a band unless the user asks for it: many subjects
with own parameters each. By judgement."""

PRINCIPAL_DIRECTIONS = 6
"""Number of principal directions of the covariance along which the linearisation is tested, the largest first. By
judgement."""
MAX_DEPARTURE_FROM_TANGENT = 0.1
"""Difference of a solution, one standard deviation along a principal direction, from its linearisation, as a share of
the band's half-width, up to which the delta method is used. By judgement."""
MIN_SHARE_OF_WIDEST = 0.05
"""Least half-width that a band counts as in this test, as a share of its largest half-width: where a state has almost
decayed, any solution differs from its linearisation by more than the width of the band. By judgement."""
MAX_SHIFT_OF_ENDS = 0.15
"""Difference of an end of an interval from Wald's, as a share of Wald's width, above which bands and initial values do
not use the linearisation (`test_a_hidden_state_whose_rate_is_wide_has_the_band_of_its_profile`). By judgement."""
SUPPORTING_POINTS = 25
"""Number of evenly spaced times that are added to the requested ones for a band by the likelihood: a state that has
decayed at a requested time takes its band from earlier times. By judgement."""
MAX_TRIES_INSIDE_BOUNDS = 20
"""Number of normal draws that are tried until one is inside the bounds; if none is, the last one is clipped to them. By
judgement."""
DRAW_TOLERANCE = 1e-7
"""Relative tolerance of the forward solution of a draw: far below the spread of the draws. By judgement."""
BAND_STREAM = 4
"""Second number of the seed of a band. It keeps these random numbers apart from all others of the same seed."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """States and measured expressions over time with a pointwise band.

    Attributes
    ----------
    times : ndarray, (time,)
    states, lower, upper : ndarray, (time, names)
        The forward solution, and the ends of its band; NaN where the band could not be computed.
    names : tuple of str
        The states, then the measured expressions.
    level : float
        Coverage probability of the band.
    kind : str
        How it was computed: `"delta"`, `"sampling"` or `"profile"`.
    note : str
        Remarks for the reader; empty if there are none.
    """

    times: FloatArray
    states: FloatArray
    lower: FloatArray
    upper: FloatArray
    names: tuple[str, ...]
    level: float
    kind: str
    note: str = ""

    def __getitem__(self, name: str) -> FloatArray:
        """Return one state with its band, `(time, 3)`: solution, lower end, upper end."""
        if name not in self.names:
            raise KeyError(f"No state {name!r}. There are: {', '.join(self.names)}.")
        d = self.names.index(name)
        return np.column_stack([self.states[:, d], self.lower[:, d], self.upper[:, d]])

    def to_frame(self) -> Any:
        """Return the states with their bands as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            Time is the index; each state has the columns `x`, `x_lower` and `x_upper`.
        """
        pd = import_pandas()

        columns = {
            f"{name}{end}": self[name][:, k] for name in self.names for k, end in enumerate(("", "_lower", "_upper"))
        }
        return pd.DataFrame(columns, index=pd.Index(self.times, name="time"))

    def __repr__(self) -> str:
        span = f"t = {self.times[0]:g} to {self.times[-1]:g}"
        many = f"{len(self.times)} time{'s' * (len(self.times) != 1)}"
        return f"<Prediction of {', '.join(self.names)}: {many}, {span}, {self.level:.0%} band>"


@dataclass(frozen=True)
class JointEstimate:
    """Mean and covariance of (p, x₀).

    Attributes
    ----------
    mean : ndarray, (J + D,)
        (p, u₀), u₀ in the coordinates of the model.
    covariance : ndarray, (J + D, J + D)
        Of (p, x₀), x₀ in working coordinates.
    is_given : bool
        True if the user gave the initial state, False if it is the fitted one.
    """

    mean: FloatArray
    covariance: FloatArray
    is_given: bool


class BandBuilder:
    """The forward solution from the mean of (p, x₀), and its band.

    Parameters
    ----------
    fit : FitResult
    trajectory : int
        Number of the trajectory.
    times : ndarray, (time,)
        The requested times, increasing.
    begin : float
        The initial time.
    joint : JointEstimate
        Mean and covariance of (p, x₀).
    """

    def __init__(self, fit: FitResult, trajectory: int, times: FloatArray, begin: float, joint: JointEstimate) -> None:
        self.fit, self.initial_is_given, requested = fit, joint.is_given, times
        # A state that has decayed at the requested times takes its band from earlier ones.
        if self._can_pin("profile"):
            end = max(requested[-1], fit.data.trajectories[trajectory].times[-1])
            times = np.union1d(requested, np.linspace(begin, end, SUPPORTING_POINTS))
        self.times, self.requested = times, np.isin(times, requested)
        self.mean, self.covariance = joint.mean, joint.covariance
        self.J = len(fit.model.parameters)
        self.grid = times if times[0] == begin else np.concatenate([[begin], times])
        self.trajectory = trajectory
        self.model, self.system = fit.model.for_trajectory(trajectory), get_system(fit, trajectory)
        self.expressions = MeasuredColumns.select(fit, trajectory)
        self.kinds = (*self.system.kinds, *self.expressions.kinds)
        self.names = (*fit.model.states, *self.expressions.names)

    def build_prediction(self, level: float, z: float, kind: str, seed: int, watch: Watch | None = None) -> Prediction:
        """Solve the model and compute its band.

        Parameters
        ----------
        level : float
            Coverage probability.
        z : float
            The half-width of the band in standard errors.
        kind : str
            `"auto"`, `"delta"`, `"sampling"` or `"profile"`.
        seed : int
            Seed of draws.
        watch : Watch, optional
            Stops a band of kind `"profile"`, which then raises `TimeLimitReached`; by default nothing stops it. A band
            of kind `"auto"` is linearised if the time for automatic profiles is over.

        Returns
        -------
        Prediction
        """
        states, values, K = self._linearise()
        x = self._convert_to_working(values)
        variance = np.einsum("tdi,ij,tdj->td", K, self.covariance, K)
        half = z * np.sqrt(np.maximum(variance, 0.0))
        # A column that the data cannot determine has no band.
        unlimited = (half > UNDETERMINED_RELATIVE_ERROR * np.sqrt(np.mean(x**2, axis=0))) & has_free_direction(self.fit)
        half = np.where(unlimited.any(axis=0), 0.0, half)
        lower, upper, note = x - half, x + half, self._describe_limits()
        curved = (
            self._find_nonlinear_columns(x, K, half) if kind == "auto" else np.full(len(self.names), kind == "profile")
        )
        is_nonlinear = bool(curved.any())
        sampled = kind == "sampling" or (is_nonlinear and not self._can_pin(kind))
        profiled = None
        if is_nonlinear and not sampled:
            columns = np.flatnonzero(curved)
            if kind == "auto":
                profiled = self._profile_in_time(x, half / z, columns, z)
            else:
                profiled = self._profile_columns(
                    x, half / z, columns, z, watch=build_unlimited_watch() if watch is None else watch
                )
        sample = self._sample_solutions(level, seed) if sampled else None
        if sample is not None and sample[2]:
            note = f"{note} The model could not be solved for {sample[2]:.0%} of the draws.".strip()
        if sample is not None and (kind == "sampling" or np.isfinite(sample[0]).any()):
            kind, (lower, upper, _) = "sampling", sample
        elif profiled is not None:
            kind, (lower, upper, note) = "profile", profiled
        else:
            kind = "delta"
            if sampled:
                note = f"{note} The band is linearised although solutions are nonlinear: treat it as rough.".strip()
            elif is_nonlinear:
                note = f"{note} The time limit ended the band by the likelihood: it is linearised, and rough.".strip()
            lower, upper = self._convert_from_working(lower), self._convert_from_working(upper)
            # Correlated noise mixes states in working coordinates: the states themselves are linearised.
            if self.system.mix is not None:
                half = z * np.sqrt(np.maximum(self._compute_variance(states, K), 0.0))
                lower, upper = states - half, states + half
        lower, upper = np.where(unlimited, -np.inf, lower), np.where(unlimited, np.inf, upper)
        if unlimited.any():
            free_names = ", ".join(name for name, free in zip(self.names, unlimited.any(axis=0), strict=True) if free)
            note = f"{note} No band for {free_names}: the data cannot determine it.".strip()
        # A known initial state has no band at the initial time; the conversion of coordinates may round it.
        if not self.covariance[self.J :, self.J :].any() and self.times[0] == self.grid[0]:
            D = self.system.D
            lower[0, :D] = upper[0, :D] = states[0]
        times, values, lower, upper = (a[self.requested] for a in (self.times, values, lower, upper))
        return Prediction(times, values, lower, upper, self.names, level, kind=kind, note=note)

    def _linearise(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Solve the model from the mean, with sensitivities.

        Returns
        -------
        states : ndarray, (time, D)
        values : ndarray, (time, names)
            States and measured expressions.
        K : ndarray, (time, names, J + D)
            Their derivatives with respect to (p, x₀), all in working coordinates.
        """
        n = len(self.times)
        p, u0 = self.mean[: self.J], self.mean[self.J :]
        inputs = self.system.inputs
        solved = simulate(self.model, p, u0, self.grid, inputs=inputs, sensitivities=True, rtol=FORWARD_TOLERANCE)
        if not solved.success or solved.by_parameters is None or solved.by_initial is None:
            raise FitError(
                "The fitted model could not be solved over these times: the solution diverges, or needs too many "
                "steps. Request shorter times."
            )
        states = solved.states[-n:]
        K = np.concatenate([solved.by_parameters, solved.by_initial @ self.system.compute_slopes(u0[None])[0]], axis=2)[
            -n:
        ]
        h, hu, hp = self.expressions.linearise(self.times, states)
        by_h = hu @ K
        by_h[:, :, : self.J] += hp
        # The empty first block keeps `column_stack` defined if there are no expressions.
        by_h /= np.column_stack(
            [np.ones((n, 0)), *(k.numeric_slope(c) for k, c in zip(self.expressions.kinds, h.T, strict=True))]
        )[:, :, None]
        # A state that is zero, as at a known initial value, has no logarithm, and no band.
        K = np.nan_to_num(
            np.concatenate([self.system.divide_by_slopes(states, K), by_h], axis=1), posinf=0.0, neginf=0.0
        )
        return states, np.concatenate([states, h], axis=1), K

    def _compute_variance(self, states: FloatArray, K: FloatArray) -> FloatArray:
        """Compute the variance of the states in their own coordinates, `(time, D)`."""
        by_u = self.system.compute_slopes(states) @ K
        return np.asarray(np.einsum("tdi,ij,tdj->td", by_u, self.covariance, by_u))

    def _describe_limits(self) -> str:
        """Return a remark on inputs outside the data, or on parameters without a standard error."""
        inputs = self.system.inputs
        if inputs is not None and (self.grid[0] < inputs.times[0] or self.grid[-1] > inputs.times[-1]):
            return "Outside the data, inputs keep their nearest value."
        if np.isfinite(self.fit.covariance.diagonal()).all():
            return ""
        return "The band holds parameters at a bound, or without information, fixed at their estimates."

    def _convert_to_working(self, u: FloatArray) -> FloatArray:
        """Convert states `(n, D)`, or all columns `(n, names)`, to working coordinates."""
        kinds = self.kinds[: u.shape[1]]
        lowest = [kind.lowest + (0.0 if kind.includes_lowest else np.finfo(float).tiny) for kind in kinds]
        # Values below the lowest possible one, such as a rounding error below zero, have no working coordinates.
        u = np.maximum(u, lowest)
        D = self.system.D
        more = [kind.to_working(c) for kind, c in zip(kinds[D:], u.T[D:], strict=True)]
        return np.column_stack([self.system.to_working(u[:, :D]), *more])

    def _convert_from_working(self, x: FloatArray) -> FloatArray:
        """Convert working coordinates `(n, D)`, or of all columns `(n, names)`, back to states and columns."""
        D = self.system.D
        more = [kind.from_working(c) for kind, c in zip(self.kinds[D:], x.T[D:], strict=False)]
        return np.column_stack([self.system.from_working(x[:, :D]), *more])

    def _solve_moved(self, theta: FloatArray) -> FloatArray | None:
        """Solve the model with (p, x₀) moved by theta `(J + D,)` from the mean, p inside its bounds.

        Returns
        -------
        ndarray, (time, names), or None
            In working coordinates; None if the model cannot be solved.
        """
        low, high = self.fit.bounds.T
        p = np.clip(self.mean[: self.J] + theta[: self.J], low, high)
        u0, moved = self.mean[self.J :], theta[self.J :]
        if moved.any():
            u0 = self._convert_from_working(self._convert_to_working(u0[None]) + moved)[0]
        if not np.isfinite(u0).all():
            return None
        solved = simulate(self.model, p, u0, self.grid, inputs=self.system.inputs, rtol=DRAW_TOLERANCE)
        if not solved.success:
            return None
        states = solved.states[-len(self.times) :]
        return self._convert_to_working(
            np.concatenate([states, self.expressions.compute_values(self.times, states, p)], axis=1)
        )

    def _compute_factor(self) -> FloatArray:
        """Return a square root of the covariance; its columns are the principal directions, the largest first."""
        # Principal directions of the correlation matrix do not depend on the units of the parameters.
        scale = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))
        unit = np.where(scale > 0, scale, 1.0)
        scaled = self.covariance / np.outer(unit, unit)
        w, V = np.linalg.eigh(np.where(np.isfinite(scaled), scaled, 0.0))
        return np.asarray((V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1] * unit[:, None])

    def _find_nonlinear_columns(self, x: FloatArray, K: FloatArray, half: FloatArray) -> BoolArray:
        """Return which columns are too nonlinear for the delta method, `(names,)`.

        Solutions one standard deviation off along each principal direction are compared with their linearisation, at
        all times at which the band is not negligible. Columns that come from the likelihood also count as nonlinear if
        a parameter is at its bound, or if its interval is far from Wald's.

        Parameters
        ----------
        x : ndarray, (time, names)
            The solution in working coordinates.
        K : ndarray, (time, names, J + D)
            Its sensitivities.
        half : ndarray, (time, names)
            Half-widths of the linearised band.
        """
        factor = self._compute_factor()
        most = half.max(axis=0)
        narrow = np.maximum(half, MIN_SHARE_OF_WIDEST * most)
        # A hidden state that is always positive has its band on a log scale if the linearised band goes below zero.
        hidden = np.array([name not in (self.fit.data.names or ()) for name in self.names])
        below = hidden & (x > 0).all(axis=0) & (x < half).any(axis=0)
        curved = (most > 0) & (self._can_pin("auto") and (below | self._has_shifted_intervals()))
        for column in factor.T[:PRINCIPAL_DIRECTIONS]:
            for sign in (1.0, -1.0) if column.any() else ():
                solved = self._solve_moved(sign * column)
                if solved is None:
                    return np.asarray(most > 0)
                off = np.abs(solved - x - sign * (K @ column))
                curved |= (most > 0) & ~(off <= MAX_DEPARTURE_FROM_TANGENT * narrow).all(axis=0)
        return np.asarray(curved)

    def _has_shifted_intervals(self) -> bool:
        """Return True if a parameter is at its bound, or its interval is far from Wald's."""
        if self.fit.at_bound.any():
            return True
        ends, wald = self.fit.intervals(DEFAULT_LEVEL), self.fit.intervals(DEFAULT_LEVEL, "wald")
        return bool((np.abs(ends - wald).max(axis=1) > MAX_SHIFT_OF_ENDS * np.diff(wald)[:, 0]).any())

    def _can_pin(self, kind: str) -> bool:
        """Return True if a band of this kind can come from the likelihood.

        It can if the fit has hidden states on a mesh and can be repeated. Unless the user asks for such a band, refits
        must be cheap, too.
        """
        return bool(self.fit.nodes) and self._can_refit and (kind == "profile" or self._is_cheap_to_refit)

    @property
    def _can_refit(self) -> bool:
        """True if the fit can be repeated from its estimate, with the fitted initial state."""
        return (
            can_refit(self.fit)
            and self.fit.converged
            and self.fit.data.samples <= MAX_SAMPLES_TO_REFIT
            and not self.initial_is_given
        )

    @property
    def _is_cheap_to_refit(self) -> bool:
        """True if a refit is fast; one of many subjects with own parameters is not."""
        return self.fit.data.samples * int((~self.fit.fixed).sum()) <= MAX_WORK_TO_REFIT

    def _profile_in_time(
        self, x: FloatArray, error: FloatArray, columns: IntArray, z: float
    ) -> tuple[FloatArray, FloatArray, str] | None:
        """Compute the band by the likelihood; return None if the time for automatic profiles is over."""
        with limit_automatic_profiles(self.fit) as watch:
            try:
                return self._profile_columns(x, error, columns, z, watch=watch)
            except TimeLimitReached:
                return None

    def _profile_columns(
        self, x: FloatArray, error: FloatArray, columns: IntArray, z: float, *, watch: Watch
    ) -> tuple[FloatArray, FloatArray, str]:
        """Compute the band by the likelihood in some columns, and by the delta method in the others.

        A positive state has its ends, and the interpolation between them, on a log scale.

        Parameters
        ----------
        x : ndarray, (time, names)
            The solution in working coordinates.
        error : ndarray, (time, names)
            Its linearised standard errors.
        columns : ndarray of int
            The columns that need the likelihood.
        z : float
            The quantile of the band's level.
        watch : Watch
            Stops the search, which then raises `TimeLimitReached`.

        Returns
        -------
        lower, upper : ndarray, (time, names)
        note : str
        """
        values = self._convert_from_working(x)
        doses = self.fit.data.trajectories[self.trajectory].doses
        piece = number_pieces(self.times, self.fit.nodes[self.trajectory][0], doses)
        # A time just before a jump shares its mesh node with the state after it, and cannot be pinned.
        can_pin = ~np.append((np.diff(piece) > 0) & (np.diff(self.times) < SAME_TIME * np.ptp(self.times)), False)
        chosen = [
            choose_band_times(values[:, column], can_pin * error[:, column], self.requested, piece)
            for column in columns
        ]
        knots = np.unique(np.concatenate(chosen))
        lower, upper = self._convert_from_working(x - z * error), self._convert_from_working(x + z * error)
        if not len(knots):
            return lower, upper, ""
        profiler = StateProfiler(self.fit, self.trajectory, self.times[knots], self.names, watch)
        pins: list[tuple[FloatArray, BandRequest]] = []
        for column, own_knots in zip(columns, chosen, strict=True):
            u, kind = values[:, column], profiler.kinds[column]
            least = find_rounding_level(u, profiler.logs[column])
            # The linearised error is in the working coordinates of the band; pins may have others, such as logarithms.
            slopes = self.kinds[column].numeric_slope(u) / kind.numeric_slope(np.maximum(u, least))
            # A standard error larger than the state itself would make a pin too weak to move it.
            most = 1.0 if profiler.logs[column] else np.abs(kind.to_working(np.maximum(u, least))).max() or np.inf
            each = np.where(u > least, error[:, column] * slopes, 0.0)
            pins.append(
                (each, BandRequest(int(column), np.searchsorted(knots, own_knots), np.minimum(each[own_knots], most)))
            )
        ends = profiler.find_ends([request for _, request in pins], z)
        for reach, (each, request), own_knots in zip(ends, pins, chosen, strict=True):
            column, u, kind = request.column, values[:, request.column], profiler.kinds[request.column]
            least = find_rounding_level(u, profiler.logs[column])
            y = kind.to_working(np.maximum(u, least))
            for distance, sign, side in zip(reach * request.errors, (-1.0, 1.0), (lower, upper), strict=True):
                far = interpolate_reach(self.times, own_knots, distance, each, piece) if len(own_knots) else z * each
                moved = kind.from_working(y + np.where(each > 0, sign * far, 0.0))
                # Where an end was lost, the linearised one stays, but not below the lowest possible value.
                side[:, column] = np.where(np.isnan(far), np.maximum(side[:, column], kind.lowest), moved)
                side[error[:, column] == 0, column] = u[error[:, column] == 0]
            # A state that has decayed to rounding error is between zero and its last resolved value.
            last = np.maximum.accumulate(np.where(u > least, np.arange(len(u)), 0))
            gone = (u <= least) & (error[:, column] > 0)
            lower[gone, column], upper[gone, column] = 0.0, upper[last[gone], column]
        has_no_end = any(np.isinf(reach).any() for reach in ends)
        has_lost_end = any(np.isnan(reach).any() for reach in ends)
        notes = [f"At some times the band has no end within {MAX_REACH:g} standard errors."] * has_no_end
        notes += ["At some times the band could not be followed, and is linearised."] * has_lost_end
        return lower, upper, " ".join(notes)

    def _sample_solutions(self, level: float, seed: int) -> tuple[FloatArray, FloatArray, float]:
        """Compute quantiles of solutions from drawn data or drawn (p, x₀).

        Returns
        -------
        lower, upper : ndarray, (time, names)
            NaN if too few draws could be solved.
        lost : float
            The share of the draws that could not be solved.
        """
        can_repeat = self._can_refit and self._is_cheap_to_refit
        slow = ESTIMATORS[self.fit.method].solves_equations
        count = NORMAL_DRAWS if not can_repeat else REFITS_BY_SOLVING if slow else REFITS_TO_DRAWN_DATA
        draws = self._refit_draws(seed, count) if can_repeat else self._draw_normal(seed)
        solutions = [x for x in draws if x is not None]
        if len(solutions) < count * MIN_SHARE_OF_RUNS:
            blank = np.full((len(self.times), len(self.names)), np.nan)
            return blank, blank, 1 - len(solutions) / count
        # Quantiles of the states themselves: with correlated noise working coordinates mix several states.
        lower, upper = np.quantile(
            [self._convert_from_working(x) for x in solutions], [0.5 - level / 2, 0.5 + level / 2], axis=0
        )
        return lower, upper, 1 - len(solutions) / count

    def _refit_draws(self, seed: int, count: int) -> Iterator[FloatArray | None]:
        """Yield solutions `(time, names)` of fits to drawn data, in working coordinates; None for one that failed."""
        refit = prepare_refits(self.fit)
        draws = refit.refit_many_drawn(np.random.default_rng([seed, BAND_STREAM, k]) for k in range(count))
        for solved in show_progress(draws, "band", count):
            if solved is None:
                yield None
                continue
            # The solution is computed as for every other draw: from the change of (p, x₀).
            moved = (
                refit.get_initial_state(solved, self.trajectory)
                - self._convert_to_working(self.mean[None, self.J :])[0]
            )
            yield self._solve_moved(np.concatenate([solved.p - self.mean[: self.J], moved]))

    def _draw_normal(self, seed: int) -> Iterator[FloatArray | None]:
        """Yield solutions `(time, names)` from normal draws of (p, x₀), in working coordinates; None if one failed."""
        rng, factor = np.random.default_rng([seed, BAND_STREAM]), self._compute_factor()
        # Initial values have no bounds.
        low, high = (
            np.append(side, np.full(self.system.D, np.copysign(np.inf, k)))
            for k, side in zip((-1, 1), self.fit.bounds.T, strict=True)
        )
        for _ in range(NORMAL_DRAWS):
            theta = np.zeros(len(self.mean))
            for _ in range(MAX_TRIES_INSIDE_BOUNDS):
                theta = factor @ rng.standard_normal(len(factor))
                if ((self.mean + theta >= low) & (self.mean + theta <= high)).all():
                    break
            yield self._solve_moved(theta)
