"""What `tests/test_stability.py` reads, written by the version that is installed.

python tests/kept/make.py FOLDER
"""

import argparse
import base64
import inspect
import json
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.cli import main as command_line
from weakform.serve import page_tasks

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
TIMES = np.linspace(0, 10, 41)
STUDY = """
name = "kept"
runs = 2
methods = ["wendy"]

[[cells]]
problems = ["logistic"]
noise = [0.05]
samples = [32]
"""


def fits():
    """A fit of each kind, by name."""
    rng = np.random.default_rng(0)
    lynx = wf.problems.get("lotka-volterra")
    data = lynx.simulate(M=20, noise=0.05, seed=1)
    known = {"tied": {"p4": "p2"}, "log": ["p1"], "priors": {"p3": ("normal", 6, 1)}, "units": {"p1": "1/d"}}
    yield "tied", wf.fit(lynx.model, data, **known)

    chain = "A' = -ka*A\nC' = ka*A - ke*C\n"
    t = np.array([0.25, 0.5, 1, 2, 3, 4, 6, 8, 12])
    C = wf.simulate(wf.Model.from_text(chain), [1.5, 0.3], [10.0, 0.0], np.r_[0, t]).states[1:, 1]
    seen = wf.Dataset(t, C[:, None] / 5 * (1 + 0.03 * rng.standard_normal((9, 1))), names=["seen"])
    model = wf.Model.from_text(chain + "C(0) = 0\nA(0) = A0\nseen = C/V")
    bounds = {"ka": (0.05, 10), "ke": (0.01, 5), "V": (0.5, 50)}
    yield "hidden", wf.fit(model, seen, bounds=bounds, fixed={"A0": 10.0})

    jumps = wf.Model.from_text("x' = -k*x + a*if(t < 3, 1, 0)\nat t = 5: x = x/2")
    x = wf.simulate(jumps, [0.5, 1.0], [2.0], TIMES).states
    yield "jumps", wf.fit(jumps, wf.Dataset(TIMES, x + 0.02 * rng.standard_normal(x.shape), names=["x"]))

    rates, some = 0.5 * np.exp(0.3 * rng.standard_normal(4)), TIMES[::4]
    each = [3 * np.exp(-k * some) + 0.05 * rng.standard_normal(len(some)) for k in rates]
    subjects = wf.Dataset.join([wf.Dataset(some, x, names=["x"]) for x in each], list("abcd"))
    yield "subjects", wf.fit(wf.Model.from_text("x' = -k*x"), subjects, random=["k"])


def public():
    """What scripts may rely on, a line each: what the reference lists."""
    shown = re.findall(r"::: weakform\.(\w+)\n    options:(?:\n      .*)*?\n      members: (.*)", REFERENCE.read_text())
    listed = {name: set(re.findall(r"\w+", members)) for name, members in shown}
    for name in wf.__all__:
        thing = getattr(wf, name)
        yield name
        if inspect.isroutine(thing):
            yield from (f"{name}({argument})" for argument in inspect.signature(thing).parameters)
        if inspect.isclass(thing):
            held = [f.name for f in fields(thing)] if is_dataclass(thing) else []
            for member in sorted({*dir(thing), *held} - set(dir(Exception))):
                if member.startswith("_") or (name in listed and member not in {*listed[name], *held}):
                    continue
                yield f"{name}.{member}"
                if inspect.isroutine(found := getattr(thing, member, None)):
                    arguments = inspect.signature(found).parameters
                    yield from (f"{name}.{member}({argument})" for argument in arguments if argument != "self")
            if not issubclass(thing, Exception | Enum):
                yield from (f"{name}({argument})" for argument in inspect.signature(thing).parameters)
    yield from (f"Status.{status.name}" for status in wf.Status)
    for command, options in command_line._options().items():
        yield f"weakform {command}"
        yield from (f"weakform {command} {option}" for option in options)


def main():
    """Everything, into a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    expected = {}
    for name, fit in fits():
        said = {"estimate": fit.estimate.tolist(), "intervals": fit.intervals().tolist(), "status": fit.status.name}
        expected[name] = {**said, "text": str(fit)}
        fit.save(folder / f"{name}.json")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / "public.txt").write_text("".join(f"{line}\n" for line in public()))

    (folder / "study.toml").write_text(STUDY)
    sweep = [sys.executable, "-m", "weakform", "sweep", "study.toml", "--out", "study.sqlite", "--workers", "1"]
    subprocess.run(sweep, cwd=folder, check=True)
    (folder / "study.sqlite.lock").unlink(missing_ok=True)

    opened = page_tasks.take("pk-one")
    (folder / "table.csv").write_text(opened["text"])
    setup = {**opened["setup"], "file": opened["file"], "seed": 0, "starts": 3}
    page_tasks.run_fit(setup, str(folder / "table.csv"), str(folder / "one.json"), lambda *_: None, lambda: False)
    one = {"name": "Fit 1", "setup": setup, "doc": setup, "saved": json.loads((folder / "one.json").read_text())}
    table = {"name": opened["file"], "content": base64.b64encode(opened["text"].encode()).decode()}
    project = {"weakform": "project", "setup": setup, "fits": [one], "table": table}
    (folder / "project.weakform.json").write_text(json.dumps(project))
    for left in ("table.csv", "one.json", "study.toml"):
        (folder / left).unlink()


if __name__ == "__main__":
    main()
