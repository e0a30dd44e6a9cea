"""Random effects: the mean and the spread of a parameter over subjects, by Laplace's method.

Each subject i has its own b_i ~ N(μ, Ω), Ω diagonal, for the parameters or their logarithms. Given μ and Ω this is a
prior, and all subjects are fitted together, which yields the posterior modes m_i and their covariances V_i. Around its
mode, the likelihood of a subject is that of one measurement b̂_i with covariance C_i,

    C_i = (V_i⁻¹ - Ω⁻¹)⁻¹,        b̂_i = C_i (V_i⁻¹ m_i - Ω⁻¹ μ),        b̂_i ~ N(μ, Ω + C_i),

so μ and Ω follow by maximum likelihood, with the degrees of freedom of μ counted (REML). The fit is repeated with the
new prior until μ and Ω settle. The m_i of the last fit are the estimates of the subjects: the less the data of a
subject determine its parameters, the more its estimate is drawn towards the mean.
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
from ..support.wording import suggest_name

MAX_ROUNDS = 12
"""Rounds of fitting all subjects and updating μ and Ω, at most. By judgement."""

SETTLED_CHANGE = 0.01
"""Change of μ in units of the spread, and change of the logarithm of the spread. Below, the rounds end. By judgement:
far below the sampling error of either."""

MIN_SUBJECTS = 3
"""Fewest subjects for a random effect: with two, mean and spread leave no degree of freedom."""

INITIAL_LOG_SPREAD = 1.0
"""Standard deviation of the log-normal prior around the common fit in the first round. By judgement: weak, a factor of
e to either side."""

MIN_SPREAD = 0.01
"""Smallest spread: dimensionless for logarithms, in units of the scatter of the subjects for normal effects. A spread
at this limit is reported as no spread beyond the noise. By judgement."""

MAX_SPREAD = 10.0
"""Largest spread, in the units of `MIN_SPREAD`: a bound of the search. By judgement."""

LIMIT_TOLERANCE = 1.01
"""Spread over its lower limit. Up to it, the spread is at the limit. By judgement: it absorbs the rounding of exp
and log."""

ROBUST_SCALE = 1.5
"""Standard deviation of normal values over their median absolute deviation, 1.4826, rounded: it only
sets the spread with which the first round starts."""

MIN_INFORMATION = 1e-4
"""Smallest eigenvalue of the information in a subject's own data, in units of that of the prior: rounding may make it
negative if the data hold no information. By judgement."""

HESSIAN_STEP = 0.05
"""Step in log spread for second differences of the REML likelihood. By judgement."""

OUT_OF_TIME_MESSAGE = "Time ran out before every subject was fitted; raise time_limit."


@dataclass(frozen=True)
class _Effects:
    """Names of the random parameters, and the kind of each: `"lognormal"` or `"normal"`."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def from_request(cls, random: Sequence[str] | Mapping[str, str], model: Model, data: Dataset) -> _Effects:
        """Build the effects from the argument `random` of `fit`; raise `FitError` if it is invalid."""
        if isinstance(random, str) or not isinstance(random, Sequence | Mapping):
            raise FitError(f"random must be a list of parameters, or a mapping to their kinds; received {random!r}.")
        kind_of = dict(random) if isinstance(random, Mapping) else dict.fromkeys(random, "lognormal")
        for name, kind in kind_of.items():
            if name not in model.parameters:
                raise FitError(
                    f"random names {name!r}, which is not a parameter.{suggest_name(str(name), model.parameters)}"
                )
            if kind not in ("lognormal", "normal"):
                raise FitError(f"random[{name!r}] must be 'lognormal' or 'normal'; received {kind!r}.")
        count = len(data.trajectories)
        if count < MIN_SUBJECTS:
            raise FitError(
                f"A random effect needs at least {MIN_SUBJECTS} subjects, each with its own trajectory; received "
                f"{count}. Name the column that identifies the subjects (trajectory=...), or leave random out."
            )
        return cls(tuple(kind_of), tuple(kind_of.values()))

    @property
    def log(self) -> BoolArray:
        """Mask `(q,)` of the effects on the logarithm of a parameter."""
        return np.array([kind == "lognormal" for kind in self.kinds])


