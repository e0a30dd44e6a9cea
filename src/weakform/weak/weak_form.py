"""The weak form of one trajectory: its weak residual, its covariance, and its part of the likelihood."""

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
from .likelihood_derivatives import TRACE_POLICY, LikelihoodDerivatives
from .likelihood_evaluation import Evaluation, EvaluationStatus
from .residual_covariance import CovarianceMap, Pairs, build_covariance_weights

_TENSORS_BY_ORDER = (("f", "fu"), ("f", "fu", "fp", "fup"), ("f", "fu", "fp", "fup", "fpp", "fupp"))
"""Names of the tensors (see `model.system`) that are needed up to the value, the gradient and the Hessian."""


@dataclass(frozen=True)
class WeakForm:
    """The weak form of one trajectory.

    Parameters
    ----------
    system : System
        The right-hand side in working coordinates.
    times : ndarray, (time,)
    u : ndarray, (time, D)
        States in the units of the data; missing values are filled (see `missing_values`).
    variance : ndarray, (time, D) or (D,)
        Variance of the noise in working coordinates.
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
    def is_large(self) -> bool:
        """True if there are so many states and parameters that the traces of the Hessian are estimated."""
        return TRACE_POLICY.max_states_times_parameters < self.system.D * self.system.J

    @property
    def variances(self) -> FloatArray:
        """Variances of the noise in working coordinates, `(D, time)`."""
        return np.broadcast_to(self.variance, self.u.shape).T

    def evaluate_tensors(self, p: FloatArray, names: tuple[str, ...]) -> dict[str, Tensor]:
        """Evaluate the right-hand side and its derivatives at the data.

        Where an input jumps, they are the mean of the limits from both sides.

        Parameters
        ----------
        p : ndarray, (J,)
        names : tuple of str
            Names of tensors, keys of `model.system.TENSORS`.

        Returns
        -------
        dict of str to Tensor
        """
        after = self.system.evaluate(self.times, self.u, p, names)
        if not self.system.has_jumps:
            return after
        before = self.system.evaluate(self.times, self.u, p, names, before=True)
        return {name: Tensor(t.index, 0.5 * (t.values + before[name].values)) for name, t in after.items()}

    @cached_property
    def x(self) -> FloatArray:
        """The data in working coordinates, `(D, time)`."""
        return self.system.to_working(self.u).T

    @cached_property
    def left_side(self) -> FloatArray:
        """The part `Φ' x` of the residual, which is independent of the parameters, `(B, D, L)`."""
        return self.functions.apply(self.x, derivative=True)

    def residual(self, f: FloatArray) -> FloatArray:
        """Return the weak residual `r = Φ f + Φ' x`, `(B, D, L)`, for a right-hand side `f` `(D, time)`."""
        return self.functions.apply(f) + self.left_side

    def jacobian(self, fp: Tensor) -> FloatArray:
        """Return the Jacobian `∂r/∂p`, `(B, b, J)` with b = DL, from the tensor `∂f/∂p`."""
        D, J = self.system.D, self.system.J
        G = np.zeros((self.functions.blocks, D, self.functions.length, J))
        if fp.index:
            columns = self.functions.apply(fp.values)
            for column, (a, j) in enumerate(fp.index):
                G[:, a, :, j] = columns[:, column]
        return G.reshape(len(G), -1, J)

    @cached_property
    def covariance_map(self) -> CovarianceMap:
        """The map from weights in time to blocks of S."""
        return CovarianceMap(self.functions, self.system.D)

    def factorise_covariance(self, F: Pairs) -> Factor:
        """Compute and factorise the covariance S of the weak residual for `F = ∂f/∂x`.

        Raises
        ------
        NotPositiveDefinite
            If S has no Cholesky factor.
        """
        weights = build_covariance_weights(F, self.variances)
        parts = [self.covariance_map.compute_blocks(weights, tile) for tile in self.covariance_map.iterate_tiles()]
        diagonal, lower = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        del parts  # frees the memory of the tiles before the factorisation
        return factorise(diagonal, lower)

    def denoise(self, p: FloatArray) -> FloatArray:
        """Return the states minus the noise that the model implies: `x̂ = x - ε̂`, `ε̂ = Σ Aᵀ S⁻¹ r`, `A = Φ F + Φ'`.

        Of all corrections that make the linearised weak residual `r - A ε` zero, ε̂ is the most probable. Samples at the
        ends, where test functions vanish, are hardly corrected.

        Parameters
        ----------
        p : ndarray, (J,)

        Returns
        -------
        ndarray, (time, D)
            States in the units of the data.

        Raises
        ------
        NotPositiveDefinite
            If the covariance of the weak residual has no Cholesky factor.
        """
        functions, D = self.functions, self.system.D
        tensors = self.evaluate_tensors(p, ("f", "fu"))
        F: Pairs = {(a, b): value for (a, b), value in tensors["fu"]}
        r = self.residual(tensors["f"].to_dense((D,)))
        z = self.factorise_covariance(F).solve(r.reshape(len(r), -1, 1)).reshape(functions.blocks, D, functions.length)
        # w = Aᵀ z = Fᵀ Φᵀ z + Φ'ᵀ z.
        y, w = functions.apply_transposed(z), functions.apply_transposed(z, derivative=True)
        for (a, b), value in F.items():
            w[b] += value * y[a]
        return self.system.from_working((self.x - self.variances * w).T)

    def standardise(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the standardised weak residuals, and the times to which they belong.

        Parameters
        ----------
        p : ndarray, (J,)

        Returns
        -------
        ndarray, (K,)
            Centres in time of the test functions.
        ndarray, (D, K)
            Weak residuals divided by their standard deviations; not finite if the right-hand side is not.
        """
        functions, D = self.functions, self.system.D
        with np.errstate(all="ignore"):
            tensors = self.evaluate_tensors(p, ("f", "fu"))
            weights = build_covariance_weights({(a, b): F for (a, b), F in tensors["fu"]}, self.variances)
            parts = [
                self.covariance_map.compute_blocks(weights, tile)[0] for tile in self.covariance_map.iterate_tiles()
            ]
            variance = np.concatenate(parts).diagonal(axis1=1, axis2=2).reshape(functions.blocks, D, functions.length)
            scores = self.residual(tensors["f"].to_dense((D,))) / np.sqrt(variance)
        # The centre of a function is the mean of time weighted by φ². The time appended for samples beyond the last one
        # has no weight.
        power = functions.phi**2
        times = np.append(self.times, self.times[-1])[functions.window]
        with np.errstate(invalid="ignore"):
            centres = np.einsum("kln,kn->kl", power, times) / power.sum(axis=2)
        return centres.ravel()[: functions.count], scores.transpose(1, 0, 2).reshape(D, -1)[:, : functions.count]

    def evaluate(self, p: FloatArray, order: int, logdet_weight: float) -> Evaluation:
        """Evaluate the part of the likelihood ℓ that belongs to this trajectory.

        Parameters
        ----------
        p : ndarray, (J,)
        order : int
            0 for the value, 1 for the gradient as well, 2 for the Hessian as well.
        logdet_weight : float
            The weight λ of the log-determinant.

        Returns
        -------
        Evaluation
        """
        D = self.system.D
        tensors = self.evaluate_tensors(p, _TENSORS_BY_ORDER[order])
        if not all(np.isfinite(tensor.values).all() for tensor in tensors.values()):
            return Evaluation(math.inf, status=EvaluationStatus.NOT_FINITE)
        F: Pairs = {(a, b): value for (a, b), value in tensors["fu"]}
        r = self.residual(tensors["f"].to_dense((D,)))
        try:
            factor = self.factorise_covariance(F)
        except NotPositiveDefinite:
            return Evaluation(math.inf, status=EvaluationStatus.NOT_POSITIVE_DEFINITE)
        z = factor.solve(r.reshape(len(r), -1, 1))
        quadratic = float(np.vdot(r, z))
        value = 0.5 * (logdet_weight * factor.logdet + quadratic + self.size * math.log(2 * math.pi))
        if not math.isfinite(value):
            return Evaluation(math.inf, status=EvaluationStatus.NOT_POSITIVE_DEFINITE)
        if order == 0:
            return Evaluation(value)
        return LikelihoodDerivatives(self, tensors, F, factor, z, logdet_weight).build_evaluation(value, order)
