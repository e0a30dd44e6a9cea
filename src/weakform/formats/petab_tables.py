"""PEtab problems (version 1) as plain data; runs in a process of its own (see `isolated`)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelError
from ..model import Model
from .translate import equations_of_sbml


def tables(path: str, where: str) -> dict[str, Any]:
    """A problem from its YAML file.

    Returns
    -------
    dict
        `model`, as `equations_of_sbml` returns it; `data`; `told`, arguments of `fit`; `nominal` values.
    """
    try:
        import libsbml
        import petab.v1 as petab
    except ImportError:
        raise ModelError("PEtab needs its library; install it with: pip install 'weakform[petab]'") from None
    if not Path(path).is_file():
        raise ModelError(f"There is no PEtab problem {where}.")
    try:
        problem = petab.Problem.from_yaml(path)
        text = libsbml.writeSBMLToString(problem.model.sbml_document)
    except Exception as error:  # whatever the library makes of a broken problem
        raise ModelError(f"{where} is not a PEtab problem: {type(error).__name__}: {str(error)[:1000]}") from None
    try:
        return _Reader(problem, equations_of_sbml(text, where), where).plain()
    except KeyError as error:
        raise ModelError(f"{where}: the column or entry {error} is missing.") from None
    except (TypeError, ValueError, AttributeError) as error:
        if isinstance(error, ModelError):
            raise
        raise ModelError(f"{where}: a table of it is broken: {str(error)[:1000]}") from None


class _Reader:
    """One problem, in plain data."""

    def __init__(self, problem: Any, model: dict[str, Any], where: str) -> None:
        self.problem, self.where, self.model = problem, where, model
        self.parameters: list[str] = model["parameters"]
        self.states: list[str] = model["states"]

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what}")

    def plain(self) -> dict[str, Any]:
        """What `tables` returns."""
        p = self.problem
        states = self._observables(p.observable_df)
        missing = [s for s in self.states if s not in states]
        if missing:
            raise self.error(f"the state {missing[0]!r} is not observed; every state must be.")
        data = self._data(p.measurement_df, states, p.observable_df)
        bounds, fixed, nominal, log, priors = self._parameters(p.parameter_df)
        local, overrides = self._conditions(p.condition_df, list(data["trajectories"]))
        fixed = {name: value for name, value in fixed.items() if name not in local} | overrides
        told = {"bounds": bounds, "fixed": fixed, "log": log, "local": local, "priors": priors}
        return {"model": self.model, "data": data, "told": told, "nominal": nominal}

    def _observables(self, table: Any) -> dict[str, str]:
        """The observable of each state."""
        found: dict[str, str] = {}
        for identifier, row in table.iterrows():
            formula = str(row["observableFormula"]).strip()
            if formula not in self.states:
                raise self.error(
                    f"the observable {identifier!r} is {formula!r}; only states themselves can be observed."
                )
            if formula in found:
                raise self.error(f"the state {formula!r} has two observables.")
            if str(row.get("noiseDistribution", "normal")) not in ("normal", "nan"):
                raise self.error(
                    f"the noise of {identifier!r} is {row['noiseDistribution']}; only normal noise is fitted."
                )
            found[formula] = str(identifier)
        return found

    def _data(self, table: Any, states: dict[str, str], observables: Any) -> dict[str, Any]:
        if "preequilibrationConditionId" in table and table["preequilibrationConditionId"].notna().any():
            raise self.error("pre-equilibration cannot be translated.")
        names = [s for s in self.states if s in states]
        kinds = []
        for name in names:
            scale = str(observables.loc[states[name]].get("observableTransformation", "lin"))
            kinds.append("lognormal" if scale in ("log", "log10") else "gaussian")
        sigma = self._sigma(names, states, observables, table, kinds)
        trajectories = {}
        for condition, rows in table.groupby("simulationConditionId", sort=True):
            times, values = [], []
            for column, name in enumerate(names):
                mine = rows[rows["observableId"] == states[name]]
                for t, value in zip(mine["time"], mine["measurement"], strict=True):
                    row = np.full(len(names), np.nan)
                    row[column] = float(value)
                    times.append(float(t))
                    values.append(row)
            if not all(map(math.isfinite, times)):
                raise self.error("steady-state measurements (time inf) cannot be translated.")
            order = np.argsort(times, kind="stable")
            t, u = _merged(np.array(times)[order], np.array(values)[order])
            trajectories[str(condition)] = [t.tolist(), u.tolist()]
        if not trajectories:
            raise self.error("the measurement table is empty.")
        return {"states": names, "noise": kinds, "sigma": sigma, "trajectories": trajectories}

    def _sigma(
        self, names: list[str], states: dict[str, str], observables: Any, table: Any, kinds: list[str]
    ) -> list[float] | None:
        """Numbers where the noise formulas are numbers; None, to be estimated, where they are parameters."""
        found = []
        for name, kind in zip(names, kinds, strict=True):
            text = str(observables.loc[states[name]].get("noiseFormula", "1")).strip()
            if text.startswith("noiseParameter") and "noiseParameters" in table:
                mine = table[table["observableId"] == states[name]]["noiseParameters"].astype(str).unique()
                text = mine[0] if len(mine) == 1 else ""
            try:
                size = float(text)
            except ValueError:
                return None
            if kind == "lognormal" and observables.loc[states[name]].get("observableTransformation") == "log10":
                size *= math.log(10)
            found.append(size)
        return found

    def _parameters(self, table: Any) -> tuple[Any, ...]:
        bounds, fixed, nominal, log, priors = {}, {}, {}, [], {}
        known = self.parameters
        for name in known:
            if name not in table.index:
                value = self.model["values"].get(name)
                if value is None:
                    raise self.error(
                        f"the parameter {name!r} has no value in the model and no row in the parameter table."
                    )
                fixed[name] = value
        for name, row in table.iterrows():
            if name not in known:
                continue  # noise parameters and the like
            value = float(row.get("nominalValue", np.nan))
            if not int(row["estimate"]):
                fixed[str(name)] = value
                continue
            bounds[str(name)] = (float(row["lowerBound"]), float(row["upperBound"]))
            if math.isfinite(value):
                nominal[str(name)] = value
            if str(row.get("parameterScale", "lin")) in ("log", "log10"):
                log.append(str(name))
            kind = str(row.get("objectivePriorType", "nan"))
            if kind in ("normal", "logNormal"):
                centre, spread = (float(v) for v in str(row["objectivePriorParameters"]).split(";"))
                priors[str(name)] = (
                    ("normal", centre, spread) if kind == "normal" else ("lognormal", math.exp(centre), spread)
                )
            elif kind not in ("nan", "uniform", "parameterScaleUniform", ""):
                raise self.error(f"the prior {kind!r} of {name!r} cannot be translated.")
        return bounds, fixed, nominal, log, priors

    def _conditions(self, table: Any, labels: list[str]) -> tuple[dict[str, list[str]], dict[str, float]]:
        """Parameters that conditions override: local, and fixed at the values of the table."""
        local: dict[str, list[str]] = {}
        fixed: dict[str, float] = {}
        for column in table.columns if table is not None else ():
            if self.problem.model.sbml_model.getCompartment(column) is not None:
                raise self.error(f"the conditions set the size of the compartment {column!r}, which is not translated.")
            if column not in self.parameters:
                continue  # names of conditions, initial states: these are estimated
            values = table[column]
            try:
                numbers = [float(values[label]) for label in labels] if len(labels) > 1 else [float(values.iloc[0])]
            except (TypeError, ValueError):
                raise self.error(f"the conditions set {column!r} to something that is not a number.") from None
            if len(labels) < 2:
                fixed[column] = numbers[0]
                continue
            local[column] = labels
            fixed |= {Model.local_name(column, label): v for label, v in zip(labels, numbers, strict=True)}
        return local, fixed


def _merged(times: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    """Rows of different states at one time as one row; repeats of one state stay rows of their own."""
    rows: list[tuple[float, Any]] = []
    for t, row in zip(times, values, strict=True):
        there = np.isfinite(row)
        for k in range(len(rows) - 1, -1, -1):
            if rows[k][0] != t:
                k = -1
                break
            if not np.isfinite(rows[k][1][there]).any():
                rows[k][1][there] = row[there]
                break
        else:
            k = -1
        if k < 0:
            rows.append((float(t), row.copy()))
    return np.array([t for t, _ in rows]), np.array([row for _, row in rows])
