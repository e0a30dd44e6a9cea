"""The store of a study: all its runs in one SQLite file, one transaction for each run.

Write-ahead logging makes each transaction either complete or absent, whichever process is killed: at most the runs in
flight are lost. Only one process writes at a time. It holds an exclusive transaction on a small file beside the store,
which the operating system releases however the process ends. Any number of processes may read.
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
from ..support.optional_imports import import_pandas
from .cell_runner import Record
from .study import Run, Study

KEY = ("problem", "kind", "noise", "samples", "duration", "method", "run")
"""Columns that identify a run, in the order of `Run.key`."""
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
"""Columns that hold the record of a run, with their SQL types."""
_JSON_COLUMNS = ("estimate", "covariance", "start", "sigma")
"""Columns of lists, which are stored as JSON."""
_SCHEMA = f"""
    CREATE TABLE IF NOT EXISTS study (name TEXT, definition TEXT);
    CREATE TABLE IF NOT EXISTS runs (
        problem TEXT, kind TEXT, noise REAL, samples INTEGER, duration REAL, method TEXT, run INTEGER,
        {", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())},
        PRIMARY KEY ({", ".join(KEY)})
    ) WITHOUT ROWID;
"""
"""Tables of a store. The runs are stored in the order of their keys, without a second index."""
BUSY_TIMEOUT = 30.0
"""Seconds to wait while another connection holds the database; after that, SQLite reports "database is locked". By
judgement."""


class StoreError(WeakformError):
    """A store that cannot be used: it is in use, belongs to another study, is damaged, or the disk is full."""


class Store:
    """The file of a study, open for reading; see `writing` for adding runs.

    Parameters
    ----------
    path : str or Path
        A file that `weakform sweep` has written.

    Raises
    ------
    StoreError
        If the file does not exist or is not a study file.

    Attributes
    ----------
    path : Path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise StoreError(
                f"There is no study file {self.path}; create one with: weakform sweep STUDY --out {self.path}"
            )
        self._db = self._connect(f"{self.path.resolve().as_uri()}?mode=rw")

    def _connect(self, uri: str) -> sqlite3.Connection:
        """Connect to the database at `uri`, check that it is a study, and create missing tables."""
        with _explain_read_errors(self.path):
            # Without an isolation level every statement is a transaction, so each run is committed on its own.
            db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT)
            # A reader need not close the store: the connection closes with the object.
            weakref.finalize(self, db.close)
            tables = {row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type='table'")}
            if tables and not {"study", "runs"} <= tables:
                raise StoreError(f"{self.path} is a database, but not a study file; choose another file.")
            # With these settings SQLite syncs at checkpoints only: a power cut may lose the last runs, but does not
            # damage the file.
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.executescript(_SCHEMA)
        return db

    @classmethod
    @contextmanager
    def writing(cls, path: str | Path, study: Study) -> Iterator[Store]:
        """Open the store of a study as its only writer; create it if it does not exist.

        Parameters
        ----------
        path : str or Path
            The store. A second file, with `.lock` after its name, is the lock.
        study : Study
            The study whose runs are added.

        Yields
        ------
        Store
            Closed when the context ends.

        Raises
        ------
        StoreError
            If the folder does not exist, another process writes, or the file belongs to another study.
        """
        path = Path(path)
        if not path.parent.is_dir():
            raise StoreError(
                f"The study file {path} cannot be written: there is no folder {path.parent}. Create it, or choose "
                "another file with --out."
            )
        with _explain_write_errors(path):
            # With a timeout of 0, a second writer is refused immediately.
            lock = sqlite3.connect(path.with_name(path.name + ".lock"), isolation_level=None, timeout=0.0)
        try:
            try:
                lock.execute("BEGIN EXCLUSIVE")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error):
                    raise StoreError(f"{path} cannot be written: {error}.") from None
                raise StoreError(
                    f"{path} is in use by another weakform sweep; wait for it, stop it, or choose another file with "
                    "--out."
                ) from None
            with _explain_write_errors(path):
                path.touch()
                store = cls(path)
                store._register_study(study)
            try:
                yield store
            finally:
                store.close()
        finally:
            lock.close()

    def _register_study(self, study: Study) -> None:
        """Write the definition of the study into a new store; refuse a store of another study."""
        stored = self.definition
        if not stored:
            self._db.execute("INSERT INTO study VALUES (?, ?)", (study.name, study.definition))
            return
        # A study may be continued with more runs; any other difference would mix two studies in one file.
        with _explain_read_errors(self.path):
            is_different = _remove_run_counts(stored) != _remove_run_counts(json.loads(study.definition))
        if is_different:
            raise StoreError(
                f"{self.path} holds another study; choose another file with --out, or give the study with which the "
                "file was created."
            )
        self._db.execute("UPDATE study SET definition = ?", (study.definition,))

    def close(self) -> None:
        """Fold the write-ahead log into the file, and close it."""
        with suppress(sqlite3.OperationalError):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()

    @property
    def study(self) -> str:
        """Name of the study; empty if no study has been written."""
        with _explain_read_errors(self.path):
            row = self._db.execute("SELECT name FROM study").fetchone()
        return "" if row is None else str(row[0])

    @property
    def definition(self) -> dict[str, Any]:
        """Definition of the study: its table and the text of its model files; empty if none has been written."""
        with _explain_read_errors(self.path):
            row = self._db.execute("SELECT definition FROM study").fetchone()
            return {} if row is None else dict(json.loads(row[0]))

    def done(self) -> set[tuple[Any, ...]]:
        """Return the keys of all runs in the store, in the form of `Run.key`."""
        with _explain_read_errors(self.path):
            return set(self._db.execute(f"SELECT {', '.join(KEY)} FROM runs"))

    def add(self, run: Run, record: Record) -> None:
        """Write one run with its record in one transaction; a run with the same key is replaced."""
        values = [
            json.dumps(record[name]) if name in _JSON_COLUMNS else _replace_nan(record.get(name)) for name in COLUMNS
        ]
        marks = ", ".join("?" * (len(KEY) + len(COLUMNS)))
        with _explain_write_errors(self.path):
            self._db.execute(f"INSERT OR REPLACE INTO runs VALUES ({marks})", (*run.key, *values))

    def rows(self) -> list[Record]:
        """Return the records of all runs with their keys, in the order of the keys."""
        with _explain_read_errors(self.path):
            return self._fetch_rows()

    def _fetch_rows(self) -> list[Record]:
        """Read all records; SQL's NULL becomes NaN in the columns of numbers that need it."""
        names = (*KEY, *COLUMNS)
        records = []
        for row in self._db.execute(f"SELECT {', '.join(names)} FROM runs ORDER BY {', '.join(KEY)}"):
            record = dict(zip(names, row, strict=True))
            for name in _JSON_COLUMNS:
                record[name] = None if record[name] is None else json.loads(record[name])
            record["failed"] = bool(record["failed"])
            for name in ("coefficient_error", "forward_error", "p_value"):
                record[name] = math.nan if record[name] is None else record[name]
            records.append(record)
        return records

    def frame(self) -> Any:
        """Return all runs as a pandas data frame, one row for each run with the columns `KEY` and `COLUMNS`."""
        return import_pandas().DataFrame(self.rows())


def _remove_run_counts(definition: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of a definition without the numbers of runs, which may grow while a study is continued."""
    study = dict(definition["study"])
    study.pop("runs", None)
    study["cells"] = [{k: v for k, v in block.items() if k != "runs"} for block in study["cells"]]
    return {**definition, "study": study}


def _replace_nan(value: Any) -> Any:
    """Return a value for SQLite, with `None` in place of NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else value
    return value


@contextmanager
def _explain_read_errors(path: Path) -> Iterator[None]:
    """Turn the errors of reading a damaged file into a `StoreError`."""
    try:
        yield
    except (sqlite3.DatabaseError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise StoreError(
            f"{path} cannot be read as a study: {error}. The file is damaged, or it is no study file."
        ) from None


@contextmanager
def _explain_write_errors(path: Path) -> Iterator[None]:
    """Turn the errors of writing into a `StoreError` that says how to continue."""
    try:
        yield
    except (sqlite3.DatabaseError, OSError) as error:
        raise StoreError(
            f"{path} cannot be written: {error}. All runs before this one are safe in it; fix the cause and run the "
            "same command again to continue."
        ) from None
