"""The posterior density of a fit, in coordinates in which it is nearly normal.

    log π(θ) = -½ Σ r²/σ² + log prior,        θ = (free parameters, initial values that are not given)

on the scale of each parameter, flat inside its bounds if it has no prior. σ of a column of n values with sum of squared
residuals R is integrated out under a prior that is flat in log σ: `-½ n log R` replaces `-½ R/σ²`, and given θ it is
drawn as `σ² = R/χ²_n`.

In θ such densities are strongly curved: a step that is small compared with the errors of the parameters may move the
end of a trajectory arbitrarily far. As functions of the residuals they are nearly normal. The Jacobian J holds the
derivatives of the residuals r with respect to θ at the estimate, divided by σ, and a row for each prior and for each
bounded parameter. With Q an orthonormal basis of its columns the coordinates are `z = Qᵀ r(θ)`: in them

    log π(z) = log π(θ(z)) - log |det Qᵀ J(θ)| = -½ |z|² + the effects of curvature, bounds and priors.

θ(z) is computed by Newton steps on the mesh, for parameters and states simultaneously
(`collocation.mesh_sensitivities`), starting from the estimate: `Qᵀ(r + J δθ) = z`. In the terms of Bates and Watts
these coordinates remove the parameter-effects curvature; the intrinsic curvature remains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..collocation.mesh_sensitivities import LinearisedSolutions, MeshSensitivities
from ..data.event_schedule import describe_unknown_times
from ..estimators.forward_residuals import PartlyObservedResiduals
from ..noise.kinds import KINDS
from ..parameters.working_scale import WorkingScale
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .fitted_states import get_initial_state

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MIN_INTERVALS_PER_SAMPLE = 2
"""Least number of mesh intervals between two samples for the mesh of a fit to be used unchanged. By judgement."""
MAX_MESHES_TRIED = 5
"""Number of meshes that are tried, each twice as fine as the previous one; if none is fine enough, no draws are made.
By judgement."""
MAX_MESH_ERROR = 0.02
"""Change of a residual by the mesh, in units of σ, above which the mesh is halved. Smaller changes do not show beside
the noise. By judgement."""
DIVERGED_STEP = 1e3
"""Newton step of the states, in units of each state's size, above which the iteration on a mesh counts as diverged. By
judgement."""
REFERENCE_TOLERANCE = 1e-8
"""Relative tolerance of the forward solution to which the one on the mesh is compared: far below `MAX_MESH_ERROR`. By
judgement."""
MAX_NEWTON_STEPS = 60
"""Largest number of Newton steps to one point z or on one mesh; a point that needs more counts as lost. By
judgement."""
CONVERGED_STEP = 1e-4
"""Step of the states, in units of each state's size, below which the Newton step is the last: convergence is quadratic,
so that the next one would be about the square of it. By judgement."""
LONGEST_STEP = 0.2
"""Step of the states, in units of each state's size, above which a Newton step is shortened: the linearisation does not
reach farther. By judgement."""
MIN_SINGULAR_SHARE = 1e-7
"""Share of the largest singular value of J, its columns scaled to one length, below which a direction is not determined
and the posterior has no end along it. By judgement."""
MIN_WEIGHT_IN_DIRECTION = 0.3
"""Component of a parameter in that direction, of length one, above which the error message names it. By judgement."""
MIN_TAIL_DEGREES = 3.0
"""Least degrees of freedom of the reference density: with 2 or fewer Student's t has no finite variance."""
NORMAL_TAIL_DEGREES = 50.0
"""Degrees of freedom at which Student's t counts as normal. By judgement."""
MAX_UNKNOWNS = 1000
"""Largest number of unknowns (parameters and initial values); with more, the dense matrices of each step cost too much.
By judgement."""
TINY_POSITIVE = 1e-300
"""Added to zero, or put in its place, so that no division or logarithm fails; far below every size that occurs."""


@dataclass(frozen=True)
class DensityPoint:
    """The density at a point.

    Attributes
    ----------
    log : float
        Its logarithm in the coordinates z, up to a constant.
    theta : ndarray, (d,)
        The point, on the scale of each parameter.
    squares : ndarray, (groups,)
        Sum of squared residuals of each noise level, in units of the fit's σ².
    """

    log: float
    theta: FloatArray
    squares: FloatArray


