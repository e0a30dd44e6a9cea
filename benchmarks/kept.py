"""Restoration of a study file from the stored runs, for its figures and its table, or to continue the study.

    python benchmarks/kept.py paper.sqlite              # from results/paper.parquet; the file is named like the study
    weakform summary paper.sqlite
    weakform figures paper.sqlite --format svg --runs-only

The covariances of the paper's runs were stored in single precision.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from weakform.experiments.store import KEY, Store
from weakform.experiments.study import read_study

RESULTS = Path(__file__).parent / "results"


def restore(path: Path) -> int:
    """Write the stored runs of a study into its file, and return their number."""
    study = read_study(path.stem)
    rows = {
        tuple(row[name] for name in KEY): row for row in pq.read_table(RESULTS / f"{path.stem}.parquet").to_pylist()
    }
    stored = [(run, rows[run.key]) for run in study.runs if run.key in rows]
    with Store.writing(path, study) as store:
        for run, row in stored:
            if row["seed"] != run.seed:
                raise SystemExit(f"{run.key}: the stored seed is {row['seed']}, but that of the study is {run.seed}.")
            store.add(run, row)
    return len(stored)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    print(f"{file}: {restore(file)} runs")
