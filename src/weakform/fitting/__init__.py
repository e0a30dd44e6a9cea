"""The stages of a fit: prepare → search → refine → quantify → judge → result, for each strategy of a method in turn."""

from .driver import fit

__all__ = ["fit"]
