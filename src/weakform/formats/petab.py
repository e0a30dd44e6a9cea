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

from ..data import Dataset
from ..errors import DataError, ModelError
from ..modelfile import ModelFile
from .isolated import ask
from .sbml import assembled

if TYPE_CHECKING:
    from ..result import FitResult


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
        from ..fitting import fit

        return fit(self.file.model, self.data, **{**self.file.arguments(), **more})


def read_petab(path: str | Path) -> PetabProblem:
    """A problem from its YAML file."""
    found = ask("petab", str(path), str(path))
    told, data = found["told"], found["data"]
    made = assembled(found["model"], str(path), Path(path).stem)
    file = ModelFile(
        made.model,
        made.name,
        tuple(data["noise"]),
        bounds={name: (low, high) for name, (low, high) in told["bounds"].items()},
        fixed=told["fixed"],
        log=told["log"],
        local=told["local"],
        priors={name: (kind, centre, spread) for name, (kind, centre, spread) in told["priors"].items()},
        title=made.title,
        equations=made.equations,
    )
    parts = {}
    for label, (times, values, sigma) in data["trajectories"].items():
        try:
            parts[label] = Dataset(
                times, values, data["noise"], sigma if data["sigma"] else None, states=data["states"]
            )
        except DataError as error:
            raise ModelError(f"{path}: condition {label}: {error}") from None
    whole = next(iter(parts.values())) if len(parts) == 1 else Dataset.join(list(parts.values()), list(parts))
    whole._set(notes=(*whole.notes, *found["notes"]))
    return PetabProblem(file, whole, found["nominal"])
