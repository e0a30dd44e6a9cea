"""One measured run of the system, and the true values behind simulated data."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..model.inputs import Inputs
from ..support.array_types import BoolArray, FloatArray
from ..support.compact_repr import CompactRepr
from .doses import Doses

MAX_STEP_DEVIATION = 0.01
"""Largest deviation of a time step from the mean step, as a share of it, at which times count as evenly spaced: printed
tables round their times. By judgement."""


@dataclass(frozen=True)
class Truth:
    """The true values behind simulated data.

    Attributes
    ----------
    parameters : ndarray, (J,)
    states : ndarray, (time, D)
        The noise-free trajectory at the sample times.
    initial : ndarray, (D,)
        The state at the start of the simulation.
    sigma : ndarray, (D,)
        Standard deviation of the noise; that of the logarithm if the noise is log-normal.
    begin : float
        The time at which the simulation starts.
    """

    parameters: FloatArray
    states: FloatArray
    initial: FloatArray
    sigma: FloatArray
    begin: float = 0.0

    def select_states(self, order: list[int]) -> Truth:
        """Return the truth for some of the states, in another order."""
        return replace(self, states=self.states[:, order], initial=self.initial[order], sigma=self.sigma[order])


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory(CompactRepr):
    """One measured run of the system.

    Attributes
    ----------
    times : ndarray, (time,)
        Increasing.
    values : ndarray, (time, D)
        NaN if missing.
    scale : ndarray, (time, D), or None for ones
        Standard deviation of each value relative to the σ of its state.
    inputs : Inputs, or None
    label : str
        Its name; empty if it is the only trajectory.
    within, repeats : ndarray, (D,), or None
        Sum of squares of repeated measurements about their means, and its degrees of freedom: the number of measured
        values less the number of means.
    density : float
        The term that the log-likelihood of the means lacks compared with that of all values; see
        `data_validation.MergedMeasurements`.
    weights : ndarray, (time, D), or None
        The part of the scale that depends on the kind of noise and on the fitted values; see `noise.kinds`.
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
    def mean_step(self) -> float:
        """Mean time between samples."""
        return float((self.times[-1] - self.times[0]) / (len(self.times) - 1))

    @property
    def is_evenly_spaced(self) -> bool:
        """True if the times are evenly spaced, up to rounding."""
        return bool(np.abs(np.diff(self.times) - self.mean_step).max() <= MAX_STEP_DEVIATION * self.mean_step)

    @property
    def measured(self) -> BoolArray:
        """Mask of the values that were measured, `(time, D)`."""
        return np.isfinite(self.values)

    @property
    def scales(self) -> FloatArray:
        """The scales of all values, `(time, D)`: `scale`, or ones."""
        return np.ones(self.values.shape) if self.scale is None else self.scale

    @property
    def unweighted_scales(self) -> FloatArray:
        """The scales without the weights, `(time, D)`."""
        return self.scales if self.weights is None else self.scales / self.weights

    def multiply_scales(self, ratio: FloatArray) -> Trajectory:
        """Return the trajectory with its scales multiplied by `ratio`, `(D,)`."""
        within = None if self.within is None else self.within / ratio**2
        # The density has -log s of every value and +log s of every mean; there are `repeats` more values than means.
        lost = 0.0 if self.repeats is None else float(self.repeats @ np.log(ratio))
        return replace(self, scale=self.scales * ratio, within=within, density=self.density - lost)

    def replace_weights(self, weights: FloatArray) -> Trajectory:
        """Return the trajectory with other weights, `(time, D)`."""
        return replace(self, scale=self.unweighted_scales * weights, weights=weights)

    def select_columns(self, order: list[int]) -> Trajectory:
        """Return the trajectory with some of its columns, in another order."""

        def pick(array: FloatArray | None) -> FloatArray | None:
            """Return the columns of an optional array."""
            return None if array is None else array[..., order]

        return replace(
            self,
            values=self.values[:, order],
            scale=pick(self.scale),
            within=pick(self.within),
            repeats=pick(self.repeats),
            weights=pick(self.weights),
        )
