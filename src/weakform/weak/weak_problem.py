"""A model and data made into weak residuals: what every weak-form estimator works on."""

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
from ..data.matching import for_model, system_of
from ..data.trajectory import Trajectory
from ..linalg.blas_threads import single_thread
from ..linalg.block_tridiagonal import Factor
from ..linalg.symmetric_matrix import NotPositiveDefinite, symmetric_inverse
from ..model.model import Model
from ..noise.noise_filter import SHORTEST, estimate_sigma, uneven_squares
from ..support.array_types import FloatArray
from .batched_forms import Together, joined
from .missing_values import FILLED, distant, interpolate, pooled
from .weak_form import WeakForm
from .weak_likelihood import WeakLikelihood


def _noise_level(data: Dataset, works: list[FloatArray]) -> FloatArray:
    """σ `(D,)` by the filter, over all trajectories; from repeated measurements too."""
    D = works[0].shape[1]
    squares, counts = np.zeros(D), np.zeros(D)
    for q, x in zip(data.trajectories, works, strict=True):
        whole = q.even and q.scale is None and len(x) >= SHORTEST
        for d in range(D):
            there = np.isfinite(x[:, d])
            if whole and there.all():
                squares[d] += len(x) * float(estimate_sigma(x[:, d : d + 1])[0] ** 2)
                counts[d] += len(x)
            else:
                more, count = uneven_squares(q.times[there], x[there, d], q.scales[there, d])
                squares[d] += more
                counts[d] += count
        if q.within is not None and q.repeats is not None:
            squares += q.within
            counts += q.repeats
    return np.asarray(np.sqrt(squares / np.maximum(counts, 1)))


def _own_noise(data: Dataset, works: list[FloatArray]) -> Dataset:
    """The data with a scale for each trajectory: its noise by the filter, relative to that of all."""
    shared = _noise_level(data, works)
    parts = []
    for q, x in zip(data.trajectories, works, strict=True):
        own = _noise_level(data.replaced(trajectories=(q,)), [x])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where((own > 0) & (shared > 0), own / shared, 1.0)
        parts.append(q.rescaled(ratio))
    return data.replaced(trajectories=tuple(parts))


FLAT = 1e-10
"""An eigenvalue below it is a direction without information."""


class Basis(Protocol):
    """A family of test functions."""

    def build(self, trajectory: Trajectory) -> TestFunctions:
        """The test functions on the grid of a trajectory."""


