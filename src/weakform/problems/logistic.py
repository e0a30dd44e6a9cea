"""Logistic growth.

The paper's figure on the minimal radius prints u + u², whose solution diverges.
"""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="logistic",
    title="Logistic growth",
    equations="u' = p1 * u - p2 * u**2",
    truth=(1.0, 1.0),
    initial=(0.01,),
    duration=10.0,
    box=((0.0, 10.0), (0.0, 10.0)),
    noise="gaussian",
    source="Bortz, Messenger & Dukic 2023",
)
