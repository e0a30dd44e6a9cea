"""A study file from the runs that are kept: for its figures and its table, or to go on with the study.

    python benchmarks/kept.py paper.sqlite              # from results/paper.parquet; the study has the name of the file
    weakform summary paper.sqlite
    weakform figures paper.sqlite --format svg --runs-only

The covariances of the paper's runs were kept in single precision.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq

from weakform.experiments.store import KEY, Store
from weakform.experiments.study import read_study

RESULTS = Path(__file__).parent / "results"


def restore(path: Path) -> int:
    """Write the kept runs that the study asks for into its file; how many."""
    study = read_study(path.stem)
    rows = {
        tuple(row[name] for name in KEY): row for row in pq.read_table(RESULTS / f"{path.stem}.parquet").to_pylist()
    }
    kept = [(run, rows[run.key]) for run in study.runs if run.key in rows]
    with Store.writing(path, study) as store:
        for run, row in kept:
            if row["seed"] != run.seed:
                raise SystemExit(f"{run.key}: kept with seed {row['seed']}, the study has {run.seed}.")
            store.add(run, row)
    return len(kept)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    print(f"{file}: {restore(file)} runs")
