"""Optimisation; knows nothing of differential equations."""

from .minimise import Minimum, Stop, minimise, never
from .rules import Cubic, Reaching, TrustRegion

__all__ = ["Cubic", "Minimum", "Reaching", "Stop", "TrustRegion", "minimise", "never"]
