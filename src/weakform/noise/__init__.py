"""Noise: its kinds, and its size from the data alone."""
