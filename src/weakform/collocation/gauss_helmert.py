"""Gauss–Helmert iteration on the collocation constraint (see `mesh` for the equations).

Unless σ is given, it is estimated from the residuals, again after each step once the states have settled. A step is
safeguarded by the exact penalty function

    ½ Σ (x^data - x)²/v + Σ log σ + μ ‖c(p, x)‖_{S⁻¹},     μ >= 2 ‖z‖_S.

A step that moves the states by less than half of their noise is taken whole. If several of these bring no decrease, the
iteration returns to the best point (`watchdog`: along a curved constraint good steps may increase the penalty for a
while, the more so the longer the series). For any other step the states are moved back onto the constraint, or the step
is halved, until the penalty function decreases. An active set keeps the parameters inside their box.

Along a direction that the data do not determine, the iteration would run away. If a parameter has moved by more than
`RUNAWAY_ERRORS` of its first standard errors, and by more than its start, the iteration is repeated with the direction
of least information held. A third run from there releases the direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..linalg.blas_threads import use_single_thread
from ..linalg.symmetric_matrix import NotPositiveDefinite, decompose_scaled_matrix, invert_symmetric
from ..optimize import Stop, never_stop
from ..optimize.step_rules import STEP_FAILURES, TrustRegion
from ..support.array_types import FloatArray
from .mesh import Mesh
from .watchdog import MAX_STEPS_WITHOUT_DECREASE, PENALTY_SLACK, GaussHelmertStep, Watchdog

RUNAWAY_ERRORS = 20.0
"""Distance from the start, in standard errors, beyond which a parameter runs away.

It must also have moved by more than its absolute value at the start, because standard errors are very small in long
series. A smaller value holds directions that the data determine; a larger one costs steps. By judgement.
"""
MAX_DRIFT_OF_WHOLE_STEP = 0.5
"""Root mean square change of the states, in σ, up to which a step is taken whole.

After a longer step, which a search may shorten, σ is not updated (docs/method.md, step 2). By judgement.
"""
SIGMA_TOLERANCE = 1e-3
"""Relative change of σ below which it has converged. By judgement."""
ROUNDING_TOLERANCE = 1e-11
"""Relative change of the parameters below which a step is rounding, however small the standard errors are.

By judgement."""
RELATIVE_PENALTY_SLACK = 1e-8
"""`PENALTY_SLACK` relative to the penalty function, which counts in very long series. By judgement."""
MIN_SEARCHED_SHARE = 1e-4
"""Share of a step below which the search along it gives up. By judgement."""
RADIUS_WITHOUT_LIMIT = 1e8
"""Radius of the trust region, in standard errors, with which only the box limits a Gauss–Helmert step.

By judgement."""
DRIFT_TOLERANCE_FACTOR = 10
"""Drift of the states, in units of `IterationSettings.tolerance`, up to which a small step has converged.

By judgement."""
MIN_RELATIVE_SHARE_TO_CONVERGE = 0.5
"""Smallest share of a step with which the iteration may converge, relative to the share that the watchdog allows.

A step that the search has shortened further says nothing about convergence. By judgement.
"""
SPRING_INFORMATION = 1e8
"""Information added along a held direction, relative to unit information.

