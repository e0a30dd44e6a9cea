"""The commands `fit` and `check` for PEtab problems."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..support.errors import ModelError
from .json_output import finite_or_none

if TYPE_CHECKING:
    from ..files.petab.maximum_likelihood import PetabFit

PETAB_SUFFIXES = (".yaml", ".yml")
"""Suffixes of model files that are read as PEtab problems."""
PROGRESS_WIDTH = 70
"""Characters of the line of progress; a shorter line is padded, so that nothing of the line before it remains."""


def is_petab(args: argparse.Namespace) -> bool:
    """Return True if the model is the YAML file of a PEtab problem."""
    return Path(args.model).suffix.lower() in PETAB_SUFFIXES


def _refuse_options(args: argparse.Namespace, names: tuple[str, ...]) -> None:
    """Refuse a table and the options `names`, which a PEtab problem replaces by its own files."""
    refused = [f"--{name}" for name in names if getattr(args, name, None)]
    if args.data or refused:
        raise ModelError(
            f"A PEtab problem names its own data files and what they mean; leave out {args.data or refused[0]}. In "
            "Python, weakform.read_petab gives the likelihood, simulations and fits."
        )


def run_petab_fit(args: argparse.Namespace) -> int:
    """Fit a PEtab problem by maximum likelihood, and print the result."""
    from ..files.petab.petab_problem import read_petab

    _refuse_options(
        args,
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
    problem = read_petab(args.model)
    show_progress = sys.stderr.isatty()

    def print_progress(line: str) -> None:
        """Write a line of progress over the one before."""
        print(f"\r{line:{PROGRESS_WIDTH}s}", end="", file=sys.stderr, flush=True)

    result = problem.fit(
        starts=args.starts,
        seed=args.seed,
        time_limit=args.time_limit,
        progress=print_progress if show_progress else None,
    )
    if show_progress:
        print("\r" + " " * PROGRESS_WIDTH + "\r", end="", file=sys.stderr)
    if args.json:
        print(json.dumps(_build_json(result), indent=2))
    else:
        print(result)
    return 0 if result.success else 1


def _build_json(fit: PetabFit) -> dict[str, Any]:
    """Return the numbers of a fit for JSON, in which a number that is not finite is null."""
    return {
        "problem": fit.problem.name,
        "success": fit.success,
        "status": fit.status.name,
        "log_likelihood": fit.log_likelihood,
        "aic": fit.aic,
        "bic": fit.bic,
        "parameters": {
            name: {
                "estimate": value,
                "standard_error": finite_or_none(fit.errors[name]),
                "interval": [finite_or_none(end) for end in fit.intervals[name]],
                "at_bound": name in fit.at_bound,
            }
            for name, value in fit.parameters.items()
        },
        "starts": {"agreed": fit.agreed, "tried": fit.tried},
        "cpu_seconds": fit.seconds,
        "notes": list(fit.notes),
    }


def run_petab_check(args: argparse.Namespace) -> int:
    """Print what a PEtab problem contains, and its log-likelihood at the nominal values if all of them are given."""
    from ..files.petab.petab_problem import read_petab

    _refuse_options(args, ("time", "trajectory", "noise", "doses"))
    problem = read_petab(args.model)
    facts = [repr(problem).removeprefix("<").removesuffix(">")]
    if all(math.isfinite(value) for value in problem.nominal.values()):
        facts.append(f"log-likelihood at the nominal values: {problem.log_likelihood():.4f}")
    if args.json:
        print(json.dumps({"ok": True, "wrong": [], "doubtful": [], "good": facts}, indent=2))
    else:
        for line in facts:
            print(f"{'ok:':10s}{line}")
        print("Ready to fit.")
    return 0
