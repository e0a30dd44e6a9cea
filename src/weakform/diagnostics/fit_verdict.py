"""Trouble in words: what a fit should not be read without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.matching import match
from ..estimators.estimation_problem import Problem, Task
from ..estimators.noise_level import counts as counts_of
from ..estimators.outcome import Outcome, Refined
from ..forward.structural_identifiability import Complete, Experiment, Freedom, freedoms
from ..linalg.symmetric_matrix import symmetric_inverse
from ..parameters import Parameters
from ..results.records import Alternative
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .goodness import DOUBTED, REJECTED, GoodnessOfFit, leanings, tail
from .noise_checks import NoiseDoubts
from .uncertainty import Quantified, is_blind

NO_DOUBTS = NoiseDoubts()
POORLY_DETERMINED = 0.5
"""Standard error, relative to the estimate, above which a parameter is called poorly determined."""
FEW = 50
"""Samples below which intervals are called rough."""
INSEPARABLE, WELL_KNOWN = 0.98, 0.05
SHIFTED, UNRESOLVED = 0.3, 0.5
"""Error of the discretisation in standard errors that is told, and that is no success."""
UNEXPLAINED = 0.5
SHOWN = 4
INFLATED, KNOWN = 1e6, 0.01
UNTENABLE = 2.0
STILL = 4.0
PIECES = 16
UNKNOWN = 100.0
SUSPECT = 1e-6
"""Smallest eigenvalue of the information, with unit diagonal, below which freedoms of the model are looked for."""
RUNAWAY, NARROW, NEXT = 1e15, 0.01, 1e-3
POINTS, NEARBY, FAR = 3, 0.1, 3.0
"""Places at which freedoms are looked for, and how far apart in units of a logarithm: near an estimate, anywhere."""


@dataclass(frozen=True)
class Evidence:
    """What a converged fit is judged by.

    Attributes
    ----------
    p : ndarray, (J,)
    covariance : ndarray, (J, J)
    inner : ndarray of bool, (J,)
        Free parameters that are not at a bound.
    test : float
        The p-value of the model; NaN if there is no test.
    misfit : float
        Root mean square of the weak residuals over their standard deviations, about one for a right model; zero where
        the residuals of a refinement say more.
    constant : bool
        Whether the data are constants and noise.
    against : bool
        Whether a parameter sits at a bound other than zero.
    unseen : bool
        Whether the model has a freedom that no data of this kind can see.
    width : ndarray, (J,), optional
        Of the bounds.
    bias : float
        The error of the discretisation in standard errors.
    misstated : bool
        Whether the noise is not what it was said to be, and that is all.
    blind : bool
        Whether there are as many unknowns as values, and nothing is known of the noise.
    """

    p: FloatArray
    covariance: FloatArray
    inner: BoolArray
    test: float
    misfit: float
    constant: bool
    against: bool
    unseen: bool = False
    width: FloatArray | None = None
    bias: float = 0.0
    misstated: bool = False
    blind: bool = False


def verdict(status: Status, evidence: Evidence) -> Status:
    """The status of a fit that converged, once it is known what it found."""
    if status is not Status.CONVERGED:
        return status
    if evidence.misstated and evidence.bias <= UNRESOLVED:
        return Status.MISSTATED
    if evidence.constant or evidence.blind:
        return Status.UNDETERMINED
    if evidence.bias > UNRESOLVED:
        return Status.UNRESOLVED
    if evidence.test < REJECTED or (np.isnan(evidence.test) and evidence.misfit > UNTENABLE):
        return Status.REJECTED
    if evidence.against or evidence.unseen:
        return Status.UNDETERMINED
    inner = evidence.inner
    block = evidence.covariance[np.ix_(inner, inner)]
    if not len(block) or np.isnan(block).any():
        return status
    variance = block.diagonal()
    if np.isinf(variance).any():
        return Status.UNDETERMINED
    # By how much the variance of each would shrink if all the others were known.
    with np.errstate(all="ignore"):
        inflated = variance * symmetric_inverse(block).diagonal() > INFLATED
    # An estimate of next to zero is known if its error is small against its bounds.
    size = np.abs(evidence.p[inner])
    if evidence.width is not None:
        size = np.maximum(size, np.where(np.isfinite(evidence.width), NARROW * evidence.width, 0.0)[inner])
    share = np.sqrt(variance) / np.maximum(size, np.finfo(float).tiny)
    nothing = (share > UNKNOWN).any() or (share > POORLY_DETERMINED).all()
    # What is known well is determined, even if a combination is known far better, as in long chaotic series.
    return Status.UNDETERMINED if (inflated & (share > KNOWN)).any() or nothing else status


def is_constant(problem: Problem) -> bool:
    """Whether no state varies more than its noise does, from sample to sample or from piece to piece."""
    total, slow = np.zeros(len(problem.sigma)), np.zeros(len(problem.sigma))
    freedom = pieces = 0
    with np.errstate(all="ignore"):
        for form in problem.forms:
            x = form.x
            n = x.shape[1]
            edges = np.unique(np.linspace(0, n, PIECES + 1).astype(int))[:-1]
            counts = np.diff([*edges, n])
            off = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(form.variances)
            total += np.sum(off**2, axis=1)
            slow += np.sum(np.add.reduceat(off, edges, axis=1) ** 2 / counts, axis=1)
            freedom, pieces = freedom + n - 1, pieces + len(edges) - 1
    quiet = total < freedom + STILL * np.sqrt(2 * freedom)
    return bool(np.all(quiet & (slow < pieces + STILL * np.sqrt(2 * pieces))))


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
    ratio, others = _excess(refined), _against(goodness)
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


def _against(goodness: GoodnessOfFit) -> list[float]:
    """P-values of what speaks against the model and not against sigma: residuals hang together, or exceed repeats."""
    return [p for p in (goodness.portmanteau_p, goodness.lack_of_fit_p) if p is not None and not np.isnan(p)]


def contradicts_sigma(goodness: GoodnessOfFit) -> bool:
    """Whether the sigma that was given is wrong, and nothing else is."""
    wrong = goodness.chi_square_p is not None and max(goodness.chi_square_p, goodness.p_value) < REJECTED
    return wrong and min(_against(goodness), default=1.0) >= REJECTED


def unseen(parameters: Parameters, task: Task, best: Outcome, rejected: bool) -> tuple[Freedom, ...]:
    """What no data of this kind can determine; looked for where the information is nearly singular.

    By solutions only where they are those of the data: a fit that was `rejected` is far from any.
    """
    H = None if best.refined is None else best.refined.information
    if H is None or not np.isfinite(H).all():
        return ()
    told = H.diagonal() > 0
    d = np.sqrt(np.where(told, H.diagonal(), 1.0))
    # With one of several parameters the initial values may take all of its information: then its own is nearly none.
    relative = d * np.maximum(np.abs(best.estimate[task.free]), np.finfo(float).tiny)
    known = told.all() and np.linalg.eigvalsh(H / np.outer(d, d))[0] > SUSPECT and (relative > 1 / UNKNOWN).all()
    if known and np.abs(best.estimate).max() <= RUNAWAY:
        return ()
    rng, p = np.random.default_rng(0), task.scale.natural(best.estimate)
    matched = match(task.problem.data, parameters.model)
    if matched.complete:
        # Equations alone need no solution: where the fit has ended may be the one place at which they cannot tell.
        signs, J = np.where(p < 0, -1.0, 1.0), len(p)
        wide = [signs * np.exp(rng.uniform(-FAR, FAR, J)) for _ in range(POINTS)]
        wide += [p * np.exp(NEARBY * rng.standard_normal(J)) for _ in range(POINTS)]
        complete = Complete(parameters.model, matched.data, task.free)
        return tuple(freedoms(complete, [(np.where(task.free, near, p), ()) for near in wide]))
    if (
        rejected or best.latent is None or np.abs(best.estimate).max() > RUNAWAY or not told.any()
    ):  # far from any solution
        return ()
    nodes = best.latent.nodes
    begins = tuple(float(t[0]) for t, _ in nodes)
    experiment = Experiment(parameters.model, task.problem.data, task.free, begins)
    # What ended at next to zero is looked at where the data begin to notice it.
    size, free = p.copy(), p[task.free]
    nothing = told & (np.abs(free) < NEXT / d) & (np.abs(free) <= NEXT**2 * np.median(np.abs(free)))
    size[task.free] = np.where(nothing, 1 / d, free)
    points = []
    for _ in range(POINTS):
        near = np.where(task.free, size * np.exp(NEARBY * rng.standard_normal(len(p))), p)
        points.append((near, [x[0] * np.exp(NEARBY * rng.standard_normal(x.shape[1])) for _, x in nodes]))
    return tuple(freedoms(experiment, points))


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
