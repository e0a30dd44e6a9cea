"""Fits: prepare → search → refine → quantify → judge → result, by the strategies of a method in their order."""

from .driver import fit

__all__ = ["fit"]
