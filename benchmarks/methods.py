"""Comparison of output error, the default method and the hybrid, on the same data from the same random starts.

    python benchmarks/methods.py [runs, default 30] [samples, default 256] [noise ratio, default 0.05]

The systems are the paper's four, with one random start in the box for each run (`starts=1`) and new noise in each run.
A run *fails* if there is no fit, or if its coefficient error or forward error is not below 2500% (the paper's rule). A
run is *lost* if it fails or if its error is more than ten times the Cramér–Rao bound. CPU seconds are those of one
process.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

import weakform as wf
from weakform.experiments.study import Cell
from weakform.experiments.summary import compute_error_bound

METHODS = {
    "output-error": {"method": "output-error"},
    "output-error, paper": {"method": "output-error", "options": {"residuals": "additive"}},
    "wendy": {"method": "wendy"},
    "hybrid": {"method": "hybrid"},
    "hybrid, paper": {"method": "hybrid", "options": {"weak": "mle", "residuals": "additive"}},
}


def efficient(problem: wf.problems.Problem, M: int, noise: float) -> float:
    """Return the relative coefficient error of an efficient estimator: the Cramér–Rao bound."""
    errors = compute_error_bound(problem, Cell(problem.name, problem.noise, noise, M, problem.duration))
    return float(np.linalg.norm(errors) / np.linalg.norm(problem.parameters))


@dataclass(frozen=True)
class Ended:
    """Results of a method on a problem, `(runs,)` each: errors, whether a run failed or is lost, CPU seconds."""

    error: np.ndarray
    forward: np.ndarray
    failed: np.ndarray
    lost: np.ndarray
    cpu: np.ndarray


def measured(name: str, runs: int, M: int, noise: float, labels: Sequence[str]) -> dict[str, Ended]:
    """Run the methods on one problem, with the same data and the same starts for all."""
    problem = wf.problems.get(name)
    results: dict[str, list[tuple[float, float, bool, float]]] = {label: [] for label in labels}
    for seed in range(runs):
        data = problem.simulate(M=M, noise=noise, seed=seed)
        arguments = {"bounds": problem.bounds, "start": problem.start(seed), "starts": 1}
        for label in labels:
            begin = time.process_time()
            try:
                metrics = wf.fit(problem.model, data, **arguments, **METHODS[label]).metrics()
                row = (metrics.coefficient_error, metrics.forward_error, metrics.failed)
            except wf.WeakformError:
                row = (np.inf, np.inf, True)
            results[label].append((*row, time.process_time() - begin))
    limit, ended = efficient(problem, M, noise), {}
    for label, rows in results.items():
        error, forward, failed, cpu = map(np.array, zip(*rows, strict=True))
        ended[label] = Ended(error, forward, failed, (error > 10 * limit) | failed, cpu)
    return ended


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    M = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    noise = float(sys.argv[3]) if len(sys.argv) > 3 else 0.05
    print(f"M = {M}, noise {noise:.0%}, {runs} runs, one random start in the box each\n")
    header = f"{'problem':16s}{'method':22s}{'median':>9s}{'worst':>10s}{'forward':>10s}"
    print(f"{header}{'failed':>8s}{'lost':>6s}{'CPU s':>8s}{'max':>7s}")
    for name in wf.problems.PAPER:
        for label, e in measured(name, runs, M, noise, list(METHODS)).items():
            print(
                f"{name:16s}{label:22s}{np.median(e.error):9.2%}{e.error.max():10.2%}{np.median(e.forward):10.2%}"
                f"{e.failed.sum():8d}{e.lost.sum():6d}{np.median(e.cpu):8.2f}{e.cpu.max():7.1f}",
                flush=True,
            )
        limit = efficient(wf.problems.get(name), M, noise)
        print(f"{name:16s}{'Cramér–Rao bound':22s}{limit:9.2%}\n", flush=True)


if __name__ == "__main__":
    main()
