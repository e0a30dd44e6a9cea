"""Models side by side on one page: the table, the sentence, all of them on the data, and where their forecasts part."""

from __future__ import annotations

from html import escape
from pathlib import Path

import numpy as np

from ..analysis.comparison import Comparison
from ..inference.prediction import fine_grid
from ..support.errors import WeakformError
from .html_blocks import document, figure, legend, section, series, table, thinned
from .mathml import equations

COLOURS = ("fit", "truth", "good", "bad")
BEYOND = 0.5
"""How far forecasts go, in durations of the data."""


def write(found: Comparison, path: str | Path) -> Path:
    """Write the page; returns its path."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(page(found), encoding="utf-8")
    return Path(path)


@np.errstate(all="ignore")
def page(found: Comparison) -> str:
    """The whole page."""
    return document(f"weakform: {', '.join(r.name for r in found.rivals)}", sections(found))


@np.errstate(all="ignore")
def sections(found: Comparison) -> list[str]:
    """What the page says."""
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
        for r in found.rivals
    ]
    header = ["model", "log-likelihood", "free", "AICc", "BIC", f"Δ {found.criterion}", "weight", "fit"]
    nested = "".join(f"<p>{escape(found.told(one))}</p>" for one in found.nested)
    return [
        f'<section class="verdict" aria-label="Verdict"><p class="headline">{escape(found.sentence)}</p></section>',
        section("Models side by side", table(header, rows) + nested),
        section("On the data, and beyond", _curves(found)),
        *(
            section(r.name, f'<div class="wide">{equations(r.fit.model)}</div>{_estimates(found, r.name)}')
            for r in found.rivals
        ),
    ]


def _estimates(found: Comparison, name: str) -> str:
    fit = found[name].fit
    ends = fit.intervals()
    rows = [
        [p, f"{v:.5g}", "fixed" if fixed else f"{low:.4g} to {high:.4g}"]
        for p, v, (low, high), fixed in zip(fit.model.parameters, fit.estimate, ends, fit.fixed, strict=True)
    ]
    return table(["parameter", "estimate", "95% interval"], rows)


def _curves(found: Comparison) -> str:
    """Every measured column of the first trajectories, with each model solved over it and half as long again."""
    best = found.rivals[0].fit
    shown = [r for r in found.rivals[: len(COLOURS)] if r.fit.converged]
    parts = legend(("data", "data"), *((r.name, c) for r, c in zip(shown, COLOURS, strict=False)))
    figures = []
    for k, q in enumerate(best.data.trajectories[:6]):
        curves = {}
        for r in shown:
            grid = fine_grid(r.fit, k)
            further = grid[-1] + BEYOND * (grid[-1] - grid[0]) * np.arange(1, 101) / 100
            try:
                curves[r.name] = r.fit.predict(np.concatenate([grid, further]), trajectory=k, kind="delta")
            except WeakformError:
                continue
        for d, name in enumerate(best.data.labels):
            dt, du = thinned(q.times, q.values[:, d])
            lines = [series("points", "data", (dt, du), "data")]
            for r, colour in zip(shown, COLOURS, strict=False):
                if r.name in curves and name in curves[r.name].names:
                    t, u = thinned(curves[r.name].times, curves[r.name][name][:, 0])
                    lines.append(series("line", r.name, (t, u), colour))
            where = f" of {q.label}" if q.label else ""
            label = f"{name}{where} against time, with each model"
            figures.append(figure(label, ("time", name + where), lines))
    return f'{parts}<div class="pairs">{"".join(figures)}</div>'
