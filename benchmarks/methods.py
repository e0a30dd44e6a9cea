"""Output error, the weak default and the hybrid side by side: the same data and the same random starts.

    python benchmarks/methods.py [runs, default 30] [samples, default 256] [noise ratio, default 0.05]

The paper's four systems, one random start in the box for each run (`starts=1`), new noise in each run. A run fails if
the fit cannot be made, if its coefficient or forward error is not below 2500% (the paper's rule), or if it is `lost`:
more than ten times the error that the Cramér–Rao bound allows. CPU seconds of one process.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weakform as wf
from weakform.experiments.study import Cell
from weakform.experiments.summary import bound

METHODS = {
    "output-error": {"method": "output-error"},
    "output-error, paper": {"method": "output-error", "options": {"residuals": "additive"}},
    "wendy": {"method": "wendy"},
    "hybrid": {"method": "hybrid"},
    "hybrid, paper": {"method": "hybrid", "options": {"weak": "mle", "residuals": "additive"}},
}


def efficient(problem: wf.problems.Problem, M: int, noise: float) -> float:
    """The relative coefficient error of an efficient estimator."""
    errors = bound(problem, Cell(problem.name, problem.noise, noise, M, problem.duration))
    return float(np.linalg.norm(errors) / np.linalg.norm(problem.parameters))


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    M = int(sys.argv[2]) if len(sys.argv) > 2 else 256
    noise = float(sys.argv[3]) if len(sys.argv) > 3 else 0.05
    print(f"M = {M}, noise {noise:.0%}, {runs} runs, one random start in the box each\n")
    header = f"{'problem':16s}{'method':22s}{'median':>9s}{'worst':>10s}{'forward':>10s}"
    print(f"{header}{'failed':>8s}{'lost':>6s}{'CPU s':>8s}{'max':>7s}")
    for name in wf.problems.PAPER:
        problem = wf.problems.get(name)
        found: dict[str, list[tuple[float, float, bool, float]]] = {label: [] for label in METHODS}
        for seed in range(runs):
            data = problem.simulate(M=M, noise=noise, seed=seed)
            for label, arguments in METHODS.items():
                begin = time.process_time()
                try:
                    fit = wf.fit(
                        problem.model, data, bounds=problem.bounds, start=problem.start(seed), starts=1, **arguments
                    )
                    measured = fit.metrics()
                    row = (measured.coefficient_error, measured.forward_error, measured.failed)
                except wf.WeakformError:
                    row = (np.inf, np.inf, True)
                found[label].append((*row, time.process_time() - begin))
        limit = efficient(problem, M, noise)
        for label, rows in found.items():
            error, forward, failed, cpu = map(np.array, zip(*rows, strict=True))
            lost = (error > 10 * limit) | failed
            print(
                f"{name:16s}{label:22s}{np.median(error):9.2%}{error.max():10.2%}{np.median(forward):10.2%}"
                f"{failed.sum():8d}{lost.sum():6d}{np.median(cpu):8.2f}{cpu.max():7.1f}",
                flush=True,
            )
        print(f"{name:16s}{'Cramér–Rao bound':22s}{limit:9.2%}\n", flush=True)


if __name__ == "__main__":
    main()
