"""The pictures of `docs/weak-form.md`: logistic growth, seeded.

python docs/figures/make_weak_form.py      # a minute; writes docs/figures/weak-form-*.svg and prints the numbers
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import weakform as wf
from weakform.basis.bump_function import bump
from weakform.report.plots import DATA, FIT, STYLE, TRUTH

FOLDER = Path(__file__).parent
GREEN = "#009E73"

MODEL = wf.Model.from_text("u' = a*u - b*u**2")
A, B = 1.0, 0.1
SAMPLES, END, SIGMA = 61, 10.0, 0.5
t = np.linspace(0, END, SAMPLES)
fine = np.linspace(0, END, 1001)


def solution(times):
    """Compute the true states."""
    return wf.simulate(MODEL, [A, B], [0.5], times).states[:, 0]


def noisy(seed, sigma=SIGMA):
    """Draw noisy data."""
    return solution(t) + sigma * np.random.default_rng(seed).standard_normal(SAMPLES)


def slope(u):
    """Compute the true right-hand side."""
    return A * u - B * u**2


def save(figure, name):
    """Write a picture; repeated runs write the same bytes."""
    figure.savefig(FOLDER / f"weak-form-{name}.svg", metadata={"Date": None})
    plt.close(figure)


def differentiating(u):
    """Draw the data, and the quotients of their differences."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.9))
    left.plot(fine, solution(fine), color=TRUTH, label="truth")
    left.plot(t, u, "o", ms=3.5, color=DATA, label="data")
    left.set(title="what was measured", xlabel="t", ylabel="u")
    left.legend()
    middle, quotient = (t[1:] + t[:-1]) / 2, np.diff(u) / np.diff(t)
    right.plot(middle, quotient, "o-", ms=3.5, lw=0.7, color=DATA, label="differences of the data")
    right.plot(fine, slope(solution(fine)), color=TRUTH, label="true $u'$")
    right.set(title="its derivative", xlabel="t", ylabel="u'")
    right.legend()
    save(figure, "differentiating")
    truth = slope(solution(fine)).max()
    print(f"true slope at most {truth:.2f}, noise of a difference {SIGMA * np.sqrt(2) / t[1]:.2f}")


def one_bump(u, centre=3.0, radius=2.0):
    """Draw the data, one test function, and the two products whose areas are compared."""
    phi, dphi = bump((t - centre) / radius)
    dphi = dphi / radius
    figure, axes = plt.subplots(1, 3, figsize=(8, 2.7))
    axes[0].plot(t, u, "o", ms=3, color=DATA, label="data $u$")
    axes[0].plot(fine, 8 * bump((fine - centre) / radius)[0], color=FIT, label=r"$\varphi$, scaled")
    axes[0].set(title="data and a test function", xlabel="t", ylim=(-1, 17))
    axes[0].legend(loc="upper right", fontsize=9)
    for axis, product, colour, title in (
        (axes[1], -dphi * u, GREEN, r"$-\varphi' u$"),
        (axes[2], phi * slope(u), FIT, r"$\varphi\,(a u - b u^2)$"),
    ):
        axis.fill_between(t, product, color=colour, alpha=0.3, lw=0)
        axis.plot(t, product, "o", ms=3, color=colour)
        axis.axhline(0, color="black", lw=0.6)
        axis.set(title=f"{title}: area {product.sum() * t[1]:.2f}", xlabel="t", xlim=(0, END))
    save(figure, "one-bump")
    exact = solution(t)
    print(f"areas without noise: {-(dphi * exact).sum() * t[1]:.3f} and {(phi * slope(exact)).sum() * t[1]:.3f}")


def equations(u):
    """Return the test functions of a fit, with their values and derivatives on the grid, of shape `(K, time)`."""
    functions = wf.Local().build(wf.Dataset(t, u).trajectories[0])
    phi, dphi = functions.to_dense()
    return functions, phi, dphi


def many_bumps(u):
    """Draw all test functions, and for each of them its line in the plane of (a, b)."""
    functions, phi, dphi = equations(u)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
    left.plot(t, u / u.max(), "o", ms=3, color=DATA, alpha=0.7)
    centres = np.array([np.average(t, weights=row) for row in phi])
    colours = plt.cm.viridis(np.linspace(0, 0.9, len(phi)))
    for centre, colour in zip(centres, colours, strict=True):
        left.plot(fine, bump((fine - centre) / functions.radius)[0], color=colour, lw=1)
    left.set(title=f"{len(phi)} test functions, and the data, scaled", xlabel="t")
    a = np.linspace(0.6, 1.4, 2)
    for row, drow, colour in zip(phi, dphi, colours, strict=True):
        right.plot(a, (a * (row @ u) + drow @ u) / (row @ u**2), color=colour, lw=1)
    right.plot(A, B, "*", ms=14, color=TRUTH, label="truth", zorder=5)
    right.set(title="one line for each", xlabel="a", ylabel="b", xlim=(0.6, 1.4), ylim=(0.04, 0.16))
    right.legend()
    save(figure, "many-bumps")
    print(f"{len(phi)} test functions; {functions.description}")


