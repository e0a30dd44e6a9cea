"""Output error: the parameters and initial states whose forward solutions are nearest to the data.

    minimise ½ Σ_m ‖(x^data_m - x(t_m; p, x₀)) / σ‖²   over p and one initial state x₀ for each trajectory

in working coordinates, so that log-normal noise has log residuals (`residuals="noise"`); or, as the paper does for both
kinds of noise, with plain differences `u^data - u` and no weights (`residuals="additive"`). Where only a part is
measured, x are the measured columns, and of x₀ only what is not given is searched for. The Jacobian comes from the
sensitivities of the forward solution (`shooting`); the solver is SciPy's trust-region reflective least squares, inside
the box. Where the model cannot be solved the step is refused. Nothing here uses test functions.

With K = ∂x/∂(p, x₀)/σ the covariance is `(KᵀK)⁻¹`; for plain differences it is `K⁺ V K⁺ᵀ`, V their variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..collocation.hidden_state_problem import LatentProblem
from ..collocation.residual_projection import of_directions
from ..linalg.symmetric_matrix import symmetric_inverse
from ..optimize.least_squares import Tolerances, least_squares
from ..parameters.working_scale import Scale
from ..results.status import Status
from ..support.array_types import FloatArray
from ..support.errors import FitError
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator
from .forward_residuals import shots
from .initial_guess import first_beginnings
from .noise_level import degrees_of_freedom, noise_of, with_noise, within_misfit
from .relaxed_model import starts as relaxed_starts
from .start_points import make_starts

MAX_ITERATIONS = 200
ROUNDS = 4
HIDDEN = 1e-4
"""Of σ: an initial value that is smaller is as good as none."""
STILL, GAINED, MOVED = 10, 0.1, 0.02
"""Steps in which the log-likelihood gains so little, and the parameters move by so little of their standard errors,
that what is left to gain is with initial states that noise hides."""
HOPELESS = 1e100
"""Cost from which the solver's own sums would overflow."""
FIRST_ROWS = (1, 3, 10)


def check(task: Task) -> None:
    """Plain differences have no covariance."""
    if task.options.residuals == "additive" and task.problem.data.covariance is not None:
        raise FitError("Plain differences know no covariance of the states; use residuals='noise'.")


