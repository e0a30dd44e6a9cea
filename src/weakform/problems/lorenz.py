"""The Lorenz oscillator: chaotic, so that forward solutions diverge from the data after a few time units."""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="lorenz",
    title="Lorenz oscillator",
    equations="""
        u1' = p1 * (u2 - u1)
        u2' = u1 * (p2 - u3) - u2
        u3' = u1 * u2 - p3 * u3
    """,
    truth=(10.0, 28.0, 8.0 / 3.0),
    initial=(2.0, 1.0, 1.0),
    duration=10.0,
    box=((0.0, 20.0), (0.0, 35.0), (0.0, 5.0)),
    noise="gaussian",
    source="Rummel et al., eq. lorenz; priors of its table of initial parameters; T = 10 on grids of given M",
    search=(0.02, 5.0),
)
