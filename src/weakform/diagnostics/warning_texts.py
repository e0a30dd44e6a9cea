"""Trouble in words: what a fit should not be read without."""

from __future__ import annotations

import numpy as np

from ..estimators.estimation_problem import Refined, Task
from ..estimators.noise_level import counts as counts_of
from ..results.records import Alternative
from ..results.status import Status
from ..support.array_types import FloatArray
from .goodness import DOUBTED, REJECTED, GoodnessOfFit, leanings, model_p_values, tail
from .noise_checks import NoiseDoubts
from .practical_identifiability import POORLY_DETERMINED, is_blind
from .uncertainty import Quantified

NO_DOUBTS = NoiseDoubts()
FEW = 50
"""Samples below which intervals are called rough."""
INSEPARABLE, WELL_KNOWN = 0.98, 0.05
SHIFTED = 0.3
"""Error of the discretisation in standard errors that is told."""
UNEXPLAINED = 0.5
SHOWN = 4


def objections(
    task: Task, refined: Refined | None, goodness: GoodnessOfFit | None, noise: NoiseDoubts = NO_DOUBTS
) -> list[str]:
    """What the refinement found wrong with the model, the noise or the sampling, in words."""
    if refined is None or goodness is None:
        return []
    found, model = [*noise.words], task.problem.model
    if refined.freedom <= 0:
        rest = "nothing is known of the noise. Measure more, fix some parameters, or give sigma."
        found.append(
            "There are as many unknowns as values: any data would be met, and "
            f"{rest if is_blind(task, refined) else 'nothing tests the model.'}"
        )
    ratio, others = _excess(refined), model_p_values(goodness)
    wrong_sigma = goodness.chi_square_p is not None and goodness.chi_square_p < DOUBTED
    wrong_sigma &= not (ratio > 1 and min(others, default=1.0) < REJECTED)
    p = min(others, default=np.nan) if wrong_sigma else goodness.p_value
    if REJECTED <= p < DOUBTED:
        found.append(
            f"The model is doubtful ({tail(p)}): its residuals hang together more than noise does. One right model "
            f"in {1 / p:.0f} looks like this; look at the weak residuals, and test it on other data."
        )
    if p < REJECTED and not (noise.exceptions or noise.instead):
        found.append(
            f"The model does not fit the data ({tail(p)}): the residuals are not noise. "
            "Its estimates and intervals are not to be trusted."
        )
        for misfit in goodness.misfits[:SHOWN]:
            label = task.problem.data.trajectories[misfit.trajectory].label
            where = f"{misfit.stop:.4g}" + (f" of {label}" if label else "")
            found.append(
                f"The equation of {model.states[misfit.equation]} does not hold between t = {misfit.start:.4g} and "
                f"{where} (score {misfit.score:+.1f}): a term is missing or wrong there."
            )
        if not goodness.misfits and refined.residuals is not None:
            found += _leaning(task, refined.residuals)
    if wrong_sigma:
        size = f"{ratio:.2g} times as large as" if ratio > 1 else f"{1 / ratio:.2g} times smaller than"
        found.append(
            f"The given sigma contradicts the data: the residuals are {size} it says. "
            "Leave sigma out to have it estimated."
        )
    for name, sigma, spread in zip(task.problem.data.labels, refined.sigma, task.problem.spread, strict=True):
        if sigma > UNEXPLAINED * spread and not goodness.p_value >= DOUBTED:
            found.append(
                f"The fit explains little of {name}: its residuals are {sigma / spread:.0%} of its variation. The "
                "samples may be too far apart for the dynamics, or the estimate wrong; try bounds or other starts."
            )
    if refined.bias > SHIFTED:
        found.append(
            "The samples are too far apart for these dynamics: the discretisation shifts the estimates by "
            f"{refined.bias:.2g} standard errors. Sample faster, or leave out the fast part."
        )
    if refined.held is not None:
        names = np.array(model.parameters)[task.free]
        order = np.argsort(-np.abs(refined.held))
        large = [j for j in order if abs(refined.held[j]) > 0.3] or list(order[:1])
        found.append(
            f"The data do not determine {' and '.join(names[large])} separately: moving them together hardly changes "
            "the fit. This combination was held where 'mle' found it; their intervals take it as known. Give bounds, "
            "or fix one of them."
        )
    return found


def _leaning(task: Task, residuals: tuple[FloatArray, ...]) -> list[str]:
    """Where the data lie to one side of the fit, in words."""
    data, words = task.problem.data, []
    for one in leanings(residuals, tuple(q.times for q in data.trajectories))[:SHOWN]:
        label = data.trajectories[one.trajectory].label
        where = f"t = {one.start:.4g} to {one.stop:.4g}" + (f" of {label}" if label else "")
        words.append(
            f"{data.labels[one.column]} lies {'above' if one.score > 0 else 'below'} the fit from {where}: {one.count} "
            f"values, together {abs(one.score):.1f} standard deviations. What the model lacks may act there."
        )
    return words


