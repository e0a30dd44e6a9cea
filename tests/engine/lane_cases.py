"""Shared by the tests of the engine: models on small meshes at random points, and the instruction sets."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import symengine as se

import weakform as wf
from weakform.collocation.hidden_state_problem import HiddenStateProblem
from weakform.data.matching import MatchedPair, collect_inputs, match
from weakform.engine import passes as passes_module
from weakform.engine.instruction_tape import write_tape
from weakform.engine.lane_iteration import LaneProblem
from weakform.engine.lane_plan import LaneInputs, LaneMesh, LaneModel, build_lane_mesh, build_lane_model
from weakform.engine.passes import INSTRUCTION_SETS, LanePasses, get_instruction_set, to_groups
from weakform.model.inputs import Inputs
from weakform.parameters import ResolvedParameters, resolve_parameters


def list_instruction_sets() -> tuple[str, ...]:
    """Return the compiled instruction sets of this machine, the widest first; none without the library."""
    widest = get_instruction_set()
    return () if widest == "numpy" else INSTRUCTION_SETS[INSTRUCTION_SETS.index(widest) :]


COMPILED = list_instruction_sets()


def use_instruction_set(monkeypatch, level: str) -> None:
    """Make the passes use one instruction set, or NumPy."""
    monkeypatch.setenv("WEAKFORM_LANES", level)
    passes_module.get_instruction_set.cache_clear()
    passes_module._get_pass.cache_clear()
    assert get_instruction_set() == level


@dataclass
class LaneCase:
    """A model and one dataset, as the engine sees them."""

    matched: MatchedPair
    resolved: ResolvedParameters
    problem: HiddenStateProblem
    model: LaneModel
    mesh: LaneMesh
    inputs: Inputs | None

    @classmethod
    def build(cls, model: wf.Model, data: wf.Dataset, halvings: int = 0, **settings) -> "LaneCase":
        matched = match(data, model)
        resolved = resolve_parameters(matched.model, matched.data, None, settings)
        problem = HiddenStateProblem.build(resolved, matched.data)
        return cls(
            matched,
            resolved,
            problem,
            build_lane_model(problem, resolved.free, matched.complete),
            build_lane_mesh(problem, matched.complete, halvings),
            collect_inputs(problem.shared, matched.data, 0),
        )

    def cut(self, nodes: int) -> "LaneCase":
        """Return the same case with only the last nodes of its mesh, of which the last one is a sample."""
        mesh = self.mesh
        first = max(len(mesh.times) - nodes, 0)
        kept = mesh.entries[:, 0] >= first
        entries = mesh.entries[kept] - [first, 0, 0]
        entries[:, 1] -= entries[0, 1]
        shorter = replace(
            mesh,
            times=mesh.times[first:],
            kind=None if mesh.kind is None else mesh.kind[first:],
            entries=entries,
            entry_weights=mesh.entry_weights[kept],
            samples=int(entries[-1, 1]) + 1,
        )
        return replace(self, mesh=shorter)

    def build_inputs(self, lanes: int, own: bool = False) -> LaneInputs | None:
        """Return the inputs on the mesh: those of the dataset, or in each lane a multiple of them."""
        if self.inputs is None:
            return None
        if not own:
            return LaneInputs.evaluate(self.mesh, self.inputs)
        scaled = [replace(self.inputs, values=self.inputs.values * (1 + 0.1 * lane)) for lane in range(lanes)]
        return LaneInputs.stack([LaneInputs.evaluate(self.mesh, inputs) for inputs in scaled])

    def build_passes(self, lanes: int, width: int, *, seed: int = 0, own_inputs: bool = False) -> LanePasses:
        """Return passes at random states, parameters, data and weights, some of which are zero."""
        rng = np.random.default_rng(seed)
        model, mesh = self.model, self.mesh
        shape = (lanes, mesh.samples, model.K)
        data = rng.uniform(0.5, 1.5, shape)
        weights = np.where(rng.uniform(size=shape) < 0.2, 0.0, rng.uniform(0.5, 2.0, shape))
        passes = LanePasses(model, mesh, self.build_inputs(lanes, own_inputs), data, weights, width)
        states = rng.uniform(0.5, 1.5, (lanes, len(mesh.times), model.D))
        if model.log_noise.any():  # some below the floor of the logarithm, some negative
            states[:, ::5] *= 5e-4
            states[:, 2::5] *= -0.5
        passes.x[...] = to_groups(states, width)
        p = rng.uniform(0.3, 1.2, (lanes, len(model.parameters)))
        passes.set_point(p, rng.uniform(0.5, 1.5, (lanes, model.F)), rng.uniform(0.1, 0.3, (lanes, model.K)))
        return passes


def build_tape_passes(names, expressions, values, width=8, parameters=("p",)) -> LanePasses:
    """Return passes whose `evaluate` computes expressions of states and parameters.

    Parameters
    ----------
    names : sequence of str
        States.
    expressions : sequence of expressions
    values : ndarray, (lanes, N, states)
    width : int
    parameters : sequence of str
        They have the value 0.5, 0.6, ... in all lanes.
    """
    lanes, N, D = values.shape
    tape = write_tape(("t", *names), tuple(parameters), [se.sympify(e) for e in expressions])
    nothing = np.zeros(0, dtype=np.int64)
    model = LaneModel(
        states=tuple(names),
        inputs=(),
        parameters=tuple(parameters),
        free=nothing,
        free_initial=np.arange(D),
        log_states=np.zeros(D, dtype=bool),
        initial=None,
        f=tape,
        values=tape,
        h=write_tape(("t", *names), tuple(parameters), []),
        jumps=(),
        value_row=np.arange(len(expressions)),
        by_state=nothing,
        by_parameter=nothing,
        h_by_state=nothing,
        h_by_parameter=nothing,
        log_noise=np.zeros(1, dtype=np.int64),
    )
    mesh = LaneMesh(np.arange(float(N)), None, np.zeros((0, 3), dtype=np.int64), np.zeros(0), 0)
    passes = LanePasses(model, mesh, None, np.zeros((lanes, 1, 1)), np.zeros((lanes, 1, 1)), width)
    passes.x[...] = to_groups(values, width)
    passes.p = to_groups(np.tile(0.5 + 0.1 * np.arange(len(parameters)), (lanes, 1)), width)
    return passes


T = np.linspace(0, 4, 12)
RAMP = (T, 1 + 0.2 * T, "linear")
STEPS = (np.array([0, 1.1, 2.0, 3.3]), np.array([1.0, 2.0, 0.5, 1.5]), "hold")


def wave(columns: int) -> np.ndarray:
    """Return positive values `(12, columns)`, or `(12,)` for one column; one of them is missing."""
    values = 1 + 0.5 * np.sin(T[:, None] + np.arange(columns))
    values[4, 0] = np.nan
    return values[:, 0] if columns == 1 else values


def measure(*names: str, first: int = 0, **settings) -> wf.Dataset:
    """Return a dataset of waves."""
    return wf.Dataset(T[first:], wave(len(names))[first:], names=list(names), **settings)


SETTINGS = {
    # Every state is measured: gaussian, and log-normal noise with the states as their logarithms.
    "all measured": ("x' = a*x - b*x*y\ny' = b*x*y - c*y^1.5", {}, measure("x", "y"), {}),
    "log states": ("x' = a*x - b*x*y\ny' = b*x*y - c*y*t", {}, measure("x", "y", noise="lognormal"), {"log": ["b"]}),
    "hidden": ("x' = -a*x + b*y\ny' = a*x - (b+c)*y\nC = x/V + s*y^2", {}, measure("C"), {"log": ["a", "V"]}),
    "initial values": (
        "x' = -a*x + b*y\ny' = a*x - (b+c)*y\nx(0) = A0*a\ny(0) = 2",
        *({}, measure("x", first=1), {"fixed": {"c": 0.5}, "log": ["a"]}),
    ),
    "log-normal": (
        "x' = -a*x + b*y\ny' = a*x - b*y\nz' = x - z\nx(0) = A0\ny(0) = 0\nC = x/V",
        *({}, measure("C", "z", noise=["lognormal", "gaussian"]), {}),
    ),
    "inputs": (
        "x' = k*u - b*x*v",
        *({"inputs": ["u", "v"]}, measure("x", inputs={"u": RAMP, "v": STEPS}), {}),
    ),
    "hidden inputs": (
        "x' = k*u - b*x*v + c*y\ny' = -c*y\nC = v*x + u",
        *({"inputs": ["u", "v"]}, measure("C", inputs={"u": RAMP, "v": STEPS}), {"log": ["k"]}),
    ),
    "doses": (
        "A' = -ka*A\nC' = ka*A/V - k*C\nA(0) = 0\nC(0) = 0",
        {},
        measure("C", doses=[wf.Doses("A", [0, 2.0], ["F*10", 5]), wf.Doses("C", [1.3], 2.0)]),
        {"log": ["ka", "F"]},
    ),
    "time": ("x' = a*sin(b*t)*x\nz' = 0\ny' = z*cos(t) + c", {}, measure("x", "y"), {}),
}
"""Equations, settings of the model, data, and settings of the fit, by what is special about them."""


@cache
def get_case(name: str) -> LaneCase:
    """Return a case of `SETTINGS`; in "averages" each sample is an average over three nodes."""
    if name == "averages":
        case = get_case("hidden")
        first = np.arange(0, len(case.mesh.times) - 2, 2)
        # A node at the end of one sample is the first one of the next.
        entries = [(node + j, k, j == 2) for k, node in enumerate(first) for j in range(3)]
        entries.sort()
        weights = np.tile([1 / 6, 4 / 6, 1 / 6], len(first))
        mesh = replace(case.mesh, entries=np.array(entries), entry_weights=weights, samples=len(first))
        return replace(case, mesh=mesh)
    equations, model, data, fit = SETTINGS[name]
    return LaneCase.build(wf.Model.from_text(equations, **model), data, **fit)


CASES = (*SETTINGS, "averages")


def build_problem(case: LaneCase, sigma: np.ndarray | None, spread: np.ndarray) -> LaneProblem:
    """Return the problem of the iteration of a case; σ `(lanes, K)` is estimated if None, spread is `(lanes, K)`."""
    resolved = case.resolved
    free, scale = case.model.free, resolved.scale
    lower, upper = resolved.bounds
    return LaneProblem(
        base=np.where(np.isnan(resolved.fixed_values), 0.0, resolved.fixed_values),
        free=free,
        log=scale.log,
        lower=scale.to_working(lower)[free],
        upper=scale.to_working(upper)[free],
        prior=None if resolved.prior is None else resolved.prior.convert_to_scale(scale),
        sigma=sigma,
        spread=spread,
    )
