"""What `fit` is told of the parameters: fixed, tied, local, on a log scale, bounded, with priors, and a start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se
from numpy.typing import ArrayLike, NDArray

from .data import Dataset
from .errors import FitError
from .estimators.base import Task
from .estimators.linear import project_linear
from .estimators.priors import Priors
from .expressions import parse_expression, suggestion, to_text
from .model import Model
from .typing import FloatArray

Named = Mapping[str, Any]
PRIORS = ("normal", "lognormal")


@dataclass(frozen=True)
class Parameters:
    """The parameters of a fit, resolved.

    Attributes
    ----------
    model : Model
        As the user sees it: tied parameters replaced, local ones multiplied.
    base : ndarray, (J,)
        Values of those that are not free, NaN where free.
    lower, upper : ndarray, (J,)
        Bounds of the parameters themselves.
    log : ndarray of bool, (J,)
    prior : Priors, or None
        Of the parameters themselves.
    tied : dict of str to str
        Expressions of those that were replaced.
    families : dict of str to tuple of str
        Names of the values of each local parameter.
    """

    model: Model
    base: FloatArray
    lower: FloatArray
    upper: FloatArray
    log: NDArray[np.bool_]
    prior: Priors | None
    tied: dict[str, str]
    families: dict[str, tuple[str, ...]]

    @property
    def free(self) -> NDArray[np.bool_]:
        """Which are estimated."""
        return np.isnan(self.base)

    @property
    def working_model(self) -> Model:
        """The model in the parameters that the estimators work with: logarithms, where asked for."""
        if not self.log.any():
            return self.model
        names = [name for name, log in zip(self.model.parameters, self.log, strict=True) if log]
        return self.model.substituted({name: se.exp(se.Symbol(name)) for name in names}, drop=False)

    def working(self, p: FloatArray) -> FloatArray:
        """Parameters `(J,)` as the estimators see them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(self.log, np.log(np.maximum(p, 0.0)), p))

    def spread(self, values: dict[str, str]) -> dict[str, str]:
        """What is said of a local parameter, said of each of its values."""
        return dict(_spread(values, self.families))

    @property
    def working_prior(self) -> Priors | None:
        """The prior of what the estimators work with."""
        if self.prior is None:
            return None
        p = self.prior
        return Priors(p.index, p.centre, p.spread, p.lognormal, self.log[p.index])


def resolve(
    model: Model,
    data: Dataset,
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | None,
    fixed: Mapping[str, float] | None,
    tied: Mapping[str, str] | None,
    local: Sequence[str] | Mapping[str, Sequence[str]],
    log: Sequence[str],
    priors: Mapping[str, tuple[str, float, float]] | None,
) -> Parameters:
    """Check what `fit` was told and put it in order."""
    both = [name for name in tied or {} if name in (fixed or {})]
    if both:
        raise FitError(f"{both[0]!r} is both fixed and tied; choose one.")
    model, tied = _tied(model, tied or {})
    model, families = _local(model, data, local)
    tied = _tied_to_local(tied, families)
    names = model.parameters
    base = _fixed(names, _spread(fixed or {}, families))
    if isinstance(bounds, Mapping):
        # A tied parameter follows the others, wherever they go.
        bounds = _spread({name: pair for name, pair in bounds.items() if name not in tied}, families)
    lower, upper = _bounds(names, bounds, base)
    logs = _logs(names, log, families)
    for name, low, is_log in zip(names, lower, logs, strict=True):
        if is_log and np.isfinite(low) and low < 0:
            raise FitError(f"{name!r} is on a log scale, so that its lower bound cannot be negative; received {low:g}.")
    for name, high, is_log in zip(names, upper, logs, strict=True):
        if is_log and high <= 0:
            raise FitError(f"{name!r} is on a log scale, so that its upper bound must be positive; received {high:g}.")
    logs &= np.isnan(base)
    prior = _priors(names, _spread(priors or {}, families), base)
    if prior is not None:  # a log-normal prior allows only what is positive
        positive = prior.index[prior.lognormal]
        lower[positive] = np.maximum(lower[positive], 0.0)
    lower = np.where(logs, np.maximum(lower, 0.0), lower)
    return Parameters(model, base, lower, upper, logs, prior, tied, families)


