"""Models to begin with, each with data to try: the benchmark problems, and what is often fitted."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources
from textwrap import dedent
from typing import Any

import numpy as np

from .. import problems
from ..files.model_file import ModelFile, parse_model, parse_toml
from ..forward.solver import begin, simulate
from ..noise.kinds import KINDS
from ..support.errors import ModelError
from ..support.wording import suggestion

SAMPLES, NOISE, SEED = 80, 0.05, 3
OF_PROBLEMS = "Benchmark problems"


@lru_cache(maxsize=1)
def _own() -> dict[str, Any]:
    text = (resources.files(__package__) / "gallery.toml").read_text(encoding="utf-8")
    return parse_toml(text, "gallery.toml")


def listed() -> list[dict[str, str]]:
    """Name, title and kind of each."""
    own = [{"name": name, "title": one["title"], "kind": one["kind"]} for name, one in _own().items()]
    more = [{"name": n, "title": problems.get(n).title, "kind": OF_PROBLEMS} for n in problems.names()]
    return [*own, *more]


def opened(name: str) -> tuple[ModelFile, str]:
    """A model, and its data as CSV."""
    known = [one["name"] for one in listed()]
    if name not in known:
        raise ModelError(f"No model {name!r} in the gallery.{suggestion(name, known)} There are: {', '.join(known)}.")
    if name not in _own():
        problem = problems.get(name)
        data = problem.simulate(M=SAMPLES, noise=NOISE if problem.noise != "poisson" else None, seed=SEED)
        lines = [f'title = "{problem.title}"', f"equations = '''\n{dedent(problem.equations).strip()}\n'''"]
        lines += [f'noise = "{problem.noise}"']
        lines += [f"[parameters.{p}]\nbounds = [{low!r}, {high!r}]" for p, (low, high) in problem.bounds.items()]
        q = data.trajectories[0]
        return parse_model("\n".join(lines), name), _table(["time", *problem.model.states], [q.times, *q.values.T])
    entry = _own()[name]
    file = parse_model(entry["model"], name)
    if "table" in entry:
        return file, entry["table"].lstrip()
    times = np.linspace(0.0, entry["duration"], entry.get("samples", 40) + 1)[entry.get("skip", 0) :]
    truth = [file.truth[p] if p in file.truth else file.values[p] for p in file.model.parameters]
    start = dict.fromkeys(file.model.states, 0.0) | begin(file.model, truth) | file.initial
    solved = simulate(file.model, truth, [start[s] for s in file.model.states], np.unique([0.0, *times]))
    states = solved.states[-len(times) :]
    names = entry["measured"]
    values = file.model.map("h", names)(times, states, np.array(truth))
    rng = np.random.default_rng(SEED)
    for d, one in enumerate(names):
        kind = KINDS[file.noise.get(one, "gaussian")]
        column = values[:, [d]]
        values[:, [d]] = kind.draw(rng, column, kind.sigma(column, entry.get("noise", kind.ratio)))
    return file, _table(["time", *names], [times, *values.T])


def _table(header: list[str], columns: list[Any]) -> str:
    lines = [",".join(header)]
    lines += [",".join(f"{value:.6g}" for value in row) for row in zip(*columns, strict=True)]
    return "\n".join(lines) + "\n"
