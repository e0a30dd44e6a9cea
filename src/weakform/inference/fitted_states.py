"""The fitted states of each trajectory, the measured columns computed from them, and the initial states.

Everything that is computed from a finished fit begins here: the initial state of a trajectory, the forward solution
from it, and the joint covariance of parameters and initial state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..data.matching import build_system, collect_inputs
from ..forward.solver import Simulation, simulate
from ..linalg.symmetric_matrix import invert_symmetric
from ..model.naming import format_initial_name
from ..model.system import System
from ..noise.kinds import KINDS, Kind
from ..support.array_types import FloatArray
from ..support.errors import FitError

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

FORWARD_TOLERANCE = 1e-9
"""Relative tolerance of forward solutions of the fitted model. With a larger one the error of the solver would
show beside small standard errors; a smaller one costs work for digits that are never reported. By judgement."""
UNLIMITED_RELATIVE_ERROR = 1e4
"""Standard error, relative to the estimate, that stands for infinity in covariances. It must be so large that no band
through such a parameter is mistaken for a determined one, and finite, so that products with zero are zero. By
judgement."""
UNDETERMINED_RELATIVE_ERROR = 100.0
"""Relative standard error above which a value counts as not determined. It is below `UNLIMITED_RELATIVE_ERROR`, so that
whatever inherits that error is recognised. By judgement."""


def is_fully_measured(fit: FitResult) -> bool:
    """Return True if every state is measured directly, and the fit has no given initial values and no mesh."""
    return fit.data.names == fit.model.states and not fit.model.initial and not fit.nodes


def get_system(fit: FitResult, k: int) -> System:
    """Return the right-hand side of trajectory k.

    It is in working coordinates if all states are measured, else in the coordinates of the model.
    """
    if is_fully_measured(fit):
        return build_system(fit.model, fit.data, k)
    # Gaussian noise has the identity as its transform: working coordinates are those of the model.
    plain = ("gaussian",) * len(fit.model.states)
    return fit.model.for_trajectory(k).system(plain).with_inputs(collect_inputs(fit.model, fit.data, k))


def get_initial_state(fit: FitResult, k: int) -> tuple[float, FloatArray]:
    """Return the initial time of trajectory k, and the fitted state at it, `(D,)`."""
    if fit.nodes:
        times, states = fit.nodes[k]
        model = fit.model.for_trajectory(k)
        is_given = np.array([state in model.initial for state in model.states])
        # Initial values that the model gives are evaluated again: those on the mesh carry its rounding.
        initial = model.build_map("g")(times[:1], states[:1], fit.estimate)[0]
        return float(times[0]), np.where(is_given, initial, states[0])
    return float(fit.data.trajectories[k].times[0]), fit.denoised[k][0]


def solve_forward(fit: FitResult, k: int, times: FloatArray, sensitivities: bool = False) -> tuple[Simulation, int]:
    """Solve the fitted model over some times of trajectory k, from its fitted initial state.

    Parameters
    ----------
    fit : FitResult
    k : int
        Number of the trajectory.
    times : ndarray, (time,)
        Increasing, none before the initial time.
    sensitivities : bool
        Whether to compute derivatives with respect to parameters and initial values, too.

    Returns
    -------
    solution : Simulation
    before : int
        The number of its rows before `times[0]`: 1 if the initial time was added, else 0.
    """
    begin, u0 = get_initial_state(fit, k)
    before = int(times[0] > begin)
    grid = np.concatenate([[begin], times]) if before else times
    inputs = collect_inputs(fit.model, fit.data, k)
    model = fit.model.for_trajectory(k)
    solution = simulate(
        model, fit.estimate, u0, grid, inputs=inputs, sensitivities=sensitivities, rtol=FORWARD_TOLERANCE
    )
    return solution, before


@dataclass(frozen=True)
class MeasuredColumns:
    """Measured columns of trajectory k as functions of its states.

    Attributes
    ----------
    fit : FitResult
    k : int
        Number of the trajectory.
    names : tuple of str
        The columns, K of them.
    kinds : tuple of Kind
        The kind of noise of each.
    """

    fit: FitResult
    k: int
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]

    @classmethod
    def select(cls, fit: FitResult, k: int, with_states: bool = False) -> MeasuredColumns:
        """Select the measured expressions, or with `with_states` all measured columns, states among them."""
        columns = fit.data.names or fit.model.states
        chosen = [d for d, name in enumerate(columns) if with_states or name not in fit.model.states]
        kinds = tuple(KINDS[fit.data.noise[d]] for d in chosen)
        return cls(fit, k, tuple(columns[d] for d in chosen), kinds)

    def compute_values(self, times: FloatArray, states: FloatArray, p: FloatArray | None = None) -> FloatArray:
        """Compute the columns `(time, K)` from states `(time, D)`; `p` `(J,)` is the estimate by default."""
        if not self.names:
            return np.empty((len(times), 0))
        inputs = collect_inputs(self.fit.model, self.fit.data, self.k)
        parameters = self.fit.estimate if p is None else p
        return self.fit.model.for_trajectory(self.k).build_map("h", self.names)(
            times, states, parameters, None if inputs is None else inputs(times)
        )

    def linearise(self, times: FloatArray, states: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Compute the columns at the estimate, with derivatives with respect to states and parameters.

        Returns
        -------
        h : ndarray, (time, K)
        by_states : ndarray, (time, K, D)
        by_parameters : ndarray, (time, K, J)
        """
        if not self.names:
            D, J = len(self.fit.model.states), len(self.fit.model.parameters)
            n = len(times)
            return np.empty((n, 0)), np.empty((n, 0, D)), np.empty((n, 0, J))
        inputs = collect_inputs(self.fit.model, self.fit.data, self.k)
        return (
            self.fit.model.for_trajectory(self.k)
            .build_map("h", self.names)
            .linearise(times, states, self.fit.estimate, None if inputs is None else inputs(times))
        )


