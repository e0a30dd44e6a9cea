"""Passes over the mesh for many fits side by side: the linearised problem, a step, the error of the rule.

With the defects `c_m(x_m, x_{m+1}, p)` of Simpson's rule (`collocation.mesh`), linearised and solved for the state at
the right end of each interval,

    δx_{m+1} = Φ_m δx_m + Γ_m δp + d_m,

every δx_m is `Y_m δ + s_m`, with δ = (δ of the fitted initial values, δ of the free parameters), and

    Y_{m+1} = Φ_m Y_m + (0, Γ_m),    s_{m+1} = Φ_m s_m + d_m.

`linearise` carries Y and s forward and sums, over all samples with observables h, residuals r = y - h, weights w and
precisions 1/σ²,

    H = Σ w²/σ² Yᵀ∂hᵀ ∂h Y,    g = Σ w²/σ² Yᵀ∂hᵀ (r - ∂h s),

so that `H δ = g` is the Gauss–Newton step of the whole problem, states included, condensed to few unknowns. `move` then
adds the step to the states. The error of the rule is measured by `compute_truncation`, and enters as an offset of c.

The passes are compiled (`engine.c`). Without the library, or with `WEAKFORM_KERNELS=0`, NumPy does the same for all
lanes at once. Arrays of the passes are in *groups*: `(groups, ..., W)`, lanes last; `to_groups` and `from_groups`
convert.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..linalg.kernels import load_library
from ..support.array_types import BoolArray, FloatArray, IntArray
from .instruction_tape import ZERO_SUBSTITUTE, InstructionTape
from .lane_plan import RUNGE_KUTTA_STEPS, LaneInputs, LaneMesh, LaneModel, explain_obstacle

LANES_PER_GROUP = 8
"""Lanes of a group in the compiled passes: one AVX-512 register of doubles, two of AVX2, four of SSE2 and NEON."""
ENGINE_VERSION = 3
"""What `engine_version` of the compiled library must return: the order of its tables is the one of this module."""
INSTRUCTION_SETS = ("avx512", "avx2", "base")
"""Instruction sets for which the passes may be compiled, the widest first; `base` runs on every processor."""
WINDOWS_SIZE = 20
"""Position of the number of test functions in the table of sizes (`engine.c`)."""
_FLOOR_SHARE = 1e-3
"""Share of a measured value below which its logarithm is continued linearly, as in `noise.kinds`."""


@cache
def get_instruction_set() -> str:
    """Return the instruction set of the compiled passes: the widest of the machine; "numpy" without the library.

    `WEAKFORM_LANES` in the environment chooses a narrower one.
    """
    library = load_library()
    # A library of another version would read other tables.
    if library is None or not hasattr(library, "engine_version") or int(library.engine_version()) != ENGINE_VERSION:
        return "numpy"
    widest = {2: "avx512", 1: "avx2"}.get(int(library.engine_level()), "base")
    wanted = os.environ.get("WEAKFORM_LANES", widest)
    if wanted == "numpy":
        return "numpy"
    available = INSTRUCTION_SETS[INSTRUCTION_SETS.index(widest) :]
    return wanted if wanted in available else widest


def explain_single_obstacle(problem: HiddenStateProblem, free_count: int) -> str:
    """Return why a single fit cannot use the lanes, as a clause; an empty string if it can.

    Parameters
    ----------
    problem : HiddenStateProblem
    free_count : int
        Number of free parameters.
    """
    if get_instruction_set() == "numpy":
        return "the package was installed without a C compiler"
    if problem.model.parameters != problem.shared.parameters:
        return "some parameters differ between trajectories"
    return explain_obstacle(problem.shared, problem.data, free_count)


@cache
def _get_pass(name: str, width: int) -> Callable[..., int]:
    """Return a compiled pass for groups of `width` lanes."""
    symbol = f"engine_{name}_{width}_{get_instruction_set()}"
    prototype = ctypes.CFUNCTYPE(
        ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, use_errno=False
    )
    return prototype((symbol, load_library()))


def find_finite(values: FloatArray) -> BoolArray:
    """Return True for each lane of `(lanes, ...)` whose values are all finite."""
    return np.asarray(np.isfinite(values.reshape(len(values), -1)).all(axis=1))


def to_groups(values: FloatArray, width: int) -> FloatArray:
    """Convert an array `(lanes, ...)` to groups `(groups, ..., width)`; missing lanes repeat the last one."""
    lanes = len(values)
    missing = -lanes % width
    if missing:
        values = np.concatenate([values, np.repeat(values[-1:], missing, axis=0)])
    grouped = values.reshape(-1, width, *values.shape[1:])
    return np.ascontiguousarray(np.moveaxis(grouped, 1, -1))


def from_groups(values: FloatArray, lanes: int) -> FloatArray:
    """Convert groups `(groups, ..., width)` to an array `(lanes, ...)`."""
    moved = np.moveaxis(values, -1, 1)
    # A copy, never a view: the passes use their arrays again.
    return np.array(moved.reshape(-1, *moved.shape[2:])[:lanes], order="C")


@dataclass(frozen=True)
class TestWindows:
    """Test functions on the nodes of a mesh.

    Attributes
    ----------
    phi : ndarray, (windows, N)
        Values, times the weights of the quadrature.
    slope : ndarray, (windows, N)
        The same for the derivatives in time.
    """

    __test__ = False  # pytest takes the name for a test

    phi: FloatArray
    slope: FloatArray

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray]:
        """Nodes and windows of the values that are not zero, node by node."""
        nodes, windows = np.nonzero(self.phi.T)
        return nodes, windows

    @cached_property
    def begins(self) -> IntArray:
        """Position of the first value of each node, `(N + 1,)`."""
        counts = np.bincount(self._pairs[0], minlength=self.phi.shape[1])
        return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    @cached_property
    def indices(self) -> IntArray:
        """Window of each value."""
        return self._pairs[1].astype(np.int64)

    @cached_property
    def weights(self) -> FloatArray:
        """The values that are not zero, node by node."""
        nodes, windows = self._pairs
        return np.ascontiguousarray(self.phi[windows, nodes])


@dataclass(frozen=True)
class Linearised:
    """What a step needs, for each lane.

    Attributes
    ----------
    H : ndarray, (lanes, n, n)
        Information, with the precisions at which it was summed.
    g : ndarray, (lanes, n)
    squares : ndarray, (lanes, K)
        Σ w² r² of each column.
    closed_squares : ndarray, (lanes, K)
        The same for r - ∂h s: the residuals once the defects are closed, to first order.
    defects : ndarray, (lanes, D)
        Σ |c| of each state.
    growth : ndarray, (lanes,)
        Largest derivative of a state by a fitted initial value.
    """

    H: FloatArray
    g: FloatArray
    squares: FloatArray
    closed_squares: FloatArray
    defects: FloatArray
    growth: FloatArray


@dataclass
class LanePasses:
    """Passes for some lanes.

    Attributes
    ----------
    model : LaneModel
    mesh : LaneMesh
    inputs : LaneInputs, or None
    data, weights : ndarray, (lanes, S, K)
        Measured values in the coordinates of their noise, and one over their relative standard deviation: zero where a
        value is missing.
    width : int
        Lanes of a group.
    """

    model: LaneModel
    mesh: LaneMesh
    inputs: LaneInputs | None
    data: FloatArray
    weights: FloatArray
    width: int
    offset: FloatArray | None = None
    _windows: tuple[NDArray[Any], ...] = ()

    def __post_init__(self) -> None:
        self.lanes = len(self.data)
        self.groups = -(-self.lanes // self.width)
        model, mesh, W, G = self.model, self.mesh, self.width, self.groups
        self._all_groups = np.arange(G, dtype=np.int64)
        self.x = np.zeros((G, len(mesh.times), model.D, W))
        self.y = to_groups(self.data, W)
        self.w = to_groups(self.weights, W)
        self.floor = None
        if model.log_noise.any():
            self.floor = to_groups(_FLOOR_SHARE * np.exp(np.where(self.weights > 0, self.data, 0.0)), W)
        self._build_tables()

    # ---- Pointers ----

    def _build_tables(self) -> None:
        """Build the tables of sizes and pointers that do not change; `engine.c` lists their order."""
        model, mesh, G, W = self.model, self.mesh, self.groups, self.width
        n, N, S = model.unknowns, len(mesh.times), mesh.samples
        pairs_aa, pairs_ap = model.pairs
        inputs = self.inputs
        # No inputs, shared ones, or one for each lane.
        self._inputs: list[FloatArray | None] = [None] * 4
        if inputs is not None:
            parts = (inputs.before, inputs.after, inputs.middle, inputs.substeps)
            self._inputs = [
                None if a is None else np.ascontiguousarray(a) if inputs.is_shared else to_groups(a, W) for a in parts
            ]
        tapes = [model.f, model.values, model.h, *model.jumps]
        self._sizes = np.array(
            [
                *(model.D, len(model.inputs), len(model.parameters), model.F, model.K, N, len(model.free_initial)),
                *(len(mesh.entries), S, len(pairs_aa), len(pairs_ap)),
                *(len(model.value_row), len(model.by_state), len(model.by_parameter)),
                *(len(model.h_by_state), len(model.h_by_parameter)),
                *(self._inputs[0] is not None, inputs is not None and not inputs.is_shared, RUNGE_KUTTA_STEPS),
                *(max((tape.registers for tape in model.jumps), default=0), 0),
                *(
                    number
                    for t in tapes
                    for number in (
                        *(len(t.code), t.prologue, t.registers, len(t.constants), len(t.outputs)),
                        t.needs_positive_states,
                    )
                ),
            ],
            dtype=np.int64,
        )
        self.H, self.g = np.zeros((G, n, n, W)), np.zeros((G, n, W))
        self.squares, self.closed = np.zeros((G, model.K, W)), np.zeros((G, model.K, W))
        self.defects, self.growth = np.zeros((G, model.D, W)), np.zeros((G, W))
        self.drift = np.zeros((G, model.D, W))
        # One more number, so that an array without elements has an address, too.
        self.steps = np.zeros(G * (N - 1) * model.D * (model.D + model.F + 1) * W + 1)
        self.p = np.zeros((G, len(model.parameters), W))
        self.chain = np.ones((G, model.F, W))
        self.Y0, self.gap = np.zeros((G, model.D, n, W)), np.zeros((G, model.D, W))
        self.precision = np.ones((G, model.K, W))
        self._fixed: list[FloatArray | IntArray | None] = [
            np.ascontiguousarray(mesh.times),
            mesh.kind,
            *(model.value_row, model.by_state, model.by_parameter, pairs_aa, pairs_ap),
            *(mesh.entries, mesh.entry_weights, model.h_by_state, model.h_by_parameter, model.log_noise),
            *self._inputs,
        ]
        self._tape_arrays: list[NDArray[Any]] = [a for t in tapes for a in (t.code, t.outputs, t.constants)]

    def _call(self, name: str, groups: IntArray, **more: FloatArray | None) -> None:
        """Run a compiled pass on some groups; `more` are the arrays that only some passes use."""
        arrays: list[NDArray[Any] | None] = [
            *self._fixed,
            *(self.x, self.p, self.chain, self.Y0, self.gap, self.y, self.w, self.floor, self.precision, self.offset),
            *(more.get("defect"), self.steps, more.get("H", self.H), more.get("g", self.g)),
            *(more.get("squares", self.squares), self.closed, self.defects, self.growth),
            *(more.get("residuals"), more.get("rows"), more.get("delta"), more.get("share"), self.drift),
            *(self._windows or (None,) * 3),
            *(more.get("left"), more.get("scale")),
            *self._tape_arrays,
        ]
        pointers = np.array([0 if a is None else a.ctypes.data for a in arrays], dtype=np.uintp)
        failed = _get_pass(name, self.width)(
            self._sizes.ctypes.data, pointers.ctypes.data, len(groups), groups.ctypes.data
        )
        if failed:
            raise MemoryError("The engine got no memory for its scratch arrays.")

    # ---- Passes ----

    def set_point(self, p: FloatArray, chain: FloatArray, sigma: FloatArray) -> None:
        """Set parameters `(lanes, J)`, their derivatives by the unknowns `(lanes, F)`, and σ `(lanes, K)`.

        The derivatives and gaps of the initial values follow from them and from the current states.
        """
        W, _model = self.width, self.model
        self.p, self.chain = to_groups(p, W), to_groups(chain, W)
        self.precision = to_groups(1.0 / sigma**2, W)
        self.set_initial(p, chain)

    def set_initial(self, p: FloatArray, chain: FloatArray) -> None:
        """Set derivatives of the first states by the unknowns, and the distance from the values that p gives."""
        model, W = self.model, self.width
        Q = len(model.free_initial)
        Y0 = np.zeros((self.lanes, model.D, model.unknowns))
        Y0[:, model.free_initial, np.arange(Q)] = 1.0
        gap = np.zeros((self.lanes, model.D))
        if Q < model.D:
            first = from_groups(self.x[:, 0], self.lanes)
            values, by_p = self.compute_initial(p)
            given = np.setdiff1d(np.arange(model.D), model.free_initial)
            Y0[:, given[:, None], np.arange(Q, model.unknowns)] = by_p[:, given][:, :, model.free] * chain[:, None]
            gap[:, given] = values[:, given] - first[:, given]
        self.Y0, self.gap = to_groups(Y0, W), to_groups(gap, W)

    def compute_initial(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Compute the initial values `(lanes, D)` and their derivatives `(lanes, D, J)` by the parameters."""
        model = self.model
        lanes, D, J = len(p), model.D, len(model.parameters)
        if len(model.free_initial) == D:
            return np.zeros((lanes, D)), np.zeros((lanes, D, J))
        t, u = np.full(lanes, self.mesh.times[0]), np.zeros((lanes, D))
        with np.errstate(all="ignore"):
            values, _, by_p = model.initial.linearise(t, u, p, np.zeros((lanes, len(model.inputs))))
        return values, by_p

    def linearise(
        self, groups: IntArray | None = None, residuals: FloatArray | None = None, rows: FloatArray | None = None
    ) -> Linearised:
        """Linearise at the current states; see the module.

        Parameters
        ----------
        groups : ndarray of int, optional
            Only these; the others keep their last values.
        residuals : ndarray, (groups, S, K, W), optional
            Receives the weighted residuals after the defects are closed.
        rows : ndarray, (groups, S, K, n, W), optional
            Receives the weighted derivatives of each sample by the unknowns.
        """
        which = self._all_groups if groups is None else groups
        if get_instruction_set() == "numpy":
            self._linearise_numpy(which, residuals, rows)
        else:
            self._call("linearise", which, residuals=residuals, rows=rows)
        i, j = np.triu_indices(self.model.unknowns, 1)
        self.H[:, i, j] = self.H[:, j, i]
        parts = (self.H, self.g, self.squares, self.closed, self.defects, self.growth)
        return Linearised(*(from_groups(a, self.lanes) for a in parts))

    def move(self, delta: FloatArray, share: FloatArray) -> FloatArray:
        """Add `share` of the step to the states.

        Parameters
        ----------
        delta : ndarray, (lanes, n)
        share : ndarray, (lanes,)

        Returns
        -------
        ndarray, (lanes, D)
            Sum of the squared changes of each state over the nodes.
        """
        grouped, shares = to_groups(delta, self.width), to_groups(share, self.width)
        if get_instruction_set() == "numpy":
            self._move_numpy(grouped, shares)
        else:
            self._call("move", self._all_groups, delta=grouped, share=shares)
        return from_groups(self.drift, self.lanes)

    def compute_truncation(self) -> FloatArray:
        """Compute the error of the rule on each interval at the current states, `(groups, N - 1, D, W)`.

        The error is `(x_{m+1} - x(t_{m+1}; x_m)) - c_m` with the solution x(t; x_m) of the equations from x_m.
        """
        defect = np.zeros((self.groups, self.mesh.intervals, self.model.D, self.width))
        if get_instruction_set() == "numpy":
            self._truncation_numpy(defect)
        else:
            self._call("truncation", self._all_groups, defect=defect)
        return defect

    def march(self) -> None:
        """Solve the equations from the states at the first node, by Runge–Kutta steps on the mesh."""
        if get_instruction_set() == "numpy":
            self._march_numpy()
        else:
            self._call("march", self._all_groups)

    def evaluate(self) -> FloatArray:
        """Evaluate f and its derivatives at all nodes, `(groups, N, outputs, W)`."""
        rows = np.empty((self.groups, len(self.mesh.times), len(self.model.f.outputs), self.width))
        if get_instruction_set() == "numpy":
            x = _flatten(self.x)
            rows[...] = _restore(self._run(self.model.f, x, self.mesh.times, 1), self.width)
        else:
            self._call("evaluate", self._all_groups, rows=rows)
        return rows

    def observe(self) -> FloatArray:
        """Evaluate the observables at all nodes, `(lanes, N, K)`, in natural units."""
        values = self._run(self.model.h, _flatten(self.x), self.mesh.times, 1)[:, : self.model.K]
        return np.moveaxis(values, -1, 0)[: self.lanes]

    def sum_weak_residuals(
        self, windows: TestWindows, left: FloatArray, scale: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Sum the normal equations of weak least squares, with the states of the passes as data.

        The residuals are `scale (left + Φ f)` for each window and state.

        Parameters
        ----------
        windows : TestWindows
        left : ndarray, (groups, windows, D, W)
        scale : ndarray, (groups, D, W)

        Returns
        -------
        H : ndarray, (lanes, F, F)
            `JᵀJ` with the derivatives J of the residuals by the free parameters.
        g : ndarray, (lanes, F)
            `-Jᵀr`.
        squares : ndarray, (lanes,)
            `rᵀr`.
        """
        F, W, G = self.model.F, self.width, self.groups
        H, g, squares = np.zeros((G, F, F, W)), np.zeros((G, F, W)), np.zeros((G, W))
        if get_instruction_set() == "numpy":
            self._sum_weak_numpy(windows, left, scale, (H, g, squares))
        else:
            self._windows = (windows.begins, windows.indices, windows.weights)
            self._sizes[WINDOWS_SIZE] = len(windows.phi)
            self._call("weak", self._all_groups, H=H, g=g, squares=squares, left=left, scale=scale)
            i, j = np.triu_indices(F, 1)
            H[:, i, j] = H[:, j, i]
        return from_groups(H, self.lanes), from_groups(g, self.lanes), from_groups(squares, self.lanes)

    # ---- The same in NumPy: arrays (..., lanes of all groups) ----

    def _run(self, tape: InstructionTape, x: FloatArray, times: FloatArray, which: int) -> FloatArray:
        """Run a tape at nodes x `(N, D, L)`, with the inputs number `which`; return `(N, outputs, L)`."""
        N, D, L = x.shape
        J, I = len(self.model.parameters), len(self.model.inputs)
        arguments = np.empty((1 + D + I + J, N, L))
        arguments[0] = times[:, None]
        arguments[1 : 1 + D] = np.moveaxis(x, 1, 0)
        if tape.needs_positive_states:
            states = arguments[1 : 1 + D]
            states[states == 0] = ZERO_SUBSTITUTE
        table = self._inputs[which]
        if table is not None:
            arguments[1 + D : 1 + D + I] = self._spread_inputs(table)
        arguments[1 + D + I :] = _flatten(self.p)[:, None]
        with np.errstate(all="ignore"):
            return np.moveaxis(tape.evaluate(arguments.reshape(len(arguments), -1)).reshape(-1, N, L), 0, 1)

    def _spread_inputs(self, table: FloatArray) -> FloatArray:
        """Return inputs `(N, I)` or `(groups, N, I, W)` as `(I, N, L)`."""
        if table.ndim == 2:
            return table.T[:, :, None]
        return np.moveaxis(_flatten(table), 1, 0)

    def _linearise_numpy(self, which: IntArray, residuals: FloatArray | None, rows: FloatArray | None) -> None:
        """Do what `engine_linearise` does."""
        model, mesh, W = self.model, self.mesh, self.width
        D, F, K, Q, n = model.D, model.F, model.K, len(model.free_initial), model.unknowns
        x = _flatten(self.x)
        N, L = len(x), x.shape[2]
        h = np.diff(mesh.times)
        nodes = self._run(model.f, x, mesh.times, 1)
        right = nodes if self._inputs[0] is None else self._run(model.f, x, mesh.times, 0)
        nf, nA = len(model.value_row), len(model.by_state)
        f0, f1 = np.zeros((N - 1, D, L)), np.zeros((N - 1, D, L))
        f0[:, model.value_row], f1[:, model.value_row] = nodes[:-1, :nf], right[1:, :nf]
        middle_x = np.concatenate([x[:1], (x[:-1] + x[1:]) / 2 + h[:, None, None] / 8 * (f0 - f1)])
        middle_times = np.concatenate([mesh.times[:1], (mesh.times[:-1] + mesh.times[1:]) / 2])
        middle = self._run(model.f, middle_x, middle_times, 2)[1:]
        chain = _flatten(self.chain)
        observed = self._run(model.h, x, mesh.times, 1)
        observed_before = observed if self._inputs[0] is None else self._run(model.h, x, mesh.times, 0)
        Y, s = _flatten(self.Y0), _flatten(self.gap)
        defects, growth = np.zeros((D, L)), np.zeros(L)
        steps = np.zeros((N - 1, D, D + F + 1, L))
        H, g = np.zeros((n, n, L)), np.zeros((n, L))
        squares, closed = np.zeros((K, L)), np.zeros((K, L))
        offset = None if self.offset is None else _flatten(self.offset)
        value, row = np.zeros((K, L)), np.zeros((K, n + 1, L))
        entry = 0
        all_residuals, all_rows = np.zeros((mesh.samples, K, L)), np.zeros((mesh.samples, K, n, L))
        y, w, precision = _flatten(self.y), _flatten(self.w), _flatten(self.precision)
        floor = None if self.floor is None else _flatten(self.floor)

        def split(out: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
            """Return the values, and the dense derivatives by states and parameters, of one node."""
            f, A, P = np.zeros((D, L)), np.zeros((D * D, L)), np.zeros((D * F, L))
            f[model.value_row], A[model.by_state], P[model.by_parameter] = out[:nf], out[nf : nf + nA], out[nf + nA :]
            return f, A.reshape(D, D, L), P.reshape(D, F, L)

        eye = np.eye(D)[:, :, None]
        for node in range(N):
            if node:
                m = node - 1
                if mesh.kind is not None and mesh.kind[m] >= 0:
                    c, block = self._jump_numpy(int(mesh.kind[m]), m, x)
                else:
                    (fa, A0, P0), (fb, A1, P1), (fm, Am, Pm) = split(nodes[m]), split(right[node]), split(middle[m])
                    h6, hh = h[m] / 6, h[m] ** 2 / 12
                    c = x[node] - x[m] - h6 * (fa + 4 * fm + fb)
                    if offset is not None:
                        c = c + offset[m]
                    M = eye - h6 * A1 - 2 * h6 * Am + hh * np.einsum("ijl,jkl->ikl", Am, A1)
                    left = eye + h6 * A0 + 2 * h6 * Am + hh * np.einsum("ijl,jkl->ikl", Am, A0)
                    G = h6 * (P0 + 4 * Pm + P1) + hh * np.einsum("ijl,jkl->ikl", Am, P0 - P1)
                    block = np.concatenate([left, G * chain, -c[:, None]], axis=1)
                    block = _solve_lanes(M, block)
                steps[m] = block
                defects += np.abs(c)
                new = np.einsum("ijl,jkl->ikl", block[:, :D], Y)
                new[:, Q:] += block[:, D : D + F]
                Y, s = new, np.einsum("ijl,jl->il", block[:, :D], s) + block[:, D + F]
                if Q:
                    growth = np.fmax(growth, np.abs(Y[:, :Q]).max(axis=(0, 1)))
            while entry < len(mesh.entries) and mesh.entries[entry, 0] == node:
                _, sample, flags = mesh.entries[entry]
                q, out = mesh.entry_weights[entry], (observed_before if flags & 2 else observed)[node]
                nA_h = len(model.h_by_state)
                by_x, by_p = np.zeros((K * D, L)), np.zeros((K * F, L))
                by_x[model.h_by_state], by_p[model.h_by_parameter] = out[K : K + nA_h], out[K + nA_h :]
                value += q * out[:K]
                row[:, :n] += q * np.einsum("kdl,dil->kil", by_x.reshape(K, D, L), Y)
                row[:, Q:n] += q * by_p.reshape(K, F, L) * chain
                row[:, n] += q * np.einsum("kdl,dl->kl", by_x.reshape(K, D, L), s)
                entry += 1
                if not flags & 1:
                    continue
                is_log = model.log_noise.astype(bool)
                if floor is not None:
                    base = np.maximum(value, floor[sample])
                    with np.errstate(all="ignore"):
                        log = np.log(base) + (value - base) / base
                        value = np.where(is_log[:, None], log, value)
                        row = np.where(is_log[:, None, None], row / base[:, None], row)
                weight = w[sample]
                with np.errstate(all="ignore"):
                    r = np.where(weight == 0, 0.0, (y[sample] - value) * weight)
                    rc = r - weight * row[:, n]
                    wrow = weight[:, None] * row[:, :n]
                    squares += r * r
                    closed += rc * rc
                    H += np.einsum("kil,kjl,kl->ijl", wrow, wrow, precision)
                    g += np.einsum("kil,kl,kl->il", wrow, rc, precision)
                all_residuals[sample], all_rows[sample] = rc, wrow
                value, row = np.zeros((K, L)), np.zeros((K, n + 1, L))
        targets = (
            *((self.H, H), (self.g, g), (self.squares, squares), (self.closed, closed)),
            *((self.defects, defects), (self.growth, growth)),
            *((self.steps[:-1].reshape(self.groups, N - 1, D, D + F + 1, W), steps),),
            *(((residuals, all_residuals),) if residuals is not None else ()),
            *(((rows, all_rows),) if rows is not None else ()),
        )
        for target, values in targets:
            target[which] = _restore(values, W)[which]

    def _sum_weak_numpy(
        self,
        windows: TestWindows,
        left: FloatArray,
        scale: FloatArray,
        targets: tuple[FloatArray, FloatArray, FloatArray],
    ) -> None:
        """Do what `engine_weak` does."""
        model, W = self.model, self.width
        rows = self._run(model.f, _flatten(self.x), self.mesh.times, 1)
        summed = np.einsum("kn,nol->kol", windows.phi, rows)
        nf, nA = len(model.value_row), len(model.by_state)
        factor = _flatten(scale)
        r = _flatten(left).copy()
        r[:, model.value_row] += summed[:, :nf]
        J = np.zeros((len(windows.phi), model.D * model.F, r.shape[2]))
        J[:, model.by_parameter] = summed[:, nf + nA :]
        J = J.reshape(len(windows.phi), model.D, model.F, -1) * _flatten(self.chain) * factor[:, None]
        r *= factor
        with np.errstate(all="ignore"):
            parts = np.einsum("kdil,kdjl->ijl", J, J), -np.einsum("kdil,kdl->il", J, r), np.sum(r**2, axis=(0, 1))
        for target, values in zip(targets, parts, strict=True):
            target[...] = _restore(values, W)

    def _jump_numpy(self, kind: int, m: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the defect `(D, L)` and the linearised step `(D, D + F + 1, L)` of a jump from node m to the next."""
        D, F = self.model.D, self.model.F
        out = self._run_one(self.model.jumps[kind], x[m], float(self.mesh.times[m]), m)
        c = x[m + 1] - out[:D]
        slopes = out[D:].reshape(D, D + F, -1)
        chain = _flatten(self.chain)
        return c, np.concatenate([slopes[:, :D], slopes[:, D:] * chain, -c[:, None]], axis=1)

    def _run_one(self, tape: InstructionTape, x: FloatArray, time: float, node: int) -> FloatArray:
        """Run a tape at one node with states x `(D, L)`; return `(outputs, L)`."""
        kept = self._inputs
        try:
            self._inputs = [None if a is None else _select_node(a, node) for a in kept]
            return np.asarray(self._run(tape, x[None], np.array([time]), 1)[0])
        finally:
            self._inputs = kept

    def _move_numpy(self, delta: FloatArray, share: FloatArray) -> None:
        """Do what `engine_move` does."""
        D, F, Q = self.model.D, self.model.F, len(self.model.free_initial)
        steps = _flatten(self.steps[:-1].reshape(self.groups, -1, D, D + F + 1, self.width))
        d, shares = _flatten(delta), _flatten(share)
        now = _flatten(self.gap) + np.einsum("ijl,jl->il", _flatten(self.Y0), d)
        changes = [now]
        for block in steps:
            now = (
                np.einsum("ijl,jl->il", block[:, :D], now)
                + np.einsum("ijl,jl->il", block[:, D : D + F], d[Q:])
                + block[:, D + F]
            )
            changes.append(now)
        moved = np.array(changes) * shares
        self.x += _restore(moved, self.width)
        self.drift[...] = _restore(np.sum(moved**2, axis=0), self.width)

    def _solve_forward_numpy(self, x: FloatArray, intervals: Sequence[int]) -> FloatArray:
        """Solve the equations over intervals from x `(intervals, D, L)`; return the states at their ends."""
        model, mesh = self.model, self.mesh
        at = np.asarray(intervals)
        begin, h = mesh.times[at], np.diff(mesh.times)[at]
        kept = self._inputs

        def slope(states: FloatArray, half_steps: int) -> FloatArray:
            """Return f `(intervals, D, L)`, a number of half steps after the beginning."""
            table = kept[3]
            chosen = None
            if table is not None:
                shared = table.ndim == 3
                chosen = table[at, half_steps] if shared else np.ascontiguousarray(table[:, at, half_steps])
            self._inputs = [None, chosen, None, None]
            f = np.zeros_like(states)
            out = self._run(model.values, states, begin + h * half_steps / (2 * RUNGE_KUTTA_STEPS), 1)
            f[:, model.value_row] = out
            return f

        dt = (h / RUNGE_KUTTA_STEPS)[:, None, None]
        try:
            with np.errstate(all="ignore"):
                for step in range(RUNGE_KUTTA_STEPS):
                    k1 = slope(x, 2 * step)
                    k2 = slope(x + dt / 2 * k1, 2 * step + 1)
                    k3 = slope(x + dt / 2 * k2, 2 * step + 1)
                    k4 = slope(x + dt * k3, 2 * step + 2)
                    x = x + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        finally:
            self._inputs = kept
        return x

    def _truncation_numpy(self, defect: FloatArray) -> None:
        """Do what `engine_truncation` does."""
        mesh, x = self.mesh, _flatten(self.x)
        h = np.diff(mesh.times)[:, None, None]
        kept = self._inputs
        f: list[FloatArray] = []
        table = kept[3]
        for part in (0, 2, 1):
            chosen = None
            if table is not None:
                at = part * RUNGE_KUTTA_STEPS
                chosen = table[:, at] if table.ndim == 3 else np.ascontiguousarray(table[:, :, at])
            self._inputs = [None, chosen, None, None]
            states = x[:-1] if part == 0 else x[1:] if part == 2 else (x[:-1] + x[1:]) / 2 + h / 8 * (f[0] - f[1])
            times = mesh.times[:-1] + np.diff(mesh.times) * part / 2
            value = np.zeros_like(x[:-1])
            value[:, self.model.value_row] = self._run(self.model.values, states, times, 1)
            f.append(value)
        self._inputs = kept
        c = x[1:] - x[:-1] - h / 6 * (f[0] + 4 * f[2] + f[1])
        result = x[1:] - self._solve_forward_numpy(x[:-1], range(mesh.intervals)) - c
        if mesh.kind is not None:
            result[mesh.kind >= 0] = 0.0
        defect[...] = _restore(result, self.width)

    def _march_numpy(self) -> None:
        """Do what `engine_march` does."""
        x = _flatten(self.x)
        for m in range(self.mesh.intervals):
            if self.mesh.kind is not None and self.mesh.kind[m] >= 0:
                tape = self.model.jumps[int(self.mesh.kind[m])]
                x[m + 1] = self._run_one(tape, x[m], float(self.mesh.times[m]), m)[: self.model.D]
            else:
                x[m + 1] = self._solve_forward_numpy(x[m : m + 1], [m])[0]
        self.x[...] = _restore(x, self.width)


def _flatten(grouped: FloatArray) -> FloatArray:
    """Return groups `(groups, ..., W)` as `(..., lanes of all groups)`."""
    moved = np.moveaxis(grouped, 0, -2)
    return np.ascontiguousarray(moved.reshape(*moved.shape[:-2], -1))


def _restore(values: FloatArray, width: int) -> FloatArray:
    """Return `(..., lanes of all groups)` as groups `(groups, ..., W)`."""
    split = values.reshape(*values.shape[:-1], -1, width)
    return np.ascontiguousarray(np.moveaxis(split, -2, 0))


def _select_node(table: FloatArray, node: int) -> FloatArray:
    """Return the inputs `(N, I)` or `(groups, N, I, W)` at one node, with an axis of one node."""
    return table[node : node + 1] if table.ndim == 2 else np.ascontiguousarray(table[:, node : node + 1])


def _solve_lanes(M: FloatArray, b: FloatArray) -> FloatArray:
    """Solve `M z = b` for each lane: M `(D, D, L)`, b `(D, columns, L)`."""
    with np.errstate(all="ignore"):
        solvable = np.isfinite(M).all(axis=(0, 1))
        M = np.where(solvable, M, np.eye(len(M))[:, :, None])
        try:
            solution = np.asarray(np.linalg.solve(np.moveaxis(M, -1, 0), np.moveaxis(b, -1, 0)), dtype=float)
        except np.linalg.LinAlgError:  # one of the lanes is singular
            lanes = zip(np.moveaxis(M, -1, 0), np.moveaxis(b, -1, 0), strict=True)
            solution = np.array([_solve_or_nan(m, v) for m, v in lanes])
        solution[~solvable] = np.nan
    return np.moveaxis(solution, 0, -1)


def _solve_or_nan(M: FloatArray, b: FloatArray) -> FloatArray:
    """Solve `M z = b`; NaN if M is singular."""
    try:
        return np.asarray(np.linalg.solve(M, b), dtype=float)
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)
