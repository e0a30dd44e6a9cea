"""The story of a fit: prepare → search → refine → quantify → judge → result."""

from .story import fit

__all__ = ["fit"]
