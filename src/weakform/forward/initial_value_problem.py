"""What a forward solution is of."""

from __future__ import annotations

from dataclasses import dataclass

from ..model.inputs import Inputs
from ..model.model import Model
from ..support.array_types import BoolArray, FloatArray
from .jumps import Jumps


@dataclass(frozen=True)
class Setting:
    """What is solved, and how well.

    Attributes
    ----------
    model : Model
    p : ndarray, (J,)
    driven : Inputs, or None
    jumps : Jumps
    rtol : float
    atol : ndarray, (columns, D)
    budget : int
        Of evaluations.
    held : ndarray of bool, (events,), or None
        Events that hold already, and have happened.
    open : bool
        Whether what happens at the very last time is left out.
    """

    model: Model
    p: FloatArray
    driven: Inputs | None
    jumps: Jumps
    rtol: float
    atol: FloatArray
    budget: int
    held: BoolArray | None = None
    open: bool = False
