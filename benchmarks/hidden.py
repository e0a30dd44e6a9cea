"""Models with hidden states: random starts, published problems, intervals, and growth with the number of subjects.

    python benchmarks/hidden.py [rows, default all] [runs]

Rows are separated by commas, and each is printed with its target. `runs` replaces a row's own number of noise seeds:

- `starts`: eight settings with 5% noise, and single random starts inside the box, five for each noise seed. The columns
  are the share of runs that end within 1 of the best log-likelihood known for these data (from all starts, and from the
  true parameters), and the share whose forward solution has a misfit within 5% + 5 of the least one;
- `default`: the same with the default number of starts;
- `hes1`: one of three states is never measured, and the other two are measured at different times. Parameters and the
  concentration H(0) are between zero and ten times their true values;
- `seir`: two of four states are measured, from day 30 on;
- `pk`, `mm`, `sir`: observables, and initial values that are given: the share of true values inside the 99.7%
  intervals. (A drug with fast absorption and slow excretion has the same curve as one with both rates exchanged. Either
  counts as the truth.)
- `coverage`: coverage of 95% intervals of parameters, initial values and hidden states, also with bands of the delta
  method alone, and the error over the Cramér–Rao bound, with three starts; `coverage:NAME` runs one setting of it;
- `size`: the share of p-values below 5% and below 1% for the true model, in the same settings;
- `subjects`: CPU seconds and memory of one fit against the number of trajectories.

Seeds are 0, 1, 2, …; CPU seconds are those of one process. Runs that did not end as they should are listed below each
line, with their seeds.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

import weakform as wf
from weakform.forward.solver import Simulation
from weakform.inference.prediction import solve_at_samples
from weakform.linalg.symmetric_matrix import invert_symmetric
from weakform.noise.kinds import KINDS

START_SEEDS = 5
"""Random starts, or start seeds, for each noise seed."""
COVERAGE_STARTS = 3
"""Starts of each fit in the row `coverage`, to save time."""
SUBJECTS = (10, 100, 1000)
"""Numbers of trajectories in the row `subjects`."""
SAMPLES_PER_SUBJECT = 20


@dataclass(frozen=True)
class Case:
    """A model, its true parameters, and its measurements.

    Attributes
    ----------
    text : str
        The equations.
    truth : dict
        True values of all parameters, in any order.
    begin : tuple of float
        The state at t = 0.
    times : ndarray, (time,)
    columns : tuple of str
        The measured states and observables.
    noise : str
    level : float
        σ; if `relative`, as a share of the rms of each column.
    given : bool
        Whether the fit gets the true σ.
    bounds, fixed : dict
    gaps : tuple of slice
        The samples at which each column is measured; all by default.
    twins : tuple of (dict, tuple)
        Other true parameters, with their initial states, that lead to the same data.
    """

    text: str
    truth: dict[str, float]
    begin: tuple[float, ...]
    times: np.ndarray
    columns: tuple[str, ...]
    bounds: dict[str, tuple[float, float]]
    noise: str = "gaussian"
    level: float = 0.05
    relative: bool = False
    given: bool = False
    fixed: dict[str, float] = field(default_factory=dict)
    gaps: tuple[slice, ...] = ()
    twins: tuple[tuple[dict[str, float], tuple[float, ...]], ...] = ()

    @property
    def model(self) -> wf.Model:
        """The model, compiled once for all seeds."""
        return compiled(self.text)

    @property
    def truths(self) -> tuple[tuple[dict[str, float], tuple[float, ...]], ...]:
        """All parameters, with their initial states, that lead to these data."""
        return ((self.truth, self.begin), *self.twins)

    def solved(self, times: np.ndarray, which: int = 0, sensitivities: bool = False) -> Simulation:
        """Solve the true model at some times."""
        truth, begin = self.truths[which]
        grid = times if times[0] == 0 else np.concatenate([[0.0], times])
        p = [truth[name] for name in self.model.parameters]
        solution = wf.simulate(
            self.model, p, begin, grid, sensitivities=sensitivities, rtol=1e-10, max_evaluations=10**8
        )
        assert solution.success
        return solution

    def states(self, times: np.ndarray, which: int = 0) -> dict[str, np.ndarray]:
        """Return the true states by name, `(time,)` each."""
        return dict(zip(self.model.states, self.solved(times, which).states[-len(times) :].T, strict=True))

    def clean(self) -> np.ndarray:
        """Return the measured columns without noise, `(time, columns)`."""
        p = np.array([self.truth[name] for name in self.model.parameters])
        states = self.solved(self.times).states[-len(self.times) :]
        return self.model.build_map("h", self.columns)(self.times, states, p)

    def sigma(self) -> np.ndarray:
        """Return σ of each column, `(columns,)`."""
        size = np.sqrt(np.mean(self.clean() ** 2, axis=0)) if self.relative else np.ones(len(self.columns))
        return self.level * size

    def data(self, seed: int) -> wf.Dataset:
        """Return the data with one draw of the noise."""
        rng, clean = np.random.default_rng([seed, 11]), self.clean()
        if self.noise == "poisson":
            values = rng.poisson(clean).astype(float)
        elif self.noise == "lognormal":
            values = clean * np.exp(self.sigma() * rng.standard_normal(clean.shape))
        else:
            values = clean + self.sigma() * rng.standard_normal(clean.shape)
        for column, samples in enumerate(self.gaps):
            measured = values[samples, column].copy()
            values[:, column] = np.nan
            values[samples, column] = measured
        sigma = self.sigma() if self.given else None
        return wf.Dataset(self.times, values, self.noise, sigma, names=list(self.columns))

    def fit(self, data: wf.Dataset, **arguments: object) -> wf.FitResult:
        """Fit within the bounds, with the known parameters fixed."""
        return wf.fit(self.model, data, bounds=self.bounds, fixed=self.fixed or None, **arguments)

    def free(self, fit: wf.FitResult) -> list[str]:
        """Return the names of the estimated parameters, without initial values."""
        return [name for name in fit.model.parameters if name in self.truth and name not in self.fixed]

    def meant(self, fit: wf.FitResult) -> int:
        """Return the index of the true parameters that are nearest to the estimate."""
        names = self.free(fit)
        estimate = np.array([fit[name].value for name in names])
        candidates = [np.array([truth[name] for name in names]) for truth, _ in self.truths]
        distances = [np.abs(np.log(np.abs(estimate / candidate))).sum() for candidate in candidates]
        return int(np.argmin(distances))


@cache
def compiled(text: str) -> wf.Model:
    """Compile a model once."""
    return wf.Model.from_text(text)


def hidden_settings() -> dict[str, Case]:
    """Return the eight settings with one measured state, by name."""
    goodwin = wf.problems.get("goodwin")
    lotka = {
        "text": "x' = a*x - b*x*y\ny' = -c*y + d*x*y",
        "truth": {"a": 3.0, "b": 1.0, "c": 6.0, "d": 1.0},
        "begin": (1.0, 1.0),
        "columns": ("x",),
        "bounds": dict.fromkeys("abcd", (0.0, 10.0)),
    }
    sir = {
        "text": "S' = -beta*S*I\nI' = beta*S*I - gamma*I",
        "truth": {"beta": 1.5, "gamma": 0.5},
        "begin": (0.99, 0.01),
        "columns": ("I",),
        "bounds": {"beta": (0.0, 10.0), "gamma": (0.0, 5.0)},
    }
    fitzhugh = {
        "text": "V' = c*(V - V**3/3 + R)\nR' = -(V - a + b*R)/c",
        "truth": {"a": 0.2, "b": 0.2, "c": 3.0},
        "begin": (-1.0, 1.0),
        "columns": ("V",),
        "bounds": {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "c": (0.5, 10.0)},
    }
    oscillator = {
        "text": "\n".join(line.strip() for line in goodwin.equations.strip().splitlines()),
        "truth": dict(zip(goodwin.model.parameters, goodwin.truth, strict=True)),
        "begin": goodwin.initial,
        "columns": ("u3",),
        "bounds": dict(zip(goodwin.model.parameters, goodwin.box, strict=True)),
    }
    systems = (("lotka", lotka, 5.0, 101), ("sir", sir, 30.0, 101), ("fitzhugh", fitzhugh, 20.0, 201))
    return {
        f"{name} {samples}": Case(**parts, times=np.linspace(0.0, T, samples), relative=True)
        for name, parts, T, many in (*systems, ("goodwin", oscillator, 80.0, 101))
        for samples in (many, 21)
    }


def hes1() -> Case:
    """Return the oscillator Hes1, with P and M at alternate times and H never measured."""
    truth = {"a": 0.022, "b": 0.3, "c": 0.031, "d": 0.028, "e": 0.5, "f": 20.0, "g": 0.3}
    return Case(
        "P' = -a*P*H + b*M - c*P\nM' = -d*M + e/(1 + P**2)\nH' = -a*P*H + f/(1 + P**2) - g*H",
        truth,
        (1.439, 2.037, 17.904),
        np.arange(33) * 7.5,
        ("P", "M"),
        {**{name: (0.0, 10 * value) for name, value in truth.items()}, "H(0)": (0.0, 179.04)},
        noise="lognormal",
        level=0.15,
        given=True,
        gaps=(slice(0, None, 2), slice(1, None, 2)),
    )


def seir() -> Case:
    """Return SEIR with I and R measured from day 30 on."""
    names = ("beta", "gamma", "lambda_", "E0", "I0")
    return Case(
        "S' = -beta*S*E\nE' = beta*S*E - gamma*E\nI' = gamma*E - lambda_*I\nR' = lambda_*I\n"
        "S(0) = 1 - E0 - I0\nE(0) = E0\nI(0) = I0\nR(0) = 0",
        dict(zip(names, (0.5, 0.2, 1 / 21, 4e-5, 1e-5), strict=True)),
        (1 - 5e-5, 4e-5, 1e-5, 0.0),
        np.arange(30.0, 101.0),
        ("I", "R"),
        dict.fromkeys(names, (0.0, 1.0)),
        level=5e-4**0.5,
        given=True,
    )


def observed() -> dict[str, Case]:
    """Return the three settings with observables and given initial values, by name."""
    pk = Case(
        "A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 300\nB(0) = 0",
        {"ka": 1.2, "ke": 0.25, "V": 30.0},
        (300.0, 0.0),
        np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24]),
        ("conc",),
        {"ka": (0.1, 10.0), "ke": (0.01, 2.0), "V": (1.0, 200.0)},
        noise="lognormal",
        level=0.1,
        twins=(({"ka": 0.25, "ke": 1.2, "V": 30 * 0.25 / 1.2}, (300.0, 0.0)),),
    )
    mm = Case(
        "S' = -Vm*S/(Km + S)\nP' = Vm*S/(Km + S)\nsignal = s*P + off\nS(0) = 10\nP(0) = 0",
        {"Vm": 1.0, "Km": 2.0, "s": 3.0, "off": 0.5},
        (10.0, 0.0),
        np.linspace(0.0, 20.0, 40),
        ("signal",),
        {"Vm": (0.0, 20.0), "Km": (0.0, 50.0)},
        level=0.3,
    )
    known = {"N": 1e4, "rho": 0.4, "background": 5.0}
    sir = Case(
        "S' = -beta*S*I\nI' = beta*S*I - gamma*I\ncases = rho*gamma*N*I + background\nS(0) = 1 - I0\nI(0) = I0",
        dict(beta=1.5, gamma=0.5, I0=0.002, **known),
        (0.998, 0.002),
        np.arange(60.0),
        ("cases",),
        {"beta": (0.0, 10.0), "gamma": (0.0, 5.0), "I0": (0.0, 0.1)},
        noise="poisson",
        fixed=known,
    )
    return {"pk": pk, "mm": mm, "sir": sir}


@dataclass
class Trouble:
    """Runs that did not end as they should, by kind, with their seeds."""

    counts: Counter[str] = field(default_factory=Counter)
    seeds: dict[str, list[str]] = field(default_factory=dict)

    def add(self, kind: str, seed: object) -> None:
        """Count one run."""
        self.counts[kind] += 1
        self.seeds.setdefault(kind, []).append(str(seed))

    def attempt(self, case: Case, data: wf.Dataset, seed: int, starts: int | None = None) -> wf.FitResult | None:
        """Fit, and record the status unless it is a success; return None if the fit raised an error."""
        try:
            fit = case.fit(data, seed=seed, starts=starts)
        except Exception as error:
            self.add(f"{type(error).__name__}: {str(error)[:90]}", seed)
            return None
        if not fit.success:
            self.add(fit.status.name, seed)
        return fit

    def show(self) -> None:
        """Print all kinds, the most frequent first."""
        for kind, count in self.counts.most_common():
            seeds = self.seeds[kind]
            print(f"      {count} x {kind}: seeds {', '.join(seeds[:8])}{', …' if len(seeds) > 8 else ''}", flush=True)


@dataclass(frozen=True)
class Reached:
    """The end point of one fit."""

    likelihood: float
    misfit: float
    cpu: float
    status: str
    starts: int = 1


@cache
def setting(name: str) -> Case:
    """Return a setting with one measured state."""
    return hidden_settings()[name]


@cache
def draw(name: str, seed: int) -> wf.Dataset:
    """Return the data of a setting with one draw of the noise."""
    return setting(name).data(seed)


@cache
def reached(name: str, seed: int, start: int | None, starts: int | None) -> Reached:
    """Fit from the random starts of one seed, or from the true parameters if `start` is None."""
    case, data = setting(name), draw(name, seed)
    guess = {"start": case.truth, "seed": 0} if start is None else {"seed": start}
    begin = time.process_time()
    try:
        fit = case.fit(data, starts=starts, **guess)
    except Exception as error:
        return Reached(-np.inf, np.inf, time.process_time() - begin, f"{type(error).__name__}: {str(error)[:80]}")
    cpu = time.process_time() - begin
    column = case.model.states.index(case.columns[0])
    residuals = data.trajectories[0].values[:, 0] - solve_at_samples(fit, 0)[:, column]
    misfit = float(np.sum((residuals / case.sigma()[0]) ** 2))
    likelihood = fit.log_likelihood if np.isfinite(fit.log_likelihood) else -np.inf
    return Reached(likelihood, misfit if np.isfinite(misfit) else np.inf, cpu, fit.status.name, len(fit.starts))


def random_starts(runs: int, default: bool) -> None:
    """Print the rows `starts` and `default`."""
    target = "99.5% of all" if default else "95% each, 97% of all, CPU 0.15 s"
    kind = "default starts" if default else "single starts"
    print(f"\n{kind}, {runs} noise seeds x {START_SEEDS} start seeds; target {target}")
    heads = {"likelihood": 12, "misfit": 9, "from truth": 12, "CPU s": 8, "max": 7, "ms/start": 12}
    print(f"{'setting':14s}" + "".join(f"{head:>{width}s}" for head, width in heads.items()) + "  statuses")
    everything: list[tuple[bool, bool]] = []
    cpus: list[float] = []
    for name in hidden_settings():
        reached(name, 0, 0, 1)
        good, cpu, lost, truths, start_count = [], [], [], [], 0
        statuses: Counter[str] = Counter()
        for seed in range(runs):
            truth = reached(name, seed, None, 1)
            singles = [reached(name, seed, start, 1) for start in range(START_SEEDS)]
            rows = [reached(name, seed, start, None) for start in range(START_SEEDS)] if default else singles
            best = max(row.likelihood for row in (truth, *singles, *rows))
            least = min(row.misfit for row in (truth, *singles, *rows))
            truths.append(truth.likelihood > best - 1)
            for start, row in enumerate(rows):
                near = (row.likelihood > best - 1, row.misfit < 1.05 * least + 5)
                good.append(near)
                cpu.append(row.cpu)
                start_count += row.starts
                statuses[row.status] += 1
                if not all(near):
                    short = f"{best - row.likelihood:.3g} below, misfit {row.misfit / least:.3g} x, {row.status}"
                    lost.append(f"noise {seed} start {start}: {short}")
        everything += good
        cpus += cpu
        shares, summary = np.mean(good, axis=0), ", ".join(f"{v} {k.lower()}" for k, v in statuses.most_common())
        print(
            f"{name:14s}{shares[0]:12.1%}{shares[1]:9.1%}{np.mean(truths):12.0%}{np.median(cpu):8.3f}{max(cpu):7.2f}"
            f"{1e3 * sum(cpu) / start_count:12.0f}  {summary}",
            flush=True,
        )
        for line in lost[:12]:
            print(f"      {line}", flush=True)
    shares = np.mean(everything, axis=0)
    print(f"{'all':14s}{shares[0]:12.1%}{shares[1]:9.1%}{'':12s}{np.median(cpus):8.3f}{max(cpus):7.2f}", flush=True)


def within(band: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return True at the times at which a band contains the true value, `(time,)`."""
    return (band[:, 1] <= truth) & (truth <= band[:, 2])


