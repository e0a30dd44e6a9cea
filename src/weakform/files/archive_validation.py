"""Validation of a saved fit after it was read: types, shapes, ranges, and whether its parts agree with each other.

A saved fit is a file like any other and not trusted. Every failure is a `ValueError` or `TypeError`, which `load`
reports with the path.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np

from ..estimators import ESTIMATORS
from ..estimators.wendy import FINEST
from ..noise.kinds import KINDS
from ..results.fit_result import FitResult
from ..results.trace import DECISIONS
from ..support.whole_numbers import is_whole


def check(fit: FitResult) -> None:
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
        _want(len(model.expressions) == len(model.states), "each state needs an equation", len(model.expressions))
    _plain(fit)
    _data(fit)
    _numbers(fit)
    _records(fit)
    # The text report reads nearly every field: whatever the checks above overlooked fails here and not in front of the
    # user.
    str(fit)


def _want(good: bool, what: str, received: Any) -> None:
    """Raise `ValueError` with the requirement and the value received unless the requirement is met."""
    if not good:
        raise ValueError(f"{what}; received {str(received)[:40]!r}")


def _texts(what: str, words: Iterable[Any]) -> None:
    """Check that all items are text."""
    for word in words:
        _want(isinstance(word, str), f"{what} must be text", word)


def _real(what: str, value: Any, low: float = -math.inf) -> None:
    """Check that a value is a real number, NaN or not below `low`; booleans are refused."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    _want(number and (math.isnan(float(value)) or float(value) >= low), f"{what} must be a number", value)


def _shaped(what: str, array: Any, *shape: int | None) -> None:
    """Check that a value is an array of a shape; None as a length stands for any length."""
    received_shape = np.shape(array)
    fits = len(received_shape) == len(shape) and all(
        n is None or n == m for n, m in zip(shape, received_shape, strict=True)
    )
    _want(isinstance(array, np.ndarray) and fits, f"{what} must have the shape {shape}", received_shape)


def _plain(fit: FitResult) -> None:
    """Check the fields that hold text, counts and single numbers."""
    _want(fit.method in ESTIMATORS, "method must be a method of fit", fit.method)
    _texts("covariance_kind", [fit.covariance_kind])
    for name in ("warnings", "notes"):
        _texts(name, getattr(fit, name))
    for name in ("tied", "units"):
        table = getattr(fit, name)
        _want(isinstance(table, dict), f"{name} must be a table", table)
        _texts(name, [*table, *table.values()])
    for name in ("seed", "iterations"):
        _want(is_whole(getattr(fit, name), 0), f"{name} must be a whole number, not negative", getattr(fit, name))
    # The mesh is refined by halving its intervals, so only powers of two up to the finest one occur.
    meshes = [2**k for k in range(FINEST.bit_length())]
    _want(is_whole(fit.mesh, 1) and fit.mesh in meshes, f"mesh must be one of {meshes}", fit.mesh)
    _want(isinstance(fit.sigma_estimated, bool), "sigma_estimated must be true or false", fit.sigma_estimated)
    _real("seconds", fit.seconds, 0.0)
    _real("log_likelihood", fit.log_likelihood)


def _data(fit: FitResult) -> None:
    """Check the dataset, and the fitted states, of shape `(time, D)`, of each of its trajectories."""
    data, D = fit.data, len(fit.model.states)
    K = data.D
    _texts("names of columns", data.names or ())
    _texts("inputs", data.inputs)
    _texts("notes", data.notes)
    _want(
        len(data.noise) == K and set(data.noise) <= set(KINDS),
        f"noise must name a known kind for each of the {K} measured columns",
        data.noise,
    )
    if data.sigma is not None:
        _shaped("sigma of the data", data.sigma, K)
    if data.covariance is not None:
        _shaped("covariance of the data", data.covariance, K, K)
    if data.truth is not None:
        _shaped("true parameters", data.truth.parameters, None)
        _shaped("true states", data.truth.states, None, None)
        _shaped("true initial state", data.truth.initial, None)
        _shaped("true sigma", data.truth.sigma, None)
    _want(len(fit.denoised) == len(data.trajectories), "each trajectory needs fitted states", len(fit.denoised))
    for q, states in zip(data.trajectories, fit.denoised, strict=True):
        n = len(q.times)
        _shaped("times", q.times, n)
        increase = n >= 1 and bool(np.isfinite(q.times).all() and (np.diff(q.times) > 0).all())
        _want(increase, "times must increase", q.times)
        _shaped("values", q.values, n, K)
        _shaped("states", states, n, D)
        _texts("labels", [q.label])
        _real("density", q.density)
        for what, array in (("scale", q.scale), ("weights", q.weights)):
            if array is not None:
                _shaped(what, array, n, K)
        _want((q.within is None) == (q.repeats is None), "repeats and within must be given together", q.repeats)
        for what, array in (("within", q.within), ("repeats", q.repeats)):
            if array is not None:
                _shaped(what, array, K)
        if data.inputs:
            _want(q.inputs is not None, "a trajectory has no inputs", None)
        if q.inputs is not None:
            _shaped("inputs", q.inputs.values, len(q.inputs.times), len(data.inputs))
            _want(len(q.inputs.hold) == len(data.inputs), "hold must have one value for each input", q.inputs.hold)


