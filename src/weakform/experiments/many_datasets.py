"""Many data sets, one model: Monte Carlo draws, the wells of a plate, the neurons of a recording."""

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
from ..support.wording import Progress
from .executors import Lost, dask, local

Fitted = FitResult | WeakformError
BATCH = 16
"""Data sets that go to a worker at a time."""
WORTH = 4.0
"""Seconds of work from which on other processes are worth their start."""


def fit_many(
    model: Model,
    datasets: Sequence[Dataset],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
    **arguments: Any,
) -> list[Fitted]:
    """Fit a model to each of many data sets, each on its own.

    The model is compiled once for all of them, in each process that works. The results are the same, whatever works.

    Parameters
    ----------
    model : Model
    datasets : sequence of Dataset
    workers : int, optional
        Processes of this machine; by default one for each core, if there is work for them. 1 is this process.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers then do the work.
    **arguments
        Those of `fit`, for every data set.

    Returns
    -------
    list of FitResult or WeakformError
        In the order of the data sets; the error where there is no fit: one bad data set does not stop the others.

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
    found: dict[int, Fitted] = {}
    bar = Progress(lambda: f"fits: {len(found)} of {len(datasets)}")
    try:
        for number, result in _done(model, datasets, workers, scheduler, arguments):
            found[number] = result
            bar.update()
    finally:
        bar.close()
    return [found[number] for number in range(len(datasets))]


Job = list[tuple[int, Dataset]]


def _done(
    model: Model, datasets: list[Dataset], workers: int | None, scheduler: str | None, arguments: dict[str, Any]
) -> Iterator[tuple[int, Fitted]]:
    """Each with its number, in any order."""
    waiting = list(enumerate(datasets))
    one = partial(_one, model, arguments)
    cores = workers or os.cpu_count() or 1
    begin = time.monotonic()
    while waiting and scheduler is None:
        spent, done = time.monotonic() - begin, len(datasets) - len(waiting)
        worth = workers is not None or (done and spent / done * len(waiting) > WORTH)
        if cores > 1 and worth:
            break
        number, data = waiting.pop(0)
        yield number, one(data)
    jobs = [waiting[k : k + BATCH] for k in range(0, len(waiting), BATCH)]
    do = partial(_batch, model, arguments)
    for job, found in (dask(scheduler, do) if scheduler is not None else local(cores, do))(jobs):
        results = [WeakformError(f"The fit was lost: {found.reason}.")] * len(job) if isinstance(found, Lost) else found
        yield from zip((number for number, _ in job), results, strict=True)


def _batch(model: Model, arguments: dict[str, Any], job: Job) -> list[Fitted]:
    return [_one(model, arguments, data) for _, data in job]


def _one(model: Model, arguments: dict[str, Any], data: Dataset) -> Fitted:
    try:
        return fit(model, data, **arguments)
    except WeakformError as error:
        return error
