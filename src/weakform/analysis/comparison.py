"""Comparison of models: fits of different models to the same data, by information criteria and likelihood ratios.

Akaike weights are `exp(-Δ/2)` of the corrected criterion, normalised to a sum of one. If one model is another with
parameters fixed or tied, twice the difference of their log-likelihoods is χ² under the smaller model; its degrees of
freedom are the number of parameters that the smaller model lacks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.trajectory import Trajectory
from ..inference.information_criteria import compute_max_log_likelihood, count_unknowns
from ..results.fit_result import FitResult
from ..support.errors import FitError
from ..support.optional_imports import import_pandas
from .nested_models import SIGNIFICANCE_LEVEL, NestedModels, find_nested_models


@dataclass(frozen=True)
class _SupportPolicy:
    """Differences of the criterion from the best model that decide how support is described.

    They follow a rule of thumb of Burnham and Anderson, Model Selection and Multimodel Inference (2002), section 2.6: 4
    to 7 means considerably less support, more than 10 essentially none.
    """

    less: float = 4.0
    """Below, the data cannot tell a model from the best one; from here on it has much less support."""

    none: float = 10.0
    """From here on a model has next to no support."""


SUPPORT_POLICY = _SupportPolicy()
"""The thresholds in use; `docs/compare.md` states them to users."""


@dataclass(frozen=True)
class Rival:
    """One model of a comparison.

    Attributes
    ----------
    name : str
    fit : FitResult
    log_likelihood : float
        Its maximum, also over σ.
    free : int
        Number of estimated quantities: parameters, initial values and σ.
    aic, aicc, bic : float
        Information criteria; `aicc` is the corrected one.
    delta : float
        Difference of the criterion from the best model.
    weight : float
        Akaike weight.
    verdict : str
        "fits", "not converged", or the status that says why the fit did not succeed.
    left_out : float, or None
        Mean log-density of held-out values; None without cross-validation.
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
    nested : tuple of NestedModels
        Likelihood-ratio tests of models that are special cases of others.
    corrected : bool
        Whether models are compared by AICc; False if there are too few values for it, and AIC is used.
    """

    rivals: tuple[Rival, ...]
    nested: tuple[NestedModels, ...]
    corrected: bool = True

    @property
    def criterion(self) -> str:
        """The name of the criterion by which the models are compared."""
        return "AICc" if self.corrected else "AIC"

    @property
    def best(self) -> str:
        """The name of the best model."""
        return self.rivals[0].name

    def __getitem__(self, name: str) -> Rival:
        """Return the model of a name."""
        for rival in self.rivals:
            if rival.name == name:
                return rival
        raise KeyError(f"There is no model {name!r}; the models are {', '.join(rival.name for rival in self.rivals)}.")

    @property
    def sentence(self) -> str:
        """A summary in words: which models the data can tell apart, and what limits the comparison."""
        if not any(rival.fit.converged for rival in self.rivals):
            return "No fit converged: the models cannot be compared."
        near = [r.name for r in self.rivals if r.delta < SUPPORT_POLICY.less]
        less = [r.name for r in self.rivals if SUPPORT_POLICY.less <= r.delta < SUPPORT_POLICY.none]
        none = [r.name for r in self.rivals if r.delta >= SUPPORT_POLICY.none]
        sentences = []
        if len(near) == 1:
            sentences.append(f"The data prefer {near[0]}.")
        else:
            sentences.append(f"The data cannot tell {_join_names(near)} apart.")
        if less:
            sentences.append(f"{_join_names(less)} {'has' if len(less) == 1 else 'have'} much less support.")
        if none:
            sentences.append(f"{_join_names(none)} {'has' if len(none) == 1 else 'have'} next to no support.")
        best = self.rivals[0]
        if best.verdict == "rejected":
            sentences.append(f"But even {best.name} does not fit the data: none of these models is right.")
        elif not best.fit.success:
            sentences.append(f"But the fit of {best.name} did not succeed ({best.verdict}).")
        with_priors = [r.name for r in self.rivals if r.fit.prior is not None]
        if with_priors:
            which = (
                f"The fit of {with_priors[0]} is"
                if len(with_priors) == 1
                else f"The fits of {_join_names(with_priors)} are"
            )
            sentences.append(f"{which} at the maximum of the posterior, not of the likelihood, because of priors.")
        held_out = [r for r in self.rivals if r.left_out is not None]
        if held_out:
            predicts_best = max(held_out, key=lambda r: r.left_out or 0.0)
            sentences.append(f"{predicts_best.name} predicts the held-out data best.")
        if not self.corrected:
            sentences.append("There are too few values for AICc: models are compared by AIC, which favours large ones.")
        return " ".join(sentences)

    def told(self, test: NestedModels) -> str:
        """Describe a test of nested models in a sentence.

        Parameters
        ----------
        test : NestedModels
            An element of `nested`.
        """
        conclusion = "the data do not speak against it" if test.p_value > SIGNIFICANCE_LEVEL else "it is refuted"
        if self[test.large].verdict == "rejected":
            conclusion = f"it cannot be judged, since even {test.large} does not fit"
        return (
            f"{test.small} is a special case of {test.large} with {test.freedom} "
            f"parameter{'s' * (test.freedom > 1)} less: {conclusion} (likelihood ratio {test.statistic:.2f}, "
            f"p = {test.p_value:.2g})."
        )

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, indexed by the name of the model."""
        pd = import_pandas()

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
                f"  {r.weight:6.3f}  {r.verdict}{_describe_worst_misfit(r.fit)}"
                + ("" if r.left_out is None else f"; held out: {r.left_out:.3f} per value")
                for r in self.rivals
            ),
            "",
            self.sentence,
        ]
        lines += [self.told(test) for test in self.nested]
        return "\n".join(lines)


