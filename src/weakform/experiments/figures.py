"""Every figure of the paper from a store, and ours beside them; the curve of the initial guesses is in each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..problems import Problem
from ..report.plots import STYLE, pyplot, save
from ..support.array_types import FloatArray
from .paper_computations import contours, cost, minimal_radius
from .plot_style import LEAST, finish, grid, look, ordered
from .store import Store, StoreError
from .summary import Summary, bound, problem_of, summarise


def draw(path: str | Path, folder: str | Path, ending: str = "pdf", computed: bool = True) -> Iterator[Path]:
    """Draw all figures that a store has runs for; yields the files.

    Parameters
    ----------
    path : str or Path
        The store.
    folder : str or Path
    ending : str
        `pdf`, `svg` or `png`.
    computed : bool
        Whether to draw those of the paper that need no store, too: contours, minimal radius, cost.
    """
    store = Store(path)
    summaries = summarise(store)
    if not summaries:
        raise StoreError(f"{path} has no runs yet.")
    plt = pyplot()

    def out(name: str, axes: Any) -> Path:
        return save(axes, Path(folder) / f"{name}.{ending}")

    with plt.rc_context({**STYLE, "font.size": 9}):
        for problem_name in dict.fromkeys(s.cell.problem for s in summaries):
            problem = problem_of(store, problem_name)
            mine = [s for s in summaries if s.cell.problem == problem_name]
            if len({s.cell.duration for s in mine}) > 1:
                yield out(f"{problem_name}-duration", against_duration(problem, mine))
                continue
            noisy = [s for s in mine if s.cell.noise > 0]
            if not noisy:
                continue
            for M in sorted({s.cell.samples for s in noisy}):
                yield out(
                    f"{problem_name}-accuracy-{M}",
                    accuracy([s for s in mine if s.cell.samples == M], f"{problem.title}, M = {M}"),
                )
            yield out(f"{problem_name}-by-samples", by_samples(mine, problem.title))
            yield out(f"{problem_name}-efficiency", efficiency(problem, mine))
            for method in ("mle", "wendy"):
                some = [s for s in mine if s.method == method and s.cell.noise > 0]
                if some:
                    name = str(look(method)["label"])
                    yield out(f"{problem_name}-intervals-{method}", intervals(problem, some, name))
                    yield out(f"{problem_name}-quality-{method}", quality(problem, some, name))
        if computed:
            yield out("goodwin-contours", contours())
            yield out("minimal-radius", minimal_radius())
            yield out("cost", cost())


def _curve(
    axis: Any, rows: list[Summary], method: str, x: Callable[[Summary], float], y: Callable[[Summary], float]
) -> None:
    points = sorted((x(s), y(s)) for s in rows if s.method == method)
    if points:
        a, b = np.array(points).T
        axis.plot(a, np.maximum(b, LEAST * 1e-6), **look(method))


def _percent(s: Summary) -> float:
    return 100 * s.cell.noise


def accuracy(rows: list[Summary], title: str) -> Any:
    """The paper's four panels: both errors against noise, the spread at 5%, failures."""
    figure, axes = pyplot().subplots(2, 2, figsize=(8.4, 6.2))
    noisy = [s for s in rows if s.cell.noise > 0]
    methods = ordered({s.method for s in noisy})
    for method in methods:
        _curve(axes[0, 0], noisy, method, _percent, lambda s: s.coefficient_error)
        _curve(axes[0, 1], noisy, method, _percent, lambda s: s.forward_error)
    for axis, name in zip(axes[0], ("coefficient error", "forward error"), strict=True):
        axis.set(yscale="log", xlabel="noise, %", ylabel=f"mean relative {name}")
    five = min({s.cell.noise for s in noisy}, key=lambda ratio: abs(ratio - 0.05))
    at_five = {s.method: s.errors for s in noisy if s.cell.noise == five and len(s.errors)}
    boxes = {method: at_five[method] for method in methods if method in at_five}
    labels = [str(look(m)["label"]) for m in boxes]
    _boxes(axes[1, 0], boxes, labels)
    axes[1, 0].set(yscale="log", ylabel="relative coefficient error", title=f"all runs at {five:.0%} noise")
    rates = {
        m: np.average(
            [s.failure_rate for s in noisy if s.method == m], weights=[s.runs for s in noisy if s.method == m]
        )
        for m in methods
    }
    bars = axes[1, 1].bar(range(len(rates)), [100 * r for r in rates.values()], color=[look(m)["color"] for m in rates])
    axes[1, 1].bar_label(bars, fmt="%.0f%%", fontsize=8)
    axes[1, 1].set_xticks(range(len(rates)), [str(look(m)["label"]) for m in rates], rotation=30, ha="right")
    axes[1, 1].set(
        ylabel="failed runs, %", title="failures over all noise levels", ylim=(0, max(10, 115 * max(rates.values())))
    )
    fewest, most = min(s.runs for s in noisy), max(s.runs for s in noisy)
    figure.suptitle(f"{title}, {most if fewest == most else f'{fewest} to {most}'} runs for each cell")
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return axes


