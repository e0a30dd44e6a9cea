"""A PEtab problem as people use it: its likelihood, its simulations, its fit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...support.errors import FitError
from ...support.messages import suggestion
from ...support.typing import FloatArray
from ..formats.isolated import ask
from .likelihood import Likelihood, Predicted
from .meaning import Meaning, meaning


@dataclass(frozen=True)
class PetabProblem:
    """A PEtab problem, of version 1 or 2.

    Attributes
    ----------
    name : str
    found : Meaning
        What its tables say.
    """

    name: str
    found: Meaning

    @cached_property
    def likelihood(self) -> Likelihood:
        """What evaluates it."""
        return Likelihood(self.found)

    @property
    def nominal(self) -> dict[str, float]:
        """Nominal values of what is to be estimated."""
        return {q.name: q.nominal for q in self.found.quantities if q.estimate}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Bounds of what is to be estimated."""
        return {q.name: (q.lower, q.upper) for q in self.found.quantities if q.estimate}

    def _theta(self, parameters: Mapping[str, float] | None) -> FloatArray:
        """All quantities `(P,)`: those given, and the nominal values of the others."""
        if not isinstance(parameters, Mapping | None):
            raise FitError(f"parameters must be a mapping from names to values; received {parameters!r}.")
        names = [q.name for q in self.found.quantities]
        for name in parameters or {}:
            if name not in names:
                raise FitError(f"{name!r} is not in the parameter table.{suggestion(str(name), names)}")
        theta = np.array([float((parameters or {}).get(q.name, q.nominal)) for q in self.found.quantities])
        if np.isnan(theta).any():
            raise FitError(f"{names[int(np.argmax(np.isnan(theta)))]!r} has no nominal value; give one.")
        return theta

    def _predicted(self, parameters: Mapping[str, float] | None) -> Predicted:
        found = self.likelihood.predicted(self._theta(parameters))
        if found is None:
            raise FitError(
                "The model cannot be solved with these parameters, a steady state does not exist, or a noise is not "
                "positive; check the values."
            )
        return found

    def log_likelihood(self, parameters: Mapping[str, float] | None = None) -> float:
        """Of the measurements; with the nominal values where nothing is given.

        Parameters
        ----------
        parameters : mapping, optional
            Values by name, on the linear scale; nominal values of those that are left out.
        """
        return float(self.likelihood.log_densities(self._predicted(parameters)).sum())

    def chi2(self, parameters: Mapping[str, float] | None = None) -> float:
        """Sum of squared residuals over their noise; parameters as for `log_likelihood`."""
        r = self.likelihood.residuals(self._predicted(parameters))
        return float(r @ r)

    def log_priors(self, parameters: Mapping[str, float] | None = None) -> dict[str, float]:
        """The logarithm of each prior, by parameter."""
        theta, found = self._theta(parameters), {}
        for q, x in zip(self.found.quantities, theta, strict=True):
            if q.prior is not None:
                found[q.name] = q.prior.log(_scaled(x, q.scale) if q.prior.scaled else float(x))
        return found

    def log_posterior(self, parameters: Mapping[str, float] | None = None) -> float:
        """Log-likelihood and log-priors together, not normalised."""
        return self.log_likelihood(parameters) + sum(self.log_priors(parameters).values())

    def simulate(self, parameters: Mapping[str, float] | None = None) -> Any:
        """Predictions of all measurements as a PEtab simulation table, a pandas frame."""
        import pandas as pd

        found = self._predicted(parameters)
        rows = []
        for m, y in zip(self.found.measurements, found.y, strict=True):
            row: dict[str, Any] = {k: v for k, v in m.row.items() if k != "measurement"}
            rows.append({**row, "time": m.time, "simulation": float(y)})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        estimated = len(self.nominal)
        return (
            f"<PetabProblem {self.name}: {len(self.found.model.states)} states, {estimated} parameters to estimate, "
            f"{len(self.found.measurements)} measurements in {len(self.found.experiments)} experiments>"
        )


def _scaled(x: float, scale: str) -> float:
    if scale == "lin":
        return float(x)
    return math.log(x) if scale == "log" else math.log10(x)


def read_petab(path: str | Path) -> PetabProblem:
    """A problem from its YAML file.

    Parameters
    ----------
    path : str or Path
        The YAML file of a problem of version 1 or 2, with an SBML model.
    """
    return PetabProblem(Path(path).stem, meaning(ask("petab", str(path), str(path)), str(path)))
