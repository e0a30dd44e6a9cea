"""The model as a soft constraint, for states that were not measured.

The unknowns are all states X on the nodes of a mesh and the parameters p. With the defect `c_m` of Simpson's rule on
each interval (see `mesh`), the observables h and a row `x(0) - g(p)` for each initial value that the model gives,

    minimise ½ Σ ((y - h(X, p))/σ)² + ½ Σ v²/V,      v = (c, x(0) - g(p)),      V_md = q² (h_m/T) s_md²,

with s_md the size of state d there along the current solution and T the duration. The second term says that the model
holds up to a random walk of relative size q. At large q this is a smoothing problem, nearly convex in X. As q falls the
model takes over, and q = 0 is the exact constraint. `continuation` lowers q level by level; each level takes a few
Levenberg–Marquardt steps from the end of the previous one. With the residual `r + R δX + P δp`, the linearised
constraint `v + A δX + G δp` and its multipliers z, a step solves

    [ RᵀR + μ    Aᵀ ] [δX]     [ Rᵀr + RᵀP δp ]
    [    A      -V  ] [ z ] = - [  v  + G δp   ]

K is the matrix above. With X and z interleaved node by node it is a band (`linalg.saddle_point`), for every q ≥ 0.
The parameters border it (`bordered_system`): with `B = [RᵀP; G]`, δp minimises the quadratic with Hessian
`PᵀP - Bᵀ K⁻¹ B`, the information about p, inside the box. Trajectories share p and are concatenated. Each has one extra
node ahead of it, which carries the rows of its initial values. A step costs O(N D²(D + J)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..model.expression_map import ExpressionMap
from ..support.array_types import BoolArray, FloatArray, IntArray
from .simpson_rule import RowPattern, compute_hermite_midpoints, compute_simpson_defects, linearise_rule

MIN_LOCAL_SIZE = 1e-3
"""Smallest size of a state at one time, as a share of its root mean square over the series.

A larger floor lets states grow out of the random walk rather than by the model; a smaller one makes the constraint
stiffer where a state is near zero. By judgement.
"""
MIN_STATE_SIZE = 1e-100
"""Size of a state that is zero everywhere, so that nothing is divided by zero."""
MIN_INTERVAL_SHARE = 1e-8
"""Smallest length of an interval in the variances, as a share of the duration.

Times that differ by rounding only, such as 0.3 and 0.1 + 0.2, are separate nodes. A shorter length would give their
interval a variance below rounding.
"""


@dataclass(frozen=True)
class Layout:
    """The concatenated nodes of all trajectories, each trajectory with one extra node ahead of it.

    Attributes
    ----------
    times : ndarray, (N,)
        Time of each node; the extra node has the time of the first one.
    trajectory : ndarray of int, (N,)
        Trajectory of each node.
    ahead, last : ndarray of bool, (N,)
        The extra node of each trajectory, and its last node. No interval begins at either.
    sampled : ndarray of int, (S,)
        Nodes of the samples.
    data, weight : ndarray, (S, K)
        Measured values in the working coordinates of their noise, and one over their scale; zero where missing.
    floor : ndarray, (S, K)
        Value of an observable below which its working coordinate continues linearly. A logarithm then stays finite, and
        a step that takes a state slightly below zero is only a bad step.
    span : ndarray, (N,)
        Duration of the trajectory of each node.
    before, after, middle : ndarray, (N, I), or None
        Inputs at the nodes, as limits from the left and from the right, and in the middle of the interval that begins
        at each node.
    jump : ndarray of int, (N,), or None
        Index into `jumps` where states jump from a node to the next one at the same time; -1 elsewhere.
    jumps : tuple of ExpressionMap
        States after a jump as functions of the states before it.
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
    jumps: tuple[ExpressionMap, ...] = ()

    @cached_property
    def inner(self) -> BoolArray:
        """Mask of the nodes at which an interval begins, `(N,)`."""
        begins = ~(self.ahead | self.last)
        return begins if self.jump is None else begins & (self.jump < 0)

    @cached_property
    def steps(self) -> FloatArray:
        """Length of the interval that begins at each node, `(N,)`; zero if none does."""
        h = np.zeros(len(self.times))
        h[:-1] = np.diff(self.times)
        return np.where(self.inner, h, 0.0)


