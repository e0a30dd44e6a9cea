"""Growth of time and memory with the number of samples, at a radius of 10 samples.

    python benchmarks/growth.py [largest power of two, default 17] [also M = 10⁶: 1]

The Lorenz system is sampled at a fixed step, so that a longer series covers a longer time. Each size runs in a separate
process, so that its peak memory can be measured. The exponent is the slope of log cost against log M over the upper
half of the sizes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time

import numpy as np

import weakform as wf
from weakform.noise.noise_filter import estimate_sigma
from weakform.weak.weak_form import WeakForm
from weakform.weak.weak_likelihood import WeakLikelihood


def series(M: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy Lorenz data at a step of 0.01: a piece is repeated, because only the cost matters here."""
    problem = wf.problems.get("lorenz")
    piece = problem.simulate(M=min(M, 2048), noise=0.05, seed=seed, duration=0.01 * min(M, 2048)).trajectories[0]
    repeats = -(-(M + 1) // len(piece.times))
    return 0.01 * np.arange(M + 1), np.tile(piece.values, (repeats, 1))[: M + 1]


def measure(M: int) -> dict[str, float]:
    """Measure CPU seconds of value, gradient and Hessian, and peak memory in MB beyond the memory for the data."""
    times, values = series(M)
    problem = wf.problems.get("lorenz")
    data = wf.Dataset(times, values)
    trajectory, system = data.trajectories[0], problem.model.system(data.noise)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    functions = wf.Local().build(trajectory)
    form = WeakForm(system, trajectory.times, trajectory.values, estimate_sigma(trajectory.values) ** 2, functions)
    ell, p = WeakLikelihood((form,)), problem.parameters
    ell(p, 2) if M < 10_000 else None
    result: dict[str, float] = {"M": M, "K": functions.count}
    for order, label in enumerate(("value", "gradient", "hessian")):
        repeats = max(1, min(20, 20_000 // M))
        begin = time.process_time()
        for _ in range(repeats):
            ell(p, order)
        result[label] = (time.process_time() - begin) / repeats
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    result["memory"], result["peak"] = peak - before, peak
    return result


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--one":
        print(json.dumps(measure(int(sys.argv[2]))))
        return
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 17
    sizes = [2**k for k in range(8, largest + 1)] + ([1_000_000] if len(sys.argv) > 2 else [])
    print("Lorenz, local test functions of radius 10 samples; CPU seconds, memory in MB beyond the data, peak in MB")
    print(f"{'M':>9s}{'K':>9s}{'value':>10s}{'gradient':>10s}{'hessian':>10s}{'memory':>9s}{'peak':>8s}")
    rows = []
    for M in sizes:
        done = subprocess.run([sys.executable, __file__, "--one", str(M)], capture_output=True, text=True, check=True)
        row = json.loads(done.stdout)
        rows.append(row)
        print(
            f"{M:9d}{row['K']:9d}{row['value']:10.4f}{row['gradient']:10.4f}{row['hessian']:10.4f}"
            f"{row['memory']:9.0f}{row['peak']:8.0f}",
            flush=True,
        )
    half = rows[len(rows) // 2 :]
    for label in ("value", "gradient", "hessian", "memory"):
        slope = np.polyfit(np.log([row["M"] for row in half]), np.log([max(row[label], 1e-9) for row in half]), 1)[0]
        print(f"exponent of {label}: {slope:.2f}")


if __name__ == "__main__":
    main()
