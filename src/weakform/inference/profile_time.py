"""The time that automatic profiles may take.

Default intervals, standard errors, initial values and automatic bands compute profiles that nobody requested by name,
for example while a fit is printed. All of them together may take as long as the fit was allowed, `options.time_limit`
seconds; then Wald's intervals and linearised bands take their place. They run only if their result can be used: if the
fit converged and was not rejected. Profiles that the user requests (`kind="profile"`) always run to completion.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from ..results.status import Status
from ..support.errors import FitError
from ..support.progress import Watch

if TYPE_CHECKING:
    from ..results.fit_result import FitResult

STATUSES_WITH_PROFILES = (Status.CONVERGED, Status.UNDETERMINED)
"""Statuses of fits whose profiles run automatically. With any other status intervals of any kind are not to be trusted.
An undetermined fit needs profiles most, as its likelihood is far from quadratic."""


class TimeLimitReached(FitError):
    """The time limit of a fit ended its automatic profiles."""


def has_automatic_profiles(fit: FitResult) -> bool:
    """Return True if profiles of a fit run without being requested."""
    return fit.status in STATUSES_WITH_PROFILES


def build_unlimited_watch() -> Watch:
    """Return a watch for profiles that the user requested, which never stops them."""
    return Watch(np.inf)


@contextmanager
def limit_automatic_profiles(fit: FitResult) -> Iterator[Watch]:
    """Yield a watch that stops automatic profiles of a fit, and count the time that they take inside the context.

    Like the watch of a fit, it stops a little before the time is over, so that the last refit can finish.
    """
    watch = Watch(fit.options.time_limit - fit.late.profile_seconds)
    try:
        yield watch
    finally:
        fit.late.profile_seconds += time.monotonic() - watch.begin


def raise_if_late(watch: Watch) -> None:
    """Raise `TimeLimitReached` if a watch says to stop."""
    if watch():
        raise TimeLimitReached(
            "The time limit of the fit ended its automatic profiles. Raise options={'time_limit': ...}, or request the "
            "profiles with kind='profile'."
        )
