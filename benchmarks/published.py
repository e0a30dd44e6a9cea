"""Problems of published comparisons, with the same noise and the same measures of error.

    python benchmarks/published.py [rows, default: all] [runs]

Rows are separated by commas. `runs` replaces a row's own number of data sets:

- `fenrir`: Lotka–Volterra and FitzHugh–Nagumo with 21 and 20 samples, two levels of noise, parameters between 0 and
  100. The columns are the median over the runs of the root mean square distance between fitted and true states at the
  samples, and the runs whose parameters are more than 50% off. The same runs are listed for least squares around a
  solver that is started at the true parameters: they show where the likelihood of the same draws has its maximum;
- `magi`: FitzHugh–Nagumo with 41 samples, and protein transduction with 15 samples at two levels of noise: the mean
  over the runs of the root mean square error of each state, solved again from the estimate;
- `sciml`: Lorenz and FitzHugh–Nagumo in wide boxes, without noise and with 5% noise: error of the parameters, CPU time.

SEIR and Hes1 are rows of `hidden.py`, published PEtab problems are in `shooting.py`, and other tools in `peers.py`.
Every fit is the default with the bounds of the problem, and estimates the initial state. Seeds are 0, 1, 2, …
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
        """The model, with its parameters in the order of `truth`."""
        return wf.Model.from_text(self.text, parameters=list(self.names))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters, in the order of `truth`."""
        return NAMES[self.text]

    def solved(self, p=None, initial=None) -> np.ndarray:
        """Return the states at the samples, `(time, D)`; by default with the true parameters."""
        p, initial = self.truth if p is None else p, self.initial if initial is None else initial
        return wf.simulate(self.model, p, initial, self.times, rtol=1e-10, atol=1e-12).states

    def data(self, seed: int) -> tuple[wf.Dataset, np.ndarray]:
        """Return one draw of the data, and the true states `(time, D)`."""
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
    """Return the setting of Lotka and Volterra's model."""
    return Setting(LOTKA, (2.0, 1.0, 4.0, 1.0), (5.0, 3.0), np.arange(21) / 10, sigma, (WIDE,) * 4)


def fitzhugh(sigma: float, times: np.ndarray) -> Setting:
    """Return a setting of FitzHugh and Nagumo's model."""
    return Setting(FITZHUGH, (0.2, 0.2, 3.0), (-1.0, 1.0), times, sigma, (WIDE,) * 3)


def protein(sigma: float) -> Setting:
    """Return the setting of protein transduction."""
    times = np.array([0, 1, 2, 4, 5, 7, 10, 15, 20, 30, 40, 50, 60, 80, 100.0])
    truth = (0.07, 0.6, 0.05, 0.3, 0.017, 0.3)
    return Setting(PROTEIN, truth, (1.0, 0.0, 1.0, 0.0, 0.0), times, sigma, ((0.0, 4.0),) * 6)


def sciml(sigma: float) -> dict[str, Setting]:
    """Return the settings of the SciML benchmarks, by name."""
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
    """Result of one fit.

    Attributes
    ----------
    status : str
    cpu : float
    off : float
        Relative error of the parameters.
    distance : float
        Root mean square distance between fitted and true states.
    rmse : ndarray, (D,)
        Root mean square error of each state, solved again from the estimate.
    """

    status: str
    cpu: float
    off: float
    distance: float
    rmse: np.ndarray


def attempt(setting: Setting, seed: int, **arguments: object) -> Ended:
    """Fit one draw of a setting."""
    data, true = setting.data(seed)
    begin = time.process_time()
    bounds = dict(zip(setting.names, setting.box, strict=True))
    try:
        fit = wf.fit(setting.model, data, bounds=bounds, **arguments)
    except wf.WeakformError as error:
        rmse = np.full(true.shape[1], np.inf)
        return Ended(f"no fit: {str(error)[:80]}", time.process_time() - begin, np.inf, np.inf, rmse)
    cpu = time.process_time() - begin
    truth = np.array(setting.truth)
    off = float(np.linalg.norm(fit.estimate - truth) / np.linalg.norm(truth))
    fitted = fit.denoised[0]
    solved = setting.solved(fit.estimate, fitted[0])
    return Ended(
        fit.status.name,
        cpu,
        off,
        float(np.sqrt(np.mean(np.sum((fitted - true) ** 2, axis=1)))),
        np.sqrt(np.mean((solved - true) ** 2, axis=0)),
    )


