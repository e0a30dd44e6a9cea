"""The input of every estimator: a problem, what is to be estimated in it, and the points from which a search starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..data import Dataset
from ..model import Model
from ..parameters.priors import Priors
from ..parameters.working_scale import WorkingScale
from ..results.options import Options
from ..support.array_types import BoolArray, FloatArray
from ..support.progress import Watch
from ..weak.likelihood_evaluation import Evaluation
from ..weak.weak_form import WeakForm
from ..weak.weak_problem import WeakProblem


class Problem(Protocol):
    """A model with data, whether it is solved by its weak form or on a mesh.

    Attributes
    ----------
    model : Model
    data : Dataset
        The measured columns.
    sigma : ndarray, (columns,)
    forms : tuple of WeakForm
        One for each trajectory; empty if states are hidden.
    """

    @property
    def model(self) -> Model:
        """Model in terms of the parameters that the estimators see."""

    @property
    def data(self) -> Dataset:
        """Dataset with the measured columns."""

    @property
    def sigma(self) -> FloatArray:
        """Standard deviation of the noise of each column, given or estimated from the data alone, `(columns,)`."""

    @property
    def forms(self) -> tuple[WeakForm, ...]:
        """Weak form of each trajectory; empty if states are hidden."""

    @property
    def spread(self) -> FloatArray:
        """Variation of each column, as a standard deviation in working coordinates, `(columns,)`."""

    @property
    def fitted_initial_count(self) -> int:
        """Number of initial values that are fitted besides the parameters."""

    def with_weights(self, weights: tuple[FloatArray, ...]) -> Problem:
        """Return the same problem with other weights `(time, columns)` of the measured values."""


@dataclass(frozen=True)
class Task:
    """A problem together with what is to be estimated in it.

    Parameters are on the scale on which the estimators work (`scale`): where that is logarithmic, `base`, `lower` and
    `upper` hold logarithms, and so does every `p` that an estimator sees. J is the number of parameters.

    Attributes
    ----------
    problem : Problem
    free : ndarray of bool, (J,)
        Parameters that are estimated.
    base : ndarray, (J,)
        Values of the parameters that are fixed; NaN where a parameter is free.
    lower, upper : ndarray, (J,)
    linear : ndarray of bool, (J,)
        Free parameters in which the model is affine when all others are held.
    options : Options
    stop : Watch
        `stop()` is True if the time limit has passed or the user has interrupted.
    scale : WorkingScale
        Which parameters are on a log scale.
    prior : Priors, optional
    """

    problem: Problem
    free: BoolArray
    base: FloatArray
    lower: FloatArray
    upper: FloatArray
    linear: BoolArray
    options: Options
    stop: Watch
    scale: WorkingScale
    prior: Priors | None = None

    @property
    def weak(self) -> WeakProblem:
        """The problem in its weak form, for the methods that need one."""
        assert isinstance(self.problem, WeakProblem)
        return self.problem

    @property
    def is_linear(self) -> bool:
        """True if the model is affine in all free parameters together."""
        return bool((self.linear == self.free).all())

    @property
    def is_bounded(self) -> bool:
        """True if any free parameter has a bound."""
        return bool((np.isfinite(self.lower) | np.isfinite(self.upper))[self.free].any())

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the free parameters, `(F,)` each."""
        return self.lower[self.free], self.upper[self.free]

    def find_interior_parameters(self, p: FloatArray) -> BoolArray:
        """Return a mask `(J,)` of the free parameters that are not at a bound."""
        return self.free & (p > self.lower) & (p < self.upper)

    def expand(self, theta: FloatArray) -> FloatArray:
        """Return all parameters `(J,)` from the free ones `(F,)`."""
        p = self.base.copy()
        p[self.free] = theta
        return p

    def build_objective(self, logdet_weight: float = 1.0) -> Callable[[FloatArray, int], Evaluation]:
        """Return the weak negative log-likelihood, plus the prior if there is one, of the free parameters.

        The returned function takes `(theta, order)`, theta `(F,)`, and computes derivatives up to `order`.
        """
        weak = self.weak.likelihood(logdet_weight)
        likelihood = weak if self.prior is None else _add_prior(weak, self.prior)
        if self.free.all():
            return likelihood
        square = np.ix_(self.free, self.free)

        def restricted(theta: FloatArray, order: int) -> Evaluation:
            full = likelihood(self.expand(theta), order)
            gradient = None if full.gradient is None else full.gradient[self.free]
            hessian = None if full.hessian is None else full.hessian[square]
            return Evaluation(full.value, gradient, hessian, full.status)

        return restricted


def _add_prior(weak: Callable[[FloatArray, int], Evaluation], prior: Priors) -> Callable[[FloatArray, int], Evaluation]:
    """Return the sum of a negative log-likelihood and the negative log-density of a prior, with its derivatives."""

    def posterior(p: FloatArray, order: int) -> Evaluation:
        likelihood = weak(p, order)
        gradient = None if likelihood.gradient is None else likelihood.gradient + prior.gradient(p)
        hessian = None if likelihood.hessian is None else likelihood.hessian + prior.hessian(p)
        return Evaluation(likelihood.value + prior.compute_penalty(p), gradient, hessian, likelihood.status)

    return posterior


@dataclass(frozen=True)
class RelaxationSettings:
    """How freely a search of the relaxed model moves from one start.

    Attributes
    ----------
    parameter_range : float
        Distance that a parameter may move in one level for half a unit of the objective, as a share of the width of
        its bounds, or of its own size if it has none.
    noise_share : float
        Smallest σ of the search, as a share of the spread of a column. A larger σ lets the states leave the data.
    """

    parameter_range: float
    noise_share: float


@dataclass(frozen=True)
class HiddenStateStart:
    """A point from which a search starts if states are hidden or initial values are given.

    Attributes
    ----------
    parameters : ndarray, (J,)
    state_levels : ndarray, (D,)
        A constant for each state, used where nothing is measured of it and no initial value is given.
    from_solution : bool
        Whether the relaxed model also starts from the model's own forward solution with these parameters.
    settings : RelaxationSettings
    """

    parameters: FloatArray
    state_levels: FloatArray
    from_solution: bool
    settings: RelaxationSettings


StartPoint = FloatArray | HiddenStateStart
"""A start of a search: the parameters `(J,)`; with hidden states, a record that also describes the states."""


def extract_parameters(start: StartPoint) -> FloatArray:
    """Return the parameters `(J,)` of a start."""
    return start.parameters if isinstance(start, HiddenStateStart) else start