def compare(fits: Mapping[str, FitResult], folds: int | None = None) -> Comparison:
    """Compare fits of different models to the same data.

    Parameters
    ----------
    fits : mapping of str to FitResult
        Two or more fits, by the names of their models.
    folds : int, optional
        Number of blocks of time for cross-validation: each block is held out once, and its prediction is scored. By
        default there is no cross-validation.

    Returns
    -------
    Comparison
        `print` shows it as a table; `best` is the name of the best model.

    Raises
    ------
    FitError
        If there are fewer than two fits, or they are of different data, have random effects, or have no likelihood
        whose maximum can be compared.

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
        raise FitError('compare needs two or more fits by name, such as {"logistic": fit1, "gompertz": fit2}.')
    named = {str(name): fit for name, fit in fits.items()}
    _require_same_data(named)
    for name, fit in named.items():
        if fit.population is not None:
            raise FitError(f"The fit {name!r} has random effects; such fits cannot be compared.")
        if not math.isfinite(fit.log_likelihood):
            raise FitError(
                f"The fit {name!r}, by method {fit.method!r}, has no likelihood of the data; use the default, "
                "'relaxed' or 'output-error'."
            )
        if not math.isfinite(compute_max_log_likelihood(fit)):
            raise FitError(
                f"The fit {name!r} has no maximum of the likelihood over σ, so that its criteria cannot be compared: "
                "only Gaussian and lognormal noise of one size have one."
            )
    values = {name: fit.aicc for name, fit in named.items()}
    corrected = all(map(math.isfinite, values.values()))
    if not corrected:  # AICc is infinite if there are hardly more values than unknowns
        values = {name: fit.aic for name, fit in named.items()}
    best = min(values.values())
    # Akaike weights; differences from the best criterion keep the exponentials from vanishing all together.
    weights = {name: math.exp(-0.5 * (value - best)) for name, value in values.items()}
    total = sum(weights.values())
    rivals = [
        Rival(
            name,
            fit,
            compute_max_log_likelihood(fit),
            count_unknowns(fit),
            aic=fit.aic,
            aicc=fit.aicc,
            bic=fit.bic,
            delta=values[name] - best,
            weight=weights[name] / total,
            verdict=_describe_verdict(fit),
            left_out=None if folds is None else _cross_validate(fit, folds),
        )
        for name, fit in named.items()
    ]
    rivals.sort(key=lambda rival: rival.delta)
    return Comparison(tuple(rivals), tuple(find_nested_models(named)), corrected)


def _cross_validate(fit: FitResult, folds: int) -> float:
    """Cross-validate a fit; see `cross_validation`, imported here because it imports everything that `fit` needs."""
    from .cross_validation import compute_held_out_log_density

    return compute_held_out_log_density(fit, folds)


def _require_same_data(fits: dict[str, FitResult]) -> None:
    """Raise `FitError` unless all fits have the same measurements, doses and inputs."""
    (first, reference), *rest = fits.items()
    for name, fit in rest:
        reason = ""
        if len(reference.data.trajectories) != len(fit.data.trajectories):
            reason = f"they have {len(reference.data.trajectories)} and {len(fit.data.trajectories)} trajectories"
        elif sorted(reference.data.labels) != sorted(fit.data.labels):
            reason = f"{', '.join(reference.data.labels)} and {', '.join(fit.data.labels)} were measured"
        else:
            order = [fit.data.labels.index(label) for label in reference.data.labels]
            for a, b in zip(reference.data.trajectories, fit.data.trajectories, strict=True):
                if not np.array_equal(a.times, b.times) or not np.array_equal(
                    a.values, b.values[:, order], equal_nan=True
                ):
                    reason = "their times or values differ"
                elif a.doses != b.doses or not _has_same_inputs(reference, fit, a, b):
                    reason = "their doses or inputs differ"
        if reason:
            raise FitError(f"The fits {first!r} and {name!r} are of different data: {reason}. Fit the same data.")


def _has_same_inputs(fit_a: FitResult, fit_b: FitResult, a: Trajectory, b: Trajectory) -> bool:
    """Return True if trajectory `a` of `fit_a` and `b` of `fit_b` are equal in the inputs that both fits have."""
    common = [name for name in fit_a.data.inputs if name in fit_b.data.inputs]
    if a.inputs is None or b.inputs is None:
        return True
    values_a, values_b = (
        q.select_columns([fit.data.inputs.index(name) for name in common])(a.times)
        for q, fit in ((a.inputs, fit_a), (b.inputs, fit_b))
    )
    return bool(np.array_equal(values_a, values_b))


def _describe_verdict(fit: FitResult) -> str:
    """Return the verdict of a fit in a word or two, for the table."""
    if fit.success:
        return "fits"
    return fit.status.name.lower() if fit.converged else "not converged"


def _describe_worst_misfit(fit: FitResult) -> str:
    """Describe where a rejected model fails most, for the table; return an empty string for any other."""
    if fit.goodness is None or not fit.goodness.misfits or fit.status.name != "REJECTED":
        return ""
    worst = fit.goodness.misfits[0]
    return f", most in {fit.model.states[worst.equation]}' at t = {worst.start:.4g} to {worst.stop:.4g}"


def _join_names(names: list[str]) -> str:
    """Join names as in `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
