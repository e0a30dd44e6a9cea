"""WENDy without its bias: the weak likelihood finds the parameters, the states that obey the model make them exact.

1. WENDy-MLE from every start. Its log-determinant widens the domain of convergence and biases the estimate.
2. From the best of them, and from the data denoised by it, the Gauss–Helmert iteration on the finest test functions
   (`weak.helmert`): linearised about the denoised states, no log-determinant, no information left out. σ, unless given,
   is the root mean square of the residuals, and the iteration is repeated until it agrees with itself.
3. The error of the discretisation is carried through to the parameters; where it is not small against their standard
   errors the mesh is made finer.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..goodness import Strain, assess, threshold
from ..optimize import Stop
from ..typing import FloatArray
from ..weak.collocation import Mesh
from ..weak.helmert import Settings, Solution, solve
from ..weak.problem import symmetric_inverse
from ..weak.tridiagonal import NotPositiveDefinite
from .base import Outcome, Refined, Status, Task

MAX_ITERATIONS = 100
ROUNDS = 8
AGREED = 2e-3
BIAS = 0.1
FINEST = 16
WINDOWS = 40


def finish(task: Task, outcome: Outcome) -> Outcome:
    """Refine the best estimate; the outcome is unchanged where that is not possible."""
    problem = task.problem
    p, sigma = outcome.estimate, problem.sigma
    if not (np.isfinite(outcome.objective) and (sigma > 0).all()):
        return outcome
    settings = Settings(
        task.free,
        task.lower,
        task.upper,
        tolerance=float(np.sqrt(task.options.tolerance)),
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        deadline=task.deadline,
    )
    meshes = tuple(Mesh.of(form.system, form.times, form.x.T) for form in problem.forms)
    finer, iterations = 1, 0
    try:
        states = tuple(form.system.to_working(form.denoise(p)) for form in problem.forms)
        while True:
            solution, sigma, used = _with_noise(task, meshes, sigma, p, states, settings)
            iterations += used
            bias = _discretisation(meshes, solution, sigma, settings)
            if bias <= BIAS or finer == FINEST or solution.stop is Stop.TIME:
                break
            finer *= 2
            p = solution.p
            states = tuple(_halved(mesh, p, x) for mesh, x in zip(meshes, solution.states, strict=True))
            meshes = tuple(Mesh.of(form.system, form.times, form.x.T, finer) for form in problem.forms)
    except NotPositiveDefinite:
        return outcome
    if not np.isfinite(solution.p).all() or not all(np.isfinite(x).all() for x in solution.states):
        return outcome
    return replace(
        outcome,
        estimate=solution.p,
        objective=0.5 * solution.misfit,
        status=Status.of(solution.stop),
        iterations=outcome.iterations + iterations,
        refined=_refined(task, meshes, solution, sigma, settings, finer, bias),
    )


def _freedom(task: Task) -> int:
    values = task.problem.data.samples * len(task.problem.sigma)
    return values - int(task.free.sum()) - len(task.problem.sigma) * len(task.problem.forms)


def _with_noise(
    task: Task,
    meshes: tuple[Mesh, ...],
    sigma: FloatArray,
    p: FloatArray,
    states: tuple[FloatArray, ...],
    settings: Settings,
) -> tuple[Solution, FloatArray, int]:
    """Solve; where σ is not given, in turn with `σ_d² = Σ residuals²/(n - share of what was fitted)`."""
    solution = solve(meshes, sigma, p, states, settings)
    used = solution.iterations
    if task.problem.data.sigma is not None:
        return solution, sigma, used
    D = len(sigma)
    left = max(_freedom(task) / D, 1.0)
    for _ in range(ROUNDS):
        squares = np.zeros(D)
        for mesh, x in zip(meshes, solution.states, strict=True):
            squares += np.sum(np.where(mesh.measured, mesh.data - x, 0.0) ** 2, axis=0)
        new = np.sqrt(squares / left)
        # A state that the model can follow exactly has no noise to tell; keep it off zero.
        new = np.maximum(new, 1e-3 * sigma)
        agreed = (np.abs(new / sigma - 1) < AGREED).all()
        sigma = new
        solution = solve(meshes, sigma, solution.p, solution.states, settings)
        used += solution.iterations
        if agreed:
            break
    return solution, sigma, used


def _halved(mesh: Mesh, p: FloatArray, x: FloatArray) -> FloatArray:
    """The states on a mesh twice as fine, by Hermite interpolation."""
    (f,) = mesh._evaluate(mesh.times, x, p, ("f",))
    fine = np.empty((2 * len(x) - 1, x.shape[1]))
    fine[::2], fine[1::2] = x, mesh._middle(x, f)[1]
    return fine


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
        shift = np.abs(covariance @ pull) / np.sqrt(np.maximum(covariance.diagonal(), np.finfo(float).tiny))
    return float(shift.max()) if np.isfinite(shift).all() else np.inf


def _refined(
    task: Task,
    meshes: tuple[Mesh, ...],
    solution: Solution,
    sigma: FloatArray,
    settings: Settings,
    finer: int,
    bias: float,
) -> Refined:
    residuals = tuple(((mesh.data - x) / sigma)[::finer] for mesh, x in zip(meshes, solution.states, strict=True))
    freedom = _freedom(task)
    goodness = assess(
        residuals,
        solution.misfit,
        freedom,
        task.problem.data.sigma is not None,
        _strains(meshes, solution, sigma, settings),
    )
    states = tuple(mesh.system.from_working(x[::finer]) for mesh, x in zip(meshes, solution.states, strict=True))
    covariance = symmetric_inverse(solution.information)
    if solution.held is not None:
        # Conditional on the held direction: the information without it.
        d = np.sqrt(solution.information.diagonal())
        basis = np.linalg.qr(np.column_stack([solution.held, np.eye(len(d))]))[0][:, 1:] / d[:, None]
        covariance = basis @ symmetric_inverse(basis.T @ solution.information @ basis) @ basis.T
    return Refined(covariance, sigma, states, solution.misfit, freedom, finer, bias, solution.held, goodness)


def _strains(meshes: tuple[Mesh, ...], solution: Solution, sigma: FloatArray, settings: Settings) -> tuple[Strain, ...]:
    """Windows of time in which an equation needs an additional term."""
    free = settings.free
    covariance = symmetric_inverse(solution.information)
    found: list[Strain] = []
    D = len(sigma)
    with np.errstate(all="ignore"):
        for mesh, x, z in zip(meshes, solution.states, solution.multipliers, strict=True):
            M = len(z)
            count = int(np.clip(M // 8, 1, max(2, min(WINDOWS, 20_000_000 // (M * D * D)))))
            edges = np.linspace(0, M, count + 1).astype(int)
            h = np.diff(mesh.times)
            columns = np.zeros((M, D, count, D))
            for w in range(count):
                for a in range(D):
                    columns[edges[w] : edges[w + 1], a, w, a] = h[edges[w] : edges[w + 1]]
            line = mesh.linearise(solution.p, x)
            factor = line.covariance(mesh.variances(sigma))
            B = factor.whiten(columns.reshape(M * D, count * D))
            G = factor.whiten(line.G[:, :, free].reshape(M * D, -1))
            cross = B.T @ G
            variance = np.sum(B * B, axis=0) - np.einsum("wi,ij,wj->w", cross, covariance, cross)
            scores = (columns.reshape(M * D, -1).T @ z.ravel()) / np.sqrt(np.maximum(variance, 1e-300))
            limit = threshold(count * D * len(meshes))
            # A window whose variance the parameters have nearly used up says nothing.
            telling = variance > 1e-6 * np.sum(B * B, axis=0)
            for k in np.flatnonzero(telling & (np.abs(scores) > limit)):
                w, a = divmod(int(k), D)
                found.append(Strain(a, float(mesh.times[edges[w]]), float(mesh.times[edges[w + 1]]), float(scores[k])))
    return tuple(sorted(found, key=lambda strain: -abs(strain.score)))
