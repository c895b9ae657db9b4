"""Repairs of findings: byte ranges of the original, shown to the user and written with their permission."""
