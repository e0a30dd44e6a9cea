"""The interpretation of the tables of a PEtab problem: formulas become expressions, conditions become periods.

One class interprets both versions of PEtab and branches where they differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import symengine as se

from ...model.equations import read_equations, resolve_initial_values
from ...model.expressions import parse_expression
from ...model.function_table import Expr
from ...model.model import Model
from ...support.errors import ModelError
from ...support.wording import suggest_name
from ..formats.sbml import build_events
from .petab_priors import VERSION_1_KINDS, PetabPrior
from .semantics import Measurement, Period, ProblemContents, TableQuantity, substitute_constants

PARAMETER_SCALES = ("lin", "log", "log10")
"""Scales of parameters and of observables."""
NOISE_DISTRIBUTIONS = {
    "": ("normal", "lin"),
    "normal": ("normal", "lin"),
    "laplace": ("laplace", "lin"),
    "log-normal": ("normal", "log"),
    "log-laplace": ("laplace", "log"),
    "log10-normal": ("normal", "log10"),
}
"""Noise distributions of both versions: the distribution, and the scale on which the noise has it."""


def interpret_tables(tables: dict[str, Any], where: str) -> ProblemContents:
    """Interpret the tables of a problem.

    Parameters
    ----------
    tables : dict
        As `petab_tables.read_tables` returns it.
    where : str
        Name of the problem in errors.

    Returns
    -------
    ProblemContents

    Raises
    ------
    ModelError
        For the first entry that is wrong; the message names the table and the entry.
    """
    return _TableInterpreter(tables, where).interpret()


class _TableInterpreter:
    """The interpretation of the tables of one problem.

    Parameters
    ----------
    tables : dict
        As `petab_tables.read_tables` returns it.
    where : str
        Name of the problem in errors.

    Attributes
    ----------
    names : dict of str to str
        Our name for each identifier of the model.
    states : list of str
    named_expressions : dict of str to expression
        Named expressions of the model, which are substituted into formulas.
    quantities : dict of str to TableQuantity
        Rows of the parameter table.
    """

    def __init__(self, tables: dict[str, Any], where: str) -> None:
        self.tables, self.where, self.version = tables, where, tables["version"]
        self.names: dict[str, str] = tables["model"]["names"]
        self.states: list[str] = []
        self.named_expressions: dict[str, Expr] = {}
        self.quantities: dict[str, TableQuantity] = {}
        self._formulas: dict[Any, Expr] = {}

    def build_error(self, what: str) -> ModelError:
        """Return an error whose message begins with the name of the problem."""
        return ModelError(f"{self.where}: {what}")

    def _build_missing_error(self, what: str, name: str, candidates: Iterable[str]) -> ModelError:
        """Return an error for a name that does not exist, with a suggestion."""
        return self.build_error(f"{what}, which does not exist.{suggest_name(name, list(candidates))}")

    def interpret(self) -> ProblemContents:
        """Interpret all tables, and return their contents."""
        tables, model_table = self.tables, self.tables["model"]
        try:
            equations = read_equations(model_table["equations"], tuple(model_table["parameters"]), ())
        except ModelError as error:
            raise self.build_error(f"as equations: {error}") from None
        self.states, self.named_expressions = list(equations.states), dict(equations.observables)
        for row in tables["parameter"]:
            quantity = self._read_quantity(row)
            if quantity.name in self.quantities:
                raise self.build_error(f"the parameter table has {quantity.name!r} twice.")
            self.quantities[quantity.name] = quantity
        model = Model(
            equations.expressions,
            equations.states,
            equations.parameters,
            events=build_events(model_table, (*equations.states, *equations.parameters), equations.observables),
            switches=equations.switches,
        )
        parameter_values = {}
        for name in equations.parameters:
            if name.endswith("(0)"):
                continue  # an initial value, which `initial_values` contains
            key = self._find_identifier(name)
            if key in self.quantities:
                parameter_values[name] = se.Symbol(key)
            elif name in model_table["defaults"]:
                parameter_values[name] = self._parse_formula(
                    model_table["defaults"][name], f"the value of {key}", ours=True
                )
            else:
                parameter_values[name] = se.RealDouble(model_table["values"].get(name, math.nan))
        # Quantities that the model does not have occur in formulas of observables and noise.
        extra = {key: se.Symbol(key) for key in self.quantities if key not in self.names}
        observables = self._read_observables()
        experiments, index = self._read_experiments()
        measurements = tuple(self._read_measurement(row, observables, index) for row in tables["measurement"])
        if not measurements:
            raise self.build_error("the measurement table is empty.")
        initial_values = {}
        for state, text in model_table["begins"].items():
            initial_values[state] = self._parse_formula(text, f"the initial value of {state}", ours=True)
        initial_values, _ = resolve_initial_values(initial_values)
        # A condition of the first period may give an initial value instead of the model.
        used = {m.experiment for m in measurements}
        without_initial = [
            s
            for s in equations.states
            if s not in initial_values and not all(s in e[1][0].values for k, e in enumerate(experiments) if k in used)
        ]
        if without_initial:
            raise self.build_error(f"the state {without_initial[0]!r} has no initial value.")
        contents = ProblemContents(
            model,
            tuple(self.quantities.values()),
            parameter_values | extra,
            initial_values,
            experiments,
            measurements,
        )
        return substitute_constants(contents)

    def _find_identifier(self, name: str) -> str:
        """Return the identifier of the model that one of our names stands for."""
        return next((key for key, ours in self.names.items() if ours == name), name)

    def _read_number(self, text: str, what: str, default: float = math.nan) -> float:
        """Return a cell as a number; `default` if it is empty or marked as missing."""
        if text.strip() in ("", "nan", "NaN", "NA"):
            return default
        try:
            return float(text)
        except ValueError:
            raise self.build_error(f"{what} must be a number; received {text!r}.") from None

    def _read_quantity(self, row: dict[str, str]) -> TableQuantity:
        """Interpret a row of the parameter table."""
        name = row.get("parameterId", "")
        if not name:
            raise self.build_error("the parameter table has a row without parameterId.")
        if name in self.named_expressions or name in self.states:
            raise self.build_error(f"the parameter table has {name!r}, which the model computes.")
        scale = row.get("parameterScale", "lin") or "lin"
        if scale not in PARAMETER_SCALES:
            raise self.build_error(
                f"parameterScale of {name!r} is {scale!r}; expected one of {', '.join(PARAMETER_SCALES)}."
            )
        estimate_text = row.get("estimate", "").lower()
        if estimate_text not in ("0", "1", "0.0", "1.0", "true", "false"):
            raise self.build_error(f"estimate of {name!r} must be 0 or 1 (true or false); received {estimate_text!r}.")
        estimate = estimate_text in ("1", "1.0", "true")
        lower, upper = (
            self._read_number(row.get(key, ""), f"{key} of {name!r}", default)
            for key, default in (("lowerBound", -math.inf), ("upperBound", math.inf))
        )
        nominal = self._read_number(row.get("nominalValue", ""), f"nominalValue of {name!r}")
        if math.isinf(nominal):
            raise self.build_error(f"nominalValue of {name!r} must be finite.")
        if not estimate and math.isnan(nominal):
            raise self.build_error(f"{name!r} is not to be estimated, but has no nominal value.")
        if estimate and not lower < upper:
            raise self.build_error(f"the bounds of {name!r} are {lower:g} and {upper:g}; the first must be smaller.")
        prior = self._read_prior(row, name, (lower, upper)) if estimate else None
        return TableQuantity(name, scale, lower, upper, nominal, estimate=estimate, prior=prior)

    def _read_prior(self, row: dict[str, str], name: str, bounds: tuple[float, float]) -> PetabPrior | None:
        """Interpret the prior of a row of the parameter table.

        In version 1 a prior may be a density of the parameter on its scale, and is not truncated. In version 2 it is
        truncated at the bounds, and a parameter without a prior has a uniform one if its bounds are finite.
        """
        is_version_1 = self.version == 1
        kind = row.get("objectivePriorType" if is_version_1 else "priorDistribution", "")
        text = row.get("objectivePriorParameters" if is_version_1 else "priorParameters", "")
        if is_version_1 and (not kind or (kind == "parameterScaleUniform" and not text)):
            return None
        if not kind:
            if not all(map(math.isfinite, bounds)):
                return None
            return PetabPrior("uniform", bounds)
        numbers = tuple(self._read_number(part, f"the prior of {name!r}") for part in text.split(";") if part.strip())
        scaled = is_version_1 and kind.startswith("parameterScale")
        prior_kind = kind.removeprefix("parameterScale") if scaled else kind
        prior_kind = prior_kind[:1].lower() + prior_kind[1:] if scaled else VERSION_1_KINDS.get(prior_kind, prior_kind)
        if prior_kind == "uniform" and not numbers:
            return None
        try:
            low, high = (-math.inf, math.inf) if is_version_1 else bounds
            return PetabPrior(prior_kind, numbers, low, high, scaled)
        except ModelError as error:
            raise self.build_error(f"{name!r}: {error}") from None

    def _rewrite_names(self, text: str, placeholders: Mapping[str, str]) -> str:
        """Rewrite a formula in our own names.

        Parameters
        ----------
        text : str
        placeholders : mapping of str to str
            Formulas of placeholders, which may contain other placeholders; none is expanded again inside
            itself, so that the expansion ends.

        Returns
        -------
        str
        """
        text = text.replace("&&", " and ").replace("||", " or ")

        def rewrite(match: re.Match[str]) -> str:
            name = match[0]
            if name in placeholders:
                return (
                    f"({self._rewrite_names(placeholders[name], {k: v for k, v in placeholders.items() if k != name})})"
                )
            if name in self.names:
                return self.names[name]
            return "t" if name == "time" else name

        return re.sub(r"(?<![\w.])[^\W\d]\w*", rewrite, text)

    def _parse_formula(
        self, text: str, what: str, placeholders: Mapping[str, str] | None = None, ours: bool = False
    ) -> Expr:
        """Parse a formula.

        Parameters
        ----------
        text : str
        what : str
            Name of the formula in errors.
        placeholders : mapping of str to str, optional
            Formulas of placeholders.
        ours : bool
            Whether the text is in our names already, as in the translated model.

        Returns
        -------
        expression
            Of time, states, parameters and quantities.
        """
        formula = text if ours else self._rewrite_names(text, placeholders or {})
        extra = [key for key in self.quantities if key not in self.names]
        initial_names = [f"{state}(0)" for state in self.states] if ours else []
        allowed = [
            "t",
            *self.states,
            *initial_names,
            *self.tables["model"]["parameters"],
            *self.named_expressions,
            *extra,
        ]
        try:
            expr = parse_expression(formula, dict.fromkeys(allowed), what)
        except ModelError as error:
            raise self.build_error(str(error)) from None
        return (
            expr.subs({se.Symbol(name): e for name, e in self.named_expressions.items()})
            if self.named_expressions
            else expr
        )

    def _read_observables(self) -> dict[str, dict[str, str]]:
        """Return the rows of the observable table by identifier."""
        rows: dict[str, dict[str, str]] = {}
        for row in self.tables["observable"]:
            name = row.get("observableId", "")
            if not name or not row.get("observableFormula"):
                raise self.build_error("the observable table has a row without observableId or observableFormula.")
            if name in rows:
                raise self.build_error(f"the observable table has {name!r} twice.")
            rows[name] = row
        return rows

    def _read_experiments(self) -> tuple[tuple[tuple[str, tuple[Period, ...]], ...], dict[tuple[str, ...], int]]:
        """Interpret the experiments.

        In version 1 an experiment is a pair of conditions, one for the pre-equilibration and one for the simulation; in
        version 2 it is a list of periods.

        Returns
        -------
        experiments : tuple of (str, tuple of Period)
        index : dict of tuple to int
            Position of each experiment by the entries of the measurement table that refer to it.
        """
        conditions = self._read_conditions()
        experiments: list[tuple[str, tuple[Period, ...]]] = []
        index: dict[tuple[str, ...], int] = {}
        if self.version == 1:
            for row in self.tables["measurement"]:
                key = row.get("preequilibrationConditionId", ""), row.get("simulationConditionId", "")
                if key in index:
                    continue
                for name in key:
                    if name and name not in conditions:
                        raise self._build_missing_error(
                            f"the measurement table has the condition {name!r}", name, conditions
                        )
                periods = [Period(-math.inf, conditions[key[0]])] if key[0] else []
                periods.append(Period(0.0, conditions.get(key[1], {})))
                index[key] = len(experiments)
                experiments.append((key[1] if not key[0] else f"{key[0]} then {key[1]}", tuple(periods)))
            return tuple(experiments), index
        rows: dict[str, list[tuple[float, str]]] = {}
        for row in self.tables["experiment"]:
            time = self._read_number(row.get("time", ""), "the time of an experiment")
            rows.setdefault(row.get("experimentId", ""), []).append((time, row.get("conditionId", "")))
        # Measurements without an experiment belong to one that begins at zero and changes nothing.
        rows[""] = rows.get("", [(0.0, "")])
        for label, entries in rows.items():
            values_by_time: dict[float, dict[str, Expr]] = {}
            for time, name in sorted(entries, key=lambda entry: entry[0]):
                if name and name not in conditions:
                    raise self._build_missing_error(
                        f"the experiment {label!r} has the condition {name!r}", name, conditions
                    )
                values_by_time.setdefault(time, {}).update(conditions.get(name, {}))
            # Measurements after a pre-equilibration alone begin at zero.
            if list(values_by_time) == [-math.inf]:
                values_by_time[0.0] = {}
            index[(label,)] = len(experiments)
            experiments.append((label, tuple(Period(time, values) for time, values in values_by_time.items())))
        return tuple(experiments), index

    def _read_conditions(self) -> dict[str, dict[str, Expr]]:
        """Return the new values of each condition, by name of the parameter or state that it sets."""
        conditions: dict[str, dict[str, Expr]] = {}
        for row in self.tables["condition"]:
            name = row.get("conditionId", "")
            if not name:
                raise self.build_error("the condition table has a row without conditionId.")
            if self.version == 2:
                conditions.setdefault(name, {})[self._find_target(row.get("targetId", ""))] = self._parse_formula(
                    row.get("targetValue", ""), f"the value of {row.get('targetId')} in {name}"
                )
                continue
            if name in conditions:
                raise self.build_error(f"the condition table has {name!r} twice.")
            conditions[name] = {
                self._find_target(column): self._parse_formula(text, f"the value of {column} in {name}")
                for column, text in row.items()
                if column not in ("conditionId", "conditionName") and text not in ("", "nan", "NaN")
            }
        return conditions

    def _find_target(self, identifier: str) -> str:
        """Return our name for the parameter or state that a condition sets; raise if no condition can set it."""
        name = self.names.get(identifier, identifier)
        if name in self.named_expressions:
            raise self.build_error(f"a condition sets {identifier!r}, which the model computes.")
        if name not in self.states and name not in self.tables["model"]["parameters"]:
            raise self.build_error(
                f"a condition sets {identifier!r}, which the model does not have.{suggest_name(identifier, self.names)}"
            )
        return name

    def _read_measurement(
        self, row: dict[str, str], observables: dict[str, dict[str, str]], index: dict[Any, int]
    ) -> Measurement:
        """Interpret a row of the measurement table.

        Parameters
        ----------
        row : dict of str to str
        observables : dict of str to dict
            Rows of the observable table.
        index : dict of tuple to int
            Position of each experiment by the entries of the measurement table that refer to it.

        Returns
        -------
        Measurement
        """
        name = row.get("observableId", "")
        if name not in observables:
            raise self._build_missing_error(f"the measurement table has the observable {name!r}", name, observables)
        observable_row = observables[name]
        placeholders: dict[str, str] = {}
        value_counts: dict[str, int] = {}
        for what in ("observable", "noise"):
            values = [v.strip() for v in row.get(f"{what}Parameters", "").split(";") if v.strip()]
            value_counts[what] = len(values)
            if self.version == 1:
                replacements = {f"{what}Parameter{k + 1}_{name}": v for k, v in enumerate(values)}
            else:
                placeholder_names = [
                    v.strip() for v in observable_row.get(f"{what}Placeholders", "").split(";") if v.strip()
                ]
                if len(placeholder_names) != len(values):
                    raise self.build_error(
                        f"{name!r} has {len(placeholder_names)} {what} placeholders, but a measurement gives "
                        f"{len(values)}."
                    )
                replacements = dict(zip(placeholder_names, values, strict=True))
            placeholders |= replacements
        formula = self._parse_cached(observable_row["observableFormula"], f"observableFormula of {name}", placeholders)
        noise = observable_row.get("noiseFormula", "")
        if not noise:
            raise self.build_error(f"{name!r} has no noiseFormula.")
        for what, template in (("observable", observable_row["observableFormula"]), ("noise", noise)):
            placeholder_count = max(
                map(int, re.findall(rf"{what}Parameter(\d+)_{re.escape(name)}(?!\w)", template)), default=0
            )
            if self.version == 1 and value_counts[what] != placeholder_count:
                raise self.build_error(
                    f"{name!r} has {placeholder_count} {what} parameters, but a measurement gives {value_counts[what]}."
                )
        # The noise may depend on the prediction: the name of the observable then stands for its formula.
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", noise):
            sigma = self._parse_cached(
                noise, f"noiseFormula of {name}", {**placeholders, name: observable_row["observableFormula"]}
            )
        else:
            sigma = self._parse_cached(noise, f"noiseFormula of {name}", placeholders)
        distribution_name = observable_row.get("noiseDistribution", "").strip()
        if distribution_name not in NOISE_DISTRIBUTIONS:
            raise self.build_error(
                f"noiseDistribution of {name!r} is {distribution_name!r}; "
                f"expected one of {', '.join(filter(None, NOISE_DISTRIBUTIONS))}."
            )
        if self.version == 1 and distribution_name not in ("", "normal", "laplace"):
            raise self.build_error(
                f"noiseDistribution of {name!r} is {distribution_name!r}; in version 1 it is normal or laplace."
            )
        distribution, scale = NOISE_DISTRIBUTIONS[distribution_name]
        if self.version == 1:
            scale = observable_row.get("observableTransformation", "") or "lin"
            if scale not in PARAMETER_SCALES:
                raise self.build_error(
                    f"observableTransformation of {name!r} is {scale!r}; expected one of {', '.join(PARAMETER_SCALES)}."
                )
        key = (
            (row.get("preequilibrationConditionId", ""), row.get("simulationConditionId", ""))
            if self.version == 1
            else (row.get("experimentId", ""),)
        )
        if key not in index:
            raise self._build_missing_error(
                f"the measurement table has the experiment {key[-1]!r}", key[-1], [k[-1] for k in index]
            )
        value = self._read_number(row.get("measurement", ""), f"a measurement of {name!r}")
        time = self._read_number(row.get("time", ""), f"the time of a measurement of {name!r}")
        if math.isnan(time) or not math.isfinite(value) or time == -math.inf:
            raise self.build_error(f"a measurement of {name!r} lacks its time or its value, or they are not finite.")
        if scale != "lin" and value <= 0:
            raise self.build_error(
                f"a measurement of {name!r} is {value:g}; on a logarithmic scale it must be positive."
            )
        return Measurement(
            index[key],
            time,
            value,
            formula,
            sigma,
            distribution=distribution,
            scale=scale,
            observable=name,
            row=row,
        )

    def _parse_cached(self, text: str, what: str, placeholders: Mapping[str, str]) -> Expr:
        """Parse a formula once for all measurements that have it with the same placeholders."""
        key = (text, tuple(sorted(placeholders.items())))
        if key not in self._formulas:
            self._formulas[key] = self._parse_formula(text, what, placeholders)
        return self._formulas[key]
