"""Which term a model lacks: score tests on the residuals, then fits of the few best.

With a term `k φ(x, t)` in one equation, at k = 0, the weak residual changes by `c = Φ φ`; where only a part is measured
it is the residual of the data that changes, by its sensitivity. Both over their standard deviations, and with what the
parameters can take up projected away,

    score = (cᵀ r)² / cᵀ c                    is χ² with one degree of freedom if the model is right.

All terms are tested with one linearisation. Weak residuals need no solution of the wrong model: they look at the
equations where the data are. The best few are then fitted; what is said of them is the test of the likelihood ratio,
times the number of terms that were tried (Bonferroni).
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
from ..collocation.hidden_state_problem import Latent, LatentProblem
from ..collocation.mesh_sensitivities import Meshed
from ..diagnostics.autocorrelation import chi_square_tail
from ..diagnostics.goodness import REJECTED
from ..inference.information_criteria import maximum
from ..linalg.blas_threads import single_thread
from ..linalg.symmetric_matrix import NotPositiveDefinite
from ..model import Model
from ..model.expression_text import to_text
from ..model.expressions import parse_expression
from ..model.function_table import Expr
from ..results.fit_result import FitResult
from ..support.array_types import FloatArray
from ..support.errors import FitError, WeakformError
from ..support.optional_imports import pandas
from ..support.progress import Watch
from ..support.wording import counted, suggestion
from ..weak.weak_problem import WeakProblem
from .refit_with import again, plain_model

FITTED, FEW = 6, 3
"""Terms with the best scores that are fitted, and where none is unlikely."""
UNLIKELY = 0.2
"""Probability of the best score among so many, below which it is."""
SECONDS = 10.0
"""For each of these fits."""
PLAIN = 1.0
"""What a part of a term costs, in units of log-likelihood, where terms are ranked."""
CUBES = 3
"""States up to which all products of three are tried; beyond, only powers."""
NOTHING = 1e-4
"""What is left of a term beside those of the model, as a share of it, below which it is one of them."""


LEVEL = 0.05

Candidates = Sequence[str] | Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Term:
    """A term that was added to one equation, and the fit with it.

    Attributes
    ----------
    equation : str
        The state whose equation it was added to.
    term : str
        Without its coefficient.
    coefficient, error : float
        A sign, without an error, where the term is one of another equation as it stands there.
    gain : float
        What the log-likelihood gains.
    p_value : float
        Of the likelihood-ratio test, times the number of terms that were tried.
    mends : bool
        Whether the model with it fits the data.
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
    """Candidates for what a model lacks, the best first.

    Attributes
    ----------
    terms : tuple of Term
        Those that were fitted.
    tried : int
        How many were tested.
    rejected : bool
        Whether the model as it is was rejected.
    """

    terms: tuple[Term, ...]
    tried: int
    rejected: bool

    @property
    def found(self) -> tuple[Term, ...]:
        """Those that the data ask for."""
        return tuple(term for term in self.terms if term.p_value < LEVEL)

    @property
    def sentence(self) -> str:
        """What was found, in words."""
        if not self.tried:
            return "The model has all of these terms already."
        if not self.found:
            least = min((term.p_value for term in self.terms), default=1.0)
            end = " What the model lacks is none of them: give candidates of your own." if self.rejected else ""
            return f"None of {self.tried} terms would improve the model (the best has p = {least:.2g}).{end}"
        best = self.found[0]
        where, p = f"to the equation of {best.equation}", _tail(best.p_value)
        if best.mends:
            others = [term for term in self.found[1:] if term.mends and best.gain - term.gain < 2]
            also = "; the data can hardly tell it from " + ", ".join(f"{t} in {t.equation}'" for t in others[:2])
            return f"Adding {best} {where} would mend it ({p}){also if others else ''}."
        return f"Adding {best} {where} helps most ({p}), but does not mend it: more than one term is wrong or missing."

    def to_frame(self) -> Any:
        """The terms as a pandas data frame."""
        pd = pandas()

        return pd.DataFrame([vars(term) for term in self.terms])

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        if self.terms:
            width = max(len(term.term) for term in self.terms)
            lines.append(f"  {'equation':10s} {'term':{width}s} {'coefficient':>12s} {'error':>9s} {'gain':>9s}  p")
            for term in self.terms:
                mends = "  mends it" if term.mends and term.p_value < LEVEL else ""
                lines.append(
                    f"  {term.equation:10s} {term.term:{width}s} {term.coefficient:12.5g} {term.error:9.2g} "
                    f"{term.gain:9.1f}  {term.p_value:.2g}{mends}"
                )
        return "\n".join(lines).rstrip()

    def __repr__(self) -> str:
        return f"<MissingTerms: {self.tried} tried>\n{self}"


