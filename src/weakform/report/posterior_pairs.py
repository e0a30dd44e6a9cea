"""Plots of draws from a posterior: single quantities and pairs, in matplotlib and on the HTML page."""

from __future__ import annotations

from html import escape
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import FitError
from ..support.wording import suggest_name
from .html_blocks import build_figure, build_series, build_table
from .plots import FIT, STYLE, pyplot
from .text_report import format_number

if TYPE_CHECKING:
    from ..inference.posterior import Posterior

MAX_QUANTITIES = 6
"""Quantities that are drawn unless some are named. By judgement: the panels of more would be too small to read."""
MAX_PANEL_POINTS = 600
"""Draws that a panel of a pair shows; more are thinned evenly, to less than twice as many. By judgement."""
HISTOGRAM_BINS = 30
"""Bars of a histogram. By judgement."""


def select_quantities(posterior: Posterior, names: list[str] | None) -> list[str]:
    """Return the quantities to draw: those named, or the first `MAX_QUANTITIES`."""
    if names is None:
        return list(posterior.names[:MAX_QUANTITIES])
    unknown = [name for name in names if name not in posterior.names]
    if unknown:
        raise FitError(
            f"The posterior has no quantity {unknown[0]!r}.{suggest_name(unknown[0], posterior.names)} "
            f"The draws are of: {', '.join(posterior.names)}."
        )
    return list(names)


def plot_pairs(posterior: Posterior, names: list[str] | None = None) -> Any:
    """Draw pairs of quantities below the diagonal, and the histogram of each quantity on it.

    Parameters
    ----------
    posterior : Posterior
    names : list of str, optional
        Quantities to draw; the first `MAX_QUANTITIES` by default.

    Returns
    -------
    ndarray of matplotlib axes, (n, n)
    """
    plt, names = pyplot(), select_quantities(posterior, names)
    n = len(names)
    with plt.rc_context(STYLE):
        _, axes = plt.subplots(n, n, figsize=(1.9 * n + 0.6, 1.9 * n + 0.4), squeeze=False)
        for i, vertical in enumerate(names):
            for j, horizontal in enumerate(names):
                axis = axes[i, j]
                if j > i:
                    axis.set_visible(False)
                    continue
                if i == j:
                    axis.hist(posterior[horizontal], bins=HISTOGRAM_BINS, color=FIT, alpha=0.7)
                    axis.set_yticks([])
                else:
                    step = max(1, len(posterior[horizontal]) // MAX_PANEL_POINTS)
                    axis.plot(
                        posterior[horizontal][::step], posterior[vertical][::step], ".", ms=2, color=FIT, alpha=0.4
                    )
                axis.locator_params(nbins=3)
                axis.set_xlabel(horizontal if i == n - 1 else "")
                axis.set_ylabel(vertical if j == 0 and i > 0 else "")
                axis.tick_params(labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
    return axes


def build_posterior_section(posterior: Posterior) -> str:
    """Build the section of a page about a posterior: its table, the histogram of each quantity, and pairs."""
    ends = posterior.intervals()
    rows = []
    for name in posterior.names:
        x, (low, high) = posterior[name], ends[name]
        interval = f"[{format_number(low)}, {format_number(high)}]"
        mixing = [f"{posterior.rhat[name]:.3f}", f"{posterior.effective[name]:.0f}"]
        rows.append([name, format_number(float(x.mean())), format_number(float(x.std())), interval, *mixing])
    chains, n = posterior.draws.shape[:2]
    mixing_text = "the chains have mixed" if posterior.success else f"do not trust them: {posterior.trouble}"
    intro = f"<p>{chains} chains of {n} draws from the posterior; {escape(mixing_text)}.</p>"
    notes = "".join(f"<p>{escape(note)}</p>" for note in posterior.notes)
    names, figures = select_quantities(posterior, None), []
    for name in names:
        counts, edges = np.histogram(posterior[name], HISTOGRAM_BINS)
        # The outline of the bars, which the chart draws as a line.
        x, y = np.repeat(edges, 2)[1:-1], np.repeat(counts, 2)
        figures.append(
            build_figure(
                f"draws of {name}", (name, "draws"), [build_series("line", "draws", (x, y), "fit")], small=True
            )
        )
    for a, b in combinations(names, 2):
        step = max(1, len(posterior[a]) // MAX_PANEL_POINTS)
        dots = [build_series("points", "draws", (posterior[a][::step], posterior[b][::step]), "fit")]
        figures.append(build_figure(f"draws of {b} against {a}", (a, b), dots, small=True))
    header = ["quantity", "mean", "sd", "95% interval", "R̂", "effective size"]
    return intro + build_table(header, rows) + notes + f'<div class="multiples">{"".join(figures)}</div>'
