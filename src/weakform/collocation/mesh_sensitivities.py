"""Sensitivities of solutions on a mesh to the parameters and the initial values.

Given p and the initial value x₀ of each trajectory, Simpson's rule (`soft_constraint`) has as many equations
`v(p, X) = 0` as there are states on the mesh. At states that need not obey them yet,

    X(p + δp, x₀ + δx₀) ≈ X + s + Y (δp, δx₀),

with s the Newton step to a solution and Y the sensitivities. Both follow from a recursion from node to node with the
blocks of ∂v/∂X:

    right_m Y_{m+1} = -(left_m Y_m + q_m),        q = v for s,   q = ∂v/∂(p, x₀) for Y.

The discretisation is that of the fit; no ODE solver with separate steps is involved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.interval_chain import solve_recursion
from ..support.array_types import FloatArray
from .soft_constraint import RelaxedModel


@dataclass(frozen=True)
class LinearisedSolutions:
    """Linearised solutions near a point, as functions of `n = F + B` numbers.

    These are the F free parameters and the B fitted initial values of the trajectory of each node.

    Attributes
    ----------
    step : ndarray, (N, D)
        Newton step to the solution with the same parameters and initial values.
    states : ndarray, (N, D, n)
        Derivatives of the states.
    residuals : ndarray, (S, K)
        Residuals over σ at the solution, to first order.
    jacobian : ndarray, (S, K, n)
        Derivatives of the residuals.
    """

    step: FloatArray
    states: FloatArray
    residuals: FloatArray
    jacobian: FloatArray


class MeshSensitivities:
    """The recursion for the sensitivities of trajectories on a mesh.

    Parameters
    ----------
    relaxed : RelaxedModel
        The mesh, the data on it and the equations.
    """

    def __init__(self, relaxed: RelaxedModel) -> None:
        self.relaxed = relaxed
        self.ahead = np.flatnonzero(relaxed.layout.ahead)
        self.own = np.flatnonzero(~relaxed.functions.given_initial)
        self.loose = np.flatnonzero(relaxed.layout.last)  # the next node belongs to another trajectory

    def expand_jacobian(self, moving: LinearisedSolutions) -> FloatArray:
        """Expand the Jacobian to the initial values of all trajectories.

        Parameters
        ----------
        moving : LinearisedSolutions
            Its Jacobian `(S, K, F + B)` has only the initial values of the trajectory that each sample belongs to.

        Returns
        -------
        ndarray, (S·K, F + trajectories·B)
        """
        layout, B = self.relaxed.layout, len(self.own)
        S, K, n = moving.jacobian.shape
        F, trajectory = n - B, layout.trajectory[layout.sampled]
        wide = np.zeros((S, K, F + len(self.ahead) * B))
        wide[:, :, :F] = moving.jacobian[:, :, :F]
        for b in range(B):
            wide[np.arange(S), :, F + trajectory * B + b] = moving.jacobian[:, :, F + b]
        return wide.reshape(S * K, -1)

    def linearise_solutions(self, p: FloatArray, X: FloatArray) -> LinearisedSolutions | None:
        """Linearise the solutions at p `(P,)` and X `(N, D)`.

        Returns
        -------
        LinearisedSolutions or None
            None if the recursion is singular or not finite.
        """
        linear = self.relaxed.linearise(p, X)
        N, D, F = linear.G.shape
        B = len(self.own)
        q = np.zeros((N, D, 1 + F + B))
        q[:, :, 0], q[:, :, 1 : 1 + F] = linear.v, linear.G
        # A fitted initial value has no equation: its row is x₀ = const, and x₀ moves with its own number.
        q[np.ix_(self.ahead, self.own)] = 0.0
        q[self.ahead[:, None], self.own, 1 + F + np.arange(B)] = -1.0
        q[self.loose] = 0.0
        right = linear.right.copy()
        right[self.ahead] = right[self.loose] = np.eye(D)
        Y = solve_recursion(linear.left, right, q)
        if Y is None or not np.isfinite(Y).all():
            return None
        at = self.relaxed.layout.sampled
        # dr/d(p, x₀) = R Y + ∂r/∂p.
        observed = linear.R @ Y[at]
        observed[:, :, 1 : 1 + F] += linear.P
        return LinearisedSolutions(Y[:, :, 0], Y[:, :, 1:], linear.r + observed[:, :, 0], observed[:, :, 1:])