@dataclass(frozen=True)
class _Estimate:
    """Mean and spread of each effect with their uncertainty.

    Attributes
    ----------
    mean, spread : ndarray, (q,)
    mean_error, log_spread_error : ndarray, (q,)
        Standard errors of the mean and of the logarithm of the spread; infinite if not determined.
    """

    mean: FloatArray
    spread: FloatArray
    mean_error: FloatArray
    log_spread_error: FloatArray


def fit_mixed_effects(
    fit: Callable[..., FitResult],
    model: Model,
    data: Dataset,
    random: Sequence[str] | Mapping[str, str],
    arguments: dict[str, Any],
) -> FitResult:
    """Fit with random effects: alternate between fits of all subjects and updates of the population.

    Parameters
    ----------
    fit : callable
        `fit` itself, called once a round.
    model : Model
    data : Dataset
        One trajectory for each subject.
    random : sequence of str, or mapping
        The random parameters, and their kinds.
    arguments : dict
        All other keywords of `fit`; `"callback"` holds the `Watch`.

    Returns
    -------
    FitResult
        The fit of the last round, with its `population`.

    Raises
    ------
    FitError
        If the random effects are invalid, or time ran out before every subject was fitted.
    """
    effects = _Effects.from_request(random, model, data)
    for keyword in ("fixed", "tied", "priors", "local"):
        clashing = [name for name in effects.names if name in (arguments.get(keyword) or ())]
        if clashing:
            raise FitError(f"{clashing[0]!r} is in random and in {keyword}; leave it out of one of them.")
    user_local = arguments.get("local") or {}
    local = {
        **(user_local if isinstance(user_local, Mapping) else dict.fromkeys(user_local, True)),
        **dict.fromkeys(effects.names, True),
    }
    log = [
        *(arguments.get("log") or ()),
        *(name for name, kind in zip(effects.names, effects.kinds, strict=True) if kind == "lognormal"),
    ]
    shared = {**arguments, "local": user_local, "log": list(dict.fromkeys(log))}
    arguments = {**arguments, "local": local, "log": list(dict.fromkeys(log))}
    result = _fit_first_round(fit, model, data, arguments, shared, effects)
    modes, covariances = _get_subject_modes(result, effects)
    mean = np.median(modes, axis=0)
    # A spread of logarithms is relative already; that of a normal effect is in units of the subjects' scatter.
    unit = np.where(effects.log, 1.0, np.maximum(modes.std(axis=0), 1e-12))
    spread = np.clip(ROBUST_SCALE * np.median(np.abs(modes - mean), axis=0), MIN_SPREAD * unit, unit)
    population: _Estimate | None = None
    converged, rounds = False, 0
    watch: Watch = arguments["callback"]
    while rounds < MAX_ROUNDS and not converged and not watch():
        rounds += 1
        start = {
            name: float(p) for name, p, fixed in zip(result, result.estimate, result.fixed, strict=True) if not fixed
        }
        priors = {**(arguments.get("priors") or {}), **_build_population_priors(result, effects, mean, spread)}
        result = fit(model, data, **{**arguments, "priors": priors, "start": start, "starts": 1})
        modes, covariances = _get_subject_modes(result, effects)
        b, C = _remove_prior(modes, covariances, mean, spread)
        population = _estimate_population(b, C, spread, unit)
        change = max(
            np.max(np.abs(population.mean - mean) / spread), np.max(np.abs(np.log(population.spread / spread)))
        )
        mean, spread, converged = population.mean, population.spread, bool(change < SETTLED_CHANGE)
    if population is None:  # no time for a round: the subjects were fitted one by one, without a prior
        if not result.converged or not (np.diagonal(covariances, axis1=1, axis2=2) > 0).all():
            raise FitError(OUT_OF_TIME_MESSAGE)
        population = _estimate_population(modes, covariances, spread, unit)
    at_lower_limit = population.spread <= LIMIT_TOLERANCE * MIN_SPREAD * unit
    record = _make_population(result, effects, population, at_lower_limit, modes, rounds=rounds, converged=converged)
    return replace(result, population=record)