def _excess(refined: Refined) -> float:
    """Residuals over what σ says of them."""
    return float(np.sqrt(refined.misfit / max(refined.freedom, 1)))


def rivals(task: Task, alternatives: tuple[Alternative, ...]) -> tuple[str, ...]:
    """Other estimates that fit equally well, in words."""
    names = task.problem.model.parameters
    found = []
    for other in alternatives:
        pairs = zip(names, other.estimate, task.free, strict=True)
        values = ", ".join(f"{name} = {value:.4g}" for name, value, free in pairs if free)
        less = f" (its log-likelihood is {other.behind:.2f} lower)" if other.behind >= 0.005 else ""
        found.append(
            f"Another solution fits equally well{less}: {values}. The data cannot tell the two apart; bounds that "
            "leave only one of them can."
        )
    return tuple(found)


def contradicts_noise_free(task: Task, p: FloatArray, refined: Refined | None) -> tuple[str, ...]:
    """What to say of data that are said to be noise-free and are not."""
    if task.problem.forms:
        share = float(np.linalg.norm(task.weak.residual(p))) / task.weak.left_side_norm()
    elif refined is None or refined.residuals is None:
        return ()
    else:
        off = np.concatenate(refined.residuals) * refined.sigma / task.problem.spread
        share = float(np.sqrt(np.nanmean(off**2)))
    if share < 1e-3:
        return ()
    return (
        f"sigma is 0, yet the equations miss the data by {share:.1%}: the data are not noise-free, or the model is "
        "wrong. Leave sigma out to have it estimated, and to get intervals.",
    )


def doubts(task: Task, found: Quantified, status: Status, said: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Parameters at bounds, poorly determined or hardly told apart; few samples; a fit that did not converge.

    Nothing more is said of parameters of which it was `said` that they cannot be determined.
    """
    names, warnings = task.problem.model.parameters, []
    p, covariance, at_bound, box = found.p, found.covariance, found.at_bound, found.bounds.T
    heard = np.array([name in said for name in names])
    for j in np.flatnonzero(at_bound & ~heard):
        which = "lower" if p[j] - box[0][j] < box[1][j] - p[j] else "upper"
        warnings.append(
            f"{names[j]} sits at its {which} bound ({p[j]:g}): the covariance takes it as fixed there; intervals by "
            "their profiles do not. Widen the bound if it is not a law of nature."
        )
    error = np.sqrt(np.abs(covariance.diagonal()))
    inner = np.flatnonzero(task.free & ~at_bound & ~heard)
    for j in inner:
        if np.isinf(error[j]):
            warnings.append(
                f"{names[j]} is not determined at all: the data hold no information about it where the fit has ended "
                f"({p[j]:.3g}). Fix it, give bounds, or leave out its term."
            )
        elif error[j] > POORLY_DETERMINED * abs(p[j]):
            size = "more than 1000%" if error[j] > 10 * abs(p[j]) else f"{error[j] / abs(p[j]):.0%}"
            warnings.append(
                f"{names[j]} is poorly determined: bounds aside, the likelihood next to the estimate leaves it an "
                f"error of {size} of its value. More data, less noise or a fixed value of a correlated parameter would "
                "help."
            )
    for k, i in enumerate(inner):
        for j in inner[:k]:
            correlation = covariance[i, j] / (error[i] * error[j]) if error[i] and error[j] else 0.0
            known = max(error[i] / abs(p[i]) if p[i] else np.inf, error[j] / abs(p[j]) if p[j] else np.inf)
            if abs(correlation) > INSEPARABLE and known > WELL_KNOWN:
                sense = "ratio or difference" if correlation * p[i] * p[j] > 0 else "product or sum"
                warnings.append(
                    f"{names[j]} and {names[i]} can hardly be told apart (correlation {correlation:+.3f}): the data "
                    f"determine a combination of the two, such as their {sense}, better than either."
                )
    counts = [form.functions.count for form in task.problem.forms]
    samples = task.problem.data.samples
    if samples < FEW and counts_of(task).max() < FEW:
        warnings.append(
            f"Only {samples} samples: the noise level and the intervals rest on few values"
            + (f" ({sum(counts)} test function{'s' * (sum(counts) > 1)})" if counts else "")
            + "; treat the intervals as rough."
        )
    if not status.converged:
        warnings.append("The estimate is not a minimum of the objective; its intervals mean little.")
    return tuple(warnings)
