"""Diagnostics by which a fit is judged: uncertainty, goodness of fit, checks of the noise, status, warnings."""
