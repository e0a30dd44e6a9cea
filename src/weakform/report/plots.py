"""Pictures of a fit, in matplotlib, styled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import WeakformError

if TYPE_CHECKING:
    from ..result import FitResult

# Okabe–Ito: told apart by colour-blind readers and in print.
DATA, FIT, TRUTH = "#999999", "#0072B2", "#D55E00"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 150,
}


def pyplot() -> Any:
    """Matplotlib's pyplot, or an error that says how to get it."""
    try:
        import matplotlib

        if not matplotlib.get_backend():
            matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        raise WeakformError("Pictures need matplotlib; install it with: pip install 'weakform[plot]'") from None
    return plt


def states(fit: FitResult, trajectory: int = 0) -> Any:
    """Data, fitted states and, where known, the noise-free truth, one panel a state; returns the axes."""
    plt = pyplot()
    names, q = fit.model.states, fit.data.trajectories[trajectory]
    truth = fit.data.truth
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(names), 1, figsize=(8, 1.2 + 2.1 * len(names)), sharex=True, squeeze=False, num=None
        )
        for d, (axis, name) in enumerate(zip(axes[:, 0], names, strict=True)):
            axis.plot(q.times, q.values[:, d], ".", color=DATA, ms=4, label="data")
            if truth is not None:
                axis.plot(q.times, truth.states[:, d], "--", color=TRUTH, lw=1.6, label="noise-free truth")
            axis.plot(q.times, fit.denoised[trajectory][:, d], color=FIT, lw=1.4, label="fitted states")
            axis.set_ylabel(name)
        axes[-1, 0].set_xlabel("time")
        axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
        figure.align_ylabels()
    return np.asarray(axes[:, 0])
