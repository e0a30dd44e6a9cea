"""The report of a fit as one self-contained HTML page, without network or library; and a short form for notebooks."""

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

INTERVAL_TOLERANCE = 0.03
"""Difference of two intervals, as a share of their width. Only if it is larger for some parameter, profile intervals
get a column. By judgement: a smaller difference cannot be seen in a report."""
MAX_NOTEBOOK_WARNINGS = 5
"""Warnings in the short form for notebooks. By judgement: the full page lists all of them."""
MAX_CELL_TINT = 0.75
"""Opacity of the colour of a correlation of ±1. By judgement: the number on it stays readable."""


@np.errstate(all="ignore")
def write(fit: FitResult, path: str | Path, command: str = "") -> Path:
    """Write the page to a file; profiles are computed first if the fit has none.

    Parameters
    ----------
    fit : FitResult
    path : str or Path
        Where to write; missing folders are created.
    command : str
        The command line shown under "Reproduce this fit".

    Returns
    -------
    Path
    """
    if not fit.profiles and fit.converged and can_refit(fit):
        try:
            fit.intervals(kind="profile")
        except WeakformError:  # the page is complete without profiles; with a part of them it would mislead
            fit.late.profiles.clear()
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page(fit, command), encoding="utf-8")
    return Path(path)


@np.errstate(all="ignore")
def page(fit: FitResult, command: str = "") -> str:
    """Build the whole page; returns its HTML."""
    return document(f"weakform: {', '.join(panels(fit))}", sections(fit, command))


@np.errstate(all="ignore")
def sections(fit: FitResult, command: str = "") -> list[str]:
    """Build the sections of the page, in their order.

    Parameters
    ----------
    fit : FitResult
    command : str
        The command line that repeats the fit; empty if there is none.

    Returns
    -------
    list of str
        HTML; an empty string for a section without content.
    """
    judgement = verdict(fit)
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in judgement.reasons)
    return [
        f'<section class="verdict {judgement.kind}" aria-label="Verdict">'
        f'<p class="headline">{escape(judgement.headline)}</p>'
        f"{reasons}</section>",
        section("Equations", f'<div class="wide">{equations(fit.model)}</div>'),
        section("Population", _population(fit)),
        section("Estimates", _estimates(fit) + _tied(fit) + _beginnings(fit)),
        texts("Warnings", (*overtaken(fit), *fit.warnings)),
        section("Data and fitted trajectory", svg_plots.on_data(fit)),
        section("Residuals", svg_plots.data_residuals(fit)),
        section("Weak residuals", svg_plots.weak_residuals(fit)),
        section("Profiles", svg_plots.profiles(fit)),
        section("Posterior", "" if fit.posterior is None else described(fit.posterior)),
        section("Correlations of the estimates", _correlations(fit)),
        section("Starts", svg_plots.starts(fit), "minor"),
        section("How this fit was found", _trace(fit)),
        section("Settings", _chosen(fit)),
        texts("Notes", (*fit.data.notes, *fit.notes)),
        section("Reproduce this fit", _repeat(fit, command)),
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
    """Format an interval `(2,)` with minus signs in place of hyphens."""
    return pair(ends).replace("-", "−")


def _estimates(fit: FitResult) -> str:
    """Build the table of parameters.

    Units, notes and profile intervals have columns only if there are any, or, for the intervals, if they differ from
    the default ones.
    """
    ends = fit.intervals()
    header = ["parameter", "estimate", "95% interval", "standard error"]
    profiled = _profiled(fit, ends)
    header += ["95% profile interval"] if profiled else []
    units = any(name in fit.units for name in fit.model.parameters)
    header += ["bounds", *(["unit"] if units else []), "note"]
    rows = []
    for j, name in enumerate(fit.model.parameters):
        quantity = fit[name]
        has_error = not fit.fixed[j] and math.isfinite(quantity.error)
        has_interval = not fit.fixed[j] and (has_error or np.isfinite(ends[j]).any())
        row = [name, number(quantity.value)]
        row += [_pair(ends[j]) if has_interval else "none", number(quantity.error, 3) if has_error else ""]
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
    """Return True if a profile interval differs visibly from the default interval `(J, 2)` of its parameter."""
    for name, profile in fit.profiles.items():
        default, by_profile = ends[fit.model.parameters.index(name)], np.array(profile.interval)
        if not np.allclose(
            default, by_profile, rtol=0.0, atol=INTERVAL_TOLERANCE * abs(default[1] - default[0]), equal_nan=True
        ):
            return True
    return False


def _population(fit: FitResult) -> str:
    """Build the table of random effects, with an explanation; empty for a fit without a population."""
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
        "<p>The spread is the standard deviation between subjects; for a log-normal parameter, that of the logarithm. "
        "The estimates of subjects with little information are pulled towards the typical value (shrinkage).</p>"
    )


