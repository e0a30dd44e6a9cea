"""Joining of several datasets of the same columns to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import DataError
from .dataset import Dataset


def join_datasets(datasets: Sequence[Dataset], labels: Sequence[str] | None, own_noise: bool) -> Dataset:
    """Join datasets; see `Dataset.join`."""
    first = datasets[0]
    for k, data in enumerate(datasets[1:], 2):
        for what in ("names", "noise", "inputs"):
            if getattr(data, what) != getattr(first, what):
                raise DataError(
                    f"Dataset {k} has other {what} than the first: {getattr(data, what)} and "
                    f"{getattr(first, what)}. Give all of them the same."
                )
        if not _are_equal(first.covariance, data.covariance):
            raise DataError(
                f"Dataset {k} has another covariance of the states than the first. Give all of them the same."
            )
        if (first.sigma is None) != (data.sigma is None):
            raise DataError(f"sigma is given for some datasets only (see dataset {k}); give it for all, or for none.")
    # A dataset has one σ for each state: where they differ, the scales of the points carry the ratio.
    sigma = first.sigma
    if sigma is not None and not all(_are_equal(sigma, data.sigma) for data in datasets):
        datasets = [_rescale_to(data, sigma) for data in datasets]
    trajectories = [q for data in datasets for q in data.trajectories]
    names = [str(k) for k in range(1, len(trajectories) + 1)] if labels is None else list(map(str, labels))
    if len(names) != len(trajectories) or len(set(names)) < len(names):
        raise DataError(f"{len(trajectories)} trajectories need as many different labels; received {labels!r}.")
    return first.replace_attributes(
        trajectories=tuple(replace(q, label=name) for q, name in zip(trajectories, names, strict=True)),
        own_noise=own_noise,
        notes=_join_notes(datasets, names),
        selected=all(data.selected for data in datasets),
    )


def _rescale_to(data: Dataset, sigma: FloatArray) -> Dataset:
    """Return the data with their σ `(D,)` replaced by `sigma`, and the ratio of both in the scales of the points."""
    assert data.sigma is not None
    if (data.sigma == 0).any() or (sigma == 0).any():
        raise DataError("Noise-free data (sigma 0) cannot be joined with noisy ones.")
    return data.replace_attributes(trajectories=tuple(q.multiply_scales(data.sigma / sigma) for q in data.trajectories))


def _join_notes(datasets: Sequence[Dataset], names: list[str]) -> tuple[str, ...]:
    """Collect the notes of all datasets, equal ones once, each preceded by the labels of its trajectories."""
    labels_of: dict[str, list[str]] = {}
    position = 0
    for data in datasets:
        own_labels = names[position : position + len(data.trajectories)]
        position += len(data.trajectories)
        for note in data.notes:
            labels_of.setdefault(note, []).extend(own_labels)
    return tuple(f"{', '.join(labels)}: {note}" for note, labels in labels_of.items())


def _are_equal(a: FloatArray | None, b: FloatArray | None) -> bool:
    """Return True if both arrays are None or equal."""
    return a is b or (a is not None and b is not None and np.array_equal(a, b))
