"""Libraries that are not always there: what to say where one is missing."""

from __future__ import annotations

from typing import Any

from .errors import WeakformError


def extra(name: str) -> str:
    """How to install one of the extras."""
    return f"pip install 'weakform[{name}]', or in a checkout: pip install '.[{name}]'"


def pandas() -> Any:
    """Pandas, for results as data frames."""
    try:
        import pandas as pd
    except ImportError:
        raise WeakformError(f"A data frame needs pandas; install it with: {extra('table')}") from None
    return pd
