"""The comparison of several fits as an HTML page: criteria, verdict, curves over the data, and their extrapolation."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from ..analysis.comparison import Comparison
from ..inference.prediction import build_fine_grid
from ..support.errors import WeakformError
from .html_blocks import (
    build_document,
    build_figure,
    build_legend,
    build_section,
    build_series,
    build_table,
    thin_columns,
)
from .mathml import render_equations
from .text_report import format_interval, format_number

COLOURS = ("fit", "truth", "good", "bad")
"""Names of colours of `page.css` for the curves of the models; only as many models are drawn, the best ones."""
EXTRAPOLATION_SHARE = 0.5
"""Length of the extrapolation, as a share of the duration of the data. By judgement."""
EXTRAPOLATION_POINTS = 100
"""Points at which the extrapolation is computed. By judgement: a smooth curve on a screen."""
MAX_TRAJECTORIES = 6
"""Trajectories that are drawn. By judgement."""


def write_comparison(comparison: Comparison, path: str | Path) -> Path:
    """Write the page of a comparison to a file; returns its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(build_comparison_page(comparison), encoding="utf-8")
    return Path(path)


@np.errstate(all="ignore")
def build_comparison_page(comparison: Comparison) -> str:
    """Build the whole page; returns its HTML."""
    return build_document(
        f"weakform: {', '.join(r.name for r in comparison.rivals)}", build_comparison_sections(comparison)
    )


@np.errstate(all="ignore")
def build_comparison_sections(comparison: Comparison) -> list[str]:
    """Build the sections of the page, in their order."""
    rows = [
        [
            r.name,
            f"{r.log_likelihood:.3f}",
            str(r.free),
            f"{r.aicc:.2f}",
            f"{r.bic:.2f}",
            f"{r.delta:.2f}",
            f"{r.weight:.3f}",
            r.verdict,
        ]
        for r in comparison.rivals
    ]
    header = ["model", "log-likelihood", "free", "AICc", "BIC", f"Δ {comparison.criterion}", "weight", "fit"]
    nested = "".join(f"<p>{escape(comparison.told(test))}</p>" for test in comparison.nested)
    return [
        '<section class="verdict" aria-label="Verdict"><p '
        f'class="headline">{escape(comparison.sentence)}</p></section>',
        build_section("Models side by side", build_table(header, rows) + nested),
        build_section("Fits and extrapolation", _build_charts(comparison)),
        *(
            build_section(
                r.name,
                f'<div class="wide">{render_equations(r.fit.model)}</div>{_build_estimates_table(comparison, r.name)}',
            )
            for r in comparison.rivals
        ),
    ]


def _build_estimates_table(comparison: Comparison, model_name: str) -> str:
    """Build the table of the estimates of one model."""
    fit = comparison[model_name].fit
    ends = fit.intervals()
    rows = []
    for name, value, interval, fixed in zip(fit.model.parameters, fit.estimate, ends, fit.fixed, strict=True):
        # A parameter that the data do not determine has no interval, as in the report of a fit.
        shown = format_interval(interval) if np.isfinite(interval).any() else "none"
        rows.append([name, format_number(value).replace("-", "−"), "fixed" if fixed else shown.replace("-", "−")])
    return build_table(["parameter", "estimate", "95% interval"], rows)


def _build_charts(comparison: Comparison) -> str:
    """Build the charts of the first trajectories: each measured column, with the solution of each model.

    The solutions go on beyond the data, to show where the forecasts of the models differ.
    """
    best = comparison.rivals[0].fit
    drawn = [r for r in comparison.rivals[: len(COLOURS)] if r.fit.converged]
    key = build_legend(("data", "data"), *((r.name, c) for r, c in zip(drawn, COLOURS, strict=False)))
    figures = []
    for k, q in enumerate(best.data.trajectories[:MAX_TRAJECTORIES]):
        curves = {}
        for r in drawn:
            grid = build_fine_grid(r.fit, k)
            steps = np.arange(1, EXTRAPOLATION_POINTS + 1)
            beyond = grid[-1] + EXTRAPOLATION_SHARE * (grid[-1] - grid[0]) * steps / EXTRAPOLATION_POINTS
            try:
                curves[r.name] = r.fit.predict(np.concatenate([grid, beyond]), trajectory=k, kind="delta")
            except WeakformError:  # a model that cannot be solved that far is left out of this chart
                continue
        for d, name in enumerate(best.data.labels):
            dt, du = thin_columns(q.times, q.values[:, d])
            lines = [build_series("points", "data", (dt, du), "data")]
            for r, colour in zip(drawn, COLOURS, strict=False):
                if r.name in curves and name in curves[r.name].names:
                    t, u = thin_columns(curves[r.name].times, curves[r.name][name][:, 0])
                    lines.append(build_series("line", r.name, (t, u), colour))
            where = f" of {q.label}" if q.label else ""
            label = f"{name}{where} against time: data and all models"
            figures.append(build_figure(label, ("time", name + where), lines))
    return f'{key}<div class="pairs">{"".join(figures)}</div>'
