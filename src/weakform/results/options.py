"""Options of a fit: tolerances, limits and choices of algorithm."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from ..support.compact_repr import CompactRepr
from ..support.errors import FitError
from ..support.wording import suggest_name

COMMON_OPTIONS = ("tolerance", "max_iterations", "time_limit")
"""Options of every method."""

RESTRICTING_OPTIONS = ("solver", "covariance", "residuals", "weak")
"""Options that choose a way of fitting: if one is not at its default, no fallback to another method is tried."""


@dataclass(frozen=True, repr=False)
class Options(CompactRepr):
    """Options of a fit; the defaults are the paper's.

    A method refuses an option that it does not use.

    Attributes
    ----------
    tolerance : float
        Absolute and relative tolerance of step, gradient and objective.
    max_iterations : int, optional
        Iterations of a search; 200 by default, or 1000 sweeps for `"irls"`.
    time_limit : float
        Seconds for the whole fit.
    solver : str
        For `"mle"` and methods that start with it: `"trust-region"`, or `"cubic"` (adaptive cubic regularisation, which
        does not support bounds).
    covariance : str
        For `"wendy"`: `"information"`; `"sandwich"` if the noise level may vary from sample to sample; or `"paper"`,
        the formula that the other weak methods always use.
    residuals : str
        For `"output-error"` and `"hybrid"`: `"noise"`, in coordinates in which the noise is additive (logarithms for
        log-normal noise), weighted by one over σ; or `"additive"`, the paper's plain differences for any noise.
    weak : str
        The weak method that starts `"hybrid"`: `"wendy"`, `"mle"` (the paper's), `"irls"` or `"wls"`.

    Examples
    --------
    >>> import weakform as wf
    >>> wf.Options(time_limit=10.0).tolerance
    1e-08
    """

    tolerance: float = 1e-8
    max_iterations: int | None = None
    time_limit: float = 200.0
    solver: str = "trust-region"
    covariance: str = "information"
    residuals: str = "noise"
    weak: str = "wendy"

    @classmethod
    def of(cls, options: Options | Mapping[str, Any] | None) -> Options:
        """Build options from a mapping, or validate given ones; None for the defaults.

        Raises
        ------
        FitError
            If an option is unknown, of the wrong type, or out of range.
        """
        if options is None or isinstance(options, Options):
            chosen = options or cls()
        elif not isinstance(options, Mapping):
            raise FitError(f"options must be Options(...) or a mapping; received {options!r}.")
        else:
            names = [field.name for field in fields(cls)]
            for name in options:
                if name not in names:
                    raise FitError(f"Unknown option {name!r}.{suggest_name(name, names)} Options: {', '.join(names)}.")
            chosen = cls(**options)
        for name in ("tolerance", "time_limit"):
            if not isinstance(getattr(chosen, name), numbers.Real):
                raise FitError(f"{name} must be a number; received {getattr(chosen, name)!r}.")
        if chosen.max_iterations is not None and not isinstance(chosen.max_iterations, numbers.Integral):
            raise FitError(f"max_iterations must be a whole number; received {chosen.max_iterations!r}.")
        if not (0 < chosen.tolerance < 1):
            raise FitError(f"The tolerance must be between 0 and 1; received {chosen.tolerance!r}.")
        if chosen.max_iterations is not None and chosen.max_iterations < 1:
            raise FitError(f"max_iterations must be at least 1; received {chosen.max_iterations!r}.")
        if not chosen.time_limit > 0:
            raise FitError(f"time_limit must be a positive number of seconds; received {chosen.time_limit!r}.")
        for name, words in (
            ("solver", ("trust-region", "cubic")),
            ("covariance", ("information", "sandwich", "paper")),
            ("residuals", ("noise", "additive")),
            ("weak", ("wendy", "mle", "irls", "wls")),
        ):
            if getattr(chosen, name) not in words:
                raise FitError(
                    f"{name} must be one of {', '.join(map(repr, words))}; received {getattr(chosen, name)!r}."
                )
        return chosen

    @property
    def non_default_names(self) -> tuple[str, ...]:
        """Names of the options that differ from their defaults."""
        return tuple(f.name for f in fields(self) if getattr(self, f.name) != f.default)

    @property
    def restricting_names(self) -> tuple[str, ...]:
        """Names of the options that choose a way of fitting, so that no other method may take its place."""
        return tuple(name for name in self.non_default_names if name in RESTRICTING_OPTIONS)
