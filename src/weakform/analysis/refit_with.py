"""The same fit once more: with another model, other data, or something else changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data import Dataset
from ..fitting.driver import fit
from ..model import Model
from ..results.fit_result import FitResult
from ..support.errors import FitError


def again(done: FitResult, model: Model | None = None, data: Dataset | None = None, **changes: Any) -> FitResult:
    """Fit again, with what the first fit was told; `changes` are arguments of `fit`, and names may be new.

    Parameters
    ----------
    done : FitResult
    model : Model, optional
        In place of the one before local parameters were multiplied.
    data : Dataset, optional
        With the same trajectories.
    """
    told = arguments_of(done)
    for name, value in changes.items():
        told[name] = {**told[name], **value} if isinstance(told.get(name), dict) and isinstance(value, dict) else value
    return fit(plain_model(done) if model is None else model, done.data if data is None else data, **told)


def plain_model(done: FitResult) -> Model:
    """The model as it can be fitted again; refused where doses are a part of it."""
    if done.shared is None:
        raise FitError("This fit was saved by an older version, without all that is needed to fit again; fit it anew.")
    if done.shared.variants or any(q.doses for q in done.data.trajectories):
        raise FitError("Fits of data with doses cannot be changed and fitted again here; call fit yourself.")
    return done.shared


def arguments_of(done: FitResult) -> dict[str, Any]:
    """What `fit` was told of the parameters, by the names of the model before local ones were multiplied."""
    shared, index = plain_model(done), done.index
    assert index is not None
    local, first = {}, {}
    for j, name in enumerate(shared.parameters):
        first[name] = int(index[0, j])
        if len(np.unique(index[:, j])) > 1 or done.model.parameters[index[0, j]] != name:
            local[name] = [str(place) for place in index[:, j]]
    told: dict[str, Any] = {"bounds": {}, "fixed": {}, "priors": {}, "start": {}, "log": [], "local": local}
    known = {} if done.prior is None else {int(j): k for k, j in enumerate(done.prior.index)}
    for name, j in first.items():
        if done.fixed[j]:
            told["fixed"][name] = float(done.estimate[j])
            continue
        if np.isfinite(done.bounds[j]).any():
            told["bounds"][name] = tuple(float(end) for end in done.bounds[j])
        if done.log_scale[j]:
            told["log"].append(name)
        told["start"][name] = float(done.estimate[j])
        if done.prior is not None and j in known:
            k = known[j]
            lognormal = bool(done.prior.lognormal[k])
            centre = float(np.exp(done.prior.centre[k]) if lognormal else done.prior.centre[k])
            told["priors"][name] = ("lognormal" if lognormal else "normal", centre, float(done.prior.spread[k]))
    told |= {"method": done.method, "options": done.options, "seed": done.seed}
    return told
