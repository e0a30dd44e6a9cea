"""Trust region and cubic regularisation, with and without bounds: WENDy-MLE on the paper's four systems.

    python benchmarks/solvers.py [runs, default 20]

The settings are M = 256 and 5% noise, with one random start in the box for each run. *Reached* means that the objective
is within 0.1 of the best objective of all solvers in that run.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weakform as wf

SOLVERS = (("trust-region", True), ("trust-region", False), ("cubic", False))


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    columns = f"{'reached':>9s}{'median error':>14s}{'iterations':>12s}{'CPU s':>8s}"
    print(f"{'problem':16s}{'solver':14s}{'bounds':8s}{columns}")
    for name in wf.problems.PAPER:
        problem = wf.problems.get(name)
        ends: dict[tuple[str, bool], list[tuple[float, ...]]] = {key: [] for key in SOLVERS}
        for seed in range(runs):
            data = problem.simulate(M=256, noise=0.05, seed=seed)
            for solver, bounded in SOLVERS:
                begin = time.process_time()
                fit = wf.fit(
                    problem.model,
                    data,
                    bounds=problem.bounds if bounded else None,
                    start=problem.start(seed),
                    starts=1,
                    method="mle",
                    options={"solver": solver},
                )
                error = np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters)
                ends[solver, bounded].append(
                    (fit.starts[0].objective, error, fit.iterations, time.process_time() - begin)
                )
        bounded_best = np.array(ends[SOLVERS[0]])[:, 0]
        free_best = np.min([np.array(ends[key])[:, 0] for key in SOLVERS[1:]], axis=0)
        for key in SOLVERS:
            objective, error, iterations, cpu = np.array(ends[key]).T
            # Without bounds a lower objective may exist outside the box, so each case has a separate best.
            best = np.minimum(bounded_best, objective) if key[1] else np.minimum(free_best, bounded_best)
            reached = np.mean(objective < best + 0.1)
            print(
                f"{name if key == SOLVERS[0] else '':16s}{key[0]:14s}{'yes' if key[1] else 'no':8s}{reached:9.0%}"
                f"{np.median(error):14.2%}{np.median(iterations):12.0f}{np.median(cpu):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
