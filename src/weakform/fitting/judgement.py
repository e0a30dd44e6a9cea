"""Judge: what to think of a fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..diagnostics.aliasing import swinging
from ..diagnostics.fit_verdict import (
    Evidence,
    contradicts_noise_free,
    contradicts_sigma,
    doubts,
    is_constant,
    objections,
    rivals,
    unseen,
    verdict,
)
from ..diagnostics.goodness import REJECTED, TESTABLE, GoodnessOfFit, assess, misfits
from ..diagnostics.noise_checks import NoiseDoubts, lonely, noise_doubts
from ..diagnostics.poles import crossed
from ..diagnostics.uncertainty import Quantified, is_blind
from ..estimators import Status
from ..estimators.noise_level import within_misfit
from ..forward.structural_identifiability import Freedom
from ..parameters import Parameters
from ..support.array_types import FloatArray
from ..weak.batched_forms import standardised
from ..weak.weak_form import WeakForm
from .multistart import Searched

AGREED, MANY = 0.05, 4
"""Log-likelihood within which starts agree, and how many there must be before one alone is suspect."""
FEW, MUCH_LEFT, MOST_LEFT = 100, 0.25, 0.4
"""Samples of a trajectory, and the share of what varies that a fit leaves: with fewer, and more, it is looked at twice;
and from how much on from many places."""


SAME_NOISE = 0.2
"""Difference of the logarithms of two σ below which they say the same."""


@dataclass(frozen=True)
class Judged:
    """What to think of a fit."""

    status: Status
    goodness: GoodnessOfFit | None
    warnings: tuple[str, ...]
    weak_residuals: tuple[tuple[FloatArray, FloatArray], ...]
    freedoms: tuple[Freedom, ...]


def judge(parameters: Parameters, fitted: Searched, quantified: Quantified, forms: tuple[WeakForm, ...] = ()) -> Judged:
    """Test the model, and say in words what is wrong or doubtful.

    Weak forms of another method tell where the model fails, if this one has none.
    """
    task, best, problem = fitted.task, fitted.best, fitted.task.problem
    refined, data = best.refined, problem.data
    goodness = None
    residuals = () if fitted.noise_free else standardised(problem.forms, best.estimate)
    if refined is not None and refined.residuals is not None and not fitted.noise_free:
        known = data.sigma is not None
        seen = residuals or standardised(forms, best.estimate)
        where = misfits(problem.forms or forms, seen)
        repeated = sum(int(q.repeats.sum()) for q in data.trajectories if q.repeats is not None)
        within = (within_misfit(task, refined.sigma), repeated)
        left = refined.leftover if best.status.converged else None
        goodness = assess(refined.residuals, refined.misfit, refined.freedom, known, where, within=within, left=left)
    noise = NoiseDoubts()
    if goodness is not None and refined is not None and best.status.converged:
        lack = goodness.lack_of_fit_p
        noise = noise_doubts(
            data,
            refined,
            goodness.p_value < REJECTED,
            repeated=lack is not None and lack < REJECTED,
            uneven=task.options.covariance == "sandwich",
        )
    wrong_sigma = goodness is not None and contradicts_sigma(goodness)
    contradiction: tuple[str, ...] = ()
    if fitted.noise_free and (refined is None or data.sigma is not None):
        contradiction = contradicts_noise_free(task, task.scale.working(quantified.p), refined)
    # A refinement has a σ of its own, and a test; without one the weak residuals are all there is.
    telling = residuals and refined is None and (data.sigma is not None or data.samples >= TESTABLE)
    scores = np.concatenate([r.ravel() for _, r in residuals]) if telling else np.zeros(1)
    over = () if refined is None else crossed(task, best.estimate, refined.states)
    fast = () if refined is None else swinging(task, best.estimate, refined.states)
    rejected = goodness is not None and goodness.p_value < REJECTED
    alone = _alone(fitted)
    free = unseen(parameters, task, best, rejected) if best.status.converged else ()
    blind = is_blind(task, refined)
    evidence = Evidence(
        p=quantified.p,
        covariance=quantified.covariance,
        inner=task.free & ~quantified.at_bound,
        test=np.nan if goodness is None else goodness.p_value,
        misfit=np.inf if contradiction else float(np.sqrt(np.mean(scores**2))),
        constant=is_constant(problem) and (refined is None or bool((refined.sigma > 0.5 * problem.spread).all())),
        against=bool((quantified.at_bound & (quantified.p != 0)).any()),
        unseen=bool(free or fast or (alone and leaves(fitted, MOST_LEFT))),
        width=quantified.bounds[:, 1] - quantified.bounds[:, 0],
        misstated=noise.exceptions or noise.instead or wrong_sigma,
        blind=blind,
        bias=np.inf if over else 0.0 if refined is None or fitted.noise_free else refined.bias,
    )
    said = frozenset(problem.model.parameters if blind else (name for one in free for name in one.names))
    warnings = (
        *over,
        *fast,
        *map(str, free),
        *rivals(task, () if free else fitted.alternatives),
        *objections(task, refined, goodness, noise),
        *contradiction,
        *doubts(task, quantified, best.status, said),
        *alone,
    )
    status = verdict(best.status, evidence)
    if not (status.success or noise.words or fitted.noise_free):
        warnings = (*lonely(data), *warnings)
    if residuals and refined is not None and not rejected:
        residuals = _with_sigma(problem.forms, best.estimate, problem.sigma, refined.sigma) or residuals
    return Judged(status, goodness, warnings, residuals, freedoms=free)


def _with_sigma(
    forms: tuple[WeakForm, ...], p: FloatArray, filtered: FloatArray, sigma: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Weak residuals over their standard deviations with the σ of the fit, where that of a filter is another.

    Few samples tell a filter little of the noise. Of a model that is wrong it is the better judge.
    """
    with np.errstate(all="ignore"):
        ratio = sigma / filtered
    if not (np.isfinite(ratio) & (ratio > 0)).all() or np.abs(np.log(ratio)).max() < SAME_NOISE:
        return ()
    return standardised([replace(form, variance=form.variance * ratio**2) for form in forms], p)


def leaves(fitted: Searched, much: float) -> bool:
    """Whether a fit leaves so much of what varies, and there are few samples to tell that from noise."""
    refined, problem = fitted.best.refined, fitted.task.problem
    if refined is None or not is_short(fitted) or problem.data.sigma is not None:
        return False
    return bool((refined.sigma > much * problem.spread).any())


def is_short(fitted: Searched) -> bool:
    """Whether there are few samples to tell what varies from noise."""
    return max(len(q.times) for q in fitted.task.problem.data.trajectories) < FEW


def _alone(fitted: Searched) -> tuple[str, ...]:
    """That of many starts only one has led to the best, where there may be a better place.

    That is so where equations were solved, and where few samples leave much of what varies.
    """
    near = sum(record.behind <= AGREED for record in fitted.records)
    if near != 1 or len(fitted.records) < MANY or not (fitted.estimator.local or leaves(fitted, MOST_LEFT)):
        return ()
    return (
        f"Only one of {len(fitted.records)} starts reached the best likelihood: a better one may exist; raise starts, "
        "or give narrower bounds.",
    )
