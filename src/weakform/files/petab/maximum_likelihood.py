"""The fit of a PEtab problem: many draws looked at, the best of them followed, by forward solutions.

The bounds of such problems span ten orders of magnitude, and most draws are flat: nothing that is measured depends on
anything there. So draws are screened by the likelihood itself, with solutions that are rough; from the best on, each is
followed by a trust-region method with the expected Hessian, which costs no second derivatives. It ends when some have
come to the same likelihood, unless the noise is given and says that this is no fit, or when the time is over.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...diagnostics.autocorrelation import chi_square_tail
from ...linalg.blas_threads import single_thread
from ...linalg.symmetric_matrix import symmetric_inverse
from ...optimize import Reaching, TrustRegion, minimise
from ...optimize.second_order import Minimum
from ...results.status import Status
from ...support.array_types import FloatArray
from ...support.errors import FitError
from ...support.optional_imports import pandas
from .petab_likelihood import Likelihood, Predicted
from .petab_objective import Objective

if TYPE_CHECKING:
    from .petab_problem import PetabProblem

DRAWS, SHARE, ROUGH, SEARCH = 1000, 0.2, 1e-3, 1e-6
"""Draws that are screened, the share of the time for it, and tolerances of solutions: there, and in the search."""
AGREE, LEAST, SAME = 3, 10, 0.1
"""Starts that have to lead to the same log-likelihood, how many are followed at least, and how near that is."""
RULES = (Reaching, TrustRegion)
"""How starts are followed, in turn: by steps that stay near, and by steps that may cross the box."""
STEPS, ENOUGH, LONGEST = 150, 1e-3, 0.35
"""Of a start: steps at most, a decrease that is not worth one, and the share of the time that it may take."""
FINAL = 0.1
"""The share of the time that is kept for the last digits."""
WIDE = 50.0
"""Where nothing bounds a quantity: how far starts reach, in working coordinates."""
REJECTED = 1e-4
"""Probability of χ² below which a model is rejected, where the noise is given."""
UNKNOWN = 1e-9
"""Eigenvalue of the information, relative to the largest, below which a combination is not determined."""


@dataclass(frozen=True)
class PetabFit:
    """The maximum of the likelihood (or posterior) of a PEtab problem.

    Attributes
    ----------
    problem : PetabProblem
    parameters : dict of str to float
        Estimates of all that was to be estimated, on the linear scale.
    errors : dict of str to float
        Standard errors on the linear scale; NaN at a bound, infinite where nothing is known.
    intervals : dict of str to tuple of float
        95% intervals, made on the scale of each parameter.
    log_likelihood : float
    status : Status
    at_bound : tuple of str
    agreed, tried : int
        How many starts have led to the best likelihood, and how many there were.
    ends : ndarray, (starts, estimated)
        Where starts have led, on the linear scale, the best first.
    values : ndarray, (starts,)
        Minus the log-likelihood there.
    seconds : float
    notes : tuple of str
    """

    problem: PetabProblem
    parameters: dict[str, float]
    errors: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    log_likelihood: float
    status: Status
    at_bound: tuple[str, ...]
    agreed: int
    tried: int
    ends: FloatArray
    values: FloatArray
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def success(self) -> bool:
        """Whether it converged, and nothing speaks against it."""
        return self.status.success

    @property
    def aic(self) -> float:
        """Akaike's criterion."""
        return 2 * len(self.parameters) - 2 * self.log_likelihood

    @property
    def bic(self) -> float:
        """Schwarz's criterion."""
        return len(self.parameters) * math.log(len(self.problem.found.measurements)) - 2 * self.log_likelihood

    def startpoints(self) -> FloatArray:
        """Where starts have led, on the scales of the parameters, as pyPESTO takes start points."""
        return self.problem.scaled(self.ends)

    def to_frame(self) -> Any:
        """The estimates as a pandas frame."""
        pd = pandas()

        rows = [
            {"parameter": n, "estimate": v, "standard_error": self.errors[n], "lower": self.intervals[n][0],
             "upper": self.intervals[n][1], "at_bound": n in self.at_bound}
            for n, v in self.parameters.items()
        ]  # fmt: skip
        return pd.DataFrame(rows).set_index("parameter")

    def __str__(self) -> str:
        problem = self.problem
        width = max(map(len, self.parameters))
        lines = [
            f"{problem.name}: {'success' if self.success else 'no success'}, {self.status.value}",
            f"{len(problem.found.measurements)} measurements in {len(problem.found.experiments)} experiments; "
            f"log-likelihood {self.log_likelihood:.4f}, AIC {self.aic:.4f}, BIC {self.bic:.4f}",
            f"{self.agreed} of {self.tried} starts reached the best likelihood; {self.seconds:.1f} s",
            "",
            f"{'':{width}s}  {'estimate':>12s} {'std. error':>12s}   95% interval",
        ]
        for name, value in self.parameters.items():
            low, high = self.intervals[name]
            note = "  at its bound" if name in self.at_bound else ""
            shown = f"[{low:.5g}, {high:.5g}]" if math.isfinite(low) and math.isfinite(high) else "not determined"
            shown = "" if name in self.at_bound else shown
            error = f"{self.errors[name]:12.4g}" if name not in self.at_bound else f"{'':12s}"
            lines.append(f"{name:{width}s}  {value:12.6g} {error}   {shown}{note}")
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


