"""Benchmark problems with known true parameters, one in each file.

>>> import weakform as wf
>>> wf.problems.get("goodwin").simulate(M=256, noise=0.05, seed=1).samples
257
"""

from functools import cache

from ..support.errors import WeakformError
from ..support.wording import suggest_name
from . import (
    edge_cases,
    fitzhugh_nagumo,
    goodwin,
    hindmarsh_rose,
    logistic,
    lorenz,
    lotka_volterra,
    protein_transduction,
    sir_tdi,
)
from .benchmark_problem import Problem

ALL: dict[str, Problem] = {
    module.PROBLEM.name: module.PROBLEM
    for module in (
        lorenz,
        hindmarsh_rose,
        goodwin,
        sir_tdi,
        logistic,
        lotka_volterra,
        fitzhugh_nagumo,
        protein_transduction,
    )
}
"""The eight benchmark problems by name, those of the paper first."""

PAPER = ("lorenz", "hindmarsh-rose", "goodwin", "sir-tdi")
"""The four systems of the paper."""


def names() -> tuple[str, ...]:
    """Return the names of the eight benchmark problems, the paper's four first."""
    return tuple(ALL)


@cache
def at_the_edges() -> dict[str, Problem]:
    """Return the systems of `edges.toml` by name, on which fits fail most easily; `get` returns them, too."""
    return {problem.name: problem for problem in edge_cases.read_edge_cases()}


def get(name: str) -> Problem:
    """Return a problem by its name.

    Parameters
    ----------
    name : str
        One of `names()` or `at_the_edges()`; case does not matter, nor do spaces and underscores in place of hyphens.

    Returns
    -------
    Problem

    Raises
    ------
    WeakformError
        If there is no such problem.
    """
    key = str(name).lower().replace("_", "-").replace(" ", "-")
    every = ALL if key in ALL else {**ALL, **at_the_edges()}  # the file of edge cases is read only if it is needed
    if key not in every:
        raise WeakformError(f"No problem {name!r}.{suggest_name(key, every)} There are: {', '.join(every)}.")
    return every[key]


__all__ = ["ALL", "PAPER", "Problem", "at_the_edges", "get", "names"]
