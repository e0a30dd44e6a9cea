"""The relaxed model: for systems of which only a part is measured.

1. From every start: the model is let bend, and made stiff level by level (`collocation.relaxed`).
2. From the best of them, with the exact constraint: σ, unless given, is the root mean square of the residuals, in turn
   with the estimate; where the error of the discretisation is not small against the standard errors, the intervals that
   make it are halved.

The covariance is the inverse of the information about the parameters that is left when states and initial values adapt.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..collocation.bordered_system import Arrow
from ..collocation.continuation import Point, Search, information, relax, settle, sizes
from ..collocation.hidden_state_problem import Latent, LatentProblem, at_samples, refined
from ..collocation.residual_projection import of_relaxed
from ..collocation.soft_constraint import Relaxed
from ..data.event_schedule import unknown_times
from ..linalg.symmetric_matrix import NotPositiveDefinite, symmetric_inverse
from ..optimize.box_quadratic import minimise_in_box
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator
from .forward_residuals import PartlySeen
from .initial_guess import check_beginnings, first_beginnings, first_states, natural_sizes, velocities
from .noise_level import counts, degrees_of_freedom, with_noise, within_misfit
from .start_points import between

STARTS, MORE = 8, 24
"""Starts, and starts where the time at which something happens is to be found: few are near enough."""
ROUNDS, HALVINGS = 8, 6
BIAS, SHARE = 0.1, 0.02
"""Error of the discretisation in standard errors that does not matter, and the share of the largest defect above which
an interval is halved."""
SMALL, MUCH = 0.05, 0.3
"""Error of the rule at a sample, in σ, as in `wendy`: what is not small must fall on a finer mesh."""
EXACT, UNSETTLED = 1e-3, 0.5
"""Share of what varies below which noise is no measure of that; and the log-likelihood that may still change with the
last mesh: more, and the states are none of the equations."""
FLAT = 1e-8
"""Eigenvalue of the information, with unit diagonal, below which a direction is not determined."""
SETTLED = 0.01
"""Log-likelihood that a converged estimate may still gain, or change on a finer mesh."""
GIVEN, FORWARD = 0.03, 1e-6
"""The size of the walk at which a start that is given begins, and the tolerance of the solution there."""
DECADES = ((0.1, 10.0), (1.0, 100.0))
"""Ranges of starts without bounds, around the natural size of a parameter, in turn after all `WAYS`: what is over
long before the data end is faster than it."""
AGREE, LARGE = 3, 20_000
"""Starts that must agree before the others are left out, and the nodes of a problem that is large."""
OUTSIDE = 5
"""How often states outside of the domain are taken from their neighbours."""
REACH = 1.0
"""How far a parameter without bounds may move in one level, relative to its size."""
LEAST_NOISE = 0.01
"""σ of the search, as a share of the spread of a column: less noise only makes the search harder."""
WAYS = ((1.0, LEAST_NOISE), (0.1, LEAST_NOISE), (1.0, 0.3), (0.1, 0.1))
"""How tightly parameters are held, and σ of the search, start by start: what one way leads to another may pass by."""


def starts(task: Task, given: tuple[FloatArray, ...], count: int | None, seed: int) -> list[FloatArray]:
    """Starts `(P + D + 3,)`: parameters, a constant for each state, one if given, and one of the `WAYS`.

    Parameters
    ----------
    task : Task
    given : tuple of ndarray, (P,)
        NaN where nothing is given.
    count : int, optional
    seed : int
    """
    problem = _problem(task)
    rng = np.random.default_rng([seed, 5])
    lower, upper = task.scale.natural(task.lower), task.scale.natural(task.upper)
    sizes = _sizes(problem)
    paces = velocities(problem)
    units = natural_sizes(task, float(np.exp(np.mean(np.log(sizes)))))
    made = []
    several = MORE if unknown_times(problem.shared, len(problem.data.trajectories)) else STARTS
    for k in range(several if count is None else count):
        share = rng.uniform(size=len(lower))
        decade = DECADES[k // len(WAYS) % len(DECADES)]
        constants = rng.choice(sizes) * paces * 10 ** rng.uniform(-1.0, 0.5, size=len(paces))
        p = np.where(task.free, task.scale.working(between(lower, upper, share, units, decade)), task.base)
        # Those that are given may all be wrong in the same way: every second is drawn.
        own = k % 2 == 0 and k // 2 < len(given)
        if own:
            p = np.where(np.isnan(given[k // 2]), p, given[k // 2])
        if task.prior is not None:
            p = task.prior.allowed(p)
        way = WAYS[0 if own else k % len(WAYS)]
        own |= k >= STARTS and k % 2 == 1  # of many starts some from their own solutions, too: phases may wind
        made.append(np.concatenate([np.clip(p, task.lower, task.upper), constants, [own, *way]]))
    check_beginnings(problem, made)
    return made


def _problem(task: Task) -> LatentProblem:
    assert isinstance(task.problem, LatentProblem)
    return task.problem


def _sizes(problem: LatentProblem) -> FloatArray:
    """Sizes that a state of which nothing is known may have: those of measured states and of initial values, or one."""
    names, found = problem.data.names or (), []
    for k, name in enumerate(names):
        if name in problem.shared.states:
            found.append(float(np.nanmax(np.abs(np.concatenate([q.values[:, k] for q in problem.data.trajectories])))))
    found += [abs(float(expr)) for expr in problem.shared.initial.values() if expr.is_Number and expr != 0]
    return np.array([size for size in found if size > 0] or [1.0])


def _limits(task: Task) -> Search:
    """Where parameters may go."""
    return Search(task.lower, task.upper, prior=task.prior, stop=task.stop)


def search(task: Task, start: FloatArray | None) -> Outcome:
    """One estimate from one start."""
    assert start is not None
    problem = _problem(task)
    meshes = problem.meshes()
    given, hold, noise = start[-3:]
    sigma = np.maximum(problem.sigma, noise * problem.spread)
    relaxed = problem.relaxed(meshes, sigma, task.free)
    p = start[: len(problem.model.parameters)]
    X = _inside(relaxed, p, first_states(problem, meshes, start))
    width = task.upper - task.lower
    held = np.where(np.isfinite(width), width, REACH * np.where(p == 0, 1.0, np.abs(p)))
    limits = replace(_limits(task), held=hold * held)
    # Most parameters of which nothing is known are positive, and poles lie at zero: signs change only if they must.
    low = np.where(np.isneginf(task.lower) & ~task.scale.log & (p > 0), 0.0, task.lower)
    high = np.where(np.isposinf(task.upper) & ~task.scale.log & (p < 0), 0.0, task.upper)
    point = relax(relaxed, p, X, replace(limits, lower=low, upper=high))
    if (task.free & ((point.p == low) & (low > task.lower) | (point.p == high) & (high < task.upper))).any():
        point = min(point, relax(relaxed, p, X, limits), key=lambda found: found.value)
    if given:
        point = _near(task, relaxed, start, point, limits)
    if noise > LEAST_NOISE:  # what starts are compared by has the same σ for all
        point = settle(relaxed.with_sigma(np.maximum(problem.sigma, LEAST_NOISE * problem.spread)), point, limits)
    status = Status.CONVERGED if point.done else Status.TIME if task.stop() else Status.ITERATIONS
    if not np.isfinite(point.value):
        return Outcome(point.p, np.inf, Status.START, point.steps, point.steps)
    return Outcome(point.p, point.value, status, point.steps, point.steps, latent=Latent(meshes, point))


def _inside(relaxed: Relaxed, p: FloatArray, X: FloatArray) -> FloatArray:
    """States with which the equations are defined: noise may take the data out of the domain, not the states."""
    for _ in range(OUTSIDE):
        with np.errstate(all="ignore"):
            good = relaxed.defined(p, X)
        if good.all() or not good.any():
            break
        real = np.flatnonzero(good & ~relaxed.layout.ahead)
        if not len(real):
            break
        places = np.arange(len(X))
        right = np.clip(np.searchsorted(real, places), 0, len(real) - 1)
        left = np.maximum(right - 1, 0)
        nearest = np.where(places - real[left] < np.abs(real[right] - places), real[left], real[right])
        X = np.where(good[:, None], X, X[nearest])
    return X


def enough(task: Task, outcomes: list[Outcome]) -> bool:
    """Whether other starts would only cost time: where a problem is large, or all is measured, and starts agree.

    Where all is measured, some that bring nothing better are enough, too.
    """
    best = min(outcome.objective for outcome in outcomes)
    near = [o.objective <= best + SETTLED * max(1.0, abs(best)) for o in outcomes]
    agreed = sum(o.status.converged and good for o, good in zip(outcomes, near, strict=True))
    problem = _problem(task)
    if set(problem.shared.states) <= set(problem.data.names or ()):
        return agreed >= AGREE or len(outcomes) - 1 - near.index(True) >= AGREE
    return agreed >= AGREE and sum(map(len, problem.meshes())) > LARGE


def _near(task: Task, relaxed: Relaxed, start: FloatArray, found: Point, limits: Search) -> Point:
    """From a start that is given also by the model's own solution there; kept unless it is worse."""
    problem, p = _problem(task), start[: len(task.free)]
    meshes = problem.meshes()
    solved = PartlySeen(problem, FORWARD, meshes=meshes).latent(p, first_beginnings(problem, start))
    if solved is None:
        return found
    near = relax(relaxed, p, solved.point.X, limits, GIVEN)
    return near if near.value <= found.value + SETTLED else found


