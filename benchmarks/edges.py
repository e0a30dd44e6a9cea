"""Difficult systems and designs, on which a fit goes wrong most easily, each with its share of right estimates.

    python benchmarks/edges.py [rows, default all] [runs]
    weakform sweep edges && python benchmarks/edges.py study edges.sqlite

Rows are separated by commas. A default fit is *right* if its log-likelihood is within 1 of that of the fit started at
the true parameters, and every parameter is within 5 standard errors of its true value, or of an equivalent solution
that no data can distinguish from it. Without noise it is right if every parameter is within 1%.

Columns: runs, right, successes, successes that are wrong, coverage of the 95% intervals of the successes, median CPU
seconds. Gaussian noise is a share of the standard deviation of each state, log-normal noise the standard deviation of
the logarithm. Seeds are 0, 1, 2, …; runs that are not right are listed below their row, with their seeds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

import weakform as wf

RUNS = 20
MAX_LIKELIHOOD_GAP = 1.0
"""Log-likelihood by which a right fit may be behind the fit that is started at the true parameters."""
MAX_STANDARD_ERRORS = 5.0
"""Standard errors by which a parameter of a right fit may be off."""
MAX_NOISE_FREE_ERROR = 0.01
"""Relative error of a parameter of a right fit without noise."""
MIN_SUSPECT_WALD_ERRORS = 2.0
"""Wald errors, which a study stores, above which the fit is repeated for the errors of its default intervals."""


@dataclass(frozen=True)
class Trial:
    """One data set with its model, the arguments of the fit, and the true parameters (none for a wrong model)."""

    model: wf.Model
    data: wf.Dataset
    truth: dict[str, float]
    arguments: dict = field(default_factory=dict)
    noisy: bool = True
    twin: dict[str, float] | None = None
    """Another set of true parameters that no data can distinguish from the first."""


def noisy(rng: np.random.Generator, states: np.ndarray, noise: float, kind: str) -> np.ndarray:
    """Return the states with one draw of the noise, `(time, D)`."""
    if kind == "lognormal":
        return states * np.exp(noise * rng.standard_normal(states.shape))
    return states + noise * states.std(axis=0) * rng.standard_normal(states.shape)


def solved(problem: wf.problems.Problem, times: np.ndarray, **changed: tuple) -> np.ndarray:
    """Return the true states at some times, `(time, D)`, solved from t = 0."""
    p, begin = changed.get("truth", problem.truth), changed.get("initial", problem.initial)
    grid = times if times[0] == 0 else np.append(0.0, times)
    solution = wf.simulate(problem.model, p, begin, grid, rtol=1e-10, atol=1e-14, max_evaluations=10**8)
    assert solution.success, solution.status
    return solution.states[-len(times) :]


def system(name: str, M: int, noise: float, kind: str = "gaussian", missing: Callable | None = None) -> Callable:
    """Return a maker of trials: evenly spaced samples of a benchmark problem or a difficult system."""

    def make(seed: int) -> Trial:
        problem = wf.problems.get(name)
        t = np.linspace(0, problem.duration, M)
        values = noisy(np.random.default_rng([seed, M]), solved(problem, t), noise, kind)
        if missing is not None:
            values = np.where(missing(t / problem.duration)[:, : values.shape[1]], np.nan, values)
        bounds = {key: pair for key, pair in problem.bounds.items() if np.isfinite(pair).all()}
        truth = dict(zip(problem.model.parameters, problem.truth, strict=True))
        return Trial(problem.model, wf.Dataset(t, values, kind), truth, {"bounds": bounds} if bounds else {}, noise > 0)

    return make


def middle(share: float) -> Callable:
    """Return a mask of missing values: all states in a share of the duration around its middle."""
    return lambda s: np.repeat((np.abs(s - 0.5) < share / 2)[:, None], 9, axis=1)


def only_at_first(s: np.ndarray) -> np.ndarray:
    """Return a mask of missing values: the second state is measured only in the first 15% of the duration."""
    return np.column_stack([np.zeros(len(s), dtype=bool), s > 0.15, *np.zeros((7, len(s)), dtype=bool)])


def plates(seed: int) -> Trial:
    """Return a trial of the example of docs/data.md: three plates with local capacities."""
    t, rng = np.linspace(0, 12, 40), np.random.default_rng(seed)
    parts = [wf.Dataset(t, K / (1 + (K - 1) * np.exp(-0.8 * t)) + 0.2 * rng.standard_normal(40)) for K in (10, 20, 20)]
    truth = {"K_a": 10.0, "K_b": 20.0, "K_c": 20.0, "r": 0.8}
    data = wf.Dataset.join(parts, ["a", "b", "c"])
    return Trial(wf.Model.from_text("N' = r*N*(1 - N/K)"), data, truth, {"local": ["K"]})


def boost(seed: int) -> Trial:
    """Return a trial of the boost converter, with parameters and initial state drawn for each run."""
    problem, rng = wf.problems.get("boost-converter"), np.random.default_rng(seed)
    truth, begin = rng.uniform(0.1, 0.9, 3), rng.uniform(0.1, 0.9, 2)
    t = np.linspace(0, 0.5, 1501)
    x = solved(problem, t, truth=truth, initial=begin)
    values = x + 0.01 * np.abs(x.mean(axis=0)) * rng.standard_normal(x.shape)
    names = problem.model.parameters
    return Trial(problem.model, wf.Dataset(t, values), dict(zip(names, truth, strict=True)), {"bounds": problem.bounds})


def robertson(seed: int) -> Trial:
    """Return a trial of Robertson's system on a log scale, with bounds two decades around the true values."""
    trial = system("robertson", 100, 0.01)(seed)
    bounds = {name: (value / 100, value * 100) for name, value in trial.truth.items()}
    return Trial(trial.model, trial.data, trial.truth, {"bounds": bounds, "log": list(bounds)})


