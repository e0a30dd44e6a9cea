"""The errors a user may meet. Each says what is wrong, what was expected, what was received, what to do."""

from pathlib import Path


class WeakformError(ValueError):
    """Any input that weakform refuses."""


class ModelError(WeakformError):
    """A model that cannot be read: the message names the place and the reason."""


class DataError(WeakformError):
    """Measurements that cannot be used."""


class FitError(WeakformError):
    """A fit that cannot be set up: bounds, starts, fixed values, options."""


def regular(path: Path, error: type[WeakformError]) -> None:
    """Refuse devices and pipes, which may never end; what is not there is left to whoever opens it."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise error(f"{path} is not a file but a device or a pipe; save what it holds to a file first.")
