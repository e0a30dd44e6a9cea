"""States that nobody measured: let the model bend, then make it stiff.

Unknown are all states X on the nodes of a mesh, and the parameters p. With the defect `c_m` of Simpson's rule on each
interval (see `mesh`), the observables h and a row `x(0) - g(p)` for each initial value that is given,

    minimise ½ Σ ((y - h(X, p))/σ)² + ½ Σ v²/V,      v = (c, x(0) - g(p)),      V_md = q² (h_m/T) s_md²,

s_md the size of state d there along the current solution, T the duration. The second term says: the model holds up to a
random walk of relative size q. At large q this is a smoothing problem, nearly convex in X; as q falls the model takes
over; q = 0 is the exact constraint. Each level starts where the last one ended, with a few Levenberg–Marquardt steps.
With the residual `r + R δX + P δp`, the linearised `v + A δX + G δp` and its multipliers z, a step solves

    [ RᵀR + μ    Aᵀ ] [δX]     [ Rᵀr + RᵀP δp ]
    [    A      -V  ] [ z ] = - [  v  + G δp   ]

with X and z interleaved node by node: a band (`linalg.saddle`), for every q, and 0 among them. The
parameters are an arrow: with `B = [RᵀP; G]` and K the matrix above, δp minimises the quadratic with Hessian
`PᵀP - Bᵀ K⁻¹ B`, the information about p, inside the box. Trajectories share p and stand one behind the other, each
with a node ahead of it that carries its initial values. A step costs O(N D²(D + J)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..model.expression_map import Map
from ..support.array_types import BoolArray, FloatArray, IntArray
from .simpson_rule import Pattern, linearised

LEAST = 1e-3
"""What a state is taken to be at least at one time, as a share of its size all along."""
SHORTEST = 1e-8
"""Share of the duration that an interval is taken to be at least: 0.3 and 0.1 + 0.2 are next to each other, and what
the model may miss between them would be less than rounding."""


@dataclass(frozen=True)
class Layout:
    """Nodes of all trajectories one behind the other; the first of each is ahead of it, and has no state of its own.

    Attributes
    ----------
    times : ndarray, (N,)
    trajectory : ndarray of int, (N,)
    ahead, last : ndarray of bool, (N,)
        The node ahead of a trajectory, and its last one: no interval begins there.
    sampled : ndarray of int, (S,)
        Nodes at which something was measured.
    data, weight : ndarray, (S, K)
        Measured values in the working coordinates of their noise, and one over their scale; zero where missing.
    floor : ndarray, (S, K)
        Below it the working coordinates of an observable go on linearly: a logarithm has no end there, and a step that
        takes a state a little below zero is only a bad step.
    span : ndarray, (N,)
        The duration of the trajectory of each node.
    before, after, middle : ndarray, (N, I), or None
        Inputs at the nodes, coming from the left and from the right, and in the middle of the interval behind each.
    jump : ndarray of int, (N,), or None
        Where states jump from a node to the next, at the same time: by which of the `jumps`; -1 elsewhere.
    jumps : tuple of Map
        States after a jump, in terms of those before.
    """

    times: FloatArray
    trajectory: IntArray
    ahead: BoolArray
    last: BoolArray
    sampled: IntArray
    data: FloatArray
    weight: FloatArray
    floor: FloatArray
    span: FloatArray
    before: FloatArray | None = None
    after: FloatArray | None = None
    middle: FloatArray | None = None
    jump: IntArray | None = None
    jumps: tuple[Map, ...] = ()

    @cached_property
    def inner(self) -> BoolArray:
        """Nodes at which an interval begins, `(N,)`."""
        begins = ~(self.ahead | self.last)
        return begins if self.jump is None else begins & (self.jump < 0)

    @cached_property
    def steps(self) -> FloatArray:
        """Length of the interval behind each node, `(N,)`; zero where there is none."""
        h = np.zeros(len(self.times))
        h[:-1] = np.diff(self.times)
        return np.where(self.inner, h, 0.0)


@dataclass(frozen=True)
class Functions:
    """What the model says, as maps in its own parameters.

    Attributes
    ----------
    f, h, g : Map
        Right-hand side (D), observables (K), and initial values (D).
    given : ndarray of bool, (D,)
        Which initial values are given by g.
    to_working, numeric_slope : tuple of callable, (K,)
        Coordinates of each observable in which its noise is additive, and du/dx.
    index : ndarray of int, (trajectories, J)
        Place of each parameter of the model among all parameters, trajectory by trajectory.
    log : ndarray of bool, (P,)
        Which of all parameters are searched for on a log scale.
    ends : bool
        Whether the right-hand side is no number for some states.
    """

    f: Map
    h: Map
    g: Map
    given: BoolArray
    to_working: tuple[Callable[[FloatArray], FloatArray], ...]
    numeric_slope: tuple[Callable[[FloatArray], FloatArray], ...]
    index: IntArray
    log: BoolArray
    ends: bool = False

    def own(self, p: FloatArray, trajectory: int | IntArray) -> FloatArray:
        """The model's parameters in a trajectory `(J,)`, or in each of some `(n, J)`."""
        with np.errstate(over="ignore"):
            natural = np.where(self.log, np.exp(p), p) if self.log.any() else p
        return np.asarray(natural[self.index[trajectory]])

    def spread(self, by_p: FloatArray, p: FloatArray, trajectory: int | IntArray) -> FloatArray:
        """Derivatives `(n, K, P)` by all parameters from those `(n, K, J)` by the model's own."""
        full = np.zeros((*by_p.shape[:2], len(p)))
        rows, places = np.arange(len(by_p)), self.index[trajectory]
        for j in range(by_p.shape[2]):
            full[rows, :, places[..., j]] += by_p[:, :, j]
        if self.log.any():
            full *= np.where(self.log, np.exp(p), 1.0)
        return full


