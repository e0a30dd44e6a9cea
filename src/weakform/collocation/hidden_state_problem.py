"""The estimation problem with hidden states: data of some states, or of expressions of states, on a mesh.

The nodes of a trajectory are its samples, points between them, the jumps of its inputs and, if initial values are
given, t = 0. Samples that are far apart get more nodes between them. Where the rule is not accurate enough, intervals
are halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import symengine as se

from ..data import Dataset
from ..data.matching import collect_inputs
from ..model import Model
from ..model.domain_check import has_limited_domain
from ..model.expression_map import ExpressionMap
from ..model.inputs import Inputs
from ..noise.kinds import KINDS
from ..noise.noise_filter import filter_uneven_series
from ..parameters import ResolvedParameters
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..weak.weak_form import WeakForm
from .continuation import Point
from .simpson_rule import compute_hermite_midpoints, insert_midpoints
from .soft_constraint import Layout, ModelFunctions, RelaxedModel

MIN_INTERVALS_PER_SERIES = 100
"""Smallest number of intervals of the first mesh of a series.

Fewer intervals are cheaper and less accurate with few samples; the mesh is refined later where needed. By judgement.
"""
MAX_INTERVALS_PER_GAP = 400
"""Largest number of intervals between two samples in the first mesh, which bounds its cost. By judgement."""
JUMP_OFFSET = 1e-6
"""Time before a jump at which the state before it is reported, as a share of the shortest interval. By judgement."""
MIN_VALUES_FOR_SIGMA = 5
"""Smallest number of residuals of the noise filter from which σ is estimated. By judgement."""
INTERVAL_COUNT_MARGIN = 1e-9
"""Excess over a whole number of intervals that is rounding and adds no interval to a gap."""
DEFAULT_SIGMA_SHARE = 0.1
"""σ as a share of the spread of a column, if it has fewer than `MIN_VALUES_FOR_SIGMA` residuals. By judgement."""


@dataclass(frozen=True)
class MeshStates:
    """Parameters and states on a mesh.

    Attributes
    ----------
    meshes : tuple of ndarray
        Times of the nodes of each trajectory.
    point : Point
        Parameters and states, on the layout of these meshes.
    """

    meshes: tuple[FloatArray, ...]
    point: Point

    @property
    def nodes(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Times `(nodes,)` and states `(nodes, D)` of each trajectory."""
        ends = np.cumsum([len(mesh) + 1 for mesh in self.meshes])
        parts = np.split(self.point.X, ends[:-1])
        return tuple((mesh, states[1:]) for mesh, states in zip(self.meshes, parts, strict=True))

    @classmethod
    def from_nodes(cls, nodes: Sequence[tuple[FloatArray, FloatArray]], p: FloatArray) -> MeshStates:
        """Build meshes and point from p `(P,)` and the times `(nodes,)` and states `(nodes, D)` of each trajectory."""
        X = np.concatenate([part for _, states in nodes for part in (states[:1], states)])
        return cls(tuple(times for times, _ in nodes), Point(p, X))


