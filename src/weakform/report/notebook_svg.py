"""Pictures that need no script, for notebooks: the fit on the data, as SVG."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from ..inference.fitted_states import drawn, panels
from ..support.array_types import FloatArray
from .html_blocks import thinned
from .plots import DATA, FIT
from .svg_plots import forward, titled

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

WIDE, TALL, LEFT, RIGHT, TOP, BOTTOM = 300, 150, 44, 8, 20, 22
MOST = 6
"""Panels of a picture."""


def still(fit: FitResult) -> str:
    """Data and fit of the first trajectory, a panel for each column and hidden state."""
    q, columns = fit.data.trajectories[0], fit.data.names or fit.model.states
    band, parts = forward(fit, 0), []
    for name in panels(fit)[:MOST]:
        values = q.values[:, columns.index(name)] if name in columns else np.full(len(q.times), np.nan)
        if band is None:
            centre = drawn(fit, 0)[name]
            curves = (q.times, centre, centre, centre)
        else:
            curves = (band.times, *band[name].T)
        parts.append(_panel(titled(fit, name), (q.times, values), curves))
    return "".join(parts)


def _panel(title: str, points: tuple[FloatArray, FloatArray], curves: tuple[FloatArray, ...]) -> str:
    t, u = thinned(*points)
    x, centre, low, high = thinned(*curves)
    every = np.concatenate([u, centre, low, high])
    every = every[np.isfinite(every)]
    if not len(every):
        return ""
    floor, top = float(every.min()), float(every.max())
    begin, end = float(min(t[0], x[0])), float(max(t[-1], x[-1]))

    def at(a: float, b: float) -> str:
        across = LEFT + (WIDE - LEFT - RIGHT) * (a - begin) / ((end - begin) or 1.0)
        return f"{across:.1f},{TALL - BOTTOM - (TALL - TOP - BOTTOM) * (b - floor) / ((top - floor) or 1.0):.1f}"

    def line(a: FloatArray, b: FloatArray) -> list[str]:
        return [at(*pair) for pair in zip(a, b, strict=True) if np.isfinite(pair[1])]

    dots = "".join(
        f'<circle cx="{place.split(",")[0]}" cy="{place.split(",")[1]}" r="2" fill="{DATA}"/>' for place in line(t, u)
    )
    area = " ".join([*line(x, low), *line(x[::-1], high[::-1])])
    small = 'font-size="10" fill="gray"'
    return (
        f'<svg width="{WIDE}" height="{TALL}" role="img" aria-label="{escape(title)}: data and fit">'
        f'<text x="4" y="12" font-size="11" font-weight="600" fill="gray">{escape(title)}</text>'
        f'<polygon points="{area}" fill="{FIT}" fill-opacity="0.2"/>{dots}'
        f'<polyline points="{" ".join(line(x, centre))}" fill="none" stroke="{FIT}" stroke-width="1.5"/>'
        f'<text x="{LEFT - 4}" y="{TOP + 8}" text-anchor="end" {small}>{top:.3g}</text>'
        f'<text x="{LEFT - 4}" y="{TALL - BOTTOM}" text-anchor="end" {small}>{floor:.3g}</text>'
        f'<text x="{LEFT}" y="{TALL - 8}" {small}>{begin:.4g}</text>'
        f'<text x="{WIDE - RIGHT}" y="{TALL - 8}" text-anchor="end" {small}>{end:.4g}</text></svg>'
    )
