"""The linear system of one step: states and multipliers in a band, parameters as its border (see `soft_constraint`)."""

from __future__ import annotations

import numpy as np

from ..linalg.saddle_point import SaddlePointSystem
from ..support.array_types import FloatArray, IntArray
from .soft_constraint import Layout, LinearisedProblem

MAX_SHARE_FOR_SPLIT = 0.5
"""Largest mean share of the parameters that a trajectory may depend on for trajectories to be solved one by one.

Below it each trajectory is solved for its own parameters only, which saves columns of zeros. Above it one solve with
all parameters has less overhead. By judgement.
"""


class BorderedSystem:
    """The factorised linear system of a step: X and z interleaved in a band, the parameters as its border.

    Parameters
    ----------
    line : LinearisedProblem
        Residual and constraint, linearised.
    layout : Layout
    V : ndarray, (N, D)
        Variances of the constraint.
    damping : float
        μ, for states of size one.
    size : ndarray, (D,)
        Size of each state.

    Attributes
    ----------
    g : ndarray, (N, D)
        `Rᵀr` at each node.
    B : ndarray, (N, 2, D, F)
        The border `[RᵀP; G]`: rows of the states, then rows of the constraint.
    """

    def __init__(
        self, line: LinearisedProblem, layout: Layout, V: FloatArray, damping: float, size: FloatArray
    ) -> None:
        """Factorise K with each state divided by its size, so that one damping fits all units."""
        N, D = line.v.shape
        self.N, self.D, self.line, self.layout = N, D, line, layout
        # K⁻¹ = S (S K S)⁻¹ S, with S = size for the states and 1/size for the multipliers.
        self.scale = np.stack([size, 1.0 / size])[:, :, None]
        ratio = size[None, :] / size[:, None]
        left, right = line.left * ratio, line.right * ratio
        # A row without a constraint would leave its multiplier undetermined if its V were zero.
        V = np.where(left.any(axis=2) | right.any(axis=2), V / size**2, 1.0)
        H = np.zeros((N, D, D))
        R, Rt = line.R * size, line.R.transpose(0, 2, 1)
        H[layout.sampled] = R.transpose(0, 2, 1) @ R
        diagonal = np.arange(D)
        H[:, diagonal, diagonal] += damping
        # Neither residual nor constraint depends on the states of an extra node: any regular block keeps their change
        # zero.
        H[layout.ahead] = np.eye(D)
        self.g = np.zeros((N, D))
        self.g[layout.sampled] = (Rt @ line.r[:, :, None])[:, :, 0]
        F = line.P.shape[2]
        self.B = np.zeros((N, 2, D, F))
        self.B[layout.sampled, 0] = Rt @ line.P
        self.B[:, 1] = line.G
        self.saddle = SaddlePointSystem(H, left, right, V)

    def solve(self, right: FloatArray, nodes: slice = slice(None)) -> FloatArray:
        """Compute `K⁻¹ b`.

        Parameters
        ----------
        right : ndarray, (N, 2, D, m)
            b: rows of the states, then rows of the constraint.
        nodes : slice, optional
            The nodes of one trajectory, if b has only these.

        Returns
        -------
        ndarray, (N, 2, D, m)
            States and multipliers.
        """
        return self.saddle.solve(right * self.scale, nodes) * self.scale

    def _split_by_trajectory(self) -> list[tuple[slice, IntArray]] | None:
        """Return the nodes of each trajectory and its parameters; None if splitting does not pay.

        Only parameters couple trajectories, and many trajectories have parameters of their own.
        """
        begins = np.flatnonzero(self.layout.ahead)
        if len(begins) < 2:
            return None
        used = np.logical_or.reduceat((self.B != 0).any(axis=(1, 2)), begins, axis=0)
        if used.mean() > MAX_SHARE_FOR_SPLIT:
            return None
        ends = np.append(begins[1:], self.N)
        return [(slice(a, b), np.flatnonzero(own)) for a, b, own in zip(begins, ends, used, strict=True)]

    def eliminate_states(self, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Eliminate X and z, which leaves a quadratic in the parameters.

        Parameters
        ----------
        v : ndarray, (N, D)
            The constraint.

        Returns
        -------
        gradient : ndarray, (F,)
            `Pᵀr - Bᵀ K⁻¹ (Rᵀr, v)`.
        hessian : ndarray, (F, F)
            `PᵀP - Bᵀ K⁻¹ B`.
        alone : ndarray, (N, 2, D)
            `K⁻¹ (Rᵀr, v)`: minus the change of X and z with p held.
        with_p : ndarray, (N, 2, D, F)
            `K⁻¹ B`: minus the change of X and z with p.
        """
        F = self.B.shape[3]
        free = np.stack([self.g, v], axis=1)[..., None]
        parts = self._split_by_trajectory()
        if parts is None:
            solved = self.solve(np.concatenate([free, self.B], axis=3))
            alone, with_p = solved[..., 0], solved[..., 1:]
        else:
            alone, with_p = self.solve(free)[..., 0], np.zeros_like(self.B)
            for rows, columns in ((rows, columns) for rows, columns in parts if len(columns)):
                with_p[rows, :, :, columns] = self.solve(self.B[rows, :, :, columns], rows)
        flat = self.B.reshape(2 * self.D * self.N, F)
        P, r = self.line.P.reshape(self.line.r.size, F), self.line.r.ravel()
        gradient = P.T @ r - flat.T @ alone.ravel()
        hessian = P.T @ P - flat.T @ with_p.reshape(2 * self.D * self.N, F)
        return gradient, 0.5 * (hessian + hessian.T), alone, with_p
