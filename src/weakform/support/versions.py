"""The version of the package, and those that matter for its numbers."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

__version__ = "1.2.0"


def versions() -> str:
    """The versions that matter for the numbers, in one line."""
    found = [f"weakform {__version__}", f"python {platform.python_version()}"]
    for name in ("numpy", "scipy", "symengine"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"{name} ?")
    return ", ".join(found)
