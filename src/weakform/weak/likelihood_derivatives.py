"""Gradient and Hessian of the weak likelihood at one point (see `weak_likelihood` for the formulas)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..linalg.block_tridiagonal import Factor
from ..model.system import Tensor
from ..support.array_types import FloatArray
from .likelihood_evaluation import Evaluation, EvaluationStatus
from .residual_covariance import Pairs, build_derivative_weights

if TYPE_CHECKING:
    from .weak_form import WeakForm


@dataclass(frozen=True)
class TracePolicy:
    """Thresholds that decide whether the traces of the Hessian are exact or estimated by random probes."""

    max_states_times_parameters: int = 128
    """Number of states times number of parameters above which traces are estimated, because J products of matrices with
    D rows per block take too long; `mle` then also starts from weak least squares. By judgement."""

    min_size: int = 600
    """Number of weak residuals at or above which traces are estimated. By judgement."""

    probes: int = 8
    """Number of probes if there are fewer than `min_size` weak residuals. That they change the Hessian by less than 0.7
    of the size of the trace term is tested in tests/weak/test_weak_likelihood.py."""

    probes_if_long: int = 2
    """Number of probes from `min_size` weak residuals on, over which each probe averages. By judgement."""


TRACE_POLICY = TracePolicy()
"""The thresholds in use."""


class LikelihoodDerivatives:
    """Gradient and Hessian at one point, from intermediate results of the value.

    Parameters
    ----------
    form : WeakForm
    tensors : dict of str to Tensor
        The right-hand side and its derivatives at the data.
    F : mapping of (int, int) to ndarray, (time,)
        `∂f_a/∂x_b`.
    factor : Factor
        The covariance S, factorised.
    z : ndarray, (B, b, 1)
        `S⁻¹ r`.
    logdet_weight : float
        The weight λ of the log-determinant.
    """

    def __init__(
        self,
        form: WeakForm,
        tensors: dict[str, Tensor],
        F: Pairs,
        factor: Factor,
        z: FloatArray,
        logdet_weight: float,
    ) -> None:
        self.form, self.tensors, self.F, self.factor = form, tensors, F, factor
        self.logdet_weight = logdet_weight
        self.J = form.system.J
        self.v = form.variances
        self.z = z
        self.y, self.w = self._transpose_to_time(z)
        self.inverse_diagonal, Q, lower = self._compute_adjoint_matrix()
        dF = tensors["fup"]
        # Weights are needed only for the entries of F that depend on a parameter.
        dependent = {(a, c) for a, c, _ in dF.index}
        W_pairs = sorted({(max(a, b), min(a, b)) for a, c in dependent for b, e in F if e == c})
        self.alpha, beta = form.covariance_map.apply_adjoint(Q, lower, W_pairs, sorted(dependent))
        # V_ac = v_c (β_ac + 2 Σ_b α_ab F_bc); α is symmetric and stored for a >= b.
        self.V: dict[tuple[int, int], FloatArray] = {}
        for a, c in dependent:
            inner = beta[a, c].copy()
            for b, e in F:
                if e == c:
                    inner += 2 * self.alpha[max(a, b), min(a, b)] * F[b, c]
            self.V[a, c] = self.v[c] * inner
        self.dF: list[dict[tuple[int, int], FloatArray]] = [{} for _ in range(self.J)]
        for (a, c, j), value in dF:
            self.dF[j][a, c] = value

    def _transpose_to_time(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `y = Φᵀz` and `w = Aᵀz = Fᵀy + Φ'ᵀz`, `(D, time)`, for `z` `(B, b, 1)`."""
        functions = self.form.functions
        blocks = z.reshape(functions.blocks, self.form.system.D, functions.length)
        y, w = functions.apply_transposed(blocks), functions.apply_transposed(blocks, derivative=True)
        for (a, b), value in self.F.items():
            w[b] += value * y[a]
        return y, w

    def _compute_adjoint_matrix(self) -> tuple[FloatArray | None, FloatArray, FloatArray]:
        """Return the diagonal blocks of S⁻¹, and the diagonal and lower blocks of Q = λS⁻¹ - zzᵀ.

        The blocks of S⁻¹ are None for λ = 0. The other blocks of Q are not needed, as S is block tridiagonal.
        """
        z = self.z
        zzT, low = z @ z.transpose(0, 2, 1), z[1:] @ z[:-1].transpose(0, 2, 1)
        if self.logdet_weight == 0.0:
            return None, -zzT, -low
        diagonal, lower = self.factor.compute_inverse_blocks()
        return diagonal, self.logdet_weight * diagonal - zzT, self.logdet_weight * lower - low

    def build_evaluation(self, value: float, order: int) -> Evaluation:
        """Return `value` with its derivatives up to `order`, or the status `NOT_FINITE` if one is not finite."""
        gradient = self.gradient()
        hessian = self.hessian() if order > 1 else None
        finite = np.isfinite(gradient).all() and (hessian is None or np.isfinite(hessian).all())
        if not finite:
            return Evaluation(math.inf, status=EvaluationStatus.NOT_FINITE)
        return Evaluation(value, gradient, hessian)

    def gradient(self) -> FloatArray:
        """Return the gradient `∂_j ℓ`, `(J,)`."""
        g = np.zeros(self.J)
        for (a, c, j), value in self.tensors["fup"]:
            g[j] += self.V[a, c] @ value
        for (a, j), value in self.tensors["fp"]:
            g[j] += self.y[a] @ value
        return g

    def hessian(self) -> FloatArray:
        """Return the Hessian `∂_ij ℓ`, `(J, J)`."""
        H = self._sum_second_derivatives()
        H += _symmetrise(self._sum_derivative_products())
        # B_iᵀ S⁻¹ B_j = (L⁻¹B_i)ᵀ (L⁻¹B_j) with S = L Lᵀ.
        B = self.factor.whiten(self._multiply_by_dS(self.y, self.w) - self.form.jacobian(self.tensors["fp"]))
        H += np.tensordot(B, B, axes=((0, 1), (0, 1)))
        if self.logdet_weight != 0.0:
            H -= 0.5 * self.logdet_weight * self._compute_traces()
        return H

    def _compute_traces(self) -> FloatArray:
        """Return the traces `tr(S⁻¹ ∂_iS S⁻¹ ∂_jS)`, `(J, J)`.

        They are exact for small problems. For large ones they are the mean of `zᵀ ∂_iS S⁻¹ ∂_jS z` over random z with
        mean 0 and covariance S⁻¹ (probes); see `TracePolicy`. A probe averages over all KD residuals, so a few probes
        give a Hessian that is good enough for a trust region. Each probe needs the J vectors ∂_jS z instead of the J
        matrices ∂_jS. The gradient is always exact.
        """
        policy = TRACE_POLICY
        if not self.form.is_large and self.form.size < policy.min_size:
            assert self.inverse_diagonal is not None
            return _symmetrise(self.factor.compute_traces(self.J, self.inverse_diagonal, self._iterate_dS()))
        total = np.zeros((self.J, self.J))
        # The seed is fixed, so that the same parameters always give the same Hessian.
        rng = np.random.default_rng(0)
        functions = self.form.functions
        probes = policy.probes if self.form.size < policy.min_size else policy.probes_if_long
        for _ in range(probes):
            # With random signs e and S = L Lᵀ, z = L⁻ᵀ e has covariance S⁻¹.
            z = self.factor.unwhiten(rng.choice((-1.0, 1.0), self.z.shape))
            # Padding must not contribute, and its functions φ are not zero: only zeros in z cancel them.
            z.reshape(functions.blocks, -1, functions.length)[-1, :, functions.used_functions.stop :] = 0.0
            V = self.factor.whiten(self._multiply_by_dS(*self._transpose_to_time(z)))
            total += np.tensordot(V, V, axes=((0, 1), (0, 1)))
        return total / probes

    def _sum_second_derivatives(self) -> FloatArray:
        """Return `V : ∂_ijF + y·∂_ijf` summed over time, `(J, J)`."""
        H = np.zeros((self.J, self.J))
        # V has every pair (a, c) that occurs: a second derivative of F_ac is nonzero only if a first one is.
        for (a, c, i, j), value in self.tensors["fupp"]:
            H[i, j] += self.V[a, c] @ value
        for (a, i, j), value in self.tensors["fpp"]:
            H[i, j] += self.y[a] @ value
        # Second derivatives by parameters are stored for i <= j only.
        return H + np.triu(H, 1).T

    def _sum_derivative_products(self) -> FloatArray:
        """Return `2 Σ_abc α_ab v_c ∂_iF_ac ∂_jF_bc` summed over time, `(J, J)`, symmetric up to rounding."""
        H = np.zeros((self.J, self.J))
        dF = self.tensors["fup"]
        by_state: dict[int, dict[int, list[int]]] = {}
        for row, (a, c, _) in enumerate(dF.index):
            by_state.setdefault(c, {}).setdefault(a, []).append(row)
        for c, equations in by_state.items():
            for a, rows in equations.items():
                for b, rows_b in equations.items():
                    weight = 2 * self.alpha[max(a, b), min(a, b)] * self.v[c]
                    block = (dF.values[rows] * weight) @ dF.values[rows_b].T
                    columns = [dF.index[k][2] for k in rows_b]
                    H[np.ix_([dF.index[k][2] for k in rows], columns)] += block
        return H

    def _multiply_by_dS(self, y: FloatArray, w: FloatArray) -> FloatArray:
        """Return `(∂_jS) z = Φ [∂_jF v w + F q_j] + Φ' q_j` with `q_j = v ∂_jFᵀ y`, `(B, b, J)`.

        Parameters
        ----------
        y, w : ndarray, (D, time)
            `_transpose_to_time(z)`.
        """
        form, J = self.form, self.J
        D, M = self.v.shape
        inside = np.zeros((J, D, M))
        q = np.zeros((J, D, M))
        vw = self.v * w
        by_state: dict[int, list[tuple[int, FloatArray]]] = {}
        for (a, c), value in self.F.items():
            by_state.setdefault(c, []).append((a, value))
        for j in range(J):
            for (a, c), value in self.dF[j].items():
                inside[j, a] += value * vw[c]
                q[j, c] += value * y[a]
            for c in {c for _, c in self.dF[j]}:
                q[j, c] *= self.v[c]
                for a, value in by_state[c]:
                    inside[j, a] += value * q[j, c]
        # All parameters go through Φ in one call, as J·D series.
        product = form.functions.apply(inside.reshape(J * D, M))
        product += form.functions.apply(q.reshape(J * D, M), derivative=True)
        return product.reshape(len(product), J, -1).transpose(0, 2, 1)

    def _iterate_dS(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """Yield the diagonal and the lower blocks of ∂_jS for consecutive ranges of blocks, each `(J, …, b, b)`."""
        covariance_map = self.form.covariance_map
        weights = [build_derivative_weights(self.F, dF, self.v) for dF in self.dF]
        for tile in covariance_map.iterate_tiles():
            diagonal, lower = zip(
                *(covariance_map.compute_blocks(weights_j, tile) for weights_j in weights), strict=True
            )
            yield np.stack(diagonal), np.stack(lower)


def _symmetrise(H: FloatArray) -> FloatArray:
    """Return the symmetric part of a matrix `(J, J)`."""
    return 0.5 * (H + H.T)
