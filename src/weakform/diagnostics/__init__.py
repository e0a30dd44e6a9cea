"""Judgement of a fit in progress: uncertainty, goodness of fit, checks of the noise, warnings."""
