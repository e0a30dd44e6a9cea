"""The weak likelihood: value, gradient and Hessian, exact, in O(M) for local test functions.

    r = Φ f + Φ' x,        ℓ(p) = ½ [ λ log det S + rᵀ S⁻¹ r + KD log 2π ],        λ = 1

(λ is the weight of the log-determinant; λ = 0 leaves the quadratic form.) S = A Σ Aᵀ with A = Φ F + Φ' is the
covariance of r. With z = S⁻¹r, Q = λS⁻¹ - zzᵀ, and the adjoint weights α, β of `residual_covariance`, everything about
S that the derivatives need is a function of time:

    V_ac = v_c (β_ac + 2 Σ_b α_ab F_bc)          adjoint of F = ∂f/∂x in ½⟨Q, dS⟩
    y = Φᵀz,     w = Aᵀz = Fᵀy + Φ'ᵀz            adjoint of f, and of the data

    ∂_j ℓ  = Σ_m [ V : ∂_jF + y·∂_jf ]
    ∂_ij ℓ = B_iᵀ S⁻¹ B_j - ½λ tr(S⁻¹ ∂_iS S⁻¹ ∂_jS)
           + Σ_m [ V : ∂_ijF + 2 Σ_abc α_ab v_c ∂_iF_ac ∂_jF_bc + y·∂_ijf ]
    B_j    = (∂_jS) z - ∂_j r = Φ [ ∂_jF v w + F q_j - ∂_jf ] + Φ' q_j,      q_j = v ∂_jFᵀ y

(products over states at each time). No operation of size K²M is repeated J² times, and only the trace needs ∂_jS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..linalg.blas_threads import use_single_thread
from ..support.array_types import FloatArray
from .likelihood_evaluation import Evaluation, EvaluationStatus
from .weak_form import WeakForm


@dataclass(frozen=True)
class WeakLikelihood:
    """The weak negative log-likelihood ℓ of several trajectories: the sum of their likelihoods.

    Parameters
    ----------
    forms : tuple of WeakForm
        One for each trajectory.
    logdet_weight : float
        The weight λ of the log-determinant: 1 is the paper, 0 leaves the quadratic form.
    """

    forms: tuple[WeakForm, ...]
    logdet_weight: float = 1.0

    @property
    def size(self) -> int:
        """Number of weak residuals of all trajectories."""
        return sum(form.size for form in self.forms)

    def __call__(self, p: FloatArray, order: int = 0) -> Evaluation:
        """Evaluate the likelihood.

        Parameters
        ----------
        p : ndarray, (J,)
        order : int
            0 for the value, 1 for the gradient as well, 2 for the Hessian as well.

        Returns
        -------
        Evaluation
            If a trajectory could not be evaluated, the evaluation of the first such trajectory.
        """
        p = np.asarray(p, dtype=float)
        with use_single_thread(), np.errstate(all="ignore"):
            parts = [form.evaluate(p, order, self.logdet_weight) for form in self.forms]
        failed = next((part for part in parts if part.status is not EvaluationStatus.OK), None)
        if failed is not None:
            return failed
        if len(parts) == 1:
            return parts[0]
        gradients = [part.gradient for part in parts if part.gradient is not None]
        hessians = [part.hessian for part in parts if part.hessian is not None]
        return Evaluation(
            sum(part.value for part in parts),
            np.sum(gradients, axis=0) if gradients else None,
            np.sum(hessians, axis=0) if hessians else None,
        )
