"""Errors for invalid input. Each message says what is wrong, what was expected, what was received and what to do."""


class WeakformError(ValueError):
    """Base class of the errors that weakform raises for invalid input.

    Examples
    --------
    >>> import weakform as wf
    >>> try:
    ...     wf.problems.get("goodwing")
    ... except wf.WeakformError as error:
    ...     print(str(error)[:45])
    No problem 'goodwing'. Did you mean 'goodwin'
    """


class ModelError(WeakformError):
    """A model that cannot be read; the message gives the position and the reason.

    Examples
    --------
    >>> import weakform as wf
    >>> try:
    ...     wf.Model.from_text("x' = -k*(x")
    ... except wf.ModelError as error:
    ...     print(error)
    model, line 1, column 11: expected ')', found the end.
      x' = -k*(x
                ^

    Attributes
    ----------
    reason : str
        What is wrong, without the position; empty if the message has no separate reason.
    place : tuple of int, or None
        Line and column, counted from one.
    """

    reason: str = ""
    place: tuple[int, int] | None = None


class DataError(WeakformError):
    """Measurements that cannot be used.

    Examples
    --------
    >>> import weakform as wf
    >>> try:
    ...     wf.Dataset([0, 1, 2], [1.0, 2.0])
    ... except wf.DataError as error:
    ...     print(str(error)[:61])
    Times must be (time,) and states (time, state) with one row f
    """


class FitError(WeakformError):
    """A fit that cannot be set up, because of its bounds, starts, fixed values or options.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> try:
    ...     wf.fit(problem.model, problem.simulate(), method="wendi")
    ... except wf.FitError as error:
    ...     print(str(error)[:47])
    Unknown method 'wendi'. Did you mean 'wendy'? K
    """


class UndefinedError(FitError):
    """Equations that are undefined at the data for every start of the search."""
