"""A comparison of experiments: the standard errors to expect after each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..support.array_types import FloatArray
from ..support.errors import FitError
from ..support.optional_imports import import_pandas
from ..support.wording import suggest_name

MAX_RATIO_WORTH_A_SENTENCE = 0.95
"""Ratio of a standard error after an experiment to that before, above which the experiment is reported to add little.
By judgement."""
RATIOS_CALLED_HALF = (0.45, 0.55)
"""Range of that ratio in which the error is reported as halved. By judgement."""


@dataclass(frozen=True)
class Design:
    """Experiments, and the standard errors to expect after each.

    Attributes
    ----------
    names : tuple of str
        The free parameters, J of them.
    before : ndarray, (J,)
        Their present standard errors; infinite if nothing has been measured yet.
    experiments : dict of str to ndarray, (J,)
        The standard errors after each experiment, by its name.
    samples : dict of str to int
        The number of values that each experiment measures.
    """

    names: tuple[str, ...]
    before: FloatArray
    experiments: dict[str, FloatArray]
    samples: dict[str, int]

    def best(self, name: str) -> str:
        """Return the experiment that shrinks the standard error of a parameter most.

        Parameters
        ----------
        name : str
            The parameter.

        Returns
        -------
        str
            The name of the experiment.
        """
        if name not in self.names:
            raise FitError(f"No free parameter {name!r}.{suggest_name(name, self.names)}")
        j = self.names.index(name)
        return min(self.experiments, key=lambda key: self.experiments[key][j])

    @property
    def sentences(self) -> list[str]:
        """Return one sentence for each parameter: the best experiment for it, and how much its error shrinks."""
        sentences = []
        for j, name in enumerate(self.names):
            key = self.best(name)
            after, before = self.experiments[key][j], self.before[j]
            if not np.isfinite(after):
                sentences.append(f"{name}: none of these experiments can determine it.")
            elif not np.isfinite(before):
                sentences.append(f"{name}: {key} determine it best, to ±{after:.3g}.")
            elif after > MAX_RATIO_WORTH_A_SENTENCE * before:
                sentences.append(f"{name}: none of these experiments would shrink its error much ({before:.3g}).")
            else:
                low, high = RATIOS_CALLED_HALF
                change = "halves" if low <= after / before <= high else f"shrinks to {after / before:.0%}"
                sentences.append(f"{name}: with {key} its error {change} ({before:.3g} to {after:.3g}).")
        return sentences

    def to_frame(self) -> Any:
        """Return the standard errors as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each experiment, the first one `now`; one column for each parameter.
        """
        pd = import_pandas()

        rows = {"now": self.before, **self.experiments}
        return pd.DataFrame.from_dict(rows, orient="index", columns=list(self.names))

    def plot(self) -> Any:
        """Draw the remaining share of each standard error after each experiment; return the matplotlib axes."""
        from ..report.plots import plot_design

        return plot_design(self)

    def __str__(self) -> str:
        # Before any data there are no present errors to take a share of.
        has_errors = np.isfinite(self.before).all()
        head = "Remaining share of each standard error:" if has_errors else "Standard errors to expect:"
        width = max(len(key) for key in self.experiments)
        lines = [head, f"  {'':{width}s}  " + "  ".join(f"{name:>9s}" for name in self.names)]
        for key, errors in self.experiments.items():
            cells = [f"{a / b:9.0%}" if has_errors else f"{a:9.3g}" for a, b in zip(errors, self.before, strict=True)]
            lines.append(f"  {key:{width}s}  " + "  ".join(cells))
        return "\n".join([*lines, "", *self.sentences])

    def __repr__(self) -> str:
        return f"<Design: {len(self.experiments)} experiments>\n{self}"
