"""Style of the methods in figures, and the frame around panels.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; markers differ too.
"""

from __future__ import annotations

import math
from typing import Any

from ..report.plots import pyplot
from .study import START_METHOD

METHOD_STYLES = {
    START_METHOD: ("initial guess", "#000000", ":", "x"),
    "oe-ls": ("OE-LS", "#0072B2", "-", "o"),
    "output-error": ("output error", "#0072B2", "-", "o"),
    "wls": ("WLS", "#E69F00", "-", "s"),
    "irls": ("WENDy-IRLS", "#009E73", "-", "^"),
    "mle": ("WENDy-MLE", "#CC79A7", "-", "D"),
    "hybrid": ("hybrid", "#8C510A", "--", "v"),
    "wendy": ("wendy (default)", "#D55E00", "-", "*"),
}
"""Name in the legend, colour, line and marker of each method that the paper or a built-in study has."""
OTHER_COLOURS = ("#56B4E9", "#999999", "#F0E442")
"""Colours of methods under other labels."""
MAX_COLUMNS = 4
"""Number of panels, or of names in a legend, side by side: more would not be readable in the width of a page. By
judgement."""


def get_method_style(method: str) -> dict[str, Any]:
    """Return label, colour, line and marker of a method as keywords of matplotlib's `plot`."""
    # A sum over the letters is the same in every process, unlike `hash`, so a label keeps its colour.
    fallback = (method, OTHER_COLOURS[sum(map(ord, method)) % len(OTHER_COLOURS)], "-.", "P")
    style = METHOD_STYLES.get(method, fallback)
    return dict(zip(("label", "color", "linestyle", "marker"), style, strict=True)) | {"ms": 4, "lw": 1.3}


def sort_methods(methods: set[str]) -> list[str]:
    """Sort methods into the order of the legend, those without a style of their own last."""
    order = list(METHOD_STYLES)
    return sorted(methods, key=lambda m: (order.index(m) if m in METHOD_STYLES else len(METHOD_STYLES), m))


def create_panels(count: int) -> tuple[Any, Any]:
    """Create a figure with at least `count` panels; return it with its axes, `(rows, columns)`."""
    columns = min(MAX_COLUMNS, count)
    rows = math.ceil(count / columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(2.5 * columns + 0.6, 2.1 * rows + 1.0), sharex=True, squeeze=False
    )
    return figure, axes


def finish_figure(figure: Any, axes: Any, used: int, title: str, label: str) -> None:
    """Hide the panels after the first `used`; add the title, the label of the horizontal axis and the legend."""
    for axis in axes.flat[used:]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(label)
    figure.suptitle(title)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
