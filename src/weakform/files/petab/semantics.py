"""The contents of a PEtab problem as records: quantities, experiments and measurements, with formulas as expressions.

Version 1 is expressed in the terms of version 2: an experiment is a list of periods, the first of which may begin at
minus infinity (pre-equilibration); at its beginning a period may give parameters and states new values. Formulas
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
from .petab_priors import PetabPrior, convert_to_scale


@dataclass(frozen=True)
class TableQuantity:
    """A row of the parameter table.

    Attributes
    ----------
    name : str
    scale : str
        `lin`, `log` or `log10`.
    lower, upper : float
        Bounds on the linear scale.
    nominal : float
        NaN if the table has none.
    estimate : bool
        Whether it is estimated or fixed at its nominal value.
    prior : PetabPrior, or None
    """

    name: str
    scale: str
    lower: float
    upper: float
    nominal: float
    estimate: bool
    prior: PetabPrior | None = None

    def compute_log_prior(self, x: float) -> float:
        """Return the logarithm of the prior at a value on the linear scale; zero without a prior."""
        if self.prior is None:
            return 0.0
        return self.prior.compute_log_density(convert_to_scale(self.scale, x) if self.prior.scaled else x)


@dataclass(frozen=True)
class Period:
    """A period of an experiment.

    Attributes
    ----------
    begin : float
        Minus infinity for a pre-equilibration.
    values : mapping of str to expression
        Parameters and states that change at its beginning, in terms of all values before.
    """

    begin: float
    values: Mapping[str, Expr]


@dataclass(frozen=True)
class Measurement:
    """A row of the measurement table.

    Attributes
    ----------
    experiment : int
        Position of its experiment.
    time : float
        Infinity for a steady state.
    value : float
    formula, sigma : expression
        The observable and its noise, with their placeholders replaced.
    distribution : str
        `normal` or `laplace`.
    scale : str
        Scale on which the noise has that distribution.
    observable : str
    row : dict of str to str
        The row itself, for the table of simulations.
    """

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
class ProblemContents:
    """The contents of a problem.

    Attributes
    ----------
    model : Model
        Without initial values; its parameters are those of the right-hand side.
    quantities : tuple of TableQuantity
    parameter_values : dict of str to expression
        Value of each parameter of the model and of formulas, in terms of quantities or of other parameters; a condition
        may replace it.
    initial_values : dict of str to expression
        Initial values of states, in terms of the names in `parameter_values`.
    experiments : tuple of (str, tuple of Period)
        Name and periods of each experiment.
    measurements : tuple of Measurement
    """

    model: Model
    quantities: tuple[TableQuantity, ...]
    parameter_values: dict[str, Expr]
    initial_values: dict[str, Expr]
    experiments: tuple[tuple[str, tuple[Period, ...]], ...]
    measurements: tuple[Measurement, ...]


def substitute_constants(contents: ProblemContents) -> ProblemContents:
    """Substitute parameters that are the same number in all experiments into the equations.

    Forward solutions then have fewer sensitivities.

    Parameters
    ----------
    contents : ProblemContents

    Returns
    -------
    ProblemContents

    Raises
    ------
    ModelError
        If such a parameter has no value.
    """
    # A parameter that a condition sets has more than one value, so it must stay.
    set_by = {name for _, periods in contents.experiments for period in periods for name in period.values}
    numbers = {name: e for name, e in contents.parameter_values.items() if e.is_Number and name not in set_by}
    used = contents.model.restrict_to_observables(()).parameters
    without_value = [name for name, e in numbers.items() if name in used and math.isnan(float(e))]
    if without_value:
        raise ModelError(f"the parameter {without_value[0]!r} of the model has no value.")
    substitutions = {se.Symbol(name): e for name, e in numbers.items()}
    model = contents.model.substitute_parameters(
        {n: e for n, e in numbers.items() if n in contents.model.parameters}, drop=True
    )
    model = model.restrict_to_observables(())

    def substitute(expr: Expr) -> Expr:
        return expr.subs(substitutions)

    return replace(
        contents,
        model=model,
        parameter_values={name: substitute(e) for name, e in contents.parameter_values.items() if name not in numbers},
        initial_values={name: substitute(e) for name, e in contents.initial_values.items()},
        experiments=tuple(
            (label, tuple(Period(q.begin, {n: substitute(e) for n, e in q.values.items()}) for q in periods))
            for label, periods in contents.experiments
        ),
        measurements=tuple(
            replace(m, formula=substitute(m.formula), sigma=substitute(m.sigma)) for m in contents.measurements
        ),
    )