def pairs(seed: int) -> Trial:
    """Return a trial with samples in pairs, a millionth of the duration apart."""
    problem, rng = wf.problems.get("oscillator"), np.random.default_rng(seed)
    t = np.linspace(0, problem.duration, 60)
    t = np.sort(np.concatenate([t, t[1:] - 1e-6 * problem.duration]))
    values = noisy(rng, solved(problem, t), 0.05, "gaussian")
    return Trial(problem.model, wf.Dataset(t, values), dict(zip(problem.model.parameters, problem.truth, strict=True)))


def absorbed(seed: int) -> Trial:
    """Return a trial of absorption, with a first value near zero and log-normal noise."""
    ka, ke, V = 1.5, 0.2, 10.0
    t, rng = np.linspace(0.001, 24, 60), np.random.default_rng(seed)
    C = 300 * ka / (V * (ka - ke)) * (np.exp(-ke * t) - np.exp(-ka * t))
    model = wf.Model.from_text("C' = 300*ka/V*exp(-ka*t) - ke*C")
    bounds = {"ka": (0.0, 10.0), "ke": (0.0, 5.0), "V": (0.1, 100.0)}
    data = wf.Dataset(t, noisy(rng, C, 0.1, "lognormal"), "lognormal")
    exchanged = {"ka": ke, "ke": ka, "V": V * ke / ka}
    return Trial(model, data, {"ka": ka, "ke": ke, "V": V}, {"bounds": bounds}, twin=exchanged)


SATURATED = "u' = -g*u^n/(K+u^n)"


def below_zero(seed: int) -> Trial:
    """Return a trial with some values below zero, where the equations are not defined."""
    rng, model = np.random.default_rng(seed), wf.Model.from_text(SATURATED)
    t = np.linspace(0, 20, 80)
    truth = {"K": 2.0, "g": 1.0, "n": 1.5}
    x = wf.simulate(model, [truth[p] for p in model.parameters], [6.0], t, rtol=1e-10).states
    values = x + 0.05 * x.std() * rng.standard_normal(x.shape)
    bounds = {"K": (0.01, 50.0), "g": (0.01, 20.0), "n": (0.5, 4.0)}
    return Trial(model, wf.Dataset(t, values), truth, {"bounds": bounds})