def _numbers(fit: FitResult) -> None:
    """Check the shapes and ranges of estimates, covariances, nodes, weak residuals and priors."""
    J, D, K = len(fit.model.parameters), len(fit.model.states), fit.data.D
    for name in ("estimate", "fixed", "at_bound", "log_scale"):
        _shaped(name, getattr(fit, name), J)
    _want(bool(np.isfinite(fit.estimate).all()), "estimates must be finite", fit.estimate)
    _shaped("covariance", fit.covariance, J, J)
    _shaped("bounds", fit.bounds, J, 2)
    _shaped("sigma", fit.sigma, K)
    _want((fit.shared is None) == (fit.index is None), "index and shared must be given together", fit.index)
    needs_shared = bool(fit.nodes) or ESTIMATORS[fit.method].solves_equations
    _want(fit.shared is not None or not needs_shared, "a shared model is required", None)
    if fit.shared is not None and fit.index is not None:
        own = len(fit.shared.parameters)
        _shaped("index", fit.index, len(fit.data.trajectories), own)
        _want(bool(((fit.index >= 0) & (fit.index < J)).all()), "index must hold positions of parameters", fit.index)
        count = len(fit.data.trajectories)
        _want(len(fit.nodes) in (0, count), "each trajectory needs nodes", len(fit.nodes))
    for (times, states), q in zip(fit.nodes, fit.data.trajectories, strict=False):
        _shaped("nodes", times, None)
        _shaped("states at nodes", states, len(times), D)
        _want(
            bool((np.diff(times) >= 0).all() and np.isin(q.times, times).all()),
            "nodes must increase and contain the sample times",
            times,
        )
    if fit.weak_residuals:
        _want(
            len(fit.weak_residuals) == len(fit.data.trajectories),
            "each trajectory needs weak residuals",
            len(fit.weak_residuals),
        )
    for centres, scores in fit.weak_residuals:
        _shaped("centres", centres, None)
        _shaped("weak residuals", scores, D, len(centres))
    if fit.prior is not None:
        n = len(fit.prior.index)
        for name in ("index", "centre", "spread", "lognormal", "log_scale"):
            _shaped(f"{name} of the prior", getattr(fit.prior, name), n)
        _want(
            bool(((fit.prior.index >= 0) & (fit.prior.index < J)).all()),
            "index of the prior must hold positions of parameters",
            fit.prior.index,
        )


def _records(fit: FitResult) -> None:
    """Check starts, alternatives, test functions, goodness of fit and profiles."""
    names, J = fit.model.parameters, len(fit.model.parameters)
    for step in () if fit.trace is None else fit.trace.steps:
        _want(step.decision in DECISIONS, f"a step of the trace is one of {', '.join(DECISIONS)}", step.decision)
    for start in fit.starts:
        for what, p in (("start", start.start), ("estimate", start.estimate)):
            if p is not None:
                _shaped(f"{what} of a start", p, J)
        for count in (start.iterations, start.evaluations):
            _want(is_whole(count, 0), "counts of a start must be whole numbers", count)
    for alternative in fit.alternatives:
        _shaped("an alternative", alternative.estimate, J)
    for basis in fit.basis:
        _texts("a description of test functions", [basis.description])
        _real("a radius", basis.radius, 0.0)
        _want(is_whole(basis.count, 0), "a count of test functions must be a whole number", basis.count)
    goodness = fit.goodness
    if goodness is not None:
        for name, value in vars(goodness).items():
            if name != "misfits" and not (value is None and name in ("chi_square_p", "lack_of_fit_p")):
                _real(name, value)
        _want(is_whole(goodness.freedom, -(10**9)), "degrees of freedom must be a whole number", goodness.freedom)
        for misfit in goodness.misfits:
            _want(
                misfit.equation in range(len(fit.model.states)),
                "a misfit must belong to an equation of the model",
                misfit.equation,
            )
            _want(
                misfit.trajectory in range(len(fit.data.trajectories)),
                "a misfit must belong to a trajectory of the data",
                misfit.trajectory,
            )
            for value in (misfit.start, misfit.stop, misfit.score):
                _real("times and score of a misfit", value)
    for name, profile in fit.profiles.items():
        _want(name in names, "a profile must belong to a parameter of the model", name)
        _shaped("values of a profile", profile.values, None)
        _shaped("misfits of a profile", profile.misfit, len(profile.values))
        _real("the level of a profile", profile.level)
        _want(0 < profile.level < 1, "the level of a profile must lie between 0 and 1", profile.level)
