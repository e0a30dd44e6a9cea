"""The specification of one parameter, and how the keywords of `fit` are gathered into specifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..support.compact_repr import CompactRepr
from ..support.errors import FitError
from ..support.wording import suggest_name

PRIOR_KINDS = ("normal", "lognormal")
"""Kinds of prior."""
Bounds = tuple[float, float]
"""The smallest and the largest value of a parameter; infinite without a bound."""
Prior = tuple[str, float, float]
"""Kind, centre and spread of a prior; see `Parameter.prior`."""


@dataclass(frozen=True, repr=False)
class Parameter(CompactRepr):
    """The specification of one parameter of a fit; every field is optional.

    Attributes
    ----------
    bounds : pair of float, optional
        The smallest and the largest value; `None` or infinity means no bound.
    start : float, optional
        The initial guess.
    fixed : float, optional
        The value of a parameter that is not estimated.
    tied : str, optional
        An expression of other parameters from which the value is computed, such as `"2*a"`.
    log : bool
        True to estimate the logarithm, for a positive parameter that may vary over orders of magnitude.
    prior : tuple, optional
        `("normal", mean, standard deviation)` or `("lognormal", median, standard deviation of the logarithm)`.
    unit : str
        The unit, which is shown in the report.
    local : bool, sequence of str, or mapping of str to str
        True for a separate value for each trajectory. For a separate value for each group of trajectories: a label for
        each trajectory, in their order or by their names; trajectories with the same label share a value.

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
"""For each parameter, the fields of its `Parameter` that the user has specified."""


def gather_specifications(
    names: tuple[str, ...],
    local_names: Sequence[str],
    parameters: Mapping[str, Any] | None,
    keywords: Mapping[str, Any],
) -> Entries:
    """Gather the specifications of all parameters from the argument `parameters` and the other keywords of `fit`.

    Parameters
    ----------
    names : tuple of str
        Names of the model's parameters, in the order of lists and arrays.
    local_names : sequence of str
        Names of the separate values of local parameters, such as `K_a`.
    parameters : mapping, optional
        The long form: a `Parameter` for each name, or a number, at which the parameter is fixed.
    keywords : mapping
        The short form: `bounds`, `start`, `fixed`, `tied`, `local`, `log`, `priors`, `units` as `fit` takes them.

    Returns
    -------
    dict
        For each name, the fields that are specified.

    Raises
    ------
    FitError
        If a name is unknown, a value has a wrong form, or a parameter is specified in both forms.
    """
    every = (*names, *local_names)
    entries: Entries = {name: {} for name in every}
    for key, field in _FIELD_BY_KEYWORD.items():
        value = keywords.get(key)
        if key in ("bounds", "start") and value is not None and not isinstance(value, Mapping):
            value = _assign_in_order(names, key, value)
        for name, entry in _read_keyword(every, key, value).items():
            entries[name][field] = entry
    for name, record in _check_names(every, parameters or {}, "parameters").items():
        if entries[name]:
            key = next(key for key, field in _FIELD_BY_KEYWORD.items() if field in entries[name])
            raise FitError(f"{name!r} is in parameters= and in {key}=; specify it in one of them only.")
        spec = record if isinstance(record, Parameter) else Parameter(fixed=_check_fixed_value(name, record))
        # A field with its default value counts as not specified.
        entries[name] = {
            key: getattr(spec, key) for key in PARAMETER_FIELDS if getattr(spec, key) != getattr(Parameter(), key)
        }
    return entries


_FIELD_BY_KEYWORD = {
    "bounds": "bounds",
    "start": "start",
    "fixed": "fixed",
    "tied": "tied",
    "local": "local",
    "log": "log",
    "priors": "prior",
    "units": "unit",
}
"""The field of `Parameter` that each keyword of `fit` sets."""


def _check_fixed_value(name: str, value: Any) -> Any:
    """Return the value at which an entry of `parameters` fixes a parameter; raise if it is not a number."""
    if isinstance(value, bool | str) or not np.isscalar(value):
        raise FitError(
            f"parameters[{name!r}] must be weakform.Parameter(...), or a number at which it is fixed; received "
            f"{value!r}."
        )
    return value


def _read_keyword(names: tuple[str, ...], key: str, value: Any) -> Mapping[str, Any]:
    """Return the entries of one keyword of `fit` by parameter; `value` is what the user passed."""
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
    return _check_names(names, value, key)


def _assign_in_order(names: tuple[str, ...], key: str, values: Any) -> dict[str, Any]:
    """Assign a list or array in the order of the model's parameters to their names; raise if its length is wrong."""
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
        raise FitError(f"{key} must be a mapping or a list; received {values!r}.")
    element = "pair" if key == "bounds" else "number"
    if np.ndim(values) == 0 or len(values) != len(names):
        raise FitError(
            f"{key} must have one {element} for each of {len(names)} parameters ({', '.join(names)}), or be a mapping; "
            f"received {values!r}."
        )
    return dict(zip(names, values, strict=True))


