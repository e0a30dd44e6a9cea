"""What is known of one parameter, in one record; and records from the keywords of `fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..support.compact_repr import Tidy
from ..support.errors import FitError
from ..support.wording import suggestion

PRIORS = ("normal", "lognormal")
Bounds = tuple[float, float]
Prior = tuple[str, float, float]


@dataclass(frozen=True, repr=False)
class Parameter(Tidy):
    """What is known of one parameter before the fit; everything is optional.

    Attributes
    ----------
    bounds : pair of float, optional
        The smallest and the largest value; `None` or infinity for no bound.
    start : float, optional
        A first guess.
    fixed : float, optional
        Its value, where it is not estimated.
    tied : str, optional
        An expression of other parameters, which it is.
    log : bool
        Whether it is estimated on a log scale: positive, over orders of magnitude.
    prior : tuple, optional
        `("normal", mean, sd)` or `("lognormal", median, sd of the logarithm)`.
    unit : str
        For the report.
    local : bool, sequence of str, or mapping of str to str
        Whether it has a value for each trajectory; or for groups of trajectories: one label for each of them, in their
        order, or by their names.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> fit = wf.fit(problem.model, problem.simulate(),
    ...              parameters={"p1": wf.Parameter(bounds=(0, 5), unit="1/h"), "p2": 1.0})
    >>> fit["p2"].note
    'fixed'
    """

    bounds: Bounds | None = None
    start: float | None = None
    fixed: float | None = None
    tied: str | None = None
    log: bool = False
    prior: Prior | None = None
    unit: str = ""
    local: bool | Sequence[str] | Mapping[str, str] = False


Entries = dict[str, dict[str, Any]]
"""What is said of each parameter: the fields of its record that are given."""


def gathered(
    names: tuple[str, ...], more: Sequence[str], parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> Entries:
    """What is said of each parameter, in the long form and in the keywords of `fit`.

    Parameters
    ----------
    names : tuple of str
        Of the model's parameters, in the order that lists and arrays follow.
    more : sequence of str
        Names of the values of local parameters.
    parameters : mapping, optional
        `Parameter` for each name, or a number, which means fixed.
    keywords : mapping
        `bounds`, `start`, `fixed`, `tied`, `local`, `log`, `priors`, `units` as `fit` takes them.
    """
    every = (*names, *more)
    said: Entries = {name: {} for name in every}
    for key, of in _BY_KEYWORD.items():
        value = keywords.get(key)
        if key in ("bounds", "start") and value is not None and not isinstance(value, Mapping):
            value = _in_order(names, key, value)
        for name, entry in _by_name(every, key, value).items():
            said[name][of] = entry
    for name, record in _named(every, parameters or {}, "parameters").items():
        if said[name]:
            key = next(key for key, of in _BY_KEYWORD.items() if of in said[name])
            raise FitError(f"{name!r} is in parameters= and in {key}=; say all of it in one of them.")
        known = record if isinstance(record, Parameter) else Parameter(fixed=_fixed(name, record))
        said[name] = {key: getattr(known, key) for key in KEYS if getattr(known, key) != getattr(Parameter(), key)}
    return said


_BY_KEYWORD = {
    "bounds": "bounds",
    "start": "start",
    "fixed": "fixed",
    "tied": "tied",
    "local": "local",
    "log": "log",
    "priors": "prior",
    "units": "unit",
}


def _fixed(name: str, value: Any) -> Any:
    if isinstance(value, bool | str) or not np.isscalar(value):
        raise FitError(
            f"parameters[{name!r}] must be weakform.Parameter(...), or a number at which it is fixed; received "
            f"{value!r}."
        )
    return value


def _by_name(names: tuple[str, ...], key: str, value: Any) -> Mapping[str, Any]:
    """What one keyword says of each parameter."""
    if value is None:
        return {}
    if key in ("log", "local") and not isinstance(value, Mapping):
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise FitError(f"{key} must be a list of names, such as ['a', 'b']; received {value!r}.")
        value = dict.fromkeys(value, True)
    if key == "units":
        if not isinstance(value, Mapping) or not all(isinstance(v, str) for v in value.values()):
            raise FitError(f"units must be a mapping from names to text; received {value!r}.")
        return {name: unit for name, unit in value.items() if name in names}
    return _named(names, value, key)


def _in_order(names: tuple[str, ...], key: str, values: Any) -> dict[str, Any]:
    """A list or array in the order of the model's parameters, by name."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise FitError(f"{key} must be a mapping or a list; received {values!r}.")
    what = "pair" if key == "bounds" else "number"
    if np.ndim(values) == 0 or len(values) != len(names):
        raise FitError(
            f"{key} must have one {what} for each of {len(names)} parameters ({', '.join(names)}), or be a mapping; "
            f"received {values!r}."
        )
    return dict(zip(names, values, strict=True))


