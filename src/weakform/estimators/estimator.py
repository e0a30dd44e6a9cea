"""What an estimator is: functions of a task, and what it can do.

The story of a fit (`fitting`) never asks for a method by its name: what a method can do, and which options it takes, is
said here. To add an estimator, write a module with one of these and add it to the registry in `estimators`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..support.array_types import FloatArray
from .estimation_problem import Outcome, Task


@dataclass(frozen=True)
class Estimator:
    """A method of `fit`.

    Attributes
    ----------
    name, summary : str
        As the user writes it, and what it is, in a few words.
    search : callable
        `search(task, start) -> Outcome`, run for every start; the best outcome is kept.
    quick : callable, optional
        A search of little cost: where the refinement of what it finds reaches the noise of the data, that will do.
    refine : callable, optional
        `refine(task, outcome) -> Outcome`, run for the best outcome.
    check : callable, optional
        `check(task)` raises `FitError` for what the method cannot do, before any work.
    options : tuple of str
        The options that it takes beyond those of every method.
    likelihood : bool
        Whether what it minimises is a likelihood, which may be joined with priors.
    closed_form : bool
        Whether it needs no start where the model is linear in its parameters.
    noise_free : callable, optional
        The task for noise-free data; without it weak least squares, which is exact for them, takes its place.
    unrefined : str, optional
        The method whose estimate is left where the refinement is not possible.
    starts : callable, optional
        `starts(task, given, count, seed)`: a way of its own to begin.
    local : bool
        Whether it finds only what is near its start; it then solves the equations, stiff ones among them.
    enough : callable, optional
        `enough(task, outcomes)`: whether starts may be left out that nobody asked for.
    partly : bool
        Whether it can do with part of the states measured.
    weak : bool
        Whether it works on the weak form where every state is measured.
    instead : str, optional
        The method that takes its place where only a part is measured.
    minimises_weak_residual : bool
        True if `Outcome.objective` is half the sum of squared weak residuals, whose size alone reveals noise-free data.
    refits : bool
        Whether its estimate can be found again from other data or with a parameter held, as profiles and bootstrap do.
    """

    name: str
    summary: str
    search: Callable[[Task, FloatArray | None], Outcome]
    refine: Callable[[Task, Outcome], Outcome] | None = None
    check: Callable[[Task], None] | None = None
    options: tuple[str, ...] = ()
    has_likelihood: bool = True
    closed_form: bool = False
    noise_free: Callable[[Task], Task] | None = None
    method_if_unrefined: str | None = None
    refits: bool = False
    starts: Callable[[Task, tuple[FloatArray, ...], int | None, int], list[FloatArray]] | None = None
    enough: Callable[[Task, list[Outcome]], bool] | None = None
    solves_equations: bool = False
    handles_hidden_states: bool = False
    uses_weak_form: bool = True
    hidden_state_method: str | None = None
    minimises_weak_residual: bool = False
    coarse_search: Callable[[Task, FloatArray | None], Outcome] | None = None
