"""Warnings about a fit in words: misfits of the model, rival estimates, and parameters that are poorly determined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Task
from ..estimators.noise_level import count_values as counts_of
from ..estimators.outcome import Refinement
from ..results.records import Alternative
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .goodness import (
    DOUBT_LEVEL,
    REJECTION_LEVEL,
    GoodnessOfFit,
    find_one_sided_stretches,
    format_p_value,
    list_model_p_values,
)
from .noise_checks import NoiseFindings
from .practical_identifiability import POORLY_DETERMINED, is_noise_unknown
from .uncertainty import EstimateUncertainty

NO_FINDINGS = NoiseFindings()
"""Noise without findings."""

MIN_SAMPLES_FOR_INTERVALS = 50
"""Samples in total, and values of the longest column. Below both, the intervals are called rough. By judgement."""


@dataclass(frozen=True)
class _WarningPolicy:
    """Thresholds of warnings; they do not change the status of a fit."""

    bias: float = 0.3
    """Error of the discretisation, in standard errors, above which it is reported; above 0.5 the fit is UNRESOLVED
    (`fit_verdict`). By judgement; documented in `docs/when-not-to-trust.md`."""

    unexplained: float = 0.5
    """Residual standard deviation over that of the data, in a column whose model is doubtful or not tested, above which
    the fit is said to explain little of the column. By judgement."""

    held: float = 0.3
    """Component of a parameter in the direction that the refinement held, of unit length, above which the parameter is
    named. By judgement."""

    correlation: float = 0.98
    """Size of the correlation of two estimates above which the pair is named. By judgement: knowing one of them
    would make the error of the other five times smaller, `√(1 - 0.98²) = 0.2`."""

    well_known_error: float = 0.05
    """Larger of the relative errors of a pair, below which their correlation does not matter. By judgement."""

    noise_free: float = 1e-3
    """Share of the data that the equations miss, above which data with sigma = 0 are not noise-free. By judgement: far
    above rounding and the error of the discretisation."""

    listed_stretches: int = 4
    """Stretches of time at which a rejected model fails that are listed, at most."""

    shown_difference: float = 0.005
    """Difference of log-likelihoods below which it is left out, as it would be printed as 0.00."""


WARNING_POLICY = _WarningPolicy()
"""The thresholds in use."""


def describe_misfit(
    task: Task, refined: Refinement | None, goodness: GoodnessOfFit | None, noise: NoiseFindings = NO_FINDINGS
) -> list[str]:
    """Describe what is wrong with the model, the noise or the sampling.

    Parameters
    ----------
    task : Task
    refined : Refinement, or None
    goodness : GoodnessOfFit, or None
        None if there are no residuals to test.
    noise : NoiseFindings
        Findings about the noise, which are reported first.

    Returns
    -------
    list of str
        Most serious first.
    """
    if refined is None or goodness is None:
        return []
    ratio, p_values = _compute_residual_ratio(refined), list_model_p_values(goodness)
    # A wrong model enlarges the residuals, too: then a sigma that looks too small is no separate finding.
    is_model_wrong = ratio > 1 and min(p_values, default=1.0) < REJECTION_LEVEL
    is_sigma_wrong = goodness.chi_square_p is not None and goodness.chi_square_p < DOUBT_LEVEL and not is_model_wrong
    # With a wrong sigma only the tests that do not depend on it say anything about the model.
    p = min(p_values, default=np.nan) if is_sigma_wrong else goodness.p_value
    sentences = [*noise.sentences, *_describe_missing_freedom(task, refined)]
    if REJECTION_LEVEL <= p < DOUBT_LEVEL:
        sentences.append(
            f"The model is doubtful ({format_p_value(p)}): the residuals of one right model in {1 / p:.0f} "
            "deviate as much from noise. Look at the weak residuals, and test the model on other data."
        )
    if p < REJECTION_LEVEL and not (noise.is_misstated or noise.explains_rejection):
        sentences += _describe_rejection(task, refined, goodness, p)
    if is_sigma_wrong:
        size = f"{ratio:.2g} times as large as" if ratio > 1 else f"{1 / ratio:.2g} times smaller than"
        sentences.append(
            f"The given sigma contradicts the data: the residuals are {size} sigma. Leave sigma out to have it "
            "estimated."
        )
    sentences += _describe_unexplained_variation(task, refined, goodness)
    if refined.bias > WARNING_POLICY.bias:
        sentences.append(
            "The samples are too far apart for these dynamics: the discretisation shifts the estimates by "
            f"{refined.bias:.2g} standard errors. Sample more often, or leave out the fast part."
        )
    sentences += _describe_held_direction(task, refined)
    return sentences


def _describe_missing_freedom(task: Task, refined: Refinement) -> list[str]:
    """Describe a fit with as many unknowns as values."""
    if refined.freedom > 0:
        return []
    consequence = (
        "the noise level is unknown. Measure more, fix some parameters, or give sigma."
        if is_noise_unknown(task, refined)
        else "nothing tests the model."
    )
    return [f"There are as many unknowns as values: the model can follow any data, and {consequence}"]


def _describe_rejection(task: Task, refined: Refinement, goodness: GoodnessOfFit, p: float) -> list[str]:
    """Describe a rejected model, and where in time it fails."""
    sentences = [
        f"The model does not fit the data ({format_p_value(p)}): the residuals are not noise. Do not trust its "
        "estimates and intervals."
    ]
    for misfit in goodness.misfits[: WARNING_POLICY.listed_stretches]:
        label = task.problem.data.trajectories[misfit.trajectory].label
        end = f"{misfit.stop:.4g}" + (f" of {label}" if label else "")
        sentences.append(
            f"The equation of {task.problem.model.states[misfit.equation]} does not hold between t = "
            f"{misfit.start:.4g} and {end} (score {misfit.score:+.1f}): a term is missing or wrong there."
        )
    if not goodness.misfits and refined.residuals is not None:
        sentences += _describe_one_sided_stretches(task, refined.residuals)
    return sentences


def _describe_one_sided_stretches(task: Task, residuals: tuple[FloatArray, ...]) -> list[str]:
    """Describe the stretches of time in which the data are above, or below, the fit."""
    data, sentences = task.problem.data, []
    stretches = find_one_sided_stretches(residuals, tuple(q.times for q in data.trajectories))
    for stretch in stretches[: WARNING_POLICY.listed_stretches]:
        label = data.trajectories[stretch.trajectory].label
        span = f"t = {stretch.start:.4g} to {stretch.stop:.4g}" + (f" of {label}" if label else "")
        side = "above" if stretch.score > 0 else "below"
        sentences.append(
            f"{data.labels[stretch.column]} is {side} the fit from {span}: {stretch.count} values, together "
            f"{abs(stretch.score):.1f} standard deviations. The model may lack something that acts there."
        )
    return sentences


def _compute_residual_ratio(refined: Refinement) -> float:
    """Compute the size of the residuals over σ: the square root of `Σ (x^data - x̂)²/σ²` over its degrees of freedom."""
    return float(np.sqrt(refined.misfit / max(refined.freedom, 1)))


def _describe_unexplained_variation(task: Task, refined: Refinement, goodness: GoodnessOfFit) -> list[str]:
    """Describe the columns of which a model that is doubtful, or not tested, explains little."""
    sentences = []
    for name, sigma, spread in zip(task.problem.data.labels, refined.sigma, task.problem.spread, strict=True):
        if sigma > WARNING_POLICY.unexplained * spread and not goodness.p_value >= DOUBT_LEVEL:
            sentences.append(
                f"The fit explains little of {name}: the standard deviation of its residuals is {sigma / spread:.0%} "
                "of that of the data. The samples may be too far apart for the dynamics, or the estimate wrong; try "
                "bounds or other starts."
            )
    return sentences


def _describe_held_direction(task: Task, refined: Refinement) -> list[str]:
    """Describe the combination of parameters that the refinement held, because the data do not determine it."""
    if refined.held_direction is None:
        return []
    names = np.array(task.problem.model.parameters)[task.free]
    order = np.argsort(-np.abs(refined.held_direction))
    large = [j for j in order if abs(refined.held_direction[j]) > WARNING_POLICY.held] or list(order[:1])
    return [
        f"The data do not determine {' and '.join(names[large])} separately: changing them together hardly changes the "
        "fit. This combination was held at the estimate of 'mle', and the intervals take it as known. Give bounds, or "
        "fix one of them."
    ]


def describe_rivals(task: Task, alternatives: tuple[Alternative, ...]) -> tuple[str, ...]:
    """Describe other estimates that fit equally well, one sentence for each."""
    names = task.problem.model.parameters
    sentences = []
    for alternative in alternatives:
        pairs = zip(names, alternative.estimate, task.free, strict=True)
        values = ", ".join(f"{name} = {value:.4g}" for name, value, free in pairs if free)
        is_lower = alternative.behind >= WARNING_POLICY.shown_difference
        difference = f" (its log-likelihood is {alternative.behind:.2f} lower)" if is_lower else ""
        sentences.append(
            f"Another solution fits equally well{difference}: {values}. The data cannot tell the two apart; give "
            "bounds that contain only one of them."
        )
    return tuple(sentences)


def describe_noise_free_contradiction(task: Task, p: FloatArray, refined: Refinement | None) -> tuple[str, ...]:
    """Warn if data that were given as noise-free are not.

    Parameters
    ----------
    task : Task
    p : ndarray, (J,)
        The estimate, in working coordinates.
    refined : Refinement, or None

    Returns
    -------
    tuple of str
        One sentence with the share of the data that the equations miss; empty if it is negligible or unknown.
    """
    if task.problem.forms:
        share = float(np.linalg.norm(task.weak.residual(p))) / task.weak.compute_left_side_norm()
    elif refined is None or refined.residuals is None:
        return ()
    else:
        off = np.concatenate(refined.residuals) * refined.sigma / task.problem.spread
        share = float(np.sqrt(np.nanmean(off**2)))
    if share < WARNING_POLICY.noise_free:
        return ()
    return (
        f"sigma is 0, yet the equations miss the data by {share:.1%}: the data are not noise-free, or the model is "
        "wrong. Leave sigma out to have it estimated, and to get intervals.",
    )


def describe_uncertainty(
    task: Task, quantified: EstimateUncertainty, status: Status, named: frozenset[str] = frozenset()
) -> tuple[str, ...]:
    """Describe parameters at bounds or poorly determined, few samples, and a search that did not converge.

    Parameters
    ----------
    task : Task
    quantified : EstimateUncertainty
    status : Status
        Of the search.
    named : frozenset of str
        Parameters that a stronger warning names already; they get no further one.

    Returns
    -------
    tuple of str
    """
    is_named = np.array([name in named for name in task.problem.model.parameters])
    sentences = [
        *_describe_bounds(task, quantified, quantified.at_bound & ~is_named),
        *_describe_precision(task, quantified, task.free & ~quantified.at_bound & ~is_named),
        *_describe_few_samples(task),
    ]
    if not status.converged:
        sentences.append("The estimate is not a minimum of the objective; its intervals mean little.")
    return tuple(sentences)


def _describe_bounds(task: Task, quantified: EstimateUncertainty, at_bound: BoolArray) -> list[str]:
    """Describe the parameters at bounds, one sentence for each; `at_bound` `(J,)` is True for them."""
    names, sentences = task.problem.model.parameters, []
    p, box = quantified.p, quantified.bounds.T
    for j in np.flatnonzero(at_bound):
        side = "lower" if p[j] - box[0][j] < box[1][j] - p[j] else "upper"
        sentences.append(
            f"{names[j]} sits at its {side} bound ({p[j]:g}): the covariance takes it as fixed; profile intervals do "
            "not. Widen the bound, unless values beyond it are impossible."
        )
    return sentences


def _describe_precision(task: Task, quantified: EstimateUncertainty, inner: BoolArray) -> list[str]:
    """Describe parameters that are not or poorly determined, then pairs that are hard to tell apart.

    Only parameters for which `inner` `(J,)` is True are described.
    """
    names, sentences = task.problem.model.parameters, []
    p, covariance = quantified.p, quantified.covariance
    error = np.sqrt(np.abs(covariance.diagonal()))
    indices = np.flatnonzero(inner)
    for j in indices:
        if np.isinf(error[j]):
            sentences.append(
                f"{names[j]} is not determined at all: the data contain no information about it at the estimate "
                f"({p[j]:.3g}). Fix it, give bounds, or leave out its term."
            )
        elif error[j] > POORLY_DETERMINED * abs(p[j]):
            size = "more than 1000%" if error[j] > 10 * abs(p[j]) else f"{error[j] / abs(p[j]):.0%}"
            sentences.append(
                f"{names[j]} is poorly determined: by the curvature of the likelihood at the estimate, bounds aside, "
                f"its standard error is {size} of its value. More data, less noise, or fixing a correlated parameter "
                "would help."
            )
    for k, i in enumerate(indices):
        for j in indices[:k]:
            correlation = covariance[i, j] / (error[i] * error[j]) if error[i] and error[j] else 0.0
            relative = max(error[i] / abs(p[i]) if p[i] else np.inf, error[j] / abs(p[j]) if p[j] else np.inf)
            if abs(correlation) > WARNING_POLICY.correlation and relative > WARNING_POLICY.well_known_error:
                # Errors of the same relative sign cancel in a ratio, those of opposite signs in a product.
                combination = "ratio or difference" if correlation * p[i] * p[j] > 0 else "product or sum"
                sentences.append(
                    f"{names[j]} and {names[i]} can hardly be told apart (correlation {correlation:+.3f}): the data "
                    f"determine a combination of the two, such as their {combination}, better than either."
                )
    return sentences


def _describe_few_samples(task: Task) -> list[str]:
    """Describe data with few samples, and with few values in each column."""
    counts = [form.functions.count for form in task.problem.forms]
    samples = task.problem.data.samples
    if samples >= MIN_SAMPLES_FOR_INTERVALS or counts_of(task).max() >= MIN_SAMPLES_FOR_INTERVALS:
        return []
    functions = f" ({sum(counts)} test function{'s' * (sum(counts) > 1)})" if counts else ""
    return [
        f"Only {samples} samples: the noise level and the intervals rest on few values{functions}; treat the intervals "
        "as rough."
    ]
