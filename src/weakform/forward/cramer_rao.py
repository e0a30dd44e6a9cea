"""The Cramér–Rao bound: the smallest covariance that any unbiased estimator of p can have with given samples.

The data inform about p and the initial state through the sensitivities of the forward solution, `K = [∂x/∂p, ∂x/∂u₀]/σ`
in working coordinates; the bound is the p-block of `(KᵀK)⁻¹`, with columns scaled before inversion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..linalg.symmetric_matrix import invert_symmetric
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..support.errors import DataError
from .solver import simulate

BOUND_EVALUATIONS = 20_000_000
"""Budget of evaluations of the forward solution behind a bound, far above the default of `simulate`: a bound is
computed once, and without it a study has no reference. By judgement."""


def compute_cramer_rao_bound(
    model: Model,
    p: ArrayLike,
    initial: ArrayLike,
    times: ArrayLike,
    noise: Sequence[str],
    sigma: ArrayLike,
    *,
    begin: float | None = None,
    known_initial: bool = False,
) -> FloatArray:
    """Compute the Cramér–Rao bound on the covariance of the parameters.

    Parameters
    ----------
    model : Model
    p : array_like, (J,)
        True parameters.
    initial : array_like, (D,)
        True state at the time `begin`.
    times : array_like, (time,)
        Times of the samples.
    noise : sequence of str, (D,)
        Kind of noise of each state.
    sigma : array_like, (D,) or (time, D)
        Standard deviation of the noise in working coordinates.
    begin : float, optional
        Time of the initial state; the first sample by default.
    known_initial : bool
        Whether the initial state is known, so that only the parameters are uncertain.

    Returns
    -------
    ndarray, (J, J)
        Infinite variances for parameters without any effect on the samples.

    Raises
    ------
    DataError
        If the model cannot be solved.
    """
    samples = np.asarray(times, dtype=float)
    first = float(samples[0]) if begin is None else float(begin)
    grid = samples if first == samples[0] else np.concatenate([[first], samples])
    solved = simulate(model, p, initial, grid, sensitivities=True, max_evaluations=BOUND_EVALUATIONS)
    if not solved.success or solved.by_parameters is None or solved.by_initial is None:
        raise DataError(f"The Cramér–Rao bound needs a solution of the model, which failed: {solved.status.value}.")
    # (time, D, J + D); the first row is left out again if it is not a sample.
    K = np.concatenate([solved.by_parameters, solved.by_initial], axis=2)[-len(samples) :]
    states = solved.states[-len(samples) :]
    levels = np.broadcast_to(np.asarray(sigma, dtype=float), states.shape)
    columns = zip(noise, states.T, levels.T, strict=True)
    scale = np.column_stack([KINDS[kind].compute_uncertainty(u, level) for kind, u, level in columns])
    J = len(model.parameters)
    # Values have independent noise: each is one row, and the information is the sum over all rows.
    K = (K / scale[:, :, None]).reshape(-1, K.shape[2])[:, : J if known_initial else None]
    return invert_symmetric(K.T @ K)[:J, :J]