def _tied(model: Model, tied: Mapping[str, str]) -> tuple[Model, dict[str, str]]:
    _named(model.parameters, tied, "tied")
    rest = [name for name in model.parameters if name not in tied]
    values = {}
    for name, text in tied.items():
        if not isinstance(text, str):
            raise FitError(f"{name!r} must be tied to an expression of other parameters, as text; received {text!r}.")
        also = [word for word in re.findall(r"[^\W\d]\w*", text) if word in tied]
        if also:
            raise FitError(f"{name!r} cannot be tied to {also[0]!r}, which is tied itself; tie it to free parameters.")
        values[name] = parse_expression(text, rest, f"tied {name}")
    return (model.substituted(values, drop=True) if values else model), dict(tied)


def _local(
    model: Model, data: Dataset, local: Sequence[str] | Mapping[str, Sequence[str]]
) -> tuple[Model, dict[str, tuple[str, ...]]]:
    if isinstance(local, str):
        raise FitError(f"local must be a list of names, such as [{local!r}]; received {local!r}.")
    if not local:
        return model, {}
    own = [q.label for q in data.trajectories]
    if len(own) < 2:
        raise FitError("Local parameters need several trajectories; these data have one. Join datasets first.")
    labels = dict(local) if isinstance(local, Mapping) else dict.fromkeys(local, own)
    _named(model.parameters, labels, "local")
    for name, words in labels.items():
        if isinstance(words, str) or len(words) != len(own):
            raise FitError(
                f"local[{name!r}] must have one label for each of {len(own)} trajectories; received {words!r}."
            )
        labels[name] = [str(word) for word in words]
    expanded = model.localised(labels)
    families = {
        name: tuple(dict.fromkeys(model.local_name(name, label) for label in words)) for name, words in labels.items()
    }
    return expanded, families


def _tied_to_local(tied: dict[str, str], families: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """A parameter tied to a local one has as many values as that."""
    spread: dict[str, str] = {}
    for name, text in tied.items():
        expr = parse_expression(text, _words(text))
        involved = [base for base in families if se.Symbol(base) in expr.free_symbols]
        if not involved:
            spread[name] = text
            continue
        base = involved[0]
        for each in families[base]:
            label = each.removeprefix(base)
            here = {se.Symbol(b): se.Symbol(b + label) for b in involved if b + label in families[b]}
            spread[name + label] = to_text(expr.subs(here))
    return spread


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d]\w*", text)


def _spread(values: Any, families: Mapping[str, tuple[str, ...]]) -> Any:
    """What is said of a local parameter holds for each of its values."""
    if not isinstance(values, Mapping):
        return values
    spread = {}
    for name, value in values.items():
        for each in families.get(name, (name,)):
            spread[each] = value
    return spread


def _logs(names: tuple[str, ...], log: Sequence[str], families: Mapping[str, tuple[str, ...]]) -> NDArray[np.bool_]:
    if isinstance(log, str):
        raise FitError(f"log must be a list of names, such as [{log!r}]; received {log!r}.")
    wanted = _named(names, _spread(dict.fromkeys(log), families), "log")
    return np.array([name in wanted for name in names])


def _priors(names: tuple[str, ...], priors: Named, base: FloatArray) -> Priors | None:
    index, centre, spread, lognormal = [], [], [], []
    for name, prior in _named(names, priors, "priors").items():
        try:
            kind, first, second = prior
        except (TypeError, ValueError):
            kind, first, second = "", 0.0, 0.0
        if kind not in PRIORS:
            raise FitError(
                f"The prior of {name!r} must be ('normal', mean, standard deviation) or ('lognormal', median, standard "
                f"deviation of the logarithm); received {prior!r}."
            )
        m, s = _number(first, f"the centre of the prior of {name!r}"), _number(second, f"the spread of {name!r}")
        if s <= 0 or (kind == "lognormal" and m <= 0):
            raise FitError(
                f"The prior of {name!r} needs a positive spread, and median if log-normal; received {prior!r}."
            )
        j = names.index(name)
        if np.isfinite(base[j]):
            raise FitError(f"{name!r} is fixed; a prior of it means nothing.")
        index.append(j)
        centre.append(np.log(m) if kind == "lognormal" else m)
        spread.append(s)
        lognormal.append(kind == "lognormal")
    if not index:
        return None
    n = len(index)
    return Priors(np.array(index), np.array(centre), np.array(spread), np.array(lognormal), np.zeros(n, dtype=bool))


