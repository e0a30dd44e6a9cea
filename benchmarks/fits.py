"""CPU time of whole fits, and of the alternatives.

    python benchmarks/fits.py [runs, default 5]   all eight problems at M = 256 and 1024
    python benchmarks/fits.py long [M]            Lorenz with M = 10⁶ (default): time and peak memory
    python benchmarks/fits.py growth              time over M, and over the number of trajectories of 20 samples
    python benchmarks/fits.py again               200 bootstrap refits, all profiles, and fits a second by `fit_many`

Medians of runs with 5% noise, in one process with one BLAS thread. The columns:

- *fit*: `fit` with the bounds of the problem and no other arguments, in CPU ms and in units of work. One unit is 50
  Cholesky factorisations of a matrix of 200 rows, measured in the same process;
- *before*: the same in units, before the coarse search, the screening of draws and the kernels existed;
- *output error*: the package's own output error, from the same data;
- *SciPy*: `least_squares` around `odeint`, started at parameters 10% off the true values and the first row of the data;
- *lmfit*: the same by `lmfit.minimize`, if it is installed;
- *off*: the share of runs of SciPy or lmfit whose sum of squares is more than 5% above that of the fit.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from importlib.util import find_spec

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the spinning of idle threads would be counted as our time

import numpy as np
from scipy.integrate import odeint
from scipy.optimize import least_squares

import weakform as wf
from weakform.model.compilation import compile_expressions

RUNS = 5
UNITS_BEFORE = {
    ("lorenz", 256): 1.84,
    ("lorenz", 1024): 3.86,
    ("hindmarsh-rose", 256): 9.26,
    ("hindmarsh-rose", 1024): 20.0,
    ("goodwin", 256): 17.6,
    ("goodwin", 1024): 44.1,
    ("sir-tdi", 256): 20.3,
    ("sir-tdi", 1024): 53.5,
    ("logistic", 256): 1.26,
    ("logistic", 1024): 1.41,
    ("lotka-volterra", 256): 2.25,
    ("lotka-volterra", 1024): 35.7,
    ("fitzhugh-nagumo", 256): 2.55,
    ("fitzhugh-nagumo", 1024): 35.2,
    ("protein-transduction", 256): 25.6,
    ("protein-transduction", 1024): 41.4,
}


def cpu(function) -> tuple[float, object]:
    """Return the CPU seconds of a call, and its result."""
    begin = time.process_time()
    result = function()
    return time.process_time() - begin, result


def unit() -> float:
    """Measure the CPU seconds of one unit of work."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 200))
    A = A @ A.T + 200 * np.eye(200)
    return min(cpu(lambda: [np.linalg.cholesky(A) for _ in range(50)])[0] for _ in range(3))


def shooting(problem: wf.problems.Problem, data: wf.Dataset):
    """Return the residual function of a loop around a solver, and its start."""
    model, q = problem.model, data.trajectories[0]
    f = compile_expressions(["t", *model.states, *model.parameters], model.expressions)
    D, scale = len(model.states), q.values.std(axis=0)
    log = data.noise[0] == "lognormal"

    def residual(theta):
        p, u0 = theta[:-D], theta[-D:]
        row = np.concatenate([[0.0], u0, p])

        def rhs(u, t):
            row[0], row[1 : 1 + D] = t, u
            return f(row)

        with np.errstate(all="ignore"):
            states = odeint(rhs, u0, q.times, rtol=1e-6, atol=1e-9)
            off = np.log(np.abs(states / q.values)) if log else (states - q.values) / scale
        return np.nan_to_num(off.ravel(), nan=1e3, posinf=1e3, neginf=-1e3)

    return residual, np.concatenate([1.1 * problem.parameters, q.values[0]])


def by_scipy(residual, start):
    return least_squares(residual, start, x_scale="jac").x


def by_lmfit(residual, start):
    import lmfit

    parameters = lmfit.Parameters()
    for k, value in enumerate(start):
        parameters.add(f"p{k}", value=value)
    result = lmfit.minimize(lambda p: residual(np.array(list(p.valuesdict().values()))), parameters)
    return np.array(list(result.params.valuesdict().values()))


