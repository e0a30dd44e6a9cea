"""All runs of a study in one SQLite file, one transaction a run.

Write-ahead logging makes each transaction whole or absent, whatever is killed: at most the runs in flight are lost. One
process at a time writes: it holds an exclusive transaction on a small file beside the store, which the system releases
however the process ends. Any number may read.
"""

from __future__ import annotations

import json
import math
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..support.errors import WeakformError
from ..support.optional_imports import pandas
from .cell_runner import Record
from .study import Run, Study

KEY = ("problem", "kind", "noise", "samples", "duration", "method", "run")
COLUMNS = {
    "seed": "INTEGER",
    "status": "TEXT",
    "message": "TEXT",
    "estimate": "TEXT",
    "covariance": "TEXT",
    "start": "TEXT",
    "sigma": "TEXT",
    "p_value": "REAL",
    "coefficient_error": "REAL",
    "forward_error": "REAL",
    "failed": "INTEGER",
    "seconds": "REAL",
    "cpu": "REAL",
    "iterations": "INTEGER",
    "versions": "TEXT",
}
_LISTS = ("estimate", "covariance", "start", "sigma")
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS study (name TEXT, definition TEXT);
    CREATE TABLE IF NOT EXISTS runs (
        problem TEXT, kind TEXT, noise REAL, samples INTEGER, duration REAL, method TEXT, run INTEGER,
        {", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())},
        PRIMARY KEY ({", ".join(KEY)})
    ) WITHOUT ROWID;
"""


class StoreError(WeakformError):
    """A store that cannot be used: in use, of another study, damaged, or full."""


class Store:
    """The file of a study.

    Parameters
    ----------
    path : str or Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise StoreError(
                f"There is no study file {self.path}; make one with: weakform sweep STUDY --out {self.path}"
            )
        self._db = self._open(f"{self.path.resolve().as_uri()}?mode=rw")

    def _open(self, uri: str) -> sqlite3.Connection:
        with _readable(self.path):
            db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30.0)
            weakref.finalize(self, db.close)  # who only reads need not close it
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            if tables and not {"study", "runs"} <= tables:
                raise StoreError(f"{self.path} is a database of something else; give another --out.")
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.executescript(_SCHEMA)
        return db

    @classmethod
    @contextmanager
    def writing(cls, path: str | Path, study: Study) -> Iterator[Store]:
        """A store for a study, made if it is not there, with no other writer beside."""
        path = Path(path)
        if not path.parent.is_dir():
            raise StoreError(f"There is no folder {path.parent} for the study file.")
        with _explained(path):
            lock = sqlite3.connect(path.with_name(path.name + ".lock"), isolation_level=None, timeout=0.0)
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise StoreError(f"{path} cannot be written: {error}.") from None
                raise StoreError(
                    f"{path} is in use by another weakform sweep; wait for it, stop it, or give another --out."
                ) from None
            with _explained(path):
                path.touch()
                store = cls(path)
                store._claim(study)
            try:
                yield store
            finally:
                store.close()
        finally:
            lock.close()

    def _claim(self, study: Study) -> None:
        old = self.definition
        if not old:
            self._db.execute("INSERT INTO study VALUES (?, ?)", (study.name, study.definition))
            return
        # More runs of the same study are welcome; anything else would mix two studies in one file.
        with _readable(self.path):
            other = _without_runs(old) != _without_runs(json.loads(study.definition))
        if other:
            raise StoreError(f"{self.path} holds another study; give another --out, or the study it was made with.")
        self._db.execute("UPDATE study SET definition = ?", (study.definition,))

    def close(self) -> None:
        """Fold the write-ahead log into the file, and let go of it."""
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    @property
    def study(self) -> str:
        """The name of the study."""
        with _readable(self.path):
            row = self._db.execute("SELECT name FROM study").fetchone()
        return "" if row is None else str(row[0])

    @property
    def definition(self) -> dict[str, Any]:
        """The study as it was given."""
        with _readable(self.path):
            row = self._db.execute("SELECT definition FROM study").fetchone()
            return {} if row is None else dict(json.loads(row[0]))

    def done(self) -> set[tuple[Any, ...]]:
        """Keys of the runs that are there."""
        with _readable(self.path):
            return set(self._db.execute(f"SELECT {', '.join(KEY)} FROM runs"))

    def add(self, run: Run, record: Record) -> None:
        """Keep one run: whole, or not at all."""
        values = [json.dumps(record[name]) if name in _LISTS else _plain(record.get(name)) for name in COLUMNS]
        marks = ", ".join("?" * (len(KEY) + len(COLUMNS)))
        with _explained(self.path):
            self._db.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", (*run.key, *values))

    def rows(self) -> list[Record]:
        """All runs, in the order of their keys."""
        with _readable(self.path):
            return self._rows()

    def _rows(self) -> list[Record]:
        names = (*KEY, *COLUMNS)
        found = []
        for row in self._db.execute(f"SELECT {', '.join(names)} FROM runs ORDER BY {', '.join(KEY)}"):
            record = dict(zip(names, row, strict=True))
            for name in _LISTS:
                record[name] = None if record[name] is None else json.loads(record[name])
            record["failed"] = bool(record["failed"])
            for name in ("coefficient_error", "forward_error", "p_value"):
                record[name] = math.nan if record[name] is None else record[name]
            found.append(record)
        return found

    def frame(self) -> Any:
        """All runs as a pandas data frame."""
        return pandas().DataFrame(self.rows())


def _without_runs(definition: dict[str, Any]) -> dict[str, Any]:
    study = dict(definition["study"])
    study.pop("runs", None)
    study["cells"] = [{k: v for k, v in block.items() if k != "runs"} for block in study["cells"]]
    return {**definition, "study": study}


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return value


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """What is wrong with a damaged file, in our words."""
    try:
        yield
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(f"{path} cannot be read as a study; it is damaged: {error}.") from None


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """SQLite's errors in our words."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        raise StoreError(
            f"{path} cannot be written: {error}. All runs before this one are safe in it; mend the cause and give the "
            "same command again to go on."
        ) from None
