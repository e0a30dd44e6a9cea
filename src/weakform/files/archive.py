"""Saved fits: every field of a result in one JSON file, with the version of the format.

Numbers survive the round trip to the last bit: JSON text holds the shortest decimal that reads back as the same float,
and values that are not finite are written as text (`"nan"`, `"inf"`). A file is data: its equations are parsed like
those of any model, and nothing is evaluated as code.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import symengine as se

from ..data.dataset import Dataset
from ..data.doses import Doses
from ..data.trajectory import Trajectory, Truth
from ..diagnostics.goodness import GoodnessOfFit, Misfit
from ..forward.structural_identifiability import Freedom
from ..inference.profiles import Profile
from ..model.events import Event
from ..model.expression_text import NATIVE_DIALECT, format_expression
from ..model.expressions import parse_expression
from ..model.inputs import Inputs
from ..model.model import Model
from ..parameters.priors import Priors
from ..results.fit_result import FitResult
from ..results.options import Options
from ..results.population import Effect, Population
from ..results.records import Alternative, BasisSummary, LateResults, StartRecord
from ..results.status import Status
from ..results.trace import Trace, TraceStep
from ..support.errors import DataError, WeakformError
from ..support.versions import __version__
from ..support.whole_numbers import refuse_devices
from .archive_validation import check_fit

FORMAT_VERSION = 3
"""Version of the file format. Files of any other version are refused with the name of the release that wrote them."""
_DOSE_FIELDS = ("state", "times", "amounts", "duration", "lag")
"""Fields of `Doses` that the file stores under their own names."""


def save(fit: FitResult, path: str | Path) -> Path:
    """Write a fit to a JSON file.

    Parameters
    ----------
    fit : FitResult
    path : str or Path
        Missing folders on the way are created; an existing file is replaced.

    Returns
    -------
    Path
        The path of the file.
    """
    fit_fields = {
        f.name: getattr(fit, f.name) for f in fields(fit) if f.name not in ("model", "data", "late", "shared")
    }
    fit_fields |= {
        "status": fit.status.name,
        "options": asdict(fit.options),
        "basis": [asdict(b) for b in fit.basis],
        "starts": [{**vars(s), "status": s.status.name} for s in fit.starts],
        "alternatives": [vars(alternative) for alternative in fit.alternatives],
        "freedoms": [asdict(freedom) for freedom in fit.freedoms],
        "goodness": None if fit.goodness is None else asdict(fit.goodness),
        "prior": None if fit.prior is None else vars(fit.prior),
        "profiles": {name: vars(profile) for name, profile in fit.profiles.items()},
        "population": None if fit.population is None else asdict(fit.population),
        "trace": None if fit.trace is None else [asdict(step) for step in fit.trace.steps],
    }
    document = {
        "format": FORMAT_VERSION,
        "weakform": __version__,
        "model": _write_model(fit.model),
        "shared": None if fit.shared is None else _write_model(fit.shared),
        "data": _write_dataset(fit.data),
        "fit": fit_fields,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(_encode_json(document), allow_nan=False), encoding="utf-8")
    return Path(path)


def load(path: str | Path) -> FitResult:
    """Read a fit that `save` wrote.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    FitResult

    Raises
    ------
    DataError
        If the file cannot be read, is not a saved fit, has another format version, or holds parts that contradict each
        other.
    """
    if not isinstance(path, str | Path):
        raise DataError(f"The path of a saved fit must be a text or a Path; received {path!r}.")
    refuse_devices(Path(path), DataError)
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not a saved fit: it is not JSON ({error}).") from None
    if not isinstance(document, dict) or "format" not in document:
        raise DataError(f"{path} is not a saved fit: it has no format number.")
    if document["format"] != FORMAT_VERSION:
        raise DataError(
            f"{path} has format {document['format']!r}; weakform {__version__} reads format {FORMAT_VERSION}. "
            f"It was written by weakform {document.get('weakform')!r}; use that version."
        )
    try:
        fit = _restore_fit(document)
        check_fit(fit)
    # A damaged file can fail anywhere in the constructors, so every error that bad values cause becomes a `DataError`.
    except WeakformError as error:
        raise DataError(f"{path} is not a valid saved fit: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise DataError(f"{path} is not a valid saved fit: {type(error).__name__}: {error}.") from None
    return fit


def _encode_json(value: Any) -> Any:
    """Return a value as plain JSON: arrays and tuples as lists, keys as text, and numbers that are not
    finite as text, because JSON has no literals for them.
    """
    if isinstance(value, dict):
        return {str(key): _encode_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _encode_json(value.tolist())
    if isinstance(value, list | tuple):
        return [_encode_json(item) for item in value]
    if isinstance(value, np.generic):
        return _encode_json(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _read_array(value: Any) -> Any:
    """Return a list as an array of floats; None stays None."""
    return None if value is None else np.array(value, dtype=float)


def _read_flags(value: Any) -> Any:
    """Return a list as an array of booleans."""
    return np.array(value, dtype=bool)


def _alias_initial_values(parameters: tuple[str, ...]) -> dict[str, str]:
    """Return plain names for initial values such as `x(0)`, which an equation cannot contain as names.

    The plain names are part of the file format.
    """
    return {name: f"beginning_{k}_" for k, name in enumerate(parameters) if "(" in name}


def _alias_switches(model: Model) -> dict[str, str]:
    """Return plain names for the switches of a model, which an equation cannot contain as names.

    The plain names are part of the file format.
    """
    return {name: f"switch_{k}_" for k, name in enumerate(model.switches)}


def _write_expressions(model: Model) -> dict[str, Any]:
    """Return the expressions of a model as text, by the keys of the file."""
    dialect = replace(NATIVE_DIALECT, names={**_alias_initial_values(model.parameters), **_alias_switches(model)})
    return {
        "switches": {name: format_expression(e, dialect) for name, e in model.switches.items()},
        "steady": None
        if model.steady is None
        else {name: format_expression(e, dialect) for name, e in model.steady.items()},
        "events": [
            {
                "trigger": format_expression(event.trigger, dialect),
                "after": {name: format_expression(e, dialect) for name, e in event.after.items()},
                "waits": event.waits,
                "together": event.together,
                "late": event.late,
            }
            for event in model.events
        ],
        "expressions": [format_expression(e, dialect) for e in model.expressions],
        "observables": {name: format_expression(e, dialect) for name, e in model.observables.items()},
        "initial": {name: format_expression(e, dialect) for name, e in model.initial.items()},
    }


def _write_model(model: Model) -> dict[str, Any]:
    """Return a model as the table that the file stores; `_restore_model` is the inverse."""
    used = {str(symbol) for expr in model.all_expressions for symbol in expr.free_symbols}
    return {
        "states": model.states,
        "parameters": model.parameters,
        "inputs": model.inputs,
        "hidden": model.hidden,
        # With local parameters the equations use the common name, such as k, while the parameters are one k for each
        # trajectory or group: the names in the equations are stored separately, so that they can be parsed.
        "common": sorted(used - {"t", *model.states, *model.driving_names}),
        **_write_expressions(model),
        "variants": [_write_expressions(variant) for variant in model.variants],
    }


def _restore_model(table: dict[str, Any]) -> Model:
    """Build a model from its table in the file; its expressions are parsed, not evaluated."""
    states, parameters, inputs, hidden = (tuple(table[k]) for k in ("states", "parameters", "inputs", "hidden"))
    names = ["t", *states, *inputs]

    aliases = _alias_initial_values(parameters)
    initial_symbols = {se.Symbol(alias): se.Symbol(name) for name, alias in aliases.items()}

    def build_model(texts: dict[str, Any], variants: tuple[Model, ...], parameter_names: tuple[str, ...]) -> Model:
        # The model and each variant list their own switches, so the aliases are built for each.
        switch_aliases = {f"switch_{k}_": name for k, name in enumerate(texts["switches"])}
        substitutions = {
            **initial_symbols,
            **{se.Symbol(alias): se.Symbol(name) for alias, name in switch_aliases.items()},
        }

        def parse(text: str, parameter_names: tuple[str, ...]) -> Any:
            return parse_expression(text, [*names, *parameter_names, *aliases.values(), *switch_aliases]).subs(
                substitutions
            )

        def restore_event(entry: dict[str, Any]) -> Event:
            after = {name: parse(text, parameter_names) for name, text in entry["after"].items()}
            flags = {name: bool(entry[name]) for name in ("waits", "together", "late")}
            return Event(parse(entry["trigger"], parameter_names), after, **flags)

        return Model(
            [parse(text, parameter_names) for text in texts["expressions"]],
            states,
            parameters,
            inputs,
            hidden=hidden,
            variants=variants,
            observables={name: parse(text, parameter_names) for name, text in texts["observables"].items()},
            initial={name: parse(text, parameter_names) for name, text in texts["initial"].items()},
            events=[restore_event(entry) for entry in texts["events"]],
            switches={str(name): parse(text, parameter_names) for name, text in texts["switches"].items()},
            steady=None
            if texts["steady"] is None
            else {str(name): parse(text, parameter_names) for name, text in texts["steady"].items()},
        )

    variants = tuple(build_model(texts, (), parameters) for texts in table["variants"])
    return build_model(table, variants, (*parameters, *table["common"]))


def _write_dataset(data: Dataset) -> dict[str, Any]:
    """Return a dataset as the table that the file stores; `_restore_dataset` is the inverse."""
    return {
        "trajectories": [
            {**vars(q), "inputs": None if q.inputs is None else vars(q.inputs), "doses": [vars(d) for d in q.doses]}
            for q in data.trajectories
        ],
        "truth": None if data.truth is None else vars(data.truth),
        **{
            name: getattr(data, name)
            for name in ("noise", "sigma", "covariance", "names", "inputs", "own_noise", "notes", "selected")
        },
    }


def _restore_dataset(table: dict[str, Any]) -> Dataset:
    """Build a dataset from its table in the file."""
    trajectories = []
    for q in table["trajectories"]:
        inputs = q["inputs"]
        trajectories.append(
            Trajectory(
                _read_array(q["times"]),
                _read_array(q["values"]),
                scale=_read_array(q["scale"]),
                inputs=None
                if inputs is None
                else Inputs(
                    _read_array(inputs["times"]), _read_array(inputs["values"]), tuple(map(bool, inputs["hold"]))
                ),
                label=q["label"],
                within=_read_array(q["within"]),
                repeats=_read_array(q["repeats"]),
                density=float(q["density"]),
                weights=_read_array(q.get("weights")),
                doses=tuple(Doses(**{name: dose[name] for name in _DOSE_FIELDS}) for dose in q["doses"]),
            )
        )
    truth = table["truth"]
    return Dataset(
        trajectories=trajectories,
        noise=table["noise"],
        sigma=_read_array(table["sigma"]),
        covariance=_read_array(table["covariance"]),
        names=table["names"],
        inputs=table["inputs"],
        own_noise=bool(table["own_noise"]),
        truth=None if truth is None else _restore_truth(truth),
        notes=table["notes"],
        selected=bool(table["selected"]),
    )


def _restore_truth(table: dict[str, Any]) -> Truth:
    """Build the true values of simulated data from their table in the file."""
    p, states, initial, sigma = (_read_array(table[name]) for name in ("parameters", "states", "initial", "sigma"))
    return Truth(p, states, initial, sigma, float(table["begin"]))


def _restore_fit(document: dict[str, Any]) -> FitResult:
    """Build a fit from the document that `save` wrote."""
    f, data = document["fit"], _restore_dataset(document["data"])
    goodness, prior = f["goodness"], f["prior"]
    if goodness is not None:
        goodness_fields: Any = {k: float(v) if isinstance(v, str) else v for k, v in goodness.items() if k != "misfits"}
        goodness = GoodnessOfFit(**goodness_fields, misfits=tuple(Misfit(**misfit) for misfit in goodness["misfits"]))
    if prior is not None:
        prior = Priors(
            np.array(prior["index"], dtype=np.intp),
            _read_array(prior["centre"]),
            _read_array(prior["spread"]),
            _read_flags(prior["lognormal"]),
            _read_flags(prior["log_scale"]),
        )
    starts = (
        StartRecord(
            start=_read_array(s["start"]),
            estimate=_read_array(s["estimate"]),
            objective=float(s["objective"]),
            status=Status[s["status"]],
            iterations=s["iterations"],
            evaluations=s["evaluations"],
            behind=float(s["behind"]),
        )
        for s in f["starts"]
    )
    profiles = {}
    for name, p in f["profiles"].items():
        beside = tuple(map(str, p.get("beside", ())))
        profiles[name] = Profile(
            name, _read_array(p["values"]), _read_array(p["misfit"]), p["level"], _read_interval(p["interval"]), beside
        )
    return FitResult(
        model=_restore_model(document["model"]),
        data=data,
        status=Status[f["status"]],
        options=Options.of({**f["options"], "time_limit": float(f["options"]["time_limit"])}),
        basis=tuple(BasisSummary(**b) for b in f["basis"]),
        starts=tuple(starts),
        freedoms=tuple(_restore_freedom(freedom) for freedom in f["freedoms"]),
        alternatives=tuple(Alternative(_read_array(a["estimate"]), float(a["behind"])) for a in f["alternatives"]),
        denoised=tuple(_read_array(u) for u in f["denoised"]),
        nodes=tuple((_read_array(times), _read_array(states)) for times, states in f["nodes"]),
        shared=None if document["shared"] is None else _restore_model(document["shared"]),
        index=None if f["index"] is None else np.array(f["index"], dtype=np.intp),
        weak_residuals=tuple((_read_array(centres), _read_array(scores)) for centres, scores in f["weak_residuals"]),
        goodness=goodness,
        prior=prior,
        late=LateResults(profiles),
        population=_restore_population(f.get("population")),
        trace=_restore_trace(f.get("trace")),
        log_likelihood=float(f["log_likelihood"]),
        warnings=tuple(f["warnings"]),
        notes=tuple(f["notes"]),
        **{name: _read_array(f[name]) for name in ("estimate", "covariance", "sigma", "bounds")},
        **{name: _read_flags(f[name]) for name in ("fixed", "at_bound", "log_scale")},
        **{
            name: f[name]
            for name in (
                "method",
                "covariance_kind",
                "sigma_estimated",
                "iterations",
                "mesh",
                "seed",
                "seconds",
                "tied",
                "units",
            )
        },
    )


def _restore_population(saved: dict[str, Any] | None) -> Population | None:
    """Build the summary of random effects from its table in the file; None stays None."""
    if saved is None:
        return None
    effects = [
        Effect(
            str(e["name"]),
            str(e["kind"]),
            mean=float(e["mean"]),
            mean_interval=_read_interval(e["mean_interval"]),
            spread=float(e["spread"]),
            spread_interval=_read_interval(e["spread_interval"]),
            shrinkage=float(e["shrinkage"]),
            subjects={str(label): float(value) for label, value in e["subjects"].items()},
        )
        for e in saved["effects"]
    ]
    return Population(tuple(effects), int(saved["rounds"]), bool(saved["converged"]))


def _restore_trace(saved: list[dict[str, Any]] | None) -> Trace | None:
    """Build the trace of a fit from its table in the file; None for files of versions before 1.3, which have none."""
    if saved is None:
        return None
    steps = (
        TraceStep(
            **{name: str(step[name]) for name in ("strategy", "decision", "reason", "trigger", "method", "status")},
            seconds=float(step["seconds"]),
            starts=int(step["starts"]),
            log_likelihood=float(step["log_likelihood"]),
        )
        for step in saved
    )
    return Trace(tuple(steps))


def _read_interval(ends: Any) -> tuple[float, float]:
    """Return the two ends of an interval as floats; the file holds infinite ones as text."""
    low, high = map(float, ends)
    return low, high


def _restore_freedom(saved: dict[str, Any]) -> Freedom:
    """Build a scaling freedom, refusing exponents that do not match its names."""
    names = tuple(str(name) for name in saved["names"])
    scalings = tuple(tuple(int(n) for n in row) for row in saved["scalings"])
    if any(len(row) != len(names) for row in scalings):
        raise ValueError("a freedom needs one exponent for each of its names")
    return Freedom(names, scalings)
