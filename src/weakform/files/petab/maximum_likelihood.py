"""The maximum-likelihood fit of a PEtab problem: screen many draws, minimise from the best, refine the best end.

The bounds of such problems may span ten orders of magnitude, and at most draws the likelihood is flat: there no
measurement depends on any parameter. So draws are screened by the likelihood itself, with inaccurate forward solutions.
A trust-region method starts from the best draws, one after the other; the point that it reaches is the end of that
start. It uses the expected Hessian, which needs no second derivatives. The search ends when several starts have reached
the same likelihood, unless the noise is given and χ² rejects the model, or when the time is over.

The minimiser and its step rules come from `optimize`. The starts do not come from `estimators.start_points`: that
module draws on a stratified grid of each parameter and screens by weak residuals, which need every state measured; here
draws are independent and uniform in working coordinates, as many as the time allows, and screened by the likelihood.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...diagnostics.autocorrelation import compute_chi_square_tail
from ...linalg.blas_threads import use_single_thread
from ...linalg.symmetric_matrix import decompose_scaled_matrix, invert_symmetric
from ...optimize import ReachLimitedTrustRegion, TrustRegion, minimise
from ...optimize.second_order import Minimum
from ...results.status import Status
from ...support.array_types import FloatArray
from ...support.errors import FitError
from ...support.optional_imports import import_pandas
from .petab_likelihood import PetabLikelihood, PredictedMeasurements
from .petab_objective import PetabObjective

if TYPE_CHECKING:
    from .petab_problem import PetabProblem


@dataclass(frozen=True)
class _SearchPolicy:
    """Thresholds of the search, set by judgement. The table in `docs/petab.md` was computed with them."""

    default_draws: int = 1000
    """Draws that are screened if the number of starts is not given."""
    draws_per_start: int = 10
    """Draws that are screened for each start if the number of starts is given."""
    min_draws: int = 50
    """Fewest draws that are screened if the number of starts is given."""
    untimed_draws: int = 21
    """Position, counted from zero, of the first draw after which the time for screening is checked."""
    screening_share: float = 0.2
    """Share of the time limit that screening may take."""
    unbounded_reach: float = 50.0
    """Width of the range of draws, in working coordinates, of a quantity without a bound on one or both sides."""
    agreeing_starts: int = 3
    """Starts that must reach the same log-likelihood before the search ends on its own."""
    min_starts: int = 10
    """Fewest starts that are followed before the search ends on its own."""
    same_likelihood: float = 0.1
    """Difference of the objective, minus the log-likelihood, below which two ends count as the same optimum."""
    min_decrease: float = 1e-3
    """Predicted decrease of minus the log-likelihood below which a start is followed no further."""
    start_share: float = 0.35
    """Share of the time limit that one start may take."""
    refinement_share: float = 0.1
    """Share of the time limit that is reserved for the refinement of the best end."""


SEARCH_POLICY = _SearchPolicy()
"""The thresholds that the search uses."""
DRAW_STREAM = 11
"""Second entry of the seed of the draws, which keeps them independent of other uses of the same seed."""
ROUGH_TOLERANCE = 1e-3
"""Relative tolerance of forward solutions while draws are screened: only their order matters. By judgement."""
SEARCH_TOLERANCE = 1e-6
"""Relative tolerance of forward solutions while starts are followed; the best end is refined with a finer one. By
judgement."""
STEP_RULES = (ReachLimitedTrustRegion, TrustRegion)
"""Step rules, which the starts use in turn: the first limits a step to a share of the box of the bounds, the second
lets a step cross it. Without the limit, steps along coordinates without curvature go to the end of the box, and some
starts make no progress."""
MAX_STEPS_PER_START = 150
"""Most steps from one start, and in the refinement. By judgement."""
OPTIMUM_TOLERANCE = 1e-6
"""Relative tolerance of the minimiser while starts are followed. By judgement."""
REFINED_TOLERANCE = 1e-8
"""Relative tolerance of the minimiser in the refinement. By judgement."""
REFINED_DECREASE = 1e-6
"""Predicted decrease of minus the log-likelihood below which the refinement ends. By judgement."""
MIN_CHI_SQUARE_P = 1e-4
"""p-value of χ² below which the model is rejected, if the noise is given. By judgement."""
MIN_EIGENVALUE_SHARE = 1e-9
"""Eigenvalue of the scaled information, relative to the largest, below which the data do not determine its direction.
By judgement."""
MIN_DIRECTION_SHARE = 1e-6
"""Squared component of a parameter in the undetermined directions above which the parameter is undetermined. By
judgement."""
BOUND_WIDTH_TOLERANCE = 1e-6
"""Distance from a bound, relative to the width of the bounds, below which a quantity on a linear scale is at its bound.
By judgement."""
BOUND_VALUE_TOLERANCE = 1e-4
"""Distance from a bound, relative to the value, below which a quantity on a logarithmic scale is at its bound. By
judgement."""
NORMAL_QUANTILE = 1.959964
"""Half-width of a 95% interval in standard errors: the 97.5% quantile of the standard normal distribution."""
CURVATURE_STEP = 1e-4
"""Relative step of the second difference of a log-prior: near the fourth root of rounding errors, where those and the
truncation error are in balance."""
KEPT_ENDS = 20
"""Largest number of ends that the result keeps, the best first. By judgement."""


@dataclass(frozen=True)
class PetabFit:
    """The maximum of the likelihood (or posterior) of a PEtab problem.

    Attributes
    ----------
    problem : PetabProblem
    parameters : dict of str to float
        Estimates of the parameters, on the linear scale.
    errors : dict of str to float
        Standard errors on the linear scale; NaN at a bound, infinite if the data do not determine the parameter.
    intervals : dict of str to tuple of float
        95% intervals, computed on the scale of each parameter.
    log_likelihood : float
        Without the priors.
    status : Status
    at_bound : tuple of str
        Parameters whose estimate is at a bound.
    agreed, tried : int
        How many starts reached the best likelihood, and how many reached any end.
    ends : ndarray, (starts, estimated)
        Points that the starts reached, on the linear scale, the best first; at most 20.
    values : ndarray, (starts,)
        Minus the log-likelihood at these points, less the log-priors if there are any.
    seconds : float
        CPU time.
    notes : tuple of str
        Reasons why the estimates may not be trusted.
    """

    problem: PetabProblem
    parameters: dict[str, float]
    errors: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    log_likelihood: float
    status: Status
    at_bound: tuple[str, ...]
    agreed: int
    tried: int
    ends: FloatArray
    values: FloatArray
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """True if the fit converged and nothing contradicts it."""
        return self.status.success

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return 2 * len(self.parameters) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's (Bayesian) information criterion."""
        return len(self.parameters) * math.log(len(self.problem.found.measurements)) - 2 * self.log_likelihood

    def startpoints(self) -> FloatArray:
        """Return the points that the starts reached as start points for pyPESTO.

        Returns
        -------
        ndarray, (starts, estimated)
            On the scales of the parameters, the best first.
        """
        return self.problem.scaled(self.ends)

    def to_frame(self) -> Any:
        """Return the estimates as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One row for each parameter, with the columns `estimate`, `standard_error`, `lower`, `upper` and `at_bound`.
        """
        pd = import_pandas()

        rows = [
            {"parameter": n, "estimate": v, "standard_error": self.errors[n], "lower": self.intervals[n][0],
             "upper": self.intervals[n][1], "at_bound": n in self.at_bound}
            for n, v in self.parameters.items()
        ]  # fmt: skip
        return pd.DataFrame(rows).set_index("parameter")

    def __str__(self) -> str:
        problem = self.problem
        width = max(map(len, self.parameters))
        lines = [
            f"{problem.name}: {'success' if self.success else 'did not succeed'}, {self.status.value}",
            f"{len(problem.found.measurements)} measurements in {len(problem.found.experiments)} experiments; "
            f"log-likelihood {self.log_likelihood:.4f}, AIC {self.aic:.4f}, BIC {self.bic:.4f}",
            f"{self.agreed} of {self.tried} starts reached the best likelihood; {self.seconds:.1f} s",
            "",
            f"{'':{width}s}  {'estimate':>12s} {'std. error':>12s}   95% interval",
        ]
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            note = "  at its bound" if name in self.at_bound else ""
            shown = f"[{low:.5g}, {high:.5g}]" if math.isfinite(low) and math.isfinite(high) else "not determined"
            shown = "" if name in self.at_bound else shown
            error = f"{self.errors[name]:12.4g}" if name not in self.at_bound else f"{'':12s}"
            lines.append(f"{name:{width}s}  {value:12.6g} {error}   {shown}{note}")
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


