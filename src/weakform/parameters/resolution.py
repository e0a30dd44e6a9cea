"""Resolution of the parameters of a fit from the model, the data and the user's specifications.

Tied parameters are replaced by their expressions, a local parameter by one parameter for each trajectory or group, and
the specifications become arrays in the order of the resulting model's parameters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..data import Dataset
from ..model import Model
from ..model.expression_text import format_expression
from ..model.expressions import parse_expression
from ..model.function_table import FUNCTIONS
from ..model.naming import format_initial_name
from ..support.array_types import BoolArray, FloatArray, IntArray
from ..support.errors import FitError
from ..support.wording import suggest_name
from .parameter import Parameter, check_parameter, gather_specifications
from .priors import Priors
from .working_scale import WorkingScale


@dataclass(frozen=True)
class ResolvedParameters:
    """The parameters of a fit, in the order of its model.

    Attributes
    ----------
    model : Model
        The model of the fit: without tied parameters, and with one parameter for each value of a local one.
    records : tuple of Parameter, (J,)
        The specification of each of its parameters.
    tied : dict of str to str
        The expression of each tied parameter.
    shared : Model
        The model of a single trajectory, in which a local parameter is still one parameter.
    index : ndarray of int, (trajectories, parameters of `shared`)
        For each trajectory, the position of each parameter of `shared` in `model.parameters`.
    """

    model: Model
    records: tuple[Parameter, ...]
    tied: dict[str, str]
    shared: Model
    index: IntArray

    @property
    def fixed_values(self) -> FloatArray:
        """The values of fixed parameters, `(J,)`; NaN for free ones."""
        return np.array([np.nan if r.fixed is None else r.fixed for r in self.records])

    @property
    def free(self) -> BoolArray:
        """True for parameters that are estimated, `(J,)`."""
        return np.array([r.fixed is None for r in self.records])

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds on the natural scale, `(J,)` each; infinite for fixed parameters."""
        pairs = [self._compute_limits(r) for r in self.records]
        lower, upper = np.array(pairs).T
        return lower, upper

    @staticmethod
    def _compute_limits(record: Parameter) -> tuple[float, float]:
        """Return the bounds of one parameter; a log scale or a log-normal prior implies a lower bound of zero."""
        if record.fixed is not None:
            return -np.inf, np.inf
        low, high = record.bounds or (-np.inf, np.inf)
        positive = record.log or (record.prior is not None and record.prior[0] == "lognormal")
        return max(low, 0.0) if positive else low, high

    @property
    def scale(self) -> WorkingScale:
        """The scale on which each parameter is estimated."""
        return WorkingScale(np.array([r.log and r.fixed is None for r in self.records]))

    @property
    def start(self) -> FloatArray | None:
        """The initial guesses, `(J,)`, NaN for parameters without one; None if no parameter has one."""
        values = np.array([np.nan if r.start is None else r.start for r in self.records])
        return None if np.isnan(values).all() else values

    @property
    def prior(self) -> Priors | None:
        """The priors on the natural scale; None if no parameter has one."""
        return Priors.from_tuples([r.prior for r in self.records])

    @property
    def units(self) -> dict[str, str]:
        """The units of parameters that have one, by name."""
        return {name: r.unit for name, r in zip(self.model.parameters, self.records, strict=True) if r.unit}


