"""Many fits side by side with `fit_batch`: their cost, their agreement with `fit`, and what they are worth.

    python benchmarks/batch.py speed [sets, default 2000]
    python benchmarks/batch.py agree [parts, default all] [sets, default 50]
    python benchmarks/batch.py million [sets, default 1000000] [sets of a piece, default 2000]
    python benchmarks/batch.py image [voxels, default 64x64x32] [noise, default 0.01,0.03,0.06]

The first line of each table names the instruction set of the compiled passes; `WEAKFORM_LANES` in the environment
chooses one (`avx512`, `avx2`, `base`, or `numpy` for the passes without a compiler). One unit of work is 50 Cholesky
factorisations of a matrix of 200 rows, measured in the same process.

- `speed`: CPU time of all threads, with one thread, after a first call that compiles the equations; the median of three
  calls. *fit* is the CPU time of a default `wf.fit` of some of the same data sets, one by one.
- `agree`: the same data sets by `fit_batch` and by `wf.fit`. Parts are separated by commas: `problems` (all eight,
  M = 256, 5% noise), `designs` and `edges` (the rows of benchmarks/designs.py and benchmarks/edges.py that have one
  trajectory), `hidden` (settings of benchmarks/hidden.py whose noise is not a count), and `chaos` (Lorenz over longer
  times, where the engine loses digits). A part with a colon is a row, such as `hidden:seir`. Columns: sets; successes
  of both; the share of these whose estimates are within 1e-3 standard errors of each other, and the largest distance;
  successes of only one of them; sets whose status differs in another way; sets that `fit_batch` passed on to `fit`; CPU
  ms of both. Sets that differ are listed below their row, with both statuses, `fit_batch` first, and the log-likelihood
  of `fit_batch` minus that of `fit`.
- `million`: Lotka–Volterra, M = 128, 5% noise, with parameters drawn for each piece within 30% of the usual ones, on
  all cores. Successes whose parameters are beyond 4, 5 and 6 standard errors of the truth, with the number that normal
  errors would give. Those beyond 5 are fitted again by `wf.fit`.
- `image`: the image of benchmarks/phantom.py with the extended Tofts model, on all cores. Coverage is that of the 95%
  intervals, in tissues for which the model is right, among the successes and among all that converged.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the spinning of idle threads would be counted as our time

import numpy as np
from scipy.stats import norm

import designs
import edges
import hidden
import phantom
import weakform as wf
from fits import cpu, unit
from weakform.engine.passes import get_instruction_set
from weakform.noise.kinds import KINDS

SINGLE_FITS = 5
"""Data sets of each row of `speed` that are also fitted by `wf.fit`."""
REPEATS = 3
"""Calls of each row of `speed`, of which the median counts."""
CLOSE = 1e-3
"""Distance of two estimates, in standard errors, up to which they agree."""
LISTED = 8
"""Sets that are listed below a row, at most."""
SPREAD = 0.3
"""Share by which the parameters of `million` vary."""
OSIPI = Path(__file__).parents[1] / "examples"


def head(*columns: str) -> None:
    """Print the instruction set, the unit of work, and the head of a table."""
    print(f"instruction set: {get_instruction_set()}; unit of work: {1e3 * unit():.1f} ms; {os.cpu_count()} cores")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)


def count_words(batch: wf.BatchResult) -> str:
    """Return how many sets have which status."""
    return ", ".join(f"{count:,} {status.name}" for status, count in batch.count_statuses().items())


# ---- speed ----


@dataclass(frozen=True)
class Sets:
    """Many data sets of one model, and the arguments of `fit_batch`."""

    model: wf.Model
    times: np.ndarray
    Y: np.ndarray
    arguments: Mapping[str, object] = field(default_factory=dict)

    def fit_batch(self, **more: object) -> wf.BatchResult:
        """Fit all data sets side by side."""
        return wf.fit_batch(self.model, self.times, self.Y, **self.arguments, **more)

    def fit_one(self, number: int) -> wf.FitResult:
        """Fit one data set by `wf.fit`."""
        arguments = dict(self.arguments)
        noise, names = arguments.pop("noise", "gaussian"), arguments.pop("names", None)
        inputs = arguments.pop("inputs", None)
        if inputs is not None:
            inputs = {key: value if isinstance(value, tuple) else value[number] for key, value in inputs.items()}
        data = wf.Dataset(self.times, self.Y[number], noise, names=names, inputs=inputs)
        return wf.fit(self.model, data, **arguments)


def draw_problem(name: str, M: int, sets: int, noise: float = 0.05, seed: int = 1) -> Sets:
    """Draw many data sets of a benchmark problem."""
    problem = wf.problems.get(name)
    times, states = problem.solution(M)
    rng = np.random.default_rng([seed, M])
    Y = np.stack([KINDS[problem.noise].draw(rng, states, noisy_size(problem, states, noise)) for _ in range(sets)])
    return Sets(problem.model, times, Y, {"noise": problem.noise, "bounds": problem.bounds})


def noisy_size(problem: wf.problems.Problem, states: np.ndarray, noise: float) -> np.ndarray:
    """Return σ of each state, as `Problem.simulate` has it."""
    return KINDS[problem.noise].compute_sigma(states, noise, False)


TISSUE = """
    C1' = K1*Cp - (k2 + k3)*C1 + k4*C2
    C2' = k3*C1 - k4*C2
    C1(0) = 0
    C2(0) = 0
    C = C1 + C2
