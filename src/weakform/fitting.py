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

from .basis import Local
from .data import Dataset
from .data.matching import Matched, match
from .estimators import ESTIMATORS, Estimator, Options, Outcome, Status, Task, choose, takes
from .estimators.noise_free import fits_to_rounding, follows_to_rounding, is_noise_free
from .estimators.pose import pose
from .estimators.starts import make_starts
from .estimators.task import Deadline
from .estimators.wls import ESTIMATOR as WLS
from .linalg.threads import single_thread
from .model import Model
from .parameters import Parameter, Parameters, resolve
from .parameters.resolve import without
from .results.covariance import Quantified, quantify
from .results.diagnosis import Evidence, contradicts_noise_free, doubts, is_constant, objections, unseen, verdict
from .results.goodness import TESTABLE, GoodnessOfFit, assess, misfits
from .results.likelihood import log_likelihood
from .results.records import BasisSummary, StartRecord
from .results.result import FitResult
from .support.checks import is_whole
from .support.errors import FitError
from .support.typing import FloatArray
from .weak.problem import Basis


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
        room for `"relaxed"` (the relaxed model), which does with any part of the states; the others need all of them.
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
        with prepared.task.stop.on_interrupt():
            searched = search(prepared, starts, seed)
            refined = refine(searched)
        quantified = quantify(refined.task, refined.best, refined.noise_free)
        judged = judge(resolved, refined, quantified)
    shown = {**(dict(units) if units else {}), **resolved.units}
    return _result(resolved, refined, quantified, judged, _Call(seed, time.monotonic() - begin, shown))


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
class Prepared:
    """What is to be estimated, by which method, from which first guess."""

    estimator: Estimator
    task: Task
    guess: FloatArray | None


def prepare(parameters: Parameters, matched: Matched, estimator: Estimator, options: Options, basis: Basis) -> Prepared:
    """The weak problem, and what is known of its parameters, in the coordinates that the estimators work in."""
    free, scale = parameters.free, parameters.scale
    if not free.any():
        raise FitError("All parameters are fixed; there is nothing to estimate.")
    if parameters.prior is not None and not estimator.likelihood:
        users = [other.name for other in ESTIMATORS.values() if other.likelihood]
        raise FitError(f"Method {estimator.name!r} has no likelihood to join with priors; use {', '.join(users)}.")
    chosen = estimator
    estimator, problem = pose(parameters, matched, chosen, basis)
    if estimator is not chosen:
        takes(estimator, options.given)
    names = problem.model.parameters
    linear = np.isin(names, problem.model.linear_among([name for name, f in zip(names, free, strict=True) if f]))
    lower, upper = parameters.bounds
    task = Task(
        problem=problem,
        free=free,
        base=parameters.base,
        lower=scale.working(lower),
        upper=scale.working(upper),
        linear=linear & ~scale.log,
        options=options,
        stop=Deadline(options.time_limit),
        scale=scale,
        prior=None if parameters.prior is None else parameters.prior.on(scale),
    )
    if estimator.check is not None:
        estimator.check(task)
    start = parameters.start
    return Prepared(estimator, task, None if start is None else np.where(free, scale.working(start), task.base))


@dataclass(frozen=True)
class Searched:
    """Where the starts have led, the best first; and what was decided on the way."""

    estimator: Estimator
    task: Task
    records: tuple[StartRecord, ...]
    best: Outcome
    noise_free: bool
    notes: tuple[str, ...] = ()


def search(prepared: Prepared, starts: int | None, seed: int) -> Searched:
    """Run the estimator from every start."""
    estimator, task = prepared.estimator, prepared.task
    direct = task.is_linear and estimator.closed_form
    begin = estimator.starts or make_starts
    points: Sequence[FloatArray | None] = [None] if direct else begin(task, prepared.guess, starts, seed)
    noise_free, notes = is_noise_free(task.problem), []
    if not noise_free and estimator is not WLS and task.problem.forms:
        noise_free = fits_to_rounding(task.weak, lambda: WLS.search(task, points[0]).objective)
    if noise_free and estimator.noise_free is not None:
        task = estimator.noise_free(task)
    elif noise_free:
        why = "sigma is 0" if is_noise_free(task.problem) else "weak least squares fits them to rounding"
        notes.append(f"The data are noise-free ({why}): weak least squares was used in place of {estimator.name!r}.")
        if task.prior is not None:
            notes.append("Priors were left out: noise-free data leave nothing for them to say.")
        estimator = WLS
        points = [None] if task.is_linear else points
    tried: list[tuple[FloatArray | None, Outcome]] = []
    for point in points:
        tried.append((point, estimator.search(task, point)))
        if task.stop():
            break
    tried.sort(key=lambda pair: pair[1].objective)
    best = tried[0][1]
    if best.status is Status.START:
        raise FitError(f"No fit: {best.status.value}.")
    natural = task.scale.natural
    records = tuple(
        StartRecord(
            start=None if point is None else natural(point[: len(task.free)]),
            estimate=natural(outcome.estimate),
            objective=outcome.objective,
            status=outcome.status,
            iterations=outcome.iterations,
            evaluations=outcome.evaluations,
        )
        for point, outcome in tried
    )
    return Searched(estimator, task, records, best, noise_free, tuple(notes))


