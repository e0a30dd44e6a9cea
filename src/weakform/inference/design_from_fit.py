"""Designs from a fit: how much each further experiment would shrink each standard error, by the information it adds.

With the covariance C of `(p, x₀)` of a trajectory and the sensitivities K of new samples over their σ,

    C' = C - C Kᵀ (1 + K C Kᵀ)⁻¹ K C

is the covariance after the experiment. It needs no new data, and C may be singular. For a new experiment from a known
initial state, only the parameters are updated; from an unknown one, the part of K that x₀ absorbs is projected away.
Without any data, the errors come from the sensitivities at a guess of the parameters alone (`prior_design`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.dataset import Dataset
from ..data.event_schedule import apply_doses
from ..data.matching import collect_inputs
from ..forward.solver import simulate
from ..model.inputs import Inputs
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.wording import list_names, suggest_name
from .experiment_design import Design
from .fitted_states import (
    compute_joint_covariance,
    get_initial_state,
    get_system,
    make_covariance_finite,
    solve_forward,
)

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

DEFAULT_WINDOWS = 8
"""Windows of time in which further samples are tried if the user names no candidates. Documented in docs/design.md."""
DEFAULT_SAMPLES = 10
"""Further samples in each of these windows. Documented in docs/design.md."""
DEFAULT_EXTENSION = 1.5
"""Span of all windows together, in durations of the data: half as long again. Documented in docs/design.md."""
CANDIDATE_KEYS = ("times", "states", "initial", "doses", "sigma")
"""Keys of a candidate that is a mapping; see `FitResult.design`."""


def plan_experiments(fit: FitResult, candidates: Any, trajectory: int | str) -> Design:
    """Compute the standard errors to expect after each candidate experiment; see `FitResult.design`."""
    from .prediction import find_trajectory_number

    k = find_trajectory_number(fit, trajectory)
    if fit.covariance_kind.startswith("none") or not (fit.sigma > 0).all():
        raise FitError("Noise-free data have no standard errors that an experiment could reduce.")
    wanted = build_windows(fit, k) if candidates is None else _check_candidates(candidates)
    _, C = compute_joint_covariance(fit, k, make_covariance_finite(fit))
    # A parameter at its bound has no standard error that could shrink.
    free = np.flatnonzero(~fit.fixed & ~fit.at_bound)
    J = len(fit.estimate)
    before = np.sqrt(np.maximum(C.diagonal()[free], 0.0))
    columns = fit.data.names or fit.model.states
    experiments, samples = {}, {}
    for name, candidate in wanted.items():
        checked = check_samples(name, candidate, columns, fit.sigma)
        if candidate.get("initial") is None and candidate.get("doses") is None:
            K, covariance = _continue_trajectory(fit, k, checked), C
        else:
            model, inputs = _schedule_doses(fit, k, candidate, checked.times)
            begin, _ = get_initial_state(fit, k)
            K = compute_new_sensitivities(
                model,
                fit.estimate,
                candidate.get("initial"),
                checked,
                _list_noise_kinds(fit),
                inputs=inputs,
                begin=begin,
            )
            # The initial state of a new experiment is not that of the trajectory: only parameters are shared.
            covariance = C[:J, :J]
        experiments[name] = np.sqrt(np.maximum(_update_covariance(covariance, K).diagonal()[free], 0.0))
        samples[name] = int(checked.counts.sum()) * len(checked.columns)
    names = tuple(fit.model.parameters[j] for j in free)
    return Design(names, before, experiments, samples)


def check_noise_levels(sigma: Any, count: int) -> FloatArray:
    """Validate σ, one number or one for each of `count` columns; return it as an array `(count,)`."""
    try:
        levels = np.asarray(sigma, dtype=float)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if levels.shape not in ((), (1,), (count,)) or not (np.isfinite(levels) & (levels > 0)).all():
        raise FitError(f"sigma must be a positive number, or one for each of {count} columns; received {sigma!r}.")
    return np.broadcast_to(levels, (count,)).copy()


def build_windows(
    fit: FitResult,
    k: int,
    count: int = DEFAULT_WINDOWS,
    samples: int = DEFAULT_SAMPLES,
    span: tuple[float | None, float | None] = (None, None),
) -> dict[str, dict[str, Any]]:
    """Return candidates with further samples in windows of time.

    Parameters
    ----------
    fit : FitResult
    k : int
        Number of the trajectory that is continued.
    count : int
        Number of windows.
    samples : int
        Number of samples in each, evenly spaced.
    span : tuple
        Where the windows begin and end; None for the beginning of the data, and for half as long again as the data.

    Returns
    -------
    dict of str to dict
        Candidates by their name in words.
    """
    if count < 1 or samples < 1:
        raise FitError(f"At least one window and one sample are needed; received {count} and {samples}.")
    times = fit.data.trajectories[k].times
    low = times[0] if span[0] is None else span[0]
    high = times[0] + DEFAULT_EXTENSION * (times[-1] - times[0]) if span[1] is None else span[1]
    if not low < high or not np.isfinite([low, high]).all():
        raise FitError(f"The windows must end after they begin; received {low:g} and {high:g}.")
    return {
        f"{samples} more sample{'s' * (samples > 1)} between t = {_format_time(a, high - low)} and "
        f"{_format_time(b, high - low)}": {"times": np.linspace(a, b, samples + 2)[1:-1]}
        for a, b in pairwise(np.linspace(low, high, count + 1))
    }


def _format_time(t: float, span: float) -> str:
    """Format a time to a hundredth of a span: years such as 1912.5 differ in their last digits."""
    return f"{t:.{max(0, 2 - int(np.floor(np.log10(span))))}f}"


def _check_candidates(candidates: Any) -> dict[str, dict[str, Any]]:
    """Validate candidates; return them by name as mappings with the keys `CANDIDATE_KEYS`, `times` among them."""
    if not isinstance(candidates, Mapping):
        return {"these samples": {"times": candidates}}
    checked = {}
    for name, value in candidates.items():
        candidate = dict(value) if isinstance(value, Mapping) else {"times": value}
        unknown = [key for key in candidate if key not in CANDIDATE_KEYS]
        if unknown or "times" not in candidate:
            what = f"{unknown[0]!r} is not known" if unknown else "there are no 'times'"
            raise FitError(f"candidates[{name!r}]: {what}; there are: {', '.join(CANDIDATE_KEYS)}.")
        checked[str(name)] = candidate
    if not checked:
        raise FitError("There are no candidates: the mapping is empty. Give one experiment at least.")
    return checked


@dataclass(frozen=True)
class _Samples:
    """Samples of an experiment.

    Attributes
    ----------
    times : ndarray, (time,)
        The times of measurement, increasing.
    counts : ndarray, (time,)
        The number of measurements at each time.
    columns : list of str
        The measured columns.
    sigma : ndarray, (columns,)
        Their noise levels.
    """

    times: FloatArray
    counts: FloatArray
    columns: list[str]
    sigma: FloatArray


def check_samples(name: str, experiment: Mapping[str, Any], columns: Sequence[str], sigma: FloatArray) -> _Samples:
    """Validate the times, columns and noise level of an experiment.

    Parameters
    ----------
    name : str
        Name of the experiment, for errors.
    experiment : mapping
        The experiment, with keys of `CANDIDATE_KEYS`.
    columns : sequence of str
        The columns that can be measured.
    sigma : ndarray, (columns,)
        Their noise levels, unless the experiment has its own.

    Returns
    -------
    _Samples
    """
    try:
        times, counts = np.unique(np.asarray(experiment["times"], dtype=float).ravel(), return_counts=True)
    except (TypeError, ValueError):
        raise FitError(f"The times of {name!r} must be numbers; received {experiment['times']!r}.") from None
    if not len(times) or not np.isfinite(times).all():
        raise FitError(f"The times of {name!r} must be finite numbers; received {experiment['times']!r}.")
    chosen = list(experiment.get("states") or columns)
    unknown = [column for column in chosen if column not in columns]
    if unknown:
        raise FitError(
            f"{name!r} measures {unknown[0]!r}, whose noise is not known.{suggest_name(unknown[0], columns)} "
            f"There are: {list_names(columns)}."
        )
    levels = sigma[[list(columns).index(column) for column in chosen]]
    own = experiment.get("sigma")
    return _Samples(
        times, counts.astype(float), chosen, levels if own is None else check_noise_levels(own, len(chosen))
    )


def _list_noise_kinds(fit: FitResult) -> dict[str, str]:
    """Return the kind of noise of each measured column, by name."""
    return dict(zip(fit.data.names or fit.model.states, fit.data.noise, strict=True))


def _weigh_sensitivities(
    model: Model,
    solution: tuple[FloatArray, FloatArray],
    p: FloatArray,
    checked: _Samples,
    kinds: Mapping[str, str],
    inputs: FloatArray | None = None,
) -> FloatArray:
    """Compute the sensitivities of the measured columns over their uncertainty.

    Parameters
    ----------
    model : Model
    solution : tuple of ndarray
        States `(time, D)`, and their derivatives `(time, D, n)` with respect to the J parameters and n - J initial
        values.
    p : ndarray, (J,)
    checked : _Samples
    kinds : mapping of str to str
        The kind of noise of each column.
    inputs : ndarray, (time, I), optional

    Returns
    -------
    ndarray, (time x columns, n)
    """
    states, by = solution
    h, hu, hp = model.build_map("h", tuple(checked.columns)).linearise(checked.times, states, p, inputs)
    K = hu @ by
    K[:, :, : len(p)] += hp
    uncertain = np.column_stack(
        [
            KINDS[kinds[name]].compute_uncertainty(h[:, c], np.full(len(h), checked.sigma[c]))
            for c, name in enumerate(checked.columns)
        ]
    )
    # The mean of n repeats has the standard deviation σ/√n.
    uncertain = uncertain / np.sqrt(checked.counts)[:, None]
    return np.asarray((K / uncertain[:, :, None]).reshape(-1, K.shape[2]))


def _continue_trajectory(fit: FitResult, k: int, checked: _Samples) -> FloatArray:
    """Compute the sensitivities `(rows, J + D)` of further samples of trajectory k, x₀ in working coordinates."""
    (begin, _), times = get_initial_state(fit, k), checked.times
    if times[0] < begin:
        raise FitError(f"The trajectory begins at t = {begin:g}; a sample at t = {times[0]:g} would come before it.")
    solution, before = solve_forward(fit, k, times, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The fitted model cannot be solved at these times: {solution.status.value}.")
    # The first row of the solution is at the initial time, whether or not it is a sample.
    slope = get_system(fit, k).compute_slopes(solution.states[:1])[0]
    by = np.concatenate([solution.by_parameters, solution.by_initial @ slope], axis=2)[before:]
    inputs = collect_inputs(fit.model, fit.data, k)
    driven = None if inputs is None else inputs(times)
    return _weigh_sensitivities(
        fit.model.for_trajectory(k),
        (solution.states[before:], by),
        fit.estimate,
        checked,
        _list_noise_kinds(fit),
        driven,
    )


def compute_new_sensitivities(
    model: Model,
    p: FloatArray,
    initial: Any,
    checked: _Samples,
    kinds: Mapping[str, str],
    *,
    inputs: Inputs | None = None,
    begin: float = 0.0,
    fitted: bool = False,
) -> FloatArray:
    """Compute the sensitivities of a new experiment to the parameters.

    Parameters
    ----------
    model : Model
    p : ndarray, (J,)
    initial : array_like, (D,), or mapping, or None
        The initial state.
    checked : _Samples
    kinds : mapping of str to str
        The kind of noise of each column.
    inputs : Inputs, optional
    begin : float
        The initial time.
    fitted : bool
        True if initial values that the model does not give are fitted, too: what they absorb is projected away. False
        if the initial state is known.

    Returns
    -------
    ndarray, (rows, J)
    """
    times = checked.times
    if times[0] < begin:
        raise FitError(f"The experiment begins at t = {begin:g}; a sample at t = {times[0]:g} would come before it.")
    is_given = np.array([state in model.initial for state in model.states])
    values, _, by_g = model.build_map("g").linearise(np.zeros(1), np.ones((1, len(is_given))), p, None)
    given_values = dict(zip(np.array(model.states)[is_given], values[0][is_given], strict=True))
    u0 = _build_initial_state(model, initial, given_values if fitted or initial is None else {})
    grid = np.concatenate([[begin], times]) if times[0] > begin else times
    solution = simulate(model, p, u0, grid, inputs=inputs, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The model cannot be solved from this initial state: {solution.status.value}.")
    n, driven = len(times), None if inputs is None else inputs(times)
    by_p = solution.by_parameters
    if fitted:
        # Initial values that the model gives as functions of p move with p.
        by_p = by_p + solution.by_initial @ np.where(is_given[:, None], by_g[0], 0.0)
    by = np.concatenate([by_p, solution.by_initial], axis=2)[-n:]
    K = _weigh_sensitivities(model, (solution.states[-n:], by), p, checked, kinds, driven)
    own = K[:, len(p) :][:, ~is_given]
    # Changes of the data that fitted initial values can produce, too, carry no information about the parameters.
    if fitted and own.size:
        Q = np.linalg.qr(own)[0]
        return np.asarray(K[:, : len(p)] - Q @ (Q.T @ K[:, : len(p)]))
    return np.asarray(K[:, : len(p)])


def _build_initial_state(model: Model, initial: Any, given_values: Mapping[str, float]) -> FloatArray:
    """Return the initial state `(D,)` of a new experiment.

    Parameters
    ----------
    model : Model
    initial : array_like, (D,), or mapping, or None
        The user's values.
    given_values : mapping of str to float
        Initial values that the model gives.
    """
    if initial is not None and not isinstance(initial, Mapping):
        values = initial if isinstance(initial, Sequence | np.ndarray) and not isinstance(initial, str) else [initial]
        if len(values) != len(model.states):
            raise FitError(f"The initial state needs {len(model.states)} numbers; received {initial!r}.")
        initial = dict(zip(model.states, values, strict=True))
    every = {**(initial or {}), **given_values}
    wrong = [name for name in every if name not in model.states]
    lacking = [state for state in model.states if state not in every]
    if wrong or lacking:
        what = f"names {wrong[0]!r}" if wrong else f"lacks {lacking[0]!r}"
        raise FitError(f"The initial state {what}; give a value for each of: {list_names(model.states)}.")
    try:
        return np.array([float(every[state]) for state in model.states])
    except (TypeError, ValueError):
        raise FitError(f"The initial state must be numbers; received {initial!r}.") from None


def _schedule_doses(
    fit: FitResult, k: int, experiment: Mapping[str, Any], times: FloatArray
) -> tuple[Model, Inputs | None]:
    """Return the model of a new experiment, with the experiment's own doses, and its inputs."""
    model = fit.model.for_trajectory(k)
    if experiment.get("doses") is None:
        return model, collect_inputs(fit.model, fit.data, k)
    bare = model.with_parts(events=fit.model.events, variants=())
    if bare.driving_names:
        raise FitError(
            "An experiment with doses needs a model without inputs, infusions and switches; this one has some."
        )
    if len(times) < 2:
        raise FitError(f"An experiment with doses needs at least two samples; received {len(times)}.")
    # `apply_doses` reads the doses from a dataset; the values in it do not matter.
    plain = Dataset(times, np.zeros((len(times), 1)), names=[model.states[0]], doses=experiment["doses"])
    data, driven = apply_doses(plain, bare)
    return driven.for_trajectory(0), collect_inputs(driven, data, 0)


def _update_covariance(C: FloatArray, K: FloatArray) -> FloatArray:
    """Return the covariance `(n, n)`, before C, after measurements with sensitivities K `(rows, n)` over their σ."""
    # This form needs no inverse of C, which is singular if a parameter is fixed.
    KC = K @ C
    return np.asarray(C - KC.T @ np.linalg.solve(np.eye(len(K)) + KC @ K.T, KC))
