"""The covariance of the weak residual as a linear function of weights in time, and the adjoint of that function.

With `F_ab(m) = ∂f_a/∂x_b` at sample m, noise variances `v_b(m)` and

    Z_ab = F_ab v_b,        W_ab = Σ_c F_ac v_c F_bc,        Y_a = v_a

the block of S for states a, b is

    S_ab = Φ diag(W_ab) Φᵀ + Φ diag(Z_ab) Φ'ᵀ + Φ' diag(Z_ba) Φᵀ + δ_ab Φ' diag(Y_a) Φ'ᵀ
         = [Φ diag(W_ab) + Φ' diag(Z_ba),  Φ diag(Z_ab) + δ_ab Φ' diag(Y_a)] [Φ, Φ']ᵀ.

S is linear in (W, Z, Y), so ∂_jS is the same function of the weights ∂_jW, ∂_jZ. Its adjoint turns ⟨Q, dS⟩ for any
symmetric Q into sums over time: ½⟨Q, dS⟩ = Σ_m Σ_ab (α_ab dW_ab + β_ab dZ_ab) with

    α_ab = ½ diag(Φᵀ Q_ab Φ),        β_ab = diag(Φᵀ Q_ab Φ').

Inside a block the residual is ordered by state, then test function. Only pairs (a, b) that are structurally nonzero are
touched, and temporaries are tiles of bounded size, never KD × MD.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ..basis.functions import TestFunctions, padded
from ..typing import FloatArray, IntArray

Pairs = Mapping[tuple[int, int], FloatArray]
"""Weights in time `(time + 1,)`, the last zero, for pairs of states that are structurally nonzero."""

TILE = 1 << 18
"""Number of elements of a temporary."""


@dataclass(frozen=True)
class Weights:
    """Weights of S or of one of its derivatives, each padded with the sample that stands for none.

    Attributes
    ----------
    W : mapping, a >= b only (W is symmetric)
    Z : mapping
    Y : ndarray, (D, time + 1), or None for a derivative
    """

    W: Pairs
    Z: Pairs
    Y: FloatArray | None = None


def covariance_weights(F: Pairs, v: FloatArray) -> Weights:
    """The weights of S from `F[a, b]` `(time,)` and the variances `v` `(D, time)`."""
    Z = {(a, c): F[a, c] * v[c] for a, c in F}
    W = _products(F, Z)
    return Weights(_pad(W), _pad(Z), padded(v))


def derivative_weights(F: Pairs, dF: Pairs, v: FloatArray) -> Weights:
    """The weights of ∂S from those of F and of its derivative `dF`."""
    dZ = {(a, c): dF[a, c] * v[c] for a, c in dF}
    half = _products(F, dZ, both=True)
    W: dict[tuple[int, int], FloatArray] = {}
    for (a, b), value in half.items():
        key = (max(a, b), min(a, b))
        term = 2 * value if a == b else value
        W[key] = W[key] + term if key in W else term
    return Weights(_pad(W), _pad(dZ))


def _products(F: Pairs, Z: Pairs, both: bool = False) -> dict[tuple[int, int], FloatArray]:
    """`Σ_c F_ac Z_bc` for all (a, b), or for a >= b only."""
    rows: dict[int, list[tuple[int, FloatArray]]] = {}
    for (b, c), value in Z.items():
        rows.setdefault(c, []).append((b, value))
    result: dict[tuple[int, int], FloatArray] = {}
    for (a, c), value in F.items():
        for b, other in rows.get(c, ()):
            if both or a >= b:
                product = value * other
                result[a, b] = result[a, b] + product if (a, b) in result else product
    return result


def _pad(weights: Mapping[tuple[int, int], FloatArray]) -> dict[tuple[int, int], FloatArray]:
    return {key: padded(value) for key, value in weights.items()}


def assemble(
    functions: TestFunctions, D: int, weights: Weights, start: int, stop: int
) -> tuple[FloatArray, FloatArray]:
    """Blocks `start:stop` of S: diagonal `(stop - start, b, b)` and lower `(…, b, b)`, b = D·L.

    The lower blocks are S_{k,k-1} for k in `start:stop`, k >= 1.
    """
    L, b = functions.length, D * functions.length
    diagonal = np.zeros((stop - start, D, L, D, L))
    for a, c, block in _blocks(
        weights,
        [(a, c) for a in range(D) for c in range(a + 1)],
        (functions.phi[start:stop], functions.dphi[start:stop]),
        functions.pair[start:stop],
        functions.window[start:stop],
    ):
        diagonal[:, a, :, c, :] = block
        if a != c:
            diagonal[:, c, :, a, :] = block.transpose(0, 2, 1)
    first = max(start, 1) - 1
    part = slice(first, max(stop - 1, first))
    lower = np.zeros((part.stop - first, D, L, D, L))
    for a, c, block in _blocks(
        weights,
        [(a, c) for a in range(D) for c in range(D)],
        (functions.head[0][part], functions.head[1][part]),
        functions.tail[part],
        functions.shared[part],
    ):
        lower[:, a, :, c, :] = block
    if stop == functions.blocks:
        unused = slice(functions.used.stop, L)
        diagonal[-1, :, unused] = 0.0
        diagonal[-1, :, :, :, unused] = 0.0
        if functions.blocks > 1:
            lower[-1, :, unused] = 0.0
        if weights.Y is not None:
            for d in range(D):
                np.fill_diagonal(diagonal[-1, d, unused, d, unused], 1.0)
    return diagonal.reshape(-1, b, b), lower.reshape(-1, b, b)


def _blocks(
    weights: Weights,
    pairs: list[tuple[int, int]],
    left: tuple[FloatArray, FloatArray],
    right: FloatArray,
    index: IntArray,
) -> Iterator[tuple[int, int, FloatArray]]:
    """`S_ab` on the samples `index` `(B, n)` for each structurally nonzero pair, `(B, L, L)`."""
    phi, dphi = left
    if not index.size:
        return
    n = index.shape[1]
    factor = np.empty((len(index), phi.shape[1], 2 * n))
    for a, c in pairs:
        W = weights.W.get((max(a, c), min(a, c)))
        Z, Zt = weights.Z.get((a, c)), weights.Z.get((c, a))
        Y = weights.Y[a] if weights.Y is not None and a == c else None
        some = _weigh(factor[:, :, :n], (phi, W), (dphi, Zt), index)
        more = _weigh(factor[:, :, n:], (phi, Z), (dphi, Y), index)
        if some or more:
            yield a, c, factor @ right.transpose(0, 2, 1)


def _weigh(
    out: FloatArray,
    one: tuple[FloatArray, FloatArray | None],
    two: tuple[FloatArray, FloatArray | None],
    index: IntArray,
) -> bool:
    """`out = Σ function·weight`, whether there was anything to add."""
    filled = False
    for function, weight in (one, two):
        if weight is None:
            continue
        windows = weight[index][:, None, :]
        if filled:
            out += function * windows
        else:
            np.multiply(function, windows, out=out)
            filled = True
    if not filled:
        out[...] = 0.0
    return filled


def tiles(functions: TestFunctions, D: int) -> Iterator[tuple[int, int]]:
    """Ranges of blocks small enough that the temporaries of `assemble` stay in cache."""
    size = max(1, TILE // (functions.length * functions.phi.shape[2] * 2))
    for start in range(0, functions.blocks, size):
        yield start, min(start + size, functions.blocks)


def adjoint(
    functions: TestFunctions,
    D: int,
    diagonal: FloatArray,
    lower: FloatArray,
    pairs_W: list[tuple[int, int]],
    pairs_Z: list[tuple[int, int]],
) -> tuple[dict[tuple[int, int], FloatArray], dict[tuple[int, int], FloatArray]]:
    """`α` for pairs a >= b and `β`, each `(time,)`, from the block-tridiagonal part of Q.

    Parameters
    ----------
    diagonal : ndarray, (B, b, b)
    lower : ndarray, (B - 1, b, b)
        Q_{k,k-1}.
    """
    L, B, n, o = functions.length, functions.blocks, functions.phi.shape[2], functions.shared.shape[1]
    Q = diagonal.reshape(B, D, L, D, L)
    R = lower.reshape(max(B - 1, 0), D, L, D, L)
    alpha = {key: np.zeros((B, n)) for key in pairs_W}
    beta = {key: np.zeros((B, n)) for key in pairs_Z}
    low_alpha = {key: np.zeros((B - 1, o)) for key in pairs_W}
    low_beta = {key: np.zeros((B - 1, o)) for key in pairs_Z}
    both = {pair for a, b in (*pairs_W, *pairs_Z) for pair in ((a, b), (b, a))}
    phi, (head, dhead), tail = functions.phi, functions.head, functions.tail
    for start, stop in tiles(functions, D):
        k, low = slice(start, stop), slice(max(start, 1) - 1, max(stop - 1, 0))
        for a, b in both:
            if (a, b) in alpha or (a, b) in beta:
                product = Q[k, a, :, b, :] @ functions.pair[k]
                if (a, b) in alpha:
                    alpha[a, b][k] = 0.5 * _columns(phi[k], product[:, :, :n])
                if (a, b) in beta:
                    beta[a, b][k] = _columns(phi[k], product[:, :, n:])
            if low.stop <= low.start:
                continue
            # The blocks (k, k-1) and (k-1, k) of Q: with h_ab = diag(headᵀ R_ab tail), together h_ab + h_ba.
            product, key = R[low, a, :, b, :] @ tail[low], (max(a, b), min(a, b))
            if key in alpha:
                low_alpha[key][low] += (1.0 if a == b else 0.5) * _columns(head[low], product[:, :, :o])
            if (a, b) in beta:
                low_beta[a, b][low] += _columns(head[low], product[:, :, o:])
            if (b, a) in beta:
                low_beta[b, a][low] += _columns(dhead[low], product[:, :, :o])
    shared, window = functions.shared, functions.window

    def in_time(
        windows: dict[tuple[int, int], FloatArray], lowers: dict[tuple[int, int], FloatArray]
    ) -> dict[tuple[int, int], FloatArray]:
        if not windows:
            return {}
        total = functions.scatter(np.stack(list(windows.values())), window)
        if B > 1:
            total += functions.scatter(np.stack(list(lowers.values())), shared)
        return dict(zip(windows, total, strict=True))

    return in_time(alpha, low_alpha), in_time(beta, low_beta)


def _columns(left: FloatArray, right: FloatArray) -> FloatArray:
    """Inner products of columns, `(B, L, n)` twice to `(B, n)`."""
    return np.asarray(np.einsum("kln,kln->kn", left, right))
