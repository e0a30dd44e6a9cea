"""Figures of the paper that need no study: contours of the likelihood, minimal radius, cost of an evaluation."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from ..basis import Local, Orthonormal
from ..basis.orthonormal import compute_radius_errors, find_corner
from ..problems import ALL, Problem
from ..report.plots import pyplot
from ..weak.weak_problem import WeakProblem


def plot_likelihood_contours(draws: int = 6, M: int = 256, points: int = 25) -> Any:
    """Draw the weak likelihood of Goodwin in p4 and p5 for six noise ratios.

    With more noise the optimum moves away from the truth.

    Parameters
    ----------
    draws : int
        Number of noise draws over which the likelihood is averaged.
    M : int
        Number of steps of the data.
    points : int
        Number of values of each parameter.

    Returns
    -------
    ndarray of matplotlib axes, (2, 3)
    """
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
        # Points at which the likelihood is not defined stay blank.
        shown = np.where(np.isfinite(total), total, np.nan)
        low = np.nanmin(shown)
        # Geometric levels: the likelihood is flat around its minimum and steep far from it.
        levels = low + np.geomspace(1, max(np.nanquantile(shown, 0.9) - low, 2), 12)
        axis.contour(a, b, shown, levels=levels, cmap="viridis", linewidths=0.8)
        best_row, best_column = np.unravel_index(np.nanargmin(shown), shown.shape)
        axis.plot(truth[i], truth[j], "*", color="#009E73", ms=11, label="truth")
        axis.plot(a[best_column], b[best_row], "o", color="black", ms=6, mfc="none", mew=1.5, label="optimum")
        axis.set_title(f"{noise:.0%} noise")
    for axis in axes[-1]:
        axis.set_xlabel("p4")
    for axis in axes[:, 0]:
        axis.set_ylabel("p5")
    axes[0, 0].legend(loc="upper right", fontsize=8)
    figure.suptitle(f"Goodwin: weak likelihood, mean of {draws} draws, M = {M}, other parameters at the truth")
    return axes


def plot_minimal_radius(M: int = 512, noise: float = 0.05) -> Any:
    """Draw the surrogate of the quadrature error against the radius for logistic growth, and its corner.

    Returns the matplotlib axes.
    """
    problem = ALL["logistic"]
    data = problem.simulate(M=M, noise=noise, seed=1)
    radii, errors = compute_radius_errors(data.trajectories[0], (0.04, 1.0), 1.0)
    _, axis = pyplot().subplots(figsize=(5.4, 3.6))
    axis.plot(radii, errors, color="#0072B2", lw=1.3, marker=".", ms=4)
    axis.axvline(
        radii[find_corner(errors)], color="#D55E00", ls="--", lw=1.2, label=f"corner, {radii[find_corner(errors)]:.2g}"
    )
    axis.set(yscale="log", xlabel="radius", ylabel=f"|Fourier mode {M // 2}| of φ u")
    axis.set_title(f"logistic growth, M = {M}, {noise:.0%} noise")
    axis.legend()
    return axis


def plot_evaluation_cost(repeats: int = 3) -> Any:
    """Draw the CPU time of the likelihood and its derivatives.

    It is drawn against M for local test functions and against K for dense ones. The shortest time of `repeats`
    evaluations is shown. Returns the two matplotlib axes as an array, `(2,)`.
    """
    problem = ALL["goodwin"]
    figure, (local_axis, dense_axis) = pyplot().subplots(1, 2, figsize=(9, 3.8))
    sizes = [2**k for k in range(8, 14)]
    seconds = [_time_likelihood(problem, M, Local(), repeats)[1] for M in sizes]
    _plot_times(local_axis, "M", sizes, seconds, power=1)
    # Neither the share of information nor the condition number cuts the basis: K alone decides.
    timings = [
        _time_likelihood(problem, 1024, Orthonormal(max_functions=K, information=1.0, max_condition=1e16), repeats)
        for K in (50, 100, 200, 400)
    ]
    _plot_times(dense_axis, "K", [K for K, _ in timings], [seconds for _, seconds in timings], power=3)
    local_axis.set_title("local test functions")
    dense_axis.set_title("the paper's dense test functions, M = 1024")
    figure.suptitle("Goodwin, one evaluation")
    return np.array([local_axis, dense_axis])


def _plot_times(axis: Any, label: str, sizes: list[int], seconds: list[list[float]], power: int) -> None:
    """Draw the CPU time of value, gradient and Hessian against a size, and a line of the expected power.

    Parameters
    ----------
    axis : matplotlib axes
    label : str
        Name of the size.
    sizes : list of int, (sizes,)
    seconds : list of list of float, (sizes, 3)
        CPU seconds of value, gradient and Hessian at each size.
    power : int
        Power of the size with which the cost is expected to grow.
    """
    x, times = np.array(sizes, dtype=float), np.array(seconds)
    styles = (("value", "#0072B2", "o"), ("gradient", "#E69F00", "s"), ("Hessian", "#D55E00", "^"))
    for y, (name, colour, marker) in zip(times.T, styles, strict=True):
        # The exponent is fitted to the larger half of the sizes, where the leading term dominates.
        exponent = np.polyfit(np.log(x[len(x) // 2 :]), np.log(y[len(x) // 2 :]), 1)[0]
        axis.plot(x, y, marker=marker, color=colour, ms=4, lw=1.3, label=f"{name}, exponent {exponent:.2f}")
    # The line of the power meets the Hessian at the largest size.
    expected = times[-1, -1] * (x / x[-1]) ** power
    axis.plot(x, expected, ":", color="gray", label=f"O({label}{'' if power == 1 else '³'})")
    axis.set(xscale="log", yscale="log", xlabel=label, ylabel="CPU s")
    axis.set_xticks(x, [f"{value:.0f}" for value in x])
    axis.minorticks_off()
    axis.legend(fontsize=8)


def _time_likelihood(problem: Problem, M: int, basis: Any, repeats: int) -> tuple[int, list[float]]:
    """Return the number of test functions, and the CPU seconds of the value, with the gradient, with the Hessian."""
    weak = WeakProblem.build(problem.model, problem.simulate(M=M, noise=0.05, seed=1), basis)
    likelihood, seconds = weak.likelihood(), []
    for order in range(3):
        # The first evaluation of an order compiles, so it is not timed.
        likelihood(problem.parameters, order)
        spent = []
        for _ in range(repeats):
            begin = time.process_time()
            likelihood(problem.parameters, order)
            spent.append(time.process_time() - begin)
        seconds.append(min(spent))
    return weak.forms[0].functions.count, seconds
