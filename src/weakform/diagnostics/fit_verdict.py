"""The status of a fit that converged: rejected, misstated, undetermined, unresolved, or a success."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Problem
from ..linalg.symmetric_matrix import invert_symmetric
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .goodness import REJECTION_LEVEL
from .practical_identifiability import MAX_RELATIVE_ERROR, POORLY_DETERMINED


@dataclass(frozen=True)
class _VerdictPolicy:
    """Thresholds that decide the status of a fit that converged; those of the test of the model are in `goodness`."""

    max_bias: float = 0.5
    """Error of the discretisation, in standard errors, above which the fit is UNRESOLVED. By judgement; documented in
    `docs/when-not-to-trust.md`."""

    max_weak_misfit: float = 2.0
    """Root mean square of weak residuals over their standard deviations, above which the model is REJECTED if the
    residuals of the data have no test. By judgement: a right model has about one."""

    max_inflation: float = 1e6
    """Ratio of the variance of a parameter to its variance if all others were known. Above this ratio only a
    combination with others is determined, and the fit is UNDETERMINED. By judgement; documented in
    `docs/when-not-to-trust.md`."""

    well_known_error: float = 0.01
    """Standard error, relative to the estimate, below which an inflated variance does not matter. By judgement: in long
    chaotic series all parameters are known well, and some combination of them far better."""

    negligible_share_of_box: float = 0.01
    """Size of an estimate, over the width of its bounds, below which its error is compared with this share of the
    width: the error of an estimate near zero cannot be small relative to it. By judgement."""


@dataclass(frozen=True)
class _ConstancyPolicy:
    """When the data are taken to be constants with noise."""

    deviations: float = 4.0
    """Excess of the sum of squares over its mean for noise, in its standard deviations, below which a state is taken
    for constant. By judgement."""

    pieces: int = 16
    """Pieces of time whose means are compared, in each trajectory. Slow variation that is below the noise of single
    samples shows in the means: `test_a_weak_signal_in_many_samples_is_a_success` in `tests/test_hostile.py`."""


VERDICT_POLICY = _VerdictPolicy()
"""The thresholds of the status in use."""

CONSTANCY_POLICY = _ConstancyPolicy()
"""The thresholds of constant data in use."""


@dataclass(frozen=True)
class Evidence:
    """The evidence by which the status of a converged fit is decided.

    Attributes
    ----------
    p : ndarray, (J,)
        The estimate, in natural units.
    covariance : ndarray, (J, J)
        Of the estimate, as in `EstimateUncertainty`.
    inner : ndarray of bool, (J,)
        Free parameters that are not at a bound.
    p_value : float
        The p-value of the model; NaN if there is no test.
    weak_misfit : float
        Root mean square of the weak residuals over their standard deviations, about one for a right model; zero if the
        residuals of the data are tested instead.
    data_are_constant : bool
        Whether the data are constants and noise.
    at_nonzero_bound : bool
        Whether a parameter is at a bound other than zero.
    is_not_unique : bool
        Whether other parameter values may fit as well: the model has a freedom, a state is aliased, or the best start
        is doubtful.
    box_width : ndarray, (J,), optional
        Width of the bounds; infinite for parameters without both.
    bias : float
        Error of the discretisation, in standard errors.
    noise_is_misstated : bool
        Whether the noise differs from what was assumed, which explains a rejection of the model if there is one.
    noise_is_unknown : bool
        Whether σ is unknown, because there are as many unknowns as values and none was given.
    """

    p: FloatArray
    covariance: FloatArray
    inner: BoolArray
    p_value: float
    weak_misfit: float
    data_are_constant: bool
    at_nonzero_bound: bool
    is_not_unique: bool = False
    box_width: FloatArray | None = None
    bias: float = 0.0
    noise_is_misstated: bool = False
    noise_is_unknown: bool = False


def decide_status(status: Status, evidence: Evidence) -> Status:
    """Decide the status of a fit.

    The first status that applies is returned: MISSTATED (unless UNRESOLVED applies), UNDETERMINED (constant data, or σ
    unknown), UNRESOLVED, REJECTED, UNDETERMINED (other values fit as well, or the errors are too large).

    Parameters
    ----------
    status : Status
        How the search ended; returned unchanged unless it is CONVERGED.
    evidence : Evidence

    Returns
    -------
    Status
    """
    if status is not Status.CONVERGED:
        return status
    if evidence.noise_is_misstated and evidence.bias <= VERDICT_POLICY.max_bias:
        return Status.MISSTATED
    if evidence.data_are_constant or evidence.noise_is_unknown:
        return Status.UNDETERMINED
    if evidence.bias > VERDICT_POLICY.max_bias:
        return Status.UNRESOLVED
    # NaN: the residuals of the data have no test, and the weak residuals are the only evidence.
    is_untenable = np.isnan(evidence.p_value) and evidence.weak_misfit > VERDICT_POLICY.max_weak_misfit
    if evidence.p_value < REJECTION_LEVEL or is_untenable:
        return Status.REJECTED
    if evidence.at_nonzero_bound or evidence.is_not_unique:
        return Status.UNDETERMINED
    inner = evidence.inner
    block = evidence.covariance[np.ix_(inner, inner)]
    if not len(block) or np.isnan(block).any():
        return status
    variance = block.diagonal()
    if np.isinf(variance).any():
        return Status.UNDETERMINED
    # The variance of each over its variance if all others were known: C_jj (C⁻¹)_jj.
    with np.errstate(all="ignore"):
        is_inflated = variance * invert_symmetric(block).diagonal() > VERDICT_POLICY.max_inflation
    # An estimate near zero is determined if its error is small compared with the width of its bounds.
    size = np.abs(evidence.p[inner])
    if evidence.box_width is not None:
        share_of_box = VERDICT_POLICY.negligible_share_of_box * evidence.box_width
        size = np.maximum(size, np.where(np.isfinite(evidence.box_width), share_of_box, 0.0)[inner])
    relative = np.sqrt(variance) / np.maximum(size, np.finfo(float).tiny)
    is_unknown = (relative > MAX_RELATIVE_ERROR).any() or (relative > POORLY_DETERMINED).all()
    # A parameter that is known well is determined, even if a combination with others is known far better.
    is_trade_off = (is_inflated & (relative > VERDICT_POLICY.well_known_error)).any()
    return Status.UNDETERMINED if is_trade_off or is_unknown else status


def is_constant(problem: Problem) -> bool:
    """Return True if no state varies more than its noise, neither from sample to sample nor between pieces of time.

    For constants and noise, the sum of squares about the mean is χ², and so is that of the means of pieces of time. A
    χ² with n degrees of freedom has the mean n and the standard deviation `√(2n)`.
    """
    fast, slow = np.zeros(len(problem.sigma)), np.zeros(len(problem.sigma))
    freedom = pieces = 0
    with np.errstate(all="ignore"):
        for form in problem.forms:
            x = form.x
            n = x.shape[1]
            edges = np.unique(np.linspace(0, n, CONSTANCY_POLICY.pieces + 1).astype(int))[:-1]
            counts = np.diff([*edges, n])
            off = (x - x.mean(axis=1, keepdims=True)) / np.sqrt(form.variances)
            fast += np.sum(off**2, axis=1)
            # The mean of n values, over its standard deviation σ/√n, has the square `(Σ off)²/n`.
            slow += np.sum(np.add.reduceat(off, edges, axis=1) ** 2 / counts, axis=1)
            freedom, pieces = freedom + n - 1, pieces + len(edges) - 1
    is_quiet = fast < freedom + CONSTANCY_POLICY.deviations * np.sqrt(2 * freedom)
    is_flat = slow < pieces + CONSTANCY_POLICY.deviations * np.sqrt(2 * pieces)
    return bool(np.all(is_quiet & is_flat))
