"""Third-party test suites: PEtab's own test cases, and published problems.

    python benchmarks/suites.py FOLDER [fit [SEED]]

FOLDER contains one of two things:

- test cases of PEtab, which are folders with a `*_solution.yaml`: log-likelihood, χ² and simulations are compared with
  the expected values;
- problems, which are folders with a YAML file and simulated data: the log-likelihood at the nominal values is compared
  with that of the supplied simulations.

With `fit` each problem is fitted with default settings and without a start. The table then also shows the difference to
the nominal log-likelihood, and CPU seconds.
"""

from __future__ import annotations

import csv
import sys
import time
from pathlib import Path

import numpy as np
import yaml

import weakform as wf
from weakform.files.petab.petab_likelihood import PredictedMeasurements
from weakform.files.petab.petab_problem import PetabProblem
from weakform.support.errors import WeakformError


def rows_of(path: Path) -> list[dict[str, str]]:
    """Read the rows of a table with tabs."""
    with path.open() as file:
        return list(csv.DictReader(file, delimiter="\t"))


def case(folder: Path, solution: Path) -> str:
    """Run one test case, and return "pass", what is wrong, or why it was refused."""
    expected = yaml.safe_load(solution.read_text())
    try:
        problem = wf.read_petab(folder / solution.name.replace("_solution", ""))
        errors = {
            "llh": abs(problem.log_likelihood() - expected["llh"]),
            "chi2": abs(problem.chi2() - expected["chi2"]),
            "simulations": max(
                abs(float(row["simulation"]) - y)
                for row, y in zip(rows_of(folder / "_simulations.tsv"), problem.simulate()["simulation"], strict=True)
            ),
        }
    except WeakformError as error:
        return f"refused: {error}"
    wrong = {name: value for name, value in errors.items() if not value <= expected[f"tol_{name}"]}
    return "pass" if not wrong else f"WRONG: {wrong}"


def reference(problem: PetabProblem, folder: Path) -> float:
    """Return minus the log-likelihood of the simulations supplied with a problem; NaN if their rows do not match."""
    files = sorted(folder.glob("simul*.tsv"))
    measurements = problem.found.measurements
    if not files:
        return float("nan")
    simulated: dict[tuple[str, ...], list[float]] = {}
    keys = ("observableId", "simulationConditionId", "preequilibrationConditionId")
    for row in rows_of(files[0]):
        simulated.setdefault((*(row.get(k) or "" for k in keys), str(float(row["time"]))), []).append(
            float(row["simulation"])
        )
    matches = [simulated.get((*(m.row.get(k, "") for k in keys), str(m.time))) for m in measurements]
    y = [values[0] for values in matches if values]
    if len(y) < len(measurements):  # the conditions have other names in the simulations: match row by row
        rows = rows_of(files[0])
        if [(row["observableId"], float(row["time"])) for row in rows] != [
            (m.observable, m.time) for m in measurements
        ]:
            return float("nan")
        y = [float(row["simulation"]) for row in rows]
    sigma = problem.likelihood.predict(problem._collect_quantities(None)).sigma
    return -float(problem.likelihood.compute_log_densities(PredictedMeasurements(np.array(y), sigma)).sum())


def problem_line(path: Path, fitted: bool, seed: int) -> str:
    """Return the line of one published problem: its log-likelihood at the nominal values, and its fit."""
    try:
        begin = time.process_time()
        problem = wf.read_petab(path)
        nominal = -problem.log_likelihood()
        line = f"| {path.parent.name} | {nominal:.4f} | {reference(problem, path.parent):.4f} |"
        if fitted:
            begin = time.process_time()
            fit = problem.fit(seed=seed)
            spent = time.process_time() - begin
            line += f" {-fit.log_likelihood - nominal:+.3f} | {fit.agreed} of {fit.tried} | {spent:.1f} |"
    except WeakformError as error:
        line = f"| {path.parent.name} | refused: {' '.join(str(error).split())[:200]} |"
    return line


def main() -> None:
    """Run a suite and print its results."""
    root, fitted = Path(sys.argv[1]), "fit" in sys.argv
    seed = int(sys.argv[-1]) if sys.argv[-1].isdigit() else 0
    solutions = sorted(root.rglob("*_solution.yaml"))
    if solutions:
        ends = [(s.parent.name, case(s.parent, s)) for s in solutions]
        for name, end in ends:
            if end != "pass":
                print(f"{name}: {end}")
        counts = {word: sum(end.startswith(word) for _, end in ends) for word in ("pass", "WRONG", "refused")}
        print(f"{len(ends)} cases: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
        return
    print("| problem | nominal | simulated data |" + (" fit - nominal | starts | CPU s |" if fitted else ""))
    print("|---|---|---|" + ("---|---|---|" if fitted else ""))
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.glob("*.yaml")) if "test" not in path.name]
        if files:
            print(problem_line(files[0], fitted, seed), flush=True)


if __name__ == "__main__":
    main()
