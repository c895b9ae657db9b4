"""Agents in sandboxes, and the checks before one starts."""
