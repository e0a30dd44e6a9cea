"""The numbers behind the claims of docs/reproduction.md, from the runs of the study `paper`.

    weakform sweep paper                                      # resumes where it stopped
    weakform summary paper.sqlite --export paper.parquet
    python benchmarks/claims.py [paper.parquet]

Without a file the stored runs in results/paper.parquet are read (their covariances are in single precision). Medians
are taken over parameters, noise ratios and M, as in the paper. A run that failed has no estimate.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import weakform as wf
from weakform.experiments.summary import Summary, summarise_rows

CellFilter = Callable[[Summary], bool]
STORED_RUNS = Path(__file__).parent / "results" / "paper.parquet"
SYSTEMS = ("hindmarsh-rose", "goodwin", "sir-tdi")
METHODS = ("oe-ls", "wls", "irls", "mle", "hybrid", "wendy")


def pooled(cells: list[Summary], name: str, is_chosen: CellFilter) -> float:
    """Return the median of an attribute over the parameters of all chosen cells."""
    return float(np.nanmedian(np.concatenate([getattr(s, name) for s in cells if is_chosen(s)])))


def quality(cells: list[Summary]) -> None:
    """Print bias, variance, mean squared error and coverage of each system."""
    print("\nMedians over parameters, noise ratios and M: bias² (paper), bias², variance, MSE, coverage")
    for system in SYSTEMS:
        for method in ("mle", "wendy"):

            def is_chosen(s: Summary, system: str = system, method: str = method) -> bool:
                return s.cell.problem == system and s.method == method and s.cell.noise > 0

            values = [pooled(cells, name, is_chosen) for name in ("bias_paper", "bias", "variance", "mse", "coverage")]
            print(f"{system:16s}{method:8s}" + "".join(f"{value:10.3g}" for value in values))


def rates(cells: list[Summary]) -> None:
    """Print how many runs failed and how many did not converge."""
    print("\nRuns with noise: number, failed, not converged")
    for system in SYSTEMS:
        for method in METHODS:
            chosen = [s for s in cells if s.cell.problem == system and s.method == method and s.cell.noise > 0]
            if chosen:
                runs = np.array([s.runs for s in chosen])
                failed = runs @ np.array([s.failure_rate for s in chosen])
                stopped = runs @ np.array([s.not_converged for s in chosen])
                print(f"{system:16s}{method:8s}{runs.sum():7d}{failed:7.0f}{stopped:7.0f} ({stopped / runs.sum():.1%})")


def errors(cells: list[Summary]) -> None:
    """Print the coefficient errors at M = 256 for each noise ratio."""
    print("\nMean coefficient error of the runs that did not fail (median of all runs), by noise, M = 256")
    for system in SYSTEMS:
        for method in ("start", *METHODS):
            chosen = [s for s in cells if (s.cell.problem, s.method, s.cell.samples) == (system, method, 256)]
            text = "".join(f"{s.cell.noise:5.0%}: {s.coefficient_error:.2g} ({s.median_error:.2g})" for s in chosen)
            print(f"{system:16s}{method:8s}{text}")


def neuron(cells: list[Summary]) -> None:
    """Print bias and coverage of Hindmarsh–Rose for each parameter."""
    problem = wf.problems.get("hindmarsh-rose")
    chosen = [s for s in cells if s.cell.problem == problem.name]
    low = [s for s in chosen if s.method == "mle" and 0 < s.cell.noise < 0.1]
    print("\nHindmarsh–Rose, WENDy-MLE: the largest relative bias of each parameter below 10% noise")
    print(np.round(np.sqrt(np.max([s.bias for s in low], axis=0)), 3))
    for method in ("mle", "wendy"):
        print(f"coverage of each parameter, M = 256, {method}")
        for s in chosen:
            if s.method == method and s.cell.samples == 256 and s.cell.noise > 0:
                print(f"{s.cell.noise:6.0%} {np.round(s.coverage, 2)}")


def main() -> None:
    rows = pq.read_table(sys.argv[1] if len(sys.argv) > 1 else STORED_RUNS).to_pylist()
    cells = sorted(summarise_rows(rows, wf.problems.get), key=lambda s: (s.cell, s.method))
    runs = sum(s.runs for s in cells)
    print(f"{runs} runs; smallest number for a cell: " + ", ".join(
        f"{system} {method} {min(s.runs for s in cells if (s.cell.problem, s.method) == (system, method))}"
        for system in SYSTEMS for method in METHODS
    ))  # fmt: skip
    for part in (quality, rates, errors, neuron):
        part(cells)


if __name__ == "__main__":
    main()