def _named(names: tuple[str, ...], values: Named, what: str) -> Named:
    if not isinstance(values, Mapping):
        raise FitError(f"{what} must be a mapping from names to values, such as {{'p1': ...}}; received {values!r}.")
    for name in values:
        if name not in names:
            raise FitError(
                f"Unknown parameter {name!r} in {what}.{suggestion(str(name), names)} The model's: {', '.join(names)}."
            )
    return values


def _fixed(names: tuple[str, ...], fixed: Mapping[str, float] | None) -> FloatArray:
    base = np.full(len(names), np.nan)
    for name, value in _named(names, fixed or {}, "fixed").items():
        base[names.index(name)] = _number(value, f"the fixed value of {name!r}")
    return base


def _number(value: Any, what: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise FitError(f"{what[0].upper()}{what[1:]} must be a finite number; received {value!r}.")
    return number


def _bounds(
    names: tuple[str, ...],
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | None,
    base: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    lower, upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
    if bounds is None:
        bounds = {}
    if not isinstance(bounds, Mapping):
        if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray):
            raise FitError(f"bounds must be a mapping or a list of pairs; received {bounds!r}.")
        if len(bounds) != len(names):
            raise FitError(
                f"bounds must have one pair for each of {len(names)} parameters ({', '.join(names)}), or be a mapping; "
                f"received {len(bounds)}."
            )
        bounds = dict(zip(names, bounds, strict=True))
    for name, pair in _named(names, bounds, "bounds").items():
        try:
            low, high = (np.nan if limit is None else float(limit) for limit in pair)
        except (TypeError, ValueError):
            raise FitError(f"The bounds of {name!r} must be a pair of numbers; received {pair!r}.") from None
        j = names.index(name)
        lower[j] = -np.inf if np.isnan(low) else low
        upper[j] = np.inf if np.isnan(high) else high
        if not lower[j] < upper[j]:
            raise FitError(
                f"The lower bound of {name!r} must be below the upper one; received {pair!r}. "
                "To hold a parameter, use fixed={...}."
            )
        if np.isfinite(base[j]) and not lower[j] <= base[j] <= upper[j]:
            raise FitError(f"{name!r} is fixed at {base[j]:g}, outside its bounds [{lower[j]:g}, {upper[j]:g}].")
    lower[~np.isnan(base)] = -np.inf
    upper[~np.isnan(base)] = np.inf
    return lower, upper


def first_guess(task: Task, parameters: Parameters, start: Mapping[str, float] | ArrayLike | None) -> FloatArray | None:
    """The start `(J,)` in what the estimators work with, or None."""
    if start is None:
        return None
    names = task.problem.model.parameters
    p = task.base.copy()
    if isinstance(start, Mapping):
        given = {name: value for name, value in start.items() if name not in parameters.tied}
        for name, value in _named(names, _spread(given, parameters.families), "start").items():
            j = names.index(name)
            if task.free[j]:
                p[j] = _logged(_number(value, f"the start of {name!r}"), bool(parameters.log[j]), name)
        missing = np.isnan(p) & ~task.linear
        bounded = missing & np.isfinite(task.lower) & np.isfinite(task.upper)
        p[bounded] = 0.5 * (task.lower[bounded] + task.upper[bounded])
        missing &= ~bounded
        if missing.any():
            raise FitError(
                f"The start lacks {', '.join(np.array(names)[missing])}: only parameters with bounds, or in which the "
                "model is linear, may be left out."
            )
        if np.isnan(p).any():
            solved = project_linear(task, p)
            p = np.where(np.isnan(p), solved, p)
        return p
    try:
        values = np.array(start, dtype=float)
    except (TypeError, ValueError):
        raise FitError(f"The start must be numbers or a mapping; received {start!r}.") from None
    if values.shape != (len(names),) or not np.isfinite(values).all():
        raise FitError(
            f"The start must be {len(names)} finite numbers ({', '.join(names)}); received shape {values.shape}: "
            f"{start!r}."
        )
    values = np.array([_logged(v, bool(log), n) for v, log, n in zip(values, parameters.log, names, strict=True)])
    return np.where(task.free, values, task.base)


def _logged(value: float, log: bool, name: str) -> float:
    if not log:
        return value
    if value <= 0:
        raise FitError(f"{name!r} is on a log scale, so that its start must be positive; received {value!r}.")
    return float(np.log(value))
