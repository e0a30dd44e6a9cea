"""Charts that need no script, for notebooks: data and fit as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ..inference.fitted_states import collect_curves, list_panels
from ..support.array_types import FloatArray
from .html_blocks import thin_columns
from .plots import DATA, FIT
from .svg_plots import find_forward_solution, label_with_unit

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

MAX_PANELS = 6
"""Panels that are drawn, one for each measured column or hidden state. By judgement: they fit below a cell."""


@dataclass(frozen=True)
class _PanelLayout:
    """Size of a panel and of its margins in pixels, by judgement: the margins hold the labels of the axes."""

    width: int = 300
    """Of the whole panel."""

    height: int = 150
    """Of the whole panel."""

    left: int = 44
    """Margin for the smallest and the largest value."""

    right: int = 8
    """Margin without text."""

    top: int = 20
    """Margin for the title."""

    bottom: int = 22
    """Margin for the first and the last time."""


LAYOUT = _PanelLayout()
"""The layout in use."""


def draw_fit_svg(fit: FitResult) -> str:
    """Draw data and fit of the first trajectory, one panel for each measured column and hidden state."""
    q, columns = fit.data.trajectories[0], fit.data.names or fit.model.states
    band, parts = find_forward_solution(fit, 0), []
    for name in list_panels(fit)[:MAX_PANELS]:
        values = q.values[:, columns.index(name)] if name in columns else np.full(len(q.times), np.nan)
        if band is None:
            centre = collect_curves(fit, 0)[name]
            curves = (q.times, centre, centre, centre)
        else:
            curves = (band.times, *band[name].T)
        parts.append(_draw_panel(label_with_unit(fit, name), (q.times, values), curves))
    return "".join(parts)


def _draw_panel(title: str, points: tuple[FloatArray, FloatArray], curves: tuple[FloatArray, ...]) -> str:
    """Draw one panel; returns an empty string if nothing is finite.

    Parameters
    ----------
    title : str
    points : tuple of ndarray, (M,)
        Times and measured values.
    curves : tuple of ndarray, (n,)
        Times of the fit, its centre, and the lower and upper ends of its band.

    Returns
    -------
    str
    """
    t, u = thin_columns(*points)
    x, centre, low, high = thin_columns(*curves)
    values = np.concatenate([u, centre, low, high])
    values = values[np.isfinite(values)]
    if not len(values):
        return ""
    lowest, highest = float(values.min()), float(values.max())
    first_time, last_time = float(min(t[0], x[0])), float(max(t[-1], x[-1]))

    floor = LAYOUT.height - LAYOUT.bottom
    inner_width, inner_height = LAYOUT.width - LAYOUT.left - LAYOUT.right, LAYOUT.height - LAYOUT.top - LAYOUT.bottom

    def to_pixels(a: float, b: float) -> str:
        x_pixel = LAYOUT.left + inner_width * (a - first_time) / ((last_time - first_time) or 1.0)
        y_pixel = floor - inner_height * (b - lowest) / ((highest - lowest) or 1.0)
        return f"{x_pixel:.1f},{y_pixel:.1f}"

    def to_points(a: FloatArray, b: FloatArray) -> list[str]:
        return [to_pixels(*pair) for pair in zip(a, b, strict=True) if np.isfinite(pair[1])]

    dots = "".join(
        f'<circle cx="{position.split(",")[0]}" cy="{position.split(",")[1]}" r="2" fill="{DATA}"/>'
        for position in to_points(t, u)
    )
    area = " ".join([*to_points(x, low), *to_points(x[::-1], high[::-1])])
    label_style = 'font-size="10" fill="gray"'
    return (
        f'<svg width="{LAYOUT.width}" height="{LAYOUT.height}" role="img" aria-label="{escape(title)}: data and fit">'
        f'<text x="4" y="12" font-size="11" font-weight="600" fill="gray">{escape(title)}</text>'
        f'<polygon points="{area}" fill="{FIT}" fill-opacity="0.2"/>{dots}'
        f'<polyline points="{" ".join(to_points(x, centre))}" fill="none" stroke="{FIT}" stroke-width="1.5"/>'
        f'<text x="{LAYOUT.left - 4}" y="{LAYOUT.top + 8}" text-anchor="end" {label_style}>{highest:.3g}</text>'
        f'<text x="{LAYOUT.left - 4}" y="{floor}" text-anchor="end" {label_style}>{lowest:.3g}</text>'
        f'<text x="{LAYOUT.left}" y="{LAYOUT.height - 8}" {label_style}>{first_time:.4g}</text>'
        f'<text x="{LAYOUT.width - LAYOUT.right}" y="{LAYOUT.height - 8}" text-anchor="end" {label_style}>'
        f"{last_time:.4g}</text></svg>"
    )
