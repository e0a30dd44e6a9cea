"""The story of a fit: prepare → search → refine → quantify → judge → result."""

from .driver import fit

__all__ = ["fit"]
