"""PEtab problems (version 1) as plain data; runs in a process of its own (see `isolated`)."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from ...model.expressions import parse_expression
from ...model.model import Model
from ...support.errors import ModelError
from ...support.messages import suggestion
from .translate import equations_of_sbml

_SCALES = {"lin": "gaussian", "log": "lognormal", "log10": "lognormal"}
_PRIORS = ("uniform", "parameterScaleUniform", "normal", "logNormal")


def tables(path: str, where: str) -> dict[str, Any]:
    """A problem from its YAML file.

    Returns
    -------
    dict
        `model`, as `equations_of_sbml` returns it; `data`; `said`, arguments of `fit`; `nominal` values.
    """
    try:
        import libsbml
        import petab.v1 as petab
        import yaml
    except ImportError:
        raise ModelError("PEtab needs its library; install it with: pip install 'weakform[petab]'") from None
    if not Path(path).is_file():
        raise ModelError(f"There is no PEtab problem {where}.")
    try:
        version = str(dict(yaml.safe_load(Path(path).read_bytes())).get("format_version"))
        ours = version.split(".", maxsplit=1)[0] == "1"
        problem = petab.Problem.from_yaml(path) if ours else None
        text = libsbml.writeSBMLToString(problem.model.sbml_document) if problem is not None else ""
    except Exception as error:  # whatever the library makes of a broken problem
        said = " ".join(str(error).split())[:300]
        raise ModelError(f"{where} is not a PEtab problem: {type(error).__name__}: {said}") from None
    if problem is None:
        raise ModelError(f"{where} is PEtab of version {version}; version 1 is read.")
    try:
        return _Tables(problem, equations_of_sbml(text, where), where).plain()
    except KeyError as error:
        raise ModelError(f"{where}: the column or entry {error} is missing.") from None
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{where}: a table of it is broken: {' '.join(str(error).split())[:300]}") from None


class _Tables:
    """One problem, in plain data."""

    def __init__(self, problem: Any, model: dict[str, Any], where: str) -> None:
        self.sbml, self.where, self.model = problem.model.sbml_model, where, model
        self.observables, self.measurements = problem.observable_df, problem.measurement_df
        self.table, self.conditions = problem.parameter_df, problem.condition_df
        for table in (self.observables, self.table, self.conditions):
            table.index = table.index.astype(str)
        for column in ("observableId", "simulationConditionId"):
            self.measurements[column] = self.measurements[column].astype(str)
        self.parameters: list[str] = model["parameters"]
        self.states: list[str] = model["states"]
        self.notes: list[str] = []

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what}")

    def name(self, identifier: str) -> str:
        """What an identifier of the model is called in its equations."""
        return str(self.model["names"].get(identifier, identifier))

    def plain(self) -> dict[str, Any]:
        """What `tables` returns."""
        states = self._observed()
        missing = [s for s in self.states if s not in states]
        if missing:
            raise self.error(f"the state {missing[0]!r} is not observed; every state must be.")
        data = self._data([states[s] for s in self.states])
        bounds, fixed, nominal, log, priors = self._parameters()
        local, overrides = self._conditions(list(data["trajectories"]), fixed)
        fixed = {name: value for name, value in fixed.items() if name not in local} | overrides
        said = {"bounds": bounds, "fixed": fixed, "log": log, "local": local, "priors": priors}
        return {"model": self.model, "data": data, "said": said, "nominal": nominal, "notes": self.notes}

    def _word(self, row: Any, column: str, allowed: tuple[str, ...], default: str) -> str:
        word = str(row.get(column, default)).strip()
        word = default if word in ("nan", "") else word
        if word not in allowed:
            raise self.error(f"{column} of {row.name!r} is {word!r}; only {', '.join(allowed)} can be translated.")
        return word

    def _observed(self) -> dict[str, str]:
        """The observable of each state."""
        found: dict[str, str] = {}
        for identifier, row in self.observables.iterrows():
            formula = str(row["observableFormula"]).strip()
            state = self.name(formula)
            if state not in self.states:
                raise self.error(
                    f"the observable {identifier!r} is {formula!r}; only states themselves can be observed."
                )
            if state in found:
                raise self.error(f"the state {formula!r} has two observables.")
            self._word(row, "noiseDistribution", ("normal",), "normal")
            found[state] = identifier
        unknown = set(self.measurements["observableId"]) - set(found.values())
        if unknown:
            raise self.error(f"the measurement table has {min(unknown)!r}, which is not an observable.")
        return found

    def _data(self, observables: list[str]) -> dict[str, Any]:
        """The measurements, one trajectory for each condition, with the observables as columns."""
        table = self.measurements
        if "preequilibrationConditionId" in table and table["preequilibrationConditionId"].notna().any():
            raise self.error("pre-equilibration cannot be translated.")
        if "observableParameters" in table and table["observableParameters"].notna().any():
            raise self.error("observable parameters cannot be translated; only states themselves can be observed.")
        scales = [
            self._word(self.observables.loc[name], "observableTransformation", tuple(_SCALES), "lin")
            for name in observables
        ]
        trajectories, estimated = {}, set()
        for condition, rows in table.groupby("simulationConditionId", sort=True):
            cells = []
            for column, (name, scale) in enumerate(zip(observables, scales, strict=True)):
                for _, row in rows[rows["observableId"] == name].iterrows():
                    size = self._noise(name, row)
                    if size is None:
                        estimated.add(name)
                    factor = math.log(10) if scale == "log10" else 1.0
                    known = math.nan if size is None else size * factor
                    cells.append((float(row["time"]), column, float(row["measurement"]), known))
            if not all(math.isfinite(t) for t, *_ in cells):
                raise self.error("steady-state measurements (time inf) cannot be translated.")
            trajectories[str(condition)] = _merged(sorted(cells), len(observables))
        if not trajectories:
            raise self.error("the measurement table is empty.")
        if estimated and len(estimated) < len(observables):
            self.notes.append(
                f"The noise of {', '.join(sorted(estimated))} is to be estimated; so that of all observables was."
            )
        noise = [_SCALES[scale] for scale in scales]
        return {"states": self.states, "noise": noise, "sigma": not estimated, "trajectories": trajectories}

    def _noise(self, observable: str, measurement: Any) -> float | None:
        """The standard deviation of a measurement; None if it depends on parameters that are to be estimated."""
        formula = str(self.observables.loc[observable]["noiseFormula"]).strip()
        given = str(measurement.get("noiseParameters", "")).split(";")

        def placed(match: re.Match[str]) -> str:
            k = int(match[1]) - 1
            if k >= len(given) or given[k].strip() in ("", "nan"):
                raise self.error(f"a measurement of {observable!r} lacks its noise parameter {k + 1}.")
            return f"({given[k].strip()})"

        text = re.sub(rf"\bnoiseParameter(\d+)_{re.escape(observable)}\b", placed, formula)
        names = [*self.table.index, *self.model["names"], observable, "time"]
        try:
            expr = parse_expression(text, names, f"noiseFormula of {observable}")
        except ModelError as error:
            raise self.error(str(error)) from None
        used = {str(symbol) for symbol in expr.free_symbols}
        constant = {k: self.model["values"].get(n) for k, n in self.model["names"].items() if n in self.parameters}
        if used - set(self.table.index) - set(constant):
            raise self.error(
                f"the noise of {observable!r} is {formula!r}; noise that depends on states cannot be translated, "
                "except log-normal noise (observableTransformation log)."
            )
        if any(name in self.table.index and self._estimated(name) for name in used):
            return None
        values = {
            name: self.table.loc[name]["nominalValue"] if name in self.table.index else constant[name] for name in used
        }
        return float(expr.subs({symbol: float(values[str(symbol)]) for symbol in expr.free_symbols}))

    def _estimated(self, identifier: str) -> bool:
        value = self.table.loc[identifier]["estimate"]
        if str(value) not in ("0", "1", "0.0", "1.0"):
            raise self.error(f"estimate of {identifier!r} must be 0 or 1; received {value!r}.")
        return bool(int(value))

    def _parameters(self) -> tuple[Any, ...]:
        bounds, fixed, nominal, log, priors = {}, {}, {}, [], {}
        elsewhere = " ".join(
            str(value)
            for table, column in (
                (self.observables, "noiseFormula"),
                (self.measurements, "noiseParameters"),
                *((self.conditions, column) for column in self.conditions),
            )
            if column in table
            for value in table[column].unique()
        )
        for identifier, row in self.table.iterrows():
            name = self.name(identifier)
            if identifier not in self.model["names"] and not re.search(rf"\b{re.escape(identifier)}\b", elsewhere):
                raise self.error(
                    f"the parameter table has {identifier!r}, which nothing uses."
                    f"{suggestion(identifier, self.model['names'])}"
                )
            if identifier in self.model["defined"]:
                raise self.error(f"the parameter table has {identifier!r}, which the model computes from others.")
            if name not in self.parameters:
                continue  # noise parameters and the like
            value = float(row.get("nominalValue", np.nan))
            if not self._estimated(identifier):
                if not math.isfinite(value):
                    raise self.error(f"{identifier!r} is not to be estimated, but has no nominal value.")
                fixed[name] = value
                continue
            if math.isfinite(value):
                nominal[name] = value
            scale = self._word(row, "parameterScale", tuple(_SCALES), "lin")
            if scale != "lin":
                log.append(name)
            bounds[name] = float(row["lowerBound"]), float(row["upperBound"])
            if any(map(math.isnan, bounds[name])):
                raise self.error(f"{identifier!r} is to be estimated, but lacks a bound.")
            kind = self._word(row, "objectivePriorType", _PRIORS, "parameterScaleUniform")
            numbers = str(row.get("objectivePriorParameters", "nan"))
            if numbers in ("nan", "") and not kind.lower().endswith("uniform"):
                raise self.error(f"the prior of {identifier!r} lacks its parameters.")
            if numbers in ("nan", ""):
                continue
            a, b = (float(v) for v in numbers.split(";"))
            if kind == "parameterScaleUniform":
                a, b = ({"lin": v, "log": math.exp(v), "log10": 10.0**v}[scale] for v in (a, b))
            if kind.lower().endswith("uniform"):
                bounds[name] = max(bounds[name][0], a), min(bounds[name][1], b)
            else:
                priors[name] = ("normal", a, b) if kind == "normal" else ("lognormal", math.exp(a), b)
        for name in self.parameters:
            if name not in fixed and name not in bounds:
                if name not in self.model["values"]:
                    raise self.error(
                        f"the parameter {name!r} has no value in the model and no row in the parameter table."
                    )
                fixed[name] = self.model["values"][name]
        return bounds, fixed, nominal, log, priors

    def _conditions(self, labels: list[str], fixed: dict[str, float]) -> tuple[dict[str, list[str]], dict[str, float]]:
        """Parameters that conditions override: fixed at the values of the table, local where there are several."""
        local: dict[str, list[str]] = {}
        found: dict[str, float] = {}
        for column in self.conditions.columns:
            name = self.name(column)
            if self.sbml.getCompartment(column) is not None or column in self.model["defined"]:
                raise self.error(f"the conditions set {column!r}, a compartment or a formula; this is not translated.")
            if name not in self.parameters:
                continue  # names of conditions, initial states: these are estimated
            try:
                numbers = [float(self.conditions[column][label]) for label in labels]
            except (TypeError, ValueError):
                raise self.error(f"the conditions set {column!r} to something that is not a number.") from None
            if not all(map(math.isfinite, numbers)):
                if name not in fixed:
                    raise self.error(f"some conditions do not set {column!r}, which is to be estimated.")
                numbers = [value if math.isfinite(value) else fixed[name] for value in numbers]
            if len(labels) == 1:
                found[name] = numbers[0]
                continue
            local[name] = labels
            found |= {Model.local_name(name, label): value for label, value in zip(labels, numbers, strict=True)}
        return local, found


def _merged(cells: list[tuple[float, int, float, float]], D: int) -> list[Any]:
    """Times, values and standard deviations from cells (time, column, value, σ), repeats in rows of their own."""
    times: list[float] = []
    values: list[list[float]] = []
    sigma: list[list[float]] = []
    for t, column, value, known in cells:
        row = len(times)
        while row > 0 and times[row - 1] == t and math.isnan(values[row - 1][column]):
            row -= 1
        if row == len(times):
            times.append(t)
            values.append([math.nan] * D)
            sigma.append([math.nan] * D)
        values[row][column], sigma[row][column] = value, known
    return [times, values, sigma]