def maximise_likelihood(
    problem: PetabProblem, starts: int | None, seed: int, time_limit: float, progress: Callable[[str], None] | None
) -> PetabFit:
    """Fit a problem; `PetabProblem.fit` describes the arguments.

    Raises
    ------
    FitError
        If nothing is to be estimated, or the model cannot be solved at any start.
    """
    start_time = time.process_time()

    def remaining_time() -> float:
        """Return the CPU seconds that remain until the time limit."""
        return time_limit - (time.process_time() - start_time)

    meaning = problem.found
    if not any(q.estimate for q in meaning.quantities):
        raise FitError("There is nothing to estimate: every row of the parameter table has estimate 0.")
    screening_objective, objective = (
        PetabObjective(PetabLikelihood(meaning, rtol)) for rtol in (ROUGH_TOLERANCE, SEARCH_TOLERANCE)
    )
    with use_single_thread(), np.errstate(all="ignore"):
        draws = _screen_draws(
            screening_objective,
            SEARCH_POLICY.default_draws
            if starts is None
            else max(starts * SEARCH_POLICY.draws_per_start, SEARCH_POLICY.min_draws),
            seed,
            lambda: remaining_time() < (1 - SEARCH_POLICY.screening_share) * time_limit,
        )
        ends = _follow_draws(objective, draws, starts, remaining_time, time_limit, progress)
        return _build_fit(problem, ends, remaining_time, start_time)


