"""Parameters that differ between subjects: their mean, their spread, and the estimate of each subject."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..support.optional_imports import import_pandas

SHRINKAGE_TO_REPORT = 0.3
"""Shrinkage, between 0 and 1. Above, the printed text says that single subjects carry little information. By
judgement."""


@dataclass(frozen=True)
class Effect:
    """A random effect: one parameter over a population.

    Attributes
    ----------
    name : str
        The parameter.
    kind : str
        Its distribution over subjects, `"lognormal"` or `"normal"`.
    mean : float
        The typical value: the median of a log-normal distribution, the mean of a normal one.
    mean_interval : tuple of float
        Its interval at 95%.
    spread : float
        The standard deviation over subjects; that of the logarithm for a log-normal distribution.
    spread_interval : tuple of float
        Its interval at 95%; the lower end is 0 if there is no spread beyond the noise.
    shrinkage : float
        Share by which the subjects' estimates are drawn towards the mean: 0 if the data of each subject determine its
        value, 1 if none do.
    subjects : dict of str to float
        The estimate of each subject, given its data and the population.
    """

    name: str
    kind: str
    mean: float
    mean_interval: tuple[float, float]
    spread: float
    spread_interval: tuple[float, float]
    shrinkage: float
    subjects: dict[str, float]


@dataclass(frozen=True)
class Population:
    """All random effects of a fit.

    Attributes
    ----------
    effects : tuple of Effect
    rounds : int
        Number of times that mean and spread were re-estimated.
    converged : bool
        True if mean and spread had settled by the last round.
    """

    effects: tuple[Effect, ...]
    rounds: int
    converged: bool

    def __getitem__(self, name: str) -> Effect:
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise KeyError(f"No random effect {name!r}. The random effects are: {', '.join(e.name for e in self.effects)}.")

    def to_frame(self) -> Any:
        """Return the estimates of the subjects as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each subject, one column for each effect.
        """
        pd = import_pandas()

        return pd.DataFrame({effect.name: effect.subjects for effect in self.effects})

    def __str__(self) -> str:
        lines = ["Population:", f"  {'':10s} {'typical':>10s}  {'95% interval':22s} {'spread':>8s}  95% interval"]
        for e in self.effects:
            mean = f"[{e.mean_interval[0]:.4g}, {e.mean_interval[1]:.4g}]"
            spread = f"[{e.spread_interval[0]:.3g}, {e.spread_interval[1]:.3g}]"
            scale = "of the logarithm" if e.kind == "lognormal" else ""
            lines.append(f"  {e.name:10s} {e.mean:10.5g}  {mean:22s} {e.spread:8.3g}  {spread} {scale}".rstrip())
            if e.spread_interval[0] == 0:
                lines.append("    no spread beyond the noise can be seen")
            elif e.shrinkage > SHRINKAGE_TO_REPORT:
                lines.append(f"    single subjects carry little information: shrinkage {e.shrinkage:.0%}")
        if not self.converged:
            lines.append("  mean and spread were still changing after the last round; treat them as rough")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Population of {len(self.effects)} effects>\n{self}"
