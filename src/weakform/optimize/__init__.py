"""Optimisation; knows nothing of differential equations."""

from .minimise import Minimum, Stop, minimise, never
from .rules import Cubic, TrustRegion

__all__ = ["Cubic", "Minimum", "Stop", "TrustRegion", "minimise", "never"]
