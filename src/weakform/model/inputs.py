"""Known inputs: functions of time that act on the system and are measured without error.

Between samples an input is interpolated linearly, or holds its last value (switches, pumps, heaters, infusions). Before
the first and after the last sample it keeps the nearest value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..support.array_types import FloatArray


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of one trajectory.

    Attributes
    ----------
    times : ndarray, (time,)
        Sample times of the inputs, increasing.
    values : ndarray, (time, I)
    hold : tuple of bool, (I,)
        Whether each input holds its last value; otherwise it is interpolated linearly.
    """

    times: FloatArray
    values: FloatArray
    hold: tuple[bool, ...]

    @property
    def jump_times(self) -> FloatArray:
        """The times at which a held input jumps."""
        held = self.values[:, list(self.hold)]
        changed = (np.diff(held, axis=0) != 0).any(axis=1)
        return np.asarray(self.times[1:][changed])

    def __call__(self, t: FloatArray, before: bool = False) -> FloatArray:
        """Return the inputs `(n, I)` at times `(n,)`; with `before`, their limit from the left where they jump."""
        t = np.asarray(t, dtype=float)
        # The last sample at or before t; with `before`, the last one strictly before t.
        k = np.searchsorted(self.times, t, side="left" if before else "right") - 1
        # Times before the first sample and after the last one get the nearest value.
        result = np.array(self.values[np.clip(k, 0, len(self.times) - 1)])
        for i, held in enumerate(self.hold):
            if not held:
                result[:, i] = np.interp(t, self.times, self.values[:, i])
        return result

    def select_columns(self, order: Sequence[int]) -> Inputs:
        """Return the inputs with the indices `order`, in this order."""
        return Inputs(self.times, self.values[:, list(order)], tuple(self.hold[i] for i in order))

    def merge_with(self, other: Inputs) -> Inputs:
        """Return these inputs followed by those of `other`, on the union of their times."""
        times = np.union1d(self.times, other.times)
        return Inputs(times, np.column_stack([self(times), other(times)]), (*self.hold, *other.hold))
