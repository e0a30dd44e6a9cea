"""The times at which the ends of a likelihood band are computed, and interpolation of the band between them.

Each end costs many refits (`state_profiles`), so that ends are computed at a few times only. In between, the band is
interpolated relative to the linearised one, whose shape is known at all times.
"""

from __future__ import annotations

import numpy as np

from ..data.doses import Doses
from ..support.array_types import BoolArray, FloatArray, IntArray

MAX_BAND_TIMES = 16
"""Times of a trajectory at which the ends of a band are computed, about; requested times above this number are thinned.
More follow the band more closely, and cost as many refits more. Before version 1.2.0 it was 10 (CHANGELOG)."""
SUPPORTING_TIMES = 5
"""Evenly spaced times at which ends are computed besides few requested ones: a fit pinned there may show that the band
reaches farther at the requested ones. By judgement."""
MIN_TIMES_PER_PIECE = 2
"""Times at least in each piece of the solution between two jumps: its ends. A band cannot be interpolated across a
jump."""
SMALLEST_SHARE_TO_PIN = 1e-4
"""Share of its largest absolute value below which a state is not pinned: it has decayed, and its band there follows
from earlier times. By judgement."""
SMALLEST_SHARE_RESOLVED = 1e-9
"""Share of its largest absolute value below which a positive state is rounding error of the solver. The forward
solution is computed to a relative tolerance of the same size (`fitted_states`)."""
MAX_WIDENING = 2.0
"""Factor that limits interpolation between two band times. A band may reach at most this factor farther than at both of
them; and where the ends in units of the linearised error differ by more than this factor, distances are interpolated
instead. By judgement."""


def number_pieces(times: FloatArray, mesh: FloatArray, doses: tuple[Doses, ...]) -> IntArray:
    """Number the piece of the solution between two jumps that each time belongs to, `(time,)`.

    Parameters
    ----------
    times : ndarray, (time,)
    mesh : ndarray, (nodes,)
        Nodes of the fit; two at the same time mark a jump.
    doses : tuple of Doses
    """
    jumps = [mesh[:-1][np.diff(mesh) == 0], *(np.ravel(dose.times) for dose in doses)]
    return np.searchsorted(np.unique(np.concatenate(jumps)), times, side="right")


def choose_band_times(u: FloatArray, error: FloatArray, is_requested: BoolArray, piece: IntArray) -> IntArray:
    """Choose the times at which the ends of a band are computed.

    If few times are requested, they are chosen, with a few evenly spaced ones: a fit pinned there can extend the band
    at the requested ones. If a requested time cannot be pinned because the state is too small there, or if there are
    too many, evenly spaced times in each piece between two jumps are chosen.

    Parameters
    ----------
    u : ndarray, (time,)
        The state.
    error : ndarray, (time,)
        Its linearised standard error; 0 where it cannot be moved.
    is_requested : ndarray of bool, (time,)
        The requested times.
    piece : ndarray of int, (time,)
        From `number_pieces`.

    Returns
    -------
    ndarray of int
        Their positions, increasing.
    """
    large = (error > 0) & (np.abs(u) > SMALLEST_SHARE_TO_PIN * np.abs(u).max())
    requested = np.flatnonzero(large & is_requested)
    if len(requested) <= MAX_BAND_TIMES and (large | ~is_requested | (error == 0)).all():
        return np.union1d(requested, _space_evenly(np.flatnonzero(large), SUPPORTING_TIMES))
    numbers = np.unique(piece[large])
    each = max(MAX_BAND_TIMES // max(len(numbers), 1), MIN_TIMES_PER_PIECE)
    some = [
        _space_evenly(np.flatnonzero(large & (piece == number)), each)
        for number in numbers[:: 1 + len(numbers) // MAX_BAND_TIMES]
    ]
    # Requested times are reported without interpolation if there are few of them.
    if len(requested) <= MAX_BAND_TIMES:
        some.append(requested)
    return np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *some]))


def _space_evenly(where: IntArray, most: int) -> IntArray:
    """Return at most `most` of some positions, evenly spaced, the first and the last among them."""
    return where[np.unique(np.linspace(0, len(where) - 1, min(most, len(where))).round().astype(np.intp))]


def find_rounding_level(u: FloatArray, log: bool) -> float:
    """Return the value below which a state `u` `(time,)` is rounding error; -inf unless it is on a log scale."""
    return SMALLEST_SHARE_RESOLVED * float(np.abs(u).max()) if log else -np.inf


def interpolate_reach(
    times: FloatArray, knots: IntArray, distance: FloatArray, error: FloatArray, piece: IntArray
) -> FloatArray:
    """Interpolate how far a band reaches, from the band times to all times.

    In each piece between two jumps it is proportional to the linearised error; in a piece without band times, in the
    same proportion as in all others.

    Parameters
    ----------
    times : ndarray, (time,)
    knots : ndarray of int, (knots,)
        Positions of the band times.
    distance : ndarray, (knots,)
        How far the band reaches there; infinite or NaN where it has no end or could not be followed.
    error : ndarray, (time,)
        The linearised standard error.
    piece : ndarray of int, (time,)
        From `number_pieces`.

    Returns
    -------
    ndarray, (time,)
        Infinite or NaN next to a band time where it is.
    """
    reach = np.empty(len(times))
    for number in np.unique(piece):
        inside_piece, mine = piece == number, piece[knots] == number
        mine = mine if mine.any() else np.ones(len(knots), dtype=bool)
        at, far, now = times[knots[mine]], distance[mine], times[inside_piece]
        finite = np.where(np.isfinite(far), far, 0.0)
        share = finite / error[knots[mine]]
        inside = (now > at[0]) & (now < at[-1])
        # Where the likelihood is far from quadratic the linearised error has no meaning as a unit: then distances
        # themselves are interpolated.
        bent = inside & (
            _pick_neighbour(now, at, share, np.maximum) > MAX_WIDENING * _pick_neighbour(now, at, share, np.minimum)
        )
        way = np.where(bent, np.interp(now, at, finite), np.interp(now, at, share) * error[inside_piece])
        most = np.where(inside, MAX_WIDENING * _pick_neighbour(now, at, finite, np.maximum), np.inf)
        way = np.minimum(way, most)
        lost, endless = (np.interp(now, at, bad.astype(float)) > 0 for bad in (np.isnan(far), np.isinf(far)))
        reach[inside_piece] = np.where(endless, np.inf, np.where(lost, np.nan, way))
    return reach


def _pick_neighbour(now: FloatArray, at: FloatArray, values: FloatArray, which: np.ufunc) -> FloatArray:
    """Return the larger or the smaller (by `which`) of the values at the band times around each time, `(time,)`."""
    right = np.clip(np.searchsorted(at, now), 0, len(at) - 1)
    return np.asarray(which(values[right], values[np.maximum(right - 1, 0)]))