def resolve_parameters(
    model: Model,
    data: Dataset,
    parameters: Mapping[str, Any] | None = None,
    keywords: Mapping[str, Any] | None = None,
    **more: Any,
) -> ResolvedParameters:
    """Resolve the parameters of a fit.

    Parameters
    ----------
    model : Model
    data : Dataset
    parameters : mapping, optional
        The long form: a `Parameter`, or a number at which it is fixed, for each name.
    keywords, **more : mapping
        The short form: `bounds`, `start`, `fixed`, `tied`, `local`, `log`, `priors`, `units`, as `fit` takes them.

    Returns
    -------
    ResolvedParameters

    Raises
    ------
    FitError
        If a specification is impossible, or contradicts another one.
    """
    keywords = {**(keywords or {}), **more}
    model, initial_values = _add_initial_values(model, parameters, keywords)
    divisions = _read_local_divisions(model, parameters, keywords)
    if len(data.trajectories) > 1:
        # By default each trajectory has its own initial values: experiments rarely begin in the same state.
        specified = {*divisions, *(name for name, _ in _collect_tied_expressions(parameters, keywords))}
        divisions |= {name: True for name in initial_values if name not in specified}
    local = {name: _label_trajectories(name, division, data) for name, division in divisions.items()}
    families = {
        name: tuple(dict.fromkeys(model.format_local_name(name, label) for label in labels))
        for name, labels in local.items()
    }
    local_names = [name for family in families.values() for name in family]
    specs = gather_specifications(model.parameters, local_names, parameters, keywords)
    tied = {
        name: check_parameter(name, Parameter(**specs[name])).tied
        for name in model.parameters
        if specs[name].get("tied")
    }
    tied_and_local = [name for name in local if name in tied]
    if tied_and_local:
        raise FitError(f"{tied_and_local[0]!r} is both tied and local; choose one of them.")
    shared = _substitute_tied(model, {name: str(text) for name, text in tied.items()})
    if shared.events or shared.switches or shared.variants:
        # Times of events may be expressions of parameters; if these are fixed, the times become numbers.
        fixed = {
            name: check_parameter(name, Parameter(**specs[name])).fixed
            for name in shared.parameters
            if name not in local
        }
        shared = shared.fix_event_times({name: value for name, value in fixed.items() if value is not None})
    model = shared.localise_parameters(local) if local else shared
    # The specification of a local parameter (K) holds for each of its values, unless that (K_a) has its own.
    origin = {local_name: name for name, family in families.items() for local_name in family}
    records = []
    for name in model.parameters:
        entries = {**specs[origin.get(name, name)], **specs[name], "local": False}
        records.append(check_parameter(name, Parameter(**entries)))
    position = {name: k for k, name in enumerate(model.parameters)}
    index = [
        [
            position[model.format_local_name(name, local[name][k])] if name in local else position[name]
            for name in shared.parameters
        ]
        for k in range(len(data.trajectories))
    ]
    tied_texts = _expand_tied_expressions({n: str(text) for n, text in tied.items()}, families)
    return ResolvedParameters(
        model, tuple(records), tied_texts, shared, np.array(index, dtype=np.intp).reshape(len(index), -1)
    )


