"""Questions that fit again: comparison of models, missing terms, cross-validation."""
