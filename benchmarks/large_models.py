"""Larger models: growth of time and memory with the number of states.

    python benchmarks/large_models.py [largest D, default 20]

The model is a ring of D species. Each is produced by a known supply that varies in time and by mass action from its
predecessor, and consumed by mass action and by a Michaelis–Menten reaction with a known maximal rate. There are J = 2D
parameters, half of them nonlinear (the half-saturation constants). M = 200 samples, 2% noise, method "wendy" inside a
box from 0.02 to 10. The table shows CPU seconds of one process, and the exponent between the last two sizes.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np

import weakform as wf
from weakform.forward.solver import simulate

SIZES = (5, 10, 20, 50)
M = 200


def family(D: int, seed: int = 1) -> tuple[wf.Model, np.ndarray, np.ndarray]:
    """Return the model, its true parameters `(2D,)` and its initial state `(D,)`."""
    rng = np.random.default_rng([seed, D])
    lines = []
    for i in range(D):
        before, speed = (i - 1) % D, 0.5 + 0.37 * (7 * i % 11)
        supply, leaves = f"1 + sin({speed:.2f}*t + {i})", f"k{i}*x{i} - 2*x{i}/(K{i} + x{i})"
        lines.append(f"x{i}' = {supply} + 0.2*k{before}*x{before} - {leaves}")
    names = [f"k{i}" for i in range(D)] + [f"K{i}" for i in range(D)]
    model = wf.Model.from_text("\n".join(lines), parameters=names)
    truth = np.concatenate([rng.uniform(0.3, 1.0, D), rng.uniform(0.5, 1.5, D)])
    return model, truth, rng.uniform(0.2, 4.0, D)


def dataset(D: int, seed: int = 1) -> tuple[wf.Model, wf.Dataset, np.ndarray]:
    """Return the model with D species, noisy data of it, and its true parameters `(2D,)`."""
    model, truth, initial = family(D, seed)
    t = np.linspace(0, 12, M + 1)
    u = simulate(model, truth, initial, t, rtol=1e-9, max_evaluations=10**8).states
    noise = 0.02 * np.sqrt(np.mean(u**2)) * np.random.default_rng([seed, D, 1]).standard_normal(u.shape)
    return model, wf.Dataset(t, u + noise), truth


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    print(f"{'D':>4s}{'J':>5s}{'CPU s':>9s}{'Hessian s':>11s}{'MB':>7s}{'error':>9s}{'within 4 s.e.':>15s}  status")
    times = []
    for D in (d for d in SIZES if d <= largest):
        model, data, truth = dataset(D)
        bounds = dict.fromkeys(model.parameters, (0.02, 10.0))
        from weakform.weak.weak_problem import WeakProblem

        likelihood = WeakProblem.build(model, data, wf.Local()).likelihood()
        likelihood(truth, 2)
        begin = time.process_time()
        likelihood(truth, 2)
        hessian = time.process_time() - begin
        begin = time.process_time()
        fit = wf.fit(model, data, bounds=bounds, options={"time_limit": 600})
        spent = time.process_time() - begin
        times.append((D, spent))
        off = np.abs(fit.estimate - truth) / fit.errors
        error = np.linalg.norm(fit.estimate - truth) / np.linalg.norm(truth)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"{D:4d}{2 * D:5d}{spent:9.2f}{hessian:11.3f}{memory:7.0f}{error:9.2%}"
            f"{np.mean(off[~fit.at_bound] < 4):15.0%}  {fit.status.name}",
            flush=True,
        )
    if len(times) > 1:
        (a, s), (b, t) = times[-2:]
        print(f"exponent of the time in D between {a} and {b}: {np.log(t / s) / np.log(b / a):.2f}")


if __name__ == "__main__":
    main()
