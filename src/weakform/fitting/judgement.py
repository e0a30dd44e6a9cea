"""Judgement of a fit: the test of the model, the check of the noise, warnings in words, and the final status."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..diagnostics.aliasing import warn_of_aliasing
from ..diagnostics.fit_verdict import Evidence, decide_status, is_constant
from ..diagnostics.goodness import (
    MIN_SAMPLES_FOR_WEAK_TEST,
    REJECTION_LEVEL,
    GoodnessOfFit,
    assess_residuals,
    find_misfits,
    is_only_sigma_wrong,
)
from ..diagnostics.noise_checks import NoiseFindings, check_noise, warn_of_isolated_outliers
from ..diagnostics.poles import warn_of_crossed_poles
from ..diagnostics.practical_identifiability import find_unidentifiable_directions, is_noise_unknown
from ..diagnostics.uncertainty import EstimateUncertainty
from ..diagnostics.warning_texts import (
    describe_misfit,
    describe_noise_free_contradiction,
    describe_rivals,
    describe_uncertainty,
)
from ..estimators.noise_level import compute_within_misfit
from ..forward.structural_identifiability import Freedom
from ..parameters import ResolvedParameters
from ..results.status import Status
from ..support.array_types import FloatArray
from ..weak.batched_forms import standardise_forms
from ..weak.weak_form import WeakForm
from .multistart import SearchResult
from .policy import FALLBACK_POLICY, FallbackPolicy

MIN_LOG_RATIO_OF_SIGMAS = 0.2
"""Difference of the logarithms of two estimates of σ. Above, weak residuals are standardised by the σ of the fit in
place of that of the filter. By judgement: about the sampling error of log σ from 12 values, `1/√24`."""

MIN_RESIDUAL_SHARE_OF_CONSTANT_DATA = 0.5
"""Residual standard deviation over that of the data, in every column. Above, data that look constant are taken to be
constant; below, the model explains variation that the test for constancy has missed. By judgement."""


@dataclass(frozen=True)
class Judgement:
    """The verdict on a fit.

    Attributes
    ----------
    status : Status
    goodness : GoodnessOfFit, or None
        None if the method has no residuals of the data.
    warnings : tuple of str
        Most serious first.
    weak_residuals : tuple of pairs of ndarray, one for each trajectory
        Centres of the test functions `(K,)`, and weak residuals over their standard deviations `(D, K)`.
    freedoms : tuple of Freedom
        Directions in parameter space that the measured columns cannot identify.
    """

    status: Status
    goodness: GoodnessOfFit | None
    warnings: tuple[str, ...]
    weak_residuals: tuple[tuple[FloatArray, FloatArray], ...]
    freedoms: tuple[Freedom, ...]


def judge(
    parameters: ResolvedParameters,
    searched: SearchResult,
    quantified: EstimateUncertainty,
    forms: tuple[WeakForm, ...] = (),
    policy: FallbackPolicy = FALLBACK_POLICY,
) -> Judgement:
    """Test the model against the data, describe what is wrong or doubtful, and decide the status.

    Parameters
    ----------
    parameters : ResolvedParameters
    searched : SearchResult
        After refinement.
    quantified : EstimateUncertainty
    forms : tuple of WeakForm
        Weak forms of another method; they locate the misfit in time if this method has none of its own.
    policy : FallbackPolicy

    Returns
    -------
    Judgement
    """
    task, best, problem = searched.task, searched.best, searched.task.problem
    refined, data, converged = best.refined, problem.data, best.status.converged
    weak_residuals = () if searched.noise_free else standardise_forms(problem.forms, best.estimate)
    goodness = _assess_model(searched, weak_residuals, forms)
    is_rejected = goodness is not None and goodness.p_value < REJECTION_LEVEL
    noise = NoiseFindings()
    if goodness is not None and refined is not None and converged:
        lack_of_fit = goodness.lack_of_fit_p
        noise = check_noise(
            data,
            refined,
            is_rejected,
            rejected_by_repeats=lack_of_fit is not None and lack_of_fit < REJECTION_LEVEL,
            allow_uneven=task.options.covariance == "sandwich",
        )
    sigma_is_contradicted = goodness is not None and is_only_sigma_wrong(goodness)
    contradictions: tuple[str, ...] = ()
    if searched.noise_free and (refined is None or data.sigma is not None):
        contradictions = describe_noise_free_contradiction(task, task.scale.to_working(quantified.p), refined)
    # A refinement has its own σ and its own test; without one the weak residuals are the only evidence.
    has_scores = (
        weak_residuals and refined is None and (data.sigma is not None or data.samples >= MIN_SAMPLES_FOR_WEAK_TEST)
    )
    scores = np.concatenate([r.ravel() for _, r in weak_residuals]) if has_scores else np.zeros(1)
    poles = () if refined is None else warn_of_crossed_poles(task, best.estimate, refined.states)
    aliased = () if refined is None else warn_of_aliasing(task, best.estimate, refined.states)
    single_start = warn_of_single_best_start(searched, policy)
    freedoms = find_unidentifiable_directions(parameters, task, best, is_rejected) if converged else ()
    without_freedom = is_noise_unknown(task, refined)
    evidence = Evidence(
        p=quantified.p,
        covariance=quantified.covariance,
        inner=task.free & ~quantified.at_bound,
        p_value=np.nan if goodness is None else goodness.p_value,
        weak_misfit=np.inf if contradictions else float(np.sqrt(np.mean(scores**2))),
        data_are_constant=is_constant(problem)
        and (refined is None or bool((refined.sigma > MIN_RESIDUAL_SHARE_OF_CONSTANT_DATA * problem.spread).all())),
        at_nonzero_bound=bool((quantified.at_bound & (quantified.p != 0)).any()),
        is_not_unique=_may_be_elsewhere(searched, freedoms, aliased, single_start, policy),
        box_width=quantified.bounds[:, 1] - quantified.bounds[:, 0],
        noise_is_misstated=noise.is_misstated or noise.explains_rejection or sigma_is_contradicted,
        noise_is_unknown=without_freedom,
        bias=np.inf if poles else 0.0 if refined is None or searched.noise_free else refined.bias,
    )
    # Parameters that a stronger warning names already.
    named = frozenset(
        problem.model.parameters if without_freedom else (name for freedom in freedoms for name in freedom.names)
    )
    warnings = (
        *poles,
        *aliased,
        *map(str, freedoms),
        *describe_rivals(task, () if freedoms else searched.alternatives),
        *describe_misfit(task, refined, goodness, noise),
        *contradictions,
        *describe_uncertainty(task, quantified, best.status, named),
        *single_start,
    )
    status = decide_status(best.status, evidence)
    if not (status.success or noise.sentences or searched.noise_free):
        warnings = (*warn_of_isolated_outliers(data), *warnings)
    if weak_residuals and refined is not None and not is_rejected:
        weak_residuals = (
            _standardise_by_fit(problem.forms, best.estimate, problem.sigma, refined.sigma) or weak_residuals
        )
    return Judgement(status, goodness, warnings, weak_residuals, freedoms=freedoms)


def _assess_model(
    searched: SearchResult,
    weak_residuals: tuple[tuple[FloatArray, FloatArray], ...],
    forms: tuple[WeakForm, ...],
) -> GoodnessOfFit | None:
    """Test the residuals of the data; return None if the method has none, or the data are noise-free."""
    task, best, problem = searched.task, searched.best, searched.task.problem
    refined, data = best.refined, problem.data
    if refined is None or refined.residuals is None or searched.noise_free:
        return None
    located = find_misfits(problem.forms or forms, weak_residuals or standardise_forms(forms, best.estimate))
    repeats = int(data.repeated_measurements.sum())
    return assess_residuals(
        refined.residuals,
        refined.misfit,
        refined.freedom,
        data.sigma is not None,
        located,
        pure_error=(compute_within_misfit(task, refined.sigma), repeats),
        project_noise=refined.project_residuals if best.status.converged else None,
    )


def _may_be_elsewhere(
    searched: SearchResult,
    freedoms: tuple[Freedom, ...],
    aliased: tuple[str, ...],
    single_start: tuple[str, ...],
    policy: FallbackPolicy,
) -> bool:
    """Return True if other parameter values may fit as well: a freedom, aliasing, or a doubtful best start.

    A single best start counts only in a short series that is left with much unexplained variation.
    """
    if freedoms or aliased:
        return True
    return bool(single_start) and unexplained_share_exceeds(searched, policy.unexplained_for_more_starts, policy)


def _standardise_by_fit(
    forms: tuple[WeakForm, ...], p: FloatArray, filter_sigma: FloatArray, sigma: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Standardise weak residuals by the σ of the fit; return () if it agrees with that of the filter.

    From few samples the filter estimates the noise badly. The caller excludes rejected models: their residuals contain
    more than noise, so that the σ of the filter is the better one.
    """
    with np.errstate(all="ignore"):
        ratio = sigma / filter_sigma
    if not (np.isfinite(ratio) & (ratio > 0)).all() or np.abs(np.log(ratio)).max() < MIN_LOG_RATIO_OF_SIGMAS:
        return ()
    return standardise_forms([replace(form, variance=form.variance * ratio**2) for form in forms], p)


