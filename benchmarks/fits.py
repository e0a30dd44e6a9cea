"""CPU time of whole fits beside one value and one Hessian of the likelihood.

    python benchmarks/fits.py            all eight problems at M = 256 and 1024, from one random start in the box
    python benchmarks/fits.py long [M]   Lorenz with M = 10⁶ (default): time and peak memory of "mle" and "wendy"

The median of five runs, 5% noise, one process, one BLAS thread.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

import weakform as wf
from weakform.weak.problem import WeakProblem

RUNS = 5


def cpu(function, repeats: int = 1) -> float:
    begin = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - begin) / repeats


def whole_fits() -> None:
    print("CPU ms: one value, one Hessian; CPU s: whole fits; Hessians = CPU of the mle fit / CPU of one Hessian")
    header = f"{'problem':22s}{'M':>6s}{'value':>8s}{'Hessian':>9s}{'mle s':>8s}{'Hessians':>10s}{'wendy s':>9s}"
    print(header + f"{'wendy/mle':>11s}{'default s':>11s}")
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        for M in (256, 1024):
            values, hessians, fits, refined, default = [], [], [], [], []
            for seed in range(RUNS):
                data = problem.simulate(M=M, noise=0.05, seed=seed)
                ell = WeakProblem.build(problem.model, data, wf.Local()).likelihood()
                p = problem.parameters
                ell(p, 2)
                values.append(cpu(lambda ell=ell, p=p: ell(p), 5))
                hessians.append(cpu(lambda ell=ell, p=p: ell(p, 2), 3))
                one = {"bounds": problem.bounds, "start": problem.start(seed), "starts": 1}
                fits.append(cpu(lambda p=problem, d=data, one=one: wf.fit(p.model, d, method="mle", **one)))
                refined.append(cpu(lambda p=problem, d=data, one=one: wf.fit(p.model, d, **one)))
                default.append(cpu(lambda p=problem, d=data: wf.fit(p.model, d, bounds=p.bounds)))
            value, hessian, mle, wendy, whole = (np.median(a) for a in (values, hessians, fits, refined, default))
            print(
                f"{name:22s}{M:6d}{value * 1e3:8.2f}{hessian * 1e3:9.2f}{mle:8.3f}{mle / hessian:10.0f}{wendy:9.3f}"
                f"{wendy / mle:11.1f}{whole:11.3f}",
                flush=True,
            )


def long_series(M: int) -> None:
    problem = wf.problems.get("lorenz")
    print(f"Lorenz, M = {M}, step 0.01, 5% noise", flush=True)
    data = problem.simulate(M=M, noise=0.05, seed=1, duration=0.01 * M)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"simulated; peak {peak:.2f} GB", flush=True)
    for method in ("mle", "wendy"):
        begin, wall = time.process_time(), time.monotonic()
        fit = wf.fit(problem.model, data, bounds=problem.bounds, method=method, options={"time_limit": 3600})
        error = np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{method}: {time.process_time() - begin:.0f} CPU s, {time.monotonic() - wall:.0f} s, "
            f"{fit.iterations} iterations, {fit.status.name.lower()}, error {error:.2e}, peak {peak:.2f} GB",
            flush=True,
        )


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "long":
        long_series(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    else:
        whole_fits()
