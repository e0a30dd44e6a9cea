"""The problems, noise and metrics of published comparisons, with our numbers beside theirs.

    python benchmarks/published.py [rows, default: all] [runs]

Rows, separated by commas; `runs` is the number of data sets in place of a row's own:

- `fenrir`: Lotka–Volterra and FitzHugh–Nagumo, 21 and 20 samples, two levels of noise, parameters between 0 and 100:
  the median over runs of the root mean square distance between fitted and true states at the samples, and the runs
  whose parameters are more than 50% off, beside those of least squares around a solver that was started at the truth,
  which is where the likelihood of the same draws has its maximum;
- `magi`: FitzHugh–Nagumo, 41 samples, and protein transduction, 15 samples at two levels of noise: the mean over runs
  of the root mean square error of each state, solved again from the estimate;
- `sciml`: Lorenz and FitzHugh–Nagumo without noise in wide boxes, and with 5% of it: error of the parameters, CPU.

SEIR and Hes1 are rows of `hidden.py`, published PEtab problems are in `shooting.py`, what a user would pick instead in
`peers.py`. Every fit is the default with the bounds of the problem, and estimates the initial state. Seeds: 0, 1, 2, …
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np

import weakform as wf


@dataclass(frozen=True)
class Setting:
    """A problem of a published comparison."""

    text: str
    truth: tuple[float, ...]
    initial: tuple[float, ...]
    times: np.ndarray
    sigma: float
    box: tuple[tuple[float, float], ...]
    relative: bool = False

    @property
    def model(self) -> wf.Model:
        """Its parameters in the order of the truth."""
        return wf.Model.from_text(self.text, parameters=list(self.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the parameters, in the order of the truth."""
        return NAMES[self.text]

    def solved(self, p=None, initial=None) -> np.ndarray:
        """The states at the samples."""
        p, initial = self.truth if p is None else p, self.initial if initial is None else initial
        return wf.simulate(self.model, p, initial, self.times, rtol=1e-10, atol=1e-12).states

    def data(self, seed: int) -> tuple[wf.Dataset, np.ndarray]:
        """One draw, and the true states."""
        true = self.solved()
        sigma = self.sigma * true.std(axis=0) if self.relative else self.sigma
        noise = sigma * np.random.default_rng(seed).standard_normal(true.shape)
        return wf.Dataset(self.times, true + noise, names=self.model.states), true


LOTKA = "x' = alpha*x - beta*x*y\ny' = -delta*y + gamma*x*y"
FITZHUGH = "V' = c*(V - V**3/3 + R)\nR' = -(V - a + b*R)/c"
PROTEIN = (
    "S' = -k1*S - k2*S*R + k3*RS\nD' = k1*S\nR' = -k2*S*R + k3*RS + V*Rpp/(Km + Rpp)\n"
    "RS' = k2*S*R - (k3 + k4)*RS\nRpp' = k4*RS - V*Rpp/(Km + Rpp)"
)
LORENZ = "x' = s*(y - x)\ny' = x*(r - z) - y\nz' = x*y - b*z"
NEURON = "v' = v - v**3/3 - w + l\nw' = tau*(v + a - b*w)"
NAMES = {
    LOTKA: ("alpha", "beta", "delta", "gamma"),
    FITZHUGH: ("a", "b", "c"),
    PROTEIN: ("k1", "k2", "k3", "k4", "V", "Km"),
    LORENZ: ("s", "r", "b"),
    NEURON: ("a", "b", "tau", "l"),
}
WIDE = (0.0, 100.0)


def lotka(sigma: float) -> Setting:
    return Setting(LOTKA, (2.0, 1.0, 4.0, 1.0), (5.0, 3.0), np.arange(21) / 10, sigma, (WIDE,) * 4)


def fitzhugh(sigma: float, times: np.ndarray) -> Setting:
    return Setting(FITZHUGH, (0.2, 0.2, 3.0), (-1.0, 1.0), times, sigma, (WIDE,) * 3)


def protein(sigma: float) -> Setting:
    times = np.array([0, 1, 2, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100.0])
    truth = (0.07, 0.6, 0.05, 0.3, 0.017, 0.3)
    return Setting(PROTEIN, truth, (1.0, 0.0, 1.0, 0.0, 0.0), times, sigma, ((0.0, 4.0),) * 6)


def sciml(sigma: float) -> dict[str, Setting]:
    grid = np.arange(3001) / 100
    boxes = ((0.0, 22.0), (0.0, 60.0), (0.0, 6.0))
    return {
        "Lorenz": Setting(LORENZ, (10.0, 28.0, 2.66), (1.0, 0.0, 0.0), grid, sigma, boxes, relative=True),
        "FitzHugh–Nagumo": Setting(
            NEURON, (0.7, 0.8, 0.08, 0.5), (1.0, 1.0), grid, sigma, ((0.0, 5.0),) * 4, relative=True
        ),
    }