def _collect_tied_expressions(
    parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> list[tuple[str, str]]:
    """Return the names of tied parameters, specified in either form, with their expressions."""
    long_form = parameters if isinstance(parameters, Mapping) else {}
    pairs = [(name, record.tied) for name, record in long_form.items() if isinstance(record, Parameter) and record.tied]
    short_form = keywords.get("tied")
    pairs += list(short_form.items()) if isinstance(short_form, Mapping) else []
    return [(name, text) for name, text in pairs if isinstance(text, str)]


def _find_initial_value(name: str, initial_names: Mapping[str, str]) -> str:
    """Return the initial value `y(0)` to which the value `y(0)_a` of one trajectory belongs; other names unchanged.

    The keys of `initial_names` are the names of all initial values.
    """
    return next((initial for initial in initial_names if name.startswith(f"{initial}_")), name)


def _add_initial_values(
    model: Model, parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Model, list[str]]:
    """Make initial values that the user specifies, as in `fixed={"y(0)": 2}`, parameters of the model.

    Returns
    -------
    Model
        With the initial values as parameters.
    list of str
        The names of all its initial values that are parameters.
    """
    state_of = {format_initial_name(state): state for state in model.states}
    mentioned: list[str] = []
    for argument in (parameters, *keywords.values()):
        if isinstance(argument, Mapping | Sequence) and not isinstance(argument, str):
            mentioned += [_find_initial_value(name, state_of) for name in argument if isinstance(name, str)]
    for _, text in _collect_tied_expressions(parameters, keywords):
        mentioned += _extract_names(text)
    new = [state_of[name] for name in dict.fromkeys(mentioned) if name in state_of and name not in model.parameters]
    in_model = [state for state in new if state in model.initial]
    if in_model:
        raise FitError(
            f"{format_initial_name(in_model[0])!r} is given by the model as {model.initial[in_model[0]]} and cannot be "
            "specified again; specify the parameters of that expression, or remove it from the model."
        )
    initial_names = [name for name in model.parameters if name in state_of] + [
        format_initial_name(state) for state in new
    ]
    return (model.free_initial_values(new) if new else model), initial_names


def _read_local_divisions(
    model: Model, parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the division of each local parameter among the trajectories: True, labels, or labels by trajectory."""
    if parameters is not None and not isinstance(parameters, Mapping):
        raise FitError(f"parameters must be a mapping from names to weakform.Parameter; received {parameters!r}.")
    specs = gather_specifications(
        model.parameters,
        (),
        {
            name: Parameter(local=record.local)
            for name, record in (parameters or {}).items()
            if isinstance(record, Parameter) and record.local
        },
        {"local": keywords.get("local")},
    )
    return {name: entries["local"] for name, entries in specs.items() if entries.get("local")}


def _substitute_tied(model: Model, tied: dict[str, str]) -> Model:
    """Return the model with tied parameters replaced by their expressions, which may contain free parameters only."""
    free = [name for name in model.parameters if name not in tied]
    values = {}
    if tied and not free and any(_extract_names(text) for text in tied.values()):
        raise FitError("All parameters are tied; leave at least one of them free, and tie the others to it.")
    for name, text in tied.items():
        chained = [word for word in _extract_names(text) if word in tied]
        if chained:
            raise FitError(
                f"{name!r} cannot be tied to {chained[0]!r}, which is tied itself; tie it to free parameters."
            )
        values[name] = parse_expression(text, free, f"tied {name}")
    return model.substitute_parameters(values, drop=True) if values else model


def _label_trajectories(name: str, local: Any, data: Dataset) -> list[str]:
    """Return the label of a local parameter's value for each trajectory; raise if the division is impossible."""
    trajectories = [q.label for q in data.trajectories]
    if len(trajectories) < 2:
        raise FitError(
            "Local parameters need several trajectories, but the data have one. Join datasets first: Dataset.join."
        )
    if local is True:
        return trajectories
    if isinstance(local, Mapping):
        unknown = [str(word) for word in local if str(word) not in trajectories]
        if unknown:
            raise FitError(
                f"local[{name!r}] names {unknown[0]!r}, which is not a trajectory."
                f"{suggest_name(unknown[0], trajectories)} The trajectories: {', '.join(trajectories)}."
            )
        by_name = {str(key): str(value) for key, value in local.items()}
        missing = [label for label in trajectories if label not in by_name]
        if missing:
            raise FitError(f"local[{name!r}] lacks the trajectory {missing[0]!r}; give a label for each trajectory.")
        return [by_name[label] for label in trajectories]
    if isinstance(local, str) or not isinstance(local, Sequence) or len(local) != len(trajectories):
        raise FitError(
            f"local[{name!r}] must have one label for each of {len(trajectories)} trajectories; received {local!r}."
        )
    return [str(word) for word in local]


def _expand_tied_expressions(tied: dict[str, str], families: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """Return the expressions of tied parameters, one for each value of the local parameter in an expression.

    Parameters
    ----------
    tied : dict of str to str
        The expression of each tied parameter.
    families : mapping of str to tuple of str
        The names of the values of each local parameter.
    """
    texts: dict[str, str] = {}
    for name, text in tied.items():
        expr = parse_expression(text, _extract_names(text))
        involved = [base for base in families if se.Symbol(base) in expr.free_symbols]
        if not involved:
            texts[name] = text
            continue
        base = involved[0]
        for local_name in families[base]:
            label = local_name.removeprefix(base)
            values = {se.Symbol(b): se.Symbol(b + label) for b in involved if b + label in families[b]}
            texts[name + label] = format_expression(expr.subs(values))
    return texts


def _extract_names(text: str) -> list[str]:
    """Return the names in an expression, including initial values such as `x(0)`."""
    matches = re.findall(r"([^\W\d]\w*)('?\(0\))?", text)
    return [name if name in FUNCTIONS else name + suffix for name, suffix in matches]


def drop_parameters(
    names: Sequence[str], parameters: Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> tuple[Mapping[str, Any] | None, dict[str, Any]]:
    """Remove the specifications of some parameters from the arguments of `fit`.

    Parameters
    ----------
    names : sequence of str
        Parameters that are no longer in the fit.
    parameters : mapping, optional
    keywords : mapping
        The long and the short form, as `resolve_parameters` takes them.

    Returns
    -------
    parameters : mapping, or None
    keywords : dict
        Both without these parameters.
    """

    def drop_names(argument: Any) -> Any:
        """Return a mapping or a list of names without the dropped parameters; any other argument unchanged."""
        if isinstance(argument, Mapping):
            return {name: value for name, value in argument.items() if name not in names}
        if isinstance(argument, list | tuple) and all(isinstance(word, str) for word in argument):
            return [name for name in argument if name not in names]
        return argument

    if not names:
        return parameters, dict(keywords)
    return drop_names(parameters), {key: drop_names(argument) for key, argument in keywords.items()}
