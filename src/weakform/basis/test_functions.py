"""Test functions at the samples of a trajectory, in blocks.

K test functions are grouped in B blocks of L. Block k is nonzero only on a window of n consecutive samples, and shares
samples only with blocks k-1 and k+1, so that the covariance of the weak residual is block tridiagonal. A dense basis is
one block with one window. If K is not a multiple of L, the last block is padded with functions that are not used: the
algebra treats them as independent residuals of variance 1 that are exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..support.array_types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class TestFunctions:
    """Test functions `φ` and their derivatives `φ'`, quadrature weights included.

    Parameters
    ----------
    phi, dphi : ndarray, (B, L, n)
        Values on the window of each block. Blocks that are copies of each other may be one block, broadcast along B.
    start : ndarray, (B,)
        First sample of each window; a window may reach beyond the last sample, where the functions are zero.
    samples : int
        Number of samples, M + 1.
    count : int
        Number of test functions, K; functions beyond it in the last block are padding.
    radius : float
        Radius of the support in time units, the smallest if there are several.
    description : str
        The kind, radius and stride of the test functions, in words.
    width : ndarray of int, (B,), optional
        Number of samples in each window, if the windows differ; the functions are zero beyond.
    empty : ndarray of bool, (B, L), optional
        True for functions that are zero everywhere and only pad a block.

    Attributes
    ----------
    window : ndarray of int, (B, n)
        The sample of each column; `samples`, one past the last, means none.
    shared : ndarray of int, (B - 1, o)
        Samples that block k shares with block k - 1.
    head, tail : tuple of ndarray, (B - 1, L, o)
        `φ` and `φ'` of block k, and of block k - 1, at the shared samples.
    """

    __test__ = False  # Pytest would otherwise collect the class as a test case because of its name.

    phi: FloatArray
    dphi: FloatArray
    start: IntArray
    samples: int
    count: int
    radius: float
    description: str
    width: IntArray | None = None
    empty: BoolArray | None = None
    window: IntArray = field(init=False, repr=False)
    shared: IntArray = field(init=False, repr=False)
    head: tuple[FloatArray, FloatArray] = field(init=False, repr=False)
    tail: tuple[FloatArray, FloatArray] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        B, _, n = self.phi.shape
        shift = np.diff(self.start)
        overlap = max(0, int(n - shift.min())) if B > 1 else 0
        window = np.minimum(self.start[:, None] + np.arange(n), self.samples)
        if self.width is not None:
            window[np.arange(n) >= self.width[:, None]] = self.samples
        # Copies of one block stay one block, broadcast: a long series needs no more memory than one block.
        # Broadcast copies have a stride of zero.
        copies = B > 1 and self.phi.strides[0] == 0 and bool((shift == shift[0]).all())
        upper, before = (slice(1), slice(1)) if copies else (slice(1, None), slice(-1))
        head: list[FloatArray] = []
        tail: list[FloatArray] = []
        # The shared samples are the first columns of the window of block k, and later columns of that of block k - 1.
        for array in (self.phi, self.dphi):
            for part, parts in (
                (array[upper, :, :overlap], head),
                (_shift_columns(array[before], shift[before] if copies else shift, overlap), tail),
            ):
                parts.append(np.broadcast_to(part, (B - 1, *part.shape[1:])))
        for name, value in (
            ("window", window),
            ("shared", window[1:, :overlap]),
            ("head", tuple(head)),
            ("tail", tuple(tail)),
        ):
            object.__setattr__(self, name, value)

    @property
    def blocks(self) -> int:
        """The number of blocks, B."""
        return int(self.phi.shape[0])

    @property
    def length(self) -> int:
        """The number of test functions in a block, L."""
        return int(self.phi.shape[1])

    @property
    def used_functions(self) -> slice:
        """The test functions of the last block that are not padding."""
        return slice(0, self.length - (self.blocks * self.length - self.count))

    @property
    def sparse_subset(self) -> TestFunctions:
        """A subset of local test functions, up to three of each block, about a radius apart; all of a dense basis."""
        if self.blocks == 1:
            return self
        # A full block spans two radii (L = ⌈2r/s⌉), so every (L/2)-th function is about a radius from the next.
        subset = slice(0, None, max(self.length // 2, 1))
        phi, dphi = self.phi[:, subset], self.dphi[:, subset]
        kept = len(range(self.length)[subset])
        kept_in_last_block = len(range(self.used_functions.stop)[subset])
        count = (self.blocks - 1) * kept + kept_in_last_block
        return replace(self, phi=phi, dphi=dphi, count=count)

    def apply(self, values: FloatArray, derivative: bool = False) -> FloatArray:
        """Compute `Φ F`, or `Φ' F` with `derivative`, `(B, D, L)`, from `values` F `(D, time)`.

        The result is zero for padding.
        """
        rows = append_zero(values)[:, self.window].transpose(1, 0, 2)
        result: FloatArray = rows @ (self.dphi if derivative else self.phi).transpose(0, 2, 1)
        result[-1, :, self.used_functions.stop :] = 0.0
        return result

    def apply_transposed(self, values: FloatArray, derivative: bool = False) -> FloatArray:
        """Compute `Φᵀ z`, or `Φ'ᵀ z` with `derivative`, `(D, time)`, from `values` z `(B, D, L)`.

        z must be zero for padding.
        """
        total = np.zeros((values.shape[1], self.samples))
        self.add_windows((values @ (self.dphi if derivative else self.phi)).transpose(1, 0, 2), self.window, total)
        return total

    def add_windows(self, windows: FloatArray, index: IntArray, total: FloatArray) -> None:
        """Add the values of windows to a series in place.

        Parameters
        ----------
        windows : ndarray, (P, blocks, n)
            P rows of values on the windows of consecutive blocks.
        index : ndarray of int, (blocks, n)
            The sample of each column, as in `window`.
        total : ndarray, (P, time)
            The series, to which the values are added.
        """
        if not index.size:
            return
        first, last = int(index.min()), int(index.max()) + 1
        part = np.zeros((len(windows), last - first))
        # NumPy adds only once to a repeated index. Blocks k and k + 2 share no samples, so that even and odd blocks are
        # added separately. The column one past the last sample collects the padding, and is dropped.
        for parity in (0, 1):
            part[:, index[parity::2] - first] += windows[:, parity::2]
        last = min(last, self.samples)
        total[:, first:last] += part[:, : last - first]

    def to_dense(self) -> tuple[FloatArray, FloatArray]:
        """Return `Φ` and `Φ'` as full matrices `(K, M + 1)`, for tests and small problems."""
        full = np.zeros((2, self.blocks, self.length, self.samples + 1))
        for k, columns in enumerate(self.window):
            inside = columns < self.samples
            full[0, k][:, columns[inside]] = self.phi[k][:, inside]
            full[1, k][:, columns[inside]] = self.dphi[k][:, inside]
        phi, dphi = full[..., :-1].reshape(2, -1, self.samples)[:, : self.count]
        return phi, dphi


def append_zero(values: FloatArray) -> FloatArray:
    """Append a zero to the last axis of an array `(..., time)`, for the sample that means none."""
    return np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)


def _shift_columns(array: FloatArray, shift: IntArray, length: int) -> FloatArray:
    """Return `length` columns of each block `(B, L, n)` from column `shift[k]` on, with zeros beyond the end."""
    columns = shift[:, None] + np.arange(length)
    inside = columns < array.shape[2]
    taken = np.take_along_axis(array, np.where(inside, columns, 0)[:, None, :], axis=2)
    return np.asarray(np.where(inside[:, None, :], taken, 0.0))
