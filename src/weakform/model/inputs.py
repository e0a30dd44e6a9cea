"""Known inputs: what drives the system and is measured without error, as functions of time.

Between samples an input is interpolated linearly, or holds its last value (switches, pumps, heaters, infusions); before
the first and after the last sample it keeps the nearest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..support.array_types import FloatArray


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of one trajectory.

    Attributes
    ----------
    times : ndarray, (time,)
    values : ndarray, (time, I)
    hold : tuple of bool, (I,)
        Which of them hold their last value.
    """

    times: FloatArray
    values: FloatArray
    hold: tuple[bool, ...]

    @property
    def jumps(self) -> FloatArray:
        """Times at which an input jumps."""
        held = self.values[:, list(self.hold)]
        changed = (np.diff(held, axis=0) != 0).any(axis=1)
        return np.asarray(self.times[1:][changed])

    def __call__(self, t: FloatArray, before: bool = False) -> FloatArray:
        """Values `(n, I)` at times `(n,)`; `before` takes the limit from the left where an input jumps."""
        t = np.asarray(t, dtype=float)
        k = np.searchsorted(self.times, t, side="left" if before else "right") - 1
        found = np.array(self.values[np.clip(k, 0, len(self.times) - 1)])
        for i, held in enumerate(self.hold):
            if not held:
                found[:, i] = np.interp(t, self.times, self.values[:, i])
        return found

    def columns(self, order: Sequence[int]) -> Inputs:
        """Some of the inputs, in another order."""
        return Inputs(self.times, self.values[:, list(order)], tuple(self.hold[i] for i in order))

    def beside(self, other: Inputs) -> Inputs:
        """These inputs and others, on the times of both."""
        times = np.union1d(self.times, other.times)
        return Inputs(times, np.column_stack([self(times), other(times)]), (*self.hold, *other.hold))
