"""How a fit ended."""

from __future__ import annotations

from enum import Enum

from ..optimize import Stop


class Status(Enum):
    """How a fit ended; the text says what to do next.

    Examples
    --------
    >>> import weakform as wf
    >>> wf.Status.CONVERGED.success, wf.Status.REJECTED.success, wf.Status.REJECTED.converged
    (True, False, True)
    """

    CONVERGED = "converged"
    ITERATIONS = (
        "stopped at the iteration limit before converging: the estimate can be improved; raise max_iterations, give "
        "bounds, or start closer"
    )
    TIME = "stopped at the time limit before converging: raise time_limit, or fit fewer samples first"
    INTERRUPTED = (
        "stopped by the user before converging: this is the best estimate so far; to continue, start a fit from it"
    )
    STUCK = (
        "no further progress was possible, yet the gradient is not zero: the estimate is doubtful; try other starts, "
        "tighter bounds, or rescale the model"
    )
    START = (
        "the objective is not finite at any start: the right-hand side or the covariance breaks down there; give a "
        "start or bounds where the model is defined at all data"
    )

    REJECTED = (
        "converged, but the model does not fit the data, or not with the given sigma: do not trust the estimate or its "
        "intervals; see where the equations fail, and which term may be missing"
    )
    UNDETERMINED = (
        "converged, but the data do not determine the parameters, or one of them is at a bound: other values fit as "
        "well, or better beyond the bound; fix some, give bounds or priors, widen the bound, or measure more"
    )

    MISSTATED = (
        "converged, but the noise differs from the assumed one: do not trust the intervals; see the warnings for the "
        "values or the kind of noise"
    )
    UNRESOLVED = (
        "converged, but the samples are too far apart for these dynamics: the discretisation shifts the estimate by "
        "more than half a standard error; sample faster, or leave out the fast part"
    )
    UNREFINED = (
        "the refinement was not possible: the weak estimate is reported, which is biased by the noise; try bounds, "
        "other starts, or method='output-error'"
    )
    EMPTY = "not fitted: there are fewer measured values than unknowns"

    @property
    def success(self) -> bool:
        """True if the search converged, and no evidence speaks against the model or the estimate."""
        return self is Status.CONVERGED

    @property
    def converged(self) -> bool:
        """True if the search converged, whatever the verdict on the model."""
        return self in (
            Status.CONVERGED,
            Status.REJECTED,
            Status.UNDETERMINED,
            Status.MISSTATED,
            Status.UNRESOLVED,
        )

    @property
    def sound(self) -> bool:
        """True if the fitted states obey the model, so that log-likelihoods can be compared."""
        return self.converged and self is not Status.UNRESOLVED

    @classmethod
    def from_stop(cls, stop: Stop) -> Status:
        """Return the status that corresponds to the end of a minimisation."""
        if stop.converged:
            return cls.CONVERGED
        return {Stop.ITERATIONS: cls.ITERATIONS, Stop.TIME: cls.TIME, Stop.START: cls.START}.get(stop, cls.STUCK)
