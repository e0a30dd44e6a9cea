"""Published PEtab problems from random starts: weakform compared with single shooting.

    python benchmarks/shooting.py FOLDER [starts, default 10] [seconds for each, default 10]

FOLDER contains problems, each a folder with a YAML file. Starts are uniform in the box, on the scale of each parameter.
From each start two methods run:

- *weakform* is the trust region of `read_petab(...).fit()`, with the expected Hessian, and with scales, offsets and
  noise solved for in an inner problem;
- *single shooting* is SciPy's L-BFGS-B on the same likelihood with the same exact gradient, over all parameters, as in
  the default of pyPESTO.

*Reached* is the number of starts that end within 1 of the best log-likelihood of all starts and of the nominal values.
CPU seconds are limited for each start, but a step that has begun is completed.
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
from weakform.files.petab.maximum_likelihood import MAX_STEPS_PER_START, SEARCH_TOLERANCE
from weakform.files.petab.petab_likelihood import PetabLikelihood
from weakform.files.petab.petab_objective import PetabObjective
from weakform.linalg.blas_threads import use_single_thread
from weakform.optimize import ReachLimitedTrustRegion, minimise

MAX_GAP = 1.0
"""Log-likelihood by which a start that has reached the best may be behind it."""
MIN_DECREASE = 1e-3
"""Predicted decrease of the objective below which the trust region ends."""


class TimeLimitReached(Exception):
    """Raised when a start has used its time."""


def run_trust_region(objective: PetabObjective, theta: np.ndarray, seconds: float) -> float:
    """Return minus the log-likelihood at the end of the trust region."""
    begin = time.process_time()
    return minimise(
        objective,
        objective.extract_coordinates(theta),
        objective.lower,
        objective.upper,
        ReachLimitedTrustRegion(),
        tolerance=1e-6,
        max_iterations=MAX_STEPS_PER_START,
        min_predicted_decrease=MIN_DECREASE,
        stop=lambda _: time.process_time() - begin > seconds,
    ).value


def run_single_shooting(objective: PetabObjective, theta: np.ndarray, seconds: float) -> float:
    """Return minus the best log-likelihood of L-BFGS-B over all parameters that are estimated."""
    likelihood = objective.likelihood
    estimated = [k for k, q in enumerate(objective.quantities) if q.estimate]
    logs = objective.logs[estimated]
    begin, best = time.process_time(), math.inf

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        if time.process_time() - begin > seconds:
            raise TimeLimitReached
        full = theta.copy()
        full[estimated] = np.where(logs, np.exp(x), x)
        prediction = likelihood.predict(full, True)
        cost = math.inf if prediction is None else likelihood.compute_value(prediction)
        if not math.isfinite(cost):
            return 1e10, np.zeros(len(x))
        best = min(best, cost)
        g = likelihood.compute_derivatives(prediction)[0][estimated] * np.where(logs, full[estimated], 1.0)
        return cost, np.nan_to_num(g, nan=0.0, posinf=1e10, neginf=-1e10)

    low, high = (objective._convert_to_working(bound)[estimated] for bound in (objective.low, objective.high))
    box = list(zip(low, high, strict=True))
    with suppress(TimeLimitReached):
        minimize(value, objective._convert_to_working(theta)[estimated], jac=True, method="L-BFGS-B", bounds=box)
    return best


def measure_problem(path: Path, starts: int, seconds: float) -> str:
    """Run both methods on one problem, and return its line of the table."""
    problem = wf.read_petab(path)
    objective = PetabObjective(PetabLikelihood(problem.found, SEARCH_TOLERANCE))
    rng = np.random.default_rng(0)
    low, high = (objective._convert_to_working(b) for b in (objective.low, objective.high))
    estimated = np.array([q.estimate for q in objective.quantities])
    ends: dict[str, list[float]] = {"weakform": [], "single shooting": []}
    spent: dict[str, list[float]] = {name: [] for name in ends}
    for _ in range(starts):
        x = rng.uniform(np.where(estimated, low, 0.0), np.where(estimated, high, 1.0))
        theta = np.where(estimated, np.where(objective.logs, np.exp(x), x), objective.likelihood.nominal)
        for name, run in (("weakform", run_trust_region), ("single shooting", run_single_shooting)):
            begin = time.process_time()
            try:
                with use_single_thread(), np.errstate(all="ignore"):
                    ends[name].append(run(objective, theta, seconds))
            except np.linalg.LinAlgError:
                ends[name].append(math.inf)
            spent[name].append(time.process_time() - begin)
    best = min(-problem.log_likelihood(), *(min(values) for values in ends.values()))
    cells = [
        f"{sum(value < best + MAX_GAP for value in ends[name])} of {starts}, {min(ends[name]) - best:+.2f}, "
        f"{np.mean(spent[name]):.2f}"
        for name in ends
    ]
    return f"| {path.parent.name} | {' | '.join(cells)} |"


def main() -> None:
    root = Path(sys.argv[1])
    starts, seconds = (int(sys.argv[2]) if len(sys.argv) > 2 else 10), float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    print(
        f"{starts} starts, at most {seconds:g} CPU s each: reached, best start behind the best known, CPU s per start"
    )
    print("| problem | weakform | single shooting |\n|---|---|---|")
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        files = [path for path in sorted(folder.glob("*.yaml")) if "test" not in path.name]
        if files:
            print(measure_problem(files[0], starts, seconds), flush=True)


if __name__ == "__main__":
    main()