"""
"""Two tissue compartments of a tracer; only their sum is measured."""


def draw_tissue(sets: int, averages: bool = False, seed: int = 1) -> Sets:
    """Draw curves of two tissue compartments: 40 frames in 60 minutes.

    A value is the concentration in the middle of its frame or, with `averages`, the average over it.
    """
    rng = np.random.default_rng([seed, 40])
    lengths = np.repeat([1 / 6, 0.5, 1.0, 4.4], [12, 8, 10, 10])
    ends = np.cumsum(lengths)
    begins, times = ends - lengths, ends - lengths / 2
    grid = np.unique(
        np.round(np.concatenate([[0.0], np.linspace(0.05, 3, 60), np.linspace(3.5, 60, 60), times, ends]), 9)
    )
    plasma = compute_plasma(grid)
    truth = np.array([0.30, 0.25, 0.08, 0.02]) * rng.uniform(1 - SPREAD, 1 + SPREAD, (sets, 4))
    curve, integral = solve_tissue(truth, grid, plasma)
    if averages:
        at_begin, at_end = (np.searchsorted(grid, t - 1e-6) for t in (begins, ends))
        clean = (integral[:, at_end] - integral[:, at_begin]) / lengths
    else:
        clean = curve[:, np.searchsorted(grid, times - 1e-6)]
    Y = clean + 0.02 * clean.max(axis=1, keepdims=True) * rng.standard_normal(clean.shape)
    bounds = {"K1": (0.0, 2.0), "k2": (0.0, 2.0), "k3": (0.0, 1.0), "k4": (0.0, 1.0)}
    arguments = {"names": ["C"], "inputs": {"Cp": (grid, plasma)}, "bounds": bounds}
    frames = {"frames": (begins, ends)} if averages else {}
    return Sets(wf.Model.from_text(TISSUE, inputs=["Cp"]), times, Y, arguments | frames)


def solve_tissue(truth: np.ndarray, grid: np.ndarray, plasma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve two tissue compartments; return the curve and its integral from 0, `(sets, nodes)` each.

    The input is linear between the nodes of the grid, and the classical Runge–Kutta rule takes eight steps from node to
    node.
    """
    K1, k2, k3, k4 = truth.T
    x, steps = np.zeros((3, len(truth))), 8  # both compartments, and the integral of their sum
    curve, integral = np.zeros((len(truth), len(grid))), np.zeros((len(truth), len(grid)))

    def slope(x: np.ndarray, Cp: float) -> np.ndarray:
        return np.stack([K1 * Cp - (k2 + k3) * x[0] + k4 * x[1], k3 * x[0] - k4 * x[1], x[0] + x[1]])

    for m, length in enumerate(np.diff(grid)):
        h = length / steps
        for step in range(steps):
            Cp = np.interp(grid[m] + h * (step + np.array([0.0, 0.5, 1.0])), grid, plasma)
            a = slope(x, Cp[0])
            b = slope(x + h / 2 * a, Cp[1])
            c = slope(x + h / 2 * b, Cp[1])
            x = x + h / 6 * (a + 2 * b + 2 * c + slope(x + h * c, Cp[2]))
        curve[:, m + 1], integral[:, m + 1] = x[0] + x[1], x[2]
    return curve, integral


