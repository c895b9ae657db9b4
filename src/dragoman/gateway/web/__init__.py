"""The gateway's web application: its routes, the guard before them, and their handlers."""
