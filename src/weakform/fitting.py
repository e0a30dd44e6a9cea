"""`fit`: model and data to estimates with intervals, in one call."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .basis import Local
from .data import Dataset
from .diagnosis import doubts, is_still, judged, misfits, not_silent
from .errors import FitError
from .estimators import ESTIMATORS, Options, Outcome, Refined, Status, Task
from .estimators import wls as wls_estimator
from .estimators.base import Deadline
from .estimators.starts import make_starts
from .expressions import suggestion
from .goodness import MIN_SAMPLES
from .model import Model
from .parameters import first_guess, resolve
from .records import BasisSummary, StartRecord
from .result import FitResult
from .threads import single_thread
from .typing import FloatArray, is_whole
from .weak.problem import Basis, WeakProblem, symmetric_inverse
from .weak.tridiagonal import NotPositiveDefinite

ROUNDING = 2e-6
"""Weak residual, relative to `Φ'x`, below which weak least squares is said to fit to rounding: quadrature with the
default test functions leaves 9e-7 on smooth noise-free data."""
SILENT = 1e-6
"""Residuals, relative to the spread of a state, below which data are said to be noise-free."""
PAPER = "the paper's covariance G⁺ S G⁺ᵀ, which belongs to unweighted least squares and tends to be too wide"
NONE = "none: noise-free data"
SANDWICH = "sandwich, for noise whose size may vary from sample to sample"
SENSITIVITIES = "from the sensitivities of the forward solution to the parameters and the initial state"
INFORMATION = "inverse information (Gᵀ S⁻¹ G)⁻¹ at the fitted states"


def fit(
    model: Model,
    data: Dataset,
    *,
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | None = None,
    start: Mapping[str, float] | ArrayLike | None = None,
    starts: int | None = None,
    fixed: Mapping[str, float] | None = None,
    tied: Mapping[str, str] | None = None,
    local: Sequence[str] | Mapping[str, Sequence[str]] = (),
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
        Parameters with a value for each trajectory, `["scale"]`; or for groups of them, with one label a trajectory:
        `{"scale": ["treated", "treated", "control"]}`. They get names such as `scale_control`.
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
        solutions) and `"hybrid"` (the same, started by a weak estimate).
    basis : Local or Orthonormal, optional
        Test functions; `Local()` by default.
    options : Options or mapping, optional
        Tolerance and limits, see `Options`.
    seed : int
        Of the starts; the same seed gives the same result.

    Returns
    -------
    FitResult
    """
    begin = time.monotonic()
    if not isinstance(model, Model):
        raise FitError(f"The model must be a Model, such as Model.from_text(...); received a {type(model).__name__}.")
    if not isinstance(data, Dataset):
        raise FitError(f"The data must be a Dataset, such as Dataset(t, U); received a {type(data).__name__}.")
    if not isinstance(method, str) or method not in ESTIMATORS:
        guess = suggestion(str(method), ESTIMATORS)
        raise FitError(f"Unknown method {method!r}.{guess} Known: {', '.join(ESTIMATORS)}.")
    if starts is not None and not is_whole(starts, 1):
        raise FitError(f"starts must be a whole number, at least 1; received {starts!r}.")
    if not is_whole(seed, 0):
        raise FitError(f"The seed must be a whole number, not negative; received {seed!r}.")
    if basis is not None and (isinstance(basis, type) or not hasattr(basis, "build")):
        raise FitError(f"The basis must be test functions such as Local() or Orthonormal(); received {basis!r}.")
    if not model.parameters:
        raise FitError("The model has no parameters; there is nothing to estimate.")
    chosen = Options.of(options)
    if priors and method in ("wls", "irls"):
        raise FitError(f"Method {method!r} has no likelihood to join with priors; use 'wendy', 'mle' or 'hybrid'.")
    for name in data.inputs:
        if name in model.parameters:
            raise FitError(
                f"{name!r} is an input of the data and a parameter of the model; make the model with inputs=[{name!r}]."
            )
    told = resolve(model, data, bounds, fixed, tied, local, log, priors)
    working, free = told.working_model, told.free
    if not free.any():
        raise FitError("All parameters are fixed; there is nothing to estimate.")
    names = working.parameters
    linear = np.isin(names, working.linear_among([name for name, f in zip(names, free, strict=True) if f]))
    with single_thread():
        problem = WeakProblem.build(working, data, basis if basis is not None else Local())
        task = Task(
            problem,
            free,
            told.base,
            told.working(told.lower),
            told.working(told.upper),
            linear,
            chosen,
            Deadline(begin + chosen.time_limit),
            told.working_prior,
            told.log if told.log.any() else None,
        )
        if problem.size < int(free.sum()):
            raise FitError(
                f"{problem.size} weak residuals cannot determine {int(free.sum())} parameters; use more samples, a "
                "smaller radius, or fix some parameters."
            )
        given = first_guess(task, told, start)
        with _stoppable(task.deadline):
            found = _run(task, method, given, starts, seed, begin)
    return replace(found, model=told.model, prior=told.prior, tied=told.tied, units=told.spread(_units(units)))


