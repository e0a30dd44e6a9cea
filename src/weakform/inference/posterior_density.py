"""The posterior density of a fit, in coordinates in which it is nearly normal.

    log π(θ) = -½ Σ r²/σ² + log prior,        θ = (free parameters, initial values that are not given)

on the scale of each parameter, flat inside its bounds where there is no prior. σ of a column of n values that leave the
squares R is integrated out under a prior that is flat in log σ: `-½ n log R` takes the place of `-½ R/σ²`, and given θ
it is drawn as `σ² = R/χ²_n`.

In θ such densities are bent: a step that is small beside the errors of the parameters may carry the end of a trajectory
anywhere. The residuals themselves bend little. With Q an orthonormal basis of the columns of their Jacobian J at the
estimate, over σ, and a row for each prior and for each bounded parameter, the coordinates are `z = Qᵀ r(θ)`: in them

    log π(z) = log π(θ(z)) - log |det Qᵀ J(θ)| = -½ |z|² + what curvature, bounds and priors change.

θ(z) is found by Newton steps on the mesh, parameters and states at once (`collocation.march`), from the estimate on:
`Qᵀ(r + J δθ) = z`. It is Bates and Watts' distinction: the curvature of parameters goes, the intrinsic one remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.hidden_state_problem import LatentProblem
from ..collocation.mesh_sensitivities import Meshed, Moving
from ..data.event_schedule import unknown_times
from ..estimators.forward_residuals import PartlySeen
from ..noise.kinds import KINDS
from ..parameters.working_scale import Scale
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .fitted_states import beginning

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

FINER, HALVINGS = 2, 5
"""Intervals between two samples at least, and how often they are halved at most."""
ROUGH, AWAY = 0.02, 1e3
"""What the mesh may change in a residual, in units of σ; and steps, in units of a state's size, that lead nowhere."""
TOLERANCE = 1e-8
"""Of the forward solution from which the one on the mesh is found."""
PASSES = 60
"""Newton steps at most."""
EXACT, FAR = 1e-4, 0.2
"""Steps of the states, in units of their size, below which one is the last, and above which it is cut."""
SINGULAR = 1e-7
"""Share of the largest singular value of J, each column on its own scale, below which one is nothing."""
THIN, NORMAL = 3.0, 50.0
"""Degrees of freedom at least, and where the posterior is normal."""
MOST = 1000
"""Unknowns at most."""


@dataclass(frozen=True)
class At:
    """The density at a point.

    Attributes
    ----------
    log : float
    theta : ndarray, (d,)
    squares : ndarray, (groups,)
        Σ r² of each noise level, over that of the fit.
    """

    log: float
    theta: FloatArray
    squares: FloatArray


