"""Sums over time of products of test functions agree with direct sums, with a table of products and without."""

import numpy as np
import pytest

from weakform.weak.time_contractions import FunctionProduct


@pytest.mark.parametrize("right_is_copied", [False, True])
@pytest.mark.parametrize("left_is_copied", [False, True])
def test_contraction_and_adjoint_are_direct_sums_whether_or_not_blocks_are_copies(left_is_copied, right_is_copied):
    """Only if both factors are copies of one block, one table of products serves all blocks."""
    rng, (P, B, L, n) = np.random.default_rng(0), (2, 3, 4, 5)
    left, right = (
        np.broadcast_to(rng.standard_normal((L, n)), (B, L, n)) if is_copied else rng.standard_normal((B, L, n))
        for is_copied in (left_is_copied, right_is_copied)
    )
    product = FunctionProduct(left, right)
    assert (product.table is not None) == (left_is_copied and right_is_copied)
    weights, Q, blocks = rng.standard_normal((P, B, n)), rng.standard_normal((P, B, L, L)), slice(0, B)
    assert np.allclose(product.contract(weights, blocks), np.einsum("kln,pkn,kmn->pklm", left, weights, right))
    assert np.allclose(product.apply_adjoint(Q, blocks), np.einsum("kln,pklm,kmn->pkn", left, Q, right))
