"""Initial values and states of a fit by name, each with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..model.naming import initial_name
from ..results.records import Quantity
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.wording import suggestion
from .fitted_states import UNKNOWN, beginning, finite, is_complete, is_free, joint, system
from .intervals import FEW, LEVEL, PROFILE, mean_reach, quantity
from .refits import can_refit
from .state_bands import LEANING

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

SAME = 1e-6
"""Relative difference of two values that are one."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One state in time with a pointwise band.

    Attributes
    ----------
    times, values, lower, upper : ndarray, (time,)
    """

    times: FloatArray
    values: FloatArray
    lower: FloatArray
    upper: FloatArray


class Beginnings(Mapping[str, "Quantity | dict[str, Quantity]"]):
    """The state at the beginning: a quantity for each name, or with several trajectories one for each of them."""

    def __init__(self, fit: FitResult) -> None:
        self.fit = fit

    def __iter__(self) -> Iterator[str]:
        return iter(self.fit.model.states)

    def __len__(self) -> int:
        return len(self.fit.model.states)

    def __repr__(self) -> str:
        lines = []
        for name in self:
            found = self[name]
            each = found.items() if isinstance(found, dict) else [("", found)]
            lines += [f"{quantity} of {label}" if label else str(quantity) for label, quantity in each]
        return "\n".join(lines)

    def __getitem__(self, name: str) -> Quantity | dict[str, Quantity]:
        states = self.fit.model.states
        if name not in states:
            raise KeyError(f"No state {name!r}.{suggestion(str(name), states)} There are: {', '.join(states)}.")
        labels = [q.label for q in self.fit.data.trajectories]
        found = {label: self._one(name, k) for k, label in enumerate(labels)}
        return found[labels[0]] if len(labels) == 1 else found

    @np.errstate(all="ignore")
    def _one(self, name: str, k: int) -> Quantity:
        fit, d = self.fit, self.fit.model.states.index(name)
        _, u0 = beginning(fit, k)
        model = fit.model.of(k)
        given = name in model.initial
        if str(model.initial.get(name)) in fit.model.parameters:
            return replace(quantity(fit, str(model.initial[name])), name=f"{name}(0)")
        _, covariance = joint(fit, k, finite(fit))
        coordinates = system(fit, k)
        x = coordinates.to_working(u0[None])[0]
        J = len(fit.estimate)
        deviation = np.sqrt(max(float(covariance[J + d, J + d]), 0.0))
        half = fit.quantile(0.95) * deviation
        ends = [float(coordinates.from_working((x + sign * half * np.eye(len(x))[d])[None])[0, d]) for sign in (-1, 1)]
        error = float(deviation * coordinates.slopes(u0[None])[0][d, d])
        note = "given" if given and not error else ""
        if error > UNKNOWN * abs(u0[d]) and is_free(fit):
            return Quantity(f"{name}(0)", float(u0[d]), np.inf, (-np.inf, np.inf), "cannot be determined")
        # The covariance takes what sits at a bound as known, and with few samples solutions bend.
        found = (
            self._pinned(k, name, float(u0[d])) if error and (fit.at_bound.any() or fit.data.samples <= FEW) else None
        )
        width = ends[1] - ends[0]
        if found and not max(abs(a - b) for a, b in zip(found[0], ends, strict=True)) <= LEANING * width:
            (ends, error), note = found, PROFILE
        return Quantity(f"{name}(0)", float(u0[d]), error, (ends[0], ends[1]), note)

    def _pinned(self, k: int, name: str, before: float) -> tuple[list[float], float] | None:
        """Ends and error by the likelihood, with all parameters free to move; None where it cannot be followed."""
        fit, key = self.fit, (k, LEVEL, "beginning")
        if not (fit.nodes and can_refit(fit) and fit.converged):
            return None
        if key not in fit.late.bands:
            try:
                fit.late.bands[key] = fit.predict(fit.nodes[k][0][:1], trajectory=k, level=LEVEL, kind="profile")
            except WeakformError:
                return None
        value, *ends = map(float, fit.late.bands[key][name][0])
        if not np.isclose(value, before, rtol=SAME, atol=0.0):  # a dose, or a jump: the band is that of the state after
            return None
        reach = mean_reach(np.array([ends]), np.array([value]))
        return ends, float(reach[0]) / fit.quantile(LEVEL)


class States(Mapping[str, "Curve | dict[str, Curve]"]):
    """States and measured expressions over the time of the data: a curve for each name, or one for each trajectory."""

    def __init__(self, fit: FitResult) -> None:
        self.fit = fit

    @property
    def names(self) -> tuple[str, ...]:
        """Of the states, then of the measured expressions."""
        states = self.fit.model.states
        return (*states, *(name for name in self.fit.data.names or () if name not in states))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<curves of {', '.join(self.names)}>"

    def __getitem__(self, name: str) -> Curve | dict[str, Curve]:
        if name not in self.names:
            raise KeyError(f"No state {name!r}.{suggestion(str(name), self.names)} There are: {', '.join(self.names)}.")
        found = {}
        for k, q in enumerate(self.fit.data.trajectories):
            band = self.fit.trajectory(k)
            found[q.label] = Curve(band.times, *band[name].T)
        return next(iter(found.values())) if len(found) == 1 else found


def shown_beginnings(fit: FitResult, most: int, measured: bool = False) -> list[tuple[str, Quantity]]:
    """Initial values to show, with their labels: where states are hidden or some are given; parameters are left out.

    Parameters
    ----------
    fit : FitResult
    most : int
        Trajectories above which none are shown.
    measured : bool
        Whether to show them also where every state is measured.
    """
    if (is_complete(fit) and not measured) or len(fit.data.trajectories) > most:
        return []
    rows: list[tuple[str, Quantity]] = []
    for state in fit.model.states:
        if initial_name(state) in fit.model.parameters or str(fit.model.initial.get(state)) in fit.model.parameters:
            continue
        try:
            found = fit.initial[state]
        except WeakformError:  # the model cannot be solved over the data
            return []
        several = found.items() if isinstance(found, dict) else [("", found)]
        rows += [(f"{quantity.name} {label}".strip(), quantity) for label, quantity in several]
    return rows
