"""Repeat a fit with another model, other data, or other arguments of `fit`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Dataset
from ..fitting.driver import fit
from ..model import Model
from ..results.fit_result import FitResult
from ..support.errors import FitError


def refit_with(done: FitResult, model: Model | None = None, data: Dataset | None = None, **changes: Any) -> FitResult:
    """Repeat a fit with the arguments of the first one, except for those given here.

    Parameters
    ----------
    done : FitResult
        The first fit.
    model : Model, optional
        By default the model of the first fit, before local parameters were repeated.
    data : Dataset, optional
        With the same trajectories. By default the data of the first fit.
    **changes
        Arguments of `fit`. A dict is merged with that of the first fit, so that it may name only some parameters.

    Returns
    -------
    FitResult
    """
    arguments = collect_fit_arguments(done)
    for name, value in changes.items():
        is_merged = isinstance(arguments.get(name), dict) and isinstance(value, dict)
        arguments[name] = {**arguments[name], **value} if is_merged else value
    return fit(get_refittable_model(done) if model is None else model, done.data if data is None else data, **arguments)


def get_refittable_model(done: FitResult) -> Model:
    """Return the model of a fit before local parameters were repeated, which can be fitted again.

    Raises
    ------
    FitError
        If the model cannot be fitted again: doses have become a part of it, or an old file lacks it.
    """
    if done.shared is None:
        raise FitError(
            "This fit cannot be repeated: it was saved by an older version, which left out some of what is needed. Fit "
            "the data again, then repeat that fit."
        )
    if done.shared.variants or any(q.doses for q in done.data.trajectories):
        raise FitError("Fits of data with doses cannot be repeated automatically. Call fit with the changed model.")
    return done.shared


def collect_fit_arguments(done: FitResult) -> dict[str, Any]:
    """Collect the arguments with which `fit` repeats a fit, from its estimate.

    Returns
    -------
    dict
        Keywords of `fit`, by the names of the parameters before local ones were repeated.
    """
    shared, index = get_refittable_model(done), done.index
    assert index is not None
    local, first = {}, {}
    for j, name in enumerate(shared.parameters):
        # Row k of `index` has the parameters of trajectory k; the first one of a local parameter represents all.
        first[name] = int(index[0, j])
        if len(np.unique(index[:, j])) > 1 or done.model.parameters[index[0, j]] != name:
            local[name] = [str(group) for group in index[:, j]]
    arguments: dict[str, Any] = {"bounds": {}, "fixed": {}, "priors": {}, "start": {}, "log": [], "local": local}
    prior_rows = {} if done.prior is None else {int(j): k for k, j in enumerate(done.prior.index)}
    for name, j in first.items():
        if done.fixed[j]:
            arguments["fixed"][name] = float(done.estimate[j])
            continue
        if np.isfinite(done.bounds[j]).any():
            arguments["bounds"][name] = tuple(float(end) for end in done.bounds[j])
        if done.log_scale[j]:
            arguments["log"].append(name)
        arguments["start"][name] = float(done.estimate[j])
        if done.prior is not None and j in prior_rows:
            k = prior_rows[j]
            lognormal = bool(done.prior.lognormal[k])
            centre = float(np.exp(done.prior.centre[k]) if lognormal else done.prior.centre[k])
            arguments["priors"][name] = ("lognormal" if lognormal else "normal", centre, float(done.prior.spread[k]))
    arguments |= {"method": done.method, "options": done.options, "seed": done.seed}
    return arguments
