"""The report of a fit as one self-contained HTML page, without network or library; and a short form for notebooks."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..inference.fitted_states import list_panels
from ..inference.intervals import describe_better_fit
from ..inference.refits import can_refit
from ..inference.state_estimates import list_initial_values
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.versions import __version__, describe_versions
from . import svg_plots
from .html_blocks import build_document, build_list_section, build_section, build_table, thin_columns
from .mathml import render_equations
from .notebook_svg import draw_fit_svg
from .posterior_pairs import build_posterior_section
from .text_report import describe_settings, format_interval, format_number
from .verdict_text import judge_fit

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
def write_report(fit: FitResult, path: str | Path, command: str = "") -> Path:
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
    Path(path).write_text(build_page(fit, command), encoding="utf-8")
    return Path(path)


@np.errstate(all="ignore")
def build_page(fit: FitResult, command: str = "") -> str:
    """Build the whole page; returns its HTML."""
    return build_document(f"weakform: {', '.join(list_panels(fit))}", build_sections(fit, command))


@np.errstate(all="ignore")
def build_sections(fit: FitResult, command: str = "") -> list[str]:
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
    judgement = judge_fit(fit)
    reasons = "".join(f"<p>{escape(reason)}</p>" for reason in judgement.reasons)
    return [
        f'<section class="verdict {judgement.kind}" aria-label="Verdict">'
        f'<p class="headline">{escape(judgement.headline)}</p>'
        f"{reasons}</section>",
        build_section("Equations", f'<div class="wide">{render_equations(fit.model)}</div>'),
        build_section("Population", _build_population_table(fit)),
        build_section(
            "Estimates", _build_estimates_table(fit) + _build_tied_table(fit) + _build_initial_values_table(fit)
        ),
        build_list_section("Warnings", (*describe_better_fit(fit), *fit.warnings)),
        build_section("Data and fitted trajectory", svg_plots.build_data_charts(fit)),
        build_section("Residuals", svg_plots.build_residual_charts(fit)),
        build_section("Weak residuals", svg_plots.build_weak_residual_charts(fit)),
        build_section("Profiles", svg_plots.build_profile_charts(fit)),
        build_section("Posterior", "" if fit.posterior is None else build_posterior_section(fit.posterior)),
        build_section("Correlations of the estimates", _build_correlations_table(fit)),
        build_section("Starts", svg_plots.build_starts_summary(fit), "minor"),
        build_section("How this fit was found", _build_trace_table(fit)),
        build_section("Settings", _build_settings_list(fit)),
        build_list_section("Notes", (*fit.data.notes, *fit.notes)),
        build_section("Reproduce this fit", _build_reproduction_text(fit, command)),
    ]


def _build_trace_table(fit: FitResult) -> str:
    """Return the trace as a table: the strategies in their order, and why each was taken, not taken or skipped."""
    if fit.trace is None or not fit.trace.steps:
        return ""
    rows = []
    for step in fit.trace.steps:
        effort = [f"{step.seconds:.2g}", str(step.starts)] if step.was_run else ["", ""]
        likelihood = "" if math.isnan(step.log_likelihood) else f"{step.log_likelihood:.2f}".replace("-", "−")
        decision = f"{step.decision}: {step.reason}" + (f"; tried because {step.trigger}" if step.trigger else "")
        rows.append([step.strategy, *effort, likelihood, step.status, decision])
    return build_table(["strategy", "seconds", "starts", "log-likelihood", "status", "decision"], rows, "trace")


def _format_number(value: float, digits: int = 5) -> str:
    """Format a number with minus signs in place of hyphens; an empty string if it is not finite."""
    return format_number(value, digits).replace("-", "−")


def _format_interval(interval: FloatArray) -> str:
    """Format an interval `(2,)` with minus signs in place of hyphens."""
    return format_interval(interval).replace("-", "−")


def _build_estimates_table(fit: FitResult) -> str:
    """Build the table of parameters.

    There is a column of units, or of notes, only if some parameter has one, and a column of profile intervals only if
    they differ visibly from the default ones.
    """
    ends = fit.intervals()
    header = ["parameter", "estimate", "95% interval", "standard error"]
    profiled = _profiles_differ(fit, ends)
    header += ["95% profile interval"] if profiled else []
    units = any(name in fit.units for name in fit.model.parameters)
    header += ["bounds", *(["unit"] if units else []), "note"]
    rows = []
    for j, name in enumerate(fit.model.parameters):
        quantity = fit[name]
        has_error = not fit.fixed[j] and math.isfinite(quantity.error)
        has_interval = not fit.fixed[j] and (has_error or np.isfinite(ends[j]).any())
        row = [name, _format_number(quantity.value)]
        row += [
            _format_interval(ends[j]) if has_interval else "none",
            _format_number(quantity.error, 3) if has_error else "",
        ]
        if profiled:
            profile = fit.profiles.get(name)
            row.append("" if profile is None else _format_interval(np.array(profile.interval)))
        bounded = np.isfinite(fit.bounds[j]).any()
        remark = "prior" if fit.prior is not None and j in fit.prior.index else ""
        row.append(_format_interval(fit.bounds[j]) if bounded else "")
        row += [fit.units.get(name, "")] if units else []
        row.append("; ".join(filter(None, (quantity.note, remark))))
        rows.append(row)
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return build_table(header, rows)


def _profiles_differ(fit: FitResult, ends: FloatArray) -> bool:
    """Return True if a profile interval differs visibly from the default interval `(J, 2)` of its parameter."""
    for name, profile in fit.profiles.items():
        default, by_profile = ends[fit.model.parameters.index(name)], np.array(profile.interval)
        if not np.allclose(
            default, by_profile, rtol=0.0, atol=INTERVAL_TOLERANCE * abs(default[1] - default[0]), equal_nan=True
        ):
            return True
    return False


def _build_population_table(fit: FitResult) -> str:
    """Build the table of random effects, with an explanation; empty for a fit without a population."""
    if fit.population is None:
        return ""
    header = ["parameter", "typical value", "95% interval", "spread", "95% interval", "shrinkage"]
    rows = [
        [
            e.name,
            _format_number(e.mean),
            _format_interval(np.array(e.mean_interval)),
            _format_number(e.spread, 3),
            _format_interval(np.array(e.spread_interval)),
            f"{e.shrinkage:.0%}",
        ]
        for e in fit.population.effects
    ]
    return build_table(header, rows) + (
        "<p>The spread is the standard deviation between subjects; for a log-normal parameter, that of the logarithm. "
        "The estimates of subjects with little information are pulled towards the typical value (shrinkage).</p>"
    )


def _build_tied_table(fit: FitResult) -> str:
    """Build the table of tied parameters; empty if there are none."""
    rows = []
    for name, expression in fit.tied.items():
        value = fit.derived(expression)
        rows.append(
            [
                name,
                expression,
                _format_number(value.value),
                _format_number(value.error, 3),
                _format_interval(np.array(value.interval)),
            ]
        )
    return (
        build_table(["tied parameter", "expression", "value", "standard error", "95% interval"], rows) if rows else ""
    )


def _build_initial_values_table(fit: FitResult) -> str:
    """Build the table of initial values; empty if there are none to show."""
    rows = []
    given_values: dict[str, set[str]] = {}
    for name, q in list_initial_values(fit, svg_plots.MAX_TRAJECTORIES, measured=fit.success):
        if q.note == "given":  # usually the same in all trajectories: one line for each distinct value
            given_values.setdefault(q.name, set()).add(format_number(q.value))
            continue
        rows.append([name, _format_number(q.value), _format_interval(np.array(q.interval)), _format_number(q.error, 3)])
    rows += [
        [name, value.replace("-", "−"), "given", ""]
        for name, values in given_values.items()
        for value in sorted(values)
    ]
    initial_times = {float(q.times[0]) for q in fit.data.trajectories} if not fit.model.initial else {0.0}
    suffix = f", t = {initial_times.pop():g}" if len(initial_times) == 1 and initial_times != {0.0} else ""
    return build_table([f"initial value{suffix}", "estimate", "95% interval", "standard error"], rows) if rows else ""


def _build_correlations_table(fit: FitResult) -> str:
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


def _build_settings_list(fit: FitResult) -> str:
    """Build the list of settings and of what the search did."""
    rows = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in describe_settings(fit))
    return f"<dl>{rows}</dl>"


def _build_reproduction_text(fit: FitResult, command: str) -> str:
    """Build the section with the command line, the seed and the versions that repeat the fit."""
    line = f"<pre>{escape(command)}</pre>" if command else ""
    promise = "The same data, seed and versions give the same numbers."
    return f"{line}<p>Seed {int(fit.seed)}; {escape(describe_versions())}. {promise}</p>"


@np.errstate(all="ignore")
def build_notebook_form(fit: FitResult) -> str:
    """Build the short form for notebooks: verdict, equations, estimates, charts and the first warnings."""
    judgement = judge_fit(fit)
    items = "".join(
        f"<li>{escape(text)}</li>" for text in (*describe_better_fit(fit), *fit.warnings)[:MAX_NOTEBOOK_WARNINGS]
    )
    return (
        f"<div><p><b>{escape(judgement.headline)}</b></p>{render_equations(fit.model)}{_build_estimates_table(fit)}{draw_fit_svg(fit)}"
        + (f"<ul>{items}</ul>" if items else "")
        + f"<p style='color:gray'>weakform {__version__}, method {escape(fit.method)}; "
        "<code>fit.report('fit.html')</code> writes the full page.</p></div>"
    )


def draw_sparkline(times: FloatArray, values: FloatArray, width: int = 220, height: int = 36) -> str:
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
    t, u = thin_columns(times[measured], values[measured])
    span, size = (np.ptp(t) or 1.0), (np.ptp(u) or 1.0)
    points = " ".join(
        f"{2 + (width - 4) * (a - t[0]) / span:.1f},{height - 2 - (height - 4) * (b - u.min()) / size:.1f}"
        for a, b in zip(t, u, strict=True)
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="measured values over time">'
        f'<polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.2"/></svg>'
    )