def hes1_row(runs: int) -> None:
    """Print the row `hes1`."""
    case, trouble = hes1(), Trouble()
    true, rmse, covered, linear, cpu = case.states(case.times), [], [], [], []
    for seed in range(runs):
        begin = time.process_time()
        fit = trouble.attempt(case, case.data(seed), seed)
        cpu.append(time.process_time() - begin)
        if fit is None:
            continue
        try:
            band = fit.predict(case.times)
        except wf.WeakformError as error:
            trouble.add(f"band: {str(error)[:90]}", seed)
            continue
        rmse.append([np.sqrt(np.mean((band[name][:, 0] - true[name]) ** 2)) for name in "PMH"])
        covered.append(within(band["H"], true["H"]).mean())
        linear.append(within(fit.predict(case.times, kind="delta")["H"], true["H"]).mean())
        if np.isnan(band["H"]).any():
            trouble.add("no band", seed)
            covered.pop()
        if not rmse[-1][0] < 3:
            trouble.add(f"rmse of P {rmse[-1][0]:.3g}", seed)
    mean, median = np.mean(rmse, axis=0), np.median(rmse, axis=0)
    print(
        f"\nhes1, {len(rmse)} of {runs} runs: mean rmse of P {mean[0]:.3f} (target below .97), "
        f"of M {mean[1]:.3f} (.21); "
        f"medians {median[0]:.3f}, {median[1]:.3f}, of H {median[2]:.2f} (mean {mean[2]:.2f}); "
        f"the band of H covers {np.mean(covered or np.nan):.1%} (92-98%) in the {len(covered)} runs with a band, "
        f"by the delta method {np.mean(linear):.1%}; CPU {np.median(cpu):.2f} s, max {max(cpu):.1f}",
        flush=True,
    )
    trouble.show()


