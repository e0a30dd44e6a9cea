"""The stages of a fit: match → resolve → prepare → run the strategies → result.

`match` assigns columns to states, `resolve_parameters` merges what the user states about parameters, `prepare` builds
the weak forms or the hidden-state problem, and `run_ladder` runs the strategies; each strategy searches, refines,
quantifies and judges (`strategies`). Each stage is a function of what the earlier stages return, and can be tested
alone. Overflow during a search is expected and handled; no NumPy warning reaches the user.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..basis import Local
from ..data import Dataset
from ..data.matching import match
from ..estimators import Options, select_estimator
from ..linalg.blas_threads import use_single_thread
from ..model import Model
from ..parameters import Parameter, ResolvedParameters, resolve_parameters
from ..parameters.resolution import drop_parameters
from ..results.fit_result import FitResult
from ..results.records import BasisSummary
from ..support.progress import Callback
from ..support.progress_bar import provide_watch
from ..weak.weak_problem import Basis
from .fallback import LadderResult, run_ladder
from .fit_arguments import check_arguments
from .mixed_effects import fit_mixed_effects
from .preparation import prepare


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
    random: Sequence[str] | Mapping[str, str] = (),
    log: Sequence[str] = (),
    priors: Mapping[str, tuple[str, float, float]] | None = None,
    units: Mapping[str, str] | None = None,
    method: str = "wendy",
    basis: Basis | None = None,
    options: Options | Mapping[str, Any] | None = None,
    seed: int = 0,
    callback: Callback | None = None,
) -> FitResult:
    """Estimate the parameters of a model from noisy measurements of its states.

    Parameters
    ----------
    model : Model
    data : Dataset
    parameters : mapping, optional
        Everything about each parameter in one place: `{"a": Parameter(bounds=(0, 5), log=True), "b": 2.0}`; a number
        fixes the parameter. The keywords below set one property each. Use one form or the other for a parameter.
    bounds : mapping or sequence of pairs, optional
        `{"p1": (1, 5)}` for any subset of the parameters, or one pair for each; `None` or infinity for no bound.
    start : mapping or array_like, (J,), optional
        A first guess. It competes with automatic starts, unless `starts=1`. A mapping may omit parameters in which the
        model is linear, and those with two finite bounds; if some states are not measured, it may omit any.
    starts : int, optional
        Number of starts; by default as many as the model needs (one if it is linear in all parameters).
    fixed : mapping, optional
        Parameters held at these values.
    tied : mapping, optional
        Parameters that are expressions of others: `{"d": "2*b"}`; they take no bounds and no start.
    local : sequence of str, or mapping
        Parameters with a separate value for each trajectory, `["scale"]`; or for groups of trajectories, with one label
        for each: `{"scale": ["treated", "treated", "control"]}`, or `{"scale": {"mouse 1": "treated", ...}}`. They get
        names such as `scale_control`.
    random : sequence of str, or mapping
        Parameters that vary between trajectories as in a population: `["ke", "V"]`, log-normal, or `{"ke": "normal"}`.
        `FitResult.population` holds their means and spreads. The less the data of a trajectory determine its values,
        the more its estimates are drawn towards the mean.
    log : sequence of str
        Positive parameters that are estimated on a log scale; their intervals are positive, too.
    priors : mapping, optional
        `{"a": ("normal", mean, sd)}` or `{"a": ("lognormal", median, sd of the logarithm)}`: the estimate is the
        maximum of the posterior. Not for `"wls"` and `"irls"`, which have no likelihood.
    units : mapping, optional
        Units that the report shows: of parameters, states and `"time"`.
    method : str
        `"wendy"` (WENDy-MLE, then refined to remove its bias), `"mle"` (WENDy-MLE), `"irls"` (WENDy-IRLS), `"wls"`
        (weak least squares); or by solving the equations: `"output-error"` (nonlinear least squares on forward
        solutions) and `"hybrid"` (the same, started by a weak estimate). If some states are not measured, `"relaxed"`
        (the relaxed model) replaces `"wendy"`; `"mle"`, `"irls"` and `"wls"` need every state.
    basis : Local or Orthonormal, optional
        Test functions; `Local()` by default.
    options : Options or mapping, optional
        Tolerance and limits, see `Options`; an option that the method does not use is refused.
    seed : int
        Seed of the starts; the same seed gives the same result.
    callback : callable, optional
        Called with the progress of the fit (`stage`, `start`, `starts`, `objective`, `seconds`), at most ten times a
        second; if it returns True, the fit stops with the best estimate so far. Without a callback, a fit that takes
        longer than two seconds shows a progress bar in a terminal or a notebook.

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
    check_arguments(model, data, starts, basis, seed)
    estimator, chosen = select_estimator(method, options)
    with provide_watch(chosen.time_limit, callback) as watch:
        if random:
            arguments = {
                **keywords,
                "parameters": parameters,
                "starts": starts,
                "method": method,
                "basis": basis,
                "options": options,
                "seed": seed,
                "callback": watch,
            }
            return fit_mixed_effects(fit, model, data, random, arguments)
        begin = time.monotonic()
        matched = match(data, model)
        resolved = resolve_parameters(
            matched.model, matched.data, *drop_parameters(matched.unused_parameters, parameters, keywords)
        )
        with use_single_thread():
            prepared = prepare(resolved, matched, estimator, chosen, Local() if basis is None else basis, watch=watch)
            climbed = run_ladder(resolved, matched, prepared, starts, seed)
        all_units = {**(dict(units) if units else {}), **resolved.units}
        return _make_result(resolved, climbed, _Call(seed, time.monotonic() - begin, all_units))


