"""Random effects: the mean and the spread of a parameter over subjects, by Laplace's method.

Each subject i has its own b_i ~ N(μ, Ω), Ω diagonal, of the parameters or of their logarithms. Given μ and Ω they are a
prior, and all subjects are fitted at once: modes m_i with covariances V_i. About them the likelihood of a subject is
that of one measurement b̂_i with covariance C_i,

    C_i = (V_i⁻¹ - Ω⁻¹)⁻¹,        b̂_i = C_i (V_i⁻¹ m_i - Ω⁻¹ μ),        b̂_i ~ N(μ, Ω + C_i),

from which μ and Ω follow by maximum likelihood with the degrees of freedom of μ counted (REML); then all is fitted
again, until they stay. At the end m_i are the estimates of the subjects, drawn towards the mean as far as they tell
little of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data import Dataset
from ..model import Model
from ..results.fit_result import FitResult
from ..results.population import Effect, Population
from ..support.array_types import BoolArray, FloatArray
from ..support.errors import FitError, WeakformError
from ..support.progress import Watch
from ..support.wording import suggestion

ROUNDS, SETTLED = 12, 0.01
"""Rounds at most, and the change of μ and log Ω, in units of the spread, that ends them."""
SUBJECTS = 3
"""At least."""
WIDE = 1.0
"""Spread of the logarithm, to begin with."""
LEAST, LARGEST = 0.01, 10.0
"""Spread at least and at most, in units of one for logarithms, and of how the subjects scatter for others."""

LATE = "The time was over before every subject was fitted; give it more (time_limit)."


@dataclass(frozen=True)
class _Effects:
    """Which parameters are random, and how."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(cls, random: Sequence[str] | Mapping[str, str], model: Model, data: Dataset) -> _Effects:
        """As they were asked for, checked."""
        if isinstance(random, str) or not isinstance(random, Sequence | Mapping):
            raise FitError(f"random must be a list of parameters, or say how each varies; received {random!r}.")
        asked = dict(random) if isinstance(random, Mapping) else dict.fromkeys(random, "lognormal")
        for name, kind in asked.items():
            if name not in model.parameters:
                raise FitError(
                    f"random names {name!r}, which is no parameter.{suggestion(str(name), model.parameters)}"
                )
            if kind not in ("lognormal", "normal"):
                raise FitError(f"random[{name!r}] must be 'lognormal' or 'normal'; received {kind!r}.")
        if len(data.trajectories) < SUBJECTS:
            raise FitError(
                f"A random effect needs {SUBJECTS} subjects at least, each with its own trajectory; there "
                f"{'is' if len(data.trajectories) == 1 else 'are'} {len(data.trajectories)}. Say which column tells "
                "them apart (trajectory=...), or leave random out."
            )
        return cls(tuple(asked), tuple(asked.values()))

    @property
    def log(self) -> FloatArray:
        """Which are logarithms."""
        return np.array([kind == "lognormal" for kind in self.kinds])