def seir_row(runs: int) -> None:
    """Print the row `seir`."""
    case, trouble, errors, cpu = seir(), Trouble(), [], []
    names = ("beta", "gamma", "lambda_")
    for seed in range(runs):
        begin = time.process_time()
        fit = trouble.attempt(case, case.data(seed), seed)
        cpu.append(time.process_time() - begin)
        error = [np.inf if fit is None else abs(fit[name].value / case.truth[name] - 1) for name in names]
        errors.append(error)
        if max(error) > 0.5:
            trouble.add("worse than 50%", seed)
    median, worst = np.median(errors, axis=0), np.max(errors, axis=0)
    print(
        f"\nseir, {runs} runs: median errors {median[0]:.2%}, {median[1]:.2%}, {median[2]:.2%} "
        f"(target 3.3, 3.5, 1.0%); "
        f"worst {worst[0]:.1%}, {worst[1]:.1%}, {worst[2]:.1%} (below 50%); "
        f"CPU {np.median(cpu):.2f} s, max {max(cpu):.1f}",
        flush=True,
    )
    trouble.show()


def observed_row(name: str, runs: int) -> None:
    """Print the share of true values inside the 99.7% intervals; a parameter without an interval counts as outside."""
    case, trouble, cpu = observed()[name], Trouble(), []
    inside: dict[str, list[bool]] = {}
    for seed in range(runs):
        data = case.data(seed)
        begin = time.process_time()
        fit = trouble.attempt(case, data, seed)
        cpu.append(time.process_time() - begin)
        if fit is None:
            for parameter in case.truth.keys() - case.fixed.keys():
                inside.setdefault(parameter, []).append(False)
            continue
        truth = case.truths[case.meant(fit)][0]
        limits = dict(zip(fit.model.parameters, fit.intervals(0.997), strict=True))
        for parameter in case.free(fit):
            low, high = limits[parameter]
            inside.setdefault(parameter, []).append(bool(low <= truth[parameter] <= high))
            if not inside[parameter][-1]:
                trouble.add(f"{parameter} outside", seed)
    pooled = np.mean([value for values in inside.values() for value in values])
    shares = ", ".join(f"{key} {np.mean(values):.1%}" for key, values in inside.items())
    print(
        f"\n{name}, {runs} runs: {pooled:.2%} inside the 99.7% intervals (target 98%): {shares}; "
        f"CPU {np.median(cpu):.2f} s, max {max(cpu):.1f}",
        flush=True,
    )
    trouble.show()


