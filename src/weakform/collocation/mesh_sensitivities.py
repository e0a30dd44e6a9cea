"""Solutions on a mesh, linearised: how they move with the parameters and with where they begin.

Simpson's rule (`relaxed`) leaves as many equations `v(p, X) = 0` as there are states on the mesh, once p and the
beginning x₀ of each trajectory are known. At states that need not obey them yet,

    X(p + δp, x₀ + δx₀) ≈ X + s + Y (δp, δx₀),

with s the Newton step to a solution and Y the sensitivities, by a recursion from node to node with the blocks of ∂v/∂X:

    right_m Y_{m+1} = -(left_m Y_m + q_m),        q = v for s,   q = ∂v/∂(p, x₀) for Y.

It is the rule of the fit: no solver with steps of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.interval_chain import march
from ..support.array_types import FloatArray
from .soft_constraint import Relaxed


@dataclass(frozen=True)
class Moving:
    """Solutions near a point, `n = F + B` numbers to move them: free parameters, then own initial values.

    Attributes
    ----------
    step : ndarray, (N, D)
        To a solution with the same parameters and beginnings.
    states : ndarray, (N, D, n)
        Derivatives of the states.
    residuals : ndarray, (S, K)
        Over σ, at the solution.
    jacobian : ndarray, (S, K, n)
        Derivatives of these.
    """

    step: FloatArray
    states: FloatArray
    residuals: FloatArray
    jacobian: FloatArray


class Meshed:
    """Trajectories on a mesh.

    Parameters
    ----------
    relaxed : Relaxed
    """

    def __init__(self, relaxed: Relaxed) -> None:
        self.relaxed = relaxed
        self.ahead = np.flatnonzero(relaxed.layout.ahead)
        self.own = np.flatnonzero(~relaxed.functions.given)
        self.loose = np.flatnonzero(relaxed.layout.last)  # what comes next belongs to another trajectory

    def spread(self, moving: Moving) -> FloatArray:
        """The Jacobian `(S·K, F + trajectories·B)`, with the initial values of all trajectories."""
        layout, B = self.relaxed.layout, len(self.own)
        S, K, n = moving.jacobian.shape
        F, trajectory = n - B, layout.trajectory[layout.sampled]
        wide = np.zeros((S, K, F + len(self.ahead) * B))
        wide[:, :, :F] = moving.jacobian[:, :, :F]
        for b in range(B):
            wide[np.arange(S), :, F + trajectory * B + b] = moving.jacobian[:, :, F + b]
        return wide.reshape(S * K, -1)

    def moving(self, p: FloatArray, X: FloatArray) -> Moving | None:
        """Linearised at parameters and states `(N, D)`; None where that is not possible."""
        linear = self.relaxed.linearise(p, X)
        N, D, F = linear.G.shape
        B = len(self.own)
        q = np.zeros((N, D, 1 + F + B))
        q[:, :, 0], q[:, :, 1 : 1 + F] = linear.v, linear.G
        # Initial values that are not given are as they are, and move on their own.
        q[np.ix_(self.ahead, self.own)] = 0.0
        q[self.ahead[:, None], self.own, 1 + F + np.arange(B)] = -1.0
        q[self.loose] = 0.0
        right = linear.right.copy()
        right[self.ahead] = right[self.loose] = np.eye(D)
        Y = march(linear.left, right, q)
        if Y is None or not np.isfinite(Y).all():
            return None
        at = self.relaxed.layout.sampled
        seen = linear.R @ Y[at]
        seen[:, :, 1 : 1 + F] += linear.P
        return Moving(Y[:, :, 0], Y[:, :, 1:], linear.r + seen[:, :, 0], seen[:, :, 1:])
