"""Tables of the accuracy study: method "wendy" against "mle" on the same data.

    weakform sweep accuracy                                          # the runs; goes on where it stopped
    weakform summary accuracy.sqlite --export accuracy.parquet
    python benchmarks/accuracy.py [accuracy.parquet]                 # the tables of docs/accuracy.md; and a figure

Without a file the runs that are kept in results/accuracy.parquet are read. Error is ‖p̂ - p‖/‖p‖ (Goodwin without p1 and
p3, which the data do not tell apart); CR the median over parameters of the root mean square error over the Cramér–Rao
bound; bias² the median over parameters of (mean p̂_j - p_j)²/p_j².
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import weakform as wf
from weakform.forward.cramer_rao import cramer_rao

KEPT = Path(__file__).parent / "results" / "accuracy.parquet"
FIGURE = Path(__file__).parent.parent / "docs" / "bias.png"
WEAK = {"goodwin": ("p1", "p3")}
LEVEL = 1.959964


def estimates(rows: pd.DataFrame, problem: wf.problems.Problem) -> tuple[np.ndarray, np.ndarray]:
    """Errors of the estimates and standard errors, `(runs, J)` each."""
    J = len(problem.truth)
    p = np.array([np.asarray(value, dtype=float) for value in rows.estimate]).reshape(-1, J)
    C = np.array([np.stack(value).astype(float) for value in rows.covariance]).reshape(-1, J, J)
    with np.errstate(invalid="ignore"):
        return p - problem.parameters, np.sqrt(np.diagonal(C, axis1=1, axis2=2))


def coverage(off: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Whether each interval covers; NaN where there is none."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(errors), np.abs(off) <= LEVEL * errors, np.nan)


def bound(problem: wf.problems.Problem, M: int, noise: float) -> np.ndarray:
    """The Cramér–Rao bound of a cell, with a free initial state."""
    data = problem.simulate(M=M, noise=noise, seed=0)
    times, sigma = data.trajectories[0].times, data.truth.sigma
    return cramer_rao(problem.model, problem.parameters, problem.initial, times, data.noise, sigma, begin=0.0)


def cells(runs: pd.DataFrame) -> list[str]:
    """One line for each cell."""
    lines = [
        "| problem | M | noise | runs | mle error | wendy error | wendy / CR | bias² mle | bias² wendy | worst mle | "
        "worst wendy | coverage of 95% | not converged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        known = np.array([p not in WEAK.get(name, ()) for p in problem.model.parameters])
        here = runs[runs.problem == name]
        for (M, noise), rows in here.groupby(["samples", "noise"]):
            limit = np.sqrt(np.diag(bound(problem, int(M), float(noise))))
            found = {}
            for method in ("mle", "wendy"):
                off, errors = estimates(rows[rows.method == method], problem)
                size = np.linalg.norm(off[:, known], axis=1) / np.linalg.norm(problem.parameters[known])
                bias = np.median((off.mean(axis=0) ** 2 / problem.parameters**2)[known])
                found[method] = off, errors, size, bias
            off, errors, _, _ = found["wendy"]
            ratio = np.median((np.sqrt(np.mean(off**2, axis=0)) / limit)[known])
            lost = np.mean(rows[rows.method == "wendy"].status.map(lambda name: not wf.Status[name].converged))
            m, w = found["mle"], found["wendy"]
            lines.append(
                f"| {name} | {M} | {noise:.0%} | {len(off)} | {np.median(m[2]):.2%} | {np.median(w[2]):.2%} | "
                f"{ratio:.2f} | {m[3]:.4%} | {w[3]:.4%} | {m[2].max():.0%} | {w[2].max():.0%} | "
                f"{np.nanmean(coverage(off, errors)[:, known]):.0%} | {lost:.0%} |"
            )
    return lines


def by_parameter(runs: pd.DataFrame) -> list[str]:
    """Coverage pooled over M >= 512 and noise <= 10%."""
    lines = ["| problem | runs | coverage of 95% intervals |", "|---|---|---|"]
    chosen = runs[(runs.method == "wendy") & (runs.samples >= 512) & (runs.noise <= 0.1)]
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        covered = coverage(*estimates(chosen[chosen.problem == name], problem))
        shares = zip(problem.model.parameters, np.nanmean(covered, axis=0), strict=True)
        text = ", ".join(
            f"**{p} {100 * c:.0f}**" if not 0.915 <= c < 0.985 else f"{p} {100 * c:.0f}" for p, c in shares
        )
        lines.append(f"| {name} | {len(covered)} | {text} |")
    return lines


def figure(runs: pd.DataFrame, path: Path) -> None:
    """Hindmarsh–Rose, M = 512: mean of the estimates over the truth, with the spread of the runs, against noise."""
    import matplotlib.pyplot as plt

    from weakform.report.plots import FIT, STYLE, TRUTH

    problem = wf.problems.get("hindmarsh-rose")
    here = runs[(runs.problem == problem.name) & (runs.samples == 512)]
    with plt.rc_context(STYLE):
        drawn, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
        for axis, j in zip(axes, (5, 6), strict=True):
            for method, label, colour, shift in (("mle", "WENDy-MLE", TRUTH, -0.2), ("wendy", "wendy", FIT, 0.2)):
                ratios = [
                    1 + estimates(rows, problem)[0][:, j] / problem.truth[j]
                    for _, rows in here[here.method == method].groupby("noise")
                ]
                x = 100 * np.array(sorted(here.noise.unique())) + shift
                means, spreads = [r.mean() for r in ratios], [2 * r.std() for r in ratios]
                axis.errorbar(x, means, spreads, fmt="o-", color=colour, capsize=3, label=label)
            axis.axhline(1.0, color="black", lw=0.8, ls="--")
            axis.set_xlabel("noise, %")
            axis.set_title(f"p{j + 1}")
        axes[0].set_ylabel("estimate / truth (mean ± 2 sd)")
        axes[0].legend()
        drawn.savefig(path)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT
    runs = pd.read_parquet(path)
    seconds = runs.groupby("method").cpu.agg(["median", "sum"])
    text = [
        *cells(runs),
        "",
        *by_parameter(runs),
        "",
        f"{len(runs)} fits; median CPU s for each: mle {seconds['median']['mle']:.2f}, wendy "
        f"{seconds['median']['wendy']:.2f}; {seconds['sum'].sum() / 3600:.2f} CPU h in all.",
    ]
    print("\n".join(text))
    if path == KEPT:
        KEPT.with_suffix(".md").write_text("\n".join(text) + "\n", encoding="utf-8")
        figure(runs, FIGURE)


if __name__ == "__main__":
    main()
