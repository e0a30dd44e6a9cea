"""Preparation of a fit: the estimation problem in the coordinates that the estimators use, and first guesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.matching import MatchedPair
from ..estimators import ESTIMATORS, Estimator, Options, Task, reject_unused_options
from ..estimators.problem_setup import build_problem
from ..parameters import ResolvedParameters
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.progress import Watch
from ..weak.weak_problem import Basis


@dataclass(frozen=True)
class Prepared:
    """A problem that is ready to be searched.

    Attributes
    ----------
    estimator : Estimator
        The chosen method, or the one that replaces it if there is no weak form of the data.
    task : Task
    guesses : tuple of ndarray, (J,)
        First guesses in working coordinates; the search may add more starts.
    """

    estimator: Estimator
    task: Task
    guesses: tuple[FloatArray, ...]


def prepare(
    parameters: ResolvedParameters,
    matched: MatchedPair,
    estimator: Estimator,
    options: Options,
    basis: Basis,
    *,
    watch: Watch,
) -> Prepared:
    """Build the estimation problem: weak forms or hidden states, bounds and priors in working coordinates.

    Parameters
    ----------
    parameters : ResolvedParameters
    matched : MatchedPair
    estimator : Estimator
        The chosen method.
    options : Options
    basis : Basis
        Test functions.
    watch : Watch
        Reports progress and ends the fit when its time is up.

    Returns
    -------
    Prepared

    Raises
    ------
    FitError
        If there is nothing to estimate, or the method does not support the priors or the options.
    """
    free, scale = parameters.free, parameters.scale
    if not free.any():
        raise FitError("All parameters are fixed; there is nothing to estimate.")
    if parameters.prior is not None and not estimator.likelihood:
        users = [candidate.name for candidate in ESTIMATORS.values() if candidate.likelihood]
        raise FitError(f"Method {estimator.name!r} has no likelihood to join with priors; use {', '.join(users)}.")
    estimator, problem = build_problem(parameters, matched, estimator, basis)
    # With hidden states another method may have replaced the chosen one, and may not accept the same options.
    reject_unused_options(estimator, options.non_default_names)
    names = problem.model.parameters
    linear = np.isin(names, problem.model.linear_among([name for name, f in zip(names, free, strict=True) if f]))
    lower, upper = parameters.bounds
    task = Task(
        problem=problem,
        free=free,
        base=parameters.fixed_values,
        lower=scale.to_working(lower),
        upper=scale.to_working(upper),
        # On a log scale a parameter enters through its exponential, which is never linear.
        linear=linear & ~scale.log,
        options=options,
        stop=watch,
        scale=scale,
        prior=None if parameters.prior is None else parameters.prior.convert_to_scale(scale),
    )
    if estimator.check is not None:
        estimator.check(task)
    start = parameters.start
    return Prepared(estimator, task, () if start is None else (np.where(free, scale.to_working(start), task.base),))
