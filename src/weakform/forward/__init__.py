"""Forward solutions, and the bound on what any estimator can know."""

from .solve import Simulation, simulate
from .status import SimulationStatus

__all__ = ["Simulation", "SimulationStatus", "simulate"]
