"""Cross-validation in time: fit without a block of samples, and score the prediction of that block.

Neighbouring samples carry nearly the same information, so that blocks are held out, not single samples. The score is
the log-density of the held-out values, with the σ of the fit to the others: a model with too many parameters predicts
badly, or is too confident.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..inference.fitted_states import compute_fitted_columns
from ..noise.kinds import KINDS
from ..results.fit_result import FitResult
from ..support.array_types import BoolArray
from ..support.errors import FitError, WeakformError
from ..support.whole_numbers import is_whole
from .refit_with import refit_with

MIN_LOG_DENSITY = -1e3
"""Log-density of a held-out value, at least: one value that the model cannot predict must not make the mean infinite.
By judgement: about 45 standard deviations off."""


@np.errstate(all="ignore")
def compute_held_out_log_density(fit: FitResult, folds: int) -> float:
    """Compute the mean log-density of held-out values over all blocks of all trajectories.

    Parameters
    ----------
    fit : FitResult
    folds : int
        Blocks of time, each of which is held out once.

    Returns
    -------
    float
        In natural logarithms, of densities in the units of the data: those of fits to the same data can be compared.

    Raises
    ------
    FitError
        If `folds` is not a whole number of at least 2, a trajectory is too short, or a fit fails.
    """
    if not is_whole(folds, 2):
        raise FitError(f"folds must be a whole number, at least 2; received {folds!r}.")
    shortest = min(len(q.times) for q in fit.data.trajectories)
    if shortest < 2 * folds:
        raise FitError(f"{folds} blocks need {2 * folds} samples of each trajectory; the shortest has {shortest}.")
    total = count = 0.0
    for block in range(folds):
        held_out = [_select_block(len(q.times), block, folds) for q in fit.data.trajectories]
        parts = [
            replace(q, values=np.where(rows[:, None], np.nan, q.values))
            for q, rows in zip(fit.data.trajectories, held_out, strict=True)
        ]
        try:
            refit = refit_with(fit, data=fit.data.replace_attributes(trajectories=tuple(parts)))
        except WeakformError as error:
            raise FitError(f"The model cannot be fitted without block {block + 1} of {folds}: {error}") from None
        for k, (q, rows) in enumerate(zip(fit.data.trajectories, held_out, strict=True)):
            predicted = compute_fitted_columns(refit, k)
            for d, name in enumerate(fit.data.noise):
                scored = rows & q.measured[:, d]
                kind = KINDS[name]
                sigma = refit.sigma[d] * q.scales[scored, d]
                off = (kind.to_working(q.values[scored, d]) - kind.to_working(predicted[scored, d])) / sigma
                # The density in the units of the data, so that kinds of noise can be compared.
                log = -0.5 * off**2 - np.log(sigma * np.sqrt(2 * np.pi) * kind.numeric_slope(q.values[scored, d]))
                total += float(np.sum(np.where(np.isfinite(log), np.maximum(log, MIN_LOG_DENSITY), MIN_LOG_DENSITY)))
                count += float(scored.sum())
    return total / max(count, 1.0)


def _select_block(n: int, block: int, folds: int) -> BoolArray:
    """Return which of n samples are in a block, `(n,)`; the first sample is in none: the trajectory begins there."""
    is_held_out = np.zeros(n, dtype=bool)
    edges = np.linspace(1, n, folds + 1).astype(int)
    is_held_out[edges[block] : edges[block + 1]] = True
    return is_held_out
