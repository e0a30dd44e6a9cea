"""Validation of a saved fit after it was read: types, shapes, ranges, and whether its parts agree with each other.

A saved fit may come from anywhere and is not trusted. Every failure is an ordinary Python error, such as `ValueError`,
which `load` reports as a `DataError` with the path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from ..estimators import ESTIMATORS
from ..estimators.wendy import MAX_NODES_PER_SAMPLE
from ..noise.kinds import KINDS
from ..results.fit_result import FitResult
from ..results.trace import DECISIONS
from ..support.whole_numbers import is_whole


def check_fit(fit: FitResult) -> None:
    """Check that every part of a fit has the type and shape that `fit` gives it.

    Parameters
    ----------
    fit : FitResult

    Raises
    ------
    ValueError, TypeError
        For the first part that is wrong; the message names it and shows what was received.
    """
    for model in (fit.model, *fit.model.variants, *([] if fit.shared is None else [fit.shared])):
        _require(len(model.expressions) == len(model.states), "each state needs an equation", len(model.expressions))
    _check_plain_fields(fit)
    _check_dataset(fit)
    _check_arrays(fit)
    _check_records(fit)
    # The text report reads nearly every field: what the checks above overlook fails here, while the file is loaded, and
    # not when the user prints the fit.
    str(fit)


def _require(is_met: bool, requirement: str, received: Any) -> None:
    """Raise `ValueError` with the requirement and the value received unless the requirement is met."""
    if not is_met:
        raise ValueError(f"{requirement}; received {str(received)[:40]!r}")


def _require_texts(what: str, items: Iterable[Any]) -> None:
    """Check that all items are text."""
    for word in items:
        _require(isinstance(word, str), f"{what} must be text", word)


def _require_number(what: str, value: Any, low: float = -math.inf) -> None:
    """Check that a value is a real number that is NaN or at least `low`; booleans are refused."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    _require(number and (math.isnan(float(value)) or float(value) >= low), f"{what} must be a number", value)


def _require_shape(what: str, array: Any, *shape: int | None) -> None:
    """Check that a value is an array of a shape; None as a length stands for any length."""
    received_shape = np.shape(array)
    fits = len(received_shape) == len(shape) and all(
        n is None or n == m for n, m in zip(shape, received_shape, strict=True)
    )
    _require(isinstance(array, np.ndarray) and fits, f"{what} must have the shape {shape}", received_shape)


def _check_plain_fields(fit: FitResult) -> None:
    """Check the fields that hold text, counts and single numbers."""
    _require(fit.method in ESTIMATORS, "method must be a method of fit", fit.method)
    _require_texts("covariance_kind", [fit.covariance_kind])
    for name in ("warnings", "notes"):
        _require_texts(name, getattr(fit, name))
    for name in ("tied", "units"):
        table = getattr(fit, name)
        _require(isinstance(table, dict), f"{name} must be a table", table)
        _require_texts(name, [*table, *table.values()])
    for name in ("seed", "iterations"):
        _require(is_whole(getattr(fit, name), 0), f"{name} must be a whole number, not negative", getattr(fit, name))
    # The mesh is refined by halving its intervals, so only powers of two up to the finest one occur.
    meshes = [2**k for k in range(MAX_NODES_PER_SAMPLE.bit_length())]
    _require(is_whole(fit.mesh, 1) and fit.mesh in meshes, f"mesh must be one of {meshes}", fit.mesh)
    _require(isinstance(fit.sigma_estimated, bool), "sigma_estimated must be true or false", fit.sigma_estimated)
    _require_number("seconds", fit.seconds, 0.0)
    _require_number("log_likelihood", fit.log_likelihood)


def _check_dataset(fit: FitResult) -> None:
    """Check the dataset, and the fitted states, of shape `(time, D)`, of each of its trajectories."""
    data, D = fit.data, len(fit.model.states)
    K = data.D
    _require_texts("names of columns", data.names or ())
    _require_texts("inputs", data.inputs)
    _require_texts("notes", data.notes)
    _require(
        len(data.noise) == K and set(data.noise) <= set(KINDS),
        f"noise must name a known kind for each of the {K} measured columns",
        data.noise,
    )
    if data.sigma is not None:
        _require_shape("sigma of the data", data.sigma, K)
    if data.covariance is not None:
        _require_shape("covariance of the data", data.covariance, K, K)
    if data.truth is not None:
        _require_shape("true parameters", data.truth.parameters, None)
        _require_shape("true states", data.truth.states, None, None)
        _require_shape("true initial state", data.truth.initial, None)
        _require_shape("true sigma", data.truth.sigma, None)
    _require(len(fit.denoised) == len(data.trajectories), "each trajectory needs fitted states", len(fit.denoised))
    for q, states in zip(data.trajectories, fit.denoised, strict=True):
        n = len(q.times)
        _require_shape("times", q.times, n)
        increase = n >= 1 and bool(np.isfinite(q.times).all() and (np.diff(q.times) > 0).all())
        _require(increase, "times must increase", q.times)
        _require_shape("values", q.values, n, K)
        _require_shape("states", states, n, D)
        _require_texts("labels", [q.label])
        _require_number("density", q.density)
        for what, array in (("scale", q.scale), ("weights", q.weights)):
            if array is not None:
                _require_shape(what, array, n, K)
        _require((q.within is None) == (q.repeats is None), "repeats and within must be given together", q.repeats)
        for what, array in (("within", q.within), ("repeats", q.repeats)):
            if array is not None:
                _require_shape(what, array, K)
        if data.inputs:
            _require(q.inputs is not None, "a trajectory has no inputs", None)
        if q.inputs is not None:
            _require_shape("inputs", q.inputs.values, len(q.inputs.times), len(data.inputs))
            _require(len(q.inputs.hold) == len(data.inputs), "hold must have one value for each input", q.inputs.hold)