def refine(task: Task, outcome: Outcome) -> Outcome:
    """The exact constraint with a σ that agrees with the residuals, on a mesh that is fine enough."""
    if outcome.latent is None:
        return outcome
    problem, limits = _problem(task), _limits(task)
    meshes, point = outcome.latent.meshes, outcome.latent.point
    sigma = np.where(problem.sigma > 0, problem.sigma, LEAST_NOISE * problem.spread)
    before, last, singular = np.inf, np.inf, False
    for left_over in reversed(range(HALVINGS)):
        relaxed = problem.relaxed(meshes, sigma, task.free)
        point, sigma = _settled(task, relaxed, point, limits)
        relaxed = relaxed.with_sigma(sigma)
        try:
            arrow, H, left = information(relaxed, point.p, point.X)
        except NotPositiveDefinite:
            return _lost(task, relaxed, outcome, Latent(meshes, point))
        H = H if task.prior is None else H + task.prior.hessian(point.p, exact=False)[np.ix_(task.free, task.free)]
        bias, off, halve = _discretisation(problem, relaxed, Latent(meshes, point), arrow, H)
        cost = point.value + float(counts(task) @ np.log(sigma))
        moved = abs(cost - last)
        noisy = bool((sigma > EXACT * problem.spread).all())
        stays = left_over < HALVINGS - 2 and off > SMALL and off > before / 2
        singular = noisy and (stays or (not left_over and moved > UNSETTLED))
        fine = bias <= BIAS and not (noisy and (off > MUCH or moved > SETTLED))
        if singular or fine or not halve.any() or task.stop():
            break
        before, last = off, cost
        meshes, X = refined(relaxed, meshes, point, halve)
        point = replace(point, X=X)
    return replace(
        outcome,
        estimate=point.p,
        objective=point.value,
        status=Status.STUCK if singular else _status(task, point, H, left),
        iterations=point.steps,
        refined=replace(
            _refined(task, relaxed, Latent(meshes, point), H, np.inf if singular else bias),
            leftover=of_relaxed(relaxed, arrow, H, task.moving(point.p)[task.free]),
        ),
        latent=Latent(meshes, point),
    )


