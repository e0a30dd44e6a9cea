"""Refits: a fit repeated from its estimate, with a parameter held or to data drawn from the fitted states.

No new search is needed: the optimum is near. Profiles, bands and bootstraps consist of refits. `Refit` is the part that
is the same for all fits. A `RefitSolver` is the part that depends on how the states were computed:

- `_MeshSolver`: all states are measured; Gauss–Helmert iteration on the mesh of the samples (method "wendy");
- `_RelaxedSolver`: some states are hidden; the exact constraint on the mesh of the fit (method "relaxed");
- `_ForwardSolver`: the equations are solved forward in time (method "output-error").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..collocation.continuation import (
    ESTIMATE_TOLERANCE,
    EXACT_STIFFNESSES,
    Point,
    SearchSettings,
    settle_on_exact_model,
)
from ..collocation.gauss_helmert import IterationSettings, Solution, solve_gauss_helmert
from ..collocation.hidden_state_problem import HiddenStateProblem, MeshStates
from ..collocation.mesh import Mesh, MeshPart
from ..collocation.soft_constraint import RelaxedModel
from ..data.matching import build_system
from ..engine.lane_refits import LANES_AT_ONCE, LaneRefits
from ..estimators import ESTIMATORS, Options, Task, output_error
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import Stop
from ..parameters.priors import Priors
from ..parameters.working_scale import WorkingScale
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.progress import Watch
from .fitted_states import compute_fitted_columns
from .profile_time import build_unlimited_watch, raise_if_late

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MAX_CONSTRAINT_VIOLATION = 0.1
"""Weighted sum of squares by which states may miss the exact constraint, in units of the misfit. Above it no step
led back onto the constraint, and the states belong to other parameters: such a refit is no point of a profile
(`test_a_refit_that_leaves_the_constraint_is_no_point_of_a_profile`)."""
DRAWN_DATA_TOLERANCE = 0.02
"""Tolerance of a refit to drawn data, in standard errors: far below the spread of such refits, and cheaper than the
tolerance of a fit. By judgement."""


def can_refit(fit: FitResult) -> bool:
    """Return True if a fit can be repeated with other data, or with a parameter held."""
    return ESTIMATORS[fit.method].refits and fit.goodness is not None


class HeldSolver(Protocol):
    """A way to solve the problem behind a fit, or a part of it, again."""

    def solve(self, p: FloatArray, states: FloatArray, free: BoolArray) -> Solution | None:
        """Minimise the misfit and the prior from parameters `p` `(J,)` and states nearby.

        Parameters that are not `free` `(J,)` are held. Returns None if nothing can be computed. Raises
        `NotPositiveDefinite` if the problem is singular at the beginning.
        """


class RefitSolver(HeldSolver, Protocol):
    """A way to solve the problem behind a whole fit again.

    Each kind of solver stores the states of its solutions in its own layout, which only that kind can read.
    """

    def restrict_to(self, j: int, best: Solution, free: BoolArray) -> HeldSolver:
        """Return a solver for refits in which parameter j is held; it may leave out what p_j does not affect.

        The rest stays as in the solution `best`.
        """

    def redraw_data(self, best: Solution, noise: float, rng: np.random.Generator) -> RefitSolver:
        """Return a solver for data drawn from the fitted states in `best`, with σ multiplied by `noise`."""

    def build_lanes(self, best: Solution, free: BoolArray) -> LaneRefits | None:
        """Return the problem for refits side by side in the engine; None if it cannot do them."""

    def solve_lanes(self, lanes: LaneRefits, drawn: Sequence[Any], best: Solution) -> list[Solution | None]:
        """Solve for data drawn by `redraw_data`; None for each refit that does not converge."""

    def get_initial_state(self, solution: Solution, trajectory: int) -> FloatArray:
        """Return the initial state `(D,)` of a trajectory, in working coordinates."""


class Refit:
    """The problem behind a fit, ready to be solved again.

    Parameters
    ----------
    fit : FitResult
    watch : Watch
        Stops refits with a parameter held, which then raise `TimeLimitReached`.

    Attributes
    ----------
    best : Solution
        The fit itself, solved again; all refits are compared with it.
    solves_equations : bool
        True if each refit solves the equations forward in time, which costs many times as much.
    """

    def __init__(self, fit: FitResult, watch: Watch) -> None:
        raise_if_late(watch)
        self.fit, self.free, self.watch = fit, ~fit.fixed, watch
        self.solves_equations = ESTIMATORS[fit.method].solves_equations
        self.covariance = np.nan_to_num(fit.covariance)
        build = _build_forward if self.solves_equations else _build_relaxed if fit.nodes else _build_mesh
        self.solver, states = build(fit, watch)
        self._restricted: dict[int, HeldSolver] = {}
        best = self.solver.solve(fit.estimate, states, self.free)
        raise_if_late(watch)
        self.best = (
            Solution.without_information(fit.estimate, states, fit.sigma, np.nan, Stop.STUCK) if best is None else best
        )

    def compute_misfit(self, solution: Solution) -> float:
        """Compute the misfit to the data and to the prior, twice the negative log-posterior up to a constant."""
        return solution.misfit + (0.0 if self.fit.prior is None else 2 * self.fit.prior.compute_penalty(solution.p))

    def hold_parameter(self, j: int, value: float, near: Solution, slope: FloatArray | None = None) -> Solution | None:
        """Compute the best fit with p_j held at a value; raise `TimeLimitReached` if the watch ends it.

        Parameters
        ----------
        j : int
            Position of the parameter.
        value : float
        near : Solution
            A solution nearby, at which the refit begins.
        slope : ndarray, (J,), optional
            Derivative of the other parameters with respect to p_j along the profile, which predicts their values; by
            default their regression on p_j according to the covariance of the fit.

        Returns
        -------
        Solution or None
            None if the refit did not converge.
        """
        raise_if_late(self.watch)
        free = self.free.copy()
        free[j] = False
        if slope is None:
            variance = self.covariance[j, j]
            slope = self.covariance[j] / variance if variance > 0 else np.zeros_like(near.p)
        p = np.clip(near.p + slope * (value - near.p[j]), self.fit.bounds[:, 0], self.fit.bounds[:, 1])
        p[j] = value
        if j not in self._restricted:
            self._restricted[j] = self.solver.restrict_to(j, self.best, self.free)
        try:
            solution = self._restricted[j].solve(p, near.states, free)
        except NotPositiveDefinite:
            return None
        if solution is not None and np.isfinite(solution.misfit) and solution.stop.converged:
            return solution
        raise_if_late(self.watch)  # the refit did not fail, it was stopped
        return None

    def refit_drawn_data(self, rng: np.random.Generator) -> Solution | None:
        """Fit to data drawn from the fitted states with the fitted noise; return None if that did not converge."""
        solver = self.solver.redraw_data(self.best, _draw_noise_level(self.fit, rng), rng)
        try:
            solution = solver.solve(self.best.p, self.best.states, self.free)
        except NotPositiveDefinite:
            return None
        converged = solution is not None and np.isfinite(solution.p).all() and solution.stop.converged
        return solution if converged else None

    def refit_many_drawn(self, streams: Iterable[np.random.Generator]) -> Iterator[Solution | None]:
        """Yield, for each generator of random numbers, what `refit_drawn_data` returns, many refits side by side.

        Refits that the engine cannot do, or that do not converge in it, are done one by one.
        """
        lanes = self.solver.build_lanes(self.best, self.free)
        waiting = iter(streams)
        while batch := list(islice(waiting, LANES_AT_ONCE if lanes is not None else 1)):
            # A refit that fails in the lanes is repeated with the same random numbers.
            again = [deepcopy(rng) for rng in batch]
            solved: list[Solution | None] = [None] * len(batch)
            if lanes is not None:
                drawn = [self.solver.redraw_data(self.best, _draw_noise_level(self.fit, rng), rng) for rng in batch]
                solved = self.solver.solve_lanes(lanes, drawn, self.best)
            for rng, solution in zip(again, solved, strict=True):
                yield self.refit_drawn_data(rng) if solution is None else solution

    def get_initial_state(self, solution: Solution, trajectory: int) -> FloatArray:
        """Return the initial state `(D,)` of a trajectory in a solution, in working coordinates."""
        return self.solver.get_initial_state(solution, trajectory)


def prepare_refits(fit: FitResult, watch: Watch | None = None) -> Refit:
    """Prepare the refits of a fit; raise `FitError` if it cannot be repeated.

    Parameters
    ----------
    fit : FitResult
    watch : Watch, optional
        Stops the refits; by default nothing stops them.

    Returns
    -------
    Refit
    """
    if fit.covariance_kind.startswith("none"):
        raise FitError("Noise-free data have no intervals: they determine the estimate exactly.")
    if not can_refit(fit):
        methods = " or ".join(repr(e.name) for e in ESTIMATORS.values() if e.refits)
        raise FitError(
            f"Profile and bootstrap intervals need method {methods}; this fit is by {fit.method!r}. "
            f"Fit again with method={methods}."
        )
    try:
        return Refit(fit, build_unlimited_watch() if watch is None else watch)
    except NotPositiveDefinite:
        raise FitError(
            "This fit cannot be repeated from its estimate, where the problem is singular; it has no profiles and no "
            "bootstrap. Use intervals(kind='wald')."
        ) from None


def _draw_noise_level(fit: FitResult, rng: np.random.Generator) -> float:
    """Draw the noise level of one drawn data set, relative to σ: an estimated σ is itself uncertain."""
    if not fit.sigma_estimated or fit.goodness is None:
        return 1.0
    # σ̂² has the distribution of σ² χ²/freedom, so that σ given σ̂ is drawn as σ̂ √(freedom/χ²).
    freedom = max(fit.goodness.freedom, 1)
    return float(np.sqrt(freedom / rng.chisquare(freedom)))


def _draw_prior(prior: Priors | None, rng: np.random.Generator) -> Priors | None:
    """Draw the centre of a prior about itself: a prior is one more measurement, and is drawn like the others."""
    if prior is None:
        return None
    return replace(prior, centre=prior.centre + prior.spread * rng.standard_normal(len(prior.index)))


def _draw_problem(
    problem: HiddenStateProblem, columns: list[FloatArray], noise: float, rng: np.random.Generator
) -> HiddenStateProblem:
    """Return a problem with data drawn about fitted values, with σ multiplied by `noise`.

    `columns` are the fitted values `(time, K)` of each trajectory.
    """
    # The noise is added in working coordinates, in which it is normal.
    sigma, parts = noise * problem.sigma, []
    for q, values in zip(problem.data.trajectories, columns, strict=True):
        drawn = np.empty_like(q.values)
        for d, (to_working, from_working) in enumerate(problem.transforms):
            noisy = to_working(values[:, d]) + sigma[d] * q.scales[:, d] * rng.standard_normal(len(values))
            drawn[:, d] = np.where(q.measured[:, d], from_working(noisy), np.nan)
        parts.append(replace(q, values=drawn))
    return replace(problem, data=problem.data.replace_attributes(trajectories=tuple(parts)))


@dataclass(frozen=True)
class _MeshSolver:
    """A solver for fits of which all states are measured, by Gauss–Helmert iteration on the mesh.

    The states of its solutions are `(nodes, D)`, in working coordinates.
    """

    mesh: Mesh
    sigma: FloatArray
    settings: IterationSettings
    prior: Priors | None
    hidden: HiddenStateProblem | None = None

    def solve(self, p: FloatArray, states: FloatArray, free: BoolArray) -> Solution | None:
        """Solve from a point nearby; see `HeldSolver`."""
        return solve_gauss_helmert(
            self.mesh, self.sigma, p, states, replace(self.settings, free=free, prior=self.prior)
        )

    def restrict_to(self, j: int, best: Solution, free: BoolArray) -> _MeshSolver:
        """Return the solver itself: all trajectories are refitted together."""
        del j, best, free
        return self

    def redraw_data(self, best: Solution, noise: float, rng: np.random.Generator) -> _MeshSolver:
        """Return a solver for drawn data; see `RefitSolver`."""
        mesh, x = self.mesh, best.states
        deviation = noise * np.sqrt(mesh.compute_variances(self.sigma)) * rng.standard_normal(x.shape)
        mesh = replace(mesh, data=np.where(mesh.measured, x + deviation, x))
        settings = replace(self.settings, tolerance=DRAWN_DATA_TOLERANCE)
        return replace(self, mesh=mesh, settings=settings, prior=_draw_prior(self.prior, rng))

    def build_lanes(self, best: Solution, free: BoolArray) -> LaneRefits | None:
        """Build the refits in the engine; see `RefitSolver`."""
        if self.hidden is None:
            return None
        bounds = np.column_stack([self.settings.lower, self.settings.upper])
        return LaneRefits.build(self.hidden, self.mesh.times, True, p=best.p, is_free=free, bounds=bounds)

    def solve_lanes(self, lanes: LaneRefits, drawn: Sequence[_MeshSolver], best: Solution) -> list[Solution | None]:
        """Solve for drawn data side by side; see `RefitSolver`."""
        samples = np.arange(len(self.mesh.times))[self.mesh.samples]
        values = np.stack([solver.mesh.data[samples] for solver in drawn])
        solved = lanes.solve(values, best.states, [solver.prior for solver in drawn])
        return [
            None if part is None else Solution.without_information(*part, self.sigma, np.nan, Stop.STEP)
            for part in solved
        ]

    def get_initial_state(self, solution: Solution, trajectory: int) -> FloatArray:
        """Return the state `(D,)` at the first node of a trajectory."""
        return np.asarray(solution.states[self.mesh.begins[trajectory]])


def _build_mesh(fit: FitResult, watch: Watch) -> tuple[RefitSolver, FloatArray]:
    """Build the solver of a fit of which all states are measured, and return it with the fitted states."""
    parts, begin = [], []
    for k, (q, u) in enumerate(zip(fit.data.trajectories, fit.denoised, strict=True)):
        system = build_system(fit.model, fit.data, k)
        fitted_states, measured = system.to_working(u), q.measured
        # The transform may mix states, and would spread the NaN of a missing value: the fitted value stands in for it.
        data = np.where(measured, system.to_working(np.where(measured, q.values, u)), fitted_states)
        parts.append(MeshPart(system, q.times, data, measured, q.scale))
        begin.append(fitted_states)
    mesh, states = Mesh.from_parts(parts), np.concatenate(begin)
    for _ in range(fit.mesh.bit_length() - 1):
        mesh, states = mesh.halve_intervals(fit.estimate, states)
    # A profile moves parameters by many standard errors, which the safeguard against runaway directions would stop.
    settings = IterationSettings(
        ~fit.fixed, fit.bounds[:, 0], fit.bounds[:, 1], should_stop=watch, runaway_errors=np.inf
    )
    hidden = None
    if fit.shared is not None and fit.index is not None and fit.data.covariance is None:
        hidden = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, fit.data, fit.sigma)
    return _MeshSolver(mesh, fit.sigma, settings, fit.prior, hidden), states


@dataclass(frozen=True)
class _RelaxedSolver:
    """A solver for fits with hidden states, by the exact constraint on the mesh of the fit.

    The states of its solutions are `(N, D)`, trajectory by trajectory, each with a node ahead of it.
    """

    problem: HiddenStateProblem
    meshes: tuple[FloatArray, ...]
    search: SearchSettings
    prior: Priors | None
    tolerance: float = ESTIMATE_TOLERANCE

    def solve(self, p: FloatArray, states: FloatArray, free: BoolArray) -> Solution:
        """Solve from a point nearby; see `HeldSolver`."""
        relaxed = self.problem.build_relaxed_model(self.meshes, self.problem.sigma, free)
        point = settle_on_exact_model(relaxed, Point(p, states), replace(self.search, prior=self.prior), self.tolerance)
        stop = Stop.ITERATIONS
        if point.done:
            # Where no step leads back onto the constraint, the states belong to other parameters.
            is_met = _compute_violation(relaxed, point) < MAX_CONSTRAINT_VIOLATION
            stop = Stop.STEP if is_met else Stop.STUCK
        return Solution.without_information(
            point.p, point.X, relaxed.sigma, _sum_squares(relaxed, point.p, point.X), stop
        )

    def restrict_to(self, j: int, best: Solution, free: BoolArray) -> HeldSolver:
        """Return a solver for the trajectories that free parameters connect with parameter j."""
        index = self.problem.functions.index
        inside = np.zeros(len(index), dtype=bool)
        touched = np.arange(len(free)) == j
        # A trajectory is connected if it has a touched parameter; then its free parameters are touched, too.
        while True:
            more = touched[index].any(axis=1)
            if (more == inside).all():
                break
            inside = more
            touched |= np.isin(np.arange(len(touched)), index[inside]) & free
        return self if inside.all() else _ConnectedSolver.build(self, np.flatnonzero(inside), best, free)

    def redraw_data(self, best: Solution, noise: float, rng: np.random.Generator) -> _RelaxedSolver:
        """Return a solver for drawn data; see `RefitSolver`."""
        problem = self.problem
        # Observables do not depend on which parameters are free, so that all may be.
        relaxed = problem.build_relaxed_model(self.meshes, problem.sigma, np.ones(len(best.p), dtype=bool))
        ends = np.cumsum([len(q.times) for q in problem.data.trajectories])[:-1]
        columns = np.split(relaxed.compute_observables(best.p, best.states), ends)
        drawn = _draw_problem(problem, columns, noise, rng)
        # In units of the log-likelihood a step of s standard errors is s²/2.
        tolerance = DRAWN_DATA_TOLERANCE**2 / 2
        return replace(self, problem=drawn, prior=_draw_prior(self.prior, rng), tolerance=tolerance)

    def build_lanes(self, best: Solution, free: BoolArray) -> LaneRefits | None:
        """Build the refits in the engine; see `RefitSolver`."""
        bounds = np.column_stack([self.search.lower, self.search.upper])
        return LaneRefits.build(self.problem, self.meshes[0], False, p=best.p, is_free=free, bounds=bounds)

    def solve_lanes(self, lanes: LaneRefits, drawn: Sequence[_RelaxedSolver], best: Solution) -> list[Solution | None]:
        """Solve for drawn data side by side; see `RefitSolver`."""
        values = np.stack([solver.problem.working_values[0] for solver in drawn])
        # The first row of the states is the node ahead of the mesh.
        solved = lanes.solve(values, best.states[1:], [solver.prior for solver in drawn])
        solutions: list[Solution | None] = []
        for part in solved:
            if part is None:
                solutions.append(None)
                continue
            p, x = part
            states = np.concatenate([x[:1], x])
            solutions.append(Solution.without_information(p, states, self.problem.sigma, np.nan, Stop.STEP))
        return solutions

    def get_initial_state(self, solution: Solution, trajectory: int) -> FloatArray:
        """Return the state `(D,)` at the first node of a trajectory."""
        return np.asarray(self.problem.extract_states(self.meshes, solution.states, trajectory)[0])


@np.errstate(all="ignore")
def _sum_squares(relaxed: RelaxedModel, p: FloatArray, X: FloatArray) -> float:
    """Compute the misfit to the data: the sum of squared residuals over σ."""
    r = relaxed.compute_residual(p, X)
    return float(np.sum(r * r))


@np.errstate(all="ignore")
def _compute_violation(relaxed: RelaxedModel, point: Point) -> float:
    """Compute by how much states miss the exact constraint: its weighted sum of squares."""
    v, V = relaxed.compute_constraint(point.p, point.X), relaxed.compute_variances(point.X, EXACT_STIFFNESSES[-1])
    return float(np.sum(v * v / np.maximum(V, np.finfo(float).tiny)))


def _build_relaxed(fit: FitResult, watch: Watch) -> tuple[RefitSolver, FloatArray]:
    """Build the solver of a fit with hidden states, and return it with the fitted states."""
    assert fit.shared is not None
    assert fit.index is not None
    problem = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, fit.data, fit.sigma)
    latent = MeshStates.from_nodes(fit.nodes, fit.estimate)
    search = SearchSettings(fit.bounds[:, 0], fit.bounds[:, 1], stop=watch)
    return _RelaxedSolver(problem, latent.meshes, search, fit.prior), latent.point.X


@dataclass(frozen=True)
class _ConnectedSolver:
    """A solver for some trajectories that share no free parameter with the others; the others stay as they are.

    Attributes
    ----------
    inner : _RelaxedSolver
        The solver of these trajectories.
    best : Solution
        The fit of all trajectories.
    rows : ndarray of bool, (N,)
        Which of all nodes belong to these trajectories.
    own_parameters : ndarray of bool, (J,)
        Which parameters these trajectories have.
    other_misfit : float
        The misfit of the other trajectories.
    """

    inner: _RelaxedSolver
    best: Solution
    rows: BoolArray
    own_parameters: BoolArray
    other_misfit: float

    @classmethod
    def build(cls, whole: _RelaxedSolver, which: IntArray, best: Solution, free: BoolArray) -> _ConnectedSolver:
        """Separate the trajectories with numbers `which` from all."""
        problem, index = whole.problem, whole.problem.functions.index
        shared = problem.shared
        if shared.variants:
            shared = shared.with_parts(variants=[shared.variants[k] for k in which])
        data = problem.data.replace_attributes(trajectories=tuple(problem.data.trajectories[k] for k in which))
        part = HiddenStateProblem.from_model(
            problem.model, shared, index[which], data, problem.sigma, problem.functions.log
        )
        # Each trajectory has one node ahead of its mesh.
        nodes = np.repeat(np.arange(len(whole.meshes)), [len(mesh) + 1 for mesh in whole.meshes])
        rows = np.isin(nodes, which)
        meshes = tuple(whole.meshes[k] for k in which)
        own = np.isin(np.arange(len(free)), index[which])
        misfit = _sum_squares(part.build_relaxed_model(meshes, part.sigma, free), best.p, best.states[rows])
        return cls(replace(whole, problem=part, meshes=meshes), best, rows, own, best.misfit - misfit)

    def solve(self, p: FloatArray, states: FloatArray, free: BoolArray) -> Solution:
        """Solve for these trajectories from a point nearby; see `HeldSolver`."""
        solution = self.inner.solve(
            np.where(self.own_parameters, p, self.best.p), states[self.rows], free & self.own_parameters
        )
        everywhere = self.best.states.copy()
        everywhere[self.rows] = solution.states
        return Solution.without_information(
            solution.p, everywhere, solution.sigma, solution.misfit + self.other_misfit, solution.stop
        )


@dataclass(frozen=True)
class _ForwardSolver:
    """A solver for fits by output error, which solves the equations forward in time.

    The states of its solutions are the fitted initial values, `(trajectories, B)`.
    """

    fit: FitResult
    task: Task
    problem: HiddenStateProblem

    def solve(self, p: FloatArray, states: FloatArray, free: BoolArray) -> Solution | None:
        """Solve from a point nearby; see `HeldSolver`."""
        # A parameter that is free in the fit, but held in this refit, keeps its value in `p`.
        base = np.where(self.task.free & ~free, p, self.task.base)
        task = replace(self.task, free=free, base=base)
        outcome = output_error.search(task, p, tuple(states))
        if outcome.initial is None or not outcome.status.converged:
            return None
        # The objective is the negative log-posterior; the misfit of a solution does not count the prior.
        prior = 0.0 if task.prior is None else 2 * task.prior.compute_penalty(outcome.estimate)
        misfit = 2 * outcome.objective - prior
        return Solution.without_information(
            outcome.estimate, np.stack(outcome.initial), self.fit.sigma, misfit, Stop.STEP
        )

    def restrict_to(self, j: int, best: Solution, free: BoolArray) -> _ForwardSolver:
        """Return the solver itself: all trajectories are refitted together."""
        del j, best, free
        return self

    def redraw_data(self, best: Solution, noise: float, rng: np.random.Generator) -> _ForwardSolver:
        """Return a solver for drawn data; see `RefitSolver`."""
        del best  # it holds initial values only; the fit has the values of the columns
        columns = [compute_fitted_columns(self.fit, k) for k in range(len(self.problem.data.trajectories))]
        drawn = _draw_problem(self.problem, columns, noise, rng)
        task = replace(self.task, problem=drawn, prior=_draw_prior(self.task.prior, rng))
        return replace(self, task=task, problem=drawn)

    def build_lanes(self, best: Solution, free: BoolArray) -> LaneRefits | None:
        """Return None: these refits solve the equations."""
        del best, free
        return None

    def solve_lanes(self, lanes: LaneRefits, drawn: Sequence[_ForwardSolver], best: Solution) -> list[Solution | None]:
        """Return no solution: these refits solve the equations."""
        del lanes, best
        return [None] * len(drawn)

    def get_initial_state(self, solution: Solution, trajectory: int) -> FloatArray:
        """Return the initial state `(D,)` of a trajectory: fitted values, and those that the model gives."""
        functions = self.problem.functions
        states = functions.g(
            np.zeros(1), np.ones((1, len(functions.given_initial))), functions.select_parameters(solution.p, trajectory)
        )[0]
        states[~functions.given_initial] = solution.states[trajectory]
        return np.asarray(states)


def _build_forward(fit: FitResult, watch: Watch) -> tuple[RefitSolver, FloatArray]:
    """Build the solver of a fit by output error, and return it with the fitted initial values `(trajectories, B)`."""
    assert fit.shared is not None
    assert fit.index is not None
    problem = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, fit.data, fit.sigma)
    # σ is held at its estimate: a profile compares likelihoods of one noise level.
    problem = replace(problem, data=fit.data.replace_attributes(sigma=fit.sigma))
    no_logs = np.zeros(len(fit.estimate), dtype=bool)
    task = Task(
        problem=problem,
        free=~fit.fixed,
        base=fit.estimate,
        lower=fit.bounds[:, 0],
        upper=fit.bounds[:, 1],
        linear=no_logs,
        options=Options(),
        stop=watch,
        scale=WorkingScale(no_logs),
        prior=fit.prior,
    )
    begin = fit.nodes or [(q.times, u) for q, u in zip(fit.data.trajectories, fit.denoised, strict=True)]
    initial = np.stack([states[0, ~problem.functions.given_initial] for _, states in begin])
    return _ForwardSolver(fit, task, problem), initial