class PosteriorDensity:
    """The posterior density of a fit, in coordinates in which it is nearly normal.

    Parameters
    ----------
    fit : FitResult
        Converged, with gaussian or log-normal noise.

    Attributes
    ----------
    estimate : ndarray, (d,)
        θ at the estimate: F free parameters on their scale, then B fitted initial values for each of T trajectories.
    base : ndarray, (J,)
        All parameters at the estimate, on their scale.
    low, high : ndarray, (F,)
        Bounds of the free parameters, on their scale.
    Q : ndarray, (rows, d)
        The basis that defines the coordinates z.
    """

    def __init__(self, fit: FitResult) -> None:
        _check_fit(fit)
        assert fit.shared is not None
        assert fit.index is not None
        self.fit, data = fit, fit.data
        self.scale = WorkingScale(fit.log_scale)
        self.problem = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, data, fit.sigma, fit.log_scale)
        self.free, self.given = ~fit.fixed, self.problem.functions.given_initial
        self.F, self.B, self.T = int(self.free.sum()), int((~self.given).sum()), len(data.trajectories)
        self.base = self.scale.to_working(fit.estimate)
        self.prior = None if fit.prior is None else fit.prior.convert_to_scale(self.scale)
        low, high = (self.scale.to_working(fit.bounds[:, end])[self.free] for end in (0, 1))
        self.low, self.high = low, high
        # Bounds on both sides act as a uniform prior; each parameter with such bounds gets its own row in the Jacobian.
        self.narrow = np.flatnonzero(np.isfinite(high - low) & (high > low))
        begin = np.array([get_initial_state(fit, k)[1][~self.given] for k in range(self.T)]).reshape(self.T, self.B)
        self.estimate = np.concatenate([self.base[self.free], begin.ravel()])
        if len(self.estimate) > MAX_UNKNOWNS:
            raise FitError(
                f"Draws are limited to {MAX_UNKNOWNS} unknowns; this fit has {len(self.estimate)}. "
                "Use intervals(kind='profile')."
            )
        meshes = tuple(times for times, _ in fit.nodes) if _has_fine_mesh(fit) else self.problem.build_meshes()
        for _ in range(MAX_MESHES_TRIED):
            if self._solve_on_mesh(meshes, begin):
                break
            meshes = tuple(_halve_mesh(mesh) for mesh in meshes)
        else:
            raise FitError(
                "No draws can be made: no mesh is fine enough for this model. Use intervals(kind='profile')."
            )
        self._assign_noise_levels()
        self.Q = self._compute_basis()

    def _solve_on_mesh(self, meshes: tuple[FloatArray, ...], begin: FloatArray) -> bool:
        """Solve the model at the estimate on a mesh; return True if the mesh is fine enough for the data.

        It is if the residuals agree with those of an accurate forward solution.

        Parameters
        ----------
        meshes : tuple of ndarray
            Nodes of each trajectory.
        begin : ndarray, (T, B)
            The fitted initial values of each trajectory.
        """
        latent = PartlyObservedResiduals(self.problem, REFERENCE_TOLERANCE, meshes=meshes).solve_on_mesh(
            self.base, tuple(begin)
        )
        if latent is None:
            raise FitError("No draws can be made: the fitted model cannot be solved from its estimate.")
        self.meshed = MeshSensitivities(self.problem.build_relaxed_model(meshes, self.fit.sigma, self.free))
        exact, self.X = self.meshed.relaxed.compute_residual(self.base, latent.point.X), latent.point.X
        for _ in range(MAX_NEWTON_STEPS):
            moving = self.meshed.linearise_solutions(self.base, self.X)
            if moving is None or not self._measure_step(moving.step) < DIVERGED_STEP:
                return False
            self.X = self.X + moving.step
            if self._measure_step(moving.step) < CONVERGED_STEP:
                return bool(np.abs(moving.residuals - exact).max() < MAX_MESH_ERROR)
        return False

    def _assign_noise_levels(self) -> None:
        """Assign each value to a noise level, and count the values of each level and the squares of its repeats.

        There is one level for each column, or with `own_noise` one for each column of each trajectory.
        """
        data, own, layout = self.fit.data, self.fit.data.own_noise, self.meshed.relaxed.layout
        measured = layout.weight > 0
        columns = np.broadcast_to(np.arange(data.D), measured.shape)
        self.group = columns + (data.D * layout.trajectory[layout.sampled][:, None] if own else 0)
        groups = data.D * (self.T if own else 1)
        self.counts = np.bincount(self.group[measured], minlength=groups).astype(float)
        self.within = np.zeros(groups)
        for k, q in enumerate(data.trajectories):
            if q.within is not None and q.repeats is not None:
                part = slice(data.D * k, data.D * (k + 1)) if own else slice(None)
                self.within[part] += q.within / self.fit.sigma**2
                self.counts[part] += q.repeats

    def _measure_step(self, step: FloatArray) -> float:
        """Return the largest change of a state in a step `(N, D)`, in units of the state's size."""
        return float(np.max(np.abs(step) / (np.abs(self.X).max(axis=0) + TINY_POSITIVE)))

    def _expand_parameters(self, theta: FloatArray) -> FloatArray:
        """Return all parameters `(J,)` on their scale, the free ones from theta `(d,)`."""
        p = self.base.copy()
        p[self.free] = theta[: self.F]
        return p

    def _stack_residuals(self, theta: FloatArray, moving: LinearisedSolutions) -> tuple[FloatArray, FloatArray]:
        """Return all residuals `(rows,)`, with those of priors and bounds, and their Jacobian `(rows, d)`."""
        d = len(theta)
        r, J = [moving.residuals.ravel()], [self.meshed.expand_jacobian(moving)]
        if self.prior is not None:
            p, more = self._expand_parameters(theta), np.zeros((len(self.prior.index), d))
            more[:, : self.F] = self.prior.jacobian(p)[:, self.free]
            r, J = [*r, self.prior.compute_residuals(p)[0]], [*J, more]
        # A uniform prior between two bounds has the variance width²/12.
        unit = np.sqrt(12) / (self.high - self.low)[self.narrow]
        more = np.zeros((len(unit), d))
        more[np.arange(len(unit)), self.narrow] = unit
        middle = 0.5 * (self.low[self.narrow] + self.high[self.narrow])
        return np.concatenate([*r, unit * (theta[self.narrow] - middle)]), np.concatenate([*J, more])

    def _compute_basis(self) -> FloatArray:
        """Compute Q, `(rows, d)`; raise if the posterior has no end along some direction."""
        moving = self.meshed.linearise_solutions(self.base, self.X)
        assert moving is not None
        self.first = moving
        _, J = self._stack_residuals(self.estimate, moving)
        size = np.linalg.norm(J, axis=0)
        size = np.where(size > 0, size, 1.0)
        _, values, vectors = np.linalg.svd(J / size, full_matrices=False)
        if values[-1] < MIN_SINGULAR_SHARE * values[0]:
            names = self.list_names()
            unlimited = [names[j] for j in np.flatnonzero(np.abs(vectors[-1]) > MIN_WEIGHT_IN_DIRECTION)]
            raise FitError(
                f"The posterior has no end along {', '.join(unlimited) or names[0]}: neither the data nor bounds or "
                "priors limit this direction. Give bounds, a prior, or fix one of them, and fit again."
            )
        return np.asarray(np.linalg.qr(J)[0])

    def evaluate(self, z: FloatArray) -> DensityPoint | None:
        """Evaluate the density at z `(d,)`; None if the Newton steps to θ(z) do not converge."""
        theta, X = self.estimate, self.X
        trajectory = self.meshed.relaxed.layout.trajectory
        # The first step is always from the estimate, so that its linearisation is computed once.
        moving: LinearisedSolutions | None = self.first
        for _ in range(MAX_NEWTON_STEPS):
            if moving is None:
                return None
            r, J = self._stack_residuals(theta, moving)
            try:
                step = np.linalg.solve(self.Q.T @ J, z - self.Q.T @ r)
            except np.linalg.LinAlgError:
                return None
            # Each trajectory moves with the shared parameters and with its own initial values.
            own = np.concatenate(
                [np.broadcast_to(step[: self.F], (self.T, self.F)), step[self.F :].reshape(self.T, self.B)], axis=1
            )
            moved = moving.step + np.einsum("ndf,nf->nd", moving.states, own[trajectory])
            size = self._measure_step(moved)
            if not math.isfinite(size):
                return None
            share = min(1.0, LONGEST_STEP / max(size, TINY_POSITIVE))
            theta, X = theta + share * step, X + share * moved
            if size < CONVERGED_STEP:
                # r + J δθ is linearised, and exact up to the square of this last step.
                return self._evaluate_density(theta, r + J @ step, J)
            moving = self.meshed.linearise_solutions(self._expand_parameters(theta), X)
        return None

    def _evaluate_density(self, theta: FloatArray, r: FloatArray, J: FloatArray) -> DensityPoint:
        """Evaluate the density at theta `(d,)`, zero beyond bounds, from residuals and Jacobian there."""
        free = theta[: self.F]
        if (free < self.low).any() or (free > self.high).any():
            return DensityPoint(-math.inf, theta, self.within)
        # Rows of priors and bounds come last, and are no residuals of data.
        of_data = r[: self.group.size]
        squares = np.bincount(self.group.ravel(), of_data * of_data, minlength=len(self.counts)) + self.within
        value = -0.5 * float(squares.sum())
        if self.fit.sigma_estimated:
            # σ is integrated out: -½ n log R in place of -½ R/σ².
            value = -0.5 * float(self.counts @ np.log(np.maximum(squares, TINY_POSITIVE)))
        if self.prior is not None:
            value += self.prior.log_density(self._expand_parameters(theta))
        # The determinant of dz/dθ converts the density from θ to z.
        sign, volume = np.linalg.slogdet(self.Q.T @ J)
        return DensityPoint(value - float(volume) if sign != 0 else -math.inf, theta, squares)

    @property
    def tail_degrees(self) -> float:
        """Degrees of freedom of the reference density: if σ is estimated it is Student's, as in linear regression."""
        freedom = float(self.counts.sum()) - len(self.estimate)
        return (
            min(max(freedom, MIN_TAIL_DEGREES), NORMAL_TAIL_DEGREES)
            if self.fit.sigma_estimated
            else NORMAL_TAIL_DEGREES
        )

    def list_names(self) -> list[str]:
        """List the names of the components of θ: free parameters, then fitted initial values."""
        fit = self.fit
        names = [name for name, free in zip(fit.model.parameters, self.free, strict=True) if free]
        for q in fit.data.trajectories:
            end = f" of {q.label}" if self.T > 1 else ""
            names += [
                f"{state}(0){end}" for state, is_given in zip(fit.model.states, self.given, strict=True) if not is_given
            ]
        return names

    def convert_to_natural(self, theta: FloatArray) -> FloatArray:
        """Convert draws of θ `(..., d)` from the scale of each parameter to its values."""
        log = np.append(self.fit.log_scale[self.free], np.zeros(self.T * self.B, dtype=bool))
        return np.where(log, np.exp(np.where(log, theta, 0.0)), theta)

    def draw_noise_levels(self, squares: FloatArray, rng: np.random.Generator) -> tuple[list[str], FloatArray]:
        """Draw the noise levels given the squares `(..., groups)`; nothing if σ is given.

        Returns
        -------
        names : list of str
            Such as `sigma x`.
        draws : ndarray, (..., groups)
        """
        fit = self.fit
        if not fit.sigma_estimated:
            return [], np.empty((*squares.shape[:-1], 0))
        names, size = [f"sigma {label}" for label in fit.data.labels], fit.sigma
        if fit.data.own_noise:
            names = [f"{name} of {q.label}" for q in fit.data.trajectories for name in names]
            size = np.concatenate([fit.sigma * np.median(q.scales, axis=0) for q in fit.data.trajectories])
        return names, size * np.sqrt(squares / rng.chisquare(self.counts, size=squares.shape))


