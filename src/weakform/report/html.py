"""The report as one self-contained HTML page: no network, no library; and the short form for notebooks."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..estimators import ESTIMATORS
from ..results.hidden import shown_beginnings
from ..results.observation import drawn, panels
from ..results.prediction import follows
from ..results.refits import can_refit
from ..support.errors import WeakformError
from ..support.typing import FloatArray
from ..support.versions import __version__, versions
from .mathml import equations
from .pairs import described
from .parts import chart, document, legend, plain, section, series, table, texts, thinned
from .text import agreeing, chosen, number, pair
from .verdict import verdict

if TYPE_CHECKING:
    from ..results.intervals import Profile
    from ..results.result import FitResult

MAX_PANELS = 24
LOST = "The forward solution leaves the data, as it does for chaotic systems; the fitted states are shown instead."


@np.errstate(all="ignore")
def write(fit: FitResult, path: str | Path, command: str = "") -> Path:
    """Write the page; returns its path."""
    if not fit.profiles and can_refit(fit):
        try:
            fit.intervals(kind="profile")
        except WeakformError:
            fit.late.profiles.clear()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page(fit, command), encoding="utf-8")
    return Path(path)


@np.errstate(all="ignore")
def page(fit: FitResult, command: str = "") -> str:
    """The whole page."""
    said = verdict(fit)
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in said.reasons)
    body = [
        f'<section class="verdict {said.kind}" aria-label="Verdict"><p class="headline">{escape(said.headline)}</p>'
        f"{reasons}</section>",
        section("Equations", f'<div class="wide">{equations(fit.model)}</div>'),
        section("Population", _population(fit)),
        section("Estimates", _estimates(fit) + _tied(fit) + _beginnings(fit)),
        texts("What should not be overlooked", fit.warnings),
        section("Data and fitted trajectory", _states(fit)),
        section("Weak residuals in time", _residuals(fit)),
        section("Profiles", _profiles(fit)),
        section("Posterior", "" if fit.posterior is None else described(fit.posterior)),
        section("Correlations of the estimates", _correlations(fit)),
        section("Starts", _starts(fit)),
        section("What was chosen", _chosen(fit)),
        texts("Notes", (*fit.data.notes, *fit.notes)),
        section("To repeat it", _repeat(fit, command)),
    ]
    title = f"weakform: {', '.join(panels(fit))}"
    return document(title, body)


SAME = 0.01
"""Difference of objectives that is not worth a picture."""


def _pair(ends: FloatArray) -> str:
    return pair(ends).replace("-", "−")


def _estimates(fit: FitResult) -> str:
    ends = fit.intervals()
    header = ["parameter", "estimate", "standard error", "95% interval"]
    header += ["95% profile interval"] if fit.profiles else []
    units = any(name in fit.units for name in fit.model.parameters)
    header += ["bounds", *(["unit"] if units else []), ""]
    rows = []
    for j, name in enumerate(fit.model.parameters):
        quantity = fit[name]
        known = not fit.fixed[j] and math.isfinite(quantity.error)
        shown = not fit.fixed[j] and (known or np.isfinite(ends[j]).any())
        row = [name, number(quantity.value)]
        row += [number(quantity.error, 3) if known else "", _pair(ends[j]) if shown else "none"]
        if fit.profiles:
            profile = fit.profiles.get(name)
            row.append("" if profile is None else _pair(np.array(profile.interval)))
        bounded = np.isfinite(fit.bounds[j]).any()
        remark = "prior" if fit.prior is not None and j in fit.prior.index else ""
        row.append(_pair(fit.bounds[j]) if bounded else "")
        row += [fit.units.get(name, "")] if units else []
        row.append("; ".join(filter(None, (quantity.note, remark))))
        rows.append(row)
    return table(header, rows)


def _population(fit: FitResult) -> str:
    if fit.population is None:
        return ""
    header = ["parameter", "typical value", "95% interval", "spread", "95% interval", "shrinkage"]
    rows = [
        [
            e.name,
            number(e.mean),
            pair(np.array(e.mean_interval)),
            number(e.spread, 3),
            pair(np.array(e.spread_interval)),
            f"{e.shrinkage:.0%}",
        ]
        for e in fit.population.effects
    ]
    return table(header, rows) + (
        "<p>The spread is the standard deviation over subjects, of the logarithm where a parameter is log-normal. "
        "Estimates of the subjects, below, are drawn towards the typical value as far as they tell little of their own."
        "</p>"
    )


def _tied(fit: FitResult) -> str:
    rows = []
    for name, expression in fit.tied.items():
        value = fit.derived(expression)
        rows.append([name, expression, number(value.value), number(value.error, 3), _pair(np.array(value.interval))])
    return table(["tied", "is", "value", "standard error", "95% interval"], rows) if rows else ""


def _beginnings(fit: FitResult) -> str:
    rows = []
    for name, q in shown_beginnings(fit, MAX_PANELS):
        interval = q.note or _pair(np.array(q.interval))
        rows.append([name, number(q.value), "" if q.note else number(q.error, 3), interval])
    return table(["initial value", "estimate", "standard error", "95% interval"], rows) if rows else ""


def _time(fit: FitResult) -> str:
    unit = fit.units.get("time", "")
    return f"time ({unit})" if unit else "time"


def _states(fit: FitResult) -> str:
    parts, truth, forward = [], fit.data.truth, False
    columns = fit.data.names or fit.model.states
    for k, q in enumerate(fit.data.trajectories[:MAX_PANELS]):
        band = None
        times, centre = q.times, drawn(fit, k)
        if follows(fit, k):
            try:
                band = fit.trajectory(k)
                times, forward = band.times, True
            except WeakformError:
                band = None
        if q.label:
            parts.append(f"<h3>{escape(q.label)}</h3>")
        for name in panels(fit):
            t, u = thinned(times, centre[name] if band is None else band[name][:, 0])
            lines = []
            if band is not None:
                bt, low, high = thinned(band.times, *band[name][:, 1:].T)
                lines.append(series("band", "95% band", bt, low, "band", upper=plain(high)))
            if name in columns:
                dt, du = thinned(q.times, q.values[:, columns.index(name)])
                lines.append(series("points", "data", dt, du, "data"))
            if truth is not None and len(truth.states) == len(q.times) and k == 0 and name in fit.model.states:
                tt, tu = thinned(q.times, truth.states[:, fit.model.states.index(name)])
                lines.append(series("line", "truth", tt, tu, "truth", dashed=True))
            lines.append(series("line", "fit", t, u, "fit"))
            unit = fit.units.get(name, "")
            caption = f"{name} ({unit})" if unit else name
            where = f" of {q.label}" if q.label else ""
            label = f"{caption}{where} against time: {len(q.times)} samples and the fit"
            if name not in columns:
                caption, label = f"{caption}, never measured", f"{caption}{where} against time, never measured: the fit"
            parts.append(
                f"<figure>{chart(label, _time(fit), lines)}<figcaption>{escape(caption)}</figcaption></figure>"
            )
    if len(fit.data.trajectories) > MAX_PANELS:
        parts.append(f"<p>{len(fit.data.trajectories) - MAX_PANELS} more trajectories are not shown.</p>")
    shown = "the model solved once, with its 95% band" if forward else "states that obey the model"
    entries = [("data", "data"), (f"fit: {shown}", "fit")] + (
        [("noise-free truth", "truth")] if truth is not None else []
    )
    intro = "" if forward else f"<p>{LOST}</p>"
    return intro + legend(*entries) + "".join(parts)


def _residuals(fit: FitResult) -> str:
    if not fit.weak_residuals:
        return ""
    parts = []
    for q, (centres, scores) in zip(fit.data.trajectories[:MAX_PANELS], fit.weak_residuals, strict=False):
        lines = []
        for d, name in enumerate(fit.model.states):
            t, r = thinned(centres, scores[d])
            lines.append(series("points", name, t, r, ("fit", "truth", "data", "good", "bad")[d % 5], size=3.5))
        lines += [{"kind": "level", "name": "", "y": level, "colour": "soft"} for level in (-2.0, 2.0)]
        label = f"weak residuals{' of ' + q.label if q.label else ''} in standard deviations against time"
        parts.append(f"<figure>{chart(label, _time(fit), lines)}<figcaption>{escape(q.label)}</figcaption></figure>")
    entries = [(name, ("fit", "truth", "data", "good", "bad")[d % 5]) for d, name in enumerate(fit.model.states)]
    intro = (
        "<p>Each point is one equation seen through one test function, in standard deviations. Where the model is "
        "right about 95% of them lie between the dashed lines, without a pattern in time.</p>"
    )
    return intro + legend(*entries) + "".join(parts)


def _profiles(fit: FitResult) -> str:
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
        lines = [series("line", "profile", *_smooth(profile), "fit")]
        if np.isfinite(fit.errors[j]) and fit.errors[j] > 0:
            parabola = ((near - fit.estimate[j]) / fit.errors[j]) ** 2
            shown = parabola <= 2.5 * limit
            lines.append(series("line", "Wald", near[shown], parabola[shown], "soft", dashed=True))
        lines.append({"kind": "level", "name": "", "y": limit, "colour": "mark"})
        caption = f"{name}: 95% between {_pair(np.array(profile.interval))[1:-1].replace(', ', ' and ')}"
        label = f"profile of {caption}"
        parts.append(f"<figure>{chart(label, name, lines, 170)}<figcaption>{escape(caption)}</figcaption></figure>")
    intro = (
        "<p>How much worse the fit becomes when one parameter is held and all others adapt. A parameter is determined "
        "where its curve crosses the dashed level on both sides; the dashed curve is the parabola behind the standard "
        "error.</p>"
    )
    return intro + f'<div class="grid">{"".join(parts)}</div>'


def _smooth(profile: Profile) -> tuple[FloatArray, FloatArray]:
    """A profile as a curve: the root of the misfit, with a sign, is nearly a line, and goes through all its points."""
    x, y = profile.values, np.sqrt(np.maximum(profile.misfit, 0.0))
    if len(x) < 3:
        return x, y**2
    from scipy.interpolate import PchipInterpolator

    signed = np.where(np.arange(len(x)) < int(np.argmin(y)), -y, y)
    near = np.unique(np.concatenate([np.linspace(x[0], x[-1], 80), x]))
    return near, np.asarray(PchipInterpolator(x, signed)(near)) ** 2


def _correlations(fit: FitResult) -> str:
    names, C = fit.model.parameters, fit.correlation
    inner = [j for j in range(len(names)) if np.isfinite(C[j, j])]
    if len(inner) < 2:
        return ""
    head = "".join(f'<th scope="col">{escape(names[j])}</th>' for j in inner)
    rows = []
    for i in inner:
        cells = []
        for j in inner:
            value = C[i, j]
            colour = "0,114,178" if value < 0 else "213,94,0"
            strong = f"background:rgba({colour},{0.75 * abs(value):.2f})" if i != j else ""
            cells.append(f'<td style="{strong}">{value:+.2f}</td>')
        rows.append(f'<tr><th scope="row">{escape(names[i])}</th>{"".join(cells)}</tr>')
    return (
        '<div class="wide"><table class="correlations"><thead><tr><th scope="col"></th>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "<p>Near +1 or −1 the data determine a combination of two parameters better than either.</p>"
    )


def _starts(fit: FitResult) -> str:
    values = sorted(s.objective for s in fit.starts if math.isfinite(s.objective))
    if len(values) < 2:
        count = len(fit.starts)
        return f"<p>{count} start; models that are linear in their parameters need no more.</p>" if values else ""
    if values[-1] - values[0] < SAME:
        return f"<p>Of {len(fit.starts)} starts {agreeing(fit)}.</p>"
    order = np.arange(1, len(values) + 1)
    drawing = chart(
        f"objective of {len(values)} starts, the best first",
        "start, the best first",
        [
            series("points", "objective", order, values, "fit", size=7),
            series("line", "objective", order, values, "fit"),
        ],
        180,
    )
    return (
        f"<p>Of {len(fit.starts)} starts {agreeing(fit)}. Steps are other optima that "
        f"were found and passed over.</p><figure>{drawing}<figcaption>objective of each start</figcaption></figure>"
    )


def _chosen(fit: FitResult) -> str:
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in chosen(fit))
    return f"<dl>{rows}</dl>"


def _repeat(fit: FitResult, command: str) -> str:
    line = f"<pre>{escape(command)}</pre>" if command else ""
    return (
        f"{line}<p>Seed {fit.seed}; {escape(versions())}. The same data, seed and versions give the same numbers.</p>"
    )


@np.errstate(all="ignore")
def fragment(fit: FitResult) -> str:
    """The short form for notebooks: verdict, estimates, warnings."""
    said = verdict(fit)
    texts = "".join(f"<li>{escape(text)}</li>" for text in fit.warnings[:5])
    return (
        f"<div><p><b>{escape(said.headline)}</b></p>{equations(fit.model)}{_estimates(fit)}"
        + (f"<ul>{texts}</ul>" if texts else "")
        + f"<p style='color:gray'>weakform {__version__}, method {escape(fit.method)}; "
        "<code>fit.report('fit.html')</code> writes the full page.</p></div>"
    )


def sparkline(times: FloatArray, values: FloatArray, width: int = 220, height: int = 36) -> str:
    """One state as a small SVG."""
    there = np.isfinite(values)
    if not there.any():
        return ""
    t, u = thinned(times[there], values[there])
    span, size = (np.ptp(t) or 1.0), (np.ptp(u) or 1.0)
    points = " ".join(
        f"{2 + (width - 4) * (a - t[0]) / span:.1f},{height - 2 - (height - 4) * (b - u.min()) / size:.1f}"
        for a, b in zip(t, u, strict=True)
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="measured values in time">'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.2"/></svg>'
    )
