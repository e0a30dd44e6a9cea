"""The covariance of the weak residual as a linear function of weights in time, and the adjoint of that function.

To first order, noise ε in the data x changes the weak residual `r = Φ f + Φ' x` by `A ε` with `A = Φ F + Φ'`, so that
its covariance is `S = A Σ Aᵀ`. With `F_ab(m) = ∂f_a/∂x_b` at sample m, noise variances `v_b(m)` and

    Z_ab = F_ab v_b,        W_ab = Σ_c F_ac v_c F_bc,        Y_a = v_a

the block of S for states a, b is

    S_ab = Φ diag(W_ab) Φᵀ + Φ diag(Z_ab) Φ'ᵀ + Φ' diag(Z_ba) Φᵀ + δ_ab Φ' diag(Y_a) Φ'ᵀ.

S is linear in (W, Z, Y), so ∂_jS is the same function of the weights ∂_jW, ∂_jZ. Its adjoint turns ⟨Q, dS⟩ for any
symmetric Q into sums over time: ½⟨Q, dS⟩ = Σ_m Σ_ab (α_ab dW_ab + β_ab dZ_ab) with

    α_ab = ½ diag(Φᵀ Q_ab Φ),        β_ab = diag(Φᵀ Q_ab Φ').

Inside a block the residual is ordered by state, then test function. Only pairs (a, b) that are structurally nonzero are
computed, and temporaries are tiles of bounded size, never KD × MD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..basis.test_functions import TestFunctions, append_zero
from ..support.array_types import FloatArray, IntArray
from .time_contractions import FunctionProduct

Pair = tuple[int, int]
"""Indices of two states."""

Pairs = Mapping[Pair, FloatArray]
"""Functions of time `(time,)` for pairs of states; absent pairs are structurally zero."""

MAX_TILE_ELEMENTS = 1 << 17
"""Largest number of elements of a temporary array: one megabyte, so that it stays in cache. By judgement."""


@dataclass(frozen=True)
class CovarianceWeights:
    """The weights of S or of one of its derivatives.

    The last entry in time is zero; it belongs to the positions of a window that are beyond the last sample.

    Attributes
    ----------
    W_pairs, Z_pairs : list of Pair
        The pairs of states (a, b) of the rows of W, with a >= b as W is symmetric, and of the rows of Z.
    W, Z : ndarray, (pairs, time + 1)
    Y : ndarray, (D, time + 1), or None
        None for a derivative, as Y is independent of the parameters.
    """

    W_pairs: list[Pair]
    W: FloatArray
    Z_pairs: list[Pair]
    Z: FloatArray
    Y: FloatArray | None = None


def build_covariance_weights(F: Pairs, v: FloatArray) -> CovarianceWeights:
    """Return the weights of S from `F = ∂f/∂x` and the variances `v` `(D, time)`."""
    Z = {(a, c): F[a, c] * v[c] for a, c in F}
    W = {(a, b): w for (a, b), w in _sum_products(F, Z).items() if a >= b}
    return CovarianceWeights(*_stack_weights(W, v), *_stack_weights(Z, v), append_zero(v))


def build_derivative_weights(F: Pairs, dF: Pairs, v: FloatArray) -> CovarianceWeights:
    """Return the weights of ∂S from F, its derivative dF, and the variances `v` `(D, time)`."""
    dZ = {(a, c): dF[a, c] * v[c] for a, c in dF}
    # dW_ab = Σ_c v_c (F_ac dF_bc + dF_ac F_bc): twice the product on the diagonal, the sum of both orders beside it.
    W: dict[Pair, FloatArray] = {}
    for (a, b), w in _sum_products(F, dZ).items():
        key, weight = ((a, b), 2 * w) if a == b else ((max(a, b), min(a, b)), w)
        W[key] = W[key] + weight if key in W else weight
    return CovarianceWeights(*_stack_weights(W, v), *_stack_weights(dZ, v))


def _sum_products(F: Pairs, Z: Pairs) -> dict[Pair, FloatArray]:
    """Return `Σ_c F_ac Z_bc` for the pairs (a, b) for which it is structurally nonzero."""
    columns: dict[int, list[tuple[int, FloatArray]]] = {}
    for (b, c), value in Z.items():
        columns.setdefault(c, []).append((b, value))
    result: dict[Pair, FloatArray] = {}
    for (a, c), value in F.items():
        for b, factor in columns.get(c, ()):
            product = value * factor
            result[a, b] = result[a, b] + product if (a, b) in result else product
    return result


def _stack_weights(weights: Mapping[Pair, FloatArray], v: FloatArray) -> tuple[list[Pair], FloatArray]:
    """Return the pairs, and their weights as rows `(pairs, time + 1)` with a zero at the end."""
    stacked = np.zeros((len(weights), v.shape[1] + 1))
    for row, value in zip(stacked, weights.values(), strict=True):
        row[:-1] = value
    return list(weights), stacked


class CovarianceMap:
    """The linear map from weights in time to the blocks of S, for given test functions and D states."""

    def __init__(self, functions: TestFunctions, D: int) -> None:
        self.functions, self.D = functions, D
        phi, dphi = functions.phi, functions.dphi
        (head, dhead), (tail, dtail) = functions.head, functions.tail
        self._diagonal = FunctionProduct(phi, phi), FunctionProduct(phi, dphi), FunctionProduct(dphi, dphi)
        self._lower = (
            FunctionProduct(head, tail),
            FunctionProduct(head, dtail),
            FunctionProduct(dhead, tail),
            FunctionProduct(dhead, dtail),
        )

    def iterate_tiles(self) -> Iterator[slice]:
        """Yield consecutive ranges of blocks that are small enough for temporaries to stay in cache."""
        size = max(1, MAX_TILE_ELEMENTS // (self.D * self.functions.length) ** 2)
        for start in range(0, self.functions.blocks, size):
            yield slice(start, min(start + size, self.functions.blocks))

    def compute_blocks(self, weights: CovarianceWeights, tile: slice) -> tuple[FloatArray, FloatArray]:
        """Return a range of blocks of S, or of one of its derivatives.

        Parameters
        ----------
        weights : CovarianceWeights
        tile : slice
            The range of blocks, one of `iterate_tiles`.

        Returns
        -------
        ndarray, (…, b, b)
            The diagonal blocks S_kk.
        ndarray, (…, b, b)
            The lower blocks S_{k,k-1} for k >= 1, one fewer if the range begins with the first block.
        """
        functions, D, L = self.functions, self.D, self.functions.length
        phi_phi, phi_dphi, dphi_dphi = self._diagonal
        window = functions.window[tile]
        S = np.zeros((tile.stop - tile.start, D, L, D, L))
        for (a, b), G in _contract_pairs(phi_phi, weights.W_pairs, weights.W, window, tile):
            S[:, a, :, b] += G
            if a != b:
                S[:, b, :, a] += G.transpose(0, 2, 1)
        for (a, b), G in _contract_pairs(phi_dphi, weights.Z_pairs, weights.Z, window, tile):
            S[:, a, :, b] += G
            S[:, b, :, a] += G.transpose(0, 2, 1)
        if weights.Y is not None:
            for (a, _), G in _contract_pairs(dphi_dphi, [(a, a) for a in range(D)], weights.Y, window, tile):
                S[:, a, :, a] += G

        tile_low = _get_lower_range(tile)
        head_tail, head_dtail, dhead_tail, dhead_dtail = self._lower
        shared = functions.shared[tile_low]
        R = np.zeros((max(tile_low.stop - tile_low.start, 0), D, L, D, L))
        if R.size:
            # Rows belong to block k and columns to block k - 1. G is therefore not symmetric, and W_ba = W_ab gives the
            # same G, not its transpose, for (b, a). The two terms with Z need separate products for the same reason.
            for (a, b), G in _contract_pairs(head_tail, weights.W_pairs, weights.W, shared, tile_low):
                R[:, a, :, b] += G
                if a != b:
                    R[:, b, :, a] += G
            for (a, b), G in _contract_pairs(head_dtail, weights.Z_pairs, weights.Z, shared, tile_low):
                R[:, a, :, b] += G
            for (a, b), G in _contract_pairs(dhead_tail, weights.Z_pairs, weights.Z, shared, tile_low):
                R[:, b, :, a] += G
            if weights.Y is not None:
                for (a, _), G in _contract_pairs(dhead_dtail, [(a, a) for a in range(D)], weights.Y, shared, tile_low):
                    R[:, a, :, a] += G
        # Functions that only pad a block have variance one in S, which keeps it positive definite, and zero in its
        # derivatives.
        if functions.empty is not None and weights.Y is not None:
            block, function = np.nonzero(functions.empty[tile])
            S[block[:, None], np.arange(D), function[:, None], np.arange(D), function[:, None]] = 1.0
        if tile.stop == functions.blocks:
            self._isolate_unused(S, R, 1.0 if weights.Y is not None else 0.0)
        return S.reshape(-1, D * L, D * L), R.reshape(-1, D * L, D * L)

    def _isolate_unused(self, S: FloatArray, R: FloatArray, unit: float) -> None:
        """Make the padding functions beyond K independent of all others, with variance `unit`, in place.

        Parameters
        ----------
        S : ndarray, (…, D, L, D, L)
            Diagonal blocks that end with the last one.
        R : ndarray, (…, D, L, D, L)
            Lower blocks that end with the last one, or none.
        unit : float
        """
        unused = slice(self.functions.used_functions.stop, self.functions.length)
        S[-1, :, unused] = 0.0
        S[-1, :, :, :, unused] = 0.0
        R[-1:, :, unused] = 0.0
        for d in range(self.D):
            np.fill_diagonal(S[-1, d, unused, d, unused], unit)

    def apply_adjoint(
        self, Q: FloatArray, R: FloatArray, W_pairs: list[Pair], Z_pairs: list[Pair]
    ) -> tuple[dict[Pair, FloatArray], dict[Pair, FloatArray]]:
        """Apply the adjoint map to a symmetric matrix Q.

        Parameters
        ----------
        Q : ndarray, (B, b, b)
            The diagonal blocks `Q_kk`.
        R : ndarray, (B - 1, b, b)
            The lower blocks `Q_{k,k-1}`.
        W_pairs, Z_pairs : list of Pair
            The pairs of states for which the adjoint weights are computed; pairs of W with a >= b.

        Returns
        -------
        dict of Pair to ndarray, (time,)
            `α_ab` for the pairs of W.
        dict of Pair to ndarray, (time,)
            `β_ab` for the pairs of Z.
        """
        functions, D, L = self.functions, self.D, self.functions.length
        Q, R = Q.reshape(-1, D, L, D, L).copy(), R.reshape(-1, D, L, D, L)
        # Padding must not contribute: S⁻¹ is one on its diagonal. The lower blocks are zero there already.
        self._isolate_unused(Q, R[:0], 0.0)
        phi_phi, phi_dphi, _ = self._diagonal
        head_tail, head_dtail, dhead_tail, _ = self._lower
        alpha = np.zeros((len(W_pairs), functions.samples))
        beta = np.zeros((len(Z_pairs), functions.samples))
        for tile in self.iterate_tiles():
            low = _get_lower_range(tile)
            for pairs, total, product, factor in (
                (W_pairs, alpha, phi_phi, 0.5),
                (Z_pairs, beta, phi_dphi, 1.0),
            ):
                if pairs:
                    weights = product.apply_adjoint(np.stack([Q[tile, a, :, b] for a, b in pairs]), tile)
                    functions.add_windows(factor * weights, functions.window[tile], total)
            if low.stop <= low.start:
                continue
            # Q has the blocks (k, k-1) and, transposed, (k-1, k): both orders of the pair of states contribute.
            for pairs, total, products, factor in (
                (W_pairs, alpha, (head_tail, head_tail), 0.5),
                (Z_pairs, beta, (head_dtail, dhead_tail), 1.0),
            ):
                if pairs:
                    weights = products[0].apply_adjoint(np.stack([R[low, a, :, b] for a, b in pairs]), low)
                    weights += products[1].apply_adjoint(np.stack([R[low, b, :, a] for a, b in pairs]), low)
                    functions.add_windows(factor * weights, functions.shared[low], total)
        return dict(zip(W_pairs, alpha, strict=True)), dict(zip(Z_pairs, beta, strict=True))


def _get_lower_range(tile: slice) -> slice:
    """Return the range of lower blocks S_{k,k-1} with k in a range of blocks; the block k has the number k - 1."""
    return slice(max(tile.start, 1) - 1, tile.stop - 1)


def _contract_pairs(
    product: FunctionProduct, pairs: list[Pair], weights: FloatArray, index: IntArray, tile: slice
) -> Iterator[tuple[Pair, FloatArray]]:
    """Return an iterator over the pairs and their blocks `(…, L, L)`.

    Parameters
    ----------
    product : FunctionProduct
    pairs : list of Pair
    weights : ndarray, (pairs, time + 1)
    index : ndarray of int, (…, n)
        The samples at which the functions of the product are given.
    tile : slice
        The range of blocks of the product.
    """
    return zip(pairs, product.contract(weights[:, index], tile), strict=True)
