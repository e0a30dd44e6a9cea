"""Measurement of the tables of the README, which this script writes into it; they are never edited by hand.

    python benchmarks/readme.py [runs, default 30]

It takes about fifteen CPU minutes, most of them for output error on Hindmarsh–Rose.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np

import weakform as wf
from likelihood import costs
from methods import efficient, measured

README = Path(__file__).parents[1] / "README.md"
SAMPLES, NOISE = 256, 0.05
EVALUATION_SAMPLES = 1024
"""Samples of the series on which single evaluations are measured."""
TITLES = {
    "lorenz": "Lorenz",
    "hindmarsh-rose": "Hindmarsh–Rose",
    "goodwin": "Goodwin",
    "sir-tdi": "SIR with delayed immunity",
}


def methods(runs: int) -> list[str]:
    """Measure output error and the default, and return the table with one row for each system of the paper."""
    lines = [
        "| system | output error: error, lost, CPU s | weakform: error, lost, CPU s | Cramér–Rao |",
        "|---|---|---|---|",
    ]
    for name, title in TITLES.items():
        ended = measured(name, runs, SAMPLES, NOISE, ("output-error", "wendy"))
        output_error, default = (
            f"{np.median(e.error):.2%}, {f'{e.lost.sum()} of {runs}' if e.lost.any() else 0}, {np.median(e.cpu):.2f}"
            for e in ended.values()
        )
        limit = efficient(wf.problems.get(name), SAMPLES, NOISE)
        lines.append(f"| {title} | {output_error} | **{default}** | {limit:.2%} |")
        print(lines[-1], flush=True)
    return lines


def evaluations() -> list[str]:
    """Measure the weak likelihood against the paper's formulas as printed, and return the table."""
    lines = ["| system | value | gradient | Hessian |", "|---|---|---|---|"]
    for name, title in TITLES.items():
        c = costs(name, EVALUATION_SAMPLES)
        ratios = (f"{theirs / ours:.0f}×" for ours, theirs in zip(c.local, c.paper, strict=True))
        lines.append(f"| {title} | {' | '.join(ratios)} |")
        print(lines[-1], flush=True)
    return lines


def write_table(mark: str, lines: list[str]) -> None:
    """Replace the text between the two comments with that mark."""
    text = README.read_text(encoding="utf-8")
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)"
    new, count = re.subn(pattern, lambda m: m[1] + "\n".join(lines) + "\n" + m[2], text, flags=re.S)
    if count != 1:
        raise SystemExit(f"README.md must contain the comments <!-- {mark} --> and <!-- /{mark} --> once.")
    README.write_text(new, encoding="utf-8")


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    write_table("methods", methods(runs))
    write_table("evaluations", evaluations())


if __name__ == "__main__":
    main()
