"""Output error: the parameters and initial states whose forward solutions are nearest to the data.

    minimise ½ Σ_m ‖(x^data_m - x(t_m; p, x₀)) / σ‖²   over p and one initial state x₀ for each trajectory

in working coordinates, so that log-normal noise has log residuals (`residuals="noise"`); or, as the paper does for both
kinds of noise, with plain differences `u^data - u` and no weights (`residuals="additive"`). If states are hidden, x are
the measured columns, and only those initial values are fitted that are not given. The Jacobian comes from the
sensitivities of the forward solution (`forward_residuals`). The solver is SciPy's trust-region reflective least
squares, inside the box; a step to where the model cannot be solved is rejected. Nothing here uses test functions.

With K = ∂x/∂(p, x₀)/σ the covariance is `(KᵀK)⁻¹`; for plain differences it is `K⁺ V K⁺ᵀ`, V their variances.

Throughout, `initial` are the fitted initial values of each trajectory, `(begins,)` each, and F is the number of free
parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..collocation.residual_projection import project_from_directions
from ..linalg.symmetric_matrix import invert_symmetric
from ..optimize.least_squares import Tolerances, least_squares
from ..parameters.working_scale import WorkingScale
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .estimation_problem import HiddenStateStart, StartPoint, Task
from .estimator import Estimator
from .forward_residuals import build_forward_residuals
from .initial_guess import guess_initial_values
from .noise_level import alternate_with_noise, build_noise_estimator, compute_within_misfit, count_degrees_of_freedom
from .outcome import Outcome, Refinement
from .relaxed_model import make_hidden_state_starts
from .start_points import make_starts

MAX_ITERATIONS = 200
"""Evaluations of the model, unless the option `max_iterations` is set. The default that `Options` documents."""
MAX_SIGMA_ROUNDS = 4
"""Updates of σ in turn with the estimate. By judgement."""
MAX_SOLVER_TOLERANCE = 1e-6
"""Relative tolerance of the forward solutions, and of the search, if the option `tolerance` is not smaller. By
judgement."""
HIDDEN_INITIAL_VALUE = 1e-4
"""Initial value in units of σ below which noise hides it altogether: a search by relative steps goes no lower. By
judgement."""
HOPELESS_COST = 1e100
"""Cost above which a point is rejected as if the model could not be solved: the solver's own sums would overflow. By
judgement."""
INTERIOR_MARGIN = 1e-9
"""Distance from the bounds at which the search starts, as a share of the width of the box; the solver needs an interior
point. By judgement."""
FIRST_ROWS = (1, 3, 10)
"""Numbers of samples whose mean is tried in turn as the initial state. By judgement."""


@dataclass(frozen=True)
class _StandstillPolicy:
    """When to stop because the parameters no longer move: only initial states that noise hides could still gain.

    By judgement. Without the rule the Oregonator was solved in 7 of 10 runs, with it in 20 of 20 (CHANGELOG, 1.1.0).
    """

    steps: int = 10
    """Steps over which gain and move are measured."""
    max_gain: float = 0.1
    """Gain in log-likelihood over these steps above which the search goes on."""
    max_move: float = 0.02
    """Move of the parameters over these steps, in standard errors, above which the search goes on."""


@dataclass(frozen=True)
class _SnapPolicy:
    """When an estimate just inside a bound is put onto it. By judgement: more than rounding, far less than noise."""

    relative_cost: float = 1e-6
    """Relative increase of the cost that is allowed."""
    absolute_cost: float = 1e-9
    """Absolute increase of the cost that is allowed, for costs near zero."""


_STANDSTILL = _StandstillPolicy()
_SNAP = _SnapPolicy()


def check(task: Task) -> None:
    """Raise `FitError` if plain differences are to be used with a covariance between states."""
    if task.options.residuals == "additive" and task.problem.data.covariance is not None:
        raise FitError(
            "residuals='additive' does not support a covariance between states, but the data have one. "
            "Use residuals='noise'."
        )


def search_from_data(task: Task, start: StartPoint | None) -> Outcome:
    """Fit output error from one start, with initial states from the data.

    The search starts from the first sample. If the model cannot be solved from there, because noise may have taken a
    state across zero, it starts from the mean of the first few. Hidden states start from the levels of the start.
    """
    if isinstance(task.problem, HiddenStateProblem):
        assert isinstance(start, HiddenStateStart)
        return search(task, start.parameters, guess_initial_values(task.problem, start))
    assert isinstance(start, np.ndarray)
    used, outcome = 0, None
    for rows in FIRST_ROWS:
        outcome = search(task, start, tuple(form.x[:, :rows].mean(axis=1) for form in task.weak.forms))
        used += outcome.evaluations
        if outcome.status is not Status.START:
            break
    assert outcome is not None
    return replace(outcome, evaluations=used)


def search(task: Task, p: FloatArray, initial: tuple[FloatArray, ...], log_steps: bool = False) -> Outcome:
    """Fit output error from parameters and initial values.

    Parameters
    ----------
    task : Task
    p : ndarray, (J,)
    initial : tuple of ndarray, (begins,)
        Initial values of each trajectory; in working coordinates if all states are measured.
    log_steps : bool
        True if positive quantities move on a log scale, that is, by relative steps.

    Returns
    -------
    Outcome
        The best point that was evaluated; its objective is half the sum of squares, and the prior if there is one.
    """
    problem = _LeastSquares(task)
    status, used = problem.minimise(p, initial, log_steps)
    if problem.best is None:
        return Outcome(p, np.inf, Status.START, 0, used)
    return Outcome(problem.best.p, problem.best.cost, status, used, used, initial=problem.best.initial)


def compute_cost(task: Task, p: FloatArray, initial: tuple[FloatArray, ...]) -> float:
    """Compute half the sum of squares at a point; infinite if the model cannot be solved, or the time is over."""
    try:
        r = _LeastSquares(task).compute_residual(np.concatenate([p[task.free], *initial]))
    except _TimeLimitReached:
        return np.inf
    return np.inf if r is None else 0.5 * float(r @ r)


def compute_residuals_at(task: Task, p: FloatArray, initial: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """Return the residuals `(time, K)` of each trajectory in working coordinates, over their scale.

    The model must be solvable at this point.
    """
    return _LeastSquares(task).compute_residuals(_Point(p, initial, np.nan))


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Refine an outcome: σ from the residuals in turn with the estimate, then covariance and goodness of fit.

    A σ that the user gives is kept. Without initial values, or with an infinite objective, the outcome is unchanged.
    """
    if outcome.initial is None or not np.isfinite(outcome.objective):
        return outcome
    problem = _LeastSquares(task)
    status, used = outcome.status, 0

    def solve(sigma: FloatArray, near: _Point) -> tuple[_Point, bool]:
        nonlocal status, used
        problem.sigma, problem.best = sigma, None
        status, evaluations = problem.minimise(near.p, near.initial)
        used += evaluations
        return problem.best or near, status.success

    point = _Point(outcome.estimate, outcome.initial, outcome.objective)
    if problem.weighted:
        point, _ = alternate_with_noise(task, problem.sigma, point, solve, problem.compute_residuals, MAX_SIGMA_ROUNDS)
    return replace(
        outcome,
        estimate=point.p,
        objective=point.cost,
        status=status,
        iterations=outcome.iterations + used,
        evaluations=outcome.evaluations + used,
        refined=problem.compute_refinement(point),
        initial=point.initial,
        latent=problem.forward.solve_on_mesh(point.p, point.initial),
    )


