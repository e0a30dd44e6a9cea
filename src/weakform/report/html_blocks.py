"""Parts of a page: sections, tables, charts, and the page around them."""

from __future__ import annotations

import json
import math
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from ..support.array_types import FloatArray

MAX_POINTS = 1500


def document(title: str, body: list[str]) -> str:
    """A whole page, with its style and its script in it."""
    files = resources.files(__package__)
    style, *scripts = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "charts.js", "page.js"))
    return (
        '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><button id="theme" type="button">dark page</button></header>'
        f"{''.join(body)}</main><script type='module'>{''.join(scripts)}</script></body></html>\n"
    )


def section(title: str, body: str, kind: str = "") -> str:
    """A titled part of a page; nothing where there is nothing in it. One of kind `"minor"` is not printed."""
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{body}</section>' if body else ""


def texts(title: str, texts: tuple[str, ...]) -> str:
    """A titled list of sentences."""
    return section(title, "<ul>" + "".join(f"<li>{escape(t)}</li>" for t in texts) + "</ul>") if texts else ""


def table(header: list[str], rows: list[list[str]], classes: str = "") -> str:
    """A table that scrolls sideways where it is wide."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f'<div class="wide"><table class="{classes}"><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'
    )


def plain(values: Any) -> list[float | None]:
    """Numbers for a chart; none where they are not finite."""
    return [float(f"{v:.12g}") if math.isfinite(v) else None for v in np.asarray(values, dtype=float)]


def thinned(*columns: FloatArray) -> tuple[FloatArray, ...]:
    """Columns with no more points than a screen shows."""
    step = max(1, -(-len(columns[0]) // MAX_POINTS))
    return tuple(column[::step] for column in columns)


def figure(
    label: str,
    axes: tuple[str, str],
    series: list[dict[str, Any]],
    *,
    small: bool = False,
    limits: tuple[float, float] | None = None,
    caption: str = "",
) -> str:
    """A chart that the script of the page draws.

    Parameters
    ----------
    label : str
        What it shows, in words, for those who do not see it.
    axes : tuple of str
        Titles of the two axes.
    series : list of dict
    small : bool
        Whether it is one of many.
    limits : tuple of float, optional
        Of the second axis, where several charts have the same.
    caption : str
    """
    spec: dict[str, Any] = {"label": label, "x": axes[0], "y": axes[1], "series": series}
    spec |= {"small": True, "tall": 190} if small else {}
    spec |= {"range": list(limits)} if limits is not None else {}
    said = json.dumps(spec).replace("<", "\\u003c")
    below = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><div class="chart"><script type="application/json">{said}</script></div>{below}</figure>'


def spread(series: list[dict[str, Any]]) -> tuple[float, float] | None:
    """The least and the largest value of some series; None where there are none."""
    every = [v for s in series for key in ("y", "upper") if key in s for v in s[key] if v is not None]
    return (min(every), max(every)) if every and min(every) < max(every) else None


def series(kind: str, name: str, points: tuple[Any, ...], colour: str, **more: Any) -> dict[str, Any]:
    """A line, points or a band of a chart."""
    x, y = points
    return {"kind": kind, "name": name, "x": plain(x), "y": plain(y), "colour": colour, **more}


def legend(*entries: tuple[str, str]) -> str:
    """What the colours of a chart mean."""
    items = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>' for name, colour in entries
    )
    return f'<div class="legend" aria-hidden="true">{items}</div>'
