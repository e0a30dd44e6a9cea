"""How long `fit.sample` takes: the paper's four systems, M = 256, 5% noise, the bounds of each problem.

python benchmarks/draws.py [DRAWS]
"""

from __future__ import annotations

import sys
import time

import weakform as wf


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 800
    print("| system | draws | least effective size | largest R̂ | accepted | CPU s | CPU s for a size of 400 |")
    print("|---|---|---|---|---|---|---|")
    for name in ("lorenz", "hindmarsh-rose", "goodwin", "sir-tdi"):
        problem = wf.problems.get(name)
        fit = wf.fit(problem.model, problem.simulate(M=256, noise=0.05, seed=1), bounds=problem.bounds)
        begin = time.process_time()
        found = fit.sample(draws)
        spent, least = time.process_time() - begin, min(found.effective.values())
        largest = max(found.rhat.values())
        cells = (
            f"{draws} | {least:.0f} | {largest:.3f} | {found.accepted:.0%} | {spent:.1f} | {spent * 400 / least:.1f}"
        )
        print(f"| {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
