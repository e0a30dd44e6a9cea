"""Thresholds on the error of the discretisation, by which `wendy` and the relaxed model decide on a finer mesh."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DiscretisationPolicy:
    """When a mesh is fine enough, and when a finer one cannot help.

    The error of the rule is measured in two ways: as the shift of the parameters that it causes, in standard errors,
    and as the error at a sample or in one interval, in σ. All thresholds are by judgement; docs/method.md
    describes the rule (step 4), and tests/estimators/test_wendy.py a pole that it finds.
    """

    max_bias: float = 0.1
    """Shift of a parameter, in standard errors, above which the mesh is made finer."""
    small_error: float = 0.05
    """Error of the rule, in σ, above which it must fall by `required_decrease` when the intervals are halved.

    If it does not fall, the equations have a pole between two states, as `V*P/(Km + P)` has at a negative P: the rule
    steps over it, but no solution does.
    """
    required_decrease: float = 2.0
    """Factor by which an error above `small_error` must fall; a rule of fourth order promises far more."""
    large_error: float = 0.3
    """Error of the rule, in σ, above which the mesh is made finer whatever the shift of the parameters."""
    exact_share: float = 1e-3
    """Noise as a share of the variation of a state, below which it is no unit for the error of the rule: the data are
    (nearly) noise-free."""


DISCRETISATION = DiscretisationPolicy()
"""The thresholds in use."""
