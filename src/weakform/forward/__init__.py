"""Forward solutions with sensitivities, and what follows from them: steady states, identifiability, error bounds."""

from .simulation_status import SimulationStatus
from .solver import Simulation, simulate

__all__ = ["Simulation", "SimulationStatus", "simulate"]
