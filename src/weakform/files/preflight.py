"""What can be said of a model and its data before fitting."""

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

NOISY, GAP = 0.3, 5.0
DRAWS = 6
"""Random points at which freedoms of the model are looked for."""


@dataclass(frozen=True)
class Findings:
    """What a check has found, in words."""

    good: list[str]
    wrong: list[str]
    doubtful: list[str]


@np.errstate(all="ignore")
def examine(file: ModelFile, data: Dataset) -> Findings:
    """What is measured, hidden and estimated; what is wrong, and what is doubtful."""
    good: list[str] = []
    wrong: list[str] = []
    doubtful: list[str] = []
    try:
        matched = match(data, file.model)
        said = resolve(matched.model, matched.data, *without(matched.left, file.parameters, {"units": file.units}))
        latent = None if matched.complete else LatentProblem.build(said, matched.data)
        problem = None if latent is not None else _weak_problem(said, matched, doubtful)
    except WeakformError as error:
        return Findings(good, [str(error)], doubtful)
    if not said.free.any():
        wrong.append("All parameters are fixed; there is nothing to estimate.")
    good.append(_roles(matched, said))
    names = said.shared.parameters
    doubtful += [
        slipped(name, f"the parameter {other}")
        for k, name in enumerate(names)
        for other in names[:k]
        if slip(name, other)
    ]
    doubtful += [note for note in matched.data.notes if note not in data.notes]
    doubtful += lonely(matched.data)
    doubtful += _unseen(said, matched.data, latent)
    if latent is not None:
        _lognormal(matched.data, doubtful)
    if problem is not None:
        _weak(problem, said, wrong, doubtful)
    return Findings(good, wrong, doubtful)


def _weak_problem(said: Parameters, matched: Matched, doubtful: list[str]) -> WeakProblem | None:
    """The weak problem; where the samples are too few for one, the relaxed model takes its place."""
    try:
        return WeakProblem.build(said.model, matched.data, Local())
    except WeakformError:
        LatentProblem.build(said, matched.data)
        doubtful.append("The samples are too few for test functions; the relaxed model is fitted instead.")
        return None


def _roles(matched: Matched, said: Parameters) -> str:
    """What is measured, what is hidden, what is estimated."""
    free = [name for name, is_free in zip(said.model.parameters, said.free, strict=True) if is_free]
    begin = [initial_name(state) for state in said.model.states if state not in said.model.initial]
    parts = [f"measured: {', '.join(matched.data.labels)}"]
    parts += [f"hidden: {', '.join(matched.hidden)}"] if matched.hidden else []
    more = begin if not matched.complete else []
    return "; ".join([*parts, f"estimated: {', '.join([*free, *more])}"])


def _unseen(said: Parameters, data: Dataset, latent: LatentProblem | None) -> list[str]:
    """What no data of this kind can determine, at random points of the box."""
    rng = np.random.default_rng(0)
    lower, upper = said.bounds
    begins = () if latent is None else tuple(float(mesh[0]) for mesh in latent.meshes())
    experiment = (
        Complete(said.model, for_model(data, said.model), said.free)
        if latent is None
        else Experiment(said.model, latent.data, said.free, begins)
    )
    points = []
    for _ in range(DRAWS):
        share = rng.uniform(0.2, 0.8, size=len(lower))
        p = np.where(said.free, between(lower, upper, share, np.full(len(lower), 0.1)), said.base)
        points.append((p, [np.exp(0.5 * rng.standard_normal(len(said.model.states))) for _ in begins]))
    return [str(freedom) for freedom in freedoms(experiment, points)]


