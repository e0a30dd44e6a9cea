"""Shared utilities: errors, array types, checks, wording, progress and versions."""
