"""The pictures of `docs/hidden-states.md`: an epidemic known from its reported cases, and the plague at Eyam; seeded.

python docs/figures/make_hidden_states.py  # ten seconds; writes docs/figures/hidden-states-*.svg and prints the numbers
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import weakform as wf
from weakform.report.plots import DATA, FIT, STYLE, TRUTH

FOLDER = Path(__file__).parent
EXAMPLES = FOLDER.parent.parent / "examples"


def save(figure, name):
    """Write a picture; repeated runs write the same bytes."""
    figure.savefig(FOLDER / f"hidden-states-{name}.svg", metadata={"Date": None})
    plt.close(figure)


def band(axis, curve, label):
    """Draw a fitted state with its 95% band."""
    axis.fill_between(curve.times, curve.lower, curve.upper, color=FIT, alpha=0.2, lw=0)
    axis.plot(curve.times, curve.values, color=FIT, label=label)


def print_quantity(name, quantity):
    """Print a quantity with its error and interval in one line."""
    low, high = quantity.interval
    print(f"  {name}: {quantity.value:.4g} ± {quantity.error:.2g}, 95% from {low:.4g} to {high:.4g}")


def epidemic():
    """Draw the reported cases, and the share of people who can still be infected, which was not measured."""
    sir = wf.Model.from_text("""
        S' = -beta*S*I
        I' = beta*S*I - gamma*I
        cases = rho*gamma*10000*I
        S(0) = 1 - I0
        I(0) = I0
    """)
    t = np.arange(60.0)
    truth = wf.simulate(sir, [0.002, 0.45, 0.2, 0.3], [0.998, 0.002], t).states
    cases = np.random.default_rng(1).poisson(0.3 * 0.2 * 10000 * truth[:, 1])
    bounds = {"I0": (0, 0.1), "beta": (0, 2), "gamma": (0, 1), "rho": (0, 1)}
    fit = wf.fit(sir, wf.Dataset(t, cases, names=["cases"], noise="poisson"), bounds=bounds)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
    left.plot(t, cases, "o", ms=3.5, color=DATA, label="data")
    band(left, fit.states["cases"], "fit, 95% band")
    left.set(title="measured: reported cases a day", xlabel="day")
    left.legend(fontsize=9)
    band(right, fit.states["S"], "fit, 95% band")
    right.plot(t, truth[:, 0], "--", color=TRUTH, label="truth")
    right.set(title="hidden: who can still be infected", xlabel="day", ylim=(0, 1.05))
    right.legend(fontsize=9)
    save(figure, "cases")
    print(f"epidemic: {fit.status.name}, {cases.sum()} cases reported")
    for name in ("I0", "beta", "gamma", "rho"):
        print_quantity(name, fit[name])
    print_quantity("beta/gamma", fit.derived("beta/gamma"))
    S = fit.states["S"]
    lower, upper = np.interp(t, S.times, S.lower), np.interp(t, S.times, S.upper)
    inside = np.sum((truth[:, 0] >= lower) & (truth[:, 0] <= upper))
    print(f"  S at the end: {S.values[-1]:.3f}, {S.lower[-1]:.3f} to {S.upper[-1]:.3f}; truth {truth[-1, 0]:.3f}")
    print(f"  days with the truth in the band: {inside} of {len(t)}")
    every_week = wf.Dataset(t[::7], cases[::7], names=["cases"], noise="poisson")
    print_quantity(f"beta from {len(t[::7])} days", wf.fit(sir, every_week, bounds=bounds)["beta"])


def eyam():
    """Draw the counted sick people, and the healthy people as estimated from the sick alone and as counted."""
    equations = "S' = -beta*S*I\nI' = beta*S*I - gamma*I\n"
    bounds = {"beta": (0, 0.1), "gamma": (0, 10)}
    sick = wf.Dataset.from_csv(EXAMPLES / "eyam.csv", time="time", names=["I"], noise="poisson")
    both = wf.Dataset.from_csv(EXAMPLES / "eyam.csv", time="time", names=["S", "I"], noise="poisson")
    cases = {
        "nothing known": ("", sick),
        "without bounds": ("S(0) = 261 - I(0)", sick),
        "S(0) = 261 - I(0)": ("S(0) = 261 - I(0)", sick),
        "S(0) = 254, I(0) = 7": ("S(0) = 254\nI(0) = 7", sick),
        "S measured too": ("S(0) = 261 - I(0)", both),
    }
    fits = {}
    for label, (initial, data) in cases.items():
        box = {} if label == "without bounds" else bounds
        fit = fits[label] = wf.fit(wf.Model.from_text(equations + initial), data, bounds=box)
        end = fit.states["S"].values[-1]
        print(f"Eyam, {label}: {fit.status.name}, log-likelihood {fit.log_likelihood:.2f}, S at the end {end:.0f}")
        for name in ("beta", "gamma"):
            print_quantity(name, fit[name])
        print_quantity("S(0)", fit.initial["S"])
    fit = fits["S(0) = 261 - I(0)"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
    left.plot(both.trajectories[0].times, both.trajectories[0].values[:, 1], "o", ms=4.5, color=DATA, label="counted")
    band(left, fit.states["I"], "fit, 95% band")
    left.set(title="measured: the sick", xlabel="months", ylim=(-4, 42))
    left.legend(fontsize=9)
    band(right, fit.states["S"], "fit, 95% band")
    times, healthy = both.trajectories[0].times, both.trajectories[0].values[:, 0]
    right.plot(times, healthy, "o", ms=4.5, mfc="none", color=TRUTH, label="counted, not used")
    right.set(title="hidden: the healthy", xlabel="months", ylim=(0, 280))
    right.legend(fontsize=9)
    save(figure, "eyam")
    S = fit.states["S"]
    lower, upper = np.interp(times, S.times, S.lower), np.interp(times, S.times, S.upper)
    print(f"  S at the end: {S.values[-1]:.1f}, {S.lower[-1]:.1f} to {S.upper[-1]:.1f}; counted {healthy[-1]:.0f}")
    print(f"  counts in the band: {np.sum((healthy >= lower) & (healthy <= upper))} of {len(times)}")


def prey():
    """Fit the prey alone, with different knowledge about the hidden predator."""
    model = wf.Model.from_text("x' = a*x - b*x*y\ny' = d*x*y - c*y")
    t = np.linspace(0, 12, 60)
    exact = wf.simulate(model, [1.0, 0.5, 0.7, 0.2], [8.0, 1.0], t).states
    rng = np.random.default_rng(1)
    x = exact[:, 0] * np.exp(0.05 * rng.standard_normal(60))
    data = wf.Dataset(t, x, names=["x"], noise="lognormal")
    bounds = dict.fromkeys("abcd", (0, 3))
    for label, fixed in {"nothing known": {}, "b known": {"b": 0.5}, "b and y(0) known": {"b": 0.5, "y(0)": 1}}.items():
        boxes = {name: box for name, box in bounds.items() if name not in fixed}
        fit = wf.fit(model, data, bounds=boxes, fixed=fixed)
        print(f"prey alone, {label}: {fit.status.name}")
        for name in "abcd":
            print_quantity(name, fit[name])
        print_quantity("y(0)", fit.initial["y"])
        print_quantity("a*c", fit.derived("a*c"))
        for line in fit.warnings:
            print("  -", line)
    y, counted = np.full(60, np.nan), [10, 25, 40, 55]
    y[counted] = exact[counted, 1] * np.exp(0.05 * rng.standard_normal(4))
    some = wf.fit(model, wf.Dataset(t, np.column_stack([x, y]), names=["x", "y"], noise="lognormal"), bounds=bounds)
    print(f"prey, and four counts of the predator: {some.status.name}")
    for name in "abcd":
        print_quantity(name, some[name])


if __name__ == "__main__":
    plt.rcParams.update({**STYLE, "svg.hashsalt": "hidden states"})
    epidemic()
    eyam()
    prey()
