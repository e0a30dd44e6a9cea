"""What a fit leaves of noise: the residuals that a right model has.

Parameters and initial values follow the noise as far as they can, and take that part of it out of the residuals. To
first order this is a projection: of white noise ε, over its standard deviation, `ε - T T⁺ ε` is left, T the directions
in which the fitted data can move. It is applied by the linear system of a step and never formed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..linalg.symmetric_matrix import symmetric_inverse
from ..support.array_types import BoolArray, FloatArray
from .bordered_system import Arrow
from .gauss_helmert import Solution
from .mesh import Mesh
from .soft_constraint import Relaxed

Leftover = Callable[[FloatArray], FloatArray]
"""From noise over its standard deviation, `(samples, columns, draws)`, zero where nothing was measured, to what is left
of it; samples of all trajectories one behind the other."""


def of_directions(T: FloatArray) -> Leftover:
    """Where the directions `(samples · columns, fitted)` themselves are at hand."""

    def left(noise: FloatArray) -> FloatArray:
        Q, _ = np.linalg.qr(T)
        flat = noise.reshape(len(T), -1)
        return np.asarray((flat - Q @ (Q.T @ flat)).reshape(noise.shape))

    return left


def of_mesh(mesh: Mesh, solution: Solution, moving: BoolArray) -> Leftover:
    """On a mesh; `moving` `(J,)` are the parameters that may."""

    def left(noise: FloatArray) -> FloatArray:
        v, line = mesh.variances(solution.sigma), mesh.linearise(solution.p, solution.states)
        factor, draws, rows = line.covariance(v), noise.shape[2], line.c.size
        G = factor.whiten(line.G[:, :, moving].reshape(rows, int(moving.sum())))
        size, here = np.sqrt(v[mesh.samples])[:, :, None], np.zeros((*v.shape, draws))
        here[mesh.samples] = noise * size
        white = factor.whiten(line.A.apply(here).reshape(rows, draws))
        theta = np.linalg.pinv(G.T @ G, hermitian=True) @ (G.T @ white)
        z = factor.back(white - G @ theta).reshape(*line.c.shape, draws)
        back = line.A.transposed(z, len(v))[mesh.samples] * size
        return np.where(mesh.measured[mesh.samples, :, None], back, 0.0)

    return left


def of_relaxed(relaxed: Relaxed, arrow: Arrow, H: FloatArray, moving: BoolArray) -> Leftover:
    """Of the linear system at the exact constraint, with the information H; `moving` is among the free parameters."""

    def left(noise: FloatArray) -> FloatArray:
        line, at, draws = arrow.line, relaxed.layout.sampled, noise.shape[2]
        inverse = np.zeros_like(H)
        inverse[np.ix_(moving, moving)] = np.nan_to_num(symmetric_inverse(H[np.ix_(moving, moving)]), posinf=0.0)
        with_p = arrow.solve(arrow.B)
        flat = arrow.B.reshape(-1, arrow.B.shape[3])
        right = np.zeros((arrow.N, 2, arrow.D, draws))
        right[at, 0] = line.R.transpose(0, 2, 1) @ noise
        alone = arrow.solve(right)
        pull = np.einsum("skf,skb->fb", line.P, noise) - flat.T @ alone.reshape(-1, draws)
        dp = inverse @ pull
        X = alone[at, 0] - with_p[at, 0] @ dp
        there = (relaxed.W > 0)[:, :, None]
        return np.where(there, noise - line.R @ X - line.P @ dp, 0.0)

    return left
