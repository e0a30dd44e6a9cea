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

import numpy as np
import symengine as se

from ..collocation.hidden_state_problem import HiddenStateProblem, find_sample_nodes
from ..data.matching import MatchedPair, collect_inputs
from ..model.bounded_algebra import check_derivative_cost
from ..model.expression_map import ExpressionMap
from ..model.function_table import Expr
from ..model.inputs import Inputs
from ..parameters import ResolvedParameters
from ..support.array_types import BoolArray, FloatArray, IntArray
from .instruction_tape import InstructionTape, write_tape

SUBSTEPS = 4
"""Runge–Kutta steps in one interval with which the error of the rule is measured, and starts are solved forward.

The error of the measurement is then below 1% of the error of the rule: it falls with the fourth power. By judgement.
"""
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
        Node, sample, and 1 if it is the last node of the sample, in the order of nodes and samples.
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
        """Times at which forward solutions need the inputs, `(N - 1, 2 SUBSTEPS + 1)`."""
        shares = np.linspace(0, 1, 2 * SUBSTEPS + 1)
        return self.times[:-1, None] + np.diff(self.times)[:, None] * shares


@dataclass(frozen=True)
class LaneInputs:
    """The inputs on a mesh, shared by all lanes or with an axis for each.

    Attributes
    ----------
    before, after, middle : ndarray, (N, I) or (lanes, N, I)
        At the nodes as limits from the left and from the right, and in the middle of the interval that ends at the
        node. `before` is None if no input jumps.
    substeps : ndarray, (N - 1, 2 SUBSTEPS + 1, I) or (lanes, N - 1, 2 SUBSTEPS + 1, I)
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


def build_lane_model(parameters: ResolvedParameters, matched: MatchedPair, problem: HiddenStateProblem) -> LaneModel:
    """Write the functions of a model as tapes.

    Parameters
    ----------
    parameters : ResolvedParameters
    matched : MatchedPair
        The model with a dataset that has the columns, times, inputs and doses of the batch.
    problem : HiddenStateProblem
        Of the same model and dataset.
    """
    model, data = parameters.shared, matched.data
    names = data.names or ()
    free = np.flatnonzero(parameters.free)
    free_names = [model.parameters[j] for j in free]
    is_log = np.array([matched.complete and data.noise[names.index(s)] in LOG_KINDS for s in model.states])
    logs = {s: f"log {s}" for s, log in zip(model.states, is_log, strict=True) if log}
    arguments = ("t", *(logs.get(s, s) for s in model.states), *model.driving_names)
    exponentials = dict(logs)

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
        return write_tape(arguments, model.parameters, expressions, exponentials)

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
    if matched.complete:  # a state on a log scale is its own observable
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
        column_of_state=np.array([names.index(s) for s in model.states]) if matched.complete else None,
        log_noise=np.array([kind in LOG_KINDS and not matched.complete for kind in data.noise], dtype=np.int64),
    )


def build_lane_mesh(matched: MatchedPair, problem: HiddenStateProblem, halvings: int = 0) -> LaneMesh:
    """Build the mesh of a batch: the samples if every state is measured, more nodes if not.

    Parameters
    ----------
    matched : MatchedPair
    problem : HiddenStateProblem
    halvings : int
        How often all intervals are halved.
    """
    q = problem.data.trajectories[0]
    times = q.times if matched.complete else problem.build_meshes()[0]
    inputs = collect_inputs(problem.shared, problem.data, 0)
    if matched.complete and inputs is not None:
        jumps = inputs.jump_times
        times = np.union1d(times, jumps[(jumps > times[0]) & (jumps < times[-1])])
    for _ in range(halvings):
        middles = (times[:-1] + times[1:]) / 2
        finer = np.sort(np.concatenate([times, middles[np.diff(times) > 0]]))
        times = finer
    kinds = list(dict.fromkeys(after for _, after in problem.jumps[0]))
    by_time = {time: kinds.index(after) for time, after in problem.jumps[0]}
    kind = None
    if kinds:
        twice = np.diff(times) == 0
        kind = np.where(twice, [by_time.get(float(time), -1) for time in times[:-1]], -1).astype(np.int64)
    nodes = find_sample_nodes(times, q.times)
    count = len(nodes)
    entries = np.column_stack([nodes, np.arange(count), np.ones(count)]).astype(np.int64)
    return LaneMesh(times, kind, entries, np.ones(count), count)
