"""The times at which the ends of a likelihood band are computed, and interpolation of the band between them.

Each end costs many refits (`state_profiles`), so ends are computed at a few times only. Between them the band is
interpolated in proportion to the linearised band, which is available at all times.
"""

from __future__ import annotations

import numpy as np

from ..data.doses import Doses
from ..support.array_types import BoolArray, FloatArray, IntArray

MAX_BAND_TIMES = 16
"""Approximate number of times of a trajectory at which the ends of a band are computed; if more are requested, evenly
spaced times take their place. A larger number follows the band more closely and costs proportionally more refits. By
judgement; it was 10 before version 1.2.0 (CHANGELOG)."""
SUPPORTING_TIMES = 5
"""Evenly spaced times at which ends are computed in addition to the requested ones, if those are few. A fit pinned
there may show that the band reaches farther at a requested time. By judgement."""
MIN_TIMES_PER_PIECE = 2
"""Least number of times in each piece of the solution between two jumps: its two ends, as a band cannot be interpolated
across a jump."""
SMALLEST_SHARE_TO_PIN = 1e-4
"""Share of its largest absolute value below which a state is not pinned: it has decayed, and its band there follows
from earlier times. By judgement."""
SMALLEST_SHARE_RESOLVED = 1e-9
"""Share of its largest absolute value below which a positive state is rounding error of the solver. The forward
solution is computed to a relative tolerance of the same size (`fitted_states`)."""
MAX_WIDENING = 2.0
"""Factor that limits interpolation between two band times. A band may reach at most this many times as far as at either
of them; and where their reaches in units of the linearised error differ by more than this factor, the reaches
themselves are interpolated instead. By judgement."""


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

    If few times are requested, they are chosen, and a few evenly spaced ones are added: a fit pinned there can extend
    the band at the requested times. If the state is too small to be pinned at a requested time, or if too many times
    are requested, evenly spaced times are chosen in each piece between two jumps.

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
    # Where the error is zero the state cannot be moved, and a band needs no end there.
    if len(requested) <= MAX_BAND_TIMES and (large | ~is_requested | (error == 0)).all():
        return np.union1d(requested, _space_evenly(np.flatnonzero(large), SUPPORTING_TIMES))
    numbers = np.unique(piece[large])
    per_piece = max(MAX_BAND_TIMES // max(len(numbers), 1), MIN_TIMES_PER_PIECE)
    # With more pieces than band times, only every second (or third ...) piece gets band times.
    chosen = [
        _space_evenly(np.flatnonzero(large & (piece == number)), per_piece)
        for number in numbers[:: 1 + len(numbers) // MAX_BAND_TIMES]
    ]
    # Requested times are reported without interpolation if there are few of them.
    if len(requested) <= MAX_BAND_TIMES:
        chosen.append(requested)
    return np.unique(np.concatenate([np.zeros(0, dtype=np.intp), *chosen]))


def _space_evenly(positions: IntArray, count: int) -> IntArray:
    """Return at most `count` of some positions, evenly spaced, the first and the last among them."""
    return positions[np.unique(np.linspace(0, len(positions) - 1, min(count, len(positions))).round().astype(np.intp))]


def find_rounding_level(u: FloatArray, log: bool) -> float:
    """Return the value below which a state `u` `(time,)` is rounding error; -inf unless it is on a log scale."""
    return SMALLEST_SHARE_RESOLVED * float(np.abs(u).max()) if log else -np.inf


def interpolate_reach(
    times: FloatArray, knots: IntArray, distance: FloatArray, error: FloatArray, piece: IntArray
) -> FloatArray:
    """Interpolate how far a band reaches, from the band times to all times.

    In each piece between two jumps the ratio of the reach to the linearised error is interpolated; in a piece without
    band times, from the band times of all pieces.

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
        Infinite or NaN next to a band time at which `distance` is.
    """
    reach = np.empty(len(times))
    for number in np.unique(piece):
        inside_piece, in_piece = piece == number, piece[knots] == number
        in_piece = in_piece if in_piece.any() else np.ones(len(knots), dtype=bool)
        knot_times, knot_reach, piece_times = times[knots[in_piece]], distance[in_piece], times[inside_piece]
        finite_reach = np.where(np.isfinite(knot_reach), knot_reach, 0.0)
        ratio = finite_reach / error[knots[in_piece]]
        inside = (piece_times > knot_times[0]) & (piece_times < knot_times[-1])
        # Where the likelihood is far from quadratic the linearised error is meaningless as a unit: then the distances
        # themselves are interpolated.
        is_not_quadratic = inside & (
            _pick_neighbour(piece_times, knot_times, ratio, np.maximum)
            > MAX_WIDENING * _pick_neighbour(piece_times, knot_times, ratio, np.minimum)
        )
        interpolated = np.where(
            is_not_quadratic,
            np.interp(piece_times, knot_times, finite_reach),
            np.interp(piece_times, knot_times, ratio) * error[inside_piece],
        )
        limit = np.where(
            inside, MAX_WIDENING * _pick_neighbour(piece_times, knot_times, finite_reach, np.maximum), np.inf
        )
        interpolated = np.minimum(interpolated, limit)
        has_lost_end, has_no_end = (
            np.interp(piece_times, knot_times, bad.astype(float)) > 0
            for bad in (np.isnan(knot_reach), np.isinf(knot_reach))
        )
        reach[inside_piece] = np.where(has_no_end, np.inf, np.where(has_lost_end, np.nan, interpolated))
    return reach


def _pick_neighbour(times: FloatArray, knot_times: FloatArray, values: FloatArray, which: np.ufunc) -> FloatArray:
    """Return the larger or the smaller (by `which`) of the values at the band times around each time, `(time,)`."""
    right = np.clip(np.searchsorted(knot_times, times), 0, len(knot_times) - 1)
    return np.asarray(which(values[right], values[np.maximum(right - 1, 0)]))
