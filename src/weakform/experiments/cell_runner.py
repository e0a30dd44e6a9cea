"""One run of a study: simulate the data, fit, and measure the error of the estimate.

Arguments and results are plain data, so that a run can be sent to any process or machine.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..analysis.accuracy_metrics import compute_metrics
from ..fitting import fit
from ..linalg.blas_threads import use_single_thread
from ..support.errors import WeakformError
from ..support.versions import describe_versions
from .study import START_METHOD, Run

Record = dict[str, Any]
"""Result of one run: a value for each name in `store.COLUMNS`."""


def perform_run(run: Run) -> Record:
    """Simulate the data of a run, fit them and return the record for the store.

    A fit that is refused or that fails is a record, too; only a bug raises.

    Parameters
    ----------
    run : Run

    Returns
    -------
    dict
        A value for each name in `store.COLUMNS`. The estimate, `J` numbers, and the covariance, `J` lists of `J`
        numbers, are NaN if there is no fit.
    """
    with use_single_thread():
        return _simulate_and_fit(run)


def _simulate_and_fit(run: Run) -> Record:
    """Return the record of a run, computed with the BLAS threads that are set."""
    problem, cell = run.problem, run.cell
    data = problem.simulate(
        M=cell.samples, noise=cell.noise, seed=run.seed, by_state=run.by_state, duration=cell.duration
    )
    assert data.truth is not None
    # The simulation is not part of the method, so the clocks start after it.
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
        "versions": describe_versions(),
    }
    estimate, covariance = np.full(J, np.nan), np.full((J, J), np.nan)
    if run.method.method == START_METHOD:
        assert start is not None
        estimate, record["status"] = start, "START"
    else:
        start_arguments: dict[str, Any] = {"start": start, "starts": 1} if start is not None else {}
        try:
            result = fit(
                problem.model,
                data,
                bounds=problem.bounds if run.bounds else None,
                method=run.method.method,
                options=run.method.options,
                seed=run.seed % 2**32,
                **start_arguments,
            )
        except WeakformError as error:
            record["status"], record["message"] = "REFUSED", str(error)
        else:
            estimate, covariance = result.estimate, result.covariance
            record["status"] = result.status.name
            record["message"] = " ".join((*result.notes, *result.warnings))
            record["sigma"] = result.sigma.tolist()
            record["iterations"] = int(result.iterations)
            if result.goodness is not None:
                record["p_value"] = float(result.goodness.p_value)
    record["seconds"], record["cpu"] = time.monotonic() - begin, time.process_time() - cpu
    metrics = compute_metrics(problem.model, estimate, covariance, data.trajectories[0].times, data.truth)
    record.update(
        estimate=estimate.tolist(),
        covariance=covariance.tolist(),
        coefficient_error=metrics.coefficient_error,
        forward_error=metrics.forward_error,
        failed=bool(metrics.failed),
    )
    return record
