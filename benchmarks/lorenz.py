"""The paper's Lorenz experiment: more data make output error worse, and the weak estimate better.

    python benchmarks/lorenz.py [runs, default 30] [picture, default lorenz.png]

Samples every 0.01 time units up to T = 3, 6, ..., 30, Gaussian noise of 10%; the start is drawn from the box of the
paper's table, one for each run; both methods get the same data and start. Mean relative coefficient error.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.report.plots import STYLE, pyplot, save

STEP, NOISE = 0.01, 0.10
TIMES = tuple(3.0 * n for n in range(1, 11))
METHODS = {
    "initial guess": ("#000000", ":", None),
    "output error": ("#0072B2", "-", {"method": "output-error", "options": {"time_limit": 60}}),
    "WENDy-MLE": ("#E69F00", "-", {"method": "mle"}),
    "wendy (default)": ("#D55E00", "--", {"method": "wendy"}),
}


def errors(T: float, runs: int) -> dict[str, np.ndarray]:
    """Relative coefficient errors of all methods, `(runs,)` each."""
    problem = wf.problems.get("lorenz")
    found: dict[str, list[float]] = {label: [] for label in METHODS}
    for seed in range(runs):
        data = problem.simulate(M=round(T / STEP), noise=NOISE, seed=seed, duration=T)
        start = problem.start(seed)
        for label, (_, _, arguments) in METHODS.items():
            p = start
            if arguments is not None:
                p = wf.fit(problem.model, data, bounds=problem.bounds, start=start, starts=1, **arguments).estimate
            found[label].append(float(np.linalg.norm(p - problem.parameters) / np.linalg.norm(problem.parameters)))
    return {label: np.array(values) for label, values in found.items()}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    picture = Path(sys.argv[2] if len(sys.argv) > 2 else "lorenz.png")
    print(f"{'T':>5s}" + "".join(f"{label:>18s}" for label in METHODS) + "   (mean of the runs)", flush=True)
    curves: dict[str, list[np.ndarray]] = {label: [] for label in METHODS}
    for T in TIMES:
        found = errors(T, runs)
        for label, values in found.items():
            curves[label].append(values)
        print(f"{T:5g}" + "".join(f"{found[label].mean():18.2%}" for label in METHODS), flush=True)
    plt = pyplot()
    problem = wf.problems.get("lorenz")
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1, 1.6))
        data = problem.simulate(M=3000, noise=NOISE, seed=0, duration=30.0)
        truth, values = data.truth.states, data.trajectories[0].values
        left.plot(values[:, 0], values[:, 2], ".", color="#999999", ms=1.5, label="data")
        left.plot(truth[:, 0], truth[:, 2], color="black", lw=0.6, label="noise-free")
        left.set(xlabel="u1", ylabel="u3", title="data, T = 30")
        left.legend(loc="upper center", ncols=2, fontsize=8)
        for label, (colour, line, _) in METHODS.items():
            mean = [values.mean() for values in curves[label]]
            right.plot(TIMES, mean, line, color=colour, marker="o", ms=3, label=label)
        right.set(
            yscale="log", xlabel="T", ylabel="relative coefficient error", title=f"mean of {runs} runs, 10% noise"
        )
        right.set_xticks(TIMES)
        right.legend(fontsize=8)
    print("Picture:", save(left, picture))


if __name__ == "__main__":
    main()
