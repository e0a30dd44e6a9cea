"""Cases of the reference fits: named functions that return a model, data, and the keywords of `weakform.fit`.

Only the public interface is used, so that the cases outlive every renaming inside the package. All random numbers come
from explicit seeds. Building a case costs nothing until its function is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import weakform as wf

EXAMPLES = Path(__file__).parents[2] / "examples"

Case = tuple[wf.Model, wf.Dataset, dict[str, Any]]
Array = np.ndarray

LOTKA = "x' = a*x - b*x*y\ny' = -c*y + d*x*y"
LOTKA_TRUTH = {"a": 3.0, "b": 1.0, "c": 6.0, "d": 1.0}
GROWTH = "N' = r*N*(1 - N/K)"
DECAY = "x' = -k*x"
CHAIN = "x' = -a*x\nw' = a*x - b*w"
PLAGUE = "S' = -beta*S*I\nI' = beta*S*I - gamma*I\n"
ORAL = "A' = -ka*A\nC' = ka*A/V - ke*C\nA(0) = 0\nC(0) = 0"
ORAL_TRUTH = {"V": 20.0, "ka": 1.2, "ke": 0.15}
ORAL_BOUNDS = {"V": (1, 100), "ka": (0.5, 10), "ke": (0.01, 0.5)}
ORAL_TIMES = np.array([0.5, 1, 2, 4, 8, 12, 24.5, 25, 26, 28, 32, 36, 48.0])


# Data.


def solve(text: str, truth: Mapping[str, float], initial: Sequence[float] | None, times: Array) -> Array:
    """Return the true states `(time, D)` at some times, from t = 0 unless the first time is earlier."""
    model = wf.Model.from_text(text)
    grid = times if times[0] <= 0 else np.append(0.0, times)
    values = {name: truth[name] for name in model.parameters}
    return wf.simulate(model, values, initial, grid, rtol=1e-10).states[-len(times) :]


def add_noise(values: Array, seed: int, sigma: float) -> Array:
    """Return values with Gaussian noise of standard deviation `sigma`."""
    return values + sigma * np.random.default_rng(seed).standard_normal(values.shape)


def scale_by_noise(values: Array, seed: int, sigma: float) -> Array:
    """Return values with log-normal noise; `sigma` is the standard deviation of the logarithm."""
    return values * np.exp(sigma * np.random.default_rng(seed).standard_normal(values.shape))


def finite_bounds(problem: Any) -> dict[str, tuple[float, float]]:
    """Return the bounds of a benchmark problem that are finite, by parameter."""
    return {name: pair for name, pair in problem.bounds.items() if np.isfinite(pair).all()}


# The benchmark problems of weakform.problems, those at the edges included.


def benchmark(name: str, M: int, noise: float, seed: int, /, by_state: bool = False, **keywords: Any) -> Case:
    """Return a benchmark problem with M + 1 even samples, within its bounds; `seed` is that of the noise.

    The keywords are arguments of `fit`, which has a separate `seed`.
    """
    problem = wf.problems.get(name)
    bounds = finite_bounds(problem)
    data = problem.simulate(M=M, noise=noise, seed=seed, by_state=by_state)
    return problem.model, data, {**({"bounds": bounds} if bounds else {}), **keywords}


def unbounded(name: str, M: int, noise: float, seed: int, **keywords: Any) -> Case:
    """Return a benchmark problem without bounds."""
    problem = wf.problems.get(name)
    return problem.model, problem.simulate(M=M, noise=noise, seed=seed), keywords


def other_noise(name: str, kind: str, M: int, noise: float | None, seed: int) -> Case:
    """Return a benchmark problem with another kind of noise."""
    problem = wf.problems.get(name).with_noise(kind)
    return problem.model, problem.simulate(M=M, noise=noise, seed=seed), {"bounds": problem.bounds}


def gaps(name: str, M: int, noise: float, seed: int, share: float) -> Case:
    """Return a benchmark problem with a random share of its values missing."""
    problem = wf.problems.get(name)
    trajectory = problem.simulate(M=M, noise=noise, seed=seed).trajectories[0]
    missing = np.random.default_rng(seed).random(trajectory.values.shape) < share
    values = np.where(missing, np.nan, trajectory.values)
    return (
        problem.model,
        wf.Dataset(trajectory.times, values, problem.noise),
        {"bounds": finite_bounds(problem)},
    )


def gap_in_the_middle(name: str, M: int, noise: float, seed: int, share: float) -> Case:
    """Return a benchmark problem with all values missing around the middle of its duration."""
    problem = wf.problems.get(name)
    trajectory = problem.simulate(M=M, noise=noise, seed=seed, by_state=True).trajectories[0]
    missing = np.abs(trajectory.times / problem.duration - 0.5) < share / 2
    values = np.where(missing[:, None], np.nan, trajectory.values)
    return problem.model, wf.Dataset(trajectory.times, values), {"bounds": finite_bounds(problem)}


def uneven_times() -> Case:
    """Return logistic growth at random times, some of which occur twice."""
    t = np.sort(np.random.default_rng(4).uniform(0, 10, 50))
    t = np.sort(np.append(t, t[::10]))
    return wf.Model.from_text(GROWTH), wf.Dataset(t, add_noise(10 / (1 + 9 * np.exp(-t)), 4, 0.2)), {}


def van_der_pol(mu: float, samples: int, noise: float, seed: int, **keywords: Any) -> Case:
    """Return van der Pol's oscillator, which is stiff if mu is large."""
    problem = wf.problems.get("van-der-pol")
    truth = {**dict(zip(problem.model.parameters, problem.truth, strict=True)), "mu": mu}
    t = np.linspace(0, problem.duration, samples)
    states = wf.simulate(problem.model, truth, problem.initial, t, rtol=1e-10, max_evaluations=10**8).states
    return problem.model, wf.Dataset(t, add_noise(states, seed, noise) if noise else states), keywords


