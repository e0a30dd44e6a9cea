"""WENDy without its bias: the weak likelihood finds the parameters, the states that obey the model make them exact.

1. WENDy-MLE from every start. Its log-determinant widens the domain of convergence and biases the estimate.
2. From the best of them, and from the data denoised by it, the Gauss–Helmert iteration on the finest test functions
   (`collocation.helmert`): linearised about the denoised states, no log-determinant, no information left out. σ, unless
   given, is the root mean square of the residuals, and the iteration is repeated until it agrees with itself.
3. The error of the discretisation is carried through to the parameters; where it is not small against their standard
   errors the mesh is made finer.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

import numpy as np

from ..collocation.helmert import Settings, Solution, solve
from ..collocation.leftover import of_meshes
from ..collocation.mesh import Mesh
from ..linalg.symmetric import NotPositiveDefinite, symmetric_inverse
from ..optimize import Stop
from ..support.typing import FloatArray
from ..weak.form import WeakForm
from . import mle
from .estimator import Estimator
from .residuals import counts, degrees_of_freedom, with_noise, within_misfit
from .status import Status
from .task import Outcome, Refined, Task

MAX_ITERATIONS = 100
ROUNDS = 8
BIAS = 0.1
FINEST = 16


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Refine the best estimate; the outcome is unchanged where that is not possible."""
    problem = task.weak
    p, sigma = outcome.estimate, problem.sigma
    if not (np.isfinite(outcome.objective) and (sigma > 0).all()):
        return outcome
    settings = Settings(
        task.free,
        task.lower,
        task.upper,
        tolerance=float(np.sqrt(task.options.tolerance)),
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        stop=task.stop,
        prior=task.prior,
    )
    meshes = tuple(
        Mesh(form.system, q.times, form.x.T, q.measured, q.scale)
        for form, q in zip(problem.forms, problem.data.trajectories, strict=True)
    )
    finer, iterations, good = 1, 0, None
    try:
        states = tuple(form.system.to_working(form.denoise(p)) for form in problem.forms)
        while True:
            solution, sigma, used = _solved(task, meshes, sigma, (p, states), settings)
            iterations += used
            if not (np.isfinite(solution.p).all() and all(np.isfinite(x).all() for x in solution.states)):
                break
            bias = _discretisation(meshes, solution, sigma, settings)
            good = (solution, sigma, meshes, finer, bias)
            if bias <= BIAS or finer == FINEST or solution.stop is Stop.TIME:
                break
            finer *= 2
            p = solution.p
            halves = [mesh.halved(p, x) for mesh, x in zip(meshes, solution.states, strict=True)]
            meshes, states = tuple(mesh for mesh, _ in halves), tuple(x for _, x in halves)
    except NotPositiveDefinite:
        pass
    if good is None:
        return outcome
    solution, sigma, meshes, finer, bias = good
    return replace(
        outcome,
        estimate=solution.p,
        objective=0.5 * solution.misfit,
        status=Status.of(solution.stop),
        iterations=outcome.iterations + iterations,
        refined=_refined(task, meshes, solution, sigma, finer, bias),
    )


def _solved(
    task: Task,
    meshes: tuple[Mesh, ...],
    sigma: FloatArray,
    near: tuple[FloatArray, tuple[FloatArray, ...]],
    how: Settings,
) -> tuple[Solution, FloatArray, int]:
    """The solution and σ in turn, from parameters and states nearby; and the iterations it took."""
    first = solve(meshes, sigma, *near, how)
    used = [first.iterations]

    def again(sigma: FloatArray, solution: Solution) -> tuple[Solution, bool]:
        new = solve(meshes, sigma, solution.p, solution.states, how)
        used.append(new.iterations)
        return new, True

    def residuals(solution: Solution) -> tuple[FloatArray, ...]:
        return tuple(mesh.residuals(x) for mesh, x in zip(meshes, solution.states, strict=True))

    solution, sigma = with_noise(task, sigma, first, again, residuals, ROUNDS)
    return solution, sigma, sum(used)


