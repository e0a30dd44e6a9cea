"""Cost of the weak likelihood compared with a literal dense transcription of the paper, in one process.

    python benchmarks/likelihood.py [M]

The table shows the CPU time of the value, the gradient (with the value) and the Hessian (with both), for the four
systems of the paper: weakform with local test functions, weakform with the paper's orthonormal ones, and the paper's
formulas as printed, with the orthonormal ones. BLAS uses one thread throughout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import weakform as wf
from paper import Paper
from weakform.linalg.blas_threads import use_single_thread
from weakform.noise.noise_filter import estimate_sigma
from weakform.weak.weak_form import WeakForm
from weakform.weak.weak_likelihood import WeakLikelihood

MAX_FUNCTIONS = {"lorenz": 500, "hindmarsh-rose": 200, "goodwin": 300, "sir-tdi": 300}


def cpu(function: Callable[[], object], at_least: float = 0.5) -> float:
    """Return the smallest CPU seconds of one call, over calls that take `at_least` seconds together."""
    begin = time.process_time()
    function()
    first = time.process_time() - begin
    if first > at_least:
        return first
    best, spent = np.inf, 0.0
    while spent < at_least:
        begin = time.process_time()
        function()
        took = time.process_time() - begin
        best, spent = min(best, took), spent + took
    return best


@dataclass(frozen=True)
class Costs:
    """CPU seconds of value, gradient and Hessian with each implementation, and both numbers of test functions."""

    functions: tuple[int, int]
    local: tuple[float, ...]
    orthonormal: tuple[float, ...]
    paper: tuple[float, ...]


def costs(name: str, M: int) -> Costs:
    """Measure the costs for one problem."""
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=0.05, seed=1)
    trajectory, system = data.trajectories[0], problem.model.system(data.noise)
    variance = estimate_sigma(system.to_working(trajectory.values)) ** 2
    multipliers = (4.0, 8.0, 16.0) if name == "hindmarsh-rose" else (1.0, 2.0, 4.0, 8.0)
    paper_basis = wf.Orthonormal(max_functions=MAX_FUNCTIONS[name], search=problem.search, multipliers=multipliers)
    local, dense = (
        WeakForm(system, trajectory.times, trajectory.values, variance, basis.build(trajectory))
        for basis in (wf.Local(), paper_basis)
    )
    p, paper = problem.parameters * 1.05, Paper(dense)
    with use_single_thread():
        local_seconds, orthonormal_seconds = (
            tuple(cpu(lambda f=form, k=k: WeakLikelihood((f,))(p, k)) for k in range(3)) for form in (local, dense)
        )
        paper_seconds = tuple(cpu(lambda do=do: do(p)) for do in (paper.value, paper.gradient, paper.hessian))
    return Costs((local.functions.count, dense.functions.count), local_seconds, orthonormal_seconds, paper_seconds)


def main() -> None:
    M = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(f"M = {M}, CPU milliseconds, one BLAS thread; ratio = paper as printed / weakform with local test functions")
    print(f"{'problem':16s}{'':10s}{'local':>10s}{'orthonorm.':>12s}{'paper':>12s}{'ratio':>9s}   K local, orthonormal")
    for name in wf.problems.PAPER:
        c = costs(name, M)
        for k, label in enumerate(("value", "gradient", "hessian")):
            ours, orthonormal, theirs = 1e3 * c.local[k], 1e3 * c.orthonormal[k], 1e3 * c.paper[k]
            print(
                f"{'' if k else name:16s}{label:10s}{ours:10.2f}{orthonormal:12.1f}{theirs:12.1f}{theirs / ours:9.0f}"
                + ("" if k else f"   {c.functions[0]}, {c.functions[1]}"),
                flush=True,
            )


if __name__ == "__main__":
    main()
