"""The paper's table of metrics, computed from a store.

Over the runs of a cell that did not fail (see `analysis.accuracy_metrics`), with p̂ an estimate, p̄ the mean of the
estimates, p* the truth, C the covariance and med the median over the runs:

    bias², paper      med (p̂_j - p*_j)²/p*_j²            contains the variance
    bias²             (p̄_j - p*_j)²/p*_j²                as in the code of the paper's authors
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
from ..forward.cramer_rao import compute_cramer_rao_bound
from ..problems import Problem
from ..support.array_types import FloatArray
from ..support.errors import DataError, WeakformError
from .cell_runner import Record
from .store import Store, StoreError
from .study import Cell, build_problem_from_file

CONVERGED_STATUSES = {"START", *(status.name for status in Status if status.converged)}
"""Statuses in the store of runs whose method converged, whether or not the estimate is accepted."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Metrics of one method in one cell.

    Attributes
    ----------
    cell : Cell
    method : str
        Label of the method.
    runs : int
        Number of runs, failed ones included.
    failure_rate : float
        Share of the runs that failed.
    coefficient_error, forward_error : float
        Means over the runs that did not fail, as in the paper; NaN if all failed.
    median_error : float
        Median of the coefficient error over all runs; a failed run counts as infinite.
    errors : ndarray, (runs that did not fail,)
        Coefficient errors of the runs that did not fail.
    bias_paper, bias, variance, mse, coverage : ndarray, (J,)
        Metrics of each parameter by the formulas of this module; NaN if all runs failed. Coverage leaves out intervals
        without a finite width.
    mean, half_width : ndarray, (J,)
        Mean estimate, and mean of two standard errors.
    not_converged : float
        Share of the runs whose method did not converge.
    seconds : float
        Median CPU time of a run, in seconds.
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


def find_problem(store: Store, name: str) -> Problem:
    """Return a problem of a study: one whose model file is in the store, or a built-in one.

    Raises
    ------
    StoreError
        If there is no problem of this name.
    """
    for file, text in store.definition.get("files", {}).items():
        problem = build_problem_from_file(parse_model(text, file, file.rsplit("/", 1)[-1].removesuffix(".toml")), file)
        if problem.name == name:
            return problem
    try:
        return problems.get(name)
    except WeakformError:
        raise StoreError(
            f"{store.path} has runs of the problem {name!r}, which is neither built in nor stored with the study. Read "
            "it with the version of weakform that wrote it."
        ) from None


def summarise(store: Store) -> list[Summary]:
    """Compute the metrics of every cell and method of a store, in the order of its keys."""
    return summarise_rows(store.rows(), lambda name: find_problem(store, name))


def summarise_rows(rows: Iterable[Record], get_problem: Callable[[str], Problem]) -> list[Summary]:
    """Compute the metrics of every cell and method of runs.

    Parameters
    ----------
    rows : iterable of dict
        Records with their keys, as from `Store.rows` or an exported table.
    get_problem : callable
        Returns the `Problem` of a name.

    Returns
    -------
    list of Summary
        In the order in which cells and methods first appear in `rows`.
    """
    groups: dict[tuple[Cell, str], list[Record]] = {}
    for row in rows:
        cell = Cell(row["problem"], row["kind"], row["noise"], row["samples"], row["duration"])
        groups.setdefault((cell, row["method"]), []).append(row)
    return [_summarise_cell(cell, method, group, get_problem(cell.problem)) for (cell, method), group in groups.items()]


def _summarise_cell(cell: Cell, method: str, rows: list[Record], problem: Problem) -> Summary:
    """Compute the metrics of one method in one cell from its runs."""
    truth, good = problem.parameters, [row for row in rows if not row["failed"]]
    J = len(truth)
    p = np.array([row["estimate"] for row in good], dtype=float).reshape(-1, J)
    variances = np.array([np.diag(row["covariance"]) for row in good], dtype=float).reshape(-1, J)
    errors = np.array([row["coefficient_error"] for row in good])
    all_errors = [np.inf if row["failed"] else row["coefficient_error"] for row in rows]
    nothing = np.full(J, np.nan)
    coverage, width = nothing.copy(), nothing.copy()
    deviation, spread = (p - truth) / truth, (p - p.mean(axis=0)) / truth if good else p
    with np.errstate(invalid="ignore"):
        half = 2 * np.sqrt(variances)
        covered = np.where(np.isfinite(half), np.abs(p - truth) < half, np.nan)
    # A parameter without any finite interval keeps NaN, and does not warn about the mean of nothing.
    has_interval = np.isfinite(covered).any(axis=0)
    coverage[has_interval] = np.nanmean(covered[:, has_interval], axis=0)
    width[has_interval] = np.nanmean(half[:, has_interval], axis=0)
    return Summary(
        cell=cell,
        method=method,
        runs=len(rows),
        failure_rate=1 - len(good) / len(rows),
        coefficient_error=float(errors.mean()) if good else np.nan,
        forward_error=float(np.mean([row["forward_error"] for row in good])) if good else np.nan,
        median_error=float(np.median(all_errors)),
        errors=errors,
        bias_paper=np.median(deviation**2, axis=0) if good else nothing,
        bias=np.mean(deviation, axis=0) ** 2 if good else nothing,
        variance=np.median(spread**2, axis=0) if good else nothing,
        mse=np.median(deviation**2 + spread**2, axis=0) if good else nothing,
        coverage=coverage,
        mean=p.mean(axis=0) if good else nothing,
        half_width=width,
        not_converged=float(np.mean([row["status"] not in CONVERGED_STATUSES for row in rows])),
        seconds=float(np.median([row["cpu"] for row in rows])),
    )


def compute_error_bound(problem: Problem, cell: Cell) -> FloatArray:
    """Compute the smallest standard errors `(J,)` of an unbiased estimator in a cell, from the Cramér–Rao bound.

    They are NaN without noise, and if the model cannot be solved.
    """
    nothing = np.full(len(problem.truth), np.nan)
    if cell.noise == 0:
        return nothing
    problem = problem.with_noise(cell.kind)
    data = problem.simulate(M=cell.samples, noise=cell.noise, seed=0, duration=cell.duration)
    assert data.truth is not None
    # The initial state is estimated, too, unless a state begins at exactly zero.
    try:
        C = compute_cramer_rao_bound(
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


def format_table(summaries: list[Summary]) -> str:
    """Write metrics as a table in Markdown; those of each parameter appear as their median over the parameters."""
    columns = ["problem", "noise", "M", "T", "method", "runs", "failed", "coefficient error", "forward error"]
    columns += ["bias² (paper)", "bias²", "variance", "MSE", "coverage", "CPU s"]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for s in summaries:
        c = s.cell
        quality = [_compute_median(v) for v in (s.bias_paper, s.bias, s.variance, s.mse)]
        cells = [c.problem, f"{c.noise:.3g}", c.samples, f"{c.duration:g}", s.method, s.runs, f"{s.failure_rate:.0%}"]
        cells += [f"{value:.3g}" for value in (s.coefficient_error, s.forward_error, *quality)]
        cells += [f"{_compute_median(s.coverage):.0%}", f"{s.seconds:.2g}"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _compute_median(values: FloatArray) -> float:
    """Return the median of the values that are not NaN; NaN if no value is finite."""
    return float(np.nanmedian(values)) if np.isfinite(values).any() else np.nan