@dataclass(frozen=True)
class ModelFunctions:
    """The functions of the model, compiled in its own parameters.

    Attributes
    ----------
    f, h, g : ExpressionMap
        Right-hand side (D), observables (K) and initial values (D).
    given_initial : ndarray of bool, (D,)
        Initial values that g gives; the others are fitted.
    to_working, numeric_slope : tuple of callable, (K,)
        For each observable the map u → x to coordinates in which its noise is additive, and du/dx.
    index : ndarray of int, (trajectories, J)
        Position of each parameter of the model among all P parameters, for each trajectory.
    log : ndarray of bool, (P,)
        Parameters that are searched on a log scale.
    has_domain_limits : bool
        Whether the right-hand side is undefined for some states.
    """

    f: ExpressionMap
    h: ExpressionMap
    g: ExpressionMap
    given_initial: BoolArray
    to_working: tuple[Callable[[FloatArray], FloatArray], ...]
    numeric_slope: tuple[Callable[[FloatArray], FloatArray], ...]
    index: IntArray
    log: BoolArray
    has_domain_limits: bool = False

    def select_parameters(self, p: FloatArray, trajectory: int | IntArray) -> FloatArray:
        """Return the model's parameters on their natural scale.

        Parameters
        ----------
        p : ndarray, (P,)
            All parameters, on the scales of the search.
        trajectory : int or ndarray of int, (n,)

        Returns
        -------
        ndarray, (J,) or (n, J)
        """
        with np.errstate(over="ignore"):
            natural = np.where(self.log, np.exp(p), p) if self.log.any() else p
        return np.asarray(natural[self.index[trajectory]])

    def expand_derivatives(self, by_p: FloatArray, p: FloatArray, trajectory: int | IntArray) -> FloatArray:
        """Convert derivatives with respect to the model's parameters into those with respect to all parameters.

        Parameters
        ----------
        by_p : ndarray, (n, K, J)
            Derivatives with respect to the model's parameters on their natural scale.
        p : ndarray, (P,)
        trajectory : int or ndarray of int, (n,)
            Trajectory of each row.

        Returns
        -------
        ndarray, (n, K, P)
        """
        full = np.zeros((*by_p.shape[:2], len(p)))
        rows, places = np.arange(len(by_p)), self.index[trajectory]
        for j in range(by_p.shape[2]):
            full[rows, :, places[..., j]] += by_p[:, :, j]
        # On a log scale p = log(natural): d/dp = natural · d/d(natural).
        if self.log.any():
            full *= np.where(self.log, np.exp(p), 1.0)
        return full


@dataclass(frozen=True)
class LinearisedProblem:
    """Residual and constraint, linearised at a point.

    Attributes
    ----------
    r : ndarray, (S, K)
        Residuals at the samples.
    R : ndarray, (S, K, D)
        ∂r/∂X at the node of each sample.
    P : ndarray, (S, K, F)
        ∂r/∂p of the free parameters.
    v : ndarray, (N, D)
        The constraint.
    left, right : ndarray, (N, D, D)
        The blocks of A: ∂v/∂X at the node itself and at the next one.
    G : ndarray, (N, D, F)
        ∂v/∂p of the free parameters.
    """

    r: FloatArray
    R: FloatArray
    P: FloatArray
    v: FloatArray
    left: FloatArray
    right: FloatArray
    G: FloatArray


class RelaxedModel:
    """Residuals and constraint of the relaxed model on one layout.

    Parameters
    ----------
    layout : Layout
    functions : ModelFunctions
    sigma : ndarray, (K,)
        Standard deviation of the noise of each observable.
    free : ndarray of bool, (P,)
        Parameters that may move; F of them.
    """

    def __init__(self, layout: Layout, functions: ModelFunctions, sigma: FloatArray, free: BoolArray) -> None:
        self.layout, self.functions, self.sigma, self.free = layout, functions, sigma, free
        self.W = layout.weight / sigma
        index = functions.index
        # Without local parameters and log scales the parameters of the search are those of the model.
        plain = bool((index == np.arange(index.shape[1])).all()) and index.shape[1] == len(free)
        self.uses_model_parameters = plain and not functions.log.any()

    def with_sigma(self, sigma: FloatArray) -> RelaxedModel:
        """Return the same problem with another σ `(K,)`."""
        return RelaxedModel(self.layout, self.functions, sigma, self.free)

    def with_layout(self, layout: Layout) -> RelaxedModel:
        """Return the same problem with another layout on the same nodes, for example one with other data."""
        return RelaxedModel(layout, self.functions, self.sigma, self.free)

    def select_parameters(self, p: FloatArray, trajectory: IntArray) -> FloatArray:
        """Return the model's parameters `(J,)` or `(n, J)` at nodes of the trajectories `(n,)`, from all p `(P,)`."""
        return p if self.uses_model_parameters else self.functions.select_parameters(p, trajectory)

    def _select_free_columns(self, by_p: FloatArray, p: FloatArray, trajectory: IntArray) -> FloatArray:
        """Convert ∂/∂(parameters of the model), `(n, K, J)`, into ∂/∂(free parameters), `(n, K, F)`."""
        full = by_p if self.uses_model_parameters else self.functions.expand_derivatives(by_p, p, trajectory)
        return np.asarray(full[:, :, self.free])

    def convert_to_working(self, h: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Convert observables to the working coordinates of their noise.

        Parameters
        ----------
        h : ndarray, (S, K)
            Observables at the samples.

        Returns
        -------
        x, slope : ndarray, (S, K)
            Working coordinates, and dh/dx.
        """
        F, safe = self.functions, np.maximum(h, self.layout.floor)
        x = np.column_stack([g(c) for g, c in zip(F.to_working, safe.T, strict=True)])
        slope = np.column_stack([s(c) for s, c in zip(F.numeric_slope, safe.T, strict=True)])
        # Below the floor the coordinate continues along its tangent there.
        return x + (h - safe) / slope, slope

    def compute_observables(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """Compute the observables at the samples, `(S, K)`, from p `(P,)` and X `(N, D)`."""
        at, L = self.layout.sampled, self.layout
        inputs = None if L.after is None else L.after[at]
        return self.functions.h(L.times[at], X[at], self.select_parameters(p, L.trajectory[at]), inputs)

    def compute_residual(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """Compute `(h(X, p) - y)/σ` in working coordinates, `(S, K)`; zero for missing values."""
        off = self.convert_to_working(self.compute_observables(p, X))[0] - self.layout.data
        return np.where(self.W > 0, off * self.W, 0.0)

    def _compute_midpoints(self, X: FloatArray, f0: FloatArray, f1: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return times `(N,)` and Hermite midpoints `(N, D)` of the intervals, from f `(N, D)` at both ends of each."""
        h = self.layout.steps
        return self.layout.times + h / 2, compute_hermite_midpoints(X, _shift_to_next_node(X), h, f0, f1)

    def compute_constraint(self, p: FloatArray, X: FloatArray) -> FloatArray:
        """Compute v `(N, D)`: defects, initial values and jumps; zero at nodes without a constraint."""
        L, F = self.layout, self.functions
        own = self.select_parameters(p, L.trajectory)
        f0 = F.f(L.times, X, own, L.after)
        f1 = f0 if L.before is None else F.f(L.times, X, own, L.before)
        f1 = _shift_to_next_node(f1)
        middle = F.f(*self._compute_midpoints(X, f0, f1), own, L.middle)
        v = np.where(
            L.inner[:, None], compute_simpson_defects((X, _shift_to_next_node(X)), L.steps, f0, middle, f1), 0.0
        )
        if F.given_initial.any():
            at = np.flatnonzero(L.ahead)
            start = F.g(L.times[at], X[at], self.select_parameters(p, L.trajectory[at]))
            v[at] = np.where(F.given_initial, X[at + 1] - start, 0.0)
        for at, map_ in self._jump_nodes:
            v[at] = X[at + 1] - map_(
                L.times[at], X[at], self.select_parameters(p, L.trajectory[at]), _select_rows(L.before, at)
            )
        return v

    @cached_property
    def _pattern(self) -> RowPattern:
        """Columns of the rows of f and its derivatives."""
        f = self.functions.f
        return RowPattern(*f.sparsity_pattern, f.D, f.J)

    @cached_property
    def _nodes_without_interval(self) -> IntArray:
        """Indices of the nodes at which no interval begins."""
        return np.flatnonzero(~self.layout.inner)

    @cached_property
    def _jump_nodes(self) -> list[tuple[IntArray, ExpressionMap]]:
        """Nodes of each kind of jump, with the map to the states after it."""
        L = self.layout
        if L.jump is None:
            return []
        return [(np.flatnonzero(L.jump == k), map_) for k, map_ in enumerate(L.jumps)]

    def linearise(self, p: FloatArray, X: FloatArray) -> LinearisedProblem:
        """Compute residual and constraint with their derivatives at p `(P,)` and X `(N, D)`."""
        L, F, at = self.layout, self.functions, self.layout.sampled
        inputs = None if L.after is None else L.after[at]
        value, hu, hp = F.h.linearise(L.times[at], X[at], self.select_parameters(p, L.trajectory[at]), inputs)
        x, slope = self.convert_to_working(value)
        off = x - L.data
        measured = self.W > 0
        # ∂x/∂X = ∂h/∂X / (dh/dx); the weight is one over σ and the scale of the value.
        scale = np.where(measured, self.W / slope, 0.0)[:, :, None]
        R = np.where(measured[:, :, None], hu * scale, 0.0)
        P = np.where(measured[:, :, None], self._select_free_columns(hp, p, L.trajectory[at]) * scale, 0.0)
        r = np.where(measured, off * self.W, 0.0)
        own = self.select_parameters(p, L.trajectory)
        begin = F.f.evaluate_nonzeros(L.times, X, own, L.after)
        end = _shift_to_next_node(begin if L.before is None else F.f.evaluate_nonzeros(L.times, X, own, L.before))
        f = self._pattern.extract_f
        middle = F.f.evaluate_nonzeros(*self._compute_midpoints(X, f(begin), f(end)), own, L.middle)
        v, left, right, by_p = linearise_rule(self._pattern, L.steps, (X, _shift_to_next_node(X)), (begin, end, middle))
        for part in (v, left, right, by_p):
            part[self._nodes_without_interval] = 0.0
        if F.given_initial.any():
            first = np.flatnonzero(L.ahead)
            start, _, gp = F.g.linearise(L.times[first], X[first], self.select_parameters(p, L.trajectory[first]))
            v[first] = np.where(F.given_initial, X[first + 1] - start, 0.0)
            right[first] = np.diag(F.given_initial.astype(float))
            by_p[first] = -gp
        for at, map_ in self._jump_nodes:
            after, Ju, Jp = map_.linearise(
                L.times[at], X[at], self.select_parameters(p, L.trajectory[at]), _select_rows(L.before, at)
            )
            v[at], left[at], right[at], by_p[at] = X[at + 1] - after, -Ju, np.eye(X.shape[1]), -Jp
        return LinearisedProblem(r, R, P, v, left, right=right, G=self._select_free_columns(by_p, p, L.trajectory))

    def find_defined_nodes(self, p: FloatArray, X: FloatArray) -> BoolArray:
        """Return a mask `(N,)` of the nodes at which, and next to which in mid-interval, the right-hand side is finite.

        The extra nodes ahead of the trajectories count as defined: no equation is evaluated there.
        """
        if not self.functions.has_domain_limits:
            return np.ones(len(X), dtype=bool)
        L, F, own = self.layout, self.functions, self.select_parameters(p, self.layout.trajectory)
        f0 = F.f(L.times, X, own, L.after)
        middle = F.f(*self._compute_midpoints(X, f0, _shift_to_next_node(f0)), own, L.middle)
        finite = np.asarray(np.isfinite(f0).all(axis=1))
        # If only the midpoint of two nodes is outside the domain, both nodes have to move.
        between = L.inner & finite & np.append(finite[1:], True) & ~np.isfinite(middle).all(axis=1)
        finite &= ~between
        finite[1:] &= ~between[:-1]
        return np.asarray(finite | L.ahead)

    def compute_variances(self, X: FloatArray, q: float) -> FloatArray:
        """Compute the variances V `(N, D)` of the constraint at X `(N, D)`; one at nodes without a constraint.

        They are relative to the size of a state at that time, so that a state that grows from almost nothing grows by
        the model and not out of the random walk. With the root mean square in its place nearly every start of one SEIR
        data set ended in the wrong optimum.
        """
        L = self.layout
        real = ~L.ahead
        size = np.maximum(np.sqrt(np.mean(X[real] ** 2, axis=0)), MIN_STATE_SIZE)
        size = np.maximum(
            np.minimum(np.maximum(np.abs(X), np.abs(_shift_to_next_node(X))), size), MIN_LOCAL_SIZE * size
        )
        # The variance of a random walk grows with time: V = q² (h/T) s².
        shares = np.maximum(L.steps / L.span, MIN_INTERVAL_SHARE)
        V = q**2 * shares[:, None] * size**2
        V[L.ahead] = np.where(self.functions.given_initial, q**2 * size[L.ahead] ** 2, 1.0)
        V[L.last] = 1.0
        if L.jump is not None:  # a jump takes no time: it is as exact as the shortest interval
            V[L.jump >= 0] = q**2 * shares[L.inner].min(initial=1.0) * size[L.jump >= 0] ** 2
        return np.asarray(V)


def _select_rows(values: FloatArray | None, nodes: IntArray) -> FloatArray | None:
    """Return the rows of inputs at some nodes; None if there are no inputs."""
    return None if values is None else values[nodes]


def _shift_to_next_node(a: FloatArray) -> FloatArray:
    """Shift rows by one node, so that row m is that of node m + 1; the last row is repeated."""
    return np.concatenate([a[1:], a[-1:]])
