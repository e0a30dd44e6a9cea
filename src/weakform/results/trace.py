"""The trace of a fit: the strategies that were tried, in their order, and why each was taken, not taken or skipped."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

TAKEN = "taken"
"""The attempt is reported."""

NOT_TAKEN = "not taken"
"""The strategy was run, but its attempt is not reported, or it produced none."""

SKIPPED = "skipped"
"""The strategy was not run."""

FAILED = "failed"
"""The strategy ended in an error."""

DECISIONS = (TAKEN, NOT_TAKEN, SKIPPED, FAILED)
"""The outcomes of a strategy, as files store them."""

LINE_WIDTH = 120
"""Characters of a printed line. By judgement: as wide as the printed report."""


@dataclass(frozen=True)
class TraceStep:
    """One strategy, or one attempt of it.

    Attributes
    ----------
    strategy : str
        Name of the strategy, such as `"relaxed model"`.
    decision : str
        `"taken"`, `"not taken"`, `"skipped"` or `"failed"`.
    reason : str
        The reason, in a clause with numbers.
    trigger : str
        Why it was tried, in a clause that follows "tried because"; empty if it needs no reason, or was skipped.
    method : str
        Method that computed the attempt; empty if none did.
    seconds : float
        Wall time; NaN if it was skipped.
    starts : int
        Number of starts that were followed.
    log_likelihood : float
        Log-likelihood of the data; NaN if there is none.
    status : str
        Name of the status of the attempt; empty if there was none.
    """

    strategy: str
    decision: str
    reason: str
    trigger: str = ""
    method: str = ""
    seconds: float = math.nan
    starts: int = 0
    log_likelihood: float = math.nan
    status: str = ""

    @property
    def was_run(self) -> bool:
        """True if the strategy did any work; False if it was skipped."""
        return math.isfinite(self.seconds)


@dataclass(frozen=True)
class Trace:
    """The steps of a fit in their order; `print(fit.trace)` shows them as a table.

    Attributes
    ----------
    steps : tuple of TraceStep
    """

    steps: tuple[TraceStep, ...] = ()

    @property
    def taken(self) -> TraceStep | None:
        """The step whose attempt is reported; None for an empty trace."""
        return next((step for step in self.steps if step.decision == TAKEN), None)

    def __str__(self) -> str:
        if not self.steps:
            return "No trace was recorded."
        width = max(len("strategy"), *(len(step.strategy) for step in self.steps))
        lines = [f"{'strategy':<{width}}  {'seconds':>7}  {'starts':>6}  {'log-lik.':>10}  {'status':<12}  decision"]
        for step in self.steps:
            seconds, starts = (f"{step.seconds:.2f}", str(step.starts)) if step.was_run else ("", "")
            likelihood = "" if math.isnan(step.log_likelihood) else f"{step.log_likelihood:.2f}"
            head = f"{step.strategy:<{width}}  {seconds:>7}  {starts:>6}  {likelihood:>10}  {step.status:<12}  "
            indent = " " * len(head)
            lines += textwrap.wrap(
                f"{step.decision}: {step.reason}", LINE_WIDTH, initial_indent=head, subsequent_indent=indent
            )
            if step.trigger:
                lines += textwrap.wrap(
                    f"tried because {step.trigger}", LINE_WIDTH, initial_indent=indent, subsequent_indent=indent
                )
        return "\n".join(lines)
