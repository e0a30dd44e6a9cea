"""SIR with time-delayed immunity: explicit time, nonlinear in p1, p2 and p5.

The paper prints p1 = 1.99, which is outside its own prior; 0.2 is meant. The initial state (1, 0, 0) has no logarithm,
and so the first row of log-normal data is dropped.
"""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="sir-tdi",
    title="SIR with time-delayed immunity",
    equations="""
        back = p1 * exp(-p1 * p2) / (1 - exp(-p1 * p2))
        u1' = -p1 * u1 + p3 * u2 + back * u3
        u2' = p1 * u1 - p3 * u2 - p4 * (1 - exp(-p5 * t**2)) * u2
        u3' = p4 * (1 - exp(-p5 * t**2)) * u2 - back * u3
    """,
    truth=(0.2, 1.5, 0.074, 0.113, 0.0024),
    initial=(1.0, 0.0, 0.0),
    duration=50.0,
    box=((1e-4, 1.0), (1e-4, 2.0), (1e-4, 1.0), (1e-4, 1.0), (1e-4, 1.0)),
    noise="lognormal",
    source="Rummel et al., eq. sir",
    search=(0.1, 25.0),
)
