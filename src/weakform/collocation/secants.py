"""Steps that go on in one direction and shrink slowly, summed up at once (Aitken's method).

Gauss–Newton steps leave out the curvature of the constraint: along a direction that the data hardly determine each may
be as much too short as the last, δ, λδ, λ²δ, …, while others swing to and fro. Two steps are taken as one, in which
swings are lost; what is still to come of them is δ λ/(1 - λ).
"""

from __future__ import annotations

import numpy as np

from ..support.typing import FloatArray

SHRINKS, ALIKE, MOST = (0.5, 0.99), 0.9, 20.0
"""By how much a pair of steps is shorter than the last, and the cosine between them; and how many are summed up."""
LONGEST = 1_000_000
"""Numbers in the states of a point that are still worth their memory."""


class Secants:
    """The last points of an iteration."""

    def __init__(self) -> None:
        self.kept: list[tuple[FloatArray, FloatArray]] = []

    def forget(self) -> None:
        """Begin anew: what comes does not follow from the last points."""
        self.kept = []

    def further(self, p: FloatArray, x: FloatArray, unit: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """Parameters `(J,)` and states to which the last points lead, where that is far; `unit` are standard errors."""
        if x.size > LONGEST:
            return None
        self.kept = [*self.kept[-4:], (p, x)]
        if len(self.kept) < 5:
            return None
        first, middle, last = self.kept[::2]
        before, now = (middle[0] - first[0]) / unit, (last[0] - middle[0]) / unit
        sizes = float(np.linalg.norm(before)), float(np.linalg.norm(now))
        if not (sizes[0] > 0 and SHRINKS[0] < sizes[1] / sizes[0] < SHRINKS[1]):
            return None
        if float(before @ now) < ALIKE * sizes[0] * sizes[1]:
            return None
        more = min(MOST, 1 / (sizes[0] / sizes[1] - 1))
        self.forget()
        return last[0] + more * (last[0] - middle[0]), last[1] + more * (last[1] - middle[1])
