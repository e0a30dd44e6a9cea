"""WENDy without its bias: the weak likelihood finds the parameters, the states that obey the model make them exact.

1. Weak least squares on few test functions from every start (`quick`); where step 2 does not lead from there to the
   noise of the data, WENDy-MLE. Its log-determinant widens the domain of convergence and biases the estimate.
2. From the best of them, and from the data denoised by it, the Gauss–Helmert iteration on the finest test functions
   (`collocation.helmert`): linearised about the denoised states, no log-determinant, no information left out. σ, unless
   given, is the root mean square of the residuals, which the iteration finds together with the states.
3. The error of the discretisation is carried through to the parameters; where it is not small against their standard
   errors the mesh is made finer; that of a very long series keeps its nodes, and has the error taken out.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

import numpy as np

from ..collocation.gauss_helmert import Settings, Solution, solve
from ..collocation.mesh import SUBSTEPS, Mesh, Part
from ..collocation.residual_projection import of_mesh
from ..linalg.symmetric_matrix import NotPositiveDefinite, symmetric_inverse
from ..optimize import Stop
from ..results.status import Status
from ..support.array_types import FloatArray
from ..weak.weak_form import WeakForm
from . import coarse_least_squares, mle
from .estimation_problem import Outcome, Refined, Task
from .estimator import Estimator
from .noise_level import counts, degrees_of_freedom, noise_of, within_misfit

MAX_ITERATIONS = 100
BIAS = 0.1
TOLERABLE = 0.3
"""Shift of an estimate by the rule, in standard errors: worth a finer mesh, but not a worse solution on it."""
FINEST = 16
NEAR = 10.0
"""Standard errors of the last step, times the root of the tolerance: 1e-3 by default."""
ENOUGH = 0.1
"""Log-likelihood that a step of the search must promise."""
LONG, PIECE, ROUGH = 200_000, 20_000, 1.0
"""Samples of a trajectory that is long, those of its pieces, and standard errors to which these need to be solved."""
CORRECTIONS = 3
"""How often the error of the rule is taken out of a long series, before its mesh is halved."""
SMALL, LARGE = 0.05, 0.3
"""Error of the rule in one interval, in σ: what is not small must fall when the intervals are halved, and what is large
is a reason to halve them. Where it stays, the equations have a pole between two states, as `V*P/(Km + P)` has at a
negative P: the rule does not see it, and no solution goes there."""
EXACT = 1e-3
"""Share of the variation of a state below which noise is no measure of that."""
FEW, CLEARLY = 2, 0.2
"""Substeps that tell roughly how large the error of the rule is, and the share of `BIAS` at which that will do."""


def refine(task: Task, outcome: Outcome) -> Outcome:
    """Refine the best estimate; the outcome is unchanged where that is not possible."""
    problem = task.weak
    p, sigma = outcome.estimate, problem.sigma
    if not (np.isfinite(outcome.objective) and (sigma > 0).all()):
        return outcome
    if outcome.rough:
        p = coarse_least_squares.weighed(task, p)
    settings = Settings(
        task.free,
        task.lower,
        task.upper,
        tolerance=NEAR * float(np.sqrt(task.options.tolerance)),
        max_iterations=task.options.max_iterations or MAX_ITERATIONS,
        stop=task.stop,
        prior=task.prior,
        noise=None if problem.data.sigma is not None else noise_of(task),
    )
    pairs = zip(problem.forms, problem.data.trajectories, strict=True)
    mesh = Mesh.of([Part(form.system, q.times, form.x.T, q.measured, q.scale) for form, q in pairs])
    finer, iterations, good, before, singular = 1, 0, None, np.inf, False
    long, corrections = len(mesh.times) > len(mesh.systems) * LONG, 0
    try:
        cleaned = zip(problem.forms, problem.denoise(p), strict=True)
        states = np.concatenate([form.system.to_working(u) for form, u in cleaned])
        if long:
            # Over a long time a small error of the parameters moves all states along: pieces first, which cannot drift.
            rough = replace(settings, tolerance=ROUGH)
            pieces = solve(mesh.cut(PIECE), sigma, p, states, rough)
            p, sigma, states, iterations = pieces.p, pieces.sigma, pieces.states, pieces.iterations
        while True:
            solution = solve(mesh, sigma, p, states, settings)
            iterations += solution.iterations
            if not (np.isfinite(solution.p).all() and np.isfinite(solution.states).all()):
                break
            will_do = good is not None and good[0].stop.converged and good[3] <= TOLERABLE and before <= SMALL
            if will_do and not solution.stop.converged:
                break
            p, sigma = solution.p, solution.sigma
            bias, off = _discretisation(mesh, solution, settings)
            good = (solution, mesh, finer, bias)
            singular = finer > 2 and off > SMALL and off > before / 2  # the first halving of a coarse mesh tells little
            if singular:
                break
            if (bias <= BIAS and off <= LARGE) or finer == FINEST or solution.stop is Stop.TIME:
                break
            if long and corrections < CORRECTIONS and np.isfinite(bias) and off <= LARGE:
                mesh, states, corrections = mesh.corrected(p, solution.states), solution.states, corrections + 1
                continue
            finer, before = 2 * finer, off
            mesh, states = mesh.halved(p, solution.states)
    except NotPositiveDefinite:
        singular = good is not None and before > SMALL
    if good is None:
        return outcome
    solution, mesh, finer, bias = good
    if singular:
        solution, bias = replace(solution, stop=Stop.STUCK), np.inf
    return replace(
        outcome,
        estimate=solution.p,
        objective=0.5 * solution.misfit,
        status=Status.of(solution.stop),
        iterations=outcome.iterations + iterations,
        refined=_refined(task, mesh, solution, finer, bias),
        rough=False,
    )


def _discretisation(mesh: Mesh, solution: Solution, settings: Settings) -> tuple[float, float]:
    """The largest error of the rule: carried through to the parameters, in standard errors; of one interval, in σ."""
    free, p, x = settings.free, solution.p, solution.states
    with np.errstate(all="ignore"):
        line = mesh.linearise(p, x)
        factor = line.covariance(mesh.variances(solution.sigma))
        G = factor.whiten(line.G[:, :, free].reshape(line.c.size, -1))
        covariance = symmetric_inverse(solution.information)
        known = np.isfinite(covariance.diagonal())
        covariance = covariance[np.ix_(known, known)]

        def shift(substeps: int) -> tuple[FloatArray, float]:
            wrong = mesh.truncation(p, x, substeps)
            pull = G.T @ factor.whiten(wrong.ravel())
            off = float(np.max(np.abs(wrong) / np.maximum(solution.sigma, EXACT * x.std(axis=0))))
            return np.asarray(np.abs(covariance @ pull[known]) / np.sqrt(covariance.diagonal())), off

        # Few substeps tell where the rule is good; where they find that it is not, or not clearly, many do.
        found, off = shift(FEW)
        if not (np.isfinite(found).all() and found.max(initial=0.0) < CLEARLY * BIAS and off < LARGE):
            found, off = shift(SUBSTEPS)
    return float(found.max(initial=0.0)) if np.isfinite(found).all() else np.inf, off


def _refined(task: Task, mesh: Mesh, solution: Solution, finer: int, bias: float) -> Refined:
    sigma = solution.sigma
    measured = tuple(q.measured for q in task.weak.data.trajectories)
    ends = np.cumsum([len(there) for there in measured])[:-1]
    residuals = np.split((mesh.residuals(solution.states) / sigma)[mesh.samples], ends)
    states = tuple(np.split(mesh.system.from_working(solution.states[mesh.samples]), ends))
    covariance = symmetric_inverse(solution.information)
    if solution.held is not None:
        # Conditional on the held direction: the information without it.
        d = np.maximum(np.sqrt(np.abs(solution.information.diagonal())), np.finfo(float).tiny)
        basis = np.linalg.qr(np.column_stack([solution.held, np.eye(len(d))]))[0][:, 1:] / d[:, None]
        covariance = basis @ symmetric_inverse(basis.T @ solution.information @ basis) @ basis.T
    elif task.options.covariance == "sandwich":
        covariance = _sandwich(task, mesh, solution, covariance)
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
        leftover=of_mesh(mesh, solution, task.moving(solution.p)),
        stiffness=0.0 if bias <= BIAS else max(map(_stiffness, task.weak.forms, states, repeat(solution.p))),
    )


def _stiffness(form: WeakForm, states: FloatArray, p: FloatArray) -> float:
    """The fastest decay of the equations along states `(time, D)`, over the time between samples."""
    with np.errstate(all="ignore"):
        F = form.system.evaluate(form.times, states, p, ("fu",))["fu"].dense((form.system.D, form.system.D))
        rates = np.linalg.eigvals(np.moveaxis(np.where(np.isfinite(F), F, 0.0), -1, 0)).real
    return float(-rates.min() * np.median(np.diff(form.times)))


def _sandwich(task: Task, mesh: Mesh, solution: Solution, C: FloatArray) -> FloatArray:
    """`Σ_m M_m ε̂_m² M_mᵀ` with `M = C Gᵀ S⁻¹ A`, by which each value of noise moves the estimate.

    Right also where the variance differs from sample to sample; scaled by values over degrees of freedom.
    """
    x = solution.states
    with np.errstate(all="ignore"):
        line = mesh.linearise(solution.p, x)
        factor = line.covariance(mesh.variances(solution.sigma))
        Z = factor.back(factor.whiten(line.G[:, :, task.free].reshape(line.c.size, -1)))
        moves = line.A.transposed(Z.reshape(*line.c.shape, -1), len(x))
        moves *= np.where(mesh.measured, mesh.data - x, 0.0)[:, :, None]
    flat = moves.reshape(-1, moves.shape[2])
    values = float(counts(task).sum())
    return np.asarray(C @ (flat.T @ flat) @ C) * values / max(degrees_of_freedom(task), 1)


def search(task: Task, start: FloatArray | None) -> Outcome:
    """WENDy-MLE, as near to its minimum as the refinement needs it."""
    return mle.search(task, start, enough=ENOUGH)


def enough(task: Task, outcomes: list[Outcome]) -> bool:
    """Whether two searches have led to the best value."""
    del task
    best = min(outcome.objective for outcome in outcomes)
    agree = [o for o in outcomes if o.status.converged and o.objective - best < 2 * ENOUGH]
    return len(agree) > 1


ESTIMATOR = Estimator(
    "wendy",
    "WENDy-MLE, then refined to remove its bias",
    search,
    refine,
    mle.check,
    options=("solver", "covariance"),
    method_if_unrefined="mle",
    refits=True,
    hidden_state_method="relaxed",
    coarse_search=coarse_least_squares.search,
    enough=enough,
)
