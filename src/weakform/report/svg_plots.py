"""Pictures of a report: the fit on the data, residuals, profiles, starts."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.accuracy_metrics import by_column, explained
from ..estimators import ESTIMATORS
from ..inference.fitted_states import drawn, panels
from ..inference.prediction import follows
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from .html_blocks import figure, legend, plain, series, spread, table, thinned
from .text_report import AGREED, agreeing, number, pair

if TYPE_CHECKING:
    from ..inference.profiles import Profile
    from ..inference.state_bands import Prediction
    from ..results.fit_result import FitResult

MOST, SEVERAL = 24, 2
"""Trajectories that are drawn, and those above which they are drawn small, side by side."""
LOST = "The forward solution leaves the data, as it does for chaotic systems; the fitted states are shown instead."
COLOURS = ("fit", "truth", "data", "good", "bad")
SAME = 0.01
"""Difference of objectives that is not worth a picture."""


def titled(fit: FitResult, name: str) -> str:
    """A name with its unit."""
    unit = fit.units.get(name, "")
    return f"{name} ({unit})" if unit else name


def on_data(fit: FitResult) -> str:
    """The model on the data: a picture for each column, and for each trajectory."""
    every = fit.data.trajectories
    bands = [forward(fit, k) for k in range(min(len(every), MOST))]
    small, parts, row = len(every) > SEVERAL, list[str](), list[str]()
    columns = fit.data.names or fit.model.states
    for name in panels(fit):
        figures = [_panel(fit, k, name, band) for k, band in enumerate(bands)]
        limits = spread([s for lines, _ in figures for s in lines]) if small else None
        hidden = name not in columns
        if small:
            parts.append(f"<h3>{escape(titled(fit, name))}{', never measured' if hidden else ''}</h3>")
        for (lines, samples), q in zip(figures, every, strict=False):
            where = f" of {q.label}" if q.label else ""
            said = "never measured: the fit" if hidden else f"{samples} samples and the fit"
            label = f"{titled(fit, name)}{where} against time: {said}"
            title = q.label if small else f"{titled(fit, name)}{where}{', never measured' if hidden else ''}"
            row.append(figure(label, (titled(fit, "time"), title), lines, small=small, limits=limits))
        if small:  # a row for each column; else one for all of them
            parts.append(f'<div class="multiples">{"".join(row)}</div>')
            row = []
    if not small:
        parts.append(f'<div class="pairs">{"".join(row)}</div>')
    if len(every) > MOST:
        parts.append(f"<p>{len(every) - MOST} more trajectories are not shown.</p>")
    solved = any(band is not None for band in bands)
    shown = "the model solved once, with its 95% band" if solved else "states that obey the model"
    entries = [("data", "data"), (f"fit: {shown}", "fit")]
    entries += [("noise-free truth", "truth")] if fit.data.truth is not None else []
    return ("" if solved else f"<p>{LOST}</p>") + legend(*entries) + "".join(parts) + _followed(fit)


def forward(fit: FitResult, k: int) -> Prediction | None:
    """The forward solution with its band, where it stays with the data."""
    try:
        return fit.trajectory(k) if follows(fit, k) else None
    except WeakformError:
        return None


def _panel(fit: FitResult, k: int, name: str, band: Prediction | None) -> tuple[list[dict[str, Any]], int]:
    """What is drawn of one column of one trajectory, and how many samples it has."""
    q, truth, samples = fit.data.trajectories[k], fit.data.truth, 0
    columns = fit.data.names or fit.model.states
    lines = []
    if band is not None:
        bt, low, high = thinned(band.times, *band[name][:, 1:].T)
        lines.append(series("band", "95% band", (bt, low), "band", upper=plain(high)))
    if name in columns:
        values = q.values[:, columns.index(name)]
        samples = int(np.isfinite(values).sum())
        lines.append(series("points", "data", thinned(q.times, values), "data"))
    if truth is not None and len(truth.states) == len(q.times) and k == 0 and name in fit.model.states:
        tt, tu = thinned(q.times, truth.states[:, fit.model.states.index(name)])
        lines.append(series("line", "truth", (tt, tu), "truth", dashed=True))
    t, u = (q.times, drawn(fit, k)[name]) if band is None else (band.times, band[name][:, 0])
    lines.append(series("line", "fit", thinned(t, u), "fit"))
    return lines, samples


def _shares(fit: FitResult) -> FloatArray:
    """R² of each column by what is drawn: the forward solution, or the fitted states where it leaves the data."""
    several = len(fit.data.trajectories)
    if several > MOST or not all(follows(fit, k) for k in range(several)):
        return explained(fit)
    return np.array(list(fit.r_squared.values()))


def _followed(fit: FitResult) -> str:
    """How closely each column is followed."""
    share, counts = _shares(fit), fit.data.measurements
    rows = [
        [name, str(int(counts[d])), number(float(fit.sigma[d]), 3), f"{share[d]:.4f}" if np.isfinite(share[d]) else ""]
        for d, name in enumerate(fit.data.names or fit.model.states)
    ]
    said = "σ" if fit.sigma_estimated else "σ (given)"
    return table(["measured", "values", said, "R²"], rows)


def data_residuals(fit: FitResult) -> str:
    """Residuals of the data in standard deviations: against time, against the level, and in order."""
    columns = by_column(fit) if (fit.sigma > 0).all() else []
    if not any(len(column.score) for column in columns):
        return ""
    edges = [{"kind": "level", "name": "", "y": y, "colour": "soft"} for y in (-2.0, 2.0)]
    parts = []
    for column in columns:
        name, score, expected = column.name, column.score, column.expected
        if len(score) < 3:
            continue
        ends = expected[[0, -1]]
        title = f"{name}, residual / σ"
        by_time = series("points", "residuals", thinned(column.times, score), "fit")
        by_level = series("points", "residuals", thinned(column.level, score), "fit")
        ordered = series("points", "residuals", thinned(expected, np.sort(score)), "fit")
        straight = series("line", "normal", (ends, ends), "soft", dashed=True)
        parts += [
            figure(f"residuals of {name} against time", (titled(fit, "time"), title), [by_time, *edges], small=True),
            figure(
                f"residuals of {name} against the fit",
                (f"{titled(fit, name)}, fitted", title),
                [by_level, *edges],
                small=True,
            ),
            figure(
                f"residuals of {name} in order, against those of normal noise",
                ("normal quantile", title),
                [straight, ordered],
                small=True,
            ),
        ]
    intro = (
        "<p class='how'>Measured less fitted values in standard deviations: without a pattern in time or in the "
        "level, and along the dashed line where the noise is what it was said to be.</p>"
    )
    return intro + f'<div class="multiples three">{"".join(parts)}</div>'


def weak_residuals(fit: FitResult) -> str:
    """Weak residuals against time."""
    if not fit.weak_residuals:
        return ""
    every, parts = fit.data.trajectories, []
    small = len(every) > SEVERAL
    for q, (centres, values) in zip(every[:MOST], fit.weak_residuals, strict=False):
        lines = []
        for d, name in enumerate(fit.model.states):
            t, r = thinned(centres, values[d])
            lines.append(series("points", name, (t, r), COLOURS[d % len(COLOURS)]))
        lines += [{"kind": "level", "name": "", "y": level, "colour": "soft"} for level in (-2.0, 2.0)]
        label = f"weak residuals{' of ' + q.label if q.label else ''} in standard deviations against time"
        title = q.label or "weak residual / its sd"
        parts.append(figure(label, (titled(fit, "time"), title), lines, small=small))
    entries = [(name, COLOURS[d % len(COLOURS)]) for d, name in enumerate(fit.model.states)]
    intro = (
        "<p class='how'>Each point is one equation seen through one test function, in standard deviations. "
        "Where the model is right about 95% of them lie between the dashed lines, without a pattern in time.</p>"
    )
    held = "".join(parts)
    return intro + legend(*entries) + f'<div class="{"multiples" if small else "pairs alone"}">{held}</div>'


def profiles(fit: FitResult) -> str:
    """How the misfit rises when one parameter is held."""
    if not fit.profiles:
        able = " or ".join(f"“{e.name}”" for e in ESTIMATORS.values() if e.refits)
        return "" if ESTIMATORS[fit.method].refits else f"<p>Only fits by method {able} have profiles.</p>"
    parts = []
    for name, profile in fit.profiles.items():
        if name in fit.undetermined:  # it has none
            continue
        j = fit.model.parameters.index(name)
        near = np.linspace(profile.values[0], profile.values[-1], 60)
        limit = fit.quantile(profile.level) ** 2
        lines = [series("line", "profile", _smooth(profile), "fit")]
        if np.isfinite(fit.wald_errors[j]) and fit.wald_errors[j] > 0:
            parabola = ((near - fit.estimate[j]) / fit.wald_errors[j]) ** 2
            shown = parabola <= 2.5 * limit
            lines.append(series("line", "Wald", (near[shown], parabola[shown]), "soft", dashed=True))
        lines.append({"kind": "level", "name": "", "y": limit, "colour": "mark"})
        ends = pair(np.array(profile.interval)).replace("-", "−")[1:-1].replace(", ", " and ")
        caption = f"{name}: 95% between {ends}"
        title = (titled(fit, name), "rise of the misfit")
        parts.append(
            figure(f"profile of {caption}", title, lines, small=True, limits=(0.0, 2.2 * limit), caption=caption)
        )
    intro = (
        "<p class='how'>How much worse the fit becomes when one parameter is held and all others adapt. A "
        "parameter is determined where its curve crosses the dashed level on both sides; the dashed curve is the "
        "parabola of the covariance. Where the two differ, interval and standard error are those of the profile.</p>"
    )
    return intro + f'<div class="multiples">{"".join(parts)}</div>'


def _smooth(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """A profile as a curve: the root of the misfit, with a sign, is nearly a line, and goes through all its points."""
    x, y = profile.values, np.sqrt(np.maximum(profile.misfit, 0.0))
    if len(x) < 3:
        return x, y**2
    from scipy.interpolate import PchipInterpolator

    signed = np.where(np.arange(len(x)) < int(np.argmin(y)), -y, y)
    near = np.unique(np.concatenate([np.linspace(x[0], x[-1], 80), x]))
    return near, np.asarray(PchipInterpolator(x, signed)(near)) ** 2


def starts(fit: FitResult) -> str:
    """Where the starts have led."""
    values = sorted(s.objective for s in fit.starts if math.isfinite(s.objective))
    if len(values) < 2:
        count = len(fit.starts)
        return f"<p>{count} start; models that are linear in their parameters need no more.</p>" if values else ""
    if values[-1] - values[0] < SAME or all(s.behind <= AGREED for s in fit.starts):
        return f"<p>Of {len(fit.starts)} starts {agreeing(fit)}.</p>"
    order = np.arange(1, len(values) + 1)
    drawing = figure(
        f"objective of {len(values)} starts, the best first",
        ("start, the best first", "objective"),
        [
            series("points", "objective", (order, values), "fit", size=7),
            series("line", "objective", (order, values), "fit"),
        ],
        small=True,
    )
    return (
        f"<p>Of {len(fit.starts)} starts {agreeing(fit)}. Steps are other optima that "
        f'were found and passed over.</p><div class="multiples">{drawing}</div>'
    )