def _boxes(axis: Any, boxes: dict[str, FloatArray], labels: list[str]) -> None:
    drawn = axis.boxplot(
        [np.maximum(e, LEAST) for e in boxes.values()], patch_artist=True, widths=0.6, flierprops={"ms": 2.5}
    )
    for patch, line, method in zip(drawn["boxes"], drawn["medians"], boxes, strict=True):
        patch.set(facecolor=look(method)["color"], alpha=0.45)
        line.set(color="black")
    axis.set_xticks(range(1, len(labels) + 1), labels, rotation=30, ha="right")


def by_samples(rows: list[Summary], title: str) -> Any:
    """Both errors and failures against noise, one column a number of samples."""
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
        here = [s for s in rows if s.cell.samples == M and s.cell.noise > 0]
        for row, (name, measure) in enumerate(measures):
            for method in ordered({s.method for s in here}):
                _curve(axes[row, column], here, method, _percent, measure)
            if row < 2:
                axes[row, column].set_yscale("log")
            if not column:
                axes[row, 0].set_ylabel(name)
        axes[0, column].set_title(f"M = {M}")
        axes[2, column].set_xlabel("noise, %")
    figure.suptitle(title)
    pairs = {name: handle for axis in axes[0] for handle, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(list(pairs.values()), list(pairs), loc="outside lower center", ncols=min(len(pairs), 4))
    return axes


def efficiency(problem: Problem, rows: list[Summary]) -> Any:
    """Root mean square error of the estimates over the Cramér–Rao bound, the median of the parameters."""
    sizes = sorted({s.cell.samples for s in rows})
    figure, axes = pyplot().subplots(1, len(sizes), figsize=(1.2 + 2.8 * len(sizes), 3.6), sharey=True, squeeze=False)
    for axis, M in zip(axes[0], sizes, strict=True):
        here = [s for s in rows if s.cell.samples == M and s.cell.noise > 0]
        limits = {s.cell: bound(problem, s.cell) for s in here}

        def ratio(s: Summary, limits: dict[Any, FloatArray] = limits) -> float:
            rms = np.abs(problem.parameters) * np.sqrt(s.bias + _spread(s))
            return float(np.nanmedian(rms / limits[s.cell]))

        for method in ordered({s.method for s in here}):
            _curve(axis, here, method, _percent, ratio)
        axis.axhline(1.0, color="black", lw=0.8)
        axis.set(yscale="log", xlabel="noise, %", title=f"M = {M}")
    axes[0, 0].set_ylabel("rms error ÷ Cramér–Rao bound")
    figure.suptitle(problem.title)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), 4))
    return axes


def _spread(s: Summary) -> FloatArray:
    """The variance over the square of the truth, from the median of squares (0.4549 σ² for normal errors)."""
    return s.variance / 0.4549


