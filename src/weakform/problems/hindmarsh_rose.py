"""Hindmarsh–Rose: neuronal bursting, with parameters over three orders of magnitude; linear in all parameters.

The paper prints `+ p7 u2`; with that sign the solution diverges.
"""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="hindmarsh-rose",
    title="Hindmarsh–Rose neuron",
    equations="""
        u1' = p1 * u2 - p2 * u1**3 + p3 * u1**2 - p4 * u3
        u2' = p5 - p6 * u1**2 - p7 * u2
        u3' = p8 * u1 + p9 - p10 * u3
    """,
    truth=(10.0, 10.0, 30.0, 10.0, 10.0, 50.0, 10.0, 0.04, 0.0319, 0.01),
    initial=(-1.31, -7.6, -0.2),
    duration=10.0,
    box=(
        (0.0, 20.0),
        (0.0, 20.0),
        (0.0, 60.0),
        (0.0, 20.0),
        (0.0, 20.0),
        (0.0, 100.0),
        (0.0, 20.0),
        (0.0, 1.0),
        (0.0, 1.0),
        (0.0, 1.0),
    ),
    noise="gaussian",
    source="Rummel et al., eq. hindmarshRose with the sign of p7 u2 corrected",
    search=(0.01, 5.0),
)