def refine(searched: Searched) -> Searched:
    """Refine the best outcome where the estimator does; and look again whether the data are noise-free."""
    estimator, task, best = searched.estimator, searched.task, searched.best
    noise_free, notes = searched.noise_free, list(searched.notes)
    if estimator.refine is not None:
        best = estimator.refine(task, best)
        notes += [best.note] if best.note else []
        if best.refined is None and estimator.unrefined is not None:
            estimator = ESTIMATORS[estimator.unrefined]
            notes.append(
                f"The refinement was not possible; the estimate is that of {estimator.name!r}, biased by the noise."
            )
    if estimator is WLS and not noise_free and task.problem.data.sigma is None:
        noise_free = fits_to_rounding(task.weak, lambda: best.objective)
    if best.status is Status.TIME and task.stop.asked:
        best = replace(best, status=Status.INTERRUPTED)
    if not noise_free and follows_to_rounding(task.problem, best.refined):
        notes.append("The data are noise-free: the model follows them to rounding, which leaves no errors to tell.")
        noise_free = True
    return replace(searched, estimator=estimator, best=best, noise_free=noise_free, notes=tuple(notes))


@dataclass(frozen=True)
class Judged:
    """What to think of a fit."""

    status: Status
    goodness: GoodnessOfFit | None
    warnings: tuple[str, ...]
    weak_residuals: tuple[tuple[FloatArray, FloatArray], ...]


def judge(parameters: Parameters, fitted: Searched, quantified: Quantified) -> Judged:
    """Test the model, and say in words what is wrong or doubtful."""
    task, best, problem = fitted.task, fitted.best, fitted.task.problem
    refined, data = best.refined, problem.data
    goodness = None
    if refined is not None and refined.residuals is not None and not fitted.noise_free:
        known = data.sigma is not None
        where = misfits(problem.forms, best.estimate)
        goodness = assess(refined.residuals, refined.misfit, refined.freedom, known, where)
    contradiction: tuple[str, ...] = ()
    if fitted.noise_free and (refined is None or data.sigma is not None):
        contradiction = contradicts_noise_free(task, task.scale.working(quantified.p), refined)
    residuals = () if fitted.noise_free else tuple(form.standardised(best.estimate) for form in problem.forms)
    # A refinement has a σ of its own, and a test; without one the weak residuals are all there is.
    telling = residuals and refined is None and (data.sigma is not None or data.samples >= TESTABLE)
    scores = np.concatenate([r.ravel() for _, r in residuals]) if telling else np.zeros(1)
    free = unseen(parameters, task, best)
    evidence = Evidence(
        p=quantified.p,
        covariance=quantified.covariance,
        inner=task.free & ~quantified.at_bound,
        test=np.nan if goodness is None else goodness.p_value,
        misfit=np.inf if contradiction else float(np.sqrt(np.mean(scores**2))),
        constant=is_constant(problem),
        against=bool((quantified.at_bound & (quantified.p != 0)).any()),
        unseen=bool(free),
    )
    warnings = (*free, *objections(task, refined, goodness), *contradiction, *doubts(task, quantified, best.status))
    return Judged(verdict(best.status, evidence), goodness, warnings, residuals)


@dataclass(frozen=True)
class _Call:
    """What belongs to the call itself."""

    seed: int
    seconds: float
    units: dict[str, str]


def _result(parameters: Parameters, fitted: Searched, quantified: Quantified, judged: Judged, call: _Call) -> FitResult:
    """Everything that is kept."""
    task, best, problem = fitted.task, fitted.best, fitted.task.problem
    refined = best.refined
    bases = [form.functions for form in problem.forms]
    return FitResult(
        model=parameters.model,
        data=problem.data,
        method=fitted.estimator.name,
        estimate=quantified.p,
        covariance=quantified.covariance,
        covariance_kind=quantified.kind,
        status=judged.status,
        log_likelihood=log_likelihood(task, refined, fitted.noise_free),
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
        shared=None if best.latent is None else parameters.shared,
        index=None if best.latent is None else parameters.index,
    )
