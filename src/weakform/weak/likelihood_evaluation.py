"""The weak likelihood at one point: value, derivatives and status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ..support.array_types import FloatArray


class EvaluationStatus(Enum):
    """The status of an evaluation; its text names the problem and the remedy."""

    OK = "ok"
    NOT_FINITE = "the right-hand side or a derivative is not finite at the data; restrict the parameters with bounds"
    NOT_POSITIVE_DEFINITE = (
        "the covariance of the weak residual is not positive definite; use fewer test functions (a larger stride), "
        "a larger radius, or a sigma that is not zero"
    )


@dataclass(frozen=True)
class Evaluation:
    """The likelihood at one point.

    Attributes
    ----------
    value : float
        `inf` unless the status is OK.
    gradient : ndarray, (J,), or None
        None if it was not requested, or the status is not OK.
    hessian : ndarray, (J, J), or None
        None if it was not requested, or the status is not OK.
    status : EvaluationStatus
    """

    value: float
    gradient: FloatArray | None = None
    hessian: FloatArray | None = None
    status: EvaluationStatus = EvaluationStatus.OK
