"""The report as one self-contained HTML page: no network, no library; and the short form for notebooks."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..inference.fitted_states import panels
from ..inference.intervals import overtaken
from ..inference.refits import can_refit
from ..inference.state_estimates import shown_beginnings
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.versions import __version__, versions
from . import svg_plots
from .html_blocks import document, section, table, texts, thinned
from .mathml import equations
from .notebook_svg import still
from .posterior_pairs import described
from .text_report import chosen, number, pair
from .verdict_text import verdict

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MAX_PANELS = 24
SAME = 0.03
"""Difference of two intervals, as a share of their width, that is not worth a column."""


@np.errstate(all="ignore")
def write(fit: FitResult, path: str | Path, command: str = "") -> Path:
    """Write the page; returns its path."""
    if not fit.profiles and fit.converged and can_refit(fit):
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
    return document(f"weakform: {', '.join(panels(fit))}", sections(fit, command))


@np.errstate(all="ignore")
def sections(fit: FitResult, command: str = "") -> list[str]:
    """What the page says."""
    said = verdict(fit)
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in said.reasons)
    return [
        f'<section class="verdict {said.kind}" aria-label="Verdict"><p class="headline">{escape(said.headline)}</p>'
        f"{reasons}</section>",
        section("Equations", f'<div class="wide">{equations(fit.model)}</div>'),
        section("Population", _population(fit)),
        section("Estimates", _estimates(fit) + _tied(fit) + _beginnings(fit)),
        texts("What should not be overlooked", (*overtaken(fit), *fit.warnings)),
        section("Data and fitted trajectory", svg_plots.on_data(fit)),
        section("Residuals", svg_plots.data_residuals(fit)),
        section("Weak residuals in time", svg_plots.weak_residuals(fit)),
        section("Profiles", svg_plots.profiles(fit)),
        section("Posterior", "" if fit.posterior is None else described(fit.posterior)),
        section("Correlations of the estimates", _correlations(fit)),
        section("Starts", svg_plots.starts(fit), "minor"),
        section("How this fit was found", _trace(fit)),
        section("What was chosen", _chosen(fit)),
        texts("Notes", (*fit.data.notes, *fit.notes)),
        section("To repeat it", _repeat(fit, command)),
    ]


def _trace(fit: FitResult) -> str:
    """Return the trace as a table: the strategies in their order, and why each was taken, not taken or skipped."""
    if fit.trace is None or not fit.trace.steps:
        return ""
    rows = []
    for step in fit.trace.steps:
        effort = [f"{step.seconds:.2g}", str(step.starts)] if step.was_run else ["", ""]
        likelihood = "" if math.isnan(step.log_likelihood) else f"{step.log_likelihood:.2f}".replace("-", "−")
        why = f"{step.decision}: {step.reason}" + (f"; tried because {step.trigger}" if step.trigger else "")
        rows.append([step.strategy, *effort, likelihood, step.status, why])
    return table(["strategy", "seconds", "starts", "log-likelihood", "status", "decision"], rows, "trace")


def _pair(ends: FloatArray) -> str:
    return pair(ends).replace("-", "−")


def _estimates(fit: FitResult) -> str:
    ends = fit.intervals()
    header = ["parameter", "estimate", "95% interval", "standard error"]
    profiled = _profiled(fit, ends)
    header += ["95% profile interval"] if profiled else []
    units = any(name in fit.units for name in fit.model.parameters)
    header += ["bounds", *(["unit"] if units else []), "note"]
    rows = []
    for j, name in enumerate(fit.model.parameters):
        quantity = fit[name]
        known = not fit.fixed[j] and math.isfinite(quantity.error)
        shown = not fit.fixed[j] and (known or np.isfinite(ends[j]).any())
        row = [name, number(quantity.value)]
        row += [_pair(ends[j]) if shown else "none", number(quantity.error, 3) if known else ""]
        if profiled:
            profile = fit.profiles.get(name)
            row.append("" if profile is None else _pair(np.array(profile.interval)))
        bounded = np.isfinite(fit.bounds[j]).any()
        remark = "prior" if fit.prior is not None and j in fit.prior.index else ""
        row.append(_pair(fit.bounds[j]) if bounded else "")
        row += [fit.units.get(name, "")] if units else []
        row.append("; ".join(filter(None, (quantity.note, remark))))
        rows.append(row)
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return table(header, rows)


def _profiled(fit: FitResult, ends: FloatArray) -> bool:
    """Whether profile intervals say anything that the others do not."""
    for name, profile in fit.profiles.items():
        own, other = ends[fit.model.parameters.index(name)], np.array(profile.interval)
        if not np.allclose(own, other, rtol=0.0, atol=SAME * abs(own[1] - own[0]), equal_nan=True):
            return True
    return False


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
    given: dict[str, set[str]] = {}
    for name, q in shown_beginnings(fit, MAX_PANELS, measured=fit.success):
        if q.note:  # the same in every trajectory, as a rule: one line for all
            given.setdefault(q.name, set()).add(number(q.value))
            continue
        rows.append([name, number(q.value), _pair(np.array(q.interval)), number(q.error, 3)])
    rows += [[name, value, "given", ""] for name, values in given.items() for value in sorted(values)]
    begun = {float(q.times[0]) for q in fit.data.trajectories} if not fit.model.initial else {0.0}
    when = f", t = {begun.pop():g}" if len(begun) == 1 and begun != {0.0} else ""
    return table([f"initial value{when}", "estimate", "95% interval", "standard error"], rows) if rows else ""


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
            cells.append(f'<td style="{strong}">{f"{value:+.2f}".replace("-", "−")}</td>')
        rows.append(f'<tr><th scope="row">{escape(names[i])}</th>{"".join(cells)}</tr>')
    return (
        '<div class="wide"><table class="correlations"><thead><tr><td></td>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "<p class='how'>Near +1 or −1 the data determine a combination of two parameters better than either.</p>"
    )


def _chosen(fit: FitResult) -> str:
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in chosen(fit))
    return f"<dl>{rows}</dl>"


def _repeat(fit: FitResult, command: str) -> str:
    line = f"<pre>{escape(command)}</pre>" if command else ""
    same = "The same data, seed and versions give the same numbers."
    return f"{line}<p>Seed {int(fit.seed)}; {escape(versions())}. {same}</p>"


@np.errstate(all="ignore")
def fragment(fit: FitResult) -> str:
    """The short form for notebooks: verdict, estimates, warnings."""
    said = verdict(fit)
    texts = "".join(f"<li>{escape(text)}</li>" for text in (*overtaken(fit), *fit.warnings)[:5])
    return (
        f"<div><p><b>{escape(said.headline)}</b></p>{equations(fit.model)}{_estimates(fit)}{still(fit)}"
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
