"""Search of a single fit with hidden states: many starts side by side in the lanes of the engine.

The equations are solved forward from several hundred draws of the parameters, and those nearest to the data are
followed by Gauss–Newton iterations. This takes about as long as one start of the relaxed model. It reaches no optimum
that is only near by way of states that do not obey the model; the relaxed model does, and is tried if the residuals are
larger than the noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..collocation.continuation import Point
from ..collocation.hidden_state_problem import HiddenStateProblem, MeshStates
from ..estimators.estimation_problem import Task
from ..estimators.initial_guess import compute_natural_sizes, compute_velocity_factors
from ..estimators.outcome import Outcome
from ..estimators.relaxed_model import (
    MIN_SEARCH_NOISE,
    SETTLED_GAIN,
    START_RANGES,
    STATE_LEVEL_DECADES,
    collect_state_sizes,
)
from ..estimators.start_points import draw_stratified_shares, map_to_bounds
from ..results.status import Status
from ..support.array_types import FloatArray
from .lane_iteration import LaneEnd, LaneProblem, solve_lanes
from .lane_plan import LaneInputs, build_lane_model, get_weights, place_samples
from .lane_starts import select_best, solve_draws
from .passes import LANES_PER_GROUP, LanePasses, explain_single_obstacle, find_finite, from_groups, to_groups


@dataclass(frozen=True)
class _SearchPolicy:
    """How many draws there are, and how many are followed. By judgement."""

    draws: int = 384
    """Draws that are solved forward; a third of them for each range of parameters without bounds, and for states."""
    starts: int = 16
    """Draws that are followed: two groups of lanes."""
    random_starts: int = 4
    """Of these, the first ones in place of the nearest: what is near at the beginning may lead to a second optimum."""
    max_behind: float = 10.0
    """Log-likelihood, at the σ of the search, by which a converged start may be behind the best to be kept."""
    max_nodes: int = 20_000
    """Nodes of the mesh above which the lanes would need too much memory."""


POLICY = _SearchPolicy()
"""The numbers in use."""


def explain_search_obstacle(task: Task) -> str:
    """Return why the search in lanes cannot be used for a task, as a clause; an empty string if it can."""
    problem = task.problem
    if not isinstance(problem, HiddenStateProblem):
        return "every state is measured"
    obstacle = explain_single_obstacle(problem, int(task.free.sum()))
    if not obstacle and sum(map(len, problem.build_meshes())) > POLICY.max_nodes:
        return f"the mesh has more than {POLICY.max_nodes} nodes"
    return obstacle


@np.errstate(all="ignore")
def search_in_lanes(task: Task, guesses: tuple[FloatArray, ...], seed: int) -> list[tuple[FloatArray, Outcome]]:
    """Search from many starts at once.

    Parameters
    ----------
    task : Task
        One that `explain_search_obstacle` does not object to.
    guesses : tuple of ndarray, (J,)
        Starts of the user on the scale of the task, NaN where no value is given.
    seed : int

    Returns
    -------
    list of pairs
        The start `(J,)` and the outcome of each lane that converged and is not far behind the best.
    """
    problem = task.problem
    assert isinstance(problem, HiddenStateProblem)
    times = problem.build_meshes()[0]
    model, mesh = build_lane_model(problem, task.free, False), place_samples(problem, times)
    inputs = LaneInputs.from_problem(problem, mesh)
    weights = get_weights(problem)
    values = np.where(weights > 0, problem.working_values[0], 0.0)
    free = model.free
    lanes = LaneProblem(
        base=task.scale.to_natural(np.where(task.free, 0.0, task.base)),
        free=free,
        log=task.scale.log,
        lower=task.lower[free],
        upper=task.upper[free],
        prior=task.prior,
        sigma=None if problem.data.sigma is None else problem.sigma[None],
        spread=problem.spread[None],
    )
    sigma = np.maximum(problem.sigma, MIN_SEARCH_NOISE * problem.spread)
    starts, levels = _draw(task, problem, guesses, np.random.default_rng([seed, 5]))
    drawn = LanePasses(model, mesh, inputs, *_repeat(values, weights, len(starts)), LANES_PER_GROUP)
    predicted, states = solve_draws(drawn, lanes, starts[:, free], levels)
    is_log = model.log_noise.astype(bool)
    predicted = np.where(is_log, np.log(np.maximum(predicted, np.finfo(float).tiny)), predicted)
    misfit = np.sum((weights * (values - predicted) / sigma) ** 2, axis=(1, 2))
    misfit = np.where(find_finite(states) & np.isfinite(misfit), misfit, np.inf)
    usable = np.flatnonzero(np.isfinite(misfit))
    if not len(usable):
        return []
    near = usable[select_best(misfit[None, usable], min(POLICY.starts - POLICY.random_starts, len(usable)))[0]]
    # The user's guesses come first among the draws.
    chosen = np.array(list(dict.fromkeys([*usable[: len(guesses) + POLICY.random_starts], *near]))[: POLICY.starts])
    count = len(chosen)
    passes = LanePasses(model, mesh, inputs, *_repeat(values, weights, count), LANES_PER_GROUP)
    passes.x[...] = to_groups(states[chosen], LANES_PER_GROUP)
    every = np.tile(sigma, (count, 1))
    lanes = replace(
        lanes,
        sigma=None if lanes.sigma is None else np.tile(lanes.sigma, (count, 1)),
        spread=np.tile(lanes.spread, (count, 1)),
    )
    together = np.zeros(count, dtype=np.intp)
    solution = solve_lanes(passes, lanes, starts[chosen][:, free], every, together, gain=SETTLED_GAIN / 2)
    x = from_groups(passes.x, count)
    pairs = []
    for k in range(count):
        if not np.isfinite(solution.objective[k]) or not np.isfinite(x[k]).all():
            continue
        estimate = task.expand(solution.q[k])
        # All starts are compared with the same σ.
        value = 0.5 * float(np.sum(solution.squares[k] / sigma**2))
        value += 0.0 if task.prior is None else task.prior.compute_penalty(estimate)
        latent = MeshStates((times,), Point(estimate, np.concatenate([x[k][:1], x[k]]), value, done=True))
        converged = solution.end[k] == LaneEnd.CONVERGED
        status = Status.CONVERGED if converged else Status.ITERATIONS
        steps = int(solution.steps[k])
        pairs.append((starts[chosen[k]], Outcome(estimate, value, status, steps, steps, latent=latent)))
    least = min((outcome.objective for _, outcome in pairs if outcome.status.converged), default=np.inf)
    return [pair for pair in pairs if pair[1].status.converged and pair[1].objective <= least + POLICY.max_behind]


def _repeat(values: FloatArray, weights: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return data and weights `(S, K)` for each of some lanes."""
    return np.tile(values, (count, 1, 1)), np.tile(weights, (count, 1, 1))


