"""FitzHugh–Nagumo: relaxation oscillations of a neuron."""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="fitzhugh-nagumo",
    title="FitzHugh–Nagumo",
    equations="""
        u1' = p1 * u1 - p2 * u1**3 + p3 * u2
        u2' = -p4 * u1 + p5 + p6 * u2
    """,
    truth=(3.0, 3.0, 3.0, 1.0 / 3.0, 17.0 / 150.0, 1.0 / 15.0),
    initial=(0.0, 0.1),
    duration=25.0,
    box=((0.0, 6.0),) * 3 + ((0.0, 1.0),) * 3,
    noise="gaussian",
    source="Bortz, Messenger & Dukic 2023",
)
