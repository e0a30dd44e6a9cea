"""Experiments side by side: what each would leave of the errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.optional_imports import pandas
from ..support.wording import suggestion


@dataclass(frozen=True)
class Design:
    """Experiments, and what each would leave of the errors.

    Attributes
    ----------
    names : tuple of str
        Parameters that are free.
    before : ndarray, (J,)
        Their standard errors as they are; infinite where nothing was measured.
    experiments : dict of str to ndarray, (J,)
        The errors after each experiment, by its name.
    samples : dict of str to int
        How many values each measures.
    """

    names: tuple[str, ...]
    before: FloatArray
    experiments: dict[str, FloatArray]
    samples: dict[str, int]

    def best(self, name: str) -> str:
        """The experiment that shrinks the error of a parameter most."""
        if name not in self.names:
            raise FitError(f"No free parameter {name!r}.{suggestion(name, self.names)}")
        j = self.names.index(name)
        return min(self.experiments, key=lambda key: self.experiments[key][j])

    @property
    def sentences(self) -> list[str]:
        """What shrinks which error most, in words."""
        said = []
        for j, name in enumerate(self.names):
            key = self.best(name)
            after, before = self.experiments[key][j], self.before[j]
            if not np.isfinite(after):
                said.append(f"{name}: none of these determines it.")
            elif not np.isfinite(before):
                said.append(f"{name}: {key} determine it best, to ±{after:.3g}.")
            elif after > 0.95 * before:
                said.append(f"{name}: none of these would tell much more of it (error {before:.3g}).")
            else:
                how = "halves" if 0.45 <= after / before <= 0.55 else f"shrinks to {after / before:.0%}"
                said.append(f"{name}: with {key} its error {how} ({before:.3g} to {after:.3g}).")
        return said

    def to_frame(self) -> Any:
        """Errors after each experiment as a pandas data frame, parameters as columns; the first row is `now`."""
        pd = pandas()

        rows = {"now": self.before, **self.experiments}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(self.names))

    def plot(self) -> Any:
        """Draw what is left of each error after each experiment; returns the matplotlib axes."""
        from ..report.plots import planned

        return planned(self)

    def __str__(self) -> str:
        known = np.isfinite(self.before).all()
        head = "What is left of each error:" if known else "Standard errors to expect:"
        width = max(len(key) for key in self.experiments)
        lines = [head, f"  {'':{width}s}  " + "  ".join(f"{name:>9s}" for name in self.names)]
        for key, errors in self.experiments.items():
            cells = [f"{a / b:9.0%}" if known else f"{a:9.3g}" for a, b in zip(errors, self.before, strict=True)]
            lines.append(f"  {key:{width}s}  " + "  ".join(cells))
        return "\n".join([*lines, "", *self.sentences])

    def __repr__(self) -> str:
        return f"<Design: {len(self.experiments)} experiments>\n{self}"