@contextmanager
def _stoppable(deadline: Deadline) -> Iterator[None]:
    """Let the first Ctrl-C stop the search with the best so far, and the second one everything."""
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        if deadline.stopped:
            raise KeyboardInterrupt
        deadline.stopped = True

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _units(units: Mapping[str, str] | None) -> dict[str, str]:
    if units is None:
        return {}
    if not isinstance(units, Mapping) or not all(isinstance(v, str) for v in units.values()):
        raise FitError(f"units must be a mapping from names to text; received {units!r}.")
    return dict(units)


def _kind(silent: bool, refined: Refined | None, wanted: str, solved: bool) -> str:
    if silent:
        return NONE
    if solved and refined is not None:
        return SENSITIVITIES
    if refined is None or wanted == "paper":
        return PAPER
    return SANDWICH if wanted == "sandwich" else INFORMATION


def _run(task: Task, method: str, given: FloatArray | None, starts: int | None, seed: int, begin: float) -> FitResult:
    problem, notes = task.problem, []
    closed_form = task.is_linear and method in ("wls", "irls")
    points: Sequence[FloatArray | None] = [None] if closed_form else make_starts(task, given, starts, seed)
    silent = bool((problem.sigma == 0).all())
    if method != "wls" and not silent:
        silent = _fits_to_rounding(problem, lambda: wls_estimator.estimate(task, points[0]).objective)
    if method == "hybrid" and silent:
        task = replace(task, options=replace(task.options, weak="wls"))
    elif method not in ("wls", "output-error") and silent:
        why = "sigma is 0" if (problem.sigma == 0).all() else "weak least squares fits them to rounding"
        notes.append(f"The data are noise-free ({why}): weak least squares was used in place of {method!r}.")
        if task.prior is not None:
            notes.append("Priors were left out: noise-free data leave nothing for them to say.")
        method = "wls"
        points = [None] if task.is_linear else points
    estimator = ESTIMATORS[method]
    tried: list[tuple[FloatArray | None, Outcome]] = []
    for point in points:
        outcome = estimator.estimate(task, point)
        tried.append((point, outcome))
        if task.late:
            break
    tried.sort(key=lambda pair: pair[1].objective)
    records = [StartRecord(point, o.estimate, o.objective, o.status, o.iterations, o.evaluations) for point, o in tried]
    best = tried[0][1]
    if best.status is Status.START:
        raise FitError(f"No fit: {best.status.value}.")
    if estimator.finish is not None:
        best = estimator.finish(task, best)
        notes += [best.note] if best.note else []
        if best.refined is None and method == "wendy":
            notes.append("The refinement was not possible; the estimate is that of 'mle', biased by the noise.")
            method = "mle"
    if method == "wls" and not silent and problem.data.sigma is None:
        silent = _fits_to_rounding(problem, lambda: best.objective)
    if best.status is Status.TIME and task.deadline.stopped:
        best = replace(best, status=Status.INTERRUPTED)
    p, refined = best.estimate, best.refined
    if refined is not None and not silent:
        spread = np.max([form.x.std(axis=1) for form in problem.forms], axis=0)
        if problem.data.sigma is None and (refined.sigma <= SILENT * spread).all():
            notes.append("The data are noise-free: the model follows them to rounding, which leaves no errors to tell.")
            silent = True
    if silent and refined is not None:
        refined = replace(refined, goodness=None)
    edge = 1e-6 * np.where(np.isfinite(task.upper - task.lower), task.upper - task.lower, np.abs(p))
    at_bound = task.free & ((p <= task.lower + edge) | (p >= task.upper - edge))
    p = np.where(at_bound, np.where(p <= task.lower + edge, task.lower, task.upper), p)
    solved = best.initial is not None
    covariance = _covariance(task, p, at_bound, refined, solved)
    if silent:
        covariance[np.ix_(task.free, task.free)] = np.nan
    lower, upper, log = task.natural(task.lower), task.natural(task.upper), task.log
    silence = not_silent(task, p) if silent and (refined is None or problem.data.sigma is not None) else ()
    p = task.natural(p)
    if log is not None:
        slope = np.where(log, p, 1.0)
        with np.errstate(invalid="ignore"):
            covariance = np.where(np.isinf(covariance), covariance, covariance * np.outer(slope, slope))
        records = [
            replace(r, start=None if r.start is None else task.natural(r.start), estimate=task.natural(r.estimate))
            for r in records
        ]
    warnings = (
        *misfits(task, refined),
        *silence,
        *doubts(task, p, (lower, upper), covariance, at_bound, best.status),
    )
    residuals = () if silent else tuple(form.standardised(best.estimate) for form in problem.forms)
    goodness = None if refined is None else refined.goodness
    # A refinement has a σ of its own, and a test; without one the weak residuals are all there is.
    judge = residuals and refined is None and (problem.data.sigma is not None or problem.data.samples >= MIN_SAMPLES)
    scores = np.concatenate([r.ravel() for _, r in residuals]) if judge else np.zeros(1)
    status = judged(
        best.status,
        p,
        covariance,
        task.free & ~at_bound,
        np.nan if goodness is None else goodness.p_value,
        np.inf if silence else float(np.sqrt(np.mean(scores**2))),
        is_still(problem),
        bool((at_bound & (p != 0)).any()),
    )
    return FitResult(
        model=problem.model,
        data=problem.data,
        method=method,
        estimate=p,
        covariance=covariance,
        covariance_kind=_kind(silent, refined, task.options.covariance, solved),
        status=status,
        objective=best.objective,
        sigma=problem.sigma if refined is None else refined.sigma,
        sigma_estimated=problem.data.sigma is None,
        basis=tuple(
            BasisSummary(f.functions.description, f.functions.radius, f.functions.count) for f in problem.forms
        ),
        bounds=np.column_stack([lower, upper]),
        log_scale=np.zeros(len(p), dtype=bool) if log is None else log,
        fixed=~task.free,
        at_bound=at_bound,
        denoised=_denoised(problem, best.estimate) if refined is None else refined.states,
        goodness=goodness,
        starts=tuple(records),
        iterations=best.iterations,
        mesh=1 if refined is None else refined.finer,
        seed=seed,
        options=task.options,
        seconds=time.monotonic() - begin,
        weak_residuals=residuals,
        warnings=warnings,
        notes=tuple(notes),
    )