FENRIR = {
    "Lotka–Volterra, σ = 0.1": lotka(0.1),
    "Lotka–Volterra, σ = 0.5": lotka(0.5),
    "FitzHugh–Nagumo, σ² = 0.005": fitzhugh(0.005**0.5, np.linspace(0, 10, 20)),
    "FitzHugh–Nagumo, σ² = 0.05": fitzhugh(0.05**0.5, np.linspace(0, 10, 20)),
}
MAGI = {
    "FitzHugh–Nagumo, σ = 0.2": fitzhugh(0.2, np.linspace(0, 20, 41)),
    "protein transduction, σ = 0.001": protein(0.001),
    "protein transduction, σ = 0.01": protein(0.01),
}


@dataclass(frozen=True)
class Ended:
    """One fit: parameters off from the truth, over the truth; rms errors of states, and of states solved again."""

    status: str
    cpu: float
    off: float
    distance: float
    rmse: np.ndarray


def attempt(setting: Setting, seed: int, **told: object) -> Ended:
    data, true = setting.data(seed)
    begin = time.process_time()
    bounds = dict(zip(setting.names, setting.box, strict=True))
    try:
        fit = wf.fit(setting.model, data, bounds=bounds, **told)
    except wf.WeakformError as error:
        nothing = np.full(true.shape[1], np.inf)
        return Ended(f"no fit: {str(error)[:80]}", time.process_time() - begin, np.inf, np.inf, nothing)
    cpu = time.process_time() - begin
    truth = np.array(setting.truth)
    off = float(np.linalg.norm(fit.estimate - truth) / np.linalg.norm(truth))
    fitted = fit.denoised[0]
    again = setting.solved(fit.estimate, fitted[0])
    return Ended(
        fit.status.name,
        cpu,
        off,
        float(np.sqrt(np.mean(np.sum((fitted - true) ** 2, axis=1)))),
        np.sqrt(np.mean((again - true) ** 2, axis=0)),
    )


def _job(arguments: tuple[str, str, int, bool]) -> Ended:
    table, name, seed, guided = arguments
    setting = {"fenrir": FENRIR, "magi": MAGI}[table][name]
    if not guided:
        return attempt(setting, seed)
    return attempt(setting, seed, method="output-error", start=dict(zip(setting.names, setting.truth, strict=True)))


def ended(table: str, name: str, runs: int, guided: bool = False) -> list[Ended]:
    """The fits of all draws; `guided` are those of output error, started at the truth."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_job, [(table, name, seed, guided) for seed in range(runs)]))


def far(all_: list[Ended]) -> list[int]:
    """The seeds of fits that are more than 50% off."""
    return [seed for seed, one in enumerate(all_) if not one.off <= 0.5]


def told(all_: list[Ended]) -> str:
    """How many succeeded, and the median of their CPU times."""
    good = sum(one.status == "CONVERGED" for one in all_)
    return f"{good} of {len(all_)} successes, {1e3 * np.median([one.cpu for one in all_]):.0f} CPU ms"


def fenrir(runs: int) -> None:
    print("\nFenrir, experiment 1: median distance (its error); runs off by over 50%, ours; solved from the truth")
    rng = np.random.default_rng(0)
    for name in FENRIR:
        all_ = ended("fenrir", name, runs)
        d = np.array([one.distance for one in all_])
        error = np.std(np.median(rng.choice(d, (1000, len(d))), axis=1))
        lost, likeliest = far(all_), far(ended("fenrir", name, runs, guided=True))
        words = f"{len(lost)} {lost or ''}; {len(likeliest)} {likeliest or ''}"
        print(f"| {name:30s} | {np.median(d):.4f} ({error:.4f}) | {words} | {told(all_)}", flush=True)


def magi(runs: int) -> None:
    print("\nMAGI: mean rms error of each state, solved again from the estimate (median)")
    for name, setting in MAGI.items():
        all_ = ended("magi", name, runs)
        rmse = np.array([one.rmse for one in all_])
        pairs = zip(setting.model.states, rmse.mean(axis=0), np.median(rmse, axis=0), strict=True)
        words = ", ".join(f"{state} {mean:.4f} ({median:.4f})" for state, mean, median in pairs)
        print(f"| {name:32s} | {words} | {told(all_)}", flush=True)


def sciml_row(runs: int) -> None:
    print("\nSciML, parameter estimation: relative error of the parameters, CPU s of the first fit, of all (median)")
    for sigma in (0.0, 0.05):
        for name, setting in sciml(sigma).items():
            all_ = [attempt(setting, seed) for seed in range(runs)]
            off, cpu = np.median([one.off for one in all_]), np.median([one.cpu for one in all_])
            print(f"| {name:16s} | {sigma:.0%} | {off:.1e} | {all_[0].cpu:.2f}, {cpu:.2f} | {told(all_)}", flush=True)


ROWS = {"fenrir": (fenrir, 100), "magi": (magi, 100), "sciml": (sciml_row, 10)}


def main() -> None:
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(ROWS)
    for name in names:
        do, runs = ROWS[name]
        do(int(sys.argv[2]) if len(sys.argv) > 2 else runs)


if __name__ == "__main__":
    main()