def compute_fitted_columns(fit: FitResult, k: int) -> FloatArray:
    """Compute the fitted values of the measured columns at the samples of trajectory k, `(time, K)`."""
    if is_fully_measured(fit):
        return fit.denoised[k]
    return MeasuredColumns.select(fit, k, with_states=True).compute_values(
        fit.data.trajectories[k].times, fit.denoised[k]
    )


def compute_residuals(fit: FitResult) -> tuple[FloatArray, ...]:
    """Compute measured minus fitted values, `(time, columns)` for each trajectory; NaN for missing values."""
    return tuple(q.values - compute_fitted_columns(fit, k) for k, q in enumerate(fit.data.trajectories))


def list_panels(fit: FitResult) -> tuple[str, ...]:
    """List the names that a picture of the fit shows: the measured columns, then the states that are not measured."""
    columns = fit.data.names or fit.model.states
    return (*columns, *(state for state in fit.model.states if state not in columns and state not in fit.model.hidden))


def collect_curves(fit: FitResult, k: int) -> dict[str, FloatArray]:
    """Return the fitted states and measured columns at the samples of trajectory k, by name, `(time,)` each."""
    states = dict(zip(fit.model.states, fit.denoised[k].T, strict=True))
    return {**states, **dict(zip(fit.data.names or fit.model.states, compute_fitted_columns(fit, k).T, strict=True))}


def differentiate_initial_state(fit: FitResult, k: int) -> tuple[FloatArray, FloatArray]:
    """Return how the initial state of trajectory k depends on fitted initial values and on parameters.

    Returns
    -------
    E : ndarray, (D, B)
        Columns of a unit matrix that select the B initial values that are fitted.
    G : ndarray, (D, J)
        `∂u₀/∂p` of the initial values that the model gives; zero for the others.
    """
    model = fit.model.for_trajectory(k)
    is_given = np.array([state in model.initial for state in model.states])
    _, u0 = get_initial_state(fit, k)
    _, _, by_p = model.build_map("g").linearise(np.zeros(1), u0[None], fit.estimate, None)
    return np.eye(len(is_given))[:, ~is_given], np.where(is_given[:, None], by_p[0], 0.0)


def has_free_direction(fit: FitResult) -> bool:
    """Return True if some direction of parameters and initial values cannot be identified from the measured columns."""
    return bool(fit.freedoms) or bool(np.isinf(fit.covariance.diagonal()).any())


def make_covariance_finite(fit: FitResult) -> FloatArray:
    """Return the covariance `(J, J)` with finite entries: zero for a parameter at a bound, large if infinite."""
    C = np.nan_to_num(fit.covariance, nan=0.0, posinf=0.0, neginf=0.0)
    unlimited = np.isinf(fit.covariance.diagonal())
    C[unlimited, unlimited] = (UNLIMITED_RELATIVE_ERROR * np.maximum(np.abs(fit.estimate[unlimited]), 1.0)) ** 2
    return np.asarray(C)


