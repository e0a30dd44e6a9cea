"""The hybrid: a weak estimate starts output error, and stands in for it where that fails.

The weak methods find their way from far off, output error is efficient where the system can be solved over the whole
series. The weak estimate and its fitted initial state start the search; what it finds is kept unless

- its weak likelihood is worse: `ℓ(p_oe) - ℓ(p_weak) > 0.05 KD`. The paper asks for 5% of ℓ, but ℓ has no zero, so that
  a ratio means nothing; KD is the number of weak residuals, each of which adds about ½ to ℓ;
- or its solution is farther from the data than the states of the weak estimate, by more than 5% of the misfit: both
  obey the model, so that the search has been lost. Only `"wendy"` has such states, and plain differences are not
  compared.

Where only a part is measured, the relaxed model takes the place of the weak estimate, and only misfits are compared.
Which one was kept is said in the notes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..collocation.hidden_state_problem import LatentProblem
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..support.array_types import FloatArray
from ..support.errors import FitError
from . import irls, mle, output_error, relaxed_model, wendy, wls
from .estimation_problem import Outcome, Task
from .estimator import Estimator

WORSE = 0.05
_WEAK: dict[str, Estimator] = {
    module.ESTIMATOR.name: module.ESTIMATOR for module in (wendy, mle, irls, wls, relaxed_model)
}


def _first(task: Task) -> Estimator:
    """What starts the search."""
    chosen = _WEAK[task.options.weak]
    if not isinstance(task.problem, LatentProblem):
        return chosen
    if chosen.hidden_state_method is None:
        raise FitError(f"weak={chosen.name!r} needs every state measured as it stands; use weak='wendy'.")
    return _WEAK[chosen.hidden_state_method]


def check(task: Task) -> None:
    """What either of its halves cannot do."""
    for part in (_first(task), output_error.ESTIMATOR):
        if part.check is not None:
            part.check(task)


def noise_free(task: Task) -> Task:
    """Started by weak least squares, which is exact for noise-free data."""
    if isinstance(task.problem, LatentProblem):
        return task
    return replace(task, options=replace(task.options, weak=wls.ESTIMATOR.name))


def search(task: Task, start: FloatArray | None) -> Outcome:
    """The weak estimate from one start."""
    return _first(task).search(task, start)


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Output error from the best weak estimate, or that estimate."""
    weakly = _first(task)
    weak = outcome if weakly.refine is None else weakly.refine(task, outcome)
    kept = replace(weak, note=f"Hybrid: the estimate of {weakly.name!r} was kept")
    if not np.isfinite(weak.objective):
        return weak
    found = output_error.refine(task, output_error.search(task, weak.estimate, _initial(task, weak)))
    if found.refined is None:
        return replace(kept, note=f"{kept.note}: the model could not be solved from it.")
    loss = _loss(task, found, weak)
    if task.problem.forms and loss > WORSE * task.weak.size:
        return replace(kept, note=f"{kept.note}: the weak likelihood of output error is worse by {loss:.3g}.")
    if weak.refined is not None and task.options.residuals == "noise":
        sigma = weak.refined.sigma
        misfit = found.refined.misfit * float(np.mean((found.refined.sigma / sigma) ** 2))
        if not misfit <= (1 + WORSE) * weak.refined.misfit:
            return replace(kept, note=f"{kept.note}: output error lost the data on the way.")
    return replace(
        found,
        iterations=outcome.iterations + found.iterations,
        note=f"Hybrid: output error, started by {weakly.name!r}, was kept.",
    )


def _loss(task: Task, found: Outcome, weak: Outcome) -> float:
    """What the weak likelihood loses by output error; nothing where there is none."""
    if not task.problem.forms:
        return 0.0
    likelihood = task.weak.likelihood()
    return likelihood(found.estimate).value - likelihood(weak.estimate).value


def _initial(task: Task, weak: Outcome) -> tuple[FloatArray, ...]:
    """Where trajectories begin: fitted where the method has them, else denoised, else the data's."""
    if isinstance(task.problem, LatentProblem):
        assert weak.latent is not None
        return tuple(states[0, ~task.problem.functions.given] for _, states in weak.latent.nodes)
    forms = task.weak.forms
    if weak.refined is not None:
        return tuple(form.system.to_working(u[:1])[0] for form, u in zip(forms, weak.refined.states, strict=True))
    try:
        with np.errstate(all="ignore"):
            found = tuple(form.system.to_working(form.denoise(weak.estimate)[:1])[0] for form in forms)
    except NotPositiveDefinite:
        found = (np.array([np.nan]),)
    return found if all(np.isfinite(x).all() for x in found) else tuple(form.x[:, 0] for form in forms)


ESTIMATOR = Estimator(
    "hybrid",
    "output error, started by a weak estimate",
    search,
    refine,
    check,
    options=("residuals", "weak", "solver", "covariance"),
    noise_free=noise_free,
    starts=output_error.starts,
    handles_hidden_states=True,
)
