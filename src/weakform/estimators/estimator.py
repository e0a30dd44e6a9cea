"""The record that describes an estimation method: the functions that run it, and what it can do.

The rest of the package never depends on the name of a method: it reads from this record what a method can do and which
options it takes. To add an estimator, write a module with one `Estimator` and add it to the registry in
`estimators/__init__.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..support.array_types import FloatArray
from .estimation_problem import StartPoint, Task
from .outcome import Outcome


@dataclass(frozen=True)
class Estimator:
    """An estimation method of `fit`.

    Attributes
    ----------
    name : str
        The value of `fit(method=...)`.
    summary : str
        A description in a few words, shown in the documentation.
    search : callable
        `search(task, start) -> Outcome`, run from every start; the outcome with the smallest objective is the best.
    refine : callable, optional
        `refine(task, outcome) -> Outcome`, run for the best outcomes of the search that are distinct.
    check : callable, optional
        `check(task)` raises `FitError` before any work if the method cannot handle the task.
    options : tuple of str
        Options that the method takes besides those common to all methods.
    likelihood : bool
        Whether the objective is a likelihood, so that priors can be added to it.
    closed_form : bool
        Whether the method needs no start if the model is linear in its parameters.
    noise_free : callable, optional
        `noise_free(task) -> Task` adapts the task to noise-free data. Without it weak least squares, which is exact for
        such data, replaces the method.
    method_if_unrefined : str, optional
        Name of the method whose estimate is reported if the refinement is not possible.
    refits : bool
        Whether the fit can be repeated with other data or with a parameter held, as profiles and bootstrap need it.
    starts : callable, optional
        `starts(task, user_starts, count, seed)` returns the starts, in place of `make_starts`. `user_starts` is a tuple
        of `(J,)`, with NaN where the user gives no value.
    enough : callable, optional
        `enough(task, outcomes)` returns True if the remaining starts may be skipped. It is called only if the user
        has not set the number of starts.
    solves_equations : bool
        Whether the method finds only an optimum near its start. Such a method solves the equations, and can handle
        stiff ones and events at unknown times.
    handles_hidden_states : bool
        Whether the method can handle hidden states and initial values that are given.
    uses_weak_form : bool
        Whether the method uses the weak form if every state is measured.
    hidden_state_method : str, optional
        Name of the method that replaces this one if states are hidden.
    minimises_weak_residual : bool
        Whether `Outcome.objective` is half the sum of squared weak residuals, whose size alone reveals noise-free data.
    coarse_search : callable, optional
        A cheaper `search`, tried first: if the refinement of its outcomes reaches the noise level of the data, the full
        search is skipped.
    """

    name: str
    summary: str
    search: Callable[[Task, StartPoint | None], Outcome]
    refine: Callable[[Task, Outcome], Outcome] | None = None
    check: Callable[[Task], None] | None = None
    options: tuple[str, ...] = ()
    likelihood: bool = True
    closed_form: bool = False
    noise_free: Callable[[Task], Task] | None = None
    method_if_unrefined: str | None = None
    refits: bool = False
    starts: Callable[[Task, tuple[FloatArray, ...], int | None, int], Sequence[StartPoint]] | None = None
    enough: Callable[[Task, list[Outcome]], bool] | None = None
    solves_equations: bool = False
    handles_hidden_states: bool = False
    uses_weak_form: bool = True
    hidden_state_method: str | None = None
    minimises_weak_residual: bool = False
    coarse_search: Callable[[Task, StartPoint | None], Outcome] | None = None