def _screen_draws(objective: PetabObjective, count: int, seed: int, stop: Callable[[], bool]) -> list[FloatArray]:
    """Draw points uniformly inside the bounds, and sort them by the likelihood, the best first.

    Parameters
    ----------
    objective : PetabObjective
        With inaccurate forward solutions.
    count : int
        Largest number of draws.
    seed : int
    stop : callable
        Returns True if the time for screening is over; a few draws are made even then.

    Returns
    -------
    list of ndarray, (outer,)
        In working coordinates.
    """
    rng = np.random.default_rng([seed, DRAW_STREAM])
    # With one bound the draws reach this far from it; without bounds, this far to both sides of zero.
    reach, has_lower, has_upper = (
        SEARCH_POLICY.unbounded_reach,
        np.isfinite(objective.lower),
        np.isfinite(objective.upper),
    )
    low = np.where(has_lower, objective.lower, np.where(has_upper, objective.upper - reach, -reach))
    high = np.where(has_upper, objective.upper, np.where(has_lower, objective.lower + reach, reach))
    draws = []
    for k in range(count):
        x = rng.uniform(low, high)
        draws.append((objective(x, 0).value, k, x))
        if k >= SEARCH_POLICY.untimed_draws and stop():
            break
    # The position k decides between draws of equal value; arrays cannot be compared.
    return [x for _, _, x in sorted(draws, key=lambda draw: draw[:2])]