def bound(case: Case, which: int, free: list[str], beginnings: list[str]) -> np.ndarray:
    """Compute the Cramér–Rao bound on the standard deviations of the free parameters.

    With sensitivities of the states `S_p`, `S_0`, measured columns h(u, p) and initial values `u₀ = g(p) + E ξ`,
    `K = [h_u (S_p + S_0 ∂g) + h_p, h_u S_0 E]/σ`, and the bound is the p-block of `(KᵀK)⁻¹`.
    """
    model, truth = case.model, case.truths[which][0]
    p = np.array([truth[name] for name in model.parameters])
    solution = case.solved(case.times, which, sensitivities=True)
    n = len(case.times)
    states, by_p, by_u0 = solution.states[-n:], solution.by_parameters[-n:], solution.by_initial[-n:]
    h, hu, hp = model.build_map("h", case.columns).linearise(case.times, states, p)
    _, _, G = model.build_map("g").linearise(np.zeros(1), states[:1], p)
    given = np.array([state in model.initial for state in model.states])
    E = np.eye(len(given))[:, [model.states.index(state) for state in beginnings]]
    K = np.concatenate([hu @ (by_p + by_u0 @ np.where(given[:, None], G[0], 0.0)) + hp, hu @ by_u0 @ E], axis=2)
    if case.noise == "poisson":
        deviations = np.sqrt(h)
    else:
        slopes = [KINDS[case.noise].numeric_slope(column) for column in h.T]
        deviations = case.sigma() * np.column_stack(slopes)
    keep = [model.parameters.index(name) for name in free]
    keep += [len(p) + k for k in range(len(beginnings))]
    K = (K / deviations[:, :, None]).reshape(-1, K.shape[2])[:, keep]
    return np.sqrt(invert_symmetric(K.T @ K).diagonal())[: len(free)]


