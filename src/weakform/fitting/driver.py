"""The story of a fit: prepare → search → refine → quantify → judge → result.

Each stage is a function of what the stages before it return; each of their returns can be printed and tested alone.
Overflow and the like on the way are expected, and handled; no warning of NumPy's reaches the user.
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
from ..estimators import Options, choose
from ..linalg.blas_threads import single_thread
from ..model import Model
from ..parameters import Parameter, Parameters, resolve
from ..parameters.resolution import without
from ..results.fit_result import FitResult
from ..results.records import BasisSummary
from ..support.progress import Callback
from ..support.progress_bar import watching
from ..weak.weak_problem import Basis
from .fallback import Told, all_tried, best_of
from .fit_arguments import check_arguments
from .mixed_effects import mixed
from .multistart import prepare


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
    random : sequence of str, or mapping
        Parameters that differ from trajectory to trajectory as in a population: `["ke", "V"]`, log-normal, or
        `{"ke": "normal"}`. Their means and spreads are in `FitResult.population`; the estimates of the trajectories are
        drawn towards the mean as far as they tell little of their own.
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
    callback : callable, optional
        Called with the progress of the fit (`stage`, `start`, `starts`, `objective`, `seconds`), ten times a second at
        most; if it returns True, the fit stops with the best so far. Without one, a fit that takes longer than two
        seconds says in a terminal or a notebook how far it is.

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
    estimator, chosen = choose(method, options)
    with watching(chosen.time_limit, callback) as watch:
        if random:
            how = {"parameters": parameters, "starts": starts, "method": method, "basis": basis, "options": options}
            return mixed(fit, model, data, random, {**keywords, **how, "seed": seed, "callback": watch})
        begin = time.monotonic()
        matched = match(data, model)
        resolved = resolve(matched.model, matched.data, *without(matched.left, parameters, keywords))
        with single_thread():
            prepared = prepare(resolved, matched, estimator, chosen, Local() if basis is None else basis, watch=watch)
            told = best_of(all_tried(resolved, matched, prepared, starts, seed))
        shown = {**(dict(units) if units else {}), **resolved.units}
        return _result(resolved, told, _Call(seed, time.monotonic() - begin, shown))


@dataclass(frozen=True)
class _Call:
    """What belongs to the call itself."""

    seed: int
    seconds: float
    units: dict[str, str]


def _result(parameters: Parameters, told: Told, call: _Call) -> FitResult:
    """Everything that is kept."""
    fitted, quantified, judged = told.refined, told.quantified, told.judged
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
        notes=(*_moved(parameters), *fitted.notes),
        prior=parameters.prior,
        tied=parameters.tied,
        units=call.units,
        nodes=() if best.latent is None else best.latent.nodes,
        shared=parameters.shared,
        index=parameters.index,
    )


def _moved(parameters: Parameters) -> tuple[str, ...]:
    """What was done with a start outside its bounds."""
    if parameters.start is None:
        return ()
    each = zip(parameters.model.parameters, parameters.start, *parameters.bounds, strict=True)
    return tuple(
        f"The start of {name}, {value:g}, lies outside its bounds [{low:g}, {high:g}] and was moved inside."
        for name, value, low, high in each
        if value < low or value > high
    )
