"""End points of random starts: `method="mle"`, M = 256, 5% noise, new noise in each run.

    python benchmarks/starts.py [runs, default 20]

The first table has the paper's four systems, from one random start in the box for each run (`starts=1`). The second one
has all eight problems, with the default starts and with noise relative to the size of each state.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weakform as wf


def errors(name: str, runs: int, by_state: bool, single: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the relative coefficient errors and the CPU seconds of the runs, `(runs,)` each."""
    problem = wf.problems.get(name)
    relative_errors, spent = [], []
    for seed in range(runs):
        data = problem.simulate(M=256, noise=0.05, seed=seed, by_state=by_state)
        begin = time.process_time()
        if single:
            fit = wf.fit(problem.model, data, bounds=problem.bounds, start=problem.start(seed), starts=1, method="mle")
        else:
            fit = wf.fit(problem.model, data, bounds=problem.bounds, seed=seed, method="mle")
        spent.append(time.process_time() - begin)
        relative_errors.append(np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters))
    return np.array(relative_errors), np.array(spent)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    for title, names, by_state, single in (
        ("one random start in the box, equal noise", wf.problems.PAPER, False, True),
        ("default starts, noise by state", wf.problems.names(), True, False),
    ):
        print(f"{title}; {runs} runs: relative coefficient error")
        print(f"{'problem':24s}{'median':>9s}{'worst':>9s}{'worst/median':>14s}{'CPU s':>8s}")
        for name in names:
            e, cpu = errors(name, runs, by_state, single)
            print(
                f"{name:24s}{np.median(e):9.2%}{e.max():9.2%}{e.max() / np.median(e):14.1f}{np.median(cpu):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