def _tail(p: float) -> str:
    return "p < 1e-300" if p < 1e-300 else f"p = {p:.2g}"


@dataclass(frozen=True)
class _Candidate:
    """A term of one equation."""

    equation: str
    text: str
    expression: Expr
    flux: bool = False

    @property
    def parts(self) -> int:
        """Of how many names and numbers it is made: of two that fit as well the plainer one is meant."""
        return 1 if self.flux else len(re.findall(r"\w+(?:\.\w+)?", self.text))


def missing_terms(fit: FitResult, candidates: Candidates | None = None) -> MissingTerms:
    """See `FitResult.missing_terms`."""
    model = plain_model(fit)
    tried = _read(model, candidates) if candidates is not None else [*_library(fit, model), *_fluxes(model)]
    with single_thread(), np.errstate(all="ignore"):
        seen = _Seen.of(fit, model, tried)
        scores, signs = seen.scores()
        kept = [k for k in range(len(tried)) if np.isfinite(scores[k])]
        order = sorted(kept, key=lambda k: -scores[k])
        unlikely = bool(kept) and len(kept) * chi_square_tail(float(scores[order[0]]), 1) < UNLIKELY
    groups = _chosen(tried, order) if unlikely else [order[:FEW]]
    base = fit if np.isfinite(maximum(fit)) else again(fit, method="wendy", start=None)
    terms: list[tuple[int, Term]] = []
    name = _new(model)
    for group in groups:
        for k in counted(group, "terms", len(group)):
            found = _fitted(base, model, tried[k], name if not tried[k].flux else float(signs[k]), len(kept))
            terms += [(tried[k].parts, term) for term in found]
        if any(term.mends and parts <= 2 for parts, term in terms):
            break
    rejected = base.goodness is not None and not base.success
    terms.sort(key=lambda pair: PLAIN * pair[0] - pair[1].gain)
    return MissingTerms(tuple(term for _, term in terms), len(kept), rejected)


def _chosen(tried: list[_Candidate], order: list[int]) -> list[list[int]]:
    """Which are fitted, in groups: each only if none before mends the model.

    Scores are made with the estimate and the covariance of a model that is wrong; they find the equation nearly always,
    but among its terms may prefer a crooked one: with the best scores go the plainest of the same equation and what
    flows elsewhere already, then those of the others.
    """
    equations = list(dict.fromkeys(tried[k].equation for k in order))
    groups, seen = [], set()
    for place, equation in enumerate(equations):
        own = [k for k in order if tried[k].equation == equation]
        flows = [k for k in own if tried[k].flux][:FEW]
        plain = [*flows, *(k for k in own if tried[k].parts == 1 and not tried[k].flux)]
        double = [k for k in own if tried[k].parts == 2]
        parts = [[*order[:FEW], *plain], [*double[:FEW], *order[:FITTED]]] if place == 0 else [[*plain, *double[:FEW]]]
        for part in parts:
            groups.append([k for k in dict.fromkeys(part) if k not in seen])
            seen.update(part)
    return groups


def _new(model: Model) -> str:
    taken = {*model.parameters, *model.states, *model.inputs, *model.observables}
    return next(name for name in itertools.chain(["k"], map("k{}".format, itertools.count())) if name not in taken)


def _read(model: Model, candidates: Candidates) -> list[_Candidate]:
    """Candidates of the user's, for each equation or for those that are named."""
    if isinstance(candidates, str) or not isinstance(candidates, Sequence | Mapping):
        raise FitError(f"candidates must be a list of terms such as ['x*y', 'x^2']; received {candidates!r}.")
    lists = candidates if isinstance(candidates, Mapping) else dict.fromkeys(model.states, candidates)
    found = []
    for state, given in lists.items():
        texts = [given] if isinstance(given, str) else given
        if state not in model.states:
            raise FitError(f"{state!r} has no equation.{suggestion(str(state), model.states)}")
        known = ("t", *model.states, *model.inputs)
        found += [
            _Candidate(state, str(text), parse_expression(str(text), known, f"The term {text!r}")) for text in texts
        ]
    if not found:
        raise FitError("There are no candidates to try.")
    return found


