"""What every estimator takes and returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..collocation.hidden_state_problem import Latent
from ..collocation.residual_projection import Leftover
from ..data import Dataset
from ..model import Model
from ..parameters.priors import Priors
from ..parameters.working_scale import Scale
from ..results.options import Options
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from ..support.progress import Watch
from ..weak.likelihood_evaluation import Evaluation
from ..weak.weak_form import WeakForm
from ..weak.weak_problem import WeakProblem


class Problem(Protocol):
    """What is known of a problem, whichever way it is solved.

    Attributes
    ----------
    model : Model
    data : Dataset
        The columns that are measured.
    sigma : ndarray, (columns,)
    forms : tuple of WeakForm
        One for each trajectory; none where states are hidden.
    """

    @property
    def model(self) -> Model:
        """In what the estimators work with."""

    @property
    def data(self) -> Dataset:
        """The columns that are measured."""

    @property
    def sigma(self) -> FloatArray:
        """Of each column, `(columns,)`."""

    @property
    def forms(self) -> tuple[WeakForm, ...]:
        """One for each trajectory; none where states are hidden."""

    @property
    def spread(self) -> FloatArray:
        """How much each column varies, in working coordinates."""

    @property
    def beginnings(self) -> int:
        """Initial values that are fitted besides the parameters."""

    def reweighed(self, weights: tuple[FloatArray, ...]) -> Problem:
        """The same with other weights `(time, columns)` of the values."""


@dataclass(frozen=True)
class Task:
    """A problem with what is to be estimated in it.

    Attributes
    ----------
    problem : Problem
    free : ndarray of bool, (J,)
    base : ndarray, (J,)
        Values of the parameters that are not free; NaN where free.
    lower, upper : ndarray, (J,)
    linear : ndarray of bool, (J,)
        Free parameters in which, the others being fixed, the model is affine.
    options : Options
    stop : Watch
        Whether to stop: the time is over, or the user wants it.
    scale : Scale
        Which parameters are on a log scale: `p` here holds their logarithms, and so do the bounds.
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
    scale: Scale
    prior: Priors | None = None

    @property
    def weak(self) -> WeakProblem:
        """The problem in its weak form, for the methods that need one."""
        assert isinstance(self.problem, WeakProblem)
        return self.problem

    @property
    def is_linear(self) -> bool:
        """Whether the model is affine in all free parameters."""
        return bool((self.linear == self.free).all())

    @property
    def is_bounded(self) -> bool:
        """Whether any free parameter has a bound."""
        return bool((np.isfinite(self.lower) | np.isfinite(self.upper))[self.free].any())

    @property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the free parameters."""
        return self.lower[self.free], self.upper[self.free]

    def moving(self, p: FloatArray) -> BoolArray:
        """Free parameters that are not at a bound, `(J,)`."""
        return self.free & (p > self.lower) & (p < self.upper)

    def expand(self, theta: FloatArray) -> FloatArray:
        """All parameters `(J,)` from the free ones."""
        p = self.base.copy()
        p[self.free] = theta
        return p

    def objective(self, logdet_weight: float = 1.0) -> Callable[[FloatArray, int], Evaluation]:
        """The weak likelihood as a function of the free parameters."""
        weak = self.weak.likelihood(logdet_weight)
        likelihood = weak if self.prior is None else _posterior(weak, self.prior)
        if self.free.all():
            return likelihood
        square = np.ix_(self.free, self.free)

        def restricted(theta: FloatArray, order: int) -> Evaluation:
            full = likelihood(self.expand(theta), order)
            gradient = None if full.gradient is None else full.gradient[self.free]
            hessian = None if full.hessian is None else full.hessian[square]
            return Evaluation(full.value, gradient, hessian, full.status)

        return restricted


def _posterior(weak: Callable[[FloatArray, int], Evaluation], prior: Priors) -> Callable[[FloatArray, int], Evaluation]:
    def posterior(p: FloatArray, order: int) -> Evaluation:
        found = weak(p, order)
        gradient = None if found.gradient is None else found.gradient + prior.gradient(p)
        hessian = None if found.hessian is None else found.hessian + prior.hessian(p)
        return Evaluation(found.value + prior.value(p), gradient, hessian, found.status)

    return posterior


@dataclass(frozen=True)
class Refined:
    """What states that obey the model add to an estimate.

    Attributes
    ----------
    covariance : ndarray, (F, F)
        Of the free parameters.
    sigma : ndarray, (D,)
    states : tuple of ndarray, (time, D)
        At the samples, in the units of the data: they obey the model.
    misfit : float
        `Σ (x^data - x)²/σ²`.
    freedom : int
        Measured values less fitted parameters and initial states.
    finer : int
        Nodes of the mesh for each sample.
    bias : float
        Largest error of the discretisation in any parameter, in standard errors.
    held : ndarray, (F,), or None
        Direction in the free parameters, in their standard errors, that was held because the data do not determine it.
    residuals : tuple of ndarray, (time, D), or None where there is no likelihood
        `(x^data - x)/σ` over the scale, NaN where nothing was measured.
    information : ndarray, (F, F), or None
        Whose inverse the covariance is, where it is one.
    leftover : callable, optional
        What the fit leaves of noise.
    stiffness : float
        The fastest decay of the equations along the states, in units of the time between samples; told where the
        discretisation fails.
    """

    covariance: FloatArray
    sigma: FloatArray
    states: tuple[FloatArray, ...]
    misfit: float
    freedom: int
    residuals: tuple[FloatArray, ...] | None
    finer: int = 1
    bias: float = 0.0
    held: FloatArray | None = None
    information: FloatArray | None = None
    leftover: Leftover | None = None
    stiffness: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What an estimator returns for one start.

    Attributes
    ----------
    estimate : ndarray, (J,)
    objective : float
        What is compared between starts; smaller is better.
    status : Status
    iterations : int
    evaluations : int
    refined : Refined, optional
    curvature : ndarray, (F, F), optional
        Of a sum of squares, where the objective is one.
    rough : bool
        Whether a better search will follow where the refinement does not go well.
    initial : tuple of ndarray, (D,), optional
        Initial state of each trajectory in working coordinates, where the method has one.
    note : str
        What was decided on the way, in words.
    latent : Latent, optional
        States on a mesh, where the method has them.
    """

    estimate: FloatArray
    objective: float
    status: Status
    iterations: int
    evaluations: int
    refined: Refined | None = None
    initial: tuple[FloatArray, ...] | None = None
    note: str = ""
    latent: Latent | None = None
    curvature: FloatArray | None = None
    rough: bool = False