def whole_fits(runs: int) -> None:
    """Print the times of whole fits and of the alternatives on all eight problems."""
    import warnings

    warnings.simplefilter("ignore")
    unit_seconds = unit()
    tools = {"SciPy": by_scipy}
    if find_spec("lmfit"):
        tools["lmfit"] = by_lmfit
    else:
        print("lmfit is left out, because it is not installed")
    print(f"unit of work: {1e3 * unit_seconds:.1f} ms; times in CPU ms")
    print(
        f"{'problem':22s}{'M':>6s}{'fit':>8s}{'units':>7s}{'before':>8s}{'output error':>14s}"
        + "".join(f"{name:>9s}{'off':>6s}" for name in tools)
    )
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        wf.fit(problem.model, problem.simulate(M=64, noise=0.05, seed=99), bounds=problem.bounds)
        for M in (256, 1024):
            times, output = [], []
            tool_times: dict[str, list[float]] = {key: [] for key in tools}
            lost = dict.fromkeys(tools, 0)
            for seed in range(runs):
                data = problem.simulate(M=M, noise=0.05, seed=seed)
                arguments = {"bounds": problem.bounds}
                spent, fit = cpu(lambda p=problem, d=data, a=arguments: wf.fit(p.model, d, **a))
                times.append(spent)
                output.append(
                    cpu(lambda p=problem, d=data, a=arguments: wf.fit(p.model, d, method="output-error", **a))[0]
                )
                residual, start = shooting(problem, data)
                least = float(np.sum(residual(np.concatenate([fit.estimate, fit.denoised[0][0]])) ** 2))
                for key, minimise in tools.items():
                    spent, theta = cpu(lambda m=minimise, r=residual, s=start: m(r, s))
                    tool_times[key].append(spent)
                    lost[key] += bool(np.sum(residual(theta) ** 2) > 1.05 * least)
            median = float(np.median(times))
            print(
                f"{name:22s}{M:6d}{1e3 * median:8.1f}{median / unit_seconds:7.2f}{UNITS_BEFORE[name, M]:8.2f}"
                f"{1e3 * np.median(output):14.1f}"
                + "".join(f"{1e3 * np.median(tool_times[key]):9.1f}{lost[key] / runs:6.0%}" for key in tools),
                flush=True,
            )


def long_series(M: int) -> None:
    """Print time and peak memory of a fit of one long series."""
    problem = wf.problems.get("lorenz")
    print(f"Lorenz, M = {M}, step 0.01, 5% noise", flush=True)
    data = problem.simulate(M=M, noise=0.05, seed=1, duration=0.01 * M)
    print(f"simulated; peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GB", flush=True)
    spent, fit = cpu(lambda: wf.fit(problem.model, data, bounds=problem.bounds, options={"time_limit": 3600}))
    error = np.linalg.norm(fit.estimate - problem.parameters) / np.linalg.norm(problem.parameters)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{spent:.1f} CPU s, {fit.iterations} iterations, {fit.status.name.lower()}, error {error:.2e}, {peak:.2f} GB"
    )


def growth() -> None:
    """Print the growth of the time with the number of samples and of trajectories."""
    problem = wf.problems.get("lorenz")
    wf.fit(problem.model, problem.simulate(M=64, noise=0.05, seed=99), bounds=problem.bounds)
    print("Lorenz, step 0.01: samples, CPU s")
    for M in (256, 1024, 4096, 16384, 65536, 262144):
        data = problem.simulate(M=M, noise=0.05, seed=1, duration=0.01 * M)
        spent, fit = cpu(lambda d=data: wf.fit(problem.model, d, bounds=problem.bounds))
        print(f"{M:8d}{spent:9.3f}  {fit.status.name.lower()}", flush=True)
    print("logistic growth with 20 samples each: trajectories, CPU s")
    model, t = wf.Model.from_text("u' = r*u*(1 - u/K)"), np.linspace(0, 8, 20)
    for count in (1, 10, 100, 1000):
        rng = np.random.default_rng(0)
        begin = rng.uniform(0.3, 2.0, count)
        curves = [10 / (1 + (10 / u0 - 1) * np.exp(-0.9 * t)) + 0.2 * rng.standard_normal(20) for u0 in begin]
        data = wf.Dataset.join([wf.Dataset(t, curve) for curve in curves])
        bounds = {"r": (0.0, 5.0), "K": (1.0, 50.0)}
        wf.fit(model, data, bounds=bounds) if count == 1 else None
        spent, fit = cpu(lambda d=data, b=bounds: wf.fit(model, d, bounds=b))
        print(f"{count:8d}{spent:9.3f}  {fit.status.name.lower()}", flush=True)


def again() -> None:
    """Print the times of bootstrap refits, of profiles, and of many fits."""
    for name in ("lotka-volterra", "lorenz", "goodwin"):
        problem = wf.problems.get(name)
        fit = wf.fit(problem.model, problem.simulate(M=256, noise=0.05, seed=1), bounds=problem.bounds)
        boot = cpu(lambda fit=fit: fit.intervals(kind="bootstrap", runs=200))[0]
        profile = cpu(lambda fit=fit: fit.intervals(kind="profile"))[0]
        print(
            f"{name:22s} M = 256: 200 bootstrap refits {boot:.2f} CPU s, all profiles {profile:.2f} CPU s", flush=True
        )
    problem = wf.problems.get("lotka-volterra")
    datasets = [problem.simulate(M=128, noise=0.05, seed=seed) for seed in range(200)]
    wf.fit(problem.model, datasets[0], bounds=problem.bounds)
    spent, _ = cpu(lambda: wf.fit_many(problem.model, datasets, workers=1, bounds=problem.bounds))
    print(f"fit_many, Lotka–Volterra, M = 128: {len(datasets) / spent:.0f} fits in one CPU second")


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "long":
        long_series(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    elif what == "growth":
        growth()
    elif what == "again":
        again()
    else:
        whole_fits(int(what) if what else RUNS)
