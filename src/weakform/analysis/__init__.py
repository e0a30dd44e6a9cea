"""Analyses of finished fits, most of which fit again: comparison, missing terms, cross-validation, accuracy metrics."""
