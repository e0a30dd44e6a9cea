"""PEtab problems (version 1) whose observables are states.

Each condition is a trajectory; what its table overrides becomes a local parameter, fixed there. Scales, bounds, nominal
values and normal priors of the parameter table are taken over; log-transformed observables are log-normal noise.
Initial states are always estimated. What goes beyond this (observables that are formulas, pre-equilibration, Laplace
noise) is named in the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data import Dataset
from ..errors import DataError, ModelError
from ..model import Model
from .sbml import from_sbml

if TYPE_CHECKING:
    from ..result import FitResult


@dataclass(frozen=True)
class PetabProblem:
    """What a PEtab problem says, in the words of `fit`.

    Attributes
    ----------
    model : Model
    data : Dataset
    bounds : dict of str to pair of float
    fixed, nominal : dict of str to float
    log : list of str
        Parameters on a logarithmic scale.
    local : dict of str to list of str
        Parameters that conditions override.
    priors : dict of str to tuple
    """

    model: Model
    data: Dataset
    bounds: dict[str, tuple[float, float]] = field(default_factory=dict)
    fixed: dict[str, float] = field(default_factory=dict)
    nominal: dict[str, float] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    local: dict[str, list[str]] = field(default_factory=dict)
    priors: dict[str, tuple[str, float, float]] = field(default_factory=dict)

    def fit(self, **more: Any) -> FitResult:
        """Fit it; arguments as for `fit`."""
        from ..fitting import fit

        told = {
            "bounds": self.bounds,
            "fixed": self.fixed,
            "log": self.log,
            "local": self.local,
            "priors": self.priors,
        }
        return fit(self.model, self.data, **{**told, **more})


def read_petab(path: str | Path) -> PetabProblem:
    """A problem from its YAML file."""
    try:
        import libsbml
        import petab.v1 as petab
    except ImportError:
        raise ModelError("PEtab needs its library; install it with: pip install 'weakform[petab]'") from None
    path = Path(path)
    if not path.is_file():
        raise ModelError(f"There is no PEtab problem {path}.")
    try:
        problem = petab.Problem.from_yaml(str(path))
        text = libsbml.writeSBMLToString(problem.model.sbml_document)
    except Exception as error:  # whatever the library makes of a broken problem
        raise ModelError(f"{path} is not a PEtab problem: {type(error).__name__}: {error}") from None
    try:
        return _Reader(problem, text, str(path)).problem()
    except KeyError as error:
        raise ModelError(f"{path}: the column or entry {error} is missing.") from None


class _Reader:
    def __init__(self, problem: Any, sbml: str, where: str) -> None:
        self.problem_, self.where = problem, where
        self.file = from_sbml(sbml, where)

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what}")

    def problem(self) -> PetabProblem:
        p = self.problem_
        states = self._observables(p.observable_df)
        data = self._data(p.measurement_df, states, p.observable_df)
        bounds, fixed, nominal, log, priors = self._parameters(p.parameter_df)
        local, overrides = self._conditions(p.condition_df, [q.label for q in data.trajectories])
        fixed = {name: value for name, value in fixed.items() if name not in local} | overrides
        missing = [s for s in self.file.model.states if s not in states]
        if missing:
            raise self.error(f"the state {missing[0]!r} is not observed; every state must be.")
        return PetabProblem(self.file.model, data, bounds, fixed, nominal, log, local, priors)

    def _observables(self, table: Any) -> dict[str, str]:
        """The observable of each state."""
        found: dict[str, str] = {}
        for identifier, row in table.iterrows():
            formula = str(row["observableFormula"]).strip()
            if formula not in self.file.model.states:
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

    def _data(self, table: Any, states: dict[str, str], observables: Any) -> Dataset:
        if "preequilibrationConditionId" in table and table["preequilibrationConditionId"].notna().any():
            raise self.error("pre-equilibration cannot be translated.")
        names = [s for s in self.file.model.states if s in states]
        kinds = []
        for name in names:
            scale = str(observables.loc[states[name]].get("observableTransformation", "lin"))
            kinds.append("lognormal" if scale in ("log", "log10") else "gaussian")
        sigma = self._sigma(names, states, observables, table, kinds)
        parts, labels = [], []
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
            try:
                t, u = _merged(np.array(times)[order], np.array(values)[order])
                parts.append(Dataset(t, u, kinds, sigma, states=names))
            except DataError as error:
                raise self.error(f"condition {condition}: {error}") from None
            labels.append(str(condition))
        return parts[0] if len(parts) == 1 else Dataset.join(parts, labels)

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
        known = self.file.model.parameters
        for name in known:
            if name not in table.index:
                value = {**self.file.start, **self.file.fixed}.get(name)
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
            if column not in self.file.model.parameters:
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