def _follow_draws(
    objective: PetabObjective,
    draws: list[FloatArray],
    starts: int | None,
    remaining_time: Callable[[], float],
    time_limit: float,
    progress: Callable[[str], None] | None,
) -> list[Minimum]:
    """Minimise from the draws until enough of them agree or the time is over.

    Parameters
    ----------
    objective : PetabObjective
    draws : list of ndarray, (outer,)
        The best first.
    starts : int, optional
        Number of draws to follow; without it the search ends on its own.
    remaining_time : callable
        Returns the CPU seconds that remain.
    time_limit : float
        CPU seconds of the whole fit.
    progress : callable, optional
        Called with a line of text after each start.

    Returns
    -------
    list of Minimum
        The best first.

    Raises
    ------
    FitError
        If the model cannot be solved from any draw.
    """
    ends: list[Minimum] = []
    for k, x in enumerate(draws if starts is None else draws[:starts]):
        # No start may use more than its share, or the time that is reserved for the refinement.
        min_remaining_time = max(
            remaining_time() - SEARCH_POLICY.start_share * time_limit, SEARCH_POLICY.refinement_share * time_limit
        )
        try:
            end = minimise(
                objective,
                x,
                objective.lower,
                objective.upper,
                STEP_RULES[k % len(STEP_RULES)](),
                tolerance=OPTIMUM_TOLERANCE,
                max_iterations=MAX_STEPS_PER_START,
                min_predicted_decrease=SEARCH_POLICY.min_decrease,
                stop=partial(_is_time_below, remaining_time, min_remaining_time),
            )
        except np.linalg.LinAlgError:
            continue
        if math.isfinite(end.value):
            ends.append(end)
        best = min((e.value for e in ends), default=math.inf)
        if progress is not None and ends:
            progress(f"{len(ends)} starts, best log-likelihood {-best:.3f}")
        agreed = sum(e.value < best + SEARCH_POLICY.same_likelihood for e in ends)
        enough = starts is None and agreed >= SEARCH_POLICY.agreeing_starts and len(ends) >= SEARCH_POLICY.min_starts
        # The search continues if χ² rejects even the best end: there may be a better optimum.
        if remaining_time() < SEARCH_POLICY.refinement_share * time_limit or (
            enough and not _is_rejected(objective, min(ends, key=lambda e: e.value).x)
        ):
            break
    if not ends:
        raise FitError(
            "The model could not be solved from any start. Call `log_likelihood()` at the nominal values to check its "
            "initial values, bounds and noise."
        )
    return sorted(ends, key=lambda end: end.value)


def _is_time_below(remaining_time: Callable[[], float], threshold: float, objective: float) -> bool:
    """Return True if fewer than `threshold` CPU seconds remain; the minimiser passes the objective, which is unused."""
    del objective
    return remaining_time() < threshold