def mixed(
    fit: Callable[..., FitResult],
    model: Model,
    data: Dataset,
    random: Sequence[str] | Mapping[str, str],
    told: dict[str, Any],
) -> FitResult:
    """See `fit`, which is given here so that it can be called again."""
    effects = _Effects.of(random, model, data)
    for what in ("fixed", "tied", "priors", "local"):
        both = [name for name in effects.names if name in (told.get(what) or ())]
        if both:
            raise FitError(f"{both[0]!r} is random and in {what!r}, too; choose one.")
    asked = told.get("local") or {}
    local = {
        **(asked if isinstance(asked, Mapping) else dict.fromkeys(asked, True)),
        **dict.fromkeys(effects.names, True),
    }
    log = [
        *(told.get("log") or ()),
        *(n for n, k in zip(effects.names, effects.kinds, strict=True) if k == "lognormal"),
    ]
    shared = {**told, "local": asked, "log": list(dict.fromkeys(log))}
    told = {**told, "local": local, "log": list(dict.fromkeys(log))}
    found = _first(fit, model, data, told, shared, effects)
    m, V = _modes(found, effects)
    mean = np.median(m, axis=0)
    unit = np.where(effects.log, 1.0, np.maximum(m.std(axis=0), 1e-12))
    spread = np.clip(1.5 * np.median(np.abs(m - mean), axis=0), LEAST * unit, unit)
    converged, rounds = False, 0
    watch: Watch = told["callback"]
    if watch():  # no time for rounds: what each subject tells alone
        if not found.converged or not (np.diagonal(V, axis1=1, axis2=2) > 0).all():
            raise FitError(LATE)
        mean, spread, errors = _population(m, V, spread, unit)
    while rounds < ROUNDS and not converged and not watch():
        rounds += 1
        start = {name: float(p) for name, p, no in zip(found, found.estimate, found.fixed, strict=True) if not no}
        priors = {**(told.get("priors") or {}), **_priors(found, effects, mean, spread)}
        found = fit(model, data, **{**told, "priors": priors, "start": start, "starts": 1})
        m, V = _modes(found, effects)
        b, C = _measured(m, V, mean, spread)
        new_mean, new_spread, errors = _population(b, C, spread, unit)
        moved = max(np.max(np.abs(new_mean - mean) / spread), np.max(np.abs(np.log(new_spread / spread))))
        mean, spread, converged = new_mean, new_spread, bool(moved < SETTLED)
    none = spread <= 1.01 * LEAST * unit
    return replace(found, population=_told(found, effects, (mean, spread, errors, none), m, rounds, converged))


def _first(
    fit: Callable[..., FitResult],
    model: Model,
    data: Dataset,
    told: dict[str, Any],
    shared: dict[str, Any],
    effects: _Effects,
) -> FitResult:
    """A fit to begin with: from what all subjects have in common, each drawn towards it a little.

    One by one, some of many subjects would be lost, and the whole fit would search on and on for their sake.
    """
    if told.get("start") is None and told.get("parameters") is None and effects.log.all():
        try:
            common = fit(model, data, **shared)
            values = common.params
            if common.status.converged and not told["callback"]() and all(values[name] > 0 for name in effects.names):
                wide = {name: ("lognormal", values[name], WIDE) for name in effects.names}
                priors = {**(told.get("priors") or {}), **wide}
                return fit(model, data, **{**told, "priors": priors, "start": values, "starts": 1})
        except WeakformError:
            pass
        if told["callback"]():
            raise FitError(LATE)
    return fit(model, data, **told)


def _places(fit: FitResult, effects: _Effects) -> FloatArray:
    """Where the values of each subject are among all parameters, `(subjects, effects)`."""
    assert fit.shared is not None
    assert fit.index is not None
    return np.asarray(fit.index[:, [fit.shared.parameters.index(name) for name in effects.names]])


def _modes(fit: FitResult, effects: _Effects) -> tuple[FloatArray, FloatArray]:
    """Estimates of the subjects `(n, q)` in the coordinates of the effects, and their covariances `(n, q, q)`."""
    places, p = _places(fit, effects), fit.estimate
    size = np.where(effects.log, p[places], 1.0)
    m = np.where(effects.log, np.log(np.maximum(p[places], 1e-300)), p[places])
    blocks = np.nan_to_num(fit.covariance[places[:, :, None], places[:, None, :]], nan=0.0, posinf=1e6)
    return m, np.asarray(blocks / (size[:, :, None] * size[:, None, :]))


def _priors(
    fit: FitResult, effects: _Effects, mean: FloatArray, spread: FloatArray
) -> dict[str, tuple[str, float, float]]:
    found = {}
    for row in _places(fit, effects):
        for j, kind, m, s in zip(row, effects.kinds, mean, spread, strict=True):
            centre = float(np.exp(m)) if kind == "lognormal" else float(m)
            found[fit.model.parameters[int(j)]] = (kind, centre, float(s))
    return found


