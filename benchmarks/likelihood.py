"""Cost of the weak likelihood beside a literal dense transcription of the paper, in one process.

    python benchmarks/likelihood.py [M]

CPU time of value, gradient (with value) and Hessian (with both), for the four systems of the paper: ours with local
test functions, ours with the paper's orthonormal ones, and the paper's formulas as printed with the same ones.
BLAS runs on one thread throughout.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

import weakform as wf
from paper import Paper
from weakform.linalg.threads import single_thread
from weakform.noise.level import estimate_sigma
from weakform.weak.form import WeakForm
from weakform.weak.likelihood import WeakLikelihood

CAPS = {"lorenz": 500, "hindmarsh-rose": 200, "goodwin": 300, "sir-tdi": 300}


def cpu(function: Callable[[], object], at_least: float = 0.5) -> float:
    """CPU seconds a call, the smallest of some."""
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


def main() -> None:
    M = int(sys.argv[1]) if len(sys.argv) > 1 else 1024
    print(f"M = {M}, CPU milliseconds, one BLAS thread; ratio = paper as printed / ours with local test functions")
    print(f"{'problem':16s}{'':10s}{'local':>10s}{'orthonorm.':>12s}{'paper':>12s}{'ratio':>9s}   K local, orthonormal")
    for name in wf.problems.PAPER:
        problem = wf.problems.get(name)
        data = problem.simulate(M=M, noise=0.05, seed=1)
        trajectory, system = data.trajectories[0], problem.model.system(data.noise)
        variance = estimate_sigma(system.to_working(trajectory.values)) ** 2
        multipliers = (4.0, 8.0, 16.0) if name == "hindmarsh-rose" else (1.0, 2.0, 4.0, 8.0)
        paper_basis = wf.Orthonormal(max_functions=CAPS[name], search=problem.search, multipliers=multipliers)
        local, dense = (
            WeakForm(system, trajectory.times, trajectory.values, variance, basis.build(trajectory))
            for basis in (wf.Local(), paper_basis)
        )
        p = problem.parameters * 1.05
        paper = Paper(dense)
        counts = f"{local.functions.count}, {dense.functions.count}"
        for order, (label, literal) in enumerate(
            (("value", paper.value), ("gradient", paper.gradient), ("hessian", paper.hessian))
        ):
            with single_thread():
                ours = cpu(lambda form=local, order=order, p=p: WeakLikelihood((form,))(p, order))
                same = cpu(lambda form=dense, order=order, p=p: WeakLikelihood((form,))(p, order))
                theirs = cpu(lambda literal=literal, p=p: literal(p))
            print(
                f"{name if not order else '':16s}{label:10s}{ours * 1e3:10.2f}{same * 1e3:12.1f}{theirs * 1e3:12.1f}"
                f"{theirs / ours:9.0f}   {counts if not order else ''}",
                flush=True,
            )


if __name__ == "__main__":
    main()
