"""Checks of our own: pure functions from a file to its findings, which need nothing installed."""