@dataclass(frozen=True)
class _Call:
    """Facts about the call of `fit` that the result records."""

    seed: int
    seconds: float
    units: dict[str, str]


def _make_result(parameters: ResolvedParameters, climbed: LadderResult, call: _Call) -> FitResult:
    """Build the result from the attempt that is reported."""
    attempt = climbed.attempt
    searched, quantified, judgement = attempt.searched, attempt.quantified, attempt.judgement
    task, best, problem = searched.task, searched.best, searched.task.problem
    refined = best.refined
    bases = [form.functions for form in problem.forms]
    return FitResult(
        model=parameters.model,
        data=problem.data,
        method=searched.estimator.name,
        estimate=quantified.p,
        covariance=quantified.covariance,
        covariance_kind=quantified.kind,
        status=judgement.status,
        log_likelihood=attempt.log_likelihood,
        sigma=problem.sigma if refined is None else refined.sigma,
        sigma_estimated=problem.data.sigma is None,
        basis=tuple(BasisSummary(b.description, b.radius, b.count) for b in bases),
        bounds=quantified.bounds,
        log_scale=task.scale.log,
        fixed=~task.free,
        at_bound=quantified.at_bound,
        denoised=task.weak.denoise_or_keep(best.estimate) if refined is None else refined.states,
        goodness=judgement.goodness,
        starts=searched.records,
        alternatives=() if judgement.freedoms else searched.alternatives,
        freedoms=judgement.freedoms,
        iterations=best.iterations,
        mesh=1 if refined is None else refined.nodes_per_sample,
        seed=call.seed,
        options=task.options,
        seconds=call.seconds,
        weak_residuals=judgement.weak_residuals,
        warnings=judgement.warnings,
        notes=(*_describe_moved_starts(parameters), *searched.notes, *([climbed.note] if climbed.note else [])),
        prior=parameters.prior,
        tied=parameters.tied,
        units=call.units,
        nodes=() if best.latent is None else best.latent.nodes,
        shared=parameters.shared,
        index=parameters.index,
        trace=climbed.trace,
    )


def _describe_moved_starts(parameters: ResolvedParameters) -> tuple[str, ...]:
    """Describe the starts that were outside their bounds and were moved inside, one sentence for each."""
    if parameters.start is None:
        return ()
    starts_with_bounds = zip(parameters.model.parameters, parameters.start, *parameters.bounds, strict=True)
    return tuple(
        f"The start of {name}, {value:g}, was outside its bounds [{low:g}, {high:g}] and was moved inside."
        for name, value, low, high in starts_with_bounds
        if value < low or value > high
    )