def _lost(task: Task, relaxed: Relaxed, outcome: Outcome, latent: Latent) -> Outcome:
    """An end at which nothing can be linearised: an estimate without errors, and no success."""
    F = int(task.free.sum())
    kept = _refined(task, relaxed, latent, np.zeros((F, F)), np.inf)
    kept = replace(kept, covariance=np.full((F, F), np.nan), information=None)
    return replace(outcome, status=Status.STUCK, refined=kept, latent=latent)


def _status(task: Task, point: Point, H: FloatArray, left: FloatArray) -> Status:
    """Whether what is left of the gradient promises a better likelihood: `½ gᵀ H⁻¹ g`, where parameters may move."""
    p, (lower, upper) = point.p[task.free], task.box
    if task.prior is not None:
        left = left + task.prior.gradient(point.p)[task.free]
    # Along what the data do not determine there is nothing to gain, and only rounding in the gradient.
    damped = H + np.diag(FLAT * np.abs(H.diagonal()) + np.finfo(float).tiny)
    step = minimise_in_box(left, damped, np.minimum(lower - p, 0.0), np.maximum(upper - p, 0.0))
    gain = -float(left @ step + 0.5 * step @ (damped @ step))
    if gain < SETTLED:
        return Status.CONVERGED
    if task.stop():
        return Status.TIME
    return Status.STUCK if point.done else Status.ITERATIONS


