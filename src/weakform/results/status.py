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
        "stopped at the iteration limit before converging: the estimate may be improved; raise max_iterations, give "
        "bounds, or start closer"
    )
    TIME = "stopped at the time limit before converging: raise time_limit, or fit fewer samples first"
    INTERRUPTED = "stopped by the user before converging: this is the best so far; a fit that starts there goes on"
    STUCK = (
        "no further progress was possible, yet the gradient is not zero: the estimate is doubtful; try other starts, "
        "tighter bounds, or rescale the model"
    )
    START = (
        "the objective is not finite at any start: the right-hand side or the covariance breaks down there; give a "
        "start or bounds where the model is defined at all data"
    )

    REJECTED = (
        "converged, but the model does not fit the data, or not with the sigma that is given: the estimate and its "
        "intervals are not to be trusted; see where the equations fail, and which term may be missing"
    )
    UNDETERMINED = (
        "converged, but the data do not determine the parameters, or a bound stops one: other values fit as well, or "
        "better beyond it; fix some, give bounds or priors, widen a bound that is reached, or measure where they matter"
    )

    MISSTATED = (
        "converged, but the noise is not what it was said to be: its intervals are not to be trusted; see which values "
        "or which kind of noise"
    )
    UNRESOLVED = (
        "converged, but the samples are too far apart for these dynamics: the discretisation shifts the estimate by "
        "more than half a standard error; sample faster, or leave out the fast part"
    )
    UNREFINED = (
        "the refinement was not possible: what is told is the weak estimate, which is biased by the noise; try bounds, "
        "other starts, or method='output-error'"
    )

    @property
    def success(self) -> bool:
        """Whether the estimate is a solution of its problem, and nothing speaks against it."""
        return self is Status.CONVERGED

    @property
    def converged(self) -> bool:
        """Whether the estimate is a solution of its problem."""
        return self in (
            Status.CONVERGED,
            Status.REJECTED,
            Status.UNDETERMINED,
            Status.MISSTATED,
            Status.UNRESOLVED,
        )

    @property
    def sound(self) -> bool:
        """Whether the states of the estimate obey the model, so that its likelihood can be compared with others."""
        return self.converged and self is not Status.UNRESOLVED

    @classmethod
    def of(cls, stop: Stop) -> Status:
        """The status of a minimisation."""
        if stop.converged:
            return cls.CONVERGED
        return {Stop.ITERATIONS: cls.ITERATIONS, Stop.TIME: cls.TIME, Stop.START: cls.START}.get(stop, cls.STUCK)
