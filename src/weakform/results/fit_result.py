"""The result of a fit: estimates with their uncertainty, the model, the data and the record of the search.

`FitResult` holds numbers, never the optimiser that computed them. Each method calls one function of `inference` (which
needs only the fit), `analysis` (which fits again), `report` or `files`; these subpackages are imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from numpy.typing import ArrayLike

from ..data.dataset import Dataset
from ..data.trajectory import Truth
from ..forward.structural_identifiability import Freedom
from ..model.model import Model
from ..parameters.priors import Priors
from ..support.array_types import BoolArray, FloatArray, IntArray
from .options import Options
from .population import Population
from .records import Alternative, BasisSummary, LateResults, Quantity, StartRecord
from .status import Status
from .trace import Trace

if TYPE_CHECKING:
    from ..analysis.accuracy_metrics import Metrics
    from ..analysis.missing_terms import MissingTerms
    from ..diagnostics.goodness import GoodnessOfFit
    from ..inference.experiment_design import Design
    from ..inference.posterior import Posterior
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction
    from ..inference.state_estimates import InitialValues, StateBands


@dataclass(frozen=True, eq=False)
class FitResult:
    """Estimates of the parameters of a model, with their uncertainty.

    Attributes
    ----------
    model : Model
        The fitted model; local parameters are repeated, one for each trajectory.
    data : Dataset
        The data to which it was fitted.
    method : str
        The method that computed the estimate.
    estimate : ndarray, (J,)
        Estimates in the order of `model.parameters`.
    covariance : ndarray, (J, J)
        Covariance of the estimate; zero for fixed parameters, NaN for parameters at a bound.
    covariance_kind : str
        The formula behind `covariance`, in words.
    status : Status
        How the fit ended; its text says what to do next.
    log_likelihood : float
        Log-likelihood of the data at `estimate` and `sigma`; NaN for methods whose states do not obey the model, and
        for noise-free data.
    sigma : ndarray, (D,)
        Noise level of each column.
    sigma_estimated : bool
        True if `sigma` was estimated, False if the user gave it.
    basis : tuple of BasisSummary, one for each trajectory
        The test functions: how many, and their radius.
    bounds : ndarray, (J, 2)
        Lower and upper bounds; infinite if there is none.
    log_scale : ndarray of bool, (J,)
        Parameters that were estimated on a log scale; their intervals are positive.
    fixed : ndarray of bool, (J,)
        Parameters that were held at given values.
    at_bound : ndarray of bool, (J,)
        Parameters whose estimate is at a bound.
    denoised : tuple of ndarray, (time, D), one for each trajectory
        States at the samples according to the fitted model, computed without a forward solution.
    goodness : GoodnessOfFit, or None
        Test of the model against the data; None for methods without residuals of the data.
    starts : tuple of StartRecord
        All starts, the best first.
    iterations : int
        Iterations of the search from the best start.
    mesh : int
        Mesh nodes per sample in the refinement.
    seed : int
        Seed of all random draws.
    options : Options
        Options that the fit used.
    seconds : float
        Wall time of the fit.
    weak_residuals : tuple of pairs of ndarray, one for each trajectory
        Centres of the test functions `(K,)`, and weak residuals over their standard deviations `(D, K)`.
    warnings : tuple of str
        Reasons to doubt the fit, most serious first.
    notes : tuple of str
        Decisions made during the fit.
    prior : Priors, or None
        Priors of the parameters.
    tied : dict of str to str
        Parameters that are expressions of others; `derived` computes their values.
    units : dict of str to str
        Units of parameters, states and `time`.
    nodes : tuple of pairs of ndarray, one for each trajectory
        If some states are not measured: mesh nodes `(nodes,)`, and states there `(nodes, D)`.
    shared : Model, or None
        The model before local parameters were repeated.
    index : ndarray of int, (trajectories, parameters of `shared`), or None
        Position in `model.parameters` of each parameter of `shared`, for each trajectory.
    alternatives : tuple of Alternative
        Other estimates that fit equally well.
    freedoms : tuple of Freedom
        Directions in parameter space that the measured columns cannot identify.
    population : Population, or None
        Means and spreads of random effects.
    trace : Trace, or None
        The strategies that were tried, and why each was taken, not taken or skipped; None for fits saved by versions
        before 1.3.
    late : LateResults
        Results computed on request after the fit: profiles, bands, draws.

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
    trace: Trace | None = None
    late: LateResults = field(default_factory=LateResults, repr=False, compare=False)

    # How the fit ended.

    @property
    def success(self) -> bool:
        """True if the estimate can be used: converged, accepted by the data, and determined by them."""
        return self.status.success

    @property
    def converged(self) -> bool:
        """True if the optimisation converged, whatever the verdict on the model."""
        return self.status.converged

    @property
    def message(self) -> str:
        """The status in words, with its remedy."""
        return self.status.value

    # Parameters and their uncertainty.

    @property
    def params(self) -> dict[str, float]:
        """Estimates by name."""
        return {name: float(value) for name, value in zip(self.model.parameters, self.estimate, strict=True)}

    def __getitem__(self, name: str) -> Quantity:
        from ..inference.intervals import get_quantity

        return get_quantity(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self.model.parameters

    def __iter__(self) -> Iterator[str]:
        return iter(self.model.parameters)

    @property
    def errors(self) -> FloatArray:
        """Standard errors that match the default intervals, `(J,)`; infinite if the data cannot identify a parameter.

        For a Wald interval this is the root of the covariance's diagonal. For a profile interval it is the mean
        distance from the estimate to the two ends, divided by the quantile (at a bound, the distance to the other end):
        near a bound the covariance may understate the error by a large factor.
        """
        from ..inference.intervals import compute_errors

        return compute_errors(self)

    @property
    def wald_errors(self) -> FloatArray:
        """Standard errors from the covariance alone, `(J,)`; NaN at a bound, infinite if not identifiable."""
        from ..inference.intervals import compute_wald_errors

        return compute_wald_errors(self)

    @property
    def correlation(self) -> FloatArray:
        """Correlations of the estimates, `(J, J)`; NaN for parameters that are fixed or at a bound."""
        from ..inference.intervals import compute_correlations

        return compute_correlations(self)

    @property
    def undetermined(self) -> frozenset[str]:
        """Parameters and initial values that the measured columns cannot identify."""
        return frozenset(name for freedom in self.freedoms for name in freedom.names)

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """Profile likelihoods by parameter, once `intervals(kind="profile")` or a report has computed them."""
        return MappingProxyType(self.late.profiles)

    def intervals(self, level: float = 0.95, kind: str = "auto", *, runs: int = 200, seed: int = 0) -> FloatArray:
        """Compute intervals of the parameters.

        Parameters
        ----------
        level : float
            Coverage probability.
        kind : str
            `"wald"`: estimate ± quantile × error; NaN for parameters at a bound. `"profile"`: by the profile
            likelihood; the curves are kept in `profiles`. `"auto"`: the profile if a bound is near or the likelihood is
            not quadratic, else Wald; `fit[name].note` says which. `"bootstrap"`: quantiles of refits to data simulated
            from the fitted states; infinite if the data do not identify a parameter. Methods without a likelihood of
            the data have Wald intervals only.
        runs, seed : int
            Number of bootstrap refits and their seed; the estimates are kept in `late.bootstraps`.

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
        from ..inference.intervals import compute_intervals

        return compute_intervals(self, level, kind, runs, seed)

    def quantile(self, level: float) -> float:
        """Return the half-width of an interval in standard errors.

        The quantile is normal if σ is known, and Student's t if σ was estimated from residuals.

        Parameters
        ----------
        level : float
            Coverage probability.

        Returns
        -------
        float
            Such as 1.96 for a level of 0.95.
        """
        from ..inference.intervals import compute_interval_quantile

        return compute_interval_quantile(self, level)

    def derived(self, expression: str, level: float = 0.95) -> Quantity:
        """Evaluate an expression of the parameters, with its interval by the delta method.

        Parameters
        ----------
        expression : str
            Such as `"p1 / p3"`; parsed like a model, never evaluated as code.
        level : float
            Coverage probability.

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
        from ..inference.derived_quantities import derive_quantity

        return derive_quantity(self, expression, level)

    def sample(self, draws: int = 2000, chains: int = 4, seed: int = 0) -> Posterior:
        """Draw from the posterior of parameters, initial values and σ, given the data, priors and bounds.

        Without a prior the density is flat, on the scale of each parameter, inside its bounds; it is flat in log σ.
        Proposals are independent, in coordinates in which the posterior is nearly normal: projections of the residuals.

        Parameters
        ----------
        draws : int
            Number of draws over all chains, after the warm-up.
        chains : int
            Number of independent chains.
        seed : int
            Seed of the draws.

        Returns
        -------
        Posterior
        """
        from ..inference.posterior import draw_posterior

        self.late.posterior[:] = [draw_posterior(self, draws, chains, seed)]
        return self.late.posterior[0]

    @property
    def posterior(self) -> Posterior | None:
        """The last posterior that `sample` drew, or None."""
        return self.late.posterior[0] if self.late.posterior else None

    # States, residuals and predictions.

    @property
    def initial(self) -> InitialValues:
        """Initial states of each trajectory with their intervals, by name: `fit.initial["S"]`."""
        from ..inference.state_estimates import InitialValues

        return InitialValues(self)

    @property
    def states(self) -> StateBands:
        """States and measured expressions over time with their bands, by name: `fit.states["S"]`."""
        from ..inference.state_estimates import StateBands

        return StateBands(self)

    @property
    def residuals(self) -> tuple[FloatArray, ...]:
        """Measured values minus fitted values, `(time, columns)` for each trajectory; NaN for missing values."""
        from ..inference.fitted_states import compute_residuals

        return compute_residuals(self)

    @property
    def r_squared(self) -> dict[str, float]:
        """Share of the variance of each column that the forward solution explains, over all trajectories.

        The model is solved from the fitted initial states; NaN if that fails.
        """
        from ..analysis.accuracy_metrics import compute_explained_shares

        return compute_explained_shares(self)

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
            Number or label of the trajectory whose fitted initial state to start from; its uncertainty is part of the
            band.
        initial : array_like, (D,), or mapping, optional
            A known state at `times[0]`, used in place of a fitted one.
        level : float
            Coverage probability.
        kind : str
            `"delta"` (linearised), `"sampling"` (quantiles of many solutions), `"profile"` (by the likelihood, if some
            states are not measured), or `"auto"`: one of the other two if the solution is too nonlinear for the delta
            method.
        seed : int
            Seed of the draws.

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
        """Compute the fitted trajectory over the time of the data, on a grid fine enough to draw.

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
        from ..inference.prediction import get_fitted_trajectory

        return get_fitted_trajectory(self, number, level, kind)

    # Criteria of the model, and further experiments.

    @property
    def aic(self) -> float:
        """Akaike's criterion, `2k - 2 log L`; an estimated σ counts as a parameter."""
        from ..inference.information_criteria import aic

        return aic(self)

    @property
    def aicc(self) -> float:
        """Akaike's criterion with the correction for small samples; infinite if there are too few values for it."""
        from ..inference.information_criteria import aicc

        return aicc(self)

    @property
    def bic(self) -> float:
        """Schwarz's criterion, `k log n - 2 log L`."""
        from ..inference.information_criteria import bic

        return bic(self)

    def metrics(self, truth: Truth | Mapping[str, float] | None = None) -> Metrics:
        """Compute the paper's accuracy measures of this estimate against a known truth.

        Parameters
        ----------
        truth : Truth or mapping, optional
            The true parameters by name; by default the truth stored with simulated data. If only parameters are given,
            the forward error is measured against the solution from the fitted initial state.

        Returns
        -------
        Metrics
        """
        from ..analysis.accuracy_metrics import compute_fit_metrics

        return compute_fit_metrics(self, truth)

    def missing_terms(self, candidates: Sequence[str] | Mapping[str, Sequence[str]] | None = None) -> MissingTerms:
        """Rank terms that the model may lack, each with the equation that lacks it.

        Parameters
        ----------
        candidates : sequence of str, or mapping of states to them, optional
            Terms such as `"x*y"`, to be tried in every equation, or in the named ones. By default products of up to
            three states, inputs and time, and simple saturations.

        Returns
        -------
        MissingTerms
        """
        from ..analysis.missing_terms import rank_missing_terms

        return rank_missing_terms(self, candidates)

    def design(self, candidates: Any = None, *, trajectory: int | str = 0) -> Design:
        """Compute how much further experiments would shrink each error, from the information they add.

        Parameters
        ----------
        candidates : mapping of str, or array_like, optional
            Experiments by name: times of further samples, or `{"times": ..., "states": [...], "initial": {...},
            "doses": ..., "sigma": ...}`, where `initial` is the known state of a new experiment, `doses` its doses,
            `states` the measured columns and `sigma` a different noise level. By default ten samples in each of eight
            windows.
        trajectory : int or str
            Number or label of the trajectory to continue.

        Returns
        -------
        Design
        """
        from ..inference.design_from_fit import plan_experiments

        return plan_experiments(self, candidates, trajectory)

    # Text, tables, plots and files.

    def to_frame(self, level: float = 0.95) -> Any:
        """Return the parameters as a pandas data frame.

        Parameters
        ----------
        level : float
            Coverage probability of the intervals.

        Returns
        -------
        pandas.DataFrame
            One row for each parameter: estimate, error, interval, bounds, unit and note.

        Examples
        --------
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> list(fit.to_frame().index)
        ['p1', 'p2']
        """
        from ..report.parameter_frame import build_parameter_frame

        return build_parameter_frame(self, level)

    def save(self, path: str | Path) -> Path:
        """Write the fit to a JSON file that `FitResult.load` reads.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Path

        Examples
        --------
        >>> import tempfile, pathlib
        >>> import weakform as wf
        >>> problem = wf.problems.get("logistic")
        >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
        >>> path = fit.save(pathlib.Path(tempfile.mkdtemp()) / "fit.json")
        >>> wf.FitResult.load(path).params == fit.params
        True
        """
        from ..files.archive import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> FitResult:
        """Read a fit that `save` wrote, with this version of the package or any since 1.0.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        FitResult
        """
        from ..files.archive import load

        return load(path)

    def to_antimony(self) -> str:
        """Return the model as Antimony text, with its estimates and the first fitted initial state."""
        from ..files.formats.sbml import write_fitted_antimony

        return write_fitted_antimony(self)

    def to_sbml(self) -> str:
        """Return the model as an SBML document, with the same values as `to_antimony`; needs the extra `sbml`."""
        from ..files.formats.sbml import to_sbml, write_fitted_antimony

        return to_sbml(write_fitted_antimony(self))

    def report(self, path: str | Path, command: str = "") -> Path:
        """Write one self-contained HTML page: verdict, estimates, plots, and how the fit was computed.

        Profiles are computed if they do not exist yet.

        Parameters
        ----------
        path : str or Path
            Where to write the page.
        command : str
            The command line shown under "To repeat it".

        Returns
        -------
        Path
        """
        from ..report.html_report import write_report

        return write_report(self, path, command)

    def plot(self, trajectory: int | str | None = None) -> Any:
        """Draw data and fit with its band; needs the extra `plot`.

        Parameters
        ----------
        trajectory : int or str, optional
            Number or label of the trajectory to draw; all of them by default.

        Returns
        -------
        matplotlib axes
            `weakform.report.plots.save(axes, path)` writes them to a file.
        """
        from ..report.plots import states

        return states(self, trajectory)

    def __str__(self) -> str:
        from ..report.text_report import format_report

        return format_report(self)

    def __repr__(self) -> str:
        return f"<FitResult: {self.method}, {self.status.name.lower()}>\n{self}"

    def _repr_html_(self) -> str:
        from ..report.html_report import build_notebook_form

        return build_notebook_form(self)
