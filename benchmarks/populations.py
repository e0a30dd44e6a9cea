"""Random effects against the truth: 20 subjects of 10 samples, 30% spread.

    python benchmarks/populations.py [RUNS]

One compartment after an intravenous dose of 100: `ke` and `V` are log-normal over the subjects, 10% noise.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import weakform as wf

MODEL = "A' = -ke*A\nC = A/V\nA(0) = 100"
TRUTH = {"ke": 0.3, "V": 20.0}
SPREAD, NOISE, SUBJECTS = 0.3, 0.1, 20
TIMES = np.linspace(0.5, 12, 10)


def population(seed: int) -> wf.Dataset:
    """The data of one population."""
    rng = np.random.default_rng([seed, 21])
    parts = []
    for _ in range(SUBJECTS):
        ke, V = (value * np.exp(SPREAD * rng.standard_normal()) for value in TRUTH.values())
        values = 100 / V * np.exp(-ke * TIMES) * np.exp(NOISE * rng.standard_normal(len(TIMES)))
        parts.append(wf.Dataset(TIMES, values, names=["C"], noise="lognormal"))
    return wf.Dataset.join(parts, labels=[f"s{k}" for k in range(SUBJECTS)])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    model, begin = wf.Model.from_text(MODEL), time.process_time()
    rows: dict[str, list[tuple[float, bool, float, bool]]] = {name: [] for name in TRUTH}
    failed = 0
    for seed in range(runs):
        found = wf.fit(model, population(seed), random=list(TRUTH), bounds={"ke": (0.01, 5), "V": (1, 200)}).population
        if found is None or not found.converged:
            failed += 1
            continue
        for name, truth in TRUTH.items():
            e = found[name]
            inside = e.mean_interval[0] < truth < e.mean_interval[1]
            spread = e.spread_interval[0] < SPREAD < e.spread_interval[1]
            rows[name].append((e.mean / truth - 1, inside, e.spread / SPREAD - 1, spread))
    print(f"{runs} populations, {failed} not converged, {time.process_time() - begin:.0f} CPU s")
    print("| parameter | bias of the mean | coverage | bias of the spread | coverage |\n|---|---|---|---|---|")
    for name, found in rows.items():
        a = np.array(found, dtype=float).mean(axis=0)
        print(f"| {name} | {a[0]:+.1%} | {a[1]:.0%} | {a[2]:+.1%} | {a[3]:.0%} |")


if __name__ == "__main__":
    main()
