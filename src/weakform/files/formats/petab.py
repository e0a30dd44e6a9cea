"""PEtab problems (version 1) whose observables are states.

Each condition is a trajectory; what its table overrides becomes a local parameter, fixed there. Scales, bounds, nominal
values and normal priors of the parameter table are taken over; log-transformed observables are log-normal noise.
Initial states are always estimated. What goes beyond this (observables that are formulas, pre-equilibration, Laplace
noise) is named in the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...data.dataset import Dataset
from ...parameters import Parameter
from ...support.errors import DataError, ModelError
from ..model_file import ModelFile
from .isolated import ask
from .sbml import assembled

if TYPE_CHECKING:
    from ...results.result import FitResult


@dataclass(frozen=True)
class PetabProblem:
    """A PEtab problem.

    Attributes
    ----------
    file : ModelFile
        The model, and what the problem says of its parameters.
    data : Dataset
    nominal : dict of str to float
        Nominal values, which a fit does not use.
    """

    file: ModelFile
    data: Dataset
    nominal: dict[str, float] = field(default_factory=dict)

    def fit(self, **more: Any) -> FitResult:
        """Fit it; arguments as for `fit`."""
        from ...fitting import fit

        return fit(self.file.model, self.data, **{**self.file.arguments(), **more})


def _parameter(name: str, said: dict[str, Any]) -> Parameter:
    """What the parameter table and the conditions say of one parameter."""
    bounds, prior = said["bounds"].get(name), said["priors"].get(name)
    return Parameter(
        bounds=None if bounds is None else tuple(bounds),
        fixed=said["fixed"].get(name),
        log=name in said["log"],
        local=said["local"].get(name, False),
        prior=None if prior is None else tuple(prior),
    )


def read_petab(path: str | Path) -> PetabProblem:
    """A problem from its YAML file."""
    found = ask("petab", str(path), str(path))
    said, data = found["said"], found["data"]
    made = assembled(found["model"], str(path), Path(path).stem)
    file = ModelFile(
        made.model,
        made.name,
        dict(zip(data["states"], data["noise"], strict=True)),
        parameters={
            name: _parameter(name, said) for name in dict.fromkeys(name for part in said.values() for name in part)
        },
        title=made.title,
        equations=made.equations,
    )
    parts = {}
    for label, (times, values, sigma) in data["trajectories"].items():
        try:
            parts[label] = Dataset(times, values, data["noise"], sigma if data["sigma"] else None, names=data["states"])
        except DataError as error:
            raise ModelError(f"{path}: condition {label}: {error}") from None
    whole = next(iter(parts.values())) if len(parts) == 1 else Dataset.join(list(parts.values()), list(parts))
    whole = whole.replaced(notes=(*whole.notes, *found["notes"]))
    return PetabProblem(file, whole, found["nominal"])
