"""CPU time of `fit.sample`: the paper's four systems, M = 256, 5% noise, the bounds of each problem.

    python benchmarks/draws.py [DRAWS]

Effective size and R̂ are those of the worst parameter.
"""

from __future__ import annotations

import sys
import time

import weakform as wf


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    print("| system | draws | smallest effective size | largest R̂ | accepted | CPU s | CPU s for a size of 400 |")
    print("|---|---|---|---|---|---|---|")
    for name in ("lorenz", "hindmarsh-rose", "goodwin", "sir-tdi"):
        problem = wf.problems.get(name)
        fit = wf.fit(problem.model, problem.simulate(M=256, noise=0.05, seed=1), bounds=problem.bounds)
        begin = time.process_time()
        posterior = fit.sample(draws)
        spent, size = time.process_time() - begin, min(posterior.effective.values())
        rhat, accepted = max(posterior.rhat.values()), posterior.accepted
        cells = f"{draws} | {size:.0f} | {rhat:.3f} | {accepted:.0%} | {spent:.1f} | {spent * 400 / size:.1f}"
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
