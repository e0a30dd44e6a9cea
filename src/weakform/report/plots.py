"""Plots of a fit in matplotlib: states, residuals, profiles, correlations, starts and designs, in one style."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.accuracy_metrics import arrange_residuals_by_column
from ..inference.fitted_states import collect_curves, list_panels
from ..inference.prediction import find_trajectory_number
from ..support.errors import WeakformError
from ..support.optional_imports import format_install_hint
from .svg_plots import MAX_TRAJECTORIES, WALD_POINTS, find_forward_solution, label_with_unit

if TYPE_CHECKING:
    from ..inference.experiment_design import Design
    from ..inference.state_bands import Prediction
    from ..results.fit_result import FitResult

# Okabe and Ito's palette: colour-blind readers can distinguish its colours, also in print.
DATA = "#999999"
"""Colour of measured values."""
FIT = "#0072B2"
"""Colour of everything that is fitted."""
TRUTH = "#D55E00"
"""Colour of the noise-free truth, and of the level at which a profile interval ends."""
MAX_COLUMNS = 4
"""Panels side by side. By judgement: what a page holds."""
MAX_SHOWN_MISFIT = 2.5
"""Upper end of the axis of a profile, in units of the level at which the interval ends. By judgement."""
RESIDUAL_BAND = 2.0
"""Standard deviations. About 95% of normal residuals are inside the shaded band of this half-width."""
MIN_DARK_CORRELATION = 0.7
"""Absolute value of a correlation. Above, its cell is so dark that its number is written in white. By judgement."""
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
}
"""Settings of matplotlib for all plots of this package."""


def pyplot() -> Any:
    """Import matplotlib's pyplot; raises an error with the command that installs it if it is missing."""
    try:
        import matplotlib

        if not matplotlib.get_backend():
            matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise WeakformError(
            f"Plots need matplotlib, which is not installed. Install it with: {format_install_hint('plot')}"
        ) from None
    return plt


def save(axes: Any, path: str | Path) -> Path:
    """Write the figure of some axes to a file and close it.

    Parameters
    ----------
    axes : matplotlib axes, or array of them
        As `fit.plot()` and the functions of this module return them.
    path : str or Path
        The suffix gives the format: `.png`, `.svg`, `.pdf`.

    Returns
    -------
    Path
    """
    figure = np.ravel(axes)[0].figure
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    try:
        figure.savefig(path)
    except ValueError as error:  # matplotlib does not know the format
        pyplot().close(figure)
        raise WeakformError(f"The plot cannot be written to {path}: {error}") from None
    pyplot().close(figure)
    return Path(path)


