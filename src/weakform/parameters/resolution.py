"""From records of parameters to what a fit works with: tied ones replaced, local ones multiplied, arrays in order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..data import Dataset
from ..model import Model
from ..model.expression_text import to_text
from ..model.expressions import parse_expression
from ..model.function_table import FUNCTIONS
from ..model.naming import initial_name
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.wording import suggestion
from .parameter import Parameter, checked, gathered
from .priors import Priors
from .working_scale import Scale


@dataclass(frozen=True)
class Parameters:
    """The parameters of a fit, in the order of its model.

    Attributes
    ----------
    model : Model
        As the user sees it: tied parameters replaced, local ones multiplied.
    records : tuple of Parameter, (J,)
    tied : dict of str to str
        Expressions of those that were replaced.
    shared : Model
        The same before local parameters were multiplied.
    index : ndarray of int, (trajectories, parameters of `shared`)
        Place of each of its parameters among `model.parameters`, trajectory by trajectory.
    """

    model: Model
    records: tuple[Parameter, ...]
    tied: dict[str, str]
    shared: Model
    index: IntArray

    @property
    def base(self) -> FloatArray:
        """Values of those that are not free, NaN where free, `(J,)`."""
        return np.array([np.nan if r.fixed is None else r.fixed for r in self.records])

    @property
    def free(self) -> BoolArray:
        """Which are estimated, `(J,)`."""
        return np.array([r.fixed is None for r in self.records])

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the parameters themselves, `(J,)` each; infinite for those that are fixed."""
        pairs = [self._limits(r) for r in self.records]
        lower, upper = np.array(pairs).T
        return lower, upper

    @staticmethod
    def _limits(record: Parameter) -> tuple[float, float]:
        if record.fixed is not None:
            return -np.inf, np.inf
        low, high = record.bounds or (-np.inf, np.inf)
        positive = record.log or (record.prior is not None and record.prior[0] == "lognormal")
        return max(low, 0.0) if positive else low, high

    @property
    def scale(self) -> Scale:
        """Which are estimated on a log scale."""
        return Scale(np.array([r.log and r.fixed is None for r in self.records]))

    @property
    def start(self) -> FloatArray | None:
        """The first guess, `(J,)`, NaN where there is none; None where there is none at all."""
        values = np.array([np.nan if r.start is None else r.start for r in self.records])
        return None if np.isnan(values).all() else values

    @property
    def prior(self) -> Priors | None:
        """Priors of the parameters themselves."""
        return Priors.of([r.prior for r in self.records])

    @property
    def units(self) -> dict[str, str]:
        """Units, by name."""
        return {name: r.unit for name, r in zip(self.model.parameters, self.records, strict=True) if r.unit}


