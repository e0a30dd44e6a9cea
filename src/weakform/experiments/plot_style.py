"""How methods look in figures, and the frame of a figure.

Colours are Okabe and Ito's, which colour-blind readers can distinguish; markers differ too.
"""

from __future__ import annotations

import math
from typing import Any

from ..report.plots import pyplot
from .study import START

LOOKS = {
    START: ("initial guess", "#000000", ":", "x"),
    "oe-ls": ("OE-LS", "#0072B2", "-", "o"),
    "output-error": ("output error", "#0072B2", "-", "o"),
    "wls": ("WLS", "#E69F00", "-", "s"),
    "irls": ("WENDy-IRLS", "#009E73", "-", "^"),
    "mle": ("WENDy-MLE", "#CC79A7", "-", "D"),
    "hybrid": ("hybrid", "#8C510A", "--", "v"),
    "wendy": ("wendy (default)", "#D55E00", "-", "*"),
}
OTHERS = ("#56B4E9", "#999999", "#F0E442")
LEAST = 1e-6


def look(method: str) -> dict[str, Any]:
    """Label, colour, line and marker of a method."""
    known = LOOKS.get(method, (method, OTHERS[sum(map(ord, method)) % len(OTHERS)], "-.", "P"))
    return dict(zip(("label", "color", "linestyle", "marker"), known, strict=True)) | {"ms": 4, "lw": 1.3}


def ordered(methods: set[str]) -> list[str]:
    """Methods in the order of the legend."""
    return sorted(methods, key=lambda m: (list(LOOKS).index(m) if m in LOOKS else len(LOOKS), m))


def grid(count: int) -> tuple[Any, Any]:
    """A figure with a panel for each of `count`, at most four in a row."""
    columns = min(4, count)
    rows = math.ceil(count / columns)
    figure, axes = pyplot().subplots(
        rows, columns, figsize=(2.5 * columns + 0.6, 2.1 * rows + 1.0), sharex=True, squeeze=False
    )
    return figure, axes


def finish(figure: Any, axes: Any, used: int, title: str, label: str) -> None:
    """Hide the panels that are not used; title, label and legend."""
    for axis in axes.flat[used:]:
        axis.set_visible(False)
    for axis in axes[-1]:
        axis.set_xlabel(label)
    figure.suptitle(title)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names))
