"""Projection of noise onto the residuals of a fit: the residuals that a correct model has.

Fitted parameters and initial values follow the noise as far as they can and remove that part of it from the residuals.
To first order this is a projection. White noise ε, over its standard deviation, becomes the residuals `ε - T T⁺ ε`,
where the columns of T are the directions in which the fitted data can move. The linear system of a step applies the
projection, which is never formed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..linalg.symmetric_matrix import invert_symmetric
from ..support.array_types import BoolArray, FloatArray
from .bordered_system import BorderedSystem
from .gauss_helmert import Solution
from .mesh import Mesh
from .soft_constraint import RelaxedModel

ResidualProjection = Callable[[FloatArray], FloatArray]
"""Map from noise to the residuals of a fit to it, both over the standard deviation and `(samples, columns, draws)`.

The noise is zero for missing values. Samples of all trajectories are concatenated.
"""


def project_from_directions(T: FloatArray) -> ResidualProjection:
    """Return the projection for known directions T `(samples · columns, fitted)`."""

    def project(noise: FloatArray) -> FloatArray:
        Q, _ = np.linalg.qr(T)
        flat = noise.reshape(len(T), -1)
        return np.asarray((flat - Q @ (Q.T @ flat)).reshape(noise.shape))

    return project


def project_from_mesh(mesh: Mesh, solution: Solution, moving: BoolArray) -> ResidualProjection:
    """Return the projection for a fit of all states on a mesh.

    Parameters
    ----------
    mesh : Mesh
    solution : Solution
        The fit.
    moving : ndarray of bool, (J,)
        Parameters that follow the noise: neither fixed nor at a bound.
    """

    def project(noise: FloatArray) -> FloatArray:
        v, line = mesh.compute_variances(solution.sigma), mesh.linearise(solution.p, solution.states)
        factor, draws, rows = line.factorise_covariance(v), noise.shape[2], line.c.size
        G = factor.whiten(line.G[:, :, moving].reshape(rows, int(moving.sum())))
        size, on_nodes = np.sqrt(v[mesh.samples])[:, :, None], np.zeros((*v.shape, draws))
        on_nodes[mesh.samples] = noise * size
        # A Gauss–Helmert step with ρ = A ε: the residuals are diag(v) Aᵀ z.
        white = factor.whiten(line.A.apply(on_nodes).reshape(rows, draws))
        # The pseudo-inverse leaves directions without information out: they do not follow the noise.
        theta = np.linalg.pinv(G.T @ G, hermitian=True) @ (G.T @ white)
        z = factor.solve_transposed(white - G @ theta).reshape(*line.c.shape, draws)
        back = line.A.apply_transposed(z, len(v))[mesh.samples] * size
        return np.where(mesh.measured[mesh.samples, :, None], back, 0.0)

    return project


def project_from_relaxed(
    relaxed: RelaxedModel, bordered: BorderedSystem, H: FloatArray, moving: BoolArray
) -> ResidualProjection:
    """Return the projection for a fit of the relaxed model at the exact constraint.

    Parameters
    ----------
    relaxed : RelaxedModel
    bordered : BorderedSystem
        The linear system at the fit.
    H : ndarray, (F, F)
        The information about the free parameters.
    moving : ndarray of bool, (F,)
        Free parameters that follow the noise: not at a bound.
    """

    def project(noise: FloatArray) -> FloatArray:
        line, at, draws = bordered.line, relaxed.layout.sampled, noise.shape[2]
        # A parameter that the data do not determine has an infinite variance; it does not follow the noise either.
        inverse = np.zeros_like(H)
        inverse[np.ix_(moving, moving)] = np.nan_to_num(invert_symmetric(H[np.ix_(moving, moving)]), posinf=0.0)
        # The step of a fit whose constraint holds and whose residual is minus the noise (`soft_constraint`).
        with_p = bordered.solve(bordered.B)
        flat = bordered.B.reshape(-1, bordered.B.shape[3])
        right = np.zeros((bordered.N, 2, bordered.D, draws))
        right[at, 0] = line.R.transpose(0, 2, 1) @ noise
        alone = bordered.solve(right)
        pull = np.einsum("skf,skb->fb", line.P, noise) - flat.T @ alone.reshape(-1, draws)
        dp = inverse @ pull
        X = alone[at, 0] - with_p[at, 0] @ dp
        measured = (relaxed.W > 0)[:, :, None]
        return np.where(measured, noise - line.R @ X - line.P @ dp, 0.0)

    return project