def from_data(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start.

    The initial states begin at the first rows of the data; where the model cannot be solved from there, as noise may
    have taken a state across zero, at the mean of the first few. States that are not measured begin at the constants
    of the start.
    """
    assert start is not None
    if isinstance(task.problem, LatentProblem):
        return search(task, start[: len(task.free)], first_beginnings(task.problem, start))
    used = 0
    for rows in FIRST_ROWS:
        outcome = search(task, start, tuple(form.x[:, :rows].mean(axis=1) for form in task.weak.forms))
        used += outcome.evaluations
        if outcome.status is not Status.START:
            break
    return replace(outcome, evaluations=used)


def search(task: Task, p: FloatArray, initial: tuple[FloatArray, ...], logs: bool = False) -> Outcome:
    """One estimate from parameters and initial states `(D,)` in working coordinates; with `logs` by relative steps."""
    least = _LeastSquares(task)
    status, used = least.minimise(p, initial, logs)
    if least.best is None:
        return Outcome(p, np.inf, Status.START, 0, used)
    return Outcome(least.best.p, least.best.cost, status, used, used, initial=least.best.initial)


def cost(task: Task, p: FloatArray, initial: tuple[FloatArray, ...]) -> float:
    """Half the sum of squares at a point; infinite where the model cannot be solved, or not in time."""
    try:
        r = _LeastSquares(task).residual(np.concatenate([p[task.free], *initial]))
    except _Late:
        return np.inf
    return np.inf if r is None else 0.5 * float(r @ r)


def residuals_at(task: Task, p: FloatArray, initial: tuple[FloatArray, ...]) -> tuple[FloatArray, ...]:
    """Of each trajectory in working coordinates, over the scale, `(time, K)`; the model must be solvable there."""
    return _LeastSquares(task).residuals(_Point(p, initial, np.nan))


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
        latent=least.shots.latent(point.p, point.initial),
    )


def starts(task: Task, given: tuple[FloatArray, ...], count: int | None, seed: int) -> list[FloatArray]:
    """Those of the weak form, or where there is none those of the relaxed model."""
    make = relaxed_starts if isinstance(task.problem, LatentProblem) else make_starts
    return make(task, given, count, seed)


class _Late(Exception):
    """The time limit has passed."""


class _Settled(Exception):
    """The parameters no longer move."""


@dataclass(frozen=True)
class _Point:
    """Parameters and initial states, with what was found there."""

    p: FloatArray
    initial: tuple[FloatArray, ...]
    cost: float


class _LeastSquares:
    """The problem over `θ = (free parameters, initial states in working coordinates)`."""

    def __init__(self, task: Task) -> None:
        self.task, data = task, task.problem.data
        # One over the scale of each value; zero where nothing was measured.
        self.weights = [np.where(q.measured, 1.0 / q.scales, 0.0) for q in data.trajectories]
        self.additive = task.options.residuals == "additive"
        noisy = bool((task.problem.sigma > 0).all())
        self.weighted = noisy and not self.additive
        # Without noise any scale will do.
        self.sigma = task.problem.sigma if noisy else task.problem.spread
        self.tolerance = min(task.options.tolerance, 1e-6)
        self.shots = shots(task.problem, self.tolerance, self.additive)
        self.best: _Point | None = None

    def minimise(self, p: FloatArray, initial: tuple[FloatArray, ...], logs: bool = False) -> tuple[Status, int]:
        """Search from a point; the best one met is kept in `best`. Returns the status and evaluations.

        With `logs` all that begins positive and has no other logarithm moves on a log scale, unless bounds let it be
        negative.
        """
        lower, upper = self.task.box
        open_ends = np.full(sum(map(len, initial)), np.inf)
        low, high = np.concatenate([lower, -open_ends]), np.concatenate([upper, open_ends])
        theta = np.concatenate([p[self.task.free], *initial])
        margin = 1e-9 * np.where(np.isfinite(high - low), high - low, 1.0)
        theta = np.clip(theta, low + margin, high - margin)
        scale = Scale(np.zeros(len(theta), dtype=bool))
        if logs:
            scale, least = self._positive(theta, lower)
            theta, low = np.maximum(theta, least), np.maximum(low, least)
        limit = self.task.options.max_iterations or MAX_ITERATIONS
        tolerances = Tolerances(self.tolerance, self.tolerance, self.tolerance)

        def residual(q: FloatArray) -> FloatArray | None:
            return self.residual(scale.natural(q))

        steps: list[tuple[FloatArray, float]] = []

        def jacobian(q: FloatArray) -> FloatArray:
            x = scale.natural(q)
            K = self._jacobian(x) * scale.slope(x)
            steps.append((q, self.best.cost if self.best else np.inf))
            if len(steps) > STILL and self._settled(steps[-1 - STILL], steps[-1], K):
                raise _Settled
            return K

        begin, ends = scale.working(theta), (scale.working(low), scale.working(high))
        try:
            # On a log scale a step of one is as long as another: what is hidden does not run away.
            together = np.where(scale.log, 1.0, np.maximum(np.abs(theta), HIDDEN)) if logs else None
            solved = least_squares(residual, jacobian, begin, ends, tolerances, limit, scale=together)
        except _Late:
            return Status.TIME, 0 if self.best is None else 1
        except _Settled:
            return Status.CONVERGED, len(steps)
        if not solved.defined:
            return Status.START, 1
        self._snap(scale.natural(solved.x), solved.active, low, high)
        return Status.CONVERGED if solved.converged else Status.ITERATIONS, solved.evaluations

    def _settled(self, before: tuple[FloatArray, float], now: tuple[FloatArray, float], K: FloatArray) -> bool:
        """Whether little was gained since, and less moved: δᵀ I δ for parameters, I their information."""
        if self.additive or before[1] - now[1] > GAINED:
            return False
        F = int(self.task.free.sum())
        delta = (now[0] - before[0])[:F]
        return bool(delta @ _information(K, F) @ delta < MOVED**2)

    def _positive(self, theta: FloatArray, lower: FloatArray) -> tuple[Scale, FloatArray]:
        """What may move on a log scale, and the least that it is worth; initial states are all measured."""
        trajectories = len(self.weights)
        plain = [kind == "gaussian" for kind in self.task.problem.data.noise]
        parameters = (lower >= 0) & ~self.task.scale.log[self.task.free]
        log = np.append(parameters, plain * trajectories) & (theta > 0)
        least = np.append(np.zeros(len(lower)), np.tile(HIDDEN * self.sigma, trajectories))
        return Scale(log), np.where(log, least, -np.inf)

    def _snap(self, theta: FloatArray, active: Any, low: FloatArray, high: FloatArray) -> None:
        """Put what the solver left just inside a bound onto it: it keeps to the interior."""
        if self.best is None or not np.any(active):
            return
        moved = np.where(active < 0, low, np.where(active > 0, high, theta))
        r = self.residual(moved)
        if r is not None and 0.5 * float(r @ r) <= self.best.cost * (1 + 1e-6) + 1e-9:
            p, initial = self._split(moved)
            self.best = _Point(p, initial, 0.5 * float(r @ r))

    def _split(self, theta: FloatArray) -> tuple[FloatArray, tuple[FloatArray, ...]]:
        F = int(self.task.free.sum())
        return self.task.expand(theta[:F]), tuple(theta[F:].reshape(len(self.weights), self.shots.begins))

    def residual(self, theta: FloatArray) -> FloatArray | None:
        """Residuals of all trajectories `(rows,)`; None where the model cannot be solved."""
        if self.task.stop():
            raise _Late
        p, initial = self._split(theta)
        parts = []
        for k, (data, x0) in enumerate(zip(self.shots.data, initial, strict=True)):
            x = self.shots.columns(k, p, x0)
            if x is None:
                return None
            with np.errstate(all="ignore"):
                difference = x - data if self.additive else (x - data) / self.sigma
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
        F, begins = int(self.task.free.sum()), self.shots.begins
        K, row = np.zeros((rows, len(theta))), 0
        for k, x0 in enumerate(initial):
            block = self.shots.sensitivity(k, p, x0)
            if block is None:  # solved a moment ago without sensitivities: take no step from here
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

    def residuals(self, point: _Point) -> tuple[FloatArray, ...]:
        """`x^data - x` of each trajectory in working coordinates, over the scale, `(time, K)`; zero where missing."""
        found = []
        for k, (data, x0) in enumerate(zip(self.shots.data, point.initial, strict=True)):
            x = self.shots.columns(k, point.p, x0)
            assert x is not None
            found.append(np.where(self.weights[k] > 0, (data - x) * self.weights[k], 0.0))
        return tuple(found)

    def refined(self, point: _Point) -> Refined:
        """Covariance, σ, states and goodness of fit at a point."""
        task, F = self.task, int(self.task.free.sum())
        known = task.problem.data.sigma is not None
        if self.weighted and not known:
            self.sigma = noise_of(task)(np.concatenate(self.residuals(point)))
        pairs = list(enumerate(point.initial))
        states = tuple(u for k, x0 in pairs if (u := self.shots.states(k, point.p, x0)) is not None)
        theta = np.concatenate([point.p[task.free], *point.initial])
        priors = 0 if task.prior is None else len(task.prior.index)
        K = self._jacobian(theta)
        covariance = symmetric_inverse(K.T @ K)
        freedom = degrees_of_freedom(task)
        if self.additive:
            # Plain differences have no likelihood behind them: σ is the filter's, and nothing is tested.
            spread = [(task.problem.sigma * self.shots.slopes(k, point.p, x0)).ravel() for k, x0 in pairs]
            noisy = K * np.concatenate([*spread, np.ones(priors)])[:, None]
            with np.errstate(invalid="ignore"):
                covariance = covariance @ (noisy.T @ noisy) @ covariance
            return Refined(
                covariance=covariance[:F, :F],
                sigma=task.problem.sigma,
                states=states,
                misfit=np.nan,
                freedom=freedom,
                residuals=None,
            )
        residuals = self.residuals(point)
        sigma = self.sigma if known or self.weighted else noise_of(task)(np.concatenate(residuals))
        misfit = sum(float(np.sum((r / sigma) ** 2)) for r in residuals) + within_misfit(task, sigma)
        return Refined(
            covariance=covariance[:F, :F],
            sigma=sigma,
            states=states,
            misfit=misfit,
            freedom=freedom,
            residuals=tuple(np.where(w > 0, r / sigma, np.nan) for r, w in zip(residuals, self.weights, strict=True)),
            information=_information(K, F),
            leftover=of_directions(
                K[: len(K) - priors, np.append(task.moving(point.p)[task.free], np.ones(len(theta) - F, dtype=bool))]
            ),
        )


def _information(K: FloatArray, F: int) -> FloatArray:
    """Of the first F columns: the others are fitted too, and what they absorb is no information about these."""
    I = K.T @ K
    return np.asarray(I[:F, :F] - I[:F, F:] @ symmetric_inverse(I[F:, F:]) @ I[F:, :F])


ESTIMATOR = Estimator(
    "output-error",
    "nonlinear least squares on forward solutions",
    from_data,
    refine,
    check,
    options=("residuals",),
    noise_free=lambda task: task,
    starts=starts,
    handles_hidden_states=True,
    solves_equations=True,
    refits=True,
)
