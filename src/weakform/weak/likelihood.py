"""The weak likelihood: value, gradient and Hessian, exact, in O(M) for local test functions.

    r = Φ f + Φ' x,        ℓ(p) = ½ [ λ log det S + rᵀ S⁻¹ r + KD log 2π ],        λ = 1

(λ is the weight of the log-determinant; λ = 0 leaves the quadratic form.) With z = S⁻¹r, Q = λS⁻¹ - zzᵀ, and the
adjoint weights α, β of `covariance`, everything about S that the derivatives need is a function of time:

    V_ac = v_c (β_ac + 2 Σ_b α_ab F_bc)          adjoint of F = ∂f/∂x in ½⟨Q, dS⟩
    y = Φᵀz,     w = Aᵀz = Fᵀy + Φ'ᵀz            adjoint of f, and of the data

    ∂_j ℓ  = Σ_m [ V : ∂_jF + y·∂_jf ]
    ∂_ij ℓ = B_iᵀ S⁻¹ B_j - ½λ tr(S⁻¹ ∂_iS S⁻¹ ∂_jS)
           + Σ_m [ V : ∂_ijF + 2 Σ_abc α_ab v_c ∂_iF_ac ∂_jF_bc + y·∂_ijf ]
    B_j    = (∂_jS) z - ∂_j r = Φ [ ∂_jF v w + F q_j - ∂_jf ] + Φ' q_j,      q_j = v ∂_jFᵀ y

(products over states at each time). Nothing of size K²M is done J² times, and only the trace needs ∂_jS itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from ..basis.functions import TestFunctions
from ..linalg.symmetric import NotPositiveDefinite
from ..linalg.threads import single_thread
from ..linalg.tridiagonal import Factor, factorise
from ..model.system import System, Tensor
from ..support.typing import FloatArray
from .covariance import Covariance, Pairs, covariance_weights, derivative_weights

_NEEDED = (("f", "fu"), ("f", "fu", "fp", "fup"), ("f", "fu", "fp", "fup", "fpp", "fupp"))


class Computed(Enum):
    """Whether the likelihood could be computed; the text names the remedy."""

    OK = "ok"
    NOT_FINITE = "the right-hand side or a derivative is not finite at the data; restrict the parameters with bounds"
    NOT_POSITIVE_DEFINITE = (
        "the covariance of the weak residual is not positive definite; use fewer test functions (a larger stride), "
        "a larger radius, or a sigma that is not zero"
    )


@dataclass(frozen=True)
class Evaluation:
    """The likelihood at one point; `value` is `inf` and the derivatives are absent unless the status is OK."""

    value: float
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None
    status: Computed = Computed.OK


LARGE = 128
"""States times parameters above which J products of matrices are too many."""
PROBES = 8


@dataclass(frozen=True)
class WeakForm:
    """One trajectory seen through test functions.

    Parameters
    ----------
    system : System
    times : ndarray, (time,)
    u : ndarray, (time, D)
        States as measured.
    variance : ndarray, (time, D) or (D,)
        Of the noise in working coordinates.
    functions : TestFunctions
    """

    system: System
    times: FloatArray
    u: FloatArray
    variance: FloatArray
    functions: TestFunctions

    @property
    def size(self) -> int:
        """Number of weak residuals, KD."""
        return self.functions.count * self.system.D

    @property
    def large(self) -> bool:
        """Whether matrices of D rows for each of J parameters are too many."""
        return self.system.D * self.system.J > LARGE

    @property
    def variances(self) -> FloatArray:
        """Of the noise, `(D, time)`."""
        return np.broadcast_to(self.variance, self.u.shape).T

    def tensors(self, p: FloatArray, names: tuple[str, ...]) -> dict[str, Tensor]:
        """The right-hand side and its derivatives at the data; the mean of both sides where an input jumps."""
        after = self.system.evaluate(self.times, self.u, p, names)
        if not self.system.jumps:
            return after
        before = self.system.evaluate(self.times, self.u, p, names, before=True)
        return {name: Tensor(t.index, 0.5 * (t.values + before[name].values)) for name, t in after.items()}

    @property
    def x(self) -> FloatArray:
        """The data in working coordinates, `(D, time)`."""
        return self.system.to_working(self.u).T

    def residual(self, f: FloatArray) -> FloatArray:
        """`r = Φ f + Φ' x`, `(B, D, L)`; `f` is `(D, time)`."""
        return self.functions.apply(f) + self.functions.apply(self.x, derivative=True)

    def jacobian(self, fp: Tensor) -> FloatArray:
        """`∂r/∂p`, `(B, b, J)`."""
        D, J = self.system.D, self.system.J
        G = np.zeros((self.functions.blocks, D, self.functions.length, J))
        if fp.index:
            columns = self.functions.apply(fp.values)
            for column, (a, j) in enumerate(fp.index):
                G[:, a, :, j] = columns[:, column]
        return G.reshape(len(G), -1, J)

    @cached_property
    def blocks(self) -> Covariance:
        """The map from weights in time to blocks of S."""
        return Covariance(self.functions, self.system.D)

    def covariance(self, F: Pairs) -> Factor:
        """S, factorised."""
        weights = covariance_weights(F, self.variances)
        parts = [self.blocks.blocks(weights, tile) for tile in self.blocks.tiles()]
        diagonal, lower = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        del parts
        return factorise(diagonal, lower)

    def denoise(self, p: FloatArray) -> FloatArray:
        """The states `(time, D)` less their noise as the model sees it: `x̂ = x - ε̂`, `ε̂ = Σ Aᵀ S⁻¹ r`.

        Of all corrections that make the linearised weak residual zero it is the most probable. Samples at the ends,
        where test functions vanish, are hardly corrected. Raises `NotPositiveDefinite`.
        """
        functions, D = self.functions, self.system.D
        tensors = self.tensors(p, ("f", "fu"))
        F: Pairs = {(a, b): value for (a, b), value in tensors["fu"]}
        r = self.residual(tensors["f"].dense((D,)))
        z = self.covariance(F).solve(r.reshape(len(r), -1, 1)).reshape(functions.blocks, D, functions.length)
        y, w = functions.apply_transposed(z), functions.apply_transposed(z, derivative=True)
        for (a, b), value in F.items():
            w[b] += value * y[a]
        return self.system.from_working((self.x - self.variances * w).T)

    def standardised(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Centres of the test functions `(K,)`, and the weak residuals over their standard deviations `(D, K)`."""
        functions, D = self.functions, self.system.D
        with np.errstate(all="ignore"):
            tensors = self.tensors(p, ("f", "fu"))
            weights = covariance_weights({(a, b): F for (a, b), F in tensors["fu"]}, self.variances)
            parts = [self.blocks.blocks(weights, tile)[0] for tile in self.blocks.tiles()]
            variance = np.concatenate(parts).diagonal(axis1=1, axis2=2).reshape(functions.blocks, D, functions.length)
            scores = self.residual(tensors["f"].dense((D,))) / np.sqrt(variance)
        power = functions.phi**2
        times = np.append(self.times, self.times[-1])[functions.window]
        with np.errstate(invalid="ignore"):
            centres = np.einsum("kln,kn->kl", power, times) / power.sum(axis=2)
        return centres.ravel()[: functions.count], scores.transpose(1, 0, 2).reshape(D, -1)[:, : functions.count]

    def evaluate(self, p: FloatArray, order: int, logdet_weight: float) -> Evaluation:
        """Value, and derivatives up to `order`, of the part of ℓ that belongs to this trajectory."""
        D = self.system.D
        tensors = self.tensors(p, _NEEDED[order])
        if not all(np.isfinite(tensor.values).all() for tensor in tensors.values()):
            return Evaluation(math.inf, status=Computed.NOT_FINITE)
        F: Pairs = {(a, b): value for (a, b), value in tensors["fu"]}
        r = self.residual(tensors["f"].dense((D,)))
        try:
            factor = self.covariance(F)
        except NotPositiveDefinite:
            return Evaluation(math.inf, status=Computed.NOT_POSITIVE_DEFINITE)
        z = factor.solve(r.reshape(len(r), -1, 1))
        quadratic = float(np.vdot(r, z))
        value = 0.5 * (logdet_weight * factor.logdet + quadratic + self.size * math.log(2 * math.pi))
        if not math.isfinite(value):
            return Evaluation(math.inf, status=Computed.NOT_POSITIVE_DEFINITE)
        if order == 0:
            return Evaluation(value)
        return _Derivatives(self, tensors, F, factor, z, logdet_weight).evaluation(value, order)