def unexplained_share_exceeds(searched: SearchResult, share: float, policy: FallbackPolicy = FALLBACK_POLICY) -> bool:
    """Return True if a short series of unknown σ has residuals larger than `share` of some column's spread.

    In such a series large residuals may be noise or a wrong optimum: no test can tell them apart.
    """
    refined, problem = searched.best.refined, searched.task.problem
    if refined is None or not is_short_series(searched, policy) or problem.data.sigma is not None:
        return False
    return bool((refined.sigma > share * problem.spread).any())


def compute_largest_unexplained_share(searched: SearchResult) -> float:
    """Return the largest residual standard deviation of any column, as a share of the column's spread."""
    refined = searched.best.refined
    return np.nan if refined is None else float(np.max(refined.sigma / searched.task.problem.spread))


def is_short_series(searched: SearchResult, policy: FallbackPolicy = FALLBACK_POLICY) -> bool:
    """Return True if the longest trajectory has too few samples to tell large residuals from noise."""
    return max(len(q.times) for q in searched.task.problem.data.trajectories) < policy.short_series


def warn_of_single_best_start(searched: SearchResult, policy: FallbackPolicy = FALLBACK_POLICY) -> tuple[str, ...]:
    """Warn if only one of several starts reached the best likelihood, and a better optimum is likely.

    A better optimum is likely if the method solves the equations, because such a search converges only from nearby, or
    if a short series is left with much unexplained variation.
    """
    best_starts = sum(record.behind <= policy.agreement for record in searched.records)
    if best_starts != 1 or len(searched.records) < policy.min_starts_to_disagree:
        return ()
    doubtful = searched.estimator.solves_equations or unexplained_share_exceeds(
        searched, policy.unexplained_for_more_starts, policy
    )
    if not doubtful:
        return ()
    count = len(searched.records)
    return (
        f"Only one of {count} starts reached the best likelihood: a better optimum may exist. Raise starts, or "
        "give narrower bounds.",
    )
