"""Fits again: with a parameter held, or to data drawn from the fitted states; no new search."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..collocation.continuation import EXACT, FINE, Point, Search, settle
from ..collocation.gauss_helmert import Prior, Settings, Solution, solve
from ..collocation.hidden_state_problem import Latent, LatentProblem
from ..collocation.mesh import Mesh, Part
from ..collocation.soft_constraint import Relaxed
from ..data.matching import system_of
from ..estimators import ESTIMATORS, Options, Task, output_error
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..optimize import Stop
from ..parameters.priors import Priors
from ..parameters.working_scale import Scale
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.progress import Watch
from .fitted_states import fitted as observed

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

OFF = 0.1
"""What states may miss the constraint by, in units of the misfit."""
DRAWN = 0.02
"""Tolerance of a bootstrap run, in standard errors: far below the spread of the runs."""


def can_refit(fit: FitResult) -> bool:
    """Whether a fit can be found again from other data, or with a parameter held."""
    return ESTIMATORS[fit.method].refits and fit.goodness is not None


class Refitted(Protocol):
    """A problem that can be solved again, whichever way."""

    best: Solution
    solves: bool

    def total(self, solution: Solution) -> float:
        """Misfit to the data and to the prior."""

    def with_parameter(self, j: int, value: float, near: Solution, slope: FloatArray | None = None) -> Solution | None:
        """The best fit with p_j = value, from a solution nearby; None where there is none.

        The others begin where a slope `(J,)` leads, or by default their regression on p_j.
        """

    def drawn(self, rng: np.random.Generator) -> Solution | None:
        """A fit to data drawn from the fitted states; None where there is none."""

    def first(self, solution: Solution, trajectory: int) -> FloatArray:
        """The states `(D,)` at which a trajectory begins, in working coordinates."""


def refit_of(fit: FitResult) -> Refitted:
    """The problem behind a fit, ready to be solved again."""
    if fit.covariance_kind.startswith("none"):
        raise FitError("Noise-free data have no intervals: there is nothing to be uncertain of.")
    if not can_refit(fit):
        able = " or ".join(repr(e.name) for e in ESTIMATORS.values() if e.refits)
        raise FitError(
            f"Profile and bootstrap intervals belong to method {able}; this fit is {fit.method!r}. "
            f"Fit again with method={able}."
        )
    try:
        if ESTIMATORS[fit.method].solves_equations:
            return ShotRefit(fit)
        return LatentRefit(fit) if fit.nodes else Refit(fit)
    except NotPositiveDefinite:
        raise FitError("The fit cannot be followed from where it ended; it has no profiles and no bootstrap.") from None


def _moved(
    p: FloatArray, j: int, value: float, slope: FloatArray | None, covariance: FloatArray, bounds: FloatArray
) -> FloatArray:
    """Parameters with p_j = value, the others along a slope, or where the regression on p_j expects them."""
    if slope is None:
        slope = covariance[j] / covariance[j, j] if covariance[j, j] > 0 else np.zeros_like(p)
    moved = np.clip(p + slope * (value - p[j]), bounds[:, 0], bounds[:, 1])
    moved[j] = value
    return np.asarray(moved)


def _drawn_prior(prior: Prior | None, rng: np.random.Generator) -> Prior | None:
    """A prior is one more measurement, and is drawn like the others."""
    if not isinstance(prior, Priors):
        return prior
    return replace(prior, centre=prior.centre + prior.spread * rng.standard_normal(len(prior.index)))


def _noise_drawn(fit: FitResult, rng: np.random.Generator) -> float:
    """The size of the noise of one draw, relative to σ: where σ was estimated, it is itself known only so well."""
    if not fit.sigma_estimated or fit.goodness is None:
        return 1.0
    freedom = max(fit.goodness.freedom, 1)
    return float(np.sqrt(freedom / rng.chisquare(freedom)))


def _drawn_problem(
    fit: FitResult, problem: LatentProblem, shown: list[FloatArray], rng: np.random.Generator
) -> LatentProblem:
    """The problem with data drawn about the fitted columns `(time, K)` of each trajectory."""
    sigma, parts = _noise_drawn(fit, rng) * problem.sigma, []
    for q, fitted in zip(problem.data.trajectories, shown, strict=True):
        values = np.empty_like(q.values)
        for d, (to, back) in enumerate(problem.transforms):
            noisy = to(fitted[:, d]) + sigma[d] * q.scales[:, d] * rng.standard_normal(len(fitted))
            values[:, d] = np.where(q.measured[:, d], back(noisy), np.nan)
        parts.append(replace(q, values=values))
    return replace(problem, data=problem.data.replaced(trajectories=tuple(parts)))


class Refit:
    """The constraint problem behind a result of method "wendy", ready to be solved again."""

    solves = False

    def __init__(self, fit: FitResult) -> None:
        self.fit, self.p, self.sigma = fit, fit.estimate, fit.sigma
        parts, begin = [], []
        for k, (q, u) in enumerate(zip(fit.data.trajectories, fit.denoised, strict=True)):
            system = system_of(fit.model, fit.data, k)
            states, there = system.to_working(u), q.measured
            data = np.where(there, system.to_working(np.where(there, q.values, u)), states)
            parts.append(Part(system, q.times, data, there, q.scale))
            begin.append(states)
        self.mesh, self.states = Mesh.of(parts), np.concatenate(begin)
        for _ in range(fit.mesh.bit_length() - 1):
            self.mesh, self.states = self.mesh.halved(self.p, self.states)
        self.settings = Settings(~fit.fixed, fit.bounds[:, 0], fit.bounds[:, 1], runaway=np.inf, prior=fit.prior)
        self.covariance = np.nan_to_num(fit.covariance)
        self.best = solve(self.mesh, self.sigma, self.p, self.states, self.settings)

    def total(self, solution: Solution) -> float:
        """Misfit to the data and to the prior."""
        prior = self.settings.prior
        return solution.misfit + (0.0 if prior is None else 2 * prior.value(solution.p))

    def with_parameter(self, j: int, value: float, near: Solution, slope: FloatArray | None = None) -> Solution | None:
        """The best fit with p_j = value, from a solution nearby; None where there is none."""
        free = self.settings.free.copy()
        free[j] = False
        p = _moved(near.p, j, value, slope, self.covariance, self.fit.bounds)
        try:
            solved = solve(self.mesh, self.sigma, p, near.states, replace(self.settings, free=free))
        except NotPositiveDefinite:
            return None
        return solved if np.isfinite(solved.misfit) and solved.stop.converged else None

    def drawn(self, rng: np.random.Generator) -> Solution | None:
        """A fit to data drawn from the fitted states."""
        mesh, x = self.mesh, self.best.states
        noise = _noise_drawn(self.fit, rng) * np.sqrt(mesh.variances(self.sigma)) * rng.standard_normal(x.shape)
        mesh = replace(mesh, data=np.where(mesh.measured, x + noise, x))
        try:
            rough = replace(self.settings, tolerance=DRAWN, prior=_drawn_prior(self.settings.prior, rng))
            solved = solve(mesh, self.sigma, self.best.p, self.best.states, rough)
        except NotPositiveDefinite:
            return None
        return solved if np.isfinite(solved.p).all() and solved.stop.converged else None

    def first(self, solution: Solution, trajectory: int) -> FloatArray:
        """The states at which a trajectory begins."""
        return np.asarray(solution.states[self.mesh.begins[trajectory]])


def _settled(relaxed: Relaxed, near: Point, search: Search, tolerance: float = FINE) -> Solution:
    point = settle(relaxed, near, search, tolerance)
    with np.errstate(all="ignore"):
        r = relaxed.residual(point.p, point.X)
        v, V = relaxed.constraint(point.p, point.X), relaxed.variances(point.X, EXACT[-1])
        off = float(np.sum(v * v / np.maximum(V, np.finfo(float).tiny)))
    # Where no step leads back onto the constraint, the states are those of other parameters.
    stop = Stop.ITERATIONS if not point.done else Stop.STEP if off < OFF else Stop.STUCK
    return Solution.known(point.p, point.X, relaxed.sigma, float(np.sum(r * r)), stop)


@dataclass(frozen=True)
class _Part:
    """Some trajectories that share no parameter with the others: only they change when one of theirs is held.

    Attributes
    ----------
    problem : LatentProblem
    meshes : tuple of ndarray
    rows : ndarray of bool, (N,)
        Their nodes among all.
    own : ndarray of bool, (P,)
        Their parameters.
    rest : float
        The misfit of the others.
    """

    problem: LatentProblem
    meshes: tuple[FloatArray, ...]
    rows: BoolArray
    own: BoolArray
    rest: float

    @classmethod
    def of(cls, whole: LatentRefit, which: IntArray) -> _Part:
        """Of some trajectories."""
        problem, index = whole.problem, whole.problem.functions.index
        shared = problem.shared
        if shared.variants:
            shared = shared.with_parts(variants=[shared.variants[k] for k in which])
        data = problem.data.replaced(trajectories=tuple(problem.data.trajectories[k] for k in which))
        part = LatentProblem.of(problem.model, shared, index[which], data, problem.sigma, problem.functions.log)
        nodes = np.repeat(np.arange(len(whole.meshes)), [len(mesh) + 1 for mesh in whole.meshes])
        rows = np.isin(nodes, which)
        meshes = tuple(whole.meshes[k] for k in which)
        own = np.isin(np.arange(index.max() + 1), index[which])
        with np.errstate(all="ignore"):
            r = part.relaxed(meshes, part.sigma, whole.free).residual(whole.best.p, whole.best.states[rows])
        return cls(part, meshes, rows, own, whole.best.misfit - float(np.sum(r * r)))

    def alone(self, p: FloatArray, states: FloatArray, free: BoolArray, whole: LatentRefit) -> Solution:
        """These fitted again, with the others as they are."""
        own = np.zeros_like(free)
        own[: len(self.own)] = self.own
        relaxed = self.problem.relaxed(self.meshes, self.problem.sigma, free & own)
        found = _settled(relaxed, Point(np.where(own, p, whole.best.p), states[self.rows]), whole.search)
        everywhere = whole.best.states.copy()
        everywhere[self.rows] = found.states
        return Solution.known(found.p, everywhere, found.sigma, found.misfit + self.rest, found.stop)


class LatentRefit:
    """The same where only a part is measured: the exact constraint on the mesh of the fit."""

    solves = False

    def __init__(self, fit: FitResult) -> None:
        assert fit.shared is not None
        assert fit.index is not None
        self.fit = fit
        self.problem = LatentProblem.of(fit.model, fit.shared, fit.index, fit.data, fit.sigma)
        latent = Latent.of(fit.nodes, fit.estimate)
        self.meshes = latent.meshes
        self.free = ~fit.fixed
        self.search = Search(fit.bounds[:, 0], fit.bounds[:, 1], prior=fit.prior)
        self.covariance = np.nan_to_num(fit.covariance)
        self._parts: dict[int, _Part | None] = {}
        self.best = self._solved(self.problem, latent.point, self.free, self.search)

    def _solved(
        self, problem: LatentProblem, near: Point, free: BoolArray, search: Search, tolerance: float = FINE
    ) -> Solution:
        return _settled(problem.relaxed(self.meshes, problem.sigma, free), near, search, tolerance)

    def total(self, solution: Solution) -> float:
        """Misfit to the data and to the prior."""
        prior = self.search.prior
        return solution.misfit + (0.0 if prior is None else 2 * prior.value(solution.p))

    def with_parameter(self, j: int, value: float, near: Solution, slope: FloatArray | None = None) -> Solution | None:
        """The best fit with p_j = value, from a solution nearby; None where there is none."""
        free = self.free.copy()
        free[j] = False
        p = _moved(near.p, j, value, slope, self.covariance, self.fit.bounds)
        part = self._part(j)
        if part is None:
            solved = self._solved(self.problem, Point(p, near.states), free, self.search)
        else:
            solved = part.alone(p, near.states, free, self)
        return solved if np.isfinite(solved.misfit) and solved.stop.converged else None

    def _part(self, j: int) -> _Part | None:
        """The trajectories that parameters connect with parameter j, on their own; None where these are all."""
        if j not in self._parts:
            index = self.problem.functions.index
            inside = np.zeros(len(index), dtype=bool)
            touched = np.arange(len(self.free)) == j
            while True:
                more = touched[index].any(axis=1)
                if (more == inside).all():
                    break
                inside = more
                touched |= np.isin(np.arange(len(touched)), index[inside]) & self.free
            self._parts[j] = None if inside.all() else _Part.of(self, np.flatnonzero(inside))
        return self._parts[j]

    def drawn(self, rng: np.random.Generator) -> Solution | None:
        """A fit to data drawn from the fitted states."""
        problem, relaxed = self.problem, self.problem.relaxed(self.meshes, self.problem.sigma, self.free)
        best = Point(self.best.p, self.best.states)
        ends = np.cumsum([len(q.times) for q in problem.data.trajectories])[:-1]
        drawn = _drawn_problem(self.fit, problem, np.split(relaxed.observables(best.p, best.X), ends), rng)
        search = replace(self.search, prior=_drawn_prior(self.search.prior, rng))
        solved = self._solved(drawn, best, self.free, search, DRAWN**2 / 2)
        return solved if np.isfinite(solved.p).all() and solved.stop.converged else None

    def first(self, solution: Solution, trajectory: int) -> FloatArray:
        """The states at which a trajectory begins."""
        return np.asarray(self.problem.states_at(self.meshes, solution.states, trajectory)[0])


class ShotRefit:
    """The same for estimates that were found by solving the equations."""

    solves = True

    def __init__(self, fit: FitResult) -> None:
        assert fit.shared is not None
        assert fit.index is not None
        self.fit, self.covariance = fit, np.nan_to_num(fit.covariance)
        problem = LatentProblem.of(fit.model, fit.shared, fit.index, fit.data, fit.sigma)
        self.task = Task(
            problem=replace(problem, data=fit.data.replaced(sigma=fit.sigma)),
            free=~fit.fixed,
            base=fit.estimate,
            lower=fit.bounds[:, 0],
            upper=fit.bounds[:, 1],
            linear=np.zeros(len(fit.estimate), dtype=bool),
            options=Options(),
            stop=Watch(np.inf),
            scale=Scale(np.zeros(len(fit.estimate), dtype=bool)),
            prior=fit.prior,
        )
        begin = fit.nodes or [(q.times, u) for q, u in zip(fit.data.trajectories, fit.denoised, strict=True)]
        initial = np.stack([states[0, ~problem.functions.given] for _, states in begin])
        self.best = self._solved(self.task, fit.estimate, initial) or Solution.known(
            fit.estimate, initial, fit.sigma, np.nan, Stop.STUCK
        )

    def _solved(self, task: Task, p: FloatArray, initial: FloatArray) -> Solution | None:
        """States of a solution are its initial values, `(trajectories, ...)`."""
        found = output_error.search(task, p, tuple(initial))
        if found.initial is None or not found.status.converged:
            return None
        prior = 0.0 if task.prior is None else 2 * task.prior.value(found.estimate)
        misfit = 2 * found.objective - prior
        return Solution.known(found.estimate, np.stack(found.initial), self.fit.sigma, misfit, Stop.STEP)

    def total(self, solution: Solution) -> float:
        """Misfit to the data and to the prior."""
        return solution.misfit + (0.0 if self.task.prior is None else 2 * self.task.prior.value(solution.p))

    def with_parameter(self, j: int, value: float, near: Solution, slope: FloatArray | None = None) -> Solution | None:
        """The best fit with p_j = value, from a solution nearby; None where there is none."""
        free, base = self.task.free.copy(), self.fit.estimate.copy()
        free[j], base[j] = False, value
        p = _moved(near.p, j, value, slope, self.covariance, self.fit.bounds)
        return self._solved(replace(self.task, free=free, base=base), p, near.states)

    def drawn(self, rng: np.random.Generator) -> Solution | None:
        """A fit to data drawn from the fitted states."""
        problem = self.task.problem
        assert isinstance(problem, LatentProblem)
        shown = [observed(self.fit, k) for k in range(len(problem.data.trajectories))]
        drawn = _drawn_problem(self.fit, problem, shown, rng)
        prior = self.task.prior if self.task.prior is None else _drawn_prior(self.task.prior, rng)
        assert prior is None or isinstance(prior, Priors)
        return self._solved(replace(self.task, problem=drawn, prior=prior), self.best.p, self.best.states)

    def first(self, solution: Solution, trajectory: int) -> FloatArray:
        """The states at which a trajectory begins."""
        problem = self.task.problem
        assert isinstance(problem, LatentProblem)
        functions, begin = problem.functions, np.ones((1, len(problem.functions.given)))
        states = functions.g(np.zeros(1), begin, functions.own(solution.p, trajectory))[0]
        states[~functions.given] = solution.states[trajectory]
        return np.asarray(states)
