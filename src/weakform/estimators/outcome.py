"""The result of a search and of its refinement, the same records for every estimator."""

from __future__ import annotations

from dataclasses import dataclass

from ..collocation.hidden_state_problem import MeshStates
from ..collocation.residual_projection import ResidualProjection
from ..results.status import Status
from ..support.array_types import FloatArray


@dataclass(frozen=True)
class Refinement:
    """Results that are available once the states obey the model: covariance, noise level, states, goodness of fit.

    Here F is the number of free parameters, D the number of measured columns.

    Attributes
    ----------
    covariance : ndarray, (F, F)
        Covariance of the free parameters.
    sigma : ndarray, (D,)
        Standard deviation of the noise, given or estimated, in working coordinates.
    states : tuple of ndarray, (time, states)
        States at the samples of each trajectory, in the units of the data; they obey the model.
    misfit : float
        `Σ (x^data - x)²/σ²`; NaN if the method has no likelihood.
    freedom : int
        Degrees of freedom: measured values less fitted parameters and initial states.
    residuals : tuple of ndarray, (time, D), or None
        `(x^data - x)/σ` over the scale of each value, NaN where nothing was measured; None if the method has no
        likelihood.
    nodes_per_sample : int
        Number of mesh nodes for each sample.
    bias : float
        Largest shift of a parameter by the discretisation error, in standard errors.
    held_direction : ndarray, (F,), or None
        Direction in the free parameters, in units of their standard errors, along which the iteration did not move
        because the data do not determine it.
    information : ndarray, (F, F), or None
        Information matrix whose inverse is the covariance; None if the covariance is not such an inverse.
    project_residuals : callable, optional
        Map from white noise to the residuals that a fit of a correct model to it has.
    stiffness : float
        Fastest decay rate of the equations along the states, times the interval between samples. It is computed only
        where the discretisation is too coarse, to find out whether stiffness is the cause; otherwise 0.
    """

    covariance: FloatArray
    sigma: FloatArray
    states: tuple[FloatArray, ...]
    misfit: float
    freedom: int
    residuals: tuple[FloatArray, ...] | None
    nodes_per_sample: int = 1
    bias: float = 0.0
    held_direction: FloatArray | None = None
    information: FloatArray | None = None
    project_residuals: ResidualProjection | None = None
    stiffness: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """The result of an estimator from one start.

    Attributes
    ----------
    estimate : ndarray, (J,)
        All parameters, on the scale on which the estimators work.
    objective : float
        The value that is compared between starts; smaller is better, infinite if the search has failed.
    status : Status
    iterations : int
    evaluations : int
    refined : Refinement, optional
        Set once the outcome has been refined.
    initial : tuple of ndarray, (D,), optional
        Initial state of each trajectory in working coordinates, if the method fits one.
    note : str
        A decision of the method that the user should know of, as a sentence.
    latent : MeshStates, optional
        States on a mesh, if the method computes them.
    curvature : ndarray, (F, F), optional
        Hessian of the objective in the free parameters, if the objective is a sum of squares.
    rough : bool
        Whether the estimate comes from a search that stops early, so that the refinement has to improve it first.
    """

    estimate: FloatArray
    objective: float
    status: Status
    iterations: int
    evaluations: int
    refined: Refinement | None = None
    initial: tuple[FloatArray, ...] | None = None
    note: str = ""
    latent: MeshStates | None = None
    curvature: FloatArray | None = None
    rough: bool = False