def _library(fit: FitResult, model: Model) -> list[_Candidate]:
    """Products of states, inputs and time, and saturations of states that are positive."""
    names = list(model.states)
    values = np.concatenate(fit.denoised)
    three = range(1, 4) if len(names) <= CUBES else range(1, 3)
    products = [p for n in three for p in itertools.combinations_with_replacement(names, n)]
    products += [(x, x, x) for x in names if len(names) > CUBES]
    terms = ["1", "t", *model.inputs, *(_product(p) for p in products)]
    terms += [f"{w}*{x}" for w in ("t", *model.inputs) for x in names]
    for x in names:
        column = values[:, model.states.index(x)]
        if not (column > 0).all():
            continue
        s = f"{float(np.median(column)):.2g}"
        terms += [f"{x}/({s} + {x})", f"{x}^2/({s}^2 + {x}^2)", f"1/({s}^4 + {x}^4)"]
        terms += [f"{x}*{y}/({s} + {x})" for y in names if y != x]
    # The equation of x in x'' = ... only says what x' is.
    return _read(model, {state: terms for state in names if f"{state}'" not in model.hidden})


def _fluxes(model: Model) -> list[_Candidate]:
    """Terms of other equations as they stand there: what leaves one state may arrive at another.

    Such a term needs no new parameter; it is added or subtracted as it is.
    """
    own = {state: set(_summands(e)) for state, e in zip(model.states, model.expressions, strict=True)}
    found = []
    for state in model.states:
        if f"{state}'" in model.hidden:
            continue
        here = {term for one in own[state] for term in (one, -one)}
        others = dict.fromkeys(
            _positive(term) for other, terms in own.items() if other != state for term in terms if term not in here
        )
        found += [
            _Candidate(state, to_text(term), term, flux=True)
            for term in others
            if {str(s) for s in term.free_symbols} & set(model.parameters)
        ]
    return found


def _summands(e: Expr) -> list[Expr]:
    whole = se.expand(e)
    return list(whole.args) if whole.is_Add else [whole]


def _positive(term: Expr) -> Expr:
    """A term without its sign."""
    return -term if str(term).startswith("-") else term


def _product(names: tuple[str, ...]) -> str:
    parts = [f"{x}^{n}" if n > 1 else x for x in dict.fromkeys(names) if (n := names.count(x))]
    return "*".join(parts)


def _with_flux(model: Model, candidate: _Candidate, sign: float) -> Model:
    """The model with a term that it has elsewhere."""
    f = list(model.expressions)
    d = model.states.index(candidate.equation)
    f[d] = f[d] + int(sign) * candidate.expression
    return model.with_parts(f=f)


def _with_terms(model: Model, terms: Mapping[str, _Candidate]) -> Model:
    """The model with terms, each times a parameter of its own."""
    f = list(model.expressions)
    for name, candidate in terms.items():
        d = model.states.index(candidate.equation)
        f[d] = f[d] + se.Symbol(name) * candidate.expression
    return model.with_parts(f=f, parameters=(*model.parameters, *terms))


