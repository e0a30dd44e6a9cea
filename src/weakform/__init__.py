"""Parameters of differential-equation models from noisy data, without solving the equations."""

__version__ = "0.1.0"
