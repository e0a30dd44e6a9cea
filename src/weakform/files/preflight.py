"""Checks of a model and its data before a fit: roles of the columns, freedoms of the model, noise, gaps and starts.

Nothing is estimated here. What would stop a fit is an error; what often makes a fit fail is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..basis import Local
from ..collocation.hidden_state_problem import HiddenStateProblem
from ..data.dataset import Dataset
from ..data.matching import MatchedPair, match, match_all_states, note_misspelling
from ..diagnostics.noise_checks import warn_of_isolated_outliers
from ..diagnostics.warning_texts import MIN_SAMPLES_FOR_INTERVALS
from ..estimators.start_points import map_to_bounds
from ..forward.structural_identifiability import ForwardExperiment, FullyMeasuredExperiment, find_freedoms
from ..model.naming import format_initial_name
from ..parameters import ResolvedParameters, resolve_parameters
from ..parameters.resolution import drop_parameters
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.wording import is_typo
from ..weak.weak_problem import WeakProblem
from .model_file import ModelFile

MAX_NOISE_SHARE = 0.3
"""Standard deviation of the noise of a state, relative to that of its values, above which a warning asks for smaller
noise or denser samples. By judgement."""
MAX_GAP_RATIO = 5.0
"""Step between samples, relative to the median step, above which the interval is reported as a gap. By judgement."""
MIN_LOGNORMAL_RATIO = 30.0
"""Ratio of the largest to the smallest value of a positive column above which lognormal noise is suggested. By
judgement."""
FREEDOM_DRAWS = 6
"""Number of random points at which freedoms of the model are sought. A freedom counts only if it exists at all of them,
so more points exclude freedoms of single points; with fewer than two points that can be solved none is reported. By
judgement."""
FREEDOM_SHARES = (0.2, 0.8)
"""Range of the shares that `map_to_bounds` maps to these points, 0 and 1 being the bounds: a term that vanishes at a
bound would look like a freedom. By judgement."""
FREEDOM_UNIT = 0.1
"""Natural unit, for `map_to_bounds`, of parameters that lack a bound. By judgement."""
FREEDOM_STATE_SPREAD = 0.5
"""Standard deviation of the logarithm of the random initial states at these points. By judgement."""


@dataclass(frozen=True)
class PreflightReport:
    """The result of a check, in sentences.

    Attributes
    ----------
    facts : list of str
        Roles of columns and parameters.
    errors : list of str
        Reasons why a fit would be refused.
    warnings : list of str
        Properties of model and data that often make a fit fail.
    """

    facts: list[str]
    errors: list[str]
    warnings: list[str]


@np.errstate(all="ignore")
def check_before_fit(file: ModelFile, data: Dataset) -> PreflightReport:
    """Check a model and its data before a fit.

    Parameters
    ----------
    file : ModelFile
    data : Dataset

    Returns
    -------
    PreflightReport
        With a single error and no facts if model and data do not match.
    """
    facts: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    try:
        matched = match(data, file.model)
        resolved = resolve_parameters(
            matched.model,
            matched.data,
            *drop_parameters(matched.unused_parameters, file.parameters, {"units": file.units}),
        )
        latent = None if matched.complete else HiddenStateProblem.build(resolved, matched.data)
        problem = None if latent is not None else _build_weak_problem(resolved, matched, warnings)
    except WeakformError as error:
        return PreflightReport(facts, [str(error)], warnings)
    if not resolved.free.any():
        errors.append("All parameters are fixed; there is nothing to estimate.")
    facts.append(_describe_roles(matched, resolved))
    names = resolved.shared.parameters
    warnings += [
        note_misspelling(name, f"the parameter {earlier_name}")
        for k, name in enumerate(names)
        for earlier_name in names[:k]
        if is_typo(name, earlier_name)
    ]
    warnings += [note for note in matched.data.notes if note not in data.notes]
    warnings += warn_of_isolated_outliers(matched.data)
    warnings += _describe_freedoms(resolved, matched.data, latent)
    if latent is not None:
        _suggest_lognormal(matched.data, warnings)
    if problem is not None:
        _check_weak_problem(problem, resolved, errors, warnings)
    return PreflightReport(facts, errors, warnings)


def _build_weak_problem(resolved: ResolvedParameters, matched: MatchedPair, warnings: list[str]) -> WeakProblem | None:
    """Build the weak problem; return None, with a warning, if the samples are too few for test functions.

    `fit` then uses the relaxed model, which needs no test functions; building its problem here raises the errors that
    the fit would raise.
    """
    try:
        return WeakProblem.build(resolved.model, matched.data, Local())
    except WeakformError:
        HiddenStateProblem.build(resolved, matched.data)
        warnings.append("There are too few samples for test functions; `fit` will use the relaxed model instead.")
        return None


def _describe_roles(matched: MatchedPair, resolved: ResolvedParameters) -> str:
    """Return one line that lists measured names, hidden states and estimated parameters."""
    free = [name for name, is_free in zip(resolved.model.parameters, resolved.free, strict=True) if is_free]
    initial_names = [
        format_initial_name(state) for state in resolved.model.states if state not in resolved.model.initial
    ]
    parts = [f"measured: {', '.join(matched.data.labels)}"]
    parts += [f"hidden: {', '.join(matched.hidden)}"] if matched.hidden else []
    estimated_initial = initial_names if not matched.complete else []
    return "; ".join([*parts, f"estimated: {', '.join([*free, *estimated_initial])}"])


def _describe_freedoms(resolved: ResolvedParameters, data: Dataset, latent: HiddenStateProblem | None) -> list[str]:
    """Return a sentence for each freedom of the model.

    A freedom is a direction of the parameters that no data of this kind can determine. Freedoms are sought at random
    points inside the bounds, because a freedom of a single point may be an accident.
    """
    rng = np.random.default_rng(0)  # fixed, so that a model always gets the same findings
    lower, upper = resolved.bounds
    first_times = () if latent is None else tuple(float(mesh[0]) for mesh in latent.build_meshes())
    experiment = (
        FullyMeasuredExperiment(resolved.model, match_all_states(data, resolved.model), resolved.free)
        if latent is None
        else ForwardExperiment(resolved.model, latent.data, resolved.free, first_times)
    )
    points = []
    for _ in range(FREEDOM_DRAWS):
        share = rng.uniform(*FREEDOM_SHARES, size=len(lower))
        p = np.where(
            resolved.free, map_to_bounds(lower, upper, share, np.full(len(lower), FREEDOM_UNIT)), resolved.fixed_values
        )
        points.append(
            (p, [np.exp(FREEDOM_STATE_SPREAD * rng.standard_normal(len(resolved.model.states))) for _ in first_times])
        )
    return [str(freedom) for freedom in find_freedoms(experiment, points)]


def _check_weak_problem(
    problem: WeakProblem, resolved: ResolvedParameters, errors: list[str], warnings: list[str]
) -> None:
    """Add the errors and warnings that apply when every state is measured."""
    names, (lower, upper), start, data = resolved.model.parameters, resolved.bounds, resolved.start, problem.data
    _check_sampling(problem, warnings)
    free = int(resolved.free.sum())
    if problem.size < free:
        errors.append(
            f"{problem.size} weak residuals cannot determine {free} parameters: measure more samples, or fix some "
            "parameters."
        )
    _check_noise_level(problem, warnings)
    _suggest_lognormal(data, warnings)
    # Parameters that enter linearly are solved for and need no bounds; starts of the others are drawn inside theirs.
    unbounded = [
        name
        for j, name in enumerate(names)
        if resolved.free[j]
        and not np.isfinite([lower[j], upper[j]]).any()
        and name not in resolved.model.linear_parameters
    ]
    if unbounded:
        verb = "enters" if len(unbounded) == 1 else "enter"
        warnings.append(
            f"{', '.join(unbounded)} {verb} the equations nonlinearly and without bounds; "
            "bounds make the search reliable."
        )
    without_start = [name for name in unbounded if start is not None and np.isnan(start[names.index(name)])]
    if without_start:
        errors.append(f"The start lacks {', '.join(without_start)}; give a value for every such parameter, or bounds.")
    if start is not None:
        for name, value, low, high in zip(names, start, lower, upper, strict=True):
            if value < low or value > high:
                warnings.append(
                    f"The start of {name}, {value:g}, is outside its bounds [{low:g}, {high:g}] "
                    "and will be moved inside."
                )
    _check_domain(problem, _guess_parameters(resolved), warnings)


def _check_sampling(problem: WeakProblem, warnings: list[str]) -> None:
    """Warn about few samples and about gaps between samples."""
    data = problem.data
    if data.samples < MIN_SAMPLES_FOR_INTERVALS:
        warnings.append(
            f"Only {data.samples} samples: the intervals will be rough, and tests of the model will have little power."
        )
    for q in data.trajectories:
        steps = np.diff(q.times)
        if steps.max() > MAX_GAP_RATIO * np.median(steps):
            m = int(np.argmax(steps))
            warnings.append(
                f"A gap between t = {q.times[m]:g} and {q.times[m + 1]:g}{' of ' + q.label if q.label else ''}: "
                "there the states follow from the model alone."
            )


def _check_noise_level(problem: WeakProblem, warnings: list[str]) -> None:
    """Warn about states whose noise is large relative to their variation."""
    # The largest variation over the trajectories: in a single one a state may be nearly constant.
    spread = np.max([form.x.std(axis=1) for form in problem.forms], axis=0)
    for name, sigma, size in zip(problem.model.states, problem.sigma, spread, strict=True):
        if size > 0 and sigma > MAX_NOISE_SHARE * size:
            warnings.append(
                f"{name} looks noisy: the scatter between neighbouring samples is {sigma / size:.0%} of its variation. "
                "Either the noise is large or the samples are too far apart."
            )


def _suggest_lognormal(data: Dataset, warnings: list[str]) -> None:
    """Suggest lognormal noise for positive columns with Gaussian noise that span a large factor."""
    for d, kind in enumerate(data.noise):
        values = np.concatenate([q.values[:, d] for q in data.trajectories])
        values = values[np.isfinite(values)]
        if (
            kind == "gaussian"
            and len(values)
            and values.min() > 0
            and values.max() > MIN_LOGNORMAL_RATIO * values.min()
        ):
            warnings.append(
                f"{data.labels[d]} is positive and spans a factor of {values.max() / values.min():.0f}: if its errors "
                "are in per cent, set noise = 'lognormal'."
            )


def _guess_parameters(resolved: ResolvedParameters) -> FloatArray:
    """Return plausible values `(J,)`: the start, else the fixed value, else the middle of the bounds, else one."""
    (lower, upper), fixed_values = resolved.bounds, resolved.fixed_values
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, 1.0)
    p = np.where(np.isnan(fixed_values), middle, fixed_values)
    return p if resolved.start is None else np.where(np.isnan(resolved.start), p, resolved.start)


def _check_domain(problem: WeakProblem, p: FloatArray, warnings: list[str]) -> None:
    """Warn if the right-hand side is not finite at some sample for the parameters `p`, of shape `(J,)`."""
    for form, q in zip(problem.forms, problem.data.trajectories, strict=True):
        with np.errstate(all="ignore"):
            f = form.evaluate_tensors(p, ("f",))["f"].to_dense((form.system.D,))
        undefined = ~np.isfinite(f)
        if undefined.any():
            a, m = np.argwhere(undefined)[0]
            warnings.append(
                f"The equation of {problem.model.states[a]} is not a finite number at t = {q.times[m]:g}: a logarithm, "
                "root or quotient is undefined at the data. Bounds on its parameters may prevent this."
            )
            return
