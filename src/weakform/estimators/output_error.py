"""Output error: the parameters and initial states whose forward solutions are nearest to the data.

    minimise ½ Σ_m ‖(x^data_m - x(t_m; p, x₀)) / σ‖²   over p and one initial state x₀ for each trajectory

in working coordinates, so that log-normal noise has log residuals (`residuals="noise"`); or, as the paper does for both
kinds of noise, with plain differences `u^data - u` and no weights (`residuals="additive"`). The Jacobian comes from the
sensitivities of the forward solution; the solver is SciPy's trust-region reflective least squares, inside the box.
Where the model cannot be solved the step is refused. Nothing here uses test functions.

With K = ∂x/∂(p, x₀)/σ the covariance is `(KᵀK)⁻¹`; for plain differences it is `K⁺ V K⁺ᵀ`, V their variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..forward.solve import simulate
from ..linalg.symmetric import symmetric_inverse
from ..model.model import Model
from ..optimize.least_squares import Tolerances, least_squares
from ..support.errors import FitError
from ..support.typing import FloatArray
from ..weak.form import WeakForm
from .estimator import Estimator
from .residuals import degrees_of_freedom, noise_of, with_noise, within_misfit
from .status import Status
from .task import Outcome, Refined, Task

MAX_ITERATIONS = 200
ROUNDS = 4
HOPELESS = 1e100
"""Cost from which the solver's own sums would overflow."""
FIRST_ROWS = (1, 3, 10)


def check(task: Task) -> None:
    """Plain differences have no covariance."""
    if task.options.residuals == "additive" and task.weak.data.covariance is not None:
        raise FitError("Plain differences know no covariance of the states; use residuals='noise'.")


