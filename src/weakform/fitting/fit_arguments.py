"""Validation of the arguments of `fit`."""

from __future__ import annotations

from typing import Any

from ..data import Dataset
from ..model import Model
from ..support.errors import FitError
from ..support.whole_numbers import is_whole


def check_model(model: Any) -> None:
    """Raise `FitError` if the model is not a `Model`."""
    if not isinstance(model, Model):
        raise FitError(f"The model must be a Model, such as Model.from_text(...); received a {type(model).__name__}.")


def check_arguments(model: Any, data: Any, starts: Any, basis: Any, seed: Any) -> None:
    """Raise `FitError` for an argument of the wrong type or out of range."""
    check_model(model)
    if not isinstance(data, Dataset):
        raise FitError(f"The data must be a Dataset, such as Dataset(t, U); received a {type(data).__name__}.")
    if starts is not None and not is_whole(starts, 1):
        raise FitError(f"starts must be a whole number, at least 1; received {starts!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    if basis is not None and (isinstance(basis, type) or not hasattr(basis, "build")):
        raise FitError(f"The basis must be test functions such as Local() or Orthonormal(); received {basis!r}.")
    if not model.parameters:
        raise FitError("The model has no parameters; there is nothing to estimate.")
    for name in data.inputs:
        if name in model.parameters:
            raise FitError(
                f"{name!r} is an input of the data and a parameter of the model; build the model with "
                f"inputs=[{name!r}]."
            )
