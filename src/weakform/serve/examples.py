"""Examples of the page, each a model with data: common models (`gallery.toml`) and the benchmark problems."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from textwrap import dedent
from typing import Any

import numpy as np

from .. import problems
from ..files.model_file import ModelFile, parse_model, parse_toml
from ..forward.solver import evaluate_initial_values, simulate
from ..noise.kinds import KINDS
from ..support.errors import ModelError
from ..support.wording import suggest_name

DEFAULT_SAMPLES = 80
"""Samples of the data of a benchmark problem. By judgement: enough for a fit, few enough to be fast."""
GALLERY_INTERVALS = 40
"""Intervals between the samples of a model of `gallery.toml` that does not set its own number. By judgement."""
DEFAULT_NOISE = 0.05
"""Noise of a benchmark problem, as `problem.simulate` takes it. By judgement."""
EXAMPLE_SEED = 3
"""Seed of all simulated data, so that an example is the same every time."""
PROBLEM_KIND = "Benchmark problems"
"""Heading of the benchmark problems in the list of examples."""


@lru_cache(maxsize=1)
def _read_gallery() -> dict[str, Any]:
    """Read `gallery.toml`, keyed by the names of its examples."""
    text = (resources.files(__package__) / "gallery.toml").read_text(encoding="utf-8")
    return parse_toml(text, "gallery.toml")


def list_examples() -> list[dict[str, str]]:
    """Return name, title and kind of each example."""
    gallery = [
        {"name": name, "title": entry["title"], "kind": entry["kind"]} for name, entry in _read_gallery().items()
    ]
    benchmarks = [{"name": n, "title": problems.get(n).title, "kind": PROBLEM_KIND} for n in problems.names()]
    return [*gallery, *benchmarks]


def open_example(name: str) -> tuple[ModelFile, str]:
    """Return an example.

    Parameters
    ----------
    name : str

    Returns
    -------
    ModelFile
    str
        The data as CSV.
    """
    available = [example["name"] for example in list_examples()]
    if name not in available:
        raise ModelError(
            f"There is no example {name!r}.{suggest_name(name, available)} The examples are: {', '.join(available)}."
        )
    if name not in _read_gallery():
        problem = problems.get(name)
        data = problem.simulate(
            M=DEFAULT_SAMPLES, noise=DEFAULT_NOISE if problem.noise != "poisson" else None, seed=EXAMPLE_SEED
        )
        lines = [f'title = "{problem.title}"', f"equations = '''\n{dedent(problem.equations).strip()}\n'''"]
        lines += [f'noise = "{problem.noise}"']
        lines += [f"[parameters.{p}]\nbounds = [{low!r}, {high!r}]" for p, (low, high) in problem.bounds.items()]
        q = data.trajectories[0]
        return parse_model("\n".join(lines), name), _format_csv(["time", *problem.model.states], [q.times, *q.values.T])
    entry = _read_gallery()[name]
    file = parse_model(entry["model"], name)
    if "table" in entry:
        return file, entry["table"].lstrip()
    times = np.linspace(0.0, entry["duration"], entry.get("samples", GALLERY_INTERVALS) + 1)[entry.get("skip", 0) :]
    truth = [file.truth[p] if p in file.truth else file.values[p] for p in file.model.parameters]
    start = dict.fromkeys(file.model.states, 0.0) | evaluate_initial_values(file.model, truth) | file.initial
    # The solution starts at t = 0, where the initial values hold, even if the first samples are skipped.
    solved = simulate(file.model, truth, [start[s] for s in file.model.states], np.unique([0.0, *times]))
    states = solved.states[-len(times) :]
    names = entry["measured"]
    values = file.model.build_map("h", names)(times, states, np.array(truth))
    rng = np.random.default_rng(EXAMPLE_SEED)
    for d, column_name in enumerate(names):
        kind = KINDS[file.noise.get(column_name, "gaussian")]
        column = values[:, [d]]
        values[:, [d]] = kind.draw(rng, column, kind.compute_sigma(column, entry.get("noise", kind.ratio)))
    return file, _format_csv(["time", *names], [times, *values.T])


def _format_csv(header: list[str], columns: list[Any]) -> str:
    """Format columns as CSV with six digits."""
    lines = [",".join(header)]
    lines += [",".join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"
