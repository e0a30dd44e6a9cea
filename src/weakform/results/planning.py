"""What to measure next: how much each further experiment would shrink each error, by the information it brings.

With the covariance C of `(p, x₀)` of a trajectory and the sensitivities K of new samples over their σ,

    C' = C - C Kᵀ (1 + K C Kᵀ)⁻¹ K C,

which needs no new data, and holds for any C. A new experiment from a known state is the same with `x₀` known; from an
unknown one, x₀ is taken up by the samples themselves: `1 + K₀ K₀ᵀ/ε` in place of 1. Errors of a first experiment, with
nothing measured yet, come from a guess of the parameters and C = ∞.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..data.dataset import Dataset
from ..data.matching import inputs_of
from ..data.schedule import scheduled
from ..forward.solve import simulate
from ..model.inputs import Inputs
from ..model.model import Model
from ..noise.kinds import KINDS
from ..support.errors import FitError
from ..support.messages import listed, suggestion
from ..support.typing import FloatArray
from .designs import Design
from .observation import beginning, finite, joint, solved, system

if TYPE_CHECKING:
    from .result import FitResult

WINDOWS, LONGER, SAMPLES = 8, 1.5, 10
"""Windows that are tried by default, how much longer than the data, and samples in each."""
UNKNOWN = 1e8
"""Variance of what nothing is known of, relative to its size."""
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
        times, chosen, sigma = _checked(name, said, columns, fit.sigma)
        if said.get("initial") is None and said.get("doses") is None:
            K, start = _further(fit, k, times, chosen, sigma), C
        else:
            model, inputs = _dosed(fit, k, said, times)
            K = _anew(model, fit.estimate, said, (times, chosen, sigma), _kinds(fit), inputs)
            start = C[:J, :J]
        experiments[name] = np.sqrt(np.maximum(_updated(start, K).diagonal()[free], 0.0))
        samples[name] = len(K)
    names = tuple(fit.model.parameters[j] for j in free)
    return Design(names, before, experiments, samples)


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
    """Errors to expect from experiments that nobody has made yet.

    Parameters
    ----------
    model : Model
    guess : mapping
        What the parameters may be.
    times : array_like, or mapping of str to array_like
        When to measure; or several such plans by name.
    initial : array_like, (D,), or mapping, optional
        Where the states begin that the model does not give; they are fitted, too.
    sigma : float or sequence
        Noise to expect, of all columns or of each.
    states : sequence of str, optional
        What to measure: states or named expressions; all states by default.
    noise : str
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
    if not isinstance(model, Model):
        raise FitError(f"The model must be a Model, such as Model.from_text(...); received a {type(model).__name__}.")
    lacking = [name for name in model.parameters if name not in guess]
    if lacking:
        raise FitError(f"The guess lacks {lacking[0]!r}; give a value for each of: {listed(model.parameters)}.")
    if model.driven or noise not in KINDS:
        raise FitError(
            "A first design is for models without inputs; fit once, and ask fit.design(...)."
            if model.driven
            else f"No noise {noise!r}.{suggestion(noise, KINDS)} There are: {', '.join(KINDS)}."
        )
    p = np.array([float(guess[name]) for name in model.parameters])
    columns = tuple(states) if states is not None else model.states
    plans = times if isinstance(times, Mapping) else {"these samples": times}
    free = np.array([name not in fixed for name in model.parameters])
    size = np.where(p == 0, 1.0, np.abs(p))
    start = np.diag(np.where(free, UNKNOWN * size**2, 0.0))
    experiments, samples = {}, {}
    kinds = dict.fromkeys(columns, noise)
    levels = np.broadcast_to(np.asarray(sigma, dtype=float), (len(columns),))
    for name, when in plans.items():
        said = {"times": when, "initial": initial, "fitted": True}
        checked = _checked(name, said, columns, levels)
        K = _anew(model, p, said, checked, kinds)
        errors = np.sqrt(np.maximum(_updated(start, K).diagonal()[free], 0.0))
        experiments[name] = np.where(errors > 1e-3 * np.sqrt(UNKNOWN) * size[free], np.inf, errors)
        samples[name] = len(K)
    names = tuple(name for name in model.parameters if name not in fixed)
    return Design(names, np.full(len(names), np.inf), experiments, samples)


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
    if not low < high:
        raise FitError(f"The windows must end after they begin; received {low:g} and {high:g}.")
    return {
        f"{samples} more sample{'s' * (samples > 1)} between t = {a:.3g} and {b:.3g}": {
            "times": np.linspace(a, b, samples + 2)[1:-1]
        }
        for a, b in pairwise(np.linspace(low, high, count + 1))
    }


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


