"""Simulation-based calibration of `fit.sample`: the ranks of the true values among the draws are uniform.

    python benchmarks/calibration.py [RUNS] [SYSTEM]

Parameters and initial values are drawn from their priors, data are drawn from the model, and then the posterior of
these data is sampled. Over many runs the rank of each true value among the draws is uniform if the draws are from the
posterior (Talts, Betancourt, Simpson, Vehtari and Gelman 2018). The p-value is that of a χ² test with ten bins.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import numpy as np
from scipy import stats

import weakform as wf

RANKS = 99
"""About the number of draws, thinned, among which a true value is ranked."""
BINS = 10
"""Bins of the χ² test."""


@dataclass(frozen=True)
class System:
    """A model with its data: equations with initial values as parameters, log-normal priors `(median, sd)`, columns."""

    text: str
    priors: dict[str, tuple[float, float]]
    measured: tuple[str, ...]
    times: np.ndarray
    sigma: float


SYSTEMS = {
    "logistic": System(
        "N' = r*N*(1 - N/K)\nN(0) = N0",
        {"r": (1.0, 0.3), "K": (1.0, 0.3), "N0": (0.05, 0.3)},
        ("N",),
        np.linspace(0, 8, 20),
        0.05,
    ),
    "lotka-volterra, predator hidden": System(
        "x' = a*x - b*x*y\ny' = d*x*y - c*y\nx(0) = x0\ny(0) = y0",
        {"a": (3, 0.1), "b": (1, 0.1), "c": (2, 0.1), "d": (1, 0.1), "x0": (1, 0.1), "y0": (1, 0.1)},
        ("x",),
        np.linspace(0, 4, 30),
        0.2,
    ),
    "goodwin": System(
        "u1' = p1/(2.15 + p3*u3^p4) - p2*u1\nu2' = p5*u1 - p6*u2\nu3' = p7*u2 - p8*u3\n"
        "u1(0) = v1\nu2(0) = v2\nu3(0) = v3",
        {
            "p1": (3.4884, 0.1),
            "p2": (0.0969, 0.1),
            "p3": (1.0, 0.1),
            "p4": (10.0, 0.1),
            "p5": (0.0969, 0.1),
            "p6": (0.0581, 0.1),
            "p7": (0.0969, 0.1),
            "p8": (0.0775, 0.1),
            "v1": (0.3617, 0.1),
            "v2": (0.9137, 0.1),
            "v3": (1.3934, 0.1),
        },
        ("u1", "u2", "u3"),
        np.linspace(0, 80, 41),
        0.05,
    ),
}


def ranks(system: System, seed: int, draws: int = 300) -> dict[str, float] | None:
    """Return the share of draws below each true value in one run; None if the posterior could not be sampled."""
    rng = np.random.default_rng([seed, 11])
    model = wf.Model.from_text(system.text)
    truth = {name: centre * np.exp(spread * rng.standard_normal()) for name, (centre, spread) in system.priors.items()}
    begin = model.build_map("g")(
        np.zeros(1), np.ones((1, len(model.states))), np.array([truth[n] for n in model.parameters])
    )
    solved = wf.simulate(model, truth, begin[0], system.times)
    columns = [model.states.index(name) for name in system.measured]
    values = solved.states[:, columns]
    noisy = values + system.sigma * rng.standard_normal(values.shape)
    data = wf.Dataset(system.times, noisy, names=list(system.measured), sigma=np.full(len(columns), system.sigma))
    fit = wf.fit(
        model,
        data,
        priors={name: ("lognormal", *prior) for name, prior in system.priors.items()},
        log=list(system.priors),
        start={name: centre for name, (centre, _) in system.priors.items()},
        starts=2,
        seed=seed,
    )
    try:
        posterior = fit.sample(draws, chains=2, seed=seed)
    except wf.FitError:
        return None
    # Successive draws of a chain are correlated, so they are thinned.
    step = max(1, posterior.draws.shape[1] * 2 // RANKS)
    return {name: float(np.mean(posterior[name][::step] < truth[name])) for name in system.priors}


def calibrated(system: System, runs: int) -> tuple[dict[str, float], int]:
    """Return the p-values of the test for uniform ranks, by name, and the number of runs that failed."""
    shares = [ranks(system, seed) for seed in range(runs)]
    good = [share for share in shares if share is not None]
    values = {}
    for name in system.priors:
        counts, _ = np.histogram([share[name] for share in good], BINS, (0, 1))
        values[name] = float(stats.chisquare(counts).pvalue)
    return values, runs - len(good)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    chosen = sys.argv[2:] or list(SYSTEMS)
    print(
        "| system | runs | failed | smallest p-value, times the number of quantities | CPU s |\n|---|---|---|---|---|"
    )
    for name in chosen:
        begin = time.process_time()
        values, failed = calibrated(SYSTEMS[name], runs)
        least = min(values, key=values.__getitem__)
        joint = min(1.0, values[least] * len(values))
        spent = time.process_time() - begin
        print(f"| {name} | {runs} | {failed} | {joint:.2f} ({least}) | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