def robertson(samples: int, seed: int) -> Case:
    """Return Robertson's stiff reactions, on a logarithmic scale with bounds two decades from the truth."""
    problem = wf.problems.get("robertson")
    data = problem.simulate(M=samples - 1, noise=0.01, seed=seed, by_state=True)
    return problem.model, data, {"bounds": problem.bounds, "log": list(problem.bounds)}


# Parameters: bounds, fixed, tied, local, priors.


def growth(r: float = 1.0, K: float = 10.0, seed: int = 1, sigma: float = 0.3, samples: int = 60) -> wf.Dataset:
    """Return logistic growth from 1 to K with Gaussian noise."""
    t = np.linspace(0, 10, samples)
    return wf.Dataset(t, add_noise(K / (1 + (K - 1) * np.exp(-r * t)), seed, sigma), names=["N"])


def growing(seed: int = 1, **keywords: Any) -> Case:
    """Return logistic growth; the keywords are arguments of `fit`."""
    return wf.Model.from_text(GROWTH), growth(seed=seed), keywords


def plates(**keywords: Any) -> Case:
    """Return logistic growth on three plates, two of which have the same capacity."""
    t = np.linspace(0, 12, 40)
    parts = [
        wf.Dataset(t, add_noise(K / (1 + (K - 1) * np.exp(-0.8 * t)), seed, 0.2)) for seed, K in enumerate((10, 20, 20))
    ]
    return wf.Model.from_text(GROWTH), wf.Dataset.join(parts, ["a", "b", "c"]), keywords


def early_growth(**keywords: Any) -> Case:
    """Return growth long before saturation, which contains little information about K."""
    t = np.linspace(0, 3, 40)
    data = wf.Dataset(t, add_noise(100 / (1 + 99 * np.exp(-0.8 * t)), 1, 0.1), names=["N"])
    return wf.Model.from_text(GROWTH), data, {"bounds": {"K": (5, 1e4), "r": (0, 5)}, **keywords}


def at_a_bound(seed: int) -> Case:
    """Return a decay whose source is zero, which is its lower bound."""
    t = np.linspace(0, 6, 60)
    data = wf.Dataset(t, add_noise(5 * np.exp(-0.7 * t), seed, 0.1))
    return wf.Model.from_text("x' = -k*x + s"), data, {"bounds": {"k": (0, 5), "s": (0, 5)}}


def tied_to_local() -> Case:
    """Return decays with two rates to levels that are tied to the rates."""
    t = np.linspace(0, 5, 60)
    parts = [wf.Dataset(t, add_noise(0.5 + np.exp(-k * t), seed, 0.01)) for seed, k in enumerate((1.0, 2.0))]
    keywords = {"local": ["k"], "tied": {"s": "k/2"}}
    return wf.Model.from_text("x' = -k*x + s"), wf.Dataset.join(parts, ["a", "b"]), keywords


def lotka(seed: int = 1, noise: float = 0.05, **keywords: Any) -> Case:
    """Return Lotka and Volterra's equations with both states measured at 101 times."""
    t = np.linspace(0, 5, 101)
    states = solve(LOTKA, LOTKA_TRUTH, [1.0, 1.0], t)
    sigma = noise * np.sqrt(np.mean(states**2))
    return wf.Model.from_text(LOTKA), wf.Dataset(t, add_noise(states, seed, sigma), names=["x", "y"]), keywords


def lotka_with_known_sigma(sigma: str) -> Case:
    """Return Lotka and Volterra's equations with σ given as a number, by state, by point, or as a covariance."""
    t = np.linspace(0, 5, 81)
    states = solve(LOTKA, LOTKA_TRUTH, [1.0, 1.0], t)
    size = np.array([0.3, 0.2])
    by_point = size * (1 + 0.5 * np.sin(t))[:, None]
    draws = np.random.default_rng(7).standard_normal(states.shape)
    covariance = np.array([[0.09, 0.03], [0.03, 0.04]])
    sigma_argument, errors = {
        "number": (0.25, 0.25 * draws),
        "states": (size, size * draws),
        "points": (by_point, by_point * draws),
        "covariance": (covariance, draws @ np.linalg.cholesky(covariance).T),
        "too small": (0.05, 0.25 * draws),
    }[sigma]
    return wf.Model.from_text(LOTKA), wf.Dataset(t, states + errors, sigma=sigma_argument, names=["x", "y"]), {}


def own_noise() -> Case:
    """Return two trajectories with noise of different size."""
    t = np.linspace(0, 10, 60)
    w = solve(CHAIN, {"a": 0.5, "b": 0.3}, [2.0, 0.4], t)[:, 1]
    parts = [wf.Dataset(t, add_noise(w, seed, sigma), names=["w"]) for seed, sigma in ((2, 0.002), (3, 0.05))]
    data = wf.Dataset.join(parts, own_noise=True)
    return wf.Model.from_text(CHAIN), data, {"bounds": {"a": (0.4, 1), "b": (0, 0.4)}}


# Hidden states.