def _check_fit(fit: FitResult) -> None:
    """Raise if no posterior can be drawn from a fit, with the reason and what to use instead."""
    for kind in fit.data.noise:
        if KINDS[kind].weigh is not None or KINDS[kind].density is not None:
            raise FitError(
                f"Draws are made for gaussian and lognormal noise only; these data have {kind!r}. "
                "Use intervals(kind='profile') or intervals(kind='bootstrap')."
            )
    if fit.data.covariance is not None:
        raise FitError(
            "Draws are not made for noise that is correlated between states; give sigma in place of covariance."
        )
    if fit.covariance_kind.startswith("none") or not (fit.sigma > 0).all():
        raise FitError("Noise-free data have no posterior: they determine the estimate exactly.")
    if not fit.converged:
        raise FitError(f"Draws need a fit that has converged; this one has not: {fit.status.value}")
    if fit.shared is None or fit.index is None:
        raise FitError("This fit was saved by an older version, without the shared model that draws need; fit again.")
    if describe_unknown_times(fit.shared, len(fit.data.trajectories)):
        raise FitError(
            "Draws are not made for events at unknown times, since the likelihood has corners there; "
            "use intervals(kind='profile')."
        )


def _has_fine_mesh(fit: FitResult) -> bool:
    """Return True if the fit has states on a mesh that is finer than the samples."""
    pairs = zip(fit.nodes, fit.data.trajectories, strict=False)
    return bool(fit.nodes) and all(
        len(times) > MIN_INTERVALS_PER_SAMPLE * (len(q.times) - 1) for (times, _), q in pairs
    )


def _halve_mesh(mesh: FloatArray) -> FloatArray:
    """Return a mesh with twice as many intervals; the two nodes of a jump stay two."""
    intervals = np.flatnonzero(np.diff(mesh) > 0)
    return np.insert(mesh, intervals + 1, mesh[intervals] + np.diff(mesh)[intervals] / 2)
