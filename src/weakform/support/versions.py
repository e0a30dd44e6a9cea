"""The version of the package, and the versions of the libraries on which its numbers depend."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__version__ = "1.2.0"


def describe_versions() -> str:
    """Return the versions of weakform, Python, NumPy, SciPy and SymEngine in one line."""
    entries = [f"weakform {__version__}", f"python {platform.python_version()}"]
    for name in ("numpy", "scipy", "symengine"):
        try:
            entries.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            entries.append(f"{name} ?")
    return ", ".join(entries)
