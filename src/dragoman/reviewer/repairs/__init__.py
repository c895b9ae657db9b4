"""Repairs of findings: byte ranges of the original, shown and written after a yes."""