def _measured(m: FloatArray, V: FloatArray, mean: FloatArray, spread: FloatArray) -> tuple[FloatArray, FloatArray]:
    """b̂ `(n, q)` and C `(n, q, q)`: what each subject tells without the others."""
    b, C = np.empty_like(m), np.empty_like(V)
    unit = np.diag(spread)
    for i in range(len(m)):
        H = unit @ np.linalg.inv(V[i] + 1e-12 * unit @ unit) @ unit - np.eye(len(spread))
        values, vectors = np.linalg.eigh(0.5 * (H + H.T))
        values = np.maximum(values, 1e-4)  # a subject that tells nothing
        C[i] = unit @ (vectors / values) @ vectors.T @ unit
        b[i] = m[i] + C[i] @ ((m[i] - mean) / spread**2)
    return b, C


def _population(
    b: FloatArray, C: FloatArray, start: FloatArray, unit: FloatArray
) -> tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray]]:
    """μ, the spreads, and standard errors of μ and of the logarithms of the spreads."""
    from scipy.optimize import minimize

    def centred(log: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weights of the subjects, the information about μ, and μ."""
        W = np.linalg.inv(C + np.diag(np.exp(2 * log)))
        H = W.sum(axis=0)
        return W, H, np.linalg.solve(H, np.einsum("nij,nj->i", W, b))

    def misfit(log: FloatArray) -> float:
        W, H, mu = centred(log)
        e = b - mu
        logdet = float(np.linalg.slogdet(W)[1].sum())
        return 0.5 * (float(np.einsum("ni,nij,nj->", e, W, e)) - logdet + float(np.linalg.slogdet(H)[1]))

    ends = [(float(np.log(LEAST * u)), float(np.log(LARGEST * u))) for u in unit]
    begun = np.clip(np.log(start), [low for low, _ in ends], [high for _, high in ends])
    log = minimize(misfit, begun, method="L-BFGS-B", bounds=ends).x
    H, q, h = np.empty((len(log), len(log))), len(log), 0.05
    step = h * np.eye(q)
    for i in range(q):
        for j in range(q):
            pairs = ((step[i], step[j], 1), (step[i], -step[j], -1), (-step[i], step[j], -1), (-step[i], -step[j], 1))
            H[i, j] = sum(sign * misfit(log + one + two) for one, two, sign in pairs) / (4 * h * h)
    _, known, mean = centred(log)
    errors = np.sqrt(np.linalg.inv(known).diagonal())
    with np.errstate(invalid="ignore"):
        logs = np.sqrt(np.linalg.pinv(H).diagonal())
    return mean, np.exp(log), (errors, np.where(np.isfinite(logs) & (H.diagonal() > 0), logs, np.inf))


def _told(
    fit: FitResult,
    effects: _Effects,
    found: tuple[FloatArray, FloatArray, tuple[FloatArray, FloatArray], BoolArray],
    m: FloatArray,
    rounds: int,
    converged: bool,
) -> Population:
    from scipy.special import stdtrit

    mean, spread, (errors, logs), none = found
    z = float(stdtrit(max(len(m) - 1, 1), 0.975))
    labels = [q.label or str(k) for k, q in enumerate(fit.data.trajectories)]
    told = []
    for j, (name, kind) in enumerate(zip(effects.names, effects.kinds, strict=True)):
        ends = [mean[j] - z * errors[j], mean[j] + z * errors[j]]
        back = np.exp if kind == "lognormal" else float
        with np.errstate(over="ignore"):
            around = (float(spread[j] * np.exp(-z * logs[j])), float(spread[j] * np.exp(z * logs[j])))
        if none[j]:  # the likelihood has its maximum at no spread: as large as the scatter of so few can hide
            around = (0.0, float(z * errors[j] * np.sqrt(len(m) / 2)))
        told.append(
            Effect(
                name,
                kind,
                mean=float(back(mean[j])),
                mean_interval=(float(back(ends[0])), float(back(ends[1]))),
                spread=float(spread[j]),
                spread_interval=around,
                shrinkage=float(np.clip(1 - m[:, j].std(ddof=1) / spread[j], 0.0, 1.0)),
                subjects={label: float(back(value)) for label, value in zip(labels, m[:, j], strict=True)},
            )
        )
    return Population(tuple(told), rounds, converged)