class Target:
    """The posterior of a fit."""

    def __init__(self, fit: FitResult) -> None:
        _check(fit)
        assert fit.shared is not None
        assert fit.index is not None
        self.fit, data = fit, fit.data
        self.scale = Scale(fit.log_scale)
        self.problem = LatentProblem.of(fit.model, fit.shared, fit.index, data, fit.sigma, fit.log_scale)
        self.free, self.given = ~fit.fixed, self.problem.functions.given
        self.F, self.B, self.T = int(self.free.sum()), int((~self.given).sum()), len(data.trajectories)
        self.base = self.scale.working(fit.estimate)
        self.prior = None if fit.prior is None else fit.prior.on(self.scale)
        low, high = (self.scale.working(fit.bounds[:, end])[self.free] for end in (0, 1))
        self.low, self.high = low, high
        self.narrow = np.flatnonzero(np.isfinite(high - low) & (high > low))
        begin = np.array([beginning(fit, k)[1][~self.given] for k in range(self.T)]).reshape(self.T, self.B)
        self.estimate = np.concatenate([self.base[self.free], begin.ravel()])
        if len(self.estimate) > MOST:
            raise FitError(f"{len(self.estimate)} unknowns are too many to draw; use intervals(kind='profile').")
        meshes = tuple(times for times, _ in fit.nodes) if _is_fine(fit) else self.problem.meshes()
        for _ in range(HALVINGS):
            if self._on(meshes, begin):
                break
            meshes = tuple(_halved(mesh) for mesh in meshes)
        else:
            raise FitError(
                "Nothing can be drawn: no mesh is fine enough for this model; use intervals(kind='profile')."
            )
        self._levels()
        self.Q = self._basis()

    def _on(self, meshes: tuple[FloatArray, ...], begin: FloatArray) -> bool:
        """Solve on a mesh; whether that is the solution of the equations, as far as the data could tell."""
        latent = PartlySeen(self.problem, TOLERANCE, meshes=meshes).latent(self.base, tuple(begin))
        if latent is None:
            raise FitError("Nothing can be drawn: the fitted model cannot be solved from its estimate.")
        self.meshed = Meshed(self.problem.relaxed(meshes, self.fit.sigma, self.free))
        exact, self.X = self.meshed.relaxed.residual(self.base, latent.point.X), latent.point.X
        for _ in range(PASSES):
            moving = self.meshed.moving(self.base, self.X)
            if moving is None or not self._size(moving.step) < AWAY:
                return False
            self.X = self.X + moving.step
            if self._size(moving.step) < EXACT:
                return bool(np.abs(moving.residuals - exact).max() < ROUGH)
        return False

    def _levels(self) -> None:
        """Which noise level each value has, how many values each level has, and the squares of repeats."""
        data, own, layout = self.fit.data, self.fit.data.own_noise, self.meshed.relaxed.layout
        there = layout.weight > 0
        columns = np.broadcast_to(np.arange(data.D), there.shape)
        self.group = columns + (data.D * layout.trajectory[layout.sampled][:, None] if own else 0)
        groups = data.D * (self.T if own else 1)
        self.counts = np.bincount(self.group[there], minlength=groups).astype(float)
        self.within = np.zeros(groups)
        for k, q in enumerate(data.trajectories):
            if q.within is not None and q.repeats is not None:
                part = slice(data.D * k, data.D * (k + 1)) if own else slice(None)
                self.within[part] += q.within / self.fit.sigma**2
                self.counts[part] += q.repeats

    def _size(self, step: FloatArray) -> float:
        return float(np.max(np.abs(step) / (np.abs(self.X).max(axis=0) + 1e-300)))

    def _parameters(self, theta: FloatArray) -> FloatArray:
        """All parameters in working coordinates."""
        p = self.base.copy()
        p[self.free] = theta[: self.F]
        return p

    def _rows(self, theta: FloatArray, moving: Moving) -> tuple[FloatArray, FloatArray]:
        """All residuals `(rows,)`, those of priors and of bounds among them, and their Jacobian `(rows, d)`."""
        d = len(theta)
        r, J = [moving.residuals.ravel()], [self.meshed.spread(moving)]
        if self.prior is not None:
            p, more = self._parameters(theta), np.zeros((len(self.prior.index), d))
            more[:, : self.F] = self.prior.jacobian(p)[:, self.free]
            r, J = [*r, self.prior.rows(p)[0]], [*J, more]
        # A uniform prior between two bounds has the variance of width²/12.
        unit = np.sqrt(12) / (self.high - self.low)[self.narrow]
        more = np.zeros((len(unit), d))
        more[np.arange(len(unit)), self.narrow] = unit
        middle = 0.5 * (self.low[self.narrow] + self.high[self.narrow])
        return np.concatenate([*r, unit * (theta[self.narrow] - middle)]), np.concatenate([*J, more])

    def _basis(self) -> FloatArray:
        """Q, `(rows, d)`."""
        moving = self.meshed.moving(self.base, self.X)
        assert moving is not None
        self.first = moving
        _, J = self._rows(self.estimate, moving)
        size = np.linalg.norm(J, axis=0)
        size = np.where(size > 0, size, 1.0)
        _, values, vectors = np.linalg.svd(J / size, full_matrices=False)
        if values[-1] < SINGULAR * values[0]:
            names = self.names()
            loose = [names[j] for j in np.flatnonzero(np.abs(vectors[-1]) > 0.3)]
            raise FitError(
                f"The posterior has no end along {', '.join(loose) or names[0]}: the data do not determine them, and "
                "neither bounds nor priors do. Give bounds, a prior, or fix one of them, and fit again."
            )
        return np.asarray(np.linalg.qr(J)[0])

    def at(self, z: FloatArray) -> At | None:
        """The density in the coordinates z `(d,)`; None where θ(z) cannot be found."""
        theta, X = self.estimate, self.X
        trajectory = self.meshed.relaxed.layout.trajectory
        moving: Moving | None = self.first  # the first step is always from the estimate
        for _ in range(PASSES):
            if moving is None:
                return None
            r, J = self._rows(theta, moving)
            try:
                step = np.linalg.solve(self.Q.T @ J, z - self.Q.T @ r)
            except np.linalg.LinAlgError:
                return None
            own = np.concatenate(
                [np.broadcast_to(step[: self.F], (self.T, self.F)), step[self.F :].reshape(self.T, self.B)], axis=1
            )
            moved = moving.step + np.einsum("ndf,nf->nd", moving.states, own[trajectory])
            size = self._size(moved)
            if not math.isfinite(size):
                return None
            share = min(1.0, FAR / max(size, 1e-300))
            theta, X = theta + share * step, X + share * moved
            if size < EXACT:
                return self._told(theta, r + J @ step, J)
            moving = self.meshed.moving(self._parameters(theta), X)
        return None

    def _told(self, theta: FloatArray, r: FloatArray, J: FloatArray) -> At:
        inside = theta[: self.F]
        if (inside < self.low).any() or (inside > self.high).any():
            return At(-math.inf, theta, self.within)
        seen = r[: self.group.size]
        squares = np.bincount(self.group.ravel(), seen * seen, minlength=len(self.counts)) + self.within
        value = -0.5 * float(squares.sum())
        if self.fit.sigma_estimated:
            value = -0.5 * float(self.counts @ np.log(np.maximum(squares, 1e-300)))
        if self.prior is not None:
            value += self.prior.log_density(self._parameters(theta))
        sign, volume = np.linalg.slogdet(self.Q.T @ J)
        return At(value - float(volume) if sign != 0 else -math.inf, theta, squares)

    @property
    def tail(self) -> float:
        """Degrees of freedom of the posterior: Student's where σ is estimated, as in linear regression."""
        left = float(self.counts.sum()) - len(self.estimate)
        return min(max(left, THIN), NORMAL) if self.fit.sigma_estimated else NORMAL

    def names(self) -> list[str]:
        """Of what θ is made of."""
        fit = self.fit
        names = [name for name, free in zip(fit.model.parameters, self.free, strict=True) if free]
        for q in fit.data.trajectories:
            end = f" of {q.label}" if self.T > 1 else ""
            names += [
                f"{state}(0){end}" for state, known in zip(fit.model.states, self.given, strict=True) if not known
            ]
        return names

    def natural(self, theta: FloatArray) -> FloatArray:
        """Draws `(..., d)` as people see them."""
        log = np.append(self.fit.log_scale[self.free], np.zeros(self.T * self.B, dtype=bool))
        return np.where(log, np.exp(np.where(log, theta, 0.0)), theta)

    def noise(self, squares: FloatArray, rng: np.random.Generator) -> tuple[list[str], FloatArray]:
        """Names of the noise levels and a draw of each, `(..., groups)`, given the squares; none where σ is given."""
        fit = self.fit
        if not fit.sigma_estimated:
            return [], np.empty((*squares.shape[:-1], 0))
        names, size = [f"sigma {label}" for label in fit.data.labels], fit.sigma
        if fit.data.own_noise:
            names = [f"{name} of {q.label}" for q in fit.data.trajectories for name in names]
            size = np.concatenate([fit.sigma * np.median(q.scales, axis=0) for q in fit.data.trajectories])
        return names, size * np.sqrt(squares / rng.chisquare(self.counts, size=squares.shape))


