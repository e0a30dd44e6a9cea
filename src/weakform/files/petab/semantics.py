"""What the tables of a PEtab problem mean: parameters, experiments and measurements as expressions.

All of version 1 is said in the words of version 2: an experiment is a list of periods, the first of which may reach
back to minus infinity (pre-equilibration); at its beginning a period gives parameters and states new values. Formulas
are parsed by our own parser, in our own names.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import symengine as se

from ...model.function_table import Expr
from ...model.model import Model
from ...support.errors import ModelError
from .petab_priors import Prior, on_scale


@dataclass(frozen=True)
class Quantity:
    """A row of the parameter table."""

    name: str
    scale: str
    lower: float
    upper: float
    nominal: float
    estimate: bool
    prior: Prior | None = None

    def log_prior(self, x: float) -> float:
        """The logarithm of its prior at a value on the linear scale; zero without one."""
        if self.prior is None:
            return 0.0
        return self.prior.log(on_scale(self.scale, x) if self.prior.scaled else x)


@dataclass(frozen=True)
class Period:
    """From a time on some parameters and states have new values, in terms of what they all were before."""

    begin: float
    values: Mapping[str, Expr]


@dataclass(frozen=True)
class Measurement:
    """One row of the measurement table."""

    experiment: int
    time: float
    value: float
    formula: Expr
    sigma: Expr
    distribution: str
    scale: str
    observable: str
    row: dict[str, str]


@dataclass(frozen=True)
class Meaning:
    """A problem.

    Attributes
    ----------
    model : Model
        Without initial values; its parameters are those that the right-hand side has.
    quantities : tuple of Quantity
    own : dict of str to expression
        Every parameter of the model and of formulas, as it is where no condition says anything: in terms of quantities,
        or of other parameters.
    begins : dict of str to expression
        Initial values, in terms of `own`.
    experiments : tuple of (str, tuple of Period)
    measurements : tuple of Measurement
    """

    model: Model
    quantities: tuple[Quantity, ...]
    own: dict[str, Expr]
    begins: dict[str, Expr]
    experiments: tuple[tuple[str, tuple[Period, ...]], ...]
    measurements: tuple[Measurement, ...]


def folded(found: Meaning) -> Meaning:
    """Parameters that are one number in all experiments, put into the equations."""
    set_by = {name for _, periods in found.experiments for period in periods for name in period.values}
    numbers = {name: e for name, e in found.own.items() if e.is_Number and name not in set_by}
    used = found.model.measured_by(()).parameters
    lost = [name for name, e in numbers.items() if name in used and math.isnan(float(e))]
    if lost:
        raise ModelError(f"the parameter {lost[0]!r} of the model has no value.")
    here = {se.Symbol(name): e for name, e in numbers.items()}
    model = found.model.substituted({n: e for n, e in numbers.items() if n in found.model.parameters}, drop=True)
    model = model.measured_by(())

    def put(expr: Expr) -> Expr:
        return expr.subs(here)

    return replace(
        found,
        model=model,
        own={name: put(e) for name, e in found.own.items() if name not in numbers},
        begins={name: put(e) for name, e in found.begins.items()},
        experiments=tuple(
            (label, tuple(Period(q.begin, {n: put(e) for n, e in q.values.items()}) for q in periods))
            for label, periods in found.experiments
        ),
        measurements=tuple(replace(m, formula=put(m.formula), sigma=put(m.sigma)) for m in found.measurements),
    )
