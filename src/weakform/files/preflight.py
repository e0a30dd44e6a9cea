"""Checks of a model and its data before a fit: roles of the columns, freedoms of the model, noise, gaps and starts.

Nothing is estimated here. What would stop a fit is an error; what often makes a fit fail is a warning.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..basis import Local
from ..collocation.hidden_state_problem import LatentProblem
from ..data.dataset import Dataset
from ..data.matching import Matched, for_model, match, slipped
from ..diagnostics.noise_checks import lonely
from ..diagnostics.warning_texts import FEW
from ..estimators.start_points import between
from ..forward.structural_identifiability import Complete, Experiment, freedoms
from ..model.naming import initial_name
from ..parameters import Parameters, resolve
from ..parameters.resolution import without
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.wording import slip
from ..weak.weak_problem import WeakProblem
from .model_file import ModelFile

MAX_NOISE_SHARE = 0.3
"""Standard deviation of the noise of a state, relative to that of its values, above which a warning asks for smaller
noise or denser samples. By judgement."""
MAX_GAP_RATIO = 5.0
"""Step between samples, in medians of the steps, above which the interval is reported as a gap. By judgement."""
MIN_LOGNORMAL_RATIO = 30.0
"""Ratio of the largest to the smallest value of a positive column above which lognormal noise is suggested. By
judgement."""
FREEDOM_DRAWS = 6
"""Number of random points at which freedoms of the model are sought. A freedom counts only if it exists at all of them,
so more points exclude freedoms of single points; with fewer than two points that can be solved none is reported. By
judgement."""


@dataclass(frozen=True)
class Findings:
    """The result of a check, in sentences.

    Attributes
    ----------
    good : list of str
        Roles of columns and parameters.
    wrong : list of str
        Reasons why a fit would be refused.
    doubtful : list of str
        Warnings.
    """

    good: list[str]
    wrong: list[str]
    doubtful: list[str]


@np.errstate(all="ignore")
def examine(file: ModelFile, data: Dataset) -> Findings:
    """Check a model and its data before a fit.

    Parameters
    ----------
    file : ModelFile
    data : Dataset

    Returns
    -------
    Findings
        With a single error and no warnings if model and data do not match at all.
    """
    facts: list[str] = []
    errors: list[str] = []
    warnings: list[str] = []
    try:
        matched = match(data, file.model)
        resolved = resolve(matched.model, matched.data, *without(matched.left, file.parameters, {"units": file.units}))
        latent = None if matched.complete else LatentProblem.build(resolved, matched.data)
        problem = None if latent is not None else _weak_problem(resolved, matched, warnings)
    except WeakformError as error:
        return Findings(facts, [str(error)], warnings)
    if not resolved.free.any():
        errors.append("All parameters are fixed; there is nothing to estimate.")
    facts.append(_roles(matched, resolved))
    names = resolved.shared.parameters
    warnings += [
        slipped(name, f"the parameter {earlier_name}")
        for k, name in enumerate(names)
        for earlier_name in names[:k]
        if slip(name, earlier_name)
    ]
    warnings += [note for note in matched.data.notes if note not in data.notes]
    warnings += lonely(matched.data)
    warnings += _unseen(resolved, matched.data, latent)
    if latent is not None:
        _lognormal(matched.data, warnings)
    if problem is not None:
        _weak(problem, resolved, errors, warnings)
    return Findings(facts, errors, warnings)


def _weak_problem(said: Parameters, matched: Matched, doubtful: list[str]) -> WeakProblem | None:
    """Build the weak problem; return None, with a warning, if the samples are too few for test functions.

    `fit` then uses the relaxed model, which needs no test functions; building its problem here raises the errors that
    the fit would raise.
    """
    try:
        return WeakProblem.build(said.model, matched.data, Local())
    except WeakformError:
        LatentProblem.build(said, matched.data)
        doubtful.append("There are too few samples for test functions; `fit` will use the relaxed model instead.")
        return None


def _roles(matched: Matched, said: Parameters) -> str:
    """Return one line that lists measured columns, hidden states and estimated parameters."""
    free = [name for name, is_free in zip(said.model.parameters, said.free, strict=True) if is_free]
    initial_names = [initial_name(state) for state in said.model.states if state not in said.model.initial]
    parts = [f"measured: {', '.join(matched.data.labels)}"]
    parts += [f"hidden: {', '.join(matched.hidden)}"] if matched.hidden else []
    estimated_initial = initial_names if not matched.complete else []
    return "; ".join([*parts, f"estimated: {', '.join([*free, *estimated_initial])}"])


def _unseen(said: Parameters, data: Dataset, latent: LatentProblem | None) -> list[str]:
    """Return a sentence for each freedom of the model.

    A freedom is a direction of the parameters that no data of this kind can determine. Freedoms are sought at random
    points inside the bounds, because a freedom of a single point may be an accident.
    """
    rng = np.random.default_rng(0)  # fixed, so that a model always gets the same findings
    lower, upper = said.bounds
    first_times = () if latent is None else tuple(float(mesh[0]) for mesh in latent.meshes())
    experiment = (
        Complete(said.model, for_model(data, said.model), said.free)
        if latent is None
        else Experiment(said.model, latent.data, said.free, first_times)
    )
    points = []
    for _ in range(FREEDOM_DRAWS):
        # Away from the bounds: a term that vanishes at a bound would look like a freedom.
        share = rng.uniform(0.2, 0.8, size=len(lower))
        p = np.where(said.free, between(lower, upper, share, np.full(len(lower), 0.1)), said.base)
        points.append((p, [np.exp(0.5 * rng.standard_normal(len(said.model.states))) for _ in first_times]))
    return [str(freedom) for freedom in freedoms(experiment, points)]


def _weak(problem: WeakProblem, said: Parameters, wrong: list[str], doubtful: list[str]) -> None:
    """Add the errors and warnings that apply when every state is measured."""
    names, (lower, upper), start, data = said.model.parameters, said.bounds, said.start, problem.data
    _sampling(problem, doubtful)
    free = int(said.free.sum())
    if problem.size < free:
        wrong.append(
            f"{problem.size} weak residuals cannot determine {free} parameters: measure more samples, or fix some "
            "parameters."
        )
    _signal(problem, doubtful)
    _lognormal(data, doubtful)
    # Parameters that enter linearly are solved for and need no bounds; the others are drawn at random.
    unbounded = [
        name
        for j, name in enumerate(names)
        if said.free[j] and not np.isfinite([lower[j], upper[j]]).any() and name not in said.model.linear_parameters
    ]
    if unbounded:
        verb = "enters" if len(unbounded) == 1 else "enter"
        doubtful.append(
            f"{', '.join(unbounded)} {verb} the equations nonlinearly and without bounds; "
            "bounds make the search reliable."
        )
    without_start = [name for name in unbounded if start is not None and np.isnan(start[names.index(name)])]
    if without_start:
        wrong.append(f"The start lacks {', '.join(without_start)}; give a value for every such parameter, or bounds.")
    if start is not None:
        for name, value, low, high in zip(names, start, lower, upper, strict=True):
            if value < low or value > high:
                doubtful.append(
                    f"The start of {name}, {value:g}, is outside its bounds [{low:g}, {high:g}] "
                    "and will be moved inside."
                )
    _defined(problem, _guess(said), doubtful)


def _sampling(problem: WeakProblem, doubtful: list[str]) -> None:
    """Warn about few samples and about gaps between samples."""
    data = problem.data
    if data.samples < FEW:
        doubtful.append(
            f"Only {data.samples} samples: the intervals will be rough, and tests of the model will have little power."
        )
    for q in data.trajectories:
        steps = np.diff(q.times)
        if steps.max() > MAX_GAP_RATIO * np.median(steps):
            m = int(np.argmax(steps))
            doubtful.append(
                f"A gap between t = {q.times[m]:g} and {q.times[m + 1]:g}{' of ' + q.label if q.label else ''}: "
                "there the states follow from the model alone."
            )


def _signal(problem: WeakProblem, doubtful: list[str]) -> None:
    """Warn about states whose noise is large relative to their variation."""
    spread = np.max([form.x.std(axis=1) for form in problem.forms], axis=0)
    for name, sigma, size in zip(problem.model.states, problem.sigma, spread, strict=True):
        if size > 0 and sigma > MAX_NOISE_SHARE * size:
            doubtful.append(
                f"{name} looks noisy: the scatter between neighbouring samples is {sigma / size:.0%} of its variation. "
                "Either the noise is large or the samples are too far apart."
            )


def _lognormal(data: Dataset, doubtful: list[str]) -> None:
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
            doubtful.append(
                f"{data.labels[d]} is positive and spans a factor of {values.max() / values.min():.0f}: if its errors "
                "are in per cent, set noise = 'lognormal'."
            )


def _guess(said: Parameters) -> FloatArray:
    """Return plausible values `(J,)`: the start, else the fixed value, else the middle of the bounds, else one."""
    (lower, upper), base = said.bounds, said.base
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, 1.0)
    p = np.where(np.isnan(base), middle, base)
    return p if said.start is None else np.where(np.isnan(said.start), p, said.start)


def _defined(problem: WeakProblem, p: FloatArray, doubtful: list[str]) -> None:
    """Warn if the right-hand side is not finite at some sample for the parameters `p`, of shape `(J,)`."""
    for form, q in zip(problem.forms, problem.data.trajectories, strict=True):
        with np.errstate(all="ignore"):
            f = form.tensors(p, ("f",))["f"].dense((form.system.D,))
        undefined = ~np.isfinite(f)
        if undefined.any():
            a, m = np.argwhere(undefined)[0]
            doubtful.append(
                f"The equation of {problem.model.states[a]} is not a finite number at t = {q.times[m]:g}: a logarithm, "
                "root or quotient is undefined at the data. Bounds on its parameters may prevent this."
            )
            return
