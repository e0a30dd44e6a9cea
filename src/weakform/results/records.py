"""Small records of a fit: a quantity with its uncertainty, a start, an alternative, the choice of test functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..support.array_types import FloatArray
from ..support.compact_repr import CompactRepr
from .status import Status

if TYPE_CHECKING:
    from ..inference.posterior import Posterior
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction


@dataclass(frozen=True, repr=False)
class Quantity:
    """A parameter, an initial value or an expression of parameters, with its uncertainty.

    Attributes
    ----------
    name : str
    value : float
        The estimate.
    error : float
        Standard error; 0 for a fixed parameter, infinite if the data cannot identify it, NaN if it has none.
    interval : tuple of float
        Lower and upper end at 95%; NaN if there is no interval.
    note : str
        How the interval was computed, or why there is none; empty for a Wald interval.
    """

    name: str
    value: float
    error: float
    interval: tuple[float, float]
    note: str = ""

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """Return one line such as `k = 1.975 ± 0.0026, 95% [1.97, 1.981]`."""
        if not 0 < self.error < math.inf:
            return f"{self.name} = {self.value:.5g}" + (f" ({self.note})" if self.note else "")
        low, high = self.interval
        return f"{self.name} = {self.value:.5g} ± {self.error:.2g}, 95% [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True, repr=False)
class StartRecord(CompactRepr):
    """One start of a search and its result.

    Attributes
    ----------
    start : ndarray, (J,), or None
        The parameters at which the search began; None if the method needs no start.
    estimate : ndarray, (J,)
        The parameters at which it ended.
    objective : float
        Value of the search objective at the estimate.
    status : Status
        How the search ended.
    iterations, evaluations : int
        Iterations of the search, and evaluations of its objective.
    behind : float
        Log-likelihood of the fit minus that of this start after refinement; NaN if it was not computed.
    """

    start: FloatArray | None
    estimate: FloatArray
    objective: float
    status: Status
    iterations: int
    evaluations: int
    behind: float = float("nan")


@dataclass(frozen=True, repr=False)
class Alternative(CompactRepr):
    """Another estimate that fits equally well.

    Attributes
    ----------
    estimate : ndarray, (J,)
    behind : float
        Log-likelihood of the fit minus that of this estimate.
    """

    estimate: FloatArray
    behind: float


@dataclass(frozen=True, repr=False)
class BasisSummary(CompactRepr):
    """The test functions that were chosen for one trajectory.

    Attributes
    ----------
    description : str
        Their kind and arrangement, in words.
    radius : float
        Their radius, in units of time.
    count : int
        Number of test functions.
    """

    description: str
    radius: float
    count: int


@dataclass(eq=False)
class LateResults:
    """Results that are computed on request after the fit and then kept; the only part of a result that changes.

    Attributes
    ----------
    profiles : dict of str to Profile
        Profiles computed by `intervals(kind="profile")` and by reports, by parameter.
    bands : dict
        Fitted trajectories with bands, by trajectory number, level and kind.
    automatic : dict
        Default intervals `(J, 2)` and the kind of each, by level.
    curves : dict
        All profiles that were computed, by parameter and level.
    bootstraps : dict
        Estimates of the bootstrap `(runs, J)`, by number of runs and seed.
    posterior : list of Posterior
        The last posterior that was drawn, or nothing.
    profile_seconds : float
        Seconds of `options.time_limit` that automatic profiles have used.
    """

    profiles: dict[str, Profile] = field(default_factory=dict)
    bands: dict[tuple[int, float, str], Prediction] = field(default_factory=dict)
    automatic: dict[float, tuple[FloatArray, tuple[str, ...]]] = field(default_factory=dict)
    curves: dict[tuple[str, float], Profile] = field(default_factory=dict)
    bootstraps: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    posterior: list[Posterior] = field(default_factory=list)
    profile_seconds: float = 0.0
