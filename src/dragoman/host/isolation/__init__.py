"""Agents in sandboxes, and what is checked before one starts."""