def determined() -> dict[str, Case]:
    """Return the settings in which the data determine all parameters and initial values."""
    settings = hidden_settings()
    lotka = {name: {**vars(case), "fixed": {"y(0)": 1.0}} for name, case in settings.items() if "lotka" in name}
    cases = {name: Case(**parts) for name, parts in lotka.items()}
    cases |= {name: case for name, case in settings.items() if name.split()[0] in ("sir", "fitzhugh")}
    return cases | {f"{name} observed": case for name, case in observed().items()}


def size(runs: int) -> None:
    """Print the shares of true models with a p-value below 5% and below 1%."""
    print(f"\nsize of the test, {runs} runs; nominal 5% and 1%\n{'row':14s}{'p < 5%':>9s}{'p < 1%':>9s}{'success':>9s}")
    for name, case in determined().items():
        trouble = Trouble()
        fits = [fit for seed in range(runs) if (fit := trouble.attempt(case, case.data(seed), seed)) is not None]
        p = np.array([fit.goodness.p_value for fit in fits if fit.goodness is not None])
        success = np.mean([fit.success for fit in fits])
        print(f"{name:14s}{np.mean(p < 0.05):9.1%}{np.mean(p < 0.01):9.2%}{success:9.1%}", flush=True)
        trouble.show()


def coverage(runs: int, only: str = "") -> None:
    """Print the coverage of 95% intervals, and the rms error of the parameters over the Cramér–Rao bound."""
    print(f"\ncoverage of 95% intervals, {runs} runs; targets 92-98% for all of a row, error over bound at most 1.1")
    print(
        f"{'row':14s}{'all':>8s}{'parameters':>12s}{'initial':>9s}{'hidden':>8s}{'delta':>10s}{'rms/bound':>11s}"
        f"{'median²':>9s}{'worst':>8s}{'CPU s':>8s}{'bands':>8s}"
    )
    for name, case in determined().items():
        if name.startswith(only):
            coverage_of(name, case, runs)


