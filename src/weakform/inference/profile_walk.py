"""The walk along a profile likelihood to the end of an interval.

The profile of a quantity, a parameter or a state at one time, is the least misfit Q(v) with the quantity held at v. An
end of its interval is where `r(v) = √(Q(v) - min Q)` reaches z, the quantile of the level; r is nearly linear in v.
The walk goes outward from the fit, each refit starting from an earlier one, until r >= z: then the end is bracketed.
Then it refits where a straight line through both ends of the bracket reaches z, until a refit is close enough.

The walk is the same for parameters (`profiles`) and for states (`state_profiles`). A `Route` holds what differs: how a
refit is made, how long the next step is, and where the walk ends without having bracketed anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import numpy as np

S = TypeVar("S")
"""The type of a refit."""

CENTRAL_SHARES = (0.1, 0.9)
"""Range, as shares of the bracket, in which the next refit is placed. Nearer to an end it would hardly shorten the
bracket if the profile has a kink there. By judgement."""


@dataclass(frozen=True)
class Trial(Generic[S]):
    """A refit on the way.

    Attributes
    ----------
    position : float
        The requested position, in the units of the route.
    root : float
        The root of its misfit above the least.
    solution : object
        The refit itself.
    """

    position: float
    root: float
    solution: S


@dataclass(frozen=True)
class Bracket:
    """The positions between which an end is, each with the root of the misfit there.

    Attributes
    ----------
    inner : tuple of float
        The last position at which the root is below the quantile.
    outer : tuple of float, or None
        The nearest position at which it is not; None before there is one.
    """

    inner: tuple[float, float]
    outer: tuple[float, float] | None = None

    @property
    def is_open(self) -> bool:
        """True if no refit has been beyond the end yet."""
        return self.outer is None

    def narrow(self, position: float, root: float, z: float) -> Bracket:
        """Return the bracket with one end replaced by a position between or beyond both."""
        return replace(self, inner=(position, root)) if root < z else replace(self, outer=(position, root))

    def interpolate(self, z: float) -> float:
        """Return the position at which a straight line through both ends reaches z, kept away from the ends."""
        assert self.outer is not None
        (inner, low), (outer, high) = self.inner, self.outer
        share = float(np.clip((z - low) / (high - low), *CENTRAL_SHARES))
        return inner + share * (outer - inner)


class Route(Protocol[S]):
    """One direction along which a profile is followed.

    Attributes
    ----------
    max_trials : int
        Largest number of refits.
    max_closing_trials : int, or None
        Largest number of refits once the end is bracketed, counted anew; None for the rest of `max_trials`.
    has_given_up : bool
        True if the walk must end after the last retreat.
    """

    max_trials: int
    max_closing_trials: int | None
    has_given_up: bool

    def refit_at(self, position: float, bracket: Bracket) -> Trial[S] | None:
        """Refit with the quantity at a position; return None if that failed, or was too far for one step."""

    def retreat(self, position: float, bracket: Bracket) -> float:
        """Return a nearer position after a refit that failed."""

    def is_finished(self, trial: Trial[S], bracket: Bracket) -> bool:
        """Record a refit; return True if the walk ends with it. `bracket` is already narrowed by it."""

    def advance(self, trial: Trial[S]) -> float:
        """Return the next position outward from a refit that is not beyond the end."""


def walk_to_end(route: Route[S], position: float, bracket: Bracket, z: float) -> float:
    """Walk outward until an end is bracketed, then close in on it.

    Parameters
    ----------
    route : Route
        Records the refits, and from them where and how the walk ended.
    position : float
        The position of the first refit.
    bracket : Bracket
        Open, with the beginning of the walk as its inner end.
    z : float
        The root of the misfit at the end.

    Returns
    -------
    float
        The last position.
    """
    trials = route.max_trials
    while trials > 0:
        trials -= 1
        trial = route.refit_at(position, bracket)
        # A failed refit costs a trial, too, so that the walk ends.
        if trial is None:
            position = route.retreat(position, bracket)
            if route.has_given_up:
                break
            continue
        was_open = bracket.is_open
        bracket = bracket.narrow(trial.position, trial.root, z)
        if route.is_finished(trial, bracket):
            break
        if was_open and not bracket.is_open and route.max_closing_trials is not None:
            trials = route.max_closing_trials
        position = route.advance(trial) if bracket.is_open else bracket.interpolate(z)
    return position


def find_crossing(points: list[tuple[float, float]], z: float) -> float:
    """Return the distance at which the root of the misfit reaches z, interpolated linearly.

    Parameters
    ----------
    points : list of pairs
        Distance from the fit, and the root there.
    z : float

    Returns
    -------
    float
        Infinite if it is not reached.
    """
    distance, root = np.array(sorted(points)).T
    # `searchsorted` needs values that do not decrease; roots of refits may, by their tolerance or by branches.
    root = np.maximum.accumulate(root)
    k = int(np.searchsorted(root, z))
    if k >= len(root):
        return np.inf
    if k == 0:
        return 0.0
    share = (z - root[k - 1]) / (root[k] - root[k - 1])
    return float(distance[k - 1] + share * (distance[k] - distance[k - 1]))