def _check_arrays(fit: FitResult) -> None:
    """Check the shapes and ranges of estimates, covariances, nodes, weak residuals and priors."""
    J, D, K = len(fit.model.parameters), len(fit.model.states), fit.data.D
    for name in ("estimate", "fixed", "at_bound", "log_scale"):
        _require_shape(name, getattr(fit, name), J)
    _require(bool(np.isfinite(fit.estimate).all()), "estimates must be finite", fit.estimate)
    _require_shape("covariance", fit.covariance, J, J)
    _require_shape("bounds", fit.bounds, J, 2)
    _require_shape("sigma", fit.sigma, K)
    _require((fit.shared is None) == (fit.index is None), "index and shared must be given together", fit.index)
    needs_shared = bool(fit.nodes) or ESTIMATORS[fit.method].solves_equations
    _require(fit.shared is not None or not needs_shared, "a shared model is required", None)
    if fit.shared is not None and fit.index is not None:
        own = len(fit.shared.parameters)
        _require_shape("index", fit.index, len(fit.data.trajectories), own)
        _require(bool(((fit.index >= 0) & (fit.index < J)).all()), "index must hold positions of parameters", fit.index)
        count = len(fit.data.trajectories)
        _require(len(fit.nodes) in (0, count), "each trajectory needs nodes", len(fit.nodes))
    for (times, states), q in zip(fit.nodes, fit.data.trajectories, strict=False):
        _require_shape("nodes", times, None)
        _require_shape("states at nodes", states, len(times), D)
        _require(
            bool((np.diff(times) >= 0).all() and np.isin(q.times, times).all()),
            "nodes must increase and contain the sample times",
            times,
        )
    if fit.weak_residuals:
        _require(
            len(fit.weak_residuals) == len(fit.data.trajectories),
            "each trajectory needs weak residuals",
            len(fit.weak_residuals),
        )
    for centres, scores in fit.weak_residuals:
        _require_shape("centres", centres, None)
        _require_shape("weak residuals", scores, D, len(centres))
    if fit.prior is not None:
        n = len(fit.prior.index)
        for name in ("index", "centre", "spread", "lognormal", "log_scale"):
            _require_shape(f"{name} of the prior", getattr(fit.prior, name), n)
        _require(
            bool(((fit.prior.index >= 0) & (fit.prior.index < J)).all()),
            "index of the prior must hold positions of parameters",
            fit.prior.index,
        )


def _check_records(fit: FitResult) -> None:
    """Check starts, alternatives, test functions, goodness of fit and profiles."""
    names, J = fit.model.parameters, len(fit.model.parameters)
    for step in () if fit.trace is None else fit.trace.steps:
        _require(step.decision in DECISIONS, f"a step of the trace is one of {', '.join(DECISIONS)}", step.decision)
    for start in fit.starts:
        for what, p in (("start", start.start), ("estimate", start.estimate)):
            if p is not None:
                _require_shape(f"{what} of a start", p, J)
        for count in (start.iterations, start.evaluations):
            _require(is_whole(count, 0), "counts of a start must be whole numbers", count)
    for alternative in fit.alternatives:
        _require_shape("an alternative", alternative.estimate, J)
    for basis in fit.basis:
        _require_texts("a description of test functions", [basis.description])
        _require_number("a radius", basis.radius, 0.0)
        _require(is_whole(basis.count, 0), "a count of test functions must be a whole number", basis.count)
    goodness = fit.goodness
    if goodness is not None:
        for name, value in vars(goodness).items():
            if name != "misfits" and not (value is None and name in ("chi_square_p", "lack_of_fit_p")):
                _require_number(name, value)
        _require(is_whole(goodness.freedom, -(10**9)), "degrees of freedom must be a whole number", goodness.freedom)
        for misfit in goodness.misfits:
            _require(
                misfit.equation in range(len(fit.model.states)),
                "a misfit must belong to an equation of the model",
                misfit.equation,
            )
            _require(
                misfit.trajectory in range(len(fit.data.trajectories)),
                "a misfit must belong to a trajectory of the data",
                misfit.trajectory,
            )
            for value in (misfit.start, misfit.stop, misfit.score):
                _require_number("times and score of a misfit", value)
    for name, profile in fit.profiles.items():
        _require(name in names, "a profile must belong to a parameter of the model", name)
        _require_shape("values of a profile", profile.values, None)
        _require_shape("misfits of a profile", profile.misfit, len(profile.values))
        _require_number("the level of a profile", profile.level)
        _require(0 < profile.level < 1, "the level of a profile must lie between 0 and 1", profile.level)