def _settled(task: Task, relaxed: Relaxed, point: Point, limits: Search) -> tuple[Point, FloatArray]:
    """The solution and σ in turn."""
    plain = relaxed.with_sigma(np.ones(len(relaxed.sigma)))

    def solve(sigma: FloatArray, near: Point) -> tuple[Point, bool]:
        solved = settle(relaxed.with_sigma(sigma), near, limits)
        return solved, np.isfinite(solved.value)

    def residuals(at: Point) -> tuple[FloatArray, ...]:
        with np.errstate(all="ignore"):
            return tuple(_by_trajectory(task, plain.residual(at.p, at.X)))

    first, _ = solve(relaxed.sigma, point)
    return with_noise(task, relaxed.sigma, first, solve, residuals, ROUNDS)


def _by_trajectory(task: Task, rows: FloatArray) -> list[FloatArray]:
    """Rows of all samples, trajectory by trajectory."""
    ends = np.cumsum([len(q.times) for q in task.problem.data.trajectories])[:-1]
    return np.split(rows, ends)


def _discretisation(
    problem: LatentProblem, relaxed: Relaxed, latent: Latent, arrow: Arrow, H: FloatArray
) -> tuple[float, float, BoolArray]:
    """The error of the rule: in the parameters, in standard errors; at the samples, in σ; and where most of it is made.

    The truncation is what half the step would change in the defects; carried through the linear system of a step it
    shifts the parameters by `C Bᵀ K⁻¹ τ`, and the states by `K⁻¹ τ`.
    """
    L, point = relaxed.layout, latent.point
    with np.errstate(all="ignore"):
        meshes, X = refined(relaxed, latent.meshes, point, L.inner)
        fine = problem.relaxed(meshes, relaxed.sigma, relaxed.free)
        begins = np.flatnonzero(fine.layout.inner)
        first, middle = begins[::2], begins[1::2]
        for _ in range(2):  # makes the middle better than the rule itself
            v = fine.constraint(point.p, X)
            X[middle] += 0.5 * (v[middle] - v[first])
        v = fine.constraint(point.p, X)
        truncation = np.zeros_like(point.X)
        truncation[L.inner] = v[first] + v[middle] - relaxed.constraint(point.p, point.X)[L.inner]
        solved = arrow.solve(np.stack([np.zeros_like(truncation), truncation], axis=1)[..., None])
        pull = arrow.B.reshape(-1, arrow.B.shape[3]).T @ solved.ravel()
        C = symmetric_inverse(H)
        known = np.isfinite(C.diagonal())
        shift = np.abs(C[np.ix_(known, known)] @ pull[known]) / np.sqrt(np.abs(C.diagonal()[known]))
        bias = float(shift.max(initial=0.0))
        moved = relaxed.residual(point.p, point.X + solved[:, 0, :, 0]) - relaxed.residual(point.p, point.X)
        off = float(np.nanmax(np.abs(moved), initial=0.0))
        defect = np.max(np.abs(truncation) / sizes(point.X), axis=1)
    return bias if np.isfinite(bias) else np.inf, off, L.inner & (defect > SHARE * np.nanmax(defect))


def _refined(task: Task, relaxed: Relaxed, latent: Latent, H: FloatArray, bias: float) -> Refined:
    problem, point, meshes, sigma = _problem(task), latent.point, latent.meshes, relaxed.sigma
    with np.errstate(all="ignore"):
        r = -relaxed.residual(point.p, point.X)
    data = problem.data.trajectories
    states = [problem.states_at(meshes, point.X, k) for k in range(len(data))]
    return Refined(
        covariance=symmetric_inverse(H),
        sigma=sigma,
        states=tuple(x[at_samples(m, q.times)] for x, m, q in zip(states, meshes, data, strict=True)),
        misfit=float(np.sum(r * r)) + within_misfit(task, sigma),
        freedom=degrees_of_freedom(task),
        residuals=tuple(
            np.where(q.measured, part, np.nan) for q, part in zip(data, _by_trajectory(task, r), strict=True)
        ),
        bias=bias,
        information=H,
    )


ESTIMATOR = Estimator(
    "relaxed",
    "the relaxed model, for systems of which only a part is measured",
    search,
    refine,
    starts=starts,
    noise_free=lambda task: task,
    refits=True,
    enough=enough,
    handles_hidden_states=True,
    uses_weak_form=False,
)
