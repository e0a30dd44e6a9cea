"""Designs before any data: the standard errors to expect, from the sensitivities at a guess of the parameters.

The errors are the square roots of the diagonal of `(KᵀK)⁻¹`, with the sensitivities K over σ, computed from the
singular values of K with its columns scaled to length one. The part of K that fitted initial values absorb is projected
away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.wording import list_names, suggest_name
from .design_from_fit import check_noise_levels, check_samples, compute_new_sensitivities
from .experiment_design import Design

MIN_SINGULAR_SHARE = 1e-10
"""Share of the largest singular value of the scaled sensitivities below which a direction counts as not determined: it
is rounding error of the forward solution. By judgement."""
MIN_WEIGHT_IN_DIRECTION = 1e-6
"""Component of a parameter in an undetermined direction of length one above which its error is infinite. By
judgement."""


def design(
    model: Model,
    guess: Mapping[str, float],
    *,
    times: ArrayLike | Mapping[str, ArrayLike],
    initial: ArrayLike | Mapping[str, float] | None = None,
    sigma: float | Sequence[float],
    states: Sequence[str] | None = None,
    noise: str = "gaussian",
    fixed: Sequence[str] = (),
) -> Design:
    """Compute the standard errors to expect from experiments that have not been made yet.

    Parameters
    ----------
    model : Model
    guess : mapping
        Likely values of the parameters, by name.
    times : array_like, or mapping of str to array_like
        When to measure; or several such plans by name.
    initial : array_like, (D,), or mapping, optional
        Initial values of the states for which the model gives none; they count as fitted.
    sigma : float or sequence
        The noise level to expect, of all columns or of each.
    states : sequence of str, optional
        What to measure: states or named expressions; all states by default.
    noise : str
        The kind of noise.
    fixed : sequence of str
        Parameters that are known.

    Returns
    -------
    Design

    Examples
    --------
    >>> import weakform as wf
    >>> model = wf.Model.from_text("N' = r*N*(1 - N/K)")
    >>> plans = {"early": [0, 1, 2, 3], "late": [6, 7, 8, 9]}
    >>> wf.design(model, {"r": 1, "K": 10}, times=plans, initial=[0.5], sigma=0.2).best("K")
    'late'
    """
    p, columns, levels = _check_guess(model, guess, sigma, states, noise)
    unknown = [name for name in fixed if name not in model.parameters]
    free = np.array([name not in fixed for name in model.parameters])
    if isinstance(fixed, str) or unknown or not free.any():
        raise FitError(
            f"fixed must be a list of some, but not all, of the parameters {list_names(model.parameters)}; received "
            f"{fixed!r}."
        )
    plans = times if isinstance(times, Mapping) else {"these samples": times}
    if not plans:
        raise FitError("times must contain at least one plan; received an empty mapping.")
    both = [state for state in model.initial if isinstance(initial, Mapping) and state in initial]
    if both:
        raise FitError(f"The model itself gives {both[0]}(0); leave it out of initial.")
    experiments, samples = {}, {}
    for name, when in plans.items():
        checked = check_samples(str(name), {"times": when}, columns, levels)
        K = compute_new_sensitivities(model, p, initial, checked, dict.fromkeys(columns, noise), fitted=True)
        experiments[str(name)] = _compute_errors(K[:, free])
        samples[str(name)] = int(checked.counts.sum()) * len(checked.columns)
    names = tuple(name for name, is_free in zip(model.parameters, free, strict=True) if is_free)
    return Design(names, np.full(len(names), np.inf), experiments, samples)


def _check_guess(
    model: Any, guess: Any, sigma: Any, states: Sequence[str] | None, noise: str
) -> tuple[FloatArray, tuple[str, ...], FloatArray]:
    """Validate the arguments of `design`.

    Returns
    -------
    p : ndarray, (J,)
        The guess.
    columns : tuple of str
        What is measured.
    sigma : ndarray, (columns,)
    """
    if not isinstance(model, Model):
        raise FitError(f"The model must be a Model, such as Model.from_text(...); received a {type(model).__name__}.")
    if not isinstance(guess, Mapping):
        raise FitError(f"The guess must give a value for each parameter, by name; received {guess!r}.")
    lacking = [name for name in model.parameters if name not in guess]
    more = [name for name in guess if name not in model.parameters]
    if lacking or more:
        what = f"lacks {lacking[0]!r}" if lacking else f"names {more[0]!r}, which is not a parameter"
        raise FitError(f"The guess {what}; give a value for each of: {list_names(model.parameters)}.")
    if model.driving_names:
        raise FitError(
            "A design before any data is for models without inputs; this model has some. Fit once, and use "
            "fit.design(...)."
        )
    if noise not in KINDS:
        raise FitError(f"No kind of noise {noise!r}.{suggest_name(noise, KINDS)} There are: {', '.join(KINDS)}.")
    columns = tuple(states) if states is not None else model.states
    measurable = (*model.states, *model.observables)
    unknown = [name for name in columns if name not in measurable]
    if unknown:
        raise FitError(
            f"No state {unknown[0]!r}.{suggest_name(unknown[0], measurable)} There are: {list_names(measurable)}."
        )
    try:
        p = np.array([float(guess[name]) for name in model.parameters])
    except (TypeError, ValueError):
        raise FitError(f"The guess must be numbers; received {dict(guess)!r}.") from None
    return p, columns, check_noise_levels(sigma, len(columns))


def _compute_errors(K: FloatArray) -> FloatArray:
    """Compute standard errors `(J,)` from sensitivities `(rows, J)`; infinite for parameters they do not determine."""
    # Parameters of different units have columns of different lengths, which would hide small singular values.
    size = np.linalg.norm(K, axis=0)
    scaled = K / np.where(size > 0, size, 1.0)
    # With fewer rows than parameters only the full set of right singular vectors has the undetermined directions.
    _, values, vectors = np.linalg.svd(scaled, full_matrices=len(K) < K.shape[1])
    values = np.append(values, np.zeros(K.shape[1] - len(values)))
    determined = values > MIN_SINGULAR_SHARE * values[0]
    # (KᵀK)⁻¹ = V S⁻² Vᵀ, over the determined directions.
    variance = (vectors[determined] ** 2 / values[determined, None] ** 2).sum(axis=0)
    lost = (np.abs(vectors[~determined]) > MIN_WEIGHT_IN_DIRECTION).any(axis=0) | (size == 0)
    return np.where(lost, np.inf, np.sqrt(variance) / np.where(size > 0, size, 1.0))
