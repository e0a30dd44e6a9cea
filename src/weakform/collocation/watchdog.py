"""A watchdog: steps are taken whole, and the iteration returns to the best point if several bring no decrease.

Chamberlain, Powell, Lemaréchal and Pedersen, Mathematical Programming Study 16 (1982).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..linalg.interval_chain import BandFactor, Chain, ChainFactor
from ..support.array_types import FloatArray

PENALTY_SLACK = 1e-3
"""Increase of the penalty function, in units of log-likelihood, that a step may bring.

Near the solution the second term of the penalty function is not smooth and would refuse good steps. A larger slack
accepts steps that lead away. By judgement.
"""
MAX_STEPS_WITHOUT_DECREASE = 4
"""Number of steps without a decrease after which the iteration returns to the best point.

Along a curved constraint good steps may increase the penalty function for a while (docs/method.md, step 2). By
judgement.
"""
REVERSAL_SHARE = 0.5
"""Threshold above which steps count as oscillating across a valley.

It applies twice: to minus the cosine of the angle between two successive steps, and to the ratio of their lengths.
Oscillating steps are shortened; others are taken whole. By judgement.
"""
MIN_STEP_SHARE = 0.1
"""Smallest share of a step to which oscillating steps are shortened. By judgement."""


@dataclass(frozen=True)
class GaussHelmertStep:
    """A Gauss–Helmert step, with the values at the point where it begins.

    Attributes
    ----------
    dp : ndarray, (J,)
        Change of all parameters.
    states : ndarray, (nodes, D)
        States to which the whole step leads.
    scaled : ndarray, (F,)
        Change of the free parameters in conditional standard errors, `√H_jj δp_j`.
    information : ndarray, (F, F)
        H, the information about the free parameters.
    drift : float
        Root mean square of the change of the states, in units of their noise.
    cost : float
        Minus the log-likelihood, up to a constant.
    violation : float
        `cᵀ S⁻¹ c`.
    A, factor : Chain, ChainFactor or BandFactor, or None
        ∂c/∂x and the factorised S. Both are as long as the series, and past steps are kept without them.
    """

    dp: FloatArray
    states: FloatArray
    scaled: FloatArray
    information: FloatArray
    drift: float
    cost: float
    violation: float
    A: Chain | None
    factor: ChainFactor | BandFactor | None

    @property
    def size(self) -> float:
        """Length of the step in standard errors, with correlations ignored."""
        return float(np.linalg.norm(self.scaled))

    @property
    def without_factors(self) -> GaussHelmertStep:
        """The step without `A` and `factor`."""
        return replace(self, A=None, factor=None)


class Watchdog:
    """The best point so far, the number of steps since, and the share of a step that does not oscillate.

    If the step that follows a share a of a step s has the component `c s` along s, then steps are too long by the
    factor `(1 - c)/a`. In a valley of constant curvature the next step is too long by the same factor, and the inverse
    of the factor is the share that leads to the floor.

    Parameters
    ----------
    p : ndarray, (J,)
    x : ndarray, (nodes, D)
        Parameters and states of the first point.
    step : GaussHelmertStep
        The step that begins there.
    """

    def __init__(self, p: FloatArray, x: FloatArray, step: GaussHelmertStep) -> None:
        self.best, self.last_step, self.steps_since_best = (p, x, step.without_factors), step.without_factors, 0
        self.share = 1.0

    @property
    def is_patient(self) -> bool:
        """Whether steps may still be taken without a decrease."""
        return self.steps_since_best < MAX_STEPS_WITHOUT_DECREASE

    def record_point(
        self,
        p: FloatArray,
        x: FloatArray,
        step: GaussHelmertStep,
        share: float,
        value: Callable[[GaussHelmertStep], float],
    ) -> None:
        """Record a new point and update the share.

        Parameters
        ----------
        p : ndarray, (J,)
        x : ndarray, (nodes, D)
        step : GaussHelmertStep
            The step that begins at the new point.
        share : float
            Share of the previous step that led there.
        value : callable
            The penalty function at the point where a step begins.
        """
        along = float(step.scaled @ self.last_step.scaled)
        turned = along < -REVERSAL_SHARE * self.last_step.size * step.size
        # Once shortened, the share is updated at every step, so that it can grow back to one.
        if self.steps_since_best >= 0 and (
            self.share < 1.0 or (turned and step.size > REVERSAL_SHARE * self.last_step.size)
        ):
            # c as in the class docstring; the share at most doubles.
            c = along / max(self.last_step.size**2, float(np.finfo(float).tiny))
            self.share = float(np.clip(share / max(1.0 - c, 0.5), MIN_STEP_SHARE, 1.0))
        self.last_step = step.without_factors
        if self.steps_since_best < 0 or value(step) < value(self.best[2]) - PENALTY_SLACK:
            self.best, self.steps_since_best = (p, x, step.without_factors), 0
        else:
            self.steps_since_best += 1

    def return_to_best(self) -> tuple[FloatArray, FloatArray]:
        """Return the parameters and states of the best point; the next point becomes the best, whatever its value.

        The iteration then searches along the step from the best point for a decrease of the penalty function.
        """
        self.steps_since_best = -1
        return self.best[:2]
