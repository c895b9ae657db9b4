"""Questions and forms that the user answers."""
