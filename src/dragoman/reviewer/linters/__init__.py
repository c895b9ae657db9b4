"""Linters that are not ours: how they are run and what they print."""
