"""PEtab problems in the public interface: likelihood, simulations and fit."""

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
from ...support.optional_imports import import_pandas
from ...support.whole_numbers import is_whole
from ...support.wording import suggest_name
from ..formats.subprocess_reader import run_in_subprocess
from .petab_likelihood import PetabLikelihood, PredictedMeasurements
from .petab_priors import convert_to_scale
from .petab_reader import interpret_tables
from .semantics import ProblemContents

if TYPE_CHECKING:
    from .maximum_likelihood import PetabFit


@dataclass(frozen=True)
class PetabProblem:
    """A PEtab problem, of version 1 or 2.

    Attributes
    ----------
    name : str
        Name of its YAML file without the ending.
    found : ProblemContents
        The contents of its tables.
    """

    name: str
    found: ProblemContents

    @cached_property
    def likelihood(self) -> PetabLikelihood:
        """The likelihood of the problem, with the default tolerance of forward solutions."""
        return PetabLikelihood(self.found)

    @property
    def nominal(self) -> dict[str, float]:
        """Nominal values, by name, of the parameters to be estimated."""
        return {q.name: q.nominal for q in self.found.quantities if q.estimate}

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        """Bounds, by name, of the parameters to be estimated."""
        return {q.name: (q.lower, q.upper) for q in self.found.quantities if q.estimate}

    def _collect_quantities(self, parameters: Mapping[str, float] | None) -> FloatArray:
        """Return all quantities `(P,)`: the given values, and the nominal values of the others.

        Raises
        ------
        FitError
            If a name is not in the parameter table, or a value is missing.
        """
        if not isinstance(parameters, Mapping | None):
            raise FitError(f"parameters must be a mapping from names to values; received {parameters!r}.")
        names = [q.name for q in self.found.quantities]
        for name in parameters or {}:
            if name not in names:
                raise FitError(f"{name!r} is not in the parameter table.{suggest_name(str(name), names)}")
        theta = np.array([float((parameters or {}).get(q.name, q.nominal)) for q in self.found.quantities])
        if np.isnan(theta).any():
            raise FitError(
                f"{names[int(np.argmax(np.isnan(theta)))]!r} has no nominal value; give a value for it in parameters."
            )
        return theta

    def _predict(self, parameters: Mapping[str, float] | None) -> PredictedMeasurements:
        """Return the predictions of all measurements; raise `FitError` if there are none."""
        predicted = self.likelihood.predict(self._collect_quantities(parameters))
        if predicted is None:
            raise FitError(
                "There is no prediction with these parameters: the model cannot be solved, a steady state does not "
                "exist, or a noise is not positive. Check the values."
            )
        return predicted

    def log_likelihood(self, parameters: Mapping[str, float] | None = None) -> float:
        """Return the log-likelihood of the measurements.

        Parameters
        ----------
        parameters : mapping of str to float, optional
            Values by name, on the linear scale; parameters that are missing have their nominal values.

        Returns
        -------
        float

        Raises
        ------
        FitError
            If a name is unknown, a value is missing, or the model cannot be solved.
        """
        return -self.likelihood.compute_value(self._predict(parameters))

    def chi2(self, parameters: Mapping[str, float] | None = None) -> float:
        """Return χ², the sum of the squares of the residuals, each of which is divided by its noise.

        Parameters
        ----------
        parameters : mapping of str to float, optional
            As for `log_likelihood`.

        Returns
        -------
        float
        """
        r = self.likelihood.compute_residuals(self._predict(parameters))
        return float(r @ r)

    def log_priors(self, parameters: Mapping[str, float] | None = None) -> dict[str, float]:
        """Return the logarithm of each prior.

        Parameters
        ----------
        parameters : mapping of str to float, optional
            As for `log_likelihood`.

        Returns
        -------
        dict of str to float
            By parameter.
        """
        pairs = zip(self.found.quantities, self._collect_quantities(parameters), strict=True)
        return {q.name: q.compute_log_prior(float(x)) for q, x in pairs if q.prior is not None}

    def log_posterior(self, parameters: Mapping[str, float] | None = None) -> float:
        """Return the sum of log-likelihood and log-priors, which is the log-posterior up to a constant.

        Parameters
        ----------
        parameters : mapping of str to float, optional
            As for `log_likelihood`.

        Returns
        -------
        float
        """
        return self.log_likelihood(parameters) + sum(self.log_priors(parameters).values())

    def simulate(self, parameters: Mapping[str, float] | None = None) -> Any:
        """Return the predictions of all measurements as a PEtab simulation table.

        Parameters
        ----------
        parameters : mapping of str to float, optional
            As for `log_likelihood`.

        Returns
        -------
        pandas.DataFrame
            The columns of the measurement table, with `simulation` in place of `measurement`.
        """
        pd = import_pandas()

        predicted = self._predict(parameters)
        rows = []
        for m, y in zip(self.found.measurements, predicted.y, strict=True):
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
        """Maximise the likelihood inside the bounds; if there are priors, the posterior.

        Parameters
        ----------
        starts : int, optional
            Number of draws that are followed; by default until three reach the same likelihood or the time is over.
        seed : int
            Seed of the draws.
        time_limit : float
            CPU seconds.
        progress : callable, optional
            Called with a line of text after each start.

        Returns
        -------
        PetabFit

        Raises
        ------
        FitError
            If an argument is wrong, nothing is to be estimated, or the model cannot be solved.
        """
        from .maximum_likelihood import maximise_likelihood

        if starts is not None and not is_whole(starts, 1):
            raise FitError(f"starts must be a whole number, at least 1; received {starts!r}.")
        if not time_limit > 0:
            raise FitError(f"time_limit must be a positive number of seconds; received {time_limit!r}.")
        return maximise_likelihood(self, starts, seed, float(time_limit), progress)

    def scaled(self, values: FloatArray) -> FloatArray:
        """Convert values of the estimated parameters to their scales.

        Parameters
        ----------
        values : ndarray, (..., estimated)
            On the linear scale.

        Returns
        -------
        ndarray, (..., estimated)
        """
        columns = [
            np.vectorize(partial(convert_to_scale, q.scale), otypes=[float])(values[..., k])
            for k, q in enumerate(q for q in self.found.quantities if q.estimate)
        ]
        return np.stack(columns, axis=-1)

    def to_pypesto_objective(self) -> Any:
        """Return minus the log-likelihood as an objective of pyPESTO, with gradient and expected Hessian.

        Its argument is the vector of estimated parameters, each on the scale of its row in the parameter table. Priors
        are not included: pyPESTO adds its own.

        Returns
        -------
        pypesto.Objective

        Raises
        ------
        FitError
            If pyPESTO is not installed.
        """
        try:
            from pypesto import Objective as Pesto
        except ImportError:
            raise FitError("pyPESTO is not installed; install it with: pip install pypesto") from None
        keep = [k for k, q in enumerate(self.found.quantities) if q.estimate]
        scales = [self.found.quantities[k].scale for k in keep]

        # θ = exp(x log b) on a scale of base b, with derivative θ log b. `bases` holds log b, and 0 for linear scales.
        def quantities_at(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta = self.likelihood.nominal.copy()
            bases = np.array([{"lin": 0.0, "log": 1.0, "log10": math.log(10)}[s] for s in scales])
            natural = np.where(bases > 0, np.exp(np.asarray(x) * bases), x)
            theta[keep] = natural
            return theta, np.where(bases > 0, natural * bases, 1.0)

        def value_at(x: FloatArray) -> float:
            return self.likelihood.compute_value(self.likelihood.predict(quantities_at(x)[0]))

        def derivatives_at(x: FloatArray) -> tuple[FloatArray, FloatArray]:
            theta, by_scaled = quantities_at(x)
            predicted = self.likelihood.predict(theta, True)
            if predicted is None:
                return np.full(len(keep), np.nan), np.full((len(keep), len(keep)), np.nan)
            g, H = self.likelihood.compute_derivatives(predicted)
            return g[keep] * by_scaled, H[np.ix_(keep, keep)] * np.outer(by_scaled, by_scaled)

        return Pesto(
            fun=value_at,
            grad=lambda x: derivatives_at(x)[0],
            hess=lambda x: derivatives_at(x)[1],
            x_names=list(self.nominal),
        )

    def __repr__(self) -> str:
        estimated = len(self.nominal)
        return (
            f"<PetabProblem {self.name}: {len(self.found.model.states)} states, {estimated} parameters to estimate, "
            f"{len(self.found.measurements)} measurements in {len(self.found.experiments)} experiments>"
        )


def read_petab(path: str | Path) -> PetabProblem:
    """Read a PEtab problem from its YAML file.

    Parameters
    ----------
    path : str or Path
        The YAML file of a problem of version 1 or 2, with an SBML model.

    Returns
    -------
    PetabProblem

    Raises
    ------
    ModelError
        If a file is missing or wrong, or the problem uses something that is not supported.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.read_petab("examples/bertozzi/problem.yaml")
    >>> round(problem.log_likelihood(), 3)
    -158.864
    """
    if not isinstance(path, str | Path):
        raise ModelError(f"The path of a PEtab problem must be a text or a Path; received {path!r}.")
    return PetabProblem(Path(path).stem, interpret_tables(run_in_subprocess("petab", str(path), str(path)), str(path)))
