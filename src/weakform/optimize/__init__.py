"""Optimisation in a box, least squares and Markov chains; independent of differential equations."""

from .second_order import Minimum, Stop, minimise, never
from .step_rules import Cubic, Reaching, TrustRegion

__all__ = ["Cubic", "Minimum", "Reaching", "Stop", "TrustRegion", "minimise", "never"]
