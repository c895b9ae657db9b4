"""Who may use a gateway, and how much of it."""
