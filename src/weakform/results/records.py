"""Small things that a fit is made of: a quantity with its uncertainty, a start, a choice of test functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..support.array_types import FloatArray
from ..support.compact_repr import Tidy
from .status import Status

if TYPE_CHECKING:
    from ..inference.posterior import Posterior
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction


@dataclass(frozen=True, repr=False)
class Quantity:
    """A parameter or an expression of parameters, with its uncertainty.

    Attributes
    ----------
    name : str
    value : float
    error : float
        Standard error; 0 for a fixed parameter, NaN where there is none.
    interval : tuple of float
        At 95%; NaN where there is none.
    note : str
        Why there is no interval, or nothing.
    """

    name: str
    value: float
    error: float
    interval: tuple[float, float]
    note: str = ""

    def __repr__(self) -> str:
        return f"<{self}>"

    def __str__(self) -> str:
        """Such as `k = 1.975 ± 0.0026, 95% [1.97, 1.981]`."""
        if not 0 < self.error < math.inf:
            return f"{self.name} = {self.value:.5g}" + (f" ({self.note})" if self.note else "")
        low, high = self.interval
        return f"{self.name} = {self.value:.5g} ± {self.error:.2g}, 95% [{low:.4g}, {high:.4g}]"


@dataclass(frozen=True, repr=False)
class StartRecord(Tidy):
    """One start and where it led.

    Attributes
    ----------
    start, estimate : ndarray, (J,)
    objective : float
        Of the search.
    status : Status
    iterations, evaluations : int
    behind : float
        By how much the log-likelihood to which it led is below that of the fit; NaN where that was not looked at.
    """

    start: FloatArray | None
    estimate: FloatArray
    objective: float
    status: Status
    iterations: int
    evaluations: int
    behind: float = float("nan")


@dataclass(frozen=True, repr=False)
class Alternative(Tidy):
    """Another estimate that fits equally well.

    Attributes
    ----------
    estimate : ndarray, (J,)
    behind : float
        By how much its log-likelihood is below that of the fit.
    """

    estimate: FloatArray
    behind: float


@dataclass(frozen=True, repr=False)
class BasisSummary(Tidy):
    """What was chosen as test functions for one trajectory."""

    description: str
    radius: float
    count: int


@dataclass(eq=False)
class Late:
    """What is computed of a fit only when it is asked for, and then kept: the one part of a result that grows.

    Attributes
    ----------
    profiles : dict of str to Profile
        By `intervals(kind="profile")` and reports.
    bands : dict
        Fitted trajectories with bands, by number, level and kind.
    automatic : dict
        Intervals by level, with the kind of each.
    curves : dict
        Profiles by parameter and level, whoever asked for them.
    bootstraps : dict
        Estimates of the bootstrap `(runs, J)`, by runs and seed.
    posterior : list of Posterior
        The last one that was drawn.
    """

    profiles: dict[str, Profile] = field(default_factory=dict)
    bands: dict[tuple[int, float, str], Prediction] = field(default_factory=dict)
    automatic: dict[float, tuple[FloatArray, tuple[str, ...]]] = field(default_factory=dict)
    curves: dict[tuple[str, float], Profile] = field(default_factory=dict)
    bootstraps: dict[tuple[int, int], FloatArray] = field(default_factory=dict)
    posterior: list[Posterior] = field(default_factory=list)