def _fit_first_round(
    fit: Callable[..., FitResult],
    model: Model,
    data: Dataset,
    arguments: dict[str, Any],
    shared: dict[str, Any],
    effects: _Effects,
) -> FitResult:
    """Fit all subjects for the first time, with a weak prior around the parameters that fit all subjects together.

    Without the prior, some of many subjects would end far off and keep the search running.

    Parameters
    ----------
    fit, model, data
        As for `fit_mixed_effects`.
    arguments : dict
        Keywords of a fit with separate parameters for each subject.
    shared : dict
        Keywords of a fit with the same parameters for all subjects.
    effects : _Effects
    """
    if arguments.get("start") is None and arguments.get("parameters") is None and effects.log.all():
        try:
            common = fit(model, data, **shared)
            values = common.params
            is_positive = all(values[name] > 0 for name in effects.names)
            if common.status.converged and not arguments["callback"]() and is_positive:
                wide = {name: ("lognormal", values[name], INITIAL_LOG_SPREAD) for name in effects.names}
                priors = {**(arguments.get("priors") or {}), **wide}
                return fit(model, data, **{**arguments, "priors": priors, "start": values, "starts": 1})
        except WeakformError:
            pass  # a common fit may be impossible where individual ones are not
        if arguments["callback"]():
            raise FitError(OUT_OF_TIME_MESSAGE)
    return fit(model, data, **arguments)


def _get_subject_positions(fit: FitResult, effects: _Effects) -> FloatArray:
    """Return the position of each subject's values among all parameters, `(subjects, q)`."""
    assert fit.shared is not None
    assert fit.index is not None
    return np.asarray(fit.index[:, [fit.shared.parameters.index(name) for name in effects.names]])


def _get_subject_modes(fit: FitResult, effects: _Effects) -> tuple[FloatArray, FloatArray]:
    """Return the subjects' estimates `(n, q)` in the coordinates of the effects, and their covariances `(n, q, q)`."""
    positions, p = _get_subject_positions(fit, effects), fit.estimate
    size = np.where(effects.log, p[positions], 1.0)
    modes = np.where(effects.log, np.log(np.maximum(p[positions], 1e-300)), p[positions])
    blocks = np.nan_to_num(fit.covariance[positions[:, :, None], positions[:, None, :]], nan=0.0, posinf=1e6)
    return modes, np.asarray(blocks / (size[:, :, None] * size[:, None, :]))


def _build_population_priors(
    fit: FitResult, effects: _Effects, mean: FloatArray, spread: FloatArray
) -> dict[str, tuple[str, float, float]]:
    """Return the population as a prior of each subject's parameters, as `fit` takes priors."""
    priors = {}
    for row in _get_subject_positions(fit, effects):
        for j, kind, m, s in zip(row, effects.kinds, mean, spread, strict=True):
            centre = float(np.exp(m)) if kind == "lognormal" else float(m)
            priors[fit.model.parameters[int(j)]] = (kind, centre, float(s))
    return priors


