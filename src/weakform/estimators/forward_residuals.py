"""Forward solutions of each trajectory and their sensitivities, in the coordinates of the data.

Methods that solve the model search over the parameters and over the initial values of each trajectory: the initial
state in working coordinates if all states are measured, else the initial values that are not given, on their natural
scale. In what follows `begin` are these values of one trajectory, `(begins,)`, and k is the number of the trajectory.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..collocation.continuation import Point
from ..collocation.hidden_state_problem import HiddenStateProblem, MeshStates, separate_times
from ..data.matching import collect_inputs
from ..forward.solver import Simulation, simulate
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..weak.weak_problem import WeakProblem
from .estimation_problem import Problem


class ForwardResiduals(Protocol):
    """Trajectories that can be solved from parameters p `(J,)` and initial values.

    Attributes
    ----------
    initial_value_count : int
        Number of fitted initial values of each trajectory.
    data : tuple of ndarray, (time, K)
        The measured columns in the coordinates of the residuals; arbitrary finite values where nothing was measured.
    """

    initial_value_count: int
    data: tuple[FloatArray, ...]

    def solve_states(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Solve trajectory k and return its states at the samples, `(time, D)`; None if that fails."""

    def predict_columns(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return the measured columns of the solution in the coordinates of the residuals, `(time, K)`, or None."""

    def compute_sensitivity(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return the derivatives of the columns by p and the initial values, `(time, K, J + begins)`, or None."""

    def compute_slopes(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray:
        """Return `du/dx` of the columns, `(time, K)`, with x their working coordinates."""

    def solve_on_mesh(self, p: FloatArray, begins: tuple[FloatArray, ...]) -> MeshStates | None:
        """Return all states on a mesh that begins where the trajectories begin; None where that is a sample."""


def build_forward_residuals(problem: Problem, tolerance: float, additive: bool) -> ForwardResiduals:
    """Set up the forward solutions of a problem.

    Parameters
    ----------
    problem : Problem
    tolerance : float
        Relative tolerance of the solver.
    additive : bool
        Whether residuals are plain differences of the columns; otherwise they are in working coordinates.
    """
    if isinstance(problem, HiddenStateProblem):
        return PartlyObservedResiduals(problem, tolerance, additive)
    assert isinstance(problem, WeakProblem)
    return FullyObservedResiduals(problem, tolerance, additive)


class FullyObservedResiduals:
    """Forward solutions of a problem in which every state is measured directly.

    Parameters
    ----------
    problem : WeakProblem
    tolerance : float
        Relative tolerance of the solver.
    additive : bool
        Whether residuals are plain differences of the states; otherwise they are in working coordinates.
    """

    def __init__(self, problem: WeakProblem, tolerance: float, additive: bool) -> None:
        self.model, self.forms, self.tolerance, self.additive = problem.model, problem.forms, tolerance, additive
        self.initial_value_count = len(problem.sigma)
        self.data = tuple(form.u if additive else form.x.T for form in self.forms)

    def _solve_trajectory(
        self, k: int, p: FloatArray, begin: FloatArray, sensitivities: bool = False
    ) -> Simulation | None:
        """Solve trajectory k from its initial state; None if an argument is not finite or the solver fails."""
        form = self.forms[k]
        with np.errstate(over="ignore"):
            u0 = form.system.from_working(begin[None])[0]
        if not (np.isfinite(u0).all() and np.isfinite(p).all()):
            return None
        inputs = form.system.inputs
        solved = simulate(
            self.model.for_trajectory(k),
            p,
            u0,
            form.times,
            inputs=inputs,
            sensitivities=sensitivities,
            rtol=self.tolerance,
        )
        return solved if solved.success else None

    def solve_states(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Solve trajectory k and return its states at the samples, `(time, D)`; None if that fails."""
        solved = self._solve_trajectory(k, p, begin)
        return None if solved is None else solved.states

    def predict_columns(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return the states of the solution in the coordinates of the residuals, `(time, D)`, or None."""
        u = self.solve_states(k, p, begin)
        with np.errstate(all="ignore"):
            return u if u is None or self.additive else self.forms[k].system.to_working(u)

    def compute_sensitivity(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return `∂u/∂(p, x₀)` if residuals are additive, else `∂x/∂(p, x₀)`, `(time, D, J + D)`, or None."""
        system = self.forms[k].system
        solved = self._solve_trajectory(k, p, begin, sensitivities=True)
        if solved is None or solved.by_parameters is None or solved.by_initial is None:
            return None
        # The solver has ∂u/∂u₀; the search is over x₀, and ∂u₀/∂x₀ is the slope at the initial state.
        slope = system.compute_slopes(system.from_working(begin[None]))[0]
        K = np.concatenate([solved.by_parameters, solved.by_initial @ slope], axis=2)
        if not self.additive:
            with np.errstate(all="ignore"):
                K = system.divide_by_slopes(solved.states, K)
        return K if np.isfinite(K).all() else None

    def compute_slopes(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray:
        """Return `du/dx` of the states, `(time, D)`."""
        u = self.solve_states(k, p, begin)
        assert u is not None
        kinds = self.forms[k].system.kinds
        return np.column_stack([kind.numeric_slope(c) for kind, c in zip(kinds, u.T, strict=True)])

    def solve_on_mesh(self, p: FloatArray, begins: tuple[FloatArray, ...]) -> MeshStates | None:
        """Return None: all trajectories begin at their first samples."""
        del p, begins
        return None


class PartlyObservedResiduals:
    """Forward solutions of a problem with hidden states, measured expressions or given initial values.

    Parameters
    ----------
    problem : HiddenStateProblem
    tolerance : float
        Relative tolerance of the solver.
    additive : bool
        Whether residuals are plain differences of the columns; otherwise they are in working coordinates.
    meshes : tuple of ndarray, optional
        Times of the solution for each trajectory; by default its samples, and its beginning if that is earlier.
    """

    def __init__(
        self,
        problem: HiddenStateProblem,
        tolerance: float,
        additive: bool = False,
        meshes: tuple[FloatArray, ...] | None = None,
    ) -> None:
        self.problem, self.tolerance, self.additive = problem, tolerance, additive
        self.given = problem.functions.given_initial
        self.initial_value_count = int((~self.given).sum())
        self.kinds = [KINDS[kind] for kind in problem.data.noise]
        values = problem.working_values if not additive else [q.values for q in problem.data.trajectories]
        # Missing values only have to be finite: their residuals are masked.
        self.data = tuple(np.nan_to_num(x) for x in values)
        begins = [problem.find_initial_time(k) for k in range(len(problem.data.trajectories))]
        self.grids = meshes or tuple(
            np.concatenate([[begin], q.times]) if begin < q.times[0] else q.times
            for begin, q in zip(begins, problem.data.trajectories, strict=True)
        )

    def _select_parameters(self, k: int, p: FloatArray) -> FloatArray:
        """Return the parameters of the model for trajectory k, local ones among them."""
        return self.problem.functions.select_parameters(p, k)

    def _solve_trajectory(
        self, k: int, p: FloatArray, begin: FloatArray, sensitivities: bool = False
    ) -> Simulation | None:
        """Solve trajectory k from its beginning; None if an argument is not finite or the solver fails."""
        own, problem = self._select_parameters(k, p), self.problem
        u0 = self._compute_initial_state(k, p, begin)
        if not (np.isfinite(u0).all() and np.isfinite(own).all()):
            return None
        inputs = collect_inputs(problem.shared, problem.data, k)
        solved = simulate(
            problem.shared.for_trajectory(k),
            own,
            u0,
            separate_times(self.grids[k]),
            inputs=inputs,
            sensitivities=sensitivities,
            rtol=self.tolerance,
        )
        return solved if solved.success else None

    def _compute_initial_state(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray:
        """Return the initial state `(D,)`, before any event or dose at that time."""
        # g depends on the parameters alone, and takes any states.
        u0 = self.problem.functions.g(self.grids[k][:1], np.ones((1, len(self.given))), self._select_parameters(k, p))[
            0
        ]
        u0[~self.given] = begin
        return np.asarray(u0)

    def _linearise_columns(
        self, k: int, p: FloatArray, states: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the columns `(time, K)`, and their derivatives by the states and by the parameters of trajectory k."""
        times = self.problem.data.trajectories[k].times
        inputs = collect_inputs(self.problem.shared, self.problem.data, k)
        return self.problem.functions.h.linearise(
            times, states, self._select_parameters(k, p), None if inputs is None else inputs(times)
        )

    def solve_states(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Solve trajectory k and return its states at the samples, `(time, D)`; None if that fails."""
        solved = self._solve_trajectory(k, p, begin)
        # The solution may begin before the first sample.
        return None if solved is None else solved.states[-len(self.data[k]) :]

    def predict_columns(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return the measured columns in the coordinates of the residuals, `(time, K)`, zero where missing; or None."""
        states = self.solve_states(k, p, begin)
        if states is None:
            return None
        with np.errstate(all="ignore"):
            h = self._linearise_columns(k, p, states)[0]
            x = h if self.additive else np.column_stack([g.to_working(c) for g, c in zip(self.kinds, h.T, strict=True)])
        measured = self.problem.data.trajectories[k].measured
        return np.where(measured, x, 0.0) if np.isfinite(x[measured]).all() else None

    def compute_sensitivity(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray | None:
        """Return the derivatives of the columns by p and the initial values, `(time, K, J + begins)`, or None.

        With the columns h(u, p) and the given initial values g(p), by the chain rule

            dh/dp = ∂h/∂u (∂u/∂p + ∂u/∂u₀ ∂g/∂p) + ∂h/∂p,      dh/du₀ = ∂h/∂u ∂u/∂u₀.
        """
        solved = self._solve_trajectory(k, p, begin, sensitivities=True)
        if solved is None or solved.by_parameters is None or solved.by_initial is None:
            return None
        n, own = len(self.data[k]), self._select_parameters(k, p)
        any_states = np.ones((1, len(self.given)))
        _, _, gp = self.problem.functions.g.linearise(self.grids[k][:1], any_states, own)
        by_p = solved.by_parameters[-n:] + solved.by_initial[-n:] @ np.where(self.given[:, None], gp[0], 0.0)
        h, hu, hp = self._linearise_columns(k, p, solved.states[-n:])
        by_all = self.problem.functions.expand_derivatives(hu @ by_p + hp, p, np.full(n, k))
        K = np.concatenate([by_all, hu @ solved.by_initial[-n:][:, :, ~self.given]], axis=2)
        if not self.additive:
            with np.errstate(all="ignore"):
                K = K / self._compute_column_slopes(h)[:, :, None]
        K = np.where(self.problem.data.trajectories[k].measured[:, :, None], K, 0.0)
        return K if np.isfinite(K).all() else None

    def _compute_column_slopes(self, h: FloatArray) -> FloatArray:
        """Return `du/dx` of columns h `(time, K)`."""
        return np.column_stack([kind.numeric_slope(c) for kind, c in zip(self.kinds, h.T, strict=True)])

    def compute_slopes(self, k: int, p: FloatArray, begin: FloatArray) -> FloatArray:
        """Return `du/dx` of the columns, `(time, K)`."""
        states = self.solve_states(k, p, begin)
        assert states is not None
        return self._compute_column_slopes(self._linearise_columns(k, p, states)[0])

    def solve_on_mesh(self, p: FloatArray, begins: tuple[FloatArray, ...]) -> MeshStates | None:
        """Return the states at the times of the solution; None if a trajectory cannot be solved."""
        parts = []
        for k, begin in enumerate(begins):
            solved = self._solve_trajectory(k, p, begin)
            if solved is None:
                return None
            # The layout of a mesh has a node ahead of each trajectory; like the first node it holds the initial state.
            first = self._compute_initial_state(k, p, begin)[None]
            parts += [first, first, solved.states[1:]]
        return MeshStates(self.grids, Point(p, np.concatenate(parts)))
