"""Tables of the accuracy study, which compares the methods "wendy" and "mle" on the same data.

    weakform sweep accuracy                                          # the runs; resumes where it stopped
    weakform summary accuracy.sqlite --export accuracy.parquet
    python benchmarks/accuracy.py [accuracy.parquet]                 # the tables of docs/accuracy.md, and a figure

Without a file the stored runs in results/accuracy.parquet are read. Definitions:

- error: ‖p̂ - p‖/‖p‖ (Goodwin without p1 and p3, which the data do not determine separately);
- CR: the root mean square error over the Cramér–Rao bound, as the median over the parameters;
- bias²: the median over the parameters of (mean p̂_j - p_j)²/p_j².
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import weakform as wf
from weakform.forward.cramer_rao import compute_cramer_rao_bound

STORED_RUNS = Path(__file__).parent / "results" / "accuracy.parquet"
FIGURE = Path(__file__).parent.parent / "docs" / "bias.png"
UNDETERMINED = {"goodwin": ("p1", "p3")}
"""Parameters that are left out of the errors, because the data determine only a combination of them."""
NORMAL_QUANTILE = 1.959964
"""Half-width of a 95% Wald interval in standard errors."""


def estimates(rows: pd.DataFrame, problem: wf.problems.Problem) -> tuple[np.ndarray, np.ndarray]:
    """Return the errors of the estimates and their standard errors, `(runs, J)` each."""
    J = len(problem.truth)
    p = np.array([np.asarray(value, dtype=float) for value in rows.estimate]).reshape(-1, J)
    C = np.array([np.stack(value).astype(float) for value in rows.covariance]).reshape(-1, J, J)
    with np.errstate(invalid="ignore"):
        return p - problem.parameters, np.sqrt(np.diagonal(C, axis1=1, axis2=2))


def coverage(deviations: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Return 1 where an interval covers, 0 where it does not, and NaN where there is none."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(errors), np.abs(deviations) <= NORMAL_QUANTILE * errors, np.nan)


def bound(problem: wf.problems.Problem, M: int, noise: float) -> np.ndarray:
    """Return the Cramér–Rao bound of a cell, with a free initial state, as a covariance `(J, J)`."""
    data = problem.simulate(M=M, noise=noise, seed=0)
    times, sigma = data.trajectories[0].times, data.truth.sigma
    return compute_cramer_rao_bound(
        problem.model, problem.parameters, problem.initial, times, data.noise, sigma, begin=0.0
    )


def cells(runs: pd.DataFrame) -> list[str]:
    """Return the table with one line for each cell."""
    lines = [
        "| problem | M | noise | runs | mle error | wendy error | wendy / CR | bias² mle | bias² wendy | worst mle | "
        "worst wendy | coverage of 95% | not converged |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        determined = np.array([p not in UNDETERMINED.get(name, ()) for p in problem.model.parameters])
        of_problem = runs[runs.problem == name]
        for (M, noise), rows in of_problem.groupby(["samples", "noise"]):
            limit = np.sqrt(np.diag(bound(problem, int(M), float(noise))))
            by_method = {}
            for method in ("mle", "wendy"):
                deviations, errors = estimates(rows[rows.method == method], problem)
                size = np.linalg.norm(deviations[:, determined], axis=1) / np.linalg.norm(
                    problem.parameters[determined]
                )
                bias = np.median((deviations.mean(axis=0) ** 2 / problem.parameters**2)[determined])
                by_method[method] = deviations, errors, size, bias
            deviations, errors, _, _ = by_method["wendy"]
            ratio = np.median((np.sqrt(np.mean(deviations**2, axis=0)) / limit)[determined])
            unconverged = np.mean(rows[rows.method == "wendy"].status.map(lambda name: not wf.Status[name].converged))
            m, w = by_method["mle"], by_method["wendy"]
            lines.append(
                f"| {name} | {M} | {noise:.0%} | {len(deviations)} | {np.median(m[2]):.2%} | {np.median(w[2]):.2%} | "
                f"{ratio:.2f} | {m[3]:.4%} | {w[3]:.4%} | {m[2].max():.0%} | {w[2].max():.0%} | "
                f"{np.nanmean(coverage(deviations, errors)[:, determined]):.0%} | {unconverged:.0%} |"
            )
    return lines


def by_parameter(runs: pd.DataFrame) -> list[str]:
    """Return the table of the coverage of each parameter, pooled over M >= 512 and noise <= 10%."""
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
    """Draw the mean of the estimates over the true value against noise: Hindmarsh–Rose, M = 512."""
    import matplotlib.pyplot as plt

    from weakform.report.plots import FIT, STYLE, TRUTH

    problem = wf.problems.get("hindmarsh-rose")
    chosen = runs[(runs.problem == problem.name) & (runs.samples == 512)]
    with plt.rc_context(STYLE):
        drawn, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
        for axis, j in zip(axes, (5, 6), strict=True):
            for method, label, colour, shift in (("mle", "WENDy-MLE", TRUTH, -0.2), ("wendy", "wendy", FIT, 0.2)):
                ratios = [
                    1 + estimates(rows, problem)[0][:, j] / problem.truth[j]
                    for _, rows in chosen[chosen.method == method].groupby("noise")
                ]
                x = 100 * np.array(sorted(chosen.noise.unique())) + shift
                means, spreads = [r.mean() for r in ratios], [2 * r.std() for r in ratios]
                axis.errorbar(x, means, spreads, fmt="o-", color=colour, capsize=3, label=label)
            axis.axhline(1.0, color="black", lw=0.8, ls="--")
            axis.set_xlabel("noise, %")
            axis.set_title(f"p{j + 1}")
        axes[0].set_ylabel("estimate / truth (mean ± 2 sd)")
        axes[0].legend()
        drawn.savefig(path)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else STORED_RUNS
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
    if path == STORED_RUNS:
        STORED_RUNS.with_suffix(".md").write_text("\n".join(text) + "\n", encoding="utf-8")
        figure(runs, FIGURE)


if __name__ == "__main__":
    main()