Checked = tuple[FloatArray, list[str], FloatArray]


def _checked(name: str, said: Mapping[str, Any], columns: Sequence[str], sigma: FloatArray) -> Checked:
    """Times, what is measured then, and its σ."""
    try:
        times = np.unique(np.asarray(said["times"], dtype=float).ravel())
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
    return times, chosen, levels if given is None else np.broadcast_to(np.asarray(given, dtype=float), levels.shape)


def _kinds(fit: FitResult) -> dict[str, str]:
    return dict(zip(fit.data.names or fit.model.states, fit.data.noise, strict=True))


def _rows(
    model: Model,
    solution: tuple[FloatArray, FloatArray],
    p: FloatArray,
    checked: Checked,
    kinds: Mapping[str, str],
    inputs: FloatArray | None = None,
) -> FloatArray:
    """Sensitivities of the columns over their uncertainty `(rows, n)`, from states and those of them `(time, D, n)`."""
    (times, chosen, sigma), (states, by) = checked, solution
    h, hu, hp = model.map("h", tuple(chosen)).linearised(times, states, p, inputs)
    K = hu @ by
    K[:, :, : len(p)] += hp
    uncertain = np.column_stack(
        [KINDS[kinds[name]].uncertainty(h[:, c], np.full(len(h), sigma[c])) for c, name in enumerate(chosen)]
    )
    return np.asarray((K / uncertain[:, :, None]).reshape(-1, K.shape[2]))


def _further(fit: FitResult, k: int, times: FloatArray, chosen: list[str], sigma: FloatArray) -> FloatArray:
    """More samples of a trajectory."""
    begin, _ = beginning(fit, k)
    if times[0] < begin:
        raise FitError(f"The trajectory begins at t = {begin:g}; a sample at t = {times[0]:g} would come before it.")
    solution, before = solved(fit, k, times, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The fitted model cannot be solved at these times: {solution.status.value}.")
    slope = system(fit, k).slopes(solution.states[:1])[0]
    by = np.concatenate([solution.by_parameters, solution.by_initial @ slope], axis=2)[before:]
    inputs = inputs_of(fit.model, fit.data, k)
    driven = None if inputs is None else inputs(times)
    checked = (times, chosen, sigma)
    return _rows(fit.model.of(k), (solution.states[before:], by), fit.estimate, checked, _kinds(fit), driven)


def _anew(
    model: Model,
    p: FloatArray,
    said: Mapping[str, Any],
    checked: Checked,
    kinds: Mapping[str, str],
    inputs: Inputs | None = None,
) -> FloatArray:
    """A new experiment, from a state that is known; or `fitted`, as the model gives it and what it does not give is
    found from the samples, and projected away.
    """
    times, fitted = checked[0], bool(said.get("fitted"))
    given = np.array([state in model.initial for state in model.states])
    begun, _, by_g = model.map("g").linearised(np.zeros(1), np.ones((1, len(given))), p, None)
    known = dict(zip(np.array(model.states)[given], begun[0][given], strict=True))
    u0 = _initial(model, said.get("initial"), known if fitted or said.get("initial") is None else {})
    grid = np.concatenate([[0.0], times]) if times[0] > 0 else times
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
        try:
            values = np.asarray(said, dtype=float).ravel()
        except (TypeError, ValueError):
            raise FitError(f"The initial state must be numbers; received {said!r}.") from None
        if values.shape != (len(model.states),):
            raise FitError(f"The initial state needs {len(model.states)} numbers; received {said!r}.")
        said = dict(zip(model.states, values, strict=True))
    every = {**(said or {}), **known}
    lacking = [state for state in model.states if state not in every]
    if lacking:
        raise FitError(f"The initial state lacks {lacking[0]!r}.")
    return np.array([float(every[state]) for state in model.states])


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