OPTIMUM: dict[str, Callable[[int], Trial]] = {
    "van der Pol, M = 30, 10%": system("van-der-pol", 30, 0.1),
    "van der Pol, M = 45, 10%": system("van-der-pol", 45, 0.1),
    "van der Pol, M = 30, noise-free": system("van-der-pol", 30, 0.0),
    "van der Pol, M = 45, noise-free": system("van-der-pol", 45, 0.0),
    "three plates, local K, no bounds": plates,
    "Rössler with its time scale, M = 512, 5%": system("rossler-scaled", 512, 0.05),
    "boost converter": boost,
    "Robertson, M = 100, 1%, log scale": robertson,
    "Oregonator, M = 200, 5%": system("oregonator", 200, 0.05),
    "Michaelis–Menten, M = 45, 10%": system("michaelis-menten", 45, 0.1),
    "Chua, M = 20, 5%": system("chua", 20, 0.05),
    "Duffing, M = 45, 10%": system("duffing", 45, 0.1),
    "Brusselator, M = 20, 5%": system("brusselator", 20, 0.05),
    "protein transduction, M = 256, 20%": system("protein-transduction", 256, 0.2),
    "Sel'kov, middle 40% missing": system("selkov", 100, 0.05, missing=middle(0.4)),
    "Rosenzweig–MacArthur, middle 40% missing": system("rosenzweig-macarthur", 100, 0.05, missing=middle(0.4)),
    "Sel'kov, y in the first 15% only": system("selkov", 100, 0.05, missing=only_at_first),
    "oscillator, samples in pairs 1e-6 apart": pairs,
    "values below zero": below_zero,
}
HONEST: dict[str, Callable[[int], Trial]] = {
    "HIV, M = 60, log-normal 1%": system("hiv", 60, 0.01, "lognormal"),
    "HIV, M = 60, log-normal 2%": system("hiv", 60, 0.02, "lognormal"),
    "absorption, log-normal 10%": absorbed,
    "oscillator, middle 60% missing": system("oscillator", 100, 0.05, missing=middle(0.6)),
    "oscillator, middle 80% missing": system("oscillator", 100, 0.05, missing=middle(0.8)),
}


def relaxation(seed: int) -> Trial:
    """Return a trial of Van der Pol's oscillator with μ = 5, which nearly jumps, without noise."""
    problem = wf.problems.get("van-der-pol")
    truth = dict(zip(problem.model.parameters, problem.truth, strict=True)) | {"mu": 5.0}
    t = np.linspace(0, problem.duration, 257)
    states = solved(problem, t, truth=tuple(truth.values()))
    return Trial(problem.model, wf.Dataset(t, states), truth, noisy=seed < 0)


NOISE_FREE: dict[str, Callable[[int], Trial]] = {
    "Hindmarsh–Rose, M = 256": system("hindmarsh-rose", 257, 0.0),
    "van der Pol, μ = 5, M = 256": relaxation,
    "Rössler, M = 400, 1e-5": system("rossler", 400, 1e-5),
    "Michaelis–Menten, M = 100, 1e-5": system("michaelis-menten", 100, 1e-5),
}
DECAY = wf.Model.from_text("x' = -k*x")


def decay(
    n: int, size: float, k: float, kind: str, draw: Callable[[np.random.Generator, np.ndarray], np.ndarray]
) -> Callable:
    """Return a maker of trials: exponential decay of `size` at n times, with noise by `draw`."""

    def make(seed: int) -> Trial:
        t = np.linspace(0, 8, n)
        values = draw(np.random.default_rng(seed), size * np.exp(-k * t))
        return Trial(DECAY, wf.Dataset(t, values, kind), {"k": k})

    return make


