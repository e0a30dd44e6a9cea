"""Optimisation in a box, least squares and Markov chains; independent of differential equations."""

from .second_order import Minimum, Stop, minimise, never_stop
from .step_rules import CubicRegularisation, ReachLimitedTrustRegion, TrustRegion

__all__ = ["CubicRegularisation", "Minimum", "ReachLimitedTrustRegion", "Stop", "TrustRegion", "minimise", "never_stop"]