@np.errstate(all="ignore")
def states(fit: FitResult, trajectory: int | str | None = None) -> Any:
    """Draw data, the fitted trajectory with its band and, if known, the truth.

    Several trajectories are drawn side by side, one row for each column, unless one of them is requested. Where the
    model cannot be solved over the data, the fitted states are drawn in place of the trajectory.

    Parameters
    ----------
    fit : FitResult
    trajectory : int or str, optional
        Number or label of a trajectory; the first `MAX_TRAJECTORIES` by default.

    Returns
    -------
    ndarray of matplotlib axes
        `(panels,)` for one trajectory, else `(rows, columns)`.
    """
    plt, names, trajectories = pyplot(), list_panels(fit), fit.data.trajectories
    shown = (
        list(range(min(len(trajectories), MAX_TRAJECTORIES)))
        if trajectory is None
        else [find_trajectory_number(fit, trajectory)]
    )
    columns = min(len(shown), MAX_COLUMNS)
    blocks = -(-len(shown) // columns)
    size = (8, 1.2 + 2.1 * len(names)) if len(shown) == 1 else (2.6 * columns + 0.8, 0.8 + 1.8 * blocks * len(names))
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(names) * blocks, columns, figsize=size, sharex=len(shown) == 1, sharey="row", squeeze=False, num=None
        )
        for position, k in enumerate(shown):
            prediction = find_forward_solution(fit, k)
            for row, name in enumerate(names):
                axis = axes[row * blocks + position // columns, position % columns]
                _draw_panel(axis, fit, k, name, prediction)
                if position % columns == 0:
                    hidden = "" if name in (fit.data.names or fit.model.states) else "\n(not measured)"
                    axis.set_ylabel(label_with_unit(fit, name) + hidden)
                if len(shown) > 1:
                    axis.set_title(trajectories[k].label, fontsize=9, loc="left")
                if row == len(names) - 1 and position + columns >= len(shown):
                    axis.set_xlabel(label_with_unit(fit, "time"))
        for axis in axes.flat:
            axis.set_visible(axis.has_data())
        if len(shown) == 1:
            axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
        figure.align_ylabels()
    return np.asarray(axes[:, 0]) if len(shown) == 1 else axes


def _draw_panel(axis: Any, fit: FitResult, k: int, name: str, prediction: Prediction | None) -> None:
    """Draw one column of trajectory `k`; if `prediction` is None, the fitted states are drawn in its place."""
    q, columns = fit.data.trajectories[k], fit.data.names or fit.model.states
    truth = fit.data.truth if k == 0 and name in fit.model.states else None
    if name in columns:
        axis.plot(q.times, q.values[:, columns.index(name)], ".", color=DATA, ms=4, label="data")
    if truth is not None:
        column = truth.states[:, fit.model.states.index(name)]
        axis.plot(q.times, column, "--", color=TRUTH, lw=1.6, label="noise-free truth")
    if prediction is None:
        axis.plot(q.times, collect_curves(fit, k)[name], color=FIT, lw=1.4, label="fitted states")
        return
    centre, low, high = prediction[name].T
    axis.plot(prediction.times, centre, color=FIT, lw=1.4, label=f"fitted trajectory, {prediction.level:.0%} band")
    axis.fill_between(prediction.times, low, high, color=FIT, alpha=0.2, lw=0)


@np.errstate(all="ignore")
def data_residuals(fit: FitResult) -> Any:
    """Draw the residuals of the data over σ against time, against the fit, and against normal quantiles.

    Parameters
    ----------
    fit : FitResult

    Returns
    -------
    ndarray of matplotlib axes, (columns, 3)
    """
    plt, columns = pyplot(), arrange_residuals_by_column(fit)
    with plt.rc_context(STYLE):
        _, axes = plt.subplots(len(columns), 3, figsize=(10, 0.6 + 2.2 * len(columns)), squeeze=False)
        for row, column in zip(axes, columns, strict=True):
            for axis, x, y, title in (
                (row[0], column.times, column.score, label_with_unit(fit, "time")),
                (row[1], column.level, column.score, f"{label_with_unit(fit, column.name)}, fitted"),
                (row[2], column.expected, np.sort(column.score), "normal quantile"),
            ):
                axis.plot(x, y, ".", color=FIT, ms=4)
                axis.set_xlabel(title)
            for axis in row[:2]:
                axis.axhspan(-RESIDUAL_BAND, RESIDUAL_BAND, color=FIT, alpha=0.1, lw=0)
            if len(column.score):
                row[2].plot(column.expected[[0, -1]], column.expected[[0, -1]], "--", color="gray", lw=1)
            row[0].set_ylabel(f"{column.name}, residual / σ")
    return axes


def residuals(fit: FitResult, trajectory: int | str = 0) -> Any:
    """Draw the weak residuals in standard deviations against time, one panel for each state.

    Parameters
    ----------
    fit : FitResult
    trajectory : int or str
        Number or label of a trajectory.

    Returns
    -------
    ndarray of matplotlib axes, (D,)
    """
    if not fit.weak_residuals:
        raise WeakformError("This fit has no weak residuals: the data are noise-free.")
    plt = pyplot()
    centres, scores = fit.weak_residuals[find_trajectory_number(fit, trajectory)]
    names = fit.model.states
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(len(names), 1, figsize=(8, 1.0 + 1.5 * len(names)), sharex=True, squeeze=False)
        for axis, name, row in zip(axes[:, 0], names, scores, strict=True):
            axis.axhspan(-RESIDUAL_BAND, RESIDUAL_BAND, color=FIT, alpha=0.1, lw=0)
            axis.plot(centres, row, ".", color=FIT, ms=4)
            axis.set_ylabel(name)
        axes[-1, 0].set_xlabel("time")
        axes[0, 0].set_title("weak residuals, standard deviations")
        figure.align_ylabels()
    return np.asarray(axes[:, 0])


def profiles(fit: FitResult, level: float = 0.95) -> Any:
    """Draw the profiles: how the misfit increases if one parameter is held and all others adapt.

    Parameters
    ----------
    fit : FitResult
    level : float
        Level of the profiles; used only if the fit has none yet, so that they are computed.

    Returns
    -------
    ndarray of matplotlib axes
        One panel for each parameter.
    """
    plt = pyplot()
    if not fit.profiles:
        fit.intervals(level, kind="profile")
    columns = min(MAX_COLUMNS, len(fit.profiles))
    rows = -(-len(fit.profiles) // columns)
    with plt.rc_context(STYLE):
        _, axes = plt.subplots(rows, columns, figsize=(2.6 * columns + 0.6, 2.2 * rows + 0.4), squeeze=False)
        for axis, (name, profile) in zip(axes.flat, fit.profiles.items(), strict=False):
            j = fit.model.parameters.index(name)
            limit = fit.quantile(profile.level) ** 2
            axis.plot(profile.values, profile.misfit, ".-", color=FIT, ms=4, label="profile")
            if fit.wald_errors[j] > 0:
                values = np.linspace(profile.values[0], profile.values[-1], WALD_POINTS)
                parabola = ((values - fit.estimate[j]) / fit.wald_errors[j]) ** 2
                axis.plot(values, parabola, "--", color=DATA, lw=1, label="Wald")
            axis.axhline(limit, color=TRUTH, lw=1)
            axis.set(ylim=(0, MAX_SHOWN_MISFIT * limit), xlabel=name)
        for axis in axes.flat[len(fit.profiles) :]:
            axis.set_visible(False)
        axes[0, 0].set_ylabel("increase of the misfit")
        axes[0, 0].legend(fontsize=8)
    return axes


def correlations(fit: FitResult) -> Any:
    """Draw the correlation matrix of the estimates; returns the axes."""
    plt = pyplot()
    names = fit.model.parameters
    size = 1.4 + 0.55 * len(names)
    with plt.rc_context({**STYLE, "axes.grid": False}):
        figure, axis = plt.subplots(figsize=(size + 0.8, size))
        image = axis.imshow(fit.correlation, cmap="PuOr_r", vmin=-1, vmax=1)
        axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axis.set_yticks(range(len(names)), names)
        for i in range(len(names)):
            for j in range(len(names)):
                value = fit.correlation[i, j]
                if np.isfinite(value):
                    ink = "white" if abs(value) > MIN_DARK_CORRELATION else "black"
                    axis.text(j, i, f"{value:+.2f}", ha="center", va="center", fontsize=8, color=ink)
        figure.colorbar(image, ax=axis, shrink=0.8, label="correlation")
    return axis


def waterfall(fit: FitResult) -> Any:
    """Draw the objective that each start reached, best first; returns the axes."""
    plt = pyplot()
    values = sorted(s.objective for s in fit.starts if np.isfinite(s.objective))
    with plt.rc_context(STYLE):
        _, axis = plt.subplots(figsize=(5, 3))
        axis.plot(range(1, len(values) + 1), values, "o-", color=FIT, ms=5)
        axis.set(xlabel="start, best first", ylabel="objective", xticks=range(1, len(values) + 1))
    return axis


def plot_design(design: Design) -> Any:
    """Draw the errors expected after each candidate experiment, one bar chart for each parameter.

    Parameters
    ----------
    design : Design

    Returns
    -------
    ndarray of matplotlib axes, (parameters,)
        Errors relative to those before the experiment, if these are finite.
    """
    plt, n = pyplot(), len(design.experiments)
    has_errors_before = bool(np.isfinite(design.before).all())
    with plt.rc_context(STYLE):
        count = len(design.names)
        _, axes = plt.subplots(1, count, figsize=(2.2 * count + 3.2, 0.32 * n + 1.2), sharey=True, squeeze=False)
        for j, (name, axis) in enumerate(zip(design.names, axes[0], strict=True)):
            errors = np.array([e[j] for e in design.experiments.values()])
            errors_after = errors / design.before[j] if has_errors_before else errors
            axis.barh(np.arange(n), np.where(np.isfinite(errors_after), errors_after, np.nan), color=FIT, height=0.7)
            axis.set_title(name, fontsize=10)
            axis.set_xlabel("error after / before" if has_errors_before else "error")
            if has_errors_before:
                axis.set_xlim(0, 1)
            axis.set_yticks(np.arange(n), list(design.experiments))
        axes[0, 0].invert_yaxis()
    return axes[0]
