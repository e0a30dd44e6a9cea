"""Terms that a model may lack: what was tried, and what it would do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..support.optional_imports import pandas

LEVEL = 0.05


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
