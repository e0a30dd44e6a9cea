"""Forward solutions, and the bound on what any estimator can know."""

from .solve import Simulation, SimulationStatus, simulate

__all__ = ["Simulation", "SimulationStatus", "simulate"]
