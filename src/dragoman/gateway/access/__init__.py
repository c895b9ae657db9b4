"""Access to a gateway, and its limits."""
