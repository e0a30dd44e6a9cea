"""Which model: fits of the same data side by side.

Akaike weights are `exp(-Δ/2)` of the corrected criterion, made to sum to one. Where one model is another with
parameters fixed or tied, twice the difference of their log-likelihoods is χ² with as many degrees of freedom as there
are parameters less, if the smaller one is right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.trajectory import Trajectory
from ..inference.information_criteria import maximum, unknowns
from ..results.fit_result import FitResult
from ..support.errors import FitError
from ..support.optional_imports import pandas
from .nested_models import Nested, nested

APART, NONE = 4.0, 10.0
"""Differences of the criterion above which a model has less support than the best, and next to none."""
LEVEL = 0.05


@dataclass(frozen=True)
class Rival:
    """One model of a comparison.

    Attributes
    ----------
    name : str
    fit : FitResult
    log_likelihood : float
        The maximum.
    free : int
        What was estimated: parameters, initial values and σ.
    aic, aicc, bic : float
    delta, weight : float
        By the corrected criterion, from the best one.
    verdict : str
        Of the test of the model.
    left_out : float, or None
        Mean log-density of blocks of samples that were left out, where that was asked for.
    """

    name: str
    fit: FitResult
    log_likelihood: float
    free: int
    aic: float
    aicc: float
    bic: float
    delta: float
    weight: float
    verdict: str
    left_out: float | None = None


@dataclass(frozen=True, repr=False)
class Comparison:
    """Models side by side, the best first.

    Attributes
    ----------
    rivals : tuple of Rival
    nested : tuple of Nested
    corrected : bool
        Whether differences are of the corrected criterion; of the plain one where there are too few values for it.
    """

    rivals: tuple[Rival, ...]
    nested: tuple[Nested, ...]
    corrected: bool = True

    @property
    def criterion(self) -> str:
        """What models are compared by."""
        return "AICc" if self.corrected else "AIC"

    @property
    def best(self) -> str:
        """The name of the best."""
        return self.rivals[0].name

    def __getitem__(self, name: str) -> Rival:
        for rival in self.rivals:
            if rival.name == name:
                return rival
        raise KeyError(f"No model {name!r}; there are: {', '.join(rival.name for rival in self.rivals)}.")

    @property
    def sentence(self) -> str:
        """Which models the data can tell apart, in words."""
        sound = [rival for rival in self.rivals if rival.fit.converged]
        if not sound:
            return "No model was fitted to the end; nothing can be said."
        near = [r.name for r in self.rivals if r.delta < APART]
        less = [r.name for r in self.rivals if APART <= r.delta < NONE]
        none = [r.name for r in self.rivals if r.delta >= NONE]
        said = []
        if len(near) == 1:
            said.append(f"The data prefer {near[0]}.")
        else:
            said.append(f"The data cannot tell {_listed(near)} apart.")
        if less:
            said.append(f"{_listed(less)} {'has' if len(less) == 1 else 'have'} much less support.")
        if none:
            said.append(f"{_listed(none)} {'has' if len(none) == 1 else 'have'} next to no support.")
        best = self.rivals[0]
        if best.verdict == "rejected":
            said.append(f"But even {best.name} does not fit: none of them is the right model.")
        elif not best.fit.success:
            said.append(f"But the fit of {best.name} is no success ({best.verdict}).")
        pulled = [r.name for r in self.rivals if r.fit.prior is not None]
        if pulled:
            said.append(
                f"{_listed(pulled)} stand{'s' * (len(pulled) == 1)} at the maximum of the posterior, not of the "
                "likelihood: priors pull there."
            )
        told = [r for r in self.rivals if r.left_out is not None]
        if told:
            foresees = max(told, key=lambda r: r.left_out or 0.0)
            said.append(f"What was left out is foreseen best by {foresees.name}.")
        if not self.corrected:
            said.append("There are too few values for the corrected criterion; the plain one prefers large models.")
        return " ".join(said)

    def told(self, one: Nested) -> str:
        """A test of nested models, in words."""
        what = "costs nothing that the data see" if one.p_value > LEVEL else "is refuted"
        if self[one.large].verdict == "rejected":
            what = "cannot be judged, since even the larger one does not fit"
        return (
            f"{one.small} is {one.large} with {one.freedom} parameter{'s' * (one.freedom > 1)} less: that {what} "
            f"(likelihood ratio {one.statistic:.2f}, p = {one.p_value:.2g})."
        )

    def to_frame(self) -> Any:
        """The table as a pandas frame."""
        pd = pandas()

        rows = [
            {
                "model": r.name,
                "log_likelihood": r.log_likelihood,
                "free": r.free,
                "aic": r.aic,
                "aicc": r.aicc,
                "bic": r.bic,
                "delta": r.delta,
                "weight": r.weight,
                "verdict": r.verdict,
                **({} if r.left_out is None else {"left_out": r.left_out}),
            }
            for r in self.rivals
        ]
        return pd.DataFrame(rows).set_index("model")

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.rivals)} models>\n{self}"

    def __str__(self) -> str:
        width = max(len(r.name) for r in self.rivals)
        lines = [
            f"{'model':{width}s}  log-likelihood  free      AICc       BIC  {'Δ ' + self.criterion:>9s}  weight  fit",
            *(
                f"{r.name:{width}s}  {r.log_likelihood:14.3f}  {r.free:4d}  {r.aicc:8.2f}  {r.bic:8.2f}  {r.delta:9.2f}"
                f"  {r.weight:6.3f}  {r.verdict}{_worst(r.fit)}"
                + ("" if r.left_out is None else f"; left out: {r.left_out:.3f} a value")
                for r in self.rivals
            ),
            "",
            self.sentence,
        ]
        lines += [self.told(one) for one in self.nested]
        return "\n".join(lines)


def compare(fits: Mapping[str, FitResult], folds: int | None = None) -> Comparison:
    """Compare fits of different models to the same data.

    Parameters
    ----------
    fits : mapping of str to FitResult
        By the name that each model is to have.
    folds : int, optional
        Into how many blocks of time the data are cut, each of which is left out once and has to be foreseen.

    Returns
    -------
    Comparison
        `print` shows it; `best` is the name of the best model.

    Examples
    --------
    >>> import weakform as wf
    >>> problem = wf.problems.get("logistic")
    >>> data = problem.simulate(M=60, noise=0.05, seed=0)
    >>> fits = {
    ...     "logistic": wf.fit(problem.model, data),
    ...     "exponential": wf.fit(wf.Model.from_text("u' = a*u"), data),
    ... }
    >>> wf.compare(fits).best
    'logistic'
    """
    if not isinstance(fits, Mapping) or len(fits) < 2 or not all(isinstance(f, FitResult) for f in fits.values()):
        raise FitError('compare takes two or more fits by name, such as {"logistic": fit1, "gompertz": fit2}.')
    named = {str(name): fit for name, fit in fits.items()}
    _same_data(named)
    for name, fit in named.items():
        if fit.population is not None:
            raise FitError(f"The fit {name!r} has random effects; fits with and without them cannot be compared.")
        if not math.isfinite(fit.log_likelihood):
            raise FitError(
                f"The fit {name!r}, by method {fit.method!r}, has no likelihood of the data; use the default, "
                "'relaxed' or 'output-error'."
            )
        if not math.isfinite(maximum(fit)):
            raise FitError(
                f"The fit {name!r} is no maximum of a likelihood in σ, as it is for gaussian and lognormal noise of "
                "one size; criteria cannot be compared."
            )
    values = {name: fit.aicc for name, fit in named.items()}
    corrected = all(map(math.isfinite, values.values()))
    if not corrected:
        values = {name: fit.aic for name, fit in named.items()}
    least = min(values.values())
    weights = {name: math.exp(-0.5 * (value - least)) for name, value in values.items()}
    total = sum(weights.values())
    rivals = [
        Rival(
            name,
            fit,
            maximum(fit),
            unknowns(fit),
            aic=fit.aic,
            aicc=fit.aicc,
            bic=fit.bic,
            delta=values[name] - least,
            weight=weights[name] / total,
            verdict=_verdict(fit),
            left_out=None if folds is None else _left_out(fit, folds),
        )
        for name, fit in named.items()
    ]
    rivals.sort(key=lambda rival: rival.delta)
    return Comparison(tuple(rivals), tuple(nested(named)), corrected)


def _left_out(fit: FitResult, folds: int) -> float:
    from .cross_validation import left_out

    return left_out(fit, folds)


def _same_data(fits: dict[str, FitResult]) -> None:
    """Refuse fits of different numbers."""
    (first, one), *others = fits.items()
    for name, other in others:
        reason = ""
        if len(one.data.trajectories) != len(other.data.trajectories):
            reason = "they have another number of trajectories"
        elif sorted(one.data.labels) != sorted(other.data.labels):
            reason = f"{', '.join(one.data.labels)} and {', '.join(other.data.labels)} were measured"
        else:
            order = [other.data.labels.index(label) for label in one.data.labels]
            for a, b in zip(one.data.trajectories, other.data.trajectories, strict=True):
                if not np.array_equal(a.times, b.times) or not np.array_equal(
                    a.values, b.values[:, order], equal_nan=True
                ):
                    reason = "their times or values differ"
                elif a.doses != b.doses or not _same_inputs(one, other, a, b):
                    reason = "their doses or inputs differ"
        if reason:
            raise FitError(f"The fits {first!r} and {name!r} are of different data: {reason}. Fit the same data.")


def _same_inputs(one: FitResult, other: FitResult, a: Trajectory, b: Trajectory) -> bool:
    """Whether two trajectories have the same inputs, as far as both have them."""
    both = [name for name in one.data.inputs if name in other.data.inputs]
    if a.inputs is None or b.inputs is None:
        return True
    first, second = (
        q.columns([fit.data.inputs.index(name) for name in both])(a.times)
        for q, fit in ((a.inputs, one), (b.inputs, other))
    )
    return bool(np.array_equal(first, second))


def _verdict(fit: FitResult) -> str:
    if fit.success:
        return "fits"
    return fit.status.name.lower() if fit.converged else "not converged"


def _worst(fit: FitResult) -> str:
    """Where a rejected model fails most."""
    if fit.goodness is None or not fit.goodness.misfits or fit.status.name != "REJECTED":
        return ""
    worst = fit.goodness.misfits[0]
    return f", most in {fit.model.states[worst.equation]}' at t = {worst.start:.4g} to {worst.stop:.4g}"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