@dataclass(frozen=True)
class HiddenStateProblem:
    """Data, the functions of the model that predict them, and the noise level.

    Attributes
    ----------
    model : Model
        The model with one copy of each local parameter for every trajectory, as estimators see it.
    shared : Model
        The model before local parameters were copied.
    data : Dataset
        The measured columns.
    functions : ModelFunctions
    sigma : ndarray, (K,)
        Standard deviation of the noise: given, or estimated from the data alone.
    forms : tuple
        Empty: there is no weak form.
    """

    model: Model
    shared: Model
    data: Dataset
    functions: ModelFunctions
    sigma: FloatArray
    forms: tuple[WeakForm, ...] = ()

    @classmethod
    def from_model(
        cls,
        model: Model,
        shared: Model,
        index: IntArray,
        data: Dataset,
        sigma: FloatArray,
        log: BoolArray | None = None,
    ) -> HiddenStateProblem:
        """Compile the functions that predict the measured columns.

        Parameters
        ----------
        model, shared : Model
            With and without copies of local parameters.
        index : ndarray of int, (trajectories, J)
            Position of each parameter of `shared` among those of `model`.
        data : Dataset
        sigma : ndarray, (K,)
        log : ndarray of bool, (P,), optional
            Parameters on a log scale; none by default.
        """
        kinds = [KINDS[kind] for kind in data.noise]
        functions = ModelFunctions(
            shared.build_map("f"),
            shared.build_map("h", data.names or ()),
            shared.build_map("g"),
            given_initial=np.array([state in shared.initial for state in shared.states]),
            to_working=tuple(kind.to_working for kind in kinds),
            numeric_slope=tuple(kind.numeric_slope for kind in kinds),
            index=index,
            log=np.zeros(len(model.parameters), dtype=bool) if log is None else log,
            has_domain_limits=has_limited_domain(shared.expressions, shared.states),
        )
        return cls(model, shared, data, functions, sigma)

    @classmethod
    def build(cls, parameters: ResolvedParameters, data: Dataset) -> HiddenStateProblem:
        """Build the problem; estimate σ unless it is given.

        Raises
        ------
        FitError
            If the data have a covariance between columns, or fewer values than there are unknowns.
        """
        if data.covariance is not None:
            raise FitError(
                "A covariance between columns is supported only with the weak form, which needs every state measured; "
                "give sigma for each column instead."
            )
        log = parameters.scale.log
        problem = cls.from_model(parameters.model, parameters.shared, parameters.index, data, np.ones(data.D), log=log)
        if data.own_noise and data.sigma is None:
            problem = problem._with_own_noise()
        sigma = problem._estimate_sigma() if data.sigma is None else data.sigma.copy()
        values, unknown = int(data.measurements.sum()), int(parameters.free.sum()) + problem.fitted_initial_count
        if values < unknown:
            raise FitError(
                f"{values} measured values cannot determine {unknown} unknowns: {int(parameters.free.sum())} "
                f"parameters and {problem.fitted_initial_count} initial values. Measure more, fix some, or give "
                "initial values."
            )
        return replace(problem, sigma=sigma)

    def with_weights(self, weights: tuple[FloatArray, ...]) -> HiddenStateProblem:
        """Return the problem with other weights `(time, K)` of the values of each trajectory."""
        return replace(self, data=self.data.replace_weights(weights))

    @property
    def fitted_initial_count(self) -> int:
        """Number of initial values that are fitted in addition to the parameters."""
        return int((~self.functions.given_initial).sum()) * len(self.data.trajectories)

    @cached_property
    def working_values(self) -> tuple[FloatArray, ...]:
        """Data of each trajectory in working coordinates, `(time, K)`; NaN if missing."""
        with np.errstate(all="ignore"):
            return tuple(
                np.column_stack([g(c) for g, c in zip(self.functions.to_working, q.values.T, strict=True)])
                for q in self.data.trajectories
            )

    @property
    def transforms(self) -> list[tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]]:
        """For each column, the map to its working coordinates and the inverse map."""
        return [(KINDS[kind].to_working, KINDS[kind].from_working) for kind in self.data.noise]

    @property
    def spread(self) -> FloatArray:
        """Standard deviation of each column in working coordinates, `(K,)`; one for a constant column."""
        rows = np.concatenate(self.working_values)
        with np.errstate(all="ignore"):
            spread = np.nanstd(rows, axis=0)
        return np.where(spread > 0, spread, 1.0)

    def _estimate_sigma(self) -> FloatArray:
        """Estimate σ `(K,)` from the data alone: by the noise filter and from repeated measurements.

        With too few values σ is a share of the spread.
        """
        squares, counts = np.zeros(len(self.sigma)), np.zeros(len(self.sigma))
        for q, x in zip(self.data.trajectories, self.working_values, strict=True):
            for k in range(x.shape[1]):
                finite = np.isfinite(x[:, k])
                square, count = filter_uneven_series(q.times[finite], x[finite, k], q.scales[finite, k])
                squares[k], counts[k] = squares[k] + square, counts[k] + count
            if q.within is not None and q.repeats is not None:
                squares, counts = squares + q.within, counts + q.repeats
        sigma = np.sqrt(squares / np.maximum(counts, 1))
        estimated = (counts >= MIN_VALUES_FOR_SIGMA) & (sigma > 0)
        # Where the dynamics are fast compared with the sampling, the filter may take more than the whole variation for
        # noise.
        return np.where(estimated, np.minimum(sigma, self.spread), DEFAULT_SIGMA_SHARE * self.spread)

    def _with_own_noise(self) -> HiddenStateProblem:
        """Return the problem with the noise of each trajectory scaled to its own σ, relative to the common σ."""
        shared, parts = self._estimate_sigma(), []
        for q in self.data.trajectories:
            own = replace(self, data=self.data.replace_attributes(trajectories=(q,)))._estimate_sigma()
            parts.append(q.multiply_scales(own / shared))
        return replace(self, data=self.data.replace_attributes(trajectories=tuple(parts)))

    @property
    def has_initial_values_at_zero(self) -> bool:
        """Whether an initial value at t = 0 is given as something other than the parameter `x(0)` itself."""
        return any(e != se.Symbol(f"{state}(0)") for state, e in self.shared.initial.items())

    def find_initial_time(self, k: int) -> float:
        """Return the time at which trajectory k begins.

        It is the earliest of its first sample, t = 0 if initial values are given, its jumps and its doses.
        """
        q = self.data.trajectories[k]
        events = [time for time, _ in self.jumps[k]]
        events += [float(dose.time) for doses in q.doses for dose in doses.each]
        return float(min([q.times[0], *([0.0] if self.has_initial_values_at_zero else []), *events]))

    @cached_property
    def jumps(self) -> tuple[tuple[tuple[float, tuple[se.Basic, ...]], ...], ...]:
        """For each trajectory, times of jumps with the states after each as expressions of the states before it."""
        jumps_of_all = []
        for k, q in enumerate(self.data.trajectories):
            model = self.shared.for_trajectory(k)
            jumps: dict[float, dict[str, se.Basic]] = {}
            for event in model.events:
                time = model.find_firing_time(event.trigger)
                if time is None or not time.is_Number or float(time) > q.times[-1]:
                    continue
                # An event that waits for its trigger does not occur where the trajectory begins.
                if event.waits and float(time) <= min(q.times[0], 0.0):
                    continue
                # Several events at one time are composed in their order.
                states = jumps.setdefault(float(time), {state: se.Symbol(state) for state in model.states})
                before = {se.Symbol(state): e for state, e in states.items()}
                states.update({state: se.sympify(e).subs(before) for state, e in event.after.items()})
            jumps_of_all.append(tuple((time, tuple(jumps[time].values())) for time in sorted(jumps)))
        return tuple(jumps_of_all)

    def build_meshes(self) -> tuple[FloatArray, ...]:
        """Build the first mesh `(nodes,)` of each trajectory, with two nodes at each jump of the states."""
        meshes = []
        for k, q in enumerate(self.data.trajectories):
            times, begin = q.times, self.find_initial_time(k)
            if begin < times[0]:
                times = np.concatenate([[begin], times])
            times = np.union1d(times, [time for time, _ in self.jumps[k]])
            inputs = collect_inputs(self.shared, self.data, k)
            if inputs is not None:
                jumps = inputs.jump_times
                times = np.union1d(times, jumps[(jumps > times[0]) & (jumps < times[-1])])
            gaps = np.diff(times)
            # At least two intervals between samples; gaps longer than usual get more.
            longest = float(times[-1] - times[0]) / MIN_INTERVALS_PER_SERIES
            target = min(float(np.median(np.diff(q.times))) / 2, longest)
            counts = np.clip(np.ceil(gaps / target - INTERVAL_COUNT_MARGIN).astype(int), 2, MAX_INTERVALS_PER_GAP)
            parts = [a + (b - a) * np.arange(n) / n for a, b, n in zip(times[:-1], times[1:], counts, strict=True)]
            meshes.append(self.with_jump_nodes(np.append(np.concatenate(parts), times[-1]), k))
        return tuple(meshes)

    def with_jump_nodes(self, mesh: FloatArray, k: int) -> FloatArray:
        """Return a mesh `(nodes,)` of trajectory k with two nodes at each jump of the states."""
        jumping = [time for time, _ in self.jumps[k] if mesh[0] <= time <= mesh[-1]]
        return np.sort(np.concatenate([np.setdiff1d(mesh, jumping), jumping, jumping])) if jumping else mesh

    def build_layout(self, meshes: tuple[FloatArray, ...]) -> Layout:
        """Concatenate the nodes of all trajectories, each with an extra node ahead of it, and place data and inputs."""
        sizes = [len(mesh) + 1 for mesh in meshes]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        N = sum(sizes)
        ahead, last = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool)
        ahead[starts], last[starts + np.array(sizes) - 1] = True, True
        sampled, data, weight, floor = [], [], [], []
        for start, mesh, q, x in zip(starts, meshes, self.data.trajectories, self.working_values, strict=True):
            sampled.append(start + 1 + find_sample_nodes(mesh, q.times))
            measured = np.isfinite(x)
            data.append(np.where(measured, x, 0.0))
            weight.append(np.where(measured, 1.0 / q.scales, 0.0))
            # Missing values get a finite floor, too; their residuals have no weight.
            values = zip(self.data.noise, np.where(measured, q.values, 1.0).T, strict=True)
            floor.append(np.column_stack([KINDS[kind].compute_linear_floor(column) for kind, column in values]))
        layout = Layout(
            times=np.concatenate([np.append(mesh[0], mesh) for mesh in meshes]),
            trajectory=np.repeat(np.arange(len(meshes)), sizes),
            ahead=ahead,
            last=last,
            sampled=np.concatenate(sampled),
            data=np.concatenate(data),
            weight=np.concatenate(weight),
            floor=np.concatenate(floor),
            span=np.repeat([mesh[-1] - mesh[0] for mesh in meshes], sizes),
        )
        layout = self._add_jumps(layout, meshes) if any(self.jumps) else layout
        return self._add_inputs(layout, meshes) if self.shared.driving_names else layout

    def _add_jumps(self, layout: Layout, meshes: tuple[FloatArray, ...]) -> Layout:
        """Add the nodes at which states jump to a layout."""
        jump, kinds = np.full(len(layout.times), -1, dtype=np.intp), list(self._jump_maps)
        start = 1
        for k, mesh in enumerate(meshes):
            for time, after in self.jumps[k]:
                at = int(np.searchsorted(mesh, time))
                # A mesh that does not reach the jump has no pair of nodes there.
                if at + 1 < len(mesh) and mesh[at] == time == mesh[at + 1]:
                    jump[start + at] = kinds.index(after)
            start += len(mesh) + 1
        return replace(layout, jump=jump, jumps=tuple(self._jump_maps.values()))

    @cached_property
    def _jump_maps(self) -> dict[tuple[se.Basic, ...], ExpressionMap]:
        """Compiled maps to the states after a jump, one for each distinct set of expressions."""
        every = dict.fromkeys(after for jumps in self.jumps for _, after in jumps)
        model = self.shared
        return {after: ExpressionMap(after, model.states, model.driving_names, model.parameters) for after in every}

    def _add_inputs(self, layout: Layout, meshes: tuple[FloatArray, ...]) -> Layout:
        """Add the inputs at the nodes and in the middle of each interval to a layout."""
        before, after, middle = [], [], []
        for k, mesh in enumerate(meshes):
            inputs = collect_inputs(self.shared, self.data, k)
            if inputs is None or len(inputs.hold) < len(self.shared.driving_names):
                # Switches at unknown times have no input yet; on the mesh they count as half on.
                half = Inputs(
                    mesh[:1], np.full((1, len(self.shared.switches)), 0.5), (True,) * len(self.shared.switches)
                )
                inputs = half if inputs is None else inputs.merge_with(half)
            # The extra node has the inputs of the first one. Neither it nor the last node has an interval: their
            # centres only have to be times of the trajectory.
            nodes = np.append(mesh[0], mesh)
            centres = np.append(mesh[0], np.append(mesh[:-1] + np.diff(mesh) / 2, mesh[-1]))
            before.append(inputs(nodes, before=True))
            after.append(inputs(nodes))
            middle.append(inputs(centres))
        return replace(
            layout, before=np.concatenate(before), after=np.concatenate(after), middle=np.concatenate(middle)
        )

    def build_relaxed_model(self, meshes: tuple[FloatArray, ...], sigma: FloatArray, free: BoolArray) -> RelaxedModel:
        """Return the relaxed problem on meshes, with σ `(K,)` and the mask of free parameters `(P,)`."""
        return RelaxedModel(self.build_layout(meshes), self.functions, sigma, free)

    def extract_states(self, meshes: tuple[FloatArray, ...], X: FloatArray, k: int) -> FloatArray:
        """Return the states of trajectory k on its nodes, `(nodes, D)`, from those of all nodes, `(N, D)`."""
        start = sum(len(mesh) + 1 for mesh in meshes[:k])
        return X[start + 1 : start + 1 + len(meshes[k])]