@dataclass(frozen=True)
class Linear:
    """Residual and constraint at a point, linearised.

    Attributes
    ----------
    r : ndarray, (S, K)
    R : ndarray, (S, K, D)
    P : ndarray, (S, K, F)
    v : ndarray, (N, D)
    left, right : ndarray, (N, D, D)
    G : ndarray, (N, D, F)
    """

    r: FloatArray
    R: FloatArray
    P: FloatArray
    v: FloatArray
    left: FloatArray
    right: FloatArray
    G: FloatArray


class Relaxed:
    """The problem on one layout.

    Parameters
    ----------
    layout : Layout
    functions : Functions
    sigma : ndarray, (K,)
    free : ndarray of bool, (P,)
        Which of all parameters may move.
    """

    def __init__(self, layout: Layout, functions: Functions, sigma: FloatArray, free: BoolArray) -> None:
        self.layout, self.functions, self.sigma, self.free = layout, functions, sigma, free
        self.W = layout.weight / sigma
        index = functions.index
        plain = bool((index == np.arange(index.shape[1])).all()) and index.shape[1] == len(free)
        self.single = plain and not functions.log.any()

    def with_sigma(self, sigma: FloatArray) -> Relaxed:
        """The same with another σ."""
        return Relaxed(self.layout, self.functions, sigma, self.free)

    def on(self, layout: Layout) -> Relaxed:
        """The same with other data on the same nodes."""
        return Relaxed(layout, self.functions, self.sigma, self.free)

    def own(self, p: FloatArray, trajectory: IntArray) -> FloatArray:
        """The model's parameters at nodes, `(J,)` or `(n, J)`, from all of them."""
        return p if self.single else self.functions.own(p, trajectory)

    def _columns(self, by_p: FloatArray, p: FloatArray, trajectory: IntArray) -> FloatArray:
        """Derivatives `(n, K, F)` by the free parameters from those `(n, K, J)` by the model's."""
        full = by_p if self.single else self.functions.spread(by_p, p, trajectory)
        return np.asarray(full[:, :, self.free])

    def working(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Observables `(S, K)` in the working coordinates of their noise, and du/dx there."""
        F, safe = self.functions, np.maximum(h, self.layout.floor)
        x = np.column_stack([g(c) for g, c in zip(F.to_working, safe.T, strict=True)])
        slope = np.column_stack([s(c) for s, c in zip(F.numeric_slope, safe.T, strict=True)])
        return x + (h - safe) / slope, slope

    def observables(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """The observables at the samples, `(S, K)`."""
        at, L = self.layout.sampled, self.layout
        inputs = None if L.after is None else L.after[at]
        return self.functions.h(L.times[at], X[at], self.own(p, L.trajectory[at]), inputs)

    def residual(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """`(h(X, p) - y)/σ`, `(S, K)`, zero where nothing was measured."""
        off = self.working(self.observables(p, X))[0] - self.layout.data
        return np.where(self.W > 0, off * self.W, 0.0)

    def _middle(self, X: FloatArray, f0: FloatArray, f1: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Times and states in the middle of the interval behind each node, by what the equations say at its ends."""
        h = self.layout.steps[:, None]
        return self.layout.times + h[:, 0] / 2, 0.5 * (X + _next(X)) + h / 8 * (f0 - f1)

    def constraint(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """v, `(N, D)`."""
        L, F = self.layout, self.functions
        own = self.own(p, L.trajectory)
        f0 = F.f(L.times, X, own, L.after)
        f1 = f0 if L.before is None else F.f(L.times, X, own, L.before)
        h = L.steps[:, None]
        x1, f1 = _next(X), _next(f1)
        middle = F.f(*self._middle(X, f0, f1), own, L.middle)
        v = np.where(L.inner[:, None], x1 - X - h / 6 * (f0 + 4 * middle + f1), 0.0)
        if F.given.any():
            at = np.flatnonzero(L.ahead)
            start = F.g(L.times[at], X[at], self.own(p, L.trajectory[at]))
            v[at] = np.where(F.given, X[at + 1] - start, 0.0)
        for at, map_ in self._jumping:
            v[at] = X[at + 1] - map_(L.times[at], X[at], self.own(p, L.trajectory[at]), _at(L.before, at))
        return v

    @cached_property
    def _pattern(self) -> Pattern:
        f = self.functions.f
        return Pattern(*f.pattern, f.D, f.J)

    @cached_property
    def _outer(self) -> IntArray:
        """Nodes at which no interval begins."""
        return np.flatnonzero(~self.layout.inner)

    @cached_property
    def _jumping(self) -> list[tuple[IntArray, Map]]:
        """Nodes at which states jump, by what they become."""
        L = self.layout
        if L.jump is None:
            return []
        return [(np.flatnonzero(L.jump == k), map_) for k, map_ in enumerate(L.jumps)]

    def linearise(self, p: FloatArray, X: FloatArray) -> Linear:
        """Residual and constraint with their derivatives."""
        L, F, at = self.layout, self.functions, self.layout.sampled
        inputs = None if L.after is None else L.after[at]
        value, hu, hp = F.h.linearised(L.times[at], X[at], self.own(p, L.trajectory[at]), inputs)
        x, slope = self.working(value)
        off = x - L.data
        there = self.W > 0
        scale = np.where(there, self.W / slope, 0.0)[:, :, None]
        R = np.where(there[:, :, None], hu * scale, 0.0)
        P = np.where(there[:, :, None], self._columns(hp, p, L.trajectory[at]) * scale, 0.0)
        r = np.where(there, off * self.W, 0.0)
        own = self.own(p, L.trajectory)
        begin = F.f.nonzeros(L.times, X, own, L.after)
        end = _next(begin if L.before is None else F.f.nonzeros(L.times, X, own, L.before))
        f = self._pattern.f
        middle = F.f.nonzeros(*self._middle(X, f(begin), f(end)), own, L.middle)
        v, left, right, by_p = linearised(self._pattern, L.steps, (X, _next(X)), (begin, end, middle))
        for part in (v, left, right, by_p):
            part[self._outer] = 0.0
        if F.given.any():
            first = np.flatnonzero(L.ahead)
            start, _, gp = F.g.linearised(L.times[first], X[first], self.own(p, L.trajectory[first]))
            v[first] = np.where(F.given, X[first + 1] - start, 0.0)
            right[first] = np.diag(F.given.astype(float))
            by_p[first] = -gp
        for at, map_ in self._jumping:
            after, Ju, Jp = map_.linearised(L.times[at], X[at], self.own(p, L.trajectory[at]), _at(L.before, at))
            v[at], left[at], right[at], by_p[at] = X[at + 1] - after, -Ju, np.eye(X.shape[1]), -Jp
        return Linear(r, R, P, v, left, right=right, G=self._columns(by_p, p, L.trajectory))

    def defined(self, p: FloatArray, X: FloatArray) -> BoolArray:
        """Nodes at which, and around which, the right-hand side is a number, `(N,)`."""
        if not self.functions.ends:
            return np.ones(len(X), dtype=bool)
        L, F, own = self.layout, self.functions, self.own(p, self.layout.trajectory)
        f0 = F.f(L.times, X, own, L.after)
        middle = F.f(*self._middle(X, f0, _next(f0)), own, L.middle)
        good = np.asarray(np.isfinite(f0).all(axis=1))
        # Where only the middle between two nodes is outside, both have to give way.
        between = L.inner & good & np.append(good[1:], True) & ~np.isfinite(middle).all(axis=1)
        good &= ~between
        good[1:] &= ~between[:-1]
        return np.asarray(good | L.ahead)

    def variances(self, X: FloatArray, q: float) -> FloatArray:
        """V, `(N, D)`: what the model may miss in each interval; one where there is no constraint.

        Relative to what a state is at that time: one that grows from next to nothing does so by the model, not out of
        the walk.
        """
        L = self.layout
        real = ~L.ahead
        size = np.maximum(np.sqrt(np.mean(X[real] ** 2, axis=0)), 1e-100)
        size = np.maximum(np.minimum(np.maximum(np.abs(X), np.abs(_next(X))), size), LEAST * size)
        shares = np.maximum(L.steps / L.span, SHORTEST)
        V = q**2 * shares[:, None] * size**2
        V[L.ahead] = np.where(self.functions.given, q**2 * size[L.ahead] ** 2, 1.0)
        V[L.last] = 1.0
        if L.jump is not None:  # as exact as the shortest interval
            V[L.jump >= 0] = q**2 * shares[L.inner].min(initial=1.0) * size[L.jump >= 0] ** 2
        return np.asarray(V)


def _at(values: FloatArray | None, places: IntArray) -> FloatArray | None:
    return None if values is None else values[places]


def _next(a: FloatArray) -> FloatArray:
    """What stands at the next node; the last is repeated."""
    return np.concatenate([a[1:], a[-1:]])
