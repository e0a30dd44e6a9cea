"""The paper's table of metrics, computed from a store.

Over the runs of a cell that did not fail (see `metrics`), with p̄ the mean of the estimates:

    bias², paper      med (p̂_j - p*_j)²/p*_j²            contains the variance
    bias²             (p̄_j - p*_j)²/p*_j²                what its authors' code has
    variance          med (p̂_j - p̄_j)²/p*_j²
    MSE               med [(p̂_j - p*_j)² + (p̂_j - p̄_j)²]/p*_j²
    coverage          share of |p̂_j - p*_j| < 2 √C_jj
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from .. import problems
from ..estimators import Status
from ..files.model_file import parse_model
from ..forward.cramer_rao import cramer_rao
from ..problems import Problem
from ..support.array_types import FloatArray
from ..support.errors import DataError, WeakformError
from .cell_runner import Record
from .store import Store, StoreError
from .study import Cell, problem_from

CONVERGED = {"START", *(status.name for status in Status if status.converged)}
"""What a run that converged says, whatever it found."""


@dataclass(frozen=True, eq=False)
class Summary:
    """One method in one cell.

    Attributes
    ----------
    cell : Cell
    method : str
    runs : int
    failure_rate : float
    coefficient_error, forward_error : float
        Means over the runs that did not fail, as the paper has them.
    median_error : float
        Median of the coefficient error over all runs; a failed one counts as infinite.
    errors : ndarray, (runs,)
        Coefficient errors of the runs that did not fail.
    bias_paper, bias, variance, mse, coverage, mean, half_width : ndarray, (J,)
        The last two are the mean estimate and the mean of two standard errors.
    not_converged : float
        Share of the runs.
    seconds : float
        Median CPU time.
    """

    cell: Cell
    method: str
    runs: int
    failure_rate: float
    coefficient_error: float
    forward_error: float
    median_error: float
    errors: FloatArray
    bias_paper: FloatArray
    bias: FloatArray
    variance: FloatArray
    mse: FloatArray
    coverage: FloatArray
    mean: FloatArray
    half_width: FloatArray
    not_converged: float
    seconds: float


def problem_of(store: Store, name: str) -> Problem:
    """A problem of the study, built in or from the text of its file that the store keeps."""
    for file, text in store.definition.get("files", {}).items():
        found = problem_from(parse_model(text, file, file.rsplit("/", 1)[-1].removesuffix(".toml")), file)
        if found.name == name:
            return found
    try:
        return problems.get(name)
    except WeakformError:
        raise StoreError(f"{store.path} has runs of {name!r}, which is not a known problem.") from None


def summarise(store: Store) -> list[Summary]:
    """All cells and methods of a store, in order."""
    return summaries(store.rows(), lambda name: problem_of(store, name))


def summaries(rows: Iterable[Record], problem: Callable[[str], Problem]) -> list[Summary]:
    """The same of runs, such as an exported table has, with the problem of each name."""
    groups: dict[tuple[Cell, str], list[Record]] = {}
    for row in rows:
        cell = Cell(row["problem"], row["kind"], row["noise"], row["samples"], row["duration"])
        groups.setdefault((cell, row["method"]), []).append(row)
    return [_summary(cell, method, group, problem(cell.problem)) for (cell, method), group in groups.items()]


def _summary(cell: Cell, method: str, rows: list[Record], problem: Problem) -> Summary:
    truth, good = problem.parameters, [row for row in rows if not row["failed"]]
    J = len(truth)
    p = np.array([row["estimate"] for row in good], dtype=float).reshape(-1, J)
    variances = np.array([np.diag(row["covariance"]) for row in good], dtype=float).reshape(-1, J)
    errors = np.array([row["coefficient_error"] for row in good])
    every = [np.inf if row["failed"] else row["coefficient_error"] for row in rows]
    nothing = np.full(J, np.nan)
    coverage, width = nothing.copy(), nothing.copy()
    off, spread = (p - truth) / truth, (p - p.mean(axis=0)) / truth if good else p
    with np.errstate(invalid="ignore"):
        half = 2 * np.sqrt(variances)
        covered = np.where(np.isfinite(half), np.abs(p - truth) < half, np.nan)
    known = np.isfinite(covered).any(axis=0)
    coverage[known], width[known] = np.nanmean(covered[:, known], axis=0), np.nanmean(half[:, known], axis=0)
    return Summary(
        cell=cell,
        method=method,
        runs=len(rows),
        failure_rate=1 - len(good) / len(rows),
        coefficient_error=float(errors.mean()) if good else np.nan,
        forward_error=float(np.mean([row["forward_error"] for row in good])) if good else np.nan,
        median_error=float(np.median(every)),
        errors=errors,
        bias_paper=np.median(off**2, axis=0) if good else nothing,
        bias=np.mean(off, axis=0) ** 2 if good else nothing,
        variance=np.median(spread**2, axis=0) if good else nothing,
        mse=np.median(off**2 + spread**2, axis=0) if good else nothing,
        coverage=coverage,
        mean=p.mean(axis=0) if good else nothing,
        half_width=width,
        not_converged=float(np.mean([row["status"] not in CONVERGED for row in rows])),
        seconds=float(np.median([row["cpu"] for row in rows])),
    )


def bound(problem: Problem, cell: Cell) -> FloatArray:
    """Standard errors `(J,)` that the Cramér–Rao bound allows in a cell; NaN without noise."""
    nothing = np.full(len(problem.truth), np.nan)
    if cell.noise == 0:
        return nothing
    problem = problem.with_noise(cell.kind)
    data = problem.simulate(M=cell.samples, noise=cell.noise, seed=0, duration=cell.duration)
    assert data.truth is not None
    try:
        C = cramer_rao(
            problem.model,
            problem.parameters,
            problem.initial,
            data.trajectories[0].times,
            data.noise,
            data.truth.sigma,
            begin=0.0,
            known_initial=not np.all(problem.initial),
        )
    except DataError:
        return nothing
    return np.asarray(np.sqrt(C.diagonal()))


def table(summaries: list[Summary]) -> str:
    """The metrics as a table in Markdown; parameters by their median."""
    header = ["problem", "noise", "M", "T", "method", "runs", "failed", "coefficient error", "forward error"]
    header += ["bias² (paper)", "bias²", "variance", "MSE", "coverage", "CPU s"]
    lines = [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    for s in summaries:
        c = s.cell
        quality = [_median(v) for v in (s.bias_paper, s.bias, s.variance, s.mse)]
        cells = [c.problem, f"{c.noise:.3g}", c.samples, f"{c.duration:g}", s.method, s.runs, f"{s.failure_rate:.0%}"]
        cells += [f"{value:.3g}" for value in (s.coefficient_error, s.forward_error, *quality)]
        cells += [f"{_median(s.coverage):.0%}", f"{s.seconds:.2g}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _median(values: FloatArray) -> float:
    return float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan
