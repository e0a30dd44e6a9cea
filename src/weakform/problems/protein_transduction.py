"""Protein signalling transduction: five states, a Michaelis–Menten term."""

from .benchmark_problem import Problem

PROBLEM = Problem(
    name="protein-transduction",
    title="Protein signalling transduction",
    equations="""
        S' = -k1*S - k2*S*R + k3*RS
        D' = k1*S
        R' = -k2*S*R + k3*RS + V*P/(Km + P)
        RS' = k2*S*R - (k3 + k4)*RS
        P' = k4*RS - V*P/(Km + P)
    """,
    truth=(0.07, 0.6, 0.05, 0.3, 0.017, 0.3),
    initial=(1.0, 0.0, 1.0, 0.0, 0.0),
    duration=100.0,
    box=((0.0, 1.0), (0.0, 2.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
    noise="gaussian",
    source="Vyshemirsky & Girolami 2008",
    names=("k1", "k2", "k3", "k4", "V", "Km"),
)
