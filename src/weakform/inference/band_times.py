"""Times at which a band by the likelihood is found, and how far it reaches between them."""

from __future__ import annotations

import numpy as np

from ..data.doses import Doses
from ..support.array_types import BoolArray, FloatArray, IntArray

KNOTS, ABOUT, LEAST = 16, 5, 2
"""Times at which ends are found; how many of them beside those that are asked for; and at least between two jumps."""
LARGE_ENOUGH, RESOLVED = 1e-4, 1e-9
"""Shares of its size: of a state that is pinned, and of a positive one that is no rounding."""
WIDER = 2.0
"""How much farther than at two knots a band may reach between them, and how much more in errors at one of them than at
the other."""


def pieces(times: FloatArray, mesh: FloatArray, doses: tuple[Doses, ...]) -> IntArray:
    """In which piece of the solution between two jumps each time is; a mesh has two nodes where states jump."""
    jumps = [mesh[:-1][np.diff(mesh) == 0], *(np.ravel(one.times) for one in doses)]
    return np.searchsorted(np.unique(np.concatenate(jumps)), times, side="right")


def chosen_knots(u: FloatArray, error: FloatArray, asked: BoolArray, piece: IntArray) -> IntArray:
    """Some times at which a state is known and large enough to be moved, those that were asked for if they are few.

    With few of them some all along: a pin there may come upon what reaches farther here. If one of them is not
    large enough, more, and in each piece of the solution between two jumps.
    """
    large = (error > 0) & (np.abs(u) > LARGE_ENOUGH * np.abs(u).max())
    wanted = np.flatnonzero(large & asked)
    if len(wanted) <= KNOTS and (large | ~asked | (error == 0)).all():
        return np.union1d(wanted, _some(np.flatnonzero(large), ABOUT))
    pieces = np.unique(piece[large])
    each = max(KNOTS // max(len(pieces), 1), LEAST)
    some = [_some(np.flatnonzero(large & (piece == one)), each) for one in pieces[:: 1 + len(pieces) // KNOTS]]
    if len(wanted) <= KNOTS:  # those that were asked for are told as they are
        some.append(wanted)
    return np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *some]))


def _some(where: IntArray, most: int) -> IntArray:
    """Evenly chosen, both ends among them."""
    return where[np.unique(np.linspace(0, len(where) - 1, min(most, len(where))).round().astype(np.intp))]


def rounding(u: FloatArray, log: bool) -> float:
    """Below what a positive state is rounding."""
    return RESOLVED * float(np.abs(u).max()) if log else -np.inf


def between(times: FloatArray, knots: IntArray, distance: FloatArray, error: FloatArray, piece: IntArray) -> FloatArray:
    """How far a band reaches at all times from how far it does at knots, in each piece in proportion to the error.

    Infinite or NaN next to a knot where it is. In a piece without knots in proportion to all of them.
    """
    found = np.empty(len(times))
    for one in np.unique(piece):
        here, mine = piece == one, piece[knots] == one
        mine = mine if mine.any() else np.ones(len(knots), dtype=bool)
        at, far, now = times[knots[mine]], distance[mine], times[here]
        there = np.where(np.isfinite(far), far, 0.0)
        # Where the likelihood bends errors are of no size: then straight from knot to knot.
        share = there / error[knots[mine]]
        inside = (now > at[0]) & (now < at[-1])
        bent = inside & (_beside(now, at, share, np.maximum) > WIDER * _beside(now, at, share, np.minimum))
        way = np.where(bent, np.interp(now, at, there), np.interp(now, at, share) * error[here])
        most = np.where(inside, WIDER * _beside(now, at, there, np.maximum), np.inf)
        way = np.minimum(way, most)
        lost, endless = (np.interp(now, at, bad.astype(float)) > 0 for bad in (np.isnan(far), np.isinf(far)))
        found[here] = np.where(endless, np.inf, np.where(lost, np.nan, way))
    return found


def _beside(now: FloatArray, at: FloatArray, values: FloatArray, which: np.ufunc) -> FloatArray:
    """The higher, or the lower, one of the values at the two knots around each time."""
    right = np.clip(np.searchsorted(at, now), 0, len(at) - 1)
    return np.asarray(which(values[right], values[np.maximum(right - 1, 0)]))
