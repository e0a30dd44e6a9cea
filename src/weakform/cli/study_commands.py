"""The commands for studies: `sweep`, `summary` and `figures`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ..support.errors import WeakformError


def run_sweep(args: argparse.Namespace) -> int:
    """Do the runs of a study that its file does not have yet."""
    import os

    from ..experiments.cell_runner import perform_run
    from ..experiments.executors import make_dask_executor, make_local_executor
    from ..experiments.study import read_study
    from ..experiments.sweep import sweep as sweep_study

    study = read_study(args.study)
    out = Path(args.out or f"{study.name}.sqlite")
    workers = args.workers or os.cpu_count() or 1
    execute = make_dask_executor(args.dask, perform_run) if args.dask else make_local_executor(workers, perform_run)
    try:
        outcome = sweep_study(study, out, execute)
    except KeyboardInterrupt:
        print(
            f"weakform: interrupted. The finished runs are in {out}; run the same command again to continue.",
            file=sys.stderr,
        )
        return 130
    print(
        f"{study.name}: {outcome.done} runs done, {outcome.failed} of them failed, {outcome.already_done} already in "
        f"the file; {outcome.already_done + outcome.done - len(outcome.lost)} of {outcome.total} runs are in {out}."
    )
    for line in outcome.lost:
        print(f"lost: {line}", file=sys.stderr)
    return 1 if outcome.lost else 0


def run_figures(args: argparse.Namespace) -> int:
    """Draw the figures of a study, and print the name of each file."""
    from ..experiments.figures import draw_figures

    for path in draw_figures(args.file, args.out, args.format, not args.runs_only):
        print(path, flush=True)
    return 0


def run_summary(args: argparse.Namespace) -> int:
    """Print the metrics of a study, or write its runs as a table."""
    from ..experiments.store import Store
    from ..experiments.summary import format_table, summarise

    store = Store(args.file)
    if args.export is None:
        print(format_table(summarise(store)))
        return 0
    out, frame = Path(args.export), store.frame()
    if out.suffix == ".parquet":
        frame.to_parquet(out)
    elif out.suffix == ".csv":
        frame.to_csv(out, index=False)
    else:
        raise WeakformError(f"--export needs a file that ends in .parquet or .csv; received {out.name!r}.")
    print(f"Wrote {len(frame)} runs to {out}")
    return 0
