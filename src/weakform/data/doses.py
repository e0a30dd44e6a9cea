"""Doses: amounts that are put into a state at known times, instantly (a bolus) or over some time (an infusion)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ..support.array_types import FloatArray
from ..support.errors import DataError

Amount = float | str
"""A number, or an expression of parameters."""


@dataclass(frozen=True)
class Dose:
    """One dose; see `Doses` for its attributes."""

    state: str
    time: float
    amount: Amount
    duration: float | None = None
    lag: Amount = 0.0


@dataclass(frozen=True)
class Doses:
    """Amounts that are put into a state.

    Parameters
    ----------
    state : str
        The state that receives the doses.
    times : float or array_like
        Times of the doses. A dose before the first sample counts; one after the last sample has no effect. A value
        measured exactly at the time of a dose is the value after it.
    amounts : float, str, or sequence of them
        One amount for all doses, or one for each: a number, or an expression of parameters such as `"F*100"`.
    duration : float or array_like, optional
        Durations of infusions at a constant rate; instantaneous by default. Infusions that overlap add up.
    lag : float or str
        Delay between the time of a dose and its arrival: a number, or the name of a parameter.

    Examples
    --------
    >>> import weakform as wf
    >>> len(wf.Doses("A", times=[0, 24, 48], amounts=100).each)
    3
    """

    state: str
    times: ArrayLike
    amounts: Amount | Sequence[Amount] = 1.0
    duration: ArrayLike | None = None
    lag: Amount = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.state, str) or not self.state:
            raise DataError(f"A dose needs the name of a state; received {self.state!r}.")
        times = _parse_numbers(self.times, "times")
        if not len(times):
            raise DataError("The times of doses are empty; give at least one time.")
        for what, values in (
            ("amounts", self._expand_amounts(len(times))),
            ("durations", self._expand_durations(len(times))),
        ):
            if len(values) != len(times):
                raise DataError(f"{len(times)} doses need as many {what}, or one for all; received {len(values)}.")
        if not isinstance(self.lag, str) and np.ndim(self.lag):
            raise DataError(f"The lag of doses must be one number, or the name of a parameter; received {self.lag!r}.")
        if not isinstance(self.lag, str):
            _parse_numbers(self.lag, "lag")

    def _expand_amounts(self, count: int) -> list[Amount]:
        """Return an amount for each of `count` doses."""
        if isinstance(self.amounts, str):
            return [self.amounts] * count
        # A list may mix numbers and expressions.
        if isinstance(self.amounts, Sequence) and any(isinstance(a, str) for a in self.amounts):
            return [a if isinstance(a, str) else float(_parse_numbers(a, "amounts")[0]) for a in self.amounts]
        values = [float(a) for a in _parse_numbers(self.amounts, "amounts")]
        return [*values] * count if len(values) == 1 else [*values]

    def _expand_durations(self, count: int) -> list[float | None]:
        """Return a duration for each of `count` doses; None for an instantaneous one."""
        if self.duration is None:
            return [None] * count
        values = _parse_numbers(self.duration, "durations")
        if (values < 0).any():
            raise DataError(f"Durations of doses must not be negative; received {self.duration!r}.")
        # A duration of zero is an instantaneous dose.
        return [float(d) if d > 0 else None for d in (np.repeat(values, count) if len(values) == 1 else values)]

    @property
    def each(self) -> tuple[Dose, ...]:
        """The single doses, sorted by time."""
        times = _parse_numbers(self.times, "times")
        lag = self.lag if isinstance(self.lag, str) else float(self.lag)
        parts = zip(times, self._expand_amounts(len(times)), self._expand_durations(len(times)), strict=True)
        return tuple(Dose(self.state, float(t), a, d, lag) for t, a, d in sorted(parts, key=lambda part: part[0]))


def _parse_numbers(values: ArrayLike, what: str) -> FloatArray:
    """Convert the times, amounts, durations or lag of doses to finite numbers, `(n,)`."""
    try:
        array = np.atleast_1d(np.array(values, dtype=float))
    except (TypeError, ValueError):
        raise DataError(f"The {what} of doses must be numbers; received {values!r}.") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise DataError(f"The {what} of doses must be finite numbers; received {values!r}.")
    return array


def validate_doses(doses: object) -> tuple[Doses, ...]:
    """Validate the doses of a trajectory: None, one `Doses`, or a sequence of them; return a tuple."""
    several = (doses,) if isinstance(doses, Doses) else doses
    if several is None:
        return ()
    if not isinstance(several, Sequence) or not all(isinstance(each, Doses) for each in several):
        raise DataError(f"doses must be Doses(...), or a list of them; received {doses!r}.")
    return tuple(several)
