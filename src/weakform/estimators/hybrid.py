"""The hybrid method: output error started by a weak estimate, with a return to that estimate if output error fails.

The weak methods converge from far away; output error is efficient where the system can be solved over the whole series.
The weak estimate and its fitted initial state start the search. Its result is kept unless

- its weak likelihood is worse: `ℓ(p_oe) - ℓ(p_weak) > 0.05 KD`. The paper asks for 5% of ℓ, but ℓ has no natural
  zero, so that a ratio means nothing; KD is the number of weak residuals, each of which adds about ½ to ℓ;
- or its solution is farther from the data than the states of the weak estimate, by more than 5% of the misfit. Both
  obey the model, so output error must have failed. Only `"wendy"` has such states; plain differences are not compared.

If states are hidden, the relaxed model replaces the weak estimate, and only the misfits are compared. A note of the
result reports which of the two estimates was kept.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..collocation.hidden_state_problem import HiddenStateProblem
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..support.array_types import FloatArray
from ..support.errors import FitError
from . import irls, mle, output_error, relaxed_model, wendy, wls
from .estimation_problem import StartPoint, Task
from .estimator import Estimator
from .outcome import Outcome

MAX_RELATIVE_LOSS = 0.05
"""Loss of weak likelihood for each weak residual, and relative increase of the misfit, above which output error has
failed. The 5% are the paper's; by judgement for the misfit."""
_WEAK: dict[str, Estimator] = {
    module.ESTIMATOR.name: module.ESTIMATOR for module in (wendy, mle, irls, wls, relaxed_model)
}


def _select_weak_method(task: Task) -> Estimator:
    """Return the estimator that starts the search; raise `FitError` if it cannot handle hidden states."""
    chosen = _WEAK[task.options.weak]
    if not isinstance(task.problem, HiddenStateProblem):
        return chosen
    if chosen.hidden_state_method is None:
        raise FitError(
            f"weak={chosen.name!r} needs every state measured directly, but states are hidden or initial values are "
            "given. Use weak='wendy'."
        )
    return _WEAK[chosen.hidden_state_method]


def check(task: Task) -> None:
    """Raise `FitError` for a task that the weak method or output error cannot handle."""
    for part in (_select_weak_method(task), output_error.ESTIMATOR):
        if part.check is not None:
            part.check(task)


def use_weak_least_squares(task: Task) -> Task:
    """Return the task with weak least squares as the weak method: it is exact for noise-free data."""
    if isinstance(task.problem, HiddenStateProblem):
        return task
    return replace(task, options=replace(task.options, weak=wls.ESTIMATOR.name))


def search(task: Task, start: StartPoint | None) -> Outcome:
    """Fit the weak method from one start; output error follows in `refine`."""
    return _select_weak_method(task).search(task, start)


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Fit output error from a weak outcome, and return it or, if it has failed, the refined weak outcome."""
    starter = _select_weak_method(task)
    weak = outcome if starter.refine is None else starter.refine(task, outcome)
    kept = replace(weak, note=f"Hybrid: the estimate of {starter.name!r} was kept")
    if not np.isfinite(weak.objective):
        return weak
    solved = output_error.refine(task, output_error.search(task, weak.estimate, _guess_initial_values(task, weak)))
    if solved.refined is None:
        return replace(kept, note=f"{kept.note}: the model could not be solved from it.")
    loss = _compute_likelihood_loss(task, solved, weak)
    if task.problem.forms and loss > MAX_RELATIVE_LOSS * task.weak.size:
        return replace(kept, note=f"{kept.note}: the weak likelihood of output error is worse by {loss:.3g}.")
    if weak.refined is not None and task.options.residuals == "noise":
        # Both misfits in units of the same σ.
        sigma = weak.refined.sigma
        misfit = solved.refined.misfit * float(np.mean((solved.refined.sigma / sigma) ** 2))
        if not misfit <= (1 + MAX_RELATIVE_LOSS) * weak.refined.misfit:
            return replace(
                kept,
                note=f"{kept.note}: output error ended farther from the data, with a misfit of {misfit:.4g} "
                f"in place of {weak.refined.misfit:.4g}.",
            )
    return replace(
        solved,
        iterations=outcome.iterations + solved.iterations,
        note=f"Hybrid: output error, started by {starter.name!r}, was kept.",
    )


def _compute_likelihood_loss(task: Task, solved: Outcome, weak: Outcome) -> float:
    """Compute by how much the weak likelihood of output error is worse; zero if there is no weak form."""
    if not task.problem.forms:
        return 0.0
    likelihood = task.weak.likelihood()
    return likelihood(solved.estimate).value - likelihood(weak.estimate).value


def _guess_initial_values(task: Task, weak: Outcome) -> tuple[FloatArray, ...]:
    """Return the initial values of each trajectory from which output error starts.

    They are the fitted ones if the weak method has any, else those of the denoised states, else the first sample.
    """
    if isinstance(task.problem, HiddenStateProblem):
        assert weak.latent is not None
        return tuple(states[0, ~task.problem.functions.given_initial] for _, states in weak.latent.nodes)
    forms = task.weak.forms
    if weak.refined is not None:
        return tuple(form.system.to_working(u[:1])[0] for form, u in zip(forms, weak.refined.states, strict=True))
    try:
        with np.errstate(all="ignore"):
            denoised = tuple(form.system.to_working(form.denoise(weak.estimate)[:1])[0] for form in forms)
    except NotPositiveDefinite:
        denoised = (np.array([np.nan]),)
    return denoised if all(np.isfinite(x).all() for x in denoised) else tuple(form.x[:, 0] for form in forms)


ESTIMATOR = Estimator(
    "hybrid",
    "output error, started by a weak estimate",
    search,
    refine,
    check,
    options=("residuals", "weak", "solver", "covariance"),
    noise_free=use_weak_least_squares,
    starts=output_error.make_output_error_starts,
    handles_hidden_states=True,
)
