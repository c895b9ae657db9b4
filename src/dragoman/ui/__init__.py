"""Screens: each renders a Transcript."""
