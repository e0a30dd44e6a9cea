"""Measurement noise: its kinds, and estimates of its size from the data alone."""
