"""Parameters that differ from subject to subject: their mean, their spread, and what each subject has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..support.optional_imports import pandas


@dataclass(frozen=True)
class Effect:
    """A parameter over a population.

    Attributes
    ----------
    name : str
    kind : str
        `"lognormal"` or `"normal"`.
    mean : float
        The typical value: the median where it is log-normal, else the mean.
    mean_interval : tuple of float
        At 95%.
    spread : float
        The standard deviation, of the logarithm where it is log-normal.
    spread_interval : tuple of float
        At 95%.
    shrinkage : float
        How much the estimates of the subjects are drawn towards the mean: 0 where each tells enough, 1 where none does.
    subjects : dict of str to float
        What each has, with what is known of the others.
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
    """All parameters that differ, by name.

    Attributes
    ----------
    effects : tuple of Effect
    rounds : int
        How often mean and spread were found anew.
    converged : bool
    """

    effects: tuple[Effect, ...]
    rounds: int
    converged: bool

    def __getitem__(self, name: str) -> Effect:
        for effect in self.effects:
            if effect.name == name:
                return effect
        raise KeyError(f"{name!r} is no random effect; there are: {', '.join(e.name for e in self.effects)}.")

    def to_frame(self) -> Any:
        """The estimates of the subjects as a pandas data frame, one column for each effect."""
        pd = pandas()

        return pd.DataFrame({effect.name: effect.subjects for effect in self.effects})

    def __str__(self) -> str:
        lines = ["Population:", f"  {'':10s} {'typical':>10s}  {'95% interval':22s} {'spread':>8s}  95% interval"]
        for e in self.effects:
            mean = f"[{e.mean_interval[0]:.4g}, {e.mean_interval[1]:.4g}]"
            spread = f"[{e.spread_interval[0]:.3g}, {e.spread_interval[1]:.3g}]"
            how = "of the logarithm" if e.kind == "lognormal" else ""
            lines.append(f"  {e.name:10s} {e.mean:10.5g}  {mean:22s} {e.spread:8.3g}  {spread} {how}".rstrip())
            if e.spread_interval[0] == 0:
                lines.append("    no spread beyond the noise can be seen")
            elif e.shrinkage > 0.3:
                lines.append(f"    its subjects tell little of their own: shrinkage {e.shrinkage:.0%}")
        if not self.converged:
            lines.append("  mean and spread were still moving when the rounds ended; treat them as rough")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Population of {len(self.effects)} effects>\n{self}"
