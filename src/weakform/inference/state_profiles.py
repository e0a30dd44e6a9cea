"""Bands by the likelihood where only a part is measured: a state is pinned at a time, and all else is fitted again.

With the misfit Q of data and priors and `Q(v) = min Q` over all parameters and states with `x_d(t) = v`, the band at
level 1 - α is `{v : Q(v) - min Q <= z²}` at each time, z the quantile of the level: what other fits of nearly the same
likelihood say of this state. A pin is one more measurement of it, of value w and small σ: wherever the fit then puts
x_d(t), its misfit without the pin is Q there. A likelihood may have branches: what one pin has come upon is for all,
and an end is searched for from what reaches farthest. Ends are found at a few times, and between them relative
to the linear band.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.continuation import Point, Search, settle
from ..collocation.hidden_state_problem import LatentProblem, apart
from ..data.matching import inputs_of
from ..forward.solver import simulate
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray, IntArray
from ..support.errors import FitError
from .profiles import crossing

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

STEPS, CLOSE = 16, 0.05
"""Pins for one end, and how near to z the root of the misfit must come."""
FAILURES = 4
"""Pins that may be too far."""
HELD, DRAWN = 0.01, 0.4
"""How little what is pinned follows the pin, as a share of how far it has come, and how far from it, for a bound to
hold it."""
AHEAD, BEYOND, FARTHER = 0.5, 1.0, 0.02
"""The first pin beyond the farthest that was met, and beyond where a state was held at the time before, in standard
errors; and how much farther another pin must have led for an end to be found again, as a share."""
HARD = 5.0
"""One over the σ of a pin, in standard errors of the state."""
FARTHEST, DECADES = 30.0, 50.0
"""Standard errors, or units of a logarithm, at which an end is given up: the data set no limit."""
ROUNDING = 1e-9
"""Share of its size by which a positive state may be below zero."""
SAME = 1e-9
"""Share of the duration by which two times differ that are one."""
TOLERANCE = 1e-3
"""Of the log-likelihood of a fit with a pin."""


@dataclass(frozen=True)
class Met:
    """A fit with a pin.

    Attributes
    ----------
    point : Point
    root : float
        Of its misfit to data and prior above the least.
    at : ndarray, (knots, names)
        What may be pinned, in working coordinates.
    """

    point: Point
    root: float
    at: FloatArray


@dataclass(frozen=True)
class Wanted:
    """A column whose ends are to be found.

    Attributes
    ----------
    column : int
    knots : ndarray of int
    errors : ndarray, (knots,)
        Standard errors of what is pinned, in working coordinates.
    """

    column: int
    knots: IntArray
    errors: FloatArray


@dataclass(frozen=True)
class End:
    """One end of a band at one time.

    Attributes
    ----------
    reach : float
        How far it is, in standard errors; NaN where it could not be followed, infinite where the data set no limit.
    target : float
        Where the last pin was, in standard errors from the fit.
    """

    reach: float
    target: float


class Pinned:
    """The problem behind a fit, with nodes at some times of one trajectory and columns for what may be pinned there.

    Parameters
    ----------
    fit : FitResult
    trajectory : int
    times : ndarray, (knots,)
        Not before the beginning.
    names : sequence of str
        States and expressions that may be pinned.
    """

    def __init__(self, fit: FitResult, trajectory: int, times: FloatArray, names: tuple[str, ...]) -> None:
        assert fit.shared is not None
        assert fit.index is not None
        K = fit.data.D
        parts, times = [], _onto(times, fit.nodes[trajectory][0])
        for k, q in enumerate(fit.data.trajectories):
            rows = np.union1d(q.times, times) if k == trajectory else q.times
            values, scale = np.full((len(rows), K + len(names)), np.nan), np.ones((len(rows), K + len(names)))
            at = np.searchsorted(rows, q.times)
            values[at, :K], scale[at, :K] = q.values, q.scales
            parts.append(replace(q, times=rows, values=values, scale=scale, within=None, repeats=None))
        longer = fit.data.replaced(trajectories=tuple(parts))
        jumping = LatentProblem.of(fit.model, fit.shared, fit.index, longer, fit.sigma)
        nodes = enumerate(zip(parts, fit.nodes, strict=True))
        meshes = [jumping.doubled(_extended(mesh, q.times), k) for k, (q, (mesh, _)) in nodes]
        states = [_states(fit, k, mesh, x) for k, (mesh, (_, x)) in enumerate(zip(meshes, fit.nodes, strict=True))]
        self.K = K
        self.rows = sum(len(q.times) for q in parts[:trajectory]) + np.searchsorted(parts[trajectory].times, times)
        sigma = np.concatenate([fit.sigma, np.ones(len(names))])
        kinds = dict(zip(fit.data.names or (), fit.data.noise, strict=True))
        # What is positive all along is moved on a log scale: it has no end at zero.
        least = states[trajectory].min(axis=0) > -ROUNDING * states[trajectory].max(axis=0)
        positive = dict(zip(fit.model.states, least.tolist(), strict=True))
        self.logs = [name not in kinds and positive.get(name, False) for name in names]
        for name, log in zip(names, self.logs, strict=True):
            kinds.setdefault(name, "lognormal" if log else "gaussian")
        self.kinds = [KINDS[kinds[name]] for name in names]
        data = fit.data.replaced(
            trajectories=tuple(parts),
            names=(*(fit.data.names or ()), *names),
            noise=(*fit.data.noise, *(kinds[name] for name in names)),
            sigma=sigma,
        )
        problem = LatentProblem.of(fit.model, fit.shared, fit.index, data, sigma)
        self.relaxed = problem.relaxed(tuple(meshes), sigma, ~fit.fixed)
        self.search = Search(fit.bounds[:, 0], fit.bounds[:, 1], prior=fit.prior)
        X = np.concatenate([part for x in states for part in (x[:1], x)])
        best = settle(self.relaxed, Point(fit.estimate, X), self.search, TOLERANCE)
        self.least = self._misfit(best)
        self.best = self._met(best)
        self.met = [self.best]

    @np.errstate(all="ignore")
    def _misfit(self, point: Point) -> float:
        """To the data and to the prior."""
        r = self.relaxed.residual(point.p, point.X)
        prior = self.search.prior
        return float(np.sum(r * r)) + (0.0 if prior is None else 2 * prior.value(point.p))

    @np.errstate(all="ignore")
    def _met(self, point: Point) -> Met:
        h = self.relaxed.observables(point.p, point.X)[self.rows, self.K :]
        at = np.column_stack([kind.to_working(column) for kind, column in zip(self.kinds, h.T, strict=True)])
        return Met(point, float(np.sqrt(max(self._misfit(point) - self.least, 0.0))), at)

    def _solved(self, knot: int, column: int, to: float, weight: float, near: Met) -> Met | None:
        """All fitted again with a pin."""
        layout, place = self.relaxed.layout, (self.rows[knot], self.K + column)
        data, weights, floor = layout.data.copy(), layout.weight.copy(), layout.floor.copy()
        data[place], weights[place] = to, weight
        # On the way from below to a far pin its logarithm must not be a straight line yet.
        lowest = min(to, float(near.at[knot, column]))
        floor[place] = self.kinds[column].floor(self.kinds[column].from_working(np.array([lowest])))[0]
        pinned = self.relaxed.on(replace(layout, data=data, weight=weights, floor=floor))
        point = settle(pinned, near.point, self.search, TOLERANCE)
        if not (point.done and np.isfinite(point.value)):
            return None
        met = self._met(point)
        if not np.isfinite(met.at[knot, column]):
            return None
        self.met.append(met)
        return met

    def _fitted(self, knot: int, column: int, to: float, error: float) -> Met | None:
        """A fit with a pin, from where it costs least of all that was met; from the fit itself too where it costs much.

        A parabola would cost as much as the pin is away.
        """
        weight = HARD / error

        def cost(one: Met) -> float:
            return float(one.root**2 + (weight * (to - one.at[knot, column])) ** 2)

        near = min((one for one in self.met if np.isfinite(one.at[knot, column])), key=cost)
        solved = self._solved(knot, column, to, weight, near)
        expected = 2 * (((to - self.best.at[knot, column]) / error) ** 2 + 1.0)
        if near is self.best or (solved is not None and cost(solved) < expected):
            return solved
        again = self._solved(knot, column, to, weight, self.best)
        return min((one for one in (solved, again) if one is not None), key=cost, default=None)

    def end(self, wanted: Wanted, n: int, sign: float, z: float, first: float) -> End:
        """One end of a band at one time, by pins of which the first is at a target."""
        knot, column, error = int(wanted.knots[n]), wanted.column, float(wanted.errors[n])
        farthest = min(FARTHEST, DECADES / error) if self.logs[column] else FARTHEST

        def far(one: Met) -> float:
            return float(sign * (one.at[knot, column] - self.best.at[knot, column]) / error)

        inner = self._farthest(knot, column, sign, z)
        # What another pin has led to is inside, but not the best that is as far.
        points, beyond = [(0.0, 0.0)], far(inner)
        low, high, held, failed = (beyond, inner.root), (np.inf, np.inf), False, 0
        target = max(min(first, farthest), low[0] + AHEAD * (z - low[1]))
        for _ in range(STEPS):
            solved = self._fitted(knot, column, float(self.best.at[knot, column]) + sign * target * error, error)
            if solved is None:  # too far for one step
                target, failed = 0.5 * (target + low[0]), failed + 1
                if failed > FAILURES:
                    break
                continue
            root, came = solved.root, far(solved)
            points.append((came, root))
            # A pin that draws and draws nothing along: bounds hold it, and there is the end.
            held = (
                root < z and len(points) > 2 and target - came > DRAWN and came - points[-2][0] < HELD * max(came, 1.0)
            )
            given_up = root < z and np.isinf(high[0]) and came > 0.99 * farthest
            if held or given_up or abs(root - z) < CLOSE:
                break
            low, high = ((target, root), high) if root < z else (low, (target, root))
            if np.isinf(high[0]):
                target = max(low[0], AHEAD) * float(np.clip(z / max(root, 0.1), 1.3, 3.0))
            else:
                share = (z - low[1]) / (high[1] - low[1])
                target = low[0] + float(np.clip(share, 0.1, 0.9)) * (high[0] - low[0])
        # What is nearer than the farthest that fits well was on another branch.
        least = max(beyond, *(distance for distance, root in points if root < z))
        points = [(distance, root) for distance, root in points if root < z or distance > least]
        reach = max(crossing(points, z), beyond)
        if np.isinf(reach):
            reach = least if held or max(root for _, root in points) > z - CLOSE else np.inf
            if np.isinf(reach) and least < 0.99 * farthest:  # lost on the way
                reach = np.nan
        return End(reach, least + BEYOND if held else target)

    def _farthest(self, knot: int, column: int, sign: float, z: float) -> Met:
        """Of all that was met and fits well enough, what is farthest to one side."""
        good = [one for one in self.met if one.root < z and np.isfinite(one.at[knot, column])]
        return max(good, key=lambda one: sign * float(one.at[knot, column]))

    def ends(self, columns: list[Wanted], z: float) -> list[FloatArray]:
        """How far bands reach below and above, in standard errors, `(2, knots)` for each column.

        NaN where it could not be followed, infinite where the data set no limit.
        """
        found = [np.full((2, len(one.knots)), np.nan) for one in columns]
        for again in (False, True):
            for one, reach in zip(columns, found, strict=True):
                for side, sign in enumerate((-1.0, 1.0)):
                    first = z
                    for n in range(len(one.knots)):
                        if again and not self._passed(one, n, sign, z, reach[side, n]):
                            continue
                        end = self.end(one, n, sign, z, first)
                        first, reach[side, n] = end.target, end.reach
        return found

    def _passed(self, wanted: Wanted, n: int, sign: float, z: float, reach: float) -> bool:
        """Whether another pin has led farther than an end."""
        knot, column = int(wanted.knots[n]), wanted.column
        there = self._farthest(knot, column, sign, z).at[knot, column] - self.best.at[knot, column]
        return not sign * there / wanted.errors[n] <= (1 + FARTHER) * reach


def _onto(times: FloatArray, mesh: FloatArray) -> FloatArray:
    """Times put onto nodes that they differ from by rounding."""
    near = mesh[np.abs(mesh[None] - times[:, None]).argmin(axis=1)]
    return np.asarray(np.where(np.abs(near - times) <= SAME * np.ptp(mesh), near, times))


def _extended(mesh: FloatArray, rows: FloatArray) -> FloatArray:
    """A mesh with nodes at some times, and as fine beyond its end as before."""
    mesh = np.unique(mesh)
    step = float(np.median(np.diff(mesh)))
    beyond = rows[-1] - mesh[-1]
    more = (
        mesh[-1] + beyond * np.arange(1, int(np.ceil(beyond / step)) + 1) / np.ceil(beyond / step) if beyond > 0 else []
    )
    return np.union1d(np.union1d(mesh, more), rows)


def _states(fit: FitResult, k: int, mesh: FloatArray, known: FloatArray) -> FloatArray:
    """The fitted solution on a mesh."""
    inputs = inputs_of(fit.model, fit.data, k)
    solved = simulate(fit.model.of(k), fit.estimate, known[0], apart(mesh), inputs=inputs, rtol=1e-9)
    if not solved.success:
        raise FitError("The fitted model could not be solved over these times; ask for a shorter time.")
    return solved.states
