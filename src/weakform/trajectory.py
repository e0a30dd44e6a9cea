"""One run of the system as it was measured, and what is known of simulated data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from .inputs import Inputs
from .intake import EVEN
from .typing import FloatArray


@dataclass(frozen=True)
class Truth:
    """What is known of simulated data.

    Attributes
    ----------
    parameters : ndarray, (J,)
    states : ndarray, (time, D)
        The noise-free trajectory on the same times.
    initial : ndarray, (D,)
        The state at the start of the simulation, time `begin`.
    sigma : ndarray, (D,)
        Standard deviation of the noise, of the logarithm where it is log-normal.
    """

    parameters: FloatArray
    states: FloatArray
    initial: FloatArray
    sigma: FloatArray
    begin: float = 0.0

    def columns(self, order: list[int]) -> Truth:
        """The states in another order."""
        return replace(self, states=self.states[:, order], initial=self.initial[order], sigma=self.sigma[order])


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run of the system.

    Attributes
    ----------
    times : ndarray, (time,)
        Increasing.
    values : ndarray, (time, D)
        NaN where missing.
    scale : ndarray, (time, D), or None for ones
        Standard deviation of each value relative to the σ of its state.
    inputs : Inputs, or None
    label : str
        Its name, where there are several.
    within, repeats : ndarray, (D,), or None
        Sum of squares of repeated measurements about their means, and its degrees of freedom.
    """

    times: FloatArray
    values: FloatArray
    scale: FloatArray | None = None
    inputs: Inputs | None = None
    label: str = ""
    within: FloatArray | None = None
    repeats: FloatArray | None = None

    @property
    def step(self) -> float:
        """The mean time between samples."""
        return float((self.times[-1] - self.times[0]) / (len(self.times) - 1))

    @property
    def even(self) -> bool:
        """Whether the times are evenly spaced, up to rounding."""
        return bool(np.abs(np.diff(self.times) - self.step).max() <= EVEN * self.step)

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Which values are there, `(time, D)`."""
        return np.isfinite(self.values)

    @property
    def scales(self) -> FloatArray:
        """`scale`, or ones."""
        return np.ones(self.values.shape) if self.scale is None else self.scale

    def rescaled(self, ratio: FloatArray) -> Trajectory:
        """The same values with another scale, `(D,)` times as large."""
        within = None if self.within is None else self.within / ratio**2
        return replace(self, scale=self.scales * ratio, within=within)

    def columns(self, order: list[int], hidden: int = 0) -> Trajectory:
        """Some of the states, and `hidden` more that were not measured."""

        def pick(array: FloatArray | None, fill: float) -> FloatArray | None:
            if array is None:
                return None
            shape = (*array.shape[:-1], hidden)
            return np.concatenate([array[..., order], np.full(shape, fill)], axis=-1)

        values = pick(self.values, np.nan)
        assert values is not None
        return replace(
            self,
            values=values,
            scale=pick(self.scale, np.inf),
            within=pick(self.within, 0.0),
            repeats=pick(self.repeats, 0.0),
        )
