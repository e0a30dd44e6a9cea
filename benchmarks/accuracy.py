"""The accuracy study: `method="wendy"` against `method="mle"` in the same runs.

    python benchmarks/accuracy.py run [runs a cell, default 30] [worker, workers]
    python benchmarks/accuracy.py table

All eight problems, M = 256, 512, 1024, noise 2, 5, 10, 20%; for each run new noise and a random start in the box that
competes with the default starts, seeded by cell and run. Every run is one line in results/accuracy.jsonl; a run that is
there is not done again. `table` prints the summary and saves it as results/accuracy.md. One fit gives both methods, as
"wendy" begins with "mle".
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from collections import defaultdict
from pathlib import Path

import numpy as np

import weakform as wf
from weakform.forward.cramer_rao import cramer_rao

FOLDER = Path(__file__).parent / "results"
SIZES, NOISES = (256, 512, 1024), (0.02, 0.05, 0.10, 0.20)
WEAK = {"goodwin": ("p1", "p3")}
Cell = tuple[str, int, float]


def one(name: str, M: int, noise: float, seed: int) -> dict[str, object]:
    """One run."""
    problem = wf.problems.get(name)
    draw = zlib.crc32(f"{name} {M} {noise} {seed}".encode())
    data = problem.simulate(M=M, noise=noise, seed=draw)
    begin = time.process_time()
    fit = wf.fit(problem.model, data, bounds=problem.bounds, start=problem.start(draw), seed=draw)
    cpu = time.process_time() - begin
    return {
        "problem": name,
        "M": M,
        "noise": noise,
        "seed": seed,
        "method": fit.method,
        "status": fit.status.name,
        "estimate": fit.estimate.tolist(),
        "mle": fit.starts[0].estimate.tolist(),
        "error": fit.errors.tolist(),
        "sigma": (fit.sigma / data.truth.sigma).tolist(),
        "p": fit.goodness.p_value if fit.goodness else None,
        "cpu": cpu,
    }


def stored() -> list[dict[str, object]]:
    """All runs done so far, by all workers."""
    rows = []
    for path in sorted(FOLDER.glob("accuracy*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                rows.append(json.loads(line))
            except json.JSONDecodeError:  # a line that was being written when the study was stopped
                continue
    return rows


def run(runs: int, worker: int, workers: int) -> None:
    FOLDER.mkdir(exist_ok=True)
    done = {(r["problem"], r["M"], r["noise"], r["seed"]) for r in stored()}
    todo = [
        (name, M, noise, seed)
        for seed in range(runs)
        for name in wf.problems.names()
        for M in SIZES
        for noise in NOISES
        if (name, M, noise, seed) not in done
    ][worker::workers]
    path = FOLDER / ("accuracy.jsonl" if workers == 1 else f"accuracy-{worker}.jsonl")
    with path.open("a") as out:
        for k, cell in enumerate(todo, 1):
            out.write(json.dumps(one(*cell)) + "\n")
            out.flush()
            if sys.stderr.isatty():
                print(f"\r{k} of {len(todo)}", end="", file=sys.stderr)


def bound(name: str, M: int, noise: float) -> np.ndarray:
    """The Cramér–Rao bound of a cell, with a free initial state."""
    problem = wf.problems.get(name)
    data = problem.simulate(M=M, noise=noise, seed=0)
    return cramer_rao(
        problem.model,
        problem.parameters,
        problem.initial,
        data.trajectories[0].times,
        data.noise,
        data.truth.sigma,
        begin=0.0,
    )


def table() -> str:
    cells: dict[Cell, list[dict]] = defaultdict(list)
    for row in stored():
        cells[row["problem"], row["M"], row["noise"]].append(row)
    lines = [
        "| problem | M | noise | runs | mle error | wendy error | ratio | worst mle | worst wendy | wendy / CR | bias² "
        "mle | bias² wendy | coverage | not converged | rejected |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    pooled: dict[str, list[np.ndarray]] = defaultdict(list)
    for name in wf.problems.names():
        problem = wf.problems.get(name)
        truth = problem.parameters
        told = np.array([p not in WEAK.get(name, ()) for p in problem.model.parameters])
        for M in SIZES:
            for noise in NOISES:
                rows = cells.get((name, M, noise), [])
                if not rows:
                    continue
                wendy, mle = (np.array([r[key] for r in rows]) - truth for key in ("estimate", "mle"))
                errors = np.array([r["error"] for r in rows], dtype=float)
                norm = np.linalg.norm(truth[told])
                ew, em = (np.linalg.norm(e[:, told], axis=1) / norm for e in (wendy, mle))
                limit = np.sqrt(np.diag(bound(name, M, noise)))
                efficiency = np.median(np.sqrt(np.mean((wendy / limit) ** 2, axis=0))[told])
                with np.errstate(invalid="ignore"):
                    covered = np.where(np.isfinite(errors), np.abs(wendy) <= 1.959964 * errors, np.nan)
                bias = [np.median((e.mean(axis=0) ** 2 / truth**2)[told]) for e in (mle, wendy)]
                unconverged = np.mean([r["status"] != "CONVERGED" for r in rows])
                rejected = np.mean([(r["p"] if r["p"] is not None else 1.0) < 0.05 for r in rows])
                if M >= 512 and noise <= 0.10:
                    pooled[name].append(covered)
                lines.append(
                    f"| {name} | {M} | {noise:.0%} | {len(rows)} | {np.median(em):.2%} | {np.median(ew):.2%} | "
                    f"{np.median(ew) / np.median(em):.2f} | {em.max():.0%} | {ew.max():.0%} | {efficiency:.2f} | "
                    f"{bias[0]:.4%} | {bias[1]:.4%} | {np.nanmean(covered[:, told]):.0%} | {unconverged:.0%} | "
                    f"{rejected:.0%} |"
                )
    lines += ["", "Coverage of 95% intervals, pooled over M >= 512 and noise <= 10%, parameter by parameter:", ""]
    lines += ["| problem | runs | " + "parameters |", "|---|---|---|"]
    for name, parts in pooled.items():
        covered = np.concatenate(parts)
        names = wf.problems.get(name).model.parameters
        shares = ", ".join(f"{p} {c:.0%}" for p, c in zip(names, np.nanmean(covered, axis=0), strict=True))
        lines.append(f"| {name} | {len(covered)} | {shares} |")
    seconds = [r["cpu"] for r in stored()]
    lines += [
        "",
        f"{len(seconds)} runs, median {np.median(seconds):.2f} CPU s a fit, {sum(seconds) / 3600:.2f} h in all.",
    ]
    return "\n".join(lines)


def figure(path: Path) -> None:
    """Hindmarsh–Rose, M = 512: mean of the estimates over the truth, with the spread of the runs, against noise."""
    import matplotlib.pyplot as plt

    from weakform.report.plots import FIT, STYLE, TRUTH

    problem = wf.problems.get("hindmarsh-rose")
    rows = [r for r in stored() if r["problem"] == problem.name and r["M"] == 512]
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True)
        for axis, j in zip(axes, (5, 6), strict=True):
            for key, label, colour, shift in (("mle", "WENDy-MLE", TRUTH, -0.2), ("estimate", "wendy", FIT, 0.2)):
                ratio = [np.array([r[key][j] for r in rows if r["noise"] == n]) / problem.truth[j] for n in NOISES]
                means, spreads = [r.mean() for r in ratio], [2 * r.std() for r in ratio]
                x = 100 * np.array(NOISES) + shift
                axis.errorbar(x, means, spreads, fmt="o-", color=colour, capsize=3, label=label)
            axis.axhline(1.0, color="black", lw=0.8, ls="--")
            axis.set_xlabel("noise, %")
            axis.set_title(f"p{j + 1}")
        axes[0].set_ylabel("estimate / truth (mean ± 2 sd)")
        axes[0].legend()
        figure.savefig(path)
        plt.close(figure)


def main() -> None:
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        runs, worker, workers = (int(a) for a in (*sys.argv[2:5], *("30", "0", "1")[len(sys.argv) - 2 :]))
        run(runs, worker, workers)
    text = table()
    print(text)
    figure(FOLDER.parent.parent / "docs" / "bias.png")
    (FOLDER / "accuracy.md").write_text("# Accuracy study\n\n`python benchmarks/accuracy.py table`\n\n" + text + "\n")


if __name__ == "__main__":
    main()
