"""Diagnostics of Markov chains: rank-normalised split R̂ and effective sample sizes.

Vehtari, Gelman, Simpson, Carpenter and Bürkner, Bayesian Analysis 16 (2021).
"""

from __future__ import annotations

import numpy as np

from ..support.array_types import FloatArray

TAIL_QUANTILES = (0.05, 0.95)
"""Quantiles whose effective sizes are those of the tails, as in the paper above."""


def _compute_normal_scores(draws: FloatArray) -> FloatArray:
    """Return the normal scores of the ranks of draws `(chains, n)`, with Blom's offsets."""
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(draws).reshape(draws.shape)
    return np.asarray(ndtri((ranks - 0.375) / (draws.size + 0.25)))


def _split_chains(draws: FloatArray) -> FloatArray:
    """Split each chain of draws `(chains, n)` into halves, `(2 chains, n // 2)`, so that trends show as differences."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def compute_rhat(draws: FloatArray) -> float:
    """Compute the larger of split R̂ of ranks and of folded ranks, for draws `(chains, n)`.

    Ranks are sensitive to chains at different locations, folded ranks to chains of different width.
    """
    folded = np.abs(draws - np.median(draws))
    return max(
        _compute_plain_rhat(_split_chains(_compute_normal_scores(draws))),
        _compute_plain_rhat(_split_chains(_compute_normal_scores(folded))),
    )


def _compute_plain_rhat(z: FloatArray) -> float:
    """Compute R̂ of z `(chains, n)` from the variances within and between chains; NaN for constant chains."""
    n = z.shape[1]
    within = float(np.mean(z.var(axis=1, ddof=1)))
    between = n * float(np.var(z.mean(axis=1), ddof=1))
    return float(np.sqrt(((n - 1) / n * within + between / n) / within)) if within > 0 else float("nan")


def compute_effective_size(draws: FloatArray) -> float:
    """Compute the smaller of the effective sizes of the bulk and of the tails of draws `(chains, n)`."""
    ends = np.quantile(draws, TAIL_QUANTILES)
    return min(
        _compute_plain_effective_size(_compute_normal_scores(draws)),
        *(_compute_plain_effective_size((draws <= end).astype(float)) for end in ends),
    )


def _compute_plain_effective_size(values: FloatArray) -> float:
    """Compute the effective size of values `(chains, n)` from autocorrelations; NaN for constant chains.

    The sum of autocorrelations ends before the first pair of lags with a negative sum, and the sums of pairs may not
    increase (Geyer's initial monotone sequence).
    """
    z = _split_chains(values)
    m, n = z.shape
    centred = z - z.mean(axis=1, keepdims=True)
    size = 1 << (2 * n - 1).bit_length()  # padded with zeros, so that the convolution does not wrap around
    spectrum = np.abs(np.fft.rfft(centred, size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, size, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    total = within * (n - 1) / n + float(np.var(z.mean(axis=1), ddof=1))
    if not total > 0:
        return float("nan")
    rho = 1 - (within - covariance) / total
    rho[0] = 1.0
    pairs = rho[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = int(np.argmax(pairs < 0)) if (pairs < 0).any() else len(pairs)
    pairs = np.minimum.accumulate(pairs[:stop])
    # The bound limits the effective size of antithetic chains to m n log10(m n).
    tau = max(-1 + 2 * float(pairs.sum()), 1 / np.log10(m * n))
    return float(m * n / tau)