@dataclass(frozen=True)
class WeakProblem:
    """Weak residuals of all trajectories.

    Attributes
    ----------
    model : Model
    data : Dataset
        With the columns of the model's states, in their order.
    forms : tuple of WeakForm, one for each trajectory
    sigma : ndarray, (D,)
        Standard deviation of the noise in working coordinates, given or estimated.
    """

    model: Model
    data: Dataset
    forms: tuple[WeakForm, ...]
    sigma: FloatArray

    @classmethod
    def build(cls, model: Model, data: Dataset, basis: Basis) -> WeakProblem:
        """Choose test functions for each trajectory, estimate σ unless it is given, and fill what was not measured."""
        data = for_model(data, model)
        systems = [system_of(model, data, k) for k in range(len(data.trajectories))]
        with np.errstate(all="ignore"):
            works = [system.to_working(q.values) for system, q in zip(systems, data.trajectories, strict=True)]
        if data.own_noise and data.sigma is None:
            data = _own_noise(data, works)
        measured = [np.isfinite(x) for x in works]
        filled = [interpolate(q.times, x, m) for q, x, m in zip(data.trajectories, works, measured, strict=True)]
        sigma = _noise_level(data, works) if data.sigma is None else data.sigma.copy()
        scales = [q.scales.copy() for q in data.trajectories]
        centre, varies = pooled(filled)
        forms = []
        for k, q in enumerate(data.trajectories):
            there = measured[k]
            variance = np.where(there, np.where(measured[k], scales[k], 1.0) ** 2, FILLED) * sigma**2
            # Far from any measured value a state is as uncertain as it varies; where there is none in this trajectory
            # it stands at its mean in the others.
            lacking = ~np.isfinite(filled[k]).any(axis=0)
            filled[k][:, lacking] = centre[lacking]
            far = ~there & distant(q.times, measured[k])
            variance = np.where(far, np.maximum(variance, varies**2), variance)
            if (variance == sigma**2).all():
                variance = sigma**2
            u = systems[k].from_working(filled[k])
            forms.append(WeakForm(systems[k], q.times, u, variance, basis.build(q)))
        return cls(model, data, tuple(forms), sigma)

    @cached_property
    def coarse(self) -> WeakProblem:
        """The same seen through few test functions, one radius apart."""
        return replace(self, forms=tuple(replace(form, functions=form.functions.thinned) for form in self.forms))

    @cached_property
    def _joined(self) -> tuple[Together, ...]:
        """The forms, many short ones as one."""
        return joined(self.forms)

    def reweighed(self, weights: tuple[FloatArray, ...]) -> WeakProblem:
        """The same with other weights `(time, D)` of the values, for what comes after the weak form."""
        return replace(self, data=self.data.reweighed(weights))

    @property
    def beginnings(self) -> int:
        """Initial values that a forward solution would have to fit."""
        return len(self.model.states) * len(self.forms)

    @property
    def spread(self) -> FloatArray:
        """How much each column varies, in working coordinates, `(D,)`: the most of any trajectory."""
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
        """The weak likelihood of all trajectories."""
        return WeakLikelihood(self.forms, logdet_weight)

    @cached_property
    def weights(self) -> FloatArray:
        """Weights `(D,)` that make the residuals of the equations comparable, whatever the units of the states.

        One over σ; where the data are noise-free, one over the root mean square of `Φ'x`. With equal σ this is the
        paper's unweighted least squares.
        """
        if (self.sigma > 0).all():
            return 1.0 / self.sigma
        squares = np.sum([np.sum(form.left_side**2, axis=(0, 2)) for form in self.forms], axis=0)
        return np.asarray(1.0 / np.sqrt(np.maximum(squares / self.size, np.finfo(float).tiny)))

    def left_side_norm(self) -> float:
        """`‖Φ'x‖`, weighted."""
        return math.sqrt(sum(float(np.sum(self._weighted(form.left_side) ** 2)) for form in self.forms))

    def _weighted(self, r: FloatArray) -> FloatArray:
        return r * self.weights[:, None]

    def residual(self, p: FloatArray) -> FloatArray:
        """The weighted weak residual, `(rows,)`; not finite where the right-hand side is not."""
        parts = []
        with single_thread(), np.errstate(all="ignore"):
            for form in (group.form for group in self._joined):
                f = form.tensors(p, ("f",))["f"].dense((form.system.D,))
                parts.append(self._weighted(form.residual(f)).ravel())
        return np.concatenate(parts)

    def jacobian(self, p: FloatArray) -> FloatArray:
        """`∂/∂p` of the weighted weak residual, `(rows, J)`."""
        parts = []
        with single_thread(), np.errstate(all="ignore"):
            for form in (group.form for group in self._joined):
                G = form.jacobian(form.tensors(p, ("fp",))["fp"])
                shape = (len(G), form.system.D, form.functions.length, self.J)
                parts.append((G.reshape(shape) * self.weights[:, None, None]).reshape(-1, self.J))
        return np.concatenate(parts)

    def factors(self, p: FloatArray) -> list[Factor]:
        """S(p) of the trajectories, factorised; raises `NotPositiveDefinite`."""
        with single_thread(), np.errstate(all="ignore"):
            forms = [group.form for group in self._joined]
            return [form.covariance({(a, b): F for (a, b), F in form.tensors(p, ("fu",))["fu"]}) for form in forms]

    def whitened(self, factors: list[Factor]) -> tuple[Callable[[FloatArray], FloatArray], ...]:
        """Functions of p: `L⁻¹ r` `(rows,)` and `L⁻¹ ∂r/∂p` `(rows, J)`, with S = L Lᵀ fixed."""

        def residual(p: FloatArray) -> FloatArray:
            parts = []
            with single_thread(), np.errstate(all="ignore"):
                for form, factor in zip((group.form for group in self._joined), factors, strict=True):
                    r = form.residual(form.tensors(p, ("f",))["f"].dense((form.system.D,)))
                    parts.append(factor.whiten(r.reshape(len(r), -1, 1)).ravel())
            return np.concatenate(parts)

        def jacobian(p: FloatArray) -> FloatArray:
            parts = []
            with single_thread(), np.errstate(all="ignore"):
                for form, factor in zip((group.form for group in self._joined), factors, strict=True):
                    G = factor.whiten(form.jacobian(form.tensors(p, ("fp",))["fp"]))
                    parts.append(G.reshape(-1, self.J))
            return np.concatenate(parts)

        return residual, jacobian

    def denoise(self, p: FloatArray) -> tuple[FloatArray, ...]:
        """The denoised states `(time, D)`; raises `NotPositiveDefinite`."""
        return tuple(states for group in self._joined for states in group.denoise(p))

    def denoised(self, p: FloatArray) -> tuple[FloatArray, ...]:
        """The denoised states `(time, D)`; the data themselves where there is no noise to remove or no way to tell."""
        try:
            with np.errstate(all="ignore"):
                states = self.denoise(p)
        except NotPositiveDefinite:
            return tuple(form.u for form in self.forms)
        return states if all(np.isfinite(u).all() for u in states) else tuple(form.u for form in self.forms)

    def least_squares_covariance(self, p: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
        """The paper's covariance of the estimate, `G⁺ S G⁺ᵀ` with G = ∂r/∂p of the free parameters, `(F, F)`.

        It is the covariance of (weighted) least squares with known S. With `H = (GᵀG)⁻¹`, it is `H (GᵀSG) H`, and
        `GᵀSG = Σ_m (AᵀG)ᵀ Σ (AᵀG)` is summed over time; S is not formed.
        """
        F = int(free.sum())
        gram, middle = np.zeros((F, F)), np.zeros((F, F))
        with single_thread(), np.errstate(all="ignore"):
            for form in self.forms:
                functions, D = form.functions, form.system.D
                tensors = form.tensors(p, ("fu", "fp"))
                G = form.jacobian(tensors["fp"])[:, :, free].reshape(functions.blocks, D, functions.length, F)
                weighted = G * self.weights[:, None, None] ** 2
                gram += G.reshape(-1, F).T @ weighted.reshape(-1, F)
                columns = weighted.transpose(0, 3, 1, 2).reshape(functions.blocks, F * D, functions.length)
                y = functions.apply_transposed(columns).reshape(F, D, -1)
                w = functions.apply_transposed(columns, derivative=True).reshape(F, D, -1)
                for (a, b), value in tensors["fu"]:
                    w[:, b] += value * y[:, a]
                noise = (w * np.sqrt(form.variances)).reshape(F, -1)
                middle += noise @ noise.T
        some = gram.diagonal() > np.finfo(float).tiny
        covariance = np.diag(np.where(some, 0.0, np.inf))
        inside = np.ix_(some, some)
        inverse, unknown = symmetric_inverse(gram[inside]), symmetric_inverse(gram[inside], FLAT)
        # In a direction without information the product is 0 · 0; its variance is what the inverse says.
        covariance[inside] = inverse @ middle[inside] @ inverse + unknown
        return covariance
