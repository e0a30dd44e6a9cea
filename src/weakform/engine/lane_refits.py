"""Refits of one fit to many drawn datasets, side by side, from the fitted parameters and states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..parameters.priors import Priors
from ..support.array_types import BoolArray, FloatArray
from .lane_iteration import LaneEnd, LaneProblem, solve_lanes
from .lane_plan import LaneInputs, LaneMesh, LaneModel, build_lane_model, get_weights, place_samples
from .passes import LANES_PER_GROUP, LanePasses, explain_single_obstacle, from_groups, to_groups

LANES_AT_ONCE = 64
"""Refits that run side by side. By judgement: their arrays fit into the cache, and progress is shown after each."""


@dataclass(frozen=True)
class LaneRefits:
    """The problem behind a fit of one trajectory, ready for refits in lanes.

    Attributes
    ----------
    model : LaneModel
    mesh : LaneMesh
        The mesh of the fit.
    inputs : LaneInputs, or None
    problem : LaneProblem
    sigma : ndarray, (K,)
        Held at the estimate.
    weights : ndarray, (S, K)
    start : ndarray, (J,)
        The estimate.
    """

    model: LaneModel
    mesh: LaneMesh
    inputs: LaneInputs | None
    problem: LaneProblem
    sigma: FloatArray
    weights: FloatArray
    start: FloatArray

    @classmethod
    def build(
        cls,
        problem: HiddenStateProblem,
        times: FloatArray,
        complete: bool,
        *,
        p: FloatArray,
        is_free: BoolArray,
        bounds: FloatArray,
    ) -> LaneRefits | None:
        """Build the problem; return None if the engine cannot fit it.

        Parameters
        ----------
        problem : HiddenStateProblem
            With the data and σ of the fit.
        times : ndarray, (nodes,)
            The mesh of the fit.
        complete : bool
            Whether every state is measured.
        p : ndarray, (J,)
            The estimate.
        is_free : ndarray of bool, (J,)
        bounds : ndarray, (J, 2)
        """
        if explain_single_obstacle(problem, int(is_free.sum())):
            return None
        model = build_lane_model(problem, is_free, complete)
        mesh = place_samples(problem, times)
        lanes = LaneProblem(
            base=p,
            free=model.free,
            log=np.zeros(len(p), dtype=bool),
            lower=bounds[model.free, 0],
            upper=bounds[model.free, 1],
            prior=None,
            sigma=problem.sigma[None],
            spread=np.ones((1, model.K)),
        )
        return cls(
            model=model,
            mesh=mesh,
            inputs=LaneInputs.from_problem(problem, mesh),
            problem=lanes,
            sigma=problem.sigma,
            weights=get_weights(problem),
            start=p,
        )

    def solve(
        self, values: FloatArray, states: FloatArray, priors: Sequence[Priors | None]
    ) -> list[tuple[FloatArray, FloatArray] | None]:
        """Fit to drawn datasets.

        Parameters
        ----------
        values : ndarray, (draws, S, K)
            In the coordinates of their noise.
        states : ndarray, (nodes, D)
            The fitted states, in working coordinates.
        priors : sequence of Priors or None, (draws,)

        Returns
        -------
        list
            Parameters `(J,)` and states `(nodes, D)` of each refit; None if it did not converge.
        """
        lanes = len(values)
        sigma = np.tile(self.sigma, (lanes, 1))
        weights = np.tile(self.weights, (lanes, 1, 1))
        data = np.where(weights > 0, values, 0.0)
        passes = LanePasses(self.model, self.mesh, self.inputs, data, weights, LANES_PER_GROUP)
        passes.x[...] = to_groups(np.tile(states, (lanes, 1, 1)), LANES_PER_GROUP)
        prior = priors[0]
        if prior is not None:
            prior = replace(prior, centre=np.array([p.centre for p in priors if p is not None]))
        problem = replace(self.problem, sigma=sigma, spread=np.ones_like(sigma), prior=prior)
        q = np.tile(self.start[self.model.free], (lanes, 1))
        solution = solve_lanes(passes, problem, q, sigma)
        x = from_groups(passes.x, lanes)
        converged = solution.end == LaneEnd.CONVERGED
        return [(solution.p[k], x[k]) if converged[k] else None for k in range(lanes)]
