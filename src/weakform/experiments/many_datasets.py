"""One model fitted to many datasets: Monte Carlo draws, the wells of a plate, the neurons of a recording."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from ..data import Dataset
from ..fitting import fit
from ..fitting.fit_arguments import check_model
from ..model import Model
from ..results.fit_result import FitResult
from ..support.errors import FitError, WeakformError
from ..support.whole_numbers import is_whole
from ..support.wording import ProgressLine
from .executors import LostRun, make_dask_executor, make_local_executor

FitOrError = FitResult | WeakformError
"""Result for one dataset."""
Batch = list[tuple[int, Dataset]]
"""Numbered datasets that go to a worker together."""
DATASETS_PER_BATCH = 16
"""Number of datasets sent to a worker at a time. A larger batch sends the model less often; a smaller one loses less
when a worker dies and spreads the work more evenly. By judgement."""
MIN_SECONDS_FOR_PROCESSES = 4.0
"""Estimated seconds of remaining work above which worker processes are started; with less work, starting them would
take longer than it saves. By judgement."""


def fit_many(
    model: Model,
    datasets: Sequence[Dataset],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    **arguments: Any,
) -> list[FitOrError]:
    """Fit a model to each of many datasets separately.

    The model is compiled once in each process, not once per dataset. The results do not depend on where the fits run.

    Parameters
    ----------
    model : Model
    datasets : sequence of Dataset
    workers : int, optional
        Number of processes on this machine; by default one for each core if the work takes longer than their start.
        With 1, all fits run in this process.
    scheduler : str, optional
        Address of a Dask scheduler; the fits then run on its workers.
    **arguments
        Arguments of `fit`, used for every dataset.

    Returns
    -------
    list of FitResult or WeakformError
        One entry for each dataset, in their order. The entry is the error if the dataset cannot be fitted, so that one
        bad dataset does not stop the others.

    Raises
    ------
    FitError
        If `workers` is not a whole number of at least 1, or `model` is not a `Model`.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> wells = [problem.simulate(M=100, noise=0.02, seed=seed) for seed in range(3)]
    >>> [fit.success for fit in wf.fit_many(problem.model, wells)]
    [True, True, True]
    """
    datasets = list(datasets)
    if workers is not None and not is_whole(workers, 1):
        raise FitError(f"workers must be a whole number, at least 1; received {workers!r}.")
    check_model(model)
    results: dict[int, FitOrError] = {}
    bar = ProgressLine(lambda: f"fits: {len(results)} of {len(datasets)}")
    try:
        for number, result in _fit_all(model, datasets, workers, scheduler, arguments):
            results[number] = result
            bar.update()
    finally:
        bar.close()
    return [results[number] for number in range(len(datasets))]


def _fit_all(
    model: Model, datasets: list[Dataset], workers: int | None, scheduler: str | None, arguments: dict[str, Any]
) -> Iterator[tuple[int, FitOrError]]:
    """Fit all datasets, and yield each number with its result, in any order."""
    waiting = list(enumerate(datasets))
    fit_dataset = partial(_fit_one, model, arguments)
    cores = workers or os.cpu_count() or 1
    begin = time.monotonic()
    # The first fits run in this process: their mean time tells whether the rest is worth starting other processes.
    while waiting and scheduler is None:
        spent, done = time.monotonic() - begin, len(datasets) - len(waiting)
        worth_starting = workers is not None or (done and spent / done * len(waiting) > MIN_SECONDS_FOR_PROCESSES)
        if cores > 1 and worth_starting:
            break
        number, data = waiting.pop(0)
        yield number, fit_dataset(data)
    batches = [waiting[k : k + DATASETS_PER_BATCH] for k in range(0, len(waiting), DATASETS_PER_BATCH)]
    fit_batch = partial(_fit_batch, model, arguments)
    execute = (
        make_dask_executor(scheduler, fit_batch) if scheduler is not None else make_local_executor(cores, fit_batch)
    )
    for batch, result in execute(batches):
        results = (
            [WeakformError(f"The fit was lost: {result.reason}.")] * len(batch)
            if isinstance(result, LostRun)
            else result
        )
        yield from zip((number for number, _ in batch), results, strict=True)


def _fit_batch(model: Model, arguments: dict[str, Any], batch: Batch) -> list[FitOrError]:
    """Fit the datasets of one batch, in their order."""
    return [_fit_one(model, arguments, data) for _, data in batch]


def _fit_one(model: Model, arguments: dict[str, Any], data: Dataset) -> FitOrError:
    """Fit one dataset; return the error if the fit is refused."""
    try:
        return fit(model, data, **arguments)
    except WeakformError as error:
        return error