def prey_only(seed: int, samples: int, **keywords: Any) -> Case:
    """Return Lotka and Volterra's equations with only the prey measured."""
    t = np.linspace(0, 5, samples)
    x = solve(LOTKA, LOTKA_TRUTH, [1.0, 1.0], t)[:, 0]
    data = wf.Dataset(t, add_noise(x, seed, 0.05 * np.sqrt(np.mean(x**2))), names=["x"])
    return wf.Model.from_text(LOTKA), data, {"bounds": dict.fromkeys("abcd", (0, 10)), **keywords}


def one_state(name: str, column: int, samples: int, seed: int) -> Case:
    """Return a benchmark problem with one measured state, number `column`, and 5% noise."""
    problem = wf.problems.get(name)
    t = np.linspace(0, problem.duration, samples)
    states = wf.simulate(problem.model, problem.truth, problem.initial, t, rtol=1e-10).states
    x = states[:, column]
    data = wf.Dataset(t, add_noise(x, seed, 0.05 * np.sqrt(np.mean(x**2))), names=[problem.model.states[column]])
    return problem.model, data, {"bounds": finite_bounds(problem)}


def hidden_chain(seed: int, **keywords: Any) -> Case:
    """Return a chain of two states, the second of which is measured."""
    t = np.linspace(0, 10, 60)
    w = solve(CHAIN, {"a": 0.5, "b": 0.3}, [2.0, 0.4], t)[:, 1]
    return wf.Model.from_text(CHAIN), wf.Dataset(t, add_noise(w, seed, 0.005), names=["w"]), keywords


def counted_cases(seed: int) -> Case:
    """Return an epidemic in which a share of the recoveries is counted."""
    text = PLAGUE + "cases = rho*gamma*N*I + background\nS(0) = 1 - I0\nI(0) = I0"
    t = np.arange(60.0)
    infected = solve(PLAGUE, {"beta": 1.5, "gamma": 0.5}, [0.998, 0.002], t)[:, 1]
    counts = np.random.default_rng(seed).poisson(0.4 * 0.5 * 1e4 * infected + 5.0).astype(float)
    keywords = {
        "bounds": {"beta": (0, 10), "gamma": (0, 5), "I0": (0, 0.1)},
        "fixed": {"N": 1e4, "rho": 0.4, "background": 5.0},
    }
    return wf.Model.from_text(text), wf.Dataset(t, counts, "poisson", names=["cases"]), keywords


def plasma(seed: int, **keywords: Any) -> Case:
    """Return the concentration after an oral dose, with given initial values."""
    text = "A' = -ka*A\nB' = ka*A - ke*B\nconc = B/V\nA(0) = 300\nB(0) = 0"
    hours = np.array([0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24])
    B = 300 * 1.2 / (1.2 - 0.25) * (np.exp(-0.25 * hours) - np.exp(-1.2 * hours))
    data = wf.Dataset(hours, scale_by_noise(B / 30, seed, 0.1), "lognormal", names=["conc"])
    return wf.Model.from_text(text), data, keywords


def oscillator_without_velocity() -> Case:
    """Return a second-order equation whose position is measured."""
    t = np.linspace(0, 10, 81)
    x = solve("x' = v\nv' = -w*x - c*v", {"w": 2.0, "c": 0.2}, [1.0, 0.0], t)[:, 0]
    return wf.Model.from_text("x'' = -w*x - c*x'"), wf.Dataset(t, add_noise(x, 1, 0.02), names=["x"]), {}


def local_chain() -> Case:
    """Return three trajectories with different initial states; two of them share a rate."""
    text, t = "x' = -k*x\ny' = k*x - m*y", np.linspace(0, 5, 25)
    parts = []
    for seed, (k, x0) in enumerate(((0.5, 2.0), (1.0, 4.0), (1.0, 1.0))):
        y = solve(text, {"k": k, "m": 0.3}, [x0, 0.5], t)[:, 1]
        parts.append(wf.Dataset(t, add_noise(y, seed, 0.01), names=["y"]))
    keywords = {
        "local": {"k": {"a": "slow", "b": "fast", "c": "fast"}},
        "bounds": {"k": (0, 5), "m": (0, 5)},
    }
    return wf.Model.from_text(text), wf.Dataset.join(parts, ["a", "b", "c"]), keywords


def late_data() -> Case:
    """Return data that begin at t = 2, with an initial value at t = 0."""
    t = np.linspace(2, 6, 20)
    data = wf.Dataset(t, add_noise(4 * np.exp(-0.5 * t), 1, 0.01), names=["x"])
    return wf.Model.from_text("x' = -k*x\nx(0) = 4"), data, {}


def hes1(seed: int) -> Case:
    """Return the oscillator Hes1 of `benchmarks/hidden.py`; H is hidden, P and M are measured at alternate times."""
    text = "P' = -a*P*H + b*M - c*P\nM' = -d*M + e/(1 + P**2)\nH' = -a*P*H + f/(1 + P**2) - g*H"
    truth = {"a": 0.022, "b": 0.3, "c": 0.031, "d": 0.028, "e": 0.5, "f": 20.0, "g": 0.3}
    t = np.arange(33) * 7.5
    values = scale_by_noise(solve(text, truth, [1.439, 2.037, 17.904], t)[:, :2], seed, 0.15)
    values[1::2, 0] = values[::2, 1] = np.nan
    bounds = {**{name: (0.0, 10 * value) for name, value in truth.items()}, "H(0)": (0.0, 179.04)}
    data = wf.Dataset(t, values, "lognormal", [0.15, 0.15], names=["P", "M"])
    return wf.Model.from_text(text), data, {"bounds": bounds}


