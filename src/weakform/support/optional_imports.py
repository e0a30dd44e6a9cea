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


def import_xarray() -> Any:
    """Import xarray, which NetCDF files need; raise `WeakformError` if it is not installed."""
    try:
        import xarray as xr
    except ImportError:
        raise WeakformError(
            f"An xarray Dataset or a NetCDF file needs xarray; install it with: {format_install_hint('batch')}"
        ) from None
    return xr


def require_h5netcdf() -> None:
    """Raise `WeakformError` if h5netcdf, which reads and writes NetCDF files for xarray, is not installed."""
    try:
        import h5netcdf  # noqa: F401
    except ImportError:
        raise WeakformError(f"A NetCDF file needs h5netcdf; install it with: {format_install_hint('batch')}") from None


def import_nibabel() -> Any:
    """Import nibabel, which NIfTI images need; raise `WeakformError` if it is not installed."""
    try:
        import nibabel
    except ImportError:
        raise WeakformError("A NIfTI image needs nibabel; install it with: pip install nibabel") from None
    return nibabel