def coverage_of(name: str, case: Case, runs: int) -> None:
    """Print one line of the row `coverage`."""
    trouble, cpu, band_cpu = Trouble(), [], []
    inside: dict[str, list[bool]] = {"parameters": [], "initial": [], "hidden": []}
    linear: list[bool] = []
    scaled: list[np.ndarray] = []
    samples = case.times[np.linspace(0, len(case.times) - 1, 7).astype(int)[1:-1]]
    hidden = [state for state in case.model.states if state not in case.columns]
    beginnings = [s for s in case.model.states if s not in case.model.initial and f"{s}(0)" not in case.fixed]
    truths = [case.states(np.concatenate([[0.0], samples]), which) for which in range(len(case.truths))]
    bounds: dict[int, np.ndarray] = {}
    for seed in range(runs):
        data = case.data(seed)
        begin = time.process_time()
        fit = trouble.attempt(case, data, seed, COVERAGE_STARTS)
        cpu.append(time.process_time() - begin)
        if fit is None:
            continue
        which, free = case.meant(fit), case.free(fit)
        if which not in bounds:
            bounds[which] = bound(case, which, free, beginnings)
        truth = case.truths[which][0]
        error = np.array([fit[parameter].value - truth[parameter] for parameter in free]) / bounds[which]
        scaled.append(error)
        if np.abs(error).max() > 5:
            trouble.add("more than 5 times the bound", seed)
        for parameter in free:
            low, high = fit[parameter].interval
            inside["parameters"].append(low <= truth[parameter] <= high)
        begin = time.process_time()
        try:
            for state in case.model.states:
                quantity = fit.initial[state]
                if quantity.error:
                    low, high = quantity.interval
                    inside["initial"].append(low <= truths[which][state][0] <= high)
            band, delta = fit.predict(samples), fit.predict(samples, kind="delta")
            for state in hidden:
                linear += list(within(delta[state], truths[which][state][1:]))
                inside["hidden"] += list(within(band[state], truths[which][state][1:]))
            if np.isnan(band.lower).any():
                trouble.add("no band", seed)
        except wf.WeakformError as error:
            trouble.add(f"band: {str(error)[:90]}", seed)
        band_cpu.append(time.process_time() - begin)
    squares = np.array(scaled) ** 2
    parts = [f"{np.mean(v):.1%}" if v else "-" for v in inside.values()]
    pooled = np.mean([value for values in inside.values() for value in values])
    # The median of χ² with one degree of freedom is 0.455.
    print(
        f"{name:14s}{pooled:8.1%}{parts[0]:>12s}{parts[1]:>9s}{parts[2]:>8s}{np.mean(linear):10.1%}"
        f"{np.sqrt(squares.mean()):11.3f}"
        f"{np.median(squares) / 0.455:9.2f}{np.sqrt(squares.max()):8.1f}{np.median(cpu):8.2f}"
        f"{np.median(band_cpu):8.2f}",
        flush=True,
    )
    trouble.show()


