"""Steps that are watched instead of searched along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..linalg.chain import BandFactor, ChainFactor
from ..support.typing import FloatArray
from .mesh import Linearised

SLACK = 1e-3
"""Increase of the penalty function, in units of log-likelihood, that does not matter: near the solution its second term
is not smooth, and would refuse good steps."""
WATCHED = 4
"""Steps without a decrease after which the iteration goes back."""


@dataclass(frozen=True)
class Step:
    """A step, and what is known where it begins: its cost, and the violation of the constraint."""

    dp: FloatArray
    states: FloatArray
    information: FloatArray
    size: float
    drift: float
    cost: float
    violation: float
    line: Linearised
    factor: ChainFactor | BandFactor


class Watch:
    """The best point so far, and for how many steps there was none better."""

    def __init__(self, p: FloatArray, x: FloatArray, step: Step) -> None:
        self.best, self.now, self.since = (p, x, step), step, 0

    @property
    def patient(self) -> bool:
        """Whether steps may still be taken as they are."""
        return self.since < WATCHED

    def see(self, p: FloatArray, x: FloatArray, step: Step, value: Callable[[Step], float]) -> None:
        """A new point."""
        self.now = step
        if self.since < 0 or value(step) < value(self.best[2]) - SLACK:
            self.best, self.since = (p, x, step), 0
        else:
            self.since += 1

    def back(self) -> tuple[FloatArray, FloatArray, Step]:
        """To the best point; what comes from there is the best, as it has been looked at."""
        self.since = -1
        return self.best
