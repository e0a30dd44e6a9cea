"""PEtab problems on the command line."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from ..support.errors import ModelError

ENDINGS = (".yaml", ".yml")


def is_petab(arguments: argparse.Namespace) -> bool:
    """Whether the model is the YAML file of a PEtab problem."""
    return Path(arguments.model).suffix.lower() in ENDINGS


def _refuse(arguments: argparse.Namespace, names: tuple[str, ...]) -> None:
    given = [f"--{name}" for name in names if getattr(arguments, name, None)]
    if arguments.data or given:
        what = arguments.data or given[0]
        raise ModelError(
            f"A PEtab problem says itself where its data are and what they mean; leave out {what}. From Python, "
            "read_petab(...) gives likelihood, simulations and fit."
        )


def run_fit(arguments: argparse.Namespace) -> int:
    """Fit a PEtab problem."""
    from ..files.petab.petab_problem import read_petab

    _refuse(
        arguments,
        (
            "time",
            "trajectory",
            "noise",
            "doses",
            "inputs",
            "observe",
            "sheet",
            "report",
            "save",
            "profile",
            "sample",
            "fix",
            "bounds",
            "log",
            "random",
        ),
    )
    problem = read_petab(arguments.model)
    shown = sys.stderr.isatty()

    def progress(line: str) -> None:
        print(f"\r{line:70s}", end="", file=sys.stderr, flush=True)

    found = problem.fit(
        starts=arguments.starts,
        seed=arguments.seed,
        time_limit=arguments.time_limit,
        progress=progress if shown else None,
    )
    if shown:
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    if arguments.json:
        print(json.dumps(_plain(found), indent=2))
    else:
        print(found)
    return 0 if found.success else 1


def _plain(found: Any) -> dict[str, Any]:
    def number(x: float) -> float | None:
        return float(x) if math.isfinite(x) else None

    return {
        "problem": found.problem.name,
        "success": found.success,
        "status": found.status.name,
        "log_likelihood": found.log_likelihood,
        "aic": found.aic,
        "bic": found.bic,
        "parameters": {
            name: {
                "estimate": value,
                "standard_error": number(found.errors[name]),
                "interval": [number(end) for end in found.intervals[name]],
                "at_bound": name in found.at_bound,
            }
            for name, value in found.parameters.items()
        },
        "starts": {"agreed": found.agreed, "tried": found.tried},
        "cpu_seconds": found.seconds,
        "notes": list(found.notes),
    }


def check(arguments: argparse.Namespace) -> int:
    """Say what a PEtab problem has, and its likelihood at the nominal values."""
    from ..files.petab.petab_problem import read_petab

    _refuse(arguments, ("time", "trajectory", "noise", "doses"))
    problem = read_petab(arguments.model)
    good = [repr(problem)[1:-1]]
    known = all(math.isfinite(value) for value in problem.nominal.values())
    if known:
        good.append(f"log-likelihood at the nominal values: {problem.log_likelihood():.4f}")
    if arguments.json:
        print(json.dumps({"ok": True, "wrong": [], "doubtful": [], "good": good}, indent=2))
    else:
        for line in good:
            print(f"{'ok:':10s}{line}")
        print("Ready to fit.")
    return 0