def intervals(problem: Problem, rows: list[Summary], title: str) -> Any:
    """Mean estimate and mean interval of each parameter against noise, one line a number of samples."""
    names = problem.model.parameters
    figure, axes = grid(len(names))
    sizes = sorted({s.cell.samples for s in rows})
    endless = False
    for j, (axis, name) in enumerate(zip(axes.flat, names, strict=False)):
        for k, M in enumerate(sizes):
            here = sorted((s for s in rows if s.cell.samples == M), key=_percent)
            x = np.array([_percent(s) for s in here]) + 0.25 * (k - (len(sizes) - 1) / 2)
            half = np.array([s.half_width[j] for s in here])
            colour = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#E69F00")[k % 5]
            axis.errorbar(
                x,
                [s.mean[j] for s in here],
                np.where(np.isfinite(half), half, 0.0),
                fmt="osD^v"[k % 5],
                ms=3,
                lw=1,
                capsize=2,
                color=colour,
                label=f"M = {M}",
            )
            for at in x[np.isinf(half)]:
                axis.axvline(at, color=colour, lw=1, alpha=0.4)
                endless = True
        axis.axhline(problem.truth[j], color="gray", lw=1, ls="--")
        axis.set_title(name)
    finish(
        figure,
        axes,
        len(names),
        f"{problem.title}, {title}: mean estimate ± 2 standard errors; truth dashed"
        + endless * ("\nover the whole height: in some runs the data do not determine it, and the mean has no limit"),
        "noise, %",
    )
    return axes


def quality(problem: Problem, rows: list[Summary], title: str) -> Any:
    """Squared bias, variance and MSE of each parameter, and its coverage, against noise."""
    names = problem.model.parameters
    M = min(s.cell.samples for s in rows)
    here = sorted((s for s in rows if s.cell.samples == M), key=_percent)
    x = [_percent(s) for s in here]
    figure, axes = pyplot().subplots(len(names), 2, figsize=(7.4, 1.0 + 1.35 * len(names)), sharex=True, squeeze=False)
    for j, name in enumerate(names):
        for key, label, colour, marker in (
            ("bias_paper", "squared bias, the paper's", "#0072B2", "o"),
            ("bias", "squared bias of the mean", "#D55E00", "*"),
            ("variance", "variance", "#009E73", "^"),
            ("mse", "MSE", "#000000", "x"),
        ):
            values = np.maximum([getattr(s, key)[j] for s in here], 1e-12)
            axes[j, 0].plot(x, values, marker=marker, color=colour, ms=3, lw=1, label=label)
        axes[j, 0].set(yscale="log", ylabel=name)
        axes[j, 1].plot(x, [100 * s.coverage[j] for s in here], "o-", color="#D55E00", ms=3, lw=1)
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


def against_duration(problem: Problem, rows: list[Summary]) -> Any:
    """Data of the longest series, and the coefficient error against the length of the series."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(9.6, 3.8), width_ratios=(1, 1.6))
    longest = max(rows, key=lambda s: s.cell.duration).cell
    data = problem.simulate(M=longest.samples, noise=longest.noise, seed=0, duration=longest.duration)
    assert data.truth is not None
    a, b = (0, 2) if len(problem.initial) > 2 else (0, len(problem.initial) - 1)
    values, states = data.trajectories[0].values, data.truth.states
    left.plot(values[:, a], values[:, b], ".", color="#999999", ms=1.5, label="data")
    left.plot(states[:, a], states[:, b], color="black", lw=0.5, label="noise-free")
    left.set(
        xlabel=problem.model.states[a],
        ylabel=problem.model.states[b],
        title=f"T = {longest.duration:g}, {longest.noise:.0%} noise",
    )
    left.legend(loc="upper center", ncols=2, fontsize=8)
    for method in ordered({s.method for s in rows}):
        _curve(right, rows, method, lambda s: s.cell.duration, lambda s: s.coefficient_error)
    right.set(
        yscale="log", xlabel="T", ylabel="mean relative coefficient error", title=f"{max(s.runs for s in rows)} runs"
    )
    right.legend(fontsize=8)
    figure.suptitle(problem.title)
    return np.array([left, right])