def counts(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Draw Poisson counts."""
    return rng.poisson(mean).astype(float)


def dispersed(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
    """Draw negative binomial counts with k = 3."""
    return rng.poisson(mean * rng.gamma(3, 1 / 3, size=mean.shape)).astype(float)


def outliers(share: float) -> Callable:
    """Return a function that draws small noise and a share of gross errors."""

    def draw(rng: np.random.Generator, mean: np.ndarray) -> np.ndarray:
        gross = (rng.random(mean.shape) < share) * rng.choice([-1, 1], mean.shape) * rng.uniform(3, 10, mean.shape)
        return mean + 0.2 * rng.standard_normal(mean.shape) + gross

    return draw


NOISE: dict[str, Callable[[int], Trial]] = {
    "counts 30 to 0.55, M = 2000": decay(2000, 30, 0.5, "poisson", counts),
    "counts 30 to 0.55, M = 60": decay(60, 30, 0.5, "poisson", counts),
    "counts 30 to 0.55, M = 20": decay(20, 30, 0.5, "poisson", counts),
    "counts 8 to 0.006, M = 60": decay(60, 8, 0.9, "poisson", counts),
    "negative binomial counts, M = 100": decay(100, 30, 0.5, "negative-binomial", dispersed),
    "4% outliers, student": decay(100, 10, 0.5, "student", outliers(0.04)),
    "no outliers, student": decay(100, 10, 0.5, "student", outliers(0.0)),
}
BOUNDS: dict[str, Callable[[int], Trial]] = {
    "Monod, M = 45, 5%": system("monod", 45, 0.05),
    "Monod, M = 30, 10%": system("monod", 30, 0.1),
    "Hindmarsh–Rose, M = 513, 10%": system("hindmarsh-rose", 513, 0.1),
    "Goodwin, M = 513, 5%": system("goodwin", 513, 0.05),
}
ROWS = {"optimum": OPTIMUM, "honest": HONEST, "noise-free": NOISE_FREE, "noise": NOISE, "bounds": BOUNDS}


@dataclass(frozen=True)
class Ended:
    """The result of a trial.

    Attributes
    ----------
    right : bool
    success : bool
    inside : int
        Number of intervals that contain the true value.
    parameters : int
        Number of intervals.
    cpu : float
    words : str
        Details for a run that is not right.
    """

    right: bool
    success: bool
    inside: int
    parameters: int
    cpu: float
    words: str


def run(make: Callable[[int], Trial], seed: int, compare: bool = True) -> Ended:
    """Fit by default, and compare with the fit from the true parameters unless `compare` is False."""
    trial = make(seed)
    begin = time.process_time()
    try:
        fit = wf.fit(trial.model, trial.data, **trial.arguments)
    except wf.WeakformError as error:
        return Ended(False, False, 0, 0, time.process_time() - begin, f"refused: {error}"[:150])
    cpu = time.process_time() - begin
    names = fit.model.parameters
    truth = np.array([trial.truth[name] for name in names])
    if not trial.noisy:
        error = float(np.max(np.abs(fit.estimate / truth - 1)))
        words = f"{fit.status.name}, relative error {error:.2g}, {fit.method}"
        return Ended(error < MAX_NOISE_FREE_ERROR, fit.success, 0, 0, cpu, words)
    reference = best_from(trial, dict(zip(names, truth, strict=True))) if compare else fit
    behind = reference.log_likelihood - fit.log_likelihood
    if trial.twin is not None:
        twin = np.array([trial.twin[name] for name in names])
        truth = min((truth, twin), key=lambda p: float(np.max(np.abs(fit.estimate / p - 1))))
    errors = np.abs(fit.estimate - truth) / fit.errors
    right = bool(behind < MAX_LIKELIHOOD_GAP) and not (errors > MAX_STANDARD_ERRORS).any()
    bounds = fit.intervals()
    inside = int(np.sum((bounds[:, 0] <= truth) & (truth <= bounds[:, 1])))
    off = f"{np.nanmax(errors):.1f} standard errors off"
    words = f"{fit.status.name}, log-likelihood {behind:+.1f} behind, {off}, {fit.method}"
    return Ended(right, fit.success, inside, len(truth), cpu, words)


def best_from(trial: Trial, start: dict[str, float]) -> wf.FitResult:
    """Return the fit started at the true parameters; by output error if the default does not succeed there."""
    reference = wf.fit(trial.model, trial.data, start=start, starts=1, **trial.arguments)
    if reference.success:
        return reference
    return wf.fit(trial.model, trial.data, start=start, starts=1, method="output-error", **trial.arguments)


def _job(job: tuple[str, str, int]) -> Ended:
    return run(ROWS[job[0]][job[1]], job[2])


def chosen(words: list[str]) -> Iterator[tuple[str, str]]:
    """Yield group and name of the rows whose name begins with one of the words, or whose group equals one."""
    for group, rows in ROWS.items():
        for name in rows:
            if not words or any(group == word or name.lower().startswith(word.lower()) for word in words):
                yield group, name


def off_by(problem: wf.problems.Problem, M: int, noise: float, seed: int) -> float:
    """Repeat a fit of a study, and return the largest error of a parameter in standard errors."""
    data = problem.simulate(M=M, noise=noise, seed=seed, by_state=True)
    fit = wf.fit(problem.model, data, bounds=problem.bounds, seed=seed % 2**32)
    return float(np.nanmax(np.abs(problem.parameters - fit.estimate) / fit.errors))


def study(path: str) -> None:
    """Print the share of successes of the study `edges`, and the successes that are wrong.

    The share is that of the identifiable cells with M >= 45. A cell is identifiable if the Cramér–Rao bound of every
    parameter is below a tenth of its value.
    """
    from weakform.experiments.store import Store
    from weakform.forward.cramer_rao import compute_cramer_rao_bound

    cells: dict[tuple, list[dict]] = {}
    for row in Store(path).rows():
        cells.setdefault((row["problem"], row["samples"], row["noise"]), []).append(row)
    tried = good = successes = wrong = beyond = 0
    lost: dict[str, list[str]] = {}
    for (name, M, noise), rows in sorted(cells.items()):
        problem = wf.problems.get(name)
        times, states = problem.solution(M)
        sigma = noise * np.sqrt(np.mean(states**2, axis=0))
        truth = problem.parameters
        bound = np.sqrt(
            np.diag(
                compute_cramer_rao_bound(problem.model, truth, problem.initial, times, ["gaussian"] * len(sigma), sigma)
            )
        )
        identified = bool((bound < 0.1 * np.abs(truth)).all())
        for row in rows:
            success = row["status"] == "CONVERGED"
            error = np.sqrt(np.abs(np.diag(np.array(row["covariance"], dtype=float))))
            off = np.abs(np.array(row["estimate"], dtype=float) - truth) / error
            successes += success
            beyond += success and bool((off > MAX_STANDARD_ERRORS).any())
            if success and (off > MIN_SUSPECT_WALD_ERRORS).any():
                errors = off_by(problem, M, noise, row["seed"])
                wrong += errors > MAX_STANDARD_ERRORS
                if errors > MAX_STANDARD_ERRORS:
                    print(f"wrong: {name}, M = {M}, {noise:.0%}, run {row['run']}: {errors:.1f} standard errors")
            if identified and M >= 45:
                tried, good = tried + 1, good + success
                if not success:
                    lost.setdefault(name, []).append(f"M = {M}, {noise:.0%}: {row['status']}")
    print(f"{good} of {tried} ({good / max(tried, 1):.1%}) fits succeed in identifiable cells with M >= 45")
    print(
        f"{wrong} of {successes} successes are more than {MAX_STANDARD_ERRORS:g} standard errors off, "
        f"{beyond} by Wald's errors"
    )
    for name, cases in lost.items():
        print(f"  {name}: {'; '.join(cases)}")


def main() -> None:
    if sys.argv[1:2] == ["study"]:
        study(sys.argv[2])
        return
    words = [word.strip() for word in sys.argv[1].split(",")] if len(sys.argv) > 1 else []
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    print(f"| {'row':42s} | runs | right | success | wrong success | coverage | CPU s |\n|---|---|---|---|---|---|---|")
    with ProcessPoolExecutor() as pool:
        for group, name in chosen(words):
            is_noise_free = "noise-free" in (group, name[-10:]) and "1e-5" not in name
            ended = list(pool.map(_job, [(group, name, seed) for seed in range(1 if is_noise_free else runs)]))
            good = [result for result in ended if result.success]
            wrong = sum(not result.right for result in good)
            inside, count = sum(result.inside for result in good), sum(result.parameters for result in good)
            covered = f"{inside / count:.0%}" if count else "–"
            cpu = float(np.median([result.cpu for result in ended]))
            shares = [f"{sum(result.right for result in ended) / len(ended):.0%}", f"{len(good) / len(ended):.0%}"]
            print(f"| {name:42s} | {len(ended)} | {' | '.join(shares)} | {wrong} | {covered} | {cpu:.2f} |")
            for seed, result in enumerate(ended):
                if not result.right or not result.success:
                    print(f"    seed {seed}: {result.words}")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
