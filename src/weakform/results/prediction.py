"""The fitted trajectory, and what lies beyond the data: forward solutions with pointwise bands.

With K(t) = ∂x(t)/∂(p, x₀) in working coordinates, C_p the covariance of the parameters, and K₀, K_p the two parts of
K at the samples of a trajectory, over σ: given p, the data determine x₀ with covariance `B = (K₀ᵀK₀)⁻¹`, and it moves
with p by `R = -B K₀ᵀ K_p`. Hence

    Cov(p, x₀) = [[C_p, C_p Rᵀ], [R C_p, B + R C_p Rᵀ]],     Var x(t) = K(t) Cov K(t)ᵀ     (delta method)

and the band is `x(t) ± z √Var`, in working coordinates, so that a log-normal state stays positive. Where solutions bend
too much for that, the band lies between quantiles of solutions: from fits to data drawn again from the fitted states
(the parametric bootstrap, for method "wendy"), which follow a curved valley and stay inside the bounds; else from
normal draws of (p, x₀) inside the bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.matching import inputs_of, system_of
from ..forward.solve import simulate
from ..linalg.symmetric import symmetric_inverse
from ..support.checks import is_whole
from ..support.errors import DataError, FitError
from ..support.typing import FloatArray
from .intervals import Refit, can_refit

if TYPE_CHECKING:
    from .result import FitResult

DRAWS, REFITS, PROBES, BENT, FINE = 400, 120, 6, 0.25, 400
MAX_SAMPLES = 5000
"""Samples above which fitting again takes too long for a band."""
RTOL = 1e-9


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
        `"delta"` or `"sampling"`.
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


def numbered(fit: FitResult, trajectory: int | str) -> int:
    """The number of a trajectory that is given by its number or its label."""
    labels = [q.label for q in fit.data.trajectories]
    if isinstance(trajectory, str) and trajectory in labels:
        return labels.index(trajectory)
    if not is_whole(trajectory, 0) or int(trajectory) >= len(labels):
        known = f" ({', '.join(labels[:10])})" if len(labels) > 1 else ""
        raise FitError(f"There are {len(labels)} trajectories{known}; received number {trajectory!r}.")
    return int(trajectory)


@np.errstate(all="ignore")
def predict(
    fit: FitResult,
    times: ArrayLike,
    *,
    trajectory: int | str = 0,
    initial: ArrayLike | Mapping[str, float] | None = None,
    level: float = 0.95,
    kind: str = "auto",
    seed: int = 0,
) -> Prediction:
    """See `FitResult.predict`."""
    z = fit.quantile(level)
    if kind not in ("auto", "delta", "sampling"):
        raise FitError(f"The kind of band must be 'auto', 'delta' or 'sampling'; received {kind!r}.")
    trajectory = numbered(fit, trajectory)
    grid = _grid(times)
    begin = float(fit.data.trajectories[trajectory].times[0])
    if initial is None:
        if grid[0] < begin:
            raise DataError(
                f"The trajectory begins at t = {begin:g}; a prediction from its fitted initial state cannot go back to "
                f"t = {grid[0]:g}. Give initial=[...], the state at the first of the times."
            )
        mean, covariance = _joint(fit, trajectory)
    else:
        begin = float(grid[0])
        mean, covariance = _known(fit, initial)
    band = _Band(fit, trajectory, grid, begin, mean, covariance)
    return band.prediction(level, z, kind, seed)


@np.errstate(all="ignore")
def forward(fit: FitResult, trajectory: int) -> FloatArray:
    """The forward solution at the samples of a trajectory, `(time, D)`; NaN from where it fails."""
    q = fit.data.trajectories[trajectory]
    inputs = inputs_of(fit.model, fit.data, trajectory)
    model, initial = fit.model.of(trajectory), fit.denoised[trajectory][0]
    return simulate(model, fit.estimate, initial, q.times, inputs=inputs, rtol=RTOL).states


def follows(fit: FitResult, trajectory: int) -> bool:
    """Whether the forward solution stays with the fitted states: a chaotic one leaves them."""
    solved, fitted = forward(fit, trajectory), fit.denoised[trajectory]
    spread = np.sqrt(np.mean((fitted - fitted.mean(axis=0)) ** 2, axis=0))
    with np.errstate(invalid="ignore"):
        return bool((np.sqrt(np.mean((solved - fitted) ** 2, axis=0)) <= 0.25 * spread).all())


def fine_grid(fit: FitResult, trajectory: int) -> FloatArray:
    """The samples and points between them, a few hundred in all."""
    times = fit.data.trajectories[trajectory].times
    between = max(1, FINE // len(times))
    parts = times[:-1, None] + np.diff(times)[:, None] * np.arange(between) / between
    return np.append(parts.ravel(), times[-1])


def _grid(times: ArrayLike) -> FloatArray:
    try:
        grid = np.atleast_1d(np.array(times, dtype=float))
    except (TypeError, ValueError):
        raise DataError(f"The times must be numbers; received {times!r}.") from None
    if grid.ndim != 1 or not len(grid) or not np.isfinite(grid).all() or (np.diff(grid) <= 0).any():
        raise DataError("The times of a prediction must be finite and increase.")
    return grid


def _parameters(fit: FitResult) -> FloatArray:
    """C_p, zero for parameters that are fixed or at a bound."""
    return np.nan_to_num(fit.covariance, nan=0.0, posinf=0.0, neginf=0.0)


def _known(fit: FitResult, initial: ArrayLike | Mapping[str, float]) -> tuple[FloatArray, FloatArray]:
    D, J = len(fit.model.states), len(fit.model.parameters)
    values = [initial.get(name, np.nan) for name in fit.model.states] if isinstance(initial, Mapping) else initial
    try:
        u0 = np.atleast_1d(np.array(values, dtype=float))
    except (TypeError, ValueError):
        u0 = np.array([np.nan])
    if u0.shape != (D,) or not np.isfinite(u0).all():
        raise DataError(f"The initial state must be {D} numbers ({', '.join(fit.model.states)}); received {initial!r}.")
    covariance = np.zeros((J + D, J + D))
    covariance[:J, :J] = _parameters(fit)
    return np.concatenate([fit.estimate, u0]), covariance


def _joint(fit: FitResult, trajectory: int) -> tuple[FloatArray, FloatArray]:
    """Parameters and the fitted initial state, with their covariance in (p, x₀)."""
    q, u = fit.data.trajectories[trajectory], fit.denoised[trajectory]
    D, J = len(fit.model.states), len(fit.model.parameters)
    C = _parameters(fit)
    mean = np.concatenate([fit.estimate, u[0]])
    covariance = np.zeros((J + D, J + D))
    system = system_of(fit.model, fit.data, trajectory)
    solved = simulate(
        fit.model.of(trajectory),
        fit.estimate,
        u[0],
        q.times,
        inputs=system.inputs,
        sensitivities=True,
        rtol=RTOL,
    )
    if not solved.success or solved.by_parameters is None or solved.by_initial is None:
        raise FitError(f"The fitted model could not be solved over the data: {solved.status.value}.")
    sigma = np.where(fit.sigma > 0, fit.sigma, 1.0)
    weight = np.where(q.measured, 1 / (sigma * q.scales), 0.0)[:, :, None]
    by_x0 = solved.by_initial @ system.slopes(u[:1])[0]
    K0, Kp = (
        (system.per_slope(solved.states, K) * weight).reshape(len(q.times) * D, -1)
        for K in (by_x0, solved.by_parameters)
    )
    B = symmetric_inverse(K0.T @ K0)
    R = -B @ (K0.T @ Kp)
    covariance[:J, :J] = C
    covariance[J:, :J] = R @ C
    covariance[:J, J:] = covariance[J:, :J].T
    covariance[J:, J:] = R @ C @ R.T + (B if (fit.sigma > 0).all() else 0.0)
    return mean, covariance


class _Band:
    """Solutions from draws of (p, x₀) around their mean."""

    def __init__(
        self,
        fit: FitResult,
        trajectory: int,
        times: FloatArray,
        begin: float,
        mean: FloatArray,
        covariance: FloatArray,
    ) -> None:
        self.fit, self.times, self.mean, self.covariance = fit, times, mean, covariance
        self.J = len(fit.model.parameters)
        self.grid = times if times[0] == begin else np.concatenate([[begin], times])
        self.trajectory = trajectory
        self.model, self.system = fit.model.of(trajectory), system_of(fit.model, fit.data, trajectory)

    def prediction(self, level: float, z: float, kind: str, seed: int) -> Prediction:
        fit, n = self.fit, len(self.times)
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
        x = self._working(states)
        with np.errstate(all="ignore"):
            # Where a state is zero, as at a known start, it has no logarithm, and no band.
            K = np.nan_to_num(self.system.per_slope(states, K), posinf=0.0, neginf=0.0)
        variance = np.einsum("tdi,ij,tdj->td", K, self.covariance, K)
        half = z * np.sqrt(np.maximum(variance, 0.0))
        lower, upper, note = x - half, x + half, self._note()
        if kind == "sampling" or (kind == "auto" and self._bent(x, K, half)):
            kind = "sampling"
            lower, upper, lost = self._sampled(level, seed)
            if lost:
                note = f"{note} {lost:.0%} of the draws could not be solved over these times.".strip()
        else:
            kind = "delta"
            lower, upper = self._back(lower), self._back(upper)
            if self.system.mix is not None:
                half = z * np.sqrt(np.maximum(self._variance(states, K), 0.0))
                lower, upper = states - half, states + half
        if not self.covariance[self.J :, self.J :].any() and self.times[0] == self.grid[0]:
            lower[0] = upper[0] = states[0]
        return Prediction(self.times, states, lower, upper, fit.model.states, level, kind=kind, note=note)

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
        lowest = [kind.lowest + (0.0 if kind.closed else np.finfo(float).tiny) for kind in self.system.kinds]
        with np.errstate(all="ignore"):
            return self.system.to_working(np.maximum(u, lowest))

    def _back(self, x: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):
            return self.system.from_working(x)

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
        return self._working(solved.states[-len(self.times) :]) if solved.success else None

    def _factor(self) -> FloatArray:
        """A square root of the covariance; columns are its principal directions, the largest first."""
        scale = np.sqrt(np.maximum(self.covariance.diagonal(), 0.0))
        unit = np.where(scale > 0, scale, 1.0)
        w, V = np.linalg.eigh(self.covariance / np.outer(unit, unit))
        return np.asarray((V * np.sqrt(np.maximum(w, 0.0)))[:, ::-1] * unit[:, None])

    def _bent(self, x: FloatArray, K: FloatArray, half: FloatArray) -> bool:
        """Whether solutions one standard deviation off along principal directions leave the tangent too far."""
        factor = self._factor()
        wide = half.max(axis=0) > 0
        for column in factor.T[:PROBES]:
            if not column.any():
                continue
            for sign in (1.0, -1.0):
                solved = self._solved(sign * column)
                if solved is None:
                    return True
                off = np.abs(solved - x - sign * (K @ column))
                if (off[:, wide] > BENT * half.max(axis=0)[wide]).any():
                    return True
        return False

    def _sampled(self, level: float, seed: int) -> tuple[FloatArray, FloatArray, float]:
        """Quantiles of solutions, and the share that could not be had."""
        fit, known = self.fit, not self.covariance[self.J :, self.J :].any()
        again = can_refit(fit) and fit.data.samples <= MAX_SAMPLES and not known
        draws = self._refitted(seed) if again else self._normal(seed)
        found = [x for x in draws if x is not None]
        wanted = REFITS if again else DRAWS
        if len(found) < wanted / 2:
            blank = np.full((len(self.times), self.system.D), np.nan)
            return blank, blank, 1 - len(found) / wanted
        # Of the states themselves: ends in rotated coordinates would not be theirs.
        lower, upper = np.quantile([self._back(x) for x in found], [0.5 - level / 2, 0.5 + level / 2], axis=0)
        return lower, upper, 1 - len(found) / wanted

    def _refitted(self, seed: int) -> Iterator[FloatArray | None]:
        refit = Refit(self.fit)
        for k in range(REFITS):
            solved = refit.drawn(np.random.default_rng([seed, 4, k]))
            if solved is None:
                yield None
                continue
            moved = solved.states[self.trajectory][0] - self._working(self.mean[None, self.J :])[0]
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