def from_data(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start.

    The initial states begin at the first rows of the data; where the model cannot be solved from there, as noise may
    have taken a state across zero, at the mean of the first few.
    """
    assert start is not None
    used = 0
    for rows in FIRST_ROWS:
        outcome = search(task, start, tuple(form.x[:, :rows].mean(axis=1) for form in task.weak.forms))
        used += outcome.evaluations
        if outcome.status is not Status.START:
            break
    return replace(outcome, evaluations=used)


def search(task: Task, p: FloatArray, initial: tuple[FloatArray, ...]) -> Outcome:
    """One estimate from parameters and initial states `(D,)` in working coordinates."""
    least = _LeastSquares(task)
    status, used = least.minimise(p, initial)
    if least.best is None:
        return Outcome(p, np.inf, Status.START, 0, used)
    return Outcome(least.best.p, least.best.cost, status, used, used, initial=least.best.initial)


def refine(task: Task, outcome: Outcome) -> Outcome:
    """σ from the residuals, unless it is given, in turn with the estimate; then covariance and goodness of fit."""
    if outcome.initial is None or not np.isfinite(outcome.objective):
        return outcome
    least = _LeastSquares(task)
    status, used = outcome.status, 0

    def again(sigma: FloatArray, point: _Point) -> tuple[_Point, bool]:
        nonlocal status, used
        least.sigma, least.best = sigma, None
        status, more = least.minimise(point.p, point.initial)
        used += more
        return least.best or point, status.success

    point = _Point(outcome.estimate, outcome.initial, outcome.objective)
    if least.weighted:
        point, _ = with_noise(task, least.sigma, point, again, least.residuals, ROUNDS)
    return replace(
        outcome,
        estimate=point.p,
        objective=point.cost,
        status=status,
        iterations=outcome.iterations + used,
        evaluations=outcome.evaluations + used,
        refined=least.refined(point),
        initial=point.initial,
    )


class _Late(Exception):
    """The time limit has passed."""


@dataclass(frozen=True)
class _Point:
    """Parameters and initial states, with what was found there."""

    p: FloatArray
    initial: tuple[FloatArray, ...]
    cost: float


class _LeastSquares:
    """The problem over `θ = (free parameters, initial states in working coordinates)`."""

    def __init__(self, task: Task) -> None:
        self.task, self.forms, self.model = task, task.weak.forms, task.weak.model
        # One over the scale of each value; zero where nothing was measured.
        self.weights = [np.where(q.measured, 1.0 / q.scales, 0.0) for q in task.weak.data.trajectories]
        self.additive = task.options.residuals == "additive"
        noisy = bool((task.weak.sigma > 0).all())
        self.weighted = noisy and not self.additive
        # Without noise any scale will do.
        self.sigma = task.weak.sigma if noisy else np.max([form.x.std(axis=1) for form in self.forms], axis=0)
        self.tolerance = min(task.options.tolerance, 1e-6)
        self.best: _Point | None = None

    def minimise(self, p: FloatArray, initial: tuple[FloatArray, ...]) -> tuple[Status, int]:
        """Search from a point; the best one met is kept in `best`. Returns the status and evaluations."""
        lower, upper = self.task.box
        open_ends = np.full(sum(map(len, initial)), np.inf)
        low, high = np.concatenate([lower, -open_ends]), np.concatenate([upper, open_ends])
        theta = np.concatenate([p[self.task.free], *initial])
        margin = 1e-9 * np.where(np.isfinite(high - low), high - low, 1.0)
        theta = np.clip(theta, low + margin, high - margin)
        limit = self.task.options.max_iterations or MAX_ITERATIONS
        tolerances = Tolerances(self.tolerance, self.tolerance, self.tolerance)
        try:
            solved = least_squares(self._residual, self._jacobian, theta, (low, high), tolerances, limit)
        except _Late:
            return Status.TIME, 0 if self.best is None else 1
        if not solved.defined:
            return Status.START, 1
        self._snap(solved.x, solved.active, low, high)
        return Status.CONVERGED if solved.converged else Status.ITERATIONS, solved.evaluations

    def _snap(self, theta: FloatArray, active: Any, low: FloatArray, high: FloatArray) -> None:
        """Put what the solver left just inside a bound onto it: it keeps to the interior."""
        if self.best is None or not np.any(active):
            return
        moved = np.where(active < 0, low, np.where(active > 0, high, theta))
        r = self._residual(moved)
        if r is not None and 0.5 * float(r @ r) <= self.best.cost * (1 + 1e-6) + 1e-9:
            p, initial = self._split(moved)
            self.best = _Point(p, initial, 0.5 * float(r @ r))

    def _split(self, theta: FloatArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        F, D = int(self.task.free.sum()), len(self.sigma)
        return self.task.expand(theta[:F]), tuple(theta[F:].reshape(-1, D))

    def _residual(self, theta: FloatArray) -> FloatArray | None:
        """Residuals of all trajectories `(rows,)`; None where the model cannot be solved."""
        if self.task.stop():
            raise _Late
        p, initial = self._split(theta)
        parts = []
        for k, (form, x0) in enumerate(zip(self.forms, initial, strict=True)):
            u = solution(self.model.of(k), form, p, x0, self.tolerance)
            if u is None:
                return None
            with np.errstate(all="ignore"):
                difference = u - form.u if self.additive else (form.system.to_working(u) - form.x.T) / self.sigma
            parts.append(np.where(self.weights[k] > 0, difference * self.weights[k], 0.0).ravel())
        if self.task.prior is not None:
            parts.append(self.task.prior.rows(p)[0])
        r = np.concatenate(parts)
        with np.errstate(over="ignore"):
            cost = 0.5 * float(r @ r)
        if not cost < HOPELESS:
            return None
        if self.best is None or cost < self.best.cost:
            self.best = _Point(p, initial, cost)
        return r

    def _jacobian(self, theta: FloatArray) -> FloatArray:
        p, initial = self._split(theta)
        rows = sum(weights.size for weights in self.weights)
        rows += 0 if self.task.prior is None else len(self.task.prior.index)
        F, D = int(self.task.free.sum()), len(self.sigma)
        K, row = np.zeros((rows, len(theta))), 0
        for k, (form, x0) in enumerate(zip(self.forms, initial, strict=True)):
            block = sensitivity(self.model.of(k), form, p, x0, self.tolerance, working=not self.additive)
            if block is None:  # solved a moment ago without sensitivities: take no step from here
                return K
            block = block * (self.weights[k] if self.additive else self.weights[k] / self.sigma)[:, :, None]
            flat = block.reshape(-1, block.shape[2])
            part = slice(row, row + len(flat))
            J = len(p)
            K[part, :F] = flat[:, :J][:, self.task.free]
            K[part, F + k * D : F + (k + 1) * D] = flat[:, J:]
            row += len(flat)
        if self.task.prior is not None:
            K[row:, :F] = self.task.prior.jacobian(p)[:, self.task.free]
        return K

    def _solutions(self, point: _Point) -> tuple[FloatArray, ...]:
        """Forward solutions, `(time, D)`."""
        found = []
        for k, (form, x0) in enumerate(zip(self.forms, point.initial, strict=True)):
            u = solution(self.model.of(k), form, point.p, x0, self.tolerance)
            assert u is not None
            found.append(u)
        return tuple(found)

    def residuals(self, point: _Point) -> tuple[FloatArray, ...]:
        """`x^data - x` of each trajectory in working coordinates, over the scale, `(time, D)`; zero where missing."""
        parts = zip(self.forms, self._solutions(point), self.weights, strict=True)
        return tuple((form.x.T - form.system.to_working(u)) * weights for form, u, weights in parts)

    def refined(self, point: _Point) -> Refined:
        """Covariance, σ, states and goodness of fit at a point."""
        task, F = self.task, int(self.task.free.sum())
        states = self._solutions(point)
        theta = np.concatenate([point.p[task.free], *point.initial])
        priors = 0 if task.prior is None else len(task.prior.index)
        K = self._jacobian(theta)
        covariance = symmetric_inverse(K.T @ K)
        freedom = degrees_of_freedom(task)
        if self.additive:
            # Plain differences have no likelihood behind them: σ is the filter's, and nothing is tested.
            kinds = task.weak.forms[0].system.kinds
            slopes = [np.column_stack([k.numeric_slope(c) for k, c in zip(kinds, u.T, strict=True)]) for u in states]
            spread = [(task.weak.sigma * slope).ravel() for slope in slopes]
            noisy = K * np.concatenate([*spread, np.ones(priors)])[:, None]
            with np.errstate(invalid="ignore"):
                covariance = covariance @ (noisy.T @ noisy) @ covariance
            return Refined(
                covariance=covariance[:F, :F],
                sigma=task.weak.sigma,
                states=states,
                misfit=np.nan,
                freedom=freedom,
                residuals=None,
            )
        residuals = self.residuals(point)
        known = task.weak.data.sigma is not None
        sigma = self.sigma if known else noise_of(task, residuals)
        misfit = sum(float(np.sum((r / sigma) ** 2)) for r in residuals) + within_misfit(task, sigma)
        # The initial states are fitted too: what they absorb is no information about the parameters.
        I = K.T @ K
        return Refined(
            covariance=covariance[:F, :F],
            sigma=sigma,
            states=states,
            misfit=misfit,
            freedom=freedom,
            residuals=tuple(np.where(w > 0, r / sigma, np.nan) for r, w in zip(residuals, self.weights, strict=True)),
            information=I[:F, :F] - I[:F, F:] @ symmetric_inverse(I[F:, F:]) @ I[F:, :F],
        )


def solution(model: Model, form: WeakForm, p: FloatArray, x0: FloatArray, tolerance: float) -> FloatArray | None:
    """The forward solution `(time, D)` of one trajectory from `x0` in working coordinates, or None."""
    with np.errstate(over="ignore"):
        u0 = form.system.from_working(x0[None])[0]
    if not (np.isfinite(u0).all() and np.isfinite(p).all()):
        return None
    solved = simulate(model, p, u0, form.times, inputs=form.system.inputs, rtol=tolerance)
    return solved.states if solved.success else None


def sensitivity(
    model: Model, form: WeakForm, p: FloatArray, x0: FloatArray, tolerance: float, working: bool
) -> FloatArray | None:
    """`∂u/∂(p, x₀)`, or `∂x/∂(p, x₀)` in working coordinates, `(time, D, J + D)`; or None."""
    u0 = form.system.from_working(x0[None])[0]
    solved = simulate(model, p, u0, form.times, inputs=form.system.inputs, sensitivities=True, rtol=tolerance)
    if not solved.success or solved.by_parameters is None or solved.by_initial is None:
        return None
    K = np.concatenate([solved.by_parameters, solved.by_initial @ form.system.slopes(u0[None])[0]], axis=2)
    if working:
        with np.errstate(all="ignore"):
            K = form.system.per_slope(solved.states, K)
    return K if np.isfinite(K).all() else None


ESTIMATOR = Estimator(
    "output-error",
    "nonlinear least squares on forward solutions",
    from_data,
    refine,
    check,
    options=("residuals",),
    noise_free=lambda task: task,
)