def maximum(
    problem: PetabProblem, starts: int | None, seed: int, time_limit: float, progress: Callable[[str], None] | None
) -> PetabFit:
    """Fit a problem; see `PetabProblem.fit`."""
    begin = time.process_time()

    def left() -> float:
        return time_limit - (time.process_time() - begin)

    found = problem.found
    if not any(q.estimate for q in found.quantities):
        raise FitError("Nothing is to be estimated: every row of the parameter table has estimate 0.")
    rough, objective = (Objective(Likelihood(found, rtol)) for rtol in (ROUGH, SEARCH))
    with single_thread(), np.errstate(all="ignore"):
        draws = _screened(
            rough, DRAWS if starts is None else max(starts * 10, 50), seed, lambda: left() < (1 - SHARE) * time_limit
        )
        ends = _followed(objective, draws, starts, left, time_limit, progress)
        return _told(problem, ends, left, begin)


def _screened(rough: Objective, count: int, seed: int, stop: Callable[[], bool]) -> list[FloatArray]:
    """Draws inside the box, the best first; at least a few, whatever the time."""
    rng = np.random.default_rng([seed, 11])
    low = np.where(np.isfinite(rough.lower), rough.lower, np.maximum(-WIDE, rough.upper - WIDE))
    high = np.where(np.isfinite(rough.upper), rough.upper, np.minimum(WIDE, rough.lower + WIDE))
    found = []
    for k in range(count):
        x = rng.uniform(low, high)
        found.append((rough(x, 0).value, k, x))
        if k > 20 and stop():
            break
    return [x for _, _, x in sorted(found, key=lambda one: one[:2])]


def _followed(
    objective: Objective,
    draws: list[FloatArray],
    starts: int | None,
    left: Callable[[], float],
    limit: float,
    progress: Callable[[str], None] | None,
) -> list[Minimum]:
    """Where the draws lead, until enough agree."""
    ends: list[Minimum] = []
    for k, x in enumerate(draws if starts is None else draws[:starts]):
        until = max(left() - LONGEST * limit, FINAL * limit)
        try:
            end = minimise(
                objective,
                x,
                objective.lower,
                objective.upper,
                RULES[k % len(RULES)](),
                tolerance=1e-6,
                max_iterations=STEPS,
                enough=ENOUGH,
                stop=lambda _, until=until: left() < until,  # type: ignore[misc]
            )
        except np.linalg.LinAlgError:
            continue
        if math.isfinite(end.value):
            ends.append(end)
        best = min((e.value for e in ends), default=math.inf)
        if progress is not None and ends:
            progress(f"{len(ends)} starts, best log-likelihood {-best:.3f}")
        agreed = sum(e.value < best + SAME for e in ends)
        enough = starts is None and agreed >= AGREE and len(ends) >= LEAST
        if left() < FINAL * limit or (enough and not _rejected(objective, min(ends, key=lambda e: e.value).x)):
            break
    if not ends:
        raise FitError(
            "The model could not be solved from any start: see whether its initial values, its bounds and its noise "
            "make sense with `log_likelihood()` at the nominal values."
        )
    return sorted(ends, key=lambda end: end.value)


