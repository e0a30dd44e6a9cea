"""The numbers behind the claims of docs/reproduction.md, from the runs of the study `paper`.

    weakform sweep paper                                      # goes on where it stopped
    weakform summary paper.sqlite --export paper.parquet
    python benchmarks/claims.py [paper.parquet]

Without a file the runs that are kept in results/paper.parquet are read (their covariances are in single precision).
Medians are over parameters, noise ratios and M, as in the paper; a run that failed has no estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import weakform as wf
from weakform.experiments.summary import Summary, summaries

Where = Callable[[Summary], bool]
KEPT = Path(__file__).parent / "results" / "paper.parquet"
SYSTEMS = ("hindmarsh-rose", "goodwin", "sir-tdi")
METHODS = ("oe-ls", "wls", "irls", "mle", "hybrid", "wendy")


def pooled(found: list[Summary], name: str, where: Where) -> float:
    """The median over parameters and cells."""
    return float(np.nanmedian(np.concatenate([getattr(s, name) for s in found if where(s)])))


def quality(found: list[Summary]) -> None:
    print("\nMedians over parameters, noise ratios and M: bias² (paper), bias², variance, MSE, coverage")
    for system in SYSTEMS:
        for method in ("mle", "wendy"):

            def here(s: Summary, system: str = system, method: str = method) -> bool:
                return s.cell.problem == system and s.method == method and s.cell.noise > 0

            values = [pooled(found, name, here) for name in ("bias_paper", "bias", "variance", "mse", "coverage")]
            print(f"{system:16s}{method:8s}" + "".join(f"{value:10.3g}" for value in values))


def rates(found: list[Summary]) -> None:
    print("\nRuns, failed, not converged; with noise")
    for system in SYSTEMS:
        for method in METHODS:
            here = [s for s in found if s.cell.problem == system and s.method == method and s.cell.noise > 0]
            if here:
                runs = np.array([s.runs for s in here])
                failed = runs @ np.array([s.failure_rate for s in here])
                stopped = runs @ np.array([s.not_converged for s in here])
                print(f"{system:16s}{method:8s}{runs.sum():7d}{failed:7.0f}{stopped:7.0f} ({stopped / runs.sum():.1%})")


def errors(found: list[Summary]) -> None:
    print("\nMean coefficient error of the runs that did not fail (median of all), by noise, M = 256")
    for system in SYSTEMS:
        for method in ("start", *METHODS):
            here = [s for s in found if (s.cell.problem, s.method, s.cell.samples) == (system, method, 256)]
            cells = "".join(f"{s.cell.noise:5.0%}: {s.coefficient_error:.2g} ({s.median_error:.2g})" for s in here)
            print(f"{system:16s}{method:8s}{cells}")


def neuron(found: list[Summary]) -> None:
    problem = wf.problems.get("hindmarsh-rose")
    here = [s for s in found if s.cell.problem == problem.name]
    low = [s for s in here if s.method == "mle" and 0 < s.cell.noise < 0.1]
    print("\nHindmarsh–Rose, WENDy-MLE: the largest relative bias of each parameter below 10% noise")
    print(np.round(np.sqrt(np.max([s.bias for s in low], axis=0)), 3))
    for method in ("mle", "wendy"):
        print(f"coverage of each parameter, M = 256, {method}")
        for s in here:
            if s.method == method and s.cell.samples == 256 and s.cell.noise > 0:
                print(f"{s.cell.noise:6.0%} {np.round(s.coverage, 2)}")


def main() -> None:
    rows = pq.read_table(sys.argv[1] if len(sys.argv) > 1 else KEPT).to_pylist()
    found = sorted(summaries(rows, wf.problems.get), key=lambda s: (s.cell, s.method))
    runs = sum(s.runs for s in found)
    print(f"{runs} runs; for each cell: " + ", ".join(
        f"{system} {method} {min(s.runs for s in found if (s.cell.problem, s.method) == (system, method))}"
        for system in SYSTEMS for method in METHODS
    ))  # fmt: skip
    for part in (quality, rates, errors, neuron):
        part(found)


if __name__ == "__main__":
    main()
