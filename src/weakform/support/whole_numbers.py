"""Small checks of arguments: whole numbers and regular files."""

from __future__ import annotations

import numbers
from pathlib import Path

from .errors import WeakformError


def is_whole(value: object, least: int) -> bool:
    """Return True if a value is a whole number, of NumPy or Python, and at least `least`; a boolean is none."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def refuse_devices(path: Path, error: type[WeakformError]) -> None:
    """Raise `error` if a path is a device or a pipe, which may never end; a missing path is no error here."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise error(f"{path} is not a file but a device or a pipe; save its content to a file first.")
