"""A model and data of part of its states, or of expressions of them, on a mesh that is finer than the samples.

The nodes of a trajectory are its samples, what lies between them, the jumps of its inputs and, where initial values are
given, t = 0. Samples far apart get more nodes between them; where the rule is not exact enough, the mesh is halved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import symengine as se

from ..data import Dataset
from ..data.matching import inputs_of
from ..model import Model
from ..model.domain_check import ends_somewhere
from ..model.expression_map import Map
from ..model.inputs import Inputs
from ..noise.kinds import KINDS
from ..noise.noise_filter import uneven_squares
from ..parameters import Parameters
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..weak.weak_form import WeakForm
from .continuation import Point
from .soft_constraint import Functions, Layout, Relaxed

INTERVALS = 100
"""Intervals that a series has at least."""
MOST = 400
"""Intervals between two samples at most, to begin with."""
MOMENT = 1e-6
"""How long before a jump the state before it is taken, relative to the shortest interval."""
FALLBACK = 0.1
"""σ, as a share of the spread of a column, where its values are too few to tell."""


@dataclass(frozen=True)
class Latent:
    """States on a mesh.

    Attributes
    ----------
    meshes : tuple of ndarray
        The nodes of each trajectory.
    point : Point
        Parameters and states, on the layout of these.
    """

    meshes: tuple[FloatArray, ...]
    point: Point

    @property
    def nodes(self) -> tuple[tuple[FloatArray, FloatArray], ...]:
        """Nodes and states of each trajectory, `(nodes,)` and `(nodes, D)`."""
        ends = np.cumsum([len(mesh) + 1 for mesh in self.meshes])
        parts = np.split(self.point.X, ends[:-1])
        return tuple((mesh, states[1:]) for mesh, states in zip(self.meshes, parts, strict=True))

    @classmethod
    def of(cls, nodes: Sequence[tuple[FloatArray, FloatArray]], p: FloatArray) -> Latent:
        """From nodes and states of each trajectory."""
        X = np.concatenate([part for _, states in nodes for part in (states[:1], states)])
        return cls(tuple(times for times, _ in nodes), Point(p, X))


@dataclass(frozen=True)
class LatentProblem:
    """What is measured, and what the model says of it.

    Attributes
    ----------
    model : Model
        As the estimators see its parameters, local ones multiplied.
    shared : Model
        The same before local parameters were multiplied.
    data : Dataset
        The columns that are measured.
    functions : Functions
    sigma : ndarray, (K,)
        Given, or what the data alone tell.
    forms : tuple
        Empty: there is no weak form.
    """

    model: Model
    shared: Model
    data: Dataset
    functions: Functions
    sigma: FloatArray
    forms: tuple[WeakForm, ...] = ()

    @classmethod
    def of(
        cls,
        model: Model,
        shared: Model,
        index: IntArray,
        data: Dataset,
        sigma: FloatArray,
        log: BoolArray | None = None,
    ) -> LatentProblem:
        """Compile what the model says of the measured columns; with `log`, some parameters are logarithms."""
        kinds = [KINDS[kind] for kind in data.noise]
        functions = Functions(
            shared.map("f"),
            shared.map("h", data.names or ()),
            shared.map("g"),
            given=np.array([state in shared.initial for state in shared.states]),
            to_working=tuple(kind.to_working for kind in kinds),
            numeric_slope=tuple(kind.numeric_slope for kind in kinds),
            index=index,
            log=np.zeros(len(model.parameters), dtype=bool) if log is None else log,
            ends=ends_somewhere(shared.expressions, shared.states),
        )
        return cls(model, shared, data, functions, sigma)

    @classmethod
    def build(cls, parameters: Parameters, data: Dataset) -> LatentProblem:
        """Compile what the model says; estimate σ unless it is given."""
        if data.covariance is not None:
            raise FitError("A covariance between columns needs every state measured; give sigma for each column.")
        log = parameters.scale.log
        problem = cls.of(parameters.model, parameters.shared, parameters.index, data, np.ones(data.D), log=log)
        if data.own_noise and data.sigma is None:
            problem = problem._with_own_noise()
        sigma = problem._level() if data.sigma is None else data.sigma.copy()
        values, unknown = int(data.measurements.sum()), int(parameters.free.sum()) + problem.beginnings
        if values < unknown:
            raise FitError(
                f"{values} measured values cannot determine {unknown} unknowns: {int(parameters.free.sum())} "
                f"parameters and {problem.beginnings} initial values. Measure more, fix some, or give initial values."
            )
        return replace(problem, sigma=sigma)

    def reweighed(self, weights: tuple[FloatArray, ...]) -> LatentProblem:
        """The same with other weights `(time, K)` of the values."""
        return replace(self, data=self.data.reweighed(weights))

    @property
    def beginnings(self) -> int:
        """Initial values that are fitted besides the parameters."""
        return int((~self.functions.given).sum()) * len(self.data.trajectories)

    @cached_property
    def working(self) -> tuple[FloatArray, ...]:
        """The data in working coordinates, `(time, K)`, NaN where missing."""
        with np.errstate(all="ignore"):
            return tuple(
                np.column_stack([g(c) for g, c in zip(self.functions.to_working, q.values.T, strict=True)])
                for q in self.data.trajectories
            )

    @property
    def transforms(self) -> list[tuple[Callable[[FloatArray], FloatArray], Callable[[FloatArray], FloatArray]]]:
        """To the working coordinates of each column, and back."""
        return [(KINDS[kind].to_working, KINDS[kind].from_working) for kind in self.data.noise]

    @property
    def spread(self) -> FloatArray:
        """How much each column varies, in working coordinates, `(K,)`."""
        rows = np.concatenate(self.working)
        with np.errstate(all="ignore"):
            spread = np.nanstd(rows, axis=0)
        return np.where(spread > 0, spread, 1.0)

    def _level(self) -> FloatArray:
        """σ `(K,)` by the filter, or from repeated measurements; a share of the spread where there are too few."""
        squares, counts = np.zeros(len(self.sigma)), np.zeros(len(self.sigma))
        for q, x in zip(self.data.trajectories, self.working, strict=True):
            for k in range(x.shape[1]):
                there = np.isfinite(x[:, k])
                more, count = uneven_squares(q.times[there], x[there, k], q.scales[there, k])
                squares[k], counts[k] = squares[k] + more, counts[k] + count
            if q.within is not None and q.repeats is not None:
                squares, counts = squares + q.within, counts + q.repeats
        found = np.sqrt(squares / np.maximum(counts, 1))
        return np.where((counts >= 5) & (found > 0), np.minimum(found, self.spread), FALLBACK * self.spread)

    def _with_own_noise(self) -> LatentProblem:
        """The problem with a scale for each trajectory: its noise by the filter, relative to that of all."""
        shared, parts = self._level(), []
        for q in self.data.trajectories:
            own = replace(self, data=self.data.replaced(trajectories=(q,)))._level()
            parts.append(q.rescaled(own / shared))
        return replace(self, data=self.data.replaced(trajectories=tuple(parts)))

    @property
    def at_zero(self) -> bool:
        """Whether some initial value is given at t = 0, and not only called a parameter."""
        return any(e != se.Symbol(f"{state}(0)") for state, e in self.shared.initial.items())

    def begin(self, k: int) -> float:
        """When trajectory k begins: with its first sample, at t = 0 where initial values are given, or with what
        happens before.
        """
        q = self.data.trajectories[k]
        happens = [time for time, _ in self.jumps[k]]
        happens += [float(dose.time) for doses in q.doses for dose in doses.each]
        return float(min([q.times[0], *([0.0] if self.at_zero else []), *happens]))

    @cached_property
    def jumps(self) -> tuple[tuple[tuple[float, tuple[se.Basic, ...]], ...], ...]:
        """Times at which states jump, with the states after as expressions of those before; for each trajectory."""
        every = []
        for k, q in enumerate(self.data.trajectories):
            model = self.shared.of(k)
            found: dict[float, dict[str, se.Basic]] = {}
            for event in model.events:
                time = model.timed(event.trigger)
                if time is None or not time.is_Number or float(time) > q.times[-1]:
                    continue
                if event.waits and float(time) <= min(q.times[0], 0.0):
                    continue
                now = found.setdefault(float(time), {state: se.Symbol(state) for state in model.states})
                here = {se.Symbol(state): e for state, e in now.items()}
                now.update({state: se.sympify(e).subs(here) for state, e in event.after.items()})
            every.append(tuple((time, tuple(found[time].values())) for time in sorted(found)))
        return tuple(every)

    def meshes(self) -> tuple[FloatArray, ...]:
        """Nodes to begin with, for each trajectory; twice where states jump."""
        made = []
        for k, q in enumerate(self.data.trajectories):
            times, begin = q.times, self.begin(k)
            if begin < times[0]:
                times = np.concatenate([[begin], times])
            times = np.union1d(times, [time for time, _ in self.jumps[k]])
            inputs = inputs_of(self.shared, self.data, k)
            if inputs is not None:
                jumps = inputs.jumps
                times = np.union1d(times, jumps[(jumps > times[0]) & (jumps < times[-1])])
            gaps = np.diff(times)
            target = min(float(np.median(np.diff(q.times))) / 2, float(times[-1] - times[0]) / INTERVALS)
            counts = np.clip(np.ceil(gaps / target - 1e-9).astype(int), 2, MOST)
            parts = [a + (b - a) * np.arange(n) / n for a, b, n in zip(times[:-1], times[1:], counts, strict=True)]
            made.append(self.doubled(np.append(np.concatenate(parts), times[-1]), k))
        return tuple(made)

    def doubled(self, mesh: FloatArray, k: int) -> FloatArray:
        """A mesh of trajectory k with two nodes wherever states jump."""
        jumping = [time for time, _ in self.jumps[k] if mesh[0] <= time <= mesh[-1]]
        return np.sort(np.concatenate([np.setdiff1d(mesh, jumping), jumping, jumping])) if jumping else mesh

    def layout(self, meshes: tuple[FloatArray, ...]) -> Layout:
        """Nodes of all trajectories one behind the other, each with a node ahead of it."""
        sizes = [len(mesh) + 1 for mesh in meshes]
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        N = sum(sizes)
        ahead, last = np.zeros(N, dtype=bool), np.zeros(N, dtype=bool)
        ahead[starts], last[starts + np.array(sizes) - 1] = True, True
        sampled, data, weight, floor = [], [], [], []
        for start, mesh, q, x in zip(starts, meshes, self.data.trajectories, self.working, strict=True):
            sampled.append(start + 1 + at_samples(mesh, q.times))
            there = np.isfinite(x)
            data.append(np.where(there, x, 0.0))
            weight.append(np.where(there, 1.0 / q.scales, 0.0))
            values = zip(self.data.noise, np.where(there, q.values, 1.0).T, strict=True)
            floor.append(np.column_stack([KINDS[kind].floor(column) for kind, column in values]))
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
        layout = self._jumping(layout, meshes) if any(self.jumps) else layout
        return self._driven(layout, meshes) if self.shared.driven else layout

    def _jumping(self, layout: Layout, meshes: tuple[FloatArray, ...]) -> Layout:
        """With the places at which states jump."""
        jump, made = np.full(len(layout.times), -1, dtype=np.intp), list(self._after)
        start = 1
        for k, mesh in enumerate(meshes):
            for time, after in self.jumps[k]:
                at = int(np.searchsorted(mesh, time))
                if at + 1 < len(mesh) and mesh[at] == time == mesh[at + 1]:
                    jump[start + at] = made.index(after)
            start += len(mesh) + 1
        return replace(layout, jump=jump, jumps=tuple(self._after.values()))

    @cached_property
    def _after(self) -> dict[tuple[se.Basic, ...], Map]:
        """States after a jump, compiled once for each way to jump."""
        every = dict.fromkeys(after for jumps in self.jumps for _, after in jumps)
        model = self.shared
        return {after: Map(after, model.states, model.driven, model.parameters) for after in every}

    def _driven(self, layout: Layout, meshes: tuple[FloatArray, ...]) -> Layout:
        before, after, middle = [], [], []
        for k, mesh in enumerate(meshes):
            inputs = inputs_of(self.shared, self.data, k)
            if inputs is None or len(inputs.hold) < len(self.shared.driven):  # switches of which nobody knows when
                half = Inputs(
                    mesh[:1], np.full((1, len(self.shared.switches)), 0.5), (True,) * len(self.shared.switches)
                )
                inputs = half if inputs is None else inputs.beside(half)
            nodes = np.append(mesh[0], mesh)
            centres = np.append(mesh[0], np.append(mesh[:-1] + np.diff(mesh) / 2, mesh[-1]))
            before.append(inputs(nodes, before=True))
            after.append(inputs(nodes))
            middle.append(inputs(centres))
        return replace(
            layout, before=np.concatenate(before), after=np.concatenate(after), middle=np.concatenate(middle)
        )

    def relaxed(self, meshes: tuple[FloatArray, ...], sigma: FloatArray, free: BoolArray) -> Relaxed:
        """The problem on a mesh."""
        return Relaxed(self.layout(meshes), self.functions, sigma, free)

    def states_at(self, meshes: tuple[FloatArray, ...], X: FloatArray, k: int) -> FloatArray:
        """States of trajectory k on its nodes, `(nodes, D)`."""
        start = sum(len(mesh) + 1 for mesh in meshes[:k])
        return X[start + 1 : start + 1 + len(meshes[k])]


def apart(mesh: FloatArray) -> FloatArray:
    """Times that increase: of two that are the same, around a jump, the first a moment earlier."""
    steps = np.diff(mesh)
    twice = np.append(steps == 0, False)
    return mesh - np.where(twice, MOMENT * float(steps[steps > 0].min(initial=1.0)), 0.0) if twice.any() else mesh


def at_samples(mesh: FloatArray, times: FloatArray) -> IntArray:
    """Nodes of the samples; the later where states jump."""
    return np.searchsorted(mesh, times, side="right") - 1


def refined(
    relaxed: Relaxed, meshes: tuple[FloatArray, ...], point: Point, halve: BoolArray
) -> tuple[tuple[FloatArray, ...], FloatArray]:
    """Meshes with the marked intervals halved, and the states on them, `(N, D)`.

    Parameters
    ----------
    halve : ndarray of bool, (N,)
        By the node at which an interval begins.
    """
    L, F = relaxed.layout, relaxed.functions
    f = F.f(L.times, point.X, relaxed.own(point.p, L.trajectory), L.after)
    h = L.steps[:, None]
    after = np.concatenate([point.X[1:], point.X[-1:]])
    middle = 0.5 * (point.X + after) + h / 8 * (f - np.concatenate([f[1:], f[-1:]]))
    finer, states, start = [], [], 0
    for mesh in meshes:
        own_part = slice(start + 1, start + 1 + len(mesh))
        marked = halve[own_part][:-1]
        where = np.flatnonzero(marked) + 1
        finer.append(np.insert(mesh, where, (mesh[:-1] + np.diff(mesh) / 2)[marked]))
        states += [
            point.X[start : start + 1],
            np.insert(point.X[own_part], where, middle[own_part][:-1][marked], axis=0),
        ]
        start += len(mesh) + 1
    return tuple(finer), np.concatenate(states)