def _build_fit(
    problem: PetabProblem, ends: list[Minimum], remaining_time: Callable[[], float], start_time: float
) -> PetabFit:
    """Refine the best end and compute its errors.

    Parameters
    ----------
    problem : PetabProblem
    ends : list of Minimum
        The best first.
    remaining_time : callable
        Returns the CPU seconds that remain.
    start_time : float
        CPU time at which the fit began.

    Returns
    -------
    PetabFit

    Raises
    ------
    FitError
        If the model cannot be solved at the best end with the finer tolerance.
    """
    likelihood = problem.likelihood
    objective = PetabObjective(likelihood)
    best = _refine_end(objective, ends[0], remaining_time)
    theta = _complete_quantities(objective, best.x)
    quantities, keep = problem.found.quantities, [k for k, q in enumerate(problem.found.quantities) if q.estimate]
    names = [quantities[k].name for k in keep]
    predicted = likelihood.predict(theta, True)
    if predicted is None:
        raise FitError(
            "The model cannot be solved at the best estimate with a finer tolerance; try another seed or tighter "
            "bounds."
        )
    _, H = likelihood.compute_derivatives(predicted)
    logs = objective.logs[keep]
    by_working = np.where(logs, theta[keep], 1.0)
    # The information in working coordinates x: with θ = exp(x) it is H_ij θ_i θ_j. The curvature of priors adds to it.
    H = H[np.ix_(keep, keep)] * np.outer(by_working, by_working)
    H += np.diag([_compute_prior_curvature(objective, k, theta) for k in keep])
    width = objective.high[keep] - objective.low[keep]
    near = BOUND_WIDTH_TOLERANCE * np.where(np.isfinite(width), width, 1.0)
    relative = np.where(logs, BOUND_VALUE_TOLERANCE * theta[keep], near)
    at_bound = (theta[keep] <= objective.low[keep] + relative) | (theta[keep] >= objective.high[keep] - relative)
    # A quantity at its bound has no Wald interval: the others get theirs with it held.
    C = np.full((len(keep), len(keep)), np.nan)
    inside = np.flatnonzero(~at_bound)
    undetermined = np.zeros(len(keep), dtype=bool)
    if len(inside):
        C[np.ix_(inside, inside)], undetermined[inside] = _invert_information(H[np.ix_(inside, inside)])
    # Intervals are symmetric in working coordinates; standard errors follow by the delta method, dθ = (dθ/dx) dx.
    half_widths = NORMAL_QUANTILE * np.sqrt(np.where(C.diagonal() >= 0, C.diagonal(), np.nan))
    half_widths = np.where(undetermined, np.inf, half_widths)
    working = np.where(logs, np.log(np.where(logs, theta[keep], 1.0)), theta[keep])
    low, high = (np.where(logs, np.exp(working + s * half_widths), working + s * half_widths) for s in (-1, 1))
    errors = half_widths / NORMAL_QUANTILE * by_working
    agreed = sum(end.value < best.value + SEARCH_POLICY.same_likelihood for end in ends)
    status = Status.from_stop(best.stop)
    notes = []
    if status is Status.STUCK and best.value < ends[0].value + SEARCH_POLICY.same_likelihood:
        # The refinement got stuck at an optimum that the search had reached: converged as far as solutions allow.
        status = Status.CONVERGED
    if undetermined.any():
        status = Status.UNDETERMINED if status.converged else status
        notes.append(
            f"The data do not determine {', '.join(n for n, u in zip(names, undetermined, strict=True) if u)}."
        )
    chi_square = _compute_chi_square(objective, predicted)
    if chi_square is not None and chi_square[2] < MIN_CHI_SQUARE_P and status.converged:
        status = Status.REJECTED
        notes.append("χ² = {:.4g} with {} degrees of freedom: p = {:.2g}.".format(*chi_square))
    if agreed < 2 and len(ends) > 1:
        notes.append(
            "Only one start reached this optimum, so a better one may exist; raise time_limit, or try another seed."
        )
    end_points = np.array([_complete_quantities(objective, end.x)[keep] for end in ends[:KEPT_ENDS]])
    return PetabFit(
        problem,
        dict(zip(names, map(float, theta[keep]), strict=True)),
        dict(zip(names, map(float, errors), strict=True)),
        {n: (float(a), float(b)) for n, a, b in zip(names, low, high, strict=True)},
        -likelihood.compute_value(predicted),
        status,
        at_bound=tuple(n for n, b in zip(names, at_bound, strict=True) if b),
        agreed=agreed,
        tried=len(ends),
        ends=end_points,
        values=np.array([end.value for end in ends[:KEPT_ENDS]]),
        seconds=time.process_time() - start_time,
        notes=tuple(notes),
    )