def resolve(
    model: Model,
    data: Dataset,
    parameters: Mapping[str, Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
    **more: Any,
) -> Parameters:
    """Gather what is said of the parameters, replace what is tied, multiply what is local, and put the rest in order.

    Parameters
    ----------
    model : Model
    data : Dataset
    parameters : mapping, optional
        The long form: `Parameter`, or a number, for each name.
    keywords, **more : mapping
        The short form: `bounds`, `start`, `fixed`, `tied`, `local`, `log`, `priors`, `units`, as `fit` takes them.
    """
    keywords = {**(keywords or {}), **more}
    model, beginnings = _with_beginnings(model, parameters, keywords)
    asked = _local(model, parameters, keywords)
    if len(data.trajectories) > 1:  # where nothing else is said, each trajectory begins in its own way
        others = {*asked, *(name for name, _ in _tied_texts(parameters, keywords))}
        asked |= {name: True for name in beginnings if name not in others}
    local = {name: _labels(name, how, data) for name, how in asked.items()}
    families = {
        name: tuple(dict.fromkeys(model.local_name(name, label) for label in labels)) for name, labels in local.items()
    }
    said = gathered(model.parameters, [each for family in families.values() for each in family], parameters, keywords)
    tied = {name: checked(name, Parameter(**said[name])).tied for name in model.parameters if said[name].get("tied")}
    both = [name for name in local if name in tied]
    if both:
        raise FitError(f"{both[0]!r} is both tied and local; choose one.")
    shared = _without_tied(model, {name: str(text) for name, text in tied.items()})
    if shared.events or shared.switches or shared.variants:
        fixed = {name: checked(name, Parameter(**said[name])).fixed for name in shared.parameters if name not in local}
        shared = shared.clocked({name: value for name, value in fixed.items() if value is not None})
    model = shared.localised(local) if local else shared
    # What is said of a local parameter holds for each of its values, unless something else is said of that.
    origin = {each: name for name, family in families.items() for each in family}
    records = []
    for name in model.parameters:
        entries = {**said[origin.get(name, name)], **said[name], "local": False}
        records.append(checked(name, Parameter(**entries)))
    names = {name: k for k, name in enumerate(model.parameters)}
    index = [
        [names[model.local_name(name, local[name][k])] if name in local else names[name] for name in shared.parameters]
        for k in range(len(data.trajectories))
    ]
    spread = _tied_to_local({n: str(text) for n, text in tied.items()}, families)
    return Parameters(model, tuple(records), spread, shared, np.array(index, dtype=np.intp).reshape(len(index), -1))


def _tied_texts(parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Names that are said to be tied, in either form, with what they are tied to."""
    long = parameters if isinstance(parameters, Mapping) else {}
    found = [(name, record.tied) for name, record in long.items() if isinstance(record, Parameter) and record.tied]
    short = keywords.get("tied")
    found += list(short.items()) if isinstance(short, Mapping) else []
    return [(name, text) for name, text in found if isinstance(text, str)]


def _beginning(name: str, own: Mapping[str, str]) -> str:
    """The initial value of which a name is that in one trajectory, `y(0)_a`, or the name itself."""
    return next((each for each in own if name.startswith(f"{each}_")), name)


def _with_beginnings(
    model: Model, parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Model, list[str]]:
    """The model with those initial values as parameters of which something is said: `fixed={"y(0)": 2}`."""
    own = {initial_name(state): state for state in model.states}
    mentioned: list[str] = []
    for said in (parameters, *keywords.values()):
        if isinstance(said, Mapping | Sequence) and not isinstance(said, str):
            mentioned += [_beginning(name, own) for name in said if isinstance(name, str)]
    for _, text in _tied_texts(parameters, keywords):
        mentioned += _words(text)
    new = [own[name] for name in dict.fromkeys(mentioned) if name in own and name not in model.parameters]
    given = [state for state in new if state in model.initial]
    if given:
        raise FitError(
            f"{initial_name(given[0])!r} is given by the model, {model.initial[given[0]]}; say it of the parameters "
            "there."
        )
    every = [name for name in model.parameters if name in own] + [initial_name(state) for state in new]
    return (model.beginning_at(new) if new else model), every


def _local(model: Model, parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """How each local parameter is divided among the trajectories: True, labels, or labels by trajectory."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise FitError(f"parameters must be a mapping from names to weakform.Parameter; received {parameters!r}.")
    said = gathered(
        model.parameters,
        (),
        {
            name: Parameter(local=record.local)
            for name, record in (parameters or {}).items()
            if isinstance(record, Parameter) and record.local
        },
        {"local": keywords.get("local")},
    )
    return {name: entries["local"] for name, entries in said.items() if entries.get("local")}


def _without_tied(model: Model, tied: dict[str, str]) -> Model:
    rest = [name for name in model.parameters if name not in tied]
    values = {}
    if tied and not rest and any(_words(text) for text in tied.values()):
        raise FitError("All parameters are tied; leave at least one free, to which the others are tied.")
    for name, text in tied.items():
        also = [word for word in _words(text) if word in tied]
        if also:
            raise FitError(f"{name!r} cannot be tied to {also[0]!r}, which is tied itself; tie it to free parameters.")
        values[name] = parse_expression(text, rest, f"tied {name}")
    return model.substituted(values, drop=True) if values else model


def _labels(name: str, local: Any, data: Dataset) -> list[str]:
    """The label of a local parameter's value in each trajectory."""
    own = [q.label for q in data.trajectories]
    if len(own) < 2:
        raise FitError("Local parameters need several trajectories; these data have one. Join datasets first.")
    if local is True:
        return own
    if isinstance(local, Mapping):
        unknown = [str(word) for word in local if str(word) not in own]
        if unknown:
            raise FitError(
                f"local[{name!r}] names {unknown[0]!r}, which is no trajectory.{suggestion(unknown[0], own)} "
                f"There are: {', '.join(own)}."
            )
        by_name = {str(key): str(value) for key, value in local.items()}
        missing = [label for label in own if label not in by_name]
        if missing:
            raise FitError(f"local[{name!r}] lacks the trajectory {missing[0]!r}; give a label for each.")
        return [by_name[label] for label in own]
    if isinstance(local, str) or not isinstance(local, Sequence) or len(local) != len(own):
        raise FitError(f"local[{name!r}] must have one label for each of {len(own)} trajectories; received {local!r}.")
    return [str(word) for word in local]


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
    """Names in an expression, initial values such as `x(0)` among them."""
    found = re.findall(r"([^\W\d]\w*)('?\(0\))?", text)
    return [name if name in FUNCTIONS else name + begun for name, begun in found]


def without(
    names: Sequence[str], parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """What is said of the parameters, less what is said of those that left the fit."""

    def kept(said: Any) -> Any:
        if isinstance(said, Mapping):
            return {name: value for name, value in said.items() if name not in names}
        if isinstance(said, list | tuple) and all(isinstance(word, str) for word in said):
            return [name for name in said if name not in names]
        return said

    if not names:
        return parameters, dict(keywords)
    return kept(parameters), {key: kept(said) for key, said in keywords.items()}
