"""The trace of a fit: which strategies were tried, in what order, and why each was taken, not taken or skipped."""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass

TAKEN, NOT_TAKEN, SKIPPED, FAILED = "taken", "not taken", "skipped", "failed"
DECISIONS = (TAKEN, NOT_TAKEN, SKIPPED, FAILED)
"""Words for what became of a strategy."""
_LINE_WIDTH = 110
"""Characters of a printed line. By judgement: fits a terminal and a report."""


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
        Why, in one sentence with numbers.
    trigger : str
        Why it was tried at all; empty for the first strategy and for skipped ones.
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
    def effort(self) -> str:
        """Seconds and starts in words; empty if the strategy was skipped."""
        if not math.isfinite(self.seconds):
            return ""
        return f"{self.seconds:.2f} s, {self.starts} start{'s' * (self.starts != 1)}"


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
        width = max(len(step.strategy) for step in self.steps)
        lines = []
        for step in self.steps:
            shown = "" if math.isnan(step.log_likelihood) else f"{step.log_likelihood:.2f}"
            head = f"{step.strategy:<{width}}  {step.effort:>18}  {shown:>11}  {step.status:<12}  {step.decision}"
            indent = " " * (width + 2)
            lines.append(head.rstrip())
            for words in filter(None, (step.trigger and f"tried because {step.trigger}", step.reason)):
                lines += textwrap.wrap(words, _LINE_WIDTH, initial_indent=indent, subsequent_indent=indent)
        heading = f"{'strategy':<{width}}  {'effort':>18}  {'log-lik.':>11}  {'status':<12}  decision"
        return "\n".join([heading, *lines])
