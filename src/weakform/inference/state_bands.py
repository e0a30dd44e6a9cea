"""The fitted trajectory, and what lies beyond the data: forward solutions with pointwise bands.

With K(t) = ∂x(t)/∂(p, x₀) in working coordinates, C_p the covariance of the parameters, and K₀, K_p the two parts of
K at the samples of a trajectory, over σ: given p, the data determine x₀ with covariance `B = (K₀ᵀK₀)⁻¹`, and it moves
with p by `R = -B K₀ᵀ K_p`. Hence

    Cov(p, x₀) = [[C_p, C_p Rᵀ], [R C_p, B + R C_p Rᵀ]],     Var x(t) = K(t) Cov K(t)ᵀ     (delta method)

and the band is `x(t) ± z √Var`, in working coordinates, so that a log-normal state stays positive. Where solutions bend
too much for that, the band lies between quantiles of solutions: from fits to data drawn again from the fitted states
(the parametric bootstrap, for method "wendy"), which follow a curved valley and stay inside the bounds; else from
normal draws of (p, x₀) inside the bounds. Where only a part is measured it comes from the likelihood (`pinned`).
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
from ..support.optional_imports import pandas
from ..support.wording import counted
from .band_times import between, chosen_knots, pieces, rounding
from .fitted_states import RTOL, UNKNOWN, Seen, is_free, system
from .intervals import LEVEL
from .refits import can_refit, refit_of
from .state_profiles import FARTHEST, SAME, Pinned, Wanted

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

DRAWS, PROBES, CURVED, NARROW = 400, 6, 0.1, 0.05
LEANING = 0.15
"""How far an end of an interval may be from Wald's, as a share of its width, for the tangent to be near enough."""
SUPPORT = 25
"""Times beside those that are asked for."""
REFITS, SOLVED = 120, 40
"""Fits to drawn data behind a band; and where the equations are solved for each step of each."""
MAX_SAMPLES, MAX_WORK = 5000, 3000
"""Samples above which nothing is fitted again for a band; and samples times parameters above which not by itself."""


