"""Commands that editors start."""
