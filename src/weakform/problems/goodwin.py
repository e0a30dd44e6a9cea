"""Goodwin's negative feedback with a Hill coefficient p4: nonlinear in p3 and p4.

The paper prints seven values for eight parameters; the missing one is p3 = 1. The data determine only the ratio of p1
and p3 well.
"""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="goodwin",
    title="Goodwin oscillator",
    equations="""
        u1' = p1 / (2.15 + p3 * u3**p4) - p2 * u1
        u2' = p5 * u1 - p6 * u2
        u3' = p7 * u2 - p8 * u3
    """,
    truth=(3.4884, 0.0969, 1.0, 10.0, 0.0969, 0.0581, 0.0969, 0.0775),
    initial=(0.3617, 0.9137, 1.3934),
    duration=80.0,
    box=((1.0, 5.0), (0.0, 0.2), (0.0, 2.0), (5.0, 15.0), (0.0, 0.2), (0.0, 0.2), (0.0, 0.2), (0.0, 0.2)),
    noise="lognormal",
    source="Rummel et al., eq. goodwin3d",
    search=(0.1, 20.0),
)
