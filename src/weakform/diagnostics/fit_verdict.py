"""The status of a fit, from the evidence against it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..estimators.estimation_problem import Problem
from ..linalg.symmetric_matrix import symmetric_inverse
from ..results.status import Status
from ..support.array_types import BoolArray, FloatArray
from .goodness import REJECTED
from .practical_identifiability import POORLY_DETERMINED, UNKNOWN

UNRESOLVED = 0.5
"""Error of the discretisation in standard errors that is no success."""
INFLATED, KNOWN = 1e6, 0.01
UNTENABLE = 2.0
STILL = 4.0
PIECES = 16
NARROW = 0.01


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
