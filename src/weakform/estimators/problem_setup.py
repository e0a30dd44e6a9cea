"""A model and data as the problem that an estimator needs."""

from __future__ import annotations

import numpy as np
import symengine as se

from ..basis import Local
from ..collocation.hidden_state_problem import LatentProblem
from ..data import Dataset
from ..data.event_schedule import unknown_times
from ..data.matching import Matched, inputs_of
from ..parameters import Parameters
from ..support.errors import DataError, FitError
from ..weak.weak_problem import Basis, WeakProblem
from . import ESTIMATORS
from .estimation_problem import Problem
from .estimator import Estimator

SAMPLES, VALUES = 8, 4
"""Samples of a trajectory, and values of a state, that a weak form needs."""


def is_sparse(data: Dataset) -> bool:
    """Whether there are too few samples for test functions and the level of the noise."""
    few = min(len(q.times) for q in data.trajectories) < SAMPLES
    return few or bool((data.measurements < VALUES).any())


def pose(parameters: Parameters, matched: Matched, estimator: Estimator, basis: Basis) -> tuple[Estimator, Problem]:
    """The problem as the estimator needs it; where only a part is measured, another one may take its place."""
    unknown = unknown_times(parameters.shared, len(matched.data.trajectories))
    between = _between(parameters, matched.data)
    whole = matched.complete and not parameters.model.initial and not unknown and not between
    sparse = is_sparse(matched.data)
    if whole and not sparse and estimator.uses_weak_form:
        try:
            return estimator, _weak(parameters, matched.data, basis)
        except FitError:  # gaps that no test function bridges, or too few weak residuals
            if estimator.hidden_state_method is None or basis != Local():
                raise
    chosen = (
        estimator
        if estimator.handles_hidden_states or estimator.hidden_state_method is None
        else ESTIMATORS[estimator.hidden_state_method]
    )
    switched = {se.Symbol(name) for name in parameters.shared.switches}
    seen = [name for name, e in parameters.shared.observables.items() if e.free_symbols & switched]
    if unknown and seen:
        raise FitError(
            f"The named expression {seen[0]!r} switches at a time that is not known; fix what tells the time."
        )
    if unknown and not chosen.solves_equations:
        able = " or ".join(e.name for e in ESTIMATORS.values() if e.solves_equations)
        raise FitError(
            f"Method {estimator.name!r} needs to know beforehand when something happens, but here {unknown}. Fix what "
            f"tells the time, or use a method that solves the equations: {able}."
        )
    if chosen.handles_hidden_states:
        return chosen, LatentProblem.build(parameters, matched.data)
    able = " or ".join(
        e.name for e in ESTIMATORS.values() if e.handles_hidden_states or e.hidden_state_method is not None
    )
    if not whole:
        what = f"{', '.join(matched.hidden)} not measured" if matched.hidden else "initial values given"
        what = (
            "states that jump"
            if matched.complete is False and not matched.hidden and not parameters.model.initial
            else what
        )
        what = "an input or a switch that jumps between two samples" if between else what
        raise FitError(
            f"Method {estimator.name!r} needs every state measured as it stands, but here: {what}; use {able}."
        )
    raise DataError(
        f"At least {SAMPLES} samples of each trajectory and {VALUES} values of each state are needed for the weak "
        f"form; method {estimator.name!r} has no other way. Use {able}."
    )


def _between(parameters: Parameters, data: Dataset) -> bool:
    """Whether an input or a switch jumps between two samples, which no weak form and no interval may straddle."""
    for k, q in enumerate(data.trajectories):
        inputs = inputs_of(parameters.shared, data, k)
        jumps = inputs.jumps if inputs is not None else np.empty(0)
        inside = jumps[(jumps > q.times[0]) & (jumps < q.times[-1])]
        if len(inside) and not np.isin(inside, q.times).all():
            return True
    return False


def _weak(parameters: Parameters, data: Dataset, basis: Basis) -> WeakProblem:
    problem = WeakProblem.build(parameters.scale.substituted(parameters.model), data, basis)
    count = int(parameters.free.sum())
    if problem.size < count:
        raise FitError(
            f"{problem.size} weak residuals cannot determine {count} parameters; use more samples, a smaller radius, "
            "or fix some parameters."
        )
    return problem
