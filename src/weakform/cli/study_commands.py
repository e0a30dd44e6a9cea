"""The commands for studies: sweep, figures, summary."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..support.errors import WeakformError


def sweep(arguments: argparse.Namespace) -> int:
    """Do the runs of a study that its file lacks."""
    import os

    from ..experiments.cell_runner import perform
    from ..experiments.executors import dask, local
    from ..experiments.study import read_study
    from ..experiments.sweep import sweep as run_sweep

    study = read_study(arguments.study)
    out = Path(arguments.out or f"{study.name}.sqlite")
    workers = arguments.workers or os.cpu_count() or 1
    execute = dask(arguments.dask, perform) if arguments.dask else local(workers, perform)
    try:
        outcome = run_sweep(study, out, execute)
    except KeyboardInterrupt:
        print(f"weakform: stopped. What was done is in {out}; give the same command again to go on.", file=sys.stderr)
        return 130
    print(
        f"{study.name}: {outcome.done} runs done, {outcome.failed} failed, {outcome.before} were there; "
        f"{outcome.before + outcome.done - len(outcome.lost)} of {outcome.total} are in {out}."
    )
    for line in outcome.lost:
        print(f"lost: {line}", file=sys.stderr)
    return 1 if outcome.lost else 0


def figures(arguments: argparse.Namespace) -> int:
    """Draw a study."""
    from ..experiments.figures import draw

    for path in draw(arguments.file, arguments.out, arguments.format, not arguments.runs_only):
        print(path, flush=True)
    return 0


def summary(arguments: argparse.Namespace) -> int:
    """Print the metrics of a study, or write its runs as a table."""
    from ..experiments.store import Store
    from ..experiments.summary import summarise, table

    store = Store(arguments.file)
    if arguments.export is None:
        print(table(summarise(store)))
        return 0
    out, frame = Path(arguments.export), store.frame()
    if out.suffix == ".parquet":
        frame.to_parquet(out)
    elif out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        raise WeakformError(f"Runs are exported to .parquet or .csv; received {out.name!r}.")
    print(f"{len(frame)} runs in {out}")
    return 0