def separate_times(mesh: FloatArray) -> FloatArray:
    """Return times `(nodes,)` that strictly increase: of two equal times at a jump, the first is moved earlier."""
    steps = np.diff(mesh)
    twice = np.append(steps == 0, False)
    return mesh - np.where(twice, JUMP_OFFSET * float(steps[steps > 0].min(initial=1.0)), 0.0) if twice.any() else mesh


def find_sample_nodes(mesh: FloatArray, times: FloatArray) -> IntArray:
    """Return the indices of the nodes of samples at `times`; at a jump, of the node after it."""
    return np.searchsorted(mesh, times, side="right") - 1


def refine_meshes(
    relaxed: RelaxedModel, meshes: tuple[FloatArray, ...], point: Point, halve: BoolArray
) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Halve marked intervals.

    Parameters
    ----------
    relaxed : RelaxedModel
        The problem on the meshes.
    meshes : tuple of ndarray
    point : Point
        Parameters and states on the meshes.
    halve : ndarray of bool, (N,)
        Nodes at which the marked intervals begin.

    Returns
    -------
    meshes : tuple of ndarray
        The finer meshes.
    states : ndarray, (finer N, D)
        States on them, with Hermite midpoints at the new nodes.
    """
    L, X = relaxed.layout, point.X
    f = relaxed.functions.f(L.times, X, relaxed.select_parameters(point.p, L.trajectory), L.after)
    begin = np.flatnonzero(halve & L.inner)
    h = L.steps[begin]
    times, old, _ = insert_midpoints(L.times, begin, L.times[begin] + h / 2)
    states, _, _ = insert_midpoints(
        X, begin, compute_hermite_midpoints(X[begin], X[begin + 1], h, f[begin], f[begin + 1])
    )
    # Each trajectory begins with its extra node, which is not part of the mesh.
    starts = np.cumsum([len(mesh) + 1 for mesh in meshes])[:-1]
    return tuple(part[1:] for part in np.split(times, old[starts])), states
