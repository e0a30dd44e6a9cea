"""Small checks of what is given."""

from __future__ import annotations

import numbers
from pathlib import Path

from .errors import WeakformError


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, NumPy's or Python's, and not below `least`."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least


def refuse_devices(path: Path, error: type[WeakformError]) -> None:
    """Refuse devices and pipes, which may never end; what is not there is left to whoever opens it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise error(f"{path} is not a file but a device or a pipe; save what it holds to a file first.")
