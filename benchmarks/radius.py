"""The radius of the test functions: fixed numbers of samples compared with two searches, on the same draws.

    python benchmarks/radius.py [runs, default 10]

The settings are M = 256 and 5% noise, started at the true parameters inside the box. The tables show the median error
of "mle", for which the radius matters, and of "wendy", which uses those test functions only in its search. `corner` is
the search of the paper (highest Fourier mode of the windowed data, radii up to an eighth of the longest). `critical`
searches all radii for a single scale, which is our reading of Tran & Bortz (arXiv 2507.03206). A radius with which no
fit is possible counts as an infinite error.
"""

from __future__ import annotations

import sys
import zlib

import numpy as np

import weakform as wf
from weakform.basis.orthonormal import compute_radius_errors, find_corner

FIXED_RADII = (4, 6, 8, 10, 14, 20)
"""Radii in samples."""


def radius_of(kind: float | str, data: wf.Dataset) -> float:
    """Return a radius in time units: a fixed number of samples, or the result of a search."""
    trajectory = data.trajectories[0]
    if not isinstance(kind, str):
        return kind * trajectory.mean_step
    radii, errors = compute_radius_errors(trajectory, None, 8.0 if kind == "corner" else 1.0)
    return float(radii[find_corner(errors)])


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    kinds = (*FIXED_RADII, "corner", "critical")
    for method in ("mle", "wendy"):
        print(f"median error of {method!r} in per cent, {runs} runs; radii in samples")
        print(
            f"{'problem':22s}"
            + "".join(f"{kind!s:>10s}" for kind in kinds)
            + f"{'chosen: corner':>17s}{'critical':>10s}"
        )
        for name in wf.problems.names():
            problem = wf.problems.get(name)
            errors: dict[float | str, list[float]] = {kind: [] for kind in kinds}
            chosen: dict[str, list[float]] = {"corner": [], "critical": []}
            for run in range(runs):
                seed = zlib.crc32(f"radius {name} {run}".encode())
                data = problem.simulate(M=256, noise=0.05, seed=seed)
                for kind in kinds:
                    radius = radius_of(kind, data)
                    if isinstance(kind, str):
                        chosen[kind].append(radius / data.trajectories[0].mean_step)
                    arguments = {"bounds": problem.bounds, "start": problem.parameters, "starts": 1, "method": method}
                    try:
                        fit = wf.fit(problem.model, data, basis=wf.Local(radius=radius), **arguments)
                        errors[kind].append(float(np.linalg.norm(fit.estimate - problem.parameters)))
                    except wf.WeakformError:
                        errors[kind].append(np.inf)
            scale = 100 / np.linalg.norm(problem.parameters)
            cells = "".join(f"{np.median(errors[kind]) * scale:10.2f}" for kind in kinds)
            radii = f"{np.median(chosen['corner']):17.0f}{np.median(chosen['critical']):10.0f}"
            print(f"{name:22s}{cells}{radii}", flush=True)


if __name__ == "__main__":
    main()