def _named(names: tuple[str, ...], values: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise FitError(f"{what} must be a mapping from names to values, such as {{'p1': ...}}; received {values!r}.")
    for name in values:
        if name not in names:
            raise FitError(
                f"Unknown parameter {name!r} in {what}.{suggestion(str(name), names)} The model's: {', '.join(names)}; "
                "that with which a state x begins is called x(0)."
            )
    return values


def number(value: Any, what: str) -> float:
    """A finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = np.nan
    if not np.isfinite(found):
        raise FitError(f"{what[0].upper()}{what[1:]} must be a finite number; received {value!r}.")
    return found


def checked(name: str, record: Parameter) -> Parameter:
    """The record with numbers where numbers belong, each of its entries possible and none against another."""
    fixed = None if record.fixed is None else number(record.fixed, f"the fixed value of {name!r}")
    start = None if record.start is None else number(record.start, f"the start of {name!r}")
    if fixed is not None and record.tied is not None:
        raise FitError(f"{name!r} is both fixed and tied; choose one.")
    if record.tied is not None and not isinstance(record.tied, str):
        raise FitError(
            f"{name!r} must be tied to an expression of other parameters, as text; received {record.tied!r}."
        )
    for key in ("log", "unit"):
        wanted: type = bool if key == "log" else str
        if not isinstance(getattr(record, key), wanted):
            raise FitError(f"{key} of {name!r} must be {wanted.__name__}; received {getattr(record, key)!r}.")
    bounds = None if record.bounds is None or record.tied is not None else _bounds(name, record.bounds, fixed)
    if record.log and bounds is not None:
        low, high = bounds
        if np.isfinite(low) and low < 0:
            raise FitError(f"{name!r} is on a log scale, so that its lower bound cannot be negative; received {low:g}.")
        if high <= 0:
            raise FitError(f"{name!r} is on a log scale, so that its upper bound must be positive; received {high:g}.")
    if record.log and start is not None and start <= 0 and record.tied is None and fixed is None:
        raise FitError(f"{name!r} is on a log scale, so that its start must be positive; received {start!r}.")
    prior = None if record.prior is None else _prior(name, record.prior)
    if prior is not None and fixed is not None:
        raise FitError(f"{name!r} is fixed; a prior of it means nothing.")
    return replace(record, bounds=bounds, fixed=fixed, start=start, prior=prior)


def _bounds(name: str, pair: Any, fixed: float | None) -> Bounds:
    try:
        low, high = (np.nan if limit is None else float(limit) for limit in pair)
    except (TypeError, ValueError):
        raise FitError(f"The bounds of {name!r} must be a pair of numbers; received {pair!r}.") from None
    low, high = -np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high
    if not low < high:
        raise FitError(
            f"The lower bound of {name!r} must be below the upper one; received {pair!r}. "
            "To hold a parameter, fix it: fixed={...}, on the command line --fix."
        )
    if fixed is not None and not low <= fixed <= high:
        raise FitError(f"{name!r} is fixed at {fixed:g}, outside its bounds [{low:g}, {high:g}].")
    return low, high


def _prior(name: str, prior: Any) -> Prior:
    try:
        kind, first, second = prior
    except (TypeError, ValueError):
        kind, first, second = "", 0.0, 0.0
    if kind not in PRIORS:
        raise FitError(
            f"The prior of {name!r} must be ('normal', mean, standard deviation) or ('lognormal', median, standard "
            f"deviation of the logarithm); received {prior!r}."
        )
    m, s = number(first, f"the centre of the prior of {name!r}"), number(second, f"the spread of {name!r}")
    if s <= 0 or (kind == "lognormal" and m <= 0):
        raise FitError(f"The prior of {name!r} needs a positive spread, and median if log-normal; received {prior!r}.")
    return kind, m, s


KEYS = tuple(field.name for field in fields(Parameter))
"""What may be said of a parameter; a model file has the same keys."""
