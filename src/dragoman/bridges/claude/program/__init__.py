"""The `claude` program: how it is started, spoken to, and run for the user."""
