"""One run of a study: simulate, fit, measure. Everything in and out is plain data, so that it may run anywhere."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..analysis.accuracy_metrics import measure
from ..fitting import fit
from ..linalg.blas_threads import single_thread
from ..support.errors import WeakformError
from ..support.versions import versions
from .study import START, Run

Record = dict[str, Any]
"""What the store keeps of a run; see `store.COLUMNS`."""


def perform(run: Run) -> Record:
    """Do one run. A fit that is refused or fails is a record too; only a bug raises."""
    with single_thread():
        return _perform(run)


def _perform(run: Run) -> Record:
    problem, cell = run.problem, run.cell
    data = problem.simulate(
        M=cell.samples, noise=cell.noise, seed=run.seed, by_state=run.by_state, duration=cell.duration
    )
    assert data.truth is not None
    begin, cpu = time.monotonic(), time.process_time()
    start = problem.start(run.seed) if run.start == "random" else None
    J = len(problem.truth)
    record: Record = {
        "seed": run.seed,
        "status": "",
        "message": "",
        "estimate": [float("nan")] * J,
        "covariance": [[float("nan")] * J] * J,
        "start": None if start is None else start.tolist(),
        "sigma": None,
        "p_value": None,
        "iterations": 0,
        "versions": versions(),
    }
    estimate, covariance = np.full(J, np.nan), np.full((J, J), np.nan)
    if run.method.method == START:
        assert start is not None
        estimate, record["status"] = start, "START"
    else:
        chosen: dict[str, Any] = {"start": start, "starts": 1} if start is not None else {}
        try:
            found = fit(
                problem.model,
                data,
                bounds=problem.bounds if run.bounds else None,
                method=run.method.method,
                options=run.method.options,
                seed=run.seed % 2**32,
                **chosen,
            )
        except WeakformError as error:
            record["status"], record["message"] = "REFUSED", str(error)
        else:
            estimate, covariance = found.estimate, found.covariance
            record["status"] = found.status.name
            record["message"] = " ".join((*found.notes, *found.warnings))
            record["sigma"] = found.sigma.tolist()
            record["iterations"] = int(found.iterations)
            if found.goodness is not None:
                record["p_value"] = float(found.goodness.p_value)
    record["seconds"], record["cpu"] = time.monotonic() - begin, time.process_time() - cpu
    measured = measure(problem.model, estimate, covariance, data.trajectories[0].times, data.truth)
    record.update(
        estimate=estimate.tolist(),
        covariance=covariance.tolist(),
        coefficient_error=measured.coefficient_error,
        forward_error=measured.forward_error,
        failed=bool(measured.failed),
    )
    return record
