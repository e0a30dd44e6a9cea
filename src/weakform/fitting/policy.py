"""Thresholds that decide which strategies run after the first fit, and which attempt is reported."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FallbackPolicy:
    """Thresholds of the ladder of strategies.

    Differences of log-likelihoods are natural logarithms. Starts agree if they ended within `agreement` of the best
    log-likelihood.
    """

    agreement: float = 0.05
    """Difference of log-likelihoods. Below, two starts have reached the same optimum. By judgement: far below the 0.5
    that would matter to an interval, far above the tolerance of the search."""

    min_agreeing_starts: int = 4
    """Number of starts that agree on a fit that did not succeed. With this many or more, no further random starts are
    tried; with fewer they are. By judgement."""

    min_agreeing_starts_of_success: int = 3
    """Number of starts that agree on a success with hidden states. With fewer, more starts are tried. By judgement;
    `tests/test_hidden_starts.py` has models on which too few starts agreed on a wrong optimum."""

    extra_starts: int = 24
    """Random starts of a second search. By judgement; they take about 1 to 3 s on short noisy series."""

    extra_starts_if_refuted: int = 64
    """Random starts before a hidden-state model is reported as REJECTED or MISSTATED. By judgement."""

    short_series: int = 100
    """Samples of the longest trajectory. Below, residuals cannot be told from noise by their size alone, and a fit that
    leaves much variation unexplained is searched for again. By judgement."""

    unexplained_for_retry: float = 0.25
    """Residual standard deviation as a share of a column's spread, in a short series. Above, a success is not accepted
    before the relaxed model has been tried. By judgement."""

    unexplained_for_more_starts: float = 0.4
    """Residual standard deviation as a share of a column's spread, in a short series. Above, the relaxed model is tried
    from `extra_starts` starts, and a single start at the best likelihood is a reason to doubt the fit. By judgement."""

    min_starts_to_disagree: int = 4
    """Number of starts from which on it is suspicious if only one of them reached the best likelihood. By judgement."""

    stiff_decay: float = 100.0
    """Fastest decay rate of the equations times the median interval between samples. Above, the equations are stiff:
    the relaxed model is skipped, and a growing horizon with an implicit solver is tried. By judgement."""

    gain_of_success: float = 0.5
    """Gain in log-likelihood with which a later attempt that succeeded replaces an earlier one. By judgement: a quarter
    of the 1.92 that separates the estimate from the end of a 95% interval."""

    gain_without_success: float = 3.0
    """Gain in log-likelihood with which a later attempt that did not succeed replaces an earlier one. By judgement."""

    equal_likelihoods: float = 0.005
    """Difference of log-likelihoods. Up to it, a second optimum is the same solution with names exchanged; above, two
    optima that fit equally well make a fit UNDETERMINED. By judgement; `tests/test_hidden.py` has a model with two
    rates that fit nearly as well when exchanged."""

    distinct_end_points: float = 0.1
    """Relative difference of parameters. Above, the equations are solved from both of two end points. By judgement."""

    max_end_points: int = 3
    """End points from which the equations are solved, at most. By judgement: each costs an output-error fit."""

    max_horizon_starts: int = 2
    """End points of the first search from which a growing horizon is tried, at most. By judgement."""

    nearby_iterations: int = 40
    """Iterations of output error from each end point, at most. By judgement: more iterations rarely reach a solution
    that is not near."""


FALLBACK_POLICY = FallbackPolicy()
"""The policy that `fit` uses."""
