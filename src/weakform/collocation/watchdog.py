"""Steps that are watched instead of searched along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..linalg.interval_chain import BandFactor, Chain, ChainFactor
from ..support.array_types import FloatArray

SLACK = 1e-3
"""Increase of the penalty function, in units of log-likelihood, that does not matter: near the solution its second term
is not smooth, and would refuse good steps."""
WATCHED = 4
"""Steps without a decrease after which the iteration goes back."""
TURNED = 0.5
"""Steps swing if each is against the last, and not much shorter: across a curved valley a share of a step is right."""
LEAST = 0.1
"""Of a step."""


@dataclass(frozen=True)
class Step:
    """A step of all parameters and, scaled, of the free ones; what is known where it begins: cost and violation.

    `A` and `factor`, of the constraint, are long: what is looked back at goes without them.
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
        """In standard errors, but for correlations."""
        return float(np.linalg.norm(self.scaled))

    @property
    def bare(self) -> Step:
        """Without what is long."""
        return replace(self, A=None, factor=None)


class Watch:
    """The best point so far, for how many steps there was none better, and the share of a step that does not swing.

    Where a share a of a step s is followed by a step of `c s` along it, steps are too long by `(1 - c)/a`: of a valley
    that bends evenly that is the same at the next step, and its inverse the share that leads to the floor.
    """

    def __init__(self, p: FloatArray, x: FloatArray, step: Step) -> None:
        self.best, self.now, self.since = (p, x, step.bare), step.bare, 0
        self.share = 1.0

    @property
    def patient(self) -> bool:
        """Whether steps may still be taken as they are."""
        return self.since < WATCHED

    def see(self, p: FloatArray, x: FloatArray, step: Step, share: float, value: Callable[[Step], float]) -> None:
        """A new point, to which a share of the last step has led."""
        along = float(step.scaled @ self.now.scaled)
        turned = along < -TURNED * self.now.size * step.size
        if self.since >= 0 and (self.share < 1.0 or (turned and step.size > TURNED * self.now.size)):
            c = along / max(self.now.size**2, float(np.finfo(float).tiny))
            self.share = float(np.clip(share / max(1.0 - c, 0.5), LEAST, 1.0))
        self.now = step.bare
        if self.since < 0 or value(step) < value(self.best[2]) - SLACK:
            self.best, self.since = (p, x, step.bare), 0
        else:
            self.since += 1

    def back(self) -> tuple[FloatArray, FloatArray]:
        """To the best point; what comes from there is the best, as it has been looked at."""
        self.since = -1
        return self.best[:2]