def _compute_chi_square(
    objective: PetabObjective, prediction: PredictedMeasurements
) -> tuple[float, int, float] | None:
    """Return χ², its degrees of freedom and its p-value.

    Returns
    -------
    tuple, or None
        None if the noise is estimated or not normal, or if no degrees of freedom remain.
    """
    likelihood = objective.likelihood
    # An estimated noise makes χ² about as large as the number of measurements, whatever the model is.
    freedom = len(likelihood.values) - sum(q.estimate for q in objective.quantities)
    estimates_noise = bool(objective.noise) or bool(np.any(prediction.sigma_by_theta))
    if estimates_noise or freedom <= 0 or likelihood.laplace.any():
        return None
    r = likelihood.compute_residuals(prediction)
    return float(r @ r), freedom, compute_chi_square_tail(float(r @ r), freedom)


def _is_rejected(objective: PetabObjective, x: FloatArray) -> bool:
    """Return True if χ² rejects the model at a point `(outer,)` in working coordinates; False if χ² is undefined."""
    predicted = objective.likelihood.predict(_complete_quantities(objective, x), True)
    chi_square = None if predicted is None else _compute_chi_square(objective, predicted)
    return chi_square is not None and chi_square[2] < MIN_CHI_SQUARE_P


def _refine_end(objective: PetabObjective, end: Minimum, remaining_time: Callable[[], float]) -> Minimum:
    """Minimise from the best end with accurate forward solutions; return that end unchanged if this fails."""
    try:
        best = minimise(
            objective,
            end.x,
            objective.lower,
            objective.upper,
            ReachLimitedTrustRegion(),
            tolerance=REFINED_TOLERANCE,
            max_iterations=MAX_STEPS_PER_START,
            min_predicted_decrease=REFINED_DECREASE,
            stop=lambda _: remaining_time() < 0,
        )
    except np.linalg.LinAlgError:
        return end
    return best if math.isfinite(best.value) else end


def _complete_quantities(objective: PetabObjective, x: FloatArray) -> FloatArray:
    """Return all quantities `(P,)` at a point in working coordinates.

    If the model cannot be solved there, the quantities that are solved for inside get their initial values.
    """
    theta = objective(x, 0).theta
    return objective.complete_quantities(x, objective.initial_quantities) if theta is None else theta


def _compute_prior_curvature(objective: PetabObjective, k: int, theta: FloatArray) -> float:
    """Return the contribution of the prior of quantity `k` to the information, in working coordinates.

    It is minus the second difference of the log-prior, or zero where that is negative or not finite.
    """
    q = objective.quantities[k]
    if q.prior is None:
        return 0.0
    x = math.log(theta[k]) if objective.logs[k] else float(theta[k])

    def at(x: float) -> float:
        return q.compute_log_prior(math.exp(x) if objective.logs[k] else x)

    step = CURVATURE_STEP * max(1.0, abs(x))
    curve = -(at(x + step) - 2 * at(x) + at(x - step)) / step**2
    return max(curve, 0.0) if math.isfinite(curve) else 0.0


def _invert_information(H: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Invert an information matrix `(n, n)`, leaving out directions that it does not determine.

    The matrix is scaled to unit diagonal first, so that the units of the quantities do not matter.

    Returns
    -------
    inverse : ndarray, (n, n)
    unknown : ndarray of bool, (n,)
        Quantities with a share in undetermined directions.
    """
    d = np.sqrt(np.maximum(H.diagonal(), 1e-300))
    try:
        w, V = decompose_scaled_matrix(H, d)
    except np.linalg.LinAlgError:
        return np.full(H.shape, np.nan), np.ones(len(H), dtype=bool)
    flat = w < MIN_EIGENVALUE_SHARE * max(float(w[-1]), 1e-300)
    inverse = invert_symmetric(H) if not flat.any() else (V[:, ~flat] / w[~flat]) @ V[:, ~flat].T / np.outer(d, d)
    unknown = (V[:, flat] ** 2).sum(axis=1) > MIN_DIRECTION_SHARE if flat.any() else np.zeros(len(d), dtype=bool)
    return inverse, unknown