def compute_plasma(t: np.ndarray) -> np.ndarray:
    """Compute the tracer in plasma by the function of Feng et al. (Nucl Med Biol 20:7, 1993), over its scale."""
    return (
        (851.1 * t - 21.88 - 20.81) * np.exp(-4.134 * t) + 21.88 * np.exp(-0.1191 * t) + 20.81 * np.exp(-0.0104 * t)
    ) / 100


def read_osipi(name: str) -> Sets:
    """Read one suite of the OSIPI collection; see examples/osipi.py."""
    import csv

    with (OSIPI / f"osipi_{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))

    def curves(key: str) -> np.ndarray:
        return np.array([[float(v) for v in row[key].split()] for row in rows])

    if name == "extended_tofts":
        model = wf.Model.from_text(phantom.EQUATIONS, inputs=["ca"])
        Y, ca, bounds = curves("C"), curves("ca"), phantom.BOUNDS
    else:
        text = (
            "cp' = (fp/100*(ca - cp) + ps*(ce - cp))/vp\nce' = ps*(cp - ce)/ve\ncp(0) = 0\nce(0) = 0\nC = vp*cp + ve*ce"
        )
        model = wf.Model.from_text(text, inputs=["ca"])
        Y, ca, bounds = curves("C_t"), curves("cp_aif"), {"ve": (0, 1), "vp": (0, 1), "ps": (0, 5), "fp": (0, 200)}
    return Sets(model, curves("t")[0] / 60, Y, {"names": ["C"], "inputs": {"ca": ca}, "bounds": bounds})


ROWS: dict[str, Callable[[int], Sets]] = {
    "Lotka–Volterra, M = 128": lambda sets: draw_problem("lotka-volterra", 128, sets),
    "Lorenz, M = 256": lambda sets: draw_problem("lorenz", 256, sets),
    "Goodwin, M = 256": lambda sets: draw_problem("goodwin", 256, max(sets // 4, 1)),
    "two tissue compartments, hidden, 40 frames": draw_tissue,
    "the same, averages over the frames": lambda sets: draw_tissue(sets, averages=True),
    "OSIPI, extended Tofts, 331 samples": lambda _: read_osipi("extended_tofts"),
    "OSIPI, exchange, 600 samples": lambda _: read_osipi("exchange"),
}


def speed(sets: int) -> None:
    """Print what a fit costs."""
    one = unit()
    head("data", "sets", "CPU ms a fit", "fits a CPU s", "fits a unit", "fit, ms", "ratio", "one by one", "statuses")
    for name, make in ROWS.items():
        data = make(sets)
        data.fit_batch(workers=1) if len(data.Y) < 100 else Sets(
            data.model, data.times, data.Y[:8], data.arguments
        ).fit_batch(workers=1)
        calls = [cpu(lambda d=data: d.fit_batch(workers=1)) for _ in range(REPEATS)]
        spent = float(np.median([seconds for seconds, _ in calls])) / len(data.Y)
        batch = calls[-1][1]
        some = range(min(SINGLE_FITS, len(data.Y)))
        single = np.nan  # `fit` takes no averages over frames
        if "frames" not in data.arguments:
            data.fit_one(0)
            single = float(np.median([cpu(lambda d=data, k=k: d.fit_one(k))[0] for k in some]))
        compared = "– | –" if np.isnan(single) else f"{1e3 * single:.3g} | {single / spent:,.0f}"
        print(
            f"| {name} | {len(data.Y):,} | {1e3 * spent:.3g} | {1 / spent:,.0f} | {one / spent:,.1f} | {compared} "
            f"| {batch.fitted_singly} | {count_words(batch)} |",
            flush=True,
        )


# ---- agree ----


@dataclass(frozen=True)
class Example:
    """One data set with its model and the arguments of the fit."""

    model: wf.Model
    data: wf.Dataset
    arguments: Mapping[str, object]


def of_problem(name: str, M: int = 256, duration: float | None = None) -> Callable[[int], Example]:
    """Return a maker of examples of a benchmark problem."""

    def make(seed: int) -> Example:
        problem = wf.problems.get(name)
        data = problem.simulate(M=M, noise=0.05, seed=seed, duration=duration)
        return Example(problem.model, data, {"bounds": problem.bounds})

    return make


def of_design(name: str, design: str) -> Callable[[int], Example]:
    """Return a maker of examples of benchmarks/designs.py."""

    def make(seed: int) -> Example:
        problem = wf.problems.get(name)
        return Example(problem.model, designs.dataset(problem, design, 0.05, seed), {"bounds": problem.bounds})

    return make


def of_edge(make_trial: Callable[[int], edges.Trial]) -> Callable[[int], Example]:
    """Return a maker of examples of benchmarks/edges.py."""

    def make(seed: int) -> Example:
        trial = make_trial(seed)
        return Example(trial.model, trial.data, trial.arguments)

    return make


def of_case(case: Callable[[], hidden.Case]) -> Callable[[int], Example]:
    """Return a maker of examples of benchmarks/hidden.py."""

    def make(seed: int) -> Example:
        chosen = case()
        arguments = {"bounds": chosen.bounds} | ({"fixed": chosen.fixed} if chosen.fixed else {})
        return Example(chosen.model, chosen.data(seed), arguments)

    return make


def list_parts() -> dict[str, dict[str, Callable[[int], Example]]]:
    """Return all rows of `agree` by part and name."""
    names = wf.problems.names()
    several = ("three plates, local K, no bounds",)  # several trajectories are one data set of `fit`
    settings = {name: (lambda name=name: hidden.setting(name)) for name in hidden.hidden_settings()}
    settings |= {"hes1": hidden.hes1, "seir": hidden.seir}
    settings |= {name: (lambda name=name: hidden.observed()[name]) for name in ("pk", "mm")}
    return {
        "problems": {name: of_problem(name) for name in names},
        "designs": {f"{name}, {d}": of_design(name, d) for name in names for d in ("missing", "jittered")},
        "edges": {
            name: of_edge(make) for rows in edges.ROWS.values() for name, make in rows.items() if name not in several
        },
        "hidden": {name: of_case(case) for name, case in settings.items()},
        "chaos": {f"lorenz, T = {T}": of_problem("lorenz", 50 * T, T) for T in (10, 15, 20, 30)},
    }


PARTS = list_parts()


@dataclass(frozen=True)
class Single:
    """The result of `wf.fit` on one data set."""

    values: Mapping[str, tuple[float, float]]
    status: str
    success: bool
    log_likelihood: float
    cpu: float


def fit_single(job: tuple[str, str, int]) -> Single:
    """Fit one data set by `wf.fit`; runs in another process."""
    part, row, seed = job
    example = PARTS[part][row](seed)
    begin = time.process_time()
    try:
        fit = wf.fit(example.model, example.data, **example.arguments)
    except wf.WeakformError as error:
        return Single({}, f"refused: {error}"[:60], False, np.nan, time.process_time() - begin)
    spent = time.process_time() - begin
    with np.errstate(invalid="ignore"):
        errors = np.sqrt(np.diag(fit.covariance))
    names = fit.model.parameters
    values = {name: (float(v), float(e)) for name, v, e in zip(names, fit.estimate, errors, strict=True)}
    return Single(values, fit.status.name, fit.success, float(fit.log_likelihood), spent)


@dataclass(frozen=True)
class Joined:
    """The result of `fit_batch` on one data set."""

    values: Mapping[str, float]
    status: str
    success: bool
    log_likelihood: float


def fit_joined(examples: list[Example]) -> tuple[list[Joined], int]:
    """Fit examples by `fit_batch`, those with the same times in one call, and count those passed on to `fit`."""
    groups: dict[bytes, list[int]] = {}
    for k, example in enumerate(examples):
        groups.setdefault(example.data.trajectories[0].times.tobytes(), []).append(k)
    results: dict[int, Joined] = {}
    singly = 0
    for numbers in groups.values():
        first = examples[numbers[0]]
        data = first.data
        values = np.stack([examples[k].data.trajectories[0].values for k in numbers])
        names = list(data.names) if data.names else None
        sigma = None if data.sigma is None else float(data.sigma[0]) if len(data.sigma) == 1 else data.sigma
        try:
            batch = wf.fit_batch(
                first.model,
                data.trajectories[0].times,
                values[..., 0] if values.shape[-1] == 1 else values,
                names=names,
                noise=data.noise,
                sigma=sigma,
                workers=1,
                **first.arguments,
            )
        except wf.WeakformError as error:
            results |= {k: Joined({}, f"refused: {error}"[:60], False, np.nan) for k in numbers}
            continue
        singly += batch.fitted_singly
        for at, k in enumerate(numbers):
            estimates = {name: float(batch.estimate[name][at]) for name in batch.parameters}
            status = batch.status[at]
            results[k] = Joined(estimates, status.name, status.success, float(batch.log_likelihood[at]))
    return [results[k] for k in range(len(examples))], singly


def measure_distance(joined: Joined, single: Single) -> float:
    """Return the largest distance of two estimates in standard errors; in their own size for those without an error."""
    distances = [0.0]
    for name, value in joined.values.items():
        if name in single.values:
            reference, error = single.values[name]
            unit_of_error = error if np.isfinite(error) and error > 0 else max(abs(reference), 1e-12)
            distances.append(abs(value - reference) / unit_of_error)
    return float(np.max(distances))


def choose_rows(words: str) -> Iterator[tuple[str, str]]:
    """Yield part and name of the rows that are asked for."""
    for word in words.split(","):
        part, _, only = word.strip().partition(":")
        if part not in ("all", *PARTS):
            raise SystemExit(f"There is no part {part!r}. The parts are: all, {', '.join(PARTS)}.")
        for name in PARTS if part == "all" else (part,):
            yield from ((name, row) for row in PARTS[name] if row.lower().startswith(only.lower()))


def agree(words: str, sets: int) -> None:
    """Print where `fit_batch` and `fit` agree."""
    columns = ("sets", "both succeed", "within 1e-3", "largest", "only batch", "only fit", "other statuses differ")
    head("data", *columns, "one by one", "batch, ms", "fit, ms")
    total: Counter[str] = Counter()
    with ProcessPoolExecutor() as pool:
        for part, row in choose_rows(words):
            examples = [PARTS[part][row](seed) for seed in range(sets)]
            spent, (joined, singly) = cpu(lambda e=examples: fit_joined(e))
            singles = list(pool.map(fit_single, [(part, row, seed) for seed in range(sets)]))
            print_agreement(row, joined, singles, (singly, spent), total)
    share = total["close"] / max(total["both"], 1)
    print(
        f"\nall: {total['both']:,} successes of both, {share:.2%} within 1e-3 standard errors; "
        f"{total['batch']} successes of fit_batch alone, {total['fit']} of fit alone; {total['sets']:,} sets"
    )


def print_agreement(
    row: str, joined: list[Joined], singles: list[Single], cost: tuple[int, float], total: Counter[str]
) -> None:
    """Print one row of `agree` and the sets that differ, and add to the totals."""
    pairs = list(zip(joined, singles, strict=True))
    distances = [measure_distance(j, s) for j, s in pairs]
    both = [d for d, (j, s) in zip(distances, pairs, strict=True) if j.success and s.success]
    only_batch = sum(j.success and not s.success for j, s in pairs)
    only_fit = sum(s.success and not j.success for j, s in pairs)
    differ = sum(j.status != s.status and not (j.success or s.success) for j, s in pairs)
    close = sum(d <= CLOSE for d in both)
    total.update(both=len(both), close=close, batch=only_batch, fit=only_fit, sets=len(pairs))
    largest = f"{max(both):.2g}" if both else "–"
    single = 1e3 * np.median([s.cpu for s in singles])
    print(
        f"| {row} | {len(pairs)} | {len(both)} | {f'{close / len(both):.1%}' if both else '–'} | {largest} "
        f"| {only_batch} | {only_fit} | {differ} | {cost[0]} | {1e3 * cost[1] / len(pairs):.3g} | {single:.3g} |",
        flush=True,
    )
    listed = 0
    for seed, (distance, (j, s)) in enumerate(zip(distances, pairs, strict=True)):
        if j.status == s.status and (not j.success or distance <= CLOSE):
            continue
        listed += 1
        if listed <= LISTED:
            gain = j.log_likelihood - s.log_likelihood
            print(
                f"    seed {seed}: {j.status} / {s.status}, {distance:.2g} standard errors, log-likelihood {gain:+.3g}"
            )
    if listed > LISTED:
        print(f"    and {listed - LISTED} more")


# ---- million ----


def million(sets: int, size: int) -> None:
    """Count successes far from the truth in many Lotka–Volterra sets."""
    problem, M = wf.problems.get("lotka-volterra"), 128
    names = problem.model.parameters
    counts, beyond, worst = Counter(), Counter(), []
    inside = compared = 0
    begin, cpu_begin = time.monotonic(), time.process_time()
    limits = (4.0, 5.0, 6.0)
    times = np.linspace(0.0, problem.duration, M + 1)
    for piece in range(-(-sets // size)):
        rng = np.random.default_rng([piece, 6])
        truth = problem.parameters * rng.uniform(1 - SPREAD, 1 + SPREAD, len(names))
        states = wf.simulate(problem.model, truth, problem.initial, times, rtol=1e-10, atol=1e-12).states
        sigma = 0.05 * np.sqrt(np.mean(states**2))
        count = min(size, sets - piece * size)
        Y = states + sigma * rng.standard_normal((count, *states.shape))
        batch = wf.fit_batch(problem.model, times, Y, bounds=problem.bounds)
        counts.update(status.name for status in batch.status)
        good = batch.success
        with np.errstate(invalid="ignore"):
            off = np.abs(np.array([batch.estimate[n] - p for n, p in zip(names, truth, strict=True)]))
            distance = off / np.array([batch.standard_errors[n] for n in names])
        largest = np.where(good, np.nanmax(np.where(np.isfinite(distance), distance, 0.0), axis=0), 0.0)
        beyond.update({limit: int(np.sum(largest > limit)) for limit in limits})
        compared += int(np.isfinite(distance[:, good]).sum())
        inside += int(np.sum(distance[:, good] <= norm.ppf(0.975)))
        far = np.flatnonzero(largest > limits[1])
        worst += [(float(largest[k]), piece, int(k), wf.Dataset(times, Y[k]), truth) for k in far]
        if sys.stderr.isatty():
            print(f"\r{(piece + 1) * size:,} of {sets:,}", end="", file=sys.stderr, flush=True)
    spent, waited = time.process_time() - cpu_begin, time.monotonic() - begin
    head("Lotka–Volterra, M = 128", "sets", "share")
    for name, count in counts.most_common():
        print(f"| {name} | {count:,} | {count / sets:.3%} |")
    successes = counts["CONVERGED"]
    for limit in limits:
        expected = successes * (1 - (1 - 2 * norm.sf(limit)) ** len(names))
        print(f"| successes beyond {limit:g} standard errors | {beyond[limit]:,} | {expected:.3g} with normal errors |")
    print(
        f"| coverage of the 95% intervals of the successes | {compared:,} intervals | {inside / max(compared, 1):.2%} |"
    )
    print(f"{spent:.1f} CPU s, {waited:.1f} s; {sets / spent:,.0f} fits a CPU second, with simulation")
    for largest, piece, k, data, truth in sorted(worst, key=lambda item: -item[0])[:LISTED]:
        fit = wf.fit(problem.model, data, bounds=problem.bounds)
        distance = np.max(np.abs(fit.estimate - truth) / np.sqrt(np.diag(fit.covariance)))
        print(f"    piece {piece}, set {k}: {largest:.2f} standard errors; by fit {distance:.2f}, {fit.status.name}")


# ---- image ----


def image(shape: tuple[int, int, int], levels: list[float]) -> None:
    """Print what an image costs, and the coverage of its intervals."""
    made = phantom.build_phantom(shape)
    model = wf.Model.from_text(phantom.EQUATIONS, inputs=["ca"])
    tissue, wrong = made.find(*phantom.ORDINARY), made.find(*phantom.WRONG)
    voxels = int(np.isfinite(made.truth["ve"]).sum())
    print(f"{' × '.join(map(str, shape))} voxels, {voxels:,} of them tissue, {len(made.times)} samples")
    first = made.simulate(levels[0], 0).reshape(-1, len(made.times))
    settings = {"names": ["C"], "inputs": {"ca": made.ca}, "bounds": phantom.BOUNDS}
    wf.fit_batch(model, made.times, first[np.isfinite(first[:, 0])][:8], **settings)
    columns = [f"coverage {name}" for name in phantom.PARAMETERS]
    head(
        "noise, mM", "s", "CPU s", "ms a voxel", *columns, "right tissue REJECTED", "wrong tissue REJECTED", "statuses"
    )
    for sigma in levels:
        Y = made.simulate(sigma, 0)
        begin = time.monotonic()
        spent, batch = cpu(lambda Y=Y: wf.fit_batch(model, made.times, Y, **settings))
        waited = time.monotonic() - begin
        converged = np.array([s.converged for s in wf.Status])[batch.status_code]
        cells = []
        for name in phantom.PARAMETERS:
            ends, truth = batch.interval(name), made.truth[name]
            known = np.isfinite(ends).all(axis=-1)
            with np.errstate(invalid="ignore"):
                hits = (ends[..., 0] <= truth) & (truth <= ends[..., 1])
            shares = [np.mean(hits[tissue & group & known]) for group in (batch.success, converged)]
            cells.append(f"{shares[0]:.1%} ({shares[1]:.1%})")
        rejected = batch.status_code == list(wf.Status).index(wf.Status.REJECTED)
        shares = [f"{np.mean(rejected[part]):.1%}" if part.any() else "–" for part in (tissue, wrong)]
        print(
            f"| {sigma:g} | {waited:.1f} | {spent:.1f} | {1e3 * spent / voxels:.3g} | {' | '.join(cells)} | "
            f"{' | '.join(shares)} | {count_words(batch)} |",
            flush=True,
        )
    print("Coverage of the 95% intervals among the successes, in brackets among all that converged.")


def main() -> None:
    arguments = sys.argv[1:] or ["speed"]
    what, more = arguments[0], arguments[1:]
    if what == "speed":
        speed(int(more[0]) if more else 2000)
    elif what == "agree":
        numbers = [word for word in more if word.isdigit()]
        words = [word for word in more if not word.isdigit()]
        agree(words[0] if words else "all", int(numbers[0]) if numbers else 50)
    elif what == "million":
        million(int(more[0]) if more else 1_000_000, int(more[1]) if len(more) > 1 else 2000)
    elif what == "image":
        rows, columns, slices = (int(n) for n in (more[0] if more else "64x64x32").split("x"))
        image((rows, columns, slices), [float(s) for s in (more[1] if len(more) > 1 else "0.01,0.03,0.06").split(",")])
    else:
        raise SystemExit(f"There is no command {what!r}. The commands are: speed, agree, million, image.")


if __name__ == "__main__":
    main()