def plague(names: Sequence[str], more: str = "", box: float = 0.1) -> Case:
    """Return the plague at Eyam in 1666 with the columns `names`, and `more` equations; `box` bounds beta."""
    data = wf.Dataset.from_csv(EXAMPLES / "eyam.csv", time="time", names=list(names), noise="poisson")
    return wf.Model.from_text(PLAGUE + more), data, {"bounds": {"beta": (0, box), "gamma": (0, 10)}}


def lynx_and_hare(**keywords: Any) -> Case:
    """Return the pelts of lynx and hare as in the README."""
    text = "hare' = a*hare - b*hare*lynx\nlynx' = -c*lynx + d*hare*lynx"
    return wf.Model.from_text(text), wf.Dataset.from_csv(EXAMPLES / "lynx_hare.csv", noise="lognormal"), keywords


def yeast() -> Case:
    """Return Carlson's yeast with logistic growth."""
    data = wf.Dataset.from_csv(EXAMPLES / "yeast.csv", time="t_h", names={"N": "yeast"})
    return wf.Model.from_text(GROWTH), data, {}


# Populations.


def subjects(kind: str | None, rates: Sequence[float], seed: int) -> Case:
    """Return decays of several subjects whose rates are random effects of a kind, log-normal if it is None."""
    t, rng = np.linspace(0, 3, 8), np.random.default_rng(seed)
    parts = [wf.Dataset(t, np.exp(-k * t) + 0.01 * rng.standard_normal(8), names=["x"]) for k in rates]
    data = wf.Dataset.join(parts, [f"s{number}" for number in range(len(rates))])
    return wf.Model.from_text("x' = -k*x\nx(0) = 1"), data, {"random": {"k": kind} if kind else ["k"]}


def one_compartment(count: int, seed: int) -> Case:
    """Return subjects after an intravenous dose whose rate and volume are random effects."""
    t, rng, parts = np.linspace(0.5, 12, 10), np.random.default_rng([seed, 21]), []
    for _ in range(count):
        ke, V = (value * np.exp(0.3 * rng.standard_normal()) for value in (0.3, 20.0))
        values = 100 / V * np.exp(-ke * t) * np.exp(0.1 * rng.standard_normal(len(t)))
        parts.append(wf.Dataset(t, values, "lognormal", names=["C"]))
    data = wf.Dataset.join(parts, [f"s{number}" for number in range(count)])
    keywords = {"random": ["ke", "V"], "bounds": {"ke": (0.01, 5), "V": (1, 200)}}
    return wf.Model.from_text("A' = -ke*A\nC = A/V\nA(0) = 100"), data, keywords


# Doses, events, switches, inputs.


def two_doses(**keywords: Any) -> Case:
    """Return two oral doses of 100, measured with 5% noise."""
    C = solve(ORAL + "\nat t = 0, 24: A = A + 100", ORAL_TRUTH, None, ORAL_TIMES)[:, 1]
    doses = wf.Doses("A", [0, 24], 100)
    data = wf.Dataset(ORAL_TIMES, scale_by_noise(C, 1, 0.05), "lognormal", names=["C"], doses=doses)
    return wf.Model.from_text(ORAL), data, {"bounds": ORAL_BOUNDS, **keywords}


def doses_in_the_model() -> Case:
    """Return the two doses as events of the model."""
    text = ORAL + "\nat t = 0, 24: A = A + 100"
    C = solve(text, ORAL_TRUTH, None, ORAL_TIMES)[:, 1]
    data = wf.Dataset(ORAL_TIMES, scale_by_noise(C, 1, 0.05), "lognormal", names=["C"])
    return wf.Model.from_text(text), data, {"bounds": ORAL_BOUNDS}


def dose_with_share_and_lag() -> Case:
    """Return doses of which only a share arrives, after a lag; share and lag are parameters."""
    C = solve(ORAL + "\nat t = 0.3, 24.3: A = A + 70", ORAL_TRUTH, None, ORAL_TIMES)[:, 1]
    doses = wf.Doses("A", [0, 24], "F*100", lag="late")
    data = wf.Dataset(ORAL_TIMES, scale_by_noise(C, 2, 0.01), "lognormal", names=["C"], doses=doses)
    keywords = {
        "bounds": {**ORAL_BOUNDS, "late": (0, 0.45), "F": (0.01, 1)},
        "fixed": {"V": 20.0},
        "method": "output-error",
        "starts": 2,
    }
    return wf.Model.from_text(ORAL), data, keywords


def infusions() -> Case:
    """Return two overlapping infusions."""
    text = "C' = (if(t < 2, 30, 0) + if(t < 1, 0, if(t < 3, 10, 0)))/V - ke*C\nC(0) = 0"
    t = np.linspace(0.25, 8, 32)
    C = solve(text, {"V": 20.0, "ke": 0.15}, None, t)
    doses = [wf.Doses("C", 0.0, "60/V", duration=2.0), wf.Doses("C", 1.0, "20/V", duration=2.0)]
    data = wf.Dataset(t, scale_by_noise(C, 3, 0.02), "lognormal", names=["C"], doses=doses)
    return wf.Model.from_text("C' = -ke*C\nC(0) = 0"), data, {"bounds": {"V": (1, 100), "ke": (0.01, 1)}}


def switch(samples: int, **keywords: Any) -> Case:
    """Return a source that is switched off at t = 5, which is between two samples or at one of them."""
    text, t = "x' = if(t < 5, a, 0) - b*x", np.linspace(0, 12, samples)
    values = add_noise(solve(text, {"a": 2.0, "b": 0.5}, [1.0], t), 0, 0.03)
    return wf.Model.from_text(text), wf.Dataset(t, values, names=["x"]), keywords


