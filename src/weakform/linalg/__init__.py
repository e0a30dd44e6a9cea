"""Linear algebra: block-tridiagonal, banded and small symmetric matrices, and the number of BLAS threads."""
