"""The figures of the paper, drawn from a store, with our methods and the initial guesses beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..problems import Problem
from ..report.plots import STYLE, pyplot, save
from ..support.array_types import FloatArray
from .paper_computations import plot_evaluation_cost, plot_likelihood_contours, plot_minimal_radius
from .plot_style import MAX_COLUMNS, create_panels, finish_figure, get_method_style, sort_methods
from .store import Store, StoreError
from .summary import Summary, compute_error_bound, find_problem, summarise

MIN_CURVE_VALUE = 1e-12
"""Value below which a point of a curve is drawn at this height, so that an error of zero appears on the logarithmic
axis. By judgement."""
MIN_BOX_ERROR = 1e-6
"""Relative error below which a run is drawn at this height in a box plot, so that an estimate that happens to be exact
does not stretch the logarithmic axis. By judgement."""
BOX_PLOT_NOISE = 0.05
"""Noise ratio whose runs are drawn as box plots; the nearest ratio of the study is used. By judgement."""
ERROR_BAR_SHIFT = 0.25
"""Per cent of noise by which the error bars of one number of samples are shifted against those of the next. By
judgement."""
MEDIAN_OF_SQUARED_NORMAL = 0.4549
"""Median of the square of a standard normal variable, which is the median of the χ² distribution with one degree of
freedom."""


def draw_figures(path: str | Path, folder: str | Path, ending: str = "pdf", computed: bool = True) -> Iterator[Path]:
    """Draw all figures that a store has runs for.

    Parameters
    ----------
    path : str or Path
        The store.
    folder : str or Path
        Folder of the figures; created if it does not exist.
    ending : str
        Format and suffix of the files: `pdf`, `svg` or `png`.
    computed : bool
        Whether to draw also the figures of the paper that need no store: contours, minimal radius, cost.

    Yields
    ------
    Path
        Each file, as soon as it is written.

    Raises
    ------
    StoreError
        If the store has no runs.
    """
    store = Store(path)
    summaries = summarise(store)
    if not summaries:
        raise StoreError(f"{path} has no runs yet; add some with: weakform sweep STUDY --out {path}")
    plt = pyplot()

    def save_figure(name: str, axes: Any) -> Path:
        """Write a figure into the folder, and return its path."""
        return save(axes, Path(folder) / f"{name}.{ending}")

    with plt.rc_context({**STYLE, "font.size": 9}):
        for problem_name in dict.fromkeys(s.cell.problem for s in summaries):
            problem = find_problem(store, problem_name)
            rows = [s for s in summaries if s.cell.problem == problem_name]
            # A study of several durations is about the length of the series; the figures below are about noise and M.
            if len({s.cell.duration for s in rows}) > 1:
                yield save_figure(f"{problem_name}-duration", plot_against_duration(problem, rows))
                continue
            noisy = [s for s in rows if s.cell.noise > 0]
            if not noisy:
                continue
            for M in sorted({s.cell.samples for s in noisy}):
                yield save_figure(
                    f"{problem_name}-accuracy-{M}",
                    plot_accuracy([s for s in rows if s.cell.samples == M], f"{problem.title}, M = {M}"),
                )
            yield save_figure(f"{problem_name}-by-samples", plot_by_samples(rows, problem.title))
            yield save_figure(f"{problem_name}-efficiency", plot_efficiency(problem, rows))
            for method in ("mle", "wendy"):
                noisy_rows = [s for s in noisy if s.method == method]
                if noisy_rows:
                    name = str(get_method_style(method)["label"])
                    yield save_figure(f"{problem_name}-intervals-{method}", plot_intervals(problem, noisy_rows, name))
                    yield save_figure(f"{problem_name}-quality-{method}", plot_quality(problem, noisy_rows, name))
        if computed:
            yield save_figure("goodwin-contours", plot_likelihood_contours())
            yield save_figure("minimal-radius", plot_minimal_radius())
            yield save_figure("cost", plot_evaluation_cost())


def _plot_curve(
    axis: Any, rows: list[Summary], method: str, x: Callable[[Summary], float], y: Callable[[Summary], float]
) -> None:
    """Draw a measure `y` of one method against `x`; a method without rows leaves no entry in the legend."""
    points = sorted((x(s), y(s)) for s in rows if s.method == method)
    if points:
        a, b = np.array(points).T
        axis.plot(a, np.maximum(b, MIN_CURVE_VALUE), **get_method_style(method))


def _get_noise_percent(s: Summary) -> float:
    """Return the noise ratio of a cell in per cent."""
    return 100 * s.cell.noise


def plot_accuracy(rows: list[Summary], title: str) -> Any:
    """Draw the paper's four panels: both errors against noise, the spread near 5% noise, the share of failed runs.

    Parameters
    ----------
    rows : list of Summary
        Cells of one problem with the same number of samples.
    title : str

    Returns
    -------
    ndarray of matplotlib axes, (2, 2)
    """
    figure, axes = pyplot().subplots(2, 2, figsize=(8.4, 6.2))
    noisy = [s for s in rows if s.cell.noise > 0]
    methods = sort_methods({s.method for s in noisy})
    for method in methods:
        _plot_curve(axes[0, 0], noisy, method, _get_noise_percent, lambda s: s.coefficient_error)
        _plot_curve(axes[0, 1], noisy, method, _get_noise_percent, lambda s: s.forward_error)
    for axis, name in zip(axes[0], ("coefficient error", "forward error"), strict=True):
        axis.set(yscale="log", xlabel="noise, %", ylabel=f"mean relative {name}")
    nearest = min({s.cell.noise for s in noisy}, key=lambda ratio: abs(ratio - BOX_PLOT_NOISE))
    errors = {s.method: s.errors for s in noisy if s.cell.noise == nearest and len(s.errors)}
    boxes = {method: errors[method] for method in methods if method in errors}
    labels = [str(get_method_style(m)["label"]) for m in boxes]
    _plot_boxes(axes[1, 0], boxes, labels)
    axes[1, 0].set(yscale="log", ylabel="relative coefficient error", title=f"all runs at {nearest:.0%} noise")
    # Cells may have different numbers of runs: each run counts once.
    rates = {
        m: np.average(
            [s.failure_rate for s in noisy if s.method == m], weights=[s.runs for s in noisy if s.method == m]
        )
        for m in methods
    }
    bars = axes[1, 1].bar(
        range(len(rates)), [100 * r for r in rates.values()], color=[get_method_style(m)["color"] for m in rates]
    )
    axes[1, 1].bar_label(bars, fmt="%.0f%%", fontsize=8)
    axes[1, 1].set_xticks(
        range(len(rates)), [str(get_method_style(m)["label"]) for m in rates], rotation=30, ha="right"
    )
    axes[1, 1].set(
        ylabel="failed runs, %", title="failures over all noise levels", ylim=(0, max(10, 115 * max(rates.values())))
    )
    fewest, most = min(s.runs for s in noisy), max(s.runs for s in noisy)
    figure.suptitle(f"{title}, {most if fewest == most else f'{fewest} to {most}'} runs for each cell")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), MAX_COLUMNS))
    return axes


def _plot_boxes(axis: Any, boxes: dict[str, FloatArray], labels: list[str]) -> None:
    """Draw a box for the errors of each method, in the colours of the methods."""
    drawn = axis.boxplot(
        [np.maximum(e, MIN_BOX_ERROR) for e in boxes.values()], patch_artist=True, widths=0.6, flierprops={"ms": 2.5}
    )
    for patch, line, method in zip(drawn["boxes"], drawn["medians"], boxes, strict=True):
        patch.set(facecolor=get_method_style(method)["color"], alpha=0.45)
        line.set(color="black")
    axis.set_xticks(range(1, len(labels) + 1), labels, rotation=30, ha="right")


def plot_by_samples(rows: list[Summary], title: str) -> Any:
    """Draw both errors and the failures of a problem against noise, one column for each number of samples.

    Returns the matplotlib axes, `(3, sizes)`.
    """
    sizes = sorted({s.cell.samples for s in rows})
    figure, axes = pyplot().subplots(
        3, len(sizes), figsize=(1.2 + 2.8 * len(sizes), 7.4), sharex=True, sharey="row", squeeze=False
    )
    measures: tuple[tuple[str, Callable[[Summary], float]], ...] = (
        ("coefficient error", lambda s: s.coefficient_error),
        ("forward error", lambda s: s.forward_error),
        ("failed runs, %", lambda s: 100 * s.failure_rate),
    )
    for column, M in enumerate(sizes):
        noisy = [s for s in rows if s.cell.samples == M and s.cell.noise > 0]
        for row, (name, measure) in enumerate(measures):
            for method in sort_methods({s.method for s in noisy}):
                _plot_curve(axes[row, column], noisy, method, _get_noise_percent, measure)
            if row < 2:
                axes[row, column].set_yscale("log")
            if not column:
                axes[row, 0].set_ylabel(name)
        axes[0, column].set_title(f"M = {M}")
        axes[2, column].set_xlabel("noise, %")
    figure.suptitle(title)
    # A method may be missing at some sizes, so the legend collects the names of all columns.
    pairs = {name: handle for axis in axes[0] for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(pairs.values()), list(pairs), loc="outside lower center", ncols=min(len(pairs), MAX_COLUMNS))
    return axes


def plot_efficiency(problem: Problem, rows: list[Summary]) -> Any:
    """Draw the root mean square error of the estimates over the Cramér–Rao bound, the median over the parameters.

    Returns the matplotlib axes, `(sizes,)`, one panel for each number of samples.
    """
    sizes = sorted({s.cell.samples for s in rows})
    figure, axes = pyplot().subplots(1, len(sizes), figsize=(1.2 + 2.8 * len(sizes), 3.6), sharey=True, squeeze=False)
    for axis, M in zip(axes[0], sizes, strict=True):
        noisy = [s for s in rows if s.cell.samples == M and s.cell.noise > 0]
        limits = {s.cell: compute_error_bound(problem, s.cell) for s in noisy}

        # `limits` is a default argument, so that each panel's function keeps its own limits.
        def compute_ratio(s: Summary, limits: dict[Any, FloatArray] = limits) -> float:
            """Return the median over the parameters of error over bound; MSE is squared bias plus variance."""
            rms = np.abs(problem.parameters) * np.sqrt(s.bias + _estimate_relative_variance(s))
            return float(np.nanmedian(rms / limits[s.cell]))

        for method in sort_methods({s.method for s in noisy}):
            _plot_curve(axis, noisy, method, _get_noise_percent, compute_ratio)
        axis.axhline(1.0, color="black", lw=0.8)
        axis.set(yscale="log", xlabel="noise, %", title=f"M = {M}")
    axes[0, 0].set_ylabel("rms error ÷ Cramér–Rao bound")
    figure.suptitle(problem.title)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), MAX_COLUMNS))
    return axes


def _estimate_relative_variance(s: Summary) -> FloatArray:
    """Return the variance over the square of the truth, `(J,)`, from the median of squares, for normal errors.

    The paper's variance is a median of squares, which a few lost runs do not move.
    """
    return s.variance / MEDIAN_OF_SQUARED_NORMAL


def plot_intervals(problem: Problem, rows: list[Summary], title: str) -> Any:
    """Draw the mean estimate and the mean interval of each parameter against noise.

    Returns the matplotlib axes, one panel for each parameter with one line for each number of samples.
    """
    names = problem.model.parameters
    figure, axes = create_panels(len(names))
    sizes = sorted({s.cell.samples for s in rows})
    has_unlimited = False
    for j, (axis, name) in enumerate(zip(axes.flat, names, strict=False)):
        for k, M in enumerate(sizes):
            cells = sorted((s for s in rows if s.cell.samples == M), key=_get_noise_percent)
            # Shifted, so that the bars of different sizes do not cover each other.
            x = np.array([_get_noise_percent(s) for s in cells]) + ERROR_BAR_SHIFT * (k - (len(sizes) - 1) / 2)
            half = np.array([s.half_width[j] for s in cells])
            colour = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")[k % 5]
            axis.errorbar(
                x,
                [s.mean[j] for s in cells],
                np.where(np.isfinite(half), half, 0.0),
                fmt="osD^v"[k % 5],
                ms=3,
                lw=1,
                capsize=2,
                color=colour,
                label=f"M = {M}",
            )
            for noise in x[np.isinf(half)]:
                axis.axvline(noise, color=colour, lw=1, alpha=0.4)
                has_unlimited = True
        axis.axhline(problem.truth[j], color="gray", lw=1, ls="--")
        axis.set_title(name)
    finish_figure(
        figure,
        axes,
        len(names),
        f"{problem.title}, {title}: mean estimate ± 2 standard errors; truth dashed"
        + has_unlimited
        * ("\nline over the whole height: some runs do not determine the parameter, so the mean interval is infinite"),
        "noise, %",
    )
    return axes


def plot_quality(problem: Problem, rows: list[Summary], title: str) -> Any:
    """Draw squared bias, variance and MSE of each parameter, and its coverage, against noise.

    The smallest number of samples of the study is shown. Returns the matplotlib axes, `(J, 2)`.
    """
    names = problem.model.parameters
    M = min(s.cell.samples for s in rows)
    cells = sorted((s for s in rows if s.cell.samples == M), key=_get_noise_percent)
    x = [_get_noise_percent(s) for s in cells]
    figure, axes = pyplot().subplots(len(names), 2, figsize=(7.4, 1.0 + 1.35 * len(names)), sharex=True, squeeze=False)
    for j, name in enumerate(names):
        for key, label, colour, marker in (
            ("bias_paper", "squared bias, as in the paper", "#0072B2", "o"),
            ("bias", "squared bias of the mean", "#D55E00", "*"),
            ("variance", "variance", "#009E73", "^"),
            ("mse", "MSE", "#000000", "x"),
        ):
            values = np.maximum([getattr(s, key)[j] for s in cells], MIN_CURVE_VALUE)
            axes[j, 0].plot(x, values, marker=marker, color=colour, ms=3, lw=1, label=label)
        axes[j, 0].set(yscale="log", ylabel=name)
        axes[j, 1].plot(x, [100 * s.coverage[j] for s in cells], "o-", color="#D55E00", ms=3, lw=1)
        axes[j, 1].axhline(95, color="gray", lw=0.8, ls="--")
        axes[j, 1].set_ylim(-3, 103)
    axes[0, 0].set_title("relative to the truth")
    axes[0, 1].set_title("coverage of ± 2 standard errors, %")
    for axis in axes[-1]:
        axis.set_xlabel("noise, %")
    figure.suptitle(f"{problem.title}, {title}, M = {M}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return axes


def plot_against_duration(problem: Problem, rows: list[Summary]) -> Any:
    """Draw the data of the longest series, and the coefficient error against the length of the series.

    Returns the two matplotlib axes as an array, `(2,)`.
    """
    figure, (data_axis, error_axis) = pyplot().subplots(1, 2, figsize=(9.6, 3.8), width_ratios=(1, 1.6))
    longest = max(rows, key=lambda s: s.cell.duration).cell
    data = problem.simulate(M=longest.samples, noise=longest.noise, seed=0, duration=longest.duration)
    assert data.truth is not None
    # The first and the third state: for Lorenz the plane in which the attractor shows its two wings.
    a, b = (0, 2) if len(problem.initial) > 2 else (0, len(problem.initial) - 1)
    values, states = data.trajectories[0].values, data.truth.states
    data_axis.plot(values[:, a], values[:, b], ".", color="#999999", ms=1.5, label="data")
    data_axis.plot(states[:, a], states[:, b], color="black", lw=0.5, label="noise-free")
    data_axis.set(
        xlabel=problem.model.states[a],
        ylabel=problem.model.states[b],
        title=f"T = {longest.duration:g}, {longest.noise:.0%} noise",
    )
    data_axis.legend(loc="upper center", ncols=2, fontsize=8)
    for method in sort_methods({s.method for s in rows}):
        _plot_curve(error_axis, rows, method, lambda s: s.cell.duration, lambda s: s.coefficient_error)
    error_axis.set(
        yscale="log", xlabel="T", ylabel="mean relative coefficient error", title=f"{max(s.runs for s in rows)} runs"
    )
    error_axis.legend(fontsize=8)
    figure.suptitle(problem.title)
    return np.array([data_axis, error_axis])
