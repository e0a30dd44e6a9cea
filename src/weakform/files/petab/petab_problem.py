"""A PEtab problem as people use it: its likelihood, its simulations, its fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...support.array_types import FloatArray
from ...support.errors import FitError, ModelError
from ...support.optional_imports import pandas
from ...support.whole_numbers import is_whole
from ...support.wording import suggestion
from ..formats.subprocess_reader import ask
from .petab_likelihood import Likelihood, Predicted
from .petab_priors import on_scale
from .petab_reader import meaning
from .semantics import Meaning

if TYPE_CHECKING:
    from .maximum_likelihood import PetabFit


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
        return -self.likelihood.value(self._predicted(parameters))

    def chi2(self, parameters: Mapping[str, float] | None = None) -> float:
        """Sum of squared residuals over their noise; parameters as for `log_likelihood`."""
        r = self.likelihood.residuals(self._predicted(parameters))
        return float(r @ r)

    def log_priors(self, parameters: Mapping[str, float] | None = None) -> dict[str, float]:
        """The logarithm of each prior, by parameter."""
        pairs = zip(self.found.quantities, self._theta(parameters), strict=True)
        return {q.name: q.log_prior(float(x)) for q, x in pairs if q.prior is not None}

    def log_posterior(self, parameters: Mapping[str, float] | None = None) -> float:
        """Log-likelihood and log-priors together, not normalised."""
        return self.log_likelihood(parameters) + sum(self.log_priors(parameters).values())

    def simulate(self, parameters: Mapping[str, float] | None = None) -> Any:
        """Predictions of all measurements as a PEtab simulation table, a pandas frame."""
        pd = pandas()

        found = self._predicted(parameters)
        rows = []
        for m, y in zip(self.found.measurements, found.y, strict=True):
            row: dict[str, Any] = {k: v for k, v in m.row.items() if k != "measurement"}
            rows.append({**row, "time": m.time, "simulation": float(y)})
        return pd.DataFrame(rows)

    def fit(
        self,
        *,
        starts: int | None = None,
        seed: int = 0,
        time_limit: float = 60.0,
        progress: Callable[[str], None] | None = None,
    ) -> PetabFit:
        """The maximum of the likelihood (of the posterior, where there are priors) inside the bounds.

        Parameters
        ----------
        starts : int, optional
            How many draws are followed; by default until three agree, or the time is over.
        seed : int
        time_limit : float
            CPU seconds.
        progress : callable, optional
            Called with a line of text after each start.
        """
        from .maximum_likelihood import maximum

        if starts is not None and not is_whole(starts, 1):
            raise FitError(f"starts must be a whole number, at least 1; received {starts!r}.")
        if not time_limit > 0:
            raise FitError(f"time_limit must be a positive number of seconds; received {time_limit!r}.")
        return maximum(self, starts, seed, float(time_limit), progress)

    def scaled(self, values: FloatArray) -> FloatArray:
        """Values `(..., estimated)` of what is to be estimated, each on its scale."""
        columns = [
            np.vectorize(partial(on_scale, q.scale), otypes=[float])(values[..., k])
            for k, q in enumerate(q for q in self.found.quantities if q.estimate)
        ]
        return np.stack(columns, axis=-1)

    def to_pypesto_objective(self) -> Any:
        """Minus the log-likelihood as an objective of pyPESTO, with gradient and expected Hessian.

        Its argument is what is to be estimated, each on the scale of its row in the parameter table. Priors are left to
        pyPESTO.
        """
        try:
            from pypesto import Objective as Pesto
        except ImportError:
            raise FitError("pyPESTO is not installed; install it with: pip install pypesto") from None
        keep = [k for k, q in enumerate(self.found.quantities) if q.estimate]
        scales = [self.found.quantities[k].scale for k in keep]

        def at(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta = self.likelihood.nominal.copy()
            bases = np.array([{"lin": 0.0, "log": 1.0, "log10": math.log(10)}[s] for s in scales])
            natural = np.where(bases > 0, np.exp(np.asarray(x) * bases), x)
            theta[keep] = natural
            return theta, np.where(bases > 0, natural * bases, 1.0)

        def value(x: FloatArray) -> float:
            return self.likelihood.value(self.likelihood.predicted(at(x)[0]))

        def both(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta, pace = at(x)
            found = self.likelihood.predicted(theta, True)
            if found is None:
                return np.full(len(keep), np.nan), np.full((len(keep), len(keep)), np.nan)
            g, H = self.likelihood.derivatives(found)
            return g[keep] * pace, H[np.ix_(keep, keep)] * np.outer(pace, pace)

        return Pesto(fun=value, grad=lambda x: both(x)[0], hess=lambda x: both(x)[1], x_names=list(self.nominal))

    def __repr__(self) -> str:
        estimated = len(self.nominal)
        return (
            f"<PetabProblem {self.name}: {len(self.found.model.states)} states, {estimated} parameters to estimate, "
            f"{len(self.found.measurements)} measurements in {len(self.found.experiments)} experiments>"
        )


def read_petab(path: str | Path) -> PetabProblem:
    """A problem from its YAML file.

    Parameters
    ----------
    path : str or Path
        The YAML file of a problem of version 1 or 2, with an SBML model.

    Returns
    -------
    PetabProblem

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.read_petab("examples/bertozzi/problem.yaml")
    >>> round(problem.log_likelihood(), 3)
    -158.864
    """
    if not isinstance(path, str | Path):
        raise ModelError(f"The path of a PEtab problem is needed; received {path!r}.")
    return PetabProblem(Path(path).stem, meaning(ask("petab", str(path), str(path)), str(path)))
