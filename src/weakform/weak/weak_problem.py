"""The weak problem: a model and data as weak residuals, on which every weak-form estimator works."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..basis.test_functions import TestFunctions
from ..data.dataset import Dataset
from ..data.matching import build_system, match_all_states
from ..data.trajectory import Trajectory
from ..linalg.blas_threads import use_single_thread
from ..linalg.block_tridiagonal import Factor
from ..linalg.symmetric_matrix import NotPositiveDefinite, invert_symmetric
from ..model.model import Model
from ..noise.noise_filter import MIN_FILTER_SAMPLES, estimate_sigma, filter_uneven_series
from ..support.array_types import FloatArray
from .batched_forms import FormBatch, batch_forms
from .missing_values import FILLED_VARIANCE_FACTOR, find_distant_entries, interpolate_missing, pool_moments
from .weak_form import WeakForm
from .weak_likelihood import WeakLikelihood

MIN_RELATIVE_EIGENVALUE = 1e-10
"""Eigenvalue of a matrix with unit diagonal below which its direction is treated as carrying no information.

The sandwich covariance has no variance in such a direction, so the variance of the inverse is used. By judgement.
"""


def _estimate_noise_level(data: Dataset, working_states: list[FloatArray]) -> FloatArray:
    """Estimate σ `(D,)` by the noise filter, and by repeated measurements, over all trajectories.

    Parameters
    ----------
    data : Dataset
    working_states : list of ndarray, (time, D)
        The states of each trajectory in working coordinates; NaN where they are missing.
    """
    D = working_states[0].shape[1]
    # σ² is the sum of squares of all trajectories over the sum of their counts.
    squares, counts = np.zeros(D), np.zeros(D)
    for q, x in zip(data.trajectories, working_states, strict=True):
        regular = q.is_evenly_spaced and q.scale is None and len(x) >= MIN_FILTER_SAMPLES
        for d in range(D):
            measured = np.isfinite(x[:, d])
            if regular and measured.all():
                squares[d] += len(x) * float(estimate_sigma(x[:, d : d + 1])[0] ** 2)
                counts[d] += len(x)
            else:
                state_squares, count = filter_uneven_series(q.times[measured], x[measured, d], q.scales[measured, d])
                squares[d] += state_squares
                counts[d] += count
        # Repeated measurements give squares about their means, with fewer degrees of freedom than values.
        if q.within is not None and q.repeats is not None:
            squares += q.within
            counts += q.repeats
    return np.asarray(np.sqrt(squares / np.maximum(counts, 1)))


def _scale_noise_by_trajectory(data: Dataset, working_states: list[FloatArray]) -> Dataset:
    """Return the data with a noise scale for each trajectory: its estimated σ relative to the σ of all data.

    The parameters are those of `_estimate_noise_level`. The scale is 1 for a state without noise.
    """
    shared = _estimate_noise_level(data, working_states)
    parts = []
    for q, x in zip(data.trajectories, working_states, strict=True):
        separate = _estimate_noise_level(data.replace_attributes(trajectories=(q,)), [x])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((separate > 0) & (shared > 0), separate / shared, 1.0)
        parts.append(q.multiply_scales(ratio))
    return data.replace_attributes(trajectories=tuple(parts))


class Basis(Protocol):
    """A family of test functions."""

    def build(self, trajectory: Trajectory) -> TestFunctions:
        """Return the test functions on the samples of a trajectory."""


@dataclass(frozen=True)
class WeakProblem:
    """The weak residuals of all trajectories.

    Attributes
    ----------
    model : Model
    data : Dataset
        The columns of the model's states, in their order.
    forms : tuple of WeakForm
        One for each trajectory.
    sigma : ndarray, (D,)
        Standard deviation of the noise in working coordinates, given or estimated.
    """

    model: Model
    data: Dataset
    forms: tuple[WeakForm, ...]
    sigma: FloatArray

    @classmethod
    def build(cls, model: Model, data: Dataset, basis: Basis) -> WeakProblem:
        """Set up the weak form of each trajectory.

        Test functions are chosen for each trajectory, σ is estimated unless it is given, and missing values are filled.

        Parameters
        ----------
        model : Model
        data : Dataset
            All states of the model must have a column.
        basis : Basis
            The family of test functions.

        Returns
        -------
        WeakProblem
        """
        data = match_all_states(data, model)
        systems = [build_system(model, data, k) for k in range(len(data.trajectories))]
        with np.errstate(all="ignore"):
            working_states = [system.to_working(q.values) for system, q in zip(systems, data.trajectories, strict=True)]
        if data.own_noise and data.sigma is None:
            data = _scale_noise_by_trajectory(data, working_states)
        measured = [np.isfinite(x) for x in working_states]
        filled = [
            interpolate_missing(q.times, x, m)
            for q, x, m in zip(data.trajectories, working_states, measured, strict=True)
        ]
        sigma = _estimate_noise_level(data, working_states) if data.sigma is None else data.sigma.copy()
        scales = [q.scales.copy() for q in data.trajectories]
        centre, spread = pool_moments(filled)
        forms = []
        for k, q in enumerate(data.trajectories):
            present = measured[k]
            # The scale of a missing value need not be finite; the inner `where` keeps it out of the square.
            variance = np.where(present, np.where(present, scales[k], 1.0) ** 2, FILLED_VARIANCE_FACTOR) * sigma**2
            # A state without any value in this trajectory gets its mean over all other trajectories. Far from any
            # measured value the variance is at least that of the state over time.
            unmeasured = ~np.isfinite(filled[k]).any(axis=0)
            filled[k][:, unmeasured] = centre[unmeasured]
            far = ~present & find_distant_entries(q.times, present)
            variance = np.where(far, np.maximum(variance, spread**2), variance)
            if (variance == sigma**2).all():  # one variance for each state, which takes less memory
                variance = sigma**2
            u = systems[k].from_working(filled[k])
            forms.append(WeakForm(systems[k], q.times, u, variance, basis.build(q)))
        return cls(model, data, tuple(forms), sigma)

    @cached_property
    def coarse_problem(self) -> WeakProblem:
        """The problem with fewer test functions, about one radius apart, for a cheap first search."""
        return replace(self, forms=tuple(replace(form, functions=form.functions.sparse_subset) for form in self.forms))

    @cached_property
    def _batches(self) -> tuple[FormBatch, ...]:
        """The forms in batches, so that many short ones are evaluated in one pass."""
        return batch_forms(self.forms)

    def with_weights(self, weights: tuple[FloatArray, ...]) -> WeakProblem:
        """Return the problem with other weights of the data, `(time, D)` for each trajectory.

        The weak forms do not change; the weights are for the refinement that follows.
        """
        return replace(self, data=self.data.replace_weights(weights))

    @property
    def fitted_initial_count(self) -> int:
        """Number of initial values that a fit of forward solutions has to estimate."""
        return len(self.model.states) * len(self.forms)

    @property
    def spread(self) -> FloatArray:
        """Largest standard deviation over time of each state in any trajectory, in working coordinates, `(D,)`."""
        return np.asarray(np.max([form.x.std(axis=1) for form in self.forms], axis=0))

    @property
    def J(self) -> int:
        """Number of parameters."""
        return len(self.model.parameters)

    @property
    def size(self) -> int:
        """Number of weak residuals."""
        return sum(form.size for form in self.forms)

    def likelihood(self, logdet_weight: float = 1.0) -> WeakLikelihood:
        """Return the weak likelihood of all trajectories; `logdet_weight` is its λ."""
        return WeakLikelihood(self.forms, logdet_weight)

    @cached_property
    def state_weights(self) -> FloatArray:
        """Weights `(D,)` that make the residuals of the equations comparable, whatever the units of the states.

        They are 1/σ, or one over the root mean square of `Φ'x` if the data are noise-free. With equal σ this is the
        paper's unweighted least squares.
        """
        if (self.sigma > 0).all():
            return 1.0 / self.sigma
        squares = np.sum([np.sum(form.left_side**2, axis=(0, 2)) for form in self.forms], axis=0)
        return np.asarray(1.0 / np.sqrt(np.maximum(squares / self.size, np.finfo(float).tiny)))

    def compute_left_side_norm(self) -> float:
        """Return the norm of the weighted left side, `‖Φ'x‖`."""
        return math.sqrt(sum(float(np.sum(self._weigh_residual(form.left_side) ** 2)) for form in self.forms))

    def _weigh_residual(self, r: FloatArray) -> FloatArray:
        """Return residuals `(B, D, L)` with those of each state multiplied by its weight; see `state_weights`."""
        return r * self.state_weights[:, None]

    def residual(self, p: FloatArray) -> FloatArray:
        """Return the weighted weak residual at `p` `(J,)`, `(rows,)`; not finite if the right-hand side is not."""
        parts = []
        with use_single_thread(), np.errstate(all="ignore"):
            for form in (batch.form for batch in self._batches):
                f = form.evaluate_tensors(p, ("f",))["f"].to_dense((form.system.D,))
                parts.append(self._weigh_residual(form.residual(f)).ravel())
        return np.concatenate(parts)

    def jacobian(self, p: FloatArray) -> FloatArray:
        """Return the Jacobian of the weighted weak residual at `p` `(J,)`, `(rows, J)`."""
        parts = []
        with use_single_thread(), np.errstate(all="ignore"):
            for form in (batch.form for batch in self._batches):
                G = form.jacobian(form.evaluate_tensors(p, ("fp",))["fp"])
                shape = (len(G), form.system.D, form.functions.length, self.J)
                parts.append((G.reshape(shape) * self.state_weights[:, None, None]).reshape(-1, self.J))
        return np.concatenate(parts)

    def factorise_covariances(self, p: FloatArray) -> list[Factor]:
        """Compute and factorise the covariance S(p) of each batch of trajectories.

        Raises
        ------
        NotPositiveDefinite
            If one of them has no Cholesky factor.
        """
        with use_single_thread(), np.errstate(all="ignore"):
            forms = [batch.form for batch in self._batches]
            return [
                form.factorise_covariance({(a, b): F for (a, b), F in form.evaluate_tensors(p, ("fu",))["fu"]})
                for form in forms
            ]

    def build_whitened_functions(self, factors: list[Factor]) -> tuple[Callable[[FloatArray], FloatArray], ...]:
        """Return functions for the whitened weak residual and its Jacobian, with S = L Lᵀ fixed.

        Parameters
        ----------
        factors : list of Factor
            The factor of S for each batch, from `factorise_covariances`.

        Returns
        -------
        tuple of callables
            Functions of p `(J,)` that return `L⁻¹ r` `(rows,)` and `L⁻¹ ∂r/∂p` `(rows, J)`.
        """

        def residual(p: FloatArray) -> FloatArray:
            parts = []
            with use_single_thread(), np.errstate(all="ignore"):
                for form, factor in zip((batch.form for batch in self._batches), factors, strict=True):
                    r = form.residual(form.evaluate_tensors(p, ("f",))["f"].to_dense((form.system.D,)))
                    parts.append(factor.whiten(r.reshape(len(r), -1, 1)).ravel())
            return np.concatenate(parts)

        def jacobian(p: FloatArray) -> FloatArray:
            parts = []
            with use_single_thread(), np.errstate(all="ignore"):
                for form, factor in zip((batch.form for batch in self._batches), factors, strict=True):
                    G = factor.whiten(form.jacobian(form.evaluate_tensors(p, ("fp",))["fp"]))
                    parts.append(G.reshape(-1, self.J))
            return np.concatenate(parts)

        return residual, jacobian

    def denoise(self, p: FloatArray) -> tuple[FloatArray, ...]:
        """Return the denoised states `(time, D)` of each trajectory at `p` `(J,)`; see `WeakForm.denoise`.

        Raises
        ------
        NotPositiveDefinite
            If the covariance of a weak residual has no Cholesky factor.
        """
        return tuple(states for batch in self._batches for states in batch.denoise(p))

    def denoise_or_keep(self, p: FloatArray) -> tuple[FloatArray, ...]:
        """Return the denoised states `(time, D)` of each trajectory, or the data if denoising is not possible.

        Denoising is not possible if σ is zero, or if the result is not finite.
        """
        try:
            with np.errstate(all="ignore"):
                states = self.denoise(p)
        except NotPositiveDefinite:
            return tuple(form.u for form in self.forms)
        return states if all(np.isfinite(u).all() for u in states) else tuple(form.u for form in self.forms)

    def compute_least_squares_covariance(self, p: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
        """Return the paper's covariance of the estimate, `G⁺ S G⁺ᵀ` with G = ∂r/∂p of the free parameters.

        It is the covariance of (weighted) least squares with known S. With `H = (GᵀG)⁻¹`, it is `H (GᵀSG) H`, and
        `GᵀSG = Σ_m (AᵀG)ᵀ Σ (AᵀG)` is summed over time; S is not formed.

        Parameters
        ----------
        p : ndarray, (J,)
        free : ndarray of bool, (J,)
            The F free parameters.

        Returns
        -------
        ndarray, (F, F)
            The variance of a parameter that no equation depends on is infinite.
        """
        F = int(free.sum())
        gram, middle = np.zeros((F, F)), np.zeros((F, F))
        with use_single_thread(), np.errstate(all="ignore"):
            for form in self.forms:
                functions, D = form.functions, form.system.D
                tensors = form.evaluate_tensors(p, ("fu", "fp"))
                G = form.jacobian(tensors["fp"])[:, :, free].reshape(functions.blocks, D, functions.length, F)
                weighted = G * self.state_weights[:, None, None] ** 2
                gram += G.reshape(-1, F).T @ weighted.reshape(-1, F)
                columns = weighted.transpose(0, 3, 1, 2).reshape(functions.blocks, F * D, functions.length)
                y = functions.apply_transposed(columns).reshape(F, D, -1)
                w = functions.apply_transposed(columns, derivative=True).reshape(F, D, -1)
                # w becomes AᵀG, with A = Φ F + Φ', for one parameter in each row.
                for (a, b), value in tensors["fu"]:
                    w[:, b] += value * y[:, a]
                noise = (w * np.sqrt(form.variances)).reshape(F, -1)
                middle += noise @ noise.T
        # A parameter that no equation depends on has a column of zeros in G.
        informed = gram.diagonal() > np.finfo(float).tiny
        covariance = np.diag(np.where(informed, 0.0, np.inf))
        inside = np.ix_(informed, informed)
        inverse = invert_symmetric(gram[inside])
        uninformed_part = invert_symmetric(gram[inside], MIN_RELATIVE_EIGENVALUE)
        # In a direction without information GᵀSG is zero; the variance there is that of the inverse.
        covariance[inside] = inverse @ middle[inside] @ inverse + uninformed_part
        return covariance
