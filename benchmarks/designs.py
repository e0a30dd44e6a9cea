"""The cost of gaps, uneven times and short series: the same number of values in different designs.

    python benchmarks/designs.py [runs, default 30] [noise ratio, default 0.05]

Method "wendy" on all eight problems, M = 256, with its default starts inside the box. The designs:

- `missing`: 30% of all entries are removed at random; compared with complete data of 70% as many samples;
- `jittered`: each time is shifted by up to 30% of a step;
- `three`: the series is cut into three trajectories, whose initial states are free.

The table shows the median of the relative coefficient error, its ratio to that of complete, evenly spaced data with as
many values, and the number of runs that are not a success. For `three` the ratio of the Cramér–Rao bounds is in
brackets: the unavoidable cost of cutting the series.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weakform as wf
from weakform.forward.cramer_rao import compute_cramer_rao_bound
from weakform.forward.solver import simulate
from weakform.linalg.symmetric_matrix import invert_symmetric
from weakform.noise.kinds import KINDS

M = 256
SHARE = 0.3
"""Share of the entries that are missing, and largest shift of a time as a share of the step."""


def sampled(problem: wf.problems.Problem, times: np.ndarray, noise: float, rng: np.random.Generator) -> np.ndarray:
    """Return noisy states at any times, `(time, D)`."""
    grid = times if times[0] == 0 else np.concatenate([[0.0], times])
    solved = simulate(problem.model, problem.parameters, problem.initial, grid, rtol=1e-10, max_evaluations=10**9)
    states = solved.states[-len(times) :]
    kind = KINDS[problem.noise]
    sigma = noise if problem.noise == "lognormal" else noise * np.sqrt(np.mean(states**2))
    with np.errstate(divide="ignore"):
        return kind.from_working(kind.to_working(states) + sigma * rng.standard_normal(states.shape))


def dataset(problem: wf.problems.Problem, design: str, noise: float, seed: int) -> wf.Dataset:
    """Return one draw of a design."""
    # All designs share the noise, so that its random variation cancels in the ratios.
    rng, design_rng = np.random.default_rng([seed, 7]), np.random.default_rng([seed, 8])
    steps = round(M * (1 - SHARE)) if design == "complete 70%" else M
    times = np.linspace(0, problem.duration, steps + 1)
    if design == "jittered":
        times[1:-1] += SHARE * (times[1] - times[0]) * design_rng.uniform(-1, 1, len(times) - 2)
    values = sampled(problem, times, noise, rng)
    if design == "missing":
        values[design_rng.uniform(size=values.shape) < SHARE] = np.nan
    if design != "three":
        return wf.Dataset(times, values, problem.noise, names=problem.model.states)
    parts = zip(np.array_split(times, 3), np.array_split(values, 3), strict=True)
    return wf.Dataset.join([wf.Dataset(t, u, problem.noise, names=problem.model.states) for t, u in parts])


def cost_of_three(problem: wf.problems.Problem, noise: float) -> float:
    """Return the Cramér–Rao bound on the error from three trajectories over that from one."""
    times, states = problem.solution(M)
    keep = KINDS[problem.noise].is_possible(states).all(axis=1)
    times, states = times[keep], states[keep]
    size = noise if problem.noise == "lognormal" else noise * np.sqrt(np.mean(states**2))
    D = states.shape[1]

    def information(t: np.ndarray, u: np.ndarray) -> np.ndarray:
        C = compute_cramer_rao_bound(problem.model, problem.parameters, u[0], t, (problem.noise,) * D, np.full(D, size))
        return invert_symmetric(C)

    whole = information(times, states)
    parts = sum(information(t, u) for t, u in zip(np.array_split(times, 3), np.array_split(states, 3), strict=True))
    single, cut = (np.sqrt(np.trace(invert_symmetric(each))) for each in (whole, parts))
    return float(cut / single)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    noise = float(sys.argv[2]) if len(sys.argv) > 2 else 0.05
    designs = ("complete", "complete 70%", "missing", "jittered", "three")
    reference = {"missing": "complete 70%", "jittered": "complete", "three": "complete"}
    print(
        f"noise {noise:.0%}, {runs} runs; median error, ratio to complete data of the same size, runs without success"
    )
    print(f"{'problem':22s}" + "".join(f"{design:>20s}" for design in designs) + f"{'CPU s/fit':>13s}")
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        norm, begin = np.linalg.norm(problem.parameters), time.process_time()
        errors: dict[str, list[float]] = {design: [] for design in designs}
        unsuccessful = dict.fromkeys(designs, 0)
        for seed in range(runs):
            for design in designs:
                data = dataset(problem, design, noise, seed)
                fit = wf.fit(problem.model, data, bounds=problem.bounds, seed=seed)
                errors[design].append(float(np.linalg.norm(fit.estimate - problem.parameters) / norm))
                unsuccessful[design] += not fit.success
        line = f"{name:22s}"
        for design in designs:
            median = np.median(errors[design])
            ratio = f"{median / np.median(errors[reference[design]]):.2f}" if design in reference else ""
            ratio += f" ({cost_of_three(problem, noise):.2f})" if design == "three" else ""
            line += f"{median:9.2%} {ratio:>5s} {unsuccessful[design]:3d}".rjust(26 if design == "three" else 20)
        print(line + f"{(time.process_time() - begin) / (runs * len(designs)):13.2f}", flush=True)


if __name__ == "__main__":
    main()
