"""Cross-validation in time: a model is fitted without a block of samples, and has to say what was measured there.

Samples next to each other tell nearly the same, so that blocks are left out, not single ones. What counts is the
log-density of the values left out, with the σ that the others gave: a model with too many parameters says too little,
or is too sure.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..inference.fitted_states import fitted
from ..noise.kinds import KINDS
from ..results.fit_result import FitResult
from ..support.array_types import BoolArray
from ..support.errors import FitError, WeakformError
from ..support.whole_numbers import is_whole
from .refit_with import again

LOST = -1e3
"""Log-density of a value of which a model can say nothing."""


@np.errstate(all="ignore")
def left_out(fit: FitResult, folds: int) -> float:
    """The mean log-density of values that a fit has not seen, over blocks of each trajectory."""
    if not is_whole(folds, 2):
        raise FitError(f"folds must be a whole number, at least 2; received {folds!r}.")
    shortest = min(len(q.times) for q in fit.data.trajectories)
    if shortest < 2 * folds:
        raise FitError(f"{folds} blocks need {2 * folds} samples of each trajectory; the shortest has {shortest}.")
    total = count = 0.0
    for block in range(folds):
        blocks = [_block(len(q.times), block, folds) for q in fit.data.trajectories]
        parts = [
            replace(q, values=np.where(away[:, None], np.nan, q.values))
            for q, away in zip(fit.data.trajectories, blocks, strict=True)
        ]
        try:
            found = again(fit, data=fit.data.replaced(trajectories=tuple(parts)))
        except WeakformError as error:
            raise FitError(f"Without block {block + 1} of {folds} the model cannot be fitted: {error}") from None
        for k, (q, away) in enumerate(zip(fit.data.trajectories, blocks, strict=True)):
            seen = fitted(found, k)
            for d, name in enumerate(fit.data.noise):
                there = away & q.measured[:, d]
                kind = KINDS[name]
                sigma = found.sigma[d] * q.scales[there, d]
                off = (kind.to_working(q.values[there, d]) - kind.to_working(seen[there, d])) / sigma
                log = -0.5 * off**2 - np.log(sigma * np.sqrt(2 * np.pi) * kind.numeric_slope(q.values[there, d]))
                total += float(np.sum(np.where(np.isfinite(log), np.maximum(log, LOST), LOST)))
                count += float(there.sum())
    return total / max(count, 1.0)


def _block(n: int, block: int, folds: int) -> BoolArray:
    """Which of n samples are left out; the first never is, since a trajectory begins there."""
    away = np.zeros(n, dtype=bool)
    edges = np.linspace(1, n, folds + 1).astype(int)
    away[edges[block] : edges[block + 1]] = True
    return away