def _find_free_directions(fit: FitResult, k: int, by_p: FloatArray) -> FloatArray:
    """Compute the directions of (parameters, initial state) along scalings that leave all measured columns unchanged.

    Parameters
    ----------
    fit : FitResult
    k : int
        Number of the trajectory.
    by_p : ndarray, (D, J)
        `∂u₀/∂p` of the initial values that the model gives.

    Returns
    -------
    ndarray, (scalings, J + D)
    """
    _, u0 = get_initial_state(fit, k)
    several = f" of {fit.data.trajectories[k].label}" if len(fit.data.trajectories) > 1 else ""
    position = {name: j for j, name in enumerate(fit.model.parameters)}
    position |= {f"{format_initial_name(s)}{several}": len(position) + d for d, s in enumerate(fit.model.states)}
    theta, J = np.concatenate([fit.estimate, u0]), len(fit.estimate)
    rows = []
    for freedom in fit.freedoms:
        for scaling in freedom.scalings:
            # θ_j → θ_j cⁿ changes θ_j by n θ_j for each unit of log c.
            direction = np.zeros(len(theta))
            for name, exponent in zip(freedom.names, scaling, strict=True):
                if name in position:
                    direction[position[name]] = exponent * theta[position[name]]
            # Initial values that the model gives as functions of p follow p.
            direction[J:] += by_p @ direction[:J]
            rows.append(direction)
    return np.array(rows).reshape(len(rows), len(theta))


def compute_joint_covariance(fit: FitResult, k: int, C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Compute the joint mean and covariance of the parameters and the initial state of trajectory k.

    With the sensitivities K_p and K₀ of the measured columns, over σ, initial values that are given by `g(p)` and the
    others ξ, `x₀ = g(p) + E ξ`: given p the data determine ξ with covariance `B = (EᵀK₀ᵀK₀E)⁻¹`, and it moves with p by
    `R = -B (K₀E)ᵀ (K_p + K₀ ∂g)`. Hence `Cov(x₀) = T C Tᵀ + E B Eᵀ` with `T = ∂g + E R`.

    Parameters
    ----------
    fit : FitResult
    k : int
        Number of the trajectory.
    C : ndarray, (J, J)
        Covariance of the parameters, finite.

    Returns
    -------
    mean : ndarray, (J + D,)
        (p, u₀), u₀ in the coordinates of the model.
    covariance : ndarray, (J + D, J + D)
        Of (p, x₀), x₀ in the coordinates of `get_system`.
    """
    q = fit.data.trajectories[k]
    _, u0 = get_initial_state(fit, k)
    D, J = len(u0), len(fit.estimate)
    solution, before = solve_forward(fit, k, q.times, sensitivities=True)
    if not solution.success or solution.by_parameters is None or solution.by_initial is None:
        raise FitError(f"The fitted model could not be solved over the data: {solution.status.value}.")
    states = solution.states[before:]
    coordinates = get_system(fit, k)
    slope = coordinates.compute_slopes(u0[None])[0]
    by_x0, by_p = solution.by_initial[before:] @ slope, solution.by_parameters[before:]
    if is_fully_measured(fit):
        K0, Kp = coordinates.divide_by_slopes(states, by_x0), coordinates.divide_by_slopes(states, by_p)
        E, G = np.eye(D), np.zeros((D, J))
    else:
        columns = MeasuredColumns.select(fit, k, with_states=True)
        h, hu, hp = columns.linearise(q.times, states)
        scale = np.column_stack([kind.numeric_slope(c) for kind, c in zip(columns.kinds, h.T, strict=True)])[:, :, None]
        K0, Kp = hu @ by_x0 / scale, (hu @ by_p + hp) / scale
        E, G = differentiate_initial_state(fit, k)
    sigma = np.where(fit.sigma > 0, fit.sigma, 1.0)
    # Missing values have no weight; their NaN must not spread.
    weight = np.where(q.measured, 1 / (sigma * q.scales), 0.0)[:, :, None]
    K0, Kp = (np.nan_to_num(K * weight).reshape(weight.size, -1) for K in (K0, Kp))
    # Derivatives with respect to p, through the initial values g(p) as well, and to the fitted initial values ξ only.
    Kp, K0 = Kp + K0 @ G, K0 @ E
    B = invert_symmetric(K0.T @ K0) if E.size else np.zeros((0, 0))
    T = G - E @ B @ (K0.T @ Kp)
    covariance = np.zeros((J + D, J + D))
    covariance[:J, :J] = C
    covariance[J:, :J] = T @ C
    covariance[:J, J:] = covariance[J:, :J].T
    # Noise-free data determine ξ exactly: the σ = 1 above is only a weight, and B is no covariance.
    covariance[J:, J:] = T @ C @ T.T + (E @ B @ E.T if (fit.sigma > 0).all() else 0.0)
    # A bound may stop the fit along a direction that the data cannot identify; the direction is still undetermined.
    free = _find_free_directions(fit, k, G) * UNLIMITED_RELATIVE_ERROR
    covariance += free.T @ free
    return np.concatenate([fit.estimate, u0]), covariance
