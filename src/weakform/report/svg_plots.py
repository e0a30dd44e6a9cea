"""Charts of the HTML report: data and fit, residuals, weak residuals, profiles and starts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.accuracy_metrics import arrange_residuals_by_column, compute_state_r_squared
from ..estimators import ESTIMATORS
from ..inference.fitted_states import collect_curves, list_panels
from ..inference.prediction import is_solution_close
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from .html_blocks import (
    build_figure,
    build_legend,
    build_series,
    build_table,
    find_range,
    thin_columns,
    to_json_numbers,
)
from .text_report import LIKELIHOOD_TOLERANCE, describe_agreement, format_interval, format_number

if TYPE_CHECKING:
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction
    from ..results.fit_result import FitResult

MAX_TRAJECTORIES = 24
"""Trajectories that are drawn, on the page and by matplotlib; above, the page leaves out the initial values, too. By
judgement: with more, a page is too long to read."""
MAX_LARGE_TRAJECTORIES = 2
"""Trajectories. Above, their charts are drawn small, side by side. By judgement."""
FITTED_STATES_NOTE = (
    "The forward solution departs from the data, as is usual for chaotic systems; the fitted states are shown instead."
)
"""Shown where the model, solved once over the data, does not follow them."""
COLOURS = ("fit", "truth", "data", "good", "bad")
"""Names of colours of `page.css` for the states."""
MIN_DRAWN_DIFFERENCE = 0.01
"""Difference between the worst and the best objective. Below, the starts are described in words only. By judgement."""
MIN_RESIDUALS = 3
"""Values of a column. Below, its residuals are not drawn. By judgement."""
RESIDUAL_LEVELS = (-2.0, 2.0)
"""Standard deviations between which about 95% of normal residuals lie; drawn as dashed lines."""
PROFILE_POINTS = 80
"""Points of the curve of a profile. By judgement: smooth on a screen."""
WALD_POINTS = 60
"""Points of the parabola beside a profile, on the page and in matplotlib. By judgement."""


@dataclass(frozen=True)
class _ProfileRange:
    """What the chart of a profile shows, in units of the level at which the interval ends; by judgement."""

    axis: float = 2.2
    """Upper end of the axis."""

    parabola: float = 2.5
    """Where the parabola is cut off: a little outside the chart."""


PROFILE_RANGE = _ProfileRange()
"""The range in use."""


def label_with_unit(fit: FitResult, name: str) -> str:
    """Return a name with its unit in parentheses, if it has one."""
    unit = fit.units.get(name, "")
    return f"{name} ({unit})" if unit else name


def build_data_charts(fit: FitResult) -> str:
    """Build the section with data and fit: one chart for each column and trajectory, and a table of R².

    Parameters
    ----------
    fit : FitResult

    Returns
    -------
    str
    """
    trajectories = fit.data.trajectories
    bands = [find_forward_solution(fit, k) for k in range(min(len(trajectories), MAX_TRAJECTORIES))]
    small, parts, charts = len(trajectories) > MAX_LARGE_TRAJECTORIES, list[str](), list[str]()
    columns = fit.data.names or fit.model.states
    for name in list_panels(fit):
        figures = [_build_panel_series(fit, k, name, band) for k, band in enumerate(bands)]
        # Small charts of the same column share their range, so that trajectories can be compared.
        limits = find_range([s for lines, _ in figures for s in lines]) if small else None
        hidden = name not in columns
        if small:
            parts.append(f"<h3>{escape(label_with_unit(fit, name))}{' (not measured)' if hidden else ''}</h3>")
        for (lines, samples), q in zip(figures, trajectories, strict=False):
            where = f" of {q.label}" if q.label else ""
            content = "the fit; not measured" if hidden else f"{samples} samples and the fit"
            label = f"{label_with_unit(fit, name)}{where} against time: {content}"
            title = q.label if small else f"{label_with_unit(fit, name)}{where}{' (not measured)' if hidden else ''}"
            charts.append(build_figure(label, (label_with_unit(fit, "time"), title), lines, small=small, limits=limits))
        if small:  # one row of charts for each column; large charts share one row
            parts.append(f'<div class="multiples">{"".join(charts)}</div>')
            charts = []
    if not small:
        parts.append(f'<div class="pairs">{"".join(charts)}</div>')
    if len(trajectories) > MAX_TRAJECTORIES:
        parts.append(f"<p>Trajectories that are not shown: {len(trajectories) - MAX_TRAJECTORIES}.</p>")
    solved = any(band is not None for band in bands)
    shown = "the solution of the model, with its 95% band" if solved else "states that obey the model"
    entries = [("data", "data"), (f"fit: {shown}", "fit")]
    entries += [("noise-free truth", "truth")] if fit.data.truth is not None else []
    return (
        ("" if solved else f"<p>{FITTED_STATES_NOTE}</p>")
        + build_legend(*entries)
        + "".join(parts)
        + _build_r_squared_table(fit)
    )


def find_forward_solution(fit: FitResult, k: int) -> Prediction | None:
    """Return the forward solution with its band; None if it does not follow the data or cannot be computed."""
    try:
        return fit.trajectory(k) if is_solution_close(fit, k) else None
    except WeakformError:
        return None


def _build_panel_series(fit: FitResult, k: int, name: str, band: Prediction | None) -> tuple[list[dict[str, Any]], int]:
    """Build the series of one column of one trajectory.

    Parameters
    ----------
    fit : FitResult
    k : int
        Number of the trajectory.
    name : str
        A measured column or a hidden state.
    band : Prediction, or None
        The forward solution; None if the fitted states are drawn in its place.

    Returns
    -------
    list of dict
        Band, data, truth and fit, as far as they exist.
    int
        Number of measured values.
    """
    q, truth, samples = fit.data.trajectories[k], fit.data.truth, 0
    columns = fit.data.names or fit.model.states
    lines = []
    if band is not None:
        bt, low, high = thin_columns(band.times, *band[name][:, 1:].T)
        lines.append(build_series("band", "95% band", (bt, low), "band", upper=to_json_numbers(high)))
    if name in columns:
        values = q.values[:, columns.index(name)]
        samples = int(np.isfinite(values).sum())
        lines.append(build_series("points", "data", thin_columns(q.times, values), "data"))
    if truth is not None and len(truth.states) == len(q.times) and k == 0 and name in fit.model.states:
        tt, tu = thin_columns(q.times, truth.states[:, fit.model.states.index(name)])
        lines.append(build_series("line", "truth", (tt, tu), "truth", dashed=True))
    t, u = (q.times, collect_curves(fit, k)[name]) if band is None else (band.times, band[name][:, 0])
    lines.append(build_series("line", "fit", thin_columns(t, u), "fit"))
    return lines, samples


def _compute_r_squared(fit: FitResult) -> FloatArray:
    """Compute R² of each column, `(columns,)`, by the curve that is drawn.

    That is the forward solution, or the fitted states if it does not follow the data.
    """
    count = len(fit.data.trajectories)
    if count > MAX_TRAJECTORIES or not all(is_solution_close(fit, k) for k in range(count)):
        return compute_state_r_squared(fit)
    return np.array(list(fit.r_squared.values()))


def _build_r_squared_table(fit: FitResult) -> str:
    """Build the table that shows how closely the fit follows each column."""
    r_squared, measurements = _compute_r_squared(fit), fit.data.measurements
    rows = [
        [
            name,
            str(int(measurements[d])),
            format_number(float(fit.sigma[d]), 3),
            f"{r_squared[d]:.4f}" if np.isfinite(r_squared[d]) else "",
        ]
        for d, name in enumerate(fit.data.names or fit.model.states)
    ]
    sigma_label = "σ" if fit.sigma_estimated else "σ (given)"
    return build_table(["measured", "values", sigma_label, "R²"], rows)


def build_residual_charts(fit: FitResult) -> str:
    """Build the section of the residuals of the data in standard deviations.

    Each column gets three charts: against time, against the fitted level, and against normal quantiles.
    """
    columns = arrange_residuals_by_column(fit) if (fit.sigma > 0).all() else []
    if not any(len(column.score) for column in columns):
        return ""
    levels = [{"kind": "level", "name": "", "y": y, "colour": "soft"} for y in RESIDUAL_LEVELS]
    parts = []
    for column in columns:
        name, score, expected = column.name, column.score, column.expected
        if len(score) < MIN_RESIDUALS:
            continue
        ends = expected[[0, -1]]
        title = f"{name}, residual / σ"
        by_time = build_series("points", "residuals", thin_columns(column.times, score), "fit")
        by_level = build_series("points", "residuals", thin_columns(column.level, score), "fit")
        ordered = build_series("points", "residuals", thin_columns(expected, np.sort(score)), "fit")
        diagonal = build_series("line", "normal", (ends, ends), "soft", dashed=True)
        parts += [
            build_figure(
                f"residuals of {name} against time",
                (label_with_unit(fit, "time"), title),
                [by_time, *levels],
                small=True,
            ),
            build_figure(
                f"residuals of {name} against the fit",
                (f"{label_with_unit(fit, name)}, fitted", title),
                [by_level, *levels],
                small=True,
            ),
            build_figure(
                f"residuals of {name} against quantiles of normal noise",
                ("normal quantile", title),
                [diagonal, ordered],
                small=True,
            ),
        ]
    intro = (
        "<p class='explanation'>Measured minus fitted values, in standard deviations. If model and noise are "
        "right, there is no pattern over time or level, and the points of the quantile plot follow the dashed "
        "line.</p>"
    )
    return intro + f'<div class="multiples three">{"".join(parts)}</div>'


def build_weak_residual_charts(fit: FitResult) -> str:
    """Build the section of the weak residuals against time; empty if the fit has none."""
    if not fit.weak_residuals:
        return ""
    trajectories, parts = fit.data.trajectories, []
    small = len(trajectories) > MAX_LARGE_TRAJECTORIES
    for q, (centres, values) in zip(trajectories[:MAX_TRAJECTORIES], fit.weak_residuals, strict=False):
        lines = []
        for d, name in enumerate(fit.model.states):
            t, r = thin_columns(centres, values[d])
            lines.append(build_series("points", name, (t, r), COLOURS[d % len(COLOURS)]))
        lines += [{"kind": "level", "name": "", "y": level, "colour": "soft"} for level in RESIDUAL_LEVELS]
        label = f"weak residuals{' of ' + q.label if q.label else ''} in standard deviations against time"
        title = q.label or "weak residual / sd"
        parts.append(build_figure(label, (label_with_unit(fit, "time"), title), lines, small=small))
    entries = [(name, COLOURS[d % len(COLOURS)]) for d, name in enumerate(fit.model.states)]
    intro = (
        "<p class='explanation'>Each point is the residual of one equation, weighted with one test function, in "
        "standard deviations. If the model is right, about 95% of the points are between the dashed lines, without "
        "a pattern over time.</p>"
    )
    charts = "".join(parts)
    return intro + build_legend(*entries) + f'<div class="{"multiples" if small else "pairs single"}">{charts}</div>'


def build_profile_charts(fit: FitResult) -> str:
    """Build the section of the profiles: how the misfit increases if one parameter is held and the others adapt."""
    if not fit.profiles:
        methods = " or ".join(f"“{e.name}”" for e in ESTIMATORS.values() if e.refits)
        return (
            "" if ESTIMATORS[fit.method].refits else f"<p>Profiles are available for fits by method {methods} only.</p>"
        )
    parts = []
    for name, profile in fit.profiles.items():
        if name in fit.undetermined:  # its profile has no end to show
            continue
        j = fit.model.parameters.index(name)
        values = np.linspace(profile.values[0], profile.values[-1], WALD_POINTS)
        limit = fit.quantile(profile.level) ** 2
        lines = [build_series("line", "profile", _interpolate_profile(profile), "fit")]
        if np.isfinite(fit.wald_errors[j]) and fit.wald_errors[j] > 0:
            parabola = ((values - fit.estimate[j]) / fit.wald_errors[j]) ** 2
            is_visible = parabola <= PROFILE_RANGE.parabola * limit
            lines.append(build_series("line", "Wald", (values[is_visible], parabola[is_visible]), "soft", dashed=True))
        lines.append({"kind": "level", "name": "", "y": limit, "colour": "mark"})
        ends = format_interval(np.array(profile.interval)).replace("-", "−")[1:-1].replace(", ", " to ")
        caption = f"{name}: 95% interval from {ends}"
        title = (label_with_unit(fit, name), "increase of the misfit")
        parts.append(
            build_figure(
                f"profile of {caption}",
                title,
                lines,
                small=True,
                limits=(0.0, PROFILE_RANGE.axis * limit),
                caption=caption,
            )
        )
    intro = (
        "<p class='explanation'>How much the misfit increases if one parameter is held and all others adapt. A "
        "parameter is determined if its curve crosses the dashed level on both sides. The dashed curve is the "
        "parabola of the covariance; where the two curves differ, interval and standard error are taken from the "
        "profile.</p>"
    )
    return intro + f'<div class="multiples">{"".join(parts)}</div>'


def _interpolate_profile(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """Interpolate a profile through all its points; returns values and misfits.

    The root of the misfit, with the sign of the side, is nearly a straight line in the parameter, so that it is
    interpolated in place of the misfit.
    """
    x, y = profile.values, np.sqrt(np.maximum(profile.misfit, 0.0))
    if len(x) < 3:  # a curve needs the estimate and a point on each side of it
        return x, y**2
    from scipy.interpolate import PchipInterpolator

    signed = np.where(np.arange(len(x)) < int(np.argmin(y)), -y, y)
    grid = np.unique(np.concatenate([np.linspace(x[0], x[-1], PROFILE_POINTS), x]))
    return grid, np.asarray(PchipInterpolator(x, signed)(grid)) ** 2


def build_starts_summary(fit: FitResult) -> str:
    """Build the section that shows which objectives the starts reached."""
    values = sorted(s.objective for s in fit.starts if math.isfinite(s.objective))
    if len(values) < 2:
        remark = "; the model is linear in its parameters and needs no more" if fit.model.is_linear else ""
        return f"<p>{len(fit.starts)} start{remark}.</p>" if values else ""
    if values[-1] - values[0] < MIN_DRAWN_DIFFERENCE or all(s.behind <= LIKELIHOOD_TOLERANCE for s in fit.starts):
        return f"<p>Of {len(fit.starts)} starts, {describe_agreement(fit)}.</p>"
    order = np.arange(1, len(values) + 1)
    drawing = build_figure(
        f"objective of {len(values)} starts, best first",
        ("start, best first", "objective"),
        [
            build_series("points", "objective", (order, values), "fit", size=7),
            build_series("line", "objective", (order, values), "fit"),
        ],
        small=True,
    )
    return (
        f"<p>Of {len(fit.starts)} starts, {describe_agreement(fit)}. Steps in the curve are "
        f'other, worse optima.</p><div class="multiples">{drawing}</div>'
    )
