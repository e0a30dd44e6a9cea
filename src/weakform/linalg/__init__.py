"""Matrices: block tridiagonal, banded, symmetric; and how many threads work on them."""