def covariance(u):
    """Draw the weak residuals at the truth with their standard deviations, and their correlations."""
    _, phi, dphi = equations(u)
    residual = phi @ slope(u) + dphi @ u
    sensitivity = dphi + phi * (A - 2 * B * u)
    S = SIGMA**2 * sensitivity @ sensitivity.T
    error = np.sqrt(np.diag(S))
    centres = np.array([np.average(t, weights=row) for row in phi])
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1), width_ratios=(1.5, 1))
    left.fill_between(centres, -2 * error, 2 * error, color=FIT, alpha=0.2, lw=0, label="± 2 standard deviations")
    left.plot(centres, residual, "o-", ms=4, lw=0.8, color=FIT, label="weak residual at the truth")
    left.axhline(0, color="black", lw=0.6)
    left.set(title="small, but not independent", xlabel="centre of the test function", ylim=(-4, 4))
    left.legend(loc="upper right", fontsize=9)
    correlation = S / np.outer(error, error)
    image = right.imshow(correlation, cmap="RdBu_r", vmin=-1, vmax=1)
    right.set(title="their correlations", xlabel="test function", ylabel="test function")
    right.set(xticks=range(0, len(S), 4), yticks=range(0, len(S), 4))
    right.grid(False)
    figure.colorbar(image, ax=right, shrink=0.85)
    save(figure, "covariance")


def bias(runs=100):
    """Draw data of FitzHugh and Nagumo's model, and the mean of many estimates against the noise."""
    problem = wf.problems.get("fitzhugh-nagumo")
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
    data = problem.simulate(M=128, noise=0.1, seed=0)
    left.plot(data.trajectories[0].times, data.trajectories[0].values[:, 0], "o", ms=3, color=DATA, label="data")
    left.plot(data.trajectories[0].times, data.truth.states[:, 0], color=TRUTH, label="truth")
    left.set(title="FitzHugh–Nagumo, 10% noise", xlabel="t", ylabel="u1", ylim=(-1.5, 2.2))
    left.legend(loc="upper right", fontsize=9)
    levels = np.array([0.02, 0.05, 0.1, 0.15, 0.2])
    for method, colour, label in (("mle", TRUTH, "weak likelihood"), ("wendy", FIT, "refined")):
        estimates = np.array([[estimate(problem, level, seed, method) for seed in range(runs)] for level in levels])
        mean, scatter = estimates.mean(axis=1), estimates.std(axis=1)
        right.errorbar(100 * levels, mean, scatter, fmt="o-", ms=4, capsize=3, color=colour, label=label)
        print(f"{method}: mean of p1 over truth {mean.round(3)}, scatter {scatter.round(3)}")
    right.axhline(1, color="black", lw=0.6)
    right.set(title=f"p1 over its truth, {runs} runs", xlabel="noise, %")
    right.legend(loc="lower left", fontsize=9)
    save(figure, "bias")


def estimate(problem, noise, seed, method):
    """Return the estimate of the first parameter over its true value."""
    data = problem.simulate(M=128, noise=noise, seed=seed)
    return wf.fit(problem.model, data, bounds=problem.bounds, method=method).estimate[0] / problem.truth[0]


def refined(u):
    """Draw the states that obey the model, and the residuals of a right and of a wrong model."""
    fit = wf.fit(MODEL, wf.Dataset(t, u))
    wrong = wf.fit(wf.Model.from_text("u' = a*(c - u)"), wf.Dataset(t, u))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.1))
    left.vlines(t, fit.denoised[0][:, 0], u, color=DATA, lw=0.8)
    left.plot(t, u, "o", ms=3.5, color=DATA, label="data")
    left.plot(t, fit.denoised[0][:, 0], ".", ms=5, color=FIT, label="states that obey the model")
    left.plot(fine, solution(fine), color=TRUTH, lw=1, label="truth")
    left.set(title="the refinement", xlabel="t", ylabel="u")
    left.legend(loc="lower right", fontsize=9)
    for result, colour, label in ((wrong, TRUTH, "u' = a (c - u)"), (fit, FIT, "u' = a u - b u²")):
        p = result.goodness.p_value
        shown = f"{label}: p = {p:.2f}" if p >= 0.01 else f"{label}: p < 0.01"
        right.plot(t, (u - result.denoised[0][:, 0]) / SIGMA, "o-", ms=3, lw=0.7, color=colour, label=shown)
        print(f"{label}: {result.status.name}, p = {p:.2g}")
    right.axhline(0, color="black", lw=0.6)
    right.set(title="data less states, over the noise", xlabel="t", ylim=(-5, 7))
    right.legend(loc="upper right", fontsize=9)
    save(figure, "refined")
    print(fit)


if __name__ == "__main__":
    plt.rcParams.update({**STYLE, "svg.hashsalt": "weak form"})
    values = noisy(2)
    differentiating(values)
    one_bump(values)
    many_bumps(values)
    covariance(values)
    bias()
    refined(values)