def _discretisation(meshes: tuple[Mesh, ...], solution: Solution, sigma: FloatArray, settings: Settings) -> float:
    """The error of the rule, carried through to the parameters, in standard errors: the largest."""
    free = settings.free
    pull = np.zeros(int(free.sum()))
    with np.errstate(all="ignore"):
        for mesh, x in zip(meshes, solution.states, strict=True):
            line = mesh.linearise(solution.p, x)
            factor = line.covariance(mesh.variances(sigma))
            G = factor.whiten(line.G[:, :, free].reshape(-1, len(pull)))
            pull += G.T @ factor.whiten(mesh.truncation(solution.p, x).ravel())
        covariance = symmetric_inverse(solution.information)
        known = np.isfinite(covariance.diagonal())
        covariance = covariance[np.ix_(known, known)]
        shift = np.abs(covariance @ pull[known]) / np.sqrt(covariance.diagonal())
    return float(shift.max(initial=0.0)) if np.isfinite(shift).all() else np.inf


def _refined(
    task: Task, meshes: tuple[Mesh, ...], solution: Solution, sigma: FloatArray, finer: int, bias: float
) -> Refined:
    residuals = tuple((mesh.residuals(x) / sigma)[::finer] for mesh, x in zip(meshes, solution.states, strict=True))
    measured = tuple(q.measured for q in task.weak.data.trajectories)
    states = tuple(mesh.system.from_working(x[::finer]) for mesh, x in zip(meshes, solution.states, strict=True))
    covariance = symmetric_inverse(solution.information)
    if solution.held is not None:
        # Conditional on the held direction: the information without it.
        d = np.maximum(np.sqrt(np.abs(solution.information.diagonal())), np.finfo(float).tiny)
        basis = np.linalg.qr(np.column_stack([solution.held, np.eye(len(d))]))[0][:, 1:] / d[:, None]
        covariance = basis @ symmetric_inverse(basis.T @ solution.information @ basis) @ basis.T
    elif task.options.covariance == "sandwich":
        covariance = _sandwich(task, meshes, solution, sigma, covariance)
    plain = solution.held is None and task.options.covariance != "sandwich"
    return Refined(
        covariance=covariance,
        sigma=sigma,
        states=states,
        misfit=solution.misfit + within_misfit(task, sigma),
        freedom=degrees_of_freedom(task),
        finer=finer,
        bias=bias,
        held=solution.held,
        residuals=tuple(np.where(there, r, np.nan) for there, r in zip(measured, residuals, strict=True)),
        information=solution.information if plain else None,
        leftover=of_meshes(meshes, solution, sigma, task.moving(solution.p), finer),
        stiffness=0.0 if bias <= BIAS else max(map(_stiffness, task.weak.forms, states, repeat(solution.p))),
    )


def _stiffness(form: WeakForm, states: FloatArray, p: FloatArray) -> float:
    """The fastest decay of the equations along states `(time, D)`, over the time between samples."""
    with np.errstate(all="ignore"):
        F = form.system.evaluate(form.times, states, p, ("fu",))["fu"].dense((form.system.D, form.system.D))
        rates = np.linalg.eigvals(np.moveaxis(np.where(np.isfinite(F), F, 0.0), -1, 0)).real
    return float(-rates.min() * np.median(np.diff(form.times)))


def _sandwich(task: Task, meshes: tuple[Mesh, ...], solution: Solution, sigma: FloatArray, C: FloatArray) -> FloatArray:
    """`Σ_m M_m ε̂_m² M_mᵀ` with `M = C Gᵀ S⁻¹ A`, by which each value of noise moves the estimate.

    Right also where the variance differs from sample to sample; scaled by values over degrees of freedom.
    """
    total = np.zeros_like(C)
    with np.errstate(all="ignore"):
        for mesh, x in zip(meshes, solution.states, strict=True):
            line = mesh.linearise(solution.p, x)
            factor = line.covariance(mesh.variances(sigma))
            Z = factor.back(factor.whiten(line.G[:, :, task.free].reshape(line.c.size, -1)))
            e = np.where(mesh.measured, mesh.data - x, 0.0)
            moves = np.stack([line.transposed(z.reshape(line.c.shape)) * e for z in Z.T])
            flat = moves.reshape(len(moves), -1)
            total += flat @ flat.T
    values = float(counts(task).sum())
    return np.asarray(C @ total @ C) * values / max(degrees_of_freedom(task), 1)


ESTIMATOR = Estimator(
    "wendy",
    "WENDy-MLE, then refined to remove its bias",
    mle.search,
    refine,
    mle.check,
    options=("solver", "covariance"),
    unrefined="mle",
    refits=True,
    instead="relaxed",
    then=("relaxed", "output-error"),
)
