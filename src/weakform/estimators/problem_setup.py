"""Setup of the problem that an estimator solves, from a model and data: in the weak form, or with states on a mesh."""

from __future__ import annotations

import numpy as np
import symengine as se

from ..basis import Local
from ..collocation.hidden_state_problem import HiddenStateProblem
from ..data import Dataset
from ..data.event_schedule import describe_unknown_times
from ..data.matching import MatchedPair, collect_inputs
from ..parameters import ResolvedParameters
from ..support.errors import DataError, FitError
from ..weak.weak_problem import Basis, WeakProblem
from . import ESTIMATORS
from .estimation_problem import Problem
from .estimator import Estimator

MIN_SAMPLES_FOR_WEAK_FORM = 8
"""Samples of each trajectory below which there is no weak form: too few for test functions and for the filter that
estimates the noise. By judgement."""
MIN_VALUES_FOR_WEAK_FORM = 4
"""Measured values of each state below which there is no weak form. By judgement."""


def is_sparse(data: Dataset) -> bool:
    """Return True if there are too few samples for test functions and for an estimate of the noise."""
    few = min(len(q.times) for q in data.trajectories) < MIN_SAMPLES_FOR_WEAK_FORM
    return few or bool((data.measurements < MIN_VALUES_FOR_WEAK_FORM).any())


def build_problem(
    parameters: ResolvedParameters, matched: MatchedPair, estimator: Estimator, basis: Basis
) -> tuple[Estimator, Problem]:
    """Set up the problem that an estimator needs.

    Parameters
    ----------
    parameters : ResolvedParameters
    matched : MatchedPair
        The model with the columns that are measured.
    estimator : Estimator
    basis : Basis
        Test functions of the weak form.

    Returns
    -------
    estimator : Estimator
        The same, or the one that replaces it (`Estimator.hidden_state_method`) if there is no weak form of the data.
    problem : Problem

    Raises
    ------
    FitError
        If the method cannot handle the data; the message names those that can.
    DataError
        If there are too few samples for the method.
    """
    unknown = describe_unknown_times(parameters.shared, len(matched.data.trajectories))
    jumps_between = _has_jump_between_samples(parameters, matched.data)
    has_weak_form = matched.complete and not parameters.model.initial and not unknown and not jumps_between
    sparse = is_sparse(matched.data)
    if has_weak_form and not sparse and estimator.uses_weak_form:
        try:
            return estimator, _build_weak_problem(parameters, matched.data, basis)
        except FitError:  # gaps that no test function bridges, or too few weak residuals
            if estimator.hidden_state_method is None or basis != Local():
                raise
    chosen = estimator
    if not estimator.handles_hidden_states and estimator.hidden_state_method is not None:
        chosen = ESTIMATORS[estimator.hidden_state_method]
    switches = {se.Symbol(name) for name in parameters.shared.switches}
    switching = [name for name, e in parameters.shared.observables.items() if e.free_symbols & switches]
    if unknown and switching:
        raise FitError(
            f"The named expression {switching[0]!r} switches at a time that is not known before the fit: {unknown}. "
            "Fix the parameters on which the time depends."
        )
    if unknown and not chosen.solves_equations:
        suitable = " or ".join(e.name for e in ESTIMATORS.values() if e.solves_equations)
        raise FitError(
            f"Method {estimator.name!r} needs to know the times of all events before the fit, but {unknown}. Fix the "
            f"parameters on which the time depends, or use a method that solves the equations: {suitable}."
        )
    if chosen.handles_hidden_states:
        return chosen, HiddenStateProblem.build(parameters, matched.data)
    suitable = " or ".join(
        e.name for e in ESTIMATORS.values() if e.handles_hidden_states or e.hidden_state_method is not None
    )
    if not has_weak_form:
        raise FitError(
            f"Method {estimator.name!r} needs every state measured directly and continuous between samples, but here: "
            f"{_describe_obstacle(parameters, matched, jumps_between)}. Use {suitable}."
        )
    raise DataError(
        f"Method {estimator.name!r} needs at least {MIN_SAMPLES_FOR_WEAK_FORM} samples of each trajectory and "
        f"{MIN_VALUES_FOR_WEAK_FORM} values of each state for its weak form, but there are fewer. Use {suitable}."
    )


def _describe_obstacle(parameters: ResolvedParameters, matched: MatchedPair, jumps_between: bool) -> str:
    """Describe why the data have no weak form."""
    if jumps_between:
        return "an input or a switch jumps between two samples"
    if matched.hidden:
        return f"{', '.join(matched.hidden)} not measured"
    return "initial values are given" if parameters.model.initial or matched.complete else "states jump"


def _has_jump_between_samples(parameters: ResolvedParameters, data: Dataset) -> bool:
    """Return True if an input or a switch jumps between two samples.

    Neither a test function nor an interval of the mesh may contain such a jump.
    """
    for k, q in enumerate(data.trajectories):
        inputs = collect_inputs(parameters.shared, data, k)
        jumps = inputs.jump_times if inputs is not None else np.empty(0)
        inside = jumps[(jumps > q.times[0]) & (jumps < q.times[-1])]
        if len(inside) and not np.isin(inside, q.times).all():
            return True
    return False


def _build_weak_problem(parameters: ResolvedParameters, data: Dataset, basis: Basis) -> WeakProblem:
    """Build the weak form; raise `FitError` if it has fewer residuals than there are free parameters."""
    problem = WeakProblem.build(parameters.scale.rewrite_model(parameters.model), data, basis)
    count = int(parameters.free.sum())
    if problem.size < count:
        raise FitError(
            f"{problem.size} weak residuals cannot determine {count} parameters; use more samples, a smaller radius, "
            "or fix some parameters."
        )
    return problem