@dataclass(frozen=True)
class _Seen:
    """Residuals of a fit with all candidates at zero.

    Attributes
    ----------
    r : ndarray, (rows,)
        Over their standard deviations.
    J : ndarray, (rows, F + candidates)
        Their derivatives by the free parameters and by the coefficients.
    """

    r: FloatArray
    J: FloatArray
    tried: int

    @classmethod
    def of(cls, fit: FitResult, model: Model, tried: list[_Candidate]) -> _Seen:
        """Weak residuals where every state is measured; else those of the data."""
        wide = _with_terms(model, {f"_k{k}": one for k, one in enumerate(tried)})
        complete = fit.data.names == model.states and not model.initial
        return (cls._weak(fit, wide, len(tried)) if complete else None) or _measured(fit, wide, len(tried))

    @classmethod
    def _weak(cls, fit: FitResult, wide: Model, tried: int) -> _Seen | None:
        """σ is that of the data: what a wrong model leaves is not noise."""
        assert fit.index is not None
        parts, estimate, own = [], _weak_estimate(fit), fit.index.shape[1]
        try:
            problem = WeakProblem.build(wide, fit.data, Local())
            for k, form in enumerate(problem.forms):
                p = np.append(estimate[fit.index[k]], np.zeros(tried))
                part = WeakProblem(wide, problem.data, (form,), problem.sigma)
                residual, jacobian = part.whitened(part.factors(p))
                J = jacobian(p)
                full = np.zeros((len(J), len(estimate)))
                np.add.at(full.T, fit.index[k], J[:, :own].T)
                parts.append((residual(p), np.hstack([full[:, ~fit.fixed], J[:, own:]])))
        except (WeakformError, NotPositiveDefinite):
            return None
        r, J = (np.concatenate(each) for each in zip(*parts, strict=True))
        return cls(r, J, tried)

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """The score of each candidate `(n,)`, NaN for those that the model has already; and the sign that it wants."""
        old, new = self.J[:, : -self.tried], self.J[:, -self.tried :]
        Q = np.linalg.qr(old[:, np.linalg.norm(old, axis=0) > 0])[0]
        left, r = new - Q @ (Q.T @ new), self.r - Q @ (Q.T @ self.r)
        size = np.linalg.norm(left, axis=0)
        there = np.isfinite(size) & (size > NOTHING * np.linalg.norm(new, axis=0)) & (size > 0)
        along = left.T @ r
        return np.where(there, along**2 / np.where(there, size**2, 1.0), np.nan), np.where(along > 0, -1.0, 1.0)


def _weak_estimate(fit: FitResult) -> FloatArray:
    """Parameters that fit the weak residuals best: those of trajectories that a wrong model never has are no use."""
    for method in ("irls", "wls"):
        try:
            found = again(fit, method=method, start=None, options=None)
        except WeakformError:
            continue
        if found.converged:
            return found.estimate
    return fit.estimate


def _measured(fit: FitResult, wide: Model, more: int) -> _Seen:
    """Residuals of the data, on the mesh of the fit."""
    if not fit.nodes:
        raise FitError("Terms can be tried where the fit has states on a mesh: fit with method='wendy' or 'relaxed'.")
    assert fit.index is not None
    P = len(fit.estimate)
    index = np.hstack([fit.index, np.tile(P + np.arange(more), (len(fit.index), 1))])
    model = fit.model.with_parts(variants=(), parameters=(*fit.model.parameters, *wide.parameters[-more:]))
    problem = LatentProblem.of(model, wide, index, fit.data, fit.sigma)
    latent = Latent.of(fit.nodes, np.append(fit.estimate, np.zeros(more)))
    free = np.append(~fit.fixed, np.ones(more, dtype=bool))
    meshed = Meshed(problem.relaxed(latent.meshes, fit.sigma, free))
    moving = meshed.moving(latent.point.p, latent.point.X)
    if moving is None:
        raise FitError("The fitted model cannot be linearised at its estimate; no term can be tried.")
    J, F = meshed.spread(moving), int(free.sum())
    # The coefficients go last, behind the initial values.
    return _Seen(moving.residuals.ravel(), np.hstack([J[:, : F - more], J[:, F:], J[:, F - more : F]]), more)


def _fitted(base: FitResult, model: Model, candidate: _Candidate, factor: str | float, tried: int) -> list[Term]:
    """The term in a fit, times a new parameter or a sign; nothing where that fails."""
    if isinstance(factor, float):
        wide = _with_flux(model, candidate, factor)
    else:
        wide = _with_terms(model, {factor: candidate})
    try:
        limit = min(base.options.time_limit, SECONDS)
        found = again(base, wide, start=None, callback=Watch(limit, alone=True))
    except WeakformError:
        return []
    gain = maximum(found) - maximum(base)
    if not (found.converged and np.isfinite(gain)):
        return []
    p = min(1.0, tried * chi_square_tail(max(2 * gain, 0.0), 1))
    fits = found.goodness is None or found.goodness.p_value > REJECTED
    coefficient, error = factor, 0.0
    if isinstance(factor, str):
        coefficient, error = found[factor].value, found[factor].error
    assert isinstance(coefficient, float)
    return [Term(candidate.equation, candidate.text, coefficient, error, gain=float(gain), p_value=p, mends=bool(fits))]
