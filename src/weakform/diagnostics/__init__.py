"""Diagnostics by which a fit in progress is judged: uncertainty, goodness of fit, checks of the noise, warnings."""
