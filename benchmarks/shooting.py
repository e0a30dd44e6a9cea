"""Published PEtab problems from random starts: this package, and single shooting as it is done usually.

    python benchmarks/shooting.py FOLDER [starts, default 10] [seconds for each, default 10]

FOLDER holds problems, each a folder with a YAML file. Starts are uniform in the box, on the scale of each parameter.
From each of them *weakform* follows the trust region of `read_petab(...).fit()`, with the expected Hessian, scales,
offsets and noise solved for inside, and *single shooting* is SciPy's L-BFGS-B on the same likelihood with the same
exact gradient, all parameters at once, as pyPESTO does it by default. *Reached* is the share of starts that end within
1 of the best log-likelihood of all starts and of the nominal values; CPU seconds for each start, at most those given (a
step that has begun is ended).
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import weakform as wf
from weakform.files.petab.maximum_likelihood import SEARCH, STEPS
from weakform.files.petab.petab_likelihood import Likelihood
from weakform.files.petab.petab_objective import Objective
from weakform.linalg.blas_threads import single_thread
from weakform.optimize import Reaching, minimise

WITHIN, ENOUGH = 1.0, 1e-3


class Over(Exception):
    """The time of a start is over."""


def ours(objective: Objective, theta: np.ndarray, seconds: float) -> float:
    """Minus the log-likelihood where the trust region ends."""
    begin = time.process_time()
    return minimise(
        objective,
        objective.coordinates(theta),
        objective.lower,
        objective.upper,
        Reaching(),
        tolerance=1e-6,
        max_iterations=STEPS,
        enough=ENOUGH,
        stop=lambda _: time.process_time() - begin > seconds,
    ).value


def shot(objective: Objective, theta: np.ndarray, seconds: float) -> float:
    """The same by L-BFGS-B over everything that is estimated."""
    likelihood = objective.likelihood
    keep = [k for k, q in enumerate(objective.quantities) if q.estimate]
    logs = objective.logs[keep]
    begin, best = time.process_time(), math.inf

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        if time.process_time() - begin > seconds:
            raise Over
        full = theta.copy()
        full[keep] = np.where(logs, np.exp(x), x)
        found = likelihood.predicted(full, True)
        cost = math.inf if found is None else likelihood.value(found)
        if not math.isfinite(cost):
            return 1e10, np.zeros(len(x))
        best = min(best, cost)
        g = likelihood.derivatives(found)[0][keep] * np.where(logs, full[keep], 1.0)
        return cost, np.nan_to_num(g, nan=0.0, posinf=1e10, neginf=-1e10)

    box = list(zip(objective._working(objective.low)[keep], objective._working(objective.high)[keep], strict=True))
    with suppress(Over):
        minimize(value, objective._working(theta)[keep], jac=True, method="L-BFGS-B", bounds=box)
    return best


def line(path: Path, starts: int, seconds: float) -> str:
    """One problem."""
    problem = wf.read_petab(path)
    objective = Objective(Likelihood(problem.found, SEARCH))
    rng = np.random.default_rng(0)
    low, high = (objective._working(b) for b in (objective.low, objective.high))
    estimated = np.array([q.estimate for q in objective.quantities])
    ends: dict[str, list[float]] = {"weakform": [], "single shooting": []}
    spent: dict[str, list[float]] = {name: [] for name in ends}
    for _ in range(starts):
        x = rng.uniform(np.where(estimated, low, 0.0), np.where(estimated, high, 1.0))
        theta = np.where(estimated, np.where(objective.logs, np.exp(x), x), objective.likelihood.nominal)
        for name, do in (("weakform", ours), ("single shooting", shot)):
            begin = time.process_time()
            try:
                with single_thread(), np.errstate(all="ignore"):
                    ends[name].append(do(objective, theta, seconds))
            except np.linalg.LinAlgError:
                ends[name].append(math.inf)
            spent[name].append(time.process_time() - begin)
    best = min(-problem.log_likelihood(), *(min(values) for values in ends.values()))
    cells = [
        f"{sum(value < best + WITHIN for value in ends[name])} of {starts}, {min(ends[name]) - best:+.2f}, "
        f"{np.mean(spent[name]):.2f}"
        for name in ends
    ]
    return f"| {path.parent.name} | {' | '.join(cells)} |"


def main() -> None:
    root = Path(sys.argv[1])
    starts, seconds = (int(sys.argv[2]) if len(sys.argv) > 2 else 10), float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    print(f"{starts} starts, at most {seconds:g} CPU s each: reached, best against the best known, CPU s a start")
    print("| problem | weakform | single shooting |\n|---|---|---|")
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.glob("*.yaml")) if "test" not in path.name]
        if files:
            print(line(files[0], starts, seconds), flush=True)


if __name__ == "__main__":
    main()
