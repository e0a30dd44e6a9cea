"""The linear system of one step: states and multipliers in a band, parameters as an arrow (see `relaxed`)."""

from __future__ import annotations

import numpy as np

from ..linalg.saddle_point import Saddle
from ..support.array_types import FloatArray, IntArray
from .soft_constraint import Layout, Linear

FEW = 0.5
"""Share of the parameters below which those of a trajectory are solved for on their own."""


class Arrow:
    """The linear system of a step, factorised: X and z interleaved in a band, the parameters as an arrow."""

    def __init__(self, line: Linear, layout: Layout, V: FloatArray, damping: float, size: FloatArray) -> None:
        """Factorise, with states over their `size` `(D,)`; `damping` is that of states of size one."""
        N, D = line.v.shape
        self.N, self.D, self.line, self.layout = N, D, line, layout
        self.scale = np.stack([size, 1.0 / size])[:, :, None]
        ratio = size[None, :] / size[:, None]
        left, right = line.left * ratio, line.right * ratio
        V = np.where(left.any(axis=2) | right.any(axis=2), V / size**2, 1.0)
        H = np.zeros((N, D, D))
        R, Rt = line.R * size, line.R.transpose(0, 2, 1)
        H[layout.sampled] = R.transpose(0, 2, 1) @ R
        diagonal = np.arange(D)
        H[:, diagonal, diagonal] += damping
        H[layout.ahead] = np.eye(D)
        self.g = np.zeros((N, D))
        self.g[layout.sampled] = (Rt @ line.r[:, :, None])[:, :, 0]
        F = line.P.shape[2]
        self.B = np.zeros((N, 2, D, F))
        self.B[layout.sampled, 0] = Rt @ line.P
        self.B[:, 1] = line.G
        self.saddle = Saddle(H, left, right, V)

    def solve(self, right: FloatArray, nodes: slice = slice(None)) -> FloatArray:
        """`K⁻¹ b` for `b` `(N, 2, D, m)`; for the nodes of one trajectory alone, if they are given."""
        return self.saddle.solve(right * self.scale, nodes) * self.scale

    def _parts(self) -> list[tuple[slice, IntArray]] | None:
        """Nodes of each trajectory and the parameters that it has; None where it has most of them.

        Trajectories are coupled by parameters alone, and many have some of their own.
        """
        begins = np.flatnonzero(self.layout.ahead)
        if len(begins) < 2:
            return None
        used = np.logical_or.reduceat((self.B != 0).any(axis=(1, 2)), begins, axis=0)
        if used.mean() > FEW:
            return None
        ends = np.append(begins[1:], self.N)
        return [(slice(a, b), np.flatnonzero(own)) for a, b, own in zip(begins, ends, used, strict=True)]

    def reduced(self, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Without X and z: gradient `(F,)` and Hessian `(F, F)` of p, and what X and z do, free and with p.

        Parameters
        ----------
        v : ndarray, (N, D)
            The constraint.
        """
        F = self.B.shape[3]
        free = np.stack([self.g, v], axis=1)[..., None]
        parts = self._parts()
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
