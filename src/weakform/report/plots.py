"""Pictures of a fit, in matplotlib, styled once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import WeakformError
from ..prediction import forward

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


def save(axes: Any, path: str | Path) -> Path:
    """Write the figure of some axes to a file and close it; returns the path."""
    figure = np.ravel(axes)[0].figure
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    pyplot().close(figure)
    return Path(path)


def states(fit: FitResult, trajectory: int = 0) -> Any:
    """Data, the fitted trajectory with its band and, where known, the truth, one panel a state; returns the axes.

    Where the model cannot be solved over the data, the fitted states are drawn in place of the trajectory.
    """
    plt = pyplot()
    names, q = fit.model.states, fit.data.trajectories[trajectory]
    truth = fit.data.truth
    times, centre, band, label = q.times, fit.denoised[trajectory], None, "fitted states"
    try:
        solved = fit.trajectory(trajectory)
        if follows(fit, trajectory):
            times, centre, band = solved.times, solved.states, (solved.lower, solved.upper)
            label = f"fitted trajectory, {solved.level:.0%} band"
    except WeakformError:
        pass
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(names), 1, figsize=(8, 1.2 + 2.1 * len(names)), sharex=True, squeeze=False, num=None
        )
        for d, (axis, name) in enumerate(zip(axes[:, 0], names, strict=True)):
            axis.plot(q.times, q.values[:, d], ".", color=DATA, ms=4, label="data")
            if truth is not None:
                axis.plot(q.times, truth.states[:, d], "--", color=TRUTH, lw=1.6, label="noise-free truth")
            axis.plot(times, centre[:, d], color=FIT, lw=1.4, label=label)
            if band is not None:
                axis.fill_between(times, band[0][:, d], band[1][:, d], color=FIT, alpha=0.2, lw=0)
            axis.set_ylabel(name)
        axes[-1, 0].set_xlabel("time")
        axes[0, 0].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3)
        figure.align_ylabels()
    return np.asarray(axes[:, 0])


def follows(fit: FitResult, trajectory: int) -> bool:
    """Whether the forward solution stays with the fitted states: a chaotic one leaves them."""
    solved, fitted = forward(fit, trajectory), fit.denoised[trajectory]
    spread = np.sqrt(np.mean((fitted - fitted.mean(axis=0)) ** 2, axis=0))
    with np.errstate(invalid="ignore"):
        return bool((np.sqrt(np.mean((solved - fitted) ** 2, axis=0)) <= 0.25 * spread).all())
