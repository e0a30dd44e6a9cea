"""Gradient and Hessian of the weak likelihood at one point (see `likelihood` for the formulas)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..linalg.block_tridiagonal import Factor
from ..model.system import Tensor
from ..support.array_types import FloatArray
from .likelihood_evaluation import Computed, Evaluation
from .residual_covariance import Pairs, derivative_weights

if TYPE_CHECKING:
    from .weak_form import WeakForm

MANY = 600
"""Weak residuals from which on traces are estimated by random vectors."""
PROBES, FEW_PROBES = 8, 2
"""Random vectors: where there are few weak residuals, and where there are many to average over."""


class Derivatives:
    """Gradient and Hessian at one point, from what the value has computed."""

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
        self.y, self.w = self._in_time(z)
        self.inverse_diagonal, Q, lower = self._q()
        dF = tensors["fup"]
        # Weights are needed only where F depends on a parameter.
        moving = {(a, c) for a, c, _ in dF.index}
        pairs_W = sorted({(max(a, b), min(a, b)) for a, c in moving for b, e in F if e == c})
        self.alpha, beta = form.blocks.adjoint(Q, lower, pairs_W, sorted(moving))
        self.V: dict[tuple[int, int], FloatArray] = {}
        for a, c in moving:
            inner = beta[a, c].copy()
            for b, e in F:
                if e == c:
                    inner += 2 * self.alpha[max(a, b), min(a, b)] * F[b, c]
            self.V[a, c] = self.v[c] * inner
        self.dF: list[dict[tuple[int, int], FloatArray]] = [{} for _ in range(self.J)]
        for (a, c, j), value in dF:
            self.dF[j][a, c] = value

    def _in_time(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`Φᵀz` and `Aᵀz`, `(D, time)`, of `z` `(B, b, 1)`."""
        functions = self.form.functions
        blocks = z.reshape(functions.blocks, self.form.system.D, functions.length)
        y, w = functions.apply_transposed(blocks), functions.apply_transposed(blocks, derivative=True)
        for (a, b), value in self.F.items():
            w[b] += value * y[a]
        return y, w

    def _q(self) -> tuple[FloatArray | None, FloatArray, FloatArray]:
        """The diagonal of S⁻¹, and the tridiagonal part of Q = λS⁻¹ - zzᵀ."""
        z = self.z
        zzT, low = z @ z.transpose(0, 2, 1), z[1:] @ z[:-1].transpose(0, 2, 1)
        if self.logdet_weight == 0.0:
            return None, -zzT, -low
        diagonal, lower = self.factor.inverse()
        return diagonal, self.logdet_weight * diagonal - zzT, self.logdet_weight * lower - low

    def evaluation(self, value: float, order: int) -> Evaluation:
        """The value with its derivatives up to `order`."""
        gradient = self.gradient()
        hessian = self.hessian() if order > 1 else None
        finite = np.isfinite(gradient).all() and (hessian is None or np.isfinite(hessian).all())
        if not finite:
            return Evaluation(math.inf, status=Computed.NOT_FINITE)
        return Evaluation(value, gradient, hessian)

    def gradient(self) -> FloatArray:
        """`∂_j ℓ`, `(J,)`."""
        g = np.zeros(self.J)
        for (a, c, j), value in self.tensors["fup"]:
            g[j] += self.V[a, c] @ value
        for (a, j), value in self.tensors["fp"]:
            g[j] += self.y[a] @ value
        return g

    def hessian(self) -> FloatArray:
        """`∂_ij ℓ`, `(J, J)`."""
        H = self._second_derivatives()
        H += _symmetric(self._products_of_first_derivatives())
        B = self.factor.whiten(self._dS_times(self.y, self.w) - self.form.jacobian(self.tensors["fp"]))
        H += np.tensordot(B, B, axes=((0, 1), (0, 1)))
        if self.logdet_weight != 0.0:
            H -= 0.5 * self.logdet_weight * self._traces()
        return H

    def _traces(self) -> FloatArray:
        """`tr(S⁻¹ ∂_iS S⁻¹ ∂_jS)`: exact for small problems, else the mean of `zᵀ ∂_iS S⁻¹ ∂_jS z`, z ~ N(0, S⁻¹).

        A probe z averages over all KD residuals, so that few make the Hessian right to a few per cent, which is all
        that a trust region asks of it; they cost J vectors each instead of J matrices. The gradient is exact.
        """
        if not self.form.large and self.form.size < MANY:
            assert self.inverse_diagonal is not None
            return _symmetric(self.factor.traces(self.J, self.inverse_diagonal, self._dS()))
        total = np.zeros((self.J, self.J))
        rng = np.random.default_rng(0)
        functions = self.form.functions
        probes = PROBES if self.form.size < MANY else FEW_PROBES
        for _ in range(probes):
            z = self.factor.unwhiten(rng.choice((-1.0, 1.0), self.z.shape))
            z.reshape(functions.blocks, -1, functions.length)[-1, :, functions.used.stop :] = 0.0
            V = self.factor.whiten(self._dS_times(*self._in_time(z)))
            total += np.tensordot(V, V, axes=((0, 1), (0, 1)))
        return total / probes

    def _second_derivatives(self) -> FloatArray:
        """`V : ∂_ijF + y·∂_ijf`, summed over time."""
        H = np.zeros((self.J, self.J))
        for (a, c, i, j), value in self.tensors["fupp"]:
            H[i, j] += self.V[a, c] @ value if (a, c) in self.V else 0.0
        for (a, i, j), value in self.tensors["fpp"]:
            H[i, j] += self.y[a] @ value
        return H + np.triu(H, 1).T

    def _products_of_first_derivatives(self) -> FloatArray:
        """`2 Σ_abc α_ab v_c ∂_iF_ac ∂_jF_bc`, summed over time."""
        H = np.zeros((self.J, self.J))
        dF = self.tensors["fup"]
        by_state: dict[int, dict[int, list[int]]] = {}
        for row, (a, c, _) in enumerate(dF.index):
            by_state.setdefault(c, {}).setdefault(a, []).append(row)
        for c, equations in by_state.items():
            for a, rows in equations.items():
                for b, others in equations.items():
                    weight = 2 * self.alpha[max(a, b), min(a, b)] * self.v[c]
                    block = (dF.values[rows] * weight) @ dF.values[others].T
                    columns = [dF.index[k][2] for k in others]
                    H[np.ix_([dF.index[k][2] for k in rows], columns)] += block
        return H

    def _dS_times(self, y: FloatArray, w: FloatArray) -> FloatArray:
        """`(∂_jS) z`, `(B, b, J)`, for `y, w = _in_time(z)`."""
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
        product = form.functions.apply(inside.reshape(J * D, M))
        product += form.functions.apply(q.reshape(J * D, M), derivative=True)
        return product.reshape(len(product), J, -1).transpose(0, 2, 1)

    def _dS(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        """∂_jS for consecutive ranges of blocks, each `(J, …, b, b)`."""
        blocks = self.form.blocks
        weights = [derivative_weights(self.F, dF, self.v) for dF in self.dF]
        for tile in blocks.tiles():
            diagonal, lower = zip(*(blocks.blocks(each, tile) for each in weights), strict=True)
            yield np.stack(diagonal), np.stack(lower)


def _symmetric(H: FloatArray) -> FloatArray:
    return 0.5 * (H + H.T)
