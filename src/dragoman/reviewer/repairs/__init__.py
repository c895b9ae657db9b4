"""Repairs of what was found: byte ranges of the original, shown and written after a yes."""
