"""Imports of optional libraries, with an error that says how to install a missing one."""

from __future__ import annotations

from typing import Any

from .errors import WeakformError


def format_install_hint(name: str) -> str:
    """Return the commands that install one of the optional extras of the package."""
    return f"pip install 'weakform[{name}]', or in a checkout: pip install '.[{name}]'"


def import_pandas() -> Any:
    """Import pandas, which results as data frames need; raise `WeakformError` if it is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise WeakformError(f"A data frame needs pandas; install it with: {format_install_hint('table')}") from None
    return pd
