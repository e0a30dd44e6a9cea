"""From plain tables of a PEtab problem to what they mean."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import symengine as se

from ...model.equations import read_equations, resolved_initial
from ...model.expressions import parse_expression
from ...model.function_table import Expr
from ...model.model import Model
from ...support.errors import ModelError
from ...support.wording import suggestion
from ..formats.sbml import events_of
from .petab_priors import VERSION_1, Prior
from .semantics import Meaning, Measurement, Period, Quantity, folded

SCALES = ("lin", "log", "log10")
DISTRIBUTIONS = {
    "": ("normal", "lin"),
    "normal": ("normal", "lin"),
    "laplace": ("laplace", "lin"),
    "log-normal": ("normal", "log"),
    "log-laplace": ("laplace", "log"),
    "log10-normal": ("normal", "log10"),
}
"""The words of both versions: the distribution, and the scale on which it is one."""


def meaning(found: dict[str, Any], where: str) -> Meaning:
    """From plain tables to expressions."""
    return _Reader(found, where).read()


class _Reader:
    def __init__(self, found: dict[str, Any], where: str) -> None:
        self.found, self.where, self.version = found, where, found["version"]
        self.names: dict[str, str] = found["model"]["names"]
        self.states: list[str] = []
        self.named: dict[str, Expr] = {}
        self.quantities: dict[str, Quantity] = {}
        self._formulas: dict[Any, Expr] = {}

    def error(self, what: str) -> ModelError:
        return ModelError(f"{self.where}: {what}")

    def _absent(self, what: str, name: str, known: Iterable[str]) -> ModelError:
        return self.error(f"{what}, which is not there.{suggestion(name, list(known))}")

    def read(self) -> Meaning:
        """The problem."""
        found, plain = self.found, self.found["model"]
        try:
            read = read_equations(plain["equations"], tuple(plain["parameters"]), ())
        except ModelError as error:
            raise self.error(f"as equations: {error}") from None
        self.states, self.named = list(read.states), dict(read.observables)
        for row in found["parameter"]:
            one = self._quantity(row)
            if one.name in self.quantities:
                raise self.error(f"the parameter table has {one.name!r} twice.")
            self.quantities[one.name] = one
        model = Model(
            read.expressions,
            read.states,
            read.parameters,
            events=events_of(plain, (*read.states, *read.parameters), read.observables),
            switches=read.switches,
        )
        own = {}
        for name in read.parameters:
            if name.endswith("(0)"):
                continue
            key = self._identifier(name)
            if key in self.quantities:
                own[name] = se.Symbol(key)
            elif name in plain["defaults"]:
                own[name] = self._parsed(plain["defaults"][name], f"the value of {key}", ours=True)
            else:
                own[name] = se.RealDouble(plain["values"].get(name, math.nan))
        extra = {key: se.Symbol(key) for key in self.quantities if key not in self.names}
        observables = self._observables()
        experiments, index = self._experiments()
        measurements = tuple(self._measurement(row, observables, index) for row in found["measurement"])
        if not measurements:
            raise self.error("the measurement table is empty.")
        begins = {}
        for state, text in plain["begins"].items():
            begins[state] = self._parsed(text, f"the initial value of {state}", ours=True)
        begins, _ = resolved_initial(begins)
        used = {m.experiment for m in measurements}
        lacking = [
            s
            for s in read.states
            if s not in begins and not all(s in e[1][0].values for k, e in enumerate(experiments) if k in used)
        ]
        if lacking:
            raise self.error(f"the state {lacking[0]!r} has no initial value.")
        meaning = Meaning(
            model,
            tuple(self.quantities.values()),
            own | extra,
            begins,
            experiments,
            measurements,
        )
        return folded(meaning)

    def _identifier(self, name: str) -> str:
        return next((key for key, ours in self.names.items() if ours == name), name)

    def _number(self, text: str, what: str, default: float = math.nan) -> float:
        if text.strip() in ("", "nan", "NaN", "NA"):
            return default
        try:
            return float(text)
        except ValueError:
            raise self.error(f"{what} must be a number; received {text!r}.") from None

    def _quantity(self, row: dict[str, str]) -> Quantity:
        name = row.get("parameterId", "")
        if not name:
            raise self.error("the parameter table has a row without parameterId.")
        if name in self.named or name in self.states:
            raise self.error(f"the parameter table has {name!r}, which the model computes.")
        scale = row.get("parameterScale", "lin") or "lin"
        if scale not in SCALES:
            raise self.error(f"parameterScale of {name!r} is {scale!r}; expected one of {', '.join(SCALES)}.")
        word = row.get("estimate", "").lower()
        if word not in ("0", "1", "0.0", "1.0", "true", "false"):
            raise self.error(f"estimate of {name!r} must be 0 or 1 (true or false); received {word!r}.")
        estimate = word in ("1", "1.0", "true")
        lower, upper = (
            self._number(row.get(key, ""), f"{key} of {name!r}", default)
            for key, default in (("lowerBound", -math.inf), ("upperBound", math.inf))
        )
        nominal = self._number(row.get("nominalValue", ""), f"nominalValue of {name!r}")
        if math.isinf(nominal):
            raise self.error(f"nominalValue of {name!r} must be finite.")
        if not estimate and math.isnan(nominal):
            raise self.error(f"{name!r} is not to be estimated, but has no nominal value.")
        if estimate and not lower < upper:
            raise self.error(f"the bounds of {name!r} are {lower:g} and {upper:g}; the first must be the smaller.")
        prior = self._prior(row, name, (lower, upper)) if estimate else None
        return Quantity(name, scale, lower, upper, nominal, estimate=estimate, prior=prior)

    def _prior(self, row: dict[str, str], name: str, bounds: tuple[float, float]) -> Prior | None:
        first = self.version == 1
        kind = row.get("objectivePriorType" if first else "priorDistribution", "")
        text = row.get("objectivePriorParameters" if first else "priorParameters", "")
        if first and (not kind or (kind == "parameterScaleUniform" and not text)):
            return None
        if not kind:
            if not all(map(math.isfinite, bounds)):
                return None
            return Prior("uniform", bounds)
        numbers = tuple(self._number(part, f"the prior of {name!r}") for part in text.split(";") if part.strip())
        scaled = first and kind.startswith("parameterScale")
        word = kind.removeprefix("parameterScale") if scaled else kind
        word = word[:1].lower() + word[1:] if scaled else VERSION_1.get(word, word)
        if word == "uniform" and not numbers:
            return None
        try:
            low, high = (-math.inf, math.inf) if first else bounds
            return Prior(word, numbers, low, high, scaled)
        except ModelError as error:
            raise self.error(f"{name!r}: {error}") from None

    def _ours(self, text: str, inside: Mapping[str, str]) -> str:
        """A formula in our own names, with placeholders replaced."""
        text = text.replace("&&", " and ").replace("||", " or ")

        def word(match: re.Match[str]) -> str:
            name = match[0]
            if name in inside:
                return f"({self._ours(inside[name], {k: v for k, v in inside.items() if k != name})})"
            if name in self.names:
                return self.names[name]
            return "t" if name == "time" else name

        return re.sub(r"(?<![\w.])[^\W\d]\w*", word, text)

    def _parsed(self, text: str, what: str, inside: Mapping[str, str] | None = None, ours: bool = False) -> Expr:
        """A formula as an expression of time, states, and parameters."""
        shown = text if ours else self._ours(text, inside or {})
        extra = [key for key in self.quantities if key not in self.names]
        begun = [f"{state}(0)" for state in self.states] if ours else []
        known = ["t", *self.states, *begun, *self.found["model"]["parameters"], *self.named, *extra]
        try:
            expr = parse_expression(shown, dict.fromkeys(known), what)
        except ModelError as error:
            raise self.error(str(error)) from None
        return expr.subs({se.Symbol(name): e for name, e in self.named.items()}) if self.named else expr

    def _observables(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = {}
        for row in self.found["observable"]:
            name = row.get("observableId", "")
            if not name or not row.get("observableFormula"):
                raise self.error("the observable table has a row without observableId or observableFormula.")
            if name in found:
                raise self.error(f"the observable table has {name!r} twice.")
            found[name] = row
        return found

    def _experiments(self) -> tuple[tuple[tuple[str, tuple[Period, ...]], ...], dict[tuple[str, ...], int]]:
        """Experiments, and the place of each by what the measurement table calls it."""
        conditions = self._conditions()
        found: list[tuple[str, tuple[Period, ...]]] = []
        index: dict[tuple[str, ...], int] = {}
        if self.version == 1:
            for row in self.found["measurement"]:
                key = row.get("preequilibrationConditionId", ""), row.get("simulationConditionId", "")
                if key in index:
                    continue
                for name in key:
                    if name and name not in conditions:
                        raise self._absent(f"the measurement table has the condition {name!r}", name, conditions)
                periods = [Period(-math.inf, conditions[key[0]])] if key[0] else []
                periods.append(Period(0.0, conditions.get(key[1], {})))
                index[key] = len(found)
                found.append((key[1] if not key[0] else f"{key[0]} then {key[1]}", tuple(periods)))
            return tuple(found), index
        rows: dict[str, list[tuple[float, str]]] = {}
        for row in self.found["experiment"]:
            time = self._number(row.get("time", ""), "the time of an experiment")
            rows.setdefault(row.get("experimentId", ""), []).append((time, row.get("conditionId", "")))
        rows[""] = rows.get("", [(0.0, "")])
        for label, entries in rows.items():
            begins: dict[float, dict[str, Expr]] = {}
            for time, name in sorted(entries, key=lambda entry: entry[0]):
                if name and name not in conditions:
                    raise self._absent(f"the experiment {label!r} has the condition {name!r}", name, conditions)
                begins.setdefault(time, {}).update(conditions.get(name, {}))
            if list(begins) == [-math.inf]:
                begins[0.0] = {}
            index[(label,)] = len(found)
            found.append((label, tuple(Period(time, values) for time, values in begins.items())))
        return tuple(found), index

    def _conditions(self) -> dict[str, dict[str, Expr]]:
        found: dict[str, dict[str, Expr]] = {}
        for row in self.found["condition"]:
            name = row.get("conditionId", "")
            if not name:
                raise self.error("the condition table has a row without conditionId.")
            if self.version == 2:
                found.setdefault(name, {})[self._target(row.get("targetId", ""))] = self._parsed(
                    row.get("targetValue", ""), f"the value of {row.get('targetId')} in {name}"
                )
                continue
            if name in found:
                raise self.error(f"the condition table has {name!r} twice.")
            found[name] = {
                self._target(column): self._parsed(text, f"the value of {column} in {name}")
                for column, text in row.items()
                if column not in ("conditionId", "conditionName") and text not in ("", "nan", "NaN")
            }
        return found

    def _target(self, identifier: str) -> str:
        name = self.names.get(identifier, identifier)
        if name in self.named:
            raise self.error(f"a condition sets {identifier!r}, which the model computes.")
        if name not in self.states and name not in self.found["model"]["parameters"]:
            raise self.error(
                f"a condition sets {identifier!r}, which the model does not have.{suggestion(identifier, self.names)}"
            )
        return name

    def _measurement(
        self, row: dict[str, str], observables: dict[str, dict[str, str]], index: dict[Any, int]
    ) -> Measurement:
        name = row.get("observableId", "")
        if name not in observables:
            raise self._absent(f"the measurement table has the observable {name!r}", name, observables)
        about = observables[name]
        inside: dict[str, str] = {}
        given: dict[str, int] = {}
        for what in ("observable", "noise"):
            values = [v.strip() for v in row.get(f"{what}Parameters", "").split(";") if v.strip()]
            given[what] = len(values)
            if self.version == 1:
                placed = {f"{what}Parameter{k + 1}_{name}": v for k, v in enumerate(values)}
            else:
                places = [v.strip() for v in about.get(f"{what}Placeholders", "").split(";") if v.strip()]
                if len(places) != len(values):
                    raise self.error(
                        f"{name!r} has {len(places)} {what} placeholders, a measurement gives {len(values)}."
                    )
                placed = dict(zip(places, values, strict=True))
            inside |= placed
        formula = self._cached(about["observableFormula"], f"observableFormula of {name}", inside)
        noise = about.get("noiseFormula", "")
        if not noise:
            raise self.error(f"{name!r} has no noiseFormula.")
        for what, formula_ in (("observable", about["observableFormula"]), ("noise", noise)):
            most = max(map(int, re.findall(rf"{what}Parameter(\d+)_{re.escape(name)}(?!\w)", formula_)), default=0)
            if self.version == 1 and given[what] != most:
                raise self.error(f"{name!r} has {most} {what} parameters, a measurement gives {given[what]}.")
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", noise):
            sigma = self._cached(noise, f"noiseFormula of {name}", {**inside, name: about["observableFormula"]})
        else:
            sigma = self._cached(noise, f"noiseFormula of {name}", inside)
        word = about.get("noiseDistribution", "").strip()
        if word not in DISTRIBUTIONS:
            raise self.error(
                f"noiseDistribution of {name!r} is {word!r}; expected one of {', '.join(filter(None, DISTRIBUTIONS))}."
            )
        if self.version == 1 and word not in ("", "normal", "laplace"):
            raise self.error(f"noiseDistribution of {name!r} is {word!r}; in version 1 it is normal or laplace.")
        distribution, scale = DISTRIBUTIONS[word]
        if self.version == 1:
            scale = about.get("observableTransformation", "") or "lin"
            if scale not in SCALES:
                raise self.error(
                    f"observableTransformation of {name!r} is {scale!r}; expected one of {', '.join(SCALES)}."
                )
        key = (
            (row.get("preequilibrationConditionId", ""), row.get("simulationConditionId", ""))
            if self.version == 1
            else (row.get("experimentId", ""),)
        )
        if key not in index:
            raise self._absent(f"the measurement table has the experiment {key[-1]!r}", key[-1], [k[-1] for k in index])
        value = self._number(row.get("measurement", ""), f"a measurement of {name!r}")
        time = self._number(row.get("time", ""), f"the time of a measurement of {name!r}")
        if math.isnan(time) or not math.isfinite(value) or time == -math.inf:
            raise self.error(f"a measurement of {name!r} lacks its time or its value, or they are not finite.")
        if scale != "lin" and value <= 0:
            raise self.error(f"a measurement of {name!r} is {value:g}; on a logarithmic scale it must be positive.")
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

    def _cached(self, text: str, what: str, inside: Mapping[str, str]) -> Expr:
        key = (text, tuple(sorted(inside.items())))
        if key not in self._formulas:
            self._formulas[key] = self._parsed(text, what, inside)
        return self._formulas[key]