def reset() -> Case:
    """Return logistic growth; at t = 6 the state is divided by four."""
    text, t = "x' = r*x*(1 - x/K)\nat t = 6: x = x/4", np.linspace(0, 12, 60)
    values = add_noise(solve(text, {"K": 2.0, "r": 0.9}, [0.1], t), 1, 0.03)
    return wf.Model.from_text(text), wf.Dataset(t, values, names=["x"]), {}


def steady_beginning() -> Case:
    """Return a system that is in a steady state until its input changes."""
    text, t = "m' = k*s - d*m\nP' = b*m - g*P\nsteady: s = 1", np.linspace(0, 20, 40)
    steps = {"s": ([0.0, 4.0, 11.0], [1.0, 3.0, 0.5], "hold")}
    model = wf.Model.from_text(text, inputs=["s"])
    blank = wf.Dataset(t, np.column_stack([t, t]), names=["m", "P"], inputs=steps)
    truth = {"k": 2.0, "d": 0.5, "b": 1.0, "g": 0.3}
    states = wf.simulate(model, truth, None, t, inputs=blank.trajectories[0].inputs).states
    data = wf.Dataset(t, scale_by_noise(states, 0, 0.02), "lognormal", names=["m", "P"], inputs=steps)
    return model, data, {"bounds": {"k": (0.1, 10), "d": (0.01, 5), "b": (0.1, 10), "g": (0.01, 5)}}


def driven_decay() -> Case:
    """Return a decay with an input that is held between its own times."""
    model, t = wf.Model.from_text("x' = u - k*x", inputs=["u"]), np.linspace(0, 10, 50)
    steps = {"u": ([0.0, 3.3, 7.1], [1.0, 2.0, 0.0], "hold")}
    inputs = wf.Dataset(t, t, names=["x"], inputs=steps).trajectories[0].inputs
    states = wf.simulate(model, {"k": 0.5}, [0.0], t, inputs=inputs).states
    return model, wf.Dataset(t, add_noise(states, 0, 0.02), names=["x"], inputs=steps), {}


# Wrong models, wrong noise, other kinds of noise.


def decay_with_offset(trajectories: int = 1, samples: int = 39, **data_arguments: Any) -> Case:
    """Return decays to a positive level, which the model lacks."""
    t = np.linspace(0, 5, samples)
    values = [add_noise(5 * np.exp(-0.7 * t) + 1, seed, 0.1) for seed in range(trajectories)]
    parts = [wf.Dataset(t, x, **data_arguments) for x in values]
    return wf.Model.from_text(DECAY), parts[0] if trajectories == 1 else wf.Dataset.join(parts), {}


def wrong_growth(samples: int) -> Case:
    """Return logistic growth fitted by exponential growth."""
    return wf.Model.from_text("N' = r*N"), growth(samples=samples), {}


def wrong_prey() -> Case:
    """Return Lotka and Volterra's equations without their interaction in the second one."""
    _, data, _ = lotka(seed=2)
    return wf.Model.from_text("x' = a*x - b*x*y\ny' = -c*y + d*x"), data, {}


def noise_that_grows() -> Case:
    """Return data with log-normal noise, declared as Gaussian."""
    problem = wf.problems.get("lotka-volterra")
    states = problem.simulate(M=200, noise=0.0).truth.states
    t = np.linspace(0, problem.duration, 201)
    data = wf.Dataset(t, scale_by_noise(states, 1, 0.15), names=list(problem.model.states))
    return problem.model, data, {"bounds": problem.bounds}


def correlated_noise() -> Case:
    """Return data with autocorrelated noise."""
    problem = wf.problems.get("lotka-volterra")
    states = problem.simulate(M=200, noise=0.0).truth.states
    errors = np.random.default_rng(1).standard_normal(states.shape)
    for k in range(1, len(errors)):
        errors[k] = 0.6 * errors[k - 1] + 0.8 * errors[k]
    t = np.linspace(0, problem.duration, 201)
    data = wf.Dataset(t, states + 0.05 * states.std(axis=0) * errors, names=list(problem.model.states))
    return problem.model, data, {"bounds": problem.bounds}


def absurd_value(noise: str) -> Case:
    """Return logistic growth with one value of -999; `noise` is the declared kind."""
    problem = wf.problems.get("logistic")
    trajectory = problem.simulate(M=60, noise=0.03, seed=2).trajectories[0]
    values = trajectory.values.copy()
    values[16] = -999
    return problem.model, wf.Dataset(trajectory.times, values, noise, names=["u"]), {}


def counted_decay(kind: str, samples: int, seed: int) -> Case:
    """Return counts of a decay, with Poisson or overdispersed noise."""
    t, rng = np.linspace(0, 8, samples), np.random.default_rng(seed)
    mean = 30 * np.exp(-0.5 * t)
    spread = rng.gamma(3, 1 / 3, size=mean.shape) if kind == "negative-binomial" else 1.0
    return wf.Model.from_text(DECAY), wf.Dataset(t, rng.poisson(mean * spread).astype(float), kind), {}


def decay_with_outliers(share: float, seed: int) -> Case:
    """Return a decay with Student noise, and a share of gross errors."""
    t, rng = np.linspace(0, 8, 100), np.random.default_rng(seed)
    mean = 10 * np.exp(-0.5 * t)
    gross = (rng.random(100) < share) * rng.choice([-1, 1], 100) * rng.uniform(3, 10, 100)
    return wf.Model.from_text(DECAY), wf.Dataset(t, mean + 0.2 * rng.standard_normal(100) + gross, "student"), {}


