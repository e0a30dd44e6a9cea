"""One run of the system as it was measured, and what is known of simulated data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..model.inputs import Inputs
from ..support.array_types import BoolArray, FloatArray
from ..support.compact_repr import Tidy
from .doses import Doses

EVEN = 0.01
"""Steps that differ by less than this share are taken as even: printed tables round their times."""


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


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(Tidy):
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
    weights : ndarray, (time, D), or None
        The part of the scale that follows from the kind of noise and what is fitted; see `noise.kinds`.
    density : float
        What the means of repeated measurements lack in the likelihood of the data.
    doses : tuple of Doses
    """

    times: FloatArray
    values: FloatArray
    scale: FloatArray | None = None
    inputs: Inputs | None = None
    label: str = ""
    within: FloatArray | None = None
    repeats: FloatArray | None = None
    density: float = 0.0
    weights: FloatArray | None = None
    doses: tuple[Doses, ...] = ()

    @property
    def step(self) -> float:
        """The mean time between samples."""
        return float((self.times[-1] - self.times[0]) / (len(self.times) - 1))

    @property
    def even(self) -> bool:
        """Whether the times are evenly spaced, up to rounding."""
        return bool(np.abs(np.diff(self.times) - self.step).max() <= EVEN * self.step)

    @property
    def measured(self) -> BoolArray:
        """Which values are there, `(time, D)`."""
        return np.isfinite(self.values)

    @property
    def scales(self) -> FloatArray:
        """`scale`, or ones."""
        return np.ones(self.values.shape) if self.scale is None else self.scale

    @property
    def base(self) -> FloatArray:
        """The scales without the weights, `(time, D)`."""
        return self.scales if self.weights is None else self.scales / self.weights

    def rescaled(self, ratio: FloatArray) -> Trajectory:
        """The same values with another scale, `(D,)` times as large."""
        within = None if self.within is None else self.within / ratio**2
        # Values that were joined with others carry the ratio, too.
        lost = 0.0 if self.repeats is None else float(self.repeats @ np.log(ratio))
        return replace(self, scale=self.scales * ratio, within=within, density=self.density - lost)

    def reweighed(self, weights: FloatArray) -> Trajectory:
        """The same values with other weights, `(time, D)`."""
        return replace(self, scale=self.base * weights, weights=weights)

    def columns(self, order: list[int]) -> Trajectory:
        """Some of the columns, in another order."""

        def pick(array: FloatArray | None) -> FloatArray | None:
            return None if array is None else array[..., order]

        return replace(
            self,
            values=self.values[:, order],
            scale=pick(self.scale),
            within=pick(self.within),
            repeats=pick(self.repeats),
            weights=pick(self.weights),
        )
