"""The errors a user may meet. Each says what is wrong, what was expected, what was received, what to do."""


class WeakformError(ValueError):
    """Any input that weakform refuses.

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
    """A model that cannot be read: the message names the place and the reason.

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
        What is wrong, without its place; empty where the message has none.
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
    """A fit that cannot be set up: bounds, starts, fixed values, options.

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
    """The equations are not defined at the data, wherever the search begins."""
