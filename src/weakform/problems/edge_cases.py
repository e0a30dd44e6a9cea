"""Systems that are hard to fit, from `edges.toml`: stiff, chaotic, driven, or sampled too rarely."""

from __future__ import annotations

import math
import tomllib
from importlib import resources

from ..model.model import Model
from .benchmark_problem import Problem

EDGE_CASE_SOURCE = "textbook equations, see edges.toml"
"""The source that is shown for these systems."""


def read_edge_cases() -> tuple[Problem, ...]:
    """Read all systems, in the order of the file; a parameter without bounds gets infinite ones."""
    text = (resources.files(__package__) / "edges.toml").read_text(encoding="utf-8")
    problems = []
    for name, entry in tomllib.loads(text).items():
        model = Model.from_text(entry["equations"])
        bounds = entry.get("bounds", {})
        problems.append(
            Problem(
                name=name,
                title=entry["title"],
                equations=entry["equations"],
                truth=tuple(entry["truth"][p] for p in model.parameters),
                initial=tuple(entry["initial"]),
                duration=entry["duration"],
                box=tuple(tuple(bounds[p]) if p in bounds else (-math.inf, math.inf) for p in model.parameters),
                noise="gaussian",
                source=EDGE_CASE_SOURCE,
            )
        )
    return tuple(problems)
