"""What to measure next: how much each further experiment would shrink each error, by the information it brings.

With the covariance C of `(p, x₀)` of a trajectory and the sensitivities K of new samples over their σ,

    C' = C - C Kᵀ (1 + K C Kᵀ)⁻¹ K C,

which needs no new data, and holds for any C. A new experiment from a known state is the same with `x₀` known; from an
unknown one, what x₀ takes is projected away. Errors of a first experiment, with nothing measured yet, come from the
sensitivities at a guess of the parameters alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.dataset import Dataset
from ..data.event_schedule import scheduled
from ..data.matching import inputs_of
from ..forward.solver import simulate
from ..model.inputs import Inputs
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.wording import listed, suggestion
from .experiment_design import Design
from .fitted_states import beginning, finite, joint, solved, system

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

WINDOWS, LONGER, SAMPLES = 8, 1.5, 10
"""Windows that are tried by default, how much longer than the data, and samples in each."""
KEYS = ("times", "states", "initial", "doses", "sigma")


def plan(fit: FitResult, candidates: Any, trajectory: int | str) -> Design:
    """See `FitResult.design`."""
    from .prediction import numbered

    k = numbered(fit, trajectory)
    if fit.covariance_kind.startswith("none") or not (fit.sigma > 0).all():
        raise FitError("Noise-free data leave no errors to shrink.")
    asked = windows(fit, k) if candidates is None else _read(candidates)
    _, C = joint(fit, k, finite(fit))
    free = np.flatnonzero(~fit.fixed & ~fit.at_bound)
    J = len(fit.estimate)
    before = np.sqrt(np.maximum(C.diagonal()[free], 0.0))
    columns = fit.data.names or fit.model.states
    experiments, samples = {}, {}
    for name, said in asked.items():
        checked = measured(name, said, columns, fit.sigma)
        if said.get("initial") is None and said.get("doses") is None:
            K, start = _further(fit, k, checked), C
        else:
            model, inputs = _dosed(fit, k, said, checked.times)
            begin, _ = beginning(fit, k)
            K = anew(model, fit.estimate, said.get("initial"), checked, _kinds(fit), inputs=inputs, begin=begin)
            start = C[:J, :J]
        experiments[name] = np.sqrt(np.maximum(_updated(start, K).diagonal()[free], 0.0))
        samples[name] = int(checked.counts.sum()) * len(checked.columns)
    names = tuple(fit.model.parameters[j] for j in free)
    return Design(names, before, experiments, samples)


def positive(sigma: Any, count: int) -> FloatArray:
    """σ of each column, checked."""
    try:
        levels = np.asarray(sigma, dtype=float)
    except (TypeError, ValueError):
        levels = np.array(np.nan)
    if levels.shape not in ((), (1,), (count,)) or not (np.isfinite(levels) & (levels > 0)).all():
        raise FitError(f"sigma must be a positive number, or one for each of {count} columns; received {sigma!r}.")
    return np.broadcast_to(levels, (count,)).copy()


def windows(
    fit: FitResult,
    k: int,
    count: int = WINDOWS,
    samples: int = SAMPLES,
    span: tuple[float | None, float | None] = (None, None),
) -> dict[str, dict[str, Any]]:
    """Further samples in windows of trajectory k: over the data and half as long again, or between two times."""
    if count < 1 or samples < 1:
        raise FitError(f"At least one window and one sample are needed; received {count} and {samples}.")
    times = fit.data.trajectories[k].times
    low = times[0] if span[0] is None else span[0]
    high = times[0] + LONGER * (times[-1] - times[0]) if span[1] is None else span[1]
    if not low < high or not np.isfinite([low, high]).all():
        raise FitError(f"The windows must end after they begin; received {low:g} and {high:g}.")
    return {
        f"{samples} more sample{'s' * (samples > 1)} between t = {_time(a, high - low)} and {_time(b, high - low)}": {
            "times": np.linspace(a, b, samples + 2)[1:-1]
        }
        for a, b in pairwise(np.linspace(low, high, count + 1))
    }


def _time(t: float, span: float) -> str:
    """A time to a hundredth of a span: years such as 1912.5 differ in their last digits."""
    return f"{t:.{max(0, 2 - int(np.floor(np.log10(span))))}f}"


def _read(candidates: Any) -> dict[str, dict[str, Any]]:
    """Candidates by name: times, or mappings that say more."""
    if not isinstance(candidates, Mapping):
        return {"these samples": {"times": candidates}}
    found = {}
    for name, said in candidates.items():
        one = dict(said) if isinstance(said, Mapping) else {"times": said}
        unknown = [key for key in one if key not in KEYS]
        if unknown or "times" not in one:
            what = f"{unknown[0]!r} is not known" if unknown else "there are no 'times'"
            raise FitError(f"candidates[{name!r}]: {what}; there are: {', '.join(KEYS)}.")
        found[str(name)] = one
    if not found:
        raise FitError("There are no candidates.")
    return found


@dataclass(frozen=True)
class _Samples:
    """Samples of an experiment: when, how often, of which columns, with which σ."""

    times: FloatArray
    counts: FloatArray
    columns: list[str]
    sigma: FloatArray


def measured(name: str, said: Mapping[str, Any], columns: Sequence[str], sigma: FloatArray) -> _Samples:
    """What an experiment measures."""
    try:
        times, counts = np.unique(np.asarray(said["times"], dtype=float).ravel(), return_counts=True)
    except (TypeError, ValueError):
        raise FitError(f"The times of {name!r} must be numbers; received {said['times']!r}.") from None
    if not len(times) or not np.isfinite(times).all():
        raise FitError(f"The times of {name!r} must be finite numbers; received {said['times']!r}.")
    chosen = list(said.get("states") or columns)
    unknown = [column for column in chosen if column not in columns]
    if unknown:
        raise FitError(
            f"{name!r} measures {unknown[0]!r}, of which the noise is not known.{suggestion(unknown[0], columns)} "
            f"There are: {listed(columns)}."
        )
    levels = sigma[[list(columns).index(column) for column in chosen]]
    given = said.get("sigma")
    return _Samples(times, counts.astype(float), chosen, levels if given is None else positive(given, len(chosen)))


def _kinds(fit: FitResult) -> dict[str, str]:
    return dict(zip(fit.data.names or fit.model.states, fit.data.noise, strict=True))


def _rows(
    model: Model,
    solution: tuple[FloatArray, FloatArray],
    p: FloatArray,
    checked: _Samples,
    kinds: Mapping[str, str],
    inputs: FloatArray | None = None,
) -> FloatArray:
    """Sensitivities of the columns over their uncertainty `(rows, n)`, from states and those of them `(time, D, n)`."""
    states, by = solution
    h, hu, hp = model.map("h", tuple(checked.columns)).linearised(checked.times, states, p, inputs)
    K = hu @ by
    K[:, :, : len(p)] += hp
    uncertain = np.column_stack(
        [
            KINDS[kinds[name]].uncertainty(h[:, c], np.full(len(h), checked.sigma[c]))
            for c, name in enumerate(checked.columns)
        ]
    )
    uncertain = uncertain / np.sqrt(checked.counts)[:, None]  # repeats
    return np.asarray((K / uncertain[:, :, None]).reshape(-1, K.shape[2]))


def _further(fit: FitResult, k: int, checked: _Samples) -> FloatArray:
    """More samples of a trajectory."""
    (begin, _), times = beginning(fit, k), checked.times
    if times[0] < begin:
        raise FitError(f"The trajectory begins at t = {begin:g}; a sample at t = {times[0]:g} would come before it.")
    solution, before = solved(fit, k, times, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The fitted model cannot be solved at these times: {solution.status.value}.")
    slope = system(fit, k).slopes(solution.states[:1])[0]
    by = np.concatenate([solution.by_parameters, solution.by_initial @ slope], axis=2)[before:]
    inputs = inputs_of(fit.model, fit.data, k)
    driven = None if inputs is None else inputs(times)
    return _rows(fit.model.of(k), (solution.states[before:], by), fit.estimate, checked, _kinds(fit), driven)


def anew(
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
    """A new experiment, from a state that is known; or `fitted`, as the model gives it and what it does not give is
    found from the samples, and projected away.
    """
    times = checked.times
    if times[0] < begin:
        raise FitError(f"The experiment begins at t = {begin:g}; a sample at t = {times[0]:g} would come before it.")
    given = np.array([state in model.initial for state in model.states])
    begun, _, by_g = model.map("g").linearised(np.zeros(1), np.ones((1, len(given))), p, None)
    known = dict(zip(np.array(model.states)[given], begun[0][given], strict=True))
    u0 = _initial(model, initial, known if fitted or initial is None else {})
    grid = np.concatenate([[begin], times]) if times[0] > begin else times
    solution = simulate(model, p, u0, grid, inputs=inputs, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The model cannot be solved from there: {solution.status.value}.")
    n, driven = len(times), None if inputs is None else inputs(times)
    by_p = solution.by_parameters
    if fitted:
        by_p = by_p + solution.by_initial @ np.where(given[:, None], by_g[0], 0.0)
    by = np.concatenate([by_p, solution.by_initial], axis=2)[-n:]
    K = _rows(model, (solution.states[-n:], by), p, checked, kinds, driven)
    own = K[:, len(p) :][:, ~given]
    if fitted and own.size:
        Q = np.linalg.qr(own)[0]
        return np.asarray(K[:, : len(p)] - Q @ (Q.T @ K[:, : len(p)]))
    return np.asarray(K[:, : len(p)])


def _initial(model: Model, said: Any, known: Mapping[str, float]) -> FloatArray:
    """Where the states of a new experiment begin, `(D,)`."""
    if said is not None and not isinstance(said, Mapping):
        values = said if isinstance(said, Sequence | np.ndarray) and not isinstance(said, str) else [said]
        if len(values) != len(model.states):
            raise FitError(f"The initial state needs {len(model.states)} numbers; received {said!r}.")
        said = dict(zip(model.states, values, strict=True))
    every = {**(said or {}), **known}
    wrong = [name for name in every if name not in model.states]
    lacking = [state for state in model.states if state not in every]
    if wrong or lacking:
        raise FitError(f"The initial state {f'names {wrong[0]!r}' if wrong else f'lacks {lacking[0]!r}'}.")
    try:
        return np.array([float(every[state]) for state in model.states])
    except (TypeError, ValueError):
        raise FitError(f"The initial state must be numbers; received {said!r}.") from None


def _dosed(fit: FitResult, k: int, said: Mapping[str, Any], times: FloatArray) -> tuple[Model, Inputs | None]:
    """The model of a new experiment, with doses of its own, and its inputs."""
    model = fit.model.of(k)
    if said.get("doses") is None:
        return model, inputs_of(fit.model, fit.data, k)
    bare = model.with_parts(events=fit.model.events, variants=())
    if bare.driven:
        raise FitError("A plan with doses is for models without inputs, infusions and switches.")
    if len(times) < 2:
        raise FitError("A plan with doses needs two samples at least.")
    plain = Dataset(times, np.zeros((len(times), 1)), names=[model.states[0]], doses=said["doses"])
    data, driven = scheduled(plain, bare)
    return driven.of(0), inputs_of(driven, data, 0)


def _updated(C: FloatArray, K: FloatArray) -> FloatArray:
    """The covariance once K is measured."""
    KC = K @ C
    return np.asarray(C - KC.T @ np.linalg.solve(np.eye(len(K)) + KC @ K.T, KC))