def make_output_error_starts(
    task: Task, user_starts: tuple[FloatArray, ...], count: int | None, seed: int
) -> Sequence[StartPoint]:
    """Make the starts of the weak methods, or of the relaxed model if states are hidden; see `make_starts`."""
    if isinstance(task.problem, HiddenStateProblem):
        return make_hidden_state_starts(task, user_starts, count, seed)
    return make_starts(task, user_starts, count, seed)


class _TimeLimitReached(Exception):
    """Raised from within SciPy's solver when the time limit has passed or the user has stopped the fit."""


class _ParametersSettled(Exception):
    """Raised from within SciPy's solver when the parameters no longer move."""


@dataclass(frozen=True)
class _Point:
    """A point of the search.

    Attributes
    ----------
    p : ndarray, (J,)
    initial : tuple of ndarray, (begins,)
    cost : float
        Half the sum of squares there, and the prior if there is one.
    """

    p: FloatArray
    initial: tuple[FloatArray, ...]
    cost: float


class _LeastSquares:
    """The least-squares problem over `θ = (free parameters, initial values of all trajectories)`.

    Attributes
    ----------
    weights : list of ndarray, (time, K)
        One over the scale of each value; zero where nothing was measured.
    additive : bool
        True if residuals are plain differences.
    weighted : bool
        True if residuals are in units of σ, so that σ and the estimate depend on each other.
    sigma : ndarray, (K,)
        σ by which the residuals are divided.
    tolerance : float
        Relative tolerance of the forward solutions and of the search.
    forward : ForwardResiduals
        The forward solutions of all trajectories.
    best : _Point or None
        The best point that was evaluated.
    """

    def __init__(self, task: Task) -> None:
        self.task, data = task, task.problem.data
        self.weights = [np.where(q.measured, 1.0 / q.scales, 0.0) for q in data.trajectories]
        self.additive = task.options.residuals == "additive"
        noisy = bool((task.problem.sigma > 0).all())
        self.weighted = noisy and not self.additive
        # For noise-free data any positive scale will do.
        self.sigma = task.problem.sigma if noisy else task.problem.spread
        self.tolerance = min(task.options.tolerance, MAX_SOLVER_TOLERANCE)
        self.forward = build_forward_residuals(task.problem, self.tolerance, self.additive)
        self.best: _Point | None = None

    def minimise(self, p: FloatArray, initial: tuple[FloatArray, ...], log_steps: bool = False) -> tuple[Status, int]:
        """Search from a point and keep the best point that was evaluated in `best`.

        Parameters
        ----------
        p : ndarray, (J,)
        initial : tuple of ndarray, (begins,)
        log_steps : bool
            True if quantities that start positive move on a log scale, except those that are logarithms already, and
            parameters whose bounds let them be negative.

        Returns
        -------
        status : Status
        evaluations : int
        """
        lower, upper = self.task.box
        open_ends = np.full(sum(map(len, initial)), np.inf)
        low, high = np.concatenate([lower, -open_ends]), np.concatenate([upper, open_ends])
        theta = np.concatenate([p[self.task.free], *initial])
        margin = INTERIOR_MARGIN * np.where(np.isfinite(high - low), high - low, 1.0)
        theta = np.clip(theta, low + margin, high - margin)
        scale = WorkingScale(np.zeros(len(theta), dtype=bool))
        if log_steps:
            scale, least = self._choose_log_scale(theta, lower)
            theta, low = np.maximum(theta, least), np.maximum(low, least)
        limit = self.task.options.max_iterations or MAX_ITERATIONS
        tolerances = Tolerances(self.tolerance, self.tolerance, self.tolerance)

        def residual(q: FloatArray) -> FloatArray | None:
            return self.compute_residual(scale.to_natural(q))

        steps: list[tuple[FloatArray, float]] = []

        def jacobian(q: FloatArray) -> FloatArray:
            x = scale.to_natural(q)
            K = self._compute_jacobian(x) * scale.compute_slope(x)
            steps.append((q, self.best.cost if self.best else np.inf))
            if len(steps) > _STANDSTILL.steps and self._has_settled(steps[-1 - _STANDSTILL.steps], steps[-1], K):
                raise _ParametersSettled
            return K

        begin, ends = scale.to_working(theta), (scale.to_working(low), scale.to_working(high))
        try:
            # On a log scale all steps count alike. By the scales of the Jacobian, quantities that noise hides would run
            # away, as hardly any residual depends on them.
            lengths = np.where(scale.log, 1.0, np.maximum(np.abs(theta), HIDDEN_INITIAL_VALUE)) if log_steps else None
            solved = least_squares(residual, jacobian, begin, ends, tolerances, limit, scale=lengths)
        except _TimeLimitReached:
            return Status.TIME, 0 if self.best is None else 1
        except _ParametersSettled:
            return Status.CONVERGED, len(steps)
        if not solved.defined:
            return Status.START, 1
        self._snap_to_bounds(scale.to_natural(solved.x), solved.active, low, high)
        return Status.CONVERGED if solved.converged else Status.ITERATIONS, solved.evaluations

    def _has_settled(self, before: tuple[FloatArray, float], now: tuple[FloatArray, float], K: FloatArray) -> bool:
        """Return True if parameters and cost have hardly changed between two steps.

        The parameters have moved by `√(δᵀ I δ)` standard errors, with I their information when initial values adapt.

        Parameters
        ----------
        before, now : (ndarray, float)
            θ on the scale of the search, and the best cost until then.
        K : ndarray, (rows, θ)
            Jacobian at the later step.
        """
        if self.additive or before[1] - now[1] > _STANDSTILL.max_gain:
            return False
        F = int(self.task.free.sum())
        delta = (now[0] - before[0])[:F]
        return bool(delta @ _compute_information(K, F) @ delta < _STANDSTILL.max_move**2)

    def _choose_log_scale(self, theta: FloatArray, lower: FloatArray) -> tuple[WorkingScale, FloatArray]:
        """Return the scale of a search by relative steps, and the least value `(θ,)` of each quantity on a log scale.

        All states must be measured, so that the initial values are those of the columns.
        """
        trajectories = len(self.weights)
        plain = [kind == "gaussian" for kind in self.task.problem.data.noise]
        parameters = (lower >= 0) & ~self.task.scale.log[self.task.free]
        log = np.append(parameters, plain * trajectories) & (theta > 0)
        least = np.append(np.zeros(len(lower)), np.tile(HIDDEN_INITIAL_VALUE * self.sigma, trajectories))
        return WorkingScale(log), np.where(log, least, -np.inf)

    def _snap_to_bounds(self, theta: FloatArray, active: Any, low: FloatArray, high: FloatArray) -> None:
        """Put quantities that ended just inside a bound onto it, if the cost allows: the solver keeps to the interior.

        Parameters
        ----------
        theta, low, high : ndarray, (θ,)
        active : ndarray of int, (θ,)
            -1 or 1 for quantities at their lower or upper bound.
        """
        if self.best is None or not np.any(active):
            return
        moved = np.where(active < 0, low, np.where(active > 0, high, theta))
        r = self.compute_residual(moved)
        if r is not None and 0.5 * float(r @ r) <= self.best.cost * (1 + _SNAP.relative_cost) + _SNAP.absolute_cost:
            p, initial = self._split_theta(moved)
            self.best = _Point(p, initial, 0.5 * float(r @ r))

    def _split_theta(self, theta: FloatArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        """Return all parameters `(J,)` and the initial values of each trajectory from θ."""
        F = int(self.task.free.sum())
        return self.task.expand(theta[:F]), tuple(
            theta[F:].reshape(len(self.weights), self.forward.initial_value_count)
        )

    def compute_residual(self, theta: FloatArray) -> FloatArray | None:
        """Compute the residuals of all trajectories and of the prior, `(rows,)`; None if the model cannot be solved.

        Raises `_TimeLimitReached` when the fit has to stop.
        """
        if self.task.stop():
            raise _TimeLimitReached
        p, initial = self._split_theta(theta)
        parts = []
        for k, (data, x0) in enumerate(zip(self.forward.data, initial, strict=True)):
            x = self.forward.predict_columns(k, p, x0)
            if x is None:
                return None
            with np.errstate(all="ignore"):
                difference = x - data if self.additive else (x - data) / self.sigma
            parts.append(np.where(self.weights[k] > 0, difference * self.weights[k], 0.0).ravel())
        if self.task.prior is not None:
            parts.append(self.task.prior.compute_residuals(p)[0])
        r = np.concatenate(parts)
        with np.errstate(over="ignore"):
            cost = 0.5 * float(r @ r)
        if not cost < HOPELESS_COST:
            return None
        if self.best is None or cost < self.best.cost:
            self.best = _Point(p, initial, cost)
        return r

    def _compute_jacobian(self, theta: FloatArray) -> FloatArray:
        """Compute the Jacobian of the residuals, `(rows, θ)`; initial values act on their own trajectory alone."""
        p, initial = self._split_theta(theta)
        rows = sum(weights.size for weights in self.weights)
        rows += 0 if self.task.prior is None else len(self.task.prior.index)
        F, begins = int(self.task.free.sum()), self.forward.initial_value_count
        K, row = np.zeros((rows, len(theta))), 0
        for k, x0 in enumerate(initial):
            block = self.forward.compute_sensitivity(k, p, x0)
            if block is None:  # the model has a solution here, but no sensitivities: a zero gradient ends the search
                return K
            block = block * (self.weights[k] if self.additive else self.weights[k] / self.sigma)[:, :, None]
            flat = block.reshape(-1, block.shape[2])
            part = slice(row, row + len(flat))
            J = len(p)
            K[part, :F] = flat[:, :J][:, self.task.free]
            K[part, F + k * begins : F + (k + 1) * begins] = flat[:, J:]
            row += len(flat)
        if self.task.prior is not None:
            K[row:, :F] = self.task.prior.jacobian(p)[:, self.task.free]
        return K

    def compute_residuals(self, point: _Point) -> tuple[FloatArray, ...]:
        """Return `x^data - x` of each trajectory over the scale, `(time, K)`; zero where nothing was measured."""
        parts = []
        for k, (data, x0) in enumerate(zip(self.forward.data, point.initial, strict=True)):
            x = self.forward.predict_columns(k, point.p, x0)
            assert x is not None
            parts.append(np.where(self.weights[k] > 0, (data - x) * self.weights[k], 0.0))
        return tuple(parts)

    def compute_refinement(self, point: _Point) -> Refinement:
        """Compute covariance, σ, states and goodness of fit at a point."""
        task, F = self.task, int(self.task.free.sum())
        sigma_given = task.problem.data.sigma is not None
        if self.weighted and not sigma_given:
            self.sigma = build_noise_estimator(task)(np.concatenate(self.compute_residuals(point)))
        pairs = list(enumerate(point.initial))
        states = tuple(u for k, x0 in pairs if (u := self.forward.solve_states(k, point.p, x0)) is not None)
        theta = np.concatenate([point.p[task.free], *point.initial])
        priors = 0 if task.prior is None else len(task.prior.index)
        K = self._compute_jacobian(theta)
        covariance = invert_symmetric(K.T @ K)
        freedom = count_degrees_of_freedom(task)
        if self.additive:
            # Plain differences belong to no likelihood: σ is that of the filter, and there is no goodness of fit. With
            # (KᵀK)⁻¹ = C the covariance is K⁺ V K⁺ᵀ = C (Kᵀ V K) C.
            spread = [(task.problem.sigma * self.forward.compute_slopes(k, point.p, x0)).ravel() for k, x0 in pairs]
            noisy = K * np.concatenate([*spread, np.ones(priors)])[:, None]
            with np.errstate(invalid="ignore"):
                covariance = covariance @ (noisy.T @ noisy) @ covariance
            return Refinement(
                covariance=covariance[:F, :F],
                sigma=task.problem.sigma,
                states=states,
                misfit=np.nan,
                freedom=freedom,
                residuals=None,
            )
        residuals = self.compute_residuals(point)
        sigma = self.sigma if sigma_given or self.weighted else build_noise_estimator(task)(np.concatenate(residuals))
        misfit = sum(float(np.sum((r / sigma) ** 2)) for r in residuals) + compute_within_misfit(task, sigma)
        return Refinement(
            covariance=covariance[:F, :F],
            sigma=sigma,
            states=states,
            misfit=misfit,
            freedom=freedom,
            residuals=tuple(np.where(w > 0, r / sigma, np.nan) for r, w in zip(residuals, self.weights, strict=True)),
            information=_compute_information(K, F),
            project_residuals=project_from_directions(
                K[
                    : len(K) - priors,
                    np.append(task.find_interior_parameters(point.p)[task.free], np.ones(len(theta) - F, dtype=bool)),
                ]
            ),
        )


def _compute_information(K: FloatArray, F: int) -> FloatArray:
    """Compute the information `(F, F)` about the first F columns of K when the others are fitted too.

    With `I = KᵀK` it is the Schur complement `I₁₁ - I₁₂ I₂₂⁻¹ I₂₁`: what the others absorb is no information about the
    first F.
    """
    I = K.T @ K
    return np.asarray(I[:F, :F] - I[:F, F:] @ invert_symmetric(I[F:, F:]) @ I[F:, :F])


ESTIMATOR = Estimator(
    "output-error",
    "nonlinear least squares on forward solutions",
    search_from_data,
    refine,
    check,
    options=("residuals",),
    noise_free=lambda task: task,
    starts=make_output_error_starts,
    handles_hidden_states=True,
    solves_equations=True,
    refits=True,
)
