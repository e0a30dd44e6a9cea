"""Random effects compared with their true values: 20 subjects with 10 samples each, 30% spread.

    python benchmarks/populations.py [RUNS]

The model is one compartment after an intravenous dose of 100. `ke` and `V` are log-normal over the subjects, with 10%
noise.
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
    """Return the data of one population."""
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
        fit = wf.fit(model, population(seed), random=list(TRUTH), bounds={"ke": (0.01, 5), "V": (1, 200)})
        if fit.population is None or not fit.population.converged:
            failed += 1
            continue
        for name, truth in TRUTH.items():
            e = fit.population[name]
            inside = e.mean_interval[0] < truth < e.mean_interval[1]
            spread = e.spread_interval[0] < SPREAD < e.spread_interval[1]
            rows[name].append((e.mean / truth - 1, inside, e.spread / SPREAD - 1, spread))
    print(f"{runs} populations, {failed} not converged, {time.process_time() - begin:.0f} CPU s")
    print("| parameter | bias of the mean | coverage | bias of the spread | coverage |\n|---|---|---|---|---|")
    for name, values in rows.items():
        a = np.array(values, dtype=float).mean(axis=0)
        print(f"| {name} | {a[0]:+.1%} | {a[1]:.0%} | {a[2]:+.1%} | {a[3]:.0%} |")


if __name__ == "__main__":
    main()
