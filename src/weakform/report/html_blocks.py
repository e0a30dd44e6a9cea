"""Building blocks of an HTML page: the document, its sections, tables and charts."""

from __future__ import annotations

import json
import math
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from ..support.array_types import FloatArray

MAX_POINTS = 1500
"""Points of one series of a chart. Longer series are thinned evenly. By judgement: more than a screen shows."""
SMALL_CHART_HEIGHT = 190
"""Pixels, for one chart of many. By judgement."""


def build_document(title: str, body: list[str]) -> str:
    """Build a complete page with its style sheet and scripts inside.

    Parameters
    ----------
    title : str
    body : list of str
        HTML of the sections.

    Returns
    -------
    str
    """
    files = resources.files(__package__)
    style, *scripts = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "charts.js", "page.js"))
    return (
        '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><button id="theme" type="button">Dark mode</button></header>'
        f"{''.join(body)}</main><script type='module'>{''.join(scripts)}</script></body></html>\n"
    )


def build_section(title: str, body: str, kind: str = "") -> str:
    """Build a section with a heading; returns an empty string for an empty body.

    Sections of kind `"minor"` are left out when the page is printed.
    """
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{body}</section>' if body else ""


def build_list_section(title: str, sentences: tuple[str, ...]) -> str:
    """Build a section with a list of sentences; returns an empty string if there are none."""
    return (
        build_section(title, "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in sentences) + "</ul>")
        if sentences
        else ""
    )


def build_table(header: list[str], rows: list[list[str]], classes: str = "") -> str:
    """Build a table that scrolls horizontally if it is too wide; all cells are escaped."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{classes}"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def to_json_numbers(values: Any) -> list[float | None]:
    """Convert numbers for a chart to 12 digits; None for those that are not finite, which JSON cannot hold."""
    return [float(f"{v:.12g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def thin_columns(*columns: FloatArray) -> tuple[FloatArray, ...]:
    """Thin columns of equal length evenly, to at most `MAX_POINTS` points each."""
    step = max(1, -(-len(columns[0]) // MAX_POINTS))
    return tuple(column[::step] for column in columns)


def build_figure(
    label: str,
    axes: tuple[str, str],
    series: list[dict[str, Any]],
    *,
    small: bool = False,
    limits: tuple[float, float] | None = None,
    caption: str = "",
) -> str:
    """Build a chart: its description in JSON, which the script of the page draws.

    Parameters
    ----------
    label : str
        What the chart shows, for screen readers and as the name of a saved file.
    axes : tuple of str
        Titles of the horizontal and the vertical axis.
    series : list of dict
        As `build_series` returns them, or `{"kind": "level", "y": value, ...}` for a horizontal line.
    small : bool
        True for one chart of many.
    limits : tuple of float, optional
        Range of the vertical axis, for charts that share it; that of the data by default.
    caption : str

    Returns
    -------
    str
    """
    spec: dict[str, Any] = {"label": label, "x": axes[0], "y": axes[1], "series": series}
    spec |= {"small": True, "tall": SMALL_CHART_HEIGHT} if small else {}
    spec |= {"range": list(limits)} if limits is not None else {}
    # Escaped, so that a label with "</script>" cannot end the element.
    description = json.dumps(spec).replace("<", "\\u003c")
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="chart"><script type="application/json">{description}</script></div>{below}</figure>'


def find_range(series: list[dict[str, Any]]) -> tuple[float, float] | None:
    """Return the smallest and the largest ordinate of some series; None if there are none, or all are equal."""
    values = [v for s in series for key in ("y", "upper") if key in s for v in s[key] if v is not None]
    return (min(values), max(values)) if values and min(values) < max(values) else None


def build_series(kind: str, name: str, points: tuple[Any, ...], colour: str, **more: Any) -> dict[str, Any]:
    """Build a series of a chart.

    Parameters
    ----------
    kind : str
        `"line"`, `"points"` or `"band"`.
    name : str
    points : tuple
        Abscissas and ordinates; for a band, its lower ends.
    colour : str
        Name of a colour of `page.css`, such as `"fit"`.
    **more
        Further keys of the description, such as `upper`, `dashed` or `size`.

    Returns
    -------
    dict
    """
    x, y = points
    return {"kind": kind, "name": name, "x": to_json_numbers(x), "y": to_json_numbers(y), "colour": colour, **more}


def build_legend(*entries: tuple[str, str]) -> str:
    """Build a legend from pairs of a label and the name of a colour."""
    items = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>' for name, colour in entries
    )
    return f'<div class="legend" aria-hidden="true">{items}</div>'
