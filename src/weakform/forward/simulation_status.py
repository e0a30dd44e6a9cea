"""Statuses of a forward solution."""

from __future__ import annotations

from enum import Enum


class SimulationStatus(Enum):
    """The outcome of a forward solution; its value says what to do after a failure."""

    SUCCESS = "solved"
    BLOWS_UP = "the solution blows up or its right-hand side is not finite; check the parameters and the initial state"
    TOO_MUCH_WORK = (
        "the budget of evaluations is spent; loosen the tolerance, shorten the time, or raise max_evaluations"
    )