def _weak(problem: WeakProblem, said: Parameters, wrong: list[str], doubtful: list[str]) -> None:
    """The same where every state is measured."""
    names, (lower, upper), start, data = said.model.parameters, said.bounds, said.start, problem.data
    _sampling(problem, doubtful)
    free = int(said.free.sum())
    if problem.size < free:
        wrong.append(f"{problem.size} weak residuals cannot determine {free} parameters; measure more, or fix some.")
    _signal(problem, doubtful)
    _lognormal(data, doubtful)
    unbounded = [
        name
        for j, name in enumerate(names)
        if said.free[j] and not np.isfinite([lower[j], upper[j]]).any() and name not in said.model.linear_parameters
    ]
    if unbounded:
        verb = "enters" if len(unbounded) == 1 else "enter"
        doubtful.append(
            f"{', '.join(unbounded)} {verb} the equations nonlinearly, without bounds; bounds make the search sure."
        )
    lacking = [name for name in unbounded if start is not None and np.isnan(start[names.index(name)])]
    if lacking:
        wrong.append(f"There is a start, but none for {', '.join(lacking)}; give one, or bounds.")
    if start is not None:
        for name, value, low, high in zip(names, start, lower, upper, strict=True):
            if value < low or value > high:
                doubtful.append(f"The start of {name}, {value:g}, lies outside its bounds and will be moved inside.")
    _defined(problem, _guess(said), doubtful)


def _sampling(problem: WeakProblem, doubtful: list[str]) -> None:
    data = problem.data
    if data.samples < FEW:
        doubtful.append(
            f"Only {data.samples} samples: the intervals will be rough, and the model can hardly be tested."
        )
    for q in data.trajectories:
        steps = np.diff(q.times)
        if steps.max() > GAP * np.median(steps):
            m = int(np.argmax(steps))
            doubtful.append(
                f"A gap between t = {q.times[m]:g} and {q.times[m + 1]:g}{' of ' + q.label if q.label else ''}: "
                "nothing is known there but what the model says."
            )


def _signal(problem: WeakProblem, doubtful: list[str]) -> None:
    spread = np.max([form.x.std(axis=1) for form in problem.forms], axis=0)
    for name, sigma, size in zip(problem.model.states, problem.sigma, spread, strict=True):
        if size > 0 and sigma > NOISY * size:
            doubtful.append(
                f"{name} looks noisy: what varies from sample to sample is {sigma / size:.0%} of its variation. Either "
                "the noise is large or the samples are too far apart."
            )


def _lognormal(data: Dataset, doubtful: list[str]) -> None:
    """Positive data over orders of magnitude with Gaussian noise."""
    for d, kind in enumerate(data.noise):
        values = np.concatenate([q.values[:, d] for q in data.trajectories])
        values = values[np.isfinite(values)]
        if kind == "gaussian" and len(values) and values.min() > 0 and values.max() > 30 * values.min():
            doubtful.append(
                f"{data.labels[d]} is positive and spans a factor of {values.max() / values.min():.0f}: are its errors "
                "in per cent? Then noise = 'lognormal' is right."
            )


def _guess(said: Parameters) -> FloatArray:
    """Any values that the parameters may have."""
    (lower, upper), base = said.bounds, said.base
    with np.errstate(invalid="ignore"):
        middle = np.where(np.isfinite(lower) & np.isfinite(upper), (lower + upper) / 2, 1.0)
    p = np.where(np.isnan(base), middle, base)
    return p if said.start is None else np.where(np.isnan(said.start), p, said.start)


def _defined(problem: WeakProblem, p: FloatArray, doubtful: list[str]) -> None:
    """Whether the right-hand side is finite at the data."""
    for form, q in zip(problem.forms, problem.data.trajectories, strict=True):
        with np.errstate(all="ignore"):
            f = form.tensors(p, ("f",))["f"].dense((form.system.D,))
        bad = ~np.isfinite(f)
        if bad.any():
            a, m = np.argwhere(bad)[0]
            doubtful.append(
                f"The equation of {problem.model.states[a]} is not a finite number at t = {q.times[m]:g}: a logarithm, "
                "root or quotient breaks down at the data. Bounds may keep it away."
            )
            return