def _check(fit: FitResult) -> None:
    for kind in fit.data.noise:
        if KINDS[kind].weigh is not None or KINDS[kind].density is not None:
            raise FitError(
                f"Draws are made for gaussian and lognormal noise; these data have {kind!r}. "
                "Use intervals(kind='profile') or intervals(kind='bootstrap')."
            )
    if fit.data.covariance is not None:
        raise FitError("Draws are not made where the noise of states is correlated; give sigma in place of covariance.")
    if fit.covariance_kind.startswith("none") or not (fit.sigma > 0).all():
        raise FitError("Noise-free data have no posterior: there is nothing to be uncertain of.")
    if not fit.converged:
        raise FitError(f"There is nothing to draw from: {fit.status.value}")
    if fit.shared is None or fit.index is None:
        raise FitError("This fit was saved by an older version, without all that draws need; fit again.")
    if unknown_times(fit.shared, len(fit.data.trajectories)):
        raise FitError(
            "Draws are not made where something happens at an unknown time, since the likelihood has corners there; "
            "use intervals(kind='profile')."
        )


def _is_fine(fit: FitResult) -> bool:
    """Whether the fit has states on a mesh that is finer than the samples."""
    pairs = zip(fit.nodes, fit.data.trajectories, strict=False)
    return bool(fit.nodes) and all(len(times) > FINER * (len(q.times) - 1) for (times, _), q in pairs)


def _halved(mesh: FloatArray) -> FloatArray:
    """Twice as many intervals; two nodes where states jump stay two."""
    long = np.flatnonzero(np.diff(mesh) > 0)
    return np.insert(mesh, long + 1, mesh[long] + np.diff(mesh)[long] / 2)