def _remove_prior(
    modes: FloatArray, covariances: FloatArray, mean: FloatArray, spread: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return b̂ `(n, q)` and C `(n, q, q)`: the estimate of each subject from its own data, without the population."""
    b, C = np.empty_like(modes), np.empty_like(covariances)
    unit = np.diag(spread)
    for i in range(len(modes)):
        # V⁻¹ - Ω⁻¹ in units of the spread: there Ω is the identity. The addend keeps V invertible.
        H = unit @ np.linalg.inv(covariances[i] + 1e-12 * unit @ unit) @ unit - np.eye(len(spread))
        values, vectors = np.linalg.eigh(0.5 * (H + H.T))
        values = np.maximum(values, MIN_INFORMATION)
        C[i] = unit @ (vectors / values) @ vectors.T @ unit
        # b̂ = C (V⁻¹ m - Ω⁻¹ μ) = m + C Ω⁻¹ (m - μ), since V⁻¹ = C⁻¹ + Ω⁻¹.
        b[i] = modes[i] + C[i] @ ((modes[i] - mean) / spread**2)
    return b, C


def _estimate_population(b: FloatArray, C: FloatArray, start: FloatArray, unit: FloatArray) -> _Estimate:
    """Maximise the REML likelihood over the spreads.

    Parameters
    ----------
    b : ndarray, (n, q)
        b̂ of each subject.
    C : ndarray, (n, q, q)
        Their covariances.
    start : ndarray, (q,)
        The spreads at which the search begins.
    unit : ndarray, (q,)
        Units of `MIN_SPREAD` and `MAX_SPREAD`.
    """
    from scipy.optimize import minimize

    def weigh(log_spread: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the weights of the subjects `(n, q, q)`, the information about μ `(q, q)`, and μ `(q,)`."""
        W = np.linalg.inv(C + np.diag(np.exp(2 * log_spread)))
        H = W.sum(axis=0)
        return W, H, np.linalg.solve(H, np.einsum("nij,nj->i", W, b))

    def minus_log_likelihood(log_spread: FloatArray) -> float:
        """Compute the negative REML log-likelihood, less a constant."""
        W, H, mu = weigh(log_spread)
        e = b - mu
        logdet = float(np.linalg.slogdet(W)[1].sum())
        # The last term is the information about μ: it makes the likelihood a restricted one.
        return 0.5 * (float(np.einsum("ni,nij,nj->", e, W, e)) - logdet + float(np.linalg.slogdet(H)[1]))

    limits = [(float(np.log(MIN_SPREAD * u)), float(np.log(MAX_SPREAD * u))) for u in unit]
    begin = np.clip(np.log(start), [low for low, _ in limits], [high for _, high in limits])
    log_spread = minimize(minus_log_likelihood, begin, method="L-BFGS-B", bounds=limits).x
    q, h = len(log_spread), HESSIAN_STEP
    hessian, step = np.empty((q, q)), h * np.eye(q)
    for i in range(q):
        for j in range(q):
            pairs = ((step[i], step[j], 1), (step[i], -step[j], -1), (-step[i], step[j], -1), (-step[i], -step[j], 1))
            # The mixed second difference, over (2h)².
            total = sum(sign * minus_log_likelihood(log_spread + first + second) for first, second, sign in pairs)
            hessian[i, j] = total / (4 * h * h)
    _, information, mean = weigh(log_spread)
    mean_error = np.sqrt(np.linalg.inv(information).diagonal())
    with np.errstate(invalid="ignore"):
        log_error = np.sqrt(np.linalg.pinv(hessian).diagonal())
    is_determined = np.isfinite(log_error) & (hessian.diagonal() > 0)
    return _Estimate(mean, np.exp(log_spread), mean_error, np.where(is_determined, log_error, np.inf))


def _make_population(
    fit: FitResult,
    effects: _Effects,
    estimate: _Estimate,
    at_lower_limit: BoolArray,
    modes: FloatArray,
    *,
    rounds: int,
    converged: bool,
) -> Population:
    """Collect means, spreads and shrinkages with their intervals, in the units of the parameters."""
    from scipy.special import stdtrit

    mean, spread = estimate.mean, estimate.spread
    # Student's t with as many degrees of freedom as a mean over the subjects has.
    z = float(stdtrit(max(len(modes) - 1, 1), 0.975))
    labels = [q.label or str(k) for k, q in enumerate(fit.data.trajectories)]
    records = []
    for j, (name, kind) in enumerate(zip(effects.names, effects.kinds, strict=True)):
        low, high = mean[j] - z * estimate.mean_error[j], mean[j] + z * estimate.mean_error[j]
        to_parameter = np.exp if kind == "lognormal" else float
        with np.errstate(over="ignore"):
            factor = np.exp(z * estimate.log_spread_error[j])
            spread_interval = (float(spread[j] * np.exp(-z * estimate.log_spread_error[j])), float(spread[j] * factor))
        if at_lower_limit[j]:
            # The likelihood is largest at no spread; the interval ends at the largest spread that could go unseen.
            spread_interval = (0.0, float(z * estimate.mean_error[j] * np.sqrt(len(modes) / 2)))
        records.append(
            Effect(
                name,
                kind,
                mean=float(to_parameter(mean[j])),
                mean_interval=(float(to_parameter(low)), float(to_parameter(high))),
                spread=float(spread[j]),
                spread_interval=spread_interval,
                shrinkage=float(np.clip(1 - modes[:, j].std(ddof=1) / spread[j], 0.0, 1.0)),
                subjects={label: float(to_parameter(value)) for label, value in zip(labels, modes[:, j], strict=True)},
            )
        )
    return Population(tuple(records), rounds, converged)