def _told(problem: PetabProblem, ends: list[Minimum], left: Callable[[], float], begin: float) -> PetabFit:
    """The best end, to its last digits, with errors."""
    likelihood = problem.likelihood
    objective = Objective(likelihood)
    best = _to_the_end(objective, ends[0], left)
    theta = _all(objective, best.x)
    quantities, keep = problem.found.quantities, [k for k, q in enumerate(problem.found.quantities) if q.estimate]
    names = [quantities[k].name for k in keep]
    found = likelihood.predicted(theta, True)
    if found is None:
        raise FitError(
            "The best estimate cannot be solved with a finer tolerance; try another seed, or tighter bounds."
        )
    _, H = likelihood.derivatives(found)
    logs = objective.logs[keep]
    pace = np.where(logs, theta[keep], 1.0)
    H = H[np.ix_(keep, keep)] * np.outer(pace, pace)
    H += np.diag([_curvature(objective, k, theta) for k in keep])
    width = objective.high[keep] - objective.low[keep]
    near = 1e-6 * np.where(np.isfinite(width), width, 1.0)
    relative = np.where(logs, 1e-4 * theta[keep], near)
    at_bound = (theta[keep] <= objective.low[keep] + relative) | (theta[keep] >= objective.high[keep] - relative)
    C = np.full((len(keep), len(keep)), np.nan)
    inside = np.flatnonzero(~at_bound)
    unknown = np.zeros(len(keep), dtype=bool)
    if len(inside):
        C[np.ix_(inside, inside)], unknown[inside] = _inverse(H[np.ix_(inside, inside)])
    half = 1.959964 * np.sqrt(np.where(C.diagonal() >= 0, C.diagonal(), np.nan))
    half = np.where(unknown, np.inf, half)
    working = np.where(logs, np.log(np.where(logs, theta[keep], 1.0)), theta[keep])
    low, high = (np.where(logs, np.exp(working + s * half), working + s * half) for s in (-1, 1))
    errors = half / 1.959964 * pace
    agreed = sum(end.value < best.value + SAME for end in ends)
    status = Status.of(best.stop)
    notes = []
    if status is Status.STUCK and best.value < ends[0].value + SAME:
        status = Status.CONVERGED  # to the accuracy of forward solutions
    if unknown.any():
        status = Status.UNDETERMINED if status.converged else status
        notes.append(f"The data do not determine {', '.join(n for n, u in zip(names, unknown, strict=True) if u)}.")
    tested = _chi_square(objective, found)
    if tested is not None and tested[2] < REJECTED and status.converged:
        status = Status.REJECTED
        notes.append("χ² = {:.4g} with {} degrees of freedom: p = {:.2g}.".format(*tested))
    if agreed < 2 and len(ends) > 1:
        notes.append("Only one start has led here: a better optimum may exist; raise time_limit, or try another seed.")
    natural = np.array([_all(objective, end.x)[keep] for end in ends[:20]])
    return PetabFit(
        problem,
        dict(zip(names, map(float, theta[keep]), strict=True)),
        dict(zip(names, map(float, errors), strict=True)),
        {n: (float(a), float(b)) for n, a, b in zip(names, low, high, strict=True)},
        -likelihood.value(found),
        status,
        at_bound=tuple(n for n, b in zip(names, at_bound, strict=True) if b),
        agreed=agreed,
        tried=len(ends),
        ends=natural,
        values=np.array([end.value for end in ends[:20]]),
        seconds=time.process_time() - begin,
        notes=tuple(notes),
    )


def _chi_square(objective: Objective, found: Predicted) -> tuple[float, int, float] | None:
    """χ², its degrees of freedom and its p-value; nothing where the noise is estimated, or not normal."""
    likelihood = objective.likelihood
    freedom = len(likelihood.values) - sum(q.estimate for q in objective.quantities)
    if objective.noise or np.any(found.by_sigma) or freedom <= 0 or likelihood.laplace.any():
        return None
    r = likelihood.residuals(found)
    return float(r @ r), freedom, chi_square_tail(float(r @ r), freedom)


def _rejected(objective: Objective, x: FloatArray) -> bool:
    """Whether the noise that was given says that this is no fit, however many starts may lead there."""
    found = objective.likelihood.predicted(_all(objective, x), True)
    tested = None if found is None else _chi_square(objective, found)
    return tested is not None and tested[2] < REJECTED


def _to_the_end(objective: Objective, near: Minimum, left: Callable[[], float]) -> Minimum:
    """The last digits, with solutions that are fine."""
    try:
        best = minimise(
            objective,
            near.x,
            objective.lower,
            objective.upper,
            Reaching(),
            tolerance=1e-8,
            max_iterations=STEPS,
            enough=1e-6,
            stop=lambda _: left() < 0,
        )
    except np.linalg.LinAlgError:
        return near
    return best if math.isfinite(best.value) else near


def _all(objective: Objective, x: FloatArray) -> FloatArray:
    """All quantities at a point; those inside in the middle where nothing can be solved."""
    theta = objective(x, 0).theta
    return objective.natural(x, objective.begin) if theta is None else theta


def _curvature(objective: Objective, k: int, theta: FloatArray) -> float:
    """What a prior adds to the information, in working coordinates."""
    q = objective.quantities[k]
    if q.prior is None:
        return 0.0
    h, x = 1e-4, math.log(theta[k]) if objective.logs[k] else float(theta[k])

    def at(x: float) -> float:
        return q.log_prior(math.exp(x) if objective.logs[k] else x)

    step = h * max(1.0, abs(x))
    curve = -(at(x + step) - 2 * at(x) + at(x - step)) / step**2
    return max(curve, 0.0) if math.isfinite(curve) else 0.0


def _inverse(H: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The inverse of an information, and which diagonal entries it says nothing of."""
    d = np.sqrt(np.maximum(H.diagonal(), 1e-300))
    try:
        w, V = np.linalg.eigh(H / np.outer(d, d))
    except np.linalg.LinAlgError:
        return np.full(H.shape, np.nan), np.ones(len(H), dtype=bool)
    flat = w < UNKNOWN * max(float(w[-1]), 1e-300)
    inverse = symmetric_inverse(H) if not flat.any() else (V[:, ~flat] / w[~flat]) @ V[:, ~flat].T / np.outer(d, d)
    unknown = (V[:, flat] ** 2).sum(axis=1) > 1e-6 if flat.any() else np.zeros(len(d), dtype=bool)
    return inverse, unknown
