"""One trajectory seen through test functions: its weak residual, covariance and part of the likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..basis.test_functions import TestFunctions
from ..linalg.block_tridiagonal import Factor, factorise
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..model.system import System, Tensor
from ..support.array_types import FloatArray
from .likelihood_derivatives import Derivatives
from .likelihood_evaluation import Computed, Evaluation
from .residual_covariance import Covariance, Pairs, covariance_weights

_NEEDED = (("f", "fu"), ("f", "fu", "fp", "fup"), ("f", "fu", "fp", "fup", "fpp", "fupp"))
LARGE = 128
"""States times parameters above which J products of matrices are too many."""


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

    @cached_property
    def x(self) -> FloatArray:
        """The data in working coordinates, `(D, time)`."""
        return self.system.to_working(self.u).T

    @cached_property
    def left_side(self) -> FloatArray:
        """`Φ' x`, `(B, D, L)`."""
        return self.functions.apply(self.x, derivative=True)

    def residual(self, f: FloatArray) -> FloatArray:
        """`r = Φ f + Φ' x`, `(B, D, L)`; `f` is `(D, time)`."""
        return self.functions.apply(f) + self.left_side

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
        return Derivatives(self, tensors, F, factor, z, logdet_weight).evaluation(value, order)