def _denoised(problem: WeakProblem, p: FloatArray) -> tuple[FloatArray, ...]:
    """The denoised states; the data themselves where there is no noise to remove or no way to tell."""
    try:
        with np.errstate(all="ignore"):
            states = tuple(form.denoise(p) for form in problem.forms)
    except NotPositiveDefinite:
        return tuple(form.u for form in problem.forms)
    return states if all(np.isfinite(u).all() for u in states) else tuple(form.u for form in problem.forms)


def _fits_to_rounding(problem: WeakProblem, objective: Callable[[], float]) -> bool:
    """Whether weak least squares, whose objective is asked for only if need be, leaves nothing but rounding."""
    size = problem.left_side_norm()
    # With few samples in a bump, its quadrature error may itself look like a model that fits.
    steps = [form.functions.radius / q.step for form, q in zip(problem.forms, problem.data.trajectories, strict=True)]
    if min(steps) < 8:
        return False
    # The noise of r is about σ times ‖Φ'‖; where the filter already sees noise, there is no need to look.
    noise = np.sqrt(sum(float(np.sum(form.functions.dphi**2)) for form in problem.forms) * len(problem.sigma))
    if noise > 1e3 * ROUNDING * size:
        return False
    return bool(np.sqrt(2 * objective()) <= ROUNDING * size)


def _covariance(
    task: Task, p: FloatArray, at_bound: NDArray[np.bool_], refined: Refined | None, solved: bool
) -> FloatArray:
    J = len(p)
    inner = task.free & ~at_bound
    covariance = np.zeros((J, J))
    covariance[at_bound] = covariance[:, at_bound] = np.nan
    if inner.any() and np.isfinite(p).all():
        if refined is None or (task.options.covariance == "paper" and not solved):
            block = task.problem.least_squares_covariance(p, inner)
            if task.prior is not None:
                known = task.prior.hessian(p, exact=False)[np.ix_(inner, inner)]
                block = symmetric_inverse(symmetric_inverse(block) + known)
        else:
            # What sits at a bound is taken as fixed there: its rows leave the information, not the covariance.
            keep = inner[task.free]
            block = refined.covariance[np.ix_(keep, keep)]
            if not keep.all() and refined.information is not None:
                block = symmetric_inverse(refined.information[np.ix_(keep, keep)])
            elif not keep.all():
                block = symmetric_inverse(symmetric_inverse(refined.covariance)[np.ix_(keep, keep)])
        covariance[np.ix_(inner, inner)] = np.nan if np.isnan(block).any() else block
    return covariance
