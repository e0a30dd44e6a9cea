"""Lotka–Volterra: predator and prey."""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="lotka-volterra",
    title="Lotka–Volterra",
    equations="""
        u1' = p1 * u1 - p2 * u1 * u2
        u2' = -p3 * u2 + p4 * u1 * u2
    """,
    truth=(3.0, 1.0, 6.0, 1.0),
    initial=(1.0, 1.0),
    duration=5.0,
    box=((0.0, 10.0),) * 4,
    noise="gaussian",
    source="Bortz, Messenger & Dukic 2023",
)
