"""Systems at the edges of what can be fitted: stiff, chaotic, driven, sampled too rarely; from `edges.toml`."""

from __future__ import annotations

import tomllib
from importlib import resources

from ..model.model import Model
from .benchmark_problem import Problem

SOURCE = "textbook equations, see edges.toml"
INFINITE = float("inf")


def read() -> tuple[Problem, ...]:
    """All of them, in the order of the file."""
    text = (resources.files(__package__) / "edges.toml").read_text(encoding="utf-8")
    found = []
    for name, entry in tomllib.loads(text).items():
        model = Model.from_text(entry["equations"])
        bounds = entry.get("bounds", {})
        found.append(
            Problem(
                name=name,
                title=entry["title"],
                equations=entry["equations"],
                truth=tuple(entry["truth"][p] for p in model.parameters),
                initial=tuple(entry["initial"]),
                duration=entry["duration"],
                box=tuple(tuple(bounds[p]) if p in bounds else (-INFINITE, INFINITE) for p in model.parameters),
                noise="gaussian",
                source=SOURCE,
            )
        )
    return tuple(found)
