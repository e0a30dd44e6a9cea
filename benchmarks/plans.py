"""Comparison of the smaller errors that `fit.design` predicts with those that further samples realise.

    python benchmarks/plans.py [RUNS]

Michaelis–Menten with 25 samples and 2% noise, and ten more samples in one window. The predicted value is the mean over
the runs; the realised value is the ratio of the root mean square errors.
"""

from __future__ import annotations

import sys

import numpy as np

import weakform as wf

MODEL, TRUTH, NOISE = wf.Model.from_text("S' = -Vmax*S/(Km + S)"), {"Vmax": 1.0, "Km": 0.5}, 0.02
T = np.linspace(0, 6, 25)


def fitted(times: np.ndarray, seed: int) -> wf.FitResult:
    """Fit one draw of the data at some times."""
    u = wf.simulate(MODEL, TRUTH, [3.0], times).states
    values = u + NOISE * np.random.default_rng(seed).standard_normal(u.shape)
    return wf.fit(MODEL, wf.Dataset(times, values, sigma=[NOISE]), bounds={"Vmax": (0.1, 5), "Km": (0.01, 5)})


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    truth = np.array([TRUTH[name] for name in MODEL.parameters])
    before = [fitted(T, seed) for seed in range(runs)]
    base = np.sqrt(np.mean([(fit.estimate - truth) ** 2 for fit in before], axis=0))
    print("| window | " + " | ".join(f"{name}, predicted | realised" for name in MODEL.parameters) + " |")
    print("|---|" + "---|---|" * len(truth))
    for low in (0.5, 2.0, 4.0):
        more = np.linspace(low + 0.01, low + 1.51, 10)
        predicted = np.mean([fit.design({"more": more}).experiments["more"] / fit.errors for fit in before], axis=0)
        after = [fitted(np.sort(np.concatenate([T, more])), 10**6 + seed).estimate - truth for seed in range(runs)]
        realised = np.sqrt(np.mean(np.square(after), axis=0)) / base
        cells = " | ".join(f"{a:.0%} | {b:.0%}" for a, b in zip(predicted, realised, strict=True))
        print(f"| {low:g} to {low + 1.5:g} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
