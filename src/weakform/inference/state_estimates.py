"""Initial values and states of a fit by name, each with its uncertainty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from ..model.naming import format_initial_name
from ..results.records import Quantity
from ..support.array_types import FloatArray
from ..support.errors import WeakformError
from ..support.wording import suggest_name
from .fitted_states import (
    UNDETERMINED_RELATIVE_ERROR,
    compute_joint_covariance,
    get_initial_state,
    get_system,
    has_free_direction,
    is_fully_measured,
    make_covariance_finite,
)
from .intervals import (
    BY_PROFILE,
    DEFAULT_LEVEL,
    MAX_SAMPLES_ALWAYS_CHECKED,
    TIME_ENDED,
    compute_mean_reach,
    get_quantity,
)
from .prediction import predict
from .profile_time import TimeLimitReached, has_automatic_profiles, limit_automatic_profiles
from .refits import can_refit
from .state_bands import MAX_SHIFT_OF_ENDS

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

SAME_VALUE = 1e-6
"""Relative difference up to which the initial value of a band is that of the fit. A larger one comes from a dose or a
jump at the initial time: then the band belongs to the state after it. By judgement."""


@dataclass(frozen=True, eq=False)
class StateBand:
    """One state over time with a pointwise band.

    Attributes
    ----------
    times, values, lower, upper : ndarray, (time,)
    """

    times: FloatArray
    values: FloatArray
    lower: FloatArray
    upper: FloatArray


class InitialValues(Mapping[str, "Quantity | dict[str, Quantity]"]):
    """Initial states by name: one quantity, or with several trajectories one for each of them by label."""

    def __init__(self, fit: FitResult) -> None:
        self.fit = fit

    def __iter__(self) -> Iterator[str]:
        return iter(self.fit.model.states)

    def __len__(self) -> int:
        return len(self.fit.model.states)

    def __repr__(self) -> str:
        lines = []
        for name in self:
            initial = self[name]
            each = initial.items() if isinstance(initial, dict) else [("", initial)]
            lines += [f"{quantity} of {label}" if label else str(quantity) for label, quantity in each]
        return "\n".join(lines)

    def __getitem__(self, name: str) -> Quantity | dict[str, Quantity]:
        states = self.fit.model.states
        if name not in states:
            raise KeyError(f"No state {name!r}.{suggest_name(str(name), states)} There are: {', '.join(states)}.")
        labels = [q.label for q in self.fit.data.trajectories]
        by_label = {label: self._compute_value(name, k) for k, label in enumerate(labels)}
        return by_label[labels[0]] if len(labels) == 1 else by_label

    @np.errstate(all="ignore")
    def _compute_value(self, name: str, k: int) -> Quantity:
        """Return the initial value of one state in trajectory k, with its interval.

        The interval is that of the delta method. If a parameter is at its bound or there are few samples, it is
        compared with that of the likelihood, which replaces it if the two differ by much. The likelihood is followed
        only as long as the time for automatic profiles allows.
        """
        fit, d = self.fit, self.fit.model.states.index(name)
        _, u0 = get_initial_state(fit, k)
        model = fit.model.for_trajectory(k)
        is_given = name in model.initial
        # An initial value that is a parameter has the interval of the parameter.
        if str(model.initial.get(name)) in fit.model.parameters:
            return replace(get_quantity(fit, str(model.initial[name])), name=f"{name}(0)")
        _, covariance = compute_joint_covariance(fit, k, make_covariance_finite(fit))
        coordinates = get_system(fit, k)
        x = coordinates.to_working(u0[None])[0]
        J = len(fit.estimate)
        deviation = np.sqrt(max(float(covariance[J + d, J + d]), 0.0))
        half = fit.quantile(DEFAULT_LEVEL) * deviation
        ends = [float(coordinates.from_working((x + sign * half * np.eye(len(x))[d])[None])[0, d]) for sign in (-1, 1)]
        error = float(deviation * coordinates.compute_slopes(u0[None])[0][d, d])
        note = "given" if is_given and not error else ""
        if error > UNDETERMINED_RELATIVE_ERROR * abs(u0[d]) and has_free_direction(fit):
            return Quantity(f"{name}(0)", float(u0[d]), np.inf, (-np.inf, np.inf), "cannot be determined")
        # The covariance holds a parameter at its bound fixed, and with few samples the delta method is too rough.
        doubtful = fit.at_bound.any() or fit.data.samples <= MAX_SAMPLES_ALWAYS_CHECKED
        try:
            pinned = self._pin_value(k, name, float(u0[d])) if error and doubtful else None
        except TimeLimitReached:
            pinned, note = None, TIME_ENDED
        width = ends[1] - ends[0]
        if pinned and not max(abs(a - b) for a, b in zip(pinned[0], ends, strict=True)) <= MAX_SHIFT_OF_ENDS * width:
            (ends, error), note = pinned, BY_PROFILE
        return Quantity(f"{name}(0)", float(u0[d]), error, (ends[0], ends[1]), note)

    def _pin_value(self, k: int, name: str, before: float) -> tuple[list[float], float] | None:
        """Compute the interval of an initial value by the likelihood, with all parameters free to move.

        Parameters
        ----------
        k : int
            Number of the trajectory.
        name : str
            The state.
        before : float
            Its fitted initial value, before any dose or jump at the initial time.

        Returns
        -------
        tuple or None
            The two ends and the standard error; None if the likelihood cannot be followed, or the fit is not to be
            trusted.

        Raises
        ------
        TimeLimitReached
            If the time for automatic profiles is over.
        """
        fit, key = self.fit, (k, DEFAULT_LEVEL, "beginning")
        if not (fit.nodes and can_refit(fit) and has_automatic_profiles(fit)):
            return None
        if key not in fit.late.bands:
            begin = fit.nodes[k][0][:1]
            with limit_automatic_profiles(fit) as watch:
                try:
                    band = predict(fit, begin, trajectory=k, level=DEFAULT_LEVEL, kind="profile", watch=watch)
                except TimeLimitReached:
                    raise
                except WeakformError:
                    return None
            fit.late.bands[key] = band
        value, *ends = map(float, fit.late.bands[key][name][0])
        # At a dose or a jump the band belongs to the state after it.
        if not np.isclose(value, before, rtol=SAME_VALUE, atol=0.0):
            return None
        reach = compute_mean_reach(np.array([ends]), np.array([value]))
        return ends, float(reach[0]) / fit.quantile(DEFAULT_LEVEL)


class StateBands(Mapping[str, "StateBand | dict[str, StateBand]"]):
    """States and measured expressions over the time of the data, by name.

    Each is one curve with its band, or with several trajectories one curve for each of them by label.
    """

    def __init__(self, fit: FitResult) -> None:
        self.fit = fit

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the states, then of the measured expressions."""
        states = self.fit.model.states
        return (*states, *(name for name in self.fit.data.names or () if name not in states))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        return f"<curves of {', '.join(self.names)}>"

    def __getitem__(self, name: str) -> StateBand | dict[str, StateBand]:
        if name not in self.names:
            raise KeyError(
                f"No state {name!r}.{suggest_name(str(name), self.names)} There are: {', '.join(self.names)}."
            )
        by_label = {}
        for k, q in enumerate(self.fit.data.trajectories):
            band = self.fit.trajectory(k)
            by_label[q.label] = StateBand(band.times, *band[name].T)
        return next(iter(by_label.values())) if len(by_label) == 1 else by_label


def list_initial_values(fit: FitResult, max_trajectories: int, measured: bool = False) -> list[tuple[str, Quantity]]:
    """List the initial values that a report shows, with their labels.

    They are shown if states are hidden or some initial values are given. Initial values that are parameters are left
    out, as the table of parameters has them.

    Parameters
    ----------
    fit : FitResult
    max_trajectories : int
        Number of trajectories above which none are shown.
    measured : bool
        Whether to show them also if every state is measured.

    Returns
    -------
    list of tuple
        The text that names each value, and the value.
    """
    if (is_fully_measured(fit) and not measured) or len(fit.data.trajectories) > max_trajectories:
        return []
    rows: list[tuple[str, Quantity]] = []
    for state in fit.model.states:
        if (
            format_initial_name(state) in fit.model.parameters
            or str(fit.model.initial.get(state)) in fit.model.parameters
        ):
            continue
        try:
            initial = fit.initial[state]
        except WeakformError:  # the model cannot be solved over the data
            return []
        several = initial.items() if isinstance(initial, dict) else [("", initial)]
        rows += [(f"{quantity.name} {label}".strip(), quantity) for label, quantity in several]
    return rows
