"""What every estimator takes and returns."""

from __future__ import annotations

import numbers
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FitError
from ..expressions import suggestion
from ..goodness import GoodnessOfFit
from ..optimize import Stop
from ..typing import FloatArray
from ..weak.likelihood import Evaluation
from ..weak.problem import WeakProblem
from .priors import Priors


class Deadline:
    """A time after which no iteration begins; Ctrl-C brings it forward.

    Compared with `time.monotonic()`: `now > deadline`.
    """

    def __init__(self, limit: float) -> None:
        self.limit, self.stopped = limit, False

    def __lt__(self, now: float) -> bool:
        return self.stopped or self.limit < now


class Status(Enum):
    """How a fit ended; the text says what to do next."""

    CONVERGED = "converged"
    ITERATIONS = (
        "stopped at the iteration limit before converging: the estimate may be improved; raise max_iterations, give "
        "bounds, or start closer"
    )
    TIME = "stopped at the time limit before converging: raise time_limit, or fit fewer samples first"
    INTERRUPTED = (
        "stopped by Ctrl-C before converging: this is the best so far; fit again with start= this estimate to go on"
    )
    STUCK = (
        "no further progress was possible, yet the gradient is not zero: the estimate is doubtful; try other starts, "
        "tighter bounds, or rescale the model"
    )
    START = (
        "the objective is not finite at any start: the right-hand side or the covariance breaks down there; give a "
        "start or bounds where the model is defined at all data"
    )

    REJECTED = (
        "converged, but the model does not fit the data, or not with the sigma that is given: the estimate and its "
        "intervals are not to be trusted; see where the equations fail, and which term may be missing"
    )
    UNDETERMINED = (
        "converged, but the data do not determine the parameters: other values fit as well; fix some, give bounds or "
        "priors, or measure where they matter"
    )

    @property
    def success(self) -> bool:
        """Whether the estimate is a solution of its problem, and nothing speaks against it."""
        return self is Status.CONVERGED

    @property
    def converged(self) -> bool:
        """Whether the estimate is a solution of its problem."""
        return self in (Status.CONVERGED, Status.REJECTED, Status.UNDETERMINED)

    @classmethod
    def of(cls, stop: Stop) -> Status:
        """The status of a minimisation."""
        if stop.converged:
            return cls.CONVERGED
        return {Stop.ITERATIONS: cls.ITERATIONS, Stop.TIME: cls.TIME, Stop.START: cls.START}.get(stop, cls.STUCK)


