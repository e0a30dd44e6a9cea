"""Terms that a model may lack: score tests on the residuals, then fits with the best few.

With a term `k φ(x, t)` in one equation, at k = 0, the derivative of the weak residual by k is `c = Φ φ`; if only some
states are measured, c is the derivative of the residuals of the data. With r and c over their standard deviations, and
with the part that the parameters can explain projected out of both,

    score = (cᵀ r)² / cᵀ c                    is χ² with one degree of freedom if the model is right.

All terms are tested with one linearisation. Weak residuals need no solution of the wrong model: they evaluate the
equations at the data. The best few terms are then fitted; their p-value is that of the likelihood ratio, times the
number of terms that were tried (Bonferroni).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import symengine as se

from ..basis import Local
from ..collocation.hidden_state_problem import HiddenStateProblem, MeshStates
from ..collocation.mesh_sensitivities import MeshSensitivities
from ..diagnostics.autocorrelation import compute_chi_square_tail
from ..diagnostics.goodness import REJECTION_LEVEL
from ..inference.information_criteria import compute_max_log_likelihood
from ..linalg.blas_threads import use_single_thread
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..model import Model
from ..model.expression_text import format_expression
from ..model.expressions import parse_expression
from ..model.function_table import Expr
from ..results.fit_result import FitResult
from ..support.array_types import FloatArray
from ..support.errors import FitError, WeakformError
from ..support.optional_imports import import_pandas
from ..support.progress import Watch
from ..support.wording import show_progress, suggest_name
from ..weak.weak_problem import WeakProblem
from .nested_models import SIGNIFICANCE_LEVEL
from .refit_with import get_refittable_model, refit_with


@dataclass(frozen=True)
class _ScreeningPolicy:
    """Which candidates are tried, and which of them are fitted. `python benchmarks/terms.py` measures the outcome."""

    fitted_terms: int = 6
    """Terms with the best scores that are fitted. By judgement: each costs a fit."""

    few_terms: int = 3
    """The same if no score is significant; also the fluxes and terms of two parts in each group. By judgement."""

    significance: float = 0.2
    """Probability that the best of all scores is as large by chance. Below, many terms are fitted; above, only few,
    since the model probably lacks none. By judgement: scores of a wrong model are only rough."""

    seconds_of_fit: float = 10.0
    """Time limit of each fit, in seconds; a shorter limit of the first fit holds. By judgement."""

    cost_of_part: float = 1.0
    """Log-likelihood that each name or number in a term has to gain, when terms are ranked: of two terms that fit as
    well, the simpler one is more plausible. By judgement: the cost of a parameter in AIC."""

    max_states_for_cubes: int = 3
    """States up to which all products of three are tried; beyond, only third powers. By judgement: their number grows
    with the cube of the states."""

    negligible_remainder: float = 1e-4
    """Size of a term after projecting out the terms of the model, relative to before. Below, the model has the term
    already. By judgement."""

    simple_parts: int = 2
    """Parts of a term up to which it is simple: once such a term makes the model fit, no more groups are fitted. By
    judgement."""

    equal_gain: float = 2.0
    """Difference of log-likelihoods below which two terms that make the model fit are both named. By judgement: about
    the 1.92 at the end of a 95% interval."""


SCREENING_POLICY = _ScreeningPolicy()
"""The thresholds in use."""

Candidates = Sequence[str] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Term:
    """A term that was added to one equation, and the fit with it.

    Attributes
    ----------
    equation : str
        The state whose equation it was added to.
    term : str
        The term without its coefficient.
    coefficient, error : float
        Estimate and standard error of the coefficient. A term of another equation has no coefficient to estimate: it is
        added with the sign 1 or -1, and the error is zero.
    gain : float
        Gain in log-likelihood.
    p_value : float
        Of the likelihood-ratio test, times the number of terms that were tried.
    mends : bool
        Whether the model with the term is not rejected: its p-value is above `REJECTION_LEVEL`, or it has no test.
    """

    equation: str
    term: str
    coefficient: float
    error: float
    gain: float
    p_value: float
    mends: bool

    def __str__(self) -> str:
        sign, size = ("−" if self.coefficient < 0 else "", abs(self.coefficient))
        return f"{sign}{self.term}" if not self.error and size == 1 else f"{sign}{size:.4g}·{self.term}"


@dataclass(frozen=True)
class MissingTerms:
    """Terms that a model may lack, the best first.

    Attributes
    ----------
    terms : tuple of Term
        The terms that were fitted.
    tried : int
        Number of terms that were tested.
    rejected : bool
        Whether the fit without any of them did not succeed.
    """

    terms: tuple[Term, ...]
    tried: int
    rejected: bool

    @property
    def found(self) -> tuple[Term, ...]:
        """The terms that improve the model significantly, the best first."""
        return tuple(term for term in self.terms if term.p_value < SIGNIFICANCE_LEVEL)

    @property
    def sentence(self) -> str:
        """The result in a sentence."""
        if not self.tried:
            return "The model already has all of these terms."
        if not self.found:
            least = min((term.p_value for term in self.terms), default=1.0)
            advice = " The model lacks something else: give other candidates." if self.rejected else ""
            return f"None of {self.tried} terms would improve the model (the best has p = {least:.2g}).{advice}"
        best = self.found[0]
        equation, p = f"to the equation of {best.equation}", _format_p_value(best.p_value)
        if best.mends:
            equals = [
                term for term in self.found[1:] if term.mends and best.gain - term.gain < SCREENING_POLICY.equal_gain
            ]
            also = "; the data can hardly tell it from " + ", ".join(f"{t} in {t.equation}'" for t in equals[:2])
            return f"Adding {best} {equation} makes the model fit ({p}){also if equals else ''}."
        return (
            f"Adding {best} {equation} helps most ({p}), but the model still does not fit: more than one term is wrong "
            "or missing."
        )

    def to_frame(self) -> Any:
        """Return the fitted terms as a pandas DataFrame, one row for each."""
        pd = import_pandas()

        return pd.DataFrame([vars(term) for term in self.terms])

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        if self.terms:
            width = max(len(term.term) for term in self.terms)
            lines.append(f"  {'equation':10s} {'term':{width}s} {'coefficient':>12s} {'error':>9s} {'gain':>9s}  p")
            for term in self.terms:
                fits = "  fits" if term.mends and term.p_value < SIGNIFICANCE_LEVEL else ""
                lines.append(
                    f"  {term.equation:10s} {term.term:{width}s} {term.coefficient:12.5g} {term.error:9.2g} "
                    f"{term.gain:9.1f}  {term.p_value:.2g}{fits}"
                )
        return "\n".join(lines).rstrip()

    def __repr__(self) -> str:
        return f"<MissingTerms: {self.tried} tried>\n{self}"


def _format_p_value(p: float) -> str:
    """Format a p-value; those of strong terms are far below the range of `goodness.format_p_value`."""
    return "p < 1e-300" if p < 1e-300 else f"p = {p:.2g}"


@dataclass(frozen=True)
class _Candidate:
    """A term that may be missing in one equation.

    Attributes
    ----------
    equation : str
        The state whose equation it is added to.
    text : str
        The term, as it is printed.
    expression : Expr
    flux : bool
        Whether it is a term of another equation, which is added without a new parameter.
    """

    equation: str
    text: str
    expression: Expr
    flux: bool = False

    @property
    def complexity(self) -> int:
        """The number of names and numbers in the term, a measure of its complexity; one for a flux."""
        return 1 if self.flux else len(re.findall(r"\w+(?:\.\w+)?", self.text))


def rank_missing_terms(fit: FitResult, candidates: Candidates | None = None) -> MissingTerms:
    """Rank terms that a model may lack; see `FitResult.missing_terms`.

    Raises
    ------
    FitError
        If the fit cannot be repeated, candidates are invalid, or the residuals cannot be linearised.
    """
    model = get_refittable_model(fit)
    tried = (
        _parse_candidates(model, candidates)
        if candidates is not None
        else [*_build_library(fit, model), *_find_fluxes(model)]
    )
    with use_single_thread(), np.errstate(all="ignore"):
        linearisation = _Linearisation.linearise(fit, model, tried)
        scores, signs = linearisation.compute_scores()
        kept = [k for k in range(len(tried)) if np.isfinite(scores[k])]
        order = sorted(kept, key=lambda k: -scores[k])
        # Bonferroni: times the number of candidates.
        best_p = len(kept) * compute_chi_square_tail(float(scores[order[0]]), 1) if kept else np.inf
    is_significant = best_p < SCREENING_POLICY.significance
    groups = _group_candidates(tried, order) if is_significant else [order[: SCREENING_POLICY.few_terms]]
    # Terms are ranked by likelihood: a fit by a method without one is repeated by the default method.
    base = fit if np.isfinite(compute_max_log_likelihood(fit)) else refit_with(fit, method="wendy", start=None)
    terms: list[tuple[int, Term]] = []
    name = _choose_parameter_name(model)
    for group in groups:
        for k in show_progress(group, "terms", len(group)):
            fits = _fit_candidate(base, model, tried[k], name if not tried[k].flux else float(signs[k]), len(kept))
            terms += [(tried[k].complexity, term) for term in fits]
        if any(term.mends and parts <= SCREENING_POLICY.simple_parts for parts, term in terms):
            break
    rejected = base.goodness is not None and not base.success
    terms.sort(key=lambda pair: SCREENING_POLICY.cost_of_part * pair[0] - pair[1].gain)
    return MissingTerms(tuple(term for _, term in terms), len(kept), rejected)


def _group_candidates(tried: list[_Candidate], order: list[int]) -> list[list[int]]:
    """Group the candidates to be fitted; a group is fitted only if no term of the groups before makes the model fit.

    Scores rest on the estimate and the covariance of a wrong model. They nearly always point to the right equation, but
    within it they may prefer a complicated term to the right one. Hence the first group holds the best scores, the
    simplest terms of the same equation and the fluxes into or out of it; the equations with lower scores follow.

    Parameters
    ----------
    tried : list of _Candidate
    order : list of int
        Indices of candidates, the best score first.

    Returns
    -------
    list of list of int
        Indices of candidates; no candidate is in two groups.
    """
    few, many = SCREENING_POLICY.few_terms, SCREENING_POLICY.fitted_terms
    equations = list(dict.fromkeys(tried[k].equation for k in order))
    groups, grouped = [], set()
    for rank, equation in enumerate(equations):
        own = [k for k in order if tried[k].equation == equation]
        fluxes = [k for k in own if tried[k].flux][:few]
        simplest = [*fluxes, *(k for k in own if tried[k].complexity == 1 and not tried[k].flux)]
        double = [k for k in own if tried[k].complexity == 2]
        parts = (
            [[*order[:few], *simplest], [*double[:few], *order[:many]]] if rank == 0 else [[*simplest, *double[:few]]]
        )
        for part in parts:
            groups.append([k for k in dict.fromkeys(part) if k not in grouped])
            grouped.update(part)
    return groups


def _choose_parameter_name(model: Model) -> str:
    """Return a name for a new parameter that the model does not use: k, k0, k1, ..."""
    taken = {*model.parameters, *model.states, *model.inputs, *model.observables}
    return next(name for name in itertools.chain(["k"], map("k{}".format, itertools.count())) if name not in taken)


def _parse_candidates(model: Model, candidates: Candidates) -> list[_Candidate]:
    """Parse the candidates of the user, for every equation or for named ones.

    Raises
    ------
    FitError
        If there are no candidates, or an equation does not exist.
    ModelError
        If a term cannot be parsed.
    """
    if isinstance(candidates, str) or not isinstance(candidates, Sequence | Mapping):
        raise FitError(f"candidates must be a list of terms such as ['x*y', 'x^2']; received {candidates!r}.")
    lists = candidates if isinstance(candidates, Mapping) else dict.fromkeys(model.states, candidates)
    parsed = []
    for state, terms in lists.items():
        texts = [terms] if isinstance(terms, str) else terms
        if state not in model.states:
            raise FitError(f"{state!r} has no equation.{suggest_name(str(state), model.states)}")
        names = ("t", *model.states, *model.inputs)
        parsed += [
            _Candidate(state, str(text), parse_expression(str(text), names, f"The term {text!r}")) for text in texts
        ]
    if not parsed:
        raise FitError("There are no candidates to try.")
    return parsed


def _build_library(fit: FitResult, model: Model) -> list[_Candidate]:
    """Build the default candidates: products of states, inputs and time, and saturations of positive states."""
    names = list(model.states)
    values = np.concatenate(fit.denoised)
    has_all_cubes = len(names) <= SCREENING_POLICY.max_states_for_cubes
    degrees = range(1, 4) if has_all_cubes else range(1, 3)
    products = [p for n in degrees for p in itertools.combinations_with_replacement(names, n)]
    products += [(x, x, x) for x in names if not has_all_cubes]
    terms = ["1", "t", *model.inputs, *(_format_product(p) for p in products)]
    terms += [f"{w}*{x}" for w in ("t", *model.inputs) for x in names]
    for x in names:
        column = values[:, model.states.index(x)]
        if not (column > 0).all():
            continue
        # The constant of half saturation is the median of the state, not a parameter: one coefficient for each term.
        s = f"{float(np.median(column)):.2g}"
        terms += [f"{x}/({s} + {x})", f"{x}^2/({s}^2 + {x}^2)", f"1/({s}^4 + {x}^4)"]
        terms += [f"{x}*{y}/({s} + {x})" for y in names if y != x]
    # A second-order equation x'' = ... becomes two: that of x only defines x', so that it lacks no term.
    return _parse_candidates(model, {state: terms for state in names if f"{state}'" not in model.hidden})


def _find_fluxes(model: Model) -> list[_Candidate]:
    """Return the terms of other equations as candidates: a flow out of one state may be one into another.

    Such a term needs no new parameter: it is added or subtracted unchanged.
    """
    own = {state: set(_split_sum(e)) for state, e in zip(model.states, model.expressions, strict=True)}
    fluxes = []
    for state in model.states:
        if f"{state}'" in model.hidden:
            continue
        present = {signed for term in own[state] for signed in (term, -term)}
        elsewhere = dict.fromkeys(
            _strip_sign(term)
            for source, terms in own.items()
            if source != state
            for term in terms
            if term not in present
        )
        # Terms without parameters are left to the library, which tries them with a coefficient.
        fluxes += [
            _Candidate(state, format_expression(term), term, flux=True)
            for term in elsewhere
            if {str(s) for s in term.free_symbols} & set(model.parameters)
        ]
    return fluxes


def _split_sum(e: Expr) -> list[Expr]:
    """Return the terms of an expanded sum."""
    whole = se.expand(e)
    return list(whole.args) if whole.is_Add else [whole]


def _strip_sign(term: Expr) -> Expr:
    """Return a term without its sign."""
    return -term if str(term).startswith("-") else term


def _format_product(names: tuple[str, ...]) -> str:
    """Format a product of names, such as `x^2*y`."""
    parts = [f"{x}^{n}" if n > 1 else x for x in dict.fromkeys(names) if (n := names.count(x))]
    return "*".join(parts)


def _add_flux(model: Model, candidate: _Candidate, sign: float) -> Model:
    """Return the model with a term of another equation, times `sign` 1 or -1."""
    f = list(model.expressions)
    d = model.states.index(candidate.equation)
    f[d] = f[d] + int(sign) * candidate.expression
    return model.with_parts(f=f)


def _add_terms(model: Model, terms: Mapping[str, _Candidate]) -> Model:
    """Return the model with `terms`, each times a new parameter of the name that is its key."""
    f = list(model.expressions)
    for name, candidate in terms.items():
        d = model.states.index(candidate.equation)
        f[d] = f[d] + se.Symbol(name) * candidate.expression
    return model.with_parts(f=f, parameters=(*model.parameters, *terms))


@dataclass(frozen=True)
class _Linearisation:
    """Residuals of a fit, linearised in the coefficients of all candidates at zero.

    Attributes
    ----------
    r : ndarray, (rows,)
        Residuals over their standard deviations.
    J : ndarray, (rows, F + tried)
        Their derivatives by the free parameters, then by the coefficients.
    tried : int
        Number of candidates.
    """

    r: FloatArray
    J: FloatArray
    tried: int

    @classmethod
    def linearise(cls, fit: FitResult, model: Model, tried: list[_Candidate]) -> _Linearisation:
        """Linearise the weak residuals if every state is measured, else the residuals of the data."""
        wide = _add_terms(model, {f"_k{k}": candidate for k, candidate in enumerate(tried)})
        complete = fit.data.names == model.states and not model.initial
        return (
            cls._linearise_weak_residuals(fit, wide, len(tried)) if complete else None
        ) or _linearise_data_residuals(fit, wide, len(tried))

    @classmethod
    def _linearise_weak_residuals(cls, fit: FitResult, wide: Model, tried: int) -> _Linearisation | None:
        """Linearise the weak residuals; return None if they cannot be whitened.

        σ is estimated from the data alone: the residuals of a wrong model are more than noise.
        """
        assert fit.index is not None
        parts, estimate, own = [], _fit_weak_estimate(fit), fit.index.shape[1]
        try:
            problem = WeakProblem.build(wide, fit.data, Local())
            for k, form in enumerate(problem.forms):
                p = np.append(estimate[fit.index[k]], np.zeros(tried))
                part = WeakProblem(wide, problem.data, (form,), problem.sigma)
                residual, jacobian = part.build_whitened_functions(part.factorise_covariances(p))
                J = jacobian(p)
                # Derivatives by the parameters of this trajectory, at their positions among those of all trajectories.
                full = np.zeros((len(J), len(estimate)))
                np.add.at(full.T, fit.index[k], J[:, :own].T)
                parts.append((residual(p), np.hstack([full[:, ~fit.fixed], J[:, own:]])))
        except (WeakformError, NotPositiveDefinite):
            return None
        r, J = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(r, J, tried)

    def compute_scores(self) -> tuple[FloatArray, FloatArray]:
        """Compute the score of each candidate, and the sign of its coefficient.

        Returns
        -------
        scores : ndarray, (tried,)
            NaN for terms that the model has already.
        signs : ndarray, (tried,)
            1 or -1.
        """
        old, new = self.J[:, : -self.tried], self.J[:, -self.tried :]
        # Project out what the parameters of the model can explain.
        Q = np.linalg.qr(old[:, np.linalg.norm(old, axis=0) > 0])[0]
        remainder, r = new - Q @ (Q.T @ new), self.r - Q @ (Q.T @ self.r)
        size = np.linalg.norm(remainder, axis=0)
        is_not_negligible = size > SCREENING_POLICY.negligible_remainder * np.linalg.norm(new, axis=0)
        is_new = np.isfinite(size) & is_not_negligible & (size > 0)
        slope = remainder.T @ r
        scores = np.where(is_new, slope**2 / np.where(is_new, size**2, 1.0), np.nan)
        # A step against the slope makes the residuals smaller.
        return scores, np.where(slope > 0, -1.0, 1.0)


def _fit_weak_estimate(fit: FitResult) -> FloatArray:
    """Fit the weak residuals, and return the parameters `(J,)`.

    The estimate of a wrong model is distorted so that its trajectories follow the data, and its weak residuals would
    mislead the scores. If the weak fits fail, the estimate is returned nevertheless.
    """
    for method in ("irls", "wls"):
        try:
            weak_fit = refit_with(fit, method=method, start=None, options=None)
        except WeakformError:
            continue
        if weak_fit.converged:
            return weak_fit.estimate
    return fit.estimate


def _linearise_data_residuals(fit: FitResult, wide: Model, tried: int) -> _Linearisation:
    """Linearise the residuals of the data, on the mesh of the fit, in the parameters and in `tried` coefficients.

    Raises
    ------
    FitError
        If the fit has no states on a mesh, or they cannot be linearised.
    """
    if not fit.nodes:
        raise FitError(
            "This fit has no states on a mesh, which the test for missing terms needs. Fit with method='wendy' or "
            "'relaxed'."
        )
    assert fit.index is not None
    P = len(fit.estimate)
    index = np.hstack([fit.index, np.tile(P + np.arange(tried), (len(fit.index), 1))])
    model = fit.model.with_parts(variants=(), parameters=(*fit.model.parameters, *wide.parameters[-tried:]))
    problem = HiddenStateProblem.from_model(model, wide, index, fit.data, fit.sigma)
    latent = MeshStates.from_nodes(fit.nodes, np.append(fit.estimate, np.zeros(tried)))
    free = np.append(~fit.fixed, np.ones(tried, dtype=bool))
    meshed = MeshSensitivities(problem.build_relaxed_model(latent.meshes, fit.sigma, free))
    moving = meshed.linearise_solutions(latent.point.p, latent.point.X)
    if moving is None:
        raise FitError("The fitted model cannot be linearised at its estimate, so that no term can be tested.")
    J, F = meshed.expand_jacobian(moving), int(free.sum())
    # Columns are parameters, coefficients, initial values: the coefficients go last.
    return _Linearisation(
        moving.residuals.ravel(), np.hstack([J[:, : F - tried], J[:, F:], J[:, F - tried : F]]), tried
    )


def _fit_candidate(base: FitResult, model: Model, candidate: _Candidate, factor: str | float, tried: int) -> list[Term]:
    """Fit the model with a candidate.

    Parameters
    ----------
    base : FitResult
        The fit without it.
    model : Model
    candidate : _Candidate
    factor : str or float
        The name of the new parameter by which the term is multiplied; or the sign of a flux.
    tried : int
        Number of candidates, by which the p-value is multiplied.

    Returns
    -------
    list of Term
        One term; none if the fit fails.
    """
    wide = _add_flux(model, candidate, factor) if isinstance(factor, float) else _add_terms(model, {factor: candidate})
    try:
        limit = min(base.options.time_limit, SCREENING_POLICY.seconds_of_fit)
        wide_fit = refit_with(base, wide, start=None, callback=Watch(limit, forbids_fallback=True))
    except WeakformError:
        return []
    gain = compute_max_log_likelihood(wide_fit) - compute_max_log_likelihood(base)
    if not (wide_fit.converged and np.isfinite(gain)):
        return []
    p = min(1.0, tried * compute_chi_square_tail(max(2 * gain, 0.0), 1))
    fits = wide_fit.goodness is None or wide_fit.goodness.p_value > REJECTION_LEVEL
    coefficient, error = factor, 0.0
    if isinstance(factor, str):
        coefficient, error = wide_fit[factor].value, wide_fit[factor].error
    assert isinstance(coefficient, float)
    return [Term(candidate.equation, candidate.text, coefficient, error, gain=float(gain), p_value=p, mends=bool(fits))]
