"""Results of many fits as they are finished, and the file from which an interrupted run continues.

The file is replaced as a whole: it is written under another name and then renamed, so that it is complete whenever the
run is killed. It holds a fingerprint of all that a result depends on, because results of different runs must not mix.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..engine.chunk_fit import ChunkResult
from ..files.batch_archive import read_archive
from ..results.batch_result import STATUSES
from ..results.status import Status
from ..support.array_types import IntArray
from ..support.errors import DataError
from ..support.versions import __version__

WRITE_INTERVAL = 5.0
"""Seconds between two writes of the file, at least. An interruption loses the work since the last one, except Ctrl-C,
which writes. By judgement."""
MAX_WRITE_SHARE = 0.05
"""Share of the time that writing may take: the file grows with the results, and the interval with it. By judgement."""
FORMAT_VERSION = 1
"""Version of the file."""
SAMPLED_SETS = 64
"""Datasets, evenly spaced, whose values are part of the fingerprint: all of them would be read twice. By judgement."""


def _feed(digest: Any, value: Any) -> None:
    """Add a value to a digest; equal numbers, and lists and tuples of the same items, are the same."""
    if isinstance(value, np.ndarray):
        digest.update(f"array {value.shape} {value.dtype.str}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, str | bytes | None):
        digest.update(repr(value).encode())
    elif isinstance(value, bool | int | float | np.number | np.bool_):
        digest.update(repr(float(value)).encode())
    elif isinstance(value, Mapping):
        digest.update(f"mapping {len(value)}".encode())
        for key in sorted(value, key=str):
            _feed(digest, str(key))
            _feed(digest, value[key])
    elif isinstance(value, Sequence):
        digest.update(f"sequence {len(value)}".encode())
        for item in value:
            _feed(digest, item)
    elif is_dataclass(value) and not isinstance(value, type):
        _feed(digest, {field.name: getattr(value, field.name) for field in fields(value)})
    else:
        digest.update(str(value).encode())


def compute_fingerprint(parts: Mapping[str, Any]) -> dict[str, str]:
    """Compute a hash of each part of what a run depends on.

    Parameters
    ----------
    parts : mapping
        Numbers, text, arrays, records, and lists and mappings of them, by the name of the part in messages.

    Returns
    -------
    dict of str to str
        With the version of the package as a further part.
    """
    result = {}
    for name, value in {**parts, "version of weakform": __version__}.items():
        digest = hashlib.sha256()
        _feed(digest, value)
        result[name] = digest.hexdigest()
    return result


class BatchProgress:
    """Results so far, which datasets are finished, and the file that keeps them.

    Parameters
    ----------
    result : ChunkResult
        Of all datasets; filled as they are finished.
    path : str or Path, optional
        The file; without it nothing is written.
    fingerprint : dict of str to str
        See `compute_fingerprint`.

    Attributes
    ----------
    fitted, fitted_singly : ndarray of bool, (datasets,)
        Datasets that the engine has finished, and those that were fitted one by one.
    notes : list of str
        What the user should know about the run.

    Raises
    ------
    DataError
        If the file cannot be read or written, or belongs to another run.
    """

    def __init__(self, result: ChunkResult, path: str | Path | None, fingerprint: dict[str, str]) -> None:
        self.result, self.fingerprint = result, fingerprint
        count = len(result.status)
        self.fitted, self.fitted_singly = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
        self.notes: list[str] = []
        self.path = None if path is None else Path(path)
        self._due, self._is_saved = time.monotonic() + WRITE_INTERVAL, True
        if self.path is not None:
            self._check_path(self.path)
            if self.path.exists():
                self._restore(self.path)

    @property
    def _partial_path(self) -> Path:
        """The file beside the checkpoint that is renamed once it is complete."""
        assert self.path is not None
        return self.path.with_name(f"{self.path.name}.part")

    def _check_path(self, path: Path) -> None:
        """Raise an error if the file cannot be written, before hours of work."""
        if path.is_dir():
            raise DataError(f"checkpoint: {path} is a folder; give the name of a file.")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._partial_path.open("wb").close()
            self._partial_path.unlink()
        except OSError as error:
            raise DataError(f"checkpoint: {path} cannot be written: {error.strerror or error}.") from None

    def _restore(self, path: Path) -> None:
        """Take over the results of the file."""
        arrays = read_archive(path, "a checkpoint")
        try:
            header = json.loads(str(arrays["header"]))
            version, stored = header["checkpoint"], dict(header["fingerprint"])
        except (KeyError, ValueError, TypeError, RecursionError):
            raise DataError(
                f"checkpoint: {path} is not a checkpoint of fit_batch; it would be overwritten. Give another name."
            ) from None
        different = [name for name in {**self.fingerprint, **stored} if stored.get(name) != self.fingerprint.get(name)]
        if version != FORMAT_VERSION or different:
            reason = f": {', '.join(different)} differ" if different else ""
            raise DataError(
                f"checkpoint: {path} belongs to another run{reason}. Give another name, or delete the file to begin "
                "anew."
            )
        try:
            self._take_over(arrays)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise DataError(f"checkpoint: {path} is damaged: {error}. Delete it to begin anew.") from None

    def _take_over(self, arrays: Mapping[str, Any]) -> None:
        """Copy the arrays of the file; raise an ordinary error if they do not fit."""
        numbers = arrays["numbers"]
        values = {field.name: arrays[field.name] for field in fields(ChunkResult)}
        for name, array in values.items():
            expected = getattr(self.result, name)
            if array.shape != (len(numbers), *expected.shape[1:]) or array.dtype != expected.dtype:
                raise ValueError(f"{name} has the shape {array.shape}")
        status = values["status"]
        if len(status) and not 0 <= int(status.min()) <= int(status.max()) < len(STATUSES):
            raise ValueError("a status code is unknown")
        self.result.assign(numbers, ChunkResult(**values))
        self.fitted[arrays["fitted"]] = True
        self.fitted_singly[arrays["fitted_singly"]] = True

    def keep(self, chosen: IntArray, part: ChunkResult) -> None:
        """Take over the results of some datasets that the engine has finished."""
        self.result.assign(chosen, part)
        self.fitted[chosen] = True
        self.write_when_due()

    def write_when_due(self) -> None:
        """Write the file unless it was written a short time ago."""
        self._is_saved = False
        if self.path is not None and time.monotonic() >= self._due:
            self.write()

    def write(self) -> None:
        """Write the file now. A failure becomes a note: the fits go on."""
        if self.path is None or self._is_saved:
            return
        begin = time.monotonic()
        numbers = np.flatnonzero(self.fitted | self.fitted_singly)
        header = {"checkpoint": FORMAT_VERSION, "fingerprint": self.fingerprint}
        arrays: dict[str, Any] = {f.name: getattr(self.result, f.name)[numbers] for f in fields(ChunkResult)}
        arrays |= {"fitted": np.flatnonzero(self.fitted), "fitted_singly": np.flatnonzero(self.fitted_singly)}
        try:
            with self._partial_path.open("wb") as file:
                np.savez(file, header=np.array(json.dumps(header)), numbers=numbers, **arrays)
                file.flush()
                os.fsync(file.fileno())
            self._partial_path.replace(self.path)
            self._is_saved = True
        except OSError as error:
            note = f"The checkpoint {self.path} could not be written: {error.strerror or error}."
            self.notes += [note] if note not in self.notes else []
        finally:
            with suppress(OSError):
                self._partial_path.unlink(missing_ok=True)
        now = time.monotonic()
        self._due = now + max(WRITE_INTERVAL, (now - begin) / MAX_WRITE_SHARE)

    def mark_interrupted(self) -> None:
        """Give all datasets that are not finished the status `INTERRUPTED`."""
        self.result.status[~(self.fitted | self.fitted_singly)] = STATUSES.index(Status.INTERRUPTED)
