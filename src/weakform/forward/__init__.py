"""Forward solutions, and the bound on what any estimator can know."""

from .simulation_status import SimulationStatus
from .solver import Simulation, simulate

__all__ = ["Simulation", "SimulationStatus", "simulate"]