def constant_data() -> Case:
    """Return noise about a constant level, to which logistic growth is fitted."""
    t = np.linspace(0, 10, 50)
    return wf.Model.from_text(GROWTH), wf.Dataset(t, add_noise(np.full(50, 10.0), 5, 0.1), names=["N"]), {}


def values_below_zero(seed: int) -> Case:
    """Return a saturating decay with some negative values, where the right-hand side is undefined."""
    text, t = "u' = -g*u^n/(K+u^n)", np.linspace(0, 20, 80)
    u = solve(text, {"K": 2.0, "g": 1.0, "n": 1.5}, [6.0], t)
    bounds = {"K": (0.01, 50.0), "g": (0.01, 20.0), "n": (0.5, 4.0)}
    return wf.Model.from_text(text), wf.Dataset(t, add_noise(u, seed, 0.05 * u.std())), {"bounds": bounds}


# The list.


def list_cases() -> dict[str, Callable[[], Case]]:
    """Return functions that build the cases, by a name that describes the fit."""
    cases: dict[str, Callable[[], Case]] = {}

    def add(name: str, make: Callable[[], Case]) -> None:
        assert name not in cases, name
        cases[name] = make

    for name in wf.problems.names():
        for M, noise, seed in ((32, 0.02, 1), (32, 0.2, 2), (64, 0.1, 3), (256, 0.02, 4), (256, 0.2, 5)):
            add(f"{name}, M = {M}, {noise:.0%}", partial(benchmark, name, M, noise, seed))
    # A fallback decides the result of most of these cases.
    for name in ("lorenz", "hindmarsh-rose"):
        for seed in range(12):
            add(f"{name}, M = 64, 10%, seed {seed}", partial(benchmark, name, 64, 0.1, seed))
    for seed in (1, 9):
        for name in ("lorenz", "hindmarsh-rose"):
            for words, options in (
                ("tolerance 1e-8", {"tolerance": 1e-8}),
                ("tolerance 1.1e-8", {"tolerance": 1.1e-8}),
                ("time limit 20", {"time_limit": 20}),
            ):
                make = partial(benchmark, name, 64, 0.1, seed, options=options)
                add(f"{name}, M = 64, 10%, seed {seed}, {words}", make)

    # Series of fewer than 100 samples are treated as short.
    for M in (98, 99):
        add(f"lotka-volterra, {M + 1} samples, 40%", partial(benchmark, "lotka-volterra", M, 0.4, 1))
        add(f"fitzhugh-nagumo, {M + 1} samples, 50%", partial(benchmark, "fitzhugh-nagumo", M, 0.5, 1))
        add(f"sir-tdi, {M + 1} samples, 40%", partial(benchmark, "sir-tdi", M, 0.4, 1))
        add(f"exponential for logistic growth, {M + 1} samples", partial(wrong_growth, M + 1))
        # If 99 samples did not count as a short series, the weak estimate of both would be reported.
        for name in ("lorenz", "protein-transduction"):
            add(f"{name}, {M + 1} samples, 40%", partial(benchmark, name, M, 0.4, 1))
    add("lorenz, 25 samples, 20%", partial(benchmark, "lorenz", 24, 0.2, 1))
    for M in (8, 12, 20):
        add(f"lotka-volterra, {M + 1} samples, 5%", partial(benchmark, "lotka-volterra", M, 0.05, 1))

    # Starts and seeds.
    for name in ("lotka-volterra", "goodwin", "protein-transduction"):
        for starts in (1, 5):
            make = partial(benchmark, name, 64, 0.1, 6, starts=starts)
            add(f"{name}, M = 64, 10%, {starts} starts", make)
    add("goodwin, M = 64, 10%, start seed 7", partial(benchmark, "goodwin", 64, 0.1, 6, seed=7))
    add("logistic growth from a start", partial(growing, start={"r": 0.5, "K": 20.0}))
    add("logistic growth from one start", partial(growing, start={"r": 0.5, "K": 20.0}, starts=1))
    add("logistic growth from a start outside the bounds", partial(growing, start={"K": 90.0}, bounds={"K": (1, 50)}))

    # Bounds, fixed values, scales, ties and priors of parameters.
    for name in ("logistic", "lotka-volterra", "fitzhugh-nagumo", "goodwin"):
        add(f"{name} without bounds", partial(unbounded, name, 128, 0.05, 2))
    add("logistic growth, K fixed", partial(growing, fixed={"K": 10.0}))
    add("logistic growth, log scale", partial(growing, log=["r", "K"]))
    parameters = {"r": wf.Parameter(bounds=(0, 5), log=True), "K": 10.0}
    add("logistic growth, records of parameters", partial(growing, parameters=parameters))
    add("logistic growth, tied", partial(growing, tied={"K": "10*r"}))
    add("logistic growth, a bound that is reached", partial(growing, bounds={"r": (0, 0.8)}))
    add("a source at its lower bound", partial(at_a_bound, 0))
    add("a source near its lower bound", partial(at_a_bound, 3))
    add("early growth", partial(early_growth))
    for kind, spread in (("normal", 10.0), ("lognormal", 0.1)):
        add(f"early growth, {kind} prior", partial(early_growth, priors={"K": (kind, 100.0, spread)}))
    for method in ("mle", "hybrid", "output-error"):
        add(
            f"early growth, prior, {method}",
            partial(early_growth, priors={"K": ("normal", 100.0, 10.0)}, method=method),
        )
    add("lotka, tied", partial(lotka, tied={"c": "2*a", "d": "b"}))
    add("three plates, K local", partial(plates, local=["K"]))
    add("three plates, K by groups", partial(plates, local={"K": ["ten", "twenty", "twenty"]}, bounds={"K": (1, 100)}))
    add("three plates, K shared", partial(plates))
    add("tied to a local parameter", tied_to_local)

    # The size of the noise.
    for sigma in ("number", "states", "points", "covariance", "too small"):
        add(f"lotka, sigma given: {sigma}", partial(lotka_with_known_sigma, sigma))
    add("noise of each trajectory", own_noise)
    for name in ("lotka-volterra", "goodwin", "lorenz"):
        add(f"{name}, noise-free", partial(benchmark, name, 128, 0.0, 1))
    add("hindmarsh-rose, M = 256, noise-free", partial(benchmark, "hindmarsh-rose", 256, 0.0, 1))
    add("logistic, noise-free, mle", partial(benchmark, "logistic", 64, 0.0, 1, method="mle"))
    add("van-der-pol, mu = 5, noise-free", partial(van_der_pol, 5.0, 257, 0.0, 0))

    # Other kinds of noise.
    add("lotka-volterra, log-normal", partial(other_noise, "lotka-volterra", "lognormal", 64, 0.1, 1))
    add("fitzhugh-nagumo, student", partial(other_noise, "fitzhugh-nagumo", "student", 128, 0.1, 1))
    for kind in ("poisson", "negative-binomial"):
        for samples in (20, 60, 150):
            add(f"counts of a decay, {kind}, {samples} samples", partial(counted_decay, kind, samples, 1))
    add("outliers, student", partial(decay_with_outliers, 0.04, 1))
    add("no outliers, student", partial(decay_with_outliers, 0.0, 1))
    add("an absurd value, student", partial(absurd_value, "student"))

    # Missing values and uneven times.
    for name in ("lotka-volterra", "fitzhugh-nagumo", "goodwin"):
        add(f"{name}, a tenth missing", partial(gaps, name, 128, 0.05, 1, 0.1))
    add("lotka-volterra, half missing", partial(gaps, "lotka-volterra", 64, 0.05, 2, 0.5))
    for name in ("selkov", "rosenzweig-macarthur"):
        add(f"{name}, middle 40% missing", partial(gap_in_the_middle, name, 99, 0.05, 1, 0.4))
    add("oscillator, middle 60% missing", partial(gap_in_the_middle, "oscillator", 99, 0.05, 1, 0.6))
    add("uneven and repeated times", uneven_times)

    # Hidden states.
    for samples in (101, 21):
        add(f"prey only, {samples} samples, y(0) fixed", partial(prey_only, 1, samples, fixed={"y(0)": 1.0}))
        add(f"prey only, {samples} samples", partial(prey_only, 2, samples))
    add("prey only, three starts", partial(prey_only, 1, 101, fixed={"y(0)": 1.0}, starts=3))
    add("prey only, output error", partial(prey_only, 1, 101, fixed={"y(0)": 1.0}, starts=2, method="output-error"))
    add("prey only, hybrid", partial(prey_only, 1, 101, fixed={"y(0)": 1.0}, starts=2, method="hybrid"))
    add("prey only, tolerance 1e-6", partial(prey_only, 1, 101, fixed={"y(0)": 1.0}, options={"tolerance": 1e-6}))
    add("fitzhugh-nagumo, first state only", partial(one_state, "fitzhugh-nagumo", 0, 101, 3))
    add("goodwin, third state only", partial(one_state, "goodwin", 2, 101, 4))
    add("chain, second state only", partial(hidden_chain, 0))
    add("chain, initial values tied", partial(hidden_chain, 0, tied={"w(0)": "x(0)/5"}, bounds={"x(0)": (0, 10)}))
    add("cases of an epidemic", partial(counted_cases, 1))
    add("plasma", partial(plasma, 0, bounds={"ka": (0.4, 10), "ke": (0.01, 0.4), "V": (1, 200)}))
    add("plasma, V without bounds", partial(plasma, 1, bounds={"ka": (0.4, 10), "ke": (0.01, 0.4)}))
    add("plasma, rates that exchange", partial(plasma, 2, bounds={"ka": (0.01, 10), "ke": (0.01, 10), "V": (1, 200)}))
    add("oscillator without velocity", oscillator_without_velocity)
    add("three trajectories, one state, local rates", local_chain)
    add("data that begin late", late_data)
    add("hes1", partial(hes1, 0))

    # Measured data.
    add("lynx and hare", lynx_and_hare)
    for method in ("mle", "irls", "wls", "output-error", "hybrid", "relaxed"):
        add(f"lynx and hare, {method}", partial(lynx_and_hare, method=method))
    add("lynx and hare, time limit 20", partial(lynx_and_hare, options={"time_limit": 20}))
    add("yeast", yeast)
    add("eyam, both", partial(plague, ["S", "I"], box=1.0))
    add("eyam, the sick", partial(plague, ["I"]))
    add("eyam, the sick of 261", partial(plague, ["I"], "S(0) = 261 - I(0)"))
    add("eyam, the sick, both begin as counted", partial(plague, ["I"], "S(0) = 254\nI(0) = 7"))

    # Random effects.
    add("random effects, normal", partial(subjects, "normal", [-0.3, 0.1, -0.1, 0.2, 0.05, -0.2], 0))
    add("random effects, log-normal", partial(subjects, None, [0.3, 0.5, 0.4, 0.7, 0.35], 1))
    add("random effects, no spread", partial(subjects, None, [0.3] * 6, 0))
    add("random effects of rate and volume", partial(one_compartment, 8, 1))

    # Doses, events, switches, inputs.
    add("two doses", two_doses)
    add("two doses, output error", partial(two_doses, method="output-error"))
    add("two doses in the model", doses_in_the_model)
    add("doses with a share and a lag", dose_with_share_and_lag)
    add("infusions", infusions)
    for samples in (60, 61):
        add(f"a switch, {samples} samples", partial(switch, samples))
    add("a switch, output error", partial(switch, 60, method="output-error"))
    add("a reset", reset)
    add("a steady beginning", steady_beginning)
    add("an input that is held", driven_decay)

    # Methods, options and test functions.
    for name in ("logistic", "lotka-volterra", "goodwin"):
        for method in ("mle", "irls", "wls", "output-error", "hybrid", "relaxed"):
            add(f"{name}, {method}", partial(benchmark, name, 64, 0.05, 8, method=method))
    for words, method, options in (
        ("cubic", "mle", {"solver": "cubic"}),
        ("trust region", "mle", {"solver": "trust-region"}),
        ("20 iterations", "wendy", {"max_iterations": 20}),
        ("2 iterations", "mle", {"max_iterations": 2}),
        ("sandwich", "wendy", {"covariance": "sandwich"}),
        ("covariance of the paper", "wendy", {"covariance": "paper"}),
        ("additive residuals", "output-error", {"residuals": "additive"}),
        ("hybrid from mle", "hybrid", {"weak": "mle"}),
        ("hybrid from irls", "hybrid", {"weak": "irls"}),
        ("tolerance 1e-5", "wendy", {"tolerance": 1e-5}),
        ("time limit 20", "wendy", wf.Options(time_limit=20)),
    ):
        add(f"lotka, {words}", partial(lotka, method=method, options=options))
    add("lotka, radius given", partial(lotka, basis=wf.Local(radius=0.3)))
    add("lotka, orthonormal", partial(lotka, basis=wf.Orthonormal()))
    add("lotka, orthonormal, mle", partial(lotka, basis=wf.Orthonormal(), method="mle"))
    add("lotka, 40% noise", partial(lotka, noise=0.4))

    # Wrong models and wrong noise.
    add("a decay with an offset", partial(decay_with_offset))
    add("a decay with an offset, 200 samples", partial(decay_with_offset, samples=200))
    add("a decay with an offset, ten series", partial(decay_with_offset, 10))
    add("a decay with an offset, sigma given", partial(decay_with_offset, sigma=0.1))
    add("exponential for logistic growth, 40 samples", partial(wrong_growth, 40))
    add("predators without their interaction", wrong_prey)
    add("log-normal noise called Gaussian", noise_that_grows)
    add("correlated noise", correlated_noise)
    add("an absurd value", partial(absurd_value, "gaussian"))
    add("a constant", constant_data)

    # The edges: stiff, chaotic, sampled too rarely.
    for samples in (30, 45):
        make = partial(benchmark, "van-der-pol", samples - 1, 0.1, 1, by_state=True)
        add(f"van-der-pol, {samples} samples, 10%", make)
    add("van-der-pol, mu = 10, 2%", partial(van_der_pol, 10.0, 200, 0.02, 1))
    add("van-der-pol, mu = 50, 1%", partial(van_der_pol, 50.0, 300, 0.01, 1))
    add("robertson, log scale", partial(robertson, 100, 0))
    add("robertson, 40 samples, log scale", partial(robertson, 40, 1))
    for name, M, noise in (
        ("brusselator", 19, 0.05),
        ("michaelis-menten", 44, 0.1),
        ("michaelis-menten-reduced", 40, 0.05),
        ("duffing", 44, 0.1),
        ("monod", 44, 0.05),
        ("rossler", 128, 0.05),
        ("rossler-scaled", 256, 0.05),
        ("repressilator", 60, 0.1),
        ("toggle", 40, 0.05),
        ("gompertz", 40, 0.05),
        ("allee", 40, 0.05),
        ("pendulum", 60, 0.1),
        ("seir", 60, 0.05),
        ("cascade", 40, 0.05),
        ("oregonator", 199, 0.05),
    ):
        add(f"{name}, M = {M}, {noise:.0%}", partial(benchmark, name, M, noise, 1, by_state=True))
    add("values below zero", partial(values_below_zero, 1))
    return cases


CASES = list_cases()


def compute_case(name: str) -> dict[str, Any]:
    """Fit one case and return its entry of `fits.json`: numbers as plain Python objects, matrices as nested lists.

    For a fit that is refused the entry has only the class of the error.
    """
    model, data, keywords = CASES[name]()
    try:
        fit = wf.fit(model, data, **keywords)
    except wf.WeakformError as error:
        return {"error": type(error).__name__}
    record = {
        "parameters": list(fit.model.parameters),
        "estimate": fit.estimate.tolist(),
        "covariance": fit.covariance.tolist(),
        "log_likelihood": float(fit.log_likelihood),
        "status": fit.status.name,
        "method": fit.method,
        "starts": len(fit.starts),
        "alternatives": len(fit.alternatives),
        "warnings": len(fit.warnings),
        "notes": len(fit.notes),
    }
    if fit.population is not None:
        effects = fit.population.effects
        record["population"] = [[effect.mean, effect.spread] for effect in effects]
    if fit.trace is not None and fit.trace.taken is not None:
        record["strategy"] = fit.trace.taken.strategy
    return {**record, "warnings_1_2": list(fit.warnings), "notes_1_2": list(fit.notes)}
