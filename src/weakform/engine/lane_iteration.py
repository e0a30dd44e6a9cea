"""Gauss–Newton iterations in all lanes at once.

Each lane is one fit from one start. A step solves `(H + λ diag H) δ = g` inside the box, with H and g condensed to the
fitted initial values and the free parameters (`passes`), and moves parameters and states together; the states need not
obey the equations before the end.

A step is kept if it decreases one of two functions:

- the sum of squares with the defects closed to first order, `½ Σ (r - ∂h s)²/σ²`. If the equations are linear in the
  states, this is the sum of squares of the exact solution at these parameters;
- the exact penalty function `½ Σ r²/σ² + μ Σ |c|`, which every short enough step decreases if μ is large enough. From
  noisy states of strongly nonlinear equations, the effect of closing the defects is not linear, and only this one is of
  use.

Otherwise it is taken back, and the next one is shorter and more damped. A step far below the standard errors is kept
without this test, because rounding would decide it.

σ is estimated from the residuals after each step, once steps are small and the defects hardly matter. Lanes that have
converged, or failed, stand still until all have ended; every decision is a mask over the lanes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ..parameters.priors import Priors
from ..support.array_types import BoolArray, FloatArray, IntArray
from .passes import LanePasses, Linearised, find_finite, from_groups


@dataclass(frozen=True)
class _IterationPolicy:
    """When lanes converge, and how steps are damped. All thresholds are by judgement."""

    tolerance: float = 3e-4
    """Root mean square of a step, in standard errors, below which it is the last one."""
    steps_before_abandoning: int = 20
    """Steps after which a lane that is behind is abandoned, if every state is measured."""
    hidden_steps_before_abandoning: int = 35
    """The same if states are hidden, where the way to the optimum is longer."""
    abandoned_behind: float = 20.0
    """Log-likelihood by which it is behind a converged lane of the same dataset."""
    max_steps: int = 60
    """Steps of a lane, with those that are taken back."""
    poor_ratio: float = 0.25
    """Decrease over the predicted one, below which the damping is raised after a step that is kept."""
    good_ratio: float = 0.75
    """Decrease over the predicted one, above which the damping falls."""
    floor_change: float = 1e-6
    """Change of the sum of squares, in units of log-likelihood, of a step along the floor of a valley. A search takes
    the gain that it allows instead."""
    floor_share: float = 0.5
    """Smallest share of such a step: a short one may change little anywhere."""
    floor_steps: int = 4
    """Such steps in succession after which a lane ends: the data hardly distinguish points along the valley."""
    first_damping: float = 1e-3
    """Damping after the first step that is taken back."""
    damping_increase: float = 10.0
    """Factor of the damping after each step that is taken back."""
    damping_decrease: float = 5.0
    """Divisor of the damping after each step that is kept."""
    min_damping: float = 1e-6
    """Damping below which there is none."""
    max_damping: float = 1e10
    """Damping beyond which a lane is stuck: no step decreases its sum of squares."""
    slack: float = 1e-6
    """Increase of the sum of squares, in units of log-likelihood, that is rounding."""
    small_step: float = 0.02
    """Root mean square of a step, in standard errors, below which it is not judged."""
    closed_share: float = 0.05
    """Change of the residuals by closing the defects, relative to the residuals, below which σ is estimated."""
    share_decrease: float = 0.5
    """Factor of the share of a step that is taken, after each step that is taken back."""
    share_increase: float = 4.0
    """Factor of this share after each step that is kept; it is at most one."""
    damping_share: float = 0.25
    """Share of a step up to which a step that is taken back is also damped more."""
    max_whole_drift: float = 0.5
    """Root mean square change of the observables, in σ, up to which a step is kept although it increases the sum of
    squares."""
    max_increases: int = 4
    """Such steps since the last decrease, at most."""
    max_increase: float = 20.0
    """Increase over the smallest sum of squares, in units of log-likelihood, up to which such a step is kept."""
    min_share: float = 0.01
    """Smallest share: below it only the damping shortens steps."""
    settling_step: float = 3.0
    """Root mean square of a step, in standard errors, below which σ is estimated: far from a solution the residuals are
    not noise."""
    sigma_tolerance: float = 1e-3
    """Relative change of σ below which it has converged."""
    max_log_step: float = 3.0
    """Largest step of a parameter on a log scale."""
    max_growth: float = 1e6
    """Derivative of a state by an initial value above which condensing loses too many digits: the square of it is the
    condition of H, so that some four digits remain."""


POLICY = _IterationPolicy()
"""The thresholds in use."""
MIN_RELATIVE_SIGMA = 1e-7
"""Smallest σ relative to the spread of a column, as in `estimators.noise_level`."""


class LaneEnd(IntEnum):
    """How the iteration of a lane ended."""

    RUNNING = 0
    CONVERGED = 1
    ITERATIONS = 2
    STUCK = 3
    NOT_FINITE = 4
    DIVERGING = 5
    ABANDONED = 6


@dataclass(frozen=True)
class LaneProblem:
    """What the iteration has to know besides the passes.

    Attributes
    ----------
    base : ndarray, (J,)
        Values of the fixed parameters.
    free : ndarray of int, (F,)
    log : ndarray of bool, (J,)
        Parameters on a log scale.
    lower, upper : ndarray, (F,)
        Bounds of the free parameters on the scale of the iteration.
    prior : Priors, or None
        On the scale of the iteration.
    sigma : ndarray, (lanes, K), or None
        σ of each column if it is given.
    spread : ndarray, (lanes, K)
        Standard deviation of each column.
    """

    base: FloatArray
    free: IntArray
    log: BoolArray
    lower: FloatArray
    upper: FloatArray
    prior: Priors | None
    sigma: FloatArray | None
    spread: FloatArray

    def expand(self, q: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return all parameters `(lanes, J)` in natural units, and the slopes `(lanes, F)` of the free ones, from q."""
        p = np.tile(self.base, (len(q), 1))
        log = self.log[self.free]
        with np.errstate(over="ignore"):
            natural = np.where(log, np.exp(q), q)
        p[:, self.free] = natural
        return p, np.where(log, natural, 1.0)

    def compute_prior(self, q: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return penalty `(lanes,)`, gradient and Gauss–Newton diagonal `(lanes, F)` of the prior."""
        zero = np.zeros_like(q)
        if self.prior is None:
            return np.zeros(len(q)), zero, zero.copy()
        full = np.tile(self.base, (len(q), 1))
        full[:, self.free] = q
        rho, first, _ = self.prior.compute_residuals(full)
        gradient, diagonal = np.zeros_like(full), np.zeros_like(full)
        gradient[:, self.prior.index], diagonal[:, self.prior.index] = rho * first, first**2  # one prior a parameter
        penalty = 0.5 * np.sum(rho**2, axis=1)
        return np.where(np.isfinite(penalty), penalty, np.inf), gradient[:, self.free], diagonal[:, self.free]


@dataclass(frozen=True)
class LaneSolution:
    """Where the lanes ended.

    Attributes
    ----------
    q : ndarray, (lanes, F)
        Free parameters on the scale of the iteration.
    p : ndarray, (lanes, J)
    sigma : ndarray, (lanes, K)
    information : ndarray, (lanes, n, n)
        Of the fitted initial values and the free parameters, with the prior.
    objective : ndarray, (lanes,)
        Minus the log-likelihood and the log-density of the prior, up to constants; infinite for lanes without solution.
    squares : ndarray, (lanes, K)
        Σ w² r² of each column.
    end : ndarray of int, (lanes,)
        A `LaneEnd` for each lane.
    steps : ndarray of int, (lanes,)
    at_lower, at_upper : ndarray of bool, (lanes, F)
        Parameters at their bounds.
    """

    q: FloatArray
    p: FloatArray
    sigma: FloatArray
    information: FloatArray
    objective: FloatArray
    squares: FloatArray
    end: IntArray
    steps: IntArray
    at_lower: BoolArray
    at_upper: BoolArray


def solve_lanes(
    passes: LanePasses,
    problem: LaneProblem,
    q: FloatArray,
    sigma: FloatArray,
    dataset: IntArray | None = None,
    *,
    gain: float = 0.0,
) -> LaneSolution:
    """Iterate from parameters q `(lanes, F)`, first σ `(lanes, K)`, and the states of the passes.

    Parameters
    ----------
    passes : LanePasses
        Their states are moved to the solution.
    problem : LaneProblem
    q : ndarray, (lanes, F)
    sigma : ndarray, (lanes, K)
        Used as it is if `problem.sigma` is given.
    dataset : ndarray of int, (lanes,), optional
        Number of the dataset of each lane: a start that falls far behind one of the same dataset is abandoned.
    gain : float
        Log-likelihood that the next step promises, below which a lane has converged: for a search whose results are
        refined. Along a valley that the data do not determine, steps need not become small.
    """
    with np.errstate(all="ignore"):
        return _Iteration(passes, problem, q, sigma).run(dataset, gain)


class _Iteration:
    """The state of the iteration of all lanes."""

    def __init__(self, passes: LanePasses, problem: LaneProblem, q: FloatArray, sigma: FloatArray) -> None:
        self.passes, self.problem = passes, problem
        self.q = np.clip(q, problem.lower, problem.upper)
        self.sigma = sigma.copy()
        lanes = passes.lanes
        self.end = np.zeros(lanes, dtype=np.int64)
        self.steps = np.zeros(lanes, dtype=np.int64)
        counts = np.count_nonzero(passes.weights, axis=1)
        total = counts.sum(axis=1)
        unknowns = passes.model.unknowns
        self.damping = np.zeros(lanes)
        self.share = np.ones(lanes)
        self.penalty = np.zeros(lanes)
        self.last_gain = np.full(lanes, np.inf)
        self.floor_steps = np.zeros(lanes, dtype=np.int64)
        self.best, self.increases = np.full(lanes, np.inf), np.zeros(lanes, dtype=np.int64)
        # The change of the observables is the length of a step in standard errors, spread over all values.
        self.step_to_drift = np.sqrt(unknowns / np.maximum(total, 1))
        # Defects are counted in units of the variation of their state.
        spread = from_groups(passes.x.std(axis=1), lanes)
        self.state_scale = np.where(spread > 0, spread, 1.0)
        # Each column loses its share of what is fitted, as in `estimators.noise_level`.
        share = np.maximum(total - unknowns, 1) / np.maximum(total, 1)
        self.freedom = np.maximum(counts * share[:, None], 1e-300)
        self.counts = counts
        self.sigma_settled = np.ones(lanes, dtype=bool) if problem.sigma is not None else np.zeros(lanes, dtype=bool)

    def set_point(self) -> None:
        """Pass the current parameters and σ on."""
        p, slope = self.problem.expand(self.q)
        self.passes.set_point(p, slope, self.sigma)

    def compute_objective(self, squares: FloatArray) -> FloatArray:
        """Return half the weighted sum of squares, with the prior, at the current σ, `(lanes,)`."""
        value = 0.5 * np.sum(squares / self.sigma**2, axis=1) + self.problem.compute_prior(self.q)[0]
        return np.where(np.isfinite(value), value, np.inf)

    def estimate_sigma(self, lin: Linearised, running: BoolArray) -> None:
        """Estimate σ in the lanes in which closing the defects hardly changes the residuals."""
        if self.problem.sigma is not None:
            return
        ready = running & ~self.has_open_defects(lin)
        floor = MIN_RELATIVE_SIGMA * self.problem.spread
        new = np.maximum(np.sqrt(lin.closed_squares / self.freedom), floor)
        new = np.where(self.counts > 0, new, self.sigma)
        settled = (np.abs(new / self.sigma - 1) < POLICY.sigma_tolerance).all(axis=1)
        self.sigma_settled = np.where(ready, settled, np.where(running, False, self.sigma_settled))
        self.sigma = np.where(ready[:, None], new, self.sigma)

    def has_open_defects(self, lin: Linearised) -> BoolArray:
        """Return True for lanes, `(lanes,)`, in which closing the defects would change the residuals much."""
        change = np.abs(lin.closed_squares - lin.squares).sum(axis=1)
        return np.asarray(~(change <= POLICY.closed_share * lin.squares.sum(axis=1)))

    def solve_step(self, lin: Linearised) -> tuple[FloatArray, FloatArray]:
        """Return the step δ `(lanes, n)` inside the box, and its root mean square in standard errors."""
        problem, Q = self.problem, len(self.passes.model.free_initial)
        _, gradient, diagonal = problem.compute_prior(self.q)
        H, g = lin.H.copy(), lin.g.copy()
        n = H.shape[1]
        index = np.arange(Q, n)
        H[:, index, index] += diagonal
        g[:, Q:] -= gradient
        low = np.concatenate([np.full((len(g), Q), -np.inf), problem.lower - self.q], axis=1)
        high = np.concatenate([np.full((len(g), Q), np.inf), problem.upper - self.q], axis=1)
        on_log = problem.log[problem.free]
        low[:, Q:] = np.where(on_log, np.maximum(low[:, Q:], -POLICY.max_log_step), low[:, Q:])
        high[:, Q:] = np.where(on_log, np.minimum(high[:, Q:], POLICY.max_log_step), high[:, Q:])
        delta = solve_in_box(H, g, self.damping, low, high)
        size = np.sqrt(np.maximum(np.einsum("li,lij,lj->l", delta, H, delta), 0.0) / n)
        return delta, size

    def predict_gain(self, lin: Linearised) -> FloatArray:
        """Return the decrease of the objective that an undamped step inside the box promises, `(lanes,)`."""
        damping, self.damping = self.damping, np.zeros_like(self.damping)
        delta, _ = self.solve_step(lin)
        self.damping = damping
        slope, curvature = self.model_step(lin, delta)
        return slope - 0.5 * curvature

    def model_step(self, lin: Linearised, delta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `gᵀδ` and `δᵀHδ`, `(lanes,)`: a share s of the step decreases the sum by `s gᵀδ - ½ s² δᵀHδ`."""
        return np.einsum("li,li->l", lin.g, delta), np.einsum("li,lij,lj->l", delta, lin.H, delta)

    def run(self, dataset: IntArray | None, gain: float) -> LaneSolution:
        """Iterate until all lanes have ended."""
        passes, problem = self.passes, self.problem
        self.set_point()
        lin = passes.linearise()
        start = self.compute_objective(lin.closed_squares)
        self.end[~find_finite(lin.g) | ~np.isfinite(start)] = LaneEnd.NOT_FINITE
        Q = len(passes.model.free_initial)
        patience = POLICY.steps_before_abandoning
        if passes.model.column_of_state is None:
            patience = POLICY.hidden_steps_before_abandoning
        for number in range(POLICY.max_steps):
            running = self.end == LaneEnd.RUNNING
            if not running.any():
                break
            delta, size = self.solve_step(lin)
            bad = running & ~find_finite(delta)
            self.end[bad] = LaneEnd.STUCK
            running &= ~bad
            delta[~running] = 0.0
            slope, curvature = self.model_step(lin, delta)
            self.raise_penalty(lin, 0.5 * curvature - slope)
            is_full = (self.damping <= POLICY.first_damping) & (self.share == 1.0)
            last = running & (size <= POLICY.tolerance) & is_full & self.sigma_settled
            if gain:
                promised = self.predict_gain(lin)
                last |= running & (promised >= 0) & (promised <= gain) & (self.last_gain <= gain)
            old_x, old_q = passes.x.copy(), self.q.copy()
            closed, penalised = self.compute_objective(lin.closed_squares), self.compute_penalised(lin)
            share = np.where(running, self.share, 0.0)
            passes.move(delta, share)
            self.q = np.clip(self.q + share[:, None] * delta[:, Q:], problem.lower, problem.upper)
            self.steps += running
            self.set_point()
            new = passes.linearise(np.unique(np.flatnonzero(running) // passes.width))
            closed_trial, penalised_trial = self.compute_objective(new.closed_squares), self.compute_penalised(new)
            self.best = np.fmin(self.best, closed)
            slack = POLICY.slack * np.maximum(1.0, 1e-3 * np.abs(closed))
            # States that obey the equations have no defects, and give the penalty function no scale.
            has_descended = (penalised_trial <= penalised - slack) & self.has_open_defects(lin)
            decreased = (closed_trial <= closed + slack) | has_descended
            finite = find_finite(new.g) & np.isfinite(closed_trial)
            # Along a curved valley good steps may increase both functions for a while.
            is_within_noise = (size * self.step_to_drift <= POLICY.max_whole_drift) & ~self.has_open_defects(lin)
            is_within_noise &= (closed_trial <= self.best + POLICY.max_increase) & (
                self.increases < POLICY.max_increases
            )
            kept = finite & ((size <= POLICY.small_step) | decreased | is_within_noise)
            self.increases = np.where(closed_trial < self.best - slack, 0, self.increases + ~decreased)
            self.best = np.where(kept, np.fmin(self.best, closed_trial), self.best)
            rejected, accepted = running & ~kept, running & kept
            # Where the quadratic model predicts too much, as along a curved valley, the damping must not fall.
            predicted = slope * share - 0.5 * share**2 * curvature
            is_trusted = self.has_open_defects(lin) | (predicted <= slack)
            is_poor = ~is_trusted & (closed - closed_trial < POLICY.poor_ratio * predicted)
            is_good = is_trusted | (closed - closed_trial > POLICY.good_ratio * predicted)
            raised = np.maximum(self.damping * POLICY.damping_decrease, POLICY.first_damping)
            self.damping = np.where(accepted & is_poor, raised, self.damping)
            self.damping[accepted & is_good] /= POLICY.damping_decrease
            self.damping[self.damping < POLICY.min_damping] = 0.0
            on_floor = (
                accepted
                & (np.abs(closed - closed_trial) <= max(POLICY.floor_change, gain))
                & (share >= POLICY.floor_share)
            )
            self.floor_steps = np.where(on_floor, self.floor_steps + 1, np.where(accepted, 0, self.floor_steps))
            last |= (self.floor_steps >= POLICY.floor_steps) & self.sigma_settled & ~self.has_open_defects(new)
            self.share[accepted] = np.minimum(POLICY.share_increase * self.share[accepted], 1.0)
            if rejected.any():
                self._take_back(rejected, old_x, old_q)
                self.set_point()
                new = passes.linearise(np.unique(np.flatnonzero(rejected) // passes.width))
            self.end[rejected & (self.damping > POLICY.max_damping)] = LaneEnd.STUCK
            self.end[accepted & last] = LaneEnd.CONVERGED
            self.last_gain = np.where(accepted, np.abs(closed - closed_trial), self.last_gain)
            lin = new
            if dataset is not None and number >= patience:
                self._abandon(lin, dataset)
            settling = (self.end == LaneEnd.RUNNING) & accepted & (size <= POLICY.settling_step)
            before = self.sigma
            self.estimate_sigma(lin, settling)
            changed = (self.sigma != before).any(axis=1)
            self.best = np.where(changed, self.compute_objective(lin.closed_squares), self.best)
        self.end[self.end == LaneEnd.RUNNING] = LaneEnd.ITERATIONS
        return self._finish(lin)

    def compute_defect_size(self, lin: Linearised) -> FloatArray:
        """Return the sum of all defects, each in units of its state, `(lanes,)`."""
        size: FloatArray = np.sum(lin.defects / self.state_scale, axis=1)
        return size

    def compute_penalised(self, lin: Linearised) -> FloatArray:
        """Return the exact penalty function: half the sum of squares, with the prior, plus the penalty on defects."""
        return np.asarray(self.compute_objective(lin.squares) + self.penalty * self.compute_defect_size(lin))

    def raise_penalty(self, lin: Linearised, change: FloatArray) -> None:
        """Raise the penalty where the step would not decrease the penalty function by its linear model.

        The model predicts the change `m - m₀ - μ |c|` for a full step, with the sum of squares m₀ now and m after the
        step, of which `change` `(lanes,)` is the difference to the sum with closed defects. It has to be at most
        `-½ μ |c|`.
        """
        after = 0.5 * np.sum(lin.closed_squares / self.sigma**2, axis=1) + change
        now = 0.5 * np.sum(lin.squares / self.sigma**2, axis=1)
        size = self.compute_defect_size(lin)
        wanted = np.where(size > 0, 2 * (after - now) / size, 0.0)
        self.penalty = np.fmax(self.penalty, wanted)

    def _abandon(self, lin: Linearised, dataset: IntArray) -> None:
        """End lanes that are far behind a converged lane of the same dataset."""
        squares = np.minimum(lin.squares, lin.closed_squares)
        if self.problem.sigma is None:  # the likelihood with σ at its maximum
            counts = np.maximum(self.counts, 1)
            value = 0.5 * np.sum(self.counts * np.log(squares / counts), axis=1)
        else:
            value = self.compute_objective(squares)
        best = np.full(int(dataset.max()) + 1, np.inf)
        done = self.end == LaneEnd.CONVERGED
        np.minimum.at(best, dataset[done], value[done])
        behind = (self.end == LaneEnd.RUNNING) & (value > best[dataset] + POLICY.abandoned_behind)
        self.end[behind] = LaneEnd.ABANDONED

    def _take_back(self, rejected: BoolArray, old_x: FloatArray, old_q: FloatArray) -> None:
        """Return to the last point in some lanes, and make their next step shorter and more damped."""
        passes = self.passes
        mask = np.zeros(passes.groups * passes.width, dtype=bool)
        mask[: passes.lanes] = rejected
        at = mask.reshape(passes.groups, 1, 1, passes.width)
        np.copyto(passes.x, old_x, where=at)
        self.q[rejected] = old_q[rejected]
        # A shorter step keeps its direction along a flat valley; only if that does not help, the step is damped.
        is_short = rejected & (self.share <= POLICY.damping_share)
        raised = np.maximum(self.damping * POLICY.damping_increase, POLICY.first_damping)
        self.damping = np.where(is_short, raised, self.damping)
        self.share = np.where(rejected, np.maximum(self.share * POLICY.share_decrease, POLICY.min_share), self.share)

    def _finish(self, lin: Linearised) -> LaneSolution:
        """Collect the results; a lane whose states diverge too fast has no solution."""
        problem, Q = self.problem, len(self.passes.model.free_initial)
        diverging = (self.end == LaneEnd.CONVERGED) & ~(lin.growth <= POLICY.max_growth)
        self.end[diverging] = LaneEnd.DIVERGING
        p, _ = problem.expand(self.q)
        H = lin.H.copy()
        index = np.arange(Q, H.shape[1])
        H[:, index, index] += problem.compute_prior(self.q)[2]
        value = self.compute_objective(lin.squares) + np.sum(self.counts * np.log(self.sigma), axis=1)
        value = np.where(np.isfinite(value) & (self.end != LaneEnd.NOT_FINITE), value, np.inf)
        return LaneSolution(
            q=self.q,
            p=p,
            sigma=self.sigma,
            information=H,
            objective=value,
            squares=lin.squares,
            end=self.end,
            steps=self.steps,
            at_lower=self.q <= problem.lower,
            at_upper=self.q >= problem.upper,
        )


def solve_in_box(H: FloatArray, g: FloatArray, damping: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Minimise `½ δᵀ(H + λ diag H) δ - gᵀδ` with `low <= δ <= high`, in each lane.

    Principal pivoting: with some unknowns held at a side of the box, the others are solved for; then those that left
    the box are held, and those whose gradient points inwards are released, all together. If that does not reduce their
    number for a while, only the last of them is exchanged, which always ends (Murty's rule).

    Parameters
    ----------
    H : ndarray, (lanes, n, n)
    g : ndarray, (lanes, n)
    damping : ndarray, (lanes,)
    low, high : ndarray, (lanes, n)

    Returns
    -------
    ndarray, (lanes, n)
        NaN in lanes whose matrix is singular.
    """
    n = g.shape[1]
    diagonal = np.maximum(np.einsum("lii->li", H), np.finfo(float).tiny)
    # Scaled to a unit diagonal: parameters differ by orders of magnitude.
    d = np.sqrt(diagonal)
    scaled = H / (d[:, :, None] * d[:, None, :])
    index = np.arange(n)
    scaled[:, index, index] = 1.0 + damping[:, None] + STEP_RIDGE
    b, lower, upper = g / d, low * d, high * d
    delta = _solve_symmetric(scaled, b)
    todo = np.flatnonzero(((delta < lower) | (delta > upper)).any(axis=1))
    if len(todo):
        delta[todo] = _pivot(scaled[todo], b[todo], lower[todo], upper[todo], delta[todo])
    return np.asarray(np.clip(delta, lower, upper) / d)


MAX_PIVOTS_PER_UNKNOWN = 10
"""Exchanges after which pivoting ends, for each unknown. By judgement: it usually takes two or three in all."""
MAX_BLOCK_PIVOTS = 3
"""Exchanges of all unknowns together that may fail to reduce their number, before they are exchanged one by one. The
usual choice for this algorithm."""


def _pivot(A: FloatArray, b: FloatArray, lower: FloatArray, upper: FloatArray, delta: FloatArray) -> FloatArray:
    """Solve the problem of `solve_in_box` in lanes whose free solution `delta` leaves the box."""
    lanes, n = b.shape
    delta = delta.copy()
    side = np.zeros((lanes, n), dtype=np.int64)  # -1 and 1 for unknowns held at a side
    fewest, patience = np.full(lanes, n + 1), np.full(lanes, MAX_BLOCK_PIVOTS)
    active = np.arange(lanes)
    for _ in range(MAX_PIVOTS_PER_UNKNOWN * n):
        held = side[active]
        part = delta[active]
        slope = b[active] - np.einsum("lij,lj->li", A[active], part)
        free = held == 0
        below, above = free & (part < lower[active]), free & (part > upper[active])
        release = ((held < 0) & (slope > 0)) | ((held > 0) & (slope < 0))
        wrong = below | above | release
        count = wrong.sum(axis=1)
        going = (count > 0) & find_finite(part)
        if not going.any():
            break
        fewer = count < fewest[active]
        patience[active] = np.where(fewer, MAX_BLOCK_PIVOTS, patience[active] - 1)
        fewest[active] = np.minimum(count, fewest[active])
        # The last of the wrong unknowns, where exchanging all of them does not help.
        last = n - 1 - np.argmax(wrong[:, ::-1], axis=1)
        single = patience[active] < 0
        exchanged = np.where(single[:, None], wrong & (np.arange(n) == last[:, None]), wrong)
        new = np.where(exchanged & below, -1, np.where(exchanged & above, 1, np.where(exchanged & release, 0, held)))
        active = active[going]
        side[active] = new[going]
        fixed = side[active] != 0
        at_side = np.where(side[active] < 0, lower[active], upper[active])
        part = np.where(fixed, at_side, 0.0)
        M = np.where(fixed[:, :, None] | fixed[:, None, :], 0.0, A[active])
        index = np.arange(n)
        M[:, index, index] = np.where(fixed, 1.0, A[active][:, index, index])
        rhs = b[active] - np.einsum("lij,lj->li", A[active], part)
        delta[active] = np.where(fixed, part, _solve_symmetric(M, np.where(fixed, 0.0, rhs)))
    return delta


STEP_RIDGE = 1e-10
"""Added to the unit diagonal of the scaled matrix: an unknown without any effect stays where it is. By judgement."""


def _solve_symmetric(A: FloatArray, b: FloatArray) -> FloatArray:
    """Solve `A z = b` in each lane; NaN where A is singular or not finite."""
    finite = find_finite(A) & find_finite(b)
    safe = np.where(finite[:, None, None], A, np.eye(A.shape[1]))
    try:
        z = np.linalg.solve(safe, np.where(finite[:, None], b, 0.0)[:, :, None])[:, :, 0]
    except np.linalg.LinAlgError:
        z = np.full_like(b, np.nan)
        for k in np.flatnonzero(finite):
            try:
                z[k] = np.linalg.solve(safe[k], b[k])
            except np.linalg.LinAlgError:
                continue
    return np.where(finite[:, None], z, np.nan)
