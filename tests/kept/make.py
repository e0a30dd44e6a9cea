"""Write the files that `tests/test_stability.py` reads, with the installed version.

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

API_REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "api.md"
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
    """Yield a name and a fit for each kind of content that a saved fit may have."""
    rng = np.random.default_rng(0)
    lynx = wf.problems.get("lotka-volterra")
    data = lynx.simulate(M=20, noise=0.05, seed=1)
    parameter_arguments = {
        "tied": {"p4": "p2"},
        "log": ["p1"],
        "priors": {"p3": ("normal", 6, 1)},
        "units": {"p1": "1/d"},
    }
    yield "tied", wf.fit(lynx.model, data, **parameter_arguments)

    chain = "A' = -ka*A\nC' = ka*A - ke*C\n"
    t = np.array([0.25, 0.5, 1, 2, 3, 4, 6, 8, 12])
    C = wf.simulate(wf.Model.from_text(chain), [1.5, 0.3], [10.0, 0.0], np.r_[0, t]).states[1:, 1]
    partial_data = wf.Dataset(t, C[:, None] / 5 * (1 + 0.03 * rng.standard_normal((9, 1))), names=["seen"])
    model = wf.Model.from_text(chain + "C(0) = 0\nA(0) = A0\nseen = C/V")
    bounds = {"ka": (0.05, 10), "ke": (0.01, 5), "V": (0.5, 50)}
    yield "hidden", wf.fit(model, partial_data, bounds=bounds, fixed={"A0": 10.0})

    jumps = wf.Model.from_text("x' = -k*x + a*if(t < 3, 1, 0)\nat t = 5: x = x/2")
    x = wf.simulate(jumps, [0.5, 1.0], [2.0], TIMES).states
    yield "jumps", wf.fit(jumps, wf.Dataset(TIMES, x + 0.02 * rng.standard_normal(x.shape), names=["x"]))

    rates, sample_times = 0.5 * np.exp(0.3 * rng.standard_normal(4)), TIMES[::4]
    series = [3 * np.exp(-k * sample_times) + 0.05 * rng.standard_normal(len(sample_times)) for k in rates]
    subjects = wf.Dataset.join([wf.Dataset(sample_times, x, names=["x"]) for x in series], list("abcd"))
    yield "subjects", wf.fit(wf.Model.from_text("x' = -k*x"), subjects, random=["k"])


def public():
    """Yield the public names, arguments, statuses and options of commands as lines, as the reference lists them."""
    member_lists = re.findall(
        r"::: weakform\.(\w+)\n    options:(?:\n      .*)*?\n      members: (.*)", API_REFERENCE.read_text()
    )
    documented = {name: set(re.findall(r"\w+", members)) for name, members in member_lists}
    for name in wf.__all__:
        public_object = getattr(wf, name)
        yield name
        if inspect.isroutine(public_object):
            yield from (f"{name}({argument})" for argument in inspect.signature(public_object).parameters)
        if inspect.isclass(public_object):
            field_names = [f.name for f in fields(public_object)] if is_dataclass(public_object) else []
            for member in sorted({*dir(public_object), *field_names} - set(dir(Exception))):
                if member.startswith("_") or (name in documented and member not in {*documented[name], *field_names}):
                    continue
                yield f"{name}.{member}"
                if inspect.isroutine(attribute := getattr(public_object, member, None)):
                    arguments = inspect.signature(attribute).parameters
                    yield from (f"{name}.{member}({argument})" for argument in arguments if argument != "self")
            if not issubclass(public_object, Exception | Enum):
                yield from (f"{name}({argument})" for argument in inspect.signature(public_object).parameters)
    yield from (f"Status.{status.name}" for status in wf.Status)
    for command, options in command_line._list_options().items():
        yield f"weakform {command}"
        yield from (f"weakform {command} {option}" for option in options)


def main():
    """Write all files into the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    expected = {}
    for name, fit in fits():
        record = {"estimate": fit.estimate.tolist(), "intervals": fit.intervals().tolist(), "status": fit.status.name}
        expected[name] = {**record, "text": str(fit)}
        fit.save(folder / f"{name}.json")
    (folder / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
    (folder / "public.txt").write_text("".join(f"{line}\n" for line in public()))

    (folder / "study.toml").write_text(STUDY)
    sweep = [sys.executable, "-m", "weakform", "sweep", "study.toml", "--out", "study.sqlite", "--workers", "1"]
    subprocess.run(sweep, cwd=folder, check=True)
    (folder / "study.sqlite.lock").unlink(missing_ok=True)

    example = page_tasks.open_example("pk-one")
    (folder / "table.csv").write_text(example["text"])
    setup = {**example["setup"], "file": example["file"], "seed": 0, "starts": 3}
    page_tasks.run_fit(setup, str(folder / "table.csv"), str(folder / "one.json"), lambda *_: None, lambda: False)
    saved_fit = {"name": "Fit 1", "setup": setup, "doc": setup, "saved": json.loads((folder / "one.json").read_text())}
    table = {"name": example["file"], "content": base64.b64encode(example["text"].encode()).decode()}
    project = {"weakform": "project", "setup": setup, "fits": [saved_fit], "table": table}
    (folder / "project.weakform.json").write_text(json.dumps(project))
    for name_to_delete in ("table.csv", "one.json", "study.toml"):
        (folder / name_to_delete).unlink()


if __name__ == "__main__":
    main()