def _job(arguments: tuple[str, str, int, bool]) -> Ended:
    table, name, seed, guided = arguments
    setting = {"fenrir": FENRIR, "magi": MAGI}[table][name]
    if not guided:
        return attempt(setting, seed)
    return attempt(setting, seed, method="output-error", start=dict(zip(setting.names, setting.truth, strict=True)))


def ended(table: str, name: str, runs: int, guided: bool = False) -> list[Ended]:
    """Fit all draws; if `guided`, by output error, started at the true parameters."""
    with ProcessPoolExecutor() as pool:
        return list(pool.map(_job, [(table, name, seed, guided) for seed in range(runs)]))


def find_distant(results: list[Ended]) -> list[int]:
    """Return the seeds of fits that are more than 50% off."""
    return [seed for seed, result in enumerate(results) if not result.off <= 0.5]


def summarise(results: list[Ended]) -> str:
    """Return the number of successes and the median CPU time as text."""
    good = sum(result.status == "CONVERGED" for result in results)
    return f"{good} of {len(results)} successes, {1e3 * np.median([result.cpu for result in results]):.0f} CPU ms"


def fenrir(runs: int) -> None:
    """Print the row `fenrir`."""
    print("\nFenrir, experiment 1: median distance (its error) | runs over 50% off; the same, started at the truth")
    rng = np.random.default_rng(0)
    for name in FENRIR:
        results = ended("fenrir", name, runs)
        d = np.array([result.distance for result in results])
        error = np.std(np.median(rng.choice(d, (1000, len(d))), axis=1))
        lost, guided = find_distant(results), find_distant(ended("fenrir", name, runs, guided=True))
        words = f"{len(lost)} {lost or ''}; {len(guided)} {guided or ''}"
        print(f"| {name:30s} | {np.median(d):.4f} ({error:.4f}) | {words} | {summarise(results)}", flush=True)


def magi(runs: int) -> None:
    """Print the row `magi`."""
    print("\nMAGI: mean rms error of each state, solved again from the estimate (median)")
    for name, setting in MAGI.items():
        results = ended("magi", name, runs)
        rmse = np.array([result.rmse for result in results])
        pairs = zip(setting.model.states, rmse.mean(axis=0), np.median(rmse, axis=0), strict=True)
        words = ", ".join(f"{state} {mean:.4f} ({median:.4f})" for state, mean, median in pairs)
        print(f"| {name:32s} | {words} | {summarise(results)}", flush=True)


def sciml_row(runs: int) -> None:
    """Print the row `sciml`."""
    print("\nSciML, parameter estimation: relative error of the parameters; CPU s of the first fit, median of all fits")
    for sigma in (0.0, 0.05):
        for name, setting in sciml(sigma).items():
            results = [attempt(setting, seed) for seed in range(runs)]
            off, cpu = np.median([result.off for result in results]), np.median([result.cpu for result in results])
            times = f"{results[0].cpu:.2f}, {cpu:.2f}"
            print(f"| {name:16s} | {sigma:.0%} | {off:.1e} | {times} | {summarise(results)}", flush=True)


ROWS = {"fenrir": (fenrir, 100), "magi": (magi, 100), "sciml": (sciml_row, 10)}


def main() -> None:
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(ROWS)
    for name in names:
        print_row, runs = ROWS[name]
        print_row(int(sys.argv[2]) if len(sys.argv) > 2 else runs)


if __name__ == "__main__":
    main()
