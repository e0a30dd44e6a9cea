"""Known inputs: what drives the system and is measured without error, as functions of time.

Between samples an input is interpolated linearly, or holds its last value (`"hold"`: switches, pumps, heaters); before
the first and after the last sample it keeps the nearest value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..support.typing import FloatArray

INTERPOLATIONS = ("linear", "hold")


@dataclass(frozen=True, eq=False)
class Inputs:
    """Inputs of one trajectory.

    Attributes
    ----------
    times : ndarray, (time,)
    values : ndarray, (time, I)
    kind : str
        `"linear"` or `"hold"`.
    """

    times: FloatArray
    values: FloatArray
    kind: str = "linear"

    @property
    def jumps(self) -> FloatArray:
        """Times at which an input jumps."""
        if self.kind != "hold":
            return np.empty(0)
        changed = (np.diff(self.values, axis=0) != 0).any(axis=1)
        return np.asarray(self.times[1:][changed])

    def __call__(self, t: FloatArray, before: bool = False) -> FloatArray:
        """Values `(n, I)` at times `(n,)`; `before` takes the limit from the left where an input jumps."""
        t = np.asarray(t, dtype=float)
        if self.kind == "hold":
            k = np.searchsorted(self.times, t, side="left" if before else "right") - 1
            return np.asarray(self.values[np.clip(k, 0, len(self.times) - 1)])
        return np.column_stack([np.interp(t, self.times, column) for column in self.values.T])