def _check_names(names: tuple[str, ...], values: Any, what: str) -> Mapping[str, Any]:
    """Return a mapping unchanged; raise if it is no mapping or has an unknown name. `what` is its name in messages."""
    if not isinstance(values, Mapping):
        raise FitError(f"{what} must be a mapping from names to values, such as {{'p1': ...}}; received {values!r}.")
    for name in values:
        if name not in names:
            raise FitError(
                f"Unknown parameter {name!r} in {what}.{suggest_name(str(name), names)} The model's parameters: "
                f"{', '.join(names)}. The initial value of a state x is called x(0)."
            )
    return values


def check_number(value: Any, what: str) -> float:
    """Convert a value to a float; raise `FitError` if it is not finite. `what` names the value in the message."""
    try:
        result = float(value)
    except (TypeError, ValueError):
        result = np.nan
    if not np.isfinite(result):
        raise FitError(f"{what[0].upper()}{what[1:]} must be a finite number; received {value!r}.")
    return result


def check_parameter(name: str, record: Parameter) -> Parameter:
    """Check the specification of one parameter and convert its values to floats.

    Parameters
    ----------
    name : str
        The name of the parameter, for messages.
    record : Parameter

    Returns
    -------
    Parameter

    Raises
    ------
    FitError
        If a value is impossible, or contradicts another one.
    """
    fixed = None if record.fixed is None else check_number(record.fixed, f"the fixed value of {name!r}")
    start = None if record.start is None else check_number(record.start, f"the start of {name!r}")
    if fixed is not None and record.tied is not None:
        raise FitError(f"{name!r} is both fixed and tied; choose one of them.")
    if record.tied is not None and not isinstance(record.tied, str):
        raise FitError(
            f"{name!r} must be tied to an expression of other parameters, as text; received {record.tied!r}."
        )
    for key in ("log", "unit"):
        expected: type = bool if key == "log" else str
        if not isinstance(getattr(record, key), expected):
            raise FitError(f"{key} of {name!r} must be {expected.__name__}; received {getattr(record, key)!r}.")
    # A tied parameter has no bounds, because its value follows from others.
    bounds = None if record.bounds is None or record.tied is not None else _check_bounds(name, record.bounds, fixed)
    if record.log and bounds is not None:
        low, high = bounds
        if np.isfinite(low) and low < 0:
            raise FitError(f"{name!r} is on a log scale, and its lower bound cannot be negative; received {low:g}.")
        if high <= 0:
            raise FitError(f"{name!r} is on a log scale, and its upper bound must be positive; received {high:g}.")
    is_estimated = record.tied is None and fixed is None
    if record.log and start is not None and start <= 0 and is_estimated:
        raise FitError(f"{name!r} is on a log scale, and its start must be positive; received {start!r}.")
    prior = None if record.prior is None else _check_prior(name, record.prior)
    if prior is not None and fixed is not None:
        raise FitError(f"{name!r} is fixed and has a prior, which would have no effect; remove one of them.")
    return replace(record, bounds=bounds, fixed=fixed, start=start, prior=prior)


def _check_bounds(name: str, pair: Any, fixed: float | None) -> Bounds:
    """Check a pair of bounds and return it as floats, infinite where there is no bound."""
    try:
        low, high = (np.nan if limit is None else float(limit) for limit in pair)
    except (TypeError, ValueError):
        raise FitError(f"The bounds of {name!r} must be a pair of numbers; received {pair!r}.") from None
    low, high = -np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high
    if not low < high:
        raise FitError(
            f"The lower bound of {name!r} must be below the upper one; received {pair!r}. "
            "To hold a parameter constant, fix it: fixed={...}, or --fix on the command line."
        )
    if fixed is not None and not low <= fixed <= high:
        raise FitError(f"{name!r} is fixed at {fixed:g}, outside its bounds [{low:g}, {high:g}].")
    return low, high


def _check_prior(name: str, prior: Any) -> Prior:
    """Check a prior `(kind, centre, spread)` and return it with floats."""
    try:
        kind, first, second = prior
    except (TypeError, ValueError):
        kind, first, second = "", 0.0, 0.0
    if kind not in PRIOR_KINDS:
        raise FitError(
            f"The prior of {name!r} must be ('normal', mean, standard deviation) or ('lognormal', median, standard "
            f"deviation of the logarithm); received {prior!r}."
        )
    m, s = (
        check_number(first, f"the centre of the prior of {name!r}"),
        check_number(second, f"the spread of the prior of {name!r}"),
    )
    if s <= 0 or (kind == "lognormal" and m <= 0):
        raise FitError(
            f"The prior of {name!r} needs a positive spread, and a positive median if log-normal; received {prior!r}."
        )
    return kind, m, s


PARAMETER_FIELDS = tuple(field.name for field in fields(Parameter))
"""The fields of `Parameter`; a model file has the same keys."""