@dataclass(frozen=True, eq=False)
class Prediction:
    """States in time with a pointwise band.

    Attributes
    ----------
    times : ndarray, (time,)
    states, lower, upper : ndarray, (time, D)
        The forward solution, and the band at `level`; NaN where it cannot be told.
    names : tuple of str
        Of the states.
    level : float
    kind : str
        `"delta"`, `"sampling"` or `"profile"`.
    note : str
        What the reader should know, or nothing.
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
        """One state with its band, `(time, 3)`: solution, lower, upper."""
        if name not in self.names:
            raise KeyError(f"No state {name!r}. There are: {', '.join(self.names)}.")
        d = self.names.index(name)
        return np.column_stack([self.states[:, d], self.lower[:, d], self.upper[:, d]])

    def to_frame(self) -> Any:
        """A pandas data frame with time as its index, and columns `x`, `x_lower` and `x_upper` for each state."""
        pd = pandas()

        columns = {
            f"{name}{end}": self[name][:, k] for name in self.names for k, end in enumerate(("", "_lower", "_upper"))
        }
        return pd.DataFrame(columns, index=pd.Index(self.times, name="time"))

    def __repr__(self) -> str:
        span = f"t = {self.times[0]:g} to {self.times[-1]:g}"
        many = f"{len(self.times)} time{'s' * (len(self.times) != 1)}"
        return f"<Prediction of {', '.join(self.names)}: {many}, {span}, {self.level:.0%} band>"


@dataclass(frozen=True)
class Belief:
    """What is known of (p, x₀).

    Attributes
    ----------
    mean : ndarray, (J + D,)
    covariance : ndarray, (J + D, J + D)
        x₀ in working coordinates.
    told : bool
        Whether x₀ is the user's, and not the fit's.
    """

    mean: FloatArray
    covariance: FloatArray
    told: bool


class Band:
    """Solutions from draws of (p, x₀) around their mean."""

    def __init__(self, fit: FitResult, trajectory: int, times: FloatArray, begin: float, belief: Belief) -> None:
        self.fit, self.told, asked = fit, belief.told, times
        if self._pins("profile"):  # what is next to nothing where it is asked for is known by what it was before
            end = max(asked[-1], fit.data.trajectories[trajectory].times[-1])
            times = np.union1d(asked, np.linspace(begin, end, SUPPORT))
        self.times, self.asked = times, np.isin(times, asked)
        self.mean, self.covariance = belief.mean, belief.covariance
        self.J = len(fit.model.parameters)
        self.grid = times if times[0] == begin else np.concatenate([[begin], times])
        self.trajectory = trajectory
        self.model, self.system = fit.model.of(trajectory), system(fit, trajectory)
        self.seen = Seen.of(fit, trajectory)
        self.kinds = (*self.system.kinds, *self.seen.kinds)
        self.names = (*fit.model.states, *self.seen.names)

    def prediction(self, level: float, z: float, kind: str, seed: int) -> Prediction:
        """The forward solution with its band."""
        n = len(self.times)
        p, u0 = self.mean[: self.J], self.mean[self.J :]
        inputs = self.system.inputs
        solved = simulate(self.model, p, u0, self.grid, inputs=inputs, sensitivities=True, rtol=RTOL)
        if not solved.success or solved.by_parameters is None or solved.by_initial is None:
            raise FitError(
                "The fitted model could not be solved over these times: it blows up, or needs too much work; ask for a "
                "shorter time."
            )
        states = solved.states[-n:]
        K = np.concatenate([solved.by_parameters, solved.by_initial @ self.system.slopes(u0[None])[0]], axis=2)[-n:]
        h, hu, hp = self.seen.linearised(self.times, states)
        by_h = hu @ K
        by_h[:, :, : self.J] += hp
        by_h /= np.column_stack(
            [np.ones((n, 0)), *(k.numeric_slope(c) for k, c in zip(self.seen.kinds, h.T, strict=True))]
        )[:, :, None]
        # Where a state is zero, as at a known start, it has no logarithm, and no band.
        K = np.nan_to_num(np.concatenate([self.system.per_slope(states, K), by_h], axis=1), posinf=0.0, neginf=0.0)
        values = np.concatenate([states, h], axis=1)
        x = self._working(values)
        variance = np.einsum("tdi,ij,tdj->td", K, self.covariance, K)
        half = z * np.sqrt(np.maximum(variance, 0.0))
        # Where nothing is known there is no band to find.
        unlimited = (half > UNKNOWN * np.sqrt(np.mean(x**2, axis=0)) + 0.0) & is_free(self.fit)
        half = np.where(unlimited.any(axis=0), 0.0, half)
        lower, upper, note = x - half, x + half, self._note()
        curved = self._curved(x, K, half) if kind == "auto" else np.full(len(self.names), kind == "profile")
        profiled = self._pins(kind) and bool(curved.any()) and kind != "sampling"
        sampled = kind == "sampling" or (bool(curved.any()) and not profiled)
        if sampled:
            sample = self._sampled(level, seed)
            lost = sample[2]
            if lost:
                note = f"{note} {lost:.0%} of the draws could not be solved over these times.".strip()
        if sampled and (kind == "sampling" or np.isfinite(sample[0]).any()):
            kind, (lower, upper, _) = "sampling", sample
        elif profiled:
            kind, lower, upper, note = "profile", *self._profiled(x, half / z, np.flatnonzero(curved), z)
        else:
            kind = "delta"
            note = (
                f"{note} The band is linearised, though solutions bend: take it as rough.".strip() if sampled else note
            )
            lower, upper = self._back(lower), self._back(upper)
            if self.system.mix is not None:
                half = z * np.sqrt(np.maximum(self._variance(states, K), 0.0))
                lower, upper = states - half, states + half
        lower, upper = np.where(unlimited, -np.inf, lower), np.where(unlimited, np.inf, upper)
        if unlimited.any():
            unknown = ", ".join(name for name, free in zip(self.names, unlimited.any(axis=0), strict=True) if free)
            note = f"{note} {unknown} cannot be determined, and has no band.".strip()
        if not self.covariance[self.J :, self.J :].any() and self.times[0] == self.grid[0]:
            D = self.system.D
            lower[0, :D] = upper[0, :D] = states[0]
        times, values, lower, upper = (a[self.asked] for a in (self.times, values, lower, upper))
        return Prediction(times, values, lower, upper, self.names, level, kind=kind, note=note)

    def _variance(self, states: FloatArray, K: FloatArray) -> FloatArray:
        """Of the states themselves, `(time, D)`."""
        by_u = self.system.slopes(states) @ K
        return np.asarray(np.einsum("tdi,ij,tdj->td", by_u, self.covariance, by_u))

    def _note(self) -> str:
        inputs = self.system.inputs
        if inputs is not None and (self.grid[0] < inputs.times[0] or self.grid[-1] > inputs.times[-1]):
            return "Outside the data the inputs keep their nearest value."
        if np.isfinite(self.fit.covariance.diagonal()).all():
            return ""
        return "Parameters at a bound or without information are taken as known in the band."

    def _working(self, u: FloatArray) -> FloatArray:
        """Working coordinates of states `(n, D)`, or of all columns."""
        kinds = self.kinds[: u.shape[1]]
        lowest = [kind.lowest + (0.0 if kind.closed else np.finfo(float).tiny) for kind in kinds]
        u = np.maximum(u, lowest)
        D = self.system.D
        more = [kind.to_working(c) for kind, c in zip(kinds[D:], u.T[D:], strict=True)]
        return np.column_stack([self.system.to_working(u[:, :D]), *more])

    def _back(self, x: FloatArray) -> FloatArray:
        D = self.system.D
        more = [kind.from_working(c) for kind, c in zip(self.kinds[D:], x.T[D:], strict=False)]
        return np.column_stack([self.system.from_working(x[:, :D]), *more])

    def _solved(self, theta: FloatArray) -> FloatArray | None:
        """The solution in working coordinates from p and x₀ moved by theta."""
        low, high = self.fit.bounds.T
        p = np.clip(self.mean[: self.J] + theta[: self.J], low, high)
        u0, moved = self.mean[self.J :], theta[self.J :]
        if moved.any():
            u0 = self._back(self._working(u0[None]) + moved)[0]
        if not np.isfinite(u0).all():
            return None
        solved = simulate(self.model, p, u0, self.grid, inputs=self.system.inputs, rtol=1e-7)
        if not solved.success:
            return None
        states = solved.states[-len(self.times) :]
        return self._working(np.concatenate([states, self.seen.values(self.times, states, p)], axis=1))

    def _factor(self) -> FloatArray:
        """A square root of the covariance; columns are its principal directions, the largest first."""
        scale = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))
        unit = np.where(scale > 0, scale, 1.0)
        scaled = self.covariance / np.outer(unit, unit)
        w, V = np.linalg.eigh(np.where(np.isfinite(scaled), scaled, 0.0))
        return np.asarray((V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1] * unit[:, None])

    def _curved(self, x: FloatArray, K: FloatArray, half: FloatArray) -> BoolArray:
        """Which columns leave the tangent too far one standard deviation off along a principal direction, `(columns,)`.

        At any time, as long as the band is not next to nothing there: where a state has decayed it bends most. Where a
        parameter is at its bound, or its interval is not Wald's, the tangent says too little at any distance.
        """
        factor = self._factor()
        most = half.max(axis=0)
        narrow = np.maximum(half, NARROW * most)
        # What is hidden and positive all along is known on another scale where its tangent is not.
        hidden = np.array([name not in (self.fit.data.names or ()) for name in self.names])
        below = hidden & (x > 0).all(axis=0) & (x < half).any(axis=0)
        curved = (most > 0) & (self._pins("auto") and (below | self._leans()))
        for column in factor.T[:PROBES]:
            for sign in (1.0, -1.0) if column.any() else ():
                solved = self._solved(sign * column)
                if solved is None:
                    return np.asarray(most > 0)
                off = np.abs(solved - x - sign * (K @ column))
                curved |= (most > 0) & ~(off <= CURVED * narrow).all(axis=0)
        return np.asarray(curved)

    def _leans(self) -> bool:
        """Whether the interval of a parameter is far from what the tangent gives it."""
        if self.fit.at_bound.any():
            return True
        ends, wald = self.fit.intervals(LEVEL), self.fit.intervals(LEVEL, "wald")
        return bool((np.abs(ends - wald).max(axis=1) > LEANING * np.diff(wald)[:, 0]).any())

    def _pins(self, kind: str) -> bool:
        """Whether states can be pinned: where the fit has them on a mesh of its own, and begins as the fit says."""
        return bool(self.fit.nodes) and self._refits and (kind == "profile" or self._cheap)

    @property
    def _refits(self) -> bool:
        """Whether all can be fitted again, from where it has come to rest."""
        return can_refit(self.fit) and self.fit.converged and self.fit.data.samples <= MAX_SAMPLES and not self.told

    @property
    def _cheap(self) -> bool:
        """Whether fitting all again takes no time: many subjects with parameters of their own do."""
        return self.fit.data.samples * int((~self.fit.fixed).sum()) <= MAX_WORK

    def _profiled(
        self, x: FloatArray, error: FloatArray, columns: IntArray, z: float
    ) -> tuple[FloatArray, FloatArray, str]:
        """The band by the likelihood, in some columns, and by the tangent in the others.

        What is positive has its ends, and what lies between two of them, on a log scale.
        """
        values = self._back(x)
        doses = self.fit.data.trajectories[self.trajectory].doses
        piece = pieces(self.times, self.fit.nodes[self.trajectory][0], doses)
        # A moment before a jump there is no node that is not after it.
        able = ~np.append((np.diff(piece) > 0) & (np.diff(self.times) < SAME * np.ptp(self.times)), False)
        chosen = [chosen_knots(values[:, column], able * error[:, column], self.asked, piece) for column in columns]
        knots = np.unique(np.concatenate(chosen))
        lower, upper = self._back(x - z * error), self._back(x + z * error)
        if not len(knots):
            return lower, upper, ""
        pinned = Pinned(self.fit, self.trajectory, self.times[knots], self.names)
        pins: list[tuple[FloatArray, Wanted]] = []
        for column, own in zip(columns, chosen, strict=True):
            u, kind = values[:, column], pinned.kinds[column]
            least = rounding(u, pinned.logs[column])
            slopes = self.kinds[column].numeric_slope(u) / kind.numeric_slope(np.maximum(u, least))
            # One that knows nothing would pin nothing.
            most = 1.0 if pinned.logs[column] else np.abs(kind.to_working(np.maximum(u, least))).max() or np.inf
            each = np.where(u > least, error[:, column] * slopes, 0.0)
            pins.append((each, Wanted(int(column), np.searchsorted(knots, own), np.minimum(each[own], most))))
        found = pinned.ends([one for _, one in pins], z)
        for reach, (each, one), own in zip(found, pins, chosen, strict=True):
            column, u, kind = one.column, values[:, one.column], pinned.kinds[one.column]
            least = rounding(u, pinned.logs[column])
            y = kind.to_working(np.maximum(u, least))
            for distance, sign, side in zip(reach * one.errors, (-1.0, 1.0), (lower, upper), strict=True):
                far = between(self.times, own, distance, each, piece) if len(own) else z * each
                moved = kind.from_working(y + np.where(each > 0, sign * far, 0.0))
                side[:, column] = np.where(np.isnan(far), np.maximum(side[:, column], kind.lowest), moved)
                side[error[:, column] == 0, column] = u[error[:, column] == 0]
            # What has decayed to rounding lies between zero and where it was last known.
            last = np.maximum.accumulate(np.where(u > least, np.arange(len(u)), 0))
            gone = (u <= least) & (error[:, column] > 0)
            lower[gone, column], upper[gone, column] = 0.0, upper[last[gone], column]
        limited = not any(np.isinf(reach).any() for reach in found)
        lost = any(np.isnan(reach).any() for reach in found)
        notes = [f"In places the band has no end within {FARTHEST:g} standard errors."] * (not limited)
        notes += ["In places it could not be followed, and is linearised."] * lost
        return lower, upper, " ".join(notes)

    def _sampled(self, level: float, seed: int) -> tuple[FloatArray, FloatArray, float]:
        """Quantiles of solutions, and the share that could not be had."""
        again = self._refits and self._cheap
        wanted = DRAWS if not again else SOLVED if ESTIMATORS[self.fit.method].solves_equations else REFITS
        draws = self._refitted(seed, wanted) if again else self._normal(seed)
        found = [x for x in draws if x is not None]
        if len(found) < wanted / 2:
            blank = np.full((len(self.times), len(self.names)), np.nan)
            return blank, blank, 1 - len(found) / wanted
        # Of the states themselves: ends in rotated coordinates would not be theirs.
        lower, upper = np.quantile([self._back(x) for x in found], [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return lower, upper, 1 - len(found) / wanted

    def _refitted(self, seed: int, count: int) -> Iterator[FloatArray | None]:
        refit = refit_of(self.fit)
        draws = (refit.drawn(np.random.default_rng([seed, 4, k])) for k in range(count))
        for solved in counted(draws, "band", count):
            if solved is None:
                yield None
                continue
            moved = refit.first(solved, self.trajectory) - self._working(self.mean[None, self.J :])[0]
            yield self._solved(np.concatenate([solved.p - self.mean[: self.J], moved]))

    def _normal(self, seed: int) -> Iterator[FloatArray | None]:
        rng, factor = np.random.default_rng([seed, 4]), self._factor()
        low, high = (
            np.append(side, np.full(self.system.D, np.copysign(np.inf, k)))
            for k, side in zip((-1, 1), self.fit.bounds.T, strict=True)
        )
        for _ in range(DRAWS):
            for _ in range(20):
                theta = factor @ rng.standard_normal(len(factor))
                if ((self.mean + theta >= low) & (self.mean + theta <= high)).all():
                    break
            yield self._solved(theta)