def _draw(
    task: Task, problem: HiddenStateProblem, guesses: tuple[FloatArray, ...], rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw parameters `(draws, J)` on the scale of the task, the user's guesses first, and states `(draws, D)`."""
    sizes = collect_state_sizes(problem)
    natural = compute_natural_sizes(task, float(np.median(sizes)))
    lower, upper = task.scale.to_natural(task.lower), task.scale.to_natural(task.upper)
    count, J = POLICY.draws, len(task.free)
    shares = draw_stratified_shares(count, J, rng)
    every_other = np.arange(count)[:, None] % 2 == 1
    parts = np.array_split(np.arange(count), len(START_RANGES))
    drawn = np.empty((count, J))
    for at, reach in zip(parts, START_RANGES, strict=True):
        drawn[at] = map_to_bounds(lower, upper, shares[at], natural, reach, decades=every_other[at])
    starts = np.where(task.free, task.scale.to_working(drawn), task.base)
    starts = np.clip(np.where(np.isfinite(starts), starts, 0.0), task.lower, task.upper)
    if task.prior is not None:
        starts = np.array([task.prior.replace_impossible(p) for p in starts])
    for k, guess in enumerate(guesses):
        starts[k] = np.clip(np.where(np.isnan(guess), starts[k], guess), task.lower, task.upper)
    D = len(problem.shared.states)
    levels = rng.choice(sizes, size=(count, D)) * 10 ** rng.uniform(*STATE_LEVEL_DECADES, size=(count, D))
    return starts, levels * compute_velocity_factors(problem)