class _Derivatives:
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
        gradient = self.gradient()
        hessian = self.hessian() if order > 1 else None
        finite = np.isfinite(gradient).all() and (hessian is None or np.isfinite(hessian).all())
        if not finite:
            return Evaluation(math.inf, status=Computed.NOT_FINITE)
        return Evaluation(value, gradient, hessian)

    def gradient(self) -> FloatArray:
        g = np.zeros(self.J)
        for (a, c, j), value in self.tensors["fup"]:
            g[j] += self.V[a, c] @ value
        for (a, j), value in self.tensors["fp"]:
            g[j] += self.y[a] @ value
        return g

    def hessian(self) -> FloatArray:
        H = self._second_derivatives()
        H += _symmetric(self._products_of_first_derivatives())
        B = self.factor.whiten(self._dS_times(self.y, self.w) - self.form.jacobian(self.tensors["fp"]))
        H += np.tensordot(B, B, axes=((0, 1), (0, 1)))
        if self.logdet_weight != 0.0:
            H -= 0.5 * self.logdet_weight * self._traces()
        return H

    def _traces(self) -> FloatArray:
        """`tr(S⁻¹ ∂_iS S⁻¹ ∂_jS)`: exact for small models, else the mean of `zᵀ ∂_iS S⁻¹ ∂_jS z`, z ~ N(0, S⁻¹).

        A probe z averages over all KD residuals, so that few make the Hessian right to a few per cent, which is all
        that a trust region asks of it; they cost J vectors each instead of J matrices. The gradient is exact.
        """
        if not self.form.large:
            assert self.inverse_diagonal is not None
            return _symmetric(self.factor.traces(self.J, self.inverse_diagonal, self._dS()))
        total = np.zeros((self.J, self.J))
        rng = np.random.default_rng(0)
        functions = self.form.functions
        for _ in range(PROBES):
            z = self.factor.unwhiten(rng.choice((-1.0, 1.0), self.z.shape))
            z.reshape(functions.blocks, -1, functions.length)[-1, :, functions.used.stop :] = 0.0
            V = self.factor.whiten(self._dS_times(*self._in_time(z)))
            total += np.tensordot(V, V, axes=((0, 1), (0, 1)))
        return total / PROBES

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


