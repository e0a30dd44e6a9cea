"""The initial value problem behind a forward solution, with the accuracy that it must have."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.inputs import Inputs
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from .jumps import Jumps


@dataclass(frozen=True)
class InitialValueProblem:
    """An initial value problem and the accuracy of its solution.

    Attributes
    ----------
    model : Model
    p : ndarray, (J,)
    driven : Inputs, or None
        Inputs of the model, without its switches.
    jumps : Jumps
    rtol : float
    atol : ndarray, (columns, D)
        Absolute tolerances of the state (first row) and of the columns of its sensitivities.
    budget : int
        Largest number of evaluations of the right-hand side.
    held : ndarray of bool, (events,), or None
        Events whose condition holds at the first time and which happened before; None if the past is unknown.
    open_end : bool
        Whether events and switches at exactly the last time are left out.
    """

    model: Model
    p: FloatArray
    driven: Inputs | None
    jumps: Jumps
    rtol: float
    atol: FloatArray
    budget: int
    held: BoolArray | None = None
    open_end: bool = False
