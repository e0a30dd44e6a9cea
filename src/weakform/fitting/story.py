"""The story of a fit: prepare → search → refine → quantify → judge → result.

Each stage is a function of what the stages before it return; each of their returns can be printed and tested alone.
Overflow and the like on the way are expected, and handled; no warning of NumPy's reaches the user.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..basis import Local
from ..data import Dataset
from ..data.matching import Matched, match
from ..estimators import ESTIMATORS, Estimator, Options, Status, choose
from ..linalg.threads import single_thread
from ..model import Model
from ..parameters import Parameter, Parameters, resolve
from ..parameters.resolve import without
from ..results.covariance import Quantified, quantify
from ..results.likelihood import log_likelihood
from ..results.records import BasisSummary
from ..results.result import FitResult
from ..support.checks import is_whole
from ..support.errors import FitError, UndefinedError
from ..weak.form import WeakForm
from ..weak.problem import Basis
from .judge import Judged, judge
from .search import Prepared, Searched, prepare, reaches_noise, refine, search, weak_guesses

STIFF = 100.0
"""Decay in the time between samples above which only a solver for stiff equations can follow."""
BETTER = 0.5
FEW, MUCH_LEFT = 100, 0.25
"""Samples of a trajectory, and the share of what varies that a fit leaves: with fewer, and more, it looks twice."""
AGREE, SAME, MORE = 4, 0.05, 24
"""Starts that have led to the same log-likelihood, so that more would not help; and how many more there are else."""
NEAR = 40
"""Iterations of a method that solves the equations, from where others have ended."""
MUCH = 3.0
"""Log-likelihood by which a second way must be better, and where it is no success either."""


@np.errstate(all="ignore")
def fit(
    model: Model,
    data: Dataset,
    *,
    parameters: Mapping[str, Parameter | float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | None = None,
    start: Mapping[str, float] | ArrayLike | None = None,
    starts: int | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    local: Sequence[str] | Mapping[str, Sequence[str] | Mapping[str, str]] = (),
    log: Sequence[str] = (),
    priors: Mapping[str, tuple[str, float, float]] | None = None,
    units: Mapping[str, str] | None = None,
    method: str = "wendy",
    basis: Basis | None = None,
    options: Options | Mapping[str, Any] | None = None,
    seed: int = 0,
) -> FitResult:
    """Estimate the parameters of a model from noisy measurements of its states, without solving it.

    Parameters
    ----------
    model : Model
    data : Dataset
    parameters : mapping, optional
        What is known of each parameter in one place: `{"a": Parameter(bounds=(0, 5), log=True), "b": 2.0}`, where a
        number means fixed. The keywords below say the same, one thing at a time; a parameter is in one of the forms.
    bounds : mapping or sequence of pairs, optional
        `{"p1": (1, 5)}` for any subset of the parameters, or one pair for each; `None` or infinity for no bound.
    start : mapping or array_like, (J,), optional
        A first guess. It competes with starts of our own, unless `starts=1`. A mapping may leave out parameters in
        which the model is linear; they are solved for.
    starts : int, optional
        How many starts; by default as many as the model needs (one where it is linear in all parameters).
    fixed : mapping, optional
        Parameters held at these values.
    tied : mapping, optional
        Parameters that are expressions of others: `{"d": "2*b"}`; their bounds and starts are left out.
    local : sequence of str, or mapping
        Parameters with a value for each trajectory, `["scale"]`; or for groups of them, with one label for each
        trajectory: `{"scale": ["treated", "treated", "control"]}`, or `{"scale": {"mouse 1": "treated", ...}}`. They
        get names such as `scale_control`.
    log : sequence of str
        Positive parameters that are estimated on a log scale; their intervals are positive, too.
    priors : mapping, optional
        `{"a": ("normal", mean, sd)}` or `{"a": ("lognormal", median, sd of the logarithm)}`: the estimate is the
        maximum of the posterior. Not for `"wls"` and `"irls"`, which have no likelihood.
    units : mapping, optional
        Text that the report shows: of parameters, states and `"time"`.
    method : str
        `"wendy"` (WENDy-MLE, then refined to remove its bias), `"mle"` (WENDy-MLE), `"irls"` (WENDy-IRLS), `"wls"`
        (weak least squares); or by solving the equations: `"output-error"` (nonlinear least squares on forward
        solutions) and `"hybrid"` (the same, started by a weak estimate). Where only a part is measured, `"wendy"` makes
        room for `"relaxed"` (the relaxed model); `"mle"`, `"irls"` and `"wls"` need every state.
    basis : Local or Orthonormal, optional
        Test functions; `Local()` by default.
    options : Options or mapping, optional
        Tolerance and limits, see `Options`; one that the method does not use is refused.
    seed : int
        Of the starts; the same seed gives the same result.

    Returns
    -------
    FitResult

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> fit = wf.fit(problem.model, problem.simulate(M=100, noise=0.02, seed=1))
    >>> fit.success, [round(float(value), 1) for value in fit.estimate]
    (True, [1.0, 1.0])
    """
    begin = time.monotonic()
    keywords = {
        "bounds": bounds,
        "start": start,
        "fixed": fixed,
        "tied": tied,
        "local": local,
        "log": log,
        "priors": priors,
        "units": units,
    }
    _check_arguments(model, data, starts, basis, seed)
    estimator, chosen = choose(method, options)
    matched = match(data, model)
    resolved = resolve(matched.model, matched.data, *without(matched.left, parameters, keywords))
    with single_thread():
        prepared = prepare(resolved, matched, estimator, chosen, basis if basis is not None else Local())
        told = _best(_tried(resolved, matched, prepared, starts, seed))
    shown = {**(dict(units) if units else {}), **resolved.units}
    return _result(resolved, told, _Call(seed, time.monotonic() - begin, shown))


@dataclass(frozen=True)
class _Told:
    """A fit from its search to its verdict."""

    refined: Searched
    quantified: Quantified
    judged: Judged

    @property
    def log_likelihood(self) -> float:
        """Of the data; NaN where there is none."""
        return log_likelihood(self.refined.task, self.refined.best.refined, self.refined.noise_free)


def _told(
    parameters: Parameters, prepared: Prepared, starts: int | None, seed: int, forms: tuple[WeakForm, ...] = ()
) -> _Told:
    """From the search to the verdict; where the method has no weak forms, those of another tell where a model fails."""
    with prepared.task.stop.on_interrupt():
        refined, found = None, None
        quick = prepared.estimator.quick
        if quick is not None and "solver" not in prepared.task.options.given:
            cheap = replace(prepared.estimator, search=quick.search, enough=quick.enough)
            found = search(replace(prepared, estimator=cheap), starts, seed)
            refined = refine(found)
        if refined is None or not reaches_noise(refined):
            refined = refine(search(prepared, starts, seed, before=found))
    quantified = quantify(refined.task, refined.best, refined.noise_free)
    return _Told(refined, quantified, judge(parameters, refined, quantified, forms))


def _tried(parameters: Parameters, matched: Matched, prepared: Prepared, starts: int | None, seed: int) -> list[_Told]:
    """Fits of the method, and of those that come to its help."""
    tried, refusal = [], None
    try:
        tried.append(_told(parameters, prepared, starts, seed))
    except UndefinedError as error:  # at the data; the states of other methods need not be there
        refusal = error
    for name in prepared.estimator.then:
        tried += _others(parameters, matched, prepared, ESTIMATORS[name], tried, starts=starts, seed=seed)
    if refusal is not None and not tried:
        raise refusal
    return tried


def _others(
    parameters: Parameters,
    matched: Matched,
    first: Prepared,
    estimator: Estimator,
    tried: list[_Told],
    *,
    starts: int | None,
    seed: int,
) -> list[_Told]:
    """Fits of another method, where none so far is a success; a local one begins where the others have ended."""
    task = first.task
    if task.options.given or matched.data.covariance is not None or (estimator.local and not tried):
        return []
    if tried:
        best = _best(tried)
        status = best.judged.status
        if best.refined.noise_free or (estimator.local and status.sound) or (status.success and not _suspect(best)):
            return []
        if not _few(best) and reaches_noise(best.refined):  # no search would find anything better
            return []
        if estimator is first.estimator and (starts is not None or matched.complete or _agreed(best)):
            return []
        found = best.refined.best
        stiff = found.refined is not None and found.refined.held is None and found.refined.stiffness > STIFF
        if stiff and not estimator.local:
            return []
    options = Options(time_limit=task.stop.left(), tolerance=task.options.tolerance)
    if estimator.local:  # what is not near is not to be found by solving on and on
        options = replace(options, max_iterations=NEAR)
    ends = tuple(p for told in reversed(tried) if np.isfinite(p := told.refined.best.estimate).all())
    others: list[_Told] = []
    for guesses in [(end,) for end in ends] if estimator.local else [ends]:
        if task.stop() or (others and others[-1].judged.status.success):
            break
        try:
            prepared = prepare(parameters, matched, estimator, options, Local())
            if estimator.local:
                prepared = replace(prepared, guesses=guesses)
            elif starts is None and estimator is not first.estimator:
                weak = weak_guesses(parameters, matched, options)
                prepared = replace(prepared, guesses=(*prepared.guesses, *guesses, *weak))
            forms = tried[0].refined.task.problem.forms if tried else ()
            count, other = 1 if estimator.local else starts, seed
            if estimator is first.estimator:  # the same once more, from other starts, and more of them
                count, other = MORE, seed + 1
            others.append(_told(parameters, prepared, count, other, forms))
        except FitError:
            continue
    return others


def _agreed(told: _Told) -> bool:
    """Whether enough starts have led to the best likelihood."""
    return sum(abs(record.behind) < SAME for record in told.refined.records) >= AGREE


def _suspect(told: _Told) -> bool:
    """Whether a success leaves much of what varies, and there are few samples to tell that from noise."""
    refined, problem = told.refined.best.refined, told.refined.task.problem
    return _few(told) and refined is not None and bool((refined.sigma > MUCH_LEFT * problem.spread).any())


def _few(told: _Told) -> bool:
    """Whether there are few samples to tell what varies from noise."""
    return max(len(q.times) for q in told.refined.task.problem.data.trajectories) < FEW


def _best(tried: list[_Told]) -> _Told:
    """The first, unless another is a success and better, or sound and much better."""
    best = tried[0]
    for other in tried[1:]:
        old, new = best.judged.status, other.judged.status
        gain = other.log_likelihood - best.log_likelihood
        gained = not gain <= (BETTER if new.success else MUCH)  # NaN where there was nothing to compare with
        if (new.success and (gained or not old.sound)) or (new.sound and gained and old is not Status.UNDETERMINED):
            how = "solving the equations" if other.refined.estimator.local else "the relaxed model"
            first = tried[0].refined.estimator.name
            note = f"{first!r} led to no estimate that fits; {how} did better, and is told here."
            best = replace(other, refined=replace(other.refined, notes=(*other.refined.notes, note)))
    return best


def _check_arguments(model: Any, data: Any, starts: Any, basis: Any, seed: Any) -> None:
    if not isinstance(model, Model):
        raise FitError(f"The model must be a Model, such as Model.from_text(...); received a {type(model).__name__}.")
    if not isinstance(data, Dataset):
        raise FitError(f"The data must be a Dataset, such as Dataset(t, U); received a {type(data).__name__}.")
    if starts is not None and not is_whole(starts, 1):
        raise FitError(f"starts must be a whole number, at least 1; received {starts!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    if basis is not None and (isinstance(basis, type) or not hasattr(basis, "build")):
        raise FitError(f"The basis must be test functions such as Local() or Orthonormal(); received {basis!r}.")
    if not model.parameters:
        raise FitError("The model has no parameters; there is nothing to estimate.")
    for name in data.inputs:
        if name in model.parameters:
            raise FitError(
                f"{name!r} is an input of the data and a parameter of the model; make the model with inputs=[{name!r}]."
            )


@dataclass(frozen=True)
class _Call:
    """What belongs to the call itself."""

    seed: int
    seconds: float
    units: dict[str, str]


def _result(parameters: Parameters, told: _Told, call: _Call) -> FitResult:
    """Everything that is kept."""
    fitted, quantified, judged = told.refined, told.quantified, told.judged
    task, best, problem = fitted.task, fitted.best, fitted.task.problem
    refined = best.refined
    kept = best.latent is not None or fitted.estimator.local
    bases = [form.functions for form in problem.forms]
    return FitResult(
        model=parameters.model,
        data=problem.data,
        method=fitted.estimator.name,
        estimate=quantified.p,
        covariance=quantified.covariance,
        covariance_kind=quantified.kind,
        status=judged.status,
        log_likelihood=told.log_likelihood,
        sigma=problem.sigma if refined is None else refined.sigma,
        sigma_estimated=problem.data.sigma is None,
        basis=tuple(BasisSummary(b.description, b.radius, b.count) for b in bases),
        bounds=quantified.bounds,
        log_scale=task.scale.log,
        fixed=~task.free,
        at_bound=quantified.at_bound,
        denoised=task.weak.denoised(best.estimate) if refined is None else refined.states,
        goodness=judged.goodness,
        starts=fitted.records,
        alternatives=() if judged.freedoms else fitted.alternatives,
        freedoms=judged.freedoms,
        iterations=best.iterations,
        mesh=1 if refined is None else refined.finer,
        seed=call.seed,
        options=task.options,
        seconds=call.seconds,
        weak_residuals=judged.weak_residuals,
        warnings=judged.warnings,
        notes=fitted.notes,
        prior=parameters.prior,
        tied=parameters.tied,
        units=call.units,
        nodes=() if best.latent is None else best.latent.nodes,
        shared=parameters.shared if kept else None,
        index=parameters.index if kept else None,
    )
