"""The goodness-of-fit test at the 5% level: its rate of rejection of true models, and of models with one term removed.

    python benchmarks/goodness.py [runs, default 20]
    python benchmarks/goodness.py size [runs, default 10000]

The settings are M = 512 and 10% noise, with σ estimated and with σ given. A fit that cannot be refined, or does not
converge, counts as rejected for a wrong model and as not rejected for a true one.

`size` prints the share of true models whose p-value is below 5% and 1%, by the test for autocorrelation (σ estimated),
for four models and M = 40 to 400, with 5% noise, fitted from the true parameters.
"""

from __future__ import annotations

import sys
import zlib
from concurrent.futures import ProcessPoolExecutor

import numpy as np

import weakform as wf

REMOVED = {
    "lorenz": ("u1 u2 in u3'", "u1' = p1*(u2 - u1)\nu2' = u1*(p2 - u3) - u2\nu3' = u1 - p3*u3"),
    "hindmarsh-rose": (
        "p7 u2 in u2'",
        "u1' = p1*u2 - p2*u1**3 + p3*u1**2 - p4*u3\nu2' = p5 - p6*u1**2\nu3' = p8*u1 + p9 - p10*u3",
    ),
    "goodwin": ("p2 u1 in u1'", "u1' = p1/(2.15 + p3*u3**p4)\nu2' = p5*u1 - p6*u2\nu3' = p7*u2 - p8*u3"),
    "sir-tdi": (
        "the delay in p5 t²",
        """back = p1*exp(-p1*p2)/(1 - exp(-p1*p2))
        u1' = -p1*u1 + p3*u2 + back*u3
        u2' = p1*u1 - p3*u2 - p4*u2
        u3' = p4*u2 - back*u3""",
    ),
    "logistic": ("p2 u²", "u' = p1*u"),
    "lotka-volterra": ("p2 u1 u2 in u1'", "u1' = p1*u1\nu2' = -p3*u2 + p4*u1*u2"),
    "fitzhugh-nagumo": ("p5 in u2'", "u1' = p1*u1 - p2*u1**3 + p3*u2\nu2' = -p4*u1 + p6*u2"),
    "protein-transduction": (
        "k1 S in S'",
        """S' = -k2*S*R + k3*RS
        D' = k1*S
        R' = -k2*S*R + k3*RS + V*P/(Km + P)
        RS' = k2*S*R - (k3 + k4)*RS
        P' = k4*RS - V*P/(Km + P)""",
    ),
}


def rejected(model: wf.Model, data: wf.Dataset, bounds: dict, seed: int, wrong: bool) -> bool:
    """Return True if a fit is rejected at the 5% level; `wrong` is the answer without an accepted fit."""
    used_bounds = {name: pair for name, pair in bounds.items() if name in model.parameters}
    fit = wf.fit(model, data, bounds=used_bounds, seed=seed)
    if fit.goodness is None or not fit.success:
        return wrong
    return fit.goodness.p_value < 0.05


SIZES = (40, 64, 100, 400)
TRUE = {
    "logistic": ("u' = r*u*(1 - u/K)", {"r": 0.9, "K": 10.0}, (0.5,), 10.0),
    "oscillator": ("x' = v\nv' = -w*x - c*v", {"w": 4.0, "c": 0.1}, (1.0, 0.0), 15.0),
    "second order": ("x'' = -w*x - c*x'", {"w": 4.0, "c": 0.1}, (1.0, 0.0), 15.0),
    "cubic": ("u' = a + b*u + c*u**2 + d*u**3", {"a": 1.0, "b": 0.5, "c": 0.2, "d": -0.15}, (0.0,), 6.0),
}


def p_values(job: tuple[str, int, range]) -> list[float]:
    """Fit a true model to one draw for each seed, and return the p-values; NaN without a test."""
    name, M, seeds = job
    text, truth, begin, duration = TRUE[name]
    model = wf.Model.from_text(text)
    t = np.linspace(0, duration, M + 1)
    p = [truth[key] for key in model.parameters]
    states = wf.simulate(model, p, begin, t, rtol=1e-10).states[:, : 1 if "''" in text else None]
    values = []
    for seed in seeds:
        noise = np.random.default_rng([seed, M]).standard_normal(states.shape)
        names = None if "''" not in text else ["x"]
        data = wf.Dataset(t, states + 0.05 * states.std(axis=0) * noise, names=names)
        fit = wf.fit(model, data, start=truth, starts=1)
        values.append(np.nan if fit.goodness is None else fit.goodness.p_value)
    return values


def size(runs: int) -> None:
    """Print the size of the test at levels of 5% and 1%."""
    print(
        f"share of {runs} true models with a p-value below 5% and 1%\n{'model':16s}"
        + "".join(f"{f'M = {M}':>16s}" for M in SIZES)
    )
    with ProcessPoolExecutor() as pool:
        for name in TRUE:
            print(f"{name:16s}", end="", flush=True)
            for M in SIZES:
                parts = np.array_split(np.arange(runs), 8)
                jobs = [(name, M, range(int(part[0]), int(part[-1]) + 1)) for part in parts if len(part)]
                p = np.concatenate(list(pool.map(p_values, jobs)))
                print(f"{f'{np.mean(p < 0.05):.1%} {np.mean(p < 0.01):.2%}':>16s}", end="", flush=True)
            print()


def main() -> None:
    if sys.argv[1:2] == ["size"]:
        size(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000)
        return
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"share of {runs} runs rejected at 5%; M = 512, 10% noise")
    print(f"{'problem':22s}{'true, σ estimated':>18s}{'true, σ given':>15s}{'wrong, σ est.':>15s}   removed term")
    totals = np.zeros(3)
    for name, (term, text) in REMOVED.items():
        problem, wrong = wf.problems.get(name), wf.Model.from_text(text)
        counts = np.zeros(3)
        for run in range(runs):
            seed = zlib.crc32(f"goodness {name} {run}".encode())
            data = problem.simulate(M=512, noise=0.10, seed=seed)
            q = data.trajectories[0]
            with_sigma = wf.Dataset(q.times, q.values, data.noise, data.truth.sigma, names=data.names)
            counts[0] += rejected(problem.model, data, problem.bounds, seed, False)
            counts[1] += rejected(problem.model, with_sigma, problem.bounds, seed, False)
            counts[2] += rejected(wrong, data, problem.bounds, seed, True)
        totals += counts
        shares = counts / runs
        print(f"{name:22s}{shares[0]:18.0%}{shares[1]:15.0%}{shares[2]:15.0%}   {term}", flush=True)
    print(f"{'all':22s}{totals[0] / runs / 8:18.1%}{totals[1] / runs / 8:15.1%}{totals[2] / runs / 8:15.1%}")


if __name__ == "__main__":
    main()
