"""Draws from a posterior: pairs of quantities, in matplotlib and on the page."""

from __future__ import annotations

from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import FitError
from ..support.wording import suggestion
from .html_blocks import figure, series, table
from .plots import FIT, STYLE, pyplot
from .text_report import number

if TYPE_CHECKING:
    from ..inference.posterior import Posterior

MOST, SHOWN, BINS = 6, 600, 30
"""Quantities in a picture, points of a panel, and bars of a histogram."""


def chosen(posterior: Posterior, names: list[str] | None) -> list[str]:
    """What is drawn: the first few, or those that are named."""
    if names is None:
        return list(posterior.names[:MOST])
    unknown = [name for name in names if name not in posterior.names]
    if unknown:
        raise FitError(
            f"Nothing called {unknown[0]!r} was drawn.{suggestion(unknown[0], posterior.names)} There are: "
            f"{', '.join(posterior.names)}."
        )
    return list(names)


def pairs(posterior: Posterior, names: list[str] | None = None) -> Any:
    """Pairs of quantities below the diagonal, each alone on it; returns the matplotlib axes."""
    plt, names = pyplot(), chosen(posterior, names)
    n = len(names)
    with plt.rc_context(STYLE):
        _, axes = plt.subplots(n, n, figsize=(1.9 * n + 0.6, 1.9 * n + 0.4), squeeze=False)
        for i, across in enumerate(names):
            for j, along in enumerate(names):
                axis = axes[i, j]
                if j > i:
                    axis.set_visible(False)
                    continue
                if i == j:
                    axis.hist(posterior[along], bins=BINS, color=FIT, alpha=0.7)
                    axis.set_yticks([])
                else:
                    step = max(1, len(posterior[along]) // SHOWN)
                    axis.plot(posterior[along][::step], posterior[across][::step], ".", ms=2, color=FIT, alpha=0.4)
                axis.locator_params(nbins=3)
                axis.set_xlabel(along if i == n - 1 else "")
                axis.set_ylabel(across if j == 0 and i > 0 else "")
                axis.tick_params(labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
    return axes


def described(posterior: Posterior) -> str:
    """The part of a page about a posterior: its table, each quantity alone, and pairs."""
    ends = posterior.intervals()
    rows = []
    for name in posterior.names:
        x, (low, high) = posterior[name], ends[name]
        interval = f"[{number(low)}, {number(high)}]"
        mixed = [f"{posterior.rhat[name]:.3f}", f"{posterior.effective[name]:.0f}"]
        rows.append([name, number(float(x.mean())), number(float(x.std())), interval, *mixed])
    chains, n = posterior.draws.shape[:2]
    said = "they have mixed" if posterior.success else f"not to be trusted: {posterior.trouble}"
    intro = f"<p>{chains} chains of {n} draws from the posterior; {escape(said)}.</p>"
    notes = "".join(f"<p>{escape(note)}</p>" for note in posterior.notes)
    names, figures = chosen(posterior, None), []
    for name in names:
        counts, edges = np.histogram(posterior[name], BINS)
        x, y = np.repeat(edges, 2)[1:-1], np.repeat(counts, 2)
        figures.append(
            figure(f"draws of {name}", (name, "draws"), [series("line", "draws", (x, y), "fit")], small=True)
        )
    for a, b in combinations(names, 2):
        step = max(1, len(posterior[a]) // SHOWN)
        dots = [series("points", "draws", (posterior[a][::step], posterior[b][::step]), "fit")]
        figures.append(figure(f"draws of {b} against {a}", (a, b), dots, small=True))
    header = ["quantity", "mean", "sd", "95% interval", "R̂", "effective size"]
    return intro + table(header, rows) + notes + f'<div class="multiples">{"".join(figures)}</div>'
