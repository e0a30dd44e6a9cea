"""What all fits of a batch have in common: the functions of the model as tapes, and the mesh.

Many fits of one model go side by side, one in each *lane*. Lanes share the model, the times of the samples, the mesh,
and which parameters are free; data, weights, inputs, parameters and states are their own.

The states are those of the model, or their logarithms if every state is measured with log-normal noise, so that the
noise is additive and a state stays positive. Only free parameters have derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import symengine as se

from ..collocation.hidden_state_problem import HiddenStateProblem, find_sample_nodes
from ..data import Dataset
from ..data.matching import collect_inputs
from ..model import Model
from ..model.bounded_algebra import check_derivative_cost
from ..model.expression_map import ExpressionMap
from ..model.function_table import Expr
from ..model.inputs import Inputs
from ..support.array_types import BoolArray, FloatArray, IntArray
from .instruction_tape import InstructionTape, write_tape

RUNGE_KUTTA_STEPS = 4
"""Runge–Kutta steps in one interval with which the error of the rule is measured, and starts are solved forward.

The error of the measurement is then below 1% of the error of the rule: it falls with the fourth power. By judgement.
"""
MAX_UNKNOWNS = 60
"""Fitted initial values and parameters of one dataset above which the engine is not used: its work grows with their
square, and that of a single fit hardly. By judgement."""
LOG_KINDS = ("lognormal",)
"""Kinds of noise that are additive in the logarithm."""
SUPPORTED_NOISE = ("gaussian", "lognormal")
"""Kinds of noise that the engine takes; the others need weights that depend on the fitted curve."""


@dataclass(frozen=True)
class LaneModel:
    """The functions of a model for the engine.

    Attributes
    ----------
    states, inputs, parameters : tuple of str, (D,), (I,), (J,)
    free : ndarray of int, (F,)
        Positions of the free parameters.
    free_initial : ndarray of int, (Q,)
        States whose initial value is fitted.
    log_states : ndarray of bool, (D,)
        States that the engine handles as their logarithm.
    initial : ExpressionMap
        Initial values of all states; only those that are not fitted count.
    f, values, h : InstructionTape
        Right-hand side with and without derivatives, and observables with derivatives.
    jumps : tuple of InstructionTape
        States after a jump, and their derivatives `(D, D + F)`, as functions of those before.
    value_row : ndarray of int
        Equation of each value of `f`; equations whose right-hand side is zero have none.
    by_state, by_parameter : ndarray of int
        For each derivative of `f` after the values: equation times D plus state, and equation times F plus the number
        of the free parameter.
    h_by_state, h_by_parameter : ndarray of int
        The same for the observables.
    log_noise : ndarray of int, (K,)
        1 for observables whose logarithm has additive noise, 0 for others.
    column_of_state : ndarray of int, (D,), or None
        The column that measures each state; None unless every state is measured.
    """

    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    free: IntArray
    free_initial: IntArray
    log_states: BoolArray
    initial: ExpressionMap
    f: InstructionTape
    values: InstructionTape
    h: InstructionTape
    jumps: tuple[InstructionTape, ...]
    value_row: IntArray
    by_state: IntArray
    by_parameter: IntArray
    h_by_state: IntArray
    h_by_parameter: IntArray
    log_noise: IntArray
    column_of_state: IntArray | None = None

    @property
    def D(self) -> int:
        """Number of states."""
        return len(self.states)

    @property
    def F(self) -> int:
        """Number of free parameters."""
        return len(self.free)

    @property
    def K(self) -> int:
        """Number of measured columns."""
        return len(self.log_noise)

    @property
    def unknowns(self) -> int:
        """Number of fitted initial values and free parameters, `n = Q + F`."""
        return len(self.free_initial) + len(self.free)

    @cached_property
    def pairs(self) -> tuple[IntArray, IntArray]:
        """Products of derivatives `∂f/∂x` in the middle with derivatives at the ends of an interval.

        Returns
        -------
        ndarray of int, (pairs, 3)
            `∂f/∂x ∂f/∂x`: positions of both factors, and of the product, equation times D plus state.
        ndarray of int, (pairs, 3)
            `∂f/∂x ∂f/∂p`: the same, and equation times F plus parameter.
        """
        D, F = self.D, self.F
        results = []
        for right, width in ((self.by_state, D), (self.by_parameter, F)):
            by_row: dict[int, list[tuple[int, int]]] = {}
            for b, place in enumerate(right.tolist()):
                by_row.setdefault(place // width, []).append((b, place % width))
            triples = [
                (a, b, place // D * width + column)
                for a, place in enumerate(self.by_state.tolist())
                for b, column in by_row.get(place % D, [])
            ]
            results.append(np.array(triples, dtype=np.int64).reshape(-1, 3))
        return results[0], results[1]


@dataclass(frozen=True)
class LaneMesh:
    """The nodes of a mesh, and where the samples are.

    Attributes
    ----------
    times : ndarray, (N,)
        Two nodes have the same time where states jump.
    kind : ndarray of int, (N - 1,), or None
        The jump between the two nodes of an interval, -1 for an interval of time; None if there is no jump.
    entries : ndarray of int, (entries, 3)
        Node, sample, and flags, in the order of nodes and samples: 1 if it is the last entry of the sample, plus 2 if
        inputs count as just before they jump there.
    entry_weights : ndarray, (entries,)
        The measured value of a sample is the sum of the observable at its nodes, with these weights.
    samples : int
    """

    times: FloatArray
    kind: IntArray | None
    entries: IntArray
    entry_weights: FloatArray
    samples: int

    @property
    def intervals(self) -> int:
        """Number of intervals."""
        return len(self.times) - 1

    @property
    def substep_times(self) -> FloatArray:
        """Times at which forward solutions need the inputs, `(N - 1, 2 RUNGE_KUTTA_STEPS + 1)`."""
        shares = np.linspace(0, 1, 2 * RUNGE_KUTTA_STEPS + 1)
        return self.times[:-1, None] + np.diff(self.times)[:, None] * shares


@dataclass(frozen=True)
class LaneInputs:
    """The inputs on a mesh, shared by all lanes or with an axis for each.

    Attributes
    ----------
    before, after, middle : ndarray, (N, I) or (lanes, N, I)
        At the nodes as limits from the left and from the right, and in the middle of the interval that ends at the
        node. `before` is None if no input jumps.
    substeps : ndarray, (N - 1, 2 RUNGE_KUTTA_STEPS + 1, I) or (lanes, N - 1, 2 RUNGE_KUTTA_STEPS + 1, I)
    """

    before: FloatArray | None
    after: FloatArray
    middle: FloatArray
    substeps: FloatArray

    @property
    def is_shared(self) -> bool:
        """Whether all lanes have the same inputs."""
        return self.after.ndim == 2

    @classmethod
    def evaluate(cls, mesh: LaneMesh, inputs: Inputs) -> LaneInputs:
        """Evaluate the inputs of one dataset on a mesh."""
        times = mesh.times
        jumps = inputs.jump_times
        # The interval that ends at the first node does not exist: its row is only a number.
        middle = np.concatenate([times[:1], (times[:-1] + times[1:]) / 2])
        inner = mesh.substep_times
        # At the ends of an interval the limits from inside.
        substeps = inputs(inner.ravel()).reshape(*inner.shape, -1)
        substeps[:, -1] = inputs(times[1:], before=True)
        return cls(
            inputs(times, before=True) if len(jumps) else None, inputs(times), inputs(middle), np.asarray(substeps)
        )

    @classmethod
    def from_problem(cls, problem: HiddenStateProblem, mesh: LaneMesh) -> LaneInputs | None:
        """Evaluate the inputs of the first trajectory of a problem; return None if it has none."""
        inputs = collect_inputs(problem.shared, problem.data, 0)
        return None if inputs is None else cls.evaluate(mesh, inputs)

    @classmethod
    def stack(cls, parts: Sequence[LaneInputs]) -> LaneInputs:
        """Join the inputs of several lanes."""
        limits = [part.after if part.before is None else part.before for part in parts]
        return cls(
            np.stack(limits) if any(part.before is not None for part in parts) else None,
            np.stack([part.after for part in parts]),
            np.stack([part.middle for part in parts]),
            np.stack([part.substeps for part in parts]),
        )

    def select(self, lanes: IntArray) -> LaneInputs:
        """Return the inputs of some lanes."""
        if self.is_shared:
            return self
        before = None if self.before is None else self.before[lanes]
        return LaneInputs(before, self.after[lanes], self.middle[lanes], self.substeps[lanes])


def explain_obstacle(model: Model, data: Dataset, free_count: int) -> str:
    """Return why the engine cannot fit a model to data, as a clause; an empty string if it can.

    Parameters
    ----------
    model : Model
    data : Dataset
        Matched with the model.
    free_count : int
        Number of free parameters.
    """
    unsupported = sorted({kind for kind in data.noise if kind not in SUPPORTED_NOISE})
    if unsupported:
        return f"it takes no {unsupported[0]} noise"
    if data.covariance is not None:
        return "the noise is correlated between columns"
    if len(data.trajectories) > 1:
        return "there are several trajectories"
    if model.steady is not None:
        return "the model begins at a steady state"
    for event in model.events:
        firing = model.find_firing_time(event.trigger)
        if firing is None or not se.sympify(firing).is_Number:
            return "an event of the model fires at a time that depends on states or parameters"
    inputs = collect_inputs(model, data, 0)
    if (0 if inputs is None else len(inputs.hold)) < len(model.driving_names):
        return "a switch of the model has an unknown time"
    unknowns = free_count + sum(state not in model.initial for state in model.states)
    if unknowns > MAX_UNKNOWNS:
        return f"the model has {unknowns} unknowns, more than {MAX_UNKNOWNS}"
    return ""


def get_weights(problem: HiddenStateProblem) -> FloatArray:
    """Return one over the relative standard deviation of each value of the first trajectory, `(S, K)`, 0 if missing."""
    q = problem.data.trajectories[0]
    return np.where(q.measured, 1.0 / np.where(q.measured, q.scales, 1.0), 0.0)


def build_lane_model(problem: HiddenStateProblem, is_free: BoolArray, complete: bool) -> LaneModel:
    """Write the functions of a model as tapes; the model keeps them for the next fit.

    Parameters
    ----------
    problem : HiddenStateProblem
        The model with a dataset that has the columns, times, inputs and doses of all lanes.
    is_free : ndarray of bool, (J,)
        Parameters that are estimated.
    complete : bool
        Whether every state is measured directly, with no given initial value and no jump.
    """
    key = (problem.data.names, problem.data.noise, is_free.tobytes(), complete, problem.jumps)
    kept: dict[Any, LaneModel] = problem.shared.compiled_functions.setdefault("lanes", {})
    if key not in kept:
        kept[key] = _write_lane_model(problem, is_free, complete)
    return kept[key]


def _write_lane_model(problem: HiddenStateProblem, is_free: BoolArray, complete: bool) -> LaneModel:
    """Write the functions of a model as tapes; see `build_lane_model`."""
    model, data = problem.shared, problem.data
    names = data.names or ()
    free = np.flatnonzero(is_free)
    free_names = [model.parameters[j] for j in free]
    is_log = np.array([complete and data.noise[names.index(s)] in LOG_KINDS for s in model.states])
    logs = {s: f"log {s}" for s, log in zip(model.states, is_log, strict=True) if log}
    arguments = ("t", *(logs.get(s, s) for s in model.states), *model.driving_names)

    def differentiate(expressions: Sequence[Expr], full: bool = False) -> tuple[list[Expr], IntArray, IntArray]:
        """Return the derivatives that are not zero (all of them if `full`), and where they belong."""
        check_derivative_cost(expressions)
        D, F = len(model.states), len(free)
        slopes = [se.Symbol(s) if s in logs else se.Integer(1) for s in model.states]
        by_state = [(a, k, e.diff(se.Symbol(s)) * slope) for a, e in enumerate(expressions)
                    for k, (s, slope) in enumerate(zip(model.states, slopes, strict=True))]  # fmt: skip
        by_parameter = [(a, k, e.diff(se.Symbol(p))) for a, e in enumerate(expressions)
                        for k, p in enumerate(free_names)]  # fmt: skip
        if full:
            rows = [[e for a, _, e in (*by_state, *by_parameter) if a == row] for row in range(len(expressions))]
            return [e for row in rows for e in row], np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        by_state = [item for item in by_state if item[2] != 0]
        by_parameter = [item for item in by_parameter if item[2] != 0]
        return (
            [e for _, _, e in (*by_state, *by_parameter)],
            np.array([a * D + k for a, k, _ in by_state], dtype=np.int64),
            np.array([a * F + k for a, k, _ in by_parameter], dtype=np.int64),
        )

    def write(expressions: Sequence[Expr]) -> InstructionTape:
        """Write the tape of some expressions."""
        return write_tape(arguments, model.parameters, expressions, logs)

    f = list(problem.shared.system(tuple("lognormal" if log else "gaussian" for log in is_log), None)
             .differentiate_tensor("f").items())  # fmt: skip
    value_row = np.array([index[0] for index, _ in f], dtype=np.int64)
    value_expressions = [e for _, e in f]
    derivatives, by_state, by_parameter = differentiate(value_expressions)
    # Positions count the values that exist; rows of `f` are those of the equations.
    D, F = len(model.states), len(free)
    by_state = value_row[by_state // D] * D + by_state % D if D else by_state
    by_parameter = value_row[by_parameter // F] * F + by_parameter % F
    measurable = {**{s: se.Symbol(logs.get(s, s)) for s in model.states}, **model.observables}
    h = [se.sympify(measurable[name]) for name in names]
    if complete:  # a state on a log scale is its own observable
        h_derivatives = [se.Integer(1)] * len(h)
        h_by_state = np.array([k * D + model.states.index(name) for k, name in enumerate(names)], dtype=np.int64)
        h_by_parameter = np.zeros(0, dtype=np.int64)
    else:
        h_derivatives, h_by_state, h_by_parameter = differentiate(h)
    jumps = [
        write([*after, *differentiate(after, full=True)[0]])
        for after in dict.fromkeys(after for _, after in problem.jumps[0])
    ]
    return LaneModel(
        states=model.states,
        inputs=model.driving_names,
        parameters=model.parameters,
        free=free,
        free_initial=np.flatnonzero(~problem.functions.given_initial),
        log_states=is_log,
        initial=problem.functions.g,
        f=write([*value_expressions, *derivatives]),
        values=write(value_expressions),
        h=write([*h, *h_derivatives]),
        jumps=tuple(jumps),
        value_row=value_row,
        by_state=by_state,
        by_parameter=by_parameter,
        h_by_state=h_by_state,
        h_by_parameter=h_by_parameter,
        column_of_state=np.array([names.index(s) for s in model.states]) if complete else None,
        log_noise=np.array([kind in LOG_KINDS and not complete for kind in data.noise], dtype=np.int64),
    )


def build_lane_mesh(
    problem: HiddenStateProblem, complete: bool, halvings: int = 0, frames: FloatArray | None = None
) -> LaneMesh:
    """Build the mesh of a batch: the samples if every state is measured, more nodes if not.

    Parameters
    ----------
    problem : HiddenStateProblem
    complete : bool
        Whether every state is measured.
    halvings : int
        How often all intervals are halved.
    frames : ndarray, (S, 2), optional
        Beginning and end of each sample, if a sample is the average over its frame.
    """
    q = problem.data.trajectories[0]
    inputs = collect_inputs(problem.shared, problem.data, 0)
    if frames is not None:
        times = _subdivide_frames(problem, frames, inputs)
    elif complete:
        times = q.times
        if inputs is not None:
            jumps = inputs.jump_times
            times = np.union1d(times, jumps[(jumps > times[0]) & (jumps < times[-1])])
    else:
        times = problem.build_meshes()[0]
    for _ in range(halvings):
        middles = (times[:-1] + times[1:]) / 2
        times = np.sort(np.concatenate([times, middles[np.diff(times) > 0]]))
    if frames is None:
        return place_samples(problem, times)
    return LaneMesh(times, _find_jumps(problem, times), *_weigh_frames(times, frames, inputs), samples=len(frames))


def place_samples(problem: HiddenStateProblem, times: FloatArray) -> LaneMesh:
    """Return the mesh with nodes at given times, among which are those of all samples."""
    nodes = find_sample_nodes(times, problem.data.trajectories[0].times)
    count = len(nodes)
    entries = np.column_stack([nodes, np.arange(count), np.ones(count)]).astype(np.int64)
    return LaneMesh(times, _find_jumps(problem, times), entries, np.ones(count), count)


def _find_jumps(problem: HiddenStateProblem, times: FloatArray) -> IntArray | None:
    """Return the jump between the nodes of each interval, -1 where time passes; None if nothing jumps."""
    kinds = list(dict.fromkeys(after for _, after in problem.jumps[0]))
    if not kinds:
        return None
    by_time = {time: kinds.index(after) for time, after in problem.jumps[0]}
    twice = np.diff(times) == 0
    return np.where(twice, [by_time.get(float(time), -1) for time in times[:-1]], -1).astype(np.int64)


INTERVALS_PER_FRAME = 4
"""Intervals between two neighbouring times at which a frame begins or ends, at least; an even number, for Simpson's
rule. By judgement; the mesh is made finer where the error of the rule matters."""


def _subdivide_frames(problem: HiddenStateProblem, frames: FloatArray, inputs: Inputs | None) -> FloatArray:
    """Return a mesh with nodes at the ends of all frames and at all jumps, and an even number of intervals between."""
    jumps = [time for time, _ in problem.jumps[0]]
    edges = [problem.find_initial_time(0), *frames.ravel(), *jumps, *([] if inputs is None else inputs.jump_times)]
    times = np.unique(np.array(edges, dtype=float))
    times = times[(times >= min(times[0], frames[0, 0])) & (times <= frames[-1, 1])]
    gaps = np.diff(times)
    # Gaps are divided as finely as the shorter half of the frames.
    target = float(np.median(frames[:, 1] - frames[:, 0])) / INTERVALS_PER_FRAME
    counts = np.clip(2 * np.ceil(gaps / (2 * target) - 1e-9).astype(int), INTERVALS_PER_FRAME, 16 * INTERVALS_PER_FRAME)
    parts = [a + (b - a) * np.arange(n) / n for a, b, n in zip(times[:-1], times[1:], counts, strict=True)]
    return problem.with_jump_nodes(np.append(np.concatenate(parts), times[-1]), 0)


def _weigh_frames(times: FloatArray, frames: FloatArray, inputs: Inputs | None) -> tuple[IntArray, FloatArray]:
    """Return the entries and weights of a mesh whose samples are averages over frames, by Simpson's rule.

    Between two ends of frames, or jumps, the mesh has an even number of equal intervals. A frame takes the later of two
    nodes at the time at which it begins, and the earlier one where it ends. Where an input jumps, what ends there has
    its value before the jump, and what begins there the value after it.
    """
    jumps = np.zeros(0) if inputs is None else inputs.jump_times
    h = np.diff(times)
    weights: dict[tuple[int, int, bool], float] = {}
    for sample, (begin, end) in enumerate(frames):
        first = int(np.searchsorted(times, begin, side="right")) - 1
        last = int(np.searchsorted(times, end, side="left"))
        node = first
        while node < last:
            if h[node] == 0:  # a jump of the states inside the frame
                node += 1
                continue
            for offset, factor in ((0, 1.0), (1, 4.0), (2, 1.0)):
                is_before = offset == 2 and bool((times[node + 2] == jumps).any())
                key = (node + offset, sample, is_before)
                weights[key] = weights.get(key, 0.0) + factor * h[node] / (3 * (end - begin))
            node += 2
    keys = sorted(weights)
    last_key = {key[1]: key for key in keys}
    rows = [(key[0], key[1], (last_key[key[1]] == key) + 2 * key[2]) for key in keys]
    entries = np.array(rows, dtype=np.int64)
    return entries, np.array([weights[key] for key in keys])
