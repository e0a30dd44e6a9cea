"""Bands by the likelihood where only a part is measured: a state is pinned at a time, and all else is fitted again.

With the misfit Q of data and priors and `Q(v) = min Q` over all parameters and states with `x_d(t) = v`, the band at
level 1 - α is `{v : Q(v) - min Q <= z²}` at each time, z the quantile of the level: what other fits of nearly the same
likelihood say of this state. A pin is one more measurement of it, of value w and small σ: wherever the fit then puts
x_d(t), its misfit without the pin is Q there. Ends are found at a few times, and between them relative to the linear
band.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..collocation.latent import LatentProblem, apart
from ..collocation.levels import Point, Search, settle
from ..data.matching import inputs_of
from ..forward.solve import simulate
from ..noise.kinds import KINDS
from ..support.errors import FitError
from ..support.typing import FloatArray, IntArray
from .profiles import crossing

if TYPE_CHECKING:
    from .result import FitResult

KNOTS = 10
"""Times at which ends are found."""
STEPS, CLOSE = 16, 0.05
"""Pins for one end, and how near to z the root of the misfit must come."""
FAILURES = 4
"""Pins that may be too far."""
HELD = 0.01
"""How little what is pinned follows the pin, as a share of how far it has come, for a bound to hold it."""
BEYOND = 1.0
"""How much farther than where it is held a state is pinned at the next time, in standard errors."""
HARD = 5.0
"""One over the σ of a pin, in standard errors of the state."""
FARTHEST, DECADES = 30.0, 50.0
"""Standard errors, or units of a logarithm, at which an end is given up: the data set no limit."""
ROUNDING = 1e-9
"""Share of its size by which a positive state may be below zero."""
TOLERANCE = 1e-3
"""Of the log-likelihood of a fit with a pin."""


@dataclass(frozen=True)
class End:
    """One end of a band at one time.

    Attributes
    ----------
    sign : float
        Which side.
    reach : float
        How far it is, in standard errors; NaN where it could not be followed.
    limited : bool
        Whether the data set it; else it is where the search was given up.
    target : float
        Where the pin was, in standard errors from the fit.
    point : Point
        The fit there.
    """

    sign: float
    reach: float
    limited: bool
    target: float
    point: Point


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
        parts = []
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
        self.best = settle(self.relaxed, Point(fit.estimate, X), self.search, TOLERANCE)
        self.least = self._misfit(self.best)

    @np.errstate(all="ignore")
    def _misfit(self, point: Point) -> float:
        """To the data and to the prior."""
        r = self.relaxed.residual(point.p, point.X)
        prior = self.search.prior
        return float(np.sum(r * r)) + (0.0 if prior is None else 2 * prior.value(point.p))

    @np.errstate(all="ignore")
    def value(self, knot: int, column: int, point: Point) -> float:
        """What stands at a knot, in working coordinates."""
        h = self.relaxed.observables(point.p, point.X)[self.rows[knot], self.K + column]
        return float(self.kinds[column].to_working(np.array([h]))[0])

    def _solved(self, knot: int, column: int, to: float, weight: float, near: Point) -> Point | None:
        """All fitted again with a pin."""
        layout, place = self.relaxed.layout, (self.rows[knot], self.K + column)
        data, weights, floor = layout.data.copy(), layout.weight.copy(), layout.floor.copy()
        data[place], weights[place] = to, weight
        # On the way from below to a far pin its logarithm must not be a straight line yet.
        lowest = min(to, self.value(knot, column, near))
        floor[place] = self.kinds[column].floor(self.kinds[column].from_working(np.array([lowest])))[0]
        pinned = self.relaxed.on(replace(layout, data=data, weight=weights, floor=floor))
        point = settle(pinned, near, self.search, TOLERANCE)
        done = point.done and np.isfinite(point.value) and np.isfinite(self.value(knot, column, point))
        return point if done else None

    def _better(self, knot: int, column: int, to: float, weight: float, near: Point, expected: float) -> Point | None:
        """A fit with a pin from nearby; where that costs more than a parabola says, also from the fit itself."""
        solved = self._solved(knot, column, to, weight, near)
        if near is self.best or (solved is not None and solved.value - self.best.value < expected):
            return solved
        again = self._solved(knot, column, to, weight, self.best)
        if solved is None or again is None:
            return solved or again
        return min(solved, again, key=lambda point: point.value)

    def end(self, knot: int, column: int, error: float, z: float, last: End) -> End:
        """One end of the band.

        Parameters
        ----------
        knot, column : int
        error : float
            Standard error of what is pinned, in working coordinates.
        z : float
            The quantile.
        last : End
            At the knot before, on the same side.
        """
        begin = self.value(knot, column, self.best)
        farthest = min(FARTHEST, DECADES / error) if self.logs[column] else FARTHEST
        low, high = (0.0, 0.0), (np.inf, np.inf)
        points, near, target, held, inner = [(0.0, 0.0)], last.point, min(last.target, farthest), False, 0.0
        failed = 0
        for _ in range(STEPS):
            expected = target**2 + 1.0  # twice a parabola, and some
            solved = self._better(
                knot, column, begin + last.sign * target * error, HARD / error, near=near, expected=expected
            )
            if solved is None:  # too far for one step: from the fit itself, and half the way
                target, near, failed = 0.5 * (target + low[0]), self.best, failed + 1
                if failed > FAILURES:
                    break
                continue
            root = np.sqrt(max(self._misfit(solved) - self.least, 0.0))
            points.append((last.sign * (self.value(knot, column, solved) - begin) / error, root))
            near = solved
            # A pin that goes on draws nothing along: bounds hold it, and there is the end.
            held = root < z and 0 < low[0] < target and points[-1][0] - inner < HELD * points[-1][0]
            given_up = root < z and np.isinf(high[0]) and points[-1][0] > 0.99 * farthest
            if held or given_up or abs(root - z) < CLOSE:
                break
            low, high, inner = ((target, root), high, points[-1][0]) if root < z else (low, (target, root), inner)
            if np.isinf(high[0]):
                target = low[0] * float(np.clip(z / max(root, 0.1), 1.3, 3.0))
            else:
                share = (z - low[1]) / (high[1] - low[1])
                target = low[0] + float(np.clip(share, 0.1, 0.9)) * (high[0] - low[0])
        reach = crossing(points, z)
        limited = held or reach < np.inf or max(root for _, root in points) > z - CLOSE
        reach = min(reach, max(distance for distance, _ in points))
        if not limited and reach < 0.99 * farthest:  # lost on the way
            limited, reach = True, np.nan
        return End(last.sign, reach, limited, reach + BEYOND if held else target, near)

    def ends(self, knots: IntArray, column: int, errors: FloatArray, z: float) -> tuple[FloatArray, bool]:
        """How far a band reaches below and above, in standard errors, `(2, knots)`; and whether all is limited.

        NaN where it could not be followed.

        Parameters
        ----------
        knots : ndarray of int
        column : int
        errors : ndarray, (knots,)
            Standard errors of what is pinned, in working coordinates.
        z : float
        """
        found, limited = np.full((2, len(knots)), np.inf), True
        for side, sign in enumerate((-1.0, 1.0)):
            last = End(sign, 0.0, True, z, self.best)
            for n, (knot, error) in enumerate(zip(knots, errors, strict=True)):
                last = self.end(int(knot), column, float(error), z, last)
                limited &= last.limited
                if last.limited:
                    found[side, n] = last.reach
        return found, limited


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