A spring needs no special case in the active set of the box. By judgement.
"""


@dataclass(frozen=True)
class _ValleyPolicy:
    """When an iteration has reached the floor of a valley along which the data hardly distinguish the parameters."""

    max_change: float = 5e-3
    """Change of the penalty function, in units of log-likelihood, of a step along the floor. By judgement."""
    min_share: float = 0.5
    """Smallest share of a step for it to count: a shortened step may change little anywhere. By judgement."""
    steps: int = 4
    """Successive steps along the floor after which the iteration ends. By judgement."""


_VALLEY = _ValleyPolicy()


@dataclass(frozen=True)
class Solution:
    """Result of a Gauss–Helmert iteration.

    Attributes
    ----------
    p : ndarray, (J,)
    states : ndarray, (nodes, D)
        States that obey the model.
    sigma : ndarray, (D,)
        Given or estimated.
    information : ndarray, (F, F)
        `Gᵀ S⁻¹ G` of the free parameters; its inverse is their covariance.
    misfit : float
        `Σ (x^data - x)²/v` over measured values.
    stop : Stop
    iterations : int
    held_direction : ndarray, (F,), or None
        Direction in the free parameters, in units of their standard errors, that was held because it ran away.
    """

    p: FloatArray
    states: FloatArray
    sigma: FloatArray
    information: FloatArray
    misfit: float
    stop: Stop
    iterations: int
    held_direction: FloatArray | None = None

    @classmethod
    def without_information(
        cls, p: FloatArray, states: FloatArray, sigma: FloatArray, misfit: float, stop: Stop
    ) -> Solution:
        """Build a solution from another iteration, which computes no information."""
        return cls(p, states, sigma, np.zeros((0, 0)), misfit, stop=stop, iterations=0)


class Prior(Protocol):
    """A prior: a sum of squares of functions of the parameters."""

    def compute_penalty(self, p: FloatArray) -> float:
        """Return half the sum of squares at p `(J,)`."""

    def gradient(self, p: FloatArray) -> FloatArray:
        """Return the gradient of the penalty, `(J,)`."""

    def hessian(self, p: FloatArray, exact: bool = True) -> FloatArray:
        """Return the Hessian of the penalty, `(J, J)`; by Gauss–Newton unless exact."""


@dataclass(frozen=True)
class IterationSettings:
    """Free parameters, their bounds, and when to stop.

    Attributes
    ----------
    free : ndarray of bool, (J,)
        Parameters that may move; F of them.
    lower, upper : ndarray, (J,)
    tolerance : float
        Length of a step, in standard errors, below which the iteration has converged.
    max_iterations : int
    should_stop : callable
        Called after each step with the penalty function before it; True ends the iteration.
    runaway_errors : float
        Distance in standard errors beyond which a parameter runs away.
    prior : Prior, optional
    sigma_estimator : callable, optional
        Function that estimates σ `(D,)` from residuals `(nodes, D)`; None if σ is given.
    """

    free: NDArray[np.bool_]
    lower: FloatArray
    upper: FloatArray
    tolerance: float = 1e-4
    max_iterations: int = 100
    should_stop: Callable[[float], bool] = never_stop
    runaway_errors: float = RUNAWAY_ERRORS
    prior: Prior | None = None
    sigma_estimator: Callable[[FloatArray], FloatArray] | None = None


def solve_gauss_helmert(
    mesh: Mesh, sigma: FloatArray, p: FloatArray, states: FloatArray, settings: IterationSettings
) -> Solution:
    """Find the parameters and states that obey the model and are nearest to the data.

    Parameters
    ----------
    mesh : Mesh
    sigma : ndarray, (D,)
        Standard deviation of the noise, or its first guess if `settings.sigma_estimator` estimates it.
    p : ndarray, (J,)
    states : ndarray, (nodes, D)
        Where to begin.
    settings : IterationSettings

    Returns
    -------
    Solution

    Raises
    ------
    NotPositiveDefinite
        If the constraint is singular at the start, or if no direction can be found for parameters that run away.
    """
    with use_single_thread(), np.errstate(all="ignore"):
        first = _Iteration(mesh, sigma, settings, None).iterate(p, states)
        if isinstance(first, Solution):
            return first
        held = _Iteration(mesh, sigma, settings, first).iterate(p, states)
        assert isinstance(held, Solution)
        # From the end of the held run the iteration may converge without holding.
        free = _Iteration(mesh, held.sigma, settings, None).iterate(held.p, held.states)
        return free if isinstance(free, Solution) and free.stop.converged else held


class _Iteration:
    """One run of the iteration.

    Parameters
    ----------
    mesh : Mesh
    sigma : ndarray, (D,)
    settings : IterationSettings
    held : ndarray, (F,), or None
        Direction that is held.
    """

    def __init__(self, mesh: Mesh, sigma: FloatArray, settings: IterationSettings, held: FloatArray | None) -> None:
        self.mesh, self.settings, self.held = mesh, settings, held
        self.counts = mesh.measured.sum(axis=0)
        self.penalty = 0.0
        self._set_sigma(sigma)
        self.first_variances = self.v

    def _set_sigma(self, sigma: FloatArray) -> None:
        """Set σ `(D,)` and the variances that follow from it."""
        self.sigma, self.v = sigma, self.mesh.compute_variances(sigma)

    def _update_sigma(self, x: FloatArray) -> bool:
        """Estimate σ from the residuals at x `(nodes, D)`; return True if it has not changed or is given."""
        if self.settings.sigma_estimator is None:
            return True
        before = self.sigma
        self._set_sigma(self.settings.sigma_estimator(self.mesh.compute_residuals(x)))
        return bool((np.abs(self.sigma / before - 1) < SIGMA_TOLERANCE).all())

    def iterate(self, p: FloatArray, x: FloatArray) -> Solution | FloatArray:
        """Iterate from p `(J,)` and x `(nodes, D)`.

        Returns
        -------
        Solution or ndarray, (F,)
            The direction of least information if a parameter ran away.
        """
        settings, free = self.settings, self.settings.free
        p = np.clip(p, settings.lower, settings.upper)
        step = self._compute_step(p, x)
        # The step itself is as long as the series and is not kept.
        first_information, start = step.information, p[free]
        errors = np.sqrt(np.abs(invert_symmetric(step.information).diagonal()))
        watch = Watchdog(p, x, step)
        stop, iteration, flat, sigma_agrees = Stop.ITERATIONS, 0, 0, settings.sigma_estimator is None
        while iteration < settings.max_iterations:
            iteration += 1
            small = (
                step.size <= settings.tolerance * np.sqrt(free.sum())
                and step.drift <= DRIFT_TOLERANCE_FACTOR * settings.tolerance
            )
            small |= bool((np.abs(step.dp) <= ROUNDING_TOLERANCE * np.abs(p)).all())
            before = self._evaluate_penalty(watch.last_step)
            if step.drift <= MAX_DRIFT_OF_WHOLE_STEP and watch.is_patient:
                share = watch.share
                x = x + share * (step.states - x)
            else:
                if not watch.is_patient:
                    # The old factors are released before new ones are computed: both are as long as the series.
                    (p, x), step = watch.return_to_best(), step.without_factors
                    step = self._compute_step(p, x)
                share, x = self._search_along_step(p, x, step)
                if share == 0.0:
                    stop = Stop.STUCK
                    break
            p = np.clip(p + share * step.dp, settings.lower, settings.upper)
            moved = np.abs(p[free] - start)
            # Long steps alone are no sign of an undetermined direction. If σ is too small, all standard errors are too
            # small, which the excess of the residuals corrects; and while the states still move far, so may p.
            far = np.maximum(settings.runaway_errors * errors * self._compute_excess(x), np.abs(start))
            if self.held is None and step.drift <= MAX_DRIFT_OF_WHOLE_STEP and (moved > far).any():
                return _find_weakest_direction(first_information)
            if small and sigma_agrees and share >= MIN_RELATIVE_SHARE_TO_CONVERGE * watch.share:
                stop = Stop.STEP
                break
            if settings.should_stop(before):
                stop = Stop.TIME
                break
            if step.drift <= MAX_DRIFT_OF_WHOLE_STEP:
                sigma_agrees = self._update_sigma(x)
            step = step.without_factors
            try:
                step = self._compute_step(p, x)
            except NotPositiveDefinite:
                # The step led to where the constraint is singular: search along the step from the best point instead.
                if watch.steps_since_best < 0:  # the failed step was already the search from the best point
                    raise
                p, x, step = watch.best
                watch.steps_since_best = MAX_STEPS_WITHOUT_DECREASE
                continue
            watch.record_point(p, x, step, share, self._evaluate_penalty)
            change = abs(before - self._evaluate_penalty(watch.last_step))
            flat = flat + 1 if share >= _VALLEY.min_share and change < _VALLEY.max_change else 0
            if flat >= _VALLEY.steps:
                stop = Stop.VALUE
                break
        return Solution(
            p,
            x,
            self.sigma,
            step.information,
            self._compute_misfit(x),
            stop=stop,
            iterations=iteration,
            held_direction=self.held,
        )

    def _compute_step(self, p: FloatArray, x: FloatArray) -> GaussHelmertStep:
        """Compute the Gauss–Helmert step from p `(J,)` and x `(nodes, D)`.

        Raises
        ------
        NotPositiveDefinite
            If the constraint is singular or not finite.
        """
        free, mesh, v = self.settings.free, self.mesh, self.v
        F = int(free.sum())
        line = mesh.linearise(p, x)
        e = np.where(mesh.measured, mesh.data - x, 0.0)
        factor = line.factorise_covariance(v)
        rho = line.c + line.A.apply(e)
        # One pass of the factor whitens G, ρ and c; their Gram matrix has H = Gᵀ S⁻¹ G, g = Gᵀ S⁻¹ ρ and cᵀ S⁻¹ c.
        columns = np.empty((rho.size, F + 2))
        columns[:, :F] = line.G[:, :, free].reshape(rho.size, F)
        columns[:, F], columns[:, F + 1] = rho.ravel(), line.c.ravel()
        white = factor.whiten(columns)
        gram = white.T @ white
        if not np.isfinite(gram).all():
            raise NotPositiveDefinite
        H, g = gram[:F, :F].copy(), gram[:F, F].copy()
        if self.settings.prior is not None:
            H += self.settings.prior.hessian(p, exact=False)[np.ix_(free, free)]
            g += self.settings.prior.gradient(p)[free]
        d = np.sqrt(np.maximum(H.diagonal(), np.finfo(float).tiny))
        low, high = self.settings.lower[free] - p[free], self.settings.upper[free] - p[free]
        theta = self._solve_for_parameters(g, H, d, low, high)
        dp = np.zeros(len(p))
        dp[free] = theta
        z = factor.solve_transposed(white[:, F] + white[:, :F] @ theta).reshape(line.c.shape)
        w = line.A.apply_transposed(z, len(x))
        states = x + e - v * w
        # ‖z‖_S² = zᵀ A diag(v) Aᵀ z. A penalty above ‖z‖_S makes the penalty function exact; it never falls.
        self.penalty = max(self.penalty, 2 * float(np.sqrt(np.sum(v * w**2))))
        return GaussHelmertStep(
            dp=dp,
            states=states,
            information=H,
            scaled=d * theta,
            drift=float(np.sqrt(np.mean((states - x) ** 2 / v))),
            cost=self._compute_cost(p, x),
            violation=float(gram[F + 1, F + 1]),
            A=line.A,
            factor=factor,
        )

    def _solve_for_parameters(
        self, g: FloatArray, H: FloatArray, d: FloatArray, low: FloatArray, high: FloatArray
    ) -> FloatArray:
        """Minimise the quadratic model in the box, with the held direction kept by a stiff spring.

        Parameters
        ----------
        g : ndarray, (F,)
        H : ndarray, (F, F)
        d : ndarray, (F,)
            Scales of the parameters.
        low, high : ndarray, (F,)
            The box relative to the current parameters.

        Returns
        -------
        ndarray, (F,)
            δp of the free parameters.

        Raises
        ------
        NotPositiveDefinite
            If no step can be computed.
        """
        if not len(g):
            return g
        if self.held is not None:
            H = H + SPRING_INFORMATION * np.outer(self.held * d, self.held * d)
        try:
            return TrustRegion(radius=RADIUS_WITHOUT_LIMIT).step(g, H, d, low, high)
        except STEP_FAILURES as error:
            raise NotPositiveDefinite("the parameters") from error

    def _compute_excess(self, x: FloatArray) -> float:
        """Compute the root mean square residual at x `(nodes, D)` over the first σ, at least 1."""
        squares = ((self.mesh.data - x) ** 2 / self.first_variances)[self.mesh.measured]
        return max(1.0, math.sqrt(float(np.sum(squares)) / max(squares.size, 1)))

    def _compute_misfit(self, x: FloatArray) -> float:
        """Compute `Σ (x^data - x)²/v` over measured values, at x `(nodes, D)`."""
        return float(np.sum(((self.mesh.data - x) ** 2 / self.v)[self.mesh.measured]))

    def _compute_cost(self, p: FloatArray, x: FloatArray) -> float:
        """Compute minus the log-likelihood and the log-prior at p `(J,)` and x `(nodes, D)`, up to a constant."""
        prior = 0.0 if self.settings.prior is None else self.settings.prior.compute_penalty(p)
        with np.errstate(all="ignore"):
            noise = float(self.counts @ np.log(self.sigma)) if self.settings.sigma_estimator is not None else 0.0
        return 0.5 * self._compute_misfit(x) + prior + noise

    def _evaluate_penalty(self, step: GaussHelmertStep) -> float:
        """Compute the penalty function at the point where a step begins."""
        return step.cost + self.penalty * math.sqrt(step.violation)

    def _evaluate_penalty_at(self, p: FloatArray, x: FloatArray, step: GaussHelmertStep) -> float:
        """Compute the penalty function at p `(J,)` and x `(nodes, D)`, with S of a step nearby; inf if not finite."""
        c = self.mesh.compute_defects(p, x)
        if not np.isfinite(c).all():
            return np.inf
        assert step.factor is not None
        white = step.factor.whiten(c.ravel())
        return self._compute_cost(p, x) + self.penalty * math.sqrt(float(white @ white))

    def _search_along_step(self, p: FloatArray, x: FloatArray, step: GaussHelmertStep) -> tuple[float, FloatArray]:
        """Halve a step until the penalty function decreases.

        A full step along a curved constraint leaves it to second order, which the penalty function may refuse however
        good the step is (the Maratos effect). The states of a full step are then first moved back onto the constraint.

        Parameters
        ----------
        p : ndarray, (J,)
        x : ndarray, (nodes, D)
        step : GaussHelmertStep
            The step from (p, x).

        Returns
        -------
        share : float
            Share of the step that decreases the penalty function; 0 if none does.
        states : ndarray, (nodes, D)
        """
        before = self._evaluate_penalty_at(p, x, step)
        limit = before + max(PENALTY_SLACK, RELATIVE_PENALTY_SLACK * abs(before))
        share = 1.0
        while share > MIN_SEARCHED_SHARE:
            q = p + share * step.dp
            moved = x + share * (step.states - x)
            after = self._evaluate_penalty_at(q, moved, step)
            if after > limit and share == 1.0:
                moved = self._return_to_constraint(q, moved, step)
                after = self._evaluate_penalty_at(q, moved, step)
            if after <= limit:
                return share, moved
            share /= 2
        return 0.0, x

    def _return_to_constraint(self, p: FloatArray, x: FloatArray, step: GaussHelmertStep) -> FloatArray:
        """Move the states x `(nodes, D)` by `-v Aᵀ S⁻¹ c`, which removes the violation to first order."""
        c = self.mesh.compute_defects(p, x)
        assert step.factor is not None
        assert step.A is not None
        z = step.factor.solve_transposed(step.factor.whiten(c.ravel())).reshape(c.shape)
        return np.asarray(x - self.v * step.A.apply_transposed(z, len(x)))


def _find_weakest_direction(information: FloatArray) -> FloatArray:
    """Return the direction of least information as a unit vector `(F,)` in units of conditional standard errors.

    Raises
    ------
    NotPositiveDefinite
        If the information `(F, F)` has no eigendecomposition.
    """
    d = np.sqrt(np.abs(information.diagonal()))
    if not (d > np.finfo(float).tiny).all():  # one parameter has no information: that is the direction
        return np.asarray(np.eye(len(d))[int(np.argmin(d))])
    try:
        _, vectors = decompose_scaled_matrix(information, d)
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefinite("the information") from error
    return np.asarray(vectors[:, 0])