@dataclass(frozen=True)
class Options:
    """How long and how hard to work; the defaults are the paper's.

    Attributes
    ----------
    tolerance : float
        Absolute and relative, on step, gradient and value.
    max_iterations : int, optional
        200, or 1000 sweeps for `"irls"`.
    time_limit : float
        Seconds for the whole fit.
    solver : str
        `"trust-region"`, or `"cubic"` (adaptive cubic regularisation, which ignores bounds), for `"mle"`.
    covariance : str
        Of the estimate of `"wendy"`: `"information"`, `"sandwich"` where the size of the noise may vary from sample to
        sample, or `"paper"`, which the other weak methods have always.
    residuals : str
        Of `"output-error"` and `"hybrid"`: `"noise"`, in coordinates in which the noise is additive (logarithms where
        it is log-normal), weighted by one over σ; or `"additive"`, the paper's plain differences for any noise.
    weak : str
        The weak method that starts `"hybrid"`: `"wendy"`, `"mle"` (the paper's), `"irls"` or `"wls"`.
    """

    tolerance: float = 1e-8
    max_iterations: int | None = None
    time_limit: float = 200.0
    solver: str = "trust-region"
    covariance: str = "information"
    residuals: str = "noise"
    weak: str = "wendy"

    @classmethod
    def of(cls, options: Options | Mapping[str, Any] | None) -> Options:
        """Options from a mapping, checked."""
        if options is None or isinstance(options, Options):
            made = options or cls()
        elif not isinstance(options, Mapping):
            raise FitError(f"options must be Options(...) or a mapping; received {options!r}.")
        else:
            known = [field.name for field in fields(cls)]
            for name in options:
                if name not in known:
                    raise FitError(f"Unknown option {name!r}.{suggestion(name, known)} Known: {', '.join(known)}.")
            made = cls(**options)
        for name in ("tolerance", "time_limit"):
            if not isinstance(getattr(made, name), numbers.Real):
                raise FitError(f"{name} must be a number; received {getattr(made, name)!r}.")
        if made.max_iterations is not None and not isinstance(made.max_iterations, numbers.Integral):
            raise FitError(f"max_iterations must be a whole number; received {made.max_iterations!r}.")
        if not (0 < made.tolerance < 1):
            raise FitError(f"The tolerance must lie between 0 and 1; received {made.tolerance!r}.")
        if made.max_iterations is not None and made.max_iterations < 1:
            raise FitError(f"max_iterations must be at least 1; received {made.max_iterations!r}.")
        if not made.time_limit > 0:
            raise FitError(f"time_limit must be positive seconds; received {made.time_limit!r}.")
        for name, words in (
            ("solver", ("trust-region", "cubic")),
            ("covariance", ("information", "sandwich", "paper")),
            ("residuals", ("noise", "additive")),
            ("weak", ("wendy", "mle", "irls", "wls")),
        ):
            if getattr(made, name) not in words:
                raise FitError(
                    f"{name} must be one of {', '.join(map(repr, words))}; received {getattr(made, name)!r}."
                )
        return made


@dataclass(frozen=True)
class Task:
    """A weak problem with what is to be estimated in it.

    Attributes
    ----------
    problem : WeakProblem
    free : ndarray of bool, (J,)
    base : ndarray, (J,)
        Values of the parameters that are not free; NaN where free.
    lower, upper : ndarray, (J,)
    linear : ndarray of bool, (J,)
        Free parameters in which, the others being fixed, the model is affine.
    options : Options
    deadline : Deadline
    prior : Priors, optional
    log : ndarray of bool, (J,), optional
        Parameters whose logarithm is estimated: `p` here holds logarithms, and so do their bounds.
    """

    problem: WeakProblem
    free: NDArray[np.bool_]
    base: FloatArray
    lower: FloatArray
    upper: FloatArray
    linear: NDArray[np.bool_]
    options: Options
    deadline: Deadline
    prior: Priors | None = None
    log: NDArray[np.bool_] | None = None

    def natural(self, p: FloatArray) -> FloatArray:
        """Parameters themselves, `(J,)` or with parameters first, from what the estimators work with."""
        if self.log is None:
            return p
        with np.errstate(over="ignore"):
            return np.asarray(np.where(self.log, np.exp(p), p))

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

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return time.monotonic() > self.deadline

    def expand(self, theta: FloatArray) -> FloatArray:
        """All parameters `(J,)` from the free ones."""
        p = self.base.copy()
        p[self.free] = theta
        return p

    def objective(self, logdet_weight: float = 1.0) -> Callable[[FloatArray, int], Evaluation]:
        """The weak likelihood as a function of the free parameters."""
        weak = self.problem.likelihood(logdet_weight)
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
    goodness : GoodnessOfFit, or None for noise-free data
    information : ndarray, (F, F), or None
        Whose inverse the covariance is, where it is one.
    """

    covariance: FloatArray
    sigma: FloatArray
    states: tuple[FloatArray, ...]
    misfit: float
    freedom: int
    finer: int
    bias: float
    held: FloatArray | None
    goodness: GoodnessOfFit | None
    information: FloatArray | None = None


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
    initial : tuple of ndarray, (D,), optional
        Initial state of each trajectory in working coordinates, where the method has one.
    note : str
        What was decided on the way, in words.
    """

    estimate: FloatArray
    objective: float
    status: Status
    iterations: int
    evaluations: int
    refined: Refined | None = None
    initial: tuple[FloatArray, ...] | None = None
    note: str = ""