def one_fit_of_subjects(count: int) -> Mapping[str, object]:
    """Measure one fit: CPU seconds, peak memory in MB (also beyond that of the data), status and estimate."""
    truth = {"ka": 1.2, "ke": 0.25, "V": 30.0}
    model = wf.Model.from_text("A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 100\nB(0) = 0")
    times = np.linspace(0.5, 20.0, SAMPLES_PER_SUBJECT)
    p = [truth[name] for name in model.parameters]
    states = wf.simulate(model, p, [100.0, 0.0], np.concatenate([[0.0], times])).states[1:]
    clean, rng = states[:, 1] / truth["V"], np.random.default_rng(3)
    data = wf.Dataset.join(
        [
            wf.Dataset(times, clean + 0.1 * rng.standard_normal(SAMPLES_PER_SUBJECT), names=["conc"])
            for _ in range(count)
        ]
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    begin = time.process_time()
    fit = wf.fit(model, data, bounds={"ka": (0.1, 10.0), "ke": (0.01, 2.0), "V": (1.0, 200.0)})
    cpu = time.process_time() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    estimate = [float(fit[name].value) for name in truth]
    return {"cpu": cpu, "memory": peak - before, "peak": peak, "status": fit.status.name, "estimate": estimate}


def subjects() -> None:
    """Print the row `subjects`."""
    print(f"\nsubjects with {SAMPLES_PER_SUBJECT} samples each, one call of fit, default starts")
    print(f"{'subjects':>9s}{'CPU s':>9s}{'memory MB':>11s}{'peak MB':>9s}  status, estimate of ka, ke, V")
    rows = []
    for count in SUBJECTS:
        call = [sys.executable, __file__, "--subjects", str(count)]
        row = json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout)
        rows.append(row)
        values = ", ".join(f"{value:.4g}" for value in row["estimate"])
        print(
            f"{count:9d}{row['cpu']:9.2f}{row['memory']:11.0f}{row['peak']:9.0f}  {row['status']}, {values}", flush=True
        )
    for label in ("cpu", "memory"):
        costs = np.log([row[label] for row in rows])
        last = (costs[-1] - costs[-2]) / np.log(SUBJECTS[-1] / SUBJECTS[-2])
        slope = np.polyfit(np.log(SUBJECTS), costs, 1)[0]
        print(f"exponent of {label}: {slope:.2f}, over the last step {last:.2f}", flush=True)


