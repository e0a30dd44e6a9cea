"""The result of a fit and its parts."""
