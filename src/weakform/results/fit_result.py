"""The result of a fit: numbers, the model and the data; never the optimiser that made them."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from statistics import NormalDist
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ..data.dataset import Dataset
from ..diagnostics.goodness import GoodnessOfFit
from ..forward.structural_identifiability import Freedom
from ..inference.derived_quantities import derived
from ..inference.intervals import errors, intervals, quantity
from ..inference.state_estimates import Beginnings, States
from ..model.model import Model
from ..parameters.priors import Priors
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from .options import Options
from .population import Population
from .questions import Questions
from .records import Alternative, BasisSummary, Late, Quantity, StartRecord
from .status import Status
from .written import Written

if TYPE_CHECKING:
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction


@dataclass(frozen=True, eq=False)
class FitResult(Questions, Written):
    """Estimates of the parameters of a model, with their uncertainty.

    Attributes
    ----------
    model : Model
        With the parameters that were estimated, local ones once for each trajectory.
    data : Dataset
        What it was fitted to.
    method : str
        The method that made the estimate.
    estimate : ndarray, (J,)
        In the order of `model.parameters`.
    covariance : ndarray, (J, J)
        Of the estimate; zero for fixed parameters, NaN for parameters at a bound.
    covariance_kind : str
        The formula behind it, in words.
    status : Status
        How the fit ended; its text says what to do.
    log_likelihood : float
        Of the data, with `sigma`; NaN for methods without states that obey the model, and for noise-free data.
    sigma : ndarray, (D,)
        Noise level used.
    sigma_estimated : bool
        Whether it was estimated, or given.
    basis : tuple of BasisSummary, one for each trajectory
        The test functions: how many, and their radius.
    bounds : ndarray, (J, 2)
        Lower and upper; infinite where there is none.
    log_scale : ndarray of bool, (J,)
        Parameters that were estimated on a log scale; their intervals are positive.
    fixed : ndarray of bool, (J,)
        Parameters that were given, not estimated.
    at_bound : ndarray of bool, (J,)
        Estimates that sit at a bound.
    denoised : tuple of ndarray, (time, D), one for each trajectory
        The data less their noise as the fitted model sees it; no forward solution is behind it.
    goodness : GoodnessOfFit, or None
        The test of the model, for `"wendy"`.
    starts : tuple of StartRecord
        All starts, the best first.
    iterations : int
        Of the search, from the best start.
    mesh : int
        Nodes for each sample on which the refinement solved the equations.
    seed : int
        Of all that is drawn.
    options : Options
        As the fit used them.
    seconds : float
        How long the fit took.
    weak_residuals : tuple of pairs of ndarray, one for each trajectory
        Centres of the test functions `(K,)`, and the residuals over their standard deviations `(D, K)`.
    warnings : tuple of str
        What should not be overlooked.
    notes : tuple of str
        What was done on the way.
    prior : Priors, or None
        What was known beforehand.
    tied : dict of str to str
        Parameters that are expressions of others; `derived` gives their values.
    units : dict of str to str
        Of parameters, states and `time`.
    nodes : tuple of pairs of ndarray, one for each trajectory
        Where only a part is measured: the nodes of the mesh `(nodes,)`, and the states there `(nodes, D)`.
    shared, index : Model and ndarray of int
        The model before local parameters were multiplied, and the place of its parameters among all.
    alternatives : tuple of Alternative
        Other estimates that fit equally well.
    freedoms : tuple of Freedom
        Directions that no data of this kind can see.
    population : Population, or None
        Means and spreads of random effects.
    late : Late
        What was computed after the fit, when it was asked for: profiles and bands.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
    >>> "p1" in fit, fit["p1"].name, fit.derived("p1/p2").name
    (True, 'p1', 'p1/p2')
    """

    model: Model
    data: Dataset
    method: str
    estimate: FloatArray
    covariance: FloatArray
    covariance_kind: str
    status: Status
    log_likelihood: float
    sigma: FloatArray
    sigma_estimated: bool
    basis: tuple[BasisSummary, ...]
    bounds: FloatArray
    log_scale: BoolArray
    fixed: BoolArray
    at_bound: BoolArray
    denoised: tuple[FloatArray, ...]
    goodness: GoodnessOfFit | None
    starts: tuple[StartRecord, ...]
    iterations: int
    mesh: int
    seed: int
    options: Options
    seconds: float
    weak_residuals: tuple[tuple[FloatArray, FloatArray], ...] = ()
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    prior: Priors | None = None
    tied: dict[str, str] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    nodes: tuple[tuple[FloatArray, FloatArray], ...] = ()
    shared: Model | None = None
    index: IntArray | None = None
    alternatives: tuple[Alternative, ...] = ()
    freedoms: tuple[Freedom, ...] = ()
    population: Population | None = None
    late: Late = field(default_factory=Late, repr=False, compare=False)

    @property
    def success(self) -> bool:
        """Whether the fit converged, the model fits and the data determine it: whether to use the estimate."""
        return self.status.success

    @property
    def converged(self) -> bool:
        """Whether the optimisation converged, whatever it found."""
        return self.status.converged

    @property
    def message(self) -> str:
        """The status in words, with its remedy."""
        return self.status.value

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """Profiles by parameter, once `intervals(kind="profile")` or a report has asked for them."""
        return MappingProxyType(self.late.profiles)

    @property
    def errors(self) -> FloatArray:
        """Standard errors, `(J,)`, as the default intervals have them; infinite where no data can tell.

        Where an interval is by its profile, its error is the mean of what it reaches to both sides over the quantile,
        at a bound what it reaches to one: the root of the covariance's diagonal may be far too small there.
        """
        return errors(self)

    @property
    def wald_errors(self) -> FloatArray:
        """Standard errors by the covariance alone, `(J,)`; NaN at a bound, infinite where no data can tell."""
        unknown = [name in self.undetermined for name in self.model.parameters]
        with np.errstate(invalid="ignore"):
            return np.where(unknown, np.inf, np.sqrt(self.covariance.diagonal()))

    @property
    def undetermined(self) -> frozenset[str]:
        """Parameters and initial values that no data of this kind can determine."""
        return frozenset(name for freedom in self.freedoms for name in freedom.names)

    def intervals(self, level: float = 0.95, kind: str = "auto", *, runs: int = 200, seed: int = 0) -> FloatArray:
        """Intervals of the parameters, `(J, 2)`.

        Parameters
        ----------
        level : float
        kind : str
            `"wald"`: estimate ± errors; NaN for parameters at a bound, which have none. `"profile"`: where the misfit
            rises too much, however the others adapt; the curves are kept in `profiles`. `"auto"`: the profile where a
            bound is near or the misfit is not a parabola, else Wald's; `fit[name].note` says so. `"bootstrap"`: from
            data drawn again from the fitted states; infinite where the data do not determine a parameter. Methods
            without a likelihood of the data have Wald's only.
        runs, seed : int
            Of the bootstrap; its estimates are kept in `late.bootstraps`.

        Returns
        -------
        ndarray, (J, 2)
            In the order of `model.parameters`.

        Examples
        --------
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> fit.intervals(0.9).shape
        (2, 2)
        """
        return intervals(self, level, kind, runs, seed)

    def quantile(self, level: float) -> float:
        """Standard errors on each side of an interval: normal, or Student's t where σ was estimated from residuals.

        Parameters
        ----------
        level : float

        Returns
        -------
        float
            Such as 1.96 for a level of 0.95.
        """
        if isinstance(level, bool) or not isinstance(level, numbers.Real) or not 0 < level < 1:
            raise FitError(f"The level must be a number between 0 and 1, such as 0.95; received {level!r}.")
        if self.goodness is None or not self.sigma_estimated:
            return NormalDist().inv_cdf(0.5 + float(level) / 2)
        from scipy.special import stdtrit

        return float(stdtrit(max(self.goodness.freedom, 1), 0.5 + float(level) / 2))

    @property
    def correlation(self) -> FloatArray:
        """Correlations of the estimates, `(J, J)`; NaN for parameters that are fixed or at a bound."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(self.covariance / np.outer(self.wald_errors, self.wald_errors))

    @property
    def initial(self) -> Beginnings:
        """States at the beginning of each trajectory with their intervals, by name: `fit.initial["S"]`."""
        return Beginnings(self)

    @property
    def states(self) -> States:
        """States, and measured expressions, in time with their bands, by name: `fit.states["S"]`."""
        return States(self)

    def __getitem__(self, name: str) -> Quantity:
        return quantity(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.model.parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self.model.parameters)

    def derived(self, expression: str, level: float = 0.95) -> Quantity:
        """An expression of the parameters with its interval, by the delta method.

        Parameters
        ----------
        expression : str
            Such as `"p1 / p3"`; read like a model, never evaluated as code.
        level : float

        Returns
        -------
        Quantity
            With `value`, `error` and `interval`.

        Examples
        --------
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> round(fit.derived("p1/p2").value, 1)  # the capacity
        1.0
        """
        return derived(self, expression, level)

    def predict(
        self,
        times: ArrayLike,
        *,
        trajectory: int | str = 0,
        initial: ArrayLike | Mapping[str, float] | None = None,
        level: float = 0.95,
        kind: str = "auto",
        seed: int = 0,
    ) -> Prediction:
        """Solve the fitted model at any times, with a pointwise band.

        Parameters
        ----------
        times : array_like, (time,)
            Increasing; may go beyond the data.
        trajectory : int or str
            Number or label of the one from whose fitted initial state to begin; its uncertainty is part of the band.
        initial : array_like, (D,), or mapping, optional
            A known state at `times[0]` in place of a fitted one.
        level : float
        kind : str
            `"delta"` (linearised), `"sampling"` (quantiles of many solutions), `"profile"` (by the likelihood, where
            only a part is measured), or `"auto"`: one of the others where solutions bend too much for the delta method.
        seed : int
            Of the draws.

        Returns
        -------
        Prediction
            `prediction["x"]` is one state with its band, `(time, 3)`.

        Examples
        --------
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> fit.predict([10.0, 12.0])["u"].shape
        (2, 3)
        """
        from ..inference.prediction import predict

        return predict(self, times, trajectory=trajectory, initial=initial, level=level, kind=kind, seed=seed)

    def trajectory(self, number: int | str = 0, *, level: float = 0.95, kind: str = "auto") -> Prediction:
        """The fitted trajectory over the time of the data, on a grid fine enough to draw.

        Parameters
        ----------
        number : int or str
            Number or label of the trajectory.
        level, kind
            As for `predict`.

        Returns
        -------
        Prediction
        """
        from ..inference.prediction import fine_grid, numbered

        number = numbered(self, number)
        key = (number, level, kind)
        if key not in self.late.bands:
            self.late.bands[key] = self.predict(fine_grid(self, number), trajectory=number, level=level, kind=kind)
        return self.late.bands[key]

    def __repr__(self) -> str:
        return f"<FitResult: {self.method}, {self.status.name.lower()}>\n{self}"