ROWS: dict[str, tuple[Callable[[int], None], int]] = {
    "starts": (lambda runs: random_starts(runs, default=False), 20),
    "default": (lambda runs: random_starts(runs, default=True), 20),
    "hes1": (hes1_row, 100),
    "seir": (seir_row, 100),
    "pk": (lambda runs: observed_row("pk", runs), 300),
    "mm": (lambda runs: observed_row("mm", runs), 300),
    "sir": (lambda runs: observed_row("sir", runs), 300),
    "coverage": (coverage, 1000),
    "size": (size, 1000),
    "subjects": (lambda _: subjects(), 1),
}


def main() -> None:
    if len(sys.argv) > 2 and sys.argv[1] == "--subjects":
        print(json.dumps(one_fit_of_subjects(int(sys.argv[2]))))
        return
    requested = sys.argv[1].split(",") if len(sys.argv) > 1 else ["all"]
    rows = list(ROWS) if "all" in requested else requested
    unknown = [row for row in rows if row.split(":")[0] not in ROWS]
    if unknown:
        raise SystemExit(f"There is no row {unknown[0]!r}. The rows are: {', '.join(ROWS)}.")
    for row in rows:
        name, _, only = row.partition(":")
        measure, default_runs = ROWS[name]
        runs = int(sys.argv[2]) if len(sys.argv) > 2 else default_runs
        if only:
            coverage(runs, only)
        else:
            measure(runs)


if __name__ == "__main__":
    main()
