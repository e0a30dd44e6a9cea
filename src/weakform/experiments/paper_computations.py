"""Figures that are computed, not read from a store: contours of the likelihood, the minimal radius, the cost."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..basis import Local, Orthonormal
from ..basis.orthonormal import corner, radius_errors
from ..problems import ALL, Problem
from ..report.plots import pyplot
from ..weak.weak_problem import WeakProblem


def contours(draws: int = 6, M: int = 256, points: int = 25) -> Any:
    """The weak likelihood of Goodwin in p4, p5, averaged over draws: with more noise the optimum leaves the truth."""
    problem = ALL["goodwin"]
    truth, (i, j) = problem.parameters, (3, 4)
    a = np.linspace(0.6, 1.4, points) * truth[i]
    b = np.linspace(0.75, 1.25, points) * truth[j]
    figure, axes = pyplot().subplots(2, 3, figsize=(9, 5.8), sharex=True, sharey=True)
    for axis, noise in zip(axes.flat, (0.01, 0.05, 0.1, 0.15, 0.2, 0.25), strict=True):
        total = np.zeros((points, points))
        for seed in range(draws):
            data = problem.simulate(M=M, noise=noise, seed=seed)
            likelihood = WeakProblem.build(problem.model, data, Local()).likelihood()
            for k in range(points):
                for m in range(points):
                    p = truth.copy()
                    p[i], p[j] = a[m], b[k]
                    total[k, m] += likelihood(p).value / draws
        shown = np.where(np.isfinite(total), total, np.nan)
        low = np.nanmin(shown)
        levels = low + np.geomspace(1, max(np.nanquantile(shown, 0.9) - low, 2), 12)
        axis.contour(a, b, shown, levels=levels, cmap="viridis", linewidths=0.8)
        best, across = np.unravel_index(np.nanargmin(shown), shown.shape)
        axis.plot(truth[i], truth[j], "*", color="#009E73", ms=11, label="truth")
        axis.plot(a[across], b[best], "o", color="black", ms=6, mfc="none", mew=1.5, label="optimum")
        axis.set_title(f"{noise:.0%} noise")
    for axis in axes[-1]:
        axis.set_xlabel("p4")
    for axis in axes[:, 0]:
        axis.set_ylabel("p5")
    axes[0, 0].legend(loc="upper right", fontsize=8)
    figure.suptitle(f"Goodwin: weak likelihood, mean of {draws} draws, M = {M}, other parameters at the truth")
    return axes


def minimal_radius(M: int = 512, noise: float = 0.05) -> Any:
    """The surrogate of the quadrature error against the radius for logistic growth, and the corner in it."""
    problem = ALL["logistic"]
    data = problem.simulate(M=M, noise=noise, seed=1)
    radii, errors = radius_errors(data.trajectories[0], (0.04, 1.0), 1.0)
    figure, axis = pyplot().subplots(figsize=(5.4, 3.6))
    axis.plot(radii, errors, color="#0072B2", lw=1.3, marker=".", ms=4)
    axis.axvline(radii[corner(errors)], color="#D55E00", ls="--", lw=1.2, label=f"corner, {radii[corner(errors)]:.2g}")
    axis.set(yscale="log", xlabel="radius", ylabel=f"|Fourier mode {M // 2}| of φ u")
    axis.set_title(f"logistic growth, M = {M}, {noise:.0%} noise")
    axis.legend()
    del figure
    return axis


def cost(repeats: int = 3) -> Any:
    """CPU time of the likelihood and its derivatives against M for local test functions, against K for dense ones."""
    problem = ALL["goodwin"]
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 3.8))
    sizes = [2**k for k in range(8, 14)]
    functions = (50, 100, 200, 400)
    for axis, label, grid, timed in (
        (left, "M", sizes, [_times(problem, M, Local(), repeats) for M in sizes]),
        (
            right,
            "K",
            functions,
            [
                _times(problem, 1024, Orthonormal(max_functions=K, information=1.0, max_condition=1e16), repeats)
                for K in functions
            ],
        ),
    ):
        for order, (name, colour, marker) in enumerate(
            (("value", "#0072B2", "o"), ("gradient", "#E69F00", "s"), ("Hessian", "#D55E00", "^"))
        ):
            x = np.array([K for K, _ in timed] if label == "K" else grid, dtype=float)
            y = np.array([t[order] for _, t in timed])
            exponent = np.polyfit(np.log(x[len(x) // 2 :]), np.log(y[len(x) // 2 :]), 1)[0]
            axis.plot(x, y, marker=marker, color=colour, ms=4, lw=1.3, label=f"{name}, exponent {exponent:.2f}")
        power = 1 if label == "M" else 3
        axis.plot(x, y[-1] * (x / x[-1]) ** power, ":", color="gray", label=f"O({label}{'' if power == 1 else '³'})")
        axis.set(xscale="log", yscale="log", xlabel=label, ylabel="CPU s")
        axis.set_xticks(x, [f"{value:.0f}" for value in x])
        axis.minorticks_off()
        axis.legend(fontsize=8)
    left.set_title("local test functions")
    right.set_title("the paper's dense test functions, M = 1024")
    figure.suptitle("Goodwin, one evaluation")
    return np.array([left, right])


def _times(problem: Problem, M: int, basis: Any, repeats: int) -> tuple[int, list[float]]:
    weak = WeakProblem.build(problem.model, problem.simulate(M=M, noise=0.05, seed=1), basis)
    likelihood, found = weak.likelihood(), []
    for order in range(3):
        likelihood(problem.parameters, order)
        spent = []
        for _ in range(repeats):
            begin = time.process_time()
            likelihood(problem.parameters, order)
            spent.append(time.process_time() - begin)
        found.append(min(spent))
    return weak.forms[0].functions.count, found
