"""The distribution: reproducible builds, complete wheels, no network access, tested lower bounds of dependencies."""

import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np

from weakform.support.versions import __version__

ROOT = Path(__file__).parent.parent


def build_distribution(folder):
    """Build wheel and sdist; return the hash of each file by its name."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_builds_are_reproducible_and_complete(tmp_path):
    first, second = build_distribution(tmp_path / "a"), build_distribution(tmp_path / "b")
    assert first == second
    assert len(first) == 2
    wheel = next((tmp_path / "a").glob("*.whl"))
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*") if p.is_file()}
    # The C source of the kernels is only in the sdist; wheels have the compiled library.
    shipped = {name for name in shipped if "__pycache__" not in name and not name.endswith((".c", ".h"))}
    assert shipped <= set(names)
    files = list(map(str, (tmp_path / "a").iterdir()))
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    # The engine is compiled for three instruction sets, a hundred kB each before compression.
    assert wheel.stat().st_size < 1_200_000, (
        "the wheel should contain code only; a large increase means that data were added to it"
    )


NOISE = 0.01 * np.random.default_rng(0).standard_normal(30)
NO_NETWORK = """
import socket
def refuse(*a, **k): raise AssertionError("network")
socket.socket = socket.create_connection = socket.getaddrinfo = refuse
import weakform as wf
problem = wf.problems.get("logistic")
fit = wf.fit(problem.model, problem.simulate(M=60))
fit.report("r.html"); fit.save("f.json"); fit.plot(); fit.intervals(kind="bootstrap", runs=20)
from weakform.cli.main import main
assert main(["fit", "m.txt", "d.csv"]) == 0
"""


def test_fits_use_no_network(tmp_path):
    (tmp_path / "m.txt").write_text("x' = -k*x + s")
    (tmp_path / "d.csv").write_text("t,x\n" + "\n".join(f"{k},{0.9**k + e:.6f}" for k, e in enumerate(NOISE)))
    done = subprocess.run([sys.executable, "-c", NO_NETWORK], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_recipe_and_workflows_agree_with_pyproject():
    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    run = {line.replace(" ", "").replace("python-symengine", "symengine") for line in recipe["requirements"]["run"]}
    assert run == {*project["project"]["dependencies"], "python" + project["project"]["requires-python"]}
    assert recipe["context"]["version"] == __version__
    assert recipe["about"]["summary"] == project["project"]["description"]
    for path in (ROOT / ".github/workflows").iterdir():
        jobs = yaml.safe_load(path.read_text())["jobs"]
        assert all("steps" in job for job in jobs.values())
    matrix = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert len(matrix["os"]) == 3


def test_the_oldest_tested_versions_are_the_lower_bounds():
    """`make test-oldest` tests exactly the lower bounds of the dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    pinned = dict(line.split("==") for line in (ROOT / "constraints-oldest.txt").read_text().split())
    bounds = [r for name, group in extras.items() if name != "dev" for r in group if "weakform[" not in r]
    for requirement in (*project["dependencies"], *bounds):
        name, bound = re.fullmatch(r"([\w-]+)>=([\d.]+)", requirement).groups()
        assert pinned[name].startswith(bound), requirement
