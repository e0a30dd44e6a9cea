"""The commands that fit a model and then use the fit: `predict` and `design`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..support.errors import FitError
from . import command_arguments
from .commands import write_table

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


def _fit_model(args: argparse.Namespace) -> FitResult:
    """Fit the model file to the table, with the default method."""
    from ..fitting import fit

    file = command_arguments.read_model_file(args)
    fit_arguments = {
        **command_arguments.build_fit_arguments(file, args),
        **command_arguments.build_progress_arguments(args),
    }
    return fit(file.model, command_arguments.read_dataset(file, args), **fit_arguments, seed=args.seed)


def _find_trajectory(fit: FitResult, text: str | None) -> int:
    """Return the number of the trajectory that `--of` gives by its label or its number; the first one if it is None.

    A label takes precedence, because labels are often numbers themselves.
    """
    from ..inference.prediction import find_trajectory_number

    if text is None:
        return 0
    is_label = any(trajectory.label == text for trajectory in fit.data.trajectories)
    return find_trajectory_number(fit, int(text) if not is_label and text.isdecimal() else text)


def run_design(args: argparse.Namespace) -> int:
    """Fit, and print which further samples would reduce the standard errors most."""
    from ..inference.design_from_fit import build_windows

    result = _fit_model(args)
    k = _find_trajectory(result, args.of)
    span = (args.begin, args.to)
    design = result.design(build_windows(result, k, args.windows, args.samples, span), trajectory=k)
    print(design)
    if not result.success:
        print(f"\nThe fit did not succeed, so a design based on it is not reliable: {result.message}")
    if args.picture:
        from ..report.plots import save

        print(f"\nPicture: {save(design.plot(), args.picture)}")
    return 0 if result.success else 1


def run_predict(args: argparse.Namespace) -> int:
    """Fit, and print or write the solution with its band as a table."""
    import numpy as np

    result = _fit_model(args)
    k = _find_trajectory(result, args.of)
    times = result.data.trajectories[k].times
    low = times[0] if args.begin is None else args.begin
    high = times[-1] if args.to is None else args.to
    if args.samples < 1:
        raise FitError(f"--samples must be at least 1; received {args.samples}.")
    if not low < high:
        raise FitError(f"--to must come after --from; received {low:g} and {high:g}.")
    prediction = result.predict(np.linspace(low, high, args.samples + 1), trajectory=k, level=args.level)
    header = ["time", *(f"{name}{end}" for name in prediction.names for end in ("", "_lower", "_upper"))]
    columns = np.column_stack([prediction.times, *(prediction[name] for name in prediction.names)])
    write_table(header, columns, args.out, "rows")
    # Notes go to stderr, so that the table can be piped.
    if prediction.note:
        print(f"weakform: {prediction.note}", file=sys.stderr)
    if not result.success:
        print(f"weakform: the fit did not succeed: {result.message}", file=sys.stderr)
    return 0 if result.success else 1