@dataclass(frozen=True)
class WeakLikelihood:
    """The sum of the likelihoods of several trajectories.

    Parameters
    ----------
    forms : tuple of WeakForm
    logdet_weight : float
        λ above.
    """

    forms: tuple[WeakForm, ...]
    logdet_weight: float = 1.0

    @property
    def size(self) -> int:
        """Number of weak residuals of all trajectories."""
        return sum(form.size for form in self.forms)

    def __call__(self, p: FloatArray, order: int = 0) -> Evaluation:
        """Evaluate at `p` `(J,)`: the value for order 0, the gradient too for 1, the Hessian too for 2."""
        p = np.asarray(p, dtype=float)
        with single_thread(), np.errstate(all="ignore"):
            parts = [form.evaluate(p, order, self.logdet_weight) for form in self.forms]
        bad = next((part for part in parts if part.status is not Computed.OK), None)
        if bad is not None:
            return bad
        if len(parts) == 1:
            return parts[0]
        gradients = [part.gradient for part in parts if part.gradient is not None]
        hessians = [part.hessian for part in parts if part.hessian is not None]
        return Evaluation(
            sum(part.value for part in parts),
            np.sum(gradients, axis=0) if gradients else None,
            np.sum(hessians, axis=0) if hessians else None,
        )


def _symmetric(H: FloatArray) -> FloatArray:
    return 0.5 * (H + H.T)
