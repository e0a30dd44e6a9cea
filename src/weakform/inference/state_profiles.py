"""Profiles of states: bands by the likelihood if some states are hidden.

With the misfit Q of data and priors and `Q(v) = min Q` over all parameters and states with `x_d(t) = v`, the band at
level 1 - α is `{v : Q(v) - min Q <= z²}` at each time, z the quantile of the level: the values of this state in all
fits of nearly the same likelihood. A state is moved by a pin: one more measurement of it, of value w and small σ.
Wherever the fit then puts x_d(t), its misfit without the pin is Q there. A likelihood may have branches: each fit with
a pin is kept for all others, and an end is searched for from the fit that reaches farthest. Ends are computed at a few
times, and interpolated relative to the linearised band (`band_times`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.continuation import Point, SearchSettings, settle_on_exact_model
from ..collocation.hidden_state_problem import HiddenStateProblem, separate_times
from ..data.matching import collect_inputs
from ..forward.solver import simulate
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray, IntArray
from ..support.errors import FitError
from ..support.progress import Watch
from .fitted_states import FORWARD_TOLERANCE
from .profile_time import raise_if_late
from .profile_walk import Bracket, Trial, find_crossing, walk_to_end

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


@dataclass(frozen=True)
class _PinPolicy:
    """How the end of a band is searched for. Distances are in standard errors of the state; all by judgement."""

    max_trials: int = 16
    """Largest number of pins for one end."""
    max_failures: int = 4
    """Number of pins that may fail, each followed by a nearer one, before the search is given up."""
    close_root: float = 0.05
    """Distance of the root of the misfit from the quantile at which a pin is close enough to the end."""
    weight: float = 5.0
    """One over the σ of a pin. A weaker pin does not move a state that the data determine; a stronger one makes the
    refit stiffer."""

    lead: float = 0.5
    """Distance of the first pin beyond the farthest fit so far, per unit by which its root is below the quantile; and
    the least target from which the next one is computed."""
    growth: tuple[float, float] = (1.3, 3.0)
    """Range of the factor from one target to the next while the end is not bracketed. Inside the range it is the factor
    with which a parabola would reach the quantile."""
    smallest_root: float = 0.1
    """Least value that the root of the misfit counts as in that factor."""

    held_gap: float = 0.4
    """Distance by which a pin is beyond the state it moves, above which a bound may hold the state."""
    held_progress: float = 0.01
    """Progress from one pin to the next, as a share of the distance so far, below which a bound does hold it."""
    lead_if_held: float = 1.0
    """Distance from the point at which a bound held the state to the first pin at the next time."""

    farthest: float = 30.0
    """Distance at which the search is given up: the data set no limit."""
    farthest_log: float = 50.0
    """The same for positive states, in units of the logarithm: e^50 times the state."""
    share_of_farthest: float = 0.99
    """Share of that distance above which it counts as reached: a refit hardly ever puts the state exactly at its
    pin."""
    min_overreach: float = 0.02
    """Share by which a pin at another time or column must reach farther than an end for the end to be searched for
    again."""


PIN_POLICY = _PinPolicy()
MAX_REACH = PIN_POLICY.farthest
"""`_PinPolicy.farthest`, for the note of a band without an end."""
LARGEST_NEGATIVE_SHARE = 1e-9
"""Share of its largest value by which a positive state may be below zero: rounding of the forward solution."""
SAME_TIME = 1e-9
"""Share of the duration up to which two times count as one: 0.3 and 0.1 + 0.2 differ by rounding, and an interval
between them would be too short to be solved."""
PIN_TOLERANCE = 1e-3
"""Tolerance of a fit with a pin, in units of the log-likelihood. It changes an end of a band by far less than
`_PinPolicy.close_root`."""


@dataclass(frozen=True)
class PinnedFit:
    """A fit with a pin.

    Attributes
    ----------
    point : Point
        Its parameters and states.
    root : float
        The root of its misfit to data and prior above the least.
    pinned_values : ndarray, (knots, names)
        The states and expressions that may be pinned, at the band times, in working coordinates.
    """

    point: Point
    root: float
    pinned_values: FloatArray


@dataclass(frozen=True)
class BandRequest:
    """A column whose band is wanted.

    Attributes
    ----------
    column : int
        Its position among the names that may be pinned.
    knots : ndarray of int, (knots,)
        The band times at which the ends are wanted, by position.
    errors : ndarray, (knots,)
        Linearised standard errors of the column there, in working coordinates.
    """

    column: int
    knots: IntArray
    errors: FloatArray


@dataclass(frozen=True)
class BandEnd:
    """One end of a band at one time.

    Attributes
    ----------
    reach : float
        Its distance from the fit in standard errors; NaN if it could not be followed, infinite if the data set no
        limit.
    target : float
        Where the search at the next time begins, in standard errors.
    """

    reach: float
    target: float


class StateProfiler:
    """The problem behind a fit, with nodes at the band times of one trajectory and columns for pins there.

    Parameters
    ----------
    fit : FitResult
        With states on a mesh.
    trajectory : int
        Number of the trajectory.
    times : ndarray, (knots,)
        The band times, none before the initial time.
    names : tuple of str
        States and expressions that may be pinned.
    watch : Watch
        Stops the fits with pins, which then raise `TimeLimitReached`.

    Attributes
    ----------
    best : PinnedFit
        The fit without a pin.
    fits : list of PinnedFit
        All fits so far, the one without a pin first.
    kinds : list of Kind
        The kind of noise whose working coordinates each name has.
    logs : list of bool
        Which names are positive states, moved on a log scale.
    """

    def __init__(
        self, fit: FitResult, trajectory: int, times: FloatArray, names: tuple[str, ...], watch: Watch
    ) -> None:
        raise_if_late(watch)
        assert fit.shared is not None
        assert fit.index is not None
        K = fit.data.D
        # Each trajectory gets an empty column for each name; the pinned one gets rows at the band times, too. A pin is
        # one value in such a column.
        parts, times = [], _snap_to_mesh(times, fit.nodes[trajectory][0])
        for k, q in enumerate(fit.data.trajectories):
            rows = np.union1d(q.times, times) if k == trajectory else q.times
            values, scale = np.full((len(rows), K + len(names)), np.nan), np.ones((len(rows), K + len(names)))
            at = np.searchsorted(rows, q.times)
            values[at, :K], scale[at, :K] = q.values, q.scales
            parts.append(replace(q, times=rows, values=values, scale=scale, within=None, repeats=None))
        longer = fit.data.replace_attributes(trajectories=tuple(parts))
        jumping = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, longer, fit.sigma)
        nodes = enumerate(zip(parts, fit.nodes, strict=True))
        meshes = [jumping.with_jump_nodes(_extend_mesh(mesh, q.times), k) for k, (q, (mesh, _)) in nodes]
        states = [
            _solve_on_mesh(fit, k, mesh, x) for k, (mesh, (_, x)) in enumerate(zip(meshes, fit.nodes, strict=True))
        ]
        self.K = K
        self.rows = sum(len(q.times) for q in parts[:trajectory]) + np.searchsorted(parts[trajectory].times, times)
        sigma = np.concatenate([fit.sigma, np.ones(len(names))])
        kinds = dict(zip(fit.data.names or (), fit.data.noise, strict=True))
        # A state that is always positive is moved on a log scale: its band must not reach below zero.
        least = states[trajectory].min(axis=0) > -LARGEST_NEGATIVE_SHARE * states[trajectory].max(axis=0)
        positive = dict(zip(fit.model.states, least.tolist(), strict=True))
        self.logs = [name not in kinds and positive.get(name, False) for name in names]
        for name, log in zip(names, self.logs, strict=True):
            kinds.setdefault(name, "lognormal" if log else "gaussian")
        self.kinds = [KINDS[kinds[name]] for name in names]
        data = fit.data.replace_attributes(
            trajectories=tuple(parts),
            names=(*(fit.data.names or ()), *names),
            noise=(*fit.data.noise, *(kinds[name] for name in names)),
            sigma=sigma,
        )
        problem = HiddenStateProblem.from_model(fit.model, fit.shared, fit.index, data, sigma)
        self.relaxed = problem.build_relaxed_model(tuple(meshes), sigma, ~fit.fixed)
        self.search, self.watch = SearchSettings(fit.bounds[:, 0], fit.bounds[:, 1], prior=fit.prior, stop=watch), watch
        X = np.concatenate([part for x in states for part in (x[:1], x)])
        # The mesh has more nodes than that of the fit, so that its optimum differs a little.
        best = settle_on_exact_model(self.relaxed, Point(fit.estimate, X), self.search, PIN_TOLERANCE)
        raise_if_late(watch)
        self.least = self._compute_misfit(best)
        self.best = self._measure(best)
        self.fits = [self.best]

    @np.errstate(all="ignore")
    def _compute_misfit(self, point: Point) -> float:
        """Compute the misfit to the data and to the prior; pins do not count."""
        r = self.relaxed.compute_residual(point.p, point.X)
        prior = self.search.prior
        return float(np.sum(r * r)) + (0.0 if prior is None else 2 * prior.compute_penalty(point.p))

    @np.errstate(all="ignore")
    def _measure(self, point: Point) -> PinnedFit:
        """Compute the misfit of a point above the least, and the columns that may be pinned."""
        h = self.relaxed.compute_observables(point.p, point.X)[self.rows, self.K :]
        at = np.column_stack([kind.to_working(column) for kind, column in zip(self.kinds, h.T, strict=True)])
        return PinnedFit(point, float(np.sqrt(max(self._compute_misfit(point) - self.least, 0.0))), at)

    def _fit_from(self, near: PinnedFit, knot: int, column: int, target: float, weight: float) -> PinnedFit | None:
        """Fit with a pin, beginning at a fit nearby; return None if that did not converge."""
        raise_if_late(self.watch)
        layout, place = self.relaxed.layout, (self.rows[knot], self.K + column)
        data, weights, floor = layout.data.copy(), layout.weight.copy(), layout.floor.copy()
        data[place], weights[place] = target, weight
        # Working coordinates are linear below a floor. It is put below both the pin and the start, so that between them
        # a logarithmic coordinate is a logarithm.
        lowest = min(target, float(near.pinned_values[knot, column]))
        floor[place] = self.kinds[column].compute_linear_floor(self.kinds[column].from_working(np.array([lowest])))[0]
        pinned = self.relaxed.with_layout(replace(layout, data=data, weight=weights, floor=floor))
        point = settle_on_exact_model(pinned, near.point, self.search, PIN_TOLERANCE)
        if not (point.done and np.isfinite(point.value)):
            raise_if_late(self.watch)  # the fit did not fail, it was stopped
            return None
        fit = self._measure(point)
        if not np.isfinite(fit.pinned_values[knot, column]):
            return None
        self.fits.append(fit)
        return fit

    def fit_pinned(self, knot: int, column: int, target: float, error: float) -> PinnedFit | None:
        """Fit with a pin, starting from the earlier fit that has the least misfit with this pin.

        If the result costs more than twice what a parabola would, the fit without a pin is tried as a start, too: the
        first one may be on another branch of the likelihood.

        Parameters
        ----------
        knot, column : int
            The positions of the band time and of the pinned name.
        target : float
            The value of the pin, in working coordinates.
        error : float
            The linearised standard error of the pinned column.

        Returns
        -------
        PinnedFit or None
            None if no fit converged.
        """
        weight = PIN_POLICY.weight / error

        def cost(fit: PinnedFit) -> float:
            return float(fit.root**2 + (weight * (target - fit.pinned_values[knot, column])) ** 2)

        near = min((fit for fit in self.fits if np.isfinite(fit.pinned_values[knot, column])), key=cost)
        first = self._fit_from(near, knot, column, target, weight)
        expected = 2 * (((target - self.best.pinned_values[knot, column]) / error) ** 2 + 1.0)
        if near is self.best or (first is not None and cost(first) < expected):
            return first
        second = self._fit_from(self.best, knot, column, target, weight)
        return min((fit for fit in (first, second) if fit is not None), key=cost, default=None)

    def find_farthest(self, knot: int, column: int, sign: float, z: float) -> PinnedFit:
        """Return the fit that reaches farthest on one side, of all so far whose misfit is below that at an end."""
        good = [fit for fit in self.fits if fit.root < z and np.isfinite(fit.pinned_values[knot, column])]
        return max(good, key=lambda fit: sign * float(fit.pinned_values[knot, column]))

    def find_end(self, request: BandRequest, n: int, sign: float, z: float, first: float) -> BandEnd:
        """Find one end of a band at one time.

        Parameters
        ----------
        request : BandRequest
        n : int
            Position of the time in the request.
        sign : float
            -1 for the lower end, 1 for the upper one.
        z : float
            The quantile.
        first : float
            Target of the first pin, in standard errors.

        Returns
        -------
        BandEnd
        """
        side = _BandSide(self, request, n, sign, z)
        target = max(min(first, side.farthest), side.begin[0] + PIN_POLICY.lead * (z - side.begin[1]))
        target = walk_to_end(side, target, Bracket(side.begin), z)
        return side.conclude(target)

    def find_ends(self, requests: list[BandRequest], z: float) -> list[FloatArray]:
        """Compute how far bands reach below and above the fit.

        Parameters
        ----------
        requests : list of BandRequest
        z : float
            The quantile.

        Returns
        -------
        list of ndarray, (2, knots) for each request
            Distances in standard errors; NaN if an end could not be followed, infinite if the data set no limit.
        """
        reaches = [np.full((2, len(request.knots)), np.nan) for request in requests]
        # A second pass searches again for ends that the fits of the first have passed.
        for is_second in (False, True):
            for request, reach in zip(requests, reaches, strict=True):
                for side, sign in enumerate((-1.0, 1.0)):
                    first = z
                    for n in range(len(request.knots)):
                        if is_second and not self._is_passed(request, n, sign, z, reach[side, n]):
                            continue
                        end = self.find_end(request, n, sign, z, first)
                        first, reach[side, n] = end.target, end.reach
        return reaches

    def _is_passed(self, request: BandRequest, n: int, sign: float, z: float, reach: float) -> bool:
        """Return True if some fit reaches farther than an end, or if the end is NaN."""
        knot, column = int(request.knots[n]), request.column
        farthest = (
            self.find_farthest(knot, column, sign, z).pinned_values[knot, column]
            - self.best.pinned_values[knot, column]
        )
        return not sign * farthest / request.errors[n] <= (1 + PIN_POLICY.min_overreach) * reach


class _BandSide:
    """The route to one end of a band at one time; its positions are targets of pins (`profile_walk.Route`).

    Targets, and the distances that the state reaches, are in standard errors from the fit.

    Attributes
    ----------
    farthest : float
        Distance at which the search is given up.
    begin : tuple of float
        Distance and root of the farthest fit so far.
    points : list of tuple of float
        Distance and root of the fit without a pin, and of all pins on the way.
    """

    max_trials = PIN_POLICY.max_trials
    max_closing_trials: int | None = None

    def __init__(self, profiler: StateProfiler, request: BandRequest, n: int, sign: float, z: float) -> None:
        self.profiler, self.sign, self.z = profiler, sign, z
        self.knot, self.column, self.error = int(request.knots[n]), request.column, float(request.errors[n])
        is_log = profiler.logs[self.column]
        self.farthest = (
            min(PIN_POLICY.farthest, PIN_POLICY.farthest_log / self.error) if is_log else PIN_POLICY.farthest
        )
        inner = profiler.find_farthest(self.knot, self.column, sign, z)
        # It may be a fit with a pin elsewhere: it is inside the band, but perhaps not the best fit at this distance.
        self.points, self.begin = [(0.0, 0.0)], (self._measure_distance(inner), inner.root)
        self.failures, self.is_held, self.has_given_up = 0, False, False

    def _measure_distance(self, fit: PinnedFit) -> float:
        """Return how far a fit puts the state, in standard errors."""
        at, best = fit.pinned_values[self.knot, self.column], self.profiler.best.pinned_values[self.knot, self.column]
        return float(self.sign * (at - best) / self.error)

    def refit_at(self, position: float, bracket: Bracket) -> Trial[PinnedFit] | None:
        """Fit with a pin at a target; return None if that failed because it was too far for one step."""
        del bracket
        best = float(self.profiler.best.pinned_values[self.knot, self.column])
        fit = self.profiler.fit_pinned(self.knot, self.column, best + self.sign * position * self.error, self.error)
        return None if fit is None else Trial(position, fit.root, fit)

    def retreat(self, position: float, bracket: Bracket) -> float:
        """Return a target half-way back; give up if pins failed too often."""
        self.failures += 1
        self.has_given_up = self.failures > PIN_POLICY.max_failures
        return 0.5 * (position + bracket.inner[0])

    def is_finished(self, trial: Trial[PinnedFit], bracket: Bracket) -> bool:
        """Record a pin; return True if it is close to the end, if a bound holds the state, or if it is far away."""
        previous, distance = self.points[-1][0], self._measure_distance(trial.solution)
        self.points.append((distance, trial.root))
        is_inside = trial.root < self.z
        # A pin that is far from the state, and no longer moves it: a bound holds the state, and is the end of its band.
        pulls_in_vain = trial.position - distance > PIN_POLICY.held_gap
        rests = distance - previous < PIN_POLICY.held_progress * max(distance, 1.0)
        self.is_held = is_inside and len(self.points) > 2 and pulls_in_vain and rests
        is_endless = is_inside and bracket.is_open and distance > PIN_POLICY.share_of_farthest * self.farthest
        return self.is_held or is_endless or abs(trial.root - self.z) < PIN_POLICY.close_root

    def advance(self, trial: Trial[PinnedFit]) -> float:
        """Return a target farther out, about where a parabola would reach the quantile."""
        factor = float(np.clip(self.z / max(trial.root, PIN_POLICY.smallest_root), *PIN_POLICY.growth))
        return max(trial.position, PIN_POLICY.lead) * factor

    def conclude(self, target: float) -> BandEnd:
        """Return the end, from all pins on the way and the last target."""
        beyond, z = self.begin[0], self.z
        least = max(beyond, *(distance for distance, root in self.points if root < z))
        # A pin that is nearer than the farthest good one, and fits worse, was on another branch.
        points = [(distance, root) for distance, root in self.points if root < z or distance > least]
        reach = max(find_crossing(points, z), beyond)
        if np.isinf(reach):
            is_nearly_there = max(root for _, root in points) > z - PIN_POLICY.close_root
            reach = least if self.is_held or is_nearly_there else np.inf
            if np.isinf(reach) and least < PIN_POLICY.share_of_farthest * self.farthest:  # lost on the way
                reach = np.nan
        return BandEnd(reach, least + PIN_POLICY.lead_if_held if self.is_held else target)


def _snap_to_mesh(times: FloatArray, mesh: FloatArray) -> FloatArray:
    """Replace times that differ from a node of a mesh by rounding by that node, `(knots,)`."""
    near = mesh[np.abs(mesh[None] - times[:, None]).argmin(axis=1)]
    return np.asarray(np.where(np.abs(near - times) <= SAME_TIME * np.ptp(mesh), near, times))


def _extend_mesh(mesh: FloatArray, rows: FloatArray) -> FloatArray:
    """Return a mesh with nodes at some times `rows`, continued beyond its end with intervals as long as before."""
    mesh = np.unique(mesh)
    step = float(np.median(np.diff(mesh)))
    beyond = rows[-1] - mesh[-1]
    more = (
        mesh[-1] + beyond * np.arange(1, int(np.ceil(beyond / step)) + 1) / np.ceil(beyond / step) if beyond > 0 else []
    )
    return np.union1d(np.union1d(mesh, more), rows)


def _solve_on_mesh(fit: FitResult, k: int, mesh: FloatArray, states: FloatArray) -> FloatArray:
    """Solve the fitted model on the nodes of a mesh, from the first of its fitted states; `(nodes, D)`."""
    inputs = collect_inputs(fit.model, fit.data, k)
    solved = simulate(
        fit.model.for_trajectory(k),
        fit.estimate,
        states[0],
        separate_times(mesh),
        inputs=inputs,
        rtol=FORWARD_TOLERANCE,
    )
    if not solved.success:
        raise FitError("The fitted model could not be solved over these times. Request shorter times.")
    return solved.states