def _tied(fit: FitResult) -> str:
    """Build the table of tied parameters; empty if there are none."""
    rows = []
    for name, expression in fit.tied.items():
        value = fit.derived(expression)
        rows.append([name, expression, number(value.value), number(value.error, 3), _pair(np.array(value.interval))])
    return table(["tied parameter", "expression", "value", "standard error", "95% interval"], rows) if rows else ""


def _beginnings(fit: FitResult) -> str:
    """Build the table of initial values; empty if there are none to show."""
    rows = []
    given: dict[str, set[str]] = {}
    for name, q in shown_beginnings(fit, svg_plots.MAX_TRAJECTORIES, measured=fit.success):
        if q.note:  # given values are usually the same in all trajectories: one line for each distinct value
            given.setdefault(q.name, set()).add(number(q.value))
            continue
        rows.append([name, number(q.value), _pair(np.array(q.interval)), number(q.error, 3)])
    rows += [[name, value, "given", ""] for name, values in given.items() for value in sorted(values)]
    initial_times = {float(q.times[0]) for q in fit.data.trajectories} if not fit.model.initial else {0.0}
    suffix = f", t = {initial_times.pop():g}" if len(initial_times) == 1 and initial_times != {0.0} else ""
    return table([f"initial value{suffix}", "estimate", "95% interval", "standard error"], rows) if rows else ""


def _correlations(fit: FitResult) -> str:
    """Build the correlation matrix as a coloured table; empty with fewer than two free parameters."""
    names, C = fit.model.parameters, fit.correlation
    # Fixed parameters, and those at a bound, have no correlations.
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
            style = f"background:rgba({colour},{MAX_CELL_TINT * abs(value):.2f})" if i != j else ""
            cells.append(f'<td style="{style}">{f"{value:+.2f}".replace("-", "−")}</td>')
        rows.append(f'<tr><th scope="row">{escape(names[i])}</th>{"".join(cells)}</tr>')
    return (
        '<div class="wide"><table class="correlations"><thead><tr><td></td>'
        f"{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        "<p class='explanation'>If a correlation is close to +1 or −1, the data determine a combination of the two "
        "parameters better than either.</p>"
    )


def _chosen(fit: FitResult) -> str:
    """Build the list of settings and of what the search did."""
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in chosen(fit))
    return f"<dl>{rows}</dl>"


def _repeat(fit: FitResult, command: str) -> str:
    """Build the section with the command line, the seed and the versions that repeat the fit."""
    line = f"<pre>{escape(command)}</pre>" if command else ""
    promise = "The same data, seed and versions give the same numbers."
    return f"{line}<p>Seed {int(fit.seed)}; {escape(versions())}. {promise}</p>"


@np.errstate(all="ignore")
def fragment(fit: FitResult) -> str:
    """Build the short form for notebooks: verdict, equations, estimates, charts and the first warnings."""
    judgement = verdict(fit)
    items = "".join(f"<li>{escape(text)}</li>" for text in (*overtaken(fit), *fit.warnings)[:MAX_NOTEBOOK_WARNINGS])
    return (
        f"<div><p><b>{escape(judgement.headline)}</b></p>{equations(fit.model)}{_estimates(fit)}{still(fit)}"
        + (f"<ul>{items}</ul>" if items else "")
        + f"<p style='color:gray'>weakform {__version__}, method {escape(fit.method)}; "
        "<code>fit.report('fit.html')</code> writes the full page.</p></div>"
    )


def sparkline(times: FloatArray, values: FloatArray, width: int = 220, height: int = 36) -> str:
    """Draw a small curve as SVG, without axes.

    Parameters
    ----------
    times : ndarray, (M,)
    values : ndarray, (M,)
        NaN where not measured.
    width, height : int
        Size in pixels.

    Returns
    -------
    str
        Empty if no value is finite.
    """
    measured = np.isfinite(values)
    if not measured.any():
        return ""
    t, u = thinned(times[measured], values[measured])
    span, size = (np.ptp(t) or 1.0), (np.ptp(u) or 1.0)
    points = " ".join(
        f"{2 + (width - 4) * (a - t[0]) / span:.1f},{height - 2 - (height - 4) * (b - u.min()) / size:.1f}"
        for a, b in zip(t, u, strict=True)
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="measured values over time">'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.2"/></svg>'
    )
