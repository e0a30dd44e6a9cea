"""Commands that fit, and go on from there: predictions and plans."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from ..support.errors import FitError
from . import command_arguments
from .commands import write_table

if TYPE_CHECKING:
    from ..results.fit_result import FitResult


def _fitted(arguments: argparse.Namespace) -> FitResult:
    from ..fitting import fit

    file = command_arguments.read(arguments)
    how = {**command_arguments.arguments(file, arguments), **command_arguments.watched(arguments)}
    return fit(file.model, command_arguments.data(file, arguments), **how, seed=arguments.seed)


def run_design(arguments: argparse.Namespace) -> int:
    """Fit, and say which further samples would tell most."""
    from ..inference.design_from_fit import windows
    from ..inference.prediction import numbered

    result = _fitted(arguments)
    k = numbered(result, 0 if arguments.of is None else arguments.of)
    span = (arguments.begin, arguments.to)
    found = result.design(windows(result, k, arguments.windows, arguments.samples, span), trajectory=k)
    print(found)
    if not result.success:
        print(f"\nThe fit is no success, and so is no base for plans: {result.message}")
    if arguments.picture:
        from ..report.plots import save

        print(f"\nPicture: {save(found.plot(), arguments.picture)}")
    return 0 if result.success else 1


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    from ..serve.launcher import serve

    serve(arguments.port, not arguments.no_browser)
    return 0


def run_predict(arguments: argparse.Namespace) -> int:
    """Fit, and print the solution with its band."""
    import numpy as np

    from ..inference.prediction import numbered

    result = _fitted(arguments)
    k = numbered(result, 0 if arguments.of is None else arguments.of)
    times = result.data.trajectories[k].times
    low = times[0] if arguments.begin is None else arguments.begin
    high = times[-1] if arguments.to is None else arguments.to
    if arguments.samples < 1:
        raise FitError(f"--samples must be one at least; received {arguments.samples}.")
    if not low < high:
        raise FitError(f"--to must come after --from; received {low:g} and {high:g}.")
    found = result.predict(np.linspace(low, high, arguments.samples + 1), trajectory=k, level=arguments.level)
    header = ["time", *(f"{name}{end}" for name in found.names for end in ("", "_lower", "_upper"))]
    columns = np.column_stack([found.times, *(found[name] for name in found.names)])
    write_table(header, columns, arguments.out, "rows")
    for note in filter(None, [found.note]):
        print(f"weakform: {note}", file=sys.stderr)
    if not result.success:
        print(f"weakform: the fit is no success: {result.message}", file=sys.stderr)
    return 0 if result.success else 1
