"""Parts of a page: sections, tables, charts, and the page around them."""

from __future__ import annotations

import json
import math
from html import escape
from importlib import resources
from typing import Any

import numpy as np

from ..support.typing import FloatArray

MAX_POINTS = 1500


def document(title: str, body: list[str]) -> str:
    """A whole page, with its style and its script in it."""
    files = resources.files(__package__)
    style, script = ((files / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    return (
        '<!doctype html>\n<html lang="en" data-theme="light"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{style}</style></head><body><main>"
        f'<header><h1>{escape(title)}</h1><button id="theme" type="button">dark page</button></header>'
        f"{''.join(body)}</main><script>{script}</script></body></html>\n"
    )


def section(title: str, body: str) -> str:
    """A titled part of a page; nothing where there is nothing in it."""
    return f"<section><h2>{escape(title)}</h2>{body}</section>" if body else ""


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


def chart(label: str, x: str, series: list[dict[str, Any]], tall: int = 220) -> str:
    """A chart that the script of the page draws."""
    spec = json.dumps({"label": label, "x": x, "tall": tall, "series": series}).replace("<", "\\u003c")
    return f'<div class="chart"><script type="application/json">{spec}</script></div>'


def series(kind: str, name: str, x: Any, y: Any, colour: str, **more: Any) -> dict[str, Any]:
    """A line, points or a band of a chart."""
    return {"kind": kind, "name": name, "x": plain(x), "y": plain(y), "colour": colour, **more}


def legend(*entries: tuple[str, str]) -> str:
    """What the colours of a chart mean."""
    items = "".join(
        f'<span><i style="background:var(--{colour})"></i>{escape(name)}</span>' for name, colour in entries
    )
    return f'<div class="legend" aria-hidden="true">{items}</div>'
